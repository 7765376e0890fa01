"""The memory cache of compiled grammars: equal calls get the same object, even while it is being compiled.

What: `MemoryCache` is bounded in bytes, and drops the least recently used grammars first. A call waits for an
equal one that is running, and shares its result or error. A compilation is given up when all calls that want
it are cancelled.
When: one for all compilers of a vocabulary with the same bound (`shared_cache`). Thread-safe; no lock is held
during a compilation.
Limits: errors are not cached. The limit covers the cache only: a grammar that is dropped stays alive while
it is in use. The cache is freed with the last of its compilers.

A classifier grows while matchers use it, and does not tell the cache. So the cache measures sizes again: that
of each grammar that is found, and at every call that of another one, in turn.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from equivalence import Vocabulary, forks
from equivalence.deadline import Deadline
from equivalence.deadline.clock import now
from hybrid.compiled import CompiledGrammar


class _UnderWay:
    """A grammar that is being compiled.

    Args:
        asked: the deadline of the call that started it.
        table: see below.

    Attributes:
        found: the result or error; None until then.
        waiting: a queue for each call that waits, which gets an item when `found` is set.
        deadline: the deadline of the compilation, which ends when `asked` ends. It is cancelled when no call
            wants the grammar any more.
        n_callers: number of calls that want it.
        table: the dict that lists it. It is no longer the cache's own if the cache was cleared since.
    """

    def __init__(self, asked: Deadline, table: dict[Any, _UnderWay]) -> None:
        self.found: CompiledGrammar | BaseException | None = None
        self.waiting: list[SimpleQueue[None]] = []
        # `asked.left` is 0 if only that call was cancelled
        self.deadline = Deadline(None if asked.ends is None else asked.ends - now())
        self.n_callers = 1
        self.table = table

    def give(self, found: CompiledGrammar | BaseException) -> None:
        """Set the result or error, unless that was done before. Later calls do not find this object."""
        if self.found is None:
            self.found = found
        for done in self.waiting:
            done.put(None)


Count = Callable[[str], None]
"""Called with the name of each event: "memory_hits", "memory_misses", "memory_evictions", "shared"."""


GROWN = 8
"""When a grammar is kept, the one that was kept so many before it is measured again: most grammars grow soon
after they are kept, when they are used. Three of the latest took 2% of a first mask's time."""


