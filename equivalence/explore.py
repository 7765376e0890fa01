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
from equivalence.deadline import Deadline
from equivalence.errors import BudgetExceeded
from equivalence.follow import Follow, follow_of
from equivalence.kept import KeptWalks
from equivalence.network import Network
from equivalence.parser.automaton import Automaton
from equivalence.parser.byte_tables import ByteTables, byte_tables_of, call_ranks
from equivalence.trie import Trie

Integers = NDArray[np.int64]


DEFAULT_BYTES = 2**30
"""Bound on the memory of one computation. Real grammars touch 5 to 40 MiB and reserve up to 100 for relation
"acceptance", up to 400 for "displacement"; a compilation bounds itself more tightly."""


class Capacity(NamedTuple):
    """Bounds of one computation of classes; memory is taken as it is used.

    Attributes:
        configurations, nodes, outcomes, items: rows of the exploration's tables.
        bytes: memory of the grammar network, of all tables of exploration and partition, and of the result;
            a table that grows asks for its new size while the old one is alive. The first tables take some
            4 MiB. Not counted: the vocabulary with its trie, Python's own objects, and what the building of
            the network takes beside its result (it is bounded by states, at 1 KiB each).
    """

    configurations: int = 120_000
    nodes: int = 500_000
    outcomes: int = 500_000
    items: int = 500_000
    bytes: int = DEFAULT_BYTES


PHASE = "the exploration"
"""What errors call all of this."""

MANY_OUTCOMES = 512
"""Above this number of outcomes, suffixes that read alike are merged first: 48,000 outcomes of a SQL-like
grammar become some hundreds in 0.1 s, while a JSON schema's 200 cost less to color than to merge."""


MOST_MET = 4096
"""Configurations that are kept for a classifier: 2 MB. One JSON schema in two has 600 or fewer."""


class Met(NamedTuple):
    """What exploring found on the way that a classifier of the same network asks for, too.

    Attributes:
        byte_tables: the byte classes.
        follow: what can come next.
        space: the configurations met (`_kernels.Space`), to begin with; ``None`` if they are more than
            `MOST_MET`.
    """

    byte_tables: ByteTables
    follow: Follow
    space: Any


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
        met: what a classifier begins with.
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
    met: Met


def explore(
    network: Network,
    trie: Trie,
    *,
    displacement: bool = False,
    capacity: Capacity = Capacity(),
    deadline: Deadline | None = None,
    kept: KeptWalks | None = None,
) -> Exploration:
    """Explore all contexts of a network over all tokens of a trie.

    Args:
        network: the grammar network.
        trie: the vocabulary's trie.
        displacement: distinguish also what tokens leave behind.
        capacity: bounds on what is met.
        deadline: when to give up. The kernels run without the interpreter's lock; another thread asks them to
            stop, and they look at each configuration, block and item.
        kept: walks of former grammars over the same trie; acceptance only. The result is the same with and
            without it, but for the configurations that are counted: those of kept walks are not made.

    Raises:
        BudgetExceeded: more configurations, outcomes, items or bytes than `capacity` allows, or it
            is too late.
    """
    deadline = deadline or Deadline()
    net = network.automaton
    with deadline.stopping(PHASE) as stop:
        automaton = Automaton(net)
        rank = call_ranks(automaton)
        byte_tables = byte_tables_of(automaton, rank, stop)
        follow = follow_of(network, byte_tables.first, stop)
    # tables start small (filling them takes time) and grow with what is met
    space = _kernels.new_space(
        net, *byte_tables, rank, min(16384, capacity.nodes), min(4096, capacity.configurations)
    )  # fmt: skip
    claim(space.state, capacity, array_bytes(network), array_bytes(follow), array_bytes(space))
    with deadline.watched(space.state, _kernels.STOP):
        return _explore(network, trie, byte_tables, follow, space, displacement, capacity, deadline, kept)


