"""Lark grammars with their machines, built once for all tests: small ones, random ones and those that ship.

What: `built` returns, by the name of a grammar, its `lark.Lark`, the lexer's machine and the parser's
machine; `random_grammar` draws rules over a few terminals; `larks_own` asks Lark's own parser about a
sequence of terminals.
When: imported by ``tests/test_lalr*.py`` and ``tests/test_factored*.py``.
Limits: the terminals of random grammars are single characters, so a text is a sequence of terminals.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import lark
import pytest
from lark.exceptions import LarkError, UnexpectedInput

from equivalence.lark.lalr import LalrMachine, may_follow, read_machine
from equivalence.lark.lalr.machine import END
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


def machine_of(text: str) -> LalrMachine:
    """The parser's machine of a grammar."""
    grammar = lark.Lark(text, parser="lalr", lexer="basic", start="start")
    return read_machine(grammar, tuple(terminal_names(grammar)))


def random_grammar(rng: random.Random) -> Built | None:
    """Draw a grammar over `TERMINALS`; None if Lark refuses it. Empty right sides are frequent."""
    rules = ["start", *("one", "two", "three")[: rng.randint(0, 3)]]
    letters = [f'"{letter}"' for letter in TERMINALS[: rng.randint(2, 4)]]
    lines = []
    for rule in rules:
        bodies = {
            " ".join(rng.choices([*letters, *letters, *rules], k=rng.choice([0, 1, 1, 2, 2, 3, 4])))
            for _ in range(rng.randint(1, 3))
        }
        lines.append(f"{rule}: " + " | ".join(sorted(bodies)))
    try:
        found = build("\n".join(lines))
    except LarkError:
        return None
    return found if len(found.machine.terminals) > 1 else None


def some_random_grammars(seed: int, count: int) -> list[Built]:
    """Return the first few that Lark builds and that have more than a handful of states."""
    rng = random.Random(seed)
    found: list[Built] = []
    while len(found) < count:
        grammar = random_grammar(rng)
        if grammar is not None and grammar.machine.n_states > 5:
            found.append(grammar)
    return found


def random_stack_path(machine: LalrMachine, most: int, rng: random.Random) -> list[tuple[int, ...]]:
    """Return the stacks along a random sequence of terminals, each of which can be shifted."""
    from equivalence.lark.lalr.reference import shift

    stacks: list[tuple[int, ...]] = [(machine.start,)]
    while len(stacks) <= most:
        after = [
            stack
            for terminal in range(len(machine.terminals) - 1)
            if (stack := shift(machine, stacks[-1], terminal)) is not None
        ]
        if not after:
            break
        stacks.append(rng.choice(after))
    return stacks


def larks_own(grammar: lark.Lark, terminals: Sequence[str]) -> int:
    """Count the terminals of a sequence that Lark's own parser shifts; `END` may be the last one."""
    interactive = grammar.parse_interactive("")
    for place, terminal in enumerate(terminals):
        try:
            interactive.parser_state.feed_token(lark.Token(terminal, ""), terminal == END)
        except UnexpectedInput:
            return place
    return len(terminals)
