"""Tables of grammars that are used often: the cost of a mask and of a token on each, for each engine.

What: `often` makes tables of EBNF grammars, with XGrammar; `often_lark` of Lark grammars, with llguidance.
When: in ``python -m bench report`` and for the README's numbers.
Limits: the numbers are means of calm calls (`bench.serving`), with the 99th percentile in brackets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bench.report import readable
from bench.reporting.tables import Cell, Table, cells
from bench.workloads import short_name

Record = Mapping[str, Any]

CALLS = (
    ("mask, repeated document", "a mask that was met before"),
    ("mask, new document", "a mask, new document"),
    ("mask, first document", "a mask, first document"),
    ("token, repeated document", "a token that was met before"),
    ("token, new document", "a token, new document"),
)


def often(own: Sequence[tuple[str, Record]]) -> Iterator[Table]:
    """Yield a table of all measured grammars for each vocabulary."""
    for vocabulary, records in by_vocabulary(own).items():
        taken = [(name, one["summary"]) for name, one in records if "measured" in one.get("summary", {})]
        if taken:
            yield _often(vocabulary, taken)


def by_vocabulary(own: Sequence[tuple[str, Record]]) -> dict[str, list[tuple[str, Record]]]:
    """Group records by vocabulary, the last part of their names, and by the rest of their names."""
    found: dict[str, list[tuple[str, Record]]] = {}
    for name, record in own:
        given = record["arguments"]["vocabulary"]
        vocabulary = short_name(given[0] if isinstance(given, list) else given)
        found.setdefault(vocabulary, []).append((name.removesuffix(f"-{vocabulary}"), record))
    return found


def _often(vocabulary: str, taken: Sequence[tuple[str, Record]]) -> Table:
    rows = [
        [words, *(_calm(summary["measured"]["calls"].get(key)) for _, summary in taken)]
        for key, words in CALLS
    ]
    for call in ("mask", "token"):
        plain = [summary["spreads"][f"{call}, XGrammar"] for _, summary in taken]
        rows.append(
            [f"a {call}, XGrammar", *(readable(one["mean"]) if one["count"] else "" for one in plain)]
        )
    rows.append(["XGrammar / equimask, a mask of a new document", *(_ratio(summary) for _, summary in taken)])
    columns = ["means (p99)", *(name for name, _ in taken)]
    note = 'On strategy "classifier"; XGrammar along the documents whose masks were compared.'
    title = f"A mask and a token, {vocabulary}"
    return Table(title, columns, [cells(row) for row in rows if any(row[1:])], note)


def _calm(calls: Record | None) -> str:
    if not calls or not calls["calls"]:
        return ""
    if not calls["calm_calls"]:  # the machine was never calm, so all calls count
        return f"{readable(calls['mean'])} ({readable(calls['p99'])})"
    return f"{readable(calls['calm_mean'])} ({readable(calls['calm_p99'])})"


def _ratio(summary: Record) -> str:
    ours = summary["measured"]["calls"]["mask, new document"]["calm_mean"]
    plain = summary["spreads"]["mask, XGrammar"]
    return readable(plain["mean"] / ours, "x") if ours and plain["count"] else ""


def often_lark(own: Sequence[tuple[str, Record]]) -> Iterator[Table]:
    """Yield a table of all Lark grammars for each vocabulary."""
    for vocabulary, records in by_vocabulary(own).items():
        taken = [(name, row) for name, record in records for row in record["rows"] if "calls" in row]
        if taken:
            yield _often_lark(vocabulary, taken)


def _often_lark(vocabulary: str, taken: Sequence[tuple[str, Record]]) -> Table:
    lines: list[list[str | Cell]] = [
        [words.replace("document", "file"), *(_calm(row["calls"].get(key)) for _, row in taken)]
        for key, words in CALLS
    ]
    lines.append(["a mask, new file, llguidance", *(_peer(row) for _, row in taken)])
    built = [row.get("building") for _, row in taken]
    lines += [
        ["compiling, CPU time", *(readable(float(np.median(one["cpu"]))) if one else "" for one in built)],
        [
            "artefact",
            *(f"{one['artefact'] / 2**10:,.0f} KiB" if one and "artefact" in one else "" for one in built),
        ],
        [
            "files that pass, cut twice",
            *(f"{row['followed'] - len(row['failed']):,} of {row['followed']:,}" for _, row in taken),
        ],
    ]
    wrong = [len(row["judged"]["unsound"]) for _, row in taken]
    lines.append(
        ["refused tokens that Lark takes", *(Cell(str(one), "bad" if one else "best") for one in wrong)]
    )
    columns = ["means (p99)", *(name for name, _ in taken)]
    note = "llguidance's lexer differs from Lark's, so its masks mean something else."
    title = f"Lark grammars: a mask and a token, {vocabulary}"
    return Table(title, columns, [cells(row) for row in lines if any(row[1:])], note)


def _peer(row: Record) -> str:
    peer = row.get("llguidance", {})
    if peer.get("refusal"):
        return "not installed" if peer["refusal"] == "not installed" else "refused"
    return _calm(peer.get("calls", {}).get("mask, new document, llguidance"))
