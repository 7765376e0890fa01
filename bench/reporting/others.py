"""Tables of the records that tests and smaller benchmarks write.

What: growth, steps of servers, masks on a device, new processes, tags of models, drafts, healed prompts,
random grammars, pages, and robustness of servers; one function for each kind of record.
When: in ``python -m bench report``, and at the end of the commands.
Limits: as in `bench.reporting.answers`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bench.report import readable
from bench.reporting.standings import TAGS
from bench.tables import Table, errors, percentiles, size, together, versioned

Record = Mapping[str, Any]
Own = Sequence[tuple[str, Record]]


# --- growth, and new processes ---------------------------------------------------------------------------

GROWTH = {
    "nesting": ("Growth with the nesting of a schema", "levels"),
    "threads": ("Growth with threads that take new schemas, to the last first mask of all", "threads"),
    "batches": (
        "Growth with the rows of a batch: masks that were met before, each row at another place",
        "rows",
    ),
}
"""The title of each kind of growth, and the unit of its sizes."""

NOTES = {
    "nesting": "Medians over schemas; masks and tokens: means along a document, each met for the first time.",
    "threads": "One thread in each compiler, no caches.",
}


def growth(own: Own) -> Iterator[Table]:
    """Yield tables of nesting, threads and batches."""
    for name, record in own:
        for what, (title, unit) in GROWTH.items():
            rows = record[what]
            lines = [
                [f"{versioned(engine, {})}: {part}", *(row[engine][part] for row in rows)]
                for engine in rows[0] if engine != "size"
                for part in rows[0][engine]
            ]  # fmt: skip
            columns = [unit, *(f"{row['size']:,}" for row in rows)]
            yield Table(f"{title}, {name}", columns, lines, NOTES.get(what, ""))


def steps(own: Own) -> Iterator[Table]:
    """Yield a table of steps of a server for each number of drafts: a row for each way and regime, and a
    column for each number of sequences. Beside a busy thread, CPU time includes that thread's, and is left
    out."""
    for name, record in own:
        for n_drafts in dict.fromkeys(row["drafts"] for row in record["steps"]):
            rows = [row for row in record["steps"] if row["drafts"] == n_drafts]
            ways = [way for way in rows[0] if way not in ("size", "drafts")]
            lines = [
                [f"{way}, {regime}", *(_step(regime, row[way].get(regime)) for row in rows)]
                for way in ways
                for regime in rows[0][way]
            ]
            columns = ["wall (CPU)", *(f"{row['size']:,}" for row in rows)]
            yield Table(f"A step, {n_drafts} drafts each, {name}", columns, lines)


def _step(regime: str, times: Record | None) -> str:
    if times is None:
        return ""
    cpu = "" if regime == "busy" else f" ({readable(times['CPU']['p50'])})"
    return readable(times["wall"]["p50"]) + cpu


def device(name: str, record: Record) -> Table:
    """Make a table of masked logits: medians."""
    kinds = [kind for kind, value in record["rows"][0].items() if isinstance(value, Mapping)]
    rows = [
        [
            row["ids"],
            row["dtype"],
            row["batch"],
            f"{row['bytes a row']:,.0f}",
            *(row[kind]["p50"] for kind in kinds),
        ]
        for row in record["rows"]
    ]
    return Table(f"Masks on {record['device']}", ["ids", "logits", "rows", "bytes a row", *kinds], rows)


def pages(name: str, record: Record) -> Table:
    """Make a table of pages about grammars."""
    rows = []
    for row in record["rows"]:
        times = (row.get(part) for part in ("compiling", "explaining", "rendering"))
        told = row.get("error", row.get("refused", ""))[:60]
        rows.append([row["name"], *times, size(row.get("bytes"), 1 << 10), row.get("tokens"), told])
    columns = ["grammar", "compiled", "explained", "rendered", "page", "tokens", "refused"]
    return Table("Pages about grammars", columns, rows)


def starting(own: Own) -> Iterator[Table]:
    """Yield a table of new processes: medians of each part."""
    for name, record in own:
        lines = []
        for engine, row in record["rows"].items():
            fresh = record.get("fresh", {}).get(engine, {})
            parts = [spread["p50"] for spread in row.values()]
            lines.append([versioned(engine, record), *parts, fresh.get("all but the vocabulary")])
        columns = ["engine", *next(iter(record["rows"].values())), "without byte code"]
        note = "Without byte code: all but the vocabulary in the first process after an installation."
        yield Table(f"A new process, {name}", columns, lines, note)


# --- equality -------------------------------------------------------------------------------------------


def fuzz(name: str, record: Record) -> Table:
    """Make a table of random grammars by kind."""
    counted = ("cases", "masks", "wrong bits", "other errors", "contradictions")
    by_kind: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(counted, 0))
    for row in record["rows"]:
        for what in counted:
            # XGrammar contradicts itself here: "plain" is its own side, the rest are ours.
            if (row["strategy"] == "plain") == (what == "contradictions"):
                by_kind[row["kind"]][what] += row.get(what, 0)
    rows = [
        [
            *(kind, one["cases"], one["masks"], errors(one["wrong bits"]), errors(one["other errors"])),
            one["contradictions"],
        ]
        for kind, one in sorted(by_kind.items())
    ]
    refused = ", ".join(f"{count:,} {error}" for error, count in record["refusals"].items()) or "none"
    note = (
        f"{record['cases']:,} grammars, each on every strategy (cases count each); "
        f"{record['crashes']:,} crashes, {record['hangs']:,} hangs; refused by name: {refused}."
    )
    return Table("Random grammars", ["kind", *counted[:-1], "XGrammar contradicts itself (bits)"], rows, note)


# --- tags -----------------------------------------------------------------------------------------------


def tags(name: str, record: Record) -> Table:
    """Make a table of tags by the number of tools: medians and maxima, ours and XGrammar's."""
    rows = []
    for count in dict.fromkeys(row["tools"] for row in record["rows"]):
        own = [row for row in record["rows"] if row["tools"] == count]
        line = [count, len(own)]
        for what, unit, _ in TAGS:
            for side in (0, 1):
                seconds = [row[what][side] * unit for row in own]
                line.append(together((float(np.median(seconds)), max(seconds))))
        line += [sum(row["masks"] for row in own), errors(sum(row["differences"] for row in own))]
        rows.append(line)
    times = [one for *_, title in TAGS for one in (title, "XGrammar")]
    columns = ["tools", "tags", *times, "masks", "differences"]
    strategies = sorted({row["strategy"] for row in record["rows"]})
    note = f"Median / most. Strategies: {', '.join(strategies)}. One thread and no caches on both sides."
    return Table(f"Tags of models, {name}", columns, rows, note)


