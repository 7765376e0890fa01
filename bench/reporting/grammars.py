"""Tables of grammars that are used often: the cost of a mask and of a token on each, for each engine.

What: `often` makes tables of EBNF grammars, with XGrammar; `often_lark` of Lark grammars, with llguidance.
When: in ``python -m bench report`` and for the README's numbers.
Limits: the numbers are means of calm calls (`bench.server_times`), with the 99th percentile in brackets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bench.report import readable
from bench.tables import Table, errors, size
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
    for vocabulary, records in _by_vocabulary(own).items():
        taken = [(name, one["summary"]) for name, one in records if "measured" in one.get("summary", {})]
        own_calls = [summary["measured"]["calls"] for _, summary in taken]
        rows = [[words, *(_calm(calls.get(key)) for calls in own_calls)] for key, words in CALLS]
        for call in ("mask", "token"):
            plain = [summary["spreads"][f"{call}, XGrammar"] for _, summary in taken]
            rows.append([f"a {call}, XGrammar", *(one["mean"] if one["count"] else "" for one in plain)])
        ratios = (_ratio(summary) for _, summary in taken)
        rows.append(["XGrammar / equimask, a mask of a new document", *ratios])
        columns = ["means (p99)", *(name for name, _ in taken)]
        note = 'On strategy "classifier"; XGrammar along the documents whose masks were compared.'
        title = f"A mask and a token, {vocabulary}"
        yield Table(title, columns, [row for row in rows if any(row[1:])], note)


def _by_vocabulary(own: Sequence[tuple[str, Record]]) -> dict[str, list[tuple[str, Record]]]:
    """Group records by vocabulary, the last part of their names, and by the rest of their names."""
    found: dict[str, list[tuple[str, Record]]] = {}
    for name, record in own:
        given = record["arguments"]["vocabulary"]
        vocabulary = short_name(given[0] if isinstance(given, list) else given)
        found.setdefault(vocabulary, []).append((name.removesuffix(f"-{vocabulary}"), record))
    return found


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
    for vocabulary, records in _by_vocabulary(own).items():
        taken = [(name, row) for name, record in records for row in record["rows"] if "calls" in row]
        rows = [row for _, row in taken]
        lines: list[list[Any]] = [
            [words.replace("document", "file"), *(_calm(row["calls"].get(key)) for row in rows)]
            for key, words in CALLS
        ]
        built = [row.get("building", {}) for row in rows]
        passing = (f"{row['followed'] - len(row['failed']):,} of {row['followed']:,}" for row in rows)
        lines += [
            ["a mask, new file, llguidance", *map(_peer, rows)],
            ["compiling, CPU time", *(float(np.median(one["cpu"])) if one else "" for one in built)],
            ["artefact", *(size(one.get("artefact"), 1 << 10) or "" for one in built)],
            ["files that pass, cut twice", *passing],
            ["refused tokens that Lark takes", *(errors(len(row["judged"]["unsound"])) for row in rows)],
        ]
        columns = ["means (p99)", *(name for name, _ in taken)]
        note = "llguidance's lexer differs from Lark's, so its masks mean something else."
        title = f"Lark grammars: a mask and a token, {vocabulary}"
        yield Table(title, columns, [line for line in lines if any(line[1:])], note)


def _peer(row: Record) -> str:
    peer = row.get("llguidance", {})
    if peer.get("refusal"):
        return "not installed" if peer["refusal"] == "not installed" else "refused"
    return _calm(peer.get("calls", {}).get("mask, new document, llguidance"))
