"""Estimate the size of a pattern's automaton from its text, before XGrammar makes it.

What: `pattern_size` reads a regular expression roughly, and multiplies out its repeats as XGrammar 0.2.8
does.
When: by `hybrid.guard.estimate`, for patterns of JSON schemas: their repeats are expanded, whereas repeats of
grammars are counted. Repeats in repeats, parts that may be skipped, and wide classes of characters multiply.
Limits: an estimate; unknown syntax counts as literals. The time is proportional to the length of the pattern,
and there is no recursion.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from equivalence.bounded_cache import cached
from hybrid.xgrammar.relaxed.patterns import Piece, split

MOST_TIMES, MOST_STATES = 128, 50_000
"""A repeat of more times, or with more states, is counted and not expanded. If it is counted only because of
its times, the converter tries to expand it, up to this many states."""

UNSURE = 2.0
"""The bound on states is multiplied by this, because the number of states is only estimated."""

OPEN_TIMES = 2.0
"""The number of times that represents a counted repeat."""

MANY_CHARACTERS, SOME_CHARACTERS = 60, 16
WIDE, SOME, FEW = 1.0, 0.12, 0.01
"""The shares of a vocabulary that are tried in states that read a class of many, some or few characters."""

ANY_STATES, OTHER_STATES = 5.0, 4.0
"""The states of an automaton over bytes for any character, and for a character that is not ASCII."""

AMBIGUOUS, SKIPPED = 4.0, 8.0
"""How many times more states a text is in at once if a repeat's body has no fixed length, and if it may be
empty."""

MOST = 1e12

_TIMES = re.compile(r"\{(\d{0,9})(,?)(\d{0,9})\}")
_COUNTED = re.compile(r"(?:(?<=([)}?*+])))?\{(\d{0,9}),?(\d{0,9})\}")
_RANGE = re.compile(r"(\\.|.)-(\\.|.)", re.DOTALL)


class Size(NamedTuple):
    """The size to which a part of a pattern expands.

    Attributes:
        positions: number of characters.
        states: states of an automaton over bytes.
        weight: the sum of the shares of the vocabulary that are tried, over the states that a text may be in
            at once.
        skipped: squared lengths of runs of parts that may be skipped.
        counted: for repeats that are counted and not expanded, their squared times plus a fifth of their
            squared states.
        varies: whether the number of characters that it reads varies.
        is_empty: whether it may read nothing.
    """

    positions: float
    states: float
    weight: float
    skipped: float = 0.0
    counted: float = 0.0
    varies: bool = False
    is_empty: bool = False


_NOTHING = Size(0.0, 0.0, 0.0, is_empty=True)
_LITERAL = Size(1.0, 1.0, FEW)
_FEW, _SOME, _MANY = Size(1.0, 1.0, FEW), Size(1.0, 1.0, SOME), Size(1.0, 1.0, WIDE)
_ANY = Size(1.0, ANY_STATES, WIDE)
_OTHER = Size(1.0, OTHER_STATES, FEW)
_LETTERS = {"\\d": _FEW, "\\s": _FEW, "\\w": _MANY, "\\D": _ANY, "\\S": _ANY, "\\W": _ANY, ".": _ANY}


def size_bound(pattern: str) -> Size | None:
    """Find an upper bound of a pattern's size without examining its structure; None if the structure must be
    examined.

    For most patterns of schemas, which are short, a bound is enough. It takes 2 us instead of 100. Every
    character is at most one position, and so is each time that one is repeated. Each level of groups adds at
    most the square of all positions, once for runs and once for repeats.
    """
    if not pattern.isascii() or "\\u" in pattern or "\\x" in pattern:
        return None
    positions = float(len(pattern))
    if "{" in pattern:
        for repeated, low, high in _COUNTED.findall(pattern):
            times = max(int(low or 0), int(high or 0))
            if repeated or times > MOST_TIMES:
                return None
            positions += times
    skipped = 2.0 * (1 + pattern.count("(")) * positions**2
    return Size(positions, ANY_STATES * positions, MOST, skipped)


@cached(256)  # dates, names and so on recur; each takes 0.1 ms
def pattern_size(pattern: str) -> Size:
    """Estimate the size to which a pattern expands."""
    outer: list[tuple[list[Size], list[Size]]] = []
    choices: list[Size] = []
    parts: list[Size] = []
    is_repeated = False
    for piece in [*split(pattern), *[Piece(")", "")] * pattern.count("(")]:  # groups may not be closed
        if piece.kind == "quantifier" and parts:
            if not (is_repeated and piece.text in "?+"):  # not greedy, or possessive
                parts[-1] = _quantified(parts[-1], piece.text)
        elif piece.kind == "(":
            outer.append((choices, parts))
            choices, parts = [], []
        elif piece.kind == "|":
            choices.append(_sequence(parts))
            parts = []
        elif piece.kind == ")" and outer:
            group = _choice([*choices, _sequence(parts)])
            choices, parts = outer.pop()
            parts.append(group)
        else:
            parts.append(_of_piece(piece))
        is_repeated = piece.kind == "quantifier"
    return _choice([*choices, _sequence(parts)])


def _of_piece(piece: Piece) -> Size:
    text = piece.text
    if piece.kind not in ("character", "class"):  # an anchor, or an end without a beginning
        return _NOTHING
    if piece.kind == "character":
        return _LITERAL if piece.character < "\x80" else _OTHER
    if text[0] != "[":
        return _LETTERS[text]
    others = sum(character >= "\x80" for character in text) + text.count("\\u") + text.count("\\x")
    if text[1:2] == "^" or others or any(f"\\{kind}" in text for kind in "DSW"):
        return _ANY._replace(states=ANY_STATES + others)
    count = len(text) + 62.0 * text.count("\\w") + 9.0 * text.count("\\d")
    for first, last in _RANGE.findall(text[1:-1]):
        count += max(ord(last[-1]) - ord(first[-1]), 0)
    return _MANY if count > MANY_CHARACTERS else _SOME if count > SOME_CHARACTERS else _FEW


def _quantified(part: Size, text: str) -> Size:
    if text in "*+?":
        return _repeat(part, 1 if text == "+" else 0, 1 if text == "?" else None)
    found = _TIMES.fullmatch(text)
    if found is None:  # the converter will refuse it
        return part
    least = int(found[1] or 0)
    return _repeat(part, least, int(found[3]) if found[3] else None if found[2] else least)


def _repeat(part: Size, least: int, most: int | None) -> Size:
    times = float(max(least, 1) if most is None else max(most, least, 1))
    is_small = part.states * times < UNSURE * MOST_STATES
    counted = part.counted
    if times > MOST_TIMES and is_small:
        counted += times**2 + (part.states * times) ** 2 / 5
    if times > MOST_TIMES or not is_small:
        times = OPEN_TIMES
    positions, skipped = part.positions * times, part.skipped * times
    varies = most != least
    if part.is_empty and times > 1:
        skipped = max(skipped, positions**2)
    elif varies:
        skipped = max(skipped, positions * times)
    weight = part.weight * times
    if times > 1 or most is None:
        weight *= (AMBIGUOUS if part.varies else 1.0) * (SKIPPED if part.is_empty else 1.0)
    is_empty = part.is_empty or least == 0
    return _capped(
        Size(positions, part.states * times, weight, skipped, counted, varies or part.varies, is_empty)
    )


def _sequence(parts: list[Size]) -> Size:
    """Compute the size of parts in a row. From each of those that may be skipped, the automaton may have
    edges to all others."""
    empty = [part.positions for part in parts if part.is_empty and part.positions]
    skipped = sum(empty) ** 2 if len(empty) > 1 else 0.0
    varies, is_empty = any(part.varies for part in parts), all(part.is_empty for part in parts)
    return _summed(parts, skipped, varies, is_empty)


def _choice(parts: list[Size]) -> Size:
    if len(parts) == 1:
        return parts[0]
    return _summed(parts, 0.0, True, any(part.is_empty for part in parts))


def _summed(parts: list[Size], skipped: float, varies: bool, is_empty: bool) -> Size:
    positions, states, weight, own, counted = (
        float(sum(part[place] for part in parts)) for place in range(5)
    )
    return _capped(Size(positions, states, weight, own + skipped, counted, varies, is_empty))


def _capped(size: Size) -> Size:
    positions, states, weight, skipped, counted = (min(number, MOST) for number in size[:5])
    return Size(positions, states, weight, skipped, counted, size.varies, size.is_empty)
