"""The exploration's tables grow without changing the result, and a cancelled exploration stops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import xgrammar

from equivalence import BudgetExceeded, Vocabulary
from equivalence.arrays.account import Account
from equivalence.arrays.interning import Interned
from equivalence.classes import explore as exploring
from equivalence.classes import items
from equivalence.classes.explore import Capacity, Exploration, explore
from equivalence.classes.partition import partition_runs
from equivalence.deadline import Deadline
from equivalence.network import Network, build_network
from equivalence.parser.absorption import absorbing_states
from equivalence.parser.automaton import Automaton
from equivalence.parser.byte_tables import byte_classes, byte_tables_of, call_ranks, first_classes
from equivalence.parser.space import Space
from equivalence.walks import suffix_twins
from equivalence.walks.follow import follow_of
from equivalence.walks.outcomes import first_outcomes
from equivalence.walks.walks import Walks
from tests.test_network_steps import stopped

GRAMMARS = {
    "nested": 'root ::= "(" root ")" | "[" root "]" | item\nitem ::= [a-z]+ | item "," item',
    "counted": 'root ::= "x"{2,9} [a-c]{3,70} (root | "é"*)',
    "left": 'root ::= root "+" part | part\npart ::= part "*" [0-9]+ | "(" root ")" | [0-9]+',
    "text": r'root ::= "\"" ([^"\\] | "\\" ["\\n])* "\"" (" " root)?',
}
PIECES = [
    "a", "b", "x", "xx", "(", "((", "([", "((((", ")", "))", "a)", ",", "a,b", "+", "1+", "1+(2", "é", "éa",
]  # fmt: skip
PIECES += ['"', 'a"', '" "', "\\\\", "\\n", "word", "xxxxx", "12", "*3", " ", '"word"']
TOKENS = [piece.encode() for piece in PIECES] + [b"\xc3", b"\xa9a", b"\xa9", b"a\xc3"]

SIZES: dict[Any, tuple[str, ...]] = {
    exploring: ("FIRST_NODES", "FIRST_LISTS"),
    items: ("FIRST_ITEMS", "FIRST_ROWS"),
    suffix_twins: ("FIRST_LISTS",),
}
"""Names of the constants for initial table sizes, by module."""

pytestmark = pytest.mark.kernels


def prepared(name: str) -> tuple[Network, Any, Any]:
    vocabulary = Vocabulary.from_bytes([*TOKENS, b""], stop_token_ids=[len(TOKENS)])
    grammar = xgrammar.Grammar.from_ebnf(GRAMMARS[name])
    network = build_network(grammar, token_bytes=vocabulary.trie.longest)
    return network, vocabulary.trie, network.automaton


class Walk(NamedTuple):
    """The result of a walk with its outcomes spelled out, and the tables that it used."""

    found: list[Any]
    space: Space
    class_of_byte: np.ndarray


def walked(
    network: Network, trie: Any, frames: int, configurations: int, outcomes: int, n_bytes: int = 1 << 40
) -> Walk:
    """Walk with tables of these initial sizes."""
    automaton = Automaton(network.automaton)
    rank = call_ranks(automaton)
    byte_tables = byte_tables_of(automaton, rank)
    follow = follow_of(network, byte_tables.first)
    account = Account(None, n_bytes, "the test has no bytes left")
    space = Space(
        automaton, tuple(byte_tables), rank, absorbing_states(automaton), frames, configurations,
        account=account,
    )  # fmt: skip
    known = first_outcomes(outcomes, 1 << 40, account, "too many outcomes")
    walks = Walks(space, trie.nodes, trie.suffix_parent, trie.group_suffix, trie.longest, known, False)
    walk = walks.walk_all(network.below().contexts, follow.contexts)
    starts, pool = known.lists()
    lists = [pool[starts[i] : starts[i + 1]].tolist() for i in range(known.count)]
    events = walk.events[: walk.event_starts[-1]]
    walk = walk._replace(ranges=walk.ranges[: walk.range_starts[-1]], events=events[:, :1])
    spelled = [array.tolist() for array in walk]
    return Walk([*spelled, [lists[outcome] for outcome in events[:, 1]]], space, byte_tables.class_of_byte)


@pytest.mark.parametrize("name", GRAMMARS)
def test_tables_grow(name: str) -> None:
    network, trie, _ = prepared(name)
    roomy = walked(network, trie, 4096, 4096, 4096)
    tight = walked(network, trie, 2, 2, 2)
    assert tight.found == roomy.found
    assert len(tight.space.known_steps()) > 4
    assert tight.space.configurations.count >= roomy.space.configurations.count


@pytest.mark.parametrize("name", GRAMMARS)
def test_known_loops_are_loops(name: str) -> None:
    """A byte on which a configuration is recorded to loop leads from the configuration to itself."""
    network, trie, _ = prepared(name)
    _, space, class_of_byte = walked(network, trie, 4096, 4096, 4096)
    facts, steps = space.known_facts(), space.known_steps()
    n_loops = 0
    for configuration in range(1, space.configurations.count):
        fact = facts[configuration]
        for byte in range(128):
            if (int(fact[f"loop_{byte >> 5}"]) >> (byte & 31)) & 1:
                n_loops += 1
                assert steps[configuration, class_of_byte[byte]] == configuration
        if fact.character_loop:
            for text in ("é", "\u0800", "中", "\U00010000", "\U00040000", "\U0010ffff"):
                at = configuration
                for byte in text.encode():
                    at = space.following(at, class_of_byte[byte])
                    assert space.known_facts()[at].label == 0
                assert at == configuration
    assert n_loops or name == "left"


@pytest.mark.parametrize("name", GRAMMARS)
def test_steps_are_the_same_in_any_order(name: str) -> None:
    """A step is also recorded for other classes. Where it is computed first must not matter."""
    network, _, net = prepared(name)
    automaton = Automaton(net)
    rank = call_ranks(automaton)
    tables = byte_tables_of(automaton, rank)
    up, down = (Space(automaton, tuple(tables), rank, absorbing_states(automaton), 64, 64) for _ in range(2))
    starts = [space.context_of(network.start, -1) for space in (up, down)]
    twin, todo = {0: 0, starts[0]: starts[1]}, [starts[0]]
    for configuration in todo:
        n_classes = len(tables.example)
        after = [up.following(configuration, one) for one in range(n_classes)]
        other = [down.following(twin[configuration], one) for one in reversed(range(n_classes))][::-1]
        for one, two in zip(after, other, strict=True):
            if one not in twin and len(twin) < 300:
                twin[one] = two
                todo.append(one)
            assert twin.get(one, two) == two
    facts = [space.known_facts() for space in (up, down)]
    for one, two in twin.items():
        assert (facts[0][one].label, facts[0][one].n_ports) == (facts[1][two].label, facts[1][two].n_ports)
    assert len(twin) > 5 and len(set(twin.values())) == len(twin)


def test_byte_classes_and_first() -> None:
    _, _, net = prepared("text")
    automaton = Automaton(net)
    class_of_byte, example = byte_classes(automaton)
    rank = call_ranks(automaton)
    first = first_classes(automaton, class_of_byte, len(example), rank, Account())
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


@pytest.mark.parametrize("name", GRAMMARS)
def test_follow(name: str) -> None:
    """The bytes that can come next are those that a computation with sets finds."""
    network, _, net = prepared(name)
    automaton = Automaton(net)
    first = byte_tables_of(automaton, call_ranks(automaton)).first
    found = follow_of(network, first)
    final, counted = net[0], net[5]
    sets = network.below()
    below: list[set[int]] = [set() for _ in sets.below_bottom]

    def own(symbol: int) -> set[int]:
        return set(np.flatnonzero(first[symbol if symbol >= 0 else counted[-1 - symbol, 0]]).tolist())

    def occurs(k: int) -> set[int]:
        symbol = int(sets.below_symbols[k])
        returns = symbol < 0 or final[symbol]
        return own(symbol) | (below[sets.below_of_symbol[k]] if returns else set())

    before = None
    while before != (before := sum(map(len, below))):
        for i, row in enumerate(below):
            for k in range(sets.below_starts[i], sets.below_starts[i + 1]):
                row |= occurs(k)
    assert [set(np.flatnonzero(row).tolist()) for row in found.below] == below
    n = len(sets.below_symbols)
    assert [set(np.flatnonzero(row).tolist()) for row in found.occurrences] == [occurs(k) for k in range(n)]
    assert np.array_equal(found.symbols[found.symbol_index], sets.below_symbols)
    for i, row in enumerate(found.returns):
        wanted: set[int] = set()
        for k in np.flatnonzero(found.symbol_index == i):
            wanted |= below[sets.below_of_symbol[k]]
        assert set(np.flatnonzero(row).tolist()) == wanted
    for i, row in enumerate(found.contexts):
        beneath = sets.context_below[sets.context_starts[i] : sets.context_starts[i + 1]]
        assert set(np.flatnonzero(row).tolist()) == set().union(*(below[k] for k in beneath))


def test_what_comes_before_a_walk_stops() -> None:
    network, _, net = prepared("nested")
    automaton = Automaton(net)
    rank = call_ranks(automaton)
    first = byte_tables_of(automaton, rank).first
    with pytest.raises(BudgetExceeded, match="this phase: a test"):
        byte_tables_of(automaton, rank, stopped())
    with pytest.raises(BudgetExceeded, match="this phase: a test"):
        follow_of(network, first, stopped())


def test_time_is_bounded() -> None:
    network, trie, _ = prepared("nested")
    with pytest.raises(BudgetExceeded, match="time limit was reached in this phase: the exploration"):
        explore(network, trie, deadline=Deadline(0.0))
    assert explore(network, trie, deadline=Deadline(60.0)).n_configurations > 1


@pytest.mark.parametrize("name", GRAMMARS)
def test_tables_stop_growing_where_the_bytes_end(name: str) -> None:
    network, trie, _ = prepared(name)
    roomy = walked(network, trie, 2, 2, 2)
    needed = roomy.space.account.taken
    outcome = []
    for part in (0.9, 0.95, 1.0, 1.5, 3.0):
        limited = within(int(part * needed), lambda n: walked(network, trie, 2, 2, 2, n))
        outcome.append(not isinstance(limited, str))
        if isinstance(limited, str):
            assert limited == "the test has no bytes left"
        else:
            assert limited.found == roomy.found and limited.space.account.taken <= int(part * needed)
    assert outcome == sorted(outcome) and not outcome[0] and outcome[-1]


def within(n_bytes: int, compute: Callable[[int], Any]) -> Any:
    """Compute something within a limit of bytes; return the result, or the message of the error."""
    try:
        return compute(n_bytes)
    except BudgetExceeded as error:
        return str(error)


def fields(found: Exploration) -> list[Any]:
    """The fields of an exploration, without the unused space after the last range and event."""
    used = found._replace(
        ranges=found.ranges[: found.range_starts[-1]],
        events=found.events[: found.event_starts[-1]],
        shared_tables=None,
    )
    plain = [one.lists()[1] if isinstance(one, Interned) else one for one in used]
    return [one.tolist() if isinstance(one, np.ndarray) else one for one in plain]


@pytest.mark.parametrize("many", [0, 1 << 40], ids=["twins", "no twins"])
@pytest.mark.parametrize("displacement", [False, True])
@pytest.mark.parametrize("name", GRAMMARS)
def test_first_sizes_change_nothing(
    name: str, displacement: bool, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, trie, _ = prepared(name)
    monkeypatch.setattr(exploring, "MANY_OUTCOMES", many)
    roomy = explore(network, trie, displacement=displacement)
    for module, names in SIZES.items():
        for one in names:
            monkeypatch.setattr(module, one, 1)
    assert fields(explore(network, trie, displacement=displacement)) == fields(roomy)


@pytest.mark.parametrize("displacement", [False, True])
@pytest.mark.parametrize("name", GRAMMARS)
def test_suffixes_that_read_alike_are_merged(
    name: str, displacement: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, trie, _ = prepared(name)
    plain = explore(network, trie, displacement=displacement)
    monkeypatch.setattr(exploring, "MANY_OUTCOMES", 0)
    merged = explore(network, trie, displacement=displacement)
    assert merged.n_outcomes <= plain.n_outcomes or displacement
    byte_starts = np.searchsorted(trie.first_byte, np.arange(257))
    runs = [partition_runs(found, network, trie, byte_starts) for found in (merged, plain)]
    one, other = (np.repeat(found.classes, np.diff(found.starts)).tolist() for found in runs)
    assert one == other


def test_every_table_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    network, trie, _ = prepared("nested")
    for module, names in SIZES.items():
        for one in names:
            monkeypatch.setattr(module, one, 1)
    for name in ("configurations", "nodes", "outcomes", "items"):
        with pytest.raises(BudgetExceeded, match=r"more than .* configurations, .* nodes, .* items; raise"):
            explore(network, trie, capacity=Capacity()._replace(**{name: 2}))
    found = explore(network, trie)
    enough = Capacity(found.n_configurations + 8, outcomes=found.n_outcomes + 8, items=found.n_items + 1)
    assert fields(explore(network, trie, capacity=enough)) == fields(found)


def test_the_bytes_of_the_network_count(monkeypatch: pytest.MonkeyPatch) -> None:
    network, trie, _ = prepared("nested")
    found = explore(network, trie)
    monkeypatch.setattr(Network, "nbytes", Capacity().bytes)
    with pytest.raises(BudgetExceeded):
        explore(network, trie)
    with pytest.raises(BudgetExceeded):
        partition_runs(found, network, trie, np.searchsorted(trie.first_byte, np.arange(257)))


@pytest.mark.parametrize("many", [0, 1 << 40], ids=["twins", "no twins"])
@pytest.mark.parametrize("name", GRAMMARS)
def test_bytes_are_a_bound_everywhere(name: str, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any table that needs more bytes than are left raises the error; with enough bytes, the result is the
    same."""
    network, trie, _ = prepared(name)
    monkeypatch.setattr(exploring, "MANY_OUTCOMES", many)
    for module, names in SIZES.items():
        for one in names:
            monkeypatch.setattr(module, one, 1)
    found = fields(explore(network, trie))
    low, high = 0, 1 << 26
    assert fields(explore(network, trie, capacity=Capacity(bytes=high))) == found
    while high - low > 64:
        middle = (low + high) // 2
        limited = within(middle, lambda n: explore(network, trie, capacity=Capacity(bytes=n)))
        if isinstance(limited, str):
            assert f"need more than {middle} bytes" in limited
            low = middle
        else:
            assert fields(limited) == found
            high = middle
    for n_bytes in range(0, low, max(low // 40, 1)):
        with pytest.raises(BudgetExceeded, match=f"need more than {n_bytes} bytes"):
            explore(network, trie, capacity=Capacity(bytes=n_bytes))
