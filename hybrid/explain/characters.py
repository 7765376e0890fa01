"""Writing characters, bytes and sets of them for people.

What: `notation` writes ranges of code points as a class in brackets, or by a common name. `spans` writes a
set of bytes. `quoted` and `shown` write arbitrary text safely.
When: used wherever an explanation names what is expected.
Limits: at most `MOST_RANGES` ranges are written.
"""

from __future__ import annotations

from collections.abc import Iterable

from equivalence.arrays.ranges import LAST, Ranges, joined, others
from equivalence.bounded_cache import cached

MOST_RANGES = 12
"""Most ranges of a class that are written."""

WHITE_SPACE = "white space"

_NAMED = {
    ((9, 10), (13, 13), (32, 32)): WHITE_SPACE,
    ((9, 10), (32, 32)): WHITE_SPACE,
    ((10, 10), (32, 32)): WHITE_SPACE,
    ((48, 57),): "a digit",
}


def notation(ranges: Iterable[tuple[int, int]], excluded: bool = False) -> str:
    """A set of characters as a name, as a quoted character, or as a class such as ``[0-9A-F]``."""
    known = joined(list(ranges))
    if not excluded:
        if known in _NAMED:
            return _NAMED[known]
        if len(known) == 1 and known[0][0] == known[0][1]:
            return quoted(chr(known[0][0]))
    if excluded and not known:
        return "any character"
    parts = [_span(first, last) for first, last in known[:MOST_RANGES]]
    more = "..." if len(known) > MOST_RANGES else ""
    return f"{'any character but ' if excluded else ''}[{''.join(parts)}{more}]"


def spans(values: Iterable[int]) -> str:
    """A set of bytes in words: ASCII bytes as characters, others by what they stand for."""
    found = frozenset(values)
    ascii_ones = [(value, value) for value in found if value < 0x80]
    parts = [notation(ascii_ones)] if ascii_ones else []
    if any(value >= 0xC0 for value in found):
        parts.append("characters beyond ASCII")
    if any(0x80 <= value < 0xC0 for value in found):
        parts.append("the rest of a character")
    return ", ".join(parts)


@cached(1024)
def first_bytes(excluded: bool, ranges: Ranges) -> frozenset[int]:
    """The bytes with which the characters of a set begin in UTF-8."""
    found: set[int] = set()
    for first, last in others(joined(list(ranges))) if excluded else ranges:
        found.update(range(_lead(first), _lead(last) + 1))
    return frozenset(byte for byte in found if byte < 0x80 or byte >= 0xC2)


def _lead(code: int) -> int:
    """The first byte of a character in UTF-8, also of half of a surrogate pair."""
    return chr(min(code, LAST)).encode("utf-8", "surrogatepass")[0]


def _span(first: int, last: int) -> str:
    if first == last:
        return _plain(first)
    return f"{_plain(first)}{'' if last == first + 1 else '-'}{_plain(last)}"


def _plain(code: int) -> str:
    if chr(code) in "\\]-^":
        return "\\" + chr(code)
    return shown(chr(code)) if not 0xD800 <= code <= 0xDFFF else f"\\u{code:04x}"


def quoted(text: str) -> str:
    """Text in quotation marks, of a kind that it does not contain if possible, without control characters."""
    mark = "'" if '"' in text and "'" not in text else '"'
    return mark + shown(text).replace(mark, "\\" + mark) + mark


def shown(text: str, most: int = 80) -> str:
    """Text on one line, cut to about `most` characters, with unprintable characters escaped."""
    if len(text) > most:
        text = text[: most - 3] + "..."
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
