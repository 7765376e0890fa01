"""The exploration's tables grow without changing the result, and a cancelled exploration stops."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import xgrammar

from equivalence import BudgetExceeded, Vocabulary
from equivalence.arrays.account import Account
from equivalence.arrays.interning import Interned
from equivalence.classes.explore import Capacity, Exploration, explore
from equivalence.classes.partition import partition_runs
from equivalence.deadline import Deadline
from equivalence.network import Network, build_network
from equivalence.parser.absorption import absorbing_states
from equivalence.parser.automaton import Automaton
from equivalence.parser.byte_tables import ByteTables, call_ranks
from equivalence.parser.space import Space
from equivalence.trie import Trie
from equivalence.walks.follow import follow_of
from equivalence.walks.follow_sets import follow_sets_of
from equivalence.walks.outcomes import first_outcomes
from equivalence.walks.walks import Walks
from tests.limits import stopped, within

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

SIZES = (
    "classes.explore.FIRST_NODES", "classes.explore.FIRST_LISTS", "classes.items.FIRST_ITEMS",
    "classes.items.FIRST_ROWS", "walks.merging.FIRST_LISTS", "walks.suffix_twins.FIRST_LISTS",
    "walks.walks.FIRST_ROWS",
)  # fmt: skip
"""Names of the constants for initial table sizes."""

MANY = (0, 1 << 40)
"""From how many outcomes on suffixes that behave alike are merged: always, and never."""

pytestmark = pytest.mark.kernels


@cache
def prepared(name: str) -> tuple[Network, Trie, Automaton]:
    vocabulary = Vocabulary.from_bytes([*TOKENS, b""], stop_token_ids=[len(TOKENS)])
    grammar = xgrammar.Grammar.from_ebnf(GRAMMARS[name])
    network = build_network(grammar, token_bytes=vocabulary.trie.longest)
    return network, vocabulary.trie, Automaton(network.automaton)


@pytest.fixture
def tight_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all tables begin with room for one row."""
    for name in SIZES:
        monkeypatch.setattr(f"equivalence.{name}", 1)


def byte_starts(trie: Trie) -> np.ndarray:
    return np.searchsorted(trie.first_byte, np.arange(257))


@pytest.mark.parametrize("name", GRAMMARS)
def test_steps_and_loops(name: str) -> None:
    """A step is also recorded for other classes, and loops are recorded apart. Where a step is computed first
    must not matter, and a loop leads from a configuration to itself."""
    network, trie, automaton = prepared(name)
    rank = call_ranks(automaton)
    tables = ByteTables(automaton, rank)
    up, down = (Space(automaton, tables, rank, absorbing_states(automaton), 64, 64) for _ in range(2))
    outcomes = first_outcomes(64, 1 << 40, Account(), "too many outcomes")
    parts = trie.suffix_parent, trie.group_suffix, trie.longest, outcomes, False
    walks = Walks(up, trie.nodes, *parts)
    contexts, firsts = network.below().contexts, follow_of(network, tables.first).contexts
    for wrong in (firsts[:, :-1].copy(), firsts[:-1]):
        with pytest.raises(ValueError):
            walks.walk_all(contexts, wrong)
    with pytest.raises(ValueError):
        Walks(up, trie.nodes[:, :4].copy(), *parts)
    walks.walk_all(contexts, firsts)  # records loops
    starts = [space.context_of(network.start) for space in (up, down)]
    twin, todo = {0: 0, starts[0]: starts[1]}, [starts[0]]
    for configuration in todo:
        n_classes = tables.n_classes
        after = [up.following(configuration, one) for one in range(n_classes)]
        other = [down.following(twin[configuration], one) for one in reversed(range(n_classes))][::-1]
        for one, two in zip(after, other, strict=True):
            if one not in twin and len(twin) < 300:
                twin[one] = two
                todo.append(one)
            assert twin.get(one, two) == two
    assert len(twin) > 5 and len(set(twin.values())) == len(twin)
    facts, other_facts = up.known_facts(), down.known_facts()
    for one, two in twin.items():
        assert (facts[one].label, facts[one].n_ports) == (other_facts[two].label, other_facts[two].n_ports)
    n_loops = 0
    for one in range(1, up.configurations.count):
        fact = facts[one]
        for byte in range(128):
            if int(fact[f"loop_{byte >> 6}"]) >> (byte & 63) & 1:
                n_loops += 1
                assert up.following(one, tables.class_of_byte[byte]) == one
        for text in ("é", "\u0800", "中", "\U00010000", "\U00040000", "\U0010ffff"):
            at = one
            for byte in text.encode() if fact.character_loop else b"":
                at = up.following(at, tables.class_of_byte[byte])
                assert up.known_facts()[at].label == 0
            assert at == one
    assert n_loops or name == "left"


