# cython: language_level=3, boundscheck=True, show_performance_hints=False
# mypy: ignore-errors
"""Grammars as XGrammar prints them.

What: from the text of `str(grammar)`, `Printed.read` makes the expressions that the serialised form has, in
another order. `equivalence.network.grammar_reader` accepts both.
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

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.network import serial as types
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

check_source(__name__)

ESCAPED: NDArray[np.int64] = np.full(0x80, -1, np.int64)
"""The code of the character that each letter stands for after a backslash; -1: of none."""

ESCAPED[list(b"\"'?\\0abtnvfre")] = list(b"\"'?\\\0\a\b\t\n\v\f\r\x1b")

TOO_LARGE = cython.declare(cython.Py_ssize_t, 1 << 31)
"""Bounds of repeats are smaller than this."""

SHORT_TEXT = cython.declare(cython.Py_ssize_t, 1 << 14)
"""Shorter texts are read with the interpreter's lock held: it takes 0.1 ms at most."""

NONE = cython.declare(cython.Py_ssize_t, -1)
"""The result if the text has another form."""


@cython.final
@cython.cclass
class Printed:
    """Reads printed texts, one after another, in one thread. The tables are reused for the next text.

    Attributes:
        text: the current text.
        has_caret: whether the first character of a class may be a caret.
        position: the place that is read next.
        names: the names of the rules, with their numbers.
        places: for each rule, where its name begins and ends.
        bodies: for each rule, its expression.
        n_rules: number of rules.
        data, starts: the expressions found: `n_starts` expressions, with `n_data` numbers.
        types: a bit for each type of expression found.
        parts, chosen: expressions of the current sequence, and of the current choice.
        escaped: `ESCAPED`.
    """

    def __init__(self) -> None:
        self.escaped = ESCAPED
        self.names = Interned(64, 16)
        self.places = np.empty((0, 2), np.int64)
        self.bodies = self.data = self.starts = self.parts = self.chosen = np.empty(0, np.int64)

    def prepare(self, text, has_caret):
        """Start another text."""
        size: cython.Py_ssize_t = len(text)
        n_rules: cython.Py_ssize_t = text.count(b"\n")
        self.text = text
        self.has_caret = has_caret
        self.position = self.n_data = self.n_starts = self.n_rules = self.types = 0
        self.names.clear(n_rules)
        if n_rules + 1 > self.bodies.shape[0]:
            self.places = np.empty((2 * n_rules + 1, 2), np.int64)
            self.bodies = np.empty(2 * n_rules + 1, np.int64)
        if size + 16 > self.starts.shape[0]:
            # a character takes at most two numbers, in a class, and no expression is shorter than one
            # character
            self.data = np.empty(3 * size + 16, np.int64)
            self.starts = np.empty(size + size // 2 + 16, np.int64)
            self.parts = np.empty(size + 16, np.int64)
            self.chosen = np.empty(size + 16, np.int64)

    def read(self, text: bytes, has_caret: bool, first: bytes) -> Any:
        """The fields of `grammar_reader.ParsedRules`; None if not all rules have the form that is read here.

        Args:
            text: the ASCII text that XGrammar prints.
            has_caret: whether the first character of a class may be a caret.
            first: the name of the rule whose number is wanted.

        Raises:
            IndexError: the text ends in the middle.
        """
        self.prepare(text, has_caret)
        is_read: cython.bint
        if len(text) < SHORT_TEXT:
            is_read = self.find_rules() and self.read_bodies()
        else:
            with cython.nogil:
                is_read = self.find_rules() and self.read_bodies()
        if not is_read:
            return None
        n_rules: cython.Py_ssize_t = self.n_rules
        names, bodies = np.empty((n_rules, 2), np.int64), np.empty(n_rules, np.int64)
        data, starts = np.empty(self.n_data, np.int64), np.empty(self.n_starts, np.int64)
        names_to: cython.Py_ssize_t[:, ::1] = names
        bodies_to: cython.Py_ssize_t[::1] = bodies
        data_to: cython.Py_ssize_t[::1] = data
        starts_to: cython.Py_ssize_t[::1] = starts
        # with the interpreter's lock: copying takes a few microseconds, and waiting for the lock as long
        names_to[:] = self.places[:n_rules]
        bodies_to[:] = self.bodies[:n_rules]
        data_to[:] = self.data[: self.n_data]
        starts_to[:] = self.starts[: self.n_starts]
        found = frozenset([kind for kind in range(types.PATTERN + 1) if self.types >> kind & 1])
        return names, bodies, data, starts, self.number_of(first), found

    def forget(self) -> None:
        """Release the text; the tables are kept."""
        self.text = b""

    def number_of(self, name):
        """The number of the rule with a name; -1 if there is none."""
        length: cython.Py_ssize_t = len(name)
        characters: cython.const[cython.uchar][::1] = name
        at = self.names.room(length)
        for i in range(length):
            self.names.pool[at + i] = characters[i]
        return self.names.find(length)

    # ---------------------------------------------------------------- rules

    def find_rules(self):
        """Find the names of all rules. Return whether they have the form that is read here."""
        end: cython.Py_ssize_t = self.text.shape[0]
        while self.position < end:
            n = self.n_rules
            begin = self.position
            self.skip_name()
            self.places[n, 0] = begin
            self.places[n, 1] = self.position
            if self.named(begin, True) != n:
                return 0
            self.n_rules = n + 1
            while not self.takes(ord("\n")):
                self.position += 1
        return 1

    def read_bodies(self):
        """Read the expressions of all rules. Return whether they have the form that is read here."""
        for rule in range(self.n_rules):
            self.position = self.places[rule, 1]
            body = NONE
            if self.takes_all(b" ::= "):
                body = self.pattern() if self.text[self.position] == ord("R") else self.choices()
            # a lookahead assertion may follow
            if body == NONE or not (self.takes(ord("\n")) or self.takes_all(b" (=")):
                return 0
            self.bodies[rule] = body
        return 1

    # ---------------------------------------------------------------- expressions

    def choices(self):
        """Read a choice between sequences and the empty text. Return its number."""
        n: cython.Py_ssize_t = 0
        if not self.takes(ord("(")):
            return NONE
        while True:
            if self.text[self.position] == ord('"'):
                if self.text[self.position + 1] != ord('"'):
                    return NONE
                self.position += 2
                number = self.ended(types.EMPTY, 0)
            else:
                number = self.sequence()
            if number == NONE:
                return NONE
            self.chosen[n] = number
            n += 1
            if self.takes(ord(")")):
                return self.whole_of(types.CHOICES, self.chosen, n)
            if not self.takes_all(b" | "):
                return NONE

    def pattern(self):
        """Read a pattern of a JSON string, in ASCII. Return its number."""
        n = self.n_data + 3
        if not self.takes_all(b'Regex("'):
            return NONE
        self.data[self.n_data + 2] = 1
        while not self.takes(ord('"')):
            code = self.character(False)
            if not 0 < code < 0x80:
                return NONE
            self.data[n] = code
            n += 1
        if not self.takes_all(b", json_string=true)"):
            return NONE
        return self.ended(types.PATTERN, n - self.n_data - 2)

    def sequence(self):
        """Read one or more parts in brackets. Return its number."""
        n: cython.Py_ssize_t = 0
        while not (n and self.takes(ord(")"))):
            if not self.takes(ord(" ") if n else ord("(")):
                return NONE
            c = self.text[self.position]
            number = self.quoted() if c == ord('"') else self.range() if c == ord("[") else self.called()
            if number == NONE:
                return NONE
            self.parts[n] = number
            n += 1
        return self.whole_of(types.SEQUENCE, self.parts, n)

    def quoted(self):
        """Read a text in quotes, as bytes."""
        n = self.n_data + 2
        self.position += 1
        while not self.takes(ord('"')):
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
        return self.ended(types.BYTES if n else types.EMPTY, n)

    def range(self):
        """Read a class of characters, or the star of one."""
        n = self.n_data + 3
        self.position += 1
        excludes: cython.bint = self.takes(ord("^"))
        if excludes and self.has_caret:
            if self.text[self.position] != ord("\\") or self.text[self.position + 1] != ord("0"):
                return NONE
        self.data[self.n_data + 2] = excludes
        while not self.takes(ord("]")):
            first = self.character(True)
            last = first
            if self.takes(ord("-")):
                last = self.character(True)
            if first == NONE or last == NONE:
                return NONE
            self.data[n], self.data[n + 1] = first, last
            n += 2
        is_star: cython.bint = self.takes(ord("*"))
        return self.ended(types.STAR if is_star else types.CLASS, n - self.n_data - 2)

    def called(self):
        """Read a rule name, or a repeat of a rule."""
        begin = self.position
        self.skip_name()
        rule = self.named(begin, False)
        if rule == NONE:
            return NONE
        self.data[self.n_data + 2] = rule
        if not self.takes(ord("{")):
            return self.ended(types.RULE, 1)
        least = self.integer()
        if least == NONE or not (self.takes_all(b", ")):
            return NONE
        has_end: cython.bint = not self.takes(ord("-"))
        most = self.integer()
        if most == NONE or not self.takes(ord("}")) or (most < least if has_end else most != 1):
            return NONE
        if not has_end:
            most = -1
        self.data[self.n_data + 3], self.data[self.n_data + 4] = least, most
        return self.ended(types.REPEAT, 3)

    def whole_of(self, kind, parts, n):
        """Add a sequence or a choice of some expressions."""
        for i in range(n):
            self.data[self.n_data + 2 + i] = parts[i]
        return self.ended(kind, n)

    def ended(self, kind, length):
        """Add an expression whose body is already at the end. Return its number."""
        self.data[self.n_data], self.data[self.n_data + 1] = kind, length
        self.types |= 1 << kind
        self.starts[self.n_starts] = self.n_data
        self.n_data += 2 + length
        self.n_starts += 1
        return self.n_starts - 1

    # ---------------------------------------------------------------- words and characters

    def takes(self, wanted):
        """Read a character if it is the next one. Return whether it was."""
        if self.text[self.position] != wanted:
            return 0
        self.position += 1
        return 1

    def takes_all(self, wanted):
        """The same for a text, which a byte 0 ends."""
        i: cython.Py_ssize_t = 0
        while wanted[i] != 0:
            if not self.takes(wanted[i]):
                return 0
            i += 1
        return 1

    def skip_name(self):
        """Read to the end of the name that begins here."""
        while True:
            c = self.text[self.position]
            is_letter: cython.bint = 97 <= c | 32 <= 122
            is_sign: cython.bint = c in (ord("_"), ord("-"), ord("."))
            if not (is_letter or is_sign or 48 <= c <= 57):
                return 0
            self.position += 1

    def named(self, begin, is_new):
        """The number of the name between `begin` and here; `NONE` if it is empty, or if it is unknown and not
        `is_new`."""
        length = self.position - begin
        if length == 0:
            return NONE
        at = self.names.room(length)
        for i in range(length):
            self.names.pool[at + i] = self.text[begin + i]
        return self.names.intern(length) if is_new else self.names.find(length)

    def integer(self):
        """Read a number without sign; `NONE` if there is none, or if it needs more than 31 bits."""
        value: cython.Py_ssize_t = 0
        begin = self.position
        while 48 <= self.text[self.position] <= 57 and value < TOO_LARGE:
            value = 10 * value + self.text[self.position] - 48
            self.position += 1
        return value if begin < self.position and value < TOO_LARGE else NONE

    def character(self, in_class):
        """Read a character, escaped or not, and return its code."""
        c: cython.Py_ssize_t = self.text[self.position]
        self.position += 1
        if c != ord("\\"):
            return c if 0x20 <= c < 0x7F else NONE
        c = self.text[self.position]
        self.position += 1
        if c == ord("x"):
            return self.hexadecimal(2)
        if c == ord("u"):
            return self.hexadecimal(4)
        if c == ord("U"):
            return self.hexadecimal(8)
        if in_class and c in (ord("-"), ord("]")):
            return c
        return self.escaped[c] if c < 0x80 else NONE

    def hexadecimal(self, digits):
        """Read a hexadecimal number with this many digits."""
        value: cython.Py_ssize_t = 0
        for _ in range(digits):
            c: cython.Py_ssize_t = self.text[self.position]
            self.position += 1
            if 48 <= c <= 57:
                value = 16 * value + c - 48
            elif 97 <= c <= 102:
                value = 16 * value + c - 87
            else:
                return NONE
        return value
