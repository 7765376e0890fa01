# cython: language_level=3, boundscheck=True, show_performance_hints=False
# mypy: ignore-errors
"""Grammars as XGrammar prints them.

What: from the text of `str(grammar)`, `read_rules` makes the expressions that the serialised form has, in
another order. `equivalence.network.reading` accepts both.
When: for grammars whose printed text is complete (`hybrid.compile.request` says which), before any mask.
XGrammar prints the median JSON schema in 30 us and serialises it in 200; the text is a third as long.
Limits: rules of choices between sequences of texts, classes, rules and repeats, and rules that are a
pattern in ASCII, as XGrammar's converter of schemas writes them; None for everything else. Lookahead
assertions, which the network ignores, are skipped.

What a printed text does not show, or shows in two ways, and how it is handled:

- A text ends at its first byte 0: the caller must know that there is none.
- ``[^`` begins a class that excludes what follows, or a class whose first character is a caret. The caller
  says whether there may be such classes. If so, the class excludes only if ``\\0`` follows: a byte 0 occurs
  nowhere else.
- ``\\x80`` to ``\\xff`` in a text may be bytes or characters: not read.
- ``()`` is an empty sequence, or a choice between nothing: not read.
- One part in brackets is a sequence or a choice: both mean the same.
- The first rule is not marked: the converter calls it ``root``.
- Attributes of rules, and expressions about tokens, are printed with brackets after a name: not read. A
  pattern is printed in the same way, and is the whole rule.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.built import EQUIMASK_SOURCE
from numpy.typing import NDArray

from equivalence import built

built.check(__name__, EQUIMASK_SOURCE)

X_BYTES = cython.declare(cython.Py_ssize_t, 0)
X_CLASS = cython.declare(cython.Py_ssize_t, 1)
X_STAR = cython.declare(cython.Py_ssize_t, 2)
X_EMPTY = cython.declare(cython.Py_ssize_t, 3)
X_RULE = cython.declare(cython.Py_ssize_t, 4)
X_SEQUENCE = cython.declare(cython.Py_ssize_t, 5)
X_CHOICES = cython.declare(cython.Py_ssize_t, 6)
X_REPEAT = cython.declare(cython.Py_ssize_t, 8)
X_PATTERN = cython.declare(cython.Py_ssize_t, 12)
"""The constants of `equivalence.network.serial`, as C integers."""

OPEN = cython.declare(cython.Py_ssize_t, 40)
LINE_END = cython.declare(cython.Py_ssize_t, 10)
COMMA = cython.declare(cython.Py_ssize_t, 44)
BAR = cython.declare(cython.Py_ssize_t, 124)
QUOTE = cython.declare(cython.Py_ssize_t, 34)
CLOSE = cython.declare(cython.Py_ssize_t, 41)
SPACE = cython.declare(cython.Py_ssize_t, 32)
BRACKET = cython.declare(cython.Py_ssize_t, 91)
CARET = cython.declare(cython.Py_ssize_t, 94)
BRACKET_END = cython.declare(cython.Py_ssize_t, 93)
DASH = cython.declare(cython.Py_ssize_t, 45)
ASTERISK = cython.declare(cython.Py_ssize_t, 42)
BRACE = cython.declare(cython.Py_ssize_t, 123)
BRACE_END = cython.declare(cython.Py_ssize_t, 125)
UNDERSCORE = cython.declare(cython.Py_ssize_t, 95)
DOT = cython.declare(cython.Py_ssize_t, 46)
BACKSLASH = cython.declare(cython.Py_ssize_t, 92)
SMALL_X = cython.declare(cython.Py_ssize_t, 120)
SMALL_U = cython.declare(cython.Py_ssize_t, 117)
LARGE_R = cython.declare(cython.Py_ssize_t, 82)
LARGE_U = cython.declare(cython.Py_ssize_t, 85)
APOSTROPHE = cython.declare(cython.Py_ssize_t, 39)
QUESTION = cython.declare(cython.Py_ssize_t, 63)
SMALL_N = cython.declare(cython.Py_ssize_t, 110)
SMALL_R = cython.declare(cython.Py_ssize_t, 114)
SMALL_T = cython.declare(cython.Py_ssize_t, 116)
ZERO = cython.declare(cython.Py_ssize_t, 48)
SMALL_F = cython.declare(cython.Py_ssize_t, 102)
SMALL_V = cython.declare(cython.Py_ssize_t, 118)
SMALL_E = cython.declare(cython.Py_ssize_t, 101)

IS, AHEAD = b" ::= ", b" (="
"""The text between a rule's name and its body, and the text before its lookahead assertion."""

