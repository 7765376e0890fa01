"""What the compilers and matchers of a process have done, as metrics of Prometheus.

`families.py` says which metrics there are; `collector.py` gives them to a registry of prometheus_client
(extra "metrics"), `files.py` to the process that serves them. `DASHBOARD` is a file that Grafana imports.
docs/metrics.md is the page for operators.
"""

from pathlib import Path

from hybrid.metrics.families import FAMILIES, Family
from hybrid.metrics.files import Publisher, publish

DASHBOARD = Path(__file__).with_name("dashboard.json")
"""A dashboard of all these metrics, in Grafana's format."""

__all__ = ["DASHBOARD", "FAMILIES", "Family", "Publisher", "publish"]
