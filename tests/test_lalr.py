"""The LALR machine against Lark's own parser; terminal sequences on stacks against plain simulation."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator

import lark
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lark.exceptions import UnexpectedInput

from equivalence.deadline import Deadline
from equivalence.errors import BudgetExceeded, UnsupportedGrammar
from equivalence.lark.lalr import LalrMachine, SequenceTable, may_follow, read_machine, stack_automaton
from equivalence.lark.lalr.machine import END
from equivalence.lark.lalr.outcomes import DEAD, PASS
from equivalence.lark.lalr.reference import Stack, kind_takes, shift, takes
from tests.lark_machines import SHIPPED, SMALL, Built, build, built, random_grammar, random_walk, small_names

FEW = ("dangling else", "conflict that loses sentences", "nullable rules", "error after several reductions")


def machine_of(text: str) -> LalrMachine:
    """The parser's machine of a grammar."""
    return build(text).machine


def some_random_grammars(seed: int, count: int) -> Iterator[Built]:
    """The first few that Lark builds and that have more than a handful of states."""
    rng = random.Random(seed)
    drawn = (random_grammar(rng) for _ in itertools.count())
    return itertools.islice((one for one in drawn if one is not None and one.machine.n_states > 5), count)


# ---- the machine


def larks_own(grammar: lark.Lark, terminals: list[str]) -> int:
    """Count the terminals of a sequence that Lark's own parser shifts; `END` may be the last one."""
    state = grammar.parse_interactive("").parser_state
    for shifted, terminal in enumerate(terminals):
        try:
            state.feed_token(lark.Token(terminal, ""), terminal == END)
        except UnexpectedInput:
            return shifted
    return len(terminals)


def check_against_lark(grammar: Built, rounds: int, rng: random.Random) -> None:
    """Assert that both parsers get equally far in a random text, in half of the cases with a few random
    terminals at its end."""
    machine = grammar.machine
    for _ in range(rounds):
        sequence = random_walk(machine, rng.randint(0, 25), rng)[0]
        if rng.random() < 0.5:
            sequence += rng.choices(range(len(machine.terminals) - 1), k=rng.randint(1, 3))
        sequence.append(len(machine.terminals) - 1)
        shifted = larks_own(grammar.lark, [machine.terminals[terminal] for terminal in sequence])
        for size in range(len(sequence) + 1):
            assert takes(machine, (machine.start,), sequence[:size]) == (size <= shifted), sequence


@pytest.mark.parametrize("name", [*SMALL, *SHIPPED])
def test_the_machine_shifts_what_lark_shifts(name: str) -> None:
    check_against_lark(built(name), 60, random.Random(name))


def test_the_machine_shifts_what_lark_shifts_on_random_grammars() -> None:
    rng = random.Random(2)
    for grammar in some_random_grammars(3, 100):
        check_against_lark(grammar, 15, rng)


def test_stacks_have_the_tops_and_followers_that_the_machine_says() -> None:
    for grammar in [*some_random_grammars(6, 40), built("dangling else"), built("c_like.lark")]:
        machine, rng = grammar.machine, random.Random(7)
        follow, tops, shifted_by = may_follow(machine), machine.tops, machine.shifted_by
        for stack in some_stacks(machine, 10, 12, rng):
            assert tops[stack[-1]]
            for terminal in range(len(machine.terminals)):
                if shifted_by[stack[-1]] >= 0 and shift(machine, stack, terminal) is not None:
                    assert follow[shifted_by[stack[-1]], terminal]
    assert not may_follow(built("dangling else").machine).all()


def test_other_parsers_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedGrammar, match="must be 'lalr', but is 'earley'"):
        read_machine(lark.Lark('start: "a"', parser="earley"), ("A",))
    both = lark.Lark('start: "a"\nother: "a"', parser="lalr", start=["start", "other"])
    with pytest.raises(UnsupportedGrammar, match="one start symbol, but has other, start"):
        read_machine(both, ("A",))
    with pytest.raises(UnsupportedGrammar, match=r"\['B'\], which the lexer does not have"):
        read_machine(lark.Lark('start: "a" "b"', parser="lalr"), ("A",))


