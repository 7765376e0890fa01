"""Promotion: a grammar that began on demand becomes a complete classifier, while it is used.

What: `promoted` completes one grammar at once; `Promoter` watches those of a compiler, and completes in a
thread of its own those of which `hybrid.rule.choose_promotion` says that it pays.
When: by `GrammarCompiler` for strategy "auto", and `CompiledGrammar.promote`.
Limits: bounded by the budget; what exceeds it stays on demand for good. Masks are the same before, meanwhile
and after: the automaton's states are found earlier, nothing else happens.

The thread lives while there is something to do. It works in pieces (`hybrid.classifier.completing`) and
rests after each for as long as it took, so that a matcher waits for one piece at most and another thread of
the program gets at least half of a processor. It only knows grammars weakly: what nobody can use any more is
not promoted.

Rejected: a lower priority for the thread. It would hold a grammar's lock while the system runs others.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from equivalence import BudgetExceeded, HybridError
from equivalence.deadline import Deadline
from equivalence.network import build_network
from hybrid.classifier.classifier import NEVER, Classifier
from hybrid.classifier.completing import Completing
from hybrid.classifier.reachable import Reachable, reachable_of
from hybrid.compiled import CompiledGrammar
from hybrid.factored import LarkGrammar
from hybrid.rule import FIRST_LOOK, Use, choose_promotion
from hybrid.strategy import Budget

logger = logging.getLogger("hybrid")

_in_piece = threading.Lock()
"""Held while a piece is computed in the background: a process that forks meanwhile would leave its child with
a grammar's lock that nobody releases."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_in_piece.acquire, after_in_parent=_in_piece.release, after_in_child=_in_piece.release
    )


def promoted(compiled: CompiledGrammar, budget: Budget) -> bool:
    """Complete a grammar's classifier now, and say whether it is; False where there is none to complete.

    Raises:
        BudgetExceeded: the budget's bytes or states do not do. What was found is kept.
    """
    classifier = compiled.classifier
    if classifier is None or isinstance(compiled.grammar, LarkGrammar):
        return False
    if classifier.is_complete:
        return True
    work = _completing(compiled, classifier, budget)
    while work.piece():
        pass
    work.finish()
    return True


def _completing(compiled: CompiledGrammar, classifier: Classifier, budget: Budget) -> Completing:
    reachable = classifier.reachable
    if reachable is None:
        reachable = reachable_again(compiled, classifier, budget)
    # as ahead of time: a quarter of the bytes for the tables of states
    return Completing(classifier, reachable, states=4 * budget.states, limit=classifier.limit // 4)


def reachable_again(compiled: CompiledGrammar, classifier: Classifier, budget: Budget) -> Reachable:
    """What stacks a grammar's network allows, where the grammar was read from a file, which has none of it.

    Raises:
        BudgetExceeded: the network does not come out as it was when the file was written.
    """
    assert not isinstance(compiled.grammar, LarkGrammar)
    trie = compiled.vocabulary.trie
    network = build_network(
        json.loads(compiled.grammar.serialize_json()), token_bytes=trie.longest, max_states=budget.states
    )
    fixed = classifier._fixed
    is_same = len(network.automaton) == len(fixed.net) and network.start == fixed.start
    for place, (built, kept) in enumerate(zip(network.automaton, fixed.net, strict=False)):
        # a classifier counts further than one token reaches
        columns = slice(None) if place < 5 else slice(3)
        is_same = is_same and built.shape == kept.shape
        is_same = is_same and np.array_equal(built[..., columns], kept[..., columns])
    if not is_same:
        raise BudgetExceeded("its network was built by another version of the code")
    return reachable_of(network)


class Promoter:
    """Completes the grammars of one compiler in the background, those that it pays for; thread-safe.

    Args:
        budget: bounds of one promotion; its seconds too.
        count: told "promotions_done", "promotions_given_up" or "promotions_dropped" for each.
        keep: told each grammar that was promoted, with what `watch` was given beside it.
    """

    def __init__(
        self, budget: Budget, count: Callable[[str], None], keep: Callable[[CompiledGrammar, Any], None]
    ) -> None:
        self._budget = budget
        self._count = count
        self._keep = keep
        self._lock = threading.Lock()  # of the three below
        self._waiting: deque[tuple[weakref.ref[CompiledGrammar], Any]] = deque()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def watch(self, compiled: CompiledGrammar, beside: Any = None) -> None:
        """Promote a grammar once it has served enough, if it pays then."""
        classifier = compiled.classifier
        if classifier is None or classifier.is_complete or isinstance(compiled.grammar, LarkGrammar):
            return
        classifier.look = _Watch(weakref.ref(self), weakref.ref(compiled), beside)
        classifier.look_at = FIRST_LOOK // 2

    def submit(self, compiled: weakref.ref[CompiledGrammar], beside: Any) -> None:
        """Promote a grammar, after those that are waiting already."""
        with self._lock:
            if self._is_closed:
                return
            self._waiting.append((compiled, beside))
            # one that did not live through a fork is not alive
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name="equimask-promotion", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Promote nothing any more; the promotion under way ends with its piece."""
        with self._lock:
            self._is_closed = True
            self._waiting.clear()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def wait(self) -> None:
        """Wait until nothing is left to be promoted."""
        while (thread := self._thread) is not None and thread.is_alive():
            thread.join()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                compiled, beside = self._waiting.popleft()
            try:
                event = self._promote(compiled, beside)
            except Exception:  # nobody waits for this thread, and the grammar goes on as it is
                logger.exception("a promotion failed; its grammar stays on demand")
                event = "given_up"
            self._count(f"promotions_{event}")

    def _promote(self, reference: weakref.ref[CompiledGrammar], beside: Any) -> str:
        compiled = reference()
        if compiled is None or compiled.classifier is None:
            return "dropped"
        if compiled.classifier.is_complete:
            return "done"
        deadline = Deadline(self._budget.seconds)
        served = compiled.classifier.served
        try:
            work = _completing(compiled, compiled.classifier, self._budget)
            while True:
                spent = time.perf_counter()
                with _in_piece:
                    if not work.piece():
                        break
                spent = time.perf_counter() - spent
                del compiled  # while this thread rests, it keeps nothing alive
                work.rest()
                time.sleep(spent)
                compiled = reference()
                if compiled is None or self._is_closed:
                    return "dropped"
                deadline.check("promotion")
            work.finish()
        except HybridError as error:
            _add_to_reason(compiled, f"not promoted: {error}")
            return "given_up"
        _add_to_reason(compiled, f"promoted after {served} sequences")
        self._keep(compiled, beside)
        return "done"


class _Watch:
    """Looks at one grammar when enough sequences were begun."""

    def __init__(
        self, promoter: weakref.ref[Promoter], compiled: weakref.ref[CompiledGrammar], beside: Any
    ) -> None:
        self._promoter, self._compiled, self._beside = promoter, compiled, beside
        self._lock = threading.Lock()
        self._found = 0

    def __call__(self) -> None:
        compiled, promoter = self._compiled(), self._promoter()
        if compiled is None or compiled.classifier is None:
            return
        classifier = compiled.classifier
        with self._lock:
            if classifier.served < classifier.look_at:
                return  # another thread has looked
            use = Use(classifier.served, classifier.n_found, self._found)
            self._found = use.found
            choice = choose_promotion(use)
            classifier.look_at = choice.ask_at or NEVER
        if choice.now and promoter is not None:
            promoter.submit(self._compiled, self._beside)


def _add_to_reason(compiled: CompiledGrammar, what: str) -> None:
    object.__setattr__(compiled, "reason", f"{compiled.reason}; {what}")
