"""Prompts healed: their last tokens given back, as bytes to be spelled again.

What: a prompt that was cut in the middle of a word ends with a token that the model never saw before what has
to follow (``http:`` and ``//``, where it knows ``://``). `heal` takes the last tokens away and says which
bytes they were; `HealingMatcher` lets only tokens through that spell these bytes, and then the grammar's.
When: before `generate`, for prompts that end in text.
Limits: tokens without text end what is given back: nothing before them is looked at.

Source: "token healing" of the library guidance.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from equivalence import ArgumentError, Vocabulary
from equivalence.arguments import integer, integer_from, shown


class Healed(NamedTuple):
    """A prompt without its last tokens.

    Attributes:
        prompt_ids: what is left of it.
        prefix: the bytes of what was taken away, which the first tokens have to spell again.
    """

    prompt_ids: list[int]
    prefix: bytes


def heal(prompt_ids: Iterable[int], tokenizer: Any, *, tokens: int = 1) -> Healed:
    """Take the last tokens of a prompt away.

    Args:
        prompt_ids: the ids of one prompt.
        tokenizer: a `hybrid.Vocabulary`, or a tokenizer of Hugging Face, of which one is made: slow, so keep
            it where many prompts are healed.
        tokens: how many are taken away at most. A prompt without text at its end stays as it is.

    Raises:
        ArgumentError: ids out of the vocabulary's range; `tokens` below 0.
        VocabularyError: a tokenizer that no vocabulary can be made of.
    """
    vocabulary = tokenizer if isinstance(tokenizer, Vocabulary) else Vocabulary.from_huggingface(tokenizer)
    if isinstance(prompt_ids, (str, bytes)) or not isinstance(prompt_ids, Iterable):
        raise ArgumentError(f"prompt_ids is {shown(prompt_ids)}, allowed are the ids of one prompt")
    ids = [integer(token, "a prompt id") for token in prompt_ids]
    most = integer_from(0, tokens, "tokens")
    for token in ids:
        if not 0 <= token < vocabulary.size:
            raise ArgumentError(f"a prompt id is {token}, allowed are 0 to {vocabulary.size - 1}")
    unread = {*vocabulary.stop_token_ids, *vocabulary.special_token_ids}
    kept = len(ids)
    while (
        kept and len(ids) - kept < most and ids[kept - 1] not in unread and vocabulary.tokens[ids[kept - 1]]
    ):
        kept -= 1
    return Healed(ids[:kept], b"".join(vocabulary.tokens[token] for token in ids[kept:]))
