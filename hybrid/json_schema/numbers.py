"""Numbers: from formulas to the texts that are written.

What: `Numbers` finds the texts of a formula of numbers.
When: for values of type number.
Limits: numbers are exact decimals: 0.1 is a tenth, whatever a reader makes of it. Where a schema bounds them
they are written without exponent (`hybrid.json_schema.languages.numbers`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybrid.json_schema.formulas import Formula, decide
from hybrid.json_schema.languages.automaton import Automaton
from hybrid.json_schema.languages.numbers import number_texts


class Numbers:
    """The number languages of one schema.

    Args:
        bound: states of an automaton at most.
    """

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._texts: dict[Formula, Automaton] = {}

    def texts(self, formula: Formula) -> Automaton:
        """The texts of all numbers that satisfy a formula.

        Raises:
            TooLarge: they need more states than the bound allows.
        """
        found = self._texts.get(formula)
        if found is None:
            atoms = sorted(formula.atoms, key=lambda one: one.number)
            places = {atom.args: i for i, atom in enumerate(atoms)}
            found = number_texts([atom.args for atom in atoms], _accept(formula, places), self._bound)
            self._texts[formula] = found
        return found


def _accept(formula: Formula, places: dict[Any, int]) -> Callable[[tuple[bool, ...]], bool]:
    return lambda signs: decide(formula, lambda atom: signs[places[atom]])
