"""Arrays: an automaton over the items.

What: `build_array` makes the automaton of a nonterminal's arrays. A state is a formula about the items that
are still to come; an edge reads one item and leads to the next state. If the formula only asks for a number
of items of one kind, the state is *counted*: it stores the nonterminal and the number instead of having a
state for each item.
When: once for each nonterminal that has arrays.
Limits: `Bounds.states`. Under `uniqueItems`, states distinguish the items if these have few values. Other
items are remembered while a text is read (`places.py`); the array is refused if a text could then be
impossible to end. `conditional.py` makes the arrays whose items must be unique only under conditions.
"""

from __future__ import annotations

from typing import Any

from hybrid.json_schema.automata import ArrayAutomaton, Counted, Nonterminal
from hybrid.json_schema.conditional import build_conditional
from hybrid.json_schema.derivatives import after_item, may_end
from hybrid.json_schema.errors import SchemaRefused
from hybrid.json_schema.formulas import Formula, Formulas
from hybrid.json_schema.nonterminals import Nonterminals
from hybrid.json_schema.splitting import split

MOST_UNIQUE = 8
"""`uniqueItems` is decided by states if items have at most this many values; the states number two to this
power."""


def build_array(nonterminals: Nonterminals, of: Nonterminal) -> None:
    """Make the automaton of a nonterminal's arrays.

    Raises:
        SchemaRefused: it exceeds a bound.
    """
    formulas = nonterminals.formulas
    automaton = of.array = ArrayAutomaton()
    numbers: dict[Formula, int] = {}
    todo: list[Formula] = []

    def state(formula: Formula) -> int:
        number = numbers.get(formula)
        if number is None:
            number = numbers[formula] = len(numbers)
            automaton.add_state()
            todo.append(formula)
            if number >= nonterminals.bounds.states:
                raise SchemaRefused("bounds", "", "", f"has an array of more than {number} states")
        return number

    rest, automaton.is_unique = _without_unique(nonterminals, of.arrays)
    if formulas.atom("unique") in rest.atoms:
        automaton.is_conditional = True
        build_conditional(nonterminals, automaton, rest)
        automaton.is_growing = False
        return
    state(rest)
    while todo:
        formula = todo.pop()
        number = numbers[formula]
        nonterminals.check()
        counted = _counted(nonterminals, formula)
        if counted is not None:
            automaton.counted[number] = counted
            automaton.accepting[number] = not counted.least
            if counted.least:
                # for `steps`: some value must exist
                after = state(_with_counts(formulas, formula))
                automaton.edges[number] = [(counted.value, after)]
            continue
        automaton.accepting[number] = may_end(formulas, formula)
        cases = split(nonterminals, formula, *after_item(formulas, formula))
        automaton.edges[number] = nonterminals.edges([(value, state(rest)) for value, rest in cases])
    automaton.is_growing = False


def _counted(nonterminals: Nonterminals, formula: Formula) -> Counted | None:
    """Return the count if the formula only counts items of one nonterminal; otherwise None."""
    formulas = nonterminals.formulas
    value, least, most = formulas.true, 0, None
    for part in formula.args if formula.op == "and" else (formula,):
        if part.op == "atom" and part.args[0] == "items" and not part.args[1]:
            value = formulas.conjunction((value, part.args[2]))
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


def _without_unique(nonterminals: Nonterminals, formula: Formula) -> tuple[Formula, bool | None]:
    """Take `uniqueItems` out of a formula.

    Returns:
        The formula, with `uniqueItems` replaced by counts of the few values that items may have, or
        removed; and whether items must be remembered. If items must be unique only under conditions, the
        formula is unchanged.
    """
    formulas = nonterminals.formulas
    unique = formulas.atom("unique")
    two = {atom: formulas.true for atom in formula.atoms if atom.args[0] == "count" and atom.args[1] <= 2}
    if formulas.substitute(formula, two) is formulas.false:
        return formulas.substitute(formula, {unique: formulas.true}), None  # there is at most one item
    if unique not in formula.atoms:
        return formula, False
    values = _few_values(nonterminals, formula)
    if values is not None:
        twice = [formulas.atom("contains", nonterminals.assertions.constant(value), 2) for value in values]
        told = formulas.conjunction(map(formulas.negation, twice))
        return formulas.substitute(formula, {unique: told}), None
    if formulas.substitute(formula, {unique: formulas.false}) is not formulas.false:
        return formula, False
    return formulas.substitute(formula, {unique: formulas.true}), True


def bound_unique(array: ArrayAutomaton, n_values: int | None) -> None:
    """End an array of unique items when no other value is left.

    Args:
        array: an array whose items are remembered.
        n_values: how many values its items have; None: more than an array ever needs.
    """
    counted = array.counted[0]
    if n_values is None or counted is None:
        return
    if counted.least > n_values:
        array.counted[0], array.edges[0], array.accepting[0] = None, [], False
    elif counted.most is None or counted.most > n_values:
        array.counted[0] = counted._replace(most=n_values)


def _few_values(nonterminals: Nonterminals, formula: Formula) -> list[Any] | None:
    """Return all values that items may have, if a conjunct restricts them to a few scalars; otherwise
    None."""
    for part in formula.args if formula.op == "and" else (formula,):
        if part.op == "atom" and part.args[0] == "items" and not part.args[1]:
            values = nonterminals.of(part.args[2]).few_scalars
            if values is not None and len(values) <= MOST_UNIQUE:
                return values
    return None
