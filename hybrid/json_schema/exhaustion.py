"""Whether arrays of unique items can always be ended before they run out of values.

What: `always_ends` decides it for an array; `ends_by_new_items` is a quick test that nearly all arrays pass.
When: for arrays under `uniqueItems` whose items are remembered, after their values are counted
(`cardinality.py`).
Limits: those of `used_values.py`, which explores the arrays that do not pass the quick test.
"""

from __future__ import annotations

from typing import Any

from equivalence.arrays.closure import close_backwards, predecessors_of
from hybrid.json_schema.automata import ArrayAutomaton
from hybrid.json_schema.cardinality import Counts


def always_ends(array: ArrayAutomaton, counts: Counts) -> bool:
    """Whether an array of unique items can always be ended, whatever came before.

    Args:
        array: an array whose items are remembered, with `is_live` set.
        counts: the counts of the schema.
    """
    if ends_by_new_items(array, counts):
        return True
    uses = counts.uses(array)
    return uses is not None and uses.always_end


def ends_by_new_items(array: ArrayAutomaton, counts: Counts) -> bool:
    """Whether there is a way to an end from each live state by items that have infinitely many values, or
    that cannot have come before. This is found out quickly, and holds for most arrays."""
    sources = predecessors_of([[target for _, target in edges] for edges in array.edges])
    after: list[list[int]] = [[] for _ in sources]
    ends = array.accepting[:]
    for state, counted in enumerate(array.counted):
        if counted is not None:
            ends[state] = not counted.least or counts.of(counted.value) is None
            continue
        after[state] = [
            target
            for value, target in array.edges[state]
            if counts.of(value) is None or _has_new(array, value, state, sources, counts)
        ]
    close_backwards(ends, predecessors_of(after))
    return all(end for end, is_live in zip(ends, array.is_live, strict=True) if is_live)


def _has_new(array: ArrayAutomaton, value: Any, state: int, sources: list[list[int]], counts: Counts) -> bool:
    """Whether some value of a nonterminal cannot have come before a state: there are more values than items
    before it, or these have other values."""
    counts.check()
    behind = [False] * len(sources)
    behind[state] = True
    close_backwards(behind, sources)
    has_cycle = any(
        array.counted[source] is not None
        or any(behind[target] for _, target in array.edges[source] if target <= source)
        for source, is_behind in enumerate(behind)
        if is_behind
    )
    if not has_cycle and sum(behind) <= (counts.of(value) or 0):
        return True
    values = counts.scalars(value)
    if values is None:
        return False
    for source, is_behind in enumerate(behind):
        for earlier, target in array.edges[source] if is_behind else ():
            if behind[target]:
                others = counts.scalars(earlier)
                if others is None:
                    return False
                values -= others
    return bool(values)
