"""Promotion: computing all states of a classifier that works on demand, while it is used.

What: `promoted` completes one grammar now. `Promoter` watches the grammars of a compiler, and completes those
for which `hybrid.compile.rule.choose_promotion` says so: in a background thread, or at once if they are
static.
When: called by `GrammarCompiler` and `CompiledGrammar.promote`.
Limits: the budget bounds a promotion; a grammar that exceeds it stays on demand. Masks are the same before,
during and after: states of the automaton are computed earlier, and nothing else changes.

The thread exists only while there is work. It works in small pieces (`hybrid.classifier.completing`) and
sleeps after each as long as the piece took. So a matcher waits for one piece at most, and other threads get
at least half of a processor. The thread holds grammars by weak references, so a grammar that nobody can use
any more is not promoted. A grammar that will be written to a folder is kept alive until then.

Rejected: giving the thread a lower priority. It would hold a grammar's lock while the system runs others.
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
from hybrid.compile import shutdown
from hybrid.compile.cache import DiskCache
from hybrid.compile.rule import Use, choose_classes, choose_promotion, enough_entered
from hybrid.compile.strategy import Budget

logger = logging.getLogger("hybrid")

LEAVE_SECONDS = 1.0
"""How long the end of the program waits for the current piece of work."""

WRITE_AFTER = 0.05
"""Delay in seconds before the classes of a grammar are computed to write it: its first masks come first."""

MOST_TO_WRITE = 256
"""Most grammars that wait to be written; further ones are not written."""

MOST_REST = 0.5
"""Longest sleep in seconds. A piece takes milliseconds, unless the system suspended the process."""


def promoted(compiled: CompiledGrammar, budget: Budget, why: str, deadline: Deadline | None = None) -> bool:
    """Complete a grammar's classifier now.

    Args:
        compiled: a grammar on any strategy.
        budget: bounds of the tables.
        why: what to add to the grammar's `reason`.
        deadline: when to give up.

    Returns:
        Whether the classifier is complete; False if the grammar has none that can be completed.

    Raises:
        BudgetExceeded: the bytes or states exceed the budget, or the deadline is over. The states computed so
            far are kept.
    """
    if not isinstance(compiled, Classified):
        return False
    classifier = compiled.classifier
    if classifier.is_complete:
        return True
    if isinstance(compiled, OnWalks):
        compiled.settle(deadline or compiled.deferred.deadline())
    work = _completing(compiled, budget)
    while work.piece():
        if deadline is not None:
            deadline.check("the classifier's states")
    work.finish()
    if not classifier.served:
        with classifier.lock:
            classifier.renew()  # a session that starts with all states has fewer of them, and larger tables
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
    """Compute again which stacks a grammar's network allows: the grammar was read from a file, or its states
    exceeded the bounds.

    Raises:
        BudgetExceeded: the network is not the same as when the file was written.
    """
    fixed = compiled.classifier._fixed
    trie = compiled.vocabulary.trie
    read = read_grammar(compiled.grammar)
    if not compiled.classifier.by_text:
        read, _ = ids_as_bytes(read)
    network = build_network(read, token_bytes=trie.longest, max_states=budget.states)
    is_same = len(network.automaton) == len(fixed.net) and network.start == fixed.start
    for place, (built, kept) in enumerate(zip(network.automaton, fixed.net, strict=False)):
        # a classifier's counters go further than one token reaches
        columns = slice(None) if place < 5 else slice(3)
        is_same = is_same and built.shape == kept.shape
        is_same = is_same and np.array_equal(built[..., columns], kept[..., columns])
    if not is_same:
        raise BudgetExceeded("its network was built by another version of the code")
    return reachable_of(network)


class Promoter:
    """Promotes the grammars of one compiler when that pays off. Thread-safe.

    Args:
        budget: bounds of one promotion; its seconds only count in the background.
        deterministic: promote nothing in the background.
        count: called with "promotions_done", "promotions_given_up" or "promotions_dropped" for each.
        disk: the folder in which the files of promoted grammars are replaced.
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
        shutdown.at_exit(self._leave)

    def _in_child(self) -> None:
        """A forked process has no such thread. Its work is requested again when the grammar is used again."""
        left = [self._at_work, *self._waiting]
        self._waiting.clear()
        self._thread = self._at_work = None
        self._hurry = threading.Event()  # the lock of the old one may have been held
        for work in left:
            compiled = None if work is None else work.reference()
            if compiled is not None and compiled.classifier is not None:
                compiled.classifier.look_at = 0

    def watch(self, compiled: CompiledGrammar, entry: bytes | None = None) -> None:
        """Watch a grammar, to promote it when it has been used enough. `entry` is its entry on disk."""
        if not isinstance(compiled, Classified) or compiled.classifier.is_complete:
            return
        if compiled.classifier.is_walked:
            choice = choose_classes(Use(sequences=1, states=compiled.classifier.n_network_states))
            compiled.classifier.look_entered = enough_entered(compiled.classifier.n_network_states)
        else:
            choice = choose_promotion(Use(deterministic=self._deterministic))
        compiled.classifier.look = _Watch(weakref.ref(self), weakref.ref(compiled), entry)
        compiled.classifier.look_at = choice.ask_at or NEVER

    def take_over(self, compiled: CompiledGrammar) -> None:
        """Watch a grammar of another compiler, if that compiler is gone or closed."""
        watch = None if compiled.classifier is None else compiled.classifier.look
        if isinstance(watch, _Watch) and not watch.is_alive and not self._is_closed:
            watch.promoter = weakref.ref(self)

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    def at_once(self, compiled: CompiledGrammar, deadline: Deadline, must: bool = False) -> None:
        """Promote a static grammar now.

        Args:
            compiled: a grammar on any strategy. Only those with a classifier can be promoted.
            deadline: the caller's deadline.
            must: raise an error if the budget is exceeded, instead of leaving the grammar on demand.

        Raises:
            BudgetExceeded: see `must`; or the call was cancelled.
        """
        classifier = compiled.classifier
        if classifier is None or classifier.is_complete or (classifier.is_refused and not must):
            return
        use = Use(classifier.served, classifier.n_found, static=True, deterministic=self._deterministic)
        if not choose_promotion(use).now:
            return
        try:
            if not promoted(compiled, self._budget, "promoted at once because it is static", deadline):
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
        """Queue a grammar for promotion. If `whole` is False, only its classes are computed."""
        self._submit(_Work(compiled, entry, whole))

    def write(self, compiled: CompiledGrammar, entry: bytes) -> None:
        """Queue a grammar whose classes are to be computed and written to disk, even if nobody uses it any
        more."""
        if sum(work.is_for_disk for work in list(self._waiting)) < MOST_TO_WRITE:
            begin = time.perf_counter() + WRITE_AFTER
            self._submit(_Work(lambda: compiled, entry, False, True, begin))

    def _submit(self, work: _Work) -> None:
        with self._lock:
            if self._is_closed:
                return
            self._waiting.append(work)
            # after a fork the old thread is not alive
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name="equimask-promotion", daemon=True)
                self._thread.start()

    def close(self, seconds: float | None = None) -> None:
        """Stop promoting: the current promotion stops after its piece. Queued files are still written.

        Args:
            seconds: how long to wait for the files; those not started by then are dropped.
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
        """At the end of the program: no thread should be inside of a kernel then."""
        self.close(LEAVE_SECONDS)

    def wait(self) -> None:
        """Wait until everything is promoted and written."""
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
            except Exception:  # nobody waits for this thread, and the grammar stays usable
                logger.exception("a promotion failed; its grammar stays on demand")
                self._count("promotions_given_up")
            del work  # it may keep the grammar alive

    def _promote(self, asked: _Work) -> None:
        reference, entry, whole, is_for_disk = asked[:4]
        compiled = reference()
        if not isinstance(compiled, Classified):
            self._count("promotions_dropped")
            return
        if compiled.classifier.is_complete:
            return  # `at_once` has done it meanwhile
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
                del compiled  # so that this thread keeps no grammar alive while it sleeps
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
        """Remember that a grammar exceeds the budget."""
        assert compiled.classifier is not None
        compiled.classifier.is_refused = True
        _say(compiled, f"not promoted: {error}")
        self._count("promotions_given_up")

    def _write(self, compiled: OnWalks, entry: bytes | None, deadline: Deadline) -> None:
        """Compute the classes of a grammar and write it, unless another process does so or has done so."""
        if self._disk is not None and entry is not None:
            with self._disk.claimed(entry) as is_ours:
                if is_ours:
                    compiled.settle(deadline)
                    self._disk.keep(entry, compiled)

    def _keep(self, compiled: CompiledGrammar, entry: bytes | None) -> None:
        if self._disk is not None and entry is not None:
            self._disk.keep(entry, compiled)


def _say(compiled: CompiledGrammar, what: str) -> None:
    """Add a note to the grammar's reason and to the log."""
    compiled.note(what)
    logger.debug("a grammar on demand: %s", what)