MANY_CLASSES = """root ::= part | TagDispatch(("<", part), loop_after_dispatch=false) | root2{2,9}
root2 ::= part "!" | part root2
part ::= """ + " | ".join(
    [f'[\\x{33 + i:02x}-\\x{126 - i:02x}] "{chr(97 + i % 26)}{i}"' for i in range(46)]
    + [f'[\\u{0x80 + i:04x}-\\u{0xFF - i:04x}] "{i}"' for i in range(64)]
)  # fmt: skip
"""Has more than 128 classes of bytes, and states that can read any byte."""


@pytest.mark.parametrize("grammar", [*GRAMMARS.values(), MANY_CLASSES])
def test_states_can_read_what_their_edges_and_calls_can(grammar: str) -> None:
    network = build_network(xgrammar.Grammar.from_ebnf(grammar), token_bytes=8)
    _, edge_starts, edges, call_starts, calls, counted = network.automaton[:6]
    automaton = Automaton(network.automaton)
    tables = ByteTables(automaton, call_ranks(automaton))

    @cache
    def readable(state: int) -> frozenset[int]:
        bytes_: set[int] = set()
        for low, high, _ in edges[edge_starts[state] : edge_starts[state + 1]].tolist():
            bytes_ |= set(range(low, high + 1))
        for callee, _ in calls[call_starts[state] : call_starts[state + 1]].tolist():
            bytes_ |= readable(callee if callee >= 0 else int(counted[-1 - callee, 0]))
        return frozenset(bytes_)

    wanted = [[byte in readable(state) for byte in range(256)] for state in range(network.n_states)]
    assert (tables.first[:, tables.class_of_byte] == wanted).all()
    assert (tables.n_classes > 128) == (grammar == MANY_CLASSES)


@pytest.mark.parametrize("name", GRAMMARS)
def test_follow_sets_have_what_can_be_read_below_contexts(name: str) -> None:
    """Here what can be read is computed for each below set; follow sets unite what lies below a symbol."""
    network, _, automaton = prepared(name)
    first, n = ByteTables(automaton, call_ranks(automaton)).first, network.n_states
    final, counted, below = network.automaton[0], network.automaton[5], network.below()
    begins = [symbol if symbol >= 0 else counted[-1 - symbol, 0] for symbol in below.below_symbols.tolist()]
    occurrences = [range(*ends) for ends in pairwise(below.below_starts.tolist())]
    on_set, before = np.zeros((len(occurrences), first.shape[1]), np.uint8), None
    while before is None or not np.array_equal(on_set, before):
        before = on_set.copy()
        for own, k in [(own, k) for own, some in enumerate(occurrences) for k in some]:
            on_set[own] |= first[begins[k]]
            if below.below_symbols[k] < 0 or final[begins[k]]:
                on_set[own] |= on_set[below.below_of_symbol[k]]
    expected = np.zeros((n + len(counted), first.shape[1]), np.uint8)
    place = np.where(below.below_symbols >= 0, below.below_symbols, n - 1 - below.below_symbols)
    np.maximum.at(expected, place, on_set[below.below_of_symbol])
    sets = np.split(below.context_below, below.context_starts[1:-1])
    follow = follow_of(network, first)
    for symbol, some_sets, found in zip(below.contexts.tolist(), sets, follow.contexts, strict=True):
        exact = np.bitwise_or.reduce(on_set[some_sets], axis=0)
        assert (found >= exact).all()
        expected[symbol if symbol >= 0 else n - 1 - symbol] |= exact
    np.maximum.at(expected, counted[:, 0], first[counted[:, 0]] | expected[n:])
    assert np.array_equal(follow_sets_of(network, first), expected)
    assert (follow.below >= on_set).all()


def test_what_comes_before_a_walk_stops() -> None:
    network, _, automaton = prepared("nested")
    rank = call_ranks(automaton)
    first = ByteTables(automaton, rank).first
    with pytest.raises(BudgetExceeded, match="this phase: a test"):
        ByteTables(automaton, rank, stopped())
    with pytest.raises(BudgetExceeded, match="this phase: a test"):
        follow_of(network, first, stopped())
    with pytest.raises(BudgetExceeded, match="this phase: a test"):
        follow_sets_of(network, first, stopped())


