# cython: language_level=3
# mypy: ignore-errors
"""A sequence that computes what its session has not cached: new steps and new masks.

What: on a cache miss, `ComputingSequence` asks the session's store for the step or the mask, with the
classifier's lock held, and caches it. If the session is over, its tables are full, or an id is read as text
and as an id at once, it says so and has changed nothing.
When: the base class of `hybrid.classifier.follower.ClassifierFollower`, called by `hybrid.api.calls.Calls`.
Limits: one call at a time for each sequence, like all calls of a matcher.

Half of the steps and masks of a schema that is used once are new. In Python, through the methods of matcher,
follower, classifier and session, each took 2 to 3 us longer.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import cython
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.classifier.base_store import BaseStore
from cython.cimports.hybrid.classifier.cached_sequence import CachedSequence, note
from cython.cimports.hybrid.classifier.named_ids import NamedIds
from cython.cimports.hybrid.classifier.rows import Rows, source_of

from equivalence import BudgetExceeded
from hybrid.values.mask_time import MaskTooSlow, limited

check_source(__name__)


@cython.cclass
class ComputingSequence(CachedSequence):
    """A place in a session, and the classifier that computes what is new there.

    Args:
        compiled: the compiled grammar.
        classifier: its classifier.
        stops: the ids that end the sequence.
    """

    def __init__(self, compiled: Any, classifier: Any, stops: tuple[int, ...]) -> None:
        CachedSequence.__init__(self, stops)
        self.compiled, self.classifier = compiled, classifier
        self.tokens = compiled.vocabulary.tokens
        self.ids: NamedIds | None = classifier.ids

    def is_current(self, session: object) -> bool:
        """Whether a session is the classifier's current one, and has room."""
        return self.has_room(session)

    def has_room(self, session: object) -> cython.bint:
        """`is_current` for compiled code."""
        return session is self.classifier.session and session.left > 0

    def compute_step(self, token: cython.Py_ssize_t) -> cython.int:
        """Advance by a token whose step is not cached. 1: done; 0: not accepted; -1: it could not be
        computed.

        Args:
            token: not negative.
        """
        if self.ended:
            return -1
        after = self.step_of(self.config, token)
        if after <= 0:
            return cython.cast(cython.int, after)
        self.make_room()
        note(self, token, after)
        return 1

    def step_of(self, config: cython.Py_ssize_t, token: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Cache the step of any configuration of the session. Return the configuration after it, 0 if the
        token is not accepted, or -1 if it could not be computed.

        Args:
            token: not negative.
        """
        session = self.session
        if token >= self.rows.gather.vocab_size or not self.has_room(session):
            return -1
        for i in range(self.rows.stops.shape[0]):
            if self.rows.stops[i] == token:
                return -1
        if not self.tokens[token]:
            return -1
        after: cython.Py_ssize_t = 0
        with self.classifier.lock:
            try:
                if self.ids is None:
                    after = session.store.advance(config, token)
                else:
                    after = self.ids.step(session.store, config, token)
                    if after < 0:
                        return -1
            except BudgetExceeded:
                return -1
            if self.steps.is_full:  # otherwise save a call
                session.remember(config, token, after)
            else:
                self.steps.add(config, token, after)
        return after

    def computes_mask(self) -> bool:
        """`compute_mask` for Python."""
        return self.compute_mask()

    def compute_mask(self) -> cython.bint:
        """Compute and cache the mask. Return whether that was possible. Raises like `mask_at`."""
        return not self.ended and self.mask_at(self.config)

    def mask_at(self, config: cython.Py_ssize_t) -> cython.bint:
        """Compute and cache the mask of any configuration of the session. Return whether that was possible.

        Raises:
            MaskTooSlow: it took longer than `Budget.mask_seconds`.
        """
        session, classifier, compiled = self.session, self.classifier, self.compiled
        if not self.has_room(session):
            return False
        began = perf_counter()
        with classifier.lock:
            try:
                self.make_row(session, self.rows, config)
            except MaskTooSlow:
                raise
            except BudgetExceeded:
                return False
        if compiled.awaited is not None:
            compiled.first_mask_took(perf_counter() - began)
        return source_of(self.rows, config) != 0

    def make_row(self, session: object, rows: Rows, config: cython.Py_ssize_t) -> cython.int:
        """Compute the mask of a configuration, and cache it in rows of the session. The classifier's lock
        must be held.

        Raises:
            MaskTooSlow: it took longer than `Budget.mask_seconds`.
            BudgetExceeded: the tables are full.
        """
        if self.compiled.mask_seconds is None:  # saves a microsecond
            return self.make_row_unlimited(session, rows, config)
        with limited(session.store.account, self.compiled.mask_seconds):
            return self.make_row_unlimited(session, rows, config)

    def make_row_unlimited(self, session, rows, config):
        """`make_row` without a time limit."""
        store: BaseStore = session.store
        mask = store.class_mask(config)
        if self.ids is not None or not rows.shares(config, mask):
            before = rows.nbytes
            if self.ids is None:
                rows.make(config, mask, mask, store.masks)
            else:
                self.ids.note_mask(session.numbers, store, rows, config, mask)
            session.left -= rows.nbytes - before
        return 0
