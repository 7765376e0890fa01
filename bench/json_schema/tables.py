"""The results of schemas on engines, printed on the screen.

What: `show` prints the results of MaskBench, reasons, and instances with wrong labels.
When: in ``python -m bench maskbench``.
Limits: rare reasons are counted together; the record has all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console

from bench import report
from bench.json_schema.engines import ENGINES
from bench.json_schema.summary import Mislabelled, Standing
from bench.report import Spread

MOST_REASONS, MOST_NAMED = 12, 20


Record = Mapping[str, Any]


def lines(one: Record) -> dict[str, str]:
    """Return the rows of one engine's record, by their titles."""
    ended = sum(one["outcomes"].get(word, 0) for word in ("over time", "over memory", "crashed"))
    return {
        "schemas": f"{one['schemas']:,}",
        "refused": f"{one['outcomes'].get('refused', 0):,}",
        "never ends, too large, crashes": f"{ended:,}",
        "errors while reading": f"{one['failed']:,}",
        "a valid instance cannot be written": f"{one['schemas_refusing']:,} ({one['valid_refused']:,})",
        "an invalid one can": f"{one['schemas_accepting']:,} ({one['invalid_accepted']:,})",
        "the same, where nothing is said to be left out": f"{one['schemas_accepting_silently']:,}",
        "all as the schema says": f"{one['right']:,}",
        "valid instances asked for": f"{one['valid']:,}",
        "invalid instances asked for": f"{one['invalid']:,}",
    }


def checks(one: Record) -> dict[str, str]:
    """Return what only masks show."""
    return {
        "masks without a token": f"{one['dead_ends']:,}",
        "tokens that mask and matcher judge differently": f"{one['unlike']:,}",
    }


def show(console: Console, found: Mapping[str, Standing], wrong: Sequence[Mislabelled], quick: bool) -> None:
    """Print all tables."""
    parts: list[Callable[[Record], dict[str, str]]] = [lines] if quick else [lines, checks]
    records = {name: one.record() for name, one in found.items()}
    told = {name: {k: v for part in parts for k, v in part(one).items()} for name, one in records.items()}
    table = report.make_table("schemas (instances)", ("",), [ENGINES[name].title for name in told])
    for word in next(iter(told.values()), {}):
        table.add_row(word, *(own[word] for own in told.values()))
    console.print(table)
    if not quick:
        for title, part in (
            ("seconds to the first mask", "first_mask"), ("seconds of a mask", "masks"),
            ("seconds of a mask and its token", "steps"),
        ):  # fmt: skip
            spreads = {ENGINES[name].title: Spread.of(getattr(one, part)) for name, one in found.items()}
            console.print(report.spread_table(title, spreads))
    for title, counters in (
        ("schemas refused, by keyword or first words", {name: one.refusals for name, one in found.items()}),
        ("valid instances refused, by the keywords there", {n: one.unwritten for n, one in found.items()}),
        ("invalid instances accepted, by the keyword they break", {n: o.accepted for n, o in found.items()}),
        ("valid instances written, by spelling", {name: one.spellings for name, one in found.items()}),
    ):
        _counted(console, title, counters)
    if wrong:
        names = Counter(one.name for one in wrong)
        report.say(console, f"{len(wrong):,} instances of {len(names):,} files are labelled wrongly:")
        for one in wrong[:MOST_NAMED]:
            said = "valid" if one.label else "invalid"
            why = f" ({', '.join(one.why)})" if one.why else ""
            report.say(console, f"  {one.name}, instance {one.instance}: labelled {said}{why}")


def _counted(console: Console, title: str, counters: Mapping[str, Counter[str]]) -> None:
    """Make a table with the counts of several engines side by side, most frequent first."""
    total: Counter[str] = sum(counters.values(), Counter())
    if not total:
        return
    table = report.make_table(title, ("",), [ENGINES[name].title for name in counters])
    shown = [word for word, _ in total.most_common(MOST_REASONS)]
    for word in shown:
        table.add_row(word, *(f"{own[word]:,}" if own[word] else "-" for own in counters.values()))
    rest = [sum(count for word, count in own.items() if word not in shown) for own in counters.values()]
    if any(rest):
        table.add_row("others", *(f"{count:,}" if count else "-" for count in rest))
    console.print(table)
