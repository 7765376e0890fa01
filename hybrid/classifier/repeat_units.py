# cython: language_level=3
# mypy: ignore-errors
"""Counts near their bounds: how many units of a counted repetition each token begins.

What: within a string of at most 20 characters, fewer tokens are allowed after each character. One number for
each token decides: how many characters it begins. `unit_reads` reads the trie once with the automaton of
one unit, without counting. For any bounds, its result says what a walk would find
(`equivalence.walks.unit_reads`).
When: used by `hybrid.classifier.vocabulary_walker`, for long walks on the frame of a counted rule. When such
frames were walked for each count, each walk entered up to 100,000 nodes: 2 to 9 ms for each remaining
character.
Limits: units that call no rule, and of which none is a prefix of another, so that a text is divided into
units in one way only. `unit_table` returns None for others.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.records import zeros
from cython.cimports.equivalence.parser.automaton import Automaton, has_moves
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.equivalence.trie.nodes import ENDS_AT, Node
from cython.cimports.equivalence.walks.token_texts import TokenTexts
from cython.cimports.hybrid.classifier.repeat_units import Level
from cython.cimports.hybrid.values.gather import set_bits
from numpy.typing import NDArray

from equivalence.arrays.records import Kind
from equivalence.walks.unit_reads import NEVER_READ, UnitReads

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
                if has_moves(automaton, target):
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
    texts: TokenTexts,
    after: cython.const[cython.short][:, ::1],
) -> UnitReads:
    """Read the whole trie as units.

    Args:
        texts: the tokens of a vocabulary.
        after: the result of `unit_table`.
    """
    nodes: cython.const[Node][::1] = texts.trie
    longest: cython.Py_ssize_t = texts.longest
    n_groups: cython.Py_ssize_t = texts.token_starts.shape[0] - 1
    n_nodes: cython.Py_ssize_t = nodes.shape[0] - 1
    begun_of_group = np.full(n_groups, NEVER, np.int16)
    begun: cython.short[::1] = begun_of_group
    completed_of_node = np.zeros(n_nodes, np.int16)
    completed: cython.short[::1] = completed_of_node
    worst_of_node = np.empty(n_nodes, np.int16)
    worst: cython.short[::1] = worst_of_node
    levels = zeros(LEVEL, longest + 2)
    path: Level[::1] = levels
    d: cython.Py_ssize_t = 0
    path[0].node = path[0].state = path[0].completed = path[0].worst = 0
    path[0].child = nodes[0].child
    path[0].end = nodes[1].child
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
    counts = np.unique(begun_of_group)
    counts = counts[(counts > 1) & (counts < NEVER)]
    rows = rows_of_counts(begun_of_group, counts, texts)
    return UnitReads(begun_of_group, found, completed_of_node[found], worst_of_node[found], counts, rows)


def rows_of_counts(
    begun: cython.const[cython.short][::1],
    counts: cython.const[cython.short][::1],
    texts: TokenTexts,
) -> NDArray[np.uint32]:
    """For each of some ascending counts, the tokens that begin up to so many units, but at least 2, as
    bits."""
    token_starts: cython.const[cython.Py_ssize_t][::1] = texts.token_starts
    tokens: cython.const[cython.int][::1] = texts.tokens
    n_words: cython.Py_ssize_t = (texts.offsets.shape[0] - 1 + 31) // 32
    rows = np.zeros((counts.shape[0], n_words), np.uint32)
    row: cython.uint[:, ::1] = rows
    place = np.full(NEVER + 1, -1, np.int16)
    place[np.asarray(counts)] = np.arange(counts.shape[0])
    at: cython.short[::1] = place
    with cython.nogil:
        for g in range(begun.shape[0]):
            r: cython.Py_ssize_t = at[begun[g]]
            if r >= 0:
                set_bits(tokens, token_starts[g], token_starts[g + 1], row[r])
        for r in range(1, counts.shape[0]):
            for w in range(n_words):
                row[r, w] |= row[r - 1, w]
    return rows
