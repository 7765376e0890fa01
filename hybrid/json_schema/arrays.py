"""Arrays: an automaton over the items.

What: `build_array` makes the automaton of a nonterminal's arrays. A state is a formula about the items that
are still to come; an edge reads one item and leads to the next state. If the formula only asks for a number
of items of one kind, the state is *counted*: it stores the nonterminal and the number instead of having a
state for each item.
When: once for each nonterminal that has arrays.
Limits: `Bounds.states`. Under `uniqueItems`, states distinguish the items if these have few values. Other
items are remembered while a text is read (`uniqueness/places.py`); the array is refused if a text could then
be impossible to end. `uniqueness/conditional.py` makes the arrays whose items must be unique only under
conditions.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

from hybrid.json_schema.atoms import items_atom
from hybrid.json_schema.automata import ArrayAutomaton, Counted, Nonterminal
from hybrid.json_schema.derivatives import ArrayStates, after_item, may_end
from hybrid.json_schema.equality import are_distinct
from hybrid.json_schema.formulas import Formula, Formulas
from hybrid.json_schema.languages.numbers import shortest_text
from hybrid.json_schema.nonterminals import Nonterminals
from hybrid.json_schema.uniqueness.cardinality import Counts
from hybrid.json_schema.uniqueness.conditional import build_conditional
from hybrid.json_schema.value_cases import Case, split

MOST_UNIQUE = 8
"""States decide `uniqueItems` if items have at most this many values. There are up to two to this power of
them."""


def build_array(nonterminals: Nonterminals, of: Nonterminal) -> None:
    """Make the automaton of a nonterminal's arrays.

    Raises:
        SchemaRefused: it exceeds a bound.
    """
    formulas = nonterminals.formulas
    automaton = of.array = ArrayAutomaton()
    unique = formulas.atom(("unique",))
    rest, automaton.is_unique, values = _without_unique(nonterminals, _without_known(nonterminals, of.arrays))
    if unique in rest.atoms and values is None:
        automaton.is_conditional = True
        build_conditional(nonterminals, automaton, rest)
        automaton.is_growing = False
        return
    by_value = _ByValue(nonterminals, values or [])
    states = ArrayStates(nonterminals, automaton)

    def state(formula: Formula, used: int) -> int:
        return states.number(by_value.state(formula, used))

    state(rest, 0)
    for number, (formula, used) in states.new():
        counted = _counted(nonterminals, formula)
        if counted is not None:
            automaton.counted[number] = counted
            automaton.accepting[number] = not counted.least
            if counted.least:
                # for `steps`: some value must exist
                target = state(_with_counts(formulas, formula), 0)
                automaton.edges[number] = [(counted.value, target)]
            continue
        automaton.accepting[number] = may_end(formulas, formula)
        if unique in formula.atoms:
            cases = by_value.cases(formula, used)
        else:
            some = split(nonterminals, formula, *after_item(formulas, formula))
            cases = [(item, (after, 0)) for item, after in some]
        automaton.edges[number] = nonterminals.edges([(item, state(*after)) for item, after in cases])
    automaton.is_growing = False


_State = tuple[Formula, int]
"""A formula about the items to come, and a set of values that have come before, as bits."""


class _ByValue:
    """`uniqueItems` for items that have few values: states distinguish which values have come.

    What follows a value does not depend on the other values, so an item is split once. Splitting it by one
    condition after another ("at most one item is v" for each value v) took 0.8 ms for each of 256 states.

    Args:
        values: formulas of the values that items may have.
    """

    def __init__(self, nonterminals: Nonterminals, values: list[Formula]) -> None:
        self._nonterminals, self._formulas, self._values = nonterminals, nonterminals.formulas, values
        self._unique = self._formulas.atom(("unique",))
        self._at_the_end: dict[Formula, Formula] = {}
        self._cases: dict[Formula, list[list[Case]]] = {}

    def state(self, formula: Formula, used: int) -> _State:
        """Return the state of a formula after some values. If they do not matter, there are none."""
        if self._unique not in formula.atoms:
            return formula, 0
        found = self._at_the_end.get(formula)
        if found is None:
            found, formulas = formula, self._formulas
            if _has_at_most(formulas, formula, 0):
                found = formulas.substitute(formula, {self._unique: formulas.true})
            self._at_the_end[formula] = found
        return found, used if self._unique in found.atoms else 0

    def cases(self, formula: Formula, used: int) -> list[tuple[Formula, _State]]:
        """Return the cases of an item after some values: a formula of the item, and the state after it."""
        formulas = self._formulas
        if formula not in self._cases:
            self._cases[formula] = [self._cases_of(formula, value) for value in self._values]
        found = []
        for i, cases in enumerate(self._cases[formula]):
            for item, rest in cases:
                if used >> i & 1:
                    rest = formulas.substitute(rest, {self._unique: formulas.false})
                if rest is not formulas.false:
                    found.append((item, (rest, used | 1 << i)))
        return found

    def _cases_of(self, formula: Formula, value: Formula) -> list[Case]:
        formulas = self._formulas
        both = formulas.conjunction((formula, items_atom(formulas, (value,), formulas.true)))
        return split(self._nonterminals, both, *after_item(formulas, both))


def _counted(nonterminals: Nonterminals, formula: Formula) -> Counted | None:
    """Return the count if the formula only counts items of one nonterminal; otherwise None."""
    formulas = nonterminals.formulas
    value, least, most = formulas.true, 0, None
    for part in formula.args if formula.op == "and" else (formula,):
        if part.op == "atom" and part.args[0] == "items" and part.args[2] is None:
            value = formulas.conjunction((value, part.args[1]))
        elif part.op == "atom" and part.args[0] == "count":
            least = max(least, part.args[1])
        elif part.op == "not" and part.args[0].op == "atom" and part.args[0].args[0] == "count":
            limit = part.args[0].args[1] - 1
            most = limit if most is None else min(most, limit)
        elif part is not formulas.true:
            return None
    if value is formulas.false or (most is not None and most < max(least, 1)):
        return None  # nothing, or only the empty array: a plain state does it
    return Counted(nonterminals.of(value), least, most)


def _with_counts(formulas: Formulas, formula: Formula) -> Formula:
    """Return a counted formula after enough items: `steps` needs it to see that an end can be reached."""
    return formulas.conjunction(
        part
        for part in (formula.args if formula.op == "and" else (formula,))
        if part.op == "atom" and part.args[0] == "items"
    )


def _without_known(nonterminals: Nonterminals, formula: Formula) -> Formula:
    """Replace what is known of the items of listed arrays. It decides `uniqueItems` for them; if all arrays
    are listed, nothing else of `uniqueItems` is left."""
    arrays, formulas = nonterminals.assertions.arrays, nonterminals.formulas
    known = [atom for atom in formula.ordered_atoms if atom.args[0] == "known"] if arrays else []
    if not known:
        return formula
    true, false, unique = formulas.true, formulas.false, formulas.atom(("unique",))
    if unique not in formula.atoms:  # the other atoms of a listed array imply what is known
        return formulas.substitute(formula, dict.fromkeys(known, true))
    distinct: dict[Formula, bool] = {}
    for atom in known:
        nonterminals.check()
        distinct[atom] = are_distinct(arrays[atom.args[1]])
    cases = []  # what is left of the formula if items are distinct, and if two are equal
    for case in (True, False):
        contrary = {atom: false for atom in known if distinct[atom] != case}
        left = formulas.substitute(formula, {**contrary, unique: formulas.constant(case)})
        if formulas.substitute(left, dict.fromkeys(known, false)) is not false:
            not_unique = formulas.negation(unique)
            decided = {atom: unique if distinct[atom] else not_unique for atom in known}
            return formulas.substitute(formula, decided)
        cases.append(left)
    return formulas.substitute(formulas.disjunction(cases), dict.fromkeys(known, true))


def _without_unique(
    nonterminals: Nonterminals, formula: Formula
) -> tuple[Formula, bool | None, list[Formula] | None]:
    """Take `uniqueItems` out of a formula, if possible.

    Returns:
        The formula; whether items must be remembered; and the values of items, or None if they are not few.
        The formula is unchanged if there are few values, or if items must be unique only under conditions.
    """
    formulas = nonterminals.formulas
    unique = formulas.atom(("unique",))
    if _has_at_most(formulas, formula, 1):
        return formulas.substitute(formula, {unique: formulas.true}), None, None
    if unique not in formula.atoms:
        return formula, False, None
    values = _few_values(nonterminals, formula)
    if values is not None:
        return formula, None, values
    if formulas.substitute(formula, {unique: formulas.false}) is not formulas.false:
        return formula, False, None
    return formulas.substitute(formula, {unique: formulas.true}), True, None


def _has_at_most(formulas: Formulas, formula: Formula, n: int) -> bool:
    """Whether a formula of arrays allows at most n items."""
    counts = [atom for atom in formula.atoms if atom.args[0] == "count"]
    more = {atom: formulas.true for atom in counts if atom.args[1] <= n + 1}
    return formulas.substitute(formula, more) is formulas.false


def bound_unique(array: ArrayAutomaton, counts: Counts) -> None:
    """End an array whose items are remembered and of one kind when no other value is left."""
    counted = array.counted[0]
    n_values = None if counted is None or not array.is_unique else counts.of(counted.value)
    if n_values is None:
        return
    if counted.least > n_values:
        array.counted[0], array.edges[0], array.accepting[0] = None, [], False
    elif counted.most is None or counted.most > n_values:
        array.counted[0] = counted._replace(most=n_values)


def _few_values(nonterminals: Nonterminals, formula: Formula) -> list[Formula] | None:
    """Return formulas of all values that items may have, if a conjunct restricts them to a few scalars;
    otherwise None."""
    for part in formula.args if formula.op == "and" else (formula,):
        if part.op == "atom" and part.args[0] == "items" and part.args[2] is None:
            values = nonterminals.of(part.args[1]).listed
            if values is not None and len(values) <= MOST_UNIQUE:
                return [nonterminals.assertions.constant(_exact(value)) for _, value in sorted(values)]
    return None


def _exact(value: Any) -> Any:
    """Return a value with its numbers as schemas have them. Floats are not exact enough."""
    if not isinstance(value, Fraction):
        return value
    return int(value) if value.denominator == 1 else Decimal(shortest_text(value))
