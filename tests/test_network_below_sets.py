"""What may lie below states on a stack: below sets and contexts of small networks.

When: after any change of `equivalence.network.contexts`, which computes them for a merged network.
Limits: the earlier steps are tested in `tests.test_network_steps`.
"""

from __future__ import annotations

import numpy as np
import pytest

from equivalence.deadline import Stop
from equivalence.errors import BudgetExceeded
from equivalence.network.below_sets import BelowSets, MergedStates
from equivalence.network.contexts import contexts_and_below
from tests.test_network_steps import a_stop, stopped

pytestmark = pytest.mark.kernels


def chain(n: int) -> tuple[MergedStates, np.ndarray, np.ndarray]:
    """Rules that tail call the next rule, and also call the last one: (states, counted, order).

    Rule i has three states: 3 i has two calls (of the last rule, returning to 3 i + 1; of the next, returning
    to the end), 3 i + 1 reads a byte, and 3 i + 2 is the end.
    """
    rule_first = 3 * np.arange(n)
    final = np.tile(np.array([0, 0, 1], np.uint8), n)
    calls: list[list[int]] = []
    edges: list[list[int]] = []
    call_starts, edge_starts = [0], [0]
    for rule in range(n):
        if rule + 1 < n:
            calls += [[n - 1, 3 * rule + 1], [rule + 1, 3 * rule + 2]]
        call_starts += [len(calls)] * 3
        edge_starts.append(len(edges))
        edges.append([97, 97, 3 * rule + 2])
        edge_starts += [len(edges)] * 2
    states = MergedStates(
        rule_first,
        rule_first + 3,
        final,
        np.array(edge_starts),
        np.array(edges),
        np.array(call_starts),
        np.array(calls),
        np.arange(3 * n),
        np.arange(3 * n),
        3 * n,
    )
    return states, np.zeros((0, 3), np.int64), np.arange(n)[::-1].copy()


def below_of(n: int, max_states: int, stop: Stop | None = None) -> BelowSets:
    states, counted, _ = chain(n)
    return BelowSets(states, counted, np.zeros(0, np.int64), 0, 0, max_states, stop or a_stop())


def test_below_sets_of_a_chain() -> None:
    n = 20  # all others call the last rule: too many pairs for insertion sort
    states, counted, order = chain(n)
    *_, starts, symbols, of_symbol, bottom, used = contexts_and_below(
        states, counted, np.zeros(0, np.int64), 0, order, 0, 1000, a_stop()
    )
    assert used == n
    assert bottom.tolist() == [True, True]
    # all rules but the last have only the bottom below them, so they share one set
    assert starts.tolist() == [0, 0, n - 1]
    assert symbols.tolist() == [3 * i + 1 for i in range(n - 1)]
    assert of_symbol.tolist() == [0] * (n - 1)


def test_contexts_of_a_chain() -> None:
    n = 5
    states, counted, order = chain(n)
    rows, row_starts, row_sets, *_ = contexts_and_below(
        states, counted, np.zeros(0, np.int64), 0, order, 0, 1000, a_stop()
    )
    assert rows.tolist() == [[0, -1], *([3 * i + 1, -1] for i in range(n - 1))]
    assert row_starts.tolist() == list(range(n + 1))
    assert row_sets.tolist() == [0] * n


def test_below_sets_that_are_too_large() -> None:
    with pytest.raises(BudgetExceeded, match="more than 0 states"):
        below_of(20, 0)


def test_below_sets_too_late() -> None:
    with pytest.raises(BudgetExceeded, match="a test"):
        below_of(20, 1000, stopped())
