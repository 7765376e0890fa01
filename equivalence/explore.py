"""Exploring: what every token does on every context of a network.

What: walks the vocabulary's trie over the network, keeping at each node the interned set of local stacks
(a *configuration*). A token on a context is read outright, or rejected, or *pending*: the known part of the
stack is used up and suffixes remain to be read below. Pending suffixes are read on the symbols that may lie
below, as items (set of suffixes, below set); items that let the same stacks through get the same color.
When: once per (network, vocabulary, relation), by `equivalence.classes`.
Limits: everything is bounded by `Capacity`; exceeding it raises `BudgetExceeded`, never a partial result.

Source: theorem 1 of the parser stack classification paper (acceptance sets are regular); pre* of pushdown
systems (Bouajjani, Esparza, Maler 1997); coloring is Moore's partition refinement.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence import _kernels
from equivalence.errors import BudgetExceeded
from equivalence.network import Network
from equivalence.network import _kernels as network_kernels
from equivalence.trie import Trie

Integers = NDArray[np.int64]


class Capacity(NamedTuple):
    """Bounds of one exploration; memory is taken as it is used, at most about 1.2 KiB a configuration."""

    configurations: int = 120_000
    nodes: int = 500_000
    outcomes: int = 500_000
    items: int = 500_000


MANY_OUTCOMES = 512
"""Above this number of outcomes, suffixes that read alike are merged first: 48,000 outcomes of a SQL-like
grammar become some hundreds in 0.1 s, while a JSON schema's 200 cost less to color than to merge."""


class Exploration(NamedTuple):
    """What the partition is computed from; groups are those of the trie, B blocks.

    A *block* is (first byte, configuration after it): what contexts that agree after a token's first byte
    have in common.

    Attributes:
        block_starts: int64[257], the blocks of each first byte.
        user_starts, users: rows (context, block) by first byte.
        range_starts, ranges: groups (first, end) that each block reads outright.
        event_starts, events: rows (group, outcome) of each block for what it does not read outright.
        queries, query_table, colors: the color of each (outcome, below set) that occurs: 0 = no stack lets
            it through, 1 = every stack does, else equal numbers for equal sets of stacks.
        n_configurations, n_items, n_outcomes: sizes met, for reports.
    """

    block_starts: Integers
    user_starts: Integers
    users: Integers
    range_starts: Integers
    ranges: Integers
    event_starts: Integers
    events: Integers
    queries: Integers
    query_table: Integers
    colors: Integers
    n_configurations: int
    n_items: int
    n_outcomes: int


def explore(
    network: Network, trie: Trie, *, displacement: bool = False, capacity: Capacity = Capacity()
) -> Exploration:
    """Explore all contexts of a network over all tokens of a trie.

    Raises:
        BudgetExceeded: more configurations, outcomes or items than `capacity` allows.
    """
    automaton = network.automaton
    state_first = network_kernels.first_bytes(automaton)
    final = automaton[0]
    below_first = _first_below(network, state_first, final)
    n_contexts = len(network.contexts)
    firsts = np.zeros((n_contexts, 256), np.uint8)
    owner = np.repeat(np.arange(n_contexts), np.diff(network.context_starts))
    network_kernels.unite_rows(firsts, owner, below_first[network.context_below])

    # tables are filled before use: start small (0.3 ms), and start over with 8 times as much where that fails
    small = Capacity(*(min(bound, 4096) for bound in capacity))
    while True:
        found = _explore(network, trie, displacement, small, state_first, below_first, firsts)
        if found is not None:
            return found
        if small == capacity:
            raise BudgetExceeded(
                f"the exploration needs more than {capacity.configurations} configurations, "
                f"{capacity.outcomes} outcomes or {capacity.items} items; raise the budget's states, or use "
                "strategy='engine'"
            )
        small = Capacity(*(min(bound, 8 * size) for bound, size in zip(capacity, small, strict=True)))


