"""How long languages may be made, and how large: the deadline of the schema that is being read.

What: `until` sets it for what is called within, `look` ends what goes on after it. Patterns, products and
minimal automata look once a state or a round, wherever they were asked for from. `TooLarge` ends what needs
more states than its caller allows.
When: `hybrid.json_schema.grammar` sets it for each schema; without one there is no end.
Limits: one for a thread (or a task): a context variable.
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
    """Have everything that is called within end by a deadline."""
    before = _deadline.set(deadline)
    try:
        yield
    finally:
        _deadline.reset(before)


def look() -> None:
    """Go on, if there is time.

    Raises:
        BudgetExceeded: there is none.
    """
    deadline = _deadline.get()
    if deadline is not None:
        deadline.check("making the languages of a schema's texts")
