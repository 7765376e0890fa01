"""Whether an item, or a key, that is begun can become one that did not come before.

What: `may_be_new` tries the bytes that the grammar takes, breadth first, until an item ends that is new, or
begins like none that came before.
When: where a begun item begins like one that came before, and `Place.is_endless_behind` does not say it.
Limits: `MOST_AHEAD` texts are looked at; what then has no new end is forbidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hybrid.api.follower import Follower
from hybrid.remembering.cursor import BACKSLASH, Container, Cursor, Repeated, is_consistent, number

MOST_AHEAD = 2_000
"""Texts that are looked at to find a new end of an item."""

_FIRST = b'",:]}[{0123456789abcdefghijklmnopqrstuvwxyz'
PLAIN = _FIRST + bytes(byte for byte in range(0x21, 0x7F) if byte != BACKSLASH and byte not in _FIRST)
"""What new ends are looked for with, those first that most texts have; with white space where nothing else
goes on."""

_POWER_OF_ZERO = re.compile(r"-?0(?:\.0*)?[eE][-+0-9]*")


def may_be_new(first: Follower, cursor: Cursor, array: Container) -> bool:
    """Whether the item that is begun, or comes next, can become one that did not come before.

    Args:
        first: a follower of the grammar that has read it.
        cursor: at the same place.
        array: the open container of the cursor that the item is one of, or the key.
    """
    depth = cursor.open.index(array)
    begun = cursor.begun_text(array) if array.begins >= 0 else ""
    if _POWER_OF_ZERO.fullmatch(begun):  # has endlessly many spellings, and one value
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
                    after.read(byte)
                except Repeated:
                    continue
                if len(after.open) <= depth or after.open[depth].begins < 0:
                    return True  # a new one has ended
                text = after.begun_text(after.open[depth])
                if not is_consistent(text, array.texts) or array.is_endless_behind(text):
                    return True  # whatever it becomes
                twin = follower.fork()
                twin.accept_string(byte)
                following.append((twin, after))
        if len(following) > n_same:
            return True  # each becomes another value, and all of them cannot have come before
        level = following
    return False


def _next_bytes(follower: Follower) -> Iterator[bytes]:
    """The bytes that may come next: without white space and backslashes where others do as well."""
    fork = follower.fork()
    for candidates in (PLAIN, bytes(range(256))):
        has_any = False
        for byte in candidates:
            if fork.accept_string(bytes([byte])):
                fork.rollback(1)
                has_any = True
                yield bytes([byte])
        if has_any:
            return
