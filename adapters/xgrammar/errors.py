"""Our errors as programs written for XGrammar expect them.

What: XGrammar raises `RuntimeError`, and where it raises something more special, such as `InvalidJSONError`,
that is a `RuntimeError` too. What leaves this package is XGrammar's own error where there is one, else ours,
which then is a `RuntimeError` besides what it is.
When: around every call of `hybrid` that may raise.
Limits: messages are ours where the error is ours.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from equivalence import GrammarError, HybridError

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")


def as_xgrammar(error: HybridError) -> Exception:
    """The error that a program written for XGrammar expects in place of one of ours."""
    cause = error.__cause__
    if (
        isinstance(error, GrammarError)
        and isinstance(cause, Exception)
        and not isinstance(cause, HybridError)
    ):
        if str(error).startswith("XGrammar "):  # "refuses", "cannot compile"
            return cause
    if isinstance(error, RuntimeError):
        return error
    return _also_runtime_error(type(error))(*error.args).with_traceback(error.__traceback__)


_kinds: dict[type[HybridError], type[HybridError]] = {}


def _also_runtime_error(kind: type[HybridError]) -> type[HybridError]:
    """A subclass of one of our errors that is a `RuntimeError` too, and goes by the same name."""
    if kind not in _kinds:
        names = {"__module__": kind.__module__, "__doc__": kind.__doc__}
        _kinds[kind] = type(kind.__name__, (kind, RuntimeError), names)
    return _kinds[kind]


def with_its_errors(call: Callable[Parameters, Answer]) -> Callable[Parameters, Answer]:
    """A call that raises what `as_xgrammar` says."""

    @wraps(call)
    def called(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Answer:
        try:
            return call(*args, **kwargs)
        except HybridError as error:
            expected = as_xgrammar(error)
            if expected is error:
                raise
            raise expected from None if expected is error.__cause__ else error.__cause__

    return called