def _explore(
    network: Network,
    trie: Trie,
    displacement: bool,
    capacity: Capacity,
    state_first: NDArray[np.uint8],
    below_first: NDArray[np.uint8],
    firsts: NDArray[np.uint8],
) -> Exploration | None:
    """One attempt within a capacity; None if it does not suffice."""
    automaton = network.automaton
    final = automaton[0]
    flat_trie = (
        trie.byte, trie.depth, trie.skip, trie.group, trie.below, trie.suffix_parent, trie.group_suffix,
        trie.longest,
    )  # fmt: skip
    (
        status, space, outcomes, block_starts, user_starts, users, range_starts, ranges, event_starts, events,
    ) = _kernels.walk_all(
        network.contexts, firsts, flat_trie, automaton, displacement, capacity.nodes,
        capacity.configurations, capacity.outcomes,
    )  # fmt: skip
    if status:
        return None
    symbol_first, return_first = _first_of_symbols(network, state_first, final, below_first)
    if outcomes[3][0] > MANY_OUTCOMES:
        symbols, position = np.unique(network.below_symbols, return_index=True)
        rows = np.stack([symbols, np.full(len(symbols), -1)], axis=1)
        status, twin = _kernels.suffix_classes(
            rows,
            return_first[position],
            flat_trie,
            trie.suffix_byte,
            space,
            automaton,
            displacement,
            outcomes,
            capacity.items,
        )
        if status:
            return None
        outcomes = _kernels.rewrite_outcomes(outcomes, twin, event_starts, events)
    block_users, sorted_users = _kernels.rows_by_block(users, len(event_starts) - 1)
    queries, table = _kernels.find_queries(
        event_starts, events, int(outcomes[3][0]), block_users, sorted_users, network.context_starts,
        network.context_below,
    )  # fmt: skip
    status, colors, n_items, _ = _kernels.color_outcomes(
        queries, network.below_starts, network.below_symbols, network.below_of_symbol,
        network.below_bottom, below_first, symbol_first, return_first, trie.suffix_parent, trie.suffix_byte,
        space, automaton, displacement, outcomes, capacity.items,
    )  # fmt: skip
    if status:
        return None
    return Exploration(
        block_starts, user_starts, users, range_starts, ranges, event_starts, events, queries, table, colors,
        int(space[7][0]), int(n_items), int(outcomes[3][0]),
    )  # fmt: skip


def _own_first(network: Network, state_first: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Bytes that each symbol occurrence can read next by itself."""
    symbols = network.below_symbols
    counted: Any = network.automaton[5]
    state = np.where(symbols >= 0, symbols, counted[np.maximum(-1 - symbols, 0), 0] if len(counted) else 0)
    return state_first[state]


def _first_below(
    network: Network, state_first: NDArray[np.uint8], final: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """uint8[below sets, 256]: bytes that can come next on some stack of a below set (least fixed point)."""
    n_sets = len(network.below_bottom)
    first = np.zeros((n_sets, 256), np.uint8)
    if not len(network.below_symbols):
        return first
    owner = np.repeat(np.arange(n_sets), np.diff(network.below_starts))
    network_kernels.unite_rows(first, owner, _own_first(network, state_first))
    through = _returns(network, final)
    while network_kernels.unite_rows(first, owner[through], first[network.below_of_symbol[through]]):
        pass
    return first


def _returns(network: Network, final: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Symbol occurrences that may be left without reading a byte."""
    symbols = network.below_symbols
    return (symbols < 0) | (final[np.maximum(symbols, 0)] > 0)


def _first_of_symbols(
    network: Network,
    state_first: NDArray[np.uint8],
    final: NDArray[np.uint8],
    below_first: NDArray[np.uint8],
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Per symbol occurrence: bytes that can come next on it, and bytes that can follow once it returned.

    The second is the union over all occurrences of a symbol, because a symbol is read once for all of them.
    """
    symbols = network.below_symbols
    if not len(symbols):
        empty = np.zeros((0, 256), np.uint8)
        return empty, empty
    after = below_first[network.below_of_symbol]
    through = _returns(network, final)
    symbol_first = np.where(through[:, None], after, 0) | _own_first(network, state_first)
    distinct, index = np.unique(symbols, return_inverse=True)
    union = np.zeros((len(distinct), 256), np.uint8)
    network_kernels.unite_rows(union, index, after)
    return np.ascontiguousarray(symbol_first), union[index]
