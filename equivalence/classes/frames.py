"""Frames: what is left to read inside a rule, in the form that the reference uses.

What: the kinds of frames; `after_byte`, which gives what is left of a frame after a byte; and `Reader`, which
turns the numbered expressions of a serialised XGrammar grammar into frames.
When: used only by `equivalence.classes.reference`.
Limits: byte strings, character classes and their stars, rule references, sequences, choices and repeats;
anything else raises `UnsupportedGrammar`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from equivalence.arrays.ranges import LAST, joined, others
from equivalence.errors import UnsupportedGrammar

Interval = tuple[int, int]
"""Code points, or offsets of code points, from the first to the second, both included."""


@dataclass(frozen=True, slots=True)
class Text:
    """The bytes ``data``, at least one."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Character:
    """One character, encoded in UTF-8, whose code point lies in ``intervals``."""

    intervals: tuple[Interval, ...]


@dataclass(frozen=True, slots=True)
class Continuation:
    """The last ``count`` bytes of a character; their 6 * count bits, as a number, lie in ``intervals``."""

    count: int
    intervals: tuple[Interval, ...]


@dataclass(frozen=True, slots=True)
class Star:
    """Any number of characters, including none."""

    character: Character


@dataclass(frozen=True, slots=True)
class Call:
    """One text of rule number ``rule``."""

    rule: int


@dataclass(frozen=True, slots=True)
class Repeat:
    """Between ``least`` and ``most`` *further* texts of a rule, at least ``least`` if ``most`` is None."""

    rule: int
    least: int
    most: int | None

    def after_one(self) -> Repeat:
        """The frame after one text of the rule was read. The frame itself is the counter."""
        return Repeat(self.rule, max(self.least - 1, 0), None if self.most is None else self.most - 1)


@dataclass(frozen=True, slots=True)
class Choices:
    """One of the alternatives."""

    alternatives: tuple[tuple[Frame, ...], ...]


Frame = Text | Character | Continuation | Star | Call | Repeat | Choices
Rest = tuple[Frame, ...]
"""A position inside a rule: the frames left to read, in order."""


def clip(intervals: Iterable[Interval], first: int, last: int) -> tuple[Interval, ...]:
    """The parts of the intervals inside ``first .. last``, relative to ``first``."""
    return tuple(
        (max(low, first) - first, min(high, last) - first)
        for low, high in intervals
        if low <= last and high >= first
    )


def after_byte(frame: Frame, byte: int) -> Rest | None:
    """What is left of a frame that reads bytes, after ``byte``; None if the frame does not accept it."""
    if isinstance(frame, Text):
        if frame.data[0] != byte:
            return None
        return (Text(frame.data[1:]),) if len(frame.data) > 1 else ()
    if isinstance(frame, Character):
        return _after_first_byte(frame.intervals, byte)
    if isinstance(frame, Continuation) and byte & 0xC0 == 0x80:
        size = 64 ** (frame.count - 1)
        first = (byte & 0x3F) * size
        return _continuation(frame.count - 1, clip(frame.intervals, first, first + size - 1))
    return None


def _after_first_byte(intervals: tuple[Interval, ...], byte: int) -> Rest | None:
    """`after_byte` for a whole character in UTF-8. Overlong forms are refused, surrogates are allowed."""
    if byte < 0x80:
        return _continuation(0, clip(intervals, byte, byte))
    # Lead bytes: smallest lead, bytes that follow, smallest code point that needs this length.
    for lead, count, least in ((0xF0, 3, 0x10000), (0xE0, 2, 0x800), (0xC0, 1, 0x80)):
        if lead <= byte <= 0xF7:
            first = (byte - lead) * 64**count
            valid = clip(intervals, least, LAST)
            # `clip` counts from its lower bound; shift back to code points before the second clip.
            shifted = tuple((low + least, high + least) for low, high in valid)
            return _continuation(count, clip(shifted, first, first + 64**count - 1))
    return None


def _continuation(count: int, intervals: tuple[Interval, ...]) -> Rest | None:
    if not intervals:
        return None
    return (Continuation(count, intervals),) if count else ()


# --- Reading the serialised grammar --------------------------------------------------------------------

_UNREAD_TYPES = {
    7: "tag dispatch",
    9: "token edge",
    10: "excluded token edge",
    11: "token tag dispatch",
    12: "regular expression",
    13: "substring",
}


@dataclass(frozen=True)
class Reader:
    """Turns the numbered expressions of the JSON text into frames."""

    data: Sequence[int]
    starts: Sequence[int]

    def rest(self, expression: int) -> Rest:
        """The frames of one expression."""
        start = self.starts[expression]
        kind, length = self.data[start], self.data[start + 1]
        values = list(self.data[start + 2 : start + 2 + length])
        if kind == 0:
            return (Text(bytes(value & 255 for value in values)),) if values else ()  # C++ may sign them
        if kind == 1:
            return (self._character(values),)
        if kind == 2:
            return (Star(self._character(values)),)
        if kind == 3:
            return ()
        if kind == 4:
            return (Call(values[0]),)
        if kind == 5:
            return tuple(frame for element in values for frame in self.rest(element))
        if kind == 6:
            return (Choices(tuple(self.rest(element) for element in values)),)
        if kind == 8:
            return (Repeat(values[0], values[1], None if values[2] < 0 else values[2]),)
        name = _UNREAD_TYPES.get(kind, f"construct of type {kind}")
        raise UnsupportedGrammar(
            f"the reference cannot read this {name}; it reads byte strings, character classes, rule "
            "references, sequences, choices and repeats; ask XGrammar itself about this grammar"
        )

    def _character(self, values: list[int]) -> Character:
        intervals = zip(values[1::2], values[2::2], strict=True)
        found = joined((low, high) for low, high in intervals if low <= high)
        # The complement is taken over all code points, also those beyond ASCII.
        return Character(others(found) if values[0] else found)