def many_tools(own: Own) -> Iterator[Table]:
    """Yield a table for each number of tools and shape, with a line for each engine."""
    times = ("first_mask", "first_mask_cpu", "document", "document_cpu")
    columns = ["engine", "first mask", "CPU", "one call", "CPU", "a mask p50", "p99", "memory"]
    for name, record in own:
        for row in record["rows"]:
            lines = [
                [versioned(engine, record), *(one[time] for time in times),
                 one["mask"]["p50"], one["mask"]["p99"], size(one["bytes"])]
                for engine, one in _answering(row)
            ]  # fmt: skip
            note = f"{row['masks']:,} masks compared, {row['differences']:,} differences. {_refusing(row)}"
            yield Table(f"{row['tools']:,} tools, {row['shape']}, {name}", columns, lines, note)


def lengths(own: Own) -> Iterator[Table]:
    """Yield a table of strings near bounds for each bound, with a line for each engine."""
    for name, record in own:
        for row in record["rows"]:
            lines = []
            for engine, one in _answering(row):
                spreads = (one["masks"][place] for place in row["places"])
                masks = (together((spread["p50"], spread["max"])) for spread in spreads)
                lines.append([versioned(engine, record), one["first_mask"], *masks])
            columns = ["engine", "first mask", *(f"a mask {place}" for place in row["places"])]
            compared = f"{row['masks']:,} masks compared, {row['differences']:,} differences"
            if not row["compared"]:
                compared = "Masks are not compared, as XGrammar does not end"
            note = f"Median / most. {compared}. {_refusing(row)}"
            yield Table(f"{row['row']}, {name}", columns, lines, note)


