"""Grammars that act on token ids or count tokens, compiled over representatives.

What: which ids an inner engine must be given as ids, the grammar in the engine's ids, and the conditions
under which an inner engine decides as plain XGrammar would.
When: by `hybrid.compile.compilation`, where constructs go beyond bytes and stacks; `hybrid.api.matcher`
repeats one check for overridden stop tokens.
Limits: what cannot be kept exact is refused by name (docs/limits.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from equivalence import GrammarError, TokenClasses, UnsupportedGrammar, Vocabulary
from equivalence.classes.byte_strings import Features, renumber_tokens
from equivalence.network import serial
from equivalence.network.reading import PlainRules


def refuse_unknown_ids(features: Features, vocabulary: Vocabulary) -> None:
    """Refuse a grammar that names an id outside of the vocabulary, on every strategy.

    XGrammar 0.2.8 reads past its tables when it compiles such a grammar, which may end the process.

    Raises:
        GrammarError: naming the ids.
    """
    unknown = [token_id for token_id in features.named if not 0 <= token_id < vocabulary.size]
    if unknown:
        raise GrammarError(
            f"the grammar names the token ids {unknown[:5]}, allowed are ids from 0 to "
            f"{vocabulary.size - 1}; name ids of this vocabulary"
        )


def refuse_beyond_stacks(features: Features, serialized: dict[str, Any]) -> None:
    """Refuse what a classifier does not decide: it knows bytes, ids and stacks only.

    Raises:
        UnsupportedGrammar: naming the construct.
    """
    if features.beyond_stacks and not features.only_ids:
        raise UnsupportedGrammar(f"the grammar has {features}, so bytes and stacks alone do not decide")
    if features.captures:
        raise UnsupportedGrammar("the grammar has captures, which only an engine records")
    rules = serialized[serial.RULES]
    if isinstance(rules, PlainRules):
        return
    if any(rule[serial.TEMPERATURE] is not None for rule in rules):
        raise UnsupportedGrammar("the grammar sets temperatures, which only an engine reports")


def refuse_captured_representatives(features: Features) -> None:
    """Refuse captures where the engine reads representatives: it would capture their bytes.

    Raises:
        UnsupportedGrammar: saying so.
    """
    if features.captures and features.cut_matters:
        raise UnsupportedGrammar(
            "the grammar has captures beside max_tokens, excluded tokens or max_chars with markers, where "
            "an engine would capture representatives instead of the text"
        )


def missing_bytes(vocabulary: Vocabulary, first_bytes: Iterable[int], taken: Iterable[int]) -> list[int]:
    """Those of some first bytes that no id outside of `taken` spells alone.

    XGrammar enforces an exhausted `max_tokens` only where some token is left afterwards. Where every first
    byte is a token of its own, that holds for the representatives iff it holds for the vocabulary; the
    prefixes added to the representatives, and stop ids that are also text, could make a difference otherwise.
    """
    taken = frozenset(taken)
    present = {
        token[0] for index, token in enumerate(vocabulary.tokens) if len(token) == 1 and index not in taken
    }
    return sorted(set(first_bytes) - present)


def refuse_missing_bytes(features: Features, vocabulary: Vocabulary, classes: TokenClasses) -> None:
    """Refuse max_tokens and max_chars over a vocabulary in which a byte is no token (see `missing_bytes`).

    A budget of characters is relaxed where its rule cannot end, and a token that only begins to end it counts
    as well: even one that the grammar never allows, which has no class and no representative. Where its first
    byte is a token, that one is represented, or no state reads the byte.

    Raises:
        UnsupportedGrammar: naming bytes.
    """
    missing: list[int] = []
    if features.max_chars:
        classless = np.flatnonzero(classes.class_of_token < 0).tolist()
        firsts = {vocabulary.tokens[token_id][0] for token_id in classless if vocabulary.tokens[token_id]}
        missing = missing_bytes(vocabulary, firsts, ())
    if features.max_tokens:
        firsts = {vocabulary.tokens[token_id][0] for token_id in classes.representatives.tolist()}
        missing += missing_bytes(vocabulary, firsts, (*features.named, *vocabulary.stop_token_ids))
    if missing:
        raise UnsupportedGrammar(
            f"the grammar has {'max_chars' if features.max_chars else 'max_tokens'}, and the vocabulary has "
            "tokens that begin with "
            f"{bytes(missing[:4])!r} but no ordinary token that is this byte alone: whether a budget can be "
            "enforced might differ for representatives"
        )


def in_engine_ids(
    serialized: dict[str, Any], classes: TokenClasses, void: int
) -> tuple[dict[str, Any], bool]:
    """The grammar with representatives for ids, and whether `void` stands for an id that is never taken."""
    used = False

    def number(token_id: int) -> int:
        nonlocal used
        found = int(classes.class_of_token[token_id])
        used = used or found < 0
        return void if found < 0 else found

    return renumber_tokens(serialized, number), used
