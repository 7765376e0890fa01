"""Numbers: from formulas to the texts that the grammar allows.

What: `Numbers` finds the texts of a formula of numbers.
When: for values of type number.
Limits: numbers are exact decimals: 0.1 is a tenth, whatever a parser makes of it. Numbers that a schema
bounds are written without exponent (`hybrid.json_schema.languages.numbers`). If divisors would need too
many states, the values are listed if they are few, and integers are written without a fraction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import gcd, lcm

from hybrid.json_schema.formulas import Formula, Formulas, decide
from hybrid.json_schema.languages.automaton import Automaton, words
from hybrid.json_schema.languages.limits import TooLarge, check_deadline
from hybrid.json_schema.languages.numbers import Part, holds, number_texts, shortest_text

MOST_LISTED = 20_000
"""At most this many multiples between two bounds are examined one by one."""

MOST_DECIDED = 8
"""If listed values have more conditions than this, the automaton of the conditions decides them, not each
condition each value."""


class Numbers:
    """The number languages of one schema.

    Args:
        formulas: the formulas of the schema.
        bound: the maximum number of states of an automaton.
    """

    def __init__(self, formulas: Formulas, bound: int) -> None:
        self._formulas, self._bound = formulas, bound
        self._texts: dict[Formula, Automaton] = {}

    def texts(self, formula: Formula) -> Automaton:
        """The texts of all numbers that satisfy a formula.

        Raises:
            TooLarge: they need more states than the bound allows.
        """
        found = self._texts.get(formula)
        if found is None:
            found = self._texts[formula] = self._find_texts(formula)
        return found

    def _find_texts(self, formula: Formula) -> Automaton:
        parts, lists = _parts_of(formula), _atoms_of(formula, "among")
        if lists and _needs_any(self._formulas, formula, lists):
            values = frozenset[Fraction]().union(*(atom.args[1] for atom in lists))
            if len(formula.atoms) <= MOST_DECIDED:
                return words(_texts_of(formula, values))
            texts = number_texts(parts, self._bound)
            return words(filter(texts.contains, map(shortest_text, values)))
        integers = _atoms_of(formula, "integer")
        if integers:
            integers += [atom for atom in lists if all(value.denominator == 1 for value in atom.args[1])]
        integral = bool(integers) and _needs_any(self._formulas, formula, integers)
        try:
            return number_texts(parts, self._bound, integral)
        except TooLarge:
            step = common_step(self._formulas, formula)
            multiples = None if step is None else _between(formula, step)
            if multiples is not None:
                return words(_texts_of(formula, multiples))
            if step is None or step.denominator != 1:
                raise
            return number_texts(parts, 2 * self._bound, True)


def _atoms_of(formula: Formula, kind: str) -> list[Formula]:
    return [atom for atom in formula.atoms if atom.args[0] == kind]


def _texts_of(formula: Formula, values: Iterable[Fraction]) -> Iterator[str]:
    """Yield the shortest texts of those of some values that satisfy a formula."""

    def is_valid(value: Fraction) -> bool:
        check_deadline()
        return decide(formula, lambda atom: holds(atom.args, value))

    return map(shortest_text, filter(is_valid, values))


def _parts_of(formula: Formula) -> tuple[Part, ...]:
    """Return a formula as a combination of conditions."""
    parts: list[Part] = []
    _add_part(formula, parts, {})
    return tuple(parts)


def _add_part(formula: Formula, parts: list[Part], known: dict[Formula, int]) -> int:
    """Add a formula to the parts of a combination, after its own parts, and return its index."""
    if formula not in known:
        part: Part = formula.args
        if formula.is_constant:
            part = ("and",) if formula.op == "true" else ("or",)
        elif formula.op != "atom":
            part = (formula.op, *[_add_part(one, parts, known) for one in formula.args])
        known[formula] = len(parts)
        parts.append(part)
    return known[formula]


def _needs_any(formulas: Formulas, formula: Formula, atoms: Iterable[Formula]) -> bool:
    """Whether all numbers that satisfy a formula satisfy one of some atoms. False if that cannot be seen."""
    return formulas.substitute(formula, dict.fromkeys(atoms, formulas.false)) is formulas.false


def common_step(formulas: Formulas, formula: Formula) -> Fraction | None:
    """Return a number such that all numbers that satisfy a formula are multiples of it; None: none was
    found."""
    steps = {atom: step for atom in formula.atoms if (step := _step(atom)) is not None}
    needed = [step for atom, step in steps.items() if _needs_any(formulas, formula, [atom])]
    if needed:
        return Fraction(lcm(*(s.numerator for s in needed)), gcd(*(s.denominator for s in needed)))
    if not steps or not _needs_any(formulas, formula, steps):
        return None
    some = steps.values()
    return Fraction(gcd(*(s.numerator for s in some)), lcm(*(s.denominator for s in some)))


def _step(atom: Formula) -> Fraction | None:
    """Return the divisor that an atom requires."""
    if atom.args[0] == "integer":
        return Fraction(1)
    return Fraction(atom.args[1]) if atom.args[0] == "multiple" else None


def _between(formula: Formula, step: Fraction) -> list[Fraction] | None:
    """Return the multiples of a number between the bounds of a formula; None: there are many, or infinitely
    many."""
    low: Fraction | None = None
    high: Fraction | None = None
    for part in formula.args if formula.op == "and" else (formula,):
        atom = part.args[0] if part.op == "not" else part
        if atom.op != "atom" or atom.args[0] not in ("ge", "gt"):
            continue
        value = Fraction(atom.args[1])
        if part.op == "not":
            high = value if high is None else min(high, value)
        else:
            low = value if low is None else max(low, value)
    if low is None or high is None or (high - low) / step > MOST_LISTED:
        return None
    return [step * i for i in range(int(low // step), int(high // step) + 2)]
