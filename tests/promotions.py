"""Helpers for the tests of completing and promoting classifiers.

What: the states of a classifier, whether it is complete, and its masks along a random text.
When: in ``test_promotion_pieces.py`` and ``test_promotion.py``.
Limits: small vocabularies and grammars.
"""

from __future__ import annotations

from collections.abc import Callable

from bench.cases import CHECKOUT
from hybrid import CompiledGrammar, GrammarCompiler
from hybrid.classifier.promotion import Promotion
from hybrid.classifier.reachable import Reachable
from tests.test_artifact import SCHEMA, masks_along

NESTED = 'root ::= ("(" root ")" | "[" [0-9]{2,9} "]" | "{" root "}" root)*'


def reachable_of(compiled: CompiledGrammar) -> Reachable:
    assert compiled.classifier is not None and compiled.classifier.reachable is not None
    return compiled.classifier.reachable


def begun(compiled: CompiledGrammar) -> Promotion:
    assert compiled.classifier is not None
    return Promotion(compiled.classifier, reachable_of(compiled), states=10_000, limit=1 << 30)


def known_states(compiled: CompiledGrammar) -> int:
    assert compiled.classifier is not None
    return int(compiled.classifier.session.store.n_found)


def is_complete(compiled: CompiledGrammar) -> bool:
    return compiled.classifier is not None and compiled.classifier.is_complete


def use(compiled: CompiledGrammar, seed: int = 1, steps: int = 40) -> list[bytes]:
    """Serve one sequence, and return its masks."""
    return masks_along(compiled, seed, steps)


def text_of(grammar: str) -> Callable[[GrammarCompiler], CompiledGrammar]:
    if grammar == "json":
        return lambda compiler: compiler.compile_builtin_json_grammar()
    if grammar == "schema":
        return lambda compiler: compiler.compile_json_schema(SCHEMA)
    text = (CHECKOUT / "hybrid" / "grammars" / f"{grammar}.gbnf").read_text("utf-8")
    return lambda compiler: compiler.compile_grammar(text)


def promotions(compiler: GrammarCompiler) -> tuple[int, int]:
    found = compiler.stats()["promotions"]
    return found["done"], found["given_up"]
