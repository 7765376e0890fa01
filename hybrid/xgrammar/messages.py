"""XGrammar's messages, for users: without time stamps and places in its source.

What: `refusals` raises XGrammar's errors as ours, unless `check_memory` says that only memory was missing.
`shortened` returns the message of one; `way_out` says what to do about it, if that is known.
When: if XGrammar refuses a grammar, a schema, a tag or a regular expression, or a Lark grammar is refused.
Limits: unknown messages are passed on unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from equivalence.errors import GrammarError, HybridError
from hybrid.values.notations import fault_of, not_ebnf
from hybrid.xgrammar.ebnf_advice import explained
from hybrid.xgrammar.relaxed.kinds import ALL

MESSAGE_CHARACTERS = 1_000
"""The most characters of a message that are kept: XGrammar quotes whole schemas, and Lark long names."""

TYPES = sorted(ALL)

NO_MEMORY = "std::bad_alloc"
"""XGrammar's message of a `RuntimeError` if there is no memory."""

_PLACE = re.compile(r"(?m)^\[\d\d:\d\d:\d\d\] \S+:\d+: (?:Check failed: .*? is false: )?")
_TYPE = re.compile(r'Unsupported type "([^"]*)"')
_OPTION = re.compile(r"unexpected keyword argument '(\w+)'")


def shortened(error: BaseException) -> str:
    """Return the message of an error of XGrammar or Lark, without most of the text that it quotes."""
    text = _PLACE.sub("", said(error)).strip() or f"{type(error).__name__} without a message"
    if len(text) <= MESSAGE_CHARACTERS:
        return text
    half = MESSAGE_CHARACTERS // 2
    return f"{text[:half]} ... {text[-half:]}"


def said(error: BaseException) -> str:
    """Return what an error says. XGrammar quotes single bytes of a text, so its message may not be text."""
    if isinstance(error, UnicodeDecodeError) and _PLACE.match(found := error.object.decode(errors="replace")):
        return found
    return str(error)


def check_memory(error: BaseException) -> None:
    """Raise `MemoryError` if an error of XGrammar says that there is no memory. It refuses nothing then, and
    nobody should remember that it did."""
    if str(error) == NO_MEMORY:
        raise MemoryError("there is not enough memory for XGrammar") from error


@contextmanager
def refusals(what: str, kinds: tuple[type[Exception], ...] = (RuntimeError,)) -> Iterator[None]:
    """Raise XGrammar's errors in a ``with`` statement as `GrammarError`; ours pass.

    Args:
        what: what XGrammar does, for the message: "refuses the grammar".
        kinds: the types of its errors.

    Raises:
        MemoryError: there was no memory for XGrammar.
    """
    try:
        yield
    except HybridError:
        raise
    except kinds as error:
        check_memory(error)
        raise GrammarError(f"XGrammar {what}: {shortened(error)}") from error


def way_out(message: str, title: str, text: object, options: Iterable[str] = ()) -> str | None:
    """Return a message that says what to do, in place of one of XGrammar's; None if no advice is known.

    Args:
        message: XGrammar's message.
        title: what was refused: "JSON schema", "structural tag", "grammar" or something else.
        text: the argument as it was given.
        options: the names of the options that exist.
    """
    option = _OPTION.search(message)
    if option is not None:
        name = option[1]
        return f"there is no option {name!r}; the options are {', '.join(options)}{_near(name, options)}"
    kind = _TYPE.search(message)
    if kind is not None:
        return f"there is no type {kind[1]!r}; the types are {', '.join(TYPES)}{_near(kind[1], TYPES)}"
    if not isinstance(text, str):
        return None
    if title == "grammar":
        return not_ebnf(text) or explained(message, text)
    if title in ("JSON schema", "structural tag"):
        return fault_of(text)
    return None


def _near(name: str, allowed: Iterable[str]) -> str:
    found = get_close_matches(name, list(allowed), 1)
    return f"; did you mean {found[0]!r}?" if found else ""
