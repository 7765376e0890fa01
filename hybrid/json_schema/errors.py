"""Why a schema is refused: the keyword, its place, and what to do instead.

What: `SchemaRefused`, which every module of `hybrid.json_schema` raises.
When: a schema exceeds the bounds, uses something unsupported, is invalid, or has no valid instance. No
keyword is ignored silently: the schema is refused, or with ``relax=True``, the ignored keywords are listed.
"""

from __future__ import annotations

from typing import Any, Literal

from equivalence.errors import GrammarError

Kind = Literal["unsupported", "bounds", "limit", "option", "needed", "invalid", "unsatisfiable"]

TOO_DEEP = (
    "is nested too deeply; the limits are 490 objects nested in properties (fewer below uniqueItems), and "
    "800 references"
)
"""The depths at which Python's JSON parser and our own limit (`languages.limits.MOST_NESTED`) end."""

MISSING_DOCUMENT = "a document that `registry=` does not have"
"""The end of what is wrong with a reference that another `registry=` could resolve."""

UNREADABLE = "cannot be read: "
"""The beginning of what is wrong with a text that is not JSON. Its fault says what to do."""

_RELAX = "pass relax=True to ignore it (CompiledGrammar.relaxed then lists it)"

_WAYS_OUT: dict[str, tuple[str, ...]] = {
    "unsupported": ("remove the keyword", _RELAX, "use semantics='xgrammar'"),
    "bounds": ("simplify it", "raise Budget.states", _RELAX),
    "limit": ("simplify it", _RELAX),
    "option": ("leave out this option",),
    "needed": ("remove the keyword", "use semantics='xgrammar'"),
    "invalid": ("correct the schema",),
    "unsatisfiable": ("correct the schema",),
}


class SchemaRefused(GrammarError):
    """A JSON schema that cannot be compiled exactly.

    Attributes:
        kind: "unsupported" (a keyword, or a use of it, that is not implemented), "bounds" (its automaton
            would be too large), "limit" (it exceeds a limit that no budget raises), "option" (an option of
            the call cannot be used with it), "needed" (a keyword that is not supported, and that
            ``relax=True`` must not ignore), "invalid" (the schema itself is wrong) or "unsatisfiable" (no
            instance is valid).
        keyword: the keyword; "" if no single keyword is the cause.
        pointer: the JSON pointer of the subschema that has it; if that is in another document, the keywords
            and keys that lead there through the reference.
        fault: what is wrong, without the advice, which is for programmers, not for their users.
    """

    def __init__(self, kind: Kind, keyword: str, pointer: str, why: str) -> None:
        place = shortened(pointer)
        place = place if place.isprintable() else repr(place)  # names may be half of a character
        where = f" at {place or 'the root'}"
        named = f"the keyword {keyword!r}{where}" if keyword else f"the schema{where}"
        self.fault = f"{named} {why}"
        ways = [way for way in _WAYS_OUT[kind] if keyword or way != _RELAX]  # only a keyword is left out
        if why.endswith(MISSING_DOCUMENT):
            ways.insert(0, "add the document to the registry")
        is_text = why.startswith(UNREADABLE)
        super().__init__(f"the schema {why}" if is_text else f"{self.fault}; {_either(ways)}")
        self.kind, self.keyword, self.pointer, self.why = kind, keyword, pointer, why


def _either(ways: list[str]) -> str:
    *others, last = ways
    return f"{', '.join(others)}{',' * (len(others) > 1)} or {last}" if others else last


def shown(value: Any) -> str:
    """Return a value of a schema for a message."""
    return shortened(repr(value), 60)


def shortened(text: str, most: int = 300) -> str:
    """Return a text for a message without what is beyond `most` characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def unique_refused(why: str) -> SchemaRefused:
    """The error for an array whose items must be unique, where that is not supported."""
    return SchemaRefused("unsupported", "uniqueItems", "", f"is not supported here: {why}")
