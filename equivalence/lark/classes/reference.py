"""The definition of what is allowed: it runs lexer and parser for one token and one continuation at a time.

What: `allowed` and `may_stop` decide about one token and about the end of the text; `advance` follows a text;
`reachable` finds configurations at random. `decided` reads the same answers from `FactoredClasses`.
When: in tests, and to find out why a token is allowed.
Limits: slow on purpose.

A *configuration* is the result of a text: the state of the lexer, and the parser's stack after the emitted
terminals.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from equivalence.lark.classes.classes import FactoredClasses
from equivalence.lark.lalr import LalrMachine
from equivalence.lark.lalr.outcomes import ALWAYS
from equivalence.lark.lalr.reference import Stack, kind_takes, shift, takes
from equivalence.lark.lexer import LexerMachine
from equivalence.lark.lexer.reference import follow


class Configuration(NamedTuple):
    """The result of a text."""

    state: int
    stack: Stack


def start(machine: LalrMachine) -> Configuration:
    """The configuration of the empty text."""
    return Configuration(0, (machine.start,))


def allowed(lexer: LexerMachine, machine: LalrMachine, state: int, stack: Stack, token: bytes) -> bool:
    """Whether a token is allowed in a state of the lexer, with a stack of the parser."""
    after, terminals = follow(lexer, token, state)
    return after >= 0 and any(takes(machine, stack, terminals + more) for more in lexer.continuations[after])


def may_stop(lexer: LexerMachine, machine: LalrMachine, state: int, stack: Stack) -> bool:
    """Whether the text may end."""
    end = int(lexer.at_end[state])
    return end >= 0 and takes(machine, stack, (*lexer.sequences[end], len(machine.terminals) - 1))


def advance(
    lexer: LexerMachine, machine: LalrMachine, configuration: Configuration, text: bytes
) -> Configuration | None:
    """The configuration after more text; None if it is not allowed."""
    if not allowed(lexer, machine, *configuration, text):
        return None
    state, terminals = follow(lexer, text, configuration.state)
    stack: Stack | None = configuration.stack
    for terminal in terminals:
        assert stack is not None
        stack = shift(machine, stack, terminal)
    assert stack is not None
    return Configuration(state, stack)


def reachable(
    lexer: LexerMachine, machine: LalrMachine, pieces: Sequence[bytes], steps: int, rng: random.Random
) -> Iterator[Configuration]:
    """The configurations in a random text made of pieces; fewer if no piece is allowed."""
    now = start(machine)
    yield now
    for _ in range(steps):
        for piece in rng.sample(pieces, len(pieces)):
            after = advance(lexer, machine, now, piece)
            if after is not None:
                break
        else:
            return
        now = after
        yield now


def set_takes(classes: FactoredClasses, number: int, stack: Stack) -> bool:
    """Whether a stack accepts one of the kinds of a set."""
    kinds = classes.sets.terminals[classes.sets.start[number] : classes.sets.start[number + 1]].tolist()
    return any(kind == ALWAYS or kind_takes(classes.automaton, kind, stack) for kind in kinds)


def decided(classes: FactoredClasses, configuration: Configuration, token: int) -> bool:
    """Whether the id of a token is allowed, according to its class."""
    number = int(classes.tokens.class_of_token[token])
    if number < 0:
        return False
    return set_takes(classes, int(classes.set_of[configuration.state, number]), configuration.stack)


def decided_stop(classes: FactoredClasses, configuration: Configuration) -> bool:
    """Whether the text may end, according to the classes."""
    return set_takes(classes, int(classes.stop_set[configuration.state]), configuration.stack)
