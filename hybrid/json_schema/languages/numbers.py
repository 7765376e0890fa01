"""Languages of numbers: the texts of all decimals that satisfy bounds, divisors and similar conditions.

What: `number_texts` gives the automaton of the JSON texts whose values satisfy a Boolean combination of
atoms: ``("integer",)``, ``("ge", x)``, ``("gt", x)``, ``("multiple", x)``, ``("among", {x, ...})``.
When: for each formula of numbers; results are cached.
Limits: numbers are exact decimals. Without atoms, all of JSON's spellings are allowed; if all bounds are 0,
exponents are allowed, too. Otherwise a text has digits and an optional fraction, but no exponent and no
minus before a zero, and no fraction if only integers satisfy the combination. Every value has at least one
text.

Each atom is a machine that reads the sign and the digits. A bound compares digit by digit, and the integer
part by its length first. A divisor keeps the residue of the digits so far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from itertools import pairwise, product
from math import gcd, lcm
from typing import Any

from hybrid.json_schema.languages.automaton import Automaton, combine, minimal, words
from hybrid.json_schema.languages.pattern import pattern
from hybrid.json_schema.languages.until import TooLarge, look

Atom = tuple[Any, ...]

Reader = Callable[[bool, Sequence[int]], tuple[bool, ...]]
"""Computes the truth of some atoms from whether the number is negative and from the results of machines."""

_ALL = r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$"
_MOST_TABLED = 8
"""For at most this many atoms, the truth table of a combination is listed, with two to this power of
lines."""


def number_texts(
    atoms: Sequence[Atom],
    accept: Callable[[tuple[bool, ...]], bool],
    bound: int,
    integral: bool = False,
) -> Automaton:
    """Return the texts of all numbers that a combination of atoms accepts.

    Args:
        atoms: the atoms.
        accept: the combination: it gets the truth of each atom, and returns whether the number is accepted.
        bound: most states.
        integral: whether only integers are accepted, and must be written without a fraction.

    Raises:
        TooLarge: it needs more states than the bound.
    """
    if integral:
        return _texts(tuple(atoms), accept, bound, True)
    if len(atoms) > _MOST_TABLED:
        return _side_by_side(tuple(atoms), accept, bound)
    accepted = frozenset(signs for signs in product((False, True), repeat=len(atoms)) if accept(signs))
    return _tabled(tuple(atoms), accepted, bound)


@lru_cache(maxsize=2048)
def _tabled(atoms: tuple[Atom, ...], accepted: frozenset[tuple[bool, ...]], bound: int) -> Automaton:
    """`number_texts` for a combination given as the list of accepted truth values."""
    if not accepted:
        return words([])
    if not atoms:
        return pattern(_ALL, bound)
    listed = [i for i, atom in enumerate(atoms) if atom[0] == "among"]
    if listed and all(any(signs[i] for i in listed) for signs in accepted):
        values = set().union(*(atoms[i][1] for i in listed))
        return words(text_of(value) for value in values if holds(atoms, value) in accepted)
    if all(atom[0] in ("ge", "gt") and not atom[1] for atom in atoms):
        return _by_sign(atoms, accepted, bound)
    integral = _is_integral(atoms, accepted)
    if len(atoms) > 1 and any(atom[0] == "multiple" for atom in atoms):
        return _side_by_side(atoms, lambda signs: signs in accepted, bound, integral)
    return _texts(atoms, lambda signs: signs in accepted, bound, integral)


def _side_by_side(
    atoms: tuple[Atom, ...], accept: Callable[[tuple[bool, ...]], bool], bound: int, integral: bool = False
) -> Automaton:
    """Return the product of the minimal automata of the atoms. For the divisors 4, 7 and 2.5 beside a bound
    it takes 3 ms; the product of their machines takes 26."""
    parts = [_texts((), lambda signs: True, bound, integral), *(_alone(atom, bound) for atom in atoms)]
    return combine(parts, lambda signs: signs[0] and accept(signs[1:]), bound, (0,))


@lru_cache(maxsize=512)
def _alone(atom: Atom, bound: int) -> Automaton:
    """Return the texts without exponent that one atom accepts."""
    return _texts((atom,), lambda signs: signs[0], bound)


def _is_integral(atoms: tuple[Atom, ...], accepted: frozenset[tuple[bool, ...]]) -> bool:
    """Whether only integers are accepted."""
    return ("integer",) in atoms and all(signs[atoms.index(("integer",))] for signs in accepted)


def _by_sign(atoms: tuple[Atom, ...], accepted: frozenset[tuple[bool, ...]], bound: int) -> Automaton:
    """Return the language of a combination that depends only on the sign. Exponents do not change the
    sign."""
    takes = {sign: holds(atoms, Fraction(sign)) in accepted for sign in (-1, 0, 1)}
    number, zero = r"(?:0|[1-9][0-9]*)(?:\.[0-9]+)?", r"0(?:\.0+)?"
    exponent = r"(?:[eE][+-]?[0-9]+)?$"
    parts = []
    if takes[1]:
        parts.append(f"^(?!{zero}(?:[eE]|$)){number}{exponent}")
    if takes[0]:
        parts.append(f"^{zero}{exponent}")
    if takes[-1]:
        parts.append(f"^-(?!{zero}(?:[eE]|$)){number}{exponent}")
    return pattern("|".join(parts), bound)


def holds(atoms: Sequence[Atom], value: Fraction) -> tuple[bool, ...]:
    """For each atom, find whether it holds for a value."""
    found = []
    for atom in atoms:
        if atom[0] == "integer":
            found.append(value.denominator == 1)
        elif atom[0] == "multiple":
            found.append((value / atom[1]).denominator == 1)
        elif atom[0] == "among":
            found.append(value in atom[1])
        else:
            found.append(value >= atom[1] if atom[0] == "ge" else value > atom[1])
    return tuple(found)


def digits_of(value: Fraction) -> tuple[str, str]:
    """Return the digits of a decimal's absolute value before and after the point, without leading and
    trailing zeros."""
    value = abs(value)
    places = 0
    denominator = value.denominator
    while denominator % 10 == 0:
        denominator //= 10
        places += 1
    while denominator % 2 == 0 or denominator % 5 == 0:
        denominator //= 2 if denominator % 2 == 0 else 5
        places += 1
    if denominator != 1:
        raise ValueError(f"{value} is not a finite decimal")
    digits = str(value.numerator * 10**places // value.denominator).rjust(places + 1, "0")
    whole, fraction = (digits[:-places], digits[-places:]) if places else (digits, "")
    return whole, fraction.rstrip("0")


def text_of(value: Fraction) -> str:
    """Return the shortest text of a decimal without exponent."""
    whole, fraction = digits_of(value)
    return ("-" if value < 0 else "") + whole + ("." + fraction if fraction else "")


class _Bound:
    """Compares the absolute value of the number that is read with a decimal; the result is -1, 0 or 1.

    States: (digits of the integer part so far, comparison so far); after the point, (-1 - digits,
    comparison).
    """

    def __init__(self, value: Fraction) -> None:
        self._whole, self._fraction = (list(map(int, digits)) for digits in digits_of(value))

    def start(self) -> Any:
        return 0, 0

    def digit(self, state: Any, digit: int) -> Any:
        at, order = state
        if at >= 0:
            if at > len(self._whole):
                return state
            if at < len(self._whole) and not order:
                order = (digit > self._whole[at]) - (digit < self._whole[at])
            return at + 1, order
        if order:
            return -1, order
        behind = -1 - at
        expected = self._fraction[behind] if behind < len(self._fraction) else 0
        order = (digit > expected) - (digit < expected)
        return (-1, order) if order else (max(at - 1, -2 - len(self._fraction)), 0)

    def cuts(self, state: Any) -> tuple[int, ...]:
        """Return the digits at which the next step changes."""
        at, order = state
        if order or at >= len(self._whole):
            return ()
        behind = -1 - at
        if at >= 0:
            expected = self._whole[at]
        else:
            expected = self._fraction[behind] if behind < len(self._fraction) else 0
        return expected, expected + 1

    def point(self, state: Any) -> Any:
        return -1, self._whole_order(state)

    def _whole_order(self, state: Any) -> int:
        at, order = state
        if at != len(self._whole):
            return 1 if at > len(self._whole) else -1
        return int(order)

    def end(self, state: Any) -> int:
        at, order = state
        if at >= 0:
            order = self._whole_order(state)
        if not order and -1 - min(at, -1) < len(self._fraction):
            return -1  # digits other than 0 are still missing
        return int(order)


_EACH = tuple(range(1, 10))
_MINUS, _POINT, _ZERO = map(ord, "-.0")


class _Residue:
    """Keeps the residue of the digits modulo a common multiple M of all divisors, in units of 10^-P.

    After k digits behind the point, P - k may follow. So a residue r counts as r 10^(P - k) in the end, and r
    matters only modulo M / gcd(M, 10^(P - k)). If no digits that may follow lead to a multiple of any
    divisor, the state is -1. For 17/8, there are 46 states instead of 8,500.

    States are residues; after the point (places, residue). The result is the residue of the number in units
    of the last place, or -1: no divisor divides the number.
    """

    def __init__(self, divisors: Sequence[Fraction], bound: int) -> None:
        self._places = max(len(digits_of(one)[1]) for one in divisors)
        self._units = {one: int(one * 10**self._places) for one in divisors}
        self._modulus = lcm(*self._units.values())
        self._behind = [10 ** (self._places - k) for k in range(self._places + 1)]
        self._moduli = [self._modulus // gcd(self._modulus, scale) for scale in self._behind]
        if sum(self._moduli) > bound:
            raise TooLarge(bound)

    def start(self) -> Any:
        return 0

    def digit(self, state: Any, digit: int) -> Any:
        if isinstance(state, tuple):
            places, residue = state
            if places < self._places:
                return self._at(places + 1, 10 * residue + digit)
            return -1 if digit else state
        return state if state == -1 else (10 * state + digit) % self._moduli[0]

    def _at(self, places: int, residue: int) -> Any:
        """Return the state after some digits behind the point."""
        residue %= self._moduli[places]
        scale = self._behind[places]
        if all(-residue * scale % unit >= scale for unit in self._units.values()):
            return -1
        return places, residue

    def cuts(self, state: Any) -> tuple[int, ...]:
        """Return the digits at which the next step changes."""
        if state == -1:
            return ()
        if isinstance(state, tuple) and state[0] == self._places:
            return (1,)
        return () if self._modulus == 1 else _EACH

    def point(self, state: Any) -> Any:
        return self._at(0, state)

    def end(self, state: Any) -> int:
        if state == -1:
            return -1
        places, residue = state if isinstance(state, tuple) else (0, state)
        return int(residue * self._behind[places] % self._modulus)

    def unit(self, divisor: Fraction) -> int:
        """Return a divisor in units of the last place: it divides the numbers whose result it divides."""
        return self._units[divisor]


def _machines(atoms: Sequence[Atom], bound: int, integral: bool) -> tuple[list[Any], Reader]:
    """Return the machines of some atoms, and a function that computes the atoms from the sign and their
    results.

    Args:
        integral: whether all numbers that are read are integers.
    """
    machines: list[Any] = []
    places: dict[Fraction, int] = {}

    def place(value: Fraction) -> int:
        if abs(value) not in places:
            places[abs(value)] = len(machines)
            machines.append(_Bound(value))
        return places[abs(value)]

    readers: list[Callable[[bool, Sequence[int]], bool]] = []
    divisors = [atom[1] for atom in atoms if atom[0] == "multiple"]
    if divisors:
        machines.append(_Residue(divisors, bound))
    for atom in atoms:
        if atom[0] == "multiple":
            readers.append(partial(_divided, 0, machines[0].unit(atom[1])))
        elif atom[0] == "integer" and integral:
            readers.append(_always)
        elif atom[0] == "integer":  # separate: then one state suffices for "only zeros follow the point"
            machines.append(_Residue([Fraction(1)], bound))
            readers.append(partial(_divided, len(machines) - 1, 1))
        elif atom[0] == "among":
            readers.append(partial(_equal, [(value < 0, place(value)) for value in sorted(atom[1])]))
        else:
            readers.append(partial(_reaches, place(atom[1]), atom[1] < 0, atom[0] == "ge"))
    return machines, lambda negative, results: tuple(read(negative, results) for read in readers)


def _always(negative: bool, results: Sequence[int]) -> bool:
    """Whether a number is an integer, if all numbers are."""
    return True


def _divided(at: int, unit: int, negative: bool, results: Sequence[int]) -> bool:
    """Whether a number is a multiple of a divisor, according to the machine at an index."""
    return results[at] >= 0 and results[at] % unit == 0


def _equal(values: list[tuple[bool, int]], negative: bool, results: Sequence[int]) -> bool:
    """Whether a number equals one of some values, each given as its sign and the index of its machine."""
    return any(sign == negative and not results[at] for sign, at in values)


def _reaches(at: int, below: bool, closed: bool, negative: bool, results: Sequence[int]) -> bool:
    """Whether a number reaches a bound, according to the machine that compares the absolute values.

    Args:
        below: whether the bound is negative.
        closed: whether a number equal to the bound reaches it.
    """
    if negative != below:
        return below
    if not results[at]:
        return closed
    return (results[at] < 0) if negative else (results[at] > 0)


def _texts(
    atoms: Sequence[Atom], accept: Callable[[tuple[bool, ...]], bool], bound: int, integral: bool = False
) -> Automaton:
    """Return the product of the machines of all atoms and the syntax of numbers."""
    machines, read = _machines(atoms, bound, integral)
    is_signed = any(atom[0] in ("ge", "gt", "among") for atom in atoms)
    # (position in the number, whether a minus was read, whether a digit other than 0 was read, states of the
    # machines)
    start = ("begin", False, False, tuple([machine.start() for machine in machines]))
    numbers, states = {start: 0}, [start]
    rows: list[list[tuple[int, int, int]]] = []
    accepting = []
    accepts: dict[tuple[bool, tuple[int, ...]], bool] = {}  # the results of most states are alike
    for where, negative, is_nonzero, inner in states:
        look()
        row = []
        for first, last, after in _follow(machines, where, negative, is_nonzero, inner, integral):
            if after[2] and not is_signed:  # the minus, if any, stands before a number other than 0
                after = (after[0], False, *after[2:])
            number = numbers.setdefault(after, len(states))
            if number == len(states):
                states.append(after)
                if len(states) > bound:
                    raise TooLarge(bound)
            row.append((first, last, number))
        rows.append(row)
        ends = where in ("zero", "whole", "fraction") and (is_nonzero or not negative)
        if ends:
            results = tuple([machine.end(one) for machine, one in zip(machines, inner, strict=True)])
            known = accepts.get((negative, results))
            if known is None:
                known = accepts[negative, results] = accept(read(negative, results))
            ends = known
        accepting.append(ends)
    return minimal(rows, accepting)


def _follow(
    machines: list[Any], where: str, negative: bool, is_nonzero: bool, inner: tuple[Any, ...], integral: bool
) -> list[tuple[int, int, Any]]:
    """Return what may be read next, as pairs of a first and a last character, each with the state that
    follows."""
    found: list[tuple[int, int, Any]] = []
    if where == "begin" and not negative:
        found.append((_MINUS, _MINUS, ("begin", True, False, inner)))
    if where in ("zero", "whole") and not integral:
        states = tuple([machine.point(one) for machine, one in zip(machines, inner, strict=True)])
        found.append((_POINT, _POINT, ("point", negative, is_nonzero, states)))
    if where == "zero":
        return found
    cuts = {0} if is_nonzero else {0, 1}
    for machine, one in zip(machines, inner, strict=True):
        cuts.update(machine.cuts(one))
    begins = sorted(cuts)
    if begins[-1] < 10:
        begins.append(10)
    after = "fraction" if where in ("point", "fraction") else "whole"
    for begin, end in pairwise(begins):
        states = tuple([machine.digit(one, begin) for machine, one in zip(machines, inner, strict=True)])
        position = "zero" if where == "begin" and begin == 0 else after
        follows = (position, negative, is_nonzero or begin > 0, states)
        found.append((_ZERO + begin, _ZERO + end - 1, follows))
    return found
