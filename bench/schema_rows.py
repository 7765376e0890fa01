"""The measurements of `bench.schemas` for each schema, and their summary.

What: a `Row` for each schema, `summarise` for all of them, `print_summary` for the screen.
When: in `bench.schemas`.
Limits: times of a schema with a difference are left out. "mask, ours" and "mask, XGrammar" are measured while
masks are compared; the engines take turns at being first. `bench.headline` has the times of engines that run
alone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Any

from rich.console import Console

from bench import headline, report
from bench.peers.llguidance import PeerTimes, peer_counts, peer_spreads
from bench.report import Spread
from bench.request import Request
from bench.verdicts import Verdicts
from hybrid.testing.comparison import Comparison

NOT_ALIKE = ("ours crashes", "only ours refuses", "only XGrammar refuses")
"""Outcomes that are errors of ours, before any mask is filled."""


@dataclass
class Row:
    """The measurements for one schema, in seconds.

    ``outcome`` is ``"compared"``, ``"compared without XGrammar's cache"``, ``"both refuse"``, ``"plain too
    slow"`` or one of `NOT_ALIKE`. ``requests`` has a request for each engine, ``verdicts`` the instances that
    each engine accepts.
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
    repeated: list[float] = field(default_factory=list)
    beside: dict[str, Row] = field(default_factory=dict)
    peer: PeerTimes | None = None
    requests: dict[str, Request] = field(default_factory=dict)
    verdicts: dict[str, Verdicts] = field(default_factory=dict)

    @property
    def alike(self) -> bool:
        beside = all(row.alike for row in self.beside.values())
        return beside and self.comparison.exact and self.outcome not in NOT_ALIKE

    def record(self) -> dict[str, Any]:
        """Return this row for the record."""
        plain = ("comparison", "repeated", "beside", "peer")
        return {
            **{one.name: getattr(self, one.name) for one in fields(self) if one.name not in plain},
            **report.compared(self.comparison),
            "repeated_mask": Spread.of(self.repeated),
            "beside": {strategy: row.record() for strategy, row in self.beside.items()},
            "llguidance": self.peer,
        }


def summarise(rows: list[Row]) -> dict[str, Any]:
    """Sum up all schemas; keys of spreads hold a `Spread` each."""
    good = [row for row in rows if row.alike]
    requests = [row.requests for row in good]
    first = [
        (ours.first_mask, plain.first_mask)
        for ours, plain in ((one.get("ours"), one.get("XGrammar")) for one in requests)
        if ours and plain and ours.first_mask and plain.first_mask
    ]
    phases = dict.fromkeys(phase for row in good for phase in row.phases)
    times = [row.comparison.times for row in good]
    compared = [one.comparison for row in rows for one in (row, *row.beside.values())]
    spreads = {
        **headline.spreads(requests),
        **_spreads(good, "ours"),
        "mask, XGrammar": Spread.of(value for part in times for value in part.plain_fill),
        "accept, XGrammar": Spread.of(value for part in times for value in part.plain_accept),
        **{f"phase {p}": Spread.of(row.phases[p] for row in good if p in row.phases) for p in phases},
    }
    for strategy in dict.fromkeys(strategy for row in rows for strategy in row.beside):
        spreads |= _spreads([row.beside[strategy] for row in good if strategy in row.beside], strategy)
    return {
        "spreads": spreads | peer_spreads(rows),
        "classes": Spread.of(row.classes for row in good if row.classes is not None),
        "standings": headline.standings(requests),
        "ratio": Spread.of(plain / ours for ours, plain in first),
        "outcomes": dict(Counter(row.outcome for row in rows)),
        "strategies": dict(Counter(row.strategy for row in rows if row.strategy).most_common()),
        "engine_reasons": dict(Counter(r.reason for r in rows if r.strategy == "engine").most_common()),
        "masks": sum(one.masks for one in compared),
        "equal": sum(one.equal for one in compared),
        "contradictions": sum(one.contradiction_count for one in compared),
        "differences": sum(one.difference_count for one in compared),
        "llguidance": peer_counts(rows),
        "not_alike": [row.name for row in rows if not row.alike],
        "sequences": sum(row.instances for row in rows),
        "sequences_accepted": sum(row.instances_accepted for row in rows),
    }


def _spreads(rows: list[Row], name: str) -> dict[str, Spread]:
    """Sum up masks and tokens of one of our strategies, measured while masks are compared."""
    times = [row.comparison.times for row in rows]
    return {
        f"mask, {name}": Spread.of(value for part in times for value in part.fill),
        f"mask, {name} repeated": Spread.of(value for row in rows for value in row.repeated),
        f"accept, {name}": Spread.of(value for part in times for value in part.accept),
    }


def print_summary(console: Console, summary: dict[str, Any]) -> None:
    """Print the tables."""
    if "cold_caches" in summary:
        console.print(report.spread_table("seconds of calls, caches warm and cold", summary["cold_caches"]))
    console.print(report.spread_table(f"seconds; {summary['options']}", summary["spreads"]))
    console.print(report.spread_table("classes", {"classes": summary["classes"]}, ""))
    console.print(report.spread_table("ratios", {"XGrammar / ours, first mask": summary["ratio"]}, "x"))
    headline.print_standings(console, summary["standings"])
    found, asked = summary["kept"]["found"], sum(summary["kept"].values())
    report.say(console, f"walks: {found:,} of {asked:,} found among those of other schemas")
    for title in ("outcomes", "strategies", "engine_reasons"):
        for name, count in summary[title].items():
            report.say(console, f"{title.replace('_', ' ')}: {count:,} {name}")
    peers = summary["llguidance"]
    if peers["schemas"]:
        report.say(
            console,
            f"llguidance takes {peers['taken']:,} of {peers['schemas']:,} schemas, and {peers['complete']:,} "
            f"of {peers['documents']:,} token sequences to the end; its masks are not compared",
        )
    report.say(
        console,
        f"{summary['sequences_accepted']:,} of {summary['sequences']:,} token sequences of valid instances "
        f"accepted to the end; {summary['masks']:,} masks compared, {summary['equal']:,} equal, "
        f"{summary['contradictions']:,} contradictions of XGrammar, {summary['differences']:,} differences",
    )
