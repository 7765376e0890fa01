"""Helpers for the tests of classifiers and of their completion.

What: a small vocabulary, budgets, numbers of examples, and functions that compile a random grammar to a
classifier, or compare its masks with the reference's.
When: in ``test_classifier*.py``, ``test_walking.py`` and the tests of promotion.
Limits: small vocabularies and grammars.
"""

from __future__ import annotations

from typing import Any

import xgrammar
from hypothesis import reject

from equivalence import BudgetExceeded, UnsupportedGrammar, Vocabulary
from equivalence.classes.reference import ReferenceGrammar
from hybrid import Budget, CompiledGrammar, GrammarCompiler
from tests.random_grammars import GrammarCase

EXAMPLES = 50

SMALL = Budget(states=4_000)
"""Enough for all but the most ambiguous random grammars."""

LETTERS = [
    b"a", b"b", b"ab", b"aa", b"(", b")", b"((", b"))", b"+", b"a+", b"x", b"xx", b"", b"aaa", b"+a", b")+",
]  # fmt: skip
STOP = LETTERS.index(b"")
LETTERED = Vocabulary.from_bytes(LETTERS, stop_token_ids=STOP)

NESTED = 'root ::= ("(" root ")" | "a"{2,9} | "+" root "x")*'


def vocabulary_of(tokens: list[bytes]) -> Vocabulary:
    """Return a vocabulary of the tokens, followed by a stop id."""
    return Vocabulary.from_bytes([*tokens, b""], stop_token_ids=len(tokens))


def compiled_of(grammar: Any, vocabulary: Vocabulary = LETTERED, **options: Any) -> CompiledGrammar:
    options = {"strategy": "classifier", "cache_enabled": False} | options
    return GrammarCompiler(vocabulary, **options).compile_grammar(grammar)


def classifier_case(case: GrammarCase, on_demand: bool) -> tuple[CompiledGrammar, Vocabulary]:
    """Compile the example; reject one that is refused or exceeds its budget."""
    vocabulary = vocabulary_of(case.vocabulary)
    try:
        compiled = compiled_of(case.ebnf, vocabulary, on_demand=on_demand, budget=SMALL)
    except (UnsupportedGrammar, BudgetExceeded):
        reject()
    if compiled.strategy != "classifier":
        reject()
    return compiled, vocabulary


def agree_with_the_reference(
    begin: Any, ebnf: str, vocabulary: Vocabulary, choose: Any, texts: int, steps: int
) -> int:
    """Compare masks with the reference's along texts of chosen tokens; return how many.

    Args:
        begin: starts a text, and returns two functions: one returns its mask, the other reads a token.
        choose: returns one of the tokens that are allowed.
    """
    reference, tokens = ReferenceGrammar(xgrammar.Grammar.from_ebnf(ebnf)), vocabulary.tokens
    (stop,) = vocabulary.stop_token_ids
    n_masks = 0
    for _ in range(texts):
        (mask, read), prefix = begin(), b""
        for _ in range(steps):
            allowed = mask()
            (expected,) = reference.masks([prefix], list(tokens))
            wanted = [i for i, taken in enumerate(expected) if taken and tokens[i]]
            assert [i for i in allowed if i != stop] == wanted, (prefix, ebnf)
            assert (stop in allowed) == reference.complete(prefix), (prefix, ebnf)
            n_masks += 1
            if not wanted:
                break
            token = choose(wanted)
            assert read(token)
            prefix += tokens[token]
    return n_masks


def words_of(store: Any, mask: int) -> list[int]:
    """The words of a mask of classes in a store's tables, given its number."""
    starts, pool = store.masks.lists()
    return list(pool[starts[mask] : starts[mask + 1]].tolist())
