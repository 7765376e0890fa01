"""Values of context variables during one call.

What: `with_value` makes a call during which a context variable has a value.
When: for what deep code needs and its callers do not pass on: a deadline, a source of automata.
Limits: other variables that the call sets are restored, too.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import TypeVar

Value = TypeVar("Value")
Result = TypeVar("Result")


def with_value(variable: ContextVar[Value], value: Value, call: Callable[[], Result]) -> Result:
    """Make a call while a variable has a value. `Context.run` restores it in C: in Python, Ctrl-C at the
    beginning of ``__exit__`` left the value in place for the rest of the thread."""
    context = copy_context()
    context.run(variable.set, value)
    return context.run(call)
