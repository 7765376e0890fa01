"""Masks and tokens as a server needs them between other work: with cold caches, compared with warm ones.

What: `ColdCaches.add` runs one document that every engine has read before, call after call; and again with 64
MiB of memory changed before each call; batches, too. All engines take turns in one run.
When: ``python -m bench schemas --cold-caches``, after masks were compared.
Limits: wall time of one call from Python, minus the cost of the clock, because no clock of CPU time is fine
enough. Quote medians: they hardly change if a core is sometimes taken away. Compare only engines of one run:
the cost of a call depends on the memory of the machine, and on who else uses it.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np
import xgrammar

from bench.report import Spread
from bench.request import calls_of
from bench.server_times import Begin, beginning, nothing, timed

TOUCHED_BYTES = 64 << 20
STEPS = 30
"""Most tokens of a document; to change the memory before each takes some 20 ms."""

WARM_ROUNDS = 10
COLD_ROUNDS = 2
BATCH = 64
BATCH_ROUNDS = 10


class ColdCaches:
    """Times of calls with warm and with cold caches, by engine and kind of call.

    Args:
        clock: seconds that the clock itself takes, see `bench.server_times.clock_cost`.
        touched: bytes changed before each call.
    """

    def __init__(self, clock: float, touched: int = TOUCHED_BYTES) -> None:
        self._clock = clock
        self._memory = np.zeros(touched // 8, np.int64)
        self._times: dict[str, array[float]] = defaultdict(lambda: array("d"))

    def add(self, ours: Any, plain: Any, ids: Sequence[int], peer: Begin | None = None) -> None:
        """Run one document.

        Args:
            ours, plain: our compiled grammar and XGrammar's.
            ids: the document's tokens; only the first ones are run. All engines must accept these.
            peer: makes a matcher of llguidance at the beginning of a document.
        """
        from hybrid import BatchGrammarMatcher, GrammarMatcher

        ids = ids[:STEPS]
        size = ours.vocabulary.size
        bitmask = xgrammar.allocate_token_bitmask(1, size)
        begins: dict[str, Begin] = {
            "ours": beginning(ours),
            "XGrammar": lambda: calls_of(xgrammar.GrammarMatcher(plain), bitmask),
        }
        if peer is not None:
            begins["llguidance"] = peer
        for begin in begins.values():
            for _ in range(2):  # so that every engine has read the document before
                timed(begin(), ids)
        for caches, between, rounds in self._ways():
            for _ in range(rounds):
                for engine, begin in begins.items():
                    for what, times in zip(("mask", "token"), timed(begin(), ids, between), strict=True):
                        self._times[f"{what}, {engine}, {caches}"].extend(times)
        rows = xgrammar.allocate_token_bitmask(BATCH, size)
        for name, made, batch in (
            ("ours", lambda: GrammarMatcher(ours), BatchGrammarMatcher()),
            ("XGrammar", lambda: xgrammar.GrammarMatcher(plain), xgrammar.BatchGrammarMatcher(max_threads=1)),
        ):
            matchers = [made() for _ in range(BATCH)]
            for row, matcher in enumerate(matchers):
                for token in ids[: row % len(ids)]:
                    matcher.accept_token(token)
            for caches, between, _ in self._ways():
                times = _batches(batch, matchers, rows, between)
                self._times[f"row of {BATCH}, {name}, {caches}"].extend(times)

    def spreads(self) -> dict[str, Spread]:
        """Return the seconds of a call, and of a row in a batch."""
        return {
            name: Spread.of(
                max(0.0, value - self._clock) / (BATCH if name.startswith("row") else 1) for value in times
            )
            for name, times in sorted(self._times.items())
        }

    def _ways(self) -> tuple[tuple[str, Callable[[], None], int], ...]:
        return ("warm", nothing, WARM_ROUNDS), ("cold", self._touch, COLD_ROUNDS)

    def _touch(self) -> None:
        np.add(self._memory, 1, out=self._memory)


def is_taken(compiled: Any, ids: Sequence[int]) -> bool:
    """Whether one of our compiled grammars accepts a document, which must have at least one token."""
    from hybrid import GrammarMatcher

    matcher = GrammarMatcher(compiled)
    return bool(ids) and all(matcher.accept_token(token) for token in ids)


def _batches(batch: Any, matchers: list[Any], rows: Any, between: Callable[[], None]) -> array[float]:
    """Return the seconds of calls that fill all rows."""
    times = array("d")
    batch.batch_fill_next_token_bitmask(matchers, rows)
    for _ in range(BATCH_ROUNDS):
        between()
        began = perf_counter()
        batch.batch_fill_next_token_bitmask(matchers, rows)
        times.append(perf_counter() - began)
    return times
