"""Refuse grammars whose masks depend on more than bytes and stacks; the message names the construct.

When: called by `hybrid.compile.compilation`, before a classifier is built.
Limits: docs/limits.md lists all constructs. Grammars that a classifier refuses run in plain XGrammar.
"""

from __future__ import annotations

from typing import Any

from equivalence import GrammarError, UnsupportedGrammar, Vocabulary
from equivalence.network import serial
from equivalence.network.features import Features
from equivalence.network.reading import PlainRules


def refuse_unknown_ids(features: Features, vocabulary: Vocabulary) -> None:
    """Refuse a grammar that names an id outside the vocabulary, on every strategy.

    XGrammar 0.2.8 reads past its tables when it compiles such a grammar, which may crash the process.

    Raises:
        GrammarError: the message names the ids.
    """
    unknown = [token_id for token_id in features.named if not 0 <= token_id < vocabulary.size]
    if unknown:
        raise GrammarError(
            f"the grammar names the token ids {unknown[:5]}, but ids of this vocabulary are from 0 to "
            f"{vocabulary.size - 1}; name only such ids"
        )


def beyond_stacks(features: Features) -> str:
    """Return the reason why a grammar with such constructs has no token classes."""
    return (
        f"the grammar uses {features}: which tokens are allowed depends on more than the text's bytes "
        "and the parser's stack"
    )


def refuse_beyond_stacks(features: Features, serialized: dict[str, Any]) -> None:
    """Refuse grammars that a classifier cannot run: it knows only bytes, ids and stacks.

    Raises:
        UnsupportedGrammar: the message names the construct.
    """
    if features.beyond_stacks and not features.only_ids:
        raise UnsupportedGrammar(beyond_stacks(features))
    if features.captures:
        raise UnsupportedGrammar("the grammar has captures, which only XGrammar records")
    rules = serialized[serial.RULES]
    if isinstance(rules, PlainRules):
        return
    if any(rule[serial.TEMPERATURE] is not None for rule in rules):
        raise UnsupportedGrammar("the grammar sets temperatures, which only XGrammar reports")
