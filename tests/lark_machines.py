"""Lark grammars with their machines, built once for all tests: small ones, random ones and those that ship.

What: `built` returns, by the name of a grammar, its `lark.Lark`, the lexer's machine and the parser's
machine; `random_grammar` draws rules over a few terminals; `random_walk` draws terminals that can be shifted.
When: imported by ``tests/test_lalr.py`` and ``tests/test_factored*.py``.
Limits: the terminals of random grammars are single characters, so a text is a sequence of terminals.
"""

from __future__ import annotations

import random
from functools import cache
from typing import Any, NamedTuple

import lark
import pytest
from lark.exceptions import LarkError

from equivalence.lark.lalr import LalrMachine, may_follow, read_machine
from equivalence.lark.lalr.reference import Stack, shift
from equivalence.lark.lexer import LexerMachine, build_lexer, terminal_names
from hybrid.cli.shipped_grammars import shipped_grammar, shipped_grammars
from tests.lark_oracle import SMALL_GRAMMARS

SMALL = {grammar.name: grammar for grammar in SMALL_GRAMMARS}
SHIPPED = tuple(grammar.name for grammar in shipped_grammars() if grammar.kind == "lark")
TERMINALS = "abcd"


def small_names(*few: str) -> list[Any]:
    """The names of all small grammars as parameters; some also run where modules check every index."""
    return [pytest.param(name, marks=[pytest.mark.kernels] if name in few else []) for name in SMALL]


class Built(NamedTuple):
    """A grammar and its machines."""

    lark: lark.Lark
    lexer: LexerMachine
    machine: LalrMachine


@cache
def built(name: str) -> Built:
    """The machines of one of `SMALL` or `SHIPPED`."""
    return build(SMALL[name].text if name in SMALL else shipped_grammar(name).text)


def build(text: str) -> Built:
    """Build the machines of a grammar with the start rule ``start``."""
    grammar = lark.Lark(text, parser="lalr", lexer="basic", start="start")
    machine = read_machine(grammar, tuple(terminal_names(grammar)))
    return Built(grammar, build_lexer(grammar, may_follow(machine)[:-1, :-1]), machine)


def random_grammar(rng: random.Random) -> Built | None:
    """Draw a grammar over `TERMINALS`; None if Lark refuses it. Empty right sides are frequent."""
    rules = ["start", *("one", "two", "three")[: rng.randint(0, 3)]]
    letters = [f'"{letter}"' for letter in TERMINALS[: rng.randint(2, 4)]]
    symbols, lengths = [*letters, *letters, *rules], [0, 1, 1, 2, 2, 3, 4]
    lines = []
    for rule in rules:
        bodies = {" ".join(rng.choices(symbols, k=rng.choice(lengths))) for _ in range(rng.randint(1, 3))}
        lines.append(f"{rule}: " + " | ".join(sorted(bodies)))
    try:
        found = build("\n".join(lines))
    except LarkError:
        return None
    return found if len(found.machine.terminals) > 1 else None


def random_walk(machine: LalrMachine, most: int, rng: random.Random) -> tuple[list[int], list[Stack]]:
    """A random sequence of terminals, each of which can be shifted, and the stacks along it."""
    terminals: list[int] = []
    stacks: list[Stack] = [(machine.start,)]
    while len(terminals) < most:
        shifted = {one: shift(machine, stacks[-1], one) for one in range(len(machine.terminals) - 1)}
        after = {terminal: stack for terminal, stack in shifted.items() if stack is not None}
        if not after:
            break
        terminals.append(rng.choice(list(after)))
        stacks.append(after[terminals[-1]])
    return terminals, stacks
