"""The steps from a request to its compiled grammar.

What: `Pipeline.run` checks a request and looks for its grammar in memory, among running compilations, and in
the folder on disk, in this order. If it finds nothing, it compiles the grammar, counts and logs it, writes it
to the folder (in the background, if it has no classes yet), and has it promoted at once or when that pays off
(`hybrid.compile.promotion`).
When: one for each compiler. Thread-safe; no lock is held during a compilation.
Limits: errors are not cached.
"""

from __future__ import annotations

import logging
import time
from functools import partial

from equivalence import BudgetExceeded, GrammarError
from equivalence.deadline.deadline import Deadline, free_frames
from hybrid.api.compiled import CompiledGrammar, OnWalks
from hybrid.api.statistics import Statistics, semantics_of
from hybrid.compile.cache import DiskCache
from hybrid.compile.compilation import Compilation
from hybrid.compile.memory_cache import MemoryCache
from hybrid.compile.promotion import Promoter
from hybrid.compile.request import Request
from hybrid.files import can_be_written

OVERDUE = "compiled here too, because another process took too long"
"""Added to the reason of a grammar if waiting for another process that compiles it was in vain."""

logger = logging.getLogger("hybrid")


class Pipeline:
    """Finds or compiles the grammars of one compiler.

    Args:
        compilation: compiles grammars.
        memory: the memory cache; None if nothing is kept and equal calls share nothing.
        disk: the folder; None if there is none.
        promoter: promotes grammars.
        statistics: counts everything.
    """

    def __init__(
        self,
        compilation: Compilation,
        memory: MemoryCache | None,
        disk: DiskCache | None,
        promoter: Promoter,
        statistics: Statistics,
    ) -> None:
        self._compilation = compilation
        self._memory, self._disk = memory, disk
        self._promoter, self._statistics = promoter, statistics
        settings = compilation.settings
        # whether compiled grammars are watched, to promote them when that pays off
        self._watches = settings.strategy == "auto" and not settings.on_demand
        # whether a static grammar whose states exceed the budget is an error
        self._must = settings.on_budget == "raise"

    def run(self, request: Request, deadline: Deadline) -> CompiledGrammar:
        """The compiled grammar of a request.

        Args:
            request: a request of this compiler.
            deadline: the deadline of the call.

        Raises:
            HybridError: the request is refused, or cannot be compiled.
            BudgetExceeded: the deadline is over.
        """
        request = request.settled(self._compilation, deadline)
        if self._memory is None:
            compiled = self._new(request, deadline)
        else:
            make, count = partial(self._new, request), self._statistics.count
            compiled = self._memory.get(request.shared_key, make, deadline, count)
            if self._watches:
                self._promoter.take_over(compiled)
        if request.static:
            try:
                self._promoter.at_once(compiled, deadline, self._must)
            except Exception as error:
                self._failed(request, error, deadline)
                raise
        try:
            request.check(compiled, deadline)
        except GrammarError as error:
            self._failed(request, error, deadline)
            self._statistics.refused(one.keyword for one in compiled.relaxed)
            raise
        return compiled

    def _new(self, request: Request, deadline: Deadline) -> CompiledGrammar:
        """Read the grammar from disk, or compile it and write it there. No lock of this process is held."""
        began = time.perf_counter()
        disk = self._disk
        try:
            deadline.check("waiting to begin")
            entry = None if disk is None else disk.entry(request.key)
            if disk is None or entry is None:
                return self._made(request, None, deadline, began)
            if (found := disk.load(entry)) is not None:
                return self._loaded(request, found, entry, began)
            if not request.is_written_at_once:
                return self._made(request, entry, deadline, began)
            with disk.alone(entry, deadline, self._compilation.settings.seconds) as turn:
                if (found := disk.load_again(entry)) is not None:
                    return self._loaded(request, found, entry, began)
                return self._made(request, entry, deadline, began, OVERDUE if turn == "overdue" else "")
        except Exception as error:
            self._failed(request, error, deadline)
            raise

    def _loaded(
        self, request: Request, found: CompiledGrammar, entry: bytes, began: float
    ) -> CompiledGrammar:
        """Count and watch a grammar that was read from disk."""
        found = _timed(found, {"total": time.perf_counter() - began})
        self._statistics.loaded(found)
        self._await(found)
        self._watch(found, entry)
        _log("loaded", request, found)
        return found

    def _made(
        self, request: Request, entry: bytes | None, deadline: Deadline, began: float, why: str = ""
    ) -> CompiledGrammar:
        """Compile a request, and write the result to its entry on disk. `why` is added to its reason."""
        with deadline.interruptible():
            compiled = request.compiled(self._compilation, deadline)
        disk, timings = self._disk, {}
        walked = isinstance(compiled, OnWalks)  # files need classes, which are computed later
        if disk is not None and entry is not None and not walked and not deadline.is_over:
            stored = time.perf_counter()
            disk.keep(entry, compiled)
            timings["store"] = time.perf_counter() - stored
        if why:
            compiled.note(why)  # the file does not have it
        compiled = _timed(compiled, {**timings, "total": time.perf_counter() - began})
        self._statistics.compiled(compiled)
        self._await(compiled)
        self._watch(compiled, entry)
        if walked and entry is not None and can_be_written(compiled):
            self._promoter.write(compiled, entry)
        _log("compiled", request, compiled)
        return compiled

    def _failed(self, request: Request, error: Exception, deadline: Deadline) -> None:
        self._statistics.failed(error)
        if isinstance(error, BudgetExceeded):
            if deadline.is_over:
                self._statistics.count("cancelled" if deadline.is_cancelled else "overdue")
            free_frames(error)
        logger.debug("refused %s: %s", request.notation, type(error).__name__)

    def _await(self, compiled: CompiledGrammar) -> None:
        labels = compiled.strategy, semantics_of(compiled)
        compiled.await_first_mask(partial(self._statistics.first_mask, labels))

    def _watch(self, compiled: CompiledGrammar, entry: bytes | None) -> None:
        if self._watches:
            self._promoter.watch(compiled, entry)


def _timed(compiled: CompiledGrammar, timings: dict[str, float]) -> CompiledGrammar:
    """Add timings to a compiled grammar that nobody else has seen yet."""
    compiled.timings.update(timings)
    return compiled


def _log(what: str, request: Request, compiled: CompiledGrammar) -> None:
    if logger.isEnabledFor(logging.DEBUG):
        reason = " ".join(compiled.reason.split())
        milliseconds = 1000 * compiled.timings["total"]
        logger.debug(
            "%s %s as %s in %.1f ms: %s", what, request.notation, compiled.strategy, milliseconds, reason
        )
