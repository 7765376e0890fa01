"""Arrays whose items must be unique only under conditions.

What: `build_conditional` makes the automaton of arrays for a formula that contains ``("unique",)``
undecided. Each state has a second one that replaces it once two items were equal (`marks.py`).
`conditional_always_ends` says whether every text of them can be ended.
When: for `uniqueItems` below `not`, or in one of several branches.
Limits: an array is refused if it might have to repeat an item at once, or might run out of unique items.
"""

from __future__ import annotations

from equivalence.arrays.closure import predecessors_of
from hybrid.json_schema.automata import ArrayAutomaton, Nonterminal
from hybrid.json_schema.derivatives import ArrayStates, after_item, may_end
from hybrid.json_schema.formulas import Formula
from hybrid.json_schema.nonterminals import Nonterminals
from hybrid.json_schema.uniqueness.cardinality import Counts
from hybrid.json_schema.value_cases import split


def build_conditional(nonterminals: Nonterminals, automaton: ArrayAutomaton, start: Formula) -> None:
    """Make the automaton of a formula of arrays; no edge leads to state 0.

    Raises:
        SchemaRefused: it exceeds a bound.
    """
    formulas = nonterminals.formulas
    unique = formulas.atom(("unique",))
    states = ArrayStates(nonterminals, automaton)
    states.number((start, True))
    for number, (formula, is_first) in states.new():
        automaton.accepting[number] = may_end(formulas, formula)
        again = formulas.substitute(formula, {unique: formulas.false})
        if not is_first and again is not formulas.false:
            automaton.repeats[number] = states.number((again, False))
        cases = split(nonterminals, formula, *after_item(formulas, formula))
        edges = [(value, states.number((rest, False))) for value, rest in cases]
        automaton.edges[number] = nonterminals.edges(edges)


def conditional_always_ends(array: ArrayAutomaton, counts: Counts) -> bool:
    """Whether an end can be reached from each live state, whatever items came before: by new items, by an
    item that must have come before, or by a new item twice."""
    live, repeats = array.is_live, array.repeats
    states = [state for state in range(len(live)) if live[state]]
    for state in states:
        for value, target in array.edges[state]:
            if value.is_productive and not live[target] and repeats[target] >= 0 and live[repeats[target]]:
                return False  # only an item that did not come before could end it
    ends = [live[s] and (array.accepting[s] or repeats[s] == s) for s in range(len(live))]
    before = predecessors_of(
        [[at for _, target in edges for at in (target, repeats[target]) if at >= 0] for edges in array.edges]
    )
    todo = [state for state in states if ends[state]]
    while todo:
        counts.check()
        for state in before[todo.pop()]:
            if not ends[state] and _can_end(array, state, ends, counts):
                ends[state] = True
                todo.append(state)
    return all(ends[state] for state in states)


def _can_end(array: ArrayAutomaton, state: int, ends: list[bool], counts: Counts) -> bool:
    for value, target in array.edges[state]:
        if not value.is_productive:
            continue
        if counts.of(value) is None and (ends[target] or _ends_with_again(array, target, value, ends)):
            return True
        again = array.repeats[target]
        if again >= 0 and ends[again] and _has_come(array, state, value):
            return True
    return False


def _ends_with_again(array: ArrayAutomaton, state: int, value: Nonterminal, ends: list[bool]) -> bool:
    """Whether an end can be reached from a state by an item of a nonterminal that came just before."""
    again = [array.repeats[target] for other, target in array.edges[state] if other is value]
    return any(target >= 0 and ends[target] for target in again)


def _has_come(array: ArrayAutomaton, state: int, value: Nonterminal) -> bool:
    """Whether every path to a state reads an item of a nonterminal."""
    visited, todo = {0}, [0]
    while todo:
        for other, target in array.edges[todo.pop()]:
            for after in (target, array.repeats[target]):
                if other is not value and after >= 0 and after not in visited:
                    visited.add(after)
                    todo.append(after)
    return state not in visited
