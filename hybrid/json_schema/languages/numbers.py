"""Languages of numbers: the texts of all decimals that satisfy bounds, divisors and similar conditions.

What: `number_texts` gives the automaton of the JSON texts whose values satisfy a Boolean combination of
atoms: ``("integer",)``, ``("ge", x)``, ``("gt", x)``, ``("multiple", x)``, ``("among", {x, ...})``.
When: for each formula of numbers; results are cached.
Limits: numbers are exact decimals. Without atoms, all of JSON's spellings are allowed. Otherwise a text has
digits and an optional fraction, but no minus before a zero, no exponent unless all atoms are bounds by 0, and
no fraction if only integers satisfy the combination. Every value has at least one text.

The texts are read by machines (`number_machines.py`). A bound compares digit by digit, and the integer part
by its length first. All divisors together keep the residue of the digits so far.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from fractions import Fraction
from itertools import product
from math import gcd, lcm
from typing import Any, NamedTuple

from equivalence.bounded_cache import cached
from hybrid.json_schema.languages.automaton import Automaton, combine, words
from hybrid.json_schema.languages.limits import TooLarge, check_deadline
from hybrid.json_schema.languages.number_machines import MOST_ATOMS, Bound, Machine, Residue, read_numbers
from hybrid.json_schema.languages.pattern import pattern

Atom = tuple[Any, ...]

_ALL = r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$"
_MOST_TABLED = 8
"""For at most this many atoms, the truth table of a combination is listed. It has two to this power lines."""

_LARGEST_MODULUS = 1 << 31
"""Products of two residues fit into 63 bits."""

_MOST_JOINT_STATES = 64
"""If the machines of divisors and bounds may reach more states together than this, an automaton is made for
each. Multiples of 5 take 0.06 ms together and 0.37 apart; multiples of 1,000 from a million on 40 and 2.4."""


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
        bound: the maximum number of states.
        integral: whether only integers are accepted, and must be written without a fraction.

    Raises:
        TooLarge: it needs more states than the bound.
    """
    if integral:
        return _texts(tuple(atoms), accept, bound, True)
    if len(atoms) > _MOST_TABLED:
        return _product_of_minimal(tuple(atoms), accept, bound)
    accepted = frozenset(signs for signs in product((False, True), repeat=len(atoms)) if accept(signs))
    return _tabled(tuple(atoms), accepted, bound)


@cached(2048)
def _tabled(atoms: tuple[Atom, ...], accepted: frozenset[tuple[bool, ...]], bound: int) -> Automaton:
    """`number_texts` for a combination given as the list of accepted truth values."""
    if not accepted:
        return words([])
    if not atoms:
        return pattern(_ALL, bound)
    listed = [i for i, atom in enumerate(atoms) if atom[0] == "among"]
    if listed and all(any(signs[i] for i in listed) for signs in accepted):
        values = set().union(*(atoms[i][1] for i in listed))
        return words(shortest_text(value) for value in values if holds(atoms, value) in accepted)
    if all(atom[0] in ("ge", "gt") and not atom[1] for atom in atoms):
        return _by_sign(atoms, accepted, bound)
    integral = _is_integral(atoms, accepted)
    if len(atoms) > 1 and _n_states(atoms) > _MOST_JOINT_STATES:
        return _product_of_minimal(atoms, lambda signs: signs in accepted, bound, integral)
    return _texts(atoms, lambda signs: signs in accepted, bound, integral)


def _product_of_minimal(
    atoms: tuple[Atom, ...], accept: Callable[[tuple[bool, ...]], bool], bound: int, integral: bool = False
) -> Automaton:
    """Return the product of the minimal automata of the atoms. For the divisors 4, 7 and 2.5 beside a bound
    it takes 0.8 ms; the product of their machines takes 2.9."""
    parts = [_texts((), lambda signs: True, bound, integral), *(_texts_of(atom, bound) for atom in atoms)]
    return combine(parts, lambda signs: signs[0] and accept(tuple(map(bool, signs[1:]))), bound, (0,))


@cached(512)
def _texts_of(atom: Atom, bound: int) -> Automaton:
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
    return pattern("|".join(parts), bound) if parts else words([])


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
    check_deadline()
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


def shortest_text(value: Fraction) -> str:
    """Return the shortest text of a decimal without exponent."""
    whole, fraction = digits_of(value)
    return ("-" if value < 0 else "") + whole + ("." + fraction if fraction else "")


