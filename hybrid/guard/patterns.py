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

_QUANTIFIER = re.compile(r"(?:\{(?=\d|,\d)(\d{0,9})(,?)(\d{0,9})\}|([*+?]))[?+]?")
_COUNTED = re.compile(r"(?:(?<=([)}?*+])))?\{(\d{0,9}),?(\d{0,9})\}")
_CODE_POINT = re.compile(r"u\{[0-9A-Fa-f]+\}")
_GROUP = re.compile(r"\?(?:P?<[A-Za-z_]\w*>|<?[=!]|[:>]|[a-zA-Z-]*:)")
_CLASS = re.compile(r"\[(\^?)(\]?(?:\\.|[^\]\\])*)\]?", re.DOTALL)
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
        length: number of characters that it reads; -1 if that varies.
        is_empty: whether it may read nothing.
    """

    positions: float
    states: float
    weight: float
    skipped: float = 0.0
    counted: float = 0.0
    length: float = 1.0
    is_empty: bool = False


class Bound(NamedTuple):
    """Upper bounds of two attributes of `Size`."""

    states: float
    skipped: float


NOTHING = Size(0.0, 0.0, 0.0, length=0.0, is_empty=True)
_LITERAL = Size(1.0, 1.0, FEW)
_FEW, _SOME, _MANY = Size(1.0, 1.0, FEW), Size(1.0, 1.0, SOME), Size(1.0, 1.0, WIDE)
_ANY = Size(1.0, ANY_STATES, WIDE)
_OTHER = Size(1.0, OTHER_STATES, FEW)
_ESCAPES = {"d": _FEW, "s": _FEW, "w": _MANY, "D": _ANY, "S": _ANY, "W": _ANY}


def size_bound(pattern: str) -> Bound | None:
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
    return Bound(ANY_STATES * positions, 2.0 * (1 + pattern.count("(")) * positions**2)


@cached(256)  # dates, names and so on recur; each takes 0.1 ms
def pattern_size(pattern: str) -> Size:
    """Estimate the size to which a pattern expands."""
    outer: list[tuple[list[Size], list[Size]]] = []
    choices: list[Size] = []
    parts: list[Size] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        at += 1
        if character == "(":
            found = _GROUP.match(pattern, at)
            at = found.end() if found else at
            outer.append((choices, parts))
            choices, parts = [], []
            continue
        if character == "|":
            choices.append(_sequence(parts))
            parts = []
            continue
        if character in "^$":
            continue
        if character == ")" and outer:
            part = _choice([*choices, _sequence(parts)])
            choices, parts = outer.pop()
        elif character == "[":
            found = _CLASS.match(pattern, at - 1)
            assert found is not None
            part, at = _of_class(found[1], found[2]), found.end()
        elif character == "\\":
            found = _CODE_POINT.match(pattern, at)
            part = _OTHER if found else _ESCAPES.get(pattern[at : at + 1], _LITERAL)
            at = found.end() if found else at + 1
        else:
            part = _ANY if character == "." else _LITERAL if character < "\x80" else _OTHER
        while at < len(pattern) and (found := _QUANTIFIER.match(pattern, at)):
            at = found.end()
            part = _quantified(part, *found.groups())
        parts.append(part)
    while True:  # groups that are not closed
        part = _choice([*choices, _sequence(parts)])
        if not outer:
            return part
        choices, parts = outer.pop()
        parts.append(part)


def _of_class(negation: str, inside: str) -> Size:
    others = sum(character >= "\x80" for character in inside) + inside.count("\\u") + inside.count("\\x")
    if negation or others or any(f"\\{kind}" in inside for kind in "DSW"):
        return _ANY._replace(states=ANY_STATES + others)
    count = len(inside) + 62.0 * inside.count("\\w") + 9.0 * inside.count("\\d")
    for first, last in _RANGE.findall(inside):
        count += max(ord(last[-1]) - ord(first[-1]), 0)
    return _MANY if count > MANY_CHARACTERS else _SOME if count > SOME_CHARACTERS else _FEW


def _quantified(part: Size, low: str | None, comma: str | None, high: str | None, sign: str | None) -> Size:
    if sign:
        return _repeat(part, 1 if sign == "+" else 0, 1 if sign == "?" else None)
    least = int(low or 0)
    return _repeat(part, least, int(high) if high else None if comma else least)


def _repeat(part: Size, least: int, most: int | None) -> Size:
    times = float(max(least, 1) if most is None else max(most, least, 1))
    is_counted = times > MOST_TIMES or part.states * times >= UNSURE * MOST_STATES
    counted = part.counted
    if times > MOST_TIMES and part.states * times < UNSURE * MOST_STATES:
        counted += times**2 + (part.states * times) ** 2 / 5
    if is_counted:
        times = OPEN_TIMES
    positions = part.positions * times
    varies = most != least
    skipped = part.skipped * times
    if part.is_empty and times > 1:
        skipped = max(skipped, positions**2)
    elif varies:
        skipped = max(skipped, positions * times)
    factor = 1.0
    if times > 1 or most is None:
        factor = (AMBIGUOUS if part.length < 0 else 1.0) * (SKIPPED if part.is_empty else 1.0)
    length = part.length * times if not varies and part.length >= 0 else -1.0
    states, weight = part.states * times, part.weight * times * factor
    return _capped(Size(positions, states, weight, skipped, counted, length, part.is_empty or least == 0))


def _sequence(parts: list[Size]) -> Size:
    """Compute the size of parts in a row. From each part of a run that may be skipped, the automaton has
    edges to all later ones."""
    skipped = run = 0.0
    members = 0
    for part in [*parts, _LITERAL]:
        if part.is_empty:
            run += part.positions
            members += 1
        elif members:
            skipped += run**2 if members > 1 else 0.0
            run, members = 0.0, 0
        skipped += part.skipped
    lengths = [part.length for part in parts]
    return _summed(parts, skipped, -1.0 if min(lengths, default=0.0) < 0 else sum(lengths))._replace(
        is_empty=all(part.is_empty for part in parts)
    )


def _choice(parts: list[Size]) -> Size:
    lengths = {part.length for part in parts}
    return _summed(
        parts, sum(part.skipped for part in parts), lengths.pop() if len(lengths) == 1 else -1.0
    )._replace(is_empty=any(part.is_empty for part in parts))


def _summed(parts: list[Size], skipped: float, length: float) -> Size:
    if not parts:
        return NOTHING
    positions, states, weight, counted = (sum(part[place] for part in parts) for place in (0, 1, 2, 4))
    return _capped(Size(positions, states, weight, skipped, counted, length))


def _capped(size: Size) -> Size:
    positions, states, weight, skipped, counted, length = (min(number, MOST) for number in size[:6])
    return Size(positions, states, weight, skipped, counted, length, size.is_empty)
