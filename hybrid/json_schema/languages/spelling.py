"""JSON's spellings of texts: from a language of texts to the automaton of what stands between the quotes.

What: `spelled` replaces each character by its spellings: itself, a short escape, `\\uXXXX` with digits in
either case, and two of these for a character beyond U+FFFF. A lone surrogate is not a character and is
never written.
When: for strings without restrictions and for single characters; other languages are written by
`hybrid.json_schema.texts.write_plainly`.
"""

from __future__ import annotations

from functools import lru_cache

from hybrid.json_schema.languages.automaton import LAST, Automaton, Edge, Row

_SHORT = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
"""Short escapes, and the characters that they stand for."""

_RAW = ((0x20, 0x21), (0x23, 0x5B), (0x5D, LAST))
"""Characters that may stand for themselves."""

_PLANE = 0x10000
_LOW = 0x400  # number of low surrogates that may follow each high one


@lru_cache(maxsize=1024)
def spelled(language: Automaton) -> Automaton:
    """Return all spellings of all texts of a language. State n of the result is state n of the language.

    The result is deterministic, but not minimal.
    """
    return _Speller(language).spell()


class _Speller:
    """One call of `spelled`."""

    def __init__(self, language: Automaton) -> None:
        self._language = language
        self._rows: list[Row] = [()] * language.n_states
        self._nodes: dict[object, int] = {}

    def spell(self) -> Automaton:
        language = self._language
        for state, row in enumerate(language.rows):
            edges = _within(row, _RAW)
            escape = self._escape(row)
            if escape is not None:
                edges.append((0x5C, 0x5C, escape))
            self._rows[state] = tuple(sorted(edges))
        accepting = [*language.accepting, *[False] * (len(self._rows) - language.n_states)]
        return Automaton(tuple(self._rows), tuple(accepting))

    def _node(self, key: object, edges: list[Edge]) -> int:
        """Return a state with some edges, made once for each key."""
        number = self._nodes.get(key)
        if number is None:
            number = self._nodes[key] = len(self._rows)
            self._rows.append(tuple(sorted(edges)))
        return number

    def _escape(self, row: Row) -> int | None:
        """Return the state after a backslash."""
        edges = []
        for letter, stands_for in _SHORT.items():
            for low, high, target in row:
                if low <= ord(stands_for) <= high:
                    edges.append((ord(letter), ord(letter), target))
        digits = self._digits(row)
        if digits is not None:
            edges.append((ord("u"), ord("u"), digits))
        return self._node(("escape", tuple(edges)), edges) if edges else None

    def _digits(self, row: Row) -> int | None:
        """Return the state after `\\u`: four digits, which may be the first half of a surrogate pair."""
        basic = _within(row, ((0, 0xD7FF), (0xE000, 0xFFFF)))
        beyond = [
            (low - _PLANE, high - _PLANE, target) for low, high, target in _within(row, ((_PLANE, LAST),))
        ]
        # high surrogates as characters: each leads to the state that reads its low surrogates
        pairs: list[Edge] = []
        for low, high in _blocks(beyond, _LOW):
            begin = low * _LOW
            inner = [
                (max(a, begin) - begin, min(b, begin + _LOW - 1) - begin, target)
                for a, b, target in beyond
                if a < begin + _LOW and b >= begin
            ]
            if inner:
                pairs.append((0xD800 + low, 0xD800 + high, self._second(inner)))
        return self._hexadecimal(sorted(basic + pairs), 0x10000, 0)

    def _second(self, row: list[Edge]) -> int:
        """Return the state after the first half of a pair: `\\u` and a low surrogate follow."""
        digits = self._hexadecimal([(0xDC00 + a, 0xDC00 + b, target) for a, b, target in row], 0x10000, 0)
        assert digits is not None
        letter = self._node(("u", digits), [(ord("u"), ord("u"), digits)])
        return self._node(("\\", letter), [(0x5C, 0x5C, letter)])

    def _hexadecimal(self, row: list[Edge], span: int, base: int) -> int | None:
        """Return the state from which hexadecimal digits spell the numbers of a row minus a base, within a
        span."""
        if not row:
            return None
        if span == 1:
            return row[0][2]
        step = span // 16
        edges: list[Edge] = []
        whole = row[0][2] if len(row) == 1 and row[0][0] <= base and row[0][1] >= base + span - 1 else None
        if whole is not None:
            after = self._hexadecimal([(base, base + step - 1, whole)], step, base)
            assert after is not None
            edges = [(*digits, after) for digits in _digit_ranges(0, 15)]
        else:
            for digit in range(16):
                low = base + digit * step
                inner = [
                    (max(a, low), min(b, low + step - 1), target)
                    for a, b, target in row
                    if a < low + step and b >= low
                ]
                found = self._hexadecimal(inner, step, low)
                if found is not None:
                    edges += [(*digits, found) for digits in _digit_ranges(digit, digit)]
        return self._node((span, tuple(edges)), edges)


def _blocks(row: list[Edge], size: int) -> list[tuple[int, int]]:
    """Return runs of aligned blocks that lead to the same state: the first and the last block of each run."""
    found: dict[int, int] = {}
    for low, high, _ in row:
        first, last = low // size, high // size
        if low % size:
            found.setdefault(first, first)
            first += 1
        if first <= last and (high + 1) % size:
            found.setdefault(last, last)
            last -= 1
        if first <= last:
            found.setdefault(first, last)
    return sorted(found.items())


def _digit_ranges(low: int, high: int) -> list[tuple[int, int]]:
    """Return the ranges of characters of the hexadecimal digits from low to high."""
    if low == 0 and high == 15:
        return [(48, 57), (65, 70), (97, 102)]
    if low < 10:
        return [(48 + low, 48 + high)]
    return [(55 + low, 55 + high), (87 + low, 87 + high)]


def _within(row: Row | list[Edge], ranges: tuple[tuple[int, int], ...]) -> list[Edge]:
    """Return the parts of edges that read characters in some ranges."""
    return [
        (max(low, first), min(high, last), target)
        for low, high, target in row
        for first, last in ranges
        if low <= last and high >= first
    ]
