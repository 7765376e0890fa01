"""Tables of JSON Schema as it was written: MaskBench's schemas, and the JSON-Schema-Test-Suite.

What: `maskbench` and `testsuite` make tables from records of these benchmarks.
When: in ``python -m bench report``, and at the end of these commands.
Limits: rare reasons are in the records only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.json_schema.engines import ENGINES
from bench.tables import Cell, Table, percentiles

Record = Mapping[str, Any]

MOST_REASONS = 15

REASONS = (
    ("refusals", "schemas refused, by keyword or first words"),
    ("unwritten", "valid instances refused, by the keywords at the place where they are"),
    ("accepted", "invalid instances accepted, by the keyword that they break"),
)
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
        rows = list(record["rows"].values())
        columns = [titled(engine, record) for engine in record["rows"]]
        told = [_lines(one, record["quick"]) for one in rows]
        lines = [[word, *(one[word] for one in told)] for word in (told[0] if told else ())]
        missing = "; ".join(f"{engine} is left out: {why}" for engine, why in record["missing"].items())
        note = f"{record['instances']:,} instances. {missing + '. ' if missing else ''}{_labels(record)}"
        yield Table(f"{name}: schemas (instances)", ["", *columns], lines, note)
        for key, title in REASONS:
            yield Table(f"{name}: {title}", ["", *columns], list(_reasons([one[key] for one in rows])))
        if not record["quick"]:
            times = [[word, *(percentiles(one["spreads"][key]) for one in rows)] for key, word in TIMES]
            yield Table(f"{name}: times of what each engine takes", ["p50 / p90 / p99", *columns], times)


def _lines(one: Record, quick: bool) -> dict[str, Any]:
    """Return the rows of one engine, by their titles. Cells that should be 0 are marked as bad if they are
    not."""

    def bad(count: int, more: str = "") -> Cell:
        return Cell(f"{count:,}{more}", "bad" if count else "")

    outcomes = one["outcomes"]
    ended = sum(outcomes.get(word, 0) for word in ("over time", "over memory", "crashed"))
    checks = {
        "masks without a token": bad(one["dead_ends"]),
        "tokens that mask and matcher judge differently": bad(one["unlike"]),
    }
    return {
        "schemas": one["schemas"],
        "refused": outcomes.get("refused", 0),
        "never ends, too large, crashes": bad(ended),
        "errors while reading": bad(one["failed"]),
        "a valid instance cannot be written": bad(one["schemas_refusing"], f" ({one['valid_refused']:,})"),
        "an invalid one can": bad(one["schemas_accepting"], f" ({one['invalid_accepted']:,})"),
        "the same, where nothing is said to be left out": one["schemas_accepting_silently"],
        "all as the schema says": one["right"],
        "valid instances asked for": one["valid"],
        "invalid instances asked for": one["invalid"],
        **({} if quick else checks),
    }


def testsuite(own: Sequence[tuple[str, Record]]) -> Iterator[Table]:
    """Yield tables of right, wrong and refused tests, by draft and by keyword."""
    for _, record in own:
        rows = [one["parts"] for one in record["rows"].values()]
        columns = [titled(engine, record) for engine in record["rows"]]
        drafts = list(dict.fromkeys(draft for one in rows for draft in one))
        lines = [[draft, *(_verdicts(one[draft].values()) for one in rows)] for draft in drafts]
        note = "Of a case that is refused all tests count as refused. Remote references are not served."
        yield Table("Tests right / wrong / refused", ["draft", *columns], lines, note)
        for draft in drafts:
            parts = dict.fromkeys(part for one in rows for part in one[draft])
            lines = [[part, *(_verdicts([one[draft][part]]) for one in rows)] for part in parts]
            yield Table(f"{draft}: tests right / wrong / refused", ["", *columns], lines, is_long=True)


def _reasons(counters: Sequence[Mapping[str, int]]) -> Iterator[list[Any]]:
    total: Counter[str] = Counter()
    for one in counters:
        total.update(one)
    for word, _ in total.most_common(MOST_REASONS):
        yield [word, *(one.get(word) or None for one in counters)]
    rest = {word for word, _ in total.most_common()[MOST_REASONS:]}
    if rest:
        yield ["others", *(sum(one.get(word, 0) for word in rest) for one in counters)]


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
