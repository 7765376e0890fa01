"""The equality part of ``python -m bench grammar``: with plain XGrammar, and among our strategies.

What: `compare_samples` compares with plain XGrammar along samples, up to a bound of masks; `agree_samples`
compares our ways to run the grammar with one another along all of them; `compare_walks` and `agree_walks`
do so on random walks.
When: in `bench.grammar`, before anything is timed for itself.
Limits: the times that comparing takes on the way are those of first visits, with the other side's work
between.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any

from rich.console import Console
from rich.progress import track

from bench import report, workloads
from bench.agreement import KEPT, Agreement, agree_along, agree_walk
from hybrid.testing.comparison import Comparison, Times

CUTS = ("longest match", "random cuts")


@dataclass
class SampleRow:
    """One sample in one way to cut it into tokens.

    Attributes:
        place: number of the sample.
        cut: number of the way to cut, as in `CUTS`.
    """

    name: str
    place: int
    cut: int
    tokens: int
    comparison: Comparison

    def record(self) -> dict[str, Any]:
        return {
            "name": f"{self.name}, {CUTS[self.cut]}",
            "tokens": self.tokens,
            "accepted": self.comparison.accepted,
            "complete": self.comparison.complete,
            **report.compared(self.comparison),
        }


def cut_samples(
    vocabulary: Any, samples: Sequence[tuple[str, bytes]], seed: int, most: int
) -> list[list[list[int]]]:
    """Each sample's tokens in each way to cut it."""
    return [
        [ids[:most] for ids in workloads.token_sequences(vocabulary, data, f"{seed} {name}")]
        for name, data in samples
    ]


def compare_samples(
    console: Console,
    ours: Any,
    plain: Any,
    names: Sequence[str],
    cuts: Sequence[Sequence[list[int]]],
    seed: int,
    most_masks: int | None,
) -> tuple[list[SampleRow], float]:
    """Compares with plain XGrammar along samples in random order until so many masks were compared.

    Each sample comes cut by longest match and then at random, so that a bound leaves out samples, not cuts.

    Returns:
        the rows, and the share of a core that this process had meanwhile.
    """
    from hybrid.testing.verify import compare_along

    order = random.Random(seed).sample(range(len(names)), len(names))
    work = [(place, cut) for place in order for cut in range(len(CUTS))]
    rows: list[SampleRow] = []
    masks = 0
    began, cpu_began = perf_counter(), process_time()
    for place, cut in track(work, "samples", console=console, transient=True):
        if most_masks is not None and masks >= most_masks:
            break
        found = compare_along(ours, plain, cuts[place][cut])
        masks += found.masks
        rows.append(SampleRow(names[place], place, cut, len(cuts[place][cut]), found))
    share = (process_time() - cpu_began) / max(perf_counter() - began, 1e-9)
    return sorted(rows, key=lambda row: (row.place, row.cut)), share


def compare_walks(console: Console, ours: Any, plain: Any, seed: int, walks: int, steps: int) -> Comparison:
    """Compares with plain XGrammar along random walks; their times are left out."""
    from hybrid.testing.verify import compare_walk

    total = Comparison()
    for walk in track(range(walks), "walks", console=console, transient=True):
        total.add(compare_walk(ours, plain, seed * 1000 + walk, steps))
    total.times = Times()
    return total


def agree_samples(console: Console, sides: dict[str, Any], cuts: Sequence[Sequence[list[int]]]) -> Agreement:
    """Compares our ways to run the grammar with one another along all samples."""
    total = Agreement()
    for sample in track(cuts, "ours, samples", console=console, transient=True):
        for ids in sample:
            _add(total, agree_along(sides, ids))
    return total


def agree_walks(console: Console, sides: dict[str, Any], seed: int, walks: int, steps: int) -> Agreement:
    """Compares our ways to run the grammar with one another along random walks."""
    total = Agreement()
    for walk in track(range(walks), "ours, walks", console=console, transient=True):
        _add(total, agree_walk(sides, seed * 1000 + 500 + walk, steps))
    return total


def _add(total: Agreement, found: Agreement) -> None:
    total.masks += found.masks
    total.difference_count += found.difference_count
    total.differences += found.differences[: KEPT - len(total.differences)]
