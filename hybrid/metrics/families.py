"""The list of metrics: names, labels, and where their values come from.

What: `FAMILIES` lists the metrics, and `current_counts` returns the data for the values of all of them.
When: read by the code that serves metrics; nothing is counted here.
Limits: the counts are those of this process. Labels have fixed lists of values, so there are at most some
hundreds of series, and no label contains a part of a grammar or schema: keywords that JSON Schema does not
have are counted as "other".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import equivalence.errors
from hybrid.api.calls import masks_filled
from hybrid.compile.bytes_held import bytes_held
from hybrid.compile.durations import BOUNDS
from hybrid.compile.statistics import OF_PROCESS, OTHER

Values = dict[tuple[str, ...], float]


class Spread(NamedTuple):
    """The value of a histogram.

    Attributes:
        counts: the number of durations in each range of `BOUNDS`, and above the last one.
        sum: the sum of all durations in seconds.
    """

    counts: list[int]
    sum: float


class Family(NamedTuple):
    """A metric.

    Attributes:
        name: its name, without the suffix of counters and of the parts of histograms.
        kind: its type in Prometheus.
        help: its description in one sentence.
        labels: the names of its labels.
        values: computes the values from the result of `current_counts`: a number, or a `Spread`, for each set
            of labels.
        together: how gauges of several processes are combined: by their sum, or by the largest if all measure
            the same thing.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...]
    values: Callable[[dict[str, Any]], dict[tuple[str, ...], Any]]
    together: Literal["sum", "max"] = "sum"

    @property
    def sample_names(self) -> tuple[str, ...]:
        """The names that queries may use."""
        if self.kind == "histogram":
            return tuple(f"{self.name}_{part}" for part in ("bucket", "sum", "count"))
        return (f"{self.name}_total",) if self.kind == "counter" else (self.name,)


def current_counts() -> dict[str, Any]:
    """Return the present counts of this process, as `GrammarCompiler.stats` does, with those of masks and
    bytes."""
    OF_PROCESS.count_relaxations()
    found = OF_PROCESS.snapshot()
    found["masks"] = masks_filled()
    found["unread"] = OF_PROCESS.unread
    found["bytes"] = bytes_held()
    return found


def record_schemas() -> None:
    """Keep schemas from now on, so that the next `current_counts` can find their relaxations."""
    OF_PROCESS.keeps_schemas = True


def _by_place(name: str) -> Callable[[dict[str, Any]], Values]:
    """Make `Family.values` for a metric of both caches."""
    return lambda found: {(place,): found[place][name] for place in ("memory", "disk")}


def _each(name: str) -> Callable[[dict[str, Any]], Values]:
    """Make `Family.values` for a metric with a value for each name that was counted."""
    return lambda found: {(label,): value for label, value in found[name].items()}


def _spreads(name: str) -> Callable[[dict[str, Any]], dict[tuple[str, ...], Spread]]:
    """Make `Family.values` for a histogram for each strategy and semantics."""

    def values(found: dict[str, Any]) -> dict[tuple[str, ...], Spread]:
        return {
            (strategy, semantics): Spread(one["counts"], one["sum"])
            for strategy, by_semantics in found[name].items()
            for semantics, one in by_semantics.items()
        }

    return values


def _errors(found: dict[str, Any]) -> Values:
    """Count errors by type: each type of the project, and one label for all others."""
    counts: Values = {}
    for name, count in found["errors"].items():
        known = name == "SchemaRefused" or hasattr(equivalence.errors, name)
        label = (name if known else OTHER,)
        counts[label] = counts.get(label, 0.0) + count
    return counts


_BY = ("strategy", "semantics")

FAMILIES = (
    Family("equimask_compile_seconds", "histogram", "Time of a compilation.",
           _BY, _spreads("compile_seconds")),
    Family("equimask_first_mask_seconds", "histogram",
           "Time of a grammar's first mask, after its compilation.",
           _BY, _spreads("first_mask_seconds")),
    Family("equimask_masks", "counter", "Masks filled.", (), lambda found: {(): found["masks"]}),
    Family("equimask_cache_hits", "counter", "Calls that found their grammar.",
           ("place",), _by_place("hits")),
    Family("equimask_cache_misses", "counter", "Calls that did not find their grammar.",
           ("place",), _by_place("misses")),
    Family("equimask_cache_evictions", "counter", "Grammars that were removed to make room for others.",
           ("place",), _by_place("evictions")),
    Family("equimask_shared_calls", "counter", "Calls that waited for an equal call, and got its result.",
           ("by",), lambda found: {("thread",): found["shared"], ("process",): found["disk"]["shared"]}),
    Family("equimask_disk_troubles", "counter", "Problems with the folder of compiled grammars.",
           ("what",),
           lambda found: {("damaged",): found["disk"]["damaged"], ("failure",): found["disk"]["failures"],
                          ("overdue",): found["disk"]["overdue"]}),
    Family("equimask_promotions", "counter",
           "Static grammars whose states were all computed in advance, or that exceeded a limit.",
           ("outcome",), _each("promotions")),
    Family("equimask_given_up", "counter", "Compilations that were cancelled, or exceeded the time limit.",
           ("cause",), lambda found: {(cause,): found[cause] for cause in ("overdue", "cancelled")}),
    Family("equimask_errors", "counter", "Compilations that ended with an error.", ("type",), _errors),
    Family("equimask_refusals", "counter", "Schemas that were refused because of a keyword.",
           ("keyword",), _each("refusals")),
    Family("equimask_relaxations", "counter", "Schemas that were compiled without one of their keywords.",
           ("keyword",), _each("relaxations")),
    Family("equimask_unread_schemas", "counter",
           "Schemas whose relaxations were not counted, because they were too long or too many.",
           (), lambda found: {(): found["unread"]}),
    Family("equimask_memory_bytes", "gauge", "Bytes of compiled grammars kept in memory.",
           (), lambda found: {(): found["bytes"]["memory"]}),
    Family("equimask_memory_limit_bytes", "gauge", "Limit of the bytes of compiled grammars kept in memory.",
           (), lambda found: {(): found["bytes"]["memory_limit"]}),
    Family("equimask_disk_bytes", "gauge", "Bytes of compiled grammars in the folder.",
           (), lambda found: {(): found["bytes"]["disk"]}, "max"),
)  # fmt: skip
"""All metrics."""


class Sample(NamedTuple):
    """One number: the value of a metric, or of a part of a histogram.

    Attributes:
        name: its name in queries.
        labels: the values of its labels, by name.
        value: the number. For a range of a histogram, how many durations are in it; those of lower ranges are
            not included.
    """

    name: str
    labels: dict[str, str]
    value: float


def samples(family: Family, found: dict[str, Any]) -> Iterator[Sample]:
    """Yield the numbers of a metric; for a histogram, those of its ranges, and the sum."""
    for values, value in family.values(found).items():
        labels = dict(zip(family.labels, values, strict=True))
        if not isinstance(value, Spread):
            yield Sample(family.sample_names[0], labels, value)
            continue
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), value.counts, strict=True):
            yield Sample(f"{family.name}_bucket", {**labels, "le": bound}, float(count))
        yield Sample(f"{family.name}_sum", labels, value.sum)
