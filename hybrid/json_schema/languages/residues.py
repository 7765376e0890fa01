# cython: language_level=3
# mypy: ignore-errors
"""Residues: whether a number is a multiple of a divisor, while its digits are read.

What: a `Residue` has a state for what the digits so far leave when they are divided. A state is an integer; 0
is the one before the first digit.
When: for `multipleOf` in a schema (`hybrid.json_schema.languages.numbers`), as a kind of term (`terms.py`).
Limits: a divisor of `LARGEST` or more, in units of its last digit, has no states, and its size is infinite.
"""

from __future__ import annotations

from math import gcd, inf

import cython
import numpy as np
from cython.cimports.equivalence.source_check import check_source

check_source(__name__)

LARGEST = 1 << 31
"""Products of two residues fit into 63 bits."""


@cython.final
@cython.cclass
class Residue:
    """Keeps the residue of the digits modulo a divisor M, in units of 10^-P.

    When k digits after the point were read, P - k may follow. So a residue r counts as r 10^(P - k) in the
    end, and r matters only modulo M / gcd(M, 10^(P - k)). If no digits that may follow lead to a multiple,
    the state is the last one. For 17/8, there are 46 states instead of 8,500.

    Before the point, any number of digits may follow. If P is 0, and a multiple can be reached with j more
    digits, but not with fewer, then r matters only modulo M / gcd(M, 10^j). For 65,536, there are 2,829
    states; for 100,000, which only numbers that end in zeros are multiples of, 6.

    Before the point, states from `before[j]` on need j more digits. When k digits after the point were read,
    states are numbered from `first[k]` on.

    Args:
        unit: M.
        places: P.

    Attributes:
        last: the last state.
        size: about how many states are reached, at most.
    """

    def __init__(self, unit: int, places: int) -> None:
        if unit < 1 or places < 0:
            raise ValueError(f"{unit} units of {places} decimal places are no divisor")
        moduli = [unit // gcd(unit, 10 ** (places - k)) for k in range(places + 1)]
        lower: list = [moduli[0]]
        size: object = sum(moduli) if places else 0
        power: object = 1  # of 10, for each more digit that is needed
        while not places:
            modulus = unit // gcd(unit, 10 * power)
            if modulus == lower[len(lower) - 1]:
                break
            size += min(lower[len(lower) - 1], power)
            lower.append(modulus)
            power = 10 * power
        self.size = size + lower[len(lower) - 1]
        if unit >= LARGEST:
            self.size = inf
            return
        self.unit, self.places = unit, places
        ten: object = 10  # a power of a typed integer would be a double
        powers = [ten**e for e in range(max(places + 1, len(lower)))]
        self.powers = np.array([power % unit for power in powers], np.int64)
        self.within = np.array([min(power, unit) for power in powers], np.int64)
        self.moduli, self.lower = np.array(moduli, np.int64), np.array(lower, np.int64)
        self.before = np.cumsum([0, *lower])
        self.first = np.cumsum([sum(lower), *moduli])
        self.last = self.first[len(moduli)]

    def place_of(self, state):
        """How many digits were read after the point; -1: there was no point."""
        k: cython.Py_ssize_t = -1
        while state >= self.first[k + 1]:
            k += 1
        return k

    def digit(self, state, digit):
        """Return the state after a digit."""
        if state == self.last:
            return state
        k = self.place_of(state)
        if k < 0:
            j: cython.Py_ssize_t = 0  # this many more digits are needed, or more
            while state >= self.before[j + 1]:
                j += 1
            return self.waiting(max(j - 1, 0), 10 * (state - self.before[j]) + digit)
        if k < self.places:
            return self.after(k + 1, 10 * (state - self.first[k]) + digit)
        return self.last if digit else state

    def waiting(self, j, residue):
        """Return the state before the point for a residue modulo `lower[j]`, which needs j more digits or
        more."""
        residue %= self.lower[j]
        while j + 1 < self.lower.shape[0] and not self.can_reach(residue, j):
            j += 1
            residue %= self.lower[j]
        return self.before[j] + residue

    def after(self, k, residue):
        """Return the state when k digits after the point were read."""
        residue %= self.moduli[k]
        return self.first[k] + residue if self.can_reach(residue, self.places - k) else self.last

    def can_reach(self, residue, e):
        """Whether e more digits lead to a multiple."""
        missing = self.unit - residue % self.unit * self.powers[e] % self.unit
        return missing % self.unit < self.within[e]

    def point(self, state):
        """Return the state after the point."""
        return self.last if state >= self.lower[0] else self.after(0, state)

    def accepts(self, state):
        """Whether the number that ends here is a multiple."""
        k = self.place_of(state) if state != self.last else -1
        return state == 0 or (k >= 0 and state == self.first[k])
