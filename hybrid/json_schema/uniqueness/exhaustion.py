"""Whether arrays of unique items can always be ended before they run out of values.

What: `always_ends` decides it for an array.
When: for arrays under `uniqueItems` whose items are remembered, after their values are counted
(`cardinality.py`).
Limits: it looks for a way to an end on which each item has a value that certainly did not come before. It
does not see that earlier items used up each other's values.
"""

from __future__ import annotations

from collections.abc import Collection
from operator import itemgetter

from equivalence.arrays.closure import close_backwards, components_of, predecessors_of
from hybrid.json_schema.automata import ArrayAutomaton, Nonterminal
from hybrid.json_schema.uniqueness.cardinality import Counts


def always_ends(array: ArrayAutomaton, counts: Counts) -> bool:
    """Whether an array of unique items can always be ended, whatever came before.

    Args:
        array: an array whose items are remembered, with `is_live` set.
        counts: the counts of the schema.
    """
    targets = [[target for _, target in edges] for edges in array.edges]
    sources, component = predecessors_of(targets), components_of(targets, counts.check)

    def has_new(value: Nonterminal, state: int, n: int) -> bool:
        return counts.of(value) is None or _has_new(array, value, state, n, sources, component, counts)

    after: list[list[int]] = [[] for _ in sources]
    ends = array.accepting[:]
    for state, counted in enumerate(array.counted):
        if counted is not None:
            ends[state] = not counted.least or has_new(counted.value, state, counted.least)
        else:
            after[state] = [target for value, target in array.edges[state] if has_new(value, state, 1)]
    close_backwards(ends, predecessors_of(after))
    return all(end for end, is_live in zip(ends, array.is_live, strict=True) if is_live)


def _has_new(
    array: ArrayAutomaton, value: Nonterminal, state: int, n: int,
    sources: list[list[int]], component: list[int], counts: Counts,
) -> bool:  # fmt: skip
    """Whether, whatever came before a state, n values of a nonterminal did not. False if that cannot be seen.

    Args:
        sources: for each state, those with an edge to it.
        component: for each state, the number of its component. An edge within a component may be passed any
            number of times; of the edges that leave a state to another component, one, and only once.
    """
    counts.check()
    behind = [False] * len(sources)
    behind[state] = True
    close_backwards(behind, sources)
    apart = {  # the alternatives of one item are disjoint
        other
        for edges in array.edges
        if any(one is value for one, _ in edges)
        for other, _ in edges
        if other is not value
    }
    before = [  # the items that may have come, with the components of the states before and after them
        (component[source], component[target], other)
        for source, edges in enumerate(array.edges)
        for other, target in edges
        if behind[source] and behind[target]
    ]
    before.sort(key=itemgetter(0), reverse=True)  # as a path passes them

    def most_of(alike: Collection[Nonterminal]) -> int:
        """How many items of some nonterminals may come between components."""
        most = [0] * len(behind)
        for begin, end, other in before:
            most[end] = max(most[end], most[begin] + (begin != end and other in alike))
        return most[component[state]]

    alike = {other for _, _, other in before} - apart
    often = {other for begin, end, other in before if begin == end} - apart
    if not often and (counts.of(value) or 0) >= n + most_of(alike):
        return True
    values = counts.scalars(value)
    if values is None:
        return False
    counts.check()
    left = [one for one in values if not any(counts.holds(other, one) for other in often)]
    alike = {other for other in alike if any(counts.holds(other, one) for one in left)}
    return len(left) >= n + most_of(alike)
