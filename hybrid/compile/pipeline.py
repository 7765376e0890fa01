"""The steps from a request to its compiled grammar.

What: `Pipeline.run` checks a request and looks for its grammar in memory, among running compilations, and in
the folder on disk, in this order. If it finds nothing, it compiles the grammar, counts and logs it, promotes
it if it is static (`promote_static`), and writes it to the folder if it has classes then.
When: one for each compiler. Thread-safe; no lock is held during a compilation.
Limits: errors are not cached.
"""

from __future__ import annotations

import gc
import logging
import time
from functools import partial
from sys import getsizeof
from typing import Any, Literal

from equivalence import BudgetExceeded, GrammarError
from equivalence.deadline.deadline import Deadline, free_frames
from hybrid.compile import single_flight
from hybrid.compile.cache import DiskCache
from hybrid.compile.collection_threshold import raise_threshold, restore_threshold
from hybrid.compile.compilation import Compilation
from hybrid.compile.memory_cache import MemoryCache
from hybrid.compile.request import Request
from hybrid.compile.statistics import Statistics, semantics_of
from hybrid.compiled import CompiledGrammar
from hybrid.values.budget import Budget

OVERDUE = "compiled in this process as well, because the process that was compiling it took too long"
"""Added to the reason of a grammar if another process that compiles it did not finish in time."""

Key = tuple[Any, ...]
"""What equal requests of one compiler have in common (`Request.key`)."""

logger = logging.getLogger("hybrid")


class Pipeline:
    """Finds or compiles the grammars of one compiler.

    Args:
        compilation: compiles grammars.
        memory: the memory cache; None if nothing is kept and equal calls share nothing.
        disk: the folder; None if there is none.
        statistics: counts everything.
    """

    def __init__(
        self, compilation: Compilation, memory: MemoryCache | None, disk: DiskCache | None,
        statistics: Statistics,
    ) -> None:  # fmt: skip
        self._compilation = compilation
        self._memory, self._disk = memory, disk
        self._statistics = statistics

    def run(self, request: Request, deadline: Deadline) -> CompiledGrammar:
        """The compiled grammar of a request.

        Args:
            request: a request of this compiler.
            deadline: the deadline of the call.

        Raises:
            HybridError: the request is refused, or cannot be compiled.
            BudgetExceeded: the deadline has passed.
        """
        try:
            request = request.normalised(self._compilation.vocabulary)
        except Exception as error:
            self._failed(request, error, deadline)
            raise
        key = request.key
        make = partial(self._new, request, key)
        if self._memory is None:
            compiled = make(deadline)
        else:
            shared = request.settings.key, key  # other compilers share the memory
            compiled = self._memory.get(shared, make, deadline, self._statistics.count)
        if request.static:
            try:
                self._promote(request, key, compiled, deadline)
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

    def _promote(self, request: Request, key: Key, compiled: CompiledGrammar, deadline: Deadline) -> None:
        """Complete a static grammar, and write it with all its states."""
        settings = self._compilation.settings
        raises = settings.on_budget == "raise"
        outcome = promote_static(compiled, settings.budget, deadline, raises)
        if outcome:
            self._statistics.count(f"promotions_{outcome}")
        if outcome == "done" and self._disk is not None:
            entry = self._disk.entry(key)
            if entry is not None:
                self._disk.keep(entry, compiled)

    def _new(self, request: Request, key: Key, deadline: Deadline) -> CompiledGrammar:
        """Read the grammar from disk, or compile it and write it there. No lock of this process is held."""
        began = time.perf_counter()
        disk = self._disk
        try:
            deadline.check("waiting to begin")
            entry = None if disk is None or not request.has_file else disk.entry(key)
            if disk is None or entry is None:
                return self._made(request, key, None, deadline, began)
            seen = disk.state(entry)
            if (found := disk.load(entry)) is not None:
                return self._loaded(request, key, found, began)
            self._statistics.count("disk_misses")
            if not request.has_classes:  # `_promote` makes them, and writes the file
                return self._made(request, key, None, deadline, began)
            seconds = self._compilation.settings.seconds
            with single_flight.wait_for_other_processes(disk.path(entry), deadline, seconds) as turn:
                if turn == "overdue":
                    self._statistics.count("disk_overdue")
                # another process may have written it since
                is_new = disk.state(entry) not in (None, seen)
                if is_new and (found := disk.load(entry, "disk_shared")) is not None:
                    return self._loaded(request, key, found, began)
                return self._made(request, key, entry, deadline, began, OVERDUE if turn == "overdue" else "")
        except Exception as error:
            self._failed(request, error, deadline)
            raise

    def _loaded(self, request: Request, key: Key, found: CompiledGrammar, began: float) -> CompiledGrammar:
        """Count a grammar that was read from disk."""
        found.timings["total"] = time.perf_counter() - began
        self._statistics.loaded(found)
        self._complete(key, found)
        _log("loaded", request, found)
        return found

    def _made(
        self, request: Request, key: Key, entry: bytes | None, deadline: Deadline, began: float, why: str = ""
    ) -> CompiledGrammar:
        """Compile a request, and write the result to its entry on disk. `why` is added to its reason."""
        usual = gc.get_threshold()
        try:
            raise_threshold(usual)
            compiled = request.compiled(self._compilation, deadline)
        finally:
            restore_threshold(usual)
        disk, timings = self._disk, compiled.timings  # no other thread has them yet, so they may be changed
        if disk is not None and entry is not None and not deadline.is_over:
            stored = time.perf_counter()
            disk.keep(entry, compiled)
            timings["store"] = time.perf_counter() - stored
        if why:
            compiled.note(why)  # the file does not have it
        timings["total"] = time.perf_counter() - began
        self._statistics.compiled(compiled)
        self._complete(key, compiled)
        _log("compiled", request, compiled)
        return compiled

    def _failed(self, request: Request, error: Exception, deadline: Deadline) -> None:
        self._statistics.failed(error)
        if isinstance(error, BudgetExceeded):
            if deadline.is_over:
                self._statistics.count("cancelled" if deadline.is_cancelled else "overdue")
            free_frames(error)
        logger.debug("refused %s: %s", request.notation, type(error).__name__)

    def _complete(self, key: Key, compiled: CompiledGrammar) -> None:
        """Let a new grammar count the texts of its key in a cache, and report its first mask."""
        texts = [part for part in key if isinstance(part, str)]
        object.__setattr__(compiled, "source_bytes", compiled.source_bytes + sum(map(getsizeof, texts)))
        labels = compiled.strategy, semantics_of(compiled)
        compiled.await_first_mask(partial(self._statistics.first_mask, labels))


