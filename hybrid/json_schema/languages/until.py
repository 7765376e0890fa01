"""Deadlines and bounds for making languages.

What: `until` sets the deadline of the schema that is being compiled; `look` raises after it. The code for
patterns, products and minimal automata calls `look` once for each state or round, wherever it is called
from. `TooLarge` is raised if a language needs more states than the caller allows.
When: `hybrid.json_schema.grammar` sets the deadline for each schema; otherwise there is none.
Limits: there is one deadline for each thread (or task): it is a context variable.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from equivalence.deadline import Deadline

_deadline: ContextVar[Deadline | None] = ContextVar("deadline of languages", default=None)


class TooLarge(Exception):
    """A language needs more states than a bound allows."""

    def __init__(self, bound: int) -> None:
        super().__init__(f"more than {bound} states")
        self.bound = bound


@contextmanager
def until(deadline: Deadline) -> Iterator[None]:
    """Apply a deadline to everything that is called inside."""
    before = _deadline.set(deadline)
    try:
        yield
    finally:
        _deadline.reset(before)


def look() -> None:
    """Check the deadline.

    Raises:
        BudgetExceeded: it has passed.
    """
    deadline = _deadline.get()
    if deadline is not None:
        deadline.check("making the languages of a schema's texts")
