# cython: language_level=3, wraparound=True
"""Emptiness: which nonterminals contain a value, and from which states an end can be reached.

What: `find_productive` sets `is_productive` of all nonterminals and `is_live` of their automata. What is
not live is never written; otherwise a mask would lead into a dead end.
When: after all nonterminals are built.

It is a least fixpoint: a nonterminal contains a value if it has a scalar, or if one of its automata reaches
an end over nonterminals that contain one. (The standard algorithm for productive symbols of a grammar, with
a count of uses instead of rounds: Hopcroft, Motwani, Ullman: Introduction to Automata Theory, section 7.1.)
"""

from __future__ import annotations

from collections.abc import Sequence

from cython.cimports.equivalence.built import EQUIMASK_SOURCE

from equivalence import built
from equivalence.arrays.closure import close_backwards
from hybrid.json_schema.automata import ArrayAutomaton, Nonterminal, ObjectAutomaton

built.check(__name__, EQUIMASK_SOURCE)


def find_productive(nonterminals: Sequence[Nonterminal]) -> None:
    """Set `is_productive` and `is_live`."""
    waiting: dict[Nonterminal, list[Nonterminal]] = {}
    todo = []
    for one in nonterminals:
        one.is_productive = one.holds_scalar
        if not one.is_productive:
            todo.append(one)
    while todo:
        one = todo.pop()
        if one.is_productive:
            continue
        missing: set[Nonterminal] = set()
        if any(_reaches_end(automaton, missing) for automaton in one.automata):
            one.is_productive = True
            todo.extend(waiting.pop(one, ()))
        else:
            for value in missing:
                waiting.setdefault(value, []).append(one)
    for one in nonterminals:
        for automaton in one.automata:
            automaton.is_live = _live(automaton)


def _reaches_end(automaton: ObjectAutomaton | ArrayAutomaton, missing: set[Nonterminal]) -> bool:
    """Whether an end can be reached over productive nonterminals. The nonterminals that block it are added to
    `missing`.
    """
    met, todo = {0}, [0]
    while todo:
        state = todo.pop()
        if automaton.accepting[state]:
            return True
        for value, target in automaton.steps(state):
            if value is not None and not value.is_productive:
                missing.add(value)
            elif target not in met:
                met.add(target)
                todo.append(target)
    return False


def _live(automaton: ObjectAutomaton | ArrayAutomaton) -> list[bool]:
    live = list(automaton.accepting)
    for state in range(len(live) - 1, -1, -1):  # most edges lead to states with greater numbers
        if not live[state]:
            for value, target in automaton.steps(state):
                if live[target] and (value is None or value.is_productive):
                    live[state] = True
                    break
    if all(live):
        return live
    before: list[list[int]] = [[] for _ in live]
    for state in range(len(live)):
        for value, target in automaton.steps(state):
            if value is None or value.is_productive:
                before[target].append(state)
    close_backwards(live, before)
    return live
