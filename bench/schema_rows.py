"""The measurements of `bench.schemas` for each schema, and their summary: all engines side by side.

What: a `Row` for each schema, and `summarise` for all of them. `spreads` sums up the requests of
`bench.request` by engine and kind of time. `standings` counts what each engine refuses, and on what share of
the schemas ours is faster.
When: in `bench.schemas`.
Limits: times of a schema with a difference are left out. "mask, ours" and "mask, XGrammar" are measured while
masks are compared; the engines take turns at being first. An engine's other times are those of the schemas
that it accepts, so it may have fewer schemas than ours. "Faster" compares the schemas that both have a time
for. If an engine was given up on, the bound counts as its time, which is too low.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from bench import report
from bench.report import Spread
from bench.request import Request
from hybrid.testing.comparison import Comparison

NOT_ALIKE = ("ours crashes", "only ours refuses", "only XGrammar refuses")
"""Outcomes that are errors of ours, before any mask is filled."""

OURS = "ours"
JSON_SCHEMA = "equimask, json-schema"
"""Our ``semantics="json-schema"``. Everything that is said of `OURS` beside a peer is also said of it."""

OWN = (OURS, JSON_SCHEMA)
"""Everything that is not a peer."""

TIMES = ("first_mask", "first_mask_cpu", "document", "document_cpu")

Requests = Sequence[Mapping[str, Request]]
"""For each schema, the request on each engine."""


@dataclass
class Row:
    """The measurements for one schema, in seconds.

    ``outcome`` is ``"compared"``, ``"compared without XGrammar's cache"``, ``"both refuse"``, ``"plain too
    slow"`` or one of `NOT_ALIKE`. ``requests`` has a request for each engine, ``peer`` the masks of
    llguidance along all valid instances.
    """

    name: str
    outcome: str = "compared"
    strategy: str = ""
    reason: str = ""
    classes: int | None = None
    compile: float | None = None
    plain_compile: float | None = None
    phases: dict[str, float] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    instances: int = 0
    instances_accepted: int = 0
    comparison: Comparison = field(default_factory=Comparison)
    beside: dict[str, Row] = field(default_factory=dict)
    peer: array[float] = field(default_factory=lambda: array("d"))
    requests: dict[str, Request] = field(default_factory=dict)

    @property
    def alike(self) -> bool:
        beside = all(row.alike for row in self.beside.values())
        return beside and self.comparison.exact and self.outcome not in NOT_ALIKE

    def record(self) -> dict[str, Any]:
        """Return this row for the record."""
        return {
            **{one.name: getattr(self, one.name) for one in fields(self) if one.name != "comparison"},
            **report.compared(self.comparison),
            "beside": {strategy: row.record() for strategy, row in self.beside.items()},
        }


def summarise(rows: list[Row]) -> dict[str, Any]:
    """Sum up all schemas; keys of spreads hold a `Spread` each."""
    good = [row for row in rows if row.alike]
    requests = [row.requests for row in good]
    compared = [one.comparison for row in rows for one in (row, *row.beside.values())]
    masks = {
        "ours": [row.comparison.times.fill for row in good],
        "XGrammar": [row.comparison.times.plain_fill for row in good],
        "llguidance": [row.peer for row in good],
    }
    for strategy in dict.fromkeys(strategy for row in rows for strategy in row.beside):
        masks[strategy] = [row.beside[strategy].comparison.times.fill for row in good]
    phases = dict.fromkeys(phase for row in good for phase in row.phases)
    return {
        "spreads": {
            **spreads(requests),
            **{
                f"mask, {name}": Spread.of(one for part in parts for one in part)
                for name, parts in masks.items()
            },
            **{f"phase {p}": Spread.of(row.phases[p] for row in good if p in row.phases) for p in phases},
        },
        "classes": Spread.of(row.classes for row in good if row.classes is not None),
        "standings": standings(requests),
        "outcomes": dict(Counter(row.outcome for row in rows)),
        "strategies": dict(Counter(row.strategy for row in rows if row.strategy).most_common()),
        "masks": sum(one.masks for one in compared),
        "contradictions": sum(one.contradiction_count for one in compared),
        "differences": sum(one.difference_count for one in compared),
        "not_alike": [row.name for row in rows if not row.alike],
    }


def _engines(requests: Requests) -> list[str]:
    """Return the names of engines: ours first, the others sorted."""
    names = {name for one in requests for name in one}
    return sorted(names, key=lambda name: (name != OURS, name != JSON_SCHEMA, name))


def spreads(requests: Requests) -> dict[str, Spread]:
    """Sum up seconds by kind of time and by engine."""
    found: dict[str, Spread] = {}
    for name in TIMES:
        title = "first mask" if name.startswith("first") else "first mask and one document"
        more = ", CPU" if name.endswith("cpu") else ""
        for engine in _engines(requests):
            own = [one for one in requests if _time(one.get(engine), name) is not None]
            found[f"{title}, {engine}{more}"] = Spread.of(_time(one[engine], name) or 0.0 for one in own)
            for mine in () if engine in OWN else OWN:
                ours = (_time(one.get(mine), name) for one in own)
                shared = Spread.of(seconds for seconds in ours if seconds is not None)
                if mine == OURS or shared.count:
                    found[f"{title}, {mine} where {engine} has one{more}"] = shared
    for name in ("mask", "token"):
        for engine in _engines(requests):
            taken = (one[engine] for one in requests if engine in one)
            values = (value for one in taken if one.document is not None for value in getattr(one, name))
            found[f"{name} in the document, {engine}"] = Spread.of(values)
    return found


def standings(requests: Requests) -> dict[str, dict[str, Any]]:
    """For each engine, count schemas, refused ones and given-up ones, and the shares of schemas on which ours
    is faster."""
    found: dict[str, dict[str, Any]] = {}
    for engine in _engines(requests):
        own = [one[engine] for one in requests if engine in one]
        found[engine] = {
            "schemas": len(own),
            "refused": sum(bool(one.refusal) for one in own),
            "given_up": sum(one.over is not None for one in own),
            "documents": sum(one.document is not None for one in own),
        }
        if engine != OURS:
            found[engine]["ours_faster"] = {name: _share(requests, engine, name) for name in TIMES}
    return found


def _time(request: Request | None, name: str) -> float | None:
    if request is None:
        return None
    return request.over if request.over is not None else getattr(request, name)


def _share(requests: Requests, engine: str, name: str) -> float | None:
    """Return the share of schemas on which ours is faster, of those with both times; None if there are
    none."""
    pairs = [(_time(one.get(OURS), name), _time(one.get(engine), name)) for one in requests]
    faster = [ours < theirs for ours, theirs in pairs if ours is not None and theirs is not None]
    return sum(faster) / len(faster) if faster else None
