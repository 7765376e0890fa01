"""The `Vocabulary` of an `xgrammar.TokenizerInfo`, made once for each, because it takes 0.8 s for 128,000
ids.

What: `vocabulary_of`.
When: used by `GrammarCompiler` and `wrap`.
Limits: XGrammar cannot tell whether two `TokenizerInfo` objects describe the same tokenizer, so each has its
own vocabulary. Keep the object and pass it again.
"""

from __future__ import annotations

from functools import cache

import xgrammar

from adapters.by_identity import ByIdentity
from hybrid import Vocabulary


@cache
def without_ids() -> Vocabulary:
    """Make a vocabulary for a tokenizer without ids, for reading texts only. It has one id that is never
    allowed."""
    return Vocabulary.from_bytes([b""])


def _made_of(info: xgrammar.TokenizerInfo) -> Vocabulary:
    return Vocabulary.from_tokenizer_info(info) if info.vocab_size else without_ids()


_vocabularies = ByIdentity(_made_of)


def vocabulary_of(info: xgrammar.TokenizerInfo) -> Vocabulary:
    """Return the vocabulary of a tokenizer."""
    return _vocabularies.of(info)
