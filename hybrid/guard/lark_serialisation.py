"""Lexer and parser of a Lark grammar as bytes, for transport between processes.

What: `Construction` is everything that is built without a vocabulary. `serialised` turns it into bytes,
`deserialised` turns the bytes into a construction.
When: between `hybrid.guard.lark_construction`, which calls Lark, and `hybrid.guard`, which does not need
Lark.
Limits: nothing is unpickled. Types, shapes and ranges are checked on arrival, because kernels rely on them.
"""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.errors import BudgetExceeded, GrammarError, HybridError, UnsupportedGrammar
from equivalence.lark.lalr.machine import LalrMachine
from equivalence.lark.lexer.machine import LexerMachine

ERRORS = {error.__name__: error for error in (BudgetExceeded, GrammarError, UnsupportedGrammar)}
"""The errors of `hybrid.guard.lark_construction.construct`, by their names."""

Numbers = NDArray[np.int32]


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
    """A construction as bytes: the length of a JSON part, the JSON part, and the arrays that it describes."""
    lexer, machine, terminals, seconds = construction
    texts = {text: number for number, text in enumerate(lexer.sequences)}
    sets: dict[tuple[int, ...], int] = {}
    known: dict[Any, int] = {}
    for continuations in lexer.continuations:
        if continuations not in known:
            numbers = tuple(texts.setdefault(text, len(texts)) for text in continuations)
            known[continuations] = sets.setdefault(numbers, len(sets))
    set_of_state = np.fromiter((known[one] for one in lexer.continuations), np.int32)
    content = {
        "terminals": terminals,
        "end": machine.terminals[-1],
        "nonterminals": machine.nonterminals,
        "texts": list(texts),  # first the sequences, then those of continuations, which are sets of texts
        "sets": list(sets),
        "seconds": seconds,
        "numbers": (
            len(lexer.step), len(lexer.sequences), len(machine.action), len(machine.rule_length),
            machine.start,
        ),
    }  # fmt: skip
    arrays = (
        lexer.step, lexer.emitted, lexer.at_end, set_of_state, machine.action, machine.goto,
        machine.rule_length, machine.rule_origin,
    )  # fmt: skip
    return _framed(content, *(np.ascontiguousarray(array, np.int32).tobytes() for array in arrays))


def serialised_error(error: HybridError) -> bytes:
    """One of `ERRORS` as bytes."""
    return _framed({"error": type(error).__name__, "message": str(error)})


def _framed(content: dict[str, Any], *parts: bytes) -> bytes:
    text = json.dumps(content).encode()
    return b"".join((len(text).to_bytes(8, "little"), text, *parts))


def deserialised(data: bytes) -> Construction:
    """The construction in the bytes that `serialised` made.

    Raises:
        GrammarError, BudgetExceeded, UnsupportedGrammar: the bytes are an error (`serialised_error`).
        ValueError: the bytes are something else.
    """
    begin = 8 + int.from_bytes(data[:8], "little")
    content = json.loads(data[8:begin])
    if isinstance(content, dict) and content.get("error") in ERRORS:
        raise ERRORS[content["error"]](str(content.get("message")))
    try:
        return _construction(content, data, begin)
    except (LookupError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"not a construction ({type(error).__name__}: {error})") from error


def _construction(content: dict[str, Any], data: bytes, begin: int) -> Construction:
    """The construction in a JSON part, and in the arrays that begin at a place."""

    def taken(least: int, bound: int, *shape: int) -> Numbers:
        """The next array, whose numbers are from `least` to `bound` - 1."""
        nonlocal begin
        array = np.frombuffer(data, np.int32, math.prod(shape), begin).reshape(shape).copy()
        begin += array.nbytes
        _within(array, least, bound)
        return array

    terminals = terminals_of(content["terminals"])
    names = tuple(one.name for one in terminals)
    ignored = frozenset(number for number, one in enumerate(terminals) if one.is_ignored)
    nonterminals = tuple(map(str, content["nonterminals"]))
    texts = _lists(content["texts"], len(terminals))
    sets = [tuple(texts[number] for number in one) for one in _lists(content["sets"], len(texts))]
    ((n_lexer, n_sequences, n_parser, n_rules, start),) = _lists([content["numbers"]], 1 << 31)
    if not n_lexer or not 0 < n_sequences <= len(texts):
        raise ValueError("a lexer without states or sequences")
    if len(set(texts[:n_sequences])) != n_sequences:
        raise ValueError("a lexer with equal sequences")
    if start >= n_parser:
        raise ValueError("a parser without its start")
    step, emitted = taken(-1, n_lexer, n_lexer, 256), taken(0, n_sequences, n_lexer, 256)
    at_end = taken(-1, n_sequences, n_lexer)
    continuations = tuple(sets[number] for number in taken(0, len(sets), n_lexer).tolist())
    sequences = tuple(texts[:n_sequences])
    lexer = LexerMachine(names, ignored, step, emitted, sequences, at_end, continuations)
    # the end of input leads to one state beyond the last
    action = taken(-n_rules, n_parser + 2, n_parser, len(terminals) + 1)
    _within(action[:, :-1], -n_rules, n_parser + 1)
    goto = taken(-1, n_parser, n_parser, len(nonterminals))
    rule_length, rule_origin = taken(0, 1 << 31, n_rules), taken(0, len(nonterminals), n_rules)
    names = (*names, str(content["end"]))
    machine = LalrMachine(names, nonterminals, action, goto, rule_length, rule_origin, start)
    if begin != len(data):
        raise ValueError("a construction with a wrong length")
    seconds = {str(name): float(value) for name, value in content["seconds"].items()}
    return Construction(lexer, machine, terminals, seconds)


def terminals_of(content: Any) -> tuple[Terminal, ...]:
    """The terminals that are written as lists in JSON.

    Raises:
        ValueError, TypeError: they are not.
    """
    terminals = tuple(Terminal(*one) for one in content)
    for one in terminals:
        if [type(part) for part in one] != [str, str, bool, bool, bool]:
            raise ValueError(f"not a terminal: {one}")
    return terminals


def _within(values: Numbers, least: int, bound: int) -> None:
    """Refuse numbers below the least, or at the bound and above."""
    if values.size and not least <= int(values.min()) <= int(values.max()) < bound:
        raise ValueError(f"numbers outside the range from {least} to {bound - 1}")


def _lists(given: Any, bound: int) -> list[tuple[int, ...]]:
    """Lists of numbers below a bound."""
    lists = [tuple(one) for one in given]
    if not all(type(number) is int and 0 <= number < bound for one in lists for number in one):
        raise ValueError(f"numbers outside the range from 0 to {bound - 1}")
    return lists
