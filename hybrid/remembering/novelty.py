"""Whether an item, or a key, that is begun can become one that did not come before.

What: `may_be_new` tries the bytes that the grammar takes, breadth first, until an item ends that is new, or
begins like none that came before.
When: where a begun item begins like one that came before, and `Place.is_endless_behind` does not say it.
Limits: `MOST_AHEAD` texts are looked at; what then has no new end is forbidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hybrid.json_schema.marks import BYTES, MARKED
from hybrid.remembering.cursor import BACKSLASH, Container, Cursor, Repeated, is_consistent, number
from hybrid.values.follower import Follower

MOST_AHEAD = 2_000
"""Texts that are looked at to find a new end of an item."""

_FIRST = b'",:]}[{0123456789abcdefghijklmnopqrstuvwxyz'
PLAIN = _FIRST + bytes(byte for byte in range(0x21, 0x7F) if byte != BACKSLASH and byte not in _FIRST)
"""What new ends are looked for with, those first that most texts have; with white space where nothing else
goes on."""

MARKS = [bytes([mark]) for mark in sorted(BYTES)]

MOST_SPACE = 512
"""Characters of white space that a layout without choice puts before a comma or bracket, at most."""

_POWER_OF_ZERO = re.compile(r"-?0(?:\.0*)?[eE][-+0-9]*")


def may_be_new(first: Follower, cursor: Cursor, array: Container) -> bool:
    """Whether the item that is begun, or comes next, can become one that did not come before; or one that
    did, where the grammar goes on behind it.

    Args:
        first: a follower of the grammar that has read it.
        cursor: at the same place.
        array: the open container of the cursor that the item is one of, or the key.
    """
    depth = cursor.open.index(array)
    begun = cursor.begun_text(array) if array.begins >= 0 else ""
    is_marked = array.is_array and array.place is not None and array.place.is_marked
    if _POWER_OF_ZERO.fullmatch(begun) and not is_marked:  # has endlessly many spellings, and one value
        return array.seen is not None and number("0") not in array.seen
    n_same = sum(1 for one in array.texts if one.startswith(begun))
    level: list[tuple[Follower, Cursor]] = [(first, cursor)]
    n_tried = 0
    while level and n_tried < MOST_AHEAD:
        following: list[tuple[Follower, Cursor]] = []
        for follower, here in level:
            n_tried += 1
            for byte in _next_bytes(follower):
                after = here.copy()
                try:
                    marked = after.read(byte)
                except Repeated:
                    continue
                twin = follower.fork()
                if not twin.accept_string(marked):
                    continue
                if len(after.open) <= depth or after.open[depth].begins < 0:
                    if after.is_behind_repeated and not goes_on_behind_repeated(twin):
                        continue
                    return True  # one has ended that is new, or may be the one that it is
                text = after.begun_text(after.open[depth])
                if not is_consistent(text, array.texts) or array.is_endless_behind(text):
                    return True  # whatever it becomes
                following.append((twin, after))
        if len(following) > n_same:
            return True  # each becomes another value, and all of them cannot have come before
        level = following
    return False


def goes_on_behind_repeated(follower: Follower) -> bool:
    """Whether a comma or a bracket may follow that tells of equal items, perhaps behind a line break.

    Args:
        follower: of the grammar, behind an item.
    """
    fork = follower.fork()
    for _ in range(MOST_SPACE):
        for mark in MARKS:
            if fork.accept_string(mark):
                return True
        if not any(fork.accept_string(space) for space in (b"\n", b" ", b"\t")):
            return False
    return False


def _next_bytes(follower: Follower) -> Iterator[bytes]:
    """The bytes that may come next: without white space and backslashes where others do as well."""
    fork = follower.fork()
    for candidates in (PLAIN, bytes(range(256))):
        has_any = False
        for byte in candidates:
            if fork.accept_string(bytes([byte])) or (
                byte in MARKED and fork.accept_string(bytes([MARKED[byte]]))
            ):
                fork.rollback(1)
                has_any = True
                yield bytes([byte])
        if has_any:
            return
