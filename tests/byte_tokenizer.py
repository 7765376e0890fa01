"""A transformers tokenizer of bytes, some merged texts and some special tokens.

What: `byte_tokenizer` makes it.
When: in tests that run an engine's grammar manager, which needs a tokenizer, and in `tests.generating`.
Limits: without merges, a text has one id for each byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast


def byte_tokenizer(
    stop: str, special: Sequence[str] = (), merges: Sequence[str] = (), **options: Any
) -> PreTrainedTokenizerFast:
    """Return a tokenizer of all bytes, merges such as "a b", a stop token and other special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = [(one, other) for one, other in map(str.split, merges)]
    words = {text: i for i, text in enumerate([*alphabet, *map("".join, pairs)])}
    tokenizer = Tokenizer(models.BPE(vocab=words, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=stop, **options)
    if special:
        fast.add_special_tokens({"additional_special_tokens": [*special]})
    return fast
