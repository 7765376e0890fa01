"""JSON's spellings of characters, as they stand between the quotes.

What: a character is spelled as itself, as a short escape, or as `\\uXXXX` with digits in either case; a
character beyond U+FFFF as two of these. A lone surrogate is not a character and is never written.
`spelled` gives the automaton of all spellings of some characters.
When: for strings without restrictions and for single characters; other languages are written by
`hybrid.json_schema.texts.write_plainly`.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from equivalence.arrays.ranges import LAST, Ranges, others
from equivalence.bounded_cache import cached
from hybrid.json_schema.languages.automaton import Automaton, minimal
from hybrid.json_schema.languages.syntax import LINES, SPACES

SHORT = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
"""Short escapes, and the characters that they stand for."""

_RAW = ((0x20, 0x21), (0x23, 0x5B), (0x5D, LAST))
"""Characters that may stand for themselves."""

BESIDE_PLAIN = ((0, 0x1F), (0x7F, LAST))
"""Characters that `hybrid.json_schema.texts.PlainWriter` does not write as themselves."""

_BASIC = ((0, 0xD7FF), (0xE000, 0xFFFF))
"""Characters of one code unit."""


def _spellings(ranges: Ranges) -> Iterator[list[Ranges]]:
    """Yield the spellings of the characters of some ranges, as sequences of sets of characters. Two sets that
    follow the same beginning are equal or disjoint."""
    for low, high in _within(ranges, _RAW):
        yield [((low, high),)]
    for letter, stands_for in SHORT.items():
        if any(low <= ord(stands_for) <= high for low, high in ranges):
            yield [_one("\\"), _one(letter)]
    for low, high in _within(ranges, _BASIC):
        for digits in _products(low, high, (16, 16, 16)):
            yield [_one("\\"), _one("u"), *map(_digits, digits)]
    for low, high in _within(ranges, ((0x10000, LAST),)):
        for a, b, c, d, e, f in _products(low - 0x10000, high - 0x10000, (16, 16, 4, 16, 16)):
            first, second = (8 + a[0], 8 + a[1]), (12 + d[0], 12 + d[1])  # D800 and more, DC00 and more
            yield [_one("\\"), _one("u"), *map(_digits, ((13, 13), first, b, c)),
                   _one("\\"), _one("u"), *map(_digits, ((13, 13), second, e, f))]  # fmt: skip


@cached(1024)
def spelled(ranges: Ranges, is_repeated: bool = False) -> Automaton:
    """Return all spellings of one character of some ranges, or of any number of them."""
    nodes: list[dict[Ranges, int]] = [{}, {}]  # of a trie: the target of each set of characters
    end = 0 if is_repeated else 1
    for spelling in _spellings(ranges):
        node = 0
        for characters in spelling[:-1]:
            node = nodes[node].setdefault(characters, len(nodes))
            if node == len(nodes):
                nodes.append({})
        nodes[node][spelling[-1]] = end
    rows = [[(low, high, to) for ranges, to in below.items() for low, high in ranges] for below in nodes]
    return minimal(rows, [node == end for node in range(len(nodes))])


def spell_common() -> None:
    """Make in advance what patterns with `.`, `\\s`, `\\S` and `[^a]` need; each takes 0.1 to 0.4 ms."""
    for ranges in (others(LINES), SPACES, others(SPACES), others(())):
        spelled(_within(ranges, BESIDE_PLAIN))
    for is_repeated in (False, True):
        spelled(others(()), is_repeated)


def _products(low: int, high: int, bases: tuple[int, ...]) -> Iterator[tuple[tuple[int, int], ...]]:
    """Divide a range of numbers into products of ranges of digits. `bases` has the number of values of each
    digit after the first."""
    if not bases:
        yield ((low, high),)
        return
    span = prod(bases)
    while low <= high:
        first = low // span
        last = (high + 1) // span - 1
        if low % span == 0 and first <= last:
            yield ((first, last), *((0, base - 1) for base in bases))
        else:
            last = first
            for rest in _products(low % span, min(high - first * span, span - 1), bases[1:]):
                yield ((first, first), *rest)
        low = (last + 1) * span


def _digits(values: tuple[int, int]) -> Ranges:
    """Return the characters of the hexadecimal digits from one to another."""
    low, high = values
    decimal = ((48 + low, 48 + min(high, 9)),) if low < 10 else ()
    low = max(low, 10)
    return (*decimal, (55 + low, 55 + high), (87 + low, 87 + high)) if low <= high else decimal


def _one(letter: str) -> Ranges:
    return ((ord(letter), ord(letter)),)


def _within(ranges: Ranges, others: Ranges) -> Ranges:
    """Return the characters that are in both."""
    pairs = [(max(low, first), min(high, last)) for low, high in ranges for first, last in others]
    return tuple((low, high) for low, high in pairs if low <= high)
