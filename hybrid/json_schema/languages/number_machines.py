# cython: language_level=3
# mypy: ignore-errors
"""Machines that read the digits of a number and find which conditions it satisfies.

What: `Bound` compares a number with a decimal, `Residue` divides it, and `read_numbers` reads the texts of
numbers with several machines at once.
When: for each combination of conditions for numbers (`hybrid.json_schema.languages.numbers`).
Limits: at most `MOST_ATOMS` conditions, whose truth is an integer with a bit for each.

A machine's state is an integer. It starts in state 0, reads the digits from the first one on, is told where
the decimal point is, and gives the bits of its conditions at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cython
import numpy as np
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.equivalence.source_check import check_source

from hybrid.json_schema.languages.limits import TooLarge, check_deadline
from hybrid.json_schema.languages.minimisation import minimised_table

check_source(__name__)

MOST_ATOMS = 60
"""The maximum number of conditions of the machines that read a number together."""

NO_BITS = cython.declare(cython.longlong, 0)
ALL_DIGITS = cython.declare(cython.int, 0b1111111111)
MINUS = cython.declare(cython.longlong, 45)
POINT = cython.declare(cython.longlong, 46)
ZERO = cython.declare(cython.longlong, 48)

BEGIN = cython.declare(cython.int, 0)  # where in a number a state is: before its first digit
AFTER_ZERO = cython.declare(cython.int, 1)  # after the only digit of the integer part, which is 0
WHOLE = cython.declare(cython.int, 2)  # in another integer part
AFTER_POINT = cython.declare(cython.int, 3)
FRACTION = cython.declare(cython.int, 4)


@cython.cclass
class Machine:
    """Reads the absolute value of a number."""

    @cython.cfunc
    def digit(self, state: cython.longlong, digit: cython.longlong) -> cython.longlong:
        """Return the state after a digit."""
        return state

    @cython.cfunc
    def cuts(self, state: cython.longlong) -> cython.int:
        """Return the digits that may lead to another state than the digit before, as bits."""
        return 0

    @cython.cfunc
    def point(self, state: cython.longlong) -> cython.longlong:
        """Return the state after the point."""
        return state

    @cython.cfunc
    def end(self, state: cython.longlong, is_negative: cython.bint) -> cython.longlong:
        """Return the bits of the conditions that hold for the number that ends here."""
        return NO_BITS


@cython.final
@cython.cclass
class Bound(Machine):
    """Compares the number with a decimal.

    A state is 3 * place + order. The order is -1, 0 or 1: how the digits so far compare with those of the
    decimal. The place is the number of digits so far; after the point, it is -1 minus the number of digits
    after the point.

    Args:
        whole, fraction: the digits of the decimal's absolute value before and after the point, as bytes from
            0 to 9.
        bits: the bits of the conditions that hold for a number that is less, equal or greater: for numbers
            without a minus, then for those with one.
    """

    whole: cython.const[cython.uchar][::1]
    fraction: cython.const[cython.uchar][::1]
    bits: cython.longlong[6]

    def __init__(self, whole: bytes, fraction: bytes, bits: Sequence[int]) -> None:
        self.whole, self.fraction = whole, fraction
        for i in range(6):
            self.bits[i] = bits[i]

    @cython.cfunc
    @cython.inline
    def place_of(self, state: cython.longlong) -> cython.longlong:
        state += 1
        return state // 3 if state >= 0 else -((2 - state) // 3)

    @cython.cfunc
    def digit(self, state: cython.longlong, digit: cython.longlong) -> cython.longlong:
        place: cython.longlong = self.place_of(state)
        order: cython.longlong = state - 3 * place
        n: cython.longlong = self.whole.shape[0]
        if place >= 0:
            if place > n:
                return state
            if place < n and order == 0:
                order = (digit > self.whole[place]) - (digit < self.whole[place])
            return 3 * (place + 1) + order
        if order != 0:
            return -3 + order
        n = self.fraction.shape[0]
        expected: cython.longlong = self.fraction[-1 - place] if -1 - place < n else 0
        order = (digit > expected) - (digit < expected)
        if order != 0:
            return -3 + order
        return 3 * max(place - 1, -2 - n)

    @cython.cfunc
    def cuts(self, state: cython.longlong) -> cython.int:
        place: cython.longlong = self.place_of(state)
        if state != 3 * place or place >= self.whole.shape[0]:
            return 0
        if place >= 0:
            return 3 << self.whole[place]
        return 3 << self.fraction[-1 - place] if -1 - place < self.fraction.shape[0] else 3

    @cython.cfunc
    def point(self, state: cython.longlong) -> cython.longlong:
        return -3 + self.whole_order(state)

    @cython.cfunc
    def whole_order(self, state: cython.longlong) -> cython.longlong:
        """How the integer part compares, which ends here."""
        place: cython.longlong = self.place_of(state)
        if place != self.whole.shape[0]:
            return 1 if place > self.whole.shape[0] else -1
        return state - 3 * place

    @cython.cfunc
    def end(self, state: cython.longlong, is_negative: cython.bint) -> cython.longlong:
        place: cython.longlong = self.place_of(state)
        order: cython.longlong = self.whole_order(state) if place >= 0 else state - 3 * place
        if order == 0 and -1 - min(place, -1) < self.fraction.shape[0]:
            order = -1  # digits other than 0 are still missing
        return self.bits[3 * is_negative + order + 1]


@cython.final
@cython.cclass
class Residue(Machine):
    """Keeps the residue of the digits modulo a common multiple M of all divisors, in units of 10^-P.

    When k digits after the point were read, P - k may follow. So a residue r counts as r 10^(P - k) in the
    end, and r matters only modulo M / gcd(M, 10^(P - k)). If no digits that may follow lead to a multiple of
    any divisor, the state is the last one. For 17/8, there are 46 states instead of 8,500.

    Before the point, any number of digits may follow. If P is 0, and a multiple of a divisor can be reached
    with j more digits, but not with fewer, then r matters only modulo M / gcd(M, 10^j). For 65,536, there are
    2,829 states; for 100,000, which only numbers that end in zeros are multiples of, 6.

    Before the point, states from `before[j]` on need j more digits. When k digits after the point were read,
    states are numbered from `first[k]` on.

    Args:
        units: the divisors, in units of 10^-P.
        bits: the bit of each.
        scales: 10^(P - k) for each k.
        moduli: M / gcd(M, 10^(P - k)) for each k.
        lower: M / gcd(M, 10^j) for each j, until it does not change; if P is not 0, only M / gcd(M, 10^P).
    """

    n: cython.Py_ssize_t
    places: cython.Py_ssize_t
    last: cython.longlong
    modulus: cython.longlong
    units: cython.longlong[::1]
    bits: cython.longlong[::1]
    first: cython.longlong[::1]
    moduli: cython.longlong[::1]
    scales: cython.longlong[::1]  # modulo M
    lower: cython.longlong[::1]
    before: cython.longlong[::1]
    powers: cython.longlong[:, ::1]  # for each e and divisor, 10^e modulo the divisor
    within: cython.longlong[:, ::1]  # for each e and divisor, 10^e, if it is less than the divisor

    def __init__(
        self, units: Sequence[int], bits: Sequence[int], scales: Sequence[int], moduli: Sequence[int],
        lower: Sequence[int],
    ) -> None:  # fmt: skip
        self.n, self.places = len(units), len(scales) - 1
        self.lower, self.before = np.array(lower, np.int64), np.cumsum([0, *lower])
        ten: object = 10  # a power of a typed integer would be a double
        powers = [ten**e for e in range(max(self.places + 1, len(lower)))]
        self.powers = np.array([[power % unit for unit in units] for power in powers], np.int64)
        self.within = np.array([[min(power, unit) for unit in units] for power in powers], np.int64)
        self.modulus = moduli[self.places]
        self.units, self.bits = np.array(units, np.int64), np.array(bits, np.int64)
        self.moduli = np.array(moduli, np.int64)
        self.first = np.cumsum([sum(lower), *moduli])
        self.last = self.first[len(moduli)]
        self.scales = np.array([scale % self.modulus for scale in scales], np.int64)

    @cython.cfunc
    @cython.inline
    def place_of(self, state: cython.longlong) -> cython.Py_ssize_t:
        """How many digits were read after the point; -1: there was no point."""
        k: cython.Py_ssize_t = -1
        while state >= self.first[k + 1]:
            k += 1
        return k

    @cython.cfunc
    def digit(self, state: cython.longlong, digit: cython.longlong) -> cython.longlong:
        if state == self.last:
            return state
        k = self.place_of(state)
        if k < 0:
            j = self.needed(state)
            return self.waiting(max(j - 1, 0), 10 * (state - self.before[j]) + digit)
        if k < self.places:
            return self.after(k + 1, 10 * (state - self.first[k]) + digit)
        return self.last if digit else state

    @cython.cfunc
    @cython.inline
    def needed(self, state: cython.longlong) -> cython.Py_ssize_t:
        """How many more digits a state before the point needs at least."""
        j: cython.Py_ssize_t = 0
        while state >= self.before[j + 1]:
            j += 1
        return j

    @cython.cfunc
    def waiting(self, j: cython.Py_ssize_t, residue: cython.longlong) -> cython.longlong:
        """Return the state before the point for a residue modulo `lower[j]`, which needs j more digits or
        more."""
        residue %= self.lower[j]
        while j + 1 < self.lower.shape[0] and not self.can_reach(residue, j):
            j += 1
            residue %= self.lower[j]
        return self.before[j] + residue

    @cython.cfunc
    def after(self, k: cython.Py_ssize_t, residue: cython.longlong) -> cython.longlong:
        """Return the state when k digits after the point were read."""
        residue %= self.moduli[k]
        return self.first[k] + residue if self.can_reach(residue, self.places - k) else self.last

    @cython.cfunc
    def can_reach(self, residue: cython.longlong, e: cython.Py_ssize_t) -> cython.bint:
        """Whether e more digits lead to a multiple of some divisor."""
        for i in range(self.n):
            unit = self.units[i]
            missing = unit - residue % unit * self.powers[e, i] % unit
            if missing % unit < self.within[e, i]:
                return True
        return False

    @cython.cfunc
    def cuts(self, state: cython.longlong) -> cython.int:
        if state == self.last:
            return 0
        if state >= self.first[self.places]:
            return 2
        return ALL_DIGITS if self.modulus > 1 else 0

    @cython.cfunc
    def point(self, state: cython.longlong) -> cython.longlong:
        return self.last if state >= self.lower[0] else self.after(0, state)

    @cython.cfunc
    def end(self, state: cython.longlong, is_negative: cython.bint) -> cython.longlong:
        if state == self.last:
            return NO_BITS
        k = self.place_of(state)
        if k < 0 and state >= self.lower[0]:
            return NO_BITS
        if k < 0:
            residue = state * self.scales[0] % self.modulus
        else:
            residue = (state - self.first[k]) * self.scales[k] % self.modulus
        found = NO_BITS
        for i in range(self.n):
            if residue % self.units[i] == 0:
                found |= self.bits[i]
        return found


@cython.cclass
class _Reader:
    """One call of `read_numbers`.

    A configuration is one integer for the position in the number, whether a minus was read, and whether a
    digit other than 0 was; and the states of the machines.
    """

    machines: list
    n: cython.Py_ssize_t
    is_signed: cython.bint
    is_integral: cython.bint
    bound: cython.Py_ssize_t
    numbers: dict  # of each configuration, as bytes
    configurations: list
    edges: list  # the target, the first and the last character in the bits of one integer
    inner: cython.longlong[::1]  # the present configuration
    next: cython.longlong[::1]  # one that follows

    def __init__(self, machines: Sequence[Machine], is_signed: bool, is_integral: bool, bound: int) -> None:
        self.machines, self.n = list(machines), len(machines)
        self.is_signed, self.is_integral, self.bound = is_signed, is_integral, bound
        self.numbers, self.configurations, self.edges = {}, [], []
        self.inner, self.next = np.zeros(self.n + 1, np.int64), np.zeros(self.n + 1, np.int64)

    @cython.cfunc
    def read(self, always: cython.longlong, accepts: object) -> tuple:
        machine: Machine
        starts: list = [0]
        accepting: list = []
        known: dict = {}  # the truth of most configurations is alike
        self.add(BEGIN, False, False)
        at: cython.Py_ssize_t = 0
        while at < len(self.configurations):
            check_deadline()
            content = cython.cast(cython.p_longlong, PyBytes_AS_STRING(self.configurations[at]))
            for i in range(self.n + 1):
                self.inner[i] = content[i]
            at += 1
            where = cython.cast(cython.int, self.inner[0] >> 2)
            is_negative: cython.bint = (self.inner[0] & 1) != 0
            is_nonzero: cython.bint = (self.inner[0] & 2) != 0
            self.follow(where, is_negative, is_nonzero)
            starts.append(len(self.edges))
            ends = where in (AFTER_ZERO, WHOLE, FRACTION) and (is_nonzero or not is_negative)
            if ends:
                bits = always
                for i in range(self.n):
                    machine = self.machines[i]
                    bits |= machine.end(self.inner[i + 1], is_negative)
                if bits not in known:
                    known[bits] = bool(accepts(bits))
                ends = known[bits]
            accepting.append(ends)
        packed = np.array(self.edges, np.int64)
        edges = np.stack([packed >> 8 & 255, packed & 255, packed >> 16], axis=1)
        return minimised_table(np.array(starts, np.int64), edges, accepting)

    @cython.cfunc
    def add(self, where: cython.int, is_negative: cython.bint, is_nonzero: cython.bint) -> cython.Py_ssize_t:
        """Return the number of the configuration that follows."""
        if is_nonzero and not self.is_signed:  # the minus, if any, stands before a number other than 0
            is_negative = False
        self.next[0] = 4 * where + 2 * is_nonzero + is_negative
        key = PyBytes_FromStringAndSize(
            cython.cast(cython.p_char, cython.address(self.next[0])), 8 * self.n + 8
        )
        found = self.numbers.setdefault(key, len(self.configurations))
        if found == len(self.configurations):
            self.configurations.append(key)
            if found >= self.bound:
                raise TooLarge(self.bound)
        return found

    @cython.cfunc
    def follow(self, where: cython.int, is_negative: cython.bint, is_nonzero: cython.bint) -> cython.int:
        """Add the edges of the present configuration, in the order of their characters."""
        machine: Machine
        if where == BEGIN and not is_negative:
            self.next[:] = self.inner
            self.edges.append(self.add(BEGIN, True, False) << 16 | MINUS << 8 | MINUS)
        if where in (AFTER_ZERO, WHOLE) and not self.is_integral:
            for i in range(self.n):
                machine = self.machines[i]
                self.next[i + 1] = machine.point(self.inner[i + 1])
            self.edges.append(self.add(AFTER_POINT, is_negative, is_nonzero) << 16 | POINT << 8 | POINT)
        if where == AFTER_ZERO:
            return 0
        cuts: cython.int = 1 if is_nonzero else 3
        for i in range(self.n):
            machine = self.machines[i]
            cuts |= machine.cuts(self.inner[i + 1])
        after = FRACTION if where in (AFTER_POINT, FRACTION) else WHOLE
        digit: cython.longlong = 0
        while digit < 10:
            end: cython.longlong = digit + 1
            while end < 10 and not cuts >> end & 1:
                end += 1
            for i in range(self.n):
                machine = self.machines[i]
                self.next[i + 1] = machine.digit(self.inner[i + 1], digit)
            position = AFTER_ZERO if where == BEGIN and digit == 0 else after
            target = self.add(position, is_negative, is_nonzero or digit > 0)
            self.edges.append(target << 16 | (ZERO + digit) << 8 | (ZERO + end - 1))
            digit = end
        return 0


def read_numbers(
    machines: Sequence[Machine], always: int, accepts: Callable[[int], bool], *, is_signed: bool,
    is_integral: bool, bound: int,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the minimal automaton of the texts of numbers without exponents.

    Args:
        machines: read each number.
        always: the bits of conditions that hold for all numbers.
        accepts: whether numbers with some bits belong to the language.
        is_signed: whether numbers that differ only in their signs may have different bits.
        is_integral: whether numbers have no fraction.
        bound: the maximum number of configurations.

    Returns:
        What `hybrid.json_schema.languages.minimisation.minimised` returns.

    Raises:
        TooLarge: there are more configurations than the bound.
    """
    reader: _Reader = _Reader(machines, is_signed, is_integral, bound)
    return reader.read(always, accepts)
