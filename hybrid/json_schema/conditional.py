"""Arrays whose items must be unique only under conditions.

What: `build_conditional` makes the automaton of arrays for a formula that contains ``("unique",)``
undecided. Each state has a second one that replaces it once two items were equal (`marks.py`).
`check_conditional` refuses arrays in which a text might be impossible to end.
When: for `uniqueItems` below `not`, or in one of several branches.
Limits: an array is refused if it might have to repeat an item at once, or might run out of unique items.
"""

from __future__ import annotations

from hybrid.json_schema.automata import ArrayAutomaton, Nonterminal
from hybrid.json_schema.counting import Counts
from hybrid.json_schema.derivatives import after_item, may_end
from hybrid.json_schema.errors import SchemaRefused
from hybrid.json_schema.formulas import Formula
from hybrid.json_schema.nonterminals import Nonterminals
from hybrid.json_schema.splitting import split


def build_conditional(nonterminals: Nonterminals, automaton: ArrayAutomaton, start: Formula) -> None:
    """Make the automaton of a formula of arrays; no edge leads to state 0.

    Raises:
        SchemaRefused: it exceeds a bound.
    """
    formulas = nonterminals.formulas
    unique = formulas.atom("unique")
    numbers: dict[tuple[Formula, bool], int] = {}
    todo: list[tuple[Formula, bool]] = []

    def state(formula: Formula, is_first: bool = False) -> int:
        key = formula, is_first
        number = numbers.get(key)
        if number is None:
            number = numbers[key] = len(numbers)
            automaton.add_state()
            todo.append(key)
            if number >= nonterminals.bounds.states:
                raise SchemaRefused("bounds", "", "", f"has an array of more than {number} states")
        return number

    state(start, True)
    while todo:
        key = todo.pop()
        nonterminals.check()
        formula, number = key[0], numbers[key]
        automaton.accepting[number] = may_end(formulas, formula)
        again = formulas.substitute(formula, {unique: formulas.false})
        if not key[1] and again is not formulas.false:
            automaton.repeats[number] = state(again)
        cases = split(nonterminals, formula, *after_item(formulas, formula))
        automaton.edges[number] = nonterminals.edges([(value, state(rest)) for value, rest in cases])


def check_conditional(nonterminals: Nonterminals, counts: Counts) -> None:
    """Refuse arrays that might be impossible to end after some values.

    Raises:
        SchemaRefused: there is such an array.
    """
    for one in nonterminals.all:
        array = one.array
        if array is None or not array.is_conditional or not one.is_productive:
            continue
        if not _always_ends(array, counts):
            error = SchemaRefused(
                "unsupported",
                "uniqueItems",
                "",
                "is not supported here: it applies only in some cases (below 'not' or in a "
                "branch), and there may be too few different items to end the array",
            )
            raise nonterminals.placed(error, one.formula)


def _always_ends(array: ArrayAutomaton, counts: Counts) -> bool:
    """Whether an end can be reached from each live state, whatever items came before: by new items, or by an
    item that certainly came before."""
    live, repeats = array.is_live, array.repeats
    states = [state for state in range(len(live)) if live[state]]
    for state in states:
        for value, target in array.edges[state]:
            if value.is_productive and not live[target] and repeats[target] >= 0 and live[repeats[target]]:
                return False  # only an item that did not come before could end it
    ends = [live[s] and (array.accepting[s] or repeats[s] == s) for s in range(len(live))]
    has_changed = True
    while has_changed:
        has_changed = False
        for state in states:
            if not ends[state] and _can_end(array, state, ends, counts):
                ends[state] = has_changed = True
    return all(ends[state] for state in states)


def _can_end(array: ArrayAutomaton, state: int, ends: list[bool], counts: Counts) -> bool:
    for value, target in array.edges[state]:
        if not value.is_productive:
            continue
        if ends[target] and counts.of(value) is None:
            return True
        again = array.repeats[target]
        if again >= 0 and ends[again] and _has_come(array, state, value):
            return True
    return False


def _has_come(array: ArrayAutomaton, state: int, value: Nonterminal) -> bool:
    """Whether every path to a state reads an item of a nonterminal."""
    met, todo = {0}, [0]
    while todo:
        for other, target in array.edges[todo.pop()]:
            for after in (target, array.repeats[target]):
                if other is not value and after >= 0 and after not in met:
                    met.add(after)
                    todo.append(after)
    return state not in met
