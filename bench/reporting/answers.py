"""Tables of the report, made from records.

What: `answer` makes the tables of one question, `versus` a table of rows that compare engines.
When: in ``python -m bench report``.
Limits: a table has the numbers of the record, rounded to three digits.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bench.report import readable
from bench.reporting import as_written, others
from bench.reporting.grammars import often, often_lark
from bench.reporting.jobs import Done
from bench.reporting.questions import Question
from bench.reporting.requests import at_once, between_other_work, in_situ, new_schemas, other_options
from bench.reporting.standings import OURS, Record, Standing, engine_name, records, standings
from bench.reporting.tables import Cell, Table, cells

Own = Sequence[tuple[str, Record]]
"""Records with their names."""


def versus(rows: Sequence[Standing], title: str, note: str = "") -> Table:
    """Make a table of standings, marking the best engine and the rows in which we are behind."""
    engines = list(dict.fromkeys(name for row in rows for name in row.values))
    engines.sort(key=lambda name: (name != OURS, name))
    lines = []
    for row in rows:
        line = [Cell(row.where), Cell(row.what)]
        for name in engines:
            look = "best" if row.ahead == name else "behind" if name == OURS and row.is_behind else ""
            line.append(Cell(readable(row.values[name]), look) if name in row.values else Cell("-"))
        lines.append([*line, Cell(row.verdict, "behind" if row.is_behind else "")])
    return Table(title, ["where", "what", *engines, "ahead"], lines, note, is_long=True)


def answer(question: Question, done: Mapping[str, Done]) -> list[Table]:
    """Return the tables of a question."""
    found = []
    if rows := standings(question, done):
        found.append(versus(rows, "Side by side, less is better"))
    for kind in question.kinds:
        found += of_kind(question, done, kind)
    return found


def of_kind(question: Question, done: Mapping[str, Done], kind: str) -> list[Table]:
    """Return the tables of a question's records of one kind."""
    makers: Mapping[str, Callable[[Own], Iterable[Table]]] = {
        "equality": _equal_tables, "fuzz": one_by_one(others.fuzz), "grammar": _build_tables,
        "lark": _lark_tables, "classes": _class_tables, "schemas": _schema_tables,
        "situ": one_by_one(in_situ), "options": one_by_one(other_options), "burst": one_by_one(at_once),
        "cold": one_by_one(between_other_work), "scaling": _scaling_tables, "growth": others.growth,
        "starting": others.starting, "generating": _generating_tables, "strategies": _strategy_tables,
        "tags": one_by_one(others.tags), "tools": others.many_tools, "lengths": others.lengths,
        "drafts": one_by_one(others.drafts),
        "choices": one_by_one(others.choices), "healing": one_by_one(others.healing),
        "invasive": one_by_one(others.invasive), "traffic": one_by_one(others.traffic),
        "killed": one_by_one(others.killed), "maskbench": as_written.maskbench,
        "testsuite": as_written.testsuite,
    }  # fmt: skip
    own = list(records(question, done, kind))
    return [table for table in makers[kind](own) if table.rows] if own else []


def one_by_one(make: Callable[[str, Record], Table]) -> Callable[[Own], Iterable[Table]]:
    """Return a function that makes a table for each record."""
    return lambda own: [make(name, record) for name, record in own]


# --- tables with more than one number for each engine ----------------------------------------------------


def _equal_tables(own: Own) -> Iterator[Table]:
    rows = []
    for name, record in own:
        for line in record["summary"]:
            numbers = (line[key] for key in ("grammars", "refused", "masks", "differences"))
            bits = f"{line['contradictions']:,} in {line['contradicted_masks']:,}"
            *first, wrong = (f"{number:,}" for number in numbers)
            rows.append(
                cells([name, line["kind"], *first, Cell(wrong, "bad" if wrong != "0" else "best"), bits])
            )
    columns = [
        "where",
        "kind",
        "grammars",
        "refused",
        "masks compared",
        "differences",
        "XGrammar contradicts itself (bits in masks)",
    ]
    yield Table("Masks compared bit by bit with plain XGrammar's", columns, rows)


def source_of(name: str) -> str:
    """Return the source of a schema, which is the first part of its name."""
    return re.split(r"---|_+\d+$", name)[0]


