"""Masks and tokens as a server asks for them between other work: with cold caches, and with warm ones beside.

What: `ColdCaches.add` runs one document that every engine has met before: call after call, and once more
with 64 MiB of memory changed before each call; batches too. All engines take turns in one run.
When: ``python -m bench schemas --cold-caches`` and ``python -m bench grammar --cold-caches``, after masks
were compared.
Limits: wall time of one call from Python, the clock's own cost subtracted: no clock of CPU time is as fine.
Quote medians, which a core that was taken away now and then does not move, and compare engines of one run:
what a call costs depends on how far the memory of the machine is, and on who else uses it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np
import xgrammar

from bench.report import Spread

TOUCHED_BYTES = 64 << 20
STEPS = 30
"""Tokens of a document; each is fetched back from memory for some 20 ms."""

WARM_ROUNDS = 10
COLD_ROUNDS = 2
BATCH = 64
BATCH_ROUNDS = 10


class ColdCaches:
    """Times of calls, by what is called on which engine, with warm and with cold caches.

    Args:
        clock: seconds of a clock, see `bench.serving.clock_cost`.
        touched: bytes changed before each call.
    """

    def __init__(self, clock: float, touched: int = TOUCHED_BYTES) -> None:
        self._clock = clock
        self._memory = np.zeros(touched // 8, np.int64)
        self._times: dict[str, array[float]] = {}

    def add(self, ours: Any, plain: Any, ids: Sequence[int], peer: Any = None) -> None:
        """Run one document.

        Args:
            ours, plain: compiled grammars of ours and of XGrammar.
            ids: the document's tokens; the first ones are run, all of them taken.
            peer: a matcher of llguidance that takes them.
        """
        from hybrid import BatchGrammarMatcher, GrammarMatcher

        ids = ids[:STEPS]
        size = ours.vocabulary.size
        bitmask = xgrammar.allocate_token_bitmask(1, size)
        for _ in range(2):  # met before
            _steps(GrammarMatcher(ours), ids, bitmask, _nothing)
            _steps(xgrammar.GrammarMatcher(plain), ids, bitmask, _nothing)
        for caches, between, rounds in self._ways():
            for _ in range(rounds):
                self._note("ours", caches, _steps(GrammarMatcher(ours), ids, bitmask, between))
                self._note("XGrammar", caches, _steps(xgrammar.GrammarMatcher(plain), ids, bitmask, between))
                if peer is not None:
                    peer.reset()
                    self._note("llguidance", caches, _peer_steps(peer, ids, size, between))
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
                self._times.setdefault(f"row of {BATCH}, {name}, {caches}", array("d")).extend(times)

    def spreads(self) -> dict[str, Spread]:
        """Seconds of a call, and of a row in a batch."""
        return {
            name: Spread.of(
                max(0.0, value - self._clock) / (BATCH if name.startswith("row") else 1) for value in times
            )
            for name, times in sorted(self._times.items())
        }

    def _ways(self) -> tuple[tuple[str, Callable[[], None], int], ...]:
        return ("warm", _nothing, WARM_ROUNDS), ("cold", self._touch, COLD_ROUNDS)

    def _touch(self) -> None:
        np.add(self._memory, 1, out=self._memory)

    def _note(self, engine: str, caches: str, times: Mapping[str, array[float]]) -> None:
        for what, seconds in times.items():
            self._times.setdefault(f"{what}, {engine}, {caches}", array("d")).extend(seconds)


def is_taken(compiled: Any, ids: Sequence[int]) -> bool:
    """Whether a compiled grammar of ours takes a document; it has a token at least."""
    from hybrid import GrammarMatcher

    matcher = GrammarMatcher(compiled)
    return bool(ids) and all(matcher.accept_token(token) for token in ids)


def _nothing() -> None:
    """What is done between calls with warm caches."""


def _steps(
    matcher: Any, ids: Sequence[int], bitmask: Any, between: Callable[[], None]
) -> dict[str, array[float]]:
    """Seconds of each mask and of each token."""
    masks, tokens = array("d"), array("d")
    for token in ids:
        between()
        began = perf_counter()
        matcher.fill_next_token_bitmask(bitmask)
        masks.append(perf_counter() - began)
        between()
        began = perf_counter()
        taken = matcher.accept_token(token)
        tokens.append(perf_counter() - began)
        assert taken, "all engines take the document"
    return {"mask": masks, "token": tokens}


def _peer_steps(
    matcher: Any, ids: Sequence[int], size: int, between: Callable[[], None]
) -> dict[str, array[float]]:
    """As `_steps`, on llguidance."""
    row = np.zeros((size + 31) // 32, np.int32)
    address, n_bytes = row.ctypes.data, row.nbytes
    masks, tokens = array("d"), array("d")
    for token in ids:
        between()
        began = perf_counter()
        matcher.unsafe_compute_mask_ptr(address, n_bytes)
        masks.append(perf_counter() - began)
        between()
        began = perf_counter()
        matcher.consume_token(token)
        tokens.append(perf_counter() - began)
    return {"mask": masks, "token": tokens}


def _batches(batch: Any, matchers: list[Any], rows: Any, between: Callable[[], None]) -> array[float]:
    """Seconds of calls that fill all rows."""
    times = array("d")
    batch.batch_fill_next_token_bitmask(matchers, rows)
    for _ in range(BATCH_ROUNDS):
        between()
        began = perf_counter()
        batch.batch_fill_next_token_bitmask(matchers, rows)
        times.append(perf_counter() - began)
    return times
