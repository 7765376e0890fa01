# cython: language_level=3
# mypy: ignore-errors
"""The state of one sequence: its configuration, its history, and the caches of its session.

What: `CachedSequence` holds a configuration and the tables in which cached steps and masks are found. Its
history is an array of (configuration, what was read there), which is what rolling back needs; text is kept
beside it.
When: the base class of `hybrid.classifier.computing_sequence.ComputingSequence`.
Limits: it computes nothing. Each method is atomic for threads and signals: all Python code that it runs comes
before the first change.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.classifier.cached_sequence import note
from cython.cimports.hybrid.classifier.rows import Rows
from cython.cimports.hybrid.classifier.step_cache import StepCache

from equivalence import MatcherError
from equivalence.arrays.dynamic_arrays import bigger
from hybrid.values.follower import ENDED

check_source(__name__)


STOP = cython.declare(cython.Py_ssize_t, -1)
"""In the history, this stands for the stop token; -2 - n stands for text number n, other numbers are ids."""

FIRST_STEPS = 64
"""Initial room for steps: 512 bytes."""


@cython.cclass
class CachedSequence:
    """A place in a session.

    Args:
        stops: the ids that end the sequence.

    Attributes:
        config: the configuration.
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

    def __init__(self, stops: tuple[int, ...]) -> None:
        self.stops = stops
        self.first_stop = min(stops, default=1)
        self.last_stop = max(stops, default=0)

    def refuse_ended(self) -> None:
        """Raise `MatcherError` if the stop token was accepted."""
        if self.ended:
            raise MatcherError(ENDED)

    def make_room(self) -> cython.void:
        """Make room for a step in the history."""
        if 2 * self.n_steps >= self.history.shape[0]:
            self.history = bigger(self.history, 4 * self.n_steps, 2 * self.n_steps)

    def begin(self, session: Any, start: cython.Py_ssize_t, steps: StepCache, rows: Rows) -> None:
        """Start a sequence in a session, at the session's first configuration."""
        history = np.empty(2 * FIRST_STEPS, np.int32)
        self.session, self.steps, self.rows, self.config = session, steps, rows, start
        self.history, self.texts = history, []
        self.n_steps = self.first_known = 0
        self.ended = False

    def enter(self, session: Any, config: cython.Py_ssize_t, steps: StepCache, rows: Rows) -> None:
        """Move to a session, given the configuration in it; the history is unchanged."""
        self.session, self.steps, self.rows, self.config = session, steps, rows, config
        self.first_known = self.n_steps

    def advance(self, token: cython.Py_ssize_t, after: cython.Py_ssize_t) -> None:
        """Advance by a token."""
        self.make_room()
        note(self, token, after)

    def end(self) -> None:
        """Advance by the stop token."""
        self.make_room()
        note(self, STOP, self.config)
        self.ended = True

    def advance_text(self, text: bytes, after: cython.Py_ssize_t) -> None:
        """Advance by text."""
        self.make_room()
        number: cython.Py_ssize_t = len(self.texts)
        self.texts.append(text)
        note(self, -2 - number, after)

    def go_back(self, steps: cython.Py_ssize_t, config: cython.Py_ssize_t = -1) -> None:
        """Go back to the place after some steps.

        Args:
            steps: at most the number of steps made.
            config: the configuration there; needed if the history has only that of an earlier session. The
                history then starts again at this place.
        """
        if steps == self.n_steps:
            return
        if config >= 0:
            self.config, self.first_known = config, steps
        else:
            self.config = self.history[2 * steps]
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
        self.session, self.steps, self.rows, self.config = (
            other.session, other.steps, other.rows, other.config
        )  # fmt: skip
        self.history, self.first_known = history, other.first_known
        self.n_steps, self.ended = other.n_steps, other.ended
