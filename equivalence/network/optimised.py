"""What XGrammar's optimiser makes of a grammar: its rules and their automata, as a text.

What: `optimised_text` compiles a serialised grammar with XGrammar, over empty tokens, and writes the result;
`OptimisedBy` lets somebody else do that, for as long as it lasts. `equivalence.network.read_back` reads it.
When: for automata that XGrammar makes itself: of patterns and tag dispatches (`equivalence.network.foreign`),
and of whole grammars (`equivalence.classes.byte_strings.automata`).
Limits: the serialised form repeats all automata once per rule, 70 ns and 20 bytes of memory for each byte of
it; one that would be larger than asked for is not written. XGrammar cannot be interrupted. Nothing here needs
numpy, which the guard's process does not import.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, NamedTuple

from equivalence.network.serial import AUTOMATA

_BEFORE_AUTOMATA = f'"{AUTOMATA}":'


class Wanted(NamedTuple):
    """A grammar to be optimised.

    Attributes:
        text: the grammar as `equivalence.network.layouts.written` gives it.
        n_tokens: empty tokens of the vocabulary that it is compiled over; the last one is a stop token.
        most_bytes: no answer where the serialised form would be larger, about.
        pattern: the text of the pattern that the grammar consists of; empty for other grammars.
    """

    text: str
    n_tokens: int
    most_bytes: int
    pattern: str = ""


Optimise = Callable[[Wanted], str | None]
"""Gives what `optimised_text` does."""


def optimised_text(wanted: Wanted) -> str | None:
    """Two lines of JSON, the grammar without its automata and the automata that all rules share; or None: it
    would be too large."""
    import xgrammar
    from xgrammar.testing import _print_grammar_fsms

    compiler = _compiler(wanted.n_tokens)
    grammar = compiler.compile_grammar(xgrammar.Grammar.deserialize_json(wanted.text)).grammar
    if is_too_large(_print_grammar_fsms(grammar), wanted.most_bytes):
        return None
    return automata_apart(grammar.serialize_json())


def is_too_large(printed: str, most_bytes: int) -> bool:
    """Whether the serialised form of automata that XGrammar has printed would be, about."""
    return len(printed) * max(1, printed.count("\nRule ")) > 2 * most_bytes


def automata_apart(text: str) -> str:
    """A compiled grammar's serialised form as `optimised_text` gives it."""
    begin = text.index(_BEFORE_AUTOMATA) + len(_BEFORE_AUTOMATA)
    _, end = json.JSONDecoder().raw_decode(text, begin)
    complete = text[begin:end]
    # every rule's entry repeats the whole automaton: drop the copies before parsing
    return f"{text.replace(complete, '0')}\n{complete}"


@lru_cache(maxsize=4)
def _compiler(n_tokens: int) -> Any:
    import xgrammar

    info = xgrammar.TokenizerInfo([b""] * n_tokens, vocab_size=n_tokens, stop_token_ids=[n_tokens - 1])
    return xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)


_optimise: ContextVar[Optimise] = ContextVar("optimise", default=optimised_text)


class OptimisedBy:
    """While this lasts, in this thread, somebody else makes the texts; may raise a `HybridError`."""

    def __init__(self, optimise: Optimise) -> None:
        self._optimise = optimise

    def __enter__(self) -> None:
        self._before = _optimise.get()
        try:
            _optimise.set(self._optimise)
        except BaseException:  # Ctrl-C, which may come as soon as it is set
            _optimise.set(self._before)
            raise

    def __exit__(self, *error: object) -> None:
        _optimise.set(self._before)


def asked_for(wanted: Wanted) -> str | None:
    """As `optimised_text`, from whoever makes the texts now."""
    return _optimise.get()(wanted)
