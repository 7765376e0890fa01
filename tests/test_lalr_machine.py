"""The LALR machine against Lark's own parser, on random sequences of terminals."""

from __future__ import annotations

import random
import subprocess
import sys

import lark
import numpy as np
import pytest

from equivalence.errors import UnsupportedGrammar
from equivalence.lark.lalr import LalrMachine, may_follow, read_machine
from equivalence.lark.lalr.reference import shift, takes
from equivalence.lark.lexer import terminal_names
from hybrid.cli.shipped_grammars import shipped_grammar
from tests.lark_machines import (
    SHIPPED,
    SMALL,
    Built,
    built,
    larks_own,
    machine_of,
    random_stack_path,
    some_random_grammars,
)


def random_terminals(machine: LalrMachine, rng: random.Random) -> list[int]:
    """Some terminals that can be shifted, then a random one and a few more, then the end."""
    stack, found = (machine.start,), []
    for _ in range(rng.randint(0, 25)):
        fitting = [
            terminal
            for terminal in range(len(machine.terminals) - 1)
            if shift(machine, stack, terminal) is not None
        ]
        if not fitting:
            break
        found.append(rng.choice(fitting))
        stack = shift(machine, stack, found[-1])
    if rng.random() < 0.5:
        found += rng.choices(range(len(machine.terminals) - 1), k=rng.randint(1, 3))
    return [*found, len(machine.terminals) - 1]


def check_against_lark(grammar: Built, rounds: int, rng: random.Random) -> set[bool]:
    """Assert that both parsers get equally far; return which sequences are accepted to the end."""
    machine, ends = grammar.machine, set()
    for _ in range(rounds):
        sequence = random_terminals(machine, rng)
        shifted = larks_own(grammar.lark, [machine.terminals[terminal] for terminal in sequence])
        for size in range(len(sequence) + 1):
            assert takes(machine, (machine.start,), sequence[:size]) == (size <= shifted), sequence
        ends.add(shifted == len(sequence))
    return ends


@pytest.mark.parametrize("name", [*SMALL, *SHIPPED])
def test_the_machine_shifts_what_lark_shifts(name: str) -> None:
    check_against_lark(built(name), 60, random.Random(name))


def test_some_sequences_are_accepted_to_the_end_and_some_are_not() -> None:
    rng = random.Random(1)
    ends = [check_against_lark(built(name), 40, rng) for name in SMALL]
    assert sum(True in found for found in ends) > 0.8 * len(ends)
    assert sum(False in found for found in ends) > 0.8 * len(ends)


def test_the_machine_shifts_what_lark_shifts_on_random_grammars() -> None:
    rng = random.Random(2)
    for grammar in some_random_grammars(3, 150):
        check_against_lark(grammar, 15, rng)


def test_the_end_is_shifted_where_lark_accepts() -> None:
    machine = machine_of('start: | "a" start "b"')
    a, b, end = (machine.terminals.index(name) for name in ("A", "B", "$END"))
    bottom = (machine.start,)
    assert takes(machine, bottom, [end]) and takes(machine, bottom, [a, a, b, b, end])
    assert not takes(machine, bottom, [a, end]) and not takes(machine, bottom, [a, b, b])
    assert shift(machine, bottom, end)[-1] == machine.n_states
    assert not takes(machine, bottom, [end, end])


def test_states_after_a_terminal_are_the_tops() -> None:
    for grammar in some_random_grammars(4, 40):
        machine = grammar.machine
        rng = random.Random(5)
        for _ in range(10):
            for stack in random_stack_path(machine, 12, rng):
                assert machine.tops[stack[-1]]
        for state, terminal in enumerate(machine.shifted_by.tolist()):
            if terminal >= 0:
                assert (machine.action[:, terminal] == state + 1).any()
            else:
                assert state == machine.start or (machine.goto == state).any()


def test_may_follow_has_every_pair_that_some_stack_takes() -> None:
    for grammar in [*some_random_grammars(6, 40), built("dangling else"), built("c_like.lark")]:
        machine, rng = grammar.machine, random.Random(7)
        follow = may_follow(machine)
        for _ in range(10):
            for stack in random_stack_path(machine, 12, rng):
                last = machine.shifted_by[stack[-1]]
                if last < 0:
                    continue
                for terminal in range(len(machine.terminals)):
                    if shift(machine, stack, terminal) is not None:
                        assert follow[last, terminal]
    assert not may_follow(built("dangling else").machine).all()


def test_numbers_do_not_change_from_process_to_process() -> None:
    text = shipped_grammar("arithmetic.lark").text
    program = (
        "import hashlib, lark; from equivalence.lark.lalr.machine import read_machine\n"
        f"grammar = lark.Lark({text!r}, parser='lalr')\n"
        "machine = read_machine(grammar, tuple(sorted(terminal.name for terminal in grammar.terminals)))\n"
        "print(hashlib.sha256(b''.join(part.tobytes() for part in machine[2:6])).hexdigest(), machine[:2])"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def test_other_parsers_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedGrammar, match="must be 'lalr', but is 'earley'"):
        read_machine(lark.Lark('start: "a"', parser="earley"), ("A",))
    both = lark.Lark('start: "a"\nother: "a"', parser="lalr", start=["start", "other"])
    with pytest.raises(UnsupportedGrammar, match="one start symbol, but has other, start"):
        read_machine(both, ("A",))
    with pytest.raises(UnsupportedGrammar, match=r"\['B'\], which the lexer does not have"):
        read_machine(lark.Lark('start: "a" "b"', parser="lalr"), ("A",))


def test_terminals_that_no_rule_names_are_numbered_too() -> None:
    grammar = lark.Lark('start: "a"\nB: "b"\n%ignore B', parser="lalr", lexer="basic")
    machine = read_machine(grammar, tuple(terminal_names(grammar)))
    assert sorted(machine.terminals) == ["$END", "A", "B"] and machine.terminals[-1] == "$END"
    assert not machine.action[:, machine.terminals.index("B")].any()
    assert np.array_equal(machine.rule_length, [1])
