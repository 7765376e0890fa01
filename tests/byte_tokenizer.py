"""A transformers tokenizer whose tokens are single bytes and some special tokens.

What: `byte_tokenizer` makes it.
When: in tests that run an engine's grammar manager, which needs a tokenizer.
Limits: there are no merges, so a text has one id for each byte.
"""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast


def byte_tokenizer(stop: str, special: Sequence[str]) -> PreTrainedTokenizerFast:
    """Return a tokenizer of all bytes, a stop token and other special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {text: i for i, text in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=words, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=stop)
    fast.add_special_tokens({"additional_special_tokens": [*special]})
    return fast
