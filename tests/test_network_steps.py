"""The steps of a network, each through its own interface: integers, edges, automata, calls, below sets."""

from __future__ import annotations

import itertools
import random
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from equivalence.deadline import Deadline, Stop
from equivalence.errors import BudgetExceeded, GrammarError, UnsupportedGrammar
from equivalence.network import build_network, dialect, edge_types, serial
from equivalence.network.automata import reachable
from equivalence.network.integers import read_integers
from equivalence.network.pipeline import NetworkPipeline, unpacked
from tests.versions import strict_classes

pytestmark = pytest.mark.kernels

NONE = np.zeros((0, 5), np.int64)
BYTES, CLASS, STAR, EMPTY, RULE, SEQUENCE, CHOICES, TAGS, REPEAT = range(9)


def a_stop(seconds: float | None = None) -> Stop:
    return Stop(Deadline(seconds), "a test")


def stopped() -> Stop:
    """A stop that is already set."""
    stop = a_stop(0.0)
    stop.cell[0] = 1
    return stop


class Steps(NamedTuple):
    """The automata of some rules, and what they call."""

    edges: Any
    n_states: int
    counted: Any
    reachable: Any
    nullable: Any
    pairs: Any
    rule_of_state: Any


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


def steps(making: NetworkPipeline) -> Steps:
    pairs, edges, owner, _, _, nullable = making.left_recursive()
    return Steps(edges, making.n_read, making.counted_rules()[0], making.is_reached(), nullable, pairs, owner)


def automata(*rules: list[int], parts: tuple[list[int], ...] = (), **options: Any) -> Steps:
    """Build the automata of rules, each a single expression (type, body ...); `parts` are numbered after
    them."""
    return steps(begun_with(*rules, parts=parts, **options))


def begun_with(*rules: list[int], parts: tuple[list[int], ...] = (), **options: Any) -> NetworkPipeline:
    data: list[int] = []
    starts: list[int] = []
    for kind, *body in (*rules, *parts):
        starts.append(len(data))
        data += [kind, len(body), *body]
    return begun(np.array(data), np.array(starts), np.arange(len(rules)), **options)


def reads(made: Steps, text: bytes) -> bool:
    """Whether the root's automaton, which calls nothing, reads a text."""
    states = {0}
    for byte in text:
        states = {int(row[4]) for row in made.edges if row[0] in states and row[2] <= byte <= row[3]}
    return 1 in states


# --- Integers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [[], [0], [-1, 12, 345678901234], list(range(-300, 300))])
def test_integers_are_read_up_to_the_bracket(values: list[int]) -> None:
    text = f"[{','.join(map(str, values))}],[7]".encode()
    found, end = read_integers(text, 1)
    assert found.tolist() == values
    assert found.dtype == np.int64
    assert text[end:] == b"],[7]"


@pytest.mark.parametrize("text", [b"", b"1,2"])
def test_a_list_without_an_end(text: bytes) -> None:
    with pytest.raises(IndexError):
        read_integers(text, 0)


# --- Edges -------------------------------------------------------------------------------------------------


def test_edges_are_sorted_by_their_sources_and_stay_in_order() -> None:
    edges = [[source, 1, i, i, 0] for i, source in enumerate([3, 0, 3, 1, 0])]
    rows = steps(ready_made(edges, 1, 4)).edges
    assert rows[:, :3:2].tolist() == [[0, 1], [0, 4], [1, 3], [3, 0], [3, 2]]


@pytest.mark.parametrize("edge", [[4, 0, 0, 0, 0], [-1, 0, 0, 0, 0], [0, 0, 0, 0, 4], [0, 0, 0, 0, -1]])
def test_edges_between_states_that_are_not_there(edge: list[int]) -> None:
    with pytest.raises(IndexError, match="edge 1"):
        ready_made([[0, 0, 0, 0, 1], edge], 1, 4)


LAST = 0x10FFFF
BORDERS = [0, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xD800, 0xDFFF, 0xE000, 0xFFFF, 0x10000, 0x3FFFF, LAST]


