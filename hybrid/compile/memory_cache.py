"""Compiled grammars in memory: equal calls get one object, also while it is still being made.

What: `MemoryCache` behind `GrammarCompiler`: bounded in bytes, least recently used out first; calls that
come while an equal one is under way wait for it and share its result, or its error. A computation is given up
when no call wants it any more, because all were cancelled.
When: one for all compilers of a vocabulary that give it the same bound (`shared_cache`); thread-safe. No lock
is held while something is compiled.
Limits: errors are not kept. The bound is on what is kept: whoever holds a compiled grammar keeps it alive.
The cache is gone with the last of its compilers.

A classifier grows in use, by matchers that this cache knows nothing of, so sizes are counted again: that of
a grammar that is found, and with every call those of some others, in turn.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from equivalence import Vocabulary, forking
from equivalence.deadline import Deadline
from hybrid.api.compiled import CompiledGrammar

COUNTED = 2
"""Grammars that are counted again with each call, 1 us each; 5 where their memory is cold."""


class _UnderWay:
    """A grammar that is being compiled.

    Attributes:
        future: what comes of it.
        deadline: of the computation: it ends with the seconds of the call that began it, and is cancelled
            when no call wants it any more.
        asking: calls that want it.
        among: where it is listed.
        generation: of the cache when it began.
    """

    def __init__(self, seconds: float | None, among: dict[Any, _UnderWay], generation: int) -> None:
        self.future: Future[CompiledGrammar] = Future()
        self.deadline = Deadline(seconds)
        self.asking = 1
        self.among = among
        self.generation = generation

    def give(self, found: CompiledGrammar | BaseException) -> None:
        """Tell all who wait, if they were not told before."""
        with contextlib.suppress(InvalidStateError):
            if isinstance(found, BaseException):
                self.future.set_exception(found)
            else:
                self.future.set_result(found)


Count = Callable[[str], None]
"""Told the name of each event: "memory_hits", "memory_misses", "memory_evictions", "shared"."""


class MemoryCache:
    """What compilers keep, and what they are making.

    Args:
        limit_bytes: bound of what is kept.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._lock = forking.listed(threading.Lock(), forking.Order.BRIEF)  # of all below
        # with each its size when it was last counted
        self._kept: OrderedDict[Any, tuple[CompiledGrammar, int]] = OrderedDict()
        self._bytes = 0
        self._uncounted: list[Any] = []  # keys whose turn is to come
        self._generation = 0
        self._under_way: dict[Any, _UnderWay] = {}
        forking.in_child(self._in_child)

    def _in_child(self) -> None:
        """Nobody computes there what is under way: who asks for it computes it anew."""
        self._under_way = {}

    @property
    def size_bytes(self) -> int:
        """Bytes of the compiled grammars kept, of each when it was last counted."""
        return self._bytes

    def counted(self) -> int:
        """Bytes of the compiled grammars kept, all counted now: 5 us each, without the lock."""
        with self._lock:
            kept = [(key, compiled) for key, (compiled, _) in self._kept.items()]
        sizes = [(key, compiled, compiled.memory_size_bytes) for key, compiled in kept]
        with self._lock:
            for key, compiled, size in sizes:
                known = self._kept.get(key)
                if known is not None and known[0] is compiled:
                    self._note_size(key, size)
            return self._bytes

    def get(
        self, key: Any, compile_it: Callable[[Deadline], CompiledGrammar], asked: Deadline, count: Count
    ) -> CompiledGrammar:
        """From memory, from an equal call that is under way, or compiled, in this order.

        Args:
            key: what is asked for, with all settings of its compiler that it depends on.
            compile_it: compiles it, before a deadline that ends when `asked` does, but is cancelled only when
                nobody waits for the grammar any more.
            asked: the deadline of this call.
            count: told what comes of it.

        Raises:
            BudgetExceeded: an equal call is under way and takes longer than this one has time, or this one
                was cancelled.
        """
        while True:
            evicted = 0
            under_way = mine = None
            try:
                with self._lock:
                    known = self._kept.get(key)
                    if known is not None:
                        self._kept.move_to_end(key)
                        self._count_again(key)
                        evicted = self._evict()
                    elif key in self._under_way:
                        under_way = self._under_way[key]
                        under_way.asking += 1
                    else:
                        mine = self._under_way[key] = _UnderWay(asked.left, self._under_way, self._generation)
                if known is not None:
                    count("memory_hits")
                    for _ in range(evicted):
                        count("memory_evictions")
                    return known[0]
                if mine is not None:
                    return self._compute(key, mine, compile_it, asked, count)
                assert under_way is not None
                found = self._wait(under_way, asked, count)
            except BaseException as error:
                # wherever it was raised, Ctrl-C included: nobody may wait for what nobody computes
                if mine is not None:
                    self._end(key, mine)
                    mine.give(error)
                if under_way is not None:
                    self._withdraw(key, under_way)
                raise
            finally:
                # an error has this frame in its traceback, and these have the error: a circle
                mine = under_way = None
            if found is not None:
                return found
            # its thread was interrupted, which says nothing of the grammar: perhaps this one has more luck

    def _compute(
        self,
        key: Any,
        mine: _UnderWay,
        compile_it: Callable[[Deadline], CompiledGrammar],
        asked: Deadline,
        count: Count,
    ) -> CompiledGrammar:
        """Compile for this call and all that come to wait."""
        count("memory_misses")
        try:
            with asked.when_cancelled(partial(self._withdraw, key, mine)):
                compiled = compile_it(mine.deadline)
            self._keep(key, compiled, mine.generation, count)
            self._end(key, mine)
            mine.give(compiled)
            return compiled
        finally:
            del mine  # as in `get`

    def _wait(self, under_way: _UnderWay, asked: Deadline, count: Count) -> CompiledGrammar | None:
        """The result of an equal call, or its error; None where its thread was interrupted."""
        future = under_way.future
        try:
            done = threading.Event()
            future.add_done_callback(lambda _: done.set())
            with asked.when_cancelled(done.set):
                # a clock that stood still has left something
                while not done.wait(asked.left) and not asked.is_over:
                    pass
            if not future.done():
                raise asked.error("waiting for an equal call")
            error = future.exception()
            if error is not None and not isinstance(error, Exception):
                return None
            count("shared")
            return future.result()
        finally:
            del future, under_way  # as in `get`
            error = None

    def _withdraw(self, key: Any, under_way: _UnderWay) -> None:
        """One call less wants it; what none wants is given up, and who comes later begins anew."""
        with self._lock:
            under_way.asking -= 1
            if under_way.asking:
                return
        self._end(key, under_way)
        under_way.deadline.cancel()

    def _end(self, key: Any, under_way: _UnderWay) -> None:
        with self._lock:
            if under_way.among.get(key) is under_way:
                del under_way.among[key]

    def clear(self) -> None:
        """Forget what is kept, and what is under way; what is in use stays usable."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0
            self._generation += 1
            # who waits for these has them in hand already; later calls compile anew
            self._under_way = {}

    def _keep(self, key: Any, compiled: CompiledGrammar, generation: int, count: Count) -> None:
        size = compiled.memory_size_bytes
        with self._lock:
            # what was under way when the cache was cleared is not kept
            if size > self.limit_bytes or key in self._kept or generation != self._generation:
                return
            self._kept[key] = compiled, size
            self._bytes += size
            self._count_again()
            evicted = self._evict()
        for _ in range(evicted):
            count("memory_evictions")

    # the methods below are called with the lock held

    def _count_again(self, *keys: Any) -> None:
        """Correct the size of some grammars, and of those whose turn it is."""
        if not self._uncounted:
            self._uncounted = list(self._kept)
        for one in [*keys, *self._uncounted[-COUNTED:]]:
            known = self._kept.get(one)
            if known is not None:
                self._note_size(one, known[0].memory_size_bytes)
        del self._uncounted[-COUNTED:]

    def _note_size(self, key: Any, size: int) -> None:
        """Take the size of a grammar that is kept for what was counted now."""
        compiled, before = self._kept[key]
        self._bytes += size - before
        self._kept[key] = compiled, size

    def _evict(self) -> int:
        """Drop what was not used for longest until the bound is kept; how many were dropped."""
        evicted = 0
        while self._bytes > self.limit_bytes:
            oldest = next(iter(self._kept))
            # both or neither: Ctrl-C does not come between two steps that call nothing
            self._bytes -= self._kept[oldest][1]
            del self._kept[oldest]
            evicted += 1
        return evicted


_caches: WeakKeyDictionary[Vocabulary, WeakValueDictionary[int, MemoryCache]] = WeakKeyDictionary()
"""The caches of each vocabulary, by bound. Compilers keep them alive: what is kept knows its vocabulary,
so that neither would ever be freed if this did."""

_lock = forking.listed(threading.Lock(), forking.Order.BRIEF)  # of what is above


def shared_cache(vocabulary: Vocabulary, limit_bytes: int) -> MemoryCache:
    """The cache of a vocabulary that has this bound; a new one if no compiler has it."""
    with _lock:
        of_vocabulary = _caches.setdefault(vocabulary, WeakValueDictionary())
        found = of_vocabulary.get(limit_bytes)
        if found is None:
            found = of_vocabulary[limit_bytes] = MemoryCache(limit_bytes)
        return found
