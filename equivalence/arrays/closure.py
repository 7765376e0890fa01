"""Reachability in a graph of plain lists.

What: `close_backwards` adds every node from which a set of nodes can be reached, given what
`predecessors_of` returns. `outside_cycles` finds the nodes that reach no cycle. `components_of` finds the
nodes that can be reached from each other.
When: to find the states of an automaton that can reach an end (lexers, languages, grammars of schemas), and
cycles of rules or states.
Limits: plain Python, for graphs of a few thousand nodes.
Source: Tarjan, Depth-first search and linear graph algorithms, 1972.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence


def predecessors_of(after: Sequence[Iterable[int]]) -> list[list[int]]:
    """For each node, its predecessors, given its successors. One that leads there twice is listed twice."""
    before: list[list[int]] = [[] for _ in after]
    for node, successors in enumerate(after):
        for following in successors:
            before[following].append(node)
    return before


def close_backwards(values: list[bool], before: Sequence[Collection[int]]) -> None:
    """Add to a set, in place, all nodes from which it can be reached.

    Args:
        values: for each node, whether it is in the set.
        before: for each node, its predecessors.
    """
    pending = [node for node, value in enumerate(values) if value]
    while pending:
        for source in before[pending.pop()]:
            if not values[source]:
                values[source] = True
                pending.append(source)


def outside_cycles(after: Sequence[Collection[int]]) -> list[int]:
    """The nodes from which no cycle can be reached, each behind its successors (Kahn: Topological sorting of
    large networks, 1962).

    Args:
        after: for each node, its successors.
    """
    before, left = predecessors_of(after), list(map(len, after))
    found = [node for node, n in enumerate(left) if not n]
    for node in found:  # it grows
        for source in before[node]:
            left[source] -= 1
            if not left[source]:
                found.append(source)
    return found


def components_of(after: Sequence[Collection[int]], check: Callable[[], object]) -> list[int]:
    """The strongly connected component of each node. Its successors are in the same component, or in one with
    a lower number.

    Args:
        after: for each node, its successors.
        check: called for each node; may raise an error to stop the search.
    """
    n = len(after)
    component, low, order = [-1] * n, [0] * n, [0] * n
    open_nodes: list[int] = []
    n_found = n_seen = 0
    for origin in range(n):
        if order[origin]:
            continue
        path = [(origin, iter(after[origin]))]
        while path:
            node, rest = path[-1]
            if not order[node]:
                check()
                n_seen += 1
                order[node] = low[node] = n_seen
                open_nodes.append(node)
            for following in rest:
                if not order[following]:
                    path.append((following, iter(after[following])))
                    break
                if component[following] < 0:
                    low[node] = min(low[node], order[following])
            else:
                path.pop()
                if path:
                    above = path[-1][0]
                    low[above] = min(low[above], low[node])
                if low[node] == order[node]:
                    while component[node] < 0:
                        component[open_nodes.pop()] = n_found
                    n_found += 1
    return component
