"""Handing a sequence over to the whole vocabulary, where masks take less than half of the time there.

What: `Rival` is the same grammar compiled by XGrammar over the whole vocabulary. It is made when the masks of
its matchers have been slow for as long as that is estimated to take, so that at most twice the time is spent.
`read_again` reads a sequence there and measures a mask.
When: by matchers on "representatives" over classes of byte strings, after a mask of more than a millisecond:
such classes may be thousands, and prefixes of representatives are tokens that the vocabulary may not have.
Limits: the clock decides, so deterministic compilers have no rival. Nor have grammars with `max_tokens`,
whose state depends on the masks that were filled, and those of which classes are tried, as masks are wrong.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from equivalence import HybridError, forking

if TYPE_CHECKING:
    from hybrid.api.compiled import CompiledGrammar
    from hybrid.representatives.follower import EngineFollower

SLOW_SECONDS = 1e-3
"""Masks that take less are never thought about."""

FACTOR = 2.0
"""Times the rival's mask that a mask may take."""


class Rival:
    """XGrammar over the whole vocabulary for one compiled grammar, once its slow masks have paid for it.

    Args:
        price: estimates the seconds that compiling takes; asked for once.
        make: compiles.
    """

    def __init__(self, price: Callable[[], float], make: Callable[[], CompiledGrammar]) -> None:
        self._price, self._make = price, make
        self._lock = forking.listed(threading.Lock(), forking.Order.SLOW)
        self._paid = 0.0
        self._needed: float | None = None
        self._made: CompiledGrammar | None = None
        self._is_refused = False
        self.handed_over = 0
        """Sequences that went on there."""

    @property
    def memory_size_bytes(self) -> int:
        """Bytes held by what was made."""
        return 0 if self._made is None else self._made.memory_size_bytes

    def after(self, seconds: float) -> CompiledGrammar | None:
        """The rival, if it is there or worth making after another slow mask of so many seconds."""
        with self._lock:
            if self._made is not None or self._is_refused:
                return self._made
            if self._needed is None:
                self._needed = self._price()
            self._paid += seconds
            if self._paid < self._needed:
                return None
            try:
                self._made = self._make()
            except HybridError:
                self._is_refused = True
            return self._made


def read_again(other: EngineFollower, read: Iterable[int | bytes]) -> tuple[Any, float]:
    """A follower that has read the same, and the seconds of its mask; None where it refuses.

    Args:
        other: of the rival, at the start.
        read: token ids and texts, in order.
    """
    for step in read:
        taken = other.accept_string(step) if isinstance(step, bytes) else other.accept_token(step)
        if not taken:
            return None, 0.0
    words = np.empty((other.size + 31) // 32, np.uint32)
    least = float("inf")
    for _ in range(2):
        began = perf_counter()
        other.fill(words)
        least = min(least, perf_counter() - began)
    return other, least
