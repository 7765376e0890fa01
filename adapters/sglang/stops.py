"""The tokens that end a request in SGLang.

What: `stops_of` a request; `named_ids` of a grammar, which are left to it.
When: before the first token.
Limits: none of its own.
"""

from __future__ import annotations

from typing import Any

import xgrammar

from equivalence import GrammarError
from equivalence.classes.byte_strings import find_features
from equivalence.network.reading import read_as_far


def stops_of(request: Any) -> set[int]:
    """The ids at which SGLang ends a request, wherever they come: those that it asks for, those of the model
    and those of the tokenizer.

    Args:
        request: of SGLang's; what it does not have has no ids.
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
    """The ids that a grammar reads by number, as formats do that are framed by special tokens: to take these
    for ends would leave no way through it.

    Args:
        compiled: an `adapters.xgrammar.CompiledGrammar`.
    """
    features, grammar = compiled.hybrid.features, compiled.hybrid.grammar
    if features is not None:
        return set(features.named)
    if not isinstance(grammar, xgrammar.Grammar):
        return set()
    try:
        return set(find_features(read_as_far(grammar).whole()).named)
    except GrammarError:  # of another version of XGrammar
        return set()
