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

ARRAYS = ("step", "emitted", "at_end", "set_of_state", "action", "goto", "rule_length", "rule_origin")
"""All are int32."""

Numbers = NDArray[np.int32]


class Construction(NamedTuple):
    """Lexer and parser of a grammar, and the seconds that Lark and the lexer took."""

    lexer: LexerMachine
    machine: LalrMachine
    seconds: dict[str, float]


def serialised(construction: Construction) -> bytes:
    """A construction as bytes: the length of a JSON part, the JSON part, and the arrays that it describes."""
    lexer, machine, seconds = construction
    texts = {text: number for number, text in enumerate(lexer.sequences)}
    sets: dict[tuple[int, ...], int] = {}
    known: dict[Any, int] = {}
    for continuations in lexer.continuations:
        if continuations not in known:
            numbers = tuple(texts.setdefault(text, len(texts)) for text in continuations)
            known[continuations] = sets.setdefault(numbers, len(sets))
    set_of_state = np.fromiter((known[one] for one in lexer.continuations), np.int32)
    arrays = (
        lexer.step, lexer.emitted, lexer.at_end, set_of_state, machine.action, machine.goto,
        machine.rule_length, machine.rule_origin,
    )  # fmt: skip
    content = {
        "terminals": lexer.terminals,
        "ignored": sorted(lexer.ignored),
        "end": machine.terminals[-1],
        "nonterminals": machine.nonterminals,
        "start": machine.start,
        "texts": list(texts),  # first the sequences, then those of continuations, which are sets of texts
        "sets": list(sets),
        "sequences": len(lexer.sequences),
        "seconds": seconds,
        "shapes": [array.shape for array in arrays],
    }
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
        arrays = {}
        for name, shape in zip(ARRAYS, content["shapes"], strict=True):
            count = math.prod(shape)
            if min(shape) < 0 or 4 * count > len(data) - begin:
                raise ValueError(f"an array of the shape {shape}")
            arrays[name] = np.frombuffer(data, np.int32, count, begin).reshape(shape).copy()
            begin += 4 * count
        lexer, machine = _lexer(content, arrays), _machine(content, arrays)
        seconds = {str(name): float(value) for name, value in content["seconds"].items()}
    except (LookupError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"not a construction ({type(error).__name__}: {error})") from error
    if begin != len(data):
        raise ValueError("a construction with a wrong length")
    return Construction(lexer, machine, seconds)


def _lexer(content: dict[str, Any], arrays: dict[str, Numbers]) -> LexerMachine:
    terminals = tuple(map(str, content["terminals"]))
    step, emitted, at_end = (arrays[name] for name in ("step", "emitted", "at_end"))
    texts = _lists(content["texts"], len(terminals))
    sets = [tuple(texts[number] for number in one) for one in _lists(content["sets"], len(texts))]
    n_states, n_sequences = len(step), int(content["sequences"])
    _within(arrays["set_of_state"], 0, len(sets))
    _within(step, -1, n_states)
    _within(emitted, 0, n_sequences)
    _within(at_end, -1, n_sequences)
    shapes = (step.shape, emitted.shape, at_end.shape, arrays["set_of_state"].shape)
    if shapes != ((n_states, 256), (n_states, 256), (n_states,), (n_states,)):
        raise ValueError(f"a lexer of the shapes {shapes}")
    if not n_states or not 0 < n_sequences <= len(texts):
        raise ValueError("a lexer without states or sequences")
    if len(set(texts[:n_sequences])) != n_sequences:
        raise ValueError("a lexer with equal sequences")
    ignored = frozenset(int(number) for number in content["ignored"])
    if not ignored <= set(range(len(terminals))):
        raise ValueError("a lexer that ignores unknown terminals")
    continuations = tuple(sets[number] for number in arrays["set_of_state"].tolist())
    return LexerMachine(terminals, ignored, step, emitted, tuple(texts[:n_sequences]), at_end, continuations)


def _machine(content: dict[str, Any], arrays: dict[str, Numbers]) -> LalrMachine:
    terminals = (*map(str, content["terminals"]), str(content["end"]))
    nonterminals = tuple(map(str, content["nonterminals"]))
    action, goto, length, origin = (arrays[name] for name in ARRAYS[-4:])
    n_states, start = len(action), int(content["start"])
    shapes = (action.shape, goto.shape, length.shape, origin.shape)
    if shapes != ((n_states, len(terminals)), (n_states, len(nonterminals)), (len(length),), (len(length),)):
        raise ValueError(f"a parser of the shapes {shapes}")
    _within(action[:, :-1], -len(length), n_states + 1)
    _within(action, -len(length), n_states + 2)  # the end of input leads to one state beyond the last
    _within(goto, -1, n_states)
    _within(length, 0, 1 << 31)
    _within(origin, 0, len(nonterminals))
    if not 0 <= start < n_states:
        raise ValueError("a parser without its start")
    return LalrMachine(terminals, nonterminals, action, goto, length, origin, start)


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
