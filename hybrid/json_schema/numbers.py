"""Numbers: from formulas to the texts that the grammar allows.

What: `Numbers` finds the texts of a formula of numbers.
When: for values of type number.
Limits: numbers are exact decimals: 0.1 is a tenth, whatever a parser makes of it. Numbers that a schema
bounds are written without exponent (`hybrid.json_schema.languages.numbers`). If divisors would need too
many states, the values are listed if they are few, and integers are written without a fraction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from math import gcd, lcm

from hybrid.json_schema.formulas import Formula, Formulas, decide
from hybrid.json_schema.languages.automaton import Automaton, words
from hybrid.json_schema.languages.limits import TooLarge
from hybrid.json_schema.languages.numbers import holds, number_texts, shortest_text

MOST_LISTED = 20_000
"""At most this many multiples between two bounds are examined one by one."""


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
            atoms = sorted(formula.atoms, key=lambda one: one.number)
            contents, accept = [atom.args for atom in atoms], _accept(formula, atoms)
            try:
                found = number_texts(contents, accept, self._bound)
            except TooLarge:
                step = common_step(self._formulas, formula)
                if step is None:
                    raise
                values = _between(formula, step)
                if values is not None:
                    kept = [value for value in values if accept(holds(contents, value))]
                    found = words(map(shortest_text, kept))
                elif step.denominator == 1:
                    found = number_texts(contents, accept, 2 * self._bound, True)
                else:
                    raise
            self._texts[formula] = found
        return found


def _accept(formula: Formula, atoms: Sequence[Formula]) -> Callable[[tuple[bool, ...]], bool]:
    return lambda signs: decide(formula, dict(zip(atoms, signs, strict=True)).__getitem__)


def common_step(formulas: Formulas, formula: Formula) -> Fraction | None:
    """Return a number such that all numbers that satisfy a formula are multiples of it; None: none was
    found."""

    def needs_any(atoms: Iterable[Formula]) -> bool:
        return formulas.substitute(formula, dict.fromkeys(atoms, formulas.false)) is formulas.false

    steps = {atom: step for atom in formula.atoms if (step := _step(atom)) is not None}
    needed = [step for atom, step in steps.items() if needs_any([atom])]
    if needed:
        return Fraction(lcm(*(s.numerator for s in needed)), gcd(*(s.denominator for s in needed)))
    if not steps or not needs_any(steps):
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
