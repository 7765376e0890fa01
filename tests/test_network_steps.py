"""The steps of a network, each through its own interface: integers, edges, automata, below sets.

Limits: `tests.test_network` checks that the steps together keep the language of a grammar.
"""

from __future__ import annotations

import itertools
import random
import re
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import xgrammar
from hypothesis import given, settings

from equivalence.deadline import Deadline, Stop
from equivalence.errors import BudgetExceeded, GrammarError, UnsupportedGrammar
from equivalence.network import Network, below_of, build_network, dialect, edge_types, serial
from equivalence.network.grammar_reader import integers_of
from equivalence.network.pipeline import NetworkPipeline
from equivalence.parser.automaton import Automaton
from equivalence.parser.byte_tables import ByteTables, call_ranks
from equivalence.walks.follow_sets import follow_sets_of
from tests.limits import a_stop, stopped
from tests.random_grammars import GrammarCase, grammar_cases
from tests.test_characters import reads
from tests.versions import strict_classes

pytestmark = pytest.mark.kernels

BYTES, CLASS, STAR, EMPTY, RULE, SEQUENCE, CHOICES, TAGS, REPEAT = range(9)


class Steps(NamedTuple):
    """The automata of some rules, and what they call."""

    edges: Any
    counted: Any
    reachable: Any


def begun(
    data: Any, starts: Any, bodies: Any, *, max_states: int = 1000, ready: Any = None,
    n_states: int | None = None, stop: Stop | None = None,
) -> NetworkPipeline:  # fmt: skip
    """The first steps for some rules, of which rule 0 is the root."""
    n_states = 2 * len(bodies) if n_states is None else n_states
    making = NetworkPipeline()
    making.begin(data, starts, bodies, 0, max_states, ready, n_states, stop or a_stop(), False)
    return making


def ready_made(edges: Any, n_rules: int, n_states: int, **options: Any) -> NetworkPipeline:
    """The first steps for rules whose automata there are already."""
    none = np.zeros(0, np.int64)
    return begun(none, none, np.full(n_rules, -1), ready=np.array(edges), n_states=n_states, **options)


def automata(*rules: list[int], parts: tuple[list[int], ...] = (), **options: Any) -> Steps:
    """Build the automata of rules, each a single expression (type, body ...); `parts` are numbered after
    them."""
    data: list[int] = []
    starts: list[int] = []
    for kind, *body in (*rules, *parts):
        starts.append(len(data))
        data += [kind, len(body), *body]
    making = begun(np.array(data), np.array(starts), np.arange(len(rules)), **options)
    _, edges, *_ = making.left_recursive()
    return Steps(edges, making.counted_rules()[0], making.is_reached())


@pytest.mark.parametrize("values", [[], [0], [-1, 12, 345678901234], list(range(-300, 300))])
def test_integers_are_read(values: list[int]) -> None:
    found = integers_of(",".join(map(str, values)))
    assert found.tolist() == values
    assert found.dtype == np.int64


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of numpy, at the first text that is no integer
@pytest.mark.parametrize("text", ["x", "1,x", "1,,2", "1,2.5,3"])
def test_what_is_no_integer_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"not an integer|unmatched data"):
        integers_of(text)


# --- Edges -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("edge", [[4, 0, 0, 0, 0], [-1, 0, 0, 0, 0], [0, 0, 0, 0, 4], [0, 0, 0, 0, -1]])
def test_edges_between_states_that_are_not_there(edge: list[int]) -> None:
    with pytest.raises(IndexError, match="edge 1"):
        ready_made([[0, 0, 0, 0, 1], edge], 1, 4)


@strict_classes
@pytest.mark.parametrize("n_ranges", [1, 16, 17, 33, 100, 3000])
def test_many_ranges_in_any_order(n_ranges: int) -> None:
    """There are more ranges than the initial tables have room for, and they are not sorted."""
    lows = list(range(0x100, 0x100 + 4 * n_ranges, 4))
    random.Random(0).shuffle(lows)
    body = [code for low in (*lows, *lows[:3]) for code in (low, low + 1)]
    taken, others = (automata([CLASS, negative, *body]).edges for negative in (0, 1))
    assert len(taken) > n_ranges
    for low in lows if n_ranges <= 100 else lows[:3]:
        code = low + random.Random(low).randrange(2)
        assert reads(taken, chr(code).encode())
        assert not reads(others, chr(code).encode())
        assert reads(others, chr(code + 2).encode())


