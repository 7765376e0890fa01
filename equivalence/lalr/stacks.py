"""The automaton that reads the parser stack from the top and names the kinds of sequences that it takes.

What: terminal sequences that no stack tells apart are one *kind*. A kind has a cell for each state on which it
does not die at once: taken, or so many states to skip and a *color*; a color says the same of the states that
may lie there. Colors are states of a minimal automaton, so what the runtime reads has nothing of reductions.
When: once all sequences of a grammar are numbered.
Limits: minimal over stacks of which each two neighbours may be neighbours, which are more than the parser meets.

Source: acceptance sets of tokens are regular languages of stacks (parser stack classification, theorem 1);
partition refinement (Moore 1956). What always passes and what always dies is found first, as greatest fixed points:
without, 1,240 sequences of a Java grammar have 1,211 kinds, with it 793; of 73,000 items 44,000 always die.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.lalr import _kernels
from equivalence.lalr.sequences import SequenceTable

Integers = NDArray[np.int64]


class StackAutomaton(NamedTuple):
    """S parser states; an outcome is 0 (dies), 1 (taken), or color << 12 | states to skip, plus 2.

    Attributes:
        cell_start: int64[kinds + 1], where the cells of a kind begin.
        cells: int64[cells, 2], (state on top, outcome), by kind and state.
        list_start: int64[lists + 1], where a list of states begins.
        list_state: int32, the states that may be met, in ascending order.
        color_list: int32[colors], the list of states that a color has outcomes for.
        color_start: int64[colors + 1], where its outcomes begin.
        color_outcome: int64, one for each state of its list.
    """

    cell_start: Integers
    cells: Integers
    list_start: Integers
    list_state: NDArray[np.int32]
    color_list: NDArray[np.int32]
    color_start: Integers
    color_outcome: Integers

    @property
    def n_kinds(self) -> int:
        """Number of kinds."""
        return len(self.cell_start) - 1

    @property
    def n_colors(self) -> int:
        """Number of colors."""
        return len(self.color_list)


def stack_automaton(table: SequenceTable, numbers: NDArray[np.int32]) -> tuple[StackAutomaton, NDArray[np.int32]]:
    """The automaton of some sequences, and the kind of each.

    Args:
        table: what gave the numbers.
        numbers: int32[n], numbers of sequences.

    Returns:
        The automaton, and int32[n]: the kind, -1 where no stack takes the sequence, -2 where it is empty.
    """
    arrays, tables = table.arrays, table.tables
    tops = table.machine.tops
    wanted, place = np.unique(numbers, return_inverse=True)
    first = int(np.searchsorted(wanted, _kernels.PASS + 1))
    asked = wanted[first:].astype(np.int64)
    order, n_edges = _kernels.reached_items(asked, tops, arrays, tables)
    color, n_colors = _kernels.refine(order, n_edges, tables)
    kinds, cell_start, cells = _kernels.merged(asked, tops, color, arrays, tables)
    color_list, color_start, outcome = _kernels.color_edges(order, color, n_colors, tables)
    n_lists = int(tables.lists.counts[0])
    list_start = tables.lists.starts[: n_lists + 1].copy()
    automaton = StackAutomaton(
        cell_start, cells, list_start, tables.lists.pool[: list_start[-1]].astype(np.int32), color_list,
        color_start, outcome,
    )  # fmt: skip
    before = [-1 if number == _kernels.DEAD else -2 for number in wanted[:first].tolist()]
    return automaton, np.concatenate([np.array(before, np.int32), kinds])[place].astype(np.int32)
