# cython: language_level=3
# mypy: ignore-errors
"""The time limit of one mask, and of one token, `Budget.mask_seconds`.

What: `limited` stops the kernels that compute a mask or read a token; `check_time` checks afterwards, where
an engine was called that cannot be stopped.
When: for each mask and each step that is not cached, if there is a limit.
Limits: the clock is checked in each new step of a parser, for each new state that is read on a stack of a
Lark grammar, for each set of kinds that is compared with such a stack, and after each call of XGrammar. What
was computed before a stop is kept, so the next attempt gets further.
"""

from __future__ import annotations

from time import perf_counter

import cython
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.deadline.clock import read
from cython.cimports.equivalence.deadline.deadline import Deadline, Stop
from cython.cimports.equivalence.source_check import check_source

from equivalence import BudgetExceeded

check_source(__name__)

A_TOKEN, A_TEXT = "reading a token", "reading a text"
"""The phases of a token and of a text, for errors."""

TEXT_BYTES = 4096
"""`accept_string` may take the time of one token for so many bytes, the length of the longest token."""


class TooSlow(BudgetExceeded):
    """A mask, or reading a token or a text, took longer than `Budget.mask_seconds`; nothing was changed."""


def too_slow(phase: str, seconds: float, most: float) -> TooSlow:
    """The error of something that took some seconds, and may take `most`."""
    return TooSlow(
        f"{phase} took {seconds:.3g} s or more, but the limit is {most:g} s (Budget.mask_seconds); "
        "end this sequence, or raise Budget.mask_seconds"
    )


@cython.cclass
class StepDeadline(Deadline):
    """The end of one mask, token or text."""

    def error(self, phase: str) -> BudgetExceeded:
        return too_slow(phase, read() - self._ends + self.seconds, self.seconds)


@cython.final
@cython.cclass
class limited:  # noqa: N801 - called like a function
    """Limits the time of a ``with`` statement.

    Args:
        account: of the tables that are computed, `equivalence.arrays.account.Account`.
        most: seconds; None: no limit.
        phase: what takes this time, for the error.

    Raises:
        TooSlow: the time is up. The tables are still valid.
    """

    _account: Account
    _deadline: StepDeadline
    _phase: object

    def __init__(self, account: Account, most: float | None, phase: str = "a mask") -> None:
        self._account, self._phase = account, phase
        self._deadline = None if most is None else StepDeadline(most)

    def __enter__(self) -> None:
        if self._deadline is not None:
            self._account.stop_by(Stop(self._deadline, self._phase))

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._deadline is not None:
            self._account.stop_by(None)
            if kind is None and self._deadline.passed(read()):
                raise self._deadline.error(self._phase)


def seconds_of_text(most: float | None, text: bytes) -> float | None:
    """How long a text may take, if a token may take `most` seconds."""
    return None if most is None else most * (1 + len(text) // TEXT_BYTES)


def check_time(began: float, most: float | None, phase: str = "a mask") -> None:
    """Check how long a mask, or another phase, took.

    Raises:
        TooSlow: too long.
    """
    if most is not None and (seconds := perf_counter() - began) > most:
        raise too_slow(phase, seconds, most)
