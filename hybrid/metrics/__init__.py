"""Prometheus metrics of the compilers and matchers of a process.

`families.py` lists the metrics. `collector.py` passes them to a registry of prometheus_client (extra
"metrics"), `files.py` to the process that serves them. `DASHBOARD` is a file for Grafana. docs/metrics.md is
the page for operators.
"""

from pathlib import Path

from hybrid.metrics.families import FAMILIES, Family
from hybrid.metrics.files import Publisher, publish

DASHBOARD = Path(__file__).with_name("dashboard.json")
"""A dashboard of all these metrics, in Grafana's format."""

__all__ = ["DASHBOARD", "FAMILIES", "Family", "Publisher", "publish"]