def _schema_tables(own: Own) -> Iterator[Table]:
    yield from one_by_one(new_schemas)(own)
    rows = []
    engines = sorted(
        {one for _, record in own for row in record["rows"] for one in row["verdicts"]},
        key=lambda one: (one != "ours", one),
    )
    for name, record in own:
        by_source = defaultdict(list)
        for row in record["rows"]:
            by_source[source_of(row["name"])].append(row)
            by_source[""].append(row)
        for source, some in sorted(by_source.items(), key=lambda item: (item[0] == "", item[0])):
            line = [name, source or "all", f"{len(some):,}"]
            for engine in engines:
                told = [row["verdicts"][engine] for row in some if engine in row["verdicts"]]
                line += [f"{len(told):,}", _part(told, "valid_taken", "valid"), _rejected(told)]
            rows.append(cells(line))
    groups = [
        f"{engine_name(engine)}: {what}"
        for engine in engines
        for what in ("schemas taken", "valid accepted", "invalid rejected")
    ]
    note = (
        "Of the instances of the schemas that an engine takes. equimask's masks are XGrammar's, so their "
        "verdicts are the same; XGrammar's converter forbids keys in another order and, by default, "
        "properties that are not named."
    )
    yield Table(
        "Instances accepted and rejected, by source of schemas",
        ["where", "source", "schemas", *groups],
        rows,
        note,
        is_long=True,
    )
    faster = []
    for name, record in own:
        for engine, one in record["summary"]["standings"].items():
            if "ours_faster" in one:
                shares = [1 - share if share is not None else None for share in one["ours_faster"].values()]
                faster.append(
                    cells(
                        [
                            name,
                            engine,
                            *(
                                "-"
                                if share is None
                                else Cell(f"{share:.0%}", "behind" if share > 0.5 else "")
                                for share in shares
                            ),
                        ]
                    )
                )
    yield Table(
        "On what share of the schemas is the peer faster than equimask?",
        ["where", "peer", "first mask", "first mask, CPU", "with one document", "with one document, CPU"],
        faster,
        is_long=True,
    )  # fmt: skip


def _part(told: Sequence[Record], some: str, whole: str) -> str:
    taken, count = (sum(one[key] for one in told) for key in (some, whole))
    return f"{taken:,} of {count:,}"


def _rejected(told: Sequence[Record]) -> str:
    count = sum(one["invalid"] for one in told)
    return f"{count - sum(one['invalid_taken'] for one in told):,} of {count:,}"


def _build_tables(own: Own) -> Iterator[Table]:
    yield from often(own)
    rows = []
    for name, record in own:
        summary = record.get("summary")
        for way, found in (summary or {}).get("building", {}).items():
            rows.append(_building(name, way, summary["classes"], found))
    yield Table("Building a grammar, equimask", _BUILDING, rows)
    passing = []
    for name, record in own:
        if (summary := record.get("summary")) is None:
            passing.append(
                cells([name, Cell("refused", "bad"), record["refusals"][0].splitlines()[0][:200], ""])
            )
            continue
        texts, masks = record["rows"], summary["masks"] + summary["our_masks"]
        full = sum(row["complete"] for row in texts)
        wrong = summary["differences"] + summary["our_differences"]
        told = Cell(f"{wrong:,}", "bad" if wrong else "best")
        passing.append(cells([name, f"{full:,} of {len(texts):,}", f"{masks:,}", told]))
    note = "A sample may be cut off, and passes to its end then only if it might end there."
    yield Table(
        "Samples that pass, masks compared before timing",
        ["where", "samples to the end", "masks", "differences"],
        passing,
        note,
    )


_BUILDING = [
    "where",
    "way",
    "classes",
    "CPU time",
    "wall time",
    "memory at the peak",
    "artefact",
    "loaded in",
]


def _building(name: str, way: str, classes: Any, found: Record) -> list[Cell]:
    peak = "-" if found["peak"] is None else f"{found['peak'] / 2**20:,.0f} MiB"
    artefact = f"{found['artefact'] / 2**10:,.0f} KiB" if "artefact" in found else "-"
    loaded = readable(found["load"]) if "load" in found else "-"
    times = (readable(float(np.median(found[what]))) for what in ("cpu", "seconds"))
    return cells([name, way, "-" if classes is None else f"{classes:,}", *times, peak, artefact, loaded])


def _lark_tables(own: Own) -> Iterator[Table]:
    yield from often_lark(own)
    built, passing = [], []
    for name, record in own:
        for row in record["rows"]:
            if "building" in row:
                built.append(_building(name, "auto", row["building"]["classes"], row["building"]))
            good = row["followed"] - len(row["failed"])
            judged, wrong = row["judged"], len(row["judged"]["unsound"])
            peer = row.get("llguidance", {}).get("refusal")
            passing.append(cells([
                name, Cell(f"{good:,} of {row['followed']:,}", "bad" if row["failed"] else ""),
                f"{row['tokens']:,}",
                f"{judged['refused']:,}", Cell(f"{wrong:,}", "bad" if wrong else "best"),
                f"{judged['allowed']:,}", f"{len(judged['undecided']):,}",
                "-" if peer is None else peer.splitlines()[0][:80] if peer else "takes it",
            ]))  # fmt: skip
    columns = [
        "where",
        "files x 2 that pass",
        "tokens",
        "refused, judged",
        "wrong",
        "allowed, judged",
        "undecided",
        "llguidance",
    ]
    yield Table("Lark grammars: files that Lark parses, and tokens judged by Lark itself", columns, passing)
    yield Table("Building a Lark grammar, equimask", _BUILDING, built)


