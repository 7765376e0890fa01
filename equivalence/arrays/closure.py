"""Backward reachability in a graph.

What: `close_backwards` adds every node from which a set of nodes can be reached.
When: to find the states of an automaton that can reach an end: lexers, languages, grammars of schemas.
Limits: plain lists, for graphs of a few thousand nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence


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
