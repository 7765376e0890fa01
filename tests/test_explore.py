"""The exploration's tables: they grow without changing what is found, and stop when they are asked to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xgrammar

from equivalence import BudgetExceeded, Vocabulary, _kernels
from equivalence.arrays.account import Account
from equivalence.deadline import Deadline, Stop
from equivalence.explore import Capacity, _flat, explore
from equivalence.follow import follow_of
from equivalence.network import Network, build_network
from equivalence.parser.automaton import Automaton
from equivalence.parser.byte_tables import byte_classes, byte_tables_of, call_ranks, first_classes

GRAMMARS = {
    "nested": 'root ::= "(" root ")" | "[" root "]" | item\nitem ::= [a-z]+ | item "," item',
    "counted": 'root ::= "x"{2,9} [a-c]{3,70} (root | "é"*)',
    "left": 'root ::= root "+" part | part\npart ::= part "*" [0-9]+ | "(" root ")" | [0-9]+',
    "text": r'root ::= "\"" ([^"\\] | "\\" ["\\n])* "\"" (" " root)?',
}
PIECES = [
    "a",
    "b",
    "x",
    "xx",
    "(",
    "((",
    "([",
    "((((",
    ")",
    "))",
    "a)",
    ",",
    "a,b",
    "+",
    "1+",
    "1+(2",
    "é",
    "éa",
]
PIECES += ['"', 'a"', '" "', "\\\\", "\\n", "word", "xxxxx", "12", "*3", " ", '"word"']
TOKENS = [piece.encode() for piece in PIECES] + [b"\xc3", b"\xa9a", b"\xa9", b"a\xc3"]

pytestmark = pytest.mark.kernels


def prepared(name: str) -> tuple[Network, Any, Any]:
    vocabulary = Vocabulary.from_bytes([*TOKENS, b""], stop_token_ids=[len(TOKENS)])
    grammar = xgrammar.Grammar.from_ebnf(GRAMMARS[name])
    network = build_network(grammar, token_bytes=vocabulary.trie.longest)
    return network, vocabulary.trie, network.automaton


def stopped() -> Stop:
    """A phase that was told to stop."""
    deadline = Deadline()
    deadline.cancel()
    stop = Stop(deadline, "the test")
    stop.cell[0] = 1
    return stop


def walked(
    network: Network, trie: Any, frames: int, configurations: int, outcomes: int, n_bytes: int | None = None
) -> Any:
    """What a walk finds from tables of these first sizes; None where the bytes do not suffice."""
    net = network.automaton
    automaton = Automaton(net)
    rank = call_ranks(automaton)
    byte_tables = byte_tables_of(automaton, rank)
    space = _kernels.new_space(net, *byte_tables, rank, frames, configurations)
    follow = follow_of(network, byte_tables.first)
    status, space, known, *found = _kernels.walk_all(
        network.contexts, follow.contexts, _flat(trie), space, net, False,
        _kernels.first_outcomes(outcomes), Capacity() if n_bytes is None else Capacity(bytes=n_bytes),
    )  # fmt: skip
    if status and n_bytes is not None:
        assert space.state[_kernels.OUT_OF_BYTES]
        return None
    assert status == 0
    block_starts, user_starts, users, range_starts, ranges, event_starts, events = found
    lists = [known.pool[known.starts[i] : known.starts[i + 1]].tolist() for i in range(int(known.counts[0]))]
    spelled = [(int(group), lists[outcome]) for group, outcome in events[: event_starts[-1]]]
    return (
        block_starts.tolist(), user_starts.tolist(), users.tolist(), range_starts.tolist(),
        ranges[: range_starts[-1]].tolist(), event_starts.tolist(), spelled, space,
    )  # fmt: skip


@pytest.mark.parametrize("name", GRAMMARS)
def test_tables_grow(name: str) -> None:
    network, trie, _ = prepared(name)
    *roomy, space = walked(network, trie, 4096, 4096, 4096)
    *tight, grown = walked(network, trie, 2, 2, 2)
    assert tight == roomy
    assert grown.steps.shape[0] > 4
    assert grown.configs.counts[0] >= space.configs.counts[0]


@pytest.mark.parametrize("name", GRAMMARS)
def test_known_loops_are_loops(name: str) -> None:
    """What a configuration is noted to loop on leads it to itself."""
    network, trie, net = prepared(name)
    *_, space = walked(network, trie, 4096, 4096, 4096)
    n_loops = 0
    for config in range(1, int(space.configs.counts[0])):
        for byte in range(128):
            if (int(space.facts[config, byte >> 5]) >> (byte & 31)) & 1:
                n_loops += 1
                assert space.steps[config, space.class_of_byte[byte]] == config
        if space.facts[config, _kernels.CHARACTER_LOOP]:
            for text in ("é", "\u0800", "中", "\U00010000", "\U00040000", "\U0010ffff"):
                at = config
                for byte in text.encode():
                    step = int(space.steps[at, space.class_of_byte[byte]])
                    at = (
                        step if step >= 0 else _kernels.step_config(at, space.class_of_byte[byte], space, net)
                    )
                    assert space.facts[at, _kernels.LABEL] == 0
                assert at == config
    assert n_loops or name == "left"


def test_byte_classes_and_first() -> None:
    _, _, net = prepared("text")
    automaton = Automaton(net)
    class_of_byte, example = byte_classes(automaton)
    rank = call_ranks(automaton)
    first, alike = first_classes(automaton, class_of_byte, len(example), rank, Account())
    assert class_of_byte[example].tolist() == list(range(len(example)))
    final, edge_starts, edges, call_starts, calls, counted = net

    def reads(state: int, byte: int) -> frozenset[tuple[int, ...]]:
        """Targets of a byte, each with the return states of the calls that lead to its edge."""
        found: set[tuple[int, ...]] = {
            (int(edges[k, 2]),)
            for k in range(edge_starts[state], edge_starts[state + 1])
            if edges[k, 0] <= byte <= edges[k, 1]
        }
        for k in range(call_starts[state], call_starts[state + 1]):
            callee = int(calls[k, 0])
            start = callee if callee >= 0 else int(counted[-1 - callee, 0])
            assert rank[start] < rank[state]
            found |= {(*path, int(calls[k, 1])) for path in reads(start, byte)}
        return frozenset(found)

    for state in range(len(final)):
        for byte in range(256):
            number = class_of_byte[byte]
            assert reads(state, byte) == reads(state, int(example[number]))
            assert bool(reads(state, byte)) == bool(first[state, number])
            if number and alike[state, number]:
                assert reads(state, byte) == reads(state, int(example[number - 1]))


@pytest.mark.parametrize("name", GRAMMARS)
def test_follow(name: str) -> None:
    """What can come next, spelled out with sets."""
    network, _, net = prepared(name)
    automaton = Automaton(net)
    first = byte_tables_of(automaton, call_ranks(automaton)).first
    found = follow_of(network, first)
    final, counted = net[0], net[5]
    below: list[set[int]] = [set() for _ in network.below_bottom]

    def own(symbol: int) -> set[int]:
        return set(np.flatnonzero(first[symbol if symbol >= 0 else counted[-1 - symbol, 0]]).tolist())

    def occurs(k: int) -> set[int]:
        symbol = int(network.below_symbols[k])
        returns = symbol < 0 or final[symbol]
        return own(symbol) | (below[network.below_of_symbol[k]] if returns else set())

    before = None
    while before != (before := sum(map(len, below))):
        for i, row in enumerate(below):
            for k in range(network.below_starts[i], network.below_starts[i + 1]):
                row |= occurs(k)
    assert [set(np.flatnonzero(row).tolist()) for row in found.below] == below
    n = len(network.below_symbols)
    assert [set(np.flatnonzero(row).tolist()) for row in found.occurrences] == [occurs(k) for k in range(n)]
    assert np.array_equal(found.symbols[found.symbol_index], network.below_symbols)
    for i, row in enumerate(found.returns):
        wanted: set[int] = set()
        for k in np.flatnonzero(found.symbol_index == i):
            wanted |= below[network.below_of_symbol[k]]
        assert set(np.flatnonzero(row).tolist()) == wanted
    for i, row in enumerate(found.contexts):
        sets = network.context_below[network.context_starts[i] : network.context_starts[i + 1]]
        assert set(np.flatnonzero(row).tolist()) == set().union(*(below[k] for k in sets))


def test_what_comes_before_a_walk_stops() -> None:
    network, _, net = prepared("nested")
    automaton = Automaton(net)
    rank = call_ranks(automaton)
    first = byte_tables_of(automaton, rank).first
    with pytest.raises(BudgetExceeded, match="cancelled in the test"):
        byte_tables_of(automaton, rank, stopped())
    with pytest.raises(BudgetExceeded, match="cancelled in the test"):
        follow_of(network, first, stopped())


def test_arrays_of_another_kind_are_refused() -> None:
    network, _, net = prepared("counted")
    automaton = Automaton(net)
    with pytest.raises((TypeError, ValueError)):
        byte_tables_of(net, call_ranks(automaton))
    with pytest.raises((TypeError, ValueError)):
        Automaton((net[0], net[1].astype(np.int32), *net[2:]))
    with pytest.raises((TypeError, ValueError)):
        follow_of(network, byte_tables_of(automaton, call_ranks(automaton)).first.astype(np.int64))


def test_time_is_bounded() -> None:
    network, trie, _ = prepared("nested")
    with pytest.raises(BudgetExceeded, match="seconds were used up in the exploration"):
        explore(network, trie, deadline=Deadline(0.0))
    assert explore(network, trie, deadline=Deadline(60.0)).n_configurations > 1


def test_capacity_is_a_bound() -> None:
    network, trie, _ = prepared("nested")
    with pytest.raises(BudgetExceeded, match="more than 3 configurations"):
        explore(network, trie, capacity=Capacity(configurations=3))
    found = explore(network, trie)
    enough = Capacity(configurations=found.n_configurations + 8)
    assert np.array_equal(explore(network, trie, capacity=enough).colors, found.colors)


@pytest.mark.parametrize("name", GRAMMARS)
def test_tables_stop_growing_where_the_bytes_end(name: str) -> None:
    network, trie, _ = prepared(name)
    *roomy, space = walked(network, trie, 2, 2, 2)
    needed = int(space.state[_kernels.TAKEN])
    outcome = []
    for part in (0.9, 0.95, 1.0, 1.5, 3.0):
        limited = walked(network, trie, 2, 2, 2, int(part * needed))
        outcome.append(limited is not None)
        assert limited is None or list(limited[:-1]) == roomy
    assert outcome == sorted(outcome) and not outcome[0] and outcome[-1]