@strict_classes
@pytest.mark.parametrize("seed", range(12))
def test_character_classes_read_their_code_points(seed: int) -> None:
    rng = random.Random(seed)
    picked = [min(max(rng.choice(BORDERS) + rng.randint(-2, 2), 0), LAST) for _ in range(8)]
    ranges = [sorted(picked[i : i + 2]) for i in range(0, 8, 2)][: rng.randint(0, 4)]
    body = [0, *(code for pair in ranges for code in pair)]
    made = {negative: automata([CLASS, negative, *body[1:]]) for negative in (0, 1)}
    tried = {min(max(code + i, 0), LAST) for code in (*picked, *BORDERS) for i in (-1, 0, 1)}
    for code in tried:
        inside = any(low <= code <= high for low, high in ranges)
        text = chr(code).encode("utf-8", "surrogatepass")
        assert reads(made[0], text) == inside
        assert reads(made[1], text) != inside
        assert not reads(made[0], text[:-1])


@strict_classes
@pytest.mark.parametrize("n_ranges", [1, 2, 15, 16, 17, 32, 33, 48, 100, 3000])
def test_many_ranges_in_any_order(n_ranges: int) -> None:
    """There are more ranges than the initial tables have room for, and they are not sorted."""
    lows = list(range(0x100, 0x100 + 4 * n_ranges, 4))
    random.Random(0).shuffle(lows)
    body = [code for low in (*lows, *lows[:3]) for code in (low, low + 1)]
    taken, others = automata([CLASS, 0, *body]), automata([CLASS, 1, *body])
    assert len(taken.edges) > n_ranges
    for low in lows if n_ranges <= 100 else lows[:3]:
        code = low + random.Random(low).randrange(2)
        assert reads(taken, chr(code).encode())
        assert not reads(others, chr(code).encode())
        assert reads(others, chr(code + 2).encode())


