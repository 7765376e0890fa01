"""JSON text read byte by byte, with what may not come twice in the arrays and objects that are open.

What: a `Cursor` knows where in a document it stands (`hybrid.json_schema.places`), which items and keys of
the open containers came before, and raises `Repeated` where one comes again.
When: by `hybrid.remembering.follower`, for the text of one sequence and for tokens that could end an item.
Limits: the text is JSON, as the grammar takes it; nothing is checked but repetition. A number ends with what
comes behind it.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from equivalence import BudgetExceeded
from hybrid.json_schema.instances import key_of
from hybrid.json_schema.marks import MARKED
from hybrid.json_schema.places import NOWHERE, Place, Places

BEFORE, IN_STRING, ESCAPED, IN_SCALAR, BEHIND = range(5)
"""Where a cursor may stand: before a value or a key, in a string, behind a backslash in it, in a number or a
constant, behind a value or a key."""

MOST_POWER = 1_000
"""Digits of an exponent that is read."""

WHITE_SPACE = b" \t\n\r"
QUOTE, BACKSLASH, COMMA, COLON = b'"\\,:'
OPENING, CLOSING = b"[{", b"]}"
IN_NUMBER = "0123456789.eE+-"
ENDING_SCALAR = CLOSING + WHITE_SPACE + b","


class Repeated(Exception):
    """An item, or a key, comes again."""


class Container(NamedTuple):
    """An array or object that is open.

    Attributes:
        is_array: which of them.
        place: what is known of it; None where nothing below it is remembered.
        seen: the items, or the keys, that came before, where they may not come twice; None elsewhere.
        texts: the texts of these items or keys without white space, but for those along which there are
            always more values than came before.
        is_apart: whether the item that is being read can become none of these texts.
        begins: where in the cursor's text the item begins that is being read, or the key; -1: none is.
        child: the place of the next value.
        is_key: whether a key comes next.
        is_repeated: whether two items were equal, of an array whose commas and brackets tell it from then on.
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

    def is_endless_behind(self, text: str) -> bool:
        """Whether an item, or a key, that begins like this may become more values than came before."""
        if self.place is None:
            return True
        return self.place.is_endless_behind(text) if self.is_array else not self.place.keys_may_run_out


