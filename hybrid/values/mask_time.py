"""The time limit of one mask, `Budget.mask_seconds`.

What: `limited` stops the kernels that compute a mask; `check_time` checks afterwards, where an engine
computed it that cannot be stopped.
When: for each mask that is not cached, if there is a limit.
Limits: the clock is checked for each new step of a parser, for each new state that is read on a stack of a
Lark grammar, for each set of kinds that is compared with such a stack, and after each call of XGrammar. What
was computed before a stop is kept, so the next attempt gets further.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from equivalence import BudgetExceeded
from equivalence.deadline import Deadline


class MaskTooSlow(BudgetExceeded):
    """A mask took longer than `Budget.mask_seconds`; its row was not written."""


def too_slow(seconds: float, most: float) -> MaskTooSlow:
    """The error of a mask that took some seconds, and may take `most`."""
    return MaskTooSlow(
        f"a mask took {seconds:.3g} s or more, but the limit is {most:g} s (Budget.mask_seconds); "
        "end this sequence, or raise Budget.mask_seconds"
    )


class _MaskDeadline(Deadline):
    """The end of the computation of one mask."""

    def __init__(self, most: float) -> None:
        super().__init__(most)
        self._began, self._most = perf_counter(), most

    def error(self, phase: str) -> BudgetExceeded:
        return too_slow(perf_counter() - self._began, self._most)


@contextmanager
def limited(account: Any, most: float | None) -> Iterator[None]:
    """Limit the time of a ``with`` statement.

    Args:
        account: of the tables that are computed, `equivalence.arrays.account.Account`.
        most: seconds; None: no limit.

    Raises:
        MaskTooSlow: the time is up. The tables are still valid.
    """
    if most is None:
        yield
        return
    deadline = _MaskDeadline(most)
    with deadline.stopping("a mask") as stop:
        account.stop_by(stop)
        try:
            yield
        finally:
            account.stop_by(None)
    if deadline.is_over:
        raise deadline.error("a mask")


def check_time(began: float, most: float | None) -> None:
    """Check how long a mask took.

    Raises:
        MaskTooSlow: too long.
    """
    if most is not None and (seconds := perf_counter() - began) > most:
        raise too_slow(seconds, most)
