# cython: language_level=3
# mypy: ignore-errors
"""The state of one sequence: its configuration, its history, and the caches of its session.

What: `CachedSequence` holds a configuration and the tables in which cached steps and masks are found. On a
cache miss, it asks the session's store for the step or the mask, with the classifier's lock held, and caches
it. Its history is an array of (configuration, what was read there), which is what rolling back needs; text is
kept beside it.
When: the base class of `hybrid.classifier.follower.ClassifierFollower`, called by `hybrid.api.calls.Calls`.
Limits: one call at a time for each sequence, like all calls of a matcher. If the session is over, its tables
are full, or an id is read as text and as an id at once, it says so and has changed nothing. Each method that
computes nothing is atomic for threads and signals: all Python code that it runs comes before the first
change.

Misses are handled in compiled code, too, because half of the steps and masks of a schema that is used once
are new. In Python, through the methods of matcher, follower, classifier and session, each took 2 to 3 us
longer.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.classifier.base_store import BaseStore
from cython.cimports.hybrid.classifier.cached_sequence import note
from cython.cimports.hybrid.classifier.named_ids import NamedIds
from cython.cimports.hybrid.classifier.rows import Rows, address_of_stops, is_stop_at, source_of
from cython.cimports.hybrid.classifier.step_cache import StepCache

from equivalence import BudgetExceeded, MatcherError
from equivalence.arrays.dynamic_arrays import bigger
from hybrid.values.follower import ENDED
from hybrid.values.mask_time import A_TOKEN, TooSlow, limited

check_source(__name__)


STOP = cython.declare(cython.Py_ssize_t, -1)
"""In the history, this stands for the stop token; -2 - n stands for text number n, other numbers are ids."""

FIRST_STEPS = 64
"""Initial room for steps: 512 bytes."""


@cython.cclass
class CachedSequence:
    """A place in a session, and the classifier that computes what is new there.

    Args:
        compiled: the compiled grammar.
        classifier: its classifier.
        stops: the ids that end the sequence.

    Attributes:
        mask_seconds: `Budget.mask_seconds`.
        configuration: what it has read, as stacks of the parser.
        first_stop, last_stop: the smallest and the largest stop id.
        steps, rows: the cached steps and masks of the session.
        n_steps: number of steps that were made.
        ended: whether the stop token was read.
        history: for each step, the configuration before it and what was read; it may be longer than needed.
        first_known: configurations of steps before this one belonged to earlier sessions, and are not known
            any more.
        texts: what `accept_string` read, in order.
        session: the session.
    """

    def __init__(self, compiled: Any, classifier: Any, stops: tuple[int, ...]) -> None:
        self.compiled, self.classifier = compiled, classifier
        self.mask_seconds = compiled.mask_seconds
        self.tokens = compiled.vocabulary.tokens
        self.ids: NamedIds | None = classifier.ids
        self.stops = stops
        self.first_stop = min(stops, default=1)
        self.last_stop = max(stops, default=0)

    def refuse_ended(self) -> None:
        """Raise `MatcherError` if the stop token was accepted."""
        if self.ended:
            raise MatcherError(ENDED)

    def make_room(self):
        """Make room for a step in the history."""
        if 2 * self.n_steps >= self.history.shape[0]:
            self.history = bigger(self.history, 4 * self.n_steps, 2 * self.n_steps)

    def begin(self, session: Any) -> None:
        """Start a sequence at the first configuration of a session."""
        history = np.empty(2 * FIRST_STEPS, np.int32)
        steps: StepCache = session.steps
        rows: Rows = session.rows.get(self.stops)
        if rows is None:  # other threads may ask for the same
            with self.classifier.lock:
                rows = session.rows_for(self.stops)
        start: cython.Py_ssize_t = session.start
        self.session, self.steps, self.rows, self.configuration = session, steps, rows, start
        self.history, self.texts = history, []
        self.n_steps = self.first_known = 0
        self.ended = False

    def enter(self, session: Any, configuration: cython.Py_ssize_t) -> None:
        """Move to a session, given the configuration in it; the history is unchanged."""
        steps: StepCache = session.steps
        rows: Rows = session.rows_for(self.stops)
        self.session, self.steps, self.rows, self.configuration = session, steps, rows, configuration
        self.first_known = self.n_steps

    def advance(self, token: cython.Py_ssize_t, after: cython.Py_ssize_t) -> None:
        """Advance by a token."""
        self.make_room()
        note(self, token, after)

    def end(self) -> None:
        """Advance by the stop token."""
        self.make_room()
        note(self, STOP, self.configuration)
        self.ended = True

    def advance_text(self, text: bytes, after: cython.Py_ssize_t) -> None:
        """Advance by text."""
        self.make_room()
        number: cython.Py_ssize_t = len(self.texts)
        self.texts.append(text)
        note(self, -2 - number, after)

    def go_back(self, steps: cython.Py_ssize_t, configuration: cython.Py_ssize_t = -1) -> None:
        """Go back to the place after some steps.

        Args:
            steps: at most the number of steps made.
            configuration: the configuration there; needed if the history has only that of an earlier session.
                The history then starts again at this place.
        """
        if steps == self.n_steps:
            return
        if configuration >= 0:
            self.configuration, self.first_known = configuration, steps
        else:
            self.configuration = self.history[2 * steps]
        texts: cython.Py_ssize_t = len(self.texts)
        for i in range(steps, self.n_steps):
            texts -= self.history[2 * i + 1] < STOP
        del self.texts[texts:]
        self.n_steps, self.ended = steps, False

    def read(self, steps: cython.Py_ssize_t) -> list:
        """What the first steps have read: ids, bytes, and `None` for the stop token."""
        found: list = []
        for i in range(steps):
            number = int(self.history[2 * i + 1])  # of Python's type, to tell ids from texts
            found.append(number if number >= 0 else None if number == STOP else self.texts[-2 - number])
        return found

    def follow(self, other: CachedSequence) -> None:
        """Copy the place of another sequence with the same grammar and stop ids; then both are
        independent."""
        history = np.array(other.history)
        self.texts = other.texts[:]
        self.session, self.steps, self.rows, self.configuration = (
            other.session, other.steps, other.rows, other.configuration
        )  # fmt: skip
        self.history, self.first_known = history, other.first_known
        self.n_steps, self.ended = other.n_steps, other.ended

    # ---------------------------------------------------------------- cache misses

    def is_current(self, session: object) -> bool:
        """Whether a session is the classifier's current one, and has room."""
        return self.has_room(session)

    def has_room(self, session):
        """`is_current` for compiled code."""
        return session is self.classifier.session and session.left > 0

    def compute_step(self, token):
        """Advance by a token whose step is not cached. 1: done; 0: not accepted; -1: it could not be
        computed. Raises like `step_of`.

        Args:
            token: not negative.
        """
        if self.ended:
            return -1
        after = self.step_of(self.configuration, token)
        if after <= 0:
            return cython.cast(cython.int, after)
        self.make_room()
        note(self, token, after)
        return 1

    def step_of(self, configuration, token):
        """Cache the step of any configuration of the session. Return the configuration after it, 0 if the
        token is not accepted, or -1 if it could not be computed.

        Args:
            token: not negative.

        Raises:
            TooSlow: it took longer than `Budget.mask_seconds`.
        """
        session = self.session
        if token >= self.rows.gather.vocab_size or not self.has_room(session):
            return -1
        is_stop = is_stop_at(address_of_stops(self.rows), self.rows.stops.shape[0], token)
        if is_stop or not self.tokens[token]:
            return -1
        after: cython.Py_ssize_t = 0
        with self.classifier.lock:
            try:
                if self.mask_seconds is None:  # saves two microseconds
                    after = self.step_unlimited(session.store, configuration, token)
                else:
                    with limited(session.store.account, self.mask_seconds, A_TOKEN):
                        after = self.step_unlimited(session.store, configuration, token)
            except TooSlow:
                raise
            except BudgetExceeded:
                return -1
            if after < 0:
                return -1
            if self.steps.is_full:  # otherwise save a call
                session.remember(configuration, token, after)
            else:
                self.steps.add(configuration, token, after)
        return after

    def step_unlimited(self, store, configuration, token):
        """`step_of` without a time limit; the step is not cached."""
        if self.ids is None:
            return store.advance(configuration, token)  # type: ignore[attr-defined, no-any-return]
        return self.ids.step(store, configuration, token)

    def computes_mask(self) -> bool:
        """`compute_mask` for Python."""
        return self.compute_mask()

    def compute_mask(self):
        """Compute and cache the mask. Return whether that was possible. Raises like `mask_at`."""
        return not self.ended and self.mask_at(self.configuration)

    def mask_at(self, configuration):
        """Compute and cache the mask of any configuration of the session. Return whether that was possible.

        Raises:
            TooSlow: it took longer than `Budget.mask_seconds`.
        """
        session, classifier, compiled = self.session, self.classifier, self.compiled
        if not self.has_room(session):
            return False
        began = perf_counter()
        with classifier.lock:
            try:
                self.make_row(session, self.rows, configuration)
            except TooSlow:
                raise
            except BudgetExceeded:
                return False
        if compiled.awaited is not None:
            compiled.first_mask_took(perf_counter() - began)
        return source_of(self.rows, configuration) != 0

    def make_row(self, session: object, rows: Rows, configuration: cython.Py_ssize_t) -> cython.int:
        """Compute the mask of a configuration, and cache it in rows of the session. The classifier's lock
        must be held.

        Raises:
            TooSlow: it took longer than `Budget.mask_seconds`.
            BudgetExceeded: the tables are full.
        """
        if self.mask_seconds is None:  # saves a microsecond
            return self.make_row_unlimited(session, rows, configuration)
        with limited(session.store.account, self.mask_seconds):
            return self.make_row_unlimited(session, rows, configuration)

    def make_row_unlimited(self, session, rows, configuration):
        """`make_row` without a time limit."""
        store: BaseStore = session.store
        mask = store.class_mask(configuration)
        if self.ids is not None or not rows.shares(configuration, mask):
            before = rows.nbytes
            if self.ids is None:
                rows.make(configuration, mask, mask, store.masks)
            else:
                self.ids.note_mask(session.numbers, store, rows, configuration, mask)
            session.left -= rows.nbytes - before
