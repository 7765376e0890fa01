# cython: language_level=3, wraparound=True, annotation_typing=True
# mypy: ignore-errors
"""Emptiness: which nonterminals contain a value, and from which states an end can be reached.

What: `find_productive` sets `is_productive` of all nonterminals and `is_live` of their automata. States that
are not live are never written, because they are dead ends. `parts_of` finds the nonterminals that remain.
When: after all nonterminals are built.

It is a least fixed point: a nonterminal contains a value if it has a scalar, or if one of its automata
reaches an end over nonterminals that contain one. (The standard algorithm for productive symbols of a
grammar, with a count of uses instead of rounds: Hopcroft, Motwani, Ullman: Introduction to Automata Theory,
section 7.1.)
"""

from __future__ import annotations

import cython
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.json_schema.automata import ArrayAutomaton, Nonterminal, Structure

from equivalence.arrays.closure import close_backwards

check_source(__name__)


def find_productive(nonterminals: list) -> None:
    """Set `is_productive` and `is_live`."""
    one: Nonterminal
    waiting: dict = {}  # for each nonterminal, those that may be productive once it is
    todo: list = []
    missing: set
    for one in nonterminals:
        one.is_productive = one.has_scalar()
        if not one.is_productive:
            todo.append(one)
    while todo:
        one = todo.pop()
        if one.is_productive:
            continue
        missing = set()
        if _reaches_end(one.object, missing) or _reaches_end(one.array, missing):
            one.is_productive = True
            todo.extend(waiting.pop(one, ()))
        else:
            for value in missing:
                waiting.setdefault(value, []).append(one)
    for one in nonterminals:
        if one.object is not None:
            one.object.is_live = _live(one.object)
        if one.array is not None:
            one.array.is_live = _live(one.array)


@cython.cfunc
def _reaches_end(automaton: Structure | None, missing: set) -> cython.bint:
    """Whether an end can be reached over productive nonterminals; not if there is no automaton. The
    nonterminals that block it are added to `missing`."""
    if automaton is None:
        return False
    value: Nonterminal
    visited: set = {0}
    todo: list = [0]
    while todo:
        state = todo.pop()
        if automaton.accepting[state]:
            return True
        for edge in automaton.steps(state):
            value, target = edge[0], edge[1]
            if value is not None and not value.is_productive:
                missing.add(value)
            elif target not in visited:
                visited.add(target)
                todo.append(target)
    return False


@cython.cfunc
def _live(automaton: Structure) -> list:
    """Return for each state whether an end can be reached from it."""
    value: Nonterminal
    live: list = list(automaton.accepting)
    n: cython.Py_ssize_t = len(live)
    state: cython.Py_ssize_t
    are_all: cython.bint = True
    for state in range(n - 1, -1, -1):  # most edges lead to states with greater numbers
        if not live[state]:
            for edge in automaton.steps(state):
                value = edge[0]
                if live[edge[1]] and (value is None or value.is_productive):
                    live[state] = True
                    break
            else:
                are_all = False
    if are_all:
        return live
    before: list = [[] for _ in live]
    for state in range(n):
        for edge in automaton.steps(state):
            value = edge[0]
            if value is None or value.is_productive:
                before[edge[1]].append(state)
    close_backwards(live, before)
    return live


def parts_of(automata: list) -> list:
    """Return the nonterminals of all items and values of keys, at any depth, that values of some automata may
    have."""
    automaton: Structure
    value: Nonterminal
    found: dict = {}
    todo: list = automata[:]
    while todo:
        automaton = todo.pop()
        is_live = automaton.is_live
        states: list = [0] if is_live[0] else []
        visited: set = set(states)
        for state in states:  # it grows
            steps = automaton.steps(state)
            counted = automaton.counted[state] if isinstance(automaton, ArrayAutomaton) else None
            for value, target in steps if counted is None else [*steps, (counted.value, state)]:
                if not is_live[target] or not (value is None or value.is_productive):
                    continue
                if target not in visited:
                    visited.add(target)
                    states.append(target)
                if value is not None and value not in found:
                    found[value] = True
                    todo += value.automata
    return [*found]