class _Work(NamedTuple):
    """An item of the thread's queue.

    Attributes:
        reference: returns the grammar, or None if nobody uses it any more.
        entry: its entry on disk.
        whole: whether to compute all its states, or only its classes.
        is_for_disk: whether to write it as soon as it has classes.
        begin: earliest time to start, by the performance counter, unless somebody waits for it.
    """

    reference: Callable[[], CompiledGrammar | None]
    entry: bytes | None
    whole: bool
    is_for_disk: bool = False
    begin: float = 0.0


class _Watch:
    """Asks the rule about one grammar whenever enough sequences have started."""

    def __init__(
        self, promoter: weakref.ref[Promoter], compiled: weakref.ref[CompiledGrammar], entry: bytes | None
    ) -> None:
        self.promoter, self._compiled, self.entry = promoter, compiled, entry
        self._lock = forking.listed(threading.Lock(), forking.Order.BRIEF)
        self._found = 0

    @property
    def is_alive(self) -> bool:
        """Whether its promoter still exists and is open."""
        promoter = self.promoter()
        return promoter is not None and not promoter.is_closed

    def __call__(self) -> None:
        compiled, promoter = self._compiled(), self.promoter()
        if compiled is None or compiled.classifier is None:
            return
        classifier = compiled.classifier
        with self._lock:
            if classifier.served < classifier.look_at:
                return  # another thread has asked
            use = Use(classifier.served, classifier.n_found, self._found, classifier.n_network_states)
            self._found = use.found
            if classifier.is_walked:
                choice, whole = choose_classes(use._replace(entered=classifier.n_entered)), False
            else:
                choice, whole = choose_promotion(use), True
            classifier.look_at = choice.ask_at or NEVER
            if choice.now and not self.is_alive:
                # perhaps another compiler takes over before it is asked again
                classifier.look_at = 2 * use.sequences
                return
        if choice.now and promoter is not None:
            promoter.submit(self._compiled, self.entry, whole)
