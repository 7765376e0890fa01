"""The result of XGrammar's optimiser for a grammar: its rules and their automata, as text.

What: `optimised_text` compiles a serialised grammar with XGrammar, over empty tokens, and writes the
result. `optimised_by` lets another function do that during one call. `equivalence.network.optimised_grammar`
reads the text.
When: for automata that XGrammar makes itself: of patterns and tag dispatches
(`equivalence.network.foreign`).
Limits: the serialised form repeats all automata once for each rule; each byte of it takes 70 ns and 20
bytes of memory. If it would be larger than allowed, it is not written. XGrammar cannot be interrupted.
Nothing here needs numpy, which the guard's process does not import.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from typing import Any, NamedTuple, TypeVar

from equivalence.context_values import with_value
from equivalence.network.serial import AUTOMATA

_BEFORE_AUTOMATA = f'"{AUTOMATA}":'

N_TOKENS = 2
"""Grammars are compiled for a vocabulary of two empty tokens, of which the last is a stop token."""


class Wanted(NamedTuple):
    """A grammar that must be optimised.

    Attributes:
        text: the serialised grammar.
        most_bytes: there is no result if the serialised form would be larger than about this.
        pattern: the text of the pattern if the grammar consists of one; otherwise empty.
    """

    text: str
    most_bytes: int
    pattern: str = ""


Result = TypeVar("Result")

Optimise = Callable[[Wanted], str | None]
"""A function that does what `optimised_text` does."""


def optimised_text(wanted: Wanted) -> str | None:
    """Two lines of JSON: the grammar without its automata, and the automata that all rules share. None: it
    would be too large."""
    import xgrammar
    from xgrammar.testing import _print_grammar_fsms

    grammar = _compiler().compile_grammar(xgrammar.Grammar.deserialize_json(wanted.text)).grammar
    if is_too_large(_print_grammar_fsms(grammar), wanted.most_bytes):
        return None
    return automata_apart(grammar.serialize_json())


def is_too_large(printed: str, most_bytes: int) -> bool:
    """Whether the serialised form of automata that XGrammar has printed would be larger than about
    `most_bytes`."""
    return len(printed) * max(1, printed.count("\nRule ")) > 2 * most_bytes


def automata_apart(text: str) -> str:
    """Convert the serialised form of a compiled grammar to the form of `optimised_text`."""
    begin = text.index(_BEFORE_AUTOMATA) + len(_BEFORE_AUTOMATA)
    _, end = json.JSONDecoder().raw_decode(text, begin)
    complete = text[begin:end]
    # the entry of every rule repeats the whole automaton: drop the copies before parsing
    return f"{text.replace(complete, '0')}\n{complete}"


@cache
def _compiler() -> Any:
    import xgrammar

    info = xgrammar.TokenizerInfo([b""] * N_TOKENS, vocab_size=N_TOKENS, stop_token_ids=[N_TOKENS - 1])
    return xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)


_optimise: ContextVar[Optimise] = ContextVar("optimise", default=optimised_text)


def optimised_by(optimise: Optimise, call: Callable[[], Result]) -> Result:
    """Make a call during which another function makes the texts; it may raise a `HybridError`."""
    return with_value(_optimise, optimise, call)


def text_of(wanted: Wanted) -> str | None:
    """Call the function that currently does the work of `optimised_text`."""
    return _optimise.get()(wanted)
