"""The `Vocabulary` of an `xgrammar.TokenizerInfo`: made once for each, as it takes 0.8 s for 128,000 ids.

What: `vocabulary_of`.
When: by `GrammarCompiler` and `wrap`.
Limits: XGrammar does not tell whether two `TokenizerInfo` objects describe the same tokenizer, so each one
has a vocabulary of its own; keep the object, and pass it again.
"""

from __future__ import annotations

from functools import cache

import xgrammar

from adapters.by_identity import ByIdentity
from hybrid import Vocabulary


@cache
def without_ids() -> Vocabulary:
    """What stands for a tokenizer without ids, which reads texts only: one id that is never allowed."""
    return Vocabulary.from_bytes([b""])


def _made_of(info: xgrammar.TokenizerInfo) -> Vocabulary:
    return Vocabulary.from_tokenizer_info(info) if info.vocab_size else without_ids()


_vocabularies = ByIdentity(_made_of)


def vocabulary_of(info: xgrammar.TokenizerInfo) -> Vocabulary:
    """The vocabulary that a tokenizer's description stands for."""
    return _vocabularies.of(info)
