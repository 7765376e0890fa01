"""Deadlines and bounds for making languages.

What: `with_deadline` sets the deadline of the schema that is being compiled; `check_deadline` raises after
it. The code for patterns, products and minimal automata calls `check_deadline` once for each part of a
pattern, state or round, wherever it is called from. `TooLarge` is raised if a language needs more states than
the caller allows. `MOST_NESTED` bounds all recursion of compiled code.
When: `hybrid.json_schema.grammar` sets the deadline for each schema; otherwise there is none.
Limits: there is one deadline for each thread (or task): it is a context variable.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

from equivalence.context_values import with_value
from equivalence.deadline import Deadline

Result = TypeVar("Result")

_deadline: ContextVar[Deadline | None] = ContextVar("deadline of languages", default=None)


MOST_NESTED = 800
"""Subschemas, or parts of a pattern, that may be nested, by brackets or by references. Compiled code takes
1.1 KB of the thread's stack for each, whatever Python's recursion limit is. 10,000 ended the process."""


class TooLarge(Exception):
    """A language needs more states than a bound allows."""

    def __init__(self, bound: int) -> None:
        super().__init__(f"more than {bound} states")
        self.bound = bound


def with_deadline(deadline: Deadline, call: Callable[[], Result]) -> Result:
    """Make a call with a deadline for everything inside it."""
    return with_value(_deadline, deadline, call)


def check_deadline() -> None:
    """Check the deadline.

    Raises:
        BudgetExceeded: it has passed.
    """
    deadline = _deadline.get()
    if deadline is not None:
        deadline.check("making the languages of a schema's texts")
