"""The closure of a set of nodes against the edges of a graph.

What: `close_backwards` adds every node that leads to the set.
When: where it matters which states of an automaton can reach an end: lexers, languages, grammars of schemas.
Limits: plain lists, for graphs of some thousand nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence


def close_backwards(values: list[bool], before: Sequence[Collection[int]]) -> None:
    """Make true, in place, whatever leads to what is true.

    Args:
        values: for each node, whether it is in the set.
        before: for each node, those that lead to it.
    """
    pending = [node for node, value in enumerate(values) if value]
    while pending:
        for source in before[pending.pop()]:
            if not values[source]:
                values[source] = True
                pending.append(source)