def _explore(
    network: Network,
    trie: Trie,
    byte_tables: ByteTables,
    follow: Follow,
    space: Any,
    displacement: bool,
    capacity: Capacity,
    deadline: Deadline,
    kept: KeptWalks | None,
) -> Exploration:
    net = network.automaton
    outcomes = _kernels.first_outcomes(min(4096, capacity.outcomes))
    claim(space.state, capacity, array_bytes(outcomes))
    if kept is None or displacement:
        found = _kernels.walk_all(
            network.contexts, follow.contexts, _flat(trie), space, net, displacement, outcomes, capacity
        )
    else:
        found = kept.walk_all(
            network.contexts, follow.contexts, _flat(trie), trie.suffix_byte, space, net, outcomes, capacity
        )
    (
        status, space, outcomes, block_starts, user_starts, users, range_starts, ranges, event_starts, events,
    ) = found  # fmt: skip
    if status:
        raise _too_large(capacity, space, deadline)
    if outcomes.counts[0] > MANY_OUTCOMES:
        space, outcomes, twin = _suffix_twins(
            network, trie, follow, space, outcomes, displacement, capacity, deadline
        )
        old = array_bytes(outcomes)
        claim(space.state, capacity, old + 8 * int(outcomes.counts[0]))
        outcomes = _kernels.rewrite_outcomes(outcomes, twin, event_starts, events)
        space.state[_kernels.TAKEN] -= old
    claim(space.state, capacity, 2 * users.nbytes + event_starts.nbytes)
    block_users, sorted_users = _kernels.rows_by_block(users, len(event_starts) - 1)
    status, queries, table = _kernels.find_queries(
        event_starts, events, int(outcomes.counts[0]), block_users, sorted_users, network.context_starts,
        network.context_below, space.state, capacity,
    )  # fmt: skip
    if status:
        raise _too_large(capacity, space, deadline)
    status, rows, query_starts, item_starts, below_of_item = _kernels.read_items(
        queries, network.below_starts, network.below_symbols, network.below_of_symbol, follow.symbols,
        follow.symbol_index, follow.below, follow.occurrences, follow.returns, trie.suffix_parent,
        trie.suffix_byte, space, net, displacement, outcomes, capacity,
    )  # fmt: skip
    if status:
        raise _too_large(capacity, space, deadline)
    claim(space.state, capacity, 16 * len(rows) + 64 * len(below_of_item) + 48 * len(queries))
    colors, _ = _kernels.color_queries(
        rows, queries, query_starts, item_starts, below_of_item, network.below_bottom, displacement,
        space.state,
    )  # fmt: skip
    if space.state[_kernels.STOP]:
        raise deadline.error(PHASE)
    return Exploration(
        block_starts, user_starts, users, range_starts, ranges, event_starts, events, queries, table, colors,
        int(space.configs.counts[0]), len(below_of_item), int(outcomes.counts[0]),
        Met(byte_tables, follow, space if space.configs.counts[0] <= MOST_MET else None),
    )  # fmt: skip


def array_bytes(arrays: Any) -> int:
    """Bytes of the arrays of a tuple, and of the tuples in it."""
    if isinstance(arrays, np.ndarray):
        return arrays.nbytes
    return sum(map(array_bytes, arrays)) if isinstance(arrays, tuple) else 0


def claim(account: Integers, capacity: Capacity, *wanted: int) -> None:
    """Note bytes that are about to be taken in an account as `Space.state` keeps it.

    Raises:
        BudgetExceeded: there are not as many left.
    """
    if _kernels.claim(account, capacity, sum(wanted), 0):
        raise out_of_bytes(capacity)


def out_of_bytes(capacity: Capacity) -> BudgetExceeded:
    """The error for tables that may not grow further."""
    return BudgetExceeded(
        f"the token classes need more than {capacity.bytes} bytes; raise the budget's bytes, simplify the "
        "grammar, or use strategy='engine'"
    )


def _too_large(capacity: Capacity, space: Any, deadline: Deadline) -> BudgetExceeded:
    if space.state[_kernels.OUT_OF_BYTES]:
        return out_of_bytes(capacity)
    if space.state[_kernels.STOP]:
        return deadline.error(PHASE)
    return BudgetExceeded(
        f"the exploration needs more than {capacity.configurations} configurations, "
        f"{capacity.nodes} nodes, {capacity.outcomes} outcomes or {capacity.items} items; raise the budget's "
        "states, or use strategy='engine'"
    )


