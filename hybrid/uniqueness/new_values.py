"""Decide whether an unfinished item or key can become one that did not come before.

What: `may_be_new` compares the number of values that an item can become with the number of these that came
before (`hybrid.json_schema.uniqueness.prefix_counts`). Where values cannot be counted, it tries the bytes
that the grammar allows, breadth first, until it finds a new item, or a beginning that no earlier item has.
When: if an unfinished item begins like an earlier one, and `Container.has_spare_completions` does not decide;
`goes_on` decides when, for all open containers.
Limits: at most `MOST_AHEAD` texts are tried, those of inner items included; if no new item is found by then,
the token is forbidden.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeAlias

from equivalence.deadline import Deadline
from hybrid.json_schema.uniqueness.marks import BYTES, MARKED, unmarked
from hybrid.uniqueness.cursor import (
    BACKSLASH,
    BEFORE,
    ESCAPED,
    IN_SCALAR,
    IN_STRING,
    WHITE_SPACE,
    Container,
    Cursor,
    Repeated,
    is_consistent,
)
from hybrid.uniqueness.numbers import IN_NUMBER, number
from hybrid.values.follower import Follower

MOST_AHEAD = 2_000
"""The most texts that are tried to find a new item."""

_FIRST = b'",:]}[{0123456789abcdefghijklmnopqrstuvwxyz'
PLAIN = _FIRST + bytes(byte for byte in range(0x21, 0x7F) if byte != BACKSLASH and byte not in _FIRST)
"""The bytes that are tried first, the most frequent ones at the beginning."""

_AT_CHARACTER = PLAIN + b" \x7f" + bytes(range(0xC2, 0xF5)) + bytes([BACKSLASH])
_IN_CHARACTER = bytes(range(0x80, 0xC0))
_HEXADECIMAL = b"0123456789abcdefABCDEF"

MARKS, UNMARKED = [bytes([mark]) for mark in sorted(BYTES)], [b",", b"]"]

_SPACES = (b"\n", b" ", b"\t", b"\r")

_ENDLESS_ZEROS = re.compile(r"\.[0-9]*0{12}\Z")
"""The most zeros of a fraction behind which another digit is looked for: if only zeros may follow, `1.000...`
never becomes another number than 1."""

_WITHIN_STRING = re.compile(r'[^"\\]+')
"""The beginning of a text that neither ends a string nor escapes a character."""

_POWER_OF_ZERO = re.compile(r"-?0(?:\.0*)?[eE][-+0-9]*")
_EXPONENT_OF_ZERO = re.compile(r"(?<![0-9.])0(?:\.0+)?[eE][-+]?[0-9]+\Z")
"""At the end of a text: it may go on in infinitely many ways, which are all the same number."""


Check: TypeAlias = Callable[[], None]
"""Raises an error if the time is over."""


def unchecked() -> None:
    """Do nothing: there is no time limit."""


class Tries:
    """The texts that may still be tried, for a search and the searches for inner items that it starts.

    Each of them alone would have its own limit otherwise, and arrays within arrays would multiply it.

    Args:
        check: called for each text.
    """

    def __init__(self, check: Check) -> None:
        self.left, self._check = MOST_AHEAD, check

    def take(self) -> bool:
        """Whether one more text may be tried."""
        self._check()
        self.left -= 1
        return self.left >= 0


def may_be_new(
    behind: Callable[[], Follower], cursor: Cursor, array: Container, item: tuple[str, bytes], tries: Tries
) -> bool:
    """Whether the current item, or the next one, can become a new one.

    If commas and brackets show that items were equal, a repetition is fine as well, as long as the grammar
    allows text after it.

    Args:
        behind: makes a follower of the grammar at the same place as the cursor.
        cursor: the cursor.
        array: the open container of the cursor that has the item or key.
        item: its `Cursor.begun_parts`.
        tries: the texts that may be tried.
    """
    begun, unfinished = item
    is_marked = array.is_array and array.place is not None and array.place.is_marked
    if _POWER_OF_ZERO.fullmatch(begun) and not is_marked:  # has infinitely many spellings, but one value
        return array.seen is not None and number("0") not in array.seen
    has_new = None if unfinished or cursor.shows_what_follows else array.can_become_new(begun)
    if has_new is not None:
        return has_new
    depth = cursor.open.index(array)
    todo: deque[tuple[Follower, Cursor, str, bytes]] = deque([(behind(), cursor, begun, unfinished)])
    must_end = bool(unfinished)  # an escape or a character
    met: set[tuple[str, bytes]] = set()  # texts that were spelled in some way
    while todo:
        follower, here, text, rest = todo.popleft()
        if not tries.take():
            return False
        has_begun = here.open[depth].begins >= 0
        for byte in _next_bytes(follower, here.mode, rest, must_end and text == begun):
            after = here.copy()
            try:
                marked = after.read(byte)
            except Repeated:
                continue
            twin = follower.fork()
            if not twin.accept_string(marked):
                continue
            if len(after.open) <= depth or (has_begun and after.open[depth].begins < 0):
                if not mark_may_follow(after, twin):
                    continue
                return True  # an item ended that is new, or that may be a repetition
            if after.open[depth].begins < 0:  # white space before the item
                todo.append((twin, after, "", b""))
                continue
            text, rest = after.begun_parts(after.open[depth])
            has_new = None if rest or after.shows_what_follows else array.can_become_new(text)
            if has_new is not None:
                if has_new:
                    return True
                continue
            if after.mode == IN_SCALAR and _ENDLESS_ZEROS.search(text):
                continue
            spelled = _EXPONENT_OF_ZERO.sub("0e0", text) if after.mode == IN_SCALAR else text
            if (spelled, rest) in met and after.mode in (IN_STRING, ESCAPED, IN_SCALAR):
                continue
            met.add((spelled, rest))
            if not rest and is_consistent(text, array.texts_like(text)) and _read_forced(twin, after):
                text, rest = after.begun_parts(after.open[depth])
            is_new = after.always_has_more(depth + 1) or not is_consistent(text, array.texts_like(text))
            if is_new or array.has_spare_completions(text):
                if goes_on(after, twin.fork, depth + 1, tries):
                    return True  # however it goes on
                continue
            (todo.appendleft if rest else todo.append)((twin, after, text, rest))  # first, characters end
    return False


def _read_forced(follower: Follower, cursor: Cursor) -> bool:
    """Read text that the grammar forces within a string: listed texts are long, and differ in few places.
    Return whether there is any."""
    if cursor.mode != IN_STRING:
        return False
    forced = _WITHIN_STRING.match(follower.find_jump_forward_string(Deadline()))
    if forced is None or not follower.accept_string(forced[0].encode()):
        return False
    cursor.read(forced[0].encode())
    return True


def _read_what_follows(follower: Follower, cursor: Cursor) -> bool:
    """Read text that the grammar forces behind white space, such as a closing bracket. Return whether it
    repeats nothing, or may."""
    forced = unmarked(follower.find_jump_forward_string(Deadline()).encode())
    try:
        is_read = not forced or follower.accept_string(cursor.read(forced))
    except Repeated:
        return False
    return is_read and mark_may_follow(cursor, follower)


def goes_on(
    cursor: Cursor, behind: Callable[[], Follower], depth: int = 0, tries: Tries | None = None,
    check: Check = unchecked,
) -> bool:  # fmt: skip
    """Whether the unfinished items and keys can still become new ones, as far as is known.

    Args:
        cursor: the cursor. It records which items differ from all earlier ones.
        behind: makes a follower of the grammar at the same place.
        depth: the number of outermost containers to leave out.
        tries: the texts that may be tried; None: `MOST_AHEAD` for each container.
        check: called for each open container, and for each text if `tries` is None.
    """
    if cursor.shows_what_follows:
        follower, cursor = behind(), cursor.copy()
        if not _read_what_follows(follower, cursor):
            return False
        behind = follower.fork
    for begun, unfinished, one in cursor.begun(depth=depth):
        check()
        if one.has_spare_completions(begun):
            continue
        if not is_consistent(begun, one.texts_like(begun)):
            if begun[-1] not in IN_NUMBER:
                cursor.set_apart(one)
        elif not may_be_new(behind, cursor, one, (begun, unfinished), tries or Tries(check)):
            return False
    if cursor.mode == BEFORE and len(cursor.open) > depth:
        top = cursor.open[-1]
        may_run_out = top.is_key or (top.is_array and top.place is not None and top.place.may_be_last)
        if top.texts and may_run_out:
            return top.is_repeated or may_be_new(behind, cursor, top, ("", b""), tries or Tries(check))
    return True


def mark_may_follow(cursor: Cursor, follower: Follower) -> bool:
    """Whether the comma or bracket that has to show whether items were equal may follow, perhaps after white
    space; true where none has to.

    Args:
        cursor: the cursor.
        follower: a follower of the grammar at the same place.
    """
    if not cursor.is_behind_marked:
        return True
    ends = MARKS if cursor.open[-1].is_repeated else UNMARKED
    if any(follower.fork().accept_string(one) for one in ends):
        return True
    return any(
        fork.fork().accept_string(one)
        for space in _required_spaces(follower)
        for fork in _behind_white_space(follower, space)
        for one in ends
    )


def _behind_white_space(follower: Follower, first: bytes) -> Iterator[Follower]:
    """Yield a fork of a follower behind one, two, ... characters of white space, as far as they are allowed.

    It is the same fork each time: whoever wants to keep it forks it.

    Args:
        follower: a follower of the grammar.
        first: the first character, which is allowed.
    """
    fork = follower.fork()
    fork.accept_string(first)
    yield fork
    while any(fork.accept_string(space) for space in _SPACES):
        yield fork


def _required_spaces(follower: Follower) -> list[bytes]:
    """Return the white space that may come next, if a layout requires it. Optional white space may be of any
    kind."""
    spaces = [*_possible(follower, WHITE_SPACE)]
    return spaces if len(spaces) < len(WHITE_SPACE) else []


def _next_bytes(follower: Follower, mode: int, unfinished: bytes, must_end: bool) -> Iterator[bytes]:
    """Find the bytes that may come next, except escapes of characters that need none, and white space that is
    optional: it may be of any kind, and what may follow it may come at once, too.

    Args:
        mode: that of the cursor.
        unfinished: the escape, or the character, that has begun.
        must_end: whether it began before the search, so that it must end, even if the character needs none.
    """
    if mode in (IN_STRING, ESCAPED):
        yield from _possible(follower, _bytes_of_strings(unfinished, must_end))
        return
    found: list[bytes] = []
    for one in _possible(follower, PLAIN):
        found.append(one)
        yield one
    for space in _required_spaces(follower):
        forks = _behind_white_space(follower, space)
        behind = next(filter(None, ([*_possible(fork, PLAIN)] for fork in forks)), [])
        if not set(behind) <= set(found):
            yield space


def _bytes_of_strings(unfinished: bytes, must_end: bool) -> bytes:
    """Return the bytes that may continue a string, without escapes of characters that need none.

    Args:
        unfinished, must_end: see `_next_bytes`.
    """
    if not unfinished:
        return _AT_CHARACTER
    if unfinished[0] != BACKSLASH:
        return _IN_CHARACTER
    at = unfinished.rfind(b"\\")  # of two halves of a character, the second one
    digits = unfinished[at + 2 :]
    if len(unfinished) == at + 1:
        return b'"\\/bfnrtu' if must_end else b'"\\bfnrtu'
    if len(digits) == 4:  # the first half
        return _AT_CHARACTER
    if digits in (b"", b"0", b"00") and not must_end:
        return (b"0dD", b"0", b"01")[len(digits)]
    return _HEXADECIMAL


def _possible(follower: Follower, candidates: bytes) -> Iterator[bytes]:
    """Find those of some bytes that may come next."""
    fork = follower.fork()
    for byte in candidates:
        if fork.accept_string(bytes([byte])) or (
            byte in MARKED and fork.accept_string(bytes([MARKED[byte]]))
        ):
            fork.rollback(1)
            yield bytes([byte])
