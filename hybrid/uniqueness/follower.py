"""Follow a sequence through a grammar that allows repetitions, and forbid them.

What: a `UniquenessFollower` has another follower, of any strategy, and a `Cursor`. It fills the mask of the
other follower, and removes the tokens that repeat an item or a key, and the tokens after which an item can
only become a repetition.
When: for schemas whose `hybrid.json_schema.uniqueness.places` are not None.
Limits: those of `new_values.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equivalence.deadline import Deadline
from hybrid.classifier.follower import ClassifierFollower
from hybrid.json_schema.uniqueness.marks import BYTES as MARKS
from hybrid.json_schema.uniqueness.marks import unmarked
from hybrid.json_schema.uniqueness.places import Places
from hybrid.uniqueness.candidates import candidates
from hybrid.uniqueness.cursor import (
    BEHIND,
    ENDING_SCALAR,
    ESCAPED,
    IN_SCALAR,
    IN_STRING,
    QUOTE,
    WHITE_SPACE,
    Cursor,
    Repeated,
)
from hybrid.uniqueness.new_values import Check, goes_on, mark_may_follow, unchecked
from hybrid.uniqueness.token_kinds import Kinds, kinds_of
from hybrid.values.follower import Follower, ReplaceFollower
from hybrid.values.mask_time import A_TEXT, A_TOKEN, check_time, seconds_of_text

KEPT = 32
"""The cursors before so many steps are kept for rollbacks. Each has a copy of the text of an item, so all of
them would take memory with the square of a text. To go back further, the text is read again."""


PIECE = 256
"""The clock is looked at after so many bytes of a text."""


class UniquenessFollower(Follower):
    """A follower that remembers items and keys.

    Args:
        inner: the follower of the grammar, at the start of a sequence.
        places: the places of the grammar's schema.
        vocabulary: the vocabulary.
        stops: ids that end the sequence.
        mask_seconds: the time limit of a mask, a token and a text; None: there is none.
    """

    def __init__(
        self, inner: Follower, places: Places, vocabulary: Any, stops: tuple[int, ...],
        mask_seconds: float | None,
    ) -> None:  # fmt: skip
        super().__init__(inner)
        self._mask_seconds = mask_seconds
        self._places, self._stops = places, frozenset(stops)
        self._vocabulary, self._tokens = vocabulary, vocabulary.tokens
        self._kinds: Kinds = kinds_of(vocabulary)
        # the last cursors, each with the number of steps before it; the last one is here after `_settle`
        self._known: tuple[tuple[int, Cursor], ...] = ((self.n_steps, Cursor(places)),)
        self._is_marked = any(place.is_marked for place in places.all)

    @property
    def _cursor(self) -> Cursor:
        return self._known[-1][1]

    def _settle(self) -> None:
        """Find the cursor again if steps were taken back."""
        made, known = self.n_steps, self._known
        while known and known[-1][0] > made:
            known = known[:-1]
        if not known:
            cursor = Cursor(self._places)
            cursor.read(self.text_read())
            known = ((made, cursor),)
        self._known = known

    # masks

    def _answer(self, question: Callable[[], bool]) -> bool:
        """Answer a question that forks may have to read text for. If one of them would have to be replaced,
        replace the follower of the grammar, and answer again."""
        self._settle()
        try:
            return question()
        except ReplaceFollower:  # its follower has read the text of the fork
            assert isinstance(self.inner, ClassifierFollower), "others are never replaced"
            self.inner = self.inner.fallback(self.n_steps)
        return question()

    def fill(self, words: Any, debug_print: bool = False) -> bool:
        """See `Follower.fill`."""
        return self._answer(lambda: self._fill(words, debug_print))

    def _fill(self, words: Any, debug_print: bool) -> bool:
        check, mask = partial(check_time, perf_counter(), self._mask_seconds), np.empty_like(words)
        needed: bool = self._delegate("fill", mask, debug_print)
        if self._is_marked:
            needed = self._restrict_marked(mask, check)
        else:
            tried = candidates(self._cursor, self._kinds, self._bits(mask))
            for token in self._forbidden(tried.tolist(), check) if len(tried) else ():
                mask[token >> 5] &= ~np.uint32(1 << (token & 31))
                needed = True
        check()
        words[:] = mask
        return needed

    def _restrict_marked(self, words: Any, check: Check) -> bool:
        """Restrict a mask of a grammar in which marks replace some bytes of tokens. Return whether it forbids
        any id.

        Tokens that may contain marks are read one by one.

        Args:
            words: the mask.
            check: raises `TooSlow` if it takes too long.
        """
        kinds, cursor = self._kinds, self._cursor
        bits = self._bits(words) | kinds.separating  # text without commas and brackets has no marks
        is_within = cursor.mode in (IN_STRING, ESCAPED)
        is_repeated = any(one.is_repeated for one in cursor.open)
        chosen = kinds.separating & (kinds.with_quote | (not is_within)) & is_repeated
        # The comma or bracket after an item depends on whether it was equal to an earlier one. So a string
        # may end, and white space may come, only if the right one can follow.
        if is_within:
            chosen |= bits & kinds.with_quote
        elif cursor.mode == BEHIND:
            chosen |= bits & np.isin(kinds.first, [*WHITE_SPACE])
        chosen[candidates(cursor, kinds, bits)] = True
        known: dict[bytes | int, bool] = {}
        for token in np.flatnonzero(chosen).tolist():
            check()
            text = self._tokens[token]
            if token in self._stops or not text:
                continue
            # The grammar allows the tokens without commas and brackets. Others may differ here even if they
            # differ in white space only: its amount may be limited.
            is_read = kinds.separating[token] or not self._places.is_free
            alike = token if is_read else kinds.alike(token, is_within)
            if alike not in known:
                known[alike] = self._marked(text, check) is not None
            is_allowed = known[alike]
            bit = np.uint32(1 << (token & 31))
            words[token >> 5] = words[token >> 5] | bit if is_allowed else words[token >> 5] & ~bit
        for token in kinds.with_marks.tolist():
            words[token >> 5] &= ~np.uint32(1 << (token & 31))
        return not self._bits(words).all()

    def _bits(self, words: Any) -> NDArray[np.bool_]:
        """Return the mask as a bool for each id."""
        return np.unpackbits(words.view(np.uint8), bitorder="little")[: len(self._tokens)].view(bool)

    def _marked(self, text: bytes, check: Check = unchecked) -> tuple[Cursor, bytes] | None:
        """Read a text. Return the cursor after it, and the text with its marks; None if it is refused, or if
        only repetitions could follow."""
        if not MARKS.isdisjoint(text):
            return None
        cursor = self._cursor.copy()
        try:
            marked = _read(cursor, text, check)
        except (Repeated, ValueError, IndexError):  # the text is not JSON
            return None
        fork = self.inner.fork()
        if not fork.accept_string(marked) or not mark_may_follow(cursor, fork):
            return None
        return (cursor, marked) if goes_on(cursor, lambda: fork, check=check) else None

    def _forbidden(self, tokens: list[int], check: Check) -> list[int]:
        """Find, among tokens that the grammar allows, those that repeat something or can only lead to
        repetitions.

        Args:
            tokens: the tokens.
            check: as of `_restrict_marked`.
        """
        mode, found = self._cursor.mode, []
        is_within = mode in (IN_STRING, ESCAPED)
        known: dict[bytes | int, bool] = {}
        ended: list[Cursor | None] = []
        for token in tokens:
            check()
            text = self._tokens[token]
            if token in self._stops or not text:
                continue
            # where white space is not optional, tokens that differ in it may lead to different places
            alike = self._kinds.alike(token, is_within) if self._places.is_free else token
            if alike not in known:
                begin: Cursor | None = self._cursor
                is_string = mode == IN_STRING and text[0] == QUOTE
                if is_string or (mode == IN_SCALAR and text[0] in ENDING_SCALAR):
                    ended = ended or [self._ended()]
                    begin, rest = ended[0], text[is_string:]
                else:
                    rest = text
                known[alike] = begin is None or (
                    self._after(begin, rest, partial(self._behind, text), check) is None
                )
            if known[alike]:
                found.append(token)
        return found

    def _ended(self) -> Cursor | None:
        """Return the cursor after the end of the current string, number or constant; None if it is a
        repetition."""
        cursor = self._cursor.copy()
        try:
            if cursor.mode == IN_STRING:
                cursor.read(b'"')
            else:
                cursor.end_value()
        except Repeated:
            return None
        return cursor

    def _behind(self, text: bytes) -> Follower:
        fork = self.inner.fork()
        fork.accept_string(text)
        return fork

    def _after(
        self, begin: Cursor, text: bytes, behind: Callable[[], Follower], check: Check = unchecked
    ) -> Cursor | None:
        """Return the cursor after some text; None if the text repeats something, or can only lead to
        repetitions.

        Args:
            begin: the cursor before the text.
            text: a text that the grammar allows.
            behind: makes a follower of the grammar that has read the text.
            check: as of `_restrict_marked`.
        """
        cursor = begin.copy()
        try:
            _read(cursor, text, check)
        except Repeated:
            return None
        return cursor if goes_on(cursor, behind, check=check) else None

    # tokens and text

    def accept_token(self, token: int, debug_print: bool = False) -> bool:
        """See `Follower.accept_token`."""
        text = self._tokens[token]
        return self._answer(lambda: self._accept("accept_token", token, text, debug_print))

    def accept_string(self, text: bytes, debug_print: bool = False) -> bool:
        """See `Follower.accept_string`."""
        return self._answer(lambda: self._accept("accept_string", text, text, debug_print))

    def _accept(self, name: str, given: Any, text: bytes, debug_print: bool) -> bool:
        is_token = name == "accept_token"
        is_stop = is_token and given in self._stops
        seconds = seconds_of_text(self._mask_seconds, text)
        check = partial(check_time, perf_counter(), seconds, A_TOKEN if is_token else A_TEXT)
        after: Cursor | None = self._cursor
        if self._is_marked and not is_stop:
            found = self._marked(text, check)
            if found is None:
                return False
            after, marked = found
            if marked != text:
                name, given = "accept_string", marked
        made = self.n_steps
        try:
            if not self._delegate(name, given, debug_print):
                return False
            if not self._is_marked and not is_stop:
                after = self._after(self._cursor, text, self.inner.fork, check)
            if after is not None:
                self._known = (*self._known[-KEPT:], (made + 1, after))
                return True
            self.inner.rollback(1)
        except BaseException:  # Ctrl-C may come after the grammar's follower has read the text
            self.inner.rollback(self.n_steps - made)
            raise
        return False

    def text_read(self) -> bytes:
        """See `Follower.text_read`."""
        return unmarked(bytes(self._delegate("text_read")))

    def find_jump_forward_string(self, deadline: Deadline) -> str:
        """See `Follower.find_jump_forward_string`: text that the grammar forces is forced here, too."""
        return unmarked(str(self._delegate("find_jump_forward_string", deadline)).encode()).decode()


def _read(cursor: Cursor, text: bytes, check: Check) -> bytes:
    """`Cursor.read` of a text that may be long."""
    if len(text) <= PIECE:
        return cursor.read(text)
    read = bytearray()
    for at in range(0, len(text), PIECE):
        check()
        read += cursor.read(text[at : at + PIECE])
    return bytes(read)