def _flat(trie: Trie) -> tuple[Any, ...]:
    """The arrays of a trie that a walk reads."""
    return trie.nodes, trie.suffix_parent, trie.group_suffix, trie.longest


def _suffix_twins(
    network: Network,
    trie: Trie,
    follow: Follow,
    space: Any,
    outcomes: Any,
    displacement: bool,
    capacity: Capacity,
    deadline: Deadline,
) -> tuple[Any, Any, NDArray[np.int32]]:
    """For each suffix that is left to be read, one suffix that reads alike on every symbol.

    The suffixes are a small vocabulary of their own, walked as tokens are: words after a blank are thousands
    of suffixes, and nearly all of them are one class of identifiers, skipped by the subtree.
    (Reading them one by one took 0.3 to 0.4 s on a C-like and an SQL-like grammar.)
    """
    net = network.automaton
    wanted = np.zeros(len(trie.suffix_parent), np.uint8)
    rows = np.stack([follow.symbols, np.full(len(follow.symbols), -1)], axis=1)
    seen = n_groups = n_blocks = n_users = n_sets = 0
    rounds: list[tuple[Any, ...]] = []
    while _kernels.pending_suffixes(outcomes, seen, wanted, trie.suffix_parent):
        # what these leave to be read in turn is found by walking them, and walked in the next round
        seen = int(outcomes.counts[0])
        data, offsets, suffixes = _kernels.suffix_strings(
            trie.suffix_order, wanted, trie.suffix_parent, trie.suffix_byte
        )
        nodes = _kernels.pack_nodes(*_kernels.build_trie(data, offsets, trie.longest))
        # as the vocabulary's trie is: other types would compile the walk again
        nodes.flags.writeable = suffixes.flags.writeable = False
        flat = (nodes, trie.suffix_parent, suffixes, trie.longest)
        (
            status, space, outcomes, block_starts, user_starts, users, range_starts, ranges, event_starts,
            events,
        ) = _kernels.walk_all(
            rows, follow.returns, flat, space, net, displacement, outcomes, capacity
        )  # fmt: skip
        if status:
            raise _too_large(capacity, space, deadline)
        status, range_sets, words = _kernels.partition_blocks(
            trie.suffix_byte[suffixes], block_starts, range_starts, ranges, space.state, capacity
        )
        if status:
            raise _too_large(capacity, space, deadline)
        space.state[_kernels.TAKEN] -= array_bytes((ranges, events))  # what is kept of them is copied
        events = events[: event_starts[-1]] + np.array([n_groups, 0])
        users = users + np.array([0, n_blocks])
        owner = np.repeat(np.arange(n_blocks, n_blocks + len(event_starts) - 1), np.diff(event_starts))
        rounds.append((
            suffixes, np.full(len(suffixes), len(rounds)), range_sets + n_sets, words,
            block_starts + n_blocks,
            user_starts + n_users, users, owner, events,
        ))  # fmt: skip
        claim(space.state, capacity, 2 * array_bytes(rounds[-1]))  # once more when the rounds are joined
        n_groups += len(suffixes)
        n_blocks += len(event_starts) - 1
        n_users += len(users)
        n_sets += len(words)
    if not rounds:  # many outcomes and nothing left to be read: labels of a counter on long tokens
        return space, outcomes, np.full(len(trie.suffix_parent), -1, np.int32)
    width = max(words.shape[1] for _, _, _, words, *_ in rounds)
    padded = [np.pad(words, ((0, 0), (0, width - words.shape[1]))) for _, _, _, words, *_ in rounds]
    columns = list(zip(*rounds, strict=True))
    status, twin = _kernels.suffix_twins(
        np.concatenate(columns[0]), np.concatenate(columns[1]), np.concatenate(columns[2]),
        np.concatenate(padded), trie.suffix_byte, np.stack(columns[4]), np.stack(columns[5]),
        np.concatenate(columns[6]), np.concatenate(columns[7]), np.concatenate(columns[8]), outcomes,
        space.state, capacity,
    )  # fmt: skip
    if status:
        raise _too_large(capacity, space, deadline)
    for kept in rounds:
        space.state[_kernels.TAKEN] -= 2 * array_bytes(kept)
    return space, outcomes, twin
