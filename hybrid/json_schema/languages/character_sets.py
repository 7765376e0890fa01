# cython: language_level=3
# mypy: ignore-errors
"""The sets of characters in a pattern, and which characters they tell apart.

What: `CharacterSets` numbers the sets of characters of one pattern, and selections of these sets: the sets
that contain a character, or the sets on which something depends. `runs_of` cuts all characters into runs
that the sets of a selection do not tell apart.
When: while the derivatives of a pattern are computed (`terms.py`).
Limits: a selection is a list of words of `BITS` bits, without zeros at its end.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.source_check import check_source

from equivalence.arrays.dynamic_arrays import bigger
from hybrid.json_schema.languages.limits import check_deadline
from hybrid.json_schema.languages.syntax import LAST

check_source(__name__)

BITS = cython.declare(cython.Py_ssize_t, 62)
ONE = cython.declare(cython.Py_ssize_t, 1)
ROUND = cython.declare(cython.Py_ssize_t, 255)  # the deadline is checked after one more than this many sets


@cython.final
@cython.cclass
class CharacterSets:
    """The sets of characters of one pattern.

    Selection 0 has no sets.

    Attributes:
        ranges: for each set, its ranges (first character, last character).
        selections: the selections, lists of words.
        lows: int64[runs], the first character of each run that was computed so far.
        classes: int64[runs], those sets of the run's selection that contain its characters, a selection.
    """

    def __init__(self) -> None:
        self.ranges, self._numbers = [], {}
        self.selections = Interned(16, 2)
        self.selections.room(0)
        self.selections.intern(0)
        self._cuts: list = []
        self._members: list = []
        self._n_cut = -1
        self._runs = {}
        self.lows, self.classes = np.empty(64, np.int64), np.empty(64, np.int64)
        self._n_runs = 0

    def number(self, ranges):
        """Return the number of a set."""
        found = self._numbers.get(ranges)
        if found is None:
            found = self._numbers[ranges] = len(self.ranges)
            self.ranges.append(ranges)
        return found

    def only(self, number):
        """Return the selection of one set."""
        selections: Interned = self.selections
        n: cython.Py_ssize_t = number // BITS + 1
        begin = selections.room(n)
        for i in range(n):
            selections.pool[begin + i] = 0
        selections.pool[begin + n - 1] = ONE << number % BITS
        return selections.intern(n)

    def contains(self, selection, number):
        """Whether a set is selected."""
        selections: Interned = self.selections
        at = selections.starts[selection] + number // BITS
        if at >= selections.starts[selection + 1]:
            return False
        return (selections.pool[at] >> number % BITS) & 1

    def either(self, one, other):
        """Return the union of two selections."""
        if one == other or other == 0:
            return one
        selections: Interned = self.selections
        if self.length(one) < self.length(other):
            one, other = other, one
        n, common = self.length(one), self.length(other)
        begin = selections.room(n)
        first, second = selections.starts[one], selections.starts[other]
        for i in range(n):
            selections.pool[begin + i] = selections.pool[first + i]
        for i in range(common):
            selections.pool[begin + i] |= selections.pool[second + i]
        return selections.intern(n)

    def both(self, one, other):
        """Return the intersection of two selections."""
        if one == other or one == 0:
            return one
        selections: Interned = self.selections
        n = min(self.length(one), self.length(other))
        begin = selections.room(n)
        first, second = selections.starts[one], selections.starts[other]
        while n > 0 and not selections.pool[first + n - 1] & selections.pool[second + n - 1]:
            n -= 1
        for i in range(n):
            selections.pool[begin + i] = selections.pool[first + i] & selections.pool[second + i]
        return selections.intern(n)

    def length(self, selection):
        """Return the number of words of a selection."""
        return self.selections.starts[selection + 1] - self.selections.starts[selection]

    def runs_of(self, selection):
        """Return where the runs of a selection begin and end in `lows` and `classes`. Many derivatives
        depend on the same sets."""
        if self._n_cut < len(self.ranges):
            self._cut()
        found: tuple = self._runs.get(selection)
        if found is not None:
            return found
        begin: cython.Py_ssize_t = self._n_runs
        before: cython.Py_ssize_t = -1
        i: cython.Py_ssize_t
        members: cython.Py_ssize_t
        low: cython.Py_ssize_t
        for i in range(len(self._cuts)):
            members, low = self._members[i], self._cuts[i]
            members = self.both(members, selection)
            if members == before:
                continue
            before = members
            if self._n_runs == self.lows.shape[0]:
                self.lows = bigger(self.lows, 2 * self._n_runs)
                self.classes = bigger(self.classes, 2 * self._n_runs)
            self.lows[self._n_runs], self.classes[self._n_runs] = low, members
            self._n_runs += 1
        found = self._runs[selection] = begin, self._n_runs
        return found

    def _cut(self):
        """Cut all characters at the bounds of all sets, and find the sets that contain each part."""
        changes: list = []
        number: cython.Py_ssize_t
        code: cython.Py_ssize_t
        for number, ranges in enumerate(self.ranges):
            if number & ROUND == ROUND:
                check_deadline()
            for low, high in ranges:
                changes.append((low, number))
                changes.append((high + 1, number))
        changes.sort()
        n: cython.Py_ssize_t = len(self.ranges) // BITS + 1
        words: cython.Py_ssize_t[::1] = np.zeros(n, np.int64)
        self._cuts, self._members = [], []
        at: cython.Py_ssize_t = 0
        for code, number in changes:
            if code > at:
                self._add_part(at, words)
                at = code
            words[number // BITS] ^= ONE << number % BITS
        if at <= LAST:
            self._add_part(at, words)
        self._n_cut = len(self.ranges)
        self._runs = {}

    def _add_part(self, low, words):
        """Add the characters from one on, which the sets of some words contain."""
        selections: Interned = self.selections
        n: cython.Py_ssize_t = words.shape[0]
        while n > 0 and not words[n - 1]:
            n -= 1
        begin = selections.room(n)
        for i in range(n):
            selections.pool[begin + i] = words[i]
        self._cuts.append(low)
        self._members.append(selections.intern(n))
