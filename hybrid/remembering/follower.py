"""Follows a sequence through a grammar that lets things come again, and forbids what does.

What: a `RememberingFollower` has another follower, of any strategy, and a `Cursor` beside it. Its masks are
those of the other one without the tokens by which an item or a key comes again, and without those behind
which an item can only become one that came before.
When: for schemas whose `hybrid.json_schema.places` are not None.
Limits: items that may run out are looked ahead for `MOST_AHEAD` texts; what then has no new end is forbidden.

Which tokens are looked at: those that may end something where the text stands (`vocabulary.py`), which are
few within a string; and where items may run out, those along which an item that came before goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equivalence.deadline import Deadline
from hybrid.api.follower import Follower, Outgrown
from hybrid.json_schema.places import Places
from hybrid.remembering.cursor import BACKSLASH, IN_SCALAR, IN_STRING, Container, Cursor, Repeated
from hybrid.remembering.vocabulary import Kinds, kinds_of

MOST_AHEAD = 2_000
"""Texts that are looked at to find a new end of an item."""

MOST_TRIED = 4_096
"""Allowed ids up to which each is tried where items may run out: all but those within free strings."""

PLAIN = bytes(byte for byte in range(0x21, 0x7F) if byte != BACKSLASH)
"""What new ends are looked for with; with white space where nothing else goes on."""


class RememberingFollower(Follower):
    """A follower that remembers.

    Args:
        inner: follows the grammar; at the start of a sequence.
        places: of the grammar's schema.
        vocabulary: the vocabulary.
        stops: ids that end the sequence.
    """

    def __init__(self, inner: Follower, places: Places, vocabulary: Any, stops: tuple[int, ...]) -> None:
        self._inner, self._places, self._stops = inner, places, frozenset(stops)
        self._vocabulary, self._tokens = vocabulary, vocabulary.tokens
        self._kinds: Kinds = kinds_of(vocabulary)
        self._cursor = Cursor(places)
        self._before: list[Cursor] = []  # one for each step

    def _ask(self, name: str, *arguments: Any) -> Any:
        """What the inner follower answers, or the one that goes on for it."""
        try:
            found = getattr(self._inner, name)(*arguments)
        except Outgrown as outgrown:
            self._inner = outgrown.follower
            found = getattr(self._inner, name)(*arguments)
        if self._inner.successor is not None:
            self._inner = self._inner.successor
        return found

    # masks

    def fill(self, words: Any, debug_print: bool = False) -> bool:
        """See `Follower.fill`."""
        needed: bool = self._ask("fill", words, debug_print)
        tried = self._tried(words)
        if not len(tried):
            return needed
        forbidden = [token for token in tried.tolist() if self._repeats(token)]
        for token in forbidden:
            words[token >> 5] &= ~np.uint32(1 << (token & 31))
        return needed or bool(forbidden)

    def _tried(self, words: NDArray[np.uint32]) -> NDArray[np.int64]:
        """The ids of a mask that may repeat something."""
        cursor, kinds = self._cursor, self._kinds
        size = len(self._tokens)
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")[:size].view(bool)
        if not cursor.is_watching:
            return np.flatnonzero(bits & kinds.opening)
        begun = cursor.begun()
        running_out = [one for one in cursor.open if one.is_array and one.texts]
        if cursor.mode == IN_STRING or cursor.mode == IN_STRING + 1:
            ending = kinds.with_quote
        else:
            ending = kinds.ending_scalar if cursor.mode == IN_SCALAR else kinds.ending
        is_apart = len(begun) == len(running_out) and not any(
            _consistent(text, one.texts) for text, one in begun
        )
        if is_apart:  # nothing that came before begins like what is being read
            return np.flatnonzero(bits & (ending | kinds.opening))
        if np.count_nonzero(bits) <= MOST_TRIED:
            return np.flatnonzero(bits)
        chosen = bits & (ending | kinds.opening | kinds.with_quote)
        starting = [("", one) for one in running_out if one.begins < 0]
        for text, one in [*begun, *starting]:
            for rest in _rests(text, one.texts):
                for length in range(1, min(len(rest), kinds.longest) + 1):
                    for token in kinds.by_text.get(rest[:length], ()):
                        chosen[token] = bits[token]
        return np.flatnonzero(chosen)

    def _repeats(self, token: int) -> bool:
        """Whether something comes again by an id of the grammar's mask, or has to."""
        text = self._tokens[token]
        if token in self._stops or not text:
            return False

        def behind() -> Follower:
            fork = self._inner.fork()
            fork.accept_string(text)
            return fork

        return self._after(text, behind) is None

    def _after(self, text: bytes, behind: Callable[[], Follower]) -> Cursor | None:
        """The cursor behind some text, or None where something comes again, or has to.

        Args:
            text: which the grammar takes.
            behind: makes a follower of the grammar that has read it.
        """
        cursor = self._cursor.copy()
        try:
            cursor.read(text)
        except Repeated:
            return None
        for begun, one in cursor.begun():
            if _consistent(begun, one.texts) and not self._may_be_new(behind(), cursor, one):
                return None
        return cursor

    def _may_be_new(self, first: Follower, cursor: Cursor, array: Container) -> bool:
        """Whether the item that is begun can become one that did not come before."""
        depth = cursor.open.index(array)
        n_same = sum(1 for one in array.texts if one.startswith(cursor.begun_text(array)))
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
                    twin = follower.fork()
                    twin.accept_string(byte)
                    following.append((twin, after))
            if len(following) > n_same:
                return True  # each becomes another value, and all of them cannot have come before
            level = following
        return False

    def fill_by_class(self, words: Any) -> None:
        """Masks by class do not tell what came before."""
        return

    # tokens and text

    def accept_token(self, token: int, debug_print: bool = False) -> bool:
        """See `Follower.accept_token`."""
        return self._accept("accept_token", token, self._tokens[token], debug_print)

    def accept_string(self, text: bytes, debug_print: bool = False) -> bool:
        """See `Follower.accept_string`."""
        return self._accept("accept_string", text, text, debug_print)

    def _accept(self, name: str, given: Any, text: bytes, debug_print: bool) -> bool:
        if not self._ask(name, given, debug_print):
            return False
        after: Cursor | None = self._cursor
        if name != "accept_token" or given not in self._stops:
            after = self._after(text, self._inner.fork)
        if after is None:
            self._ask("rollback", 1)
            return False
        self._before.append(self._cursor)
        self._cursor = after
        return True

    def text_read(self) -> bytes:
        """See `Follower.text_read`."""
        return bytes(self._ask("text_read"))

    def check_made(self, steps: int) -> None:
        """See `Follower.check_made`."""
        self._ask("check_made", steps)

    def rollback(self, steps: int) -> None:
        """See `Follower.rollback`."""
        try:
            self._inner.rollback(steps)
        except Outgrown as outgrown:
            self._inner = outgrown.follower  # which took them back
        if steps:
            at = len(self._before) - steps
            self._cursor = self._before[at]
            del self._before[at:]

    def reset(self) -> None:
        """See `Follower.reset`."""
        self._ask("reset")
        self._cursor, self._before = Cursor(self._places), []

    def fork(self) -> RememberingFollower:
        """See `Follower.fork`."""
        twin = RememberingFollower.__new__(RememberingFollower)
        twin.__dict__.update(self.__dict__)
        twin._inner, twin._before = self._inner.fork(), self._before[:]
        return twin

    # the rest is the grammar's

    @property
    def temperature(self) -> float | None:
        """See `Follower.temperature`."""
        return self._inner.temperature

    def is_terminated(self) -> bool:
        """See `Follower.is_terminated`."""
        return bool(self._ask("is_terminated"))

    def is_completed(self) -> bool:
        """See `Follower.is_completed`."""
        return bool(self._ask("is_completed"))

    def find_jump_forward_string(self, deadline: Deadline) -> str:
        """See `Follower.find_jump_forward_string`: what the grammar forces is forced here, too."""
        return str(self._ask("find_jump_forward_string", deadline))

    def get_captures(self, deduplicate: bool) -> Any:
        """See `Follower.get_captures`."""
        return self._ask("get_captures", deduplicate)


def _consistent(begun: str, texts: frozenset[str]) -> bool:
    """Whether an item that came before may begin like this. Numbers have several texts: where they have a
    fraction or an exponent, all of the number is left open."""
    at = len(begun.rstrip("0123456789.eE+-"))
    begun = begun[:at] if any(letter in begun[at:] for letter in ".eE") else begun
    return any(one.startswith(begun) for one in texts)


def _rests(begun: str, texts: frozenset[str]) -> list[bytes]:
    return [one[len(begun) :].encode() for one in texts if one.startswith(begun)]


def _next_bytes(follower: Follower) -> list[bytes]:
    """The bytes that may come next: without white space and backslashes where others do as well."""
    fork = follower.fork()
    for candidates in (PLAIN, bytes(range(256))):
        found = []
        for byte in candidates:
            if fork.accept_string(bytes([byte])):
                fork.rollback(1)
                found.append(bytes([byte]))
        if found:
            return found
    return []
