"""Lark's own lexer on whole texts, and the machine run byte by byte: both must agree.

What: `lex_all` calls Lark; `run` and `follow` run a `LexerMachine` byte by byte.
When: in tests, and to see what a machine does with a text.
Limits: slow on purpose.
"""

from __future__ import annotations

from typing import Any

from equivalence.lark.lexer.machine import LexerMachine
from equivalence.lark.lexer.scanner import basic_lexer


def lex_all(grammar: Any, text: str) -> list[str] | None:
    """Names of the terminals that Lark yields for a whole text, before postlex; None if it fails."""
    from lark.exceptions import UnexpectedCharacters
    from lark.lexer import LexerThread

    thread: Any = LexerThread.from_text(basic_lexer(grammar), text)  # Lark leaves its methods without types
    try:
        return [token.type for token in thread.lex(None)]
    except UnexpectedCharacters:
        return None


def follow(machine: LexerMachine, text: bytes, state: int = 0) -> tuple[int, tuple[int, ...]]:
    """The state after a text that is read in a state (-1 if it is dead), and the numbers of the terminals
    emitted on the way."""
    terminals: tuple[int, ...] = ()
    for byte in text:
        terminals += machine.sequences[machine.emitted[state, byte]]
        state = int(machine.step[state, byte])
        if state < 0:
            break
    return state, terminals


def run(machine: LexerMachine, text: bytes) -> list[str] | None:
    """Names of the terminals of a whole text; None if it is dead."""
    state, terminals = follow(machine, text)
    if state < 0 or machine.at_end[state] < 0:
        return None
    return [machine.terminals[number] for number in terminals + machine.sequences[machine.at_end[state]]]
