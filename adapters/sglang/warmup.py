"""Warming up when the scheduler starts, so that the first request need not wait.

What: `warm` lets a backend compile a grammar of each kind, follows it, and checks that all objects are ours.
When: once for each backend, which has made the vocabulary (0.8 s for 128,000 ids).
Limits: none of its own.
"""

from __future__ import annotations

import logging

from sglang.srt.constrained.base_grammar_backend import GrammarRow, InvalidGrammarObject

from adapters.engines.warmup import GRAMMARS, exercise
from adapters.sglang.backend import Backend, GrammarCompiler, ReasoningBackend
from adapters.sglang.grammar import Grammar, ReasoningGrammar
from hybrid import allocate_token_bitmask

logger = logging.getLogger("sglang.equimask")

KINDS = {"compile_json_schema": "json", "compile_regex": "regex", "compile_grammar": "ebnf"}


def warm(backend: Backend) -> None:
    """Make a backend ready for requests.

    Raises:
        TypeError: the backend's compilers or grammars are not ours.
    """
    for name in ("grammar_compiler", "_framing_compiler"):
        _check_kind(getattr(backend, name, None), GrammarCompiler)
    for method, text in GRAMMARS:
        made = backend._init_value_dispatch((KINDS[method], text), False)
        # because of the operator's bounds, or because the vocabulary lacks these texts
        if isinstance(made, InvalidGrammarObject):
            logger.warning("warm-up: compiling a small test grammar failed: %s", made.error_message)
            continue
        grammars = [made, made.copy(), made.copy()]
        for grammar in grammars:
            _check_kind(grammar, Grammar)
        size = backend.vocab_size
        exercise(made.fill_vocab_mask, made.accept_token, made.is_terminated, size)
        rows = allocate_token_bitmask(2, size)
        made.fill_vocab_mask_batched([GrammarRow(row, grammars[1 + row]) for row in range(2)], rows)


def check_wrapper(backend: ReasoningBackend) -> None:
    """Check that a backend for models that think gives our grammars.

    Raises:
        TypeError: the grammar is not ours.
    """
    made = backend._init_value_dispatch(("regex", "[a-z]+[0-9]{2,4}"), True)
    if not isinstance(made, InvalidGrammarObject):
        for grammar in (made, made.copy()):
            _check_kind(grammar, ReasoningGrammar, Grammar)  # the latter if a frame replaces the wrapper


def _check_kind(found: object, *kinds: type) -> None:
    if type(found) not in kinds:
        raise TypeError(
            f"this release of SGLang made a {type(found).__module__}.{type(found).__name__} where a "
            f"{kinds[0].__module__}.{kinds[0].__name__} was expected; serve with another "
            "--grammar-backend, or install a release that docs/sglang.md names"
        )
