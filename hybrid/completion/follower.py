"""Follows a sequence whose text must be complete within a number of tokens.

What: a `LimitedFollower` contains another follower, of any strategy. Its masks are those of the inner one
without the tokens after which no completion is known that fits into the remaining tokens: the masks of
`hybrid.GrammarMatcher.fill_limited_bitmask`. If the text is complete and no token is left, only stop tokens
remain. It counts what is read and taken back, so that drafts, trees of drafts and batches get the masks of
their places.
When: used by `hybrid.GrammarMatcher.limit_tokens`.
Limits: those of `completion.py`. If no completion fits, the mask is the inner one's: either the text
contains something that was masked out, such as a draft that will be rejected, or the limit was too small
from the start.

Most masks cost nothing: `Completion.count_untouched` says how many masks from a place on are the same as
the inner one's, whatever is read meanwhile. It is asked again after these.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from equivalence import BudgetExceeded, MatcherError
from hybrid.completion.completion import Completion
from hybrid.completion.plans import Place, TooLong
from hybrid.values.follower import Follower
from hybrid.values.gather import Gather


class LimitedFollower(Follower):
    """A follower with a limit of tokens.

    Args:
        inner: the follower of the grammar.
        completion: the completion of the same grammar, with the same stop ids.
        left: how many more tokens may follow.
        stops: ids that end the sequence.
        with_stop: keep one of the tokens for a stop token, if there is room for it.

    Attributes:
        limit_error: why the limit can no longer be kept; None while it is kept. Taking back the step before
            the error removes it: a draft must not cost the text its limit.
    """

    def __init__(
        self, inner: Follower, completion: Completion, left: int, stops: tuple[int, ...], with_stop: bool
    ) -> None:
        super().__init__(inner)
        self._completion, self._stops, self._for_stop = completion, stops, int(with_stop)
        self._most = self.n_steps + left
        self.limit_error: str | None = None
        self._lost_at = 0  # the number of steps before the error
        self._place: Place | None = None
        # masks are the inner one's while more tokens are left than the second, and at most the first
        self._untouched = (-1, -1)

    @property
    def left(self) -> int:
        """How many more tokens may follow; each step, by a token or a text, counts as one."""
        return self._most - self.n_steps

    # masks

    def fill(self, words: Any, debug_print: bool = False) -> bool:
        """See `Follower.fill`."""
        needed = super().fill(words, debug_print)
        if self._is_untouched() or self.limit_error is not None:
            return needed
        try:
            return self._close(words) or needed
        except BudgetExceeded as error:
            self.limit_error, self._lost_at = str(error), self.n_steps
        return needed

    def fill_by_class(self, words: Any) -> Gather | None:
        """See `Follower.fill_by_class`."""
        if not self._is_untouched() and self.limit_error is None:
            return None
        found: Gather | None = self._delegate("fill_by_class", words)
        return found

    def _is_untouched(self) -> bool:
        most, least = self._untouched
        return least < self.left <= most

    def _close(self, words: NDArray[np.uint32]) -> bool:
        """Remove from a mask the tokens that leave no room. Return whether it had any."""
        left, for_stop = self.left, self._for_stop
        if 0 <= left <= for_stop and self.is_completed():
            stops = self._stops_of(words)
            if stops.any():  # else the sequence ends without one
                restricted = not np.array_equal(words, stops)
                words[:] = stops
                return restricted
        text = self.text_read()
        n_untouched, self._place = self._completion.count_untouched(text, self._place, left - for_stop)
        if n_untouched:
            self._untouched = left, left - n_untouched
            return False
        for fitting in range(max(left - for_stop, 1), left + 1):
            mask = words.copy()
            try:
                restricted, self._place = self._completion.restrict(text, self._place, fitting, mask)
            except (MatcherError, TooLong):
                continue
            words[:] = mask
            return restricted
        return False

    def _stops_of(self, words: NDArray[np.uint32]) -> NDArray[np.uint32]:
        stops = np.zeros_like(words)
        for stop in self._stops:
            stops[stop >> 5] |= words[stop >> 5] & np.uint32(1 << (stop & 31))
        return stops

    # tokens and text

    def accept_string(self, text: bytes, debug_print: bool = False) -> bool:
        """See `Follower.accept_string`."""
        self._untouched = (-1, -1)  # a text may be longer than any token
        return super().accept_string(text, debug_print)

    def rollback(self, steps: int) -> None:
        """See `Follower.rollback`."""
        if self.left + steps > self._untouched[0]:
            self._untouched = (-1, -1)  # it is before the place for which that was computed
        super().rollback(steps)
        if self.n_steps < self._lost_at:
            self.limit_error = None
