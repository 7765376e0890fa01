"""Where compiled grammars come from: memory, an equal call under way, the folder on disk, or a compilation.

What: `Obtaining` asks them in this order for `GrammarCompiler`, and sees to what becomes of a new grammar: it
is written to the folder, counted, logged, and promoted once that pays, or at once
(`hybrid.compile.promotion`).
When: one for each compiler; thread-safe, no lock is held while something is compiled.
Limits: errors are not kept.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from equivalence import BudgetExceeded
from equivalence.deadline.deadline import Deadline, free_frames
from hybrid.api.compiled import CompiledGrammar
from hybrid.api.statistics import Statistics
from hybrid.compile.cache import DiskCache
from hybrid.compile.memory_cache import MemoryCache
from hybrid.compile.promotion import Promoter

logger = logging.getLogger("hybrid")

Compile = Callable[[Deadline], CompiledGrammar]


class Obtaining:
    """What one compiler keeps, and how it comes by what it does not.

    Args:
        memory: None where nothing is kept in memory, and equal calls share nothing.
        settings: what tells compilers apart that use the same memory.
        disk: None where nothing is kept on disk.
        promoter: promotes grammars.
        watches: whether those that were compiled are promoted once that pays.
        must: whether a promotion at once that exceeds the budget is an error.
        statistics: told all of it.
    """

    def __init__(
        self,
        memory: MemoryCache | None,
        settings: Any,
        disk: DiskCache | None,
        promoter: Promoter,
        watches: bool,
        must: bool,
        statistics: Statistics,
    ) -> None:
        self._memory, self._settings, self._disk = memory, settings, disk
        self._promoter, self._watches, self._must = promoter, watches, must
        self._statistics = statistics

    def get(self, deadline: Deadline, key: Any, compile_it: Compile, static: bool = False) -> CompiledGrammar:
        """The compiled grammar of a key.

        Args:
            deadline: of the call.
            key: all that the result depends on besides the compiler; first the kind of grammar.
            compile_it: makes it.
            static: find all states of its classifier before it is returned.

        Raises:
            HybridError: what `compile_it` raises.
            BudgetExceeded: it is too late.
        """
        if self._memory is None:
            compiled = self._new(deadline, key, compile_it)
        else:
            compiled = self._memory.get(
                (self._settings, key),
                lambda mine: self._new(mine, key, compile_it),
                deadline,
                self._statistics.count,
            )
            if self._watches:
                self._promoter.take_over(compiled)
        if static:
            try:
                self._promoter.at_once(compiled, deadline, self._must)
            except Exception as error:
                self._failed(key, error, deadline)
                raise
        return compiled

    def _new(self, deadline: Deadline, key: Any, compile_it: Compile) -> CompiledGrammar:
        """From disk, or compiled and written there; no lock is held."""
        began = time.perf_counter()
        disk = self._disk
        try:
            deadline.check("waiting to begin")
            entry = None if disk is None else disk.entry(key)
            if disk is not None and entry is not None and (found := disk.load(entry)) is not None:
                found.timings["total"] = time.perf_counter() - began
                self._statistics.loaded(found)
                self._watch(found, entry)
                _log("loaded", key, found)
                return found
            with deadline.interruptible():
                compiled = compile_it(deadline)
        except Exception as error:
            self._failed(key, error, deadline)
            raise
        if disk is not None and entry is not None and not deadline.is_over:
            stored = time.perf_counter()
            disk.keep(entry, compiled)
            compiled.timings["store"] = time.perf_counter() - stored
        compiled.timings["total"] = time.perf_counter() - began
        self._statistics.compiled(compiled)
        self._watch(compiled, entry)
        _log("compiled", key, compiled)
        return compiled

    def _failed(self, key: Any, error: Exception, deadline: Deadline) -> None:
        self._statistics.failed(error)
        if isinstance(error, BudgetExceeded):
            if deadline.is_over:
                self._statistics.count("cancelled" if deadline.is_cancelled else "overdue")
            free_frames(error)
        logger.debug("refused %s: %s", key[0], type(error).__name__)

    def _watch(self, compiled: CompiledGrammar, entry: bytes | None) -> None:
        if self._watches:
            self._promoter.watch(compiled, entry)


def _log(what: str, key: Any, compiled: CompiledGrammar) -> None:
    if logger.isEnabledFor(logging.DEBUG):
        reason = " ".join(compiled.reason.split())
        milliseconds = 1000 * compiled.timings["total"]
        logger.debug("%s %s as %s in %.1f ms: %s", what, key[0], compiled.strategy, milliseconds, reason)
