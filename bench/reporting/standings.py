"""Engines side by side: rows of records in which less is better, and which engine is ahead.

What: `standings` finds the rows of a question's records; `Standing` is a row, and says which engine is ahead.
When: in ``python -m bench report``.
Limits: in a row, all engines do the same work, unless its words say otherwise. The result is that of one run
on one machine; two numbers that differ by less than `CLOSE` count as equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from bench.report import readable
from bench.reporting.jobs import Done
from bench.reporting.questions import Question
from bench.schema_rows import JSON_SCHEMA

OURS = "equimask"
CLOSE = 1.1

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Standing:
    """One kind of work on all engines; less is better.

    Attributes:
        situation: for whom it matters.
        what: what is measured.
        values: seconds by engine.
        where: the grammar and the vocabulary.
    """

    situation: str
    what: str
    values: Mapping[str, float]
    where: str = ""

    @property
    def ahead(self) -> str:
        """The engine that is clearly best; "" if there is none."""
        order = sorted(self.values, key=lambda name: self.values[name])
        if len(order) < 2 or self.values[order[1]] < CLOSE * self.values[order[0]]:
            return ""
        return order[0]

    @property
    def ratio(self) -> float | None:
        """Our time divided by the best peer's; above 1, we are behind."""
        peers = [value for name, value in self.values.items() if name != OURS]
        ours = self.values.get(OURS)
        return None if ours is None or not peers or not min(peers) else ours / min(peers)

    @property
    def is_behind(self) -> bool:
        return self.ratio is not None and self.ratio >= CLOSE

    @property
    def verdict(self) -> str:
        """Which engine is ahead, in words."""
        if self.ratio is None:
            return "nobody to compare with"
        if self.is_behind:
            return f"{self.ahead or 'peers'}; equimask takes {readable(self.ratio, ' times')} as long"
        if self.ratio > 1 / CLOSE:
            return "as good as equal"
        return f"equimask, {readable(1 / self.ratio, ' times')} as fast as the next"


def records(question: Question, done: Mapping[str, Done], kind: str) -> Iterator[tuple[str, Record]]:
    """Yield names of jobs without their kind, and their records."""
    for job in question.jobs:
        found = done[job.name]
        if found.record and job.kind == kind:
            yield job.name.removeprefix(f"{kind}-"), found.record


def standings(question: Question, done: Mapping[str, Done]) -> list[Standing]:
    """Return all rows of a question that compare engines."""
    return [
        row
        for kind in _MAKERS
        for name, record in records(question, done, kind)
        for row in of_record(kind, name, record)
    ]


def of_record(kind: str, name: str, record: Record) -> list[Standing]:
    """Return the rows of one record that compare engines."""
    return list(_MAKERS[kind](name, record)) if kind in _MAKERS else []


Value = TypeVar("Value")


def _named(values: Mapping[str, Value]) -> dict[str, Value]:
    return {OURS if engine == "ours" else engine: value for engine, value in values.items()}


def shared_times(record: Record, what: str) -> dict[str, list[float]]:
    """Return times by engine, for the schemas for which all engines have one. If an engine was given up on,
    the bound counts."""
    requests = [
        {name: one for name, one in row["requests"].items() if name != JSON_SCHEMA}  # it is no peer
        for row in record["rows"]
        if not row["differences"]
    ]
    engines = sorted({name for one in requests for name in one})
    times: dict[str, list[float]] = {name: [] for name in engines}
    for one in requests:
        own = {name: time_of(one.get(name), what) for name in engines}
        if all(value is not None for value in own.values()):
            for name, value in own.items():
                times[name].append(value)
    return _named(times)


def time_of(request: Record | None, what: str) -> Any:
    """Return a time of a request, or the bound if the engine was given up on."""
    if request is None:
        return None
    return request["over"] if request["over"] is not None else request[what]


def _of_schemas(
    name: str, record: Record, situation: str = "a schema that is used once"
) -> Iterator[Standing]:
    for what, words in (("first_mask", "to the first mask"), ("document", "first mask and one document")):
        for clock, more, shares in (("", "", (25, 50, 75, 90, 99)), ("_cpu", ", CPU time", (50,))):
            times = shared_times(record, what + clock)
            for share in shares:
                values = {engine: float(np.percentile(own, share)) for engine, own in times.items() if own}
                if values:
                    yield Standing(situation, f"{words}{more}, p{share}", values, name)
    for call, numbers in (("mask", ("p50", "p90", "p99")), ("token", ("p50",))):
        start = f"{call} in the document, "
        spreads = {
            key.removeprefix(start): spread
            for key, spread in record["summary"]["spreads"].items()
            if key.startswith(start) and key != start + JSON_SCHEMA and spread["count"]
        }
        for number in numbers if spreads else ():
            values = _named({engine: spread[number] for engine, spread in spreads.items()})
            words = f"a {call} in its document (of what each engine takes), {number}"
            yield Standing(situation, words, values, name)


def _of_situ(name: str, record: Record) -> Iterator[Standing]:
    return _of_schemas(f"{name}, in situ", record)


def _of_options(name: str, record: Record) -> Iterator[Standing]:
    where = f"{name}, strict_mode=False, no caches, one thread"
    return _of_schemas(where, record, "a schema that is used once, other options")


