"""Our errors as programs written for XGrammar expect them.

What: XGrammar raises `RuntimeError`, or something more special, such as `InvalidJSONError`, that is one; and
`TypeError` for arguments of most types that it does not take. What leaves this package is an error of
XGrammar's type where there is one, else ours, which then is a `RuntimeError` besides what it is. Errors of
arguments, stop tokens and bitmasks are `TypeError` as well.
When: around every call of `hybrid` that may raise.
Limits: messages are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from equivalence import ArgumentError, BitmaskError, GrammarError, HybridError, VocabularyError

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
            return type(cause)(str(error)) if isinstance(cause, RuntimeError) else cause
    kind = _expected_kind(type(error))
    return error if kind is type(error) else kind(*error.args).with_traceback(error.__traceback__)


OF_ARGUMENTS = (ArgumentError, BitmaskError, VocabularyError)

_kinds: dict[type[HybridError], type[HybridError]] = {}


def _expected_kind(kind: type[HybridError]) -> type[HybridError]:
    """One of our errors, or a subclass that goes by the same name and is what XGrammar's would be too."""
    if kind not in _kinds:
        wanted: tuple[type[Exception], ...] = (RuntimeError,)
        if issubclass(kind, OF_ARGUMENTS):
            wanted += (TypeError,)
        missing = tuple(one for one in wanted if not issubclass(kind, one))
        names = {"__module__": kind.__module__, "__doc__": kind.__doc__}
        _kinds[kind] = type(kind.__name__, (kind, *missing), names) if missing else kind
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
