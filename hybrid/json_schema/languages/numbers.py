"""Languages of numbers: the texts of all decimals that satisfy bounds, divisors and similar conditions.

What: `number_texts` gives the automaton of the JSON texts whose values satisfy a Boolean combination of
atoms: ``("integer",)``, ``("ge", x)``, ``("gt", x)``, ``("multiple", x)``, ``("among", {x, ...})``.
When: for each formula of numbers; results are cached.
Limits: numbers are exact decimals. Without atoms, all of JSON's spellings are allowed. Otherwise a text has
digits and an optional fraction, but no minus before a zero, no exponent unless all atoms are bounds by 0, and
no fraction if only integers satisfy the combination. Every value has at least one text.

Atoms become terms (`number_terms.py`), as patterns do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from equivalence.bounded_cache import cached
from hybrid.json_schema.languages.automaton import Automaton, combine, words
from hybrid.json_schema.languages.limits import check_deadline
from hybrid.json_schema.languages.minimisation import minimised_table
from hybrid.json_schema.languages.number_terms import NumberTerms, digits_of, residue_of
from hybrid.json_schema.languages.pattern import pattern
from hybrid.json_schema.languages.term_derivatives import Derivatives
from hybrid.json_schema.languages.terms import Terms

Atom = tuple[Any, ...]

Accepted = frozenset[tuple[bool, ...]]
"""A combination of atoms: the truth values that it accepts."""

_ALL = r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$"
_MOST_TABLED = 8
"""For at most this many atoms, the truth table of a combination is listed. It has two to this power lines."""

_MOST_JOINT_STATES = 64
"""If divisors and bounds may have more states together than this, an automaton is made for each. Multiples of
5 take 0.06 ms together and 0.37 apart; multiples of 1,000 from a million on 40 and 2.4."""


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
    if len(atoms) > _MOST_TABLED:
        return _product_of_minimal(tuple(atoms), accept, bound, integral)
    accepted = frozenset(signs for signs in product((False, True), repeat=len(atoms)) if accept(signs))
    return (_texts if integral else _tabled)(tuple(atoms), accepted, bound, integral)


@cached(2048)
def _tabled(atoms: tuple[Atom, ...], accepted: Accepted, bound: int, integral: bool) -> Automaton:
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
        return _texts(atoms, accepted, bound, False, True)  # exponents do not change the sign
    integral = _is_integral(atoms, accepted)
    if len(atoms) > 1 and _n_states(atoms) > _MOST_JOINT_STATES:
        return _product_of_minimal(atoms, lambda signs: signs in accepted, bound, integral)
    return _texts(atoms, accepted, bound, integral)


def _product_of_minimal(
    atoms: tuple[Atom, ...], accept: Callable[[tuple[bool, ...]], bool], bound: int, integral: bool
) -> Automaton:
    """Return the product of the minimal automata of the atoms. For the divisors 4, 7 and 2.5 beside a bound
    it takes 0.8 ms; the product of their terms takes 2.9."""
    parts = [_texts((), frozenset(((),)), bound, integral)]
    parts += [_texts_of(atom, bound, integral) for atom in atoms]
    return combine(parts, lambda signs: signs[0] and accept(tuple(map(bool, signs[1:]))), bound, (0,))


@cached(512)
def _texts_of(atom: Atom, bound: int, integral: bool) -> Automaton:
    """Return the texts without exponent that one atom accepts."""
    return _texts((atom,), frozenset(((True,),)), bound, integral)


def _is_integral(atoms: tuple[Atom, ...], accepted: Accepted) -> bool:
    """Whether only integers are accepted."""
    return ("integer",) in atoms and all(signs[atoms.index(("integer",))] for signs in accepted)


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


def shortest_text(value: Fraction) -> str:
    """Return the shortest text of a decimal without exponent."""
    whole, fraction = digits_of(value)
    return ("-" if value < 0 else "") + whole + ("." + fraction if fraction else "")


def _n_states(atoms: Sequence[Atom]) -> int:
    """Return about how many states some atoms have together; 0 if there is no divisor."""
    sizes = [residue_of(atom[1]).size for atom in atoms if atom[0] == "multiple"]
    digits = sum(len("".join(digits_of(atom[1]))) for atom in atoms if atom[0] in ("ge", "gt"))
    return prod(sizes) * (1 + digits) if sizes else 0


def _texts(
    atoms: tuple[Atom, ...], accepted: Accepted, bound: int, integral: bool, has_exponents: bool = False
) -> Automaton:
    """Return the texts of numbers that satisfy a combination of atoms.

    Args:
        integral: whether they have no fraction.
        has_exponents: whether they may have an exponent. All atoms must be bounds by 0 then.
    """
    check_deadline()
    terms = Terms()
    made = NumberTerms(terms, bound)
    start = terms.both((made.numbers(integral, has_exponents), made.satisfying(atoms, accepted)))
    return Automaton(*minimised_table(*Derivatives(terms).explored(start, bound)))
