"""Which metrics there are: names, labels, and where their values come from.

What: `FAMILIES`, and `look`, which takes the values of all of them in one go.
When: read by whoever shows them; nothing is counted here.
Limits: sums of this process. Labels come from closed lists, so that the series are some hundreds at most, and
no label has anything of a grammar or schema: keywords are those of JSON Schema, all others are "other".
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
    """A histogram's value.

    Attributes:
        counts: of each range of `BOUNDS`, and above.
        sum: of all seconds.
    """

    counts: list[int]
    sum: float


class Family(NamedTuple):
    """A metric.

    Attributes:
        name: without the ending that counters and parts of histograms get.
        kind: what Prometheus calls it.
        help: one sentence.
        labels: their names.
        values: from what `look` gives: a value, or a `Spread`, for each set of labels.
        together: how the gauges of several processes become one: the sum, or the largest where they all mean
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
        """What expressions may name."""
        if self.kind == "histogram":
            return tuple(f"{self.name}_{part}" for part in ("bucket", "sum", "count"))
        return (f"{self.name}_total",) if self.kind == "counter" else (self.name,)


def look() -> dict[str, Any]:
    """The sums of this process now, as `GrammarCompiler.stats` has them, with masks and bytes."""
    OF_PROCESS.look_at_schemas()
    found = OF_PROCESS.snapshot()
    found["masks"] = masks_filled()
    found["unread"] = OF_PROCESS.unread
    found["bytes"] = bytes_held()
    return found


def begin_to_look() -> None:
    """Have schemas kept until their relaxations are found, by the next `look`."""
    OF_PROCESS.looks_at_schemas = True


def _one(*path: str) -> Callable[[dict[str, Any]], Values]:
    """A value without labels."""

    def values(found: dict[str, Any]) -> Values:
        for name in path:
            found = found[name]
        return {(): float(found)}  # type: ignore[arg-type]

    return values


def _each(name: str) -> Callable[[dict[str, Any]], Values]:
    """A value for each name that was counted."""
    return lambda found: {(label,): float(value) for label, value in found[name].items()}


def _named(**paths: tuple[str, ...]) -> Callable[[dict[str, Any]], Values]:
    """A value for each of some names, which are always there."""

    def values(found: dict[str, Any]) -> Values:
        return {(label,): _one(*path)(found)[()] for label, path in paths.items()}

    return values


def _spreads(name: str) -> Callable[[dict[str, Any]], dict[tuple[str, ...], Spread]]:
    """A histogram for each strategy and meaning."""

    def values(found: dict[str, Any]) -> dict[tuple[str, ...], Spread]:
        return {
            (strategy, semantics): Spread(one["counts"], one["sum"])
            for strategy, by_semantics in found[name].items()
            for semantics, one in by_semantics.items()
        }

    return values


def _errors(found: dict[str, Any]) -> Values:
    """By types: those of the project, and one for all others."""
    counts: Values = {}
    for name, count in found["errors"].items():
        known = name == "SchemaRefused" or hasattr(equivalence.errors, name)
        label = (name if known else OTHER,)
        counts[label] = counts.get(label, 0.0) + count
    return counts


_BY = ("strategy", "semantics")

_HISTOGRAMS = (
    Family(
        "equimask_compile_seconds", "histogram", "Time of a compilation.",
        _BY, _spreads("compile_seconds"),
    ),
    Family(
        "equimask_first_mask_seconds", "histogram",
        "Time of the first mask of a grammar, behind its compilation.",
        _BY, _spreads("first_mask_seconds"),
    ),
)  # fmt: skip

_CALLS = (
    Family("equimask_masks", "counter", "Masks filled.", (), _one("masks")),
    Family(
        "equimask_cache_hits", "counter", "Calls that found their grammar.",
        ("place",), _named(memory=("memory", "hits"), disk=("disk", "hits")),
    ),
    Family(
        "equimask_cache_misses", "counter", "Calls that did not find it there.",
        ("place",), _named(memory=("memory", "misses"), disk=("disk", "misses")),
    ),
    Family(
        "equimask_cache_evictions", "counter", "Grammars that had to go for others.",
        ("place",), _named(memory=("memory", "evictions"), disk=("disk", "evictions")),
    ),
    Family(
        "equimask_shared_calls", "counter", "Calls that waited for an equal one, and got its grammar.",
        ("by",), _named(thread=("shared",), process=("disk", "shared")),
    ),
    Family(
        "equimask_disk_troubles", "counter", "What went wrong with the folder of grammars.",
        ("what",),
        _named(damaged=("disk", "damaged"), failure=("disk", "failures"), overdue=("disk", "overdue")),
    ),
    Family(
        "equimask_promotions", "counter", "Static grammars that were completed, or given up.",
        ("outcome",), _each("promotions"),
    ),
    Family(
        "equimask_given_up", "counter", "Compilations that ended before they were done.",
        ("cause",), _named(overdue=("overdue",), cancelled=("cancelled",)),
    ),
    Family("equimask_errors", "counter", "Compilations that ended with an error.", ("type",), _errors),
)  # fmt: skip

_KEYWORDS = (
    Family(
        "equimask_refusals", "counter", "Schemas that were refused for a keyword.",
        ("keyword",), _each("refusals"),
    ),
    Family(
        "equimask_relaxations", "counter", "Schemas that were compiled without a keyword of theirs.",
        ("keyword",), _each("relaxations"),
    ),
    Family(
        "equimask_unread_schemas", "counter",
        "Schemas whose relaxations were not counted, as too long or too many.",
        (), _one("unread"),
    ),
)  # fmt: skip

_BYTES = (
    Family(
        "equimask_memory_bytes", "gauge", "Compiled grammars kept in memory.", (), _one("bytes", "memory")
    ),
    Family(
        "equimask_memory_limit_bytes", "gauge", "Bound of what is kept in memory.",
        (), _one("bytes", "memory_limit"),
    ),
    Family(
        "equimask_disk_bytes", "gauge", "Compiled grammars in the folder.", (), _one("bytes", "disk"), "max"
    ),
)  # fmt: skip

FAMILIES = _HISTOGRAMS + _CALLS + _KEYWORDS + _BYTES
"""All metrics."""


class Sample(NamedTuple):
    """One number: of a metric, or of a part of a histogram.

    Attributes:
        name: as expressions name it.
        labels: by name.
        value: of a histogram's range, how many are in it, and not in those below.
    """

    name: str
    labels: dict[str, str]
    value: float


def samples(family: Family, found: dict[str, Any]) -> Iterator[Sample]:
    """The numbers of a metric; of a histogram ranges and sum."""
    for values, value in family.values(found).items():
        labels = dict(zip(family.labels, values, strict=True))
        if not isinstance(value, Spread):
            yield Sample(family.sample_names[0], labels, value)
            continue
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), value.counts, strict=True):
            yield Sample(f"{family.name}_bucket", {**labels, "le": bound}, float(count))
        yield Sample(f"{family.name}_sum", labels, value.sum)