def test_time_is_bounded() -> None:
    network, trie, _ = prepared("nested")
    with pytest.raises(BudgetExceeded, match="time limit was reached in this phase: the exploration"):
        explore(network, trie, deadline=Deadline(0.0))
    assert explore(network, trie, deadline=Deadline(60.0)).n_configurations > 1


def fields(found: Exploration) -> list[Any]:
    """The fields of an exploration, without the unused space after the last range and event."""
    walked = found.walked
    used = walked._replace(
        ranges=walked.ranges[: walked.range_starts[-1]], events=walked.events[: walked.event_starts[-1]]
    )
    plain = [one.lists()[1] if isinstance(one, Interned) else one for one in (*used, *found[1:])]
    return [one.tolist() if isinstance(one, np.ndarray) else one for one in plain]


@pytest.mark.parametrize("displacement", [False, True])
@pytest.mark.parametrize("name", GRAMMARS)
def test_first_sizes_and_merged_suffixes_change_nothing(
    name: str, displacement: bool, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    network, trie, _ = prepared(name)

    def explored(many: int) -> Exploration:
        monkeypatch.setattr("equivalence.classes.explore.MANY_OUTCOMES", many)
        return explore(network, trie, displacement=displacement)

    merged, plain = map(explored, MANY)
    assert merged.n_outcomes <= plain.n_outcomes or displacement
    runs = [partition_runs(found, network, trie, byte_starts(trie)) for found in (merged, plain)]
    one, other = (np.repeat(found.classes, np.diff(found.starts)).tolist() for found in runs)
    assert one == other
    request.getfixturevalue("tight_tables")
    assert [fields(found) for found in map(explored, MANY)] == [fields(merged), fields(plain)]


@pytest.mark.usefixtures("tight_tables")
def test_every_table_is_bounded() -> None:
    network, trie, _ = prepared("nested")
    for name in ("configurations", "nodes", "outcomes", "items"):
        with pytest.raises(BudgetExceeded, match=r"more than .* configurations, .* nodes, .* items; raise"):
            explore(network, trie, capacity=Capacity()._replace(**{name: 2}))
    found = explore(network, trie)
    enough = Capacity(found.n_configurations + 8, outcomes=found.n_outcomes + 8, items=found.n_items + 1)
    assert fields(explore(network, trie, capacity=enough)) == fields(found)


def test_the_bytes_of_a_partition_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    network, trie, _ = prepared("nested")
    found = explore(network, trie)

    def limited(n_bytes: int) -> Any:
        return partition_runs(found, network, trie, byte_starts(trie), capacity=Capacity(bytes=n_bytes))

    enough = limited(1 << 30)
    outcomes = [within(1 << shift, limited) for shift in range(10, 30)]
    fits = [not isinstance(one, str) for one in outcomes]
    assert not fits[0] and fits[-1] and fits == sorted(fits), "more bytes are never too few"
    assert all(map(np.array_equal, outcomes[fits.index(True)], enough))
    monkeypatch.setattr(Network, "nbytes", Capacity().bytes)  # the network's bytes count, too
    for compute in (lambda: explore(network, trie), lambda: limited(Capacity().bytes)):
        with pytest.raises(BudgetExceeded):
            compute()


@pytest.mark.usefixtures("tight_tables")
@pytest.mark.parametrize("many", MANY, ids=["twins", "no twins"])
@pytest.mark.parametrize("name", GRAMMARS)
def test_bytes_are_a_bound_everywhere(name: str, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any table that needs more bytes than are left raises the error; with enough bytes, the result is the
    same."""
    network, trie, _ = prepared(name)
    monkeypatch.setattr("equivalence.classes.explore.MANY_OUTCOMES", many)

    def limited(n_bytes: int) -> Exploration:
        return explore(network, trie, capacity=Capacity(bytes=n_bytes))

    found = fields(explore(network, trie))
    low, high = 0, 1 << 26
    assert fields(limited(high)) == found
    while high - low > 64:
        middle = (low + high) // 2
        outcome = within(middle, limited)
        if isinstance(outcome, str):
            assert f"need more than {middle} bytes" in outcome
            low = middle
        else:
            assert fields(outcome) == found
            high = middle
    for n_bytes in range(0, low, max(low // 20, 1)):
        with pytest.raises(BudgetExceeded, match=f"need more than {n_bytes} bytes"):
            limited(n_bytes)
