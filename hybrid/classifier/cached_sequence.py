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
from cython.cimports.equivalence.built import EQUIMASK_SOURCE
from cython.cimports.hybrid.classifier.cached_sequence import mask_of, note
from cython.cimports.hybrid.classifier.rows import Rows
from cython.cimports.hybrid.classifier.steps import Steps

from equivalence import MatcherError, built
from equivalence.arrays.growing import bigger
from hybrid.api.follower import ENDED

built.check(__name__, EQUIMASK_SOURCE)


STOP = cython.declare(cython.Py_ssize_t, -1)
"""What was read where it was the stop token; text number n is -2 - n, all others are ids."""

FIRST_STEPS = 64
"""Steps that there is room for at first: 512 bytes."""


@cython.cclass
class CachedSequence:
    """A place in a session.

    Args:
        stops: the ids that end the sequence.

    Attributes:
        config: the configuration.
        first_stop, last_stop: the least and the largest of the stop ids.
        steps, rows: what the session has met.
        made: steps that were made.
        ended: whether the stop token was read.
        history: of each step the configuration before it and what was read; there may be room for more.
        brought: steps before this one have configurations of earlier sessions, which nobody knows any more.
        texts: what `accept_string` read, in order.
        session: the session.
    """

    def __init__(self, stops: tuple[int, ...]) -> None:
        self.stops = stops
        self.first_stop = min(stops, default=1)
        self.last_stop = max(stops, default=0)

    def knows_mask(self) -> bool:
        """Whether the mask is known."""
        return mask_of(self) != 0

    def refuse_ended(self) -> None:
        """Raise `MatcherError` if the stop token was accepted."""
        if self.ended:
            raise MatcherError(ENDED)

    def copy_mask(self, words: object) -> int:
        """Write the mask to uint32[words of a row], if it is known; as `Rows.copy`."""
        return self.rows.copy(self.config, words)

    @cython.cfunc
    def make_room(self) -> cython.void:
        """Make room in the history for a step."""
        if 2 * self.made >= self.history.shape[0]:
            self.history = bigger(self.history, 4 * self.made, 2 * self.made)

    def begin(self, session: Any, start: cython.Py_ssize_t, steps: Steps, rows: Rows) -> None:
        """Begin a sequence in a session, at its first configuration."""
        history = np.empty(2 * FIRST_STEPS, np.int32)
        self.session, self.steps, self.rows, self.config = session, steps, rows, start
        self.history, self.texts = history, []
        self.made = self.brought = 0
        self.ended = False

    def enter(self, session: Any, config: cython.Py_ssize_t, steps: Steps, rows: Rows) -> None:
        """Go over to a session, with a configuration of it; the history stays."""
        self.session, self.steps, self.rows, self.config = session, steps, rows, config
        self.brought = self.made

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

    def is_brought(self, steps: cython.Py_ssize_t) -> bool:
        """Whether the configuration after so many steps is of an earlier session."""
        return steps < self.brought

    def go_back(self, steps: cython.Py_ssize_t, config: cython.Py_ssize_t = -1) -> None:
        """Go back to where so many steps were made.

        Args:
            steps: at most those that were made.
            config: the configuration there, where `is_brought`; what is after it is new.
        """
        if steps == self.made:
            return
        if config >= 0:
            self.config, self.brought = config, steps
        else:
            self.config = self.history[2 * steps]
        texts: cython.Py_ssize_t = len(self.texts)
        for i in range(steps, self.made):
            texts -= self.history[2 * i + 1] < STOP
        del self.texts[texts:]
        self.made, self.ended = steps, False

    def read(self, steps: cython.Py_ssize_t) -> list:
        """What the first steps read: ids, bytes, and `None` for the stop token."""
        found: list = []
        for i in range(steps):
            number = int(self.history[2 * i + 1])  # one of Python's, which tells ids from texts
            found.append(number if number >= 0 else None if number == STOP else self.texts[-2 - number])
        return found

    def follow(self, other: CachedSequence) -> None:
        """Go where another one of the same grammar and stop ids stands; both go on by themselves."""
        history = np.array(other.history)
        self.texts = other.texts[:]
        self.session, self.steps, self.rows, self.config = (
            other.session, other.steps, other.rows, other.config
        )  # fmt: skip
        self.history, self.made, self.brought, self.ended = history, other.made, other.brought, other.ended
