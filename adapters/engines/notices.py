"""What a request is told of its grammar: what masks do not enforce, what valid text they forbid.

What: a `Notice`, which `tell` logs in one line and hands to the operator's hooks; `add_hook` registers one,
and so does an environment variable of each adapter that names it as ``module:function``.
When: by the adapters of serving engines, once for each request of which there is something to tell.
Limits: what nearly every schema has (`Narrowing.is_general`) is not told. A log line has keywords and JSON
pointers of at most `MOST_NAMED` places of each kind, cut after `MOST_CHARACTERS`, and nothing else of it.
Hooks run in the thread that has the request's grammar; what they raise is logged, and changes nothing.
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
"""Keywords that a log line or an answer names; how many there are beyond is said."""

MOST_CHARACTERS = 120
"""Of one name, pointer or reason in a log line or an answer."""


@dataclass(frozen=True)
class Notice:
    """What one request is told.

    Attributes:
        engine: "vllm" or "sglang".
        request_id: as the engine has it.
        relaxed: keywords of its JSON schema that masks do not enforce.
        not_closing: why its masks do not close in time, where they were to; None otherwise.
        narrowed: keywords of its JSON schema under which masks forbid valid values, but for what nearly
            every schema has.
    """

    engine: str
    request_id: str
    relaxed: tuple[Relaxation, ...] = ()
    not_closing: str | None = None
    narrowed: tuple[Narrowing, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self.relaxed or self.narrowed or self.not_closing)

    @property
    def sentence(self) -> str:
        """The log line."""
        parts = []
        if self.relaxed:
            parts.append(f"not enforced of its schema: {_named(self.relaxed)}")
        if self.narrowed:
            parts.append(f"valid values cannot be written: {_named(self.narrowed)}")
        if self.not_closing:
            parts.append(f"masks do not close in time: {_short(self.not_closing)}")
        return f"Request {_short(self.request_id)}: {'; '.join(parts)}"

    def as_field(self) -> dict[str, Any]:
        """The same for the answer of an engine, in JSON's types."""
        found: dict[str, Any] = {}
        if self.relaxed:
            found["not_enforced"] = _listed(self.relaxed)
            found["n_not_enforced"] = len(self.relaxed)
        if self.narrowed:
            found["not_writable"] = _listed(self.narrowed)
            found["n_not_writable"] = len(self.narrowed)
        if self.not_closing:
            found["not_closing"] = _short(self.not_closing)
        return found


Hook = Callable[[Notice], object]

_hooks: list[Hook] = []


def notice_of(engine: str, request_id: str, compiled: CompiledGrammar, not_closing: str | None) -> Notice:
    """What there is to tell of a request's grammar."""
    narrowed = tuple(one for one in compiled.narrowed if not one.is_general)
    return Notice(engine, request_id, compiled.relaxed, not_closing, narrowed)


def tell(notice: Notice, logger: logging.Logger) -> None:
    """Log a notice, and hand it to all hooks; nothing where there is nothing to tell."""
    if not notice:
        return
    logger.log(logging.WARNING if notice.not_closing else logging.INFO, "%s", notice.sentence)
    for hook in tuple(_hooks):
        try:
            hook(notice)
        except Exception:
            logger.exception("The hook for notices failed at request %s", _short(notice.request_id))


def add_hook(hook: Hook) -> None:
    """Have a function called with each `Notice` of this process from now on; once, however often it is added.

    It has to be quick, and may be called by several threads at once: vLLM's engine calls it where grammars
    are compiled, SGLang's scheduler in its loop.
    """
    if hook not in _hooks:
        _hooks.append(hook)


def remove_hook(hook: Hook) -> None:
    """Take a function out again, if it is there."""
    if hook in _hooks:
        _hooks.remove(hook)


def add_named_hook(variable: str, given: str | None) -> None:
    """Add the hook that an environment variable names.

    Args:
        variable: its name, for errors.
        given: ``module:function``; None for none.

    Raises:
        ValueError: no such function can be imported.
    """
    if given is None:
        return
    try:
        module, _, name = given.partition(":")
        if not module or not name:
            raise ValueError("it has no colon between two names")
        found = pkgutil.resolve_name(given)
    except (ValueError, ImportError, AttributeError) as error:
        raise ValueError(
            f"{variable} is {given!r}, allowed is module:function, which can be imported where the engine "
            f"runs: {error}"
        ) from error
    if not callable(found):
        raise ValueError(f"{variable} is {given!r}, which cannot be called; allowed is module:function")
    add_hook(found)


def _named(found: Sequence[Relaxation | Narrowing]) -> str:
    names = [
        f"{_short(one.keyword)} at {_short(one.pointer)}" if one.keyword else "the schema as a whole"
        for one in found[:MOST_NAMED]
    ]
    return ", ".join(names) + (f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else "")


def _listed(found: Sequence[Relaxation | Narrowing]) -> list[dict[str, str]]:
    return [
        {"keyword": _short(one.keyword), "pointer": _short(one.pointer), "reason": _short(one.reason)}
        for one in found[:MOST_NAMED]
    ]


def _short(text: str) -> str:
    """Some text of a caller's, in one line of printable characters."""
    cut = text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 3]}..."
    return "".join(one if one.isprintable() else "\ufffd" for one in cut)
