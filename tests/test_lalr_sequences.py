"""Terminal sequences on stacks: numbers, kinds and the automaton, compared with plain simulation."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence.deadline import Deadline
from equivalence.errors import BudgetExceeded, UnsupportedGrammar
from equivalence.lark.lalr import LalrMachine, SequenceTable, stack_automaton
from equivalence.lark.lalr.reference import Stack, kind_takes, shift, takes
from equivalence.lark.lalr.sequences import DEAD, PASS
from tests.lark_machines import (
    SHIPPED,
    SMALL,
    built,
    machine_of,
    random_grammar,
    random_stack_path,
    small_names,
)

FEW = (
    "dangling else",
    "conflict that loses sentences",
    "nullable rules",
    "error after several reductions",
)


def some_stacks(machine: LalrMachine, rounds: int, most: int, rng: random.Random) -> list[Stack]:
    """Distinct stacks that random prefixes of texts lead to."""
    return list({stack for _ in range(rounds) for stack in random_stack_path(machine, most, rng)})


def some_sequences(
    machine: LalrMachine, stacks: list[Stack], count: int, rng: random.Random
) -> list[tuple[int, ...]]:
    """Sequences that some stack accepts, the same with one terminal changed, and entirely random ones.

    The end of input occurs only as the last terminal of a sequence.
    """
    n = len(machine.terminals)
    found: list[tuple[int, ...]] = [(), (n - 1,)]
    for _ in range(count):
        stack, sequence = rng.choice(stacks), []
        for _ in range(rng.choice([1, 2, 3, 5, 12])):
            fitting = [t for t in range(n) if shift(machine, stack, t) is not None]
            if not fitting:
                break
            sequence.append(rng.choice(fitting))
            if sequence[-1] == n - 1:
                break
            stack = shift(machine, stack, sequence[-1])
        found.append(tuple(sequence))
        if sequence:
            place = rng.randrange(len(sequence))
            sequence[place] = rng.randrange(n - (place < len(sequence) - 1))
            found.append(tuple(sequence))
        found.append((*rng.choices(range(n - 1), k=rng.randint(0, 2)), rng.randrange(n)))
    return list(dict.fromkeys(found))


def numbers_of(table: SequenceTable, sequences: Iterable[tuple[int, ...]]) -> np.ndarray:
    """Number all sequences at once, as token classes do."""
    sequences = list(sequences)
    text = np.array([terminal for sequence in sequences for terminal in sequence], np.int32)
    starts = np.cumsum([0, *map(len, sequences)])
    return table.numbers(text, starts[:-1], starts[1:])


def number_of(table: SequenceTable, sequence: tuple[int, ...]) -> int:
    return int(numbers_of(table, [sequence])[0])


def check(machine: LalrMachine, rounds: int, count: int, seed: int) -> None:
    """Assert that numbers, kinds and the automaton agree with `takes` on random stacks and sequences."""
    rng = random.Random(seed)
    stacks = some_stacks(machine, rounds, 14, rng)
    sequences = some_sequences(machine, stacks, count, rng)
    table = SequenceTable(machine)
    numbers = numbers_of(table, sequences)
    automaton, kinds = stack_automaton(table, numbers)
    taken_of_number: dict[int, tuple[bool, ...]] = {}
    for sequence, number, kind in zip(sequences, numbers.tolist(), kinds.tolist(), strict=True):
        taken = tuple(takes(machine, stack, sequence) for stack in stacks)
        assert taken_of_number.setdefault(number, taken) == taken, sequence
        assert number_of(table, sequence) == number
        assert (number == PASS) == (sequence == ()) and (kind == -2) == (sequence == ())
        if number == DEAD:
            assert not any(taken) and kind == -1, sequence
        elif kind >= 0:
            assert tuple(kind_takes(automaton, kind, stack) for stack in stacks) == taken, sequence
        else:
            assert kind == -2 or not any(taken), sequence


@pytest.mark.parametrize("name", [*small_names(*FEW), *SHIPPED])
def test_numbers_and_kinds_say_what_the_parser_does(name: str) -> None:
    check(built(name).machine, 12, 40 if name in SMALL else 120, 1)


@pytest.mark.kernels
@settings(max_examples=80, deadline=None)
@given(st.integers(0, 1 << 32))
def test_numbers_and_kinds_say_what_the_parser_does_on_random_grammars(seed: int) -> None:
    grammar = random_grammar(random.Random(seed))
    if grammar is not None:
        check(grammar.machine, 5, 12, 0)


def test_few_kinds_remain_of_many_sequences() -> None:
    """All sequences of up to three terminals have about as few kinds as stacks can distinguish."""
    machine = built("error after several reductions").machine
    n = len(machine.terminals)
    sequences: list[tuple[int, ...]] = [(a,) for a in range(n)]
    sequences += [(a, b) for a in range(n - 1) for b in range(n)]
    sequences += [(a, *more) for a in range(n - 1) for more in sequences if len(more) == 2]
    table = SequenceTable(machine)
    automaton, _ = stack_automaton(table, numbers_of(table, sequences))
    stacks = some_stacks(machine, 200, 14, random.Random(4))
    rows = {tuple(takes(machine, stack, sequence) for stack in stacks) for sequence in sequences}
    apart = sum(any(row) for row in rows)
    assert apart <= automaton.n_kinds <= apart + 3
    assert automaton.n_kinds < len(sequences) / 10


# ---- growing, and bounds


def small_table(machine: LalrMachine, **bounds: int) -> SequenceTable:
    return SequenceTable(machine, initial=1, **bounds)


@pytest.mark.kernels
@pytest.mark.parametrize("name", [*FEW, "c_like.lark"])
def test_tables_that_begin_tiny_say_the_same(name: str) -> None:
    machine, rng = built(name).machine, random.Random(5)
    sequences = some_sequences(machine, some_stacks(machine, 12, 14, rng), 12 if name in SMALL else 200, rng)
    usual, tiny = SequenceTable(machine), small_table(machine)
    before = tiny.sequence_numbers.nbytes
    found = numbers_of(usual, sequences)
    assert np.array_equal(numbers_of(tiny, sequences), found)
    assert tiny.sequence_numbers.nbytes > before
    (one, kinds), (other, same_kinds) = stack_automaton(usual, found), stack_automaton(tiny, found)
    assert np.array_equal(kinds, same_kinds)
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_too_many_sequences_are_an_error() -> None:
    machine, rng = built("c_like.lark").machine, random.Random(7)
    sequences = some_sequences(machine, some_stacks(machine, 12, 14, rng), 200, rng)
    with pytest.raises(BudgetExceeded, match="the limit is 20"):
        numbers_of(SequenceTable(machine, max_sequences=20), sequences)
    enough = SequenceTable(machine)
    numbers_of(enough, sequences)
    with pytest.raises(BudgetExceeded, match=r"bytes"):
        numbers_of(
            SequenceTable(machine, max_bytes=enough.sequence_numbers.nbytes // 4, initial=1), sequences
        )


@pytest.mark.kernels
def test_bounds_of_bytes_do_not_refuse_what_tables_begin_with() -> None:
    machine = built("dangling else").machine
    table = small_table(machine, max_bytes=1 << 10)
    assert table.sequence_numbers.nbytes > 1 << 10 and number_of(table, ()) == PASS
    sequences = list(itertools.product(range(len(machine.terminals) - 1), repeat=8))
    with pytest.raises(BudgetExceeded, match=r"more than 1024 bytes; raise Budget\.bytes"):
        numbers_of(table, sequences)


def test_no_time_is_an_error() -> None:
    machine, deadline = built("dangling else").machine, Deadline()
    table = SequenceTable(machine, deadline=deadline)
    deadline.cancel()
    with pytest.raises(BudgetExceeded, match="the parser's part"):
        number_of(table, (0,))


@pytest.mark.kernels
def test_nothing_is_taken_after_the_end_of_input() -> None:
    machine = built("dangling else").machine
    end = len(machine.terminals) - 1
    assert number_of(SequenceTable(machine), (end, 0)) == DEAD


@pytest.mark.kernels
def test_a_table_without_a_goto_is_refused_where_it_is_missed() -> None:
    machine, rng = built("error after several reductions").machine, random.Random(12)
    sequences = some_sequences(machine, some_stacks(machine, 10, 12, rng), 40, rng)
    said = set()
    for place in zip(*np.nonzero(machine.goto >= 0), strict=True):
        goto = machine.goto.copy()
        goto[place] = -1
        try:
            numbers_of(SequenceTable(machine._replace(goto=goto)), sequences)
        except ValueError as error:
            said.add(str(error))
    assert said == {"the parse table reduces to a nonterminal that nothing follows in a state below"}


def test_a_parser_that_reduces_without_end_is_an_error() -> None:
    # `two` is reduced to `one` and `one` to `two`: Lark itself would not terminate here
    for text in ('start: one\none: two | "x"\ntwo.2: one', "start: one\none: two | \ntwo.2: one"):
        machine = machine_of(text)
        table = SequenceTable(machine)
        with pytest.raises(UnsupportedGrammar, match="reduce forever"):
            number_of(table, (len(machine.terminals) - 1,))


def test_symbols_beyond_what_is_packed_are_refused_by_name() -> None:
    machine = machine_of('start: "a"')
    with pytest.raises(UnsupportedGrammar, match="a rule of 4097 symbols, but the limit is 4096"):
        SequenceTable(machine._replace(rule_length=np.array([4097], np.int32)))
    many = machine._replace(goto=np.full((machine.n_states, (1 << 20) + 1), -1, np.int8))
    with pytest.raises(UnsupportedGrammar, match="1048577 nonterminals, but the limit is 1048576"):
        SequenceTable(many)