def _log(what: str, request: Request, compiled: CompiledGrammar) -> None:
    if logger.isEnabledFor(logging.DEBUG):
        reason = " ".join(compiled.reason.split())
        milliseconds = 1000 * compiled.timings["total"]
        logger.debug(
            "%s %s as %s in %.1f ms: %s", what, request.notation, compiled.strategy, milliseconds, reason
        )


def promote_static(
    compiled: CompiledGrammar, budget: Budget, deadline: Deadline, raises: bool = False
) -> Literal["done", "given_up", ""]:
    """Complete a static grammar's classifier, unless it is complete or was too large before.

    Masks stay the same. A grammar that exceeds the budget stays on demand.

    Args:
        compiled: a grammar on any strategy.
        budget: bounds of the tables.
        deadline: the caller's deadline.
        raises: raise an error if the budget is exceeded, instead of leaving the grammar on demand.

    Returns:
        What was done, "" if nothing.

    Raises:
        BudgetExceeded: see `raises`; or the call was cancelled.
    """
    classifier = compiled.classifier
    if classifier is None or classifier.is_complete or (classifier.is_refused and not raises):
        return ""
    try:
        is_done = compiled.completed(
            budget, "all states were computed in advance, because the grammar is static", deadline
        )
        return "done" if is_done else ""
    except BudgetExceeded as error:
        if raises or deadline.is_cancelled:
            raise
        if classifier.is_refused:  # an equal call has found it meanwhile
            return ""
        classifier.is_refused = True
        compiled.note(f"not all states could be computed in advance: {error}")
        logger.debug("not all states of a static grammar were computed in advance: %s", error)
        return "given_up"
