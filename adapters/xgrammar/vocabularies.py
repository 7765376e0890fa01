"""The `Vocabulary` of an `xgrammar.TokenizerInfo`, made once for each, because it takes 0.8 s for 128,000
ids.

What: `vocabulary_of`.
When: used by `GrammarCompiler` and `wrap`.
Limits: XGrammar cannot tell whether two `TokenizerInfo` objects describe the same tokenizer, so each has its
own vocabulary. Keep the object and pass it again.
"""

from __future__ import annotations

import xgrammar

from adapters.by_identity import ByIdentity
from hybrid import Vocabulary


def _made_of(info: xgrammar.TokenizerInfo) -> Vocabulary:
    if info.vocab_size:
        return Vocabulary.from_tokenizer_info(info)
    return Vocabulary.from_bytes([b""])  # for reading texts only: one id that is never allowed


_vocabularies = ByIdentity(_made_of)


def vocabulary_of(info: xgrammar.TokenizerInfo) -> Vocabulary:
    """Return the vocabulary of a tokenizer."""
    return _vocabularies.of(info)
