"""Below sets and contexts: what may be on top of a stack, and what may lie below it.

What: the part of a `Network` that speaks of stacks (section 3 of docs/theory.md), from its merged states.
When: last step of `build_network`.
Limits: stacks are over-approximated: a rule's set joins what all its callers leave below it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.deadline import Stop
from equivalence.network.contexts import _kernels
from equivalence.network.sizes import too_large

Integers = NDArray[np.int64]
MEMBERS_A_STATE = 16
"""Members that all below sets may have together, for each state that is allowed: some 40 bytes each."""

Below = tuple[Integers, Integers, Integers, Integers, Integers, Integers, NDArray[np.bool_], int]


class MergedStates(NamedTuple):
    """The deterministic automata, and the class of each of their states.

    Attributes:
        rule_first, rule_last: per rule its states, -1 where there are none.
        final, edge_starts, edges, call_starts, calls: as `subsets._kernels.determinise` gives them.
        stands: the state that stands for each state, see `merging._kernels.passed_on`.
        cls: class of each state, -1 where the root does not lead.
        n_classes: number of classes.
    """

    rule_first: Integers
    rule_last: Integers
    final: NDArray[np.uint8]
    edge_starts: Integers
    edges: Integers
    call_starts: Integers
    calls: Integers
    stands: Integers
    cls: Integers
    n_classes: int


def contexts_and_below(
    states: MergedStates,
    counted: Integers,
    counted_cls: Integers,
    n_counted_classes: int,
    order: Integers,
    root: int,
    max_states: int,
    stop: Stop,
) -> Below:
    """The fields of `Network` behind its automaton, in their order.

    Args:
        states: the merged states.
        counted: rows (unit, least, most) of counted rules, which are numbered after the plain ones.
        counted_cls: class of each counted rule, -1 if unused.
        n_counted_classes: number of those classes.
        order: all rules that are used, callees first.
        root: the root rule.
        max_states: bound on the states of automata, and so on what these sets take.
        stop: tells the kernels to stop.

    Raises:
        BudgetExceeded: the sets are larger, or it is too late.
    """
    rule_first, rule_last, final, edge_starts, edges, call_starts, calls, stands, cls, n_classes = states
    first = np.flatnonzero(rule_first >= 0)
    rule_of_state = np.zeros(final.size, np.int64)
    by_state = first[np.argsort(rule_first[first])]
    rule_of_state[:] = np.repeat(by_state, (rule_last - rule_first)[by_state])
    is_end = (final > 0) & (edge_starts[1:] == edge_starts[:-1]) & (call_starts[1:] == call_starts[:-1])
    status, used, pairs, set_starts, members, bottom = _kernels.below_sets(
        root, rule_of_state, cls, is_end, call_starts, calls, counted, counted_cls, rule_first.size,
        MEMBERS_A_STATE * max_states, stop.cell,
    )  # fmt: skip
    stop.look()
    if status:
        raise too_large(max_states)
    set_of_rule, n_sets, table, starts, pool, counts = _kernels.share_sets(
        order, used, pairs, set_starts, members, bottom, n_counted_classes, stop.cell
    )
    stop.look()
    rows, row_starts, row_sets = _kernels.contexts(
        rule_first[root], rule_of_state, rule_first, rule_last, stands, cls, n_classes, is_end, edge_starts,
        edges, call_starts, calls, counted_cls, n_counted_classes, set_of_rule, n_sets, table, starts, pool,
        counts, stop.cell,
    )  # fmt: skip
    stop.look()
    flat = _kernels.flat_sets(starts, pool, int(counts[0]))
    return (rows, row_starts, row_sets, *flat, int(used.sum()))