def _n_states(atoms: Sequence[Atom]) -> int:
    """Return about how many states the machines of some atoms reach together; 0 if there is no divisor."""
    divisors = [atom[1] for atom in atoms if atom[0] == "multiple"]
    if not divisors:
        return 0
    digits = sum(len("".join(digits_of(atom[1]))) for atom in atoms if atom[0] in ("ge", "gt"))
    return _size(_moduli(divisors)) * (1 + digits)


class _Moduli(NamedTuple):
    """Arguments of a `Residue`."""

    units: list[int]
    scales: list[int]
    moduli: list[int]
    lower: list[int]


def _moduli(divisors: Collection[Fraction]) -> _Moduli:
    """Return the arguments of the `Residue` of some divisors."""
    places = max(len(digits_of(one)[1]) for one in divisors)
    units = [int(one * 10**places) for one in divisors]
    modulus = lcm(*units)
    scales = [10 ** (places - k) for k in range(places + 1)]
    moduli = [modulus // gcd(modulus, scale) for scale in scales]
    lower = [moduli[0]]
    while not places and lower[-1] != (following := modulus // gcd(modulus, 10 ** len(lower))):
        lower.append(following)
    return _Moduli(units, scales, moduli, lower)


def _size(moduli: _Moduli) -> int:
    """Return about how many states the `Residue` reaches, at most."""
    few = len(moduli.units)
    waiting = sum(min(modulus, few * 10**j) for j, modulus in enumerate(moduli.lower[:-1]))
    return waiting + moduli.lower[-1] + sum(moduli.moduli if len(moduli.moduli) > 1 else ())


def _residue(divisors: dict[Fraction, int], bound: int) -> Residue:
    """Return the machine of some divisors, each given with its bit."""
    found = _moduli(divisors)
    if _size(found) > bound or found.lower[0] > _LARGEST_MODULUS:
        raise TooLarge(bound)
    return Residue(found.units, [*divisors.values()], found.scales, found.moduli, found.lower)


def _machines(atoms: Sequence[Atom], bound: int, integral: bool) -> tuple[list[Machine], int]:
    """Return the machines of some atoms, and the bits of the atoms that always hold.

    Args:
        integral: whether all numbers that are read are integers.
    """
    divisors: dict[Fraction, int] = {}
    compared: dict[Fraction, list[int]] = {}  # for each absolute value, the bits of `Bound`
    always = integer = 0
    for bit, atom in zip((1 << i for i in range(len(atoms))), atoms, strict=False):
        if atom[0] == "multiple":
            divisors[atom[1]] = divisors.get(atom[1], 0) | bit
        elif atom[0] == "integer" and integral:
            always |= bit
        elif atom[0] == "integer":
            integer |= bit
        else:
            for value in atom[1] if atom[0] == "among" else (atom[1],):
                outcomes = compared.setdefault(abs(value), [0] * 6)
                for i, holds_there in enumerate(_outcomes(atom[0], value < 0)):
                    outcomes[i] |= bit * holds_there
    machines: list[Machine] = [_residue(divisors, bound)] if divisors else []
    if integer:  # separate: then one state suffices for "only zeros follow the point"
        machines.append(_residue({Fraction(1): integer}, bound))
    for value, outcomes in sorted(compared.items()):
        whole, fraction = (bytes(map(int, digits)) for digits in digits_of(value))
        machines.append(Bound(whole, fraction, outcomes))
    return machines, always


def _outcomes(kind: str, is_below: bool) -> tuple[bool, ...]:
    """Return whether an atom holds for a number, by its sign and the comparison of its absolute value with
    that of the atom: without a minus and less, equal, greater; then with one.

    Args:
        kind: "ge", "gt", or "among": the number is equal.
        is_below: whether the atom's value is below 0.
    """
    if kind == "among":
        found, other = (False, True, False), (False, False, False)
    elif is_below:
        found, other = (True, kind == "ge", False), (True, True, True)
    else:
        found, other = (False, kind == "ge", True), (False, False, False)
    return (*other, *found) if is_below else (*found, *other)


def _texts(
    atoms: Sequence[Atom], accept: Callable[[tuple[bool, ...]], bool], bound: int, integral: bool = False
) -> Automaton:
    """Return the product of the machines of all atoms and the syntax of numbers."""
    if len(atoms) > MOST_ATOMS:
        return _product_of_minimal(tuple(atoms), accept, bound, integral)
    check_deadline()
    machines, always = _machines(atoms, bound, integral)
    is_signed = any(atom[0] in ("ge", "gt", "among") for atom in atoms)

    def accepts(bits: int) -> bool:
        return accept(tuple([bool(bits >> i & 1) for i in range(len(atoms))]))

    found = read_numbers(machines, always, accepts, is_signed=is_signed, is_integral=integral, bound=bound)
    return Automaton(*found)
