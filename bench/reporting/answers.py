"""Tables of the report, made from records.

What: `tables_of` makes the tables of one kind of record, `answer` those of one question, and `publish` prints
those of a command's record, and writes it.
When: in ``python -m bench report``, and at the end of each command.
Limits: a table has the numbers of the record, rounded to three digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console

from bench import report
from bench.report import readable
from bench.reporting import as_written, others
from bench.reporting.grammars import often, often_lark
from bench.reporting.jobs import Done
from bench.reporting.questions import Question
from bench.reporting.requests import at_once, between_other_work, new_schemas
from bench.reporting.standings import OURS, Record, Standing, of_record, records, standings
from bench.tables import Cell, Table, cell, errors, size
from bench.workloads import short_name

Own = Sequence[tuple[str, Record]]
"""Records with their names."""


def versus(rows: Sequence[Standing]) -> Table:
    """Make a table of standings, marking the best engine and the rows in which we are behind."""
    engines = list(dict.fromkeys(name for row in rows for name in row.values))
    engines.sort(key=lambda name: (name != OURS, name))
    lines = []
    for row in rows:
        line: list[Any] = [row.where, row.what]
        for name in engines:
            look = "best" if row.ahead == name else "behind" if name == OURS and row.is_behind else ""
            line.append(cell(row.values.get(name), look if name in row.values else ""))
        lines.append([*line, Cell(row.verdict, "behind" if row.is_behind else "")])
    return Table("Side by side, less is better", ["where", "what", *engines, "ahead"], lines, is_long=True)


def answer(question: Question, done: Mapping[str, Done]) -> list[Table]:
    """Return the tables of a question."""
    found = [versus(standings(question, done))]
    for kind in question.kinds:
        if own := list(records(question, done, kind)):
            found += tables_of(kind, own)
    return [table for table in found if table.rows]


def publish(
    console: Console,
    path: Path | None,
    kind: str,
    arguments: Mapping[str, Any],
    record: Mapping[str, Any],
    exact: bool = True,
) -> dict[str, Any]:
    """Write the record of a command, print its tables, and end the command with status 1 if it is not exact.
    Return what was written.

    Args:
        path: the file of the record; None if it is not kept.
        kind: the name of the benchmark.
        arguments: those of the command.
        record: what was measured; keys that all records have are added.
    """
    whole = report.write_json(path, {"benchmark": kind, **report.environment(arguments), **record})
    vocabulary = whole["arguments"].get("vocabulary")
    name = short_name(vocabulary) if isinstance(vocabulary, str) else kind
    for table in (versus(of_record(kind, name, whole)), *tables_of(kind, [(name, whole)])):
        if table.rows:
            table.print(console)
    if not exact:
        raise typer.Exit(1)
    return whole


def tables_of(kind: str, own: Own) -> list[Table]:
    """Return the tables of records of one kind; some may have no rows."""
    return list(_MAKERS[kind](own))


def one_by_one(make: Callable[[str, Record], Table], how: str = "") -> Callable[[Own], Iterable[Table]]:
    """Return a function that makes a table for each record, whose name says how it was measured."""
    return lambda own: [make(name + how, record) for name, record in own]


# --- tables with more than one number for each engine ----------------------------------------------------


def _equal_tables(own: Own) -> Iterator[Table]:
    rows = [
        [
            *(name, line["kind"], line["grammars"], line["refused"], line["masks"]),
            *(errors(line["differences"]), f"{line['contradictions']:,} in {line['contradicted_masks']:,}"),
        ]
        for name, record in own
        for line in record["summary"]
    ]
    columns = ["where", "kind", "grammars", "refused", "masks compared", "differences"]
    columns.append("XGrammar contradicts itself (bits in masks)")
    yield Table("Masks compared bit by bit with plain XGrammar's", columns, rows)


_BUILDING = ["where", "way", "classes", "CPU time", "wall time", "memory at the peak", "artefact"]
_BUILDING.append("loaded in")


def _building(name: str, way: str, found: Record) -> list[Any]:
    times = (float(np.median(found[what])) for what in ("cpu", "seconds"))
    peak, artefact = size(found["peak"]), size(found.get("artefact"), 1 << 10)
    return [name, way, found["classes"], *times, peak, artefact, found.get("load")]


def _build_tables(own: Own) -> Iterator[Table]:
    yield from often(own)
    rows, passing = [], []
    for name, record in own:
        if (summary := record.get("summary")) is None:
            why = record["refusals"][0].splitlines()[0][:200]
            passing.append([name, Cell("refused", "bad"), why, ""])
            continue
        rows += [_building(name, way, found) for way, found in summary.get("building", {}).items()]
        full = f"{sum(row['complete'] for row in record['rows']):,} of {len(record['rows']):,}"
        wrong = errors(summary["differences"] + summary["our_differences"])
        passing.append([name, full, summary["masks"] + summary["our_masks"], wrong])
    yield Table("Building a grammar, equimask", _BUILDING, rows)
    note = "A sample may be cut off, and passes to its end then only if it might end there."
    columns = ["where", "samples to the end", "masks", "differences"]
    yield Table("Samples that pass, masks compared before timing", columns, passing, note)


def _lark_tables(own: Own) -> Iterator[Table]:
    yield from often_lark(own)
    built, passing = [], []
    for name, record in own:
        for row in record["rows"]:
            if "building" in row:
                built.append(_building(name, "auto", row["building"]))
            good = f"{row['followed'] - len(row['failed']):,} of {row['followed']:,}"
            judged, peer = row["judged"], row.get("llguidance", {}).get("refusal")
            passing.append([
                name, Cell(good, "bad" if row["failed"] else ""), row["tokens"], judged["refused"],
                errors(len(judged["unsound"])), judged["allowed"], len(judged["undecided"]),
                peer.splitlines()[0][:80] if peer else None if peer is None else "takes it",
            ])  # fmt: skip
    columns = ["where", "files x 2 that pass", "tokens", "refused, judged", "wrong"]
    columns += ["allowed, judged", "undecided", "llguidance"]
    yield Table("Lark grammars: files that Lark parses, and tokens judged by Lark itself", columns, passing)
    yield Table("Building a Lark grammar, equimask", _BUILDING, built)


def _class_tables(own: Own) -> Iterator[Table]:
    rows: list[list[Any]] = []
    schemas = []
    for _, record in own:
        for row in record["grammars"]:
            if row["refusal"]:
                rows.append([row["vocabulary"], row["name"], "refused", *[None] * 7])
                continue
            moved, peer = row["displacement"], row["peer"]
            ours, theirs = moved.get("seconds"), peer.get("seconds")
            found = peer.get("classes")
            if found is None:
                found, theirs = ["not run", *peer.get("attempts", ())][-1][:90], None
            lies = peer.get("relation") or {}
            rows.append([
                row["vocabulary"], row["name"], row["classes"], row["cpu_seconds"],
                size(row["memory"], digits=1), moved.get("classes"), ours, found,
                cell(theirs, "best" if ours and theirs and theirs < ours else ""),
                None if not lies else "yes" if lies["refines"] else Cell("no", "bad"),
            ])  # fmt: skip
        for name, found in record.get("schemas", {}).items():
            summary, shares = found["summary"], ("p50", "p90", "p99")
            counts = (round(summary["counts"]["classes"][share]) for share in shares)
            times = (summary["spreads"]["time, CPU"][share] for share in shares)
            schemas.append([name, summary["schemas"], *counts, *times])
    note = (
        "Acceptance: equal masks. Displacement: equal masks and equal stacks afterwards, which is CFGzip's "
        "relation. The last column says whether CFGzip's classes lie within ours, as a finer relation must."
    )
    columns = ["vocabulary", "grammar", "classes, acceptance", "CPU time", "memory"]
    columns += ["classes, displacement", "time", "CFGzip's classes", "its time", "within ours"]
    yield Table("Token classes of grammars", columns, rows, note)
    columns = ["vocabulary", "schemas", "classes p50", "p90", "p99", "CPU time p50", "p90", "p99"]
    yield Table("Token classes of schemas", columns, schemas)
    yield from _scaling_tables(own)


SCALING = {
    "properties": "Growth with the properties of a schema",
    "vocabulary": "Growth with the vocabulary (its first ids)",
}


def _scaling_tables(own: Own) -> Iterator[Table]:
    for _, record in own:
        for what, found in record.get("scaling", {}).items():
            sizes = sorted({row["size"] for row in found["rows"]})
            lines = []
            for series, power in found["exponents"].items():
                told = {
                    row["size"]: f"{readable(row['cpu_seconds'])} ({row['classes']:,})"
                    for row in found["rows"]
                    if row["series"] == series and "cpu_seconds" in row
                }
                lines.append([series, *map(told.get, sizes), None if power is None else f"{power:.2f}"])
            columns = ["CPU time (classes)", *(f"{size:,}" for size in sizes), "power"]
            note = "Power: that of the size with which the time grows; 1 is linear."
            yield Table(SCALING[what], columns, lines, note)


def _strategy_tables(own: Own) -> Iterator[Table]:
    rows = []
    for name, record in own:
        for count, one in record["summary"].items() if record["rows"] else ():
            best = min(one["seconds"], key=lambda way: one["seconds"][way])
            times = (cell(value, "best" if way == best else "") for way, value in one["seconds"].items())
            rows.append([name, int(count), *times, f"{one['auto_to_best']:.2f}"])
    note = 'What "auto" costs beside the best of our own strategies; CPU time, all schemas together.'
    columns = ["where", "documents", "auto", "classifier", "representatives", "engine", "plain XGrammar"]
    columns.append("auto / best of ours")
    yield Table("One schema, many documents: every strategy", columns, rows, note)


def _generating_tables(own: Own) -> Iterator[Table]:
    ways = ("unconstrained", "XGrammar", "ours")
    rows = [
        [name, *(round(1 / record["rows"][way]["p50"]) for way in ways)]
        for name, record in own
        if record["rows"]
    ]
    note = (
        "Medians. Greedy, the built-in JSON grammar; all rows of a batch count. Tokens of both were compared."
    )
    yield Table("Tokens per second", ["where", "unconstrained", "plain XGrammar", "equimask"], rows, note)


OPTIONS = ", strict_mode=False, no caches, one thread"

_MAKERS: Mapping[str, Callable[[Own], Iterable[Table]]] = {
    "equality": _equal_tables, "fuzz": one_by_one(others.fuzz), "grammar": _build_tables,
    "lark": _lark_tables, "classes": _class_tables, "schemas": one_by_one(new_schemas),
    "situ": one_by_one(new_schemas, ", in situ"), "options": one_by_one(new_schemas, OPTIONS),
    "burst": one_by_one(at_once), "cold": one_by_one(between_other_work), "scaling": _scaling_tables,
    "growth": others.growth, "steps": others.steps, "device": one_by_one(others.device),
    "pages": one_by_one(others.pages), "starting": others.starting, "generating": _generating_tables,
    "strategies": _strategy_tables, "tags": one_by_one(others.tags), "tools": others.many_tools,
    "lengths": others.lengths, "drafts": one_by_one(others.drafts), "choices": one_by_one(others.choices),
    "healing": one_by_one(others.healing), "invasive": one_by_one(others.invasive),
    "traffic": one_by_one(others.traffic), "killed": one_by_one(others.killed),
    "maskbench": as_written.maskbench, "testsuite": as_written.testsuite,
}  # fmt: skip
