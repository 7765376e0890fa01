"""Notices about a request's grammar: what its masks do not enforce, and which valid texts they forbid.

What: `tell` logs a `Notice` in one line, and passes it to the operator's hooks. `add_hook` registers a hook;
so does an environment variable of each adapter, with a name ``module:function``.
When: used by the adapters of serving engines, once for each request with something to report.
Limits: restrictions that nearly every schema has (`Narrowing.is_general`) are not reported. Of a schema, a
log line contains only keywords and JSON pointers, for at most `MOST_NAMED` places of each kind, cut after
`MOST_CHARACTERS`. Hooks run in the thread that has the request's grammar. Errors of hooks are logged and have
no other effect.
"""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hybrid import CompiledGrammar
    from hybrid.xgrammar.relaxed import Narrowing, Relaxation

MOST_NAMED = 8
"""Most keywords that a log line or an answer names; the number of further ones is given."""

MOST_CHARACTERS = 120
"""Length of a name, pointer or reason in a log line or an answer."""


@dataclass(frozen=True)
class Notice:
    """What to report about one request.

    Attributes:
        engine: "vllm" or "sglang".
        request_id: the engine's id of the request.
        relaxed: keywords of its JSON schema that masks do not enforce.
        limit_error: why its text may be cut off at its token limit, if it should not be; else None.
        narrowed: keywords of its JSON schema for which masks forbid some valid values, without restrictions
            that nearly every schema has.
    """

    engine: str
    request_id: str
    relaxed: tuple[Relaxation, ...] = ()
    limit_error: str | None = None
    narrowed: tuple[Narrowing, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to report."""
        return bool(self.relaxed or self.narrowed or self.limit_error)

    @property
    def sentence(self) -> str:
        """The log line."""
        parts = []
        if self.relaxed:
            parts.append(f"schema keywords that are not enforced: {_named(self.relaxed)}")
        if self.narrowed:
            parts.append(f"schema keywords that forbid some valid values: {_named(self.narrowed)}")
        if self.limit_error:
            parts.append(f"the text may be cut off at its token limit: {_short(self.limit_error)}")
        return f"Request {_short(self.request_id)}: {'; '.join(parts)}"

    def as_field(self) -> dict[str, Any]:
        """Return the notice as JSON data, for the answer of an engine."""
        found: dict[str, Any] = {}
        if self.relaxed:
            found["not_enforced"] = _listed(self.relaxed)
            found["n_not_enforced"] = len(self.relaxed)
        if self.narrowed:
            found["not_writable"] = _listed(self.narrowed)
            found["n_not_writable"] = len(self.narrowed)
        if self.limit_error:
            found["limit_error"] = _short(self.limit_error)
        return found


Hook = Callable[[Notice], object]

_hooks: list[Hook] = []


def notice_of(engine: str, request_id: str, compiled: CompiledGrammar, limit_error: str | None) -> Notice:
    """Return the notice for a request and its grammar."""
    narrowed = tuple(one for one in compiled.narrowed if not one.is_general)
    return Notice(engine, request_id, compiled.relaxed, limit_error, narrowed)


def tell(notice: Notice, logger: logging.Logger) -> None:
    """Log a notice and pass it to all hooks, unless it is empty."""
    if not notice:
        return
    logger.log(logging.WARNING if notice.limit_error else logging.INFO, "%s", notice.sentence)
    for hook in tuple(_hooks):
        try:
            hook(notice)
        except Exception:
            logger.exception("The hook for notices failed for request %s", _short(notice.request_id))


def guarded(logger: logging.Logger, request_id: str, act: Callable[..., None], *arguments: Any) -> None:
    """Call a function that a request can do without; its errors must not stop the engine."""
    try:
        act(*arguments)
    except Exception:
        logger.exception(
            "Request %s: an error prevented its notices or its token limit; it continues without them",
            request_id,
        )


def add_hook(hook: Hook) -> None:
    """Register a function that is called with each `Notice` of this process. Adding it again has no effect.

    It must be quick, and several threads may call it at once: vLLM's engine calls it in the threads that
    compile grammars, SGLang's scheduler in its loop.

    Raises:
        ArgumentError: it cannot be called.
    """
    is_function: bool = callable(hook)  # whatever the annotation says
    if not is_function:
        from equivalence.arguments import shown  # late, as entry points must start quickly
        from equivalence.errors import ArgumentError

        raise ArgumentError(f"a hook for notices must be a function of a notice, but is {shown(hook)}")
    if hook not in _hooks:
        _hooks.append(hook)


def remove_hook(hook: Hook) -> None:
    """Remove a function, if it is registered."""
    if hook in _hooks:
        _hooks.remove(hook)


def add_named_hook(variable: str, given: str | None) -> None:
    """Add the hook that an environment variable names.

    Args:
        variable: the name of the variable, for error messages.
        given: ``module:function``, or None.

    Raises:
        ValueError: the function cannot be imported.
    """
    if given is None:
        return
    try:
        module, _, name = given.partition(":")
        if not module or not name:
            raise ValueError("there is no colon between two names")
        found = pkgutil.resolve_name(given)
    except Exception as error:  # importing the operator's module may raise anything
        raise ValueError(
            f"{variable} must be module:function, which can be imported where the engine runs, but is "
            f"{given!r}: {error}"
        ) from error
    if not callable(found):
        raise ValueError(f"{variable} must be module:function, but {given!r} cannot be called")
    add_hook(found)


def _named(found: Sequence[Relaxation | Narrowing]) -> str:
    names = [
        f"{_short(one.keyword)} at {_short(one.pointer) or 'the root'}"
        if one.keyword
        else "the schema as a whole"
        for one in found[:MOST_NAMED]
    ]
    return ", ".join(names) + (f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else "")


def _listed(found: Sequence[Relaxation | Narrowing]) -> list[dict[str, str]]:
    return [
        {"keyword": _short(one.keyword), "pointer": _short(one.pointer), "reason": _short(one.reason)}
        for one in found[:MOST_NAMED]
    ]


def _short(text: str) -> str:
    """Return a caller's text, shortened, on one line of printable characters."""
    cut = text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 3]}..."
    return "".join(one if one.isprintable() else "\ufffd" for one in cut)
