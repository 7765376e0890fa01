"""Exploration: finds what every token does in every context of a network.

What: `explore` walks the vocabulary's trie and the network together. At each node of the trie it has the
interned set of local stacks (a *configuration*). In a context, a token is read completely, or rejected, or
*pending*: the known part of the stack is used up, and suffixes of the token must be read below it. Pending
suffixes are read on the symbols that may lie below, as items (set of suffixes, below set). Items that the
same stacks accept get the same color.
When: once for each network, vocabulary and relation, by `equivalence.classes.classes`.
Limits: `Capacity` bounds everything. If it is exceeded, `BudgetExceeded` is raised; there is no partial
result.

Source: theorem 1 of the parser stack classification paper (acceptance sets are regular); pre* of pushdown
systems (Bouajjani, Esparza, Maler 1997); coloring is Moore's partition refinement.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.arrays.account import Account
from equivalence.arrays.interning import Interned
from equivalence.classes.block_sets import outright_sets
from equivalence.classes.colors import color_queries
from equivalence.classes.items import Items, read_items
from equivalence.classes.queries import find_queries
from equivalence.deadline import Deadline
from equivalence.errors import BudgetExceeded
from equivalence.network import Network
from equivalence.parser.absorption import absorbing_states
from equivalence.parser.automaton import Automaton
from equivalence.parser.byte_tables import ByteTables, call_ranks
from equivalence.parser.space import Space
from equivalence.trie import Trie
from equivalence.trie.nodes import nodes_of
from equivalence.trie.suffixes import mark_pending, strings_of
from equivalence.walks.follow import Follow, follow_of
from equivalence.walks.merging import Rounds
from equivalence.walks.outcomes import Walked, first_outcomes
from equivalence.walks.suffix_twins import rewrite_outcomes, twins_of
from equivalence.walks.walks import Walks

Integers = NDArray[np.int64]

DEFAULT_BYTES = 2**30
"""Bound on the memory of one computation. Real grammars use 5 to 40 MiB, and reserve up to 100 for relation
"acceptance" and up to 400 for "displacement". Compilations set a tighter bound."""


class Capacity(NamedTuple):
    """Limits of one computation of classes. Memory is only taken as it is needed.

    Attributes:
        configurations, nodes, outcomes, items: the maximum numbers of rows in the exploration's tables.
        bytes: the maximum memory of the grammar network, of all tables of exploration and partition, and of
            the result. When a table grows, its old and its new size are counted together. The first tables
            take about 4 MiB. Not counted: the vocabulary with its trie, Python's own objects, and temporary
            data while the network is built (bounded by states, at 1 KiB each).
    """

    configurations: int = 120_000
    nodes: int = 500_000
    outcomes: int = 500_000
    items: int = 500_000
    bytes: int = DEFAULT_BYTES


PHASE = "the exploration"
"""The name of this computation in errors."""

MANY_OUTCOMES = 512
"""If there are more outcomes than this, suffixes that behave alike are merged first. This turns 48,000
outcomes of an SQL-like grammar into a few hundred in 0.1 s. Coloring the 200 outcomes of a JSON schema takes
less time than merging them."""


FIRST_NODES, FIRST_LISTS = 2048, 1024
"""Initial room for frames; for configurations and outcomes."""


class Exploration(NamedTuple):
    """The data for the partition. Groups are those of the trie; there are B blocks.

    A *block* is (first byte, configuration after it). Contexts with the same configuration after the first
    byte of a token share a block.

    Attributes:
        walked: the blocks, and what their tokens do.
        queries, colors: the pairs (outcome, below set) that occur, and the color of each. 0: no stack accepts
            it; 1: every stack does; otherwise equal numbers mean equal sets of stacks.
        n_configurations, n_items, n_outcomes: sizes, for reports.
    """

    walked: Walked
    queries: Interned
    colors: Integers
    n_configurations: int
    n_items: int
    n_outcomes: int


def explore(
    network: Network,
    trie: Trie,
    *,
    displacement: bool = False,
    capacity: Capacity = Capacity(),
    deadline: Deadline | None = None,
) -> Exploration:
    """Find what all tokens of a trie do in all contexts of a network.

    Args:
        network: the grammar network.
        trie: the vocabulary's trie.
        displacement: also distinguish what tokens leave on the stack.
        capacity: bounds on all tables.
        deadline: when to give up. Compiled code checks it at each configuration, block and item.

    Raises:
        BudgetExceeded: more configurations, outcomes, items or bytes than `capacity` allows, or the deadline
            has passed.
    """
    with (deadline or Deadline()).stopping(PHASE) as stop:
        account = Account(stop, capacity.bytes, str(out_of_bytes(capacity)))
        automaton = Automaton(network.automaton)
        rank = call_ranks(automaton)
        byte_tables = ByteTables(automaton, rank, stop)
        follow = follow_of(network, byte_tables.first, stop)
        account.claim(network.nbytes + array_bytes(follow))
        # tables start small, because filling them takes time, and grow when necessary
        space = Space(
            automaton, byte_tables, rank, absorbing_states(automaton),
            min(FIRST_NODES, capacity.nodes),
            min(FIRST_LISTS, capacity.configurations), capacity.nodes, capacity.configurations, account,
            _excess(capacity),
        )  # fmt: skip
        return _explore(network, trie, follow, space, displacement, capacity)


def _explore(
    network: Network,
    trie: Trie,
    follow: Follow,
    space: Space,
    displacement: bool,
    capacity: Capacity,
) -> Exploration:
    account: Account = space.account
    below = network.below()
    outcomes = first_outcomes(
        min(FIRST_LISTS, capacity.outcomes), capacity.outcomes, account, _excess(capacity)
    )
    flat = (trie.nodes, trie.suffix_parent, trie.group_suffix, trie.longest)
    found = Walks(space, *flat, outcomes, displacement).walk_all(below.contexts, follow.contexts)
    if outcomes.count > MANY_OUTCOMES:
        twin = _suffix_twins(trie, follow, space, outcomes, displacement)
        outcomes = rewrite_outcomes(outcomes, twin, found.event_starts, found.events, account)
        account.claim(0, twin.nbytes)
    queries = find_queries(
        found.event_starts, found.events, outcomes.count, found.users, below.context_starts,
        below.context_below, account,
    )  # fmt: skip
    query_rows = queries.lists()[1].reshape(-1, 2)
    account.claim(query_rows.nbytes)
    suffixes = (trie.suffix_parent, trie.suffix_byte)
    items = Items(space, below, follow, suffixes, outcomes, displacement, capacity.items)
    read = read_items(query_rows, items)
    colors = color_queries(
        read.rows, query_rows, read.query_starts, read.item_starts, read.below_of_item, below.below_bottom,
        displacement, account,
    )  # fmt: skip
    account.claim(0, query_rows.nbytes)
    n_configurations: int = space.configurations.count
    return Exploration(
        found, queries, colors, n_configurations, len(read.below_of_item), outcomes.count
    )  # fmt: skip


def array_bytes(arrays: Any) -> int:
    """Bytes of all arrays in a tuple, including those in nested tuples."""
    if isinstance(arrays, np.ndarray):
        return arrays.nbytes
    return sum(map(array_bytes, arrays)) if isinstance(arrays, tuple) else 0


def out_of_bytes(capacity: Capacity) -> BudgetExceeded:
    """The error for tables that may not grow further."""
    return BudgetExceeded(
        f"the token classes need more than {capacity.bytes} bytes; raise Budget.bytes, or simplify "
        "the grammar"
    )


def _excess(capacity: Capacity) -> str:
    """The message of the error for too many rows."""
    return (
        f"the exploration needs more than {capacity.configurations} configurations, {capacity.nodes} "
        f"nodes, {capacity.outcomes} outcomes or {capacity.items} items; raise Budget.states, or "
        "simplify the grammar"
    )


def _suffix_twins(
    trie: Trie, follow: Follow, space: Space, outcomes: Interned, displacement: bool
) -> NDArray[np.int32]:
    """Find for each pending suffix one suffix that reads the same on every symbol; -1 for all other suffixes.

    The pending suffixes are walked like a small vocabulary. Thousands of them are words after a blank, and
    nearly all of these are one class of identifiers, for which walks skip whole subtrees. (Reading them one
    by one took 0.3 to 0.4 s on a C-like and an SQL-like grammar.)
    """
    account: Account = space.account
    wanted = np.zeros(len(trie.suffix_parent), np.uint8)
    seen = n_suffixes = n_blocks = n_users = n_sets = passing = 0
    rounds: list[Rounds] = []
    numbers: list[NDArray[np.int32]] = []
    while mark_pending(outcomes, seen, wanted, trie.suffix_parent):
        # walking these suffixes finds other pending suffixes, which are walked in the next round
        seen = outcomes.count
        data, offsets, suffixes = strings_of(trie.suffix_order, wanted, trie.suffix_parent, trie.suffix_byte)
        nodes = nodes_of(data, offsets)
        account.claim(nodes.nbytes)
        walks = Walks(space, nodes, trie.suffix_parent, suffixes, trie.longest, outcomes, displacement)
        walked = walks.walk_all(follow.symbols, follow.returns)
        before = account.taken
        range_sets, words = outright_sets(
            trie.suffix_byte[suffixes], walked.block_starts, walked.range_starts, walked.ranges, account
        )
        # the arrays that are kept are copied, and counted as part of the round
        account.claim(0, account.taken - before + walked.ranges.nbytes + walked.events.nbytes + nodes.nbytes)
        n_here = len(walked.event_starts) - 1
        numbers.append(suffixes)
        rounds.append(Rounds(
            trie.suffix_byte[suffixes], np.full(len(suffixes), len(rounds)), range_sets + np.int32(n_sets),
            words, walked.block_starts[None] + n_blocks, walked.user_starts[None] + n_users,
            walked.users + np.array([0, n_blocks]),
            np.repeat(np.arange(n_blocks, n_blocks + n_here), np.diff(walked.event_starts)),
            walked.events[: walked.event_starts[-1]] + np.array([n_suffixes, 0]),
        ))  # fmt: skip
        size = 2 * (array_bytes(rounds[-1]) + suffixes.nbytes)  # twice: they are copied to join the rounds
        account.claim(size)
        passing += size
        n_suffixes += len(suffixes)
        n_blocks += n_here
        n_users += len(walked.users)
        n_sets += len(words)
    if not rounds:  # many outcomes without pending suffixes: labels of a counter on long tokens
        twin = np.full(len(trie.suffix_parent), -1, np.int32)
        account.claim(twin.nbytes)
        return twin
    width = max(one.words.shape[1] for one in rounds)
    padded = [
        one._replace(words=np.pad(one.words, ((0, 0), (0, width - one.words.shape[1])))) for one in rounds
    ]
    joined = Rounds(*(np.concatenate(column) for column in zip(*padded, strict=True)))
    twin = twins_of(joined, np.concatenate(numbers), len(trie.suffix_parent), outcomes, account)
    account.claim(0, passing)
    return twin
