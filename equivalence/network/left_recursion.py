"""Left recursion: found as components of left calls, removed by the left-corner form.

What: rules that call each other before reading a byte get automata that loop at their end instead.
When: a step of `build_network`, for the few grammars with such rules; plain Python, linear in what it reads
and makes.
Limits: a component of n rules is copied n times; left recursion through a bounded repeat is refused.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from equivalence.arrays.closure import components_of
from equivalence.deadline import Stop
from equivalence.errors import UnsupportedGrammar
from equivalence.network.edge_types import CALL, EMPTY
from equivalence.network.sizes import too_large

Integers = NDArray[np.int64]


ROWS_PER_CHECK = 16_384
"""How many rows plain Python processes between two checks of the deadline, which takes a few milliseconds."""


def left_recursive(pairs: Integers, n_rules: int, stop: Stop) -> list[set[int]]:
    """The sets of rules that call each other before reading a byte (strongly connected components).

    `pairs` are the left calls (caller, callee); rules from `n_rules` on are counted rules.
    """
    callees: list[list[int]] = [[] for _ in range(int(pairs.max(initial=-1)) + 1)]
    for begin in range(0, len(pairs), ROWS_PER_CHECK):
        stop.check()
        for caller, callee in pairs[begin : begin + ROWS_PER_CHECK].tolist():
            callees[caller].append(callee)
    members: dict[int, set[int]] = {}
    for rule, number in enumerate(components_of(callees, stop.check)):
        members.setdefault(number, set()).add(rule)
    found = [
        some for some in members.values() if len(some) > 1 or any(rule in callees[rule] for rule in some)
    ]
    if any(rule >= n_rules for some in found for rule in some):
        raise UnsupportedGrammar(
            "the grammar is left recursive through a bounded repeat: the repeated rule calls itself before "
            "it reads a byte; begin it with a text, or repeat it at most 3 times"
        )
    return found


def remove_left_recursion(
    components: list[set[int]],
    edges: Integers,
    rule_of_state: Integers,
    begins: Integers,
    ends: Integers,
    nullable: NDArray[np.uint8],
    max_states: int,
    stop: Stop,
) -> tuple[Integers, int]:
    """Left-corner form: a goal rule of a component reads a first part that is not left recursive. Then,
    each time a rule of the component is complete, it continues as any left call of that rule would.

    Every goal gets its own copy of the component's automata, because different rules complete it. Returns
    the edges, followed by those of the copies, and the number of states; `begins` and `ends` are changed to
    the copies.
    """
    n_states = len(rule_of_state)
    is_member = np.zeros(len(begins) + 1, bool)  # the last entry is for states without a rule
    is_member[[rule for component in components for rule in component]] = True
    outgoing: dict[int, list[list[int]]] = {}
    own = edges[is_member[rule_of_state[edges[:, 0]]]]
    for first in range(0, len(own), ROWS_PER_CHECK):
        stop.check()
        for row in own[first : first + ROWS_PER_CHECK].tolist():
            outgoing.setdefault(row[0], []).append(row)
    tables = [edges]
    for component in components:
        members = sorted(component)
        old = {rule: (int(begins[rule]), int(ends[rule])) for rule in members}
        states = {rule: _states_from(old[rule][0], old[rule][1], outgoing) for rule in members}
        new_begins: dict[int, int] = {}
        for goal in members:
            rows: list[list[int]] = []
            name: dict[tuple[int, int], int] = {}
            for rule in members:
                stop.check()
                for state in states[rule]:
                    name[rule, state] = n_states
                    n_states += 1
            begin = new_begins[goal] = n_states
            n_states += 1
            if n_states > max_states:
                raise too_large(max_states)
            for rule in members:
                stop.check()
                for state in states[rule]:
                    for _, edge_type, a, b, target in outgoing.get(state, ()):
                        rows.append([name[rule, state], edge_type, a, b, name[rule, target]])
            corner, queue = {goal}, [goal]
            for rule in queue:  # the rules whose first part may begin the goal
                stop.check()
                for state in _without_bytes(old[rule][0], outgoing, nullable):
                    for _, edge_type, a, b, target in outgoing.get(state, ()):
                        if edge_type == CALL and a in component:
                            rows.append([name[a, old[a][1]], EMPTY, 0, 0, name[rule, target]])
                            if a not in corner:
                                corner.add(a)
                                queue.append(a)
                        elif edge_type != EMPTY:
                            # what follows a skipped call is already in the corner: mark it not to be skipped
                            b = 1 if edge_type == CALL else b
                            rows.append([begin, edge_type, a, b, name[rule, target]])
            ends[goal] = name[goal, old[goal][1]]
            tables.append(np.array(rows, np.int64).reshape(-1, 5))
        for rule in members:
            begins[rule] = new_begins[rule]
    return np.concatenate(tables), n_states


def _states_from(begin: int, end: int, outgoing: dict[int, list[list[int]]]) -> list[int]:
    states = _reached(begin, lambda state: [row[4] for row in outgoing.get(state, ())])
    return states if end in states else [*states, end]


def _without_bytes(
    begin: int, outgoing: dict[int, list[list[int]]], nullable: NDArray[np.uint8]
) -> list[int]:
    def following(state: int) -> list[int]:
        rows = outgoing.get(state, ())
        return [row[4] for row in rows if row[1] == EMPTY or (row[1] == CALL and nullable[row[2]])]

    return _reached(begin, following)


def _reached(begin: int, following: Callable[[int], list[int]]) -> list[int]:
    seen, queue = {begin}, [begin]
    for state in queue:
        for target in following(state):
            if target not in seen:
                seen.add(target)
                queue.append(target)
    return queue
