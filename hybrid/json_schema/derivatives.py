"""The derivative of a formula of arrays by one item, and the states that derivatives lead to.

What: `after_item` says what each atom (`hybrid.json_schema.atoms`) becomes after one item, `may_end`
whether the array may end. `ArrayStates` numbers the states.
When: for each state of an array (`arrays.py`, `uniqueness/conditional.py`).
Limits: it does not see whether items are equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hybrid.json_schema.atoms import count_atom, counting_keyword
from hybrid.json_schema.automata import ArrayAutomaton
from hybrid.json_schema.errors import SchemaRefused
from hybrid.json_schema.formulas import Formula, Formulas
from hybrid.json_schema.nonterminals import Nonterminals
from hybrid.json_schema.value_cases import Condition


def may_end(formulas: Formulas, formula: Formula) -> bool:
    """Whether a formula about the rest of an array is satisfied by an empty rest."""
    values = {atom: formulas.constant(atom.args[0] in ("items", "unique")) for atom in formula.atoms}
    return formulas.substitute(formula, values) is formulas.true


def after_item(formulas: Formulas, formula: Formula) -> tuple[dict[Formula, Formula], list[Condition]]:
    """Return what each atom becomes after one item: always, or if the item satisfies conditions."""
    decided: dict[Formula, Formula] = {}
    conditions: list[Condition] = []
    for atom in formula.ordered_atoms:
        kind = atom.args[0]
        if kind == "count":
            decided[atom] = count_atom(formulas, atom.args[1] - 1)
        elif kind == "contains":
            _, inner, least = atom.args
            fewer = formulas.atom(("contains", inner, least - 1)) if least > 1 else formulas.true
            conditions.append((atom, inner, fewer, atom))
        elif kind == "items":
            _, inner, behind = atom.args
            conditions.append((atom, inner, atom if behind is None else behind, formulas.false))
    return decided, conditions


class ArrayStates:
    """Numbers the states of an array that is being built.

    Args:
        automaton: where they are added.
    """

    def __init__(self, nonterminals: Nonterminals, automaton: ArrayAutomaton) -> None:
        self._nonterminals, self._automaton = nonterminals, automaton
        self._numbers: dict[Any, int] = {}
        self._todo: list[Any] = []

    def number(self, key: Any) -> int:
        """Return the number of the state with a key: a formula, and what else the state depends on.

        Raises:
            SchemaRefused: there are too many states.
        """
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            self._automaton.add_state()
            self._todo.append(key)
            if number >= self._nonterminals.bounds.states:
                start, _ = next(iter(self._numbers))
                keyword = counting_keyword(self._nonterminals.formulas, start, "Items", number)
                raise SchemaRefused("bounds", keyword, "", f"needs an array of more than {number} states")
        return number

    def new(self) -> Iterator[tuple[int, Any]]:
        """Yield the number and the key of each state once, also of those that are added meanwhile."""
        while self._todo:
            key = self._todo.pop()
            self._nonterminals.check()
            yield self._numbers[key], key
