"""Tables of new JSON schemas: one by one, many at once, with cold caches; and where peers are ahead.

What: `new_schemas`, `at_once` and `between_other_work` make a table of a record of `bench.schemas`; `ahead`
says in words where a peer is ahead.
When: in ``python -m bench report`` and for the README's numbers.
Limits: an engine's numbers are for the schemas that it accepts; some rows, which say so, have our numbers for
the same schemas. A lead of less than `CLOSE` counts as none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.report import readable
from bench.reporting.standings import CLOSE
from bench.schema_rows import JSON_SCHEMA, OURS, OWN
from bench.tables import Table, percentiles, versioned

Record = Mapping[str, Any]

TIMED = (
    ("first mask", "to the first mask"),
    ("first mask and one document", "to the first mask and through one document"),
)


GIVEN_UP = "given up, counted with the bound"
"""For schemas that took XGrammar longer than the benchmark waits."""


def new_schemas(name: str, record: Record) -> Table:
    """Make a table of the most important numbers of one record, with engines in columns."""
    summary = record["summary"]
    spreads, standings = summary["spreads"], summary["standings"]
    engines = list(standings)
    rows: list[list[Any]] = []
    for key, words in TIMED:
        rows.append([words, *(percentiles(spreads.get(f"{key}, {one}")) for one in engines)])
        for mine, called in ((OURS, "equimask"), (JSON_SCHEMA, JSON_SCHEMA)):
            same = [percentiles(spreads.get(f"{key}, {mine} where {one} has one")) for one in engines]
            rows.append([f"{words}: {called} on the same schemas", *same])
        rows.append([f"{words}: mean", *(_mean(spreads.get(f"{key}, {one}")) for one in engines)])
        cpu = (percentiles(spreads.get(f"{key}, {one}, CPU")) for one in engines)
        rows.append([f"{words}: CPU time", *cpu])
    for call in ("mask", "token"):
        own = [spreads.get(f"{call} in the document, {one}") for one in engines]
        rows.append([f"a {call} in that document", *map(percentiles, own)])
        rows.append([f"a {call} in that document: mean", *map(_mean, own)])
    in_all = (percentiles(spreads.get(f"mask, {one}")) for one in engines)
    rows.append(["a mask in all documents", *in_all])
    for key, spread in spreads.items():
        if key.startswith("phase ") and key != "phase total":
            part = key.removeprefix("phase ")
            rows.append([f"to the first mask: {part}", percentiles(spread), *[""] * (len(engines) - 1)])
    counts = standings.values()
    rows.append(["schemas refused", *(f"{one['refused']:,} of {one['schemas']:,}" for one in counts)])
    if any(one["given_up"] for one in counts):
        rows.append([GIVEN_UP, *(one["given_up"] for one in counts)])
    rows.append(["first documents taken to the end", *(one["documents"] for one in counts)])
    for key, words in (("first_mask", "to the first mask"), ("document", "through one document")):
        shares = (_shares(one, key) for one in counts)
        rows.append([f"equimask at its defaults is faster {words}, wall / CPU", *shares])
    columns = ["p50 / p90 / p99", *(versioned(one, record) for one in engines)]
    strategies = ", ".join(f"{count:,} {one}" for one, count in summary["strategies"].items())
    kept = summary["kept"]
    classes = " / ".join(f"{summary['classes'][share]:,.0f}" for share in ("p50", "p90", "p99"))
    bound = record["arguments"]["max_plain_seconds"]
    waited = "" if bound is None else f" XGrammar's compiling is given up after {bound:g} s."
    note = (
        f"{summary['options']}.{waited} {summary['masks']:,} masks compared, "
        f"{summary['differences']:,} differences, "
        f"{summary['contradictions']:,} bits in which XGrammar contradicts itself. Strategies: {strategies}. "
        f"Token classes, p50 / p90 / p99: {classes}. Of {sum(kept.values()):,} long walks "
        f"{kept['found']:,} were found among those of other schemas."
    )
    title = f"{name}: {standings['ours']['schemas']:,} new schemas"
    return Table(title, columns, [row for row in rows if any(row[1:])], note, ahead(record))


def _mean(spread: Record | None) -> Any:
    return spread["mean"] if spread and spread["count"] else ""


def _shares(standing: Record, key: str) -> str:
    shares = [standing.get("ours_faster", {}).get(one) for one in (key, f"{key}_cpu")]
    return " / ".join(f"{share:.0%}" for share in shares if share is not None)


def ahead(record: Record) -> Sequence[str]:
    """Return in words where each peer is ahead, on the schemas that both accept."""
    spreads, found = record["summary"]["spreads"], []
    engines = record["summary"]["standings"]
    peers = [engine for engine in engines if engine not in OWN]
    for mine, of in ((OURS, ""), (JSON_SCHEMA, f" of {JSON_SCHEMA}")):
        for engine in peers if mine in engines else ():
            told: list[str] = []
            for key, words in TIMED:
                ours = spreads.get(f"{key}, {mine} where {engine} has one")
                told += _leads(words, ours, spreads.get(f"{key}, {engine}"))
            for call in ("mask", "token"):
                ours, theirs = (spreads.get(f"{call} in the document, {one}") for one in (mine, engine))
                told += _leads(f"for a {call} in that document", ours, theirs)
            where = "; ".join(told) or "in none of these rows"
            found.append(f"{versioned(engine, record)} is ahead{of} {where}")
    return found


def _leads(words: str, ours: Record | None, theirs: Record | None) -> Iterator[str]:
    """Return a clause that names the percentiles at which a peer leads."""
    if not ours or not theirs or not ours["count"] or not theirs["count"]:
        return
    ratios = {share: ours[share] / theirs[share] for share in ("p50", "p90", "p99", "mean") if theirs[share]}
    led = [f"{share} ({ratio:.3g}x)" for share, ratio in ratios.items() if ratio >= CLOSE]
    if led:
        yield f"{words} at {', '.join(led)}"


def at_once(name: str, record: Record) -> Table:
    """Make a table of bursts."""
    summary, bursts, size = record["summary"], len(record["bursts"]), record["arguments"]["burst"]
    found = summary["engines"].values()
    rows: list[list[Any]] = [
        ["to a first mask, p50 / p90 / p99", *(percentiles(one["first_mask"]) for one in found)],
        ["to the last first mask", *(one["first_mask"]["max"] for one in found)],
        [f"all answered, mean of {bursts:,} bursts", *(one["total"] for one in found)],
        ["the same, CPU time", *(one["cpu"] for one in found)],
        ["refused", *(f"{one['refused']:,} of {bursts * size:,}" for one in found)],
    ]
    note = f"{summary['masks']:,} first masks compared, {summary['differences']:,} differences. "
    note += f"{summary['left_out']:,} other schemas were left out, as llguidance refuses them."
    threads = next(iter(summary.get("by_threads", {"2": None})))
    columns = [f"{size:,} new schemas at once, {'two' if threads == '2' else threads} threads"]
    columns += [versioned(one, record) for one in summary["engines"]]
    return Table(f"{name}: {size:,} new schemas at once", columns, rows, note)


def between_other_work(name: str, record: Record) -> Table:
    """Make a table of calls with cold caches, with warm ones in brackets: medians."""
    spreads = record["summary"]["cold_caches"]
    whats = list(dict.fromkeys(key.split(", ")[0] for key in spreads))
    engines = [one for one in ("ours", "XGrammar", "llguidance") if f"mask, {one}, cold" in spreads]
    rows = []
    for what in sorted(whats, key=lambda one: (not one.startswith("mask"), one.startswith("row"))):
        line = [f"a row in a batch of {what.split()[-1]}" if what.startswith("row") else f"a {what}"]
        for one in engines:
            cold, warm = (spreads.get(f"{what}, {one}, {caches}") for caches in ("cold", "warm"))
            line.append(f"{readable(cold['p50'])} ({readable(warm['p50'])})" if cold and warm else "")
        rows.append(line)
    count = spreads.get("mask, ours, cold", {}).get("count", 0)
    columns = ["cold caches (warm)", *(versioned(one, record) for one in engines)]
    note = f"Medians of calls whose answer is known, {count:,} masks with cold caches of each engine."
    return Table(f"{name}: calls between other work", columns, rows, note)