@pytest.mark.parametrize(("low", "high"), [(0x62, 0x61), (0x141, 0x85), (0x100, 0x85), (0x4E01, 0x4000)])
def test_a_range_that_ends_before_it_begins_is_empty(low: int, high: int) -> None:
    """A grammar that was not made by XGrammar's parsers may have one."""
    made = automata([CLASS, 0, low, high])
    for code in {high - 1, high, high + 1, (low + high) // 2, low - 1, low, low + 1}:
        assert not reads(made, chr(code).encode())


def test_constants_for_compiled_code_are_those_of_the_modules() -> None:
    for module in (serial, edge_types):
        declared = Path(str(module.__file__)).with_suffix(".pxd").read_text(encoding="utf-8")
        value, names = 0, re.findall(r"(\w+)(?: = (\d+))?[,\n]", declared.partition("\n")[2])
        assert names
        for name, given in names:
            value = int(given or value)
            assert value == getattr(module, name), name
            value += 1


def test_a_negative_code_point() -> None:
    with pytest.raises(GrammarError, match="-5"):
        automata([CLASS, 0, -5, 7])


# --- Automata ----------------------------------------------------------------------------------------------


def test_repeats_with_equal_bounds_are_one_counted_rule() -> None:
    unit = [BYTES, 97]
    made = automata(
        [SEQUENCE, 2, 3, 2, 4, 5],
        unit,
        parts=([REPEAT, 1, 2, 9], [REPEAT, 1, 4, -1], [REPEAT, 1, 0, 3], [REPEAT, 1, 5, 9]),
    )
    # the last expression is processed first
    assert made.counted.tolist() == [[1, 5, 9], [1, 2, 9], [1, 4, -1]]
    called = made.edges[made.edges[:, 1] == 2][:, 2]
    assert sorted(called.tolist()) == [1, 1, 1, 2, 3, 3, 4]
    assert made.reachable.tolist() == [1, 1]


def test_more_counted_rules_than_there_is_room_for_at_first() -> None:
    made = automata(
        [SEQUENCE, *range(2, 502)], [BYTES, 97], parts=tuple([REPEAT, 1, 0, 9 + i] for i in range(500))
    )
    assert made.counted[::-1].tolist() == [[1, 0, 9 + i] for i in range(500)]


def test_edges_that_there_are_already_name_rules() -> None:
    ready = np.array([[0, 2, 2, 0, 6], [6, 1, 97, 97, 1]])
    data, starts = np.array([BYTES, 1, 98, BYTES, 1, 99]), np.array([0, 3])
    made = steps(begun(data, starts, np.array([-1, 0, 1]), ready=ready, n_states=7))
    assert made.reachable.tolist() == [1, 0, 1]
    assert made.edges.tolist() == [ready[0].tolist(), [4, 1, 99, 99, 5], ready[1].tolist()]


@pytest.mark.parametrize(
    "rule",
    [[SEQUENCE, 1], [SEQUENCE, -1], [CHOICES, 9], [RULE, 1], [RULE, -1], [RULE, 1 << 40], [REPEAT, 3, 0, 9]],
)
def test_expressions_that_refer_to_what_is_not_there(rule: list[int]) -> None:
    with pytest.raises(IndexError):
        automata(rule)


def test_expressions_that_end_early() -> None:
    for data in ([BYTES, 5, 97], [CLASS], [REPEAT, 3, 0]):
        with pytest.raises(IndexError):
            begun(np.array(data), np.zeros(1, np.int64), np.zeros(1, np.int64))


def test_types_of_expressions_that_are_not_known() -> None:
    with pytest.raises(UnsupportedGrammar, match="excluded tokens"):
        automata([10])
    with pytest.raises(UnsupportedGrammar, match="expression type 99"):
        automata([99])


def test_too_many_states() -> None:
    with pytest.raises(BudgetExceeded, match="more than 10 states"):
        automata([SEQUENCE, 1, 1], parts=([BYTES, *[97] * 20],), max_states=10)


def test_an_expression_that_holds_itself_ends_with_the_deadline() -> None:
    stop = a_stop(0.05)
    with pytest.raises(BudgetExceeded, match="a test"):
        automata([CHOICES, 0], stop=stop)


def test_rules_that_the_root_leads_to() -> None:
    #        0: choices 1 2   1: call of 1   2: repeat of 3       3: tags ("x", rule 4)     4: bytes
    data = [CHOICES, 2, 1, 2, RULE, 1, 1, REPEAT, 3, 3, 0, 9, TAGS, 4, 4, 4, 0, 0, BYTES, 1, 97]
    starts = [0, 4, 7, 12, 18]
    bodies = np.array([0, 4, 4, 3, 4])
    used, reached = reachable(np.array(data), np.array(starts), bodies, 0)
    assert used.tolist() == [1, 1, 0, 1, 1]
    assert np.flatnonzero(reached == 0).tolist() == []
    with pytest.raises(IndexError):
        reachable(np.array([SEQUENCE, 1, 7]), np.array([0]), np.array([0]), 0)


# --- Calls -------------------------------------------------------------------------------------------------


def test_callees_come_before_callers() -> None:
    making = begun_with(
        [SEQUENCE, 4, 5], [RULE, 2], [BYTES, 97], [BYTES, 98], parts=([RULE, 1], [REPEAT, 2, 0, 9])
    )
    calls = steps(making)
    making.merge(8)
    *_, order = unpacked(*making.packed())
    assert order.tolist() == [2, 4, 1, 0] or order.tolist() == [2, 1, 4, 0]
    assert calls.rule_of_state[:8].tolist() == [0, 0, 1, 1, 2, 2, -1, -1]
    assert calls.nullable.tolist() == [0, 0, 0, 0, 1]


def test_left_calls_that_may_be_on_a_cycle() -> None:
    # root: a | b; a: b "x" | root; b: "y" | c; c: "z"
    calls = automata(
        [CHOICES, 4, 5],
        [CHOICES, 6, 7],
        [CHOICES, 8, 9],
        [BYTES, 122],
        parts=([RULE, 1], [RULE, 2], [SEQUENCE, 5, 10], [RULE, 0], [BYTES, 121], [RULE, 3], [BYTES, 120]),
    )
    assert calls.nullable.tolist() == [0, 0, 0, 0]
    assert sorted(calls.pairs.tolist()) == [[0, 1], [1, 0]]


def test_a_rule_that_may_be_empty_lets_what_follows_be_left() -> None:
    calls = automata([SEQUENCE, 2, 3], [EMPTY], parts=([RULE, 1], [RULE, 0]))
    assert calls.nullable.tolist() == [0, 1]
    assert calls.pairs.tolist() == [[0, 0]]


def test_whether_rules_may_be_empty_is_not_found_out_too_late() -> None:
    with pytest.raises(BudgetExceeded, match="a test"):
        ready_made([[0, 1, 97, 97, 1]], 1, 2, stop=stopped())


@pytest.mark.parametrize("dtype", [np.int32, np.uint64, np.float64])
def test_arrays_of_another_form_are_refused(dtype: Any) -> None:
    data, zero = np.array([BYTES, 1, 97]), np.zeros(1, np.int64)
    with pytest.raises(ValueError, match="dtype"):
        begun(data.astype(dtype), zero, zero)
    with pytest.raises(ValueError, match="contiguous"):
        begun(np.repeat(data, 2)[::2], zero, zero)


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


# --- Deterministic states, and merging them ----------------------------------------------------------------


def determinised(making: NetworkPipeline) -> Any:
    """Make the automata deterministic, and merge their states. Return the arguments of `MergedStates`."""
    making.merge(8)
    return unpacked(*making.packed())[0]


def two_rules(**options: Any) -> NetworkPipeline:
    """Rule 0 reads "a" and calls rule 1, which reads "b" or "c"."""
    edges = [(0, 1, 97, 97, 4), (2, 1, 98, 99, 3), (4, 2, 1, 0, 1)]
    return ready_made(edges, 2, 5, **options)


def test_deterministic_states() -> None:
    rule_first, rule_last, final, edge_starts, edges, call_starts, calls, *_ = determinised(two_rules())
    assert (rule_first.tolist(), rule_last.tolist()) == ([2, 0], [5, 2])
    assert final.tolist() == [0, 1, 0, 0, 1]
    assert edge_starts.tolist() == [0, 1, 1, 2, 3, 3]
    assert edges.tolist() == [[98, 99, 1], [97, 97, 3], [98, 99, 4]]  # rule 1 is copied into rule 0
    assert (call_starts.tolist(), calls.shape) == ([0] * 6, (0, 2))


def test_calls_and_subsets_that_outgrow_the_first_room() -> None:
    # whether the tenth step from the end is "a"; a step is a letter or a call of rule 1, which is not copied
    path = [0, *range(4, 13), 1]
    edges = [(0, 1, 97, 98, 0), (0, 2, 1, 0, 0), (0, 1, 97, 97, 4)]
    for source, target in itertools.pairwise(path[1:]):
        edges += [(source, 1, 97, 98, target), (source, 2, 1, 0, target)]
    edges += [(2, 1, 48, 90, 2), (2, 1, 97, 97, 3)]
    first, last, final, edge_starts, _, call_starts, calls, *_ = determinised(
        ready_made(edges, 2, 13, max_states=2000)
    )
    # the first subset of a rule is made a second time, for the edges that lead back to it
    assert (last - first).tolist() == [2**10 + 1, 3]
    assert calls[:, 0].tolist() == [1] * (2**10 + 1)
    assert len(final) == len(edge_starts) - 1 == len(call_starts) - 1 == 2**10 + 4
    assert final.sum() == 2**9 + 1


def test_deterministic_states_stop() -> None:
    stop = a_stop()
    making = two_rules(stop=stop)
    stop.cell[0] = 1
    with pytest.raises(BudgetExceeded, match="a test"):
        making.merge(8)


@pytest.mark.parametrize("n_calls", [2, 16, 17, 40, 300])
def test_the_order_of_calls_does_not_matter(n_calls: int) -> None:
    rng = random.Random(n_calls)
    rules = list(range(1, n_calls + 1))
    again = rules + rng.choices(rules, k=5)
    rng.shuffle(again)
    # rule 0 reads "a" or "b", and then calls another rule; these loop on letters, so they are not copied
    one, other, inner = 2 * n_calls + 2, 2 * n_calls + 3, 2 * n_calls + 3
    edges = [(0, 1, 97, 97, one), (0, 1, 98, 98, other)]
    edges += [(one, 2, rule, 0, 1) for rule in rules] + [(other, 2, rule, 0, 1) for rule in again]
    for rule in rules:
        byte = rule % 150
        edges += [
            (2 * rule, 1, byte, byte, inner + rule),
            (inner + rule, 1, 97, 122, inner + rule),
            (inner + rule, 0, 0, 0, 2 * rule + 1),
        ]
    made = determinised(ready_made(edges, n_calls + 1, inner + n_calls + 1, max_states=2000))
    first, _, _, edge_starts, edges, call_starts, *_, class_of, n_classes = made
    one, other = edges[edge_starts[first[0]] : edge_starts[first[0] + 1], 2]
    assert [call_starts[state + 1] - call_starts[state] for state in (one, other)] == [n_calls, n_calls]
    assert class_of[one] == class_of[other]
    assert n_classes == 4 + min(n_calls, 150)
