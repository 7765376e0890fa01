"""Decide whether an unfinished item or key can become one that did not come before.

What: `may_be_new` tries the bytes that the grammar allows, breadth first, until it finds a new item, or a
beginning that no earlier item has.
When: if an unfinished item begins like an earlier one, and `Place.is_endless_behind` does not decide.
Limits: at most `MOST_AHEAD` texts are tried; if no new item is found by then, the token is forbidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from hybrid.json_schema.marks import BYTES, MARKED
from hybrid.remembering.cursor import (
    BACKSLASH,
    ESCAPED,
    IN_STRING,
    WHITE_SPACE,
    Container,
    Cursor,
    Repeated,
    is_consistent,
    number,
)
from hybrid.values.follower import Follower

MOST_AHEAD = 2_000
"""The most texts that are tried to find a new item."""

_FIRST = b'",:]}[{0123456789abcdefghijklmnopqrstuvwxyz'
PLAIN = _FIRST + bytes(byte for byte in range(0x21, 0x7F) if byte != BACKSLASH and byte not in _FIRST)
"""The bytes that are tried first, the most frequent ones at the beginning."""

IN_STRINGS = PLAIN + b" " + bytes(range(0x7F, 0x100)) + bytes([BACKSLASH])
"""The bytes that are tried in strings. Backslashes come last: an escape is most often another spelling."""

MARKS = [bytes([mark]) for mark in sorted(BYTES)]

_SPACES = (b"\n", b" ", b"\t", b"\r")

MOST_SPACE = 512
"""The most characters of white space that a fixed layout puts before a comma or a bracket."""

_POWER_OF_ZERO = re.compile(r"-?0(?:\.0*)?[eE][-+0-9]*")


def may_be_new(first: Follower, cursor: Cursor, array: Container) -> bool:
    """Whether the current item, or the next one, can become a new one.

    If commas and brackets show that items were equal, a repetition is fine as well, as long as the grammar
    allows text after it.

    Args:
        first: a follower of the grammar at the same place as the cursor.
        cursor: the cursor.
        array: the open container of the cursor that has the item or key.
    """
    depth = cursor.open.index(array)
    begun = cursor.begun_text(array) if array.begins >= 0 else ""
    is_marked = array.is_array and array.place is not None and array.place.is_marked
    if _POWER_OF_ZERO.fullmatch(begun) and not is_marked:  # has infinitely many spellings, but one value
        return array.seen is not None and number("0") not in array.seen
    n_same = sum(1 for one in array.texts if one.startswith(begun))
    level: list[tuple[Follower, Cursor]] = [(first, cursor)]
    met: set[tuple[str, bytes]] = set()  # texts that were spelled in some way
    n_tried = 0
    while level and n_tried < MOST_AHEAD:
        following: list[tuple[Follower, Cursor]] = []
        texts: set[str] = set()
        for follower, here in level:
            n_tried += 1
            for byte in _next_bytes(follower, here.mode):
                after = here.copy()
                try:
                    marked = after.read(byte)
                except Repeated:
                    continue
                twin = follower.fork()
                if not twin.accept_string(marked):
                    continue
                has_begun = here.open[depth].begins >= 0
                if len(after.open) <= depth or (has_begun and after.open[depth].begins < 0):
                    if after.is_behind_repeated and not goes_on_behind_repeated(twin):
                        continue
                    return True  # an item ended that is new, or that may be a repetition
                if after.open[depth].begins < 0:  # white space before the item
                    following.append((twin, after))
                    continue
                text, unfinished = after.begun_parts(after.open[depth])
                if (text, unfinished) in met and after.mode in (IN_STRING, ESCAPED):
                    continue
                met.add((text, unfinished))
                if not is_consistent(text, array.texts) or array.is_endless_behind(text):
                    return True  # however it goes on
                following.append((twin, after))
                texts.add(text)
        if _n_apart(texts) > n_same:
            return True  # each becomes a different value, and there are more of them than earlier items
        level = following
    return False


def _n_apart(texts: set[str]) -> int:
    """Return how many of some texts do not begin another one of them."""
    ordered = sorted(texts)
    return sum(not after.startswith(text) for text, after in pairwise([*ordered, ""]))


def goes_on_behind_repeated(follower: Follower) -> bool:
    """Whether a comma or a bracket that shows that items were equal may follow, perhaps after white space.

    Args:
        follower: a follower of the grammar, after an item.
    """
    fork = follower.fork()
    for _ in range(MOST_SPACE):
        for mark in MARKS:
            if fork.accept_string(mark):
                return True
        if not any(fork.accept_string(space) for space in _SPACES):
            return False
    return False


def _next_bytes(follower: Follower, mode: int) -> Iterator[bytes]:
    """Find the bytes that may come next. Outside of strings, white space is left out if it is optional: what
    may follow it may come at once, too."""
    if mode in (IN_STRING, ESCAPED):
        yield from _possible(follower, IN_STRINGS)
        return
    found = [*_possible(follower, PLAIN)]
    yield from found
    for space in _possible(follower, WHITE_SPACE):
        fork = follower.fork()
        fork.accept_string(space)
        behind = [*_possible(fork, PLAIN)]
        for _ in range(MOST_SPACE):
            if behind or not any(fork.accept_string(one) for one in _SPACES):
                break
            behind = [*_possible(fork, PLAIN)]
        if not set(behind) <= set(found):
            yield space


def _possible(follower: Follower, candidates: bytes) -> Iterator[bytes]:
    """Find those of some bytes that may come next."""
    fork = follower.fork()
    for byte in candidates:
        if fork.accept_string(bytes([byte])) or (
            byte in MARKED and fork.accept_string(bytes([MARKED[byte]]))
        ):
            fork.rollback(1)
            yield bytes([byte])
