"""The tokens that end a request in SGLang.

What: `stops_of` gives those of a request. `named_ids` gives the ids that a grammar itself reads.
When: before the first token.
Limits: none of its own.
"""

from __future__ import annotations

from typing import Any

import xgrammar

from equivalence import GrammarError
from equivalence.network.features import find_features
from equivalence.network.reading import read_grammar


def stops_of(request: Any) -> set[int]:
    """Return the ids at which SGLang ends a request: those of the request, of the model and of the tokenizer.

    Args:
        request: SGLang's request. Attributes that it does not have count as empty.
    """
    asked, tokenizer = request.sampling_params, getattr(request, "tokenizer", None)
    if getattr(asked, "ignore_eos", False):
        return set()
    found: set[Any] = {getattr(tokenizer, "eos_token_id", None)}
    for owner, name in (
        (asked, "stop_token_ids"),
        (request, "eos_token_ids"),
        (tokenizer, "additional_stop_token_ids"),
    ):
        found.update(getattr(owner, name, None) or ())
    return {stop for stop in found if isinstance(stop, int)}


def named_ids(compiled: Any) -> set[int]:
    """Return the ids that a grammar reads by number, as in formats with special tokens. If they ended the
    text, it could never be completed.

    Args:
        compiled: an `adapters.xgrammar.CompiledGrammar`.
    """
    features, grammar = compiled.hybrid.features, compiled.hybrid.grammar
    if features is not None:
        return set(features.named)
    if not isinstance(grammar, xgrammar.Grammar):
        return set()
    try:
        return set(find_features(read_grammar(grammar).whole()).named)
    except GrammarError:  # another version of XGrammar
        return set()
