# cython: language_level=3
# mypy: ignore-errors
"""Counts near their bounds: how many units of a counted repetition each token begins.

What: a string of at most 20 characters allows different tokens after each of them. One number for each token
tells these cases apart: how many characters it begins. `unit_reads` reads the trie once with the automaton of
one unit, without counting. For any bounds, its result says what a walk would find (`read_units`).
When: used by `hybrid.classifier.walker`, for long walks on the frame of a counted rule. When such frames were
walked for each count, each walk entered up to 100,000 nodes: 2 to 9 ms for each remaining character.
Limits: units that call no rule, and of which none is a prefix of another, so that a text is divided into
units in one way only. `unit_table` returns None for others.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.records import of_array, zeros
from cython.cimports.equivalence.parser.automaton import Automaton
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.equivalence.trie.nodes import ENDS_AT, Node
from cython.cimports.hybrid.classifier.repeat_units import Level
from numpy.typing import NDArray

from equivalence.arrays.records import Kind
from equivalence.trie.nodes import TRIE_NODE
from equivalence.walks.unit_reads import NEVER_READ, UnitReads
from equivalence.walks.walk_cache import Read

check_source(__name__)

LEVEL = Kind("node child end state completed worst")


MOST_STATES = cython.declare(cython.Py_ssize_t, 64)
"""The maximum number of states of a unit. A character of a JSON string has 20."""

DEAD = cython.declare(cython.int, -1)
WHOLE = cython.declare(cython.int, -2)

NEVER = cython.declare(cython.int, NEVER_READ)


def unit_table(automaton: Automaton, start: cython.Py_ssize_t) -> NDArray[np.int16] | None:
    """The automaton of one unit as a table.

    Args:
        automaton: the automata of a grammar.
        start: the state with which a unit begins.

    Returns:
        int16[states, 256]: the state after each byte; 0 is the start, -1 means refused, -2 means that the
        unit is complete. None: the unit calls rules, may continue after it may end, or has too many states.
    """
    table = np.full((MOST_STATES, 256), DEAD, np.int16)
    after: cython.short[:, ::1] = table
    order: list[int] = [start]
    place: dict[int, int] = {start: 0}
    if automaton.final[start]:
        return None
    i: cython.Py_ssize_t = 0
    while i < len(order):
        state: cython.Py_ssize_t = order[i]
        if automaton.call_starts[state] != automaton.call_starts[state + 1]:
            return None
        for k in range(automaton.edge_starts[state], automaton.edge_starts[state + 1]):
            target: cython.Py_ssize_t = automaton.edges[k].target
            to: cython.Py_ssize_t = WHOLE
            if automaton.final[target]:
                if (
                    automaton.edge_starts[target] != automaton.edge_starts[target + 1]
                    or automaton.call_starts[target] != automaton.call_starts[target + 1]
                ):
                    return None
            elif target in place:
                to = place[target]
            elif len(order) == MOST_STATES:
                return None
            else:
                to = place[target] = len(order)
                order.append(target)
            for byte in range(automaton.edges[k].first, automaton.edges[k].last + 1):
                after[i, byte] = cython.cast(cython.short, to)
        i += 1
    return table[: len(order)]


def unit_reads(
    trie: Any,
    n_groups: cython.Py_ssize_t,
    longest: cython.Py_ssize_t,
    after: cython.const[cython.short][:, ::1],
) -> UnitReads:
    """Read the whole trie as units.

    Args:
        trie: the nodes of a vocabulary's trie (`equivalence.trie.Trie.nodes`).
        n_groups: number of its groups.
        longest: bytes of the longest token.
        after: the result of `unit_table`.
    """
    nodes: cython.const[Node][::1] = of_array(trie, TRIE_NODE)
    n_nodes: cython.Py_ssize_t = nodes.shape[0] - 1
    begun_of_group = np.full(n_groups, NEVER, np.int16)
    begun: cython.short[::1] = begun_of_group
    completed_of_node = np.full(n_nodes, DEAD, np.int16)
    completed: cython.short[::1] = completed_of_node
    worst_of_node = np.empty(n_nodes, np.int16)
    worst: cython.short[::1] = worst_of_node
    levels = zeros(LEVEL, longest + 2)
    path: Level[::1] = levels
    d: cython.Py_ssize_t = 0
    path[0].node = path[0].state = path[0].completed = path[0].worst = 0
    path[0].child = nodes[0].child
    path[0].end = nodes[1].child
    completed[0] = 0
    with cython.nogil:
        while d >= 0:
            if path[d].child == path[d].end:
                worst[path[d].node] = cython.cast(cython.short, path[d].worst)
                if d > 0 and path[d].worst > path[d - 1].worst:
                    path[d - 1].worst = path[d].worst
                d -= 1
                continue
            child = path[d].child
            path[d].child = child + 1
            to = after[path[d].state, nodes[child].bits & 255]
            if to == DEAD:
                path[d].worst = NEVER
                continue
            units = path[d].completed + 1
            if nodes[child].bits >> ENDS_AT & 1:
                begun[nodes[child].group] = cython.cast(cython.short, units)
            if units > path[d].worst:
                path[d].worst = units
            first = nodes[child].child
            last = nodes[child + 1].child
            if first == last:
                continue
            d += 1
            path[d].node = child
            path[d].child = first
            path[d].end = last
            path[d].worst = 0
            if to == WHOLE:
                path[d].state = 0
                path[d].completed = units
                completed[child] = cython.cast(cython.short, units)
            else:
                path[d].state = to
                path[d].completed = units - 1
    found = np.flatnonzero(completed_of_node > 0).astype(np.int32)
    units_of_found = completed_of_node[found]
    return UnitReads(
        begun_of_group, completed_of_node, found, units_of_found, worst_of_node[found],
        np.asarray(trie)[found, 1], int((units_of_found == 1).sum()),
    )  # fmt: skip


def read_units(
    known: UnitReads,
    trie: Any,
    pending: cython.const[cython.Py_ssize_t][::1],
    fewest: cython.Py_ssize_t,
    most: cython.Py_ssize_t,
) -> Read | None:
    """What is read on the frame of a counted rule below nodes that complete one unit.

    Args:
        known: the result of `unit_reads` for this trie and the rule's unit.
        trie: as for `unit_reads`.
        pending: the nodes, distinct.
        fewest: units that must be read before the rule may return; it may be negative.
        most: how many units may be begun, at least 0.

    Returns:
        The strings below that begin no more than `most` units, as ranges of groups; and the nodes at which
        enough units are read, except those below which all strings are read. None: some node is not reached
        by exactly one unit.
    """
    nodes: cython.const[Node][::1] = of_array(trie, TRIE_NODE)
    begun: cython.const[cython.short][::1] = known.begun
    of_node: cython.const[cython.short][::1] = known.of_node
    n: cython.Py_ssize_t = 0
    k: cython.Py_ssize_t
    for k in range(pending.shape[0]):
        node = pending[k]
        if nodes[node].child < nodes[node + 1].child:
            if of_node[node] != 1:
                return None
            n += 1
    is_all: cython.bint = n == known.n_once
    covered = np.zeros(0 if is_all else begun.shape[0] + 1, np.uint8)
    cover: cython.uchar[::1] = covered
    last = 1 + min(most, cython.cast(cython.Py_ssize_t, NEVER) - 2)
    fewest = 1 + max(fewest, 0)
    ranges = np.empty(2 * begun.shape[0] + 2, np.int64)  # each range has at least one group
    range_at: cython.Py_ssize_t[::1] = ranges
    n_ranges: cython.Py_ssize_t = 0
    entry: cython.const[cython.int][::1] = known.nodes
    completed: cython.const[cython.short][::1] = known.completed
    worst: cython.const[cython.short][::1] = known.worst
    group: cython.const[cython.int][::1] = known.group
    chosen = np.empty(entry.shape[0], np.int64)
    choice: cython.Py_ssize_t[::1] = chosen
    n_chosen: cython.Py_ssize_t = 0
    with cython.nogil:
        for k in range(pending.shape[0]):
            node = pending[k]
            begins: cython.bint = True
            for g in range(nodes[node].group, nodes[node].group_end):
                if not is_all:
                    cover[g] = 1
                if 1 < begun[g] <= last:
                    if begins:
                        range_at[n_ranges] = g
                        n_ranges += 2
                    range_at[n_ranges - 1] = g + 1
                    begins = False
                else:
                    begins = True
        for k in range(entry.shape[0]):
            if worst[k] > last and fewest <= completed[k] <= last and (is_all or cover[group[k]]):
                choice[n_chosen] = entry[k]
                n_chosen += 1
    return Read(ranges[:n_ranges].copy(), chosen[:n_chosen].copy())