def _answering(row: Record) -> list[tuple[str, Record]]:
    return [(engine, one) for engine, one in row["engines"].items() if "refusal" not in one]


def _refusing(row: Record) -> str:
    found = [f"{engine}: {one['refusal']}" for engine, one in row["engines"].items() if "refusal" in one]
    return f"Without an answer: {'; '.join(found)}." if found else ""


# --- less work for the model ----------------------------------------------------------------------------


def drafts(name: str, record: Record) -> Table:
    """Make a table of tokens per pass of the model."""
    rows = [
        [
            *(row["grammar"], row["texts"], row["method"], row["documents"]),
            *(None if rate is None else f"{rate:.2f}" for rate in row["tokens a step"]),
            f"{row['us a step']:.1f} us",
        ]
        for row in record["rows"]
    ]
    columns = ["grammar", "texts", "method", "documents", "the first", "2-10", "11-50", "after 50"]
    columns.append("CPU time a step")
    return Table(f"Drafts, tokens for each pass of the model: {name}", columns, rows)


def choices(name: str, record: Record) -> Table:
    """Make a table of calls of the processor."""
    ways = ("masks", "own choice first")
    rows = [
        [row["grammar"], row["strategy"], f"{row['refused']:.0%}", *(row[way]["p50"] for way in ways)]
        for row in record["rows"]
    ]
    columns = ["grammar", "strategy", "own choices refused", *ways]
    return Table(f"A call of the logits processor, medians: {name}", columns, rows)


def healing(name: str, record: Record) -> Table:
    """Make a table of masks after healed prompts."""
    rows = [
        [row["grammar"], row["strategy"], row["masks"], errors(row["different"]),
         percentiles(row["new"]), percentiles(row["kept"])]
        for row in record["rows"]
    ]  # fmt: skip
    columns = ["grammar", "strategy", "masks", "different", "a new mask, p50 / p90 / p99", "a kept one"]
    return Table("Healed prompts: masks beside a slow filter of all tokens", columns, rows)


def invasive(name: str, record: Record) -> Table:
    """Make a table of tokens of texts that masks forbid."""
    rows = [
        [row["grammar"], row["masks of"], row["documents"], row["left"], row["steps"],
         errors(row["masked"]) if row["masks of"].startswith("ours") else row["masked"]]
        for row in record["rows"]
    ]  # fmt: skip
    columns = ["grammar", "masks of", "documents", "left early", "steps", "own tokens masked"]
    return Table(f"Tokens of a text that the grammar takes, masked: {name}", columns, rows)


# --- robustness of servers -------------------------------------------------------------------------------


def traffic(name: str, record: Record) -> Table:
    """Make a table of mixed traffic."""
    slope = record["growth_bytes_a_request"]
    rows = [
        ["requests", record["requests"]],
        ["masks compared, differences", f"{record['masks']:,}, {record['differences']:,}"],
        ["resident memory, at most", size(record["resident_bytes"])],
        ["its growth over the second half", None if slope is None else f"{slope:,.0f} bytes a request"],
        ["failures", errors(len(record["wrong"]))],
    ]
    return Table("Mixed traffic on eight threads", ["what", "seen"], rows)


def killed(name: str, record: Record) -> Table:
    """Make a table of processes that were killed while they shared a folder."""
    made, found = (record["events"].get(one, 0) for one in ("made", "found"))
    rows = [
        ["processes killed, while they wrote", f"{record['kills']:,}, {record['while_writing']:,}"],
        ["grammars made / found", f"{made:,} / {found:,}"],
        ["entries left, loaded with the right masks", f"{record['entries']:,}, {record['loaded']:,}"],
        ["damaged or wrong", errors(record["damaged"] + len(record["wrong"]))],
    ]
    return Table("Processes killed at random", ["what", "seen"], rows)
