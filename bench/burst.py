"""Many requests at once, each with its own schema: how long until each has its first mask.

What: `run` gives a burst of new schemas to each engine in turn. Some threads take one schema after the other,
like a scheduler's thread pool. The time of a request runs from the start of the burst to its first mask.
When: ``python -m bench schemas --burst 64``, with ``--burst-threads`` for other numbers of threads than two.
Limits: engines may start more threads than these. Schemas that llguidance refuses are left out, as they would
cost it nothing. Those that another engine refuses occupy a thread, but have no time. Only our first masks at
defaults are compared with XGrammar's: other meanings have other masks.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import Any

import numpy as np
from rich.console import Console

from bench.report import Spread
from bench.tables import Table

THREADS = 2

Serve = Callable[[Any], Any]
"""Compiles a schema and fills its first mask. Returns the compiled grammar; None if the schema is refused."""


@dataclass
class Burst:
    """One burst on one engine: seconds to each first mask, seconds until the last answer, and CPU seconds."""

    engine: str
    first_masks: Sequence[float] = ()
    refused: int = 0
    total: float = 0.0
    cpu: float = 0.0
    compiled: dict[int, Any] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """Return this burst without the compiled grammars, for the record."""
        return {name: value for name, value in vars(self).items() if name != "compiled"}


def run(engine: str, serve: Serve, schemas: Sequence[Any], threads: int = THREADS) -> Burst:
    """Give all schemas at once to one engine, and wait for all answers."""

    def answer(schema: Any) -> tuple[Any, float]:
        return serve(schema), perf_counter() - began

    gc.collect()
    cpu_began, began = process_time(), perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        answers = list(pool.map(answer, schemas))
    total, cpu = perf_counter() - began, process_time() - cpu_began
    compiled = {number: made for number, (made, _) in enumerate(answers) if made is not None}
    first_masks = [answers[number][1] for number in compiled]
    return Burst(engine, first_masks, len(answers) - len(compiled), total, cpu, compiled)


def run_all(
    engines: Mapping[str, Serve], schemas: Sequence[Any], size: int, seed: int, threads: int = THREADS
) -> list[dict[str, Burst]]:
    """Cut the schemas into bursts of `size`, and run each burst on all engines in random order."""
    order = random.Random(seed)
    schemas = list(schemas)
    order.shuffle(schemas)
    found = []
    for first in range(0, len(schemas) - size + 1, size):
        names = list(engines)
        order.shuffle(names)
        burst = schemas[first : first + size]
        found.append({name: run(name, engines[name], burst, threads) for name in names})
    return found


def compare(burst: Mapping[str, Burst]) -> tuple[int, int]:
    """Compare our first masks with XGrammar's. Return how many were compared, and how many differ."""
    from hybrid.testing.mask_comparison import compare_along

    ours, plain = burst["ours"].compiled, burst["XGrammar"].compiled
    both = ours.keys() & plain.keys()
    return len(both), sum(not compare_along(ours[number], plain[number], []).exact for number in both)


def summarise(bursts: Sequence[Mapping[str, Burst]]) -> dict[str, dict[str, Any]]:
    """For each engine, sum up the times to the first masks of all bursts, and average the totals of the
    bursts."""
    found = {}
    for engine in sorted(bursts[0], key=lambda name: (name != "ours", name)):
        own = [burst[engine] for burst in bursts]
        found[engine] = {
            "first_mask": Spread.of(seconds for one in own for seconds in one.first_masks),
            "refused": sum(one.refused for one in own),
            "total": float(np.mean([one.total for one in own])),
            "cpu": float(np.mean([one.cpu for one in own])),
        }
    return found


def print_scaling(console: Console, found: Mapping[int, Mapping[str, Mapping[str, Any]]]) -> None:
    """Print how bursts scale: for each engine, the time with the first number of threads divided by that with
    each."""
    first, *_ = found.values()
    rows = []
    for count, summary in found.items():
        ratios = (first[engine]["total"] / one["total"] for engine, one in summary.items())
        rows.append([count, *(f"{ratio:.2f}" for ratio in ratios)])
    Table(f"times as fast as on {next(iter(found))} threads", ["threads", *first], rows).print(console)