PATTERN, OF_STRING = b'Regex("', b", json_string=true)"
"""The text before a pattern, and the text after a pattern of a JSON string."""

NONE = cython.declare(cython.Py_ssize_t, -1)
"""The result if the text has another form."""


def read_rules(
    text: bytes, has_caret: bool
) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]] | None:
    """The rules of a printed grammar; None if not all of them have the form that is read here.

    Args:
        text: the ASCII text that XGrammar prints.
        has_caret: whether the first character of a class may be a caret.

    Returns:
        The names of the rules; the expression of each; and the expressions, as ``data`` and ``starts`` of
        `equivalence.network.reading.ReadGrammar`.
    """
    try:
        return Printed(text, has_caret).rules()
    except IndexError:  # it ends in the middle
        return None


@cython.final
@cython.cclass
class Printed:
    """A printed text, and what was read of it.

    Args:
        text, has_caret: as for `read_rules`.

    Attributes:
        at: the place that is read next.
        names: the names of the rules, with their numbers.
        begins: for each rule, where its name ends.
        data, starts: the expressions found: `n_starts` expressions, with `n_data` numbers.
        parts, chosen: expressions of the current sequence, and of the current choice.
    """

    whole: bytes
    text: cython.const[cython.uchar][::1]
    at: cython.Py_ssize_t
    names: Interned
    begins: cython.Py_ssize_t[::1]
    data: cython.Py_ssize_t[::1]
    starts: cython.Py_ssize_t[::1]
    parts: cython.Py_ssize_t[::1]
    chosen: cython.Py_ssize_t[::1]
    n_data: cython.Py_ssize_t
    n_starts: cython.Py_ssize_t
    has_caret: cython.bint

    def __init__(self, text: bytes, has_caret: bool) -> None:
        size: cython.Py_ssize_t = len(text)
        self.whole = self.text = text
        self.at = self.n_data = self.n_starts = 0
        self.has_caret = has_caret
        n_rules: cython.Py_ssize_t = text.count(b"\n")
        self.names = Interned(n_rules, 16)
        self.begins = np.empty(n_rules + 1, np.int64)
        # a character takes at most two numbers, in a class, and no expression is shorter than one character
        self.data = np.empty(2 * size + 16, np.int64)
        self.starts = np.empty(size + 16, np.int64)
        self.parts = np.empty(size // 2 + 16, np.int64)
        self.chosen = np.empty(size // 2 + 16, np.int64)

    def rules(self) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]] | None:
        """See `read_rules`."""
        names: list = []
        end: cython.Py_ssize_t = len(self.text)
        rule: cython.Py_ssize_t
        while self.at < end:
            begin = self.at
            self.skip_name()
            self.begins[len(names)] = self.at
            if self.named(begin, True) != len(names):
                return None
            names.append(self.whole[begin : self.at].decode())
            while not self.takes(LINE_END):
                self.at += 1
        bodies = np.empty(len(names), np.int64)
        body_of: cython.Py_ssize_t[::1] = bodies
        for rule in range(len(names)):
            self.at = self.begins[rule]
            body = NONE
            if self.takes_all(IS):
                body = self.pattern() if self.text[self.at] == LARGE_R else self.choices()
            if body == NONE or not (self.takes(LINE_END) or self.takes_all(AHEAD)):
                return None
            body_of[rule] = body
        data, starts = np.asarray(self.data)[: self.n_data], np.asarray(self.starts)[: self.n_starts]
        return names, bodies, data, starts

    # ---------------------------------------------------------------- expressions

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def choices(self) -> cython.Py_ssize_t:
        """Read a choice between sequences and the empty text. Return its number."""
        n: cython.Py_ssize_t = 0
        if not self.takes(OPEN):
            return NONE
        while True:
            number: cython.Py_ssize_t
            if self.text[self.at] == QUOTE:
                if self.text[self.at + 1] != QUOTE:
                    return NONE
                self.at += 2
                number = self.ended(X_EMPTY, 0)
            else:
                number = self.sequence()
            if number == NONE:
                return NONE
            self.chosen[n] = number
            n += 1
            if self.takes(CLOSE):
                return self.whole_of(X_CHOICES, self.chosen, n)
            if not (self.takes(SPACE) and self.takes(BAR) and self.takes(SPACE)):
                return NONE

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def pattern(self) -> cython.Py_ssize_t:
        """Read a pattern of a JSON string, in ASCII. Return its number."""
        n = self.n_data + 3
        if not self.takes_all(PATTERN):
            return NONE
        self.data[self.n_data + 2] = 1
        while not self.takes(QUOTE):
            code = self.character(False)
            if not 0 < code < 0x80:
                return NONE
            self.data[n] = code
            n += 1
        if not self.takes_all(OF_STRING):
            return NONE
        return self.ended(X_PATTERN, n - self.n_data - 2)

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def sequence(self) -> cython.Py_ssize_t:
        """Read one or more parts in brackets. Return its number."""
        n: cython.Py_ssize_t = 0
        while not (n and self.takes(CLOSE)):
            if not self.takes(SPACE if n else OPEN):
                return NONE
            c = self.text[self.at]
            number = self.quoted() if c == QUOTE else self.range() if c == BRACKET else self.called()
            if number == NONE:
                return NONE
            self.parts[n] = number
            n += 1
        return self.whole_of(X_SEQUENCE, self.parts, n)

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def quoted(self) -> cython.Py_ssize_t:
        """Read a text in quotes, as bytes."""
        n = self.n_data + 2
        self.at += 1
        while not self.takes(QUOTE):
            code = self.character(False)
            if code < 0x80:
                if code == NONE:
                    return NONE
                self.data[n] = code
                n += 1
                continue
            if code < 0x100 or 0xD800 <= code < 0xE000 or code > 0x10FFFF:
                return NONE
            if code < 0x800:
                self.data[n] = 0xC0 | code >> 6
                n += 1
            else:
                if code < 0x10000:
                    self.data[n] = 0xE0 | code >> 12
                    n += 1
                else:
                    self.data[n] = 0xF0 | code >> 18
                    self.data[n + 1] = 0x80 | code >> 12 & 63
                    n += 2
                self.data[n] = 0x80 | code >> 6 & 63
                n += 1
            self.data[n] = 0x80 | code & 63
            n += 1
        n -= self.n_data + 2
        return self.ended(X_BYTES if n else X_EMPTY, n)

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def range(self) -> cython.Py_ssize_t:
        """Read a class of characters, or the star of one."""
        n = self.n_data + 3
        self.at += 1
        excludes: cython.bint = self.takes(CARET)
        if excludes and self.has_caret:
            if self.text[self.at] != BACKSLASH or self.text[self.at + 1] != ZERO:
                return NONE
        self.data[self.n_data + 2] = excludes
        while not self.takes(BRACKET_END):
            first = self.character(True)
            last = first
            if self.takes(DASH):
                last = self.character(True)
            if first == NONE or last == NONE:
                return NONE
            self.data[n], self.data[n + 1] = first, last
            n += 2
        is_star: cython.bint = self.takes(ASTERISK)
        return self.ended(X_STAR if is_star else X_CLASS, n - self.n_data - 2)

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def called(self) -> cython.Py_ssize_t:
        """Read a rule name, or a repeat of a rule."""
        begin = self.at
        self.skip_name()
        rule = self.named(begin, False)
        if rule == NONE:
            return NONE
        self.data[self.n_data + 2] = rule
        if not self.takes(BRACE):
            return self.ended(X_RULE, 1)
        least = self.integer()
        if least == NONE or not (self.takes(COMMA) and self.takes(SPACE)):
            return NONE
        has_end: cython.bint = not self.takes(DASH)
        most = self.integer()
        if most == NONE or not self.takes(BRACE_END) or (most < least if has_end else most != 1):
            return NONE
        if not has_end:
            most = -1
        self.data[self.n_data + 3], self.data[self.n_data + 4] = least, most
        return self.ended(X_REPEAT, 3)

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def whole_of(
        self, kind: cython.Py_ssize_t, parts: cython.Py_ssize_t[::1], n: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Add a sequence or a choice of some expressions."""
        for i in range(n):
            self.data[self.n_data + 2 + i] = parts[i]
        return self.ended(kind, n)

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def ended(self, kind: cython.Py_ssize_t, length: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Add an expression whose body is already at the end. Return its number."""
        self.data[self.n_data], self.data[self.n_data + 1] = kind, length
        self.starts[self.n_starts] = self.n_data
        self.n_data += 2 + length
        self.n_starts += 1
        return self.n_starts - 1

    # ---------------------------------------------------------------- words and characters

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1, check=False)
    def takes(self, wanted: cython.Py_ssize_t) -> cython.int:
        """Read a character if it is the next one. Return whether it was."""
        if self.text[self.at] != wanted:
            return 0
        self.at += 1
        return 1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def takes_all(self, wanted: bytes) -> cython.int:
        """The same for a text."""
        for c in wanted:
            if not self.takes(c):
                return 0
        return 1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def skip_name(self) -> cython.int:
        """Read to the end of the name that begins here."""
        while True:
            c = self.text[self.at]
            is_letter: cython.bint = 97 <= c | 32 <= 122
            is_sign: cython.bint = c in (UNDERSCORE, DASH, DOT)
            if not (is_letter or is_sign or 48 <= c <= 57):
                return 0
            self.at += 1

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def named(self, begin: cython.Py_ssize_t, is_new: cython.bint) -> cython.Py_ssize_t:
        """The number of the name between `begin` and here; `NONE` if it is empty, or if it is unknown and not
        `is_new`."""
        length = self.at - begin
        if length == 0:
            return NONE
        at = self.names.room(length)
        for i in range(length):
            self.names.pool[at + i] = self.text[begin + i]
        return self.names.intern(length) if is_new else self.names.find(length)

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def integer(self) -> cython.Py_ssize_t:
        """Read a number without sign; `NONE` if there is none, or if it needs more than 31 bits."""
        value: cython.Py_ssize_t = 0
        begin = self.at
        while 48 <= self.text[self.at] <= 57 and value < 1 << 31:
            value = 10 * value + self.text[self.at] - 48
            self.at += 1
        return value if begin < self.at and value < 1 << 31 else NONE

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def character(self, in_class: cython.bint) -> cython.Py_ssize_t:
        """Read a character, escaped or not, and return its code."""
        c: cython.Py_ssize_t = self.text[self.at]
        self.at += 1
        if c != BACKSLASH:
            return c if 0x20 <= c < 0x7F else NONE
        c = self.text[self.at]
        self.at += 1
        if c == SMALL_X:
            return self.hexadecimal(2)
        if c == SMALL_U:
            return self.hexadecimal(4)
        if c == LARGE_U:
            return self.hexadecimal(8)
        if c in (QUOTE, APOSTROPHE, QUESTION, BACKSLASH):
            return c
        if in_class and c in (DASH, BRACKET_END):
            return c
        if c == SMALL_N:
            return 10
        if c == SMALL_R:
            return 13
        if c == SMALL_T:
            return 9
        if c == ZERO:
            return 0
        if 97 <= c <= 98:  # \a and \b
            return c - 90
        if c == SMALL_F:
            return 12
        if c == SMALL_V:
            return 11
        return 27 if c == SMALL_E else NONE

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def hexadecimal(self, digits: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Read a hexadecimal number with this many digits."""
        value: cython.Py_ssize_t = 0
        for _ in range(digits):
            c: cython.Py_ssize_t = self.text[self.at]
            self.at += 1
            if 48 <= c <= 57:
                value = 16 * value + c - 48
            elif 97 <= c <= 102:
                value = 16 * value + c - 87
            else:
                return NONE
        return value
