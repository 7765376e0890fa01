"""Lexer and parser of a Lark grammar as bytes, for transport between processes.

What: `Construction` is everything that is built without a vocabulary. `serialised` turns it into bytes,
`deserialised` turns the bytes into a construction.
When: between `hybrid.guard.lark_construction`, which calls Lark, and `hybrid.guard`, which does not need
Lark.
Limits: the bytes come from this package's own code in the other process, and are believed. Nothing is
unpickled.
"""

from __future__ import annotations

import io
import json
from typing import Any, NamedTuple

import numpy as np

from equivalence.errors import BudgetExceeded, GrammarError, HybridError, UnsupportedGrammar
from equivalence.lark.lalr.machine import END, LalrMachine
from equivalence.lark.lexer.machine import LexerMachine

ERRORS = {error.__name__: error for error in (BudgetExceeded, GrammarError, UnsupportedGrammar)}
"""The errors of `hybrid.guard.lark_construction.construct`, by their names."""


class Terminal(NamedTuple):
    """A terminal of a Lark grammar, for explanations.

    Attributes:
        name: its name.
        pattern: its pattern, or its text if it is a literal.
        is_literal: whether it is a literal.
        any_case: whether it ignores case.
        is_ignored: whether the parser never sees it.
    """

    name: str
    pattern: str
    is_literal: bool
    any_case: bool
    is_ignored: bool


class Construction(NamedTuple):
    """Lexer and parser of a grammar, its terminals by their numbers, and the seconds that Lark and the lexer
    took."""

    lexer: LexerMachine
    machine: LalrMachine
    terminals: tuple[Terminal, ...]
    seconds: dict[str, float]


def serialised(construction: Construction) -> bytes:
    """A construction as bytes."""
    lexer, machine, terminals, seconds = construction
    texts = {text: number for number, text in enumerate(lexer.sequences)}
    sets: dict[tuple[int, ...], int] = {}
    known: dict[Any, int] = {}
    for continuations in lexer.continuations:
        if continuations not in known:
            numbers = tuple(texts.setdefault(text, len(texts)) for text in continuations)
            known[continuations] = sets.setdefault(numbers, len(sets))
    content = {
        "terminals": terminals,
        "nonterminals": machine.nonterminals,
        "start": machine.start,
        "texts": list(texts),  # first the sequences, then those of continuations, which are sets of texts
        "n_sequences": len(lexer.sequences),
        "sets": list(sets),
        "seconds": seconds,
    }
    return _packed(
        content, step=lexer.step, emitted=lexer.emitted, at_end=lexer.at_end,
        set_of_state=np.array([known[one] for one in lexer.continuations]), action=machine.action,
        goto=machine.goto, rule_length=machine.rule_length, rule_origin=machine.rule_origin,
    )  # fmt: skip


def serialised_error(error: HybridError) -> bytes:
    """One of `ERRORS` as bytes."""
    return _packed({"error": type(error).__name__, "message": str(error)})


def _packed(content: dict[str, Any], **arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, content=np.frombuffer(json.dumps(content).encode(), np.uint8), **arrays)
    return stream.getvalue()


def deserialised(data: bytes) -> Construction:
    """The construction in the bytes that `serialised` made.

    Raises:
        GrammarError, BudgetExceeded, UnsupportedGrammar: the bytes are an error (`serialised_error`).
    """
    found: Any = np.load(io.BytesIO(data))
    content = json.loads(found["content"].tobytes())
    if "error" in content:
        raise ERRORS[content["error"]](content["message"])
    terminals = tuple(Terminal(*one) for one in content["terminals"])
    names = tuple(one.name for one in terminals)
    ignored = frozenset(number for number, one in enumerate(terminals) if one.is_ignored)
    texts = [tuple(text) for text in content["texts"]]
    sets = [tuple(texts[number] for number in one) for one in content["sets"]]
    lexer = LexerMachine(
        names, ignored, found["step"], found["emitted"], tuple(texts[: content["n_sequences"]]),
        found["at_end"], tuple(sets[number] for number in found["set_of_state"].tolist()),
    )  # fmt: skip
    machine = LalrMachine(
        (*names, END), tuple(content["nonterminals"]), found["action"], found["goto"],
        found["rule_length"], found["rule_origin"], content["start"],
    )  # fmt: skip
    return Construction(lexer, machine, terminals, content["seconds"])
