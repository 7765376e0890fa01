"""The time limit of one mask, `Budget.mask_seconds`.

What: a `MaskDeadline` stops the kernels that compute a mask; `check_time` checks afterwards, where an engine
computed it that cannot be stopped.
When: for each mask that is not cached, if there is a limit.
Limits: the clock is checked for each new step of a parser, and after each call of XGrammar.
"""

from __future__ import annotations

from time import perf_counter

from equivalence import BudgetExceeded
from equivalence.deadline import Deadline


class MaskTooSlow(BudgetExceeded):
    """A mask took longer than `Budget.mask_seconds`; its row was not written."""

    def __init__(self, seconds: float, most: float) -> None:
        super().__init__(
            f"a mask took {seconds:.3g} s or more, but the limit is {most:g} s (Budget.mask_seconds); "
            "end this sequence, or raise Budget.mask_seconds"
        )


class MaskDeadline(Deadline):
    """The end of the computation of one mask.

    Args:
        most: `Budget.mask_seconds`.
    """

    def __init__(self, most: float) -> None:
        super().__init__(most)
        self._began = perf_counter()

    def error(self, phase: str) -> BudgetExceeded:
        """The error if it is over."""
        assert self.seconds is not None
        return MaskTooSlow(perf_counter() - self._began, self.seconds)


def check_time(began: float, most: float | None) -> None:
    """Check how long a mask took.

    Raises:
        MaskTooSlow: too long.
    """
    if most is not None and (seconds := perf_counter() - began) > most:
        raise MaskTooSlow(seconds, most)