@pytest.mark.parametrize(("low", "high"), [(0x62, 0x61), (0x141, 0x85), (0x100, 0x85), (0x4E01, 0x4000)])
def test_a_range_that_ends_before_it_begins_is_empty(low: int, high: int) -> None:
    """A grammar that was not made by XGrammar's parsers may have one."""
    edges = automata([CLASS, 0, low, high]).edges
    for code in {high - 1, high, high + 1, (low + high) // 2, low - 1, low, low + 1}:
        assert not reads(edges, chr(code).encode())


def test_constants_for_compiled_code_are_those_of_the_modules() -> None:
    for module in (serial, edge_types):
        declared = Path(str(module.__file__)).with_suffix(".pxd").read_text(encoding="utf-8")
        value, names = 0, re.findall(r"(\w+)(?: = (\d+))?[,\n]", declared.partition("\n")[2])
        assert names
        for name, written in names:
            value = int(written or value)
            assert value == getattr(module, name), name
            value += 1


# --- Automata ----------------------------------------------------------------------------------------------


def test_repeats_with_equal_bounds_are_one_counted_rule() -> None:
    repeats = [REPEAT, 1, 2, 9], [REPEAT, 1, 4, -1], [REPEAT, 1, 0, 3], [REPEAT, 1, 5, 9]
    made = automata([SEQUENCE, 2, 3, 2, 4, 5], [BYTES, 97], parts=repeats)
    # the last expression is processed first
    assert made.counted.tolist() == [[1, 5, 9], [1, 2, 9], [1, 4, -1]]
    called = made.edges[made.edges[:, 1] == 2][:, 2]
    assert sorted(called.tolist()) == [1, 1, 1, 2, 3, 3, 4]
    assert made.reachable.tolist() == [1, 1]


def test_more_counted_rules_than_there_is_room_for_at_first() -> None:
    repeats = tuple([REPEAT, 1, 0, 9 + i] for i in range(500))
    made = automata([SEQUENCE, *range(2, 502)], [BYTES, 97], parts=repeats)
    assert made.counted[::-1].tolist() == [[1, 0, 9 + i] for i in range(500)]


@pytest.mark.parametrize(
    ("rule", "error", "named"),
    [
        # a number that no expression or rule has
        ([SEQUENCE, 1], IndexError, None), ([SEQUENCE, -1], IndexError, None),
        ([CHOICES, 9], IndexError, None), ([REPEAT, 3, 0, 9], IndexError, None),
        ([RULE, 1], IndexError, None), ([RULE, -1], IndexError, None), ([RULE, 1 << 40], IndexError, None),
        # a type that is not supported, one that does not exist, and no code point
        ([10], UnsupportedGrammar, "excluded tokens"), ([99], UnsupportedGrammar, "expression type 99"),
        ([CLASS, 0, -5, 7], GrammarError, "-5"),
        # parts that would be requested again and again, until there is no memory
        ([CHOICES, 0, 0], GrammarError, "contains itself"),
        ([SEQUENCE, 0, 0], GrammarError, "contains itself"),
    ],
)  # fmt: skip
def test_expressions_that_are_refused(rule: list[int], error: type[Exception], named: str | None) -> None:
    with pytest.raises(error, match=named):
        automata(rule)


def test_expressions_that_end_early() -> None:
    for data in ([BYTES, 5, 97], [CLASS], [REPEAT, 3, 0]):
        with pytest.raises(IndexError):
            begun(np.array(data), np.zeros(1, np.int64), np.zeros(1, np.int64))


def test_too_many_states() -> None:
    with pytest.raises(BudgetExceeded, match="more than 10 states"):
        automata([SEQUENCE, 1, 1], parts=([BYTES, *[97] * 20],), max_states=10)


def test_an_expression_that_holds_itself_ends_with_the_deadline() -> None:
    with pytest.raises(BudgetExceeded, match="a test"):
        automata([CHOICES, 0], stop=a_stop(0.05))


def test_whether_rules_may_be_empty_is_not_found_out_too_late() -> None:
    with pytest.raises(BudgetExceeded, match="a test"):
        ready_made([[0, 1, 97, 97, 1]], 1, 2, stop=stopped())


# --- The whole ---------------------------------------------------------------------------------------------


def test_a_serialised_grammar_that_refers_to_what_is_not_there() -> None:
    features: dict[str, Any] = {
        "rules": [["root", 0, -1, False, -1, -1, "", False, None]],
        "suffix_stop_infos": [],
        "grammar_expr_data": [SEQUENCE, 1, 7],
        "grammar_expr_indptr": [0],
        "root_rule_id": 0,
        "__VERSION__": dialect.LAYOUT,
    }
    with pytest.raises(IndexError):
        build_network(features, token_bytes=8)


def test_calls_and_subsets_that_outgrow_the_first_room() -> None:
    # whether the tenth step from the end is "a"; a step is a letter or a call of rule 1, which is not copied
    path = [0, *range(4, 13), 1]
    edges = [(0, 1, 97, 98, 0), (0, 2, 1, 0, 0), (0, 1, 97, 97, 4)]
    for source, target in itertools.pairwise(path[1:]):
        edges += [(source, 1, 97, 98, target), (source, 2, 1, 0, target)]
    edges += [(2, 1, 48, 90, 2), (2, 1, 97, 97, 3)]
    making = ready_made(edges, 2, 13, max_states=2000)
    (final, edge_starts, _, call_starts, calls, _), _, _ = making.merge(8)
    # the subsets, and two states of rule 1
    assert len(final) == len(edge_starts) - 1 == len(call_starts) - 1 == 2**10 + 2
    assert final.sum() == 2**9 + 1
    assert len(calls) == 2**10 and len(set(calls[:, 0].tolist())) == 1


def test_deterministic_states_stop() -> None:
    deadline = Deadline()
    making = ready_made([[0, 1, 97, 97, 1]], 1, 2, stop=deadline.stopping("a test"))
    deadline.cancel()
    with pytest.raises(BudgetExceeded, match="a test"):
        making.merge(8)


# --- Below sets --------------------------------------------------------------------------------------------


def below_states(network: Network) -> tuple[dict[int, set[Any]], dict[int, set[Any]], dict[int, set[Any]]]:
    """What may lie directly below each state and frame: at any time, while it is on top between two bytes,
    and while it is below another one. None: nothing."""
    final, edge_starts, edges, call_starts, calls, counted = network.automaton
    below: Any = defaultdict(set)
    top: Any = defaultdict(set)
    pushed: Any = defaultdict(set)
    top[network.start].add(None)
    size = -1
    while size != (size := sum(len(one) for found in (below, top, pushed) for one in found.values())):
        for state, on_top in list(top.items()):
            below[state] |= on_top
        for frame, on_frame in list(pushed.items()):
            below[frame] |= on_frame
        for state in range(len(final)):
            if not below[state]:
                continue
            for _, _, target in edges[edge_starts[state] : edge_starts[state + 1]].tolist():
                top[target] |= below[state]
            for callee, back in calls[call_starts[state] : call_starts[state + 1]].tolist():
                below[callee] |= {back} if back >= 0 else below[state]
                if back >= 0:
                    top[back] |= below[state]
                    pushed[back] |= below[state]
        for k, (unit, *_) in enumerate(counted.tolist()):
            if below[-1 - k]:
                top[-1 - k] = pushed[-1 - k] = below[-1 - k]
                below[unit].add(-1 - k)
    return below, top, pushed


@given(grammar_cases())
@settings(max_examples=300, deadline=None)
def test_below_sets_are_what_calls_leave_below(case: GrammarCase) -> None:
    try:
        network = build_network(xgrammar.Grammar.from_ebnf(case.ebnf), token_bytes=8, max_states=2000)
    except (BudgetExceeded, UnsupportedGrammar):
        return
    _, top, pushed = below_states(network)
    below = network.below()
    members = np.split(below.below_symbols, below.below_starts[1:-1])
    sets = [
        {*own.tolist(), *(None,) * bottom}
        for own, bottom in zip(members, below.below_bottom.tolist(), strict=True)
    ]
    final, edge_starts, _, call_starts, *_ = network.automaton
    does_nothing = (final != 0) & (np.diff(edge_starts) == 0) & (np.diff(call_starts) == 0)
    contexts = np.split(below.context_below, below.context_starts[1:-1])
    found = {
        symbol: set().union(*(sets[one] for one in own.tolist()))
        for symbol, own in zip(below.contexts.tolist(), contexts, strict=True)
    }
    assert found == {one: on for one, on in top.items() if on and (one < 0 or not does_nothing[one])}
    under: Any = defaultdict(set)
    for symbol, one in zip(below.below_symbols.tolist(), below.below_of_symbol.tolist(), strict=True):
        under[symbol] |= sets[one]
    assert under == {one: on for one, on in pushed.items() if on}
    assert_sets_follow(network, {one: on for one, on in top.items() if one in found}, pushed)


def assert_sets_follow(network: Network, top: dict[int, set[Any]], pushed: dict[int, set[Any]]) -> None:
    """Assert that the follow set of each symbol has all bytes that some stack below it can read."""
    automaton = Automaton(network.automaton)
    first = ByteTables(automaton, call_ranks(automaton)).first
    final, counted = network.automaton[0], network.automaton[5]
    found = follow_sets_of(network, first)
    wanted = np.zeros_like(found)
    grown = True
    while grown:
        before = wanted.copy()
        for below in (top, pushed):
            for symbol, under in below.items():
                row = symbol if symbol >= 0 else len(final) - 1 - symbol
                for one in under - {None}:
                    begin = one if one >= 0 else int(counted[-1 - one, 0])
                    wanted[row] |= first[begin]
                    if one < 0 or final[one]:
                        wanted[row] |= wanted[one if one >= 0 else len(final) - 1 - one]
        grown = bool((wanted != before).any())
    assert (found >= wanted).all()


@pytest.mark.parametrize(
    ("most", "stop", "message"), [(220, a_stop(), "more than 220 states"), (1000, stopped(), "a test")]
)
def test_below_sets_that_are_too_large_or_too_late(most: int, stop: Stop, message: str) -> None:
    """Rules that tail call one another, each called by others: their below sets grow quadratically."""
    n = 60
    rules = [f'r{i} ::= "{chr(97 + i % 26)}" r{i + 1} | "({i}" r{i} ")" r{(7 * i) % n}' for i in range(n)]
    grammar = xgrammar.Grammar.from_ebnf("\n".join(["root ::= r0", *rules, f'r{n} ::= "e"']))
    network = build_network(grammar, token_bytes=8)
    with pytest.raises(BudgetExceeded, match=message):
        below_of(network.automaton, network.start, most, stop)
