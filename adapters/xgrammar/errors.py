"""Converting our errors to those that programs written for XGrammar expect.

What: XGrammar raises `RuntimeError` or subclasses such as `InvalidJSONError`, and `TypeError` for most
arguments of a wrong type. This package raises XGrammar's type of error if there is one, else one of ours that
is also a `RuntimeError`. Errors about arguments, stop tokens and bitmasks are also `TypeError`s.
When: around every call of `hybrid` that may raise an error.
Limits: messages are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from equivalence import ArgumentError, BitmaskError, GrammarError, HybridError, VocabularyError
from hybrid.guard import worker

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")


def as_xgrammar(error: HybridError) -> Exception:
    """Return the error that a program written for XGrammar expects instead of one of ours."""
    cause = error.__cause__
    if (
        isinstance(error, GrammarError)
        and isinstance(cause, Exception)
        and not isinstance(cause, HybridError)
    ):
        if str(error).startswith("XGrammar "):  # "refuses", "cannot compile"
            if isinstance(cause, worker.Refused):  # of another process, only the text is known
                return RuntimeError(str(error))
            return type(cause)(str(error)) if isinstance(cause, RuntimeError) else cause
    kind = _expected_kind(type(error))
    if kind is type(error):
        return error
    return _converted(type(error), error.args, error.__dict__).with_traceback(error.__traceback__)


OF_ARGUMENTS = (ArgumentError, BitmaskError, VocabularyError)

_kinds: dict[type[HybridError], type[HybridError]] = {}


def _expected_kind(kind: type[HybridError]) -> type[HybridError]:
    """Return one of our error types, or a subclass with the same name that also has XGrammar's base class."""
    if kind not in _kinds:
        wanted: tuple[type[Exception], ...] = (RuntimeError,)
        if issubclass(kind, OF_ARGUMENTS):
            wanted += (TypeError,)
        missing = tuple(one for one in wanted if not issubclass(kind, one))
        names = {"__module__": kind.__module__, "__doc__": kind.__doc__, "__reduce__": _reduced}
        _kinds[kind] = type(kind.__name__, (kind, *missing), names) if missing else kind
    return _kinds[kind]


def _converted(kind: type[HybridError], args: tuple[Any, ...], attributes: dict[str, Any]) -> HybridError:
    """An error of one of our types with these values, converted."""
    expected = _expected_kind(kind)
    error = expected.__new__(expected, *args)
    error.__dict__.update(attributes)
    return error


def _reduced(error: HybridError) -> tuple[Any, ...]:
    """For `pickle`, which cannot find a type that was made here by its name."""
    return _converted, (type(error).__mro__[1], error.args, error.__dict__)


def with_its_errors(call: Callable[Parameters, Answer]) -> Callable[Parameters, Answer]:
    """Wrap a function so that its errors are converted by `as_xgrammar`."""

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