class Cursor:
    """Reads one text; `copy` reads on apart.

    Args:
        places: of the schema.

    Attributes:
        mode: where it stands, as above.
        text: what was read since the outermost item began that is remembered.
        open: the containers, outermost first.
    """

    __slots__ = ("_is_key_kept", "_n_kept", "_places", "mode", "open", "text")

    def __init__(self, places: Places) -> None:
        self._places = places
        self.mode = BEFORE
        self.text = bytearray()
        self.open: list[Container] = []
        self._n_kept = 0  # open containers whose item or key is kept in the text
        self._is_key_kept = False  # whether a key is, only for the place that it leads to

    def copy(self) -> Cursor:
        """An independent one at the same place."""
        twin = Cursor.__new__(Cursor)
        twin._places, twin.mode = self._places, self.mode
        twin.text, twin.open = self.text[:], self.open[:]
        twin._n_kept, twin._is_key_kept = self._n_kept, self._is_key_kept
        return twin

    @property
    def is_watching(self) -> bool:
        """Whether a container is open whose items or keys may not come twice."""
        return any(one.seen is not None for one in self.open)

    @property
    def is_behind_repeated(self) -> bool:
        """Whether an item has ended of an array in which two were equal."""
        return self.mode == BEHIND and bool(self.open) and self.open[-1].is_repeated

    def read(self, text: bytes) -> bytes:
        """Read on.

        Returns:
            The text with marks (`hybrid.json_schema.marks`) for commas and brackets that tell of equal items.

        Raises:
            Repeated: something comes again; the cursor is of no more use.
        """
        written: bytearray | None = None
        for at, byte in enumerate(text):
            if self.mode == IN_SCALAR and byte in ENDING_SCALAR:
                self._end_value()
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
            self._end_value()
        else:
            self._begin_value(byte)

    def _begin_value(self, byte: int) -> None:
        top = self.open[-1] if self.open else None
        place = self._places.start if top is None else top.child
        if top is not None and top.seen is not None and (top.is_array or top.is_key):
            if not self._n_kept:
                self.text = bytearray([byte])
            self.open[-1] = top._replace(begins=len(self.text) - 1)
            self._n_kept += 1
        elif top is not None and top.is_key and top.place is not None:
            if not self._n_kept:
                self.text = bytearray([byte])
            self.open[-1] = top._replace(begins=len(self.text) - 1)
            self._is_key_kept = True
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
            self._end_value()
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

    def _end_value(self) -> None:
        """A value has ended: an item, perhaps."""
        self.mode = BEHIND
        top = self.open[-1] if self.open else None
        if top is None or not top.is_array or top.seen is None:
            return
        assert top.place is not None
        if top.is_repeated:
            self.open[-1] = top._replace(begins=-1)
            self._n_kept -= 1
            return
        text = bytes(self.text[top.begins :])
        try:
            item = key_of(json.loads(text, parse_float=number, parse_int=number))
        except RecursionError as error:
            raise BudgetExceeded("an item that may not be repeated is nested too deeply") from error
        if item in top.seen:
            if not top.place.is_marked:
                raise Repeated
            self.open[-1] = top._replace(is_repeated=True, is_apart=False, begins=-1)
            self._n_kept -= 1
            return
        texts = top.texts
        if top.place.may_run_out:
            plain = without_space(text)
            if not top.is_endless_behind(plain.removesuffix('"')):
                texts |= {plain}
        self.open[-1] = top._replace(seen=top.seen | {item}, texts=texts, is_apart=False, begins=-1)
        self._n_kept -= 1

    def begun(self) -> list[tuple[str, Container]]:
        """The items and keys that are being read, of those that may run out and have come before: the text of
        each, without white space. Those that came apart from them are left out."""
        return [
            (self.begun_text(one), one)
            for one in self.open
            if one.texts and one.begins >= 0 and not one.is_apart and not one.is_repeated
        ]

    def set_apart(self, one: Container) -> None:
        """Say that a container's item becomes none of those that came before."""
        self.open[self.open.index(one)] = one._replace(is_apart=True)

    def end_scalar(self) -> None:
        """End the number or constant that is being read.

        Raises:
            Repeated: it comes again.
        """
        self._end_value()

    def begun_text(self, one: Container) -> str:
        """The text of an open container's item or key, without white space."""
        return without_space(bytes(self.text[one.begins :]))


def number(text: str) -> tuple[str, str, str]:
    """What the texts of equal numbers have in common: the digits without zeros around them, and an exponent.

    Numbers of Python's would do, but for `1e999999999`.
    """
    mantissa, _, power = text.lower().partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return "number", "0", "0"
    short = digits.rstrip("0")
    if len(power) > MOST_POWER:
        return "number", sign + digits, f"{len(fraction)} {power}"  # nobody writes such a number twice
    return "number", sign + short, str(int(power or "0") - len(fraction) + len(digits) - len(short))


def is_consistent(begun: str, texts: frozenset[str]) -> bool:
    """Whether an item that came before may begin like this. Numbers have several texts: where they have a
    fraction or an exponent, all of the number is left open."""
    at = len(begun.rstrip(IN_NUMBER))
    begun = begun[:at] if any(letter in begun[at:] for letter in ".eE") else begun
    return any(one.startswith(begun) for one in texts)


def without_space(text: bytes) -> str:
    """JSON text, or its beginning, without white space between its parts, and with characters for escapes.

    What an escape that is not whole begins with is left out.
    """
    parts: list[str] = []
    source = text.decode("utf-8", "ignore")
    at, is_string = 0, False
    while at < len(source):
        letter = source[at]
        if not is_string:
            is_string = letter == '"'
            if letter not in " \t\n\r":
                parts.append(letter)
            at += 1
        elif letter == "\\":
            taken = 6 if source[at + 1 : at + 2] == "u" else 2
            escape = source[at : at + taken]
            if len(escape) < taken:
                break
            parts.append(json.dumps(json.loads(f'"{escape}"'), ensure_ascii=False)[1:-1])
            at += taken
        else:
            is_string = letter != '"'
            parts.append(letter)
            at += 1
    return "".join(parts)
