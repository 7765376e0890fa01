"""Compiled grammars in memory: equal calls get one object, also while it is still being made.

What: `MemoryCache` behind `GrammarCompiler`: bounded in bytes, least recently used out first; calls that come
while an equal one is under way wait for it and share its result, or its error.
When: one for each compiler; thread-safe. No lock is held while something is compiled.
Limits: errors are not kept. The bound is on what is kept: whoever holds a compiled grammar keeps it alive.

A classifier grows in use, by matchers that this cache knows nothing of, so sizes are counted again: that of
a grammar that is found, and with every call those of some others, in turn.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from hybrid.compiled import CompiledGrammar

COUNTED = 4
"""Grammars that are counted again with each call, 1 us each."""


class MemoryCache:
    """What one compiler keeps, and what it is making.

    Args:
        limit_bytes: bound of what is kept.
        count: told the name of each event: "memory_hits", "memory_misses", "memory_evictions", "shared".
    """

    def __init__(self, limit_bytes: int, count: Callable[[str], None]) -> None:
        self.limit_bytes = limit_bytes
        self._count = count
        self._lock = threading.Lock()  # of all below
        # with each its size when it was last counted
        self._kept: OrderedDict[Any, tuple[CompiledGrammar, int]] = OrderedDict()
        self._bytes = 0
        self._uncounted: list[Any] = []  # keys whose turn is to come
        self._generation = 0
        self._under_way: dict[Any, Future[CompiledGrammar]] = {}

    @property
    def size_bytes(self) -> int:
        """Bytes of the compiled grammars kept."""
        return self._bytes

    def get(self, key: Any, compile_it: Callable[[], CompiledGrammar]) -> CompiledGrammar:
        """From memory, from an equal call that is under way, or compiled, in this order."""
        under_way: Future[CompiledGrammar] | None
        evicted = 0
        while True:
            with self._lock:
                known = self._kept.get(key)
                if known is not None:
                    self._kept.move_to_end(key)
                    self._count_again(key)
                    evicted = self._evict()
                under_way = self._under_way.get(key)
                if known is None and under_way is None:
                    mine = self._under_way[key] = Future()
                    all_under_way, generation = self._under_way, self._generation
                    break
            if known is not None:
                self._count("memory_hits")
                for _ in range(evicted):
                    self._count("memory_evictions")
                return known[0]
            assert under_way is not None
            error = under_way.exception()
            if error is None:
                self._count("shared")
                return under_way.result()
            if isinstance(error, Exception):
                self._count("shared")
                raise error
            # its thread was interrupted, which says nothing of the grammar: perhaps this one has more luck
        self._count("memory_misses")
        try:
            compiled = compile_it()
            self._keep(key, compiled, generation)
        except BaseException as error:
            with self._lock:
                del all_under_way[key]
            mine.set_exception(error)
            raise
        else:
            with self._lock:
                del all_under_way[key]
            mine.set_result(compiled)
            return compiled
        finally:
            del mine  # the error has this frame in its traceback: they would keep each other alive

    def clear(self) -> None:
        """Forget what is kept, and what is under way; what is in use stays usable."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0
            self._generation += 1
            # who waits for these has them in hand already; later calls compile anew
            self._under_way = {}

    def _keep(self, key: Any, compiled: CompiledGrammar, generation: int) -> None:
        size = compiled.memory_size_bytes
        with self._lock:
            # what was under way when the cache was cleared is not kept
            if size > self.limit_bytes or key in self._kept or generation != self._generation:
                return
            self._kept[key] = compiled, size
            self._bytes += size
            self._count_again(key)
            evicted = self._evict()
        for _ in range(evicted):
            self._count("memory_evictions")

    # the methods below are called with the lock held

    def _count_again(self, key: Any) -> None:
        """Correct the size of one grammar, and of some whose turn it is."""
        if not self._uncounted:
            self._uncounted = list(self._kept)
        for one in [key, *self._uncounted[-COUNTED:]]:
            known = self._kept.get(one)
            if known is not None:
                size = known[0].memory_size_bytes
                self._bytes += size - known[1]
                self._kept[one] = known[0], size
        del self._uncounted[-COUNTED:]

    def _evict(self) -> int:
        """Drop what was not used for longest until the bound is kept; how many were dropped."""
        evicted = 0
        while self._bytes > self.limit_bytes:
            _, (_, dropped) = self._kept.popitem(last=False)
            self._bytes -= dropped
            evicted += 1
        return evicted
