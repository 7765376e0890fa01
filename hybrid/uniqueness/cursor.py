"""Read JSON text byte by byte, and find repeated items and keys in the open arrays and objects.

What: a `Cursor` knows its place in a document (`hybrid.json_schema.uniqueness.places`) and the earlier items
and keys of the open containers. It raises `Repeated` if one is repeated.
When: by `hybrid.uniqueness.follower`, for the text of one sequence and for tokens that could end an item.
Limits: the text must be JSON that the grammar allows; only repetition is checked. A number ends at the byte
after it.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

from equivalence import BudgetExceeded, forks
from hybrid.json_schema.equality import key_of
from hybrid.json_schema.uniqueness.marks import MARKED
from hybrid.json_schema.uniqueness.places import NOWHERE, Place, Places
from hybrid.json_schema.uniqueness.prefix_counts import Unknown, shortened, with_prefix
from hybrid.uniqueness.key_order import with_keys_like
from hybrid.uniqueness.numbers import number, shortest, without_fraction
from hybrid.values.identity_cache import IdentityCache

BEFORE, IN_STRING, ESCAPED, IN_SCALAR, BEHIND = range(5)
"""The modes of a cursor: before a value or a key, in a string, after a backslash in a string, in a number or
a constant, after a value or a key."""

MOST_ENDED = 4
"""The most ended items that are kept in case that other tokens end them, too."""

WHITE_SPACE = b" \t\n\r"
QUOTE, BACKSLASH, COMMA, COLON = b'"\\,:'
OPENING, CLOSING = b"[{", b"]}"
ENDING_SCALAR = CLOSING + WHITE_SPACE + b","


_NOT_DECIMAL = re.compile(r"-[-+.0-9eE]*|[0-9]+[-+.eE][-+.0-9eE]*")
"""The numbers that are not digits alone: those are their shortest spelling."""

_NO_SPACE = dict.fromkeys(WHITE_SPACE)

_UNESCAPED = re.compile(r'[^"\\]+')

_FIRST_HALF = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}")
_SECOND_HALF = re.compile(r"\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_SECOND_HALF_BEGUN = re.compile(r"(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?")
"""The escapes of the two halves of a character beyond 16 bits, and the beginnings of the second one."""


class Repeated(Exception):
    """An item or a key is repeated."""


class Container(NamedTuple):
    """An open array or object.

    Attributes:
        is_array: whether it is an array.
        place: its place in the schema; None if nothing in it is remembered.
        seen: the earlier items or keys, if they must not be repeated; None otherwise.
        texts: the texts of these items or keys without white space. Left out are those whose beginnings
            always have more completions than values came before.
        is_apart: whether the current item differs from all of these texts, however it is completed.
        begins: where the current item or key begins in the cursor's text; -1 if there is none.
        child: the place of the next value.
        is_key: whether a key comes next.
        is_repeated: whether two items were equal, in an array whose later commas and brackets show it.
    """

    is_array: bool
    place: Place | None
    seen: frozenset[Any] | None
    texts: frozenset[str]
    is_apart: bool
    begins: int
    child: int
    is_key: bool
    is_repeated: bool = False

    def has_spare_completions(self, text: str) -> bool:
        """Whether an unfinished item or key can be completed to more values than came before."""
        if self.place is None:
            return True
        if not self.is_array:
            return not self.place.keys_may_run_out
        return self.place.beginnings is None or self.place.beginnings.has(text)

    def texts_like(self, text: str) -> frozenset[str]:
        """Return the texts of those earlier items or keys that an unfinished one may become equal to, perhaps
        with others. Their keys are in its order.

        Args:
            text: the unfinished item or key.
        """
        beginnings = self.place.beginnings if self.is_array and self.place is not None else None
        if beginnings is None or not beginnings.has_free_order:
            return self.texts
        try:
            return with_keys_like(text, self.texts)
        except Unknown:
            return self.texts

    def can_become_new(self, text: str) -> bool | None:
        """Whether an unfinished item can be completed to a value that did not come before; None: unknown.

        Args:
            text: the beginning, with nothing left out at its end.
        """
        if not self.is_array or self.place is None or self.place.is_marked or self.place.beginnings is None:
            return None
        texts = in_order(self.texts_like(text))
        return self.place.beginnings.has_new(text, with_prefix(shortened(text), texts))


@forks.with_unlocked_properties
class _Ended:
    """The text of an item that has ended. Many tokens of a mask end the same item."""

    def __init__(self, text: bytes) -> None:
        self._text = text

    @cached_property
    def item(self) -> Any:
        """A key for comparing it with others."""
        try:
            return key_of(json.loads(self._text, parse_float=number, parse_int=number))
        except RecursionError as error:
            raise BudgetExceeded(
                "an item that must not be repeated is nested too deeply to be compared with the others; the "
                "limit is about 900 arrays and objects"
            ) from error

    @cached_property
    def plain(self) -> str:
        """The text without white space."""
        return without_space(self._text)


class Cursor:
    """Reads one text. A `copy` can read different text from there on.

    Args:
        places: the places of the schema.

    Attributes:
        mode: where the cursor is, one of the modes above.
        text: the text since the beginning of the outermost item that is remembered.
        open: the open containers, outermost first.
    """

    __slots__ = ("_ended", "_is_key_kept", "_n_kept", "_places", "mode", "open", "text")

    def __init__(self, places: Places) -> None:
        self._places = places
        self.mode = BEFORE
        self.text = bytearray()
        self.open: list[Container] = []
        self._n_kept = 0  # number of open containers whose item or key is in `text`
        self._is_key_kept = False  # whether `text` has a key only because it leads to a place
        self._ended: dict[bytes, _Ended] = {}  # the last items that ended, shared by copies

    def copy(self) -> Cursor:
        """Return an independent cursor at the same place."""
        twin = Cursor.__new__(Cursor)
        twin._places, twin.mode = self._places, self.mode
        twin.text, twin.open = self.text[:], self.open[:]
        twin._n_kept, twin._is_key_kept, twin._ended = self._n_kept, self._is_key_kept, self._ended
        return twin

    @property
    def is_watching(self) -> bool:
        """Whether the items or keys of some open container must not be repeated."""
        return any(one.seen is not None for one in self.open)

    @property
    def is_behind_marked(self) -> bool:
        """Whether an item has just ended in an array whose commas and brackets show whether items were
        equal."""
        top = self.open[-1] if self.open and self.mode == BEHIND else None
        return top is not None and top.is_array and top.place is not None and top.place.is_marked

    def read(self, text: bytes) -> bytes:
        """Read more text.

        Returns:
            The text with marks (`hybrid.json_schema.uniqueness.marks`) in place of commas and brackets that
            show that items were equal.

        Raises:
            Repeated: an item or a key is repeated; the cursor must not be used any more.
        """
        written: bytearray | None = None
        for at, byte in enumerate(text):
            if self.mode == IN_SCALAR and byte in ENDING_SCALAR:
                self.end_value()
            if byte in MARKED and self.open and self.open[-1].is_repeated and self.mode == BEHIND:
                written = written if written is not None else bytearray(text)
                written[at] = MARKED[byte]
            if self._n_kept or self._is_key_kept:
                self.text.append(byte)
            if self.mode == IN_STRING:
                if byte == QUOTE:
                    self._end_string()
                elif byte == BACKSLASH:
                    self.mode = ESCAPED
            elif self.mode == ESCAPED:
                self.mode = IN_STRING
            elif byte in WHITE_SPACE or self.mode == IN_SCALAR:
                pass
            else:
                self._structural(byte)
        return text if written is None else bytes(written)

    def _structural(self, byte: int) -> None:
        if byte == COLON:
            self.mode = BEFORE
        elif byte == COMMA:
            top = self.open[-1]
            self.open[-1] = top._replace(is_key=not top.is_array)
            self.mode = BEFORE
        elif byte in CLOSING:
            self.open.pop()
            self.end_value()
        else:
            self._begin_value(byte)

    def _begin_value(self, byte: int) -> None:
        top = self.open[-1] if self.open else None
        place = self._places.start if top is None else top.child
        is_compared = top is not None and top.seen is not None and (top.is_array or top.is_key)
        if top is not None and (is_compared or (top.is_key and top.place is not None)):
            if not self._n_kept:
                self.text = bytearray([byte])
            self.open[-1] = top._replace(begins=len(self.text) - 1)
            self._n_kept += is_compared
            self._is_key_kept = not is_compared
        if byte == QUOTE:
            self.mode = IN_STRING
        elif byte in OPENING:
            self._open(byte == OPENING[0], place)
        else:
            self.mode = IN_SCALAR

    def _open(self, is_array: bool, number: int) -> None:
        place = None if number == NOWHERE else self._places.all[number]
        is_watched = place is not None and (
            (place.is_unique or place.is_marked) if is_array else place.has_unique_keys
        )
        child = place.items if place is not None and is_array else NOWHERE
        seen: frozenset[Any] | None = frozenset() if is_watched else None
        self.open.append(Container(is_array, place, seen, frozenset(), False, -1, child, not is_array))
        self.mode = BEFORE

    def _end_string(self) -> None:
        top = self.open[-1] if self.open else None
        if top is None or not top.is_key:
            self.end_value()
            return
        self.mode = BEHIND
        self._is_key_kept = False
        if top.place is None:
            self.open[-1] = top._replace(is_key=False, begins=-1)
            return
        text = bytes(self.text[top.begins :])
        key = json.loads(text)
        seen, texts = top.seen, top.texts
        if seen is not None:
            if key in seen:
                raise Repeated
            seen |= {key}
            self._n_kept -= 1
            if top.place.keys_may_run_out:
                texts |= {without_space(text)}
        child = top.place.of_key(key)
        self.open[-1] = top._replace(
            seen=seen, texts=texts, is_apart=False, begins=-1, child=child, is_key=False
        )

    def end_value(self) -> None:
        """End a value. If it is an item that is remembered, compare it with the earlier ones.

        Raises:
            Repeated: it is repeated.
        """
        self.mode = BEHIND
        top = self.open[-1] if self.open else None
        if top is None or not top.is_array or top.seen is None:
            return
        assert top.place is not None
        self._n_kept -= 1
        if top.is_repeated:
            self.open[-1] = top._replace(begins=-1)
            return
        text = bytes(self.text[top.begins :])
        ended = self._ended.get(text)
        if ended is None:
            if len(self._ended) >= MOST_ENDED:
                self._ended.clear()
            ended = self._ended[text] = _Ended(text)
        item = ended.item
        if item in top.seen:
            if not top.place.is_marked:
                raise Repeated
            self.open[-1] = top._replace(is_repeated=True, is_apart=False, begins=-1)
            return
        texts, beginnings = top.texts, top.place.beginnings
        if beginnings is not None:
            if beginnings.ends_at(ended.plain):
                texts |= {ended.plain}
        self.open[-1] = top._replace(seen=top.seen | {item}, texts=texts, is_apart=False, begins=-1)

    def begun(self, or_next: bool = False, depth: int = 0) -> Iterator[tuple[str, bytes, Container]]:
        """Find the unfinished items and keys that may run out of new values, in containers that have earlier
        ones.

        Args:
            or_next: also those that come next; their text is empty.
            depth: the number of outermost containers to leave out.

        Returns:
            The item's `begun_parts`, and its container. Items that differ from all earlier ones in any case
            are left out, and those with an open object that may always get another key.
        """
        for at in range(depth, len(self.open)):
            one = self.open[at]
            if not one.texts or not (or_next or one.begins >= 0) or one.is_apart or one.is_repeated:
                continue
            if not self.always_has_more(at + 1):
                yield *self.begun_parts(one), one

    def always_has_more(self, depth: int) -> bool | None:
        """Whether one of the open objects, without the outermost containers, may always get another key;
        None: unknown."""
        found = [
            one.place.always_has_more
            for one in self.open[depth:]
            if one.place is not None and not one.is_array
        ]
        if True in found and not self.shows_what_follows:  # the white space may show that no key follows
            return True
        return None if True in found or None in found else False

    @property
    def is_free(self) -> bool:
        """Whether white space is optional wherever it may stand."""
        return self._places.is_free

    @property
    def shows_what_follows(self) -> bool:
        """Whether white space has come in a layout that has it in some places only. Behind a value or an
        opening bracket, it shows whether another part follows."""
        if self.is_free or self.mode not in (BEFORE, BEHIND) or not self.text[-1:].isspace():
            return False
        return not self.text.rstrip().endswith((b",", b":"))

    def set_apart(self, one: Container) -> None:
        """Record that the current item of a container differs from all earlier items, unless an object in it
        may get other values for earlier keys."""
        at = self.open.index(one)
        if self.always_has_more(at + 1) is False:
            self.open[at] = one._replace(is_apart=True)

    def begun_parts(self, one: Container) -> tuple[str, bytes]:
        """Return the text of the current item or key of a container, without white space, and what is left
        out of it: an unfinished escape or character at the end. Before an item, both are empty."""
        if one.begins < 0:
            return "", b""
        text = bytes(self.text[one.begins :])
        source = text.decode("utf-8", "ignore")
        plain, end = _without_space(source)
        return plain, source[end:].encode() + text[len(source.encode()) :]


def is_consistent(begun: str, texts: frozenset[str]) -> bool:
    """Whether an earlier item may begin like this.

    A number may have several texts. If it has a fraction or an exponent, the whole number is ignored here.
    """
    begun = without_fraction(begun)
    ordered = in_order(texts)
    at = bisect_left(ordered, begun)
    return at < len(ordered) and ordered[at].startswith(begun)


_ORDERED: IdentityCache[list[str]] = IdentityCache(sorted)


def in_order(texts: frozenset[str]) -> list[str]:
    """The texts of earlier items, sorted: thousands of beginnings are compared with the same texts."""
    return _ORDERED.get(texts)


def without_space(text: bytes) -> str:
    """Return JSON text without white space between its parts, with escapes decoded and numbers in their
    shortest spelling."""
    return _without_space(text.decode("utf-8", "ignore"), True)[0]


def _without_space(source: str, is_whole: bool = False) -> tuple[str, int]:
    """`without_space`, also for the beginning of a text, and where an unfinished escape begins. Then the
    escape is left out, and a number at the end is unchanged."""
    parts: list[str] = []
    at, n, is_string = 0, len(source), False
    while at < n:
        if not is_string:
            quote = source.find('"', at)
            end = n if quote < 0 else quote
            parts.append(_between(source[at:end], is_whole or end < n))
            at, is_string = end, end < n
            if is_string:
                parts.append('"')
                at += 1
        elif source[at] == "\\":
            escape = _escape_at(source, at)
            if escape is None:
                break
            parts.append(json.dumps(json.loads(f'"{escape}"'), ensure_ascii=False)[1:-1])
            at += len(escape)
        elif source[at] == '"':
            parts.append('"')
            at, is_string = at + 1, False
        else:
            run = _UNESCAPED.match(source, at)[0]  # type: ignore[index]
            parts.append(run)
            at += len(run)
    return "".join(parts), at


def _between(source: str, is_whole: bool) -> str:
    """`_without_space` of a text without strings."""
    plain = source.translate(_NO_SPACE)
    if _NOT_DECIMAL.search(plain) is None:
        return plain
    is_finished = is_whole or source[-1:].isspace()

    def spelled(digits: re.Match[str]) -> str:
        return shortest(digits[0]) if is_finished or digits.end() < len(plain) else digits[0]

    return _NOT_DECIMAL.sub(spelled, plain)


def _escape_at(source: str, at: int) -> str | None:
    """Return the escape at a place, or both escapes of a character beyond 16 bits; None if the text ends
    before the character is known."""
    end = at + (6 if source[at + 1 : at + 2] == "u" else 2)
    escape = source[at:end]
    if len(escape) < end - at:
        return None
    if _FIRST_HALF.fullmatch(escape):
        other = source[end : end + 6]
        if _SECOND_HALF.fullmatch(other):
            return escape + other
        if _SECOND_HALF_BEGUN.fullmatch(other):
            return None
    return escape
