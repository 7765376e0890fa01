"""The metrics of this process in a registry of prometheus_client.

What: `Collector` reads the counts, which are kept in any case, whenever the registry is scraped.
When: in a program that serves its own metrics: call ``prometheus_client.REGISTRY.register(Collector())``
once.
Limits: only this process; for servers of several processes, use `hybrid.metrics.files`. Needs the extra
"metrics".
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from hybrid.compile.durations import BOUNDS
from hybrid.metrics.families import FAMILIES, Spread, current_counts, record_schemas

MADE = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily}


class Collector:
    """A collector for `prometheus_client.CollectorRegistry.register`."""

    def __init__(self) -> None:
        record_schemas()

    def describe(self) -> list[Metric]:
        """Return names and types without values; a registry calls this when a collector is registered."""
        return [Metric(one.name, one.help, one.kind) for one in FAMILIES]

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics with their present values."""
        found = current_counts()
        for family in FAMILIES:
            values = family.values(found)
            labels = list(family.labels)
            made: Any = MADE[family.kind](family.name, family.help, labels=labels)
            for names, value in values.items():
                if isinstance(value, Spread):
                    buckets = zip((*map(str, BOUNDS), "+Inf"), accumulate(value.counts), strict=True)
                    made.add_metric(list(names), list(buckets), value.sum)
                else:
                    made.add_metric(list(names), value)
            yield made