def _of_burst(name: str, record: Record) -> Iterator[Standing]:
    for number in ("p50", "p99"):
        engines = record["summary"]["engines"]
        values = _named({engine: one["first_mask"][number] for engine, one in engines.items()})
        words = f"{record['arguments']['burst']:,} at once: to a first mask, {number}"
        yield Standing("new schemas, many at once", words, values, name)


def _of_cold(name: str, record: Record) -> Iterator[Standing]:
    found: dict[str, dict[str, float]] = {}
    for key, spread in record["summary"]["cold_caches"].items():
        what, engine, caches = key.split(", ")
        if caches == "cold":
            found.setdefault(what, {})[engine] = spread["p50"]
    for what, values in found.items():
        words = f"a {what} that was met before, median"
        yield Standing("calls between other work, cold caches", words, _named(values), name)


def _of_growth(name: str, record: Record) -> Iterator[Standing]:
    for kind, unit in (("nesting", "levels"), ("threads", "threads"), ("batches", "rows")):
        for row in record[kind]:
            for part in row["ours"]:
                values = _named({engine: row[engine][part] for engine in row if engine != "size"})
                yield Standing(f"growth with {kind}", f"{part}, {unit}: {row['size']:,}", values, name)


TAGS = (
    ("first mask, ms", 1e-3, "compiling and first mask"),
    ("masks of the first text, ms", 1e-3, "all masks of the first text"),
    ("masks of the fifth text, ms", 1e-3, "all masks of the fifth text"),
    ("one the second time, us", 1e-6, "a mask the second time"),
)
"""What is measured for a tag: the key in the record, its unit in seconds, a description."""


def _of_tags(name: str, record: Record) -> Iterator[Standing]:
    for count in dict.fromkeys(row["tools"] for row in record["rows"]):
        own = [row for row in record["rows"] if row["tools"] == count]
        for key, unit, what in TAGS:
            ours, plain = (float(np.median([row[key][side] for row in own])) * unit for side in (0, 1))
            words = f"{what}, tools: {count:,}, median"
            yield Standing("tags of models that call tools", words, {OURS: ours, "XGrammar": plain}, name)


def _of_strategies(name: str, record: Record) -> Iterator[Standing]:
    for count, one in record["summary"].items():
        seconds = one["seconds"]
        if seconds["XGrammar"]:
            number = f"{int(count):,} document{'s' if count != '1' else ''}"
            values = {OURS: seconds["auto"], "XGrammar": seconds["XGrammar"]}
            words = f"{len(record['rows'])} schemas, each for {number}, CPU time"
            yield Standing(f"a schema for {number}", words, values, name)


def _of_grammar(name: str, record: Record) -> Iterator[Standing]:
    summary = record.get("summary", {})
    calls = summary.get("measured", {}).get("calls", {})
    for call in ("mask", "token"):
        plain = summary.get("spreads", {}).get(f"{call}, XGrammar")
        for met in ("new", "repeated"):
            own = calls.get(f"{call}, {met} document")
            if plain and own and plain["count"]:
                values = {OURS: own["mean"], "XGrammar": plain["mean"]}
                words = f"a {call}, {met} document, mean"
                yield Standing("a grammar that is used often", words, values, name)
    if summary:
        values = {OURS: summary["first_mask"], "XGrammar": summary["plain_first_mask"]}
        yield Standing("a grammar that is used once", "compiling and first mask", values, name)


def _of_lark(name: str, record: Record) -> Iterator[Standing]:
    for row in record["rows"]:
        peer = row.get("llguidance", {})
        ours, theirs = (
            peer.get("calls", {}).get(f"mask, new document, {engine}") for engine in (OURS, "llguidance")
        )
        for number in ("mean", "p50", "p99") if theirs else ():
            values = {OURS: ours[number], "llguidance": theirs[number]}
            yield Standing("a Lark grammar", f"a mask, new file, {number}", values, name)
        if "compile" in peer and "building" in row:
            values = {OURS: float(np.median(row["building"]["seconds"])), "llguidance": peer["compile"]}
            words = "compiling (equimask: all of it before the first token)"
            yield Standing("a Lark grammar", words, values, name)


def _of_starting(name: str, record: Record) -> Iterator[Standing]:
    for part in ("import", "compiler", "first mask", "all but the vocabulary"):
        values = _named({engine: row[part]["p50"] for engine, row in record["rows"].items()})
        yield Standing("a new process", f"a new process: {part}", values, name)


def _of_generating(name: str, record: Record) -> Iterator[Standing]:
    values = {engine: row["p50"] for engine, row in record["rows"].items()}
    if values:
        words = f"a token of generate ({readable(values.pop('unconstrained'))} unconstrained), median"
        yield Standing("generate in transformers, CPU", words, _named(values), name)


_MAKERS: Mapping[str, Callable[[str, Record], Iterator[Standing]]] = {
    "schemas": _of_schemas, "situ": _of_situ, "options": _of_options, "burst": _of_burst, "cold": _of_cold,
    "strategies": _of_strategies, "grammar": _of_grammar, "lark": _of_lark, "growth": _of_growth,
    "starting": _of_starting, "generating": _of_generating, "tags": _of_tags,
}  # fmt: skip