class MemoryCache:
    """Compiled grammars, and those that are being compiled.

    Args:
        limit_bytes: the most bytes that compiled grammars may take.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._lock = forks.registered(threading.Lock(), forks.Order.BRIEF)  # of all below
        # each with its size when it was last measured
        self._kept: OrderedDict[Any, tuple[CompiledGrammar, int]] = OrderedDict()
        self._bytes = 0
        self._to_measure: list[Any] = []  # keys that are measured next
        self._under_way: dict[Any, _UnderWay] = {}
        forks.in_child(self._in_child)

    def _in_child(self) -> None:
        """Compilations that are running do not survive a fork: callers compile again."""
        self._under_way = {}

    @property
    def size_bytes(self) -> int:
        """Bytes of the compiled grammars, each as it was last measured."""
        return self._bytes

    def measured_bytes(self) -> int:
        """Bytes of the compiled grammars, all measured now, without the lock; 5 us each."""
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
        """Get a grammar from memory, from an equal call that is running, or by compiling it, in this order.

        Args:
            key: the request, with all settings of its compiler that the result depends on.
            compile_it: compiles the grammar. Its deadline ends when `asked` ends, but is cancelled only when
                no call waits for the grammar any more.
            asked: the deadline of this call.
            count: called with the events.

        Raises:
            BudgetExceeded: an equal call is running and takes longer than this one may, or this one was
                cancelled.
        """
        while True:
            evicted = 0
            under_way = mine = None
            try:
                with self._lock:
                    known = self._kept.get(key)
                    if known is not None:
                        self._kept.move_to_end(key)
                        self._measure_again(key)
                        evicted = self._evict()
                    elif key in self._under_way:
                        under_way = self._under_way[key]
                        under_way.n_callers += 1
                        # Ctrl-C may leave the lock of a `Future` or `Event` locked: Python functions take it
                        done: SimpleQueue[None] = SimpleQueue()
                        under_way.waiting.append(done)
                    else:
                        mine = self._under_way[key] = _UnderWay(asked, self._under_way)
                if known is not None:
                    count("memory_hits")
                    for _ in range(evicted):
                        count("memory_evictions")
                    return known[0]
                if mine is not None:
                    return self._compute(key, mine, compile_it, asked, count)
                assert under_way is not None
                found = self._wait(under_way, done, asked, count)
            except BaseException as error:
                # after any error, even Ctrl-C: no call may wait for a grammar that no thread compiles
                if mine is not None:
                    self._end(key, mine)
                    mine.give(error)
                if under_way is not None:
                    self._withdraw(key, under_way)
                raise
            finally:
                # break the cycle: the error's traceback has this frame, and these objects have the error
                mine = under_way = None
            if found is not None:
                return found
            # the other thread was interrupted, which is no fault of the grammar: try again here

    def _compute(
        self, key: Any, mine: _UnderWay, compile_it: Callable[[Deadline], CompiledGrammar],
        asked: Deadline, count: Count,
    ) -> CompiledGrammar:  # fmt: skip
        """Compile for this call, and for all that will wait for it."""
        count("memory_misses")
        try:
            with asked.when_cancelled(partial(self._withdraw, key, mine)):
                compiled = compile_it(mine.deadline)
            self._keep(key, compiled, mine.table, count)
            self._end(key, mine)
            mine.give(compiled)
            return compiled
        finally:
            del mine  # as in `get`

    def _wait(
        self, under_way: _UnderWay, done: SimpleQueue[None], asked: Deadline, count: Count
    ) -> CompiledGrammar | None:
        """The result or error of an equal call; None if its thread was interrupted."""
        with asked.when_cancelled(partial(done.put, None)):
            # the wait may end early if the clock stood still
            while under_way.found is None and not asked.is_over:
                with contextlib.suppress(Empty):
                    done.get(timeout=asked.left)
        found = under_way.found
        try:
            if found is None:
                raise asked.error("waiting for an equal call")
            if isinstance(found, BaseException) and not isinstance(found, Exception):
                return None
            count("shared")
            if isinstance(found, Exception):
                raise found
            return found
        finally:
            del found, under_way  # as in `get`

    def _withdraw(self, key: Any, under_way: _UnderWay) -> None:
        """Record that a call no longer wants the grammar. If none does, give the compilation up; later calls
        start again."""
        with self._lock:
            under_way.n_callers -= 1
            if under_way.n_callers:
                return
            self._unlist(key, under_way)  # with the same lock: no other call may find it now
        under_way.deadline.cancel()

    def _end(self, key: Any, under_way: _UnderWay) -> None:
        with self._lock:
            self._unlist(key, under_way)

    def clear(self) -> None:
        """Drop all grammars, finished or not. Those in use stay usable."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0
            # waiting calls have these already; later calls compile again
            self._under_way = {}

    def _keep(
        self, key: Any, compiled: CompiledGrammar, table: dict[Any, _UnderWay], count: Count
    ) -> None:  # fmt: skip
        size = compiled.memory_size_bytes
        with self._lock:
            # a compilation that started before the cache was cleared is not kept
            if size > self.limit_bytes or key in self._kept or table is not self._under_way:
                return
            self._measure_again(*islice(reversed(self._kept), GROWN - 1, GROWN))
            self._kept[key] = compiled, size
            self._bytes += size
            evicted = self._evict()
        for _ in range(evicted):
            count("memory_evictions")

    # callers of the methods below hold the lock

    def _unlist(self, key: Any, under_way: _UnderWay) -> None:
        """Let later calls start again."""
        if under_way.table.get(key) is under_way:
            del under_way.table[key]

    def _measure_again(self, *keys: Any) -> None:
        """Measure some grammars again, and the one whose turn it is; 1 us each, or 5 with cold caches."""
        if not self._to_measure:
            self._to_measure = list(self._kept)
        while self._to_measure:
            turn = self._to_measure.pop()
            if turn in self._kept:
                keys = *keys, turn
                break
        for one in keys:
            known = self._kept.get(one)
            if known is not None:
                self._note_size(one, known[0].memory_size_bytes)

    def _note_size(self, key: Any, size: int) -> None:
        """Record the new size of a grammar."""
        compiled, before = self._kept[key]
        self._bytes += size - before
        self._kept[key] = compiled, size

    def _evict(self) -> int:
        """Drop the least recently used grammars until the rest fit the limit; return how many were
        dropped."""
        evicted = 0
        while self._bytes > self.limit_bytes:
            oldest = next(iter(self._kept))
            # both or neither: Ctrl-C cannot come between two statements without calls
            self._bytes -= self._kept[oldest][1]
            del self._kept[oldest]
            evicted += 1
        return evicted


_caches: WeakKeyDictionary[Vocabulary, WeakValueDictionary[int, MemoryCache]] = WeakKeyDictionary()
"""The caches of each vocabulary, by bound. Only compilers keep them alive. The cached grammars refer to their
vocabulary, so with strong references here neither would ever be freed."""

_lock = forks.registered(threading.Lock(), forks.Order.BRIEF)  # protects `_caches`


def shared_cache(vocabulary: Vocabulary, limit_bytes: int) -> MemoryCache:
    """The cache of a vocabulary with this bound; a new one if no compiler has it."""
    with _lock:
        of_vocabulary = _caches.setdefault(vocabulary, WeakValueDictionary())
        found = of_vocabulary.get(limit_bytes)
        if found is None:
            found = of_vocabulary[limit_bytes] = MemoryCache(limit_bytes)
        return found