def _class_tables(own: Own) -> Iterator[Table]:
    rows, schemas = [], []
    for _, record in own:
        for row in record["grammars"]:
            if row["refusal"]:
                rows.append(cells([row["vocabulary"], row["name"], Cell("refused"), *["-"] * 7]))
                continue
            moved, peer = row["displacement"], row["peer"]
            lies = peer.get("relation") or {}
            times = (moved.get("seconds"), peer.get("seconds") if peer.get("classes") is not None else None)
            refusal = [one[:90] for one in peer.get("attempts", ())][-1:] or ["not run"]
            ours, theirs = ("-" if one is None else readable(one) for one in times)
            rows.append(cells([
                row["vocabulary"], row["name"], f"{row['classes']:,}", readable(row["cpu_seconds"]),
                "-" if row["memory"] is None else f"{row['memory'] / 2**20:.1f} MiB",
                _count(moved.get("classes")), ours,
                *([_count(peer["classes"])] if peer.get("classes") is not None else refusal),
                Cell(theirs, "best" if None not in times and times[1] < times[0] else ""),
                "-" if not lies else "yes" if lies["refines"] else Cell("no", "bad"),
            ]))  # fmt: skip
        for name, found in record.get("schemas", {}).items():
            summary = found["summary"]
            spread, counts = summary["spreads"]["time, CPU"], summary["counts"]["classes"]
            numbers = (f"{counts[key]:,.0f}" for key in ("p50", "p90", "p99"))
            schemas.append(
                cells(
                    [
                        name,
                        f"{summary['schemas']:,}",
                        *numbers,
                        *(readable(spread[key]) for key in ("p50", "p90", "p99")),
                    ]
                )
            )
    note = (
        "Acceptance: equal masks. Displacement: equal masks and equal stacks afterwards, which is CFGzip's "
        "relation. The last column says whether CFGzip's classes lie within ours, as a finer relation must."
    )
    columns = [
        "vocabulary",
        "grammar",
        "classes, acceptance",
        "CPU time",
        "memory",
        "classes, displacement",
        "time",
        "CFGzip's classes",
        "its time",
        "within ours",
    ]
    yield Table("Token classes of grammars", columns, rows, note)
    yield Table(
        "Token classes of schemas",
        ["vocabulary", "schemas", "classes p50", "p90", "p99", "CPU time p50", "p90", "p99"],
        schemas,
    )


def _scaling_tables(own: Own) -> Iterator[Table]:
    for _, record in own:
        for what, found in record.get("scaling", {}).items():
            sizes = sorted({row["size"] for row in found["rows"]})
            lines = []
            for series, power in found["exponents"].items():
                by_size = {row["size"]: row for row in found["rows"] if row["series"] == series}
                told = (by_size.get(size, {}) for size in sizes)
                numbers = (
                    f"{readable(one['cpu_seconds'])} ({one['classes']:,})" if "cpu_seconds" in one else "-"
                    for one in told
                )
                lines.append(cells([series, *numbers, "-" if power is None else f"{power:.2f}"]))
            title = {
                "properties": "Growth with the properties of a schema",
                "vocabulary": "Growth with the vocabulary (its first ids)",
            }[what]
            yield Table(
                title,
                ["CPU time (classes)", *(f"{size:,}" for size in sizes), "power"],
                lines,
                "Power: that of the size with which the time grows; 1 is linear.",
            )


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _strategy_tables(own: Own) -> Iterator[Table]:
    rows = []
    for name, record in own:
        for count, one in record["summary"].items():
            if not record["rows"]:
                continue
            best = min(one["seconds"], key=lambda way: one["seconds"][way])
            times = (
                Cell(readable(value), "best" if way == best else "") for way, value in one["seconds"].items()
            )
            rows.append(cells([name, f"{int(count):,}", *times, f"{one['auto_to_best']:.2f}"]))
    note = 'What "auto" costs beside the best of our own strategies; CPU time, all schemas together.'
    columns = [
        "where",
        "documents",
        "auto",
        "classifier",
        "representatives",
        "engine",
        "plain XGrammar",
        "auto / best of ours",
    ]
    yield Table("One schema, many documents: every strategy", columns, rows, note)


def _generating_tables(own: Own) -> Iterator[Table]:
    ways = ("unconstrained", "XGrammar", "ours")
    rows = [
        cells([name, *(f"{1 / record['rows'][way]['p50']:,.0f}" for way in ways)])
        for name, record in own
        if record["rows"]
    ]
    note = (
        "Medians. Greedy, the built-in JSON grammar; all rows of a batch count. Tokens of both were compared."
    )
    yield Table("Tokens per second", ["where", "unconstrained", "plain XGrammar", "equimask"], rows, note)
