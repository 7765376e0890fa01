"""Tables of JSON Schema as it was written: MaskBench's schemas, and the JSON-Schema-Test-Suite.

What: `maskbench` and `testsuite` make tables from records of these benchmarks.
When: in ``python -m bench report``.
Limits: rare reasons are in the records only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.json_schema import tables
from bench.json_schema.engines import ENGINES
from bench.reporting.tables import Cell, Table, cells, percentiles

Record = Mapping[str, Any]

MOST_REASONS = 15

TIMES = (
    ("first_mask", "to the first mask"),
    ("first_mask_cpu", "to the first mask: CPU time"),
    ("masks", "a mask"),
    ("steps", "a mask and its token"),
)


def titled(engine: str, record: Record) -> str:
    """Return the name of an engine for columns, with its version."""
    title = ENGINES[engine].title if engine in ENGINES else engine
    version = record["versions"].get(engine)
    return title if not version or engine.startswith("equimask") else f"{title} {version}"


def maskbench(own: Sequence[tuple[str, Record]]) -> Iterator[Table]:
    """Yield tables of what is refused, what can be written, reasons, and times."""
    for name, record in own:
        rows = record["rows"]
        columns = [titled(engine, record) for engine in rows]
        told = [
            {**tables.lines(one), **({} if record["quick"] else tables.checks(one))} for one in rows.values()
        ]
        words = list(told[0]) if told else []
        lines = [cells([word, *(_counted(word, one[word]) for one in told)]) for word in words]
        missing = "; ".join(f"{engine} is left out: {why}" for engine, why in record["missing"].items())
        note = f"{record['instances']:,} instances. {missing + '. ' if missing else ''}{_labels(record)}"
        yield Table(f"{name}: schemas (instances)", ["", *columns], lines, note)
        for key, title in (
            ("refusals", "schemas refused, by keyword or first words"),
            ("unwritten", "valid instances refused, by the keywords at the place where they are"),
            ("accepted", "invalid instances accepted, by the keyword that they break"),
        ):
            yield Table(
                f"{name}: {title}", ["", *columns], list(_reasons([one[key] for one in rows.values()]))
            )
        if not record["quick"]:
            spreads = [one["spreads"] for one in rows.values()]
            times = [cells([word, *(percentiles(one[key]) for one in spreads)]) for key, word in TIMES]
            yield Table(f"{name}: times of what each engine takes", ["p50 / p90 / p99", *columns], times)


def testsuite(own: Sequence[tuple[str, Record]]) -> Iterator[Table]:
    """Yield tables of right, wrong and refused tests, by draft and by keyword."""
    for _, record in own:
        rows = record["rows"]
        columns = [titled(engine, record) for engine in rows]
        drafts = list(dict.fromkeys(draft for one in rows.values() for draft in one["parts"]))
        lines = [
            cells([draft, *(_verdicts(one["parts"][draft].values()) for one in rows.values())])
            for draft in drafts
        ]
        note = "Of a case that is refused all tests count as refused. Remote references are not served."
        yield Table("Tests right / wrong / refused", ["draft", *columns], lines, note)
        for draft in drafts:
            parts = list(dict.fromkeys(part for one in rows.values() for part in one["parts"][draft]))
            lines = [
                cells([part, *(_verdicts([one["parts"][draft][part]]) for one in rows.values())])
                for part in parts
            ]
            yield Table(f"{draft}: tests right / wrong / refused", ["", *columns], lines, is_long=True)


def _counted(word: str, text: str) -> Cell:
    """Return a cell with a number, marked as bad if the number should be 0."""
    is_wrong = word.startswith(("a valid", "an invalid", "never", "errors", "masks without", "tokens that"))
    return Cell(text, "bad" if is_wrong and not text.startswith("0") else "")


def _reasons(counters: Sequence[Mapping[str, int]]) -> Iterator[list[Cell]]:
    total: Counter[str] = Counter()
    for one in counters:
        total.update(one)
    for word, _ in total.most_common(MOST_REASONS):
        yield cells([word, *(f"{one[word]:,}" if one.get(word) else "-" for one in counters)])
    rest = {word for word, _ in total.most_common()[MOST_REASONS:]}
    if rest:
        yield cells(["others", *(f"{sum(one.get(word, 0) for word in rest):,}" for one in counters)])


def _labels(record: Record) -> str:
    wrong = record["mislabelled"]
    if not wrong:
        return "No label differs from the verdict of jsonschema."
    named = ", ".join(f"{one['name']} ({one['instance']})" for one in wrong[:MOST_REASONS])
    more = f" and {len(wrong) - MOST_REASONS:,} more" if len(wrong) > MOST_REASONS else ""
    return f"{len(wrong):,} labels differ from the verdict of jsonschema, which counts: {named}{more}."


def _verdicts(counts: Any) -> Cell:
    """Return a cell with the tests of one engine, marked as bad if some are wrong."""
    own = list(counts)
    right, wrong, refused = (sum(one[key] for one in own) for key in ("right", "wrong", "refused"))
    refused += sum(one["ended"] for one in own)
    return Cell(f"{right:,} / {wrong:,} / {refused:,}", "bad" if wrong else "best" if not refused else "")
