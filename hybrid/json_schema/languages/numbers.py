"""Languages of numbers: the texts of all decimals that satisfy bounds, divisors and similar conditions.

What: `number_texts` gives the automaton of the JSON texts whose values satisfy a Boolean combination of
conditions.
When: for each formula of numbers; results are cached.
Limits: numbers are exact decimals. Without conditions, all of JSON's spellings are allowed. Otherwise a text
has digits and an optional fraction, but no minus before a zero, and no exponent unless all conditions are
bounds by 0.

A combination is a tuple of *parts*. The last one is the combination itself. A part is a condition:
``("integer",)``, ``("ge", x)``, ``("gt", x)``, ``("multiple", x)``, ``("among", {x, ...})``; or an operator
with the indices of earlier parts: ``("and", i, j, ...)``, ``("or", ...)``, ``("one", ...)``, ``("not", i)``.

Combinations become terms (`number_terms.py`), as patterns do.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from equivalence.bounded_cache import cached
from hybrid.json_schema.languages.automaton import Automaton, language_of
from hybrid.json_schema.languages.limits import check_deadline
from hybrid.json_schema.languages.number_terms import OPERATORS, NumberTerms, digits_of
from hybrid.json_schema.languages.pattern import pattern
from hybrid.json_schema.languages.terms import Terms

Part = tuple[Any, ...]
"""A condition, or an operator and the indices of the parts that it combines."""

_ALL = r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$"


@cached(2048)
def number_texts(parts: tuple[Part, ...], bound: int, integral: bool = False) -> Automaton:
    """Return the texts of all numbers that satisfy a combination of conditions.

    Args:
        parts: the combination.
        bound: the maximum number of states.
        integral: whether only integers satisfy it, and must be written without a fraction.

    Raises:
        TooLarge: it needs more states than the bound.
    """
    if parts == (("and",),):
        return pattern(_ALL, bound)
    check_deadline()
    conditions = [part for part in parts if part[0] not in OPERATORS]
    has_exponents = all(one[0] in ("ge", "gt") and not one[1] for one in conditions)  # they keep the sign
    terms = Terms()
    made = NumberTerms(terms, bound)
    start = terms.intersection((made.numbers(integral, has_exponents), made.satisfying(parts)))
    return language_of(terms, start, bound)


def holds(condition: Part, value: Fraction) -> bool:
    """Whether a condition holds for a value."""
    if condition[0] == "integer":
        return value.denominator == 1
    if condition[0] == "multiple":
        return bool((value / condition[1]).denominator == 1)
    if condition[0] == "among":
        return value in condition[1]
    return bool(value >= condition[1] if condition[0] == "ge" else value > condition[1])


def shortest_text(value: Fraction) -> str:
    """Return the shortest text of a decimal without exponent."""
    whole, fraction = digits_of(value)
    return ("-" if value < 0 else "") + whole + ("." + fraction if fraction else "")
