"""Promotion: a grammar that began on demand becomes a complete classifier, while it is used.

What: `promoted` completes one grammar at once; `Promoter` watches those of a compiler, and completes those of
which `hybrid.compile.rule.choose_promotion` says that it pays: in a thread of its own, or at once if they are
static.
When: by `GrammarCompiler`, and by `CompiledGrammar.promote`.
Limits: bounded by the budget; what exceeds it stays on demand for good. Masks are the same before, meanwhile
and after: the automaton's states are found earlier, nothing else happens.

The thread lives while there is something to do. It works in pieces (`hybrid.classifier.completing`) and
rests after each for as long as it took, so that a matcher waits for one piece at most and another thread of
the program gets at least half of a processor. It only knows grammars weakly: what nobody can use any more is
not promoted. But what a folder is to keep is held until it is written.

Rejected: a lower priority for the thread. It would hold a grammar's lock while the system runs others.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from equivalence import BudgetExceeded, HybridError, forking
from equivalence.deadline import Deadline
from equivalence.network import build_network
from equivalence.network.reading import read_grammar
from equivalence.network.token_ids import ids_as_bytes
from hybrid.api.compiled import Classified, CompiledGrammar, OnClassifier, OnWalks
from hybrid.classifier.classifier import NEVER
from hybrid.classifier.completing import Completing
from hybrid.classifier.reachable import Reachable, reachable_of
from hybrid.compile import leaving
from hybrid.compile.cache import DiskCache
from hybrid.compile.rule import Use, choose_classes, choose_promotion, enough_entered
from hybrid.compile.strategy import Budget

logger = logging.getLogger("hybrid")

LEAVE_SECONDS = 1.0
"""How long the end of the program waits for the piece under way."""

WRITE_AFTER = 0.05
"""Seconds before classes are found of what is to be written: its first masks come before."""

MOST_TO_WRITE = 256
"""Grammars that are held to be written: new ones beyond are not, where more come than can be."""

MOST_REST = 0.5
"""Seconds of the longest rest: a piece takes milliseconds, unless the system let the whole process wait."""


def promoted(compiled: CompiledGrammar, budget: Budget, why: str, deadline: Deadline | None = None) -> bool:
    """Complete a grammar's classifier now, and say whether it is; False where there is none to complete.

    Args:
        compiled: on any strategy.
        budget: bounds of the tables.
        why: added to its reason.
        deadline: when to give up.

    Raises:
        BudgetExceeded: the budget's bytes or states do not do, or the deadline is over. What was found is
            kept.
    """
    if not isinstance(compiled, Classified):
        return False
    classifier = compiled.classifier
    if classifier.is_complete:
        return True
    if isinstance(compiled, OnWalks):
        compiled.settle(deadline or compiled.settling.deadline())
    work = _completing(compiled, budget)
    while work.piece():
        if deadline is not None:
            deadline.check("the classifier's states")
    work.finish()
    if not classifier.served:
        with classifier.lock:
            classifier.renew()  # a session that begins with all states has fewer of them, and roomier tables
    _say(compiled, why)
    return True


def _completing(compiled: OnClassifier | OnWalks, budget: Budget) -> Completing:
    classifier = compiled.classifier
    reachable = classifier.reachable
    if reachable is None:
        reachable = reachable_again(compiled, budget)
    # as ahead of time: a quarter of the bytes for the tables of states
    return Completing(classifier, reachable, states=4 * budget.states, limit=classifier.limit // 4)


def reachable_again(compiled: OnClassifier | OnWalks, budget: Budget) -> Reachable:
    """What stacks a grammar's network allows, where nothing of it was kept: the grammar was read from a file,
    or not all of its states were within bounds.

    Raises:
        BudgetExceeded: the network does not come out as it was when the file was written.
    """
    fixed = compiled.classifier._fixed
    trie = compiled.vocabulary.trie
    read = read_grammar(compiled.grammar)
    if not compiled.classifier.by_text:
        read, _ = ids_as_bytes(read)
    network = build_network(read, token_bytes=trie.longest, max_states=budget.states)
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
    """Completes the grammars of one compiler, those that it pays for; thread-safe.

    Args:
        budget: bounds of one promotion; its seconds too, if it is in the background.
        deterministic: promote nothing in the background.
        count: told "promotions_done", "promotions_given_up" or "promotions_dropped" for each.
        disk: where promoted grammars are written over what was there of them.
    """

    def __init__(
        self,
        budget: Budget,
        deterministic: bool,
        count: Callable[[str], None],
        disk: DiskCache | None = None,
    ) -> None:
        self._budget = budget
        self._deterministic = deterministic
        self._count = count
        self._disk = disk
        self._lock = forking.listed(threading.Lock(), forking.Order.BRIEF)  # of the four below
        self._waiting: deque[_Work] = deque()
        self._at_work: _Work | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._hurry = threading.Event()
        forking.in_child(self._in_child)
        leaving.at_exit(self._leave)

    def _in_child(self) -> None:
        """The thread is not there: what it had to do is asked again when the grammar serves again."""
        left = [self._at_work, *self._waiting]
        self._waiting.clear()
        self._thread = self._at_work = None
        self._hurry = threading.Event()  # its lock may have been held
        for work in left:
            compiled = None if work is None else work.reference()
            if compiled is not None and compiled.classifier is not None:
                compiled.classifier.look_at = 0

    def watch(self, compiled: CompiledGrammar, entry: bytes | None = None) -> None:
        """Promote a grammar once it has served enough, if it pays then; `entry` is its place on disk."""
        if not isinstance(compiled, Classified) or compiled.classifier.is_complete:
            return
        choice = choose_promotion(Use(deterministic=self._deterministic))
        if compiled.classifier.is_walked:
            choice = choose_classes(Use(sequences=1, states=compiled.classifier.n_network_states))
            compiled.classifier.look_entered = enough_entered(compiled.classifier.n_network_states)
        compiled.classifier.look = _Watch(weakref.ref(self), weakref.ref(compiled), entry)
        compiled.classifier.look_at = choice.ask_at or NEVER

    def take_over(self, compiled: CompiledGrammar) -> None:
        """Watch a grammar that another compiler made, if that one is gone or closed."""
        watch = None if compiled.classifier is None else compiled.classifier.look
        if isinstance(watch, _Watch) and not watch.is_alive and not self._is_closed:
            watch.promoter = weakref.ref(self)

    @property
    def is_closed(self) -> bool:
        """Whether it promotes nothing any more."""
        return self._is_closed

    def at_once(self, compiled: CompiledGrammar, deadline: Deadline, must: bool = False) -> None:
        """Promote a grammar that its caller says is for long use.

        Args:
            compiled: on any strategy; only those with a classifier can be promoted.
            deadline: of the caller.
            must: raise an error where the budget does not do, in place of leaving it on demand.

        Raises:
            BudgetExceeded: see `must`; and where the call was cancelled.
        """
        classifier = compiled.classifier
        if classifier is None or classifier.is_complete or (classifier.is_refused and not must):
            return
        use = Use(classifier.served, classifier.n_found, static=True, deterministic=self._deterministic)
        if not choose_promotion(use).now:
            return
        try:
            if not promoted(compiled, self._budget, "promoted at once, as it is for long use", deadline):
                return
        except BudgetExceeded as error:
            if must or deadline.is_cancelled:
                raise
            self._give_up(compiled, error)
            return
        self._count("promotions_done")
        if isinstance(classifier.look, _Watch):
            self._keep(compiled, classifier.look.entry)

    def submit(self, compiled: weakref.ref[CompiledGrammar], entry: bytes | None, whole: bool = True) -> None:
        """Promote a grammar, after those that are waiting already; if not as a `whole`, only to classes."""
        self._submit(_Work(compiled, entry, whole))

    def write(self, compiled: CompiledGrammar, entry: bytes) -> None:
        """Find the classes of a grammar that has none yet, and write it to its place on disk: also where
        nobody uses it any more."""
        if sum(work.is_for_disk for work in list(self._waiting)) < MOST_TO_WRITE:
            begin = time.perf_counter() + WRITE_AFTER
            self._submit(_Work(lambda: compiled, entry, False, True, begin))

    def _submit(self, work: _Work) -> None:
        with self._lock:
            if self._is_closed:
                return
            self._waiting.append(work)
            # one that did not live through a fork is not alive
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name="equimask-promotion", daemon=True)
                self._thread.start()

    def close(self, seconds: float | None = None) -> None:
        """Promote nothing any more; the promotion under way ends with its piece. What is to be written is.

        Args:
            seconds: how long to wait for that at most; what has not begun then is left.
        """
        with self._lock:
            self._is_closed = True
            self._hurry.set()
            self._waiting = deque(work for work in self._waiting if work.is_for_disk)
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(seconds)
        with self._lock:
            self._waiting.clear()

    def _leave(self) -> None:
        """The program ends, and should find no thread in a kernel."""
        self.close(LEAVE_SECONDS)

    def wait(self) -> None:
        """Wait until nothing is left to be promoted, or written."""
        self._hurry.set()
        while (thread := self._thread) is not None and thread.is_alive():
            thread.join()
        if not self._is_closed:
            self._hurry.clear()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = self._at_work = None
                    return
                work = self._at_work = self._waiting.popleft()
            try:
                self._promote(work)
            except Exception:  # nobody waits for this thread, and the grammar goes on as it is
                logger.exception("a promotion failed; its grammar stays on demand")
                self._count("promotions_given_up")
            del work  # it may hold the grammar

    def _promote(self, asked: _Work) -> None:
        reference, entry, whole, is_for_disk = asked[:4]
        compiled = reference()
        if not isinstance(compiled, Classified):
            self._count("promotions_dropped")
            return
        if compiled.classifier.is_complete:
            return  # at once, meanwhile
        began = time.perf_counter()
        if is_for_disk:
            self._hurry.wait(max(asked.begin - began, 0.0))
            began = time.perf_counter()
        deadline = Deadline(self._budget.seconds)
        served = compiled.classifier.served
        try:
            if isinstance(compiled, OnWalks):
                if is_for_disk:
                    self._write(compiled, entry, deadline)
                    self._hurry.wait(min(time.perf_counter() - began, MOST_REST))
                    return
                compiled.settle(deadline)
                if not whole:
                    return
            work = _completing(compiled, self._budget)
            while True:
                began = time.perf_counter()
                if not work.piece():
                    break
                del compiled  # while this thread rests, it keeps no grammar alive
                time.sleep(min(time.perf_counter() - began, MOST_REST))
                compiled = reference()
                if not isinstance(compiled, Classified) or self._is_closed:
                    self._count("promotions_dropped")
                    return
                deadline.check("promotion")
            work.finish()
        except HybridError as error:
            if (compiled := reference()) is not None:
                self._give_up(compiled, error)
            return
        _say(compiled, f"promoted after {served} sequences")
        self._count("promotions_done")
        self._keep(compiled, entry)

    def _give_up(self, compiled: CompiledGrammar, error: HybridError) -> None:
        """Remember that a grammar is too much for the budget."""
        assert compiled.classifier is not None
        compiled.classifier.is_refused = True
        _say(compiled, f"not promoted: {error}")
        self._count("promotions_given_up")

    def _write(self, compiled: OnWalks, entry: bytes | None, deadline: Deadline) -> None:
        """Find the classes of a grammar and write it, unless another process does, or has."""
        if self._disk is not None and entry is not None:
            with self._disk.claimed(entry) as is_ours:
                if is_ours:
                    compiled.settle(deadline)
                    self._disk.keep(entry, compiled)

    def _keep(self, compiled: CompiledGrammar, entry: bytes | None) -> None:
        if self._disk is not None and entry is not None:
            self._disk.keep(entry, compiled)


def _say(compiled: CompiledGrammar, what: str) -> None:
    """Add to the reason of a grammar, and to the log."""
    compiled.note(what)
    logger.debug("a grammar on demand: %s", what)


class _Work(NamedTuple):
    """What is asked of the thread.

    Attributes:
        reference: gives the grammar; None if nobody uses it any more.
        entry: its place on disk.
        whole: find all its states; else its classes only.
        is_for_disk: write it as soon as it has classes.
        begin: not before this time of the performance counter, unless somebody waits for it.
    """

    reference: Callable[[], CompiledGrammar | None]
    entry: bytes | None
    whole: bool
    is_for_disk: bool = False
    begin: float = 0.0


class _Watch:
    """Looks at one grammar when enough sequences were begun."""

    def __init__(
        self, promoter: weakref.ref[Promoter], compiled: weakref.ref[CompiledGrammar], entry: bytes | None
    ) -> None:
        self.promoter, self._compiled, self.entry = promoter, compiled, entry
        self._lock = forking.listed(threading.Lock(), forking.Order.BRIEF)
        self._found = 0

    @property
    def is_alive(self) -> bool:
        """Whether there is still somebody who would promote it."""
        promoter = self.promoter()
        return promoter is not None and not promoter.is_closed

    def __call__(self) -> None:
        compiled, promoter = self._compiled(), self.promoter()
        if compiled is None or compiled.classifier is None:
            return
        classifier = compiled.classifier
        with self._lock:
            if classifier.served < classifier.look_at:
                return  # another thread has looked
            use = Use(classifier.served, classifier.n_found, self._found, classifier.n_network_states)
            self._found = use.found
            choice, whole = choose_promotion(use), True
            if classifier.is_walked and not choice.now:
                choice, whole = choose_classes(use._replace(entered=classifier.n_entered)), False
            classifier.look_at = choice.ask_at or NEVER
            if (
                choice.now and not self.is_alive
            ):  # perhaps another compiler takes over before it is asked again
                classifier.look_at = 2 * use.sequences
                return
        if choice.now and promoter is not None:
            promoter.submit(self._compiled, self.entry, whole)