def test_terminals_that_no_rule_names_are_numbered_too() -> None:
    machine = machine_of('start: "a"\nB: "b"\n%ignore B')
    assert sorted(machine.terminals) == ["$END", "A", "B"] and machine.terminals[-1] == "$END"
    assert not machine.action[:, machine.terminals.index("B")].any()


# ---- sequences


def some_stacks(machine: LalrMachine, rounds: int, most: int, rng: random.Random) -> list[Stack]:
    """Distinct stacks that random prefixes of texts lead to."""
    return list({stack for _ in range(rounds) for stack in random_walk(machine, most, rng)[1]})


def some_sequences(machine: LalrMachine, count: int, rng: random.Random) -> list[tuple[int, ...]]:
    """Parts of random texts, the same with one terminal changed, and entirely random sequences.

    The end of input occurs only as the last terminal of a sequence.
    """
    end = len(machine.terminals) - 1
    found: list[tuple[int, ...]] = [(), (end,)]
    for _ in range(count):
        text = random_walk(machine, 14, rng)[0]
        begin = rng.randint(0, len(text))
        sequence = text[begin : begin + rng.choice([1, 2, 3, 5, 12])]
        if begin + len(sequence) == len(text):
            sequence.append(end)
        found.append(tuple(sequence))
        place = rng.randrange(len(sequence))
        sequence[place] = rng.randrange(end + 1 if place == len(sequence) - 1 else end)
        found.append(tuple(sequence))
        found.append((*rng.choices(range(end), k=rng.randint(0, 2)), rng.randrange(end + 1)))
    return list(dict.fromkeys(found))


def sequences_of(name: str, count: int, seed: int) -> tuple[LalrMachine, list[tuple[int, ...]]]:
    """The machine of a grammar, and some sequences for it."""
    machine = built(name).machine
    return machine, some_sequences(machine, count, random.Random(seed))


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
    sequences = some_sequences(machine, count, rng)
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
    whole = (itertools.product(*[range(n - 1)] * (length - 1), range(n)) for length in (1, 2, 3))
    sequences = list(itertools.chain.from_iterable(whole))
    table = SequenceTable(machine)
    automaton, _ = stack_automaton(table, numbers_of(table, sequences))
    stacks = some_stacks(machine, 200, 14, random.Random(4))
    rows = {tuple(takes(machine, stack, sequence) for stack in stacks) for sequence in sequences}
    apart = sum(any(row) for row in rows)
    assert apart <= automaton.n_kinds <= apart + 3
    assert automaton.n_kinds < len(sequences) / 10


# ---- growing, and bounds


@pytest.mark.kernels
@pytest.mark.parametrize("name", [*FEW, "c_like.lark"])
def test_tables_that_begin_tiny_say_the_same(name: str) -> None:
    machine, sequences = sequences_of(name, 12 if name in SMALL else 200, 5)
    usual, tiny = SequenceTable(machine), SequenceTable(machine, initial=1)
    before = tiny.sequence_numbers.nbytes
    found = numbers_of(usual, sequences)
    assert np.array_equal(numbers_of(tiny, sequences), found)
    assert tiny.sequence_numbers.nbytes > before
    (one, kinds), (other, same_kinds) = stack_automaton(usual, found), stack_automaton(tiny, found)
    assert np.array_equal(kinds, same_kinds)
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_too_many_sequences_are_an_error() -> None:
    machine, sequences = sequences_of("c_like.lark", 200, 7)
    with pytest.raises(BudgetExceeded, match="the limit is 20"):
        numbers_of(SequenceTable(machine, max_sequences=20), sequences)


@pytest.mark.kernels
def test_bounds_of_bytes_do_not_refuse_what_tables_begin_with() -> None:
    machine = built("dangling else").machine
    table = SequenceTable(machine, initial=1, max_bytes=1 << 10)
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
    assert number_of(SequenceTable(machine), (len(machine.terminals) - 1, 0)) == DEAD


@pytest.mark.kernels
def test_a_table_without_a_goto_is_refused_where_it_is_missed() -> None:
    machine, sequences = sequences_of("error after several reductions", 40, 12)
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
