"""Healing prompts that end in the middle of a word.

What: such a prompt ends with a token that never came before the right continuation in the training data
(``http:`` before ``//``, because the model knows the token ``://``). `heal` removes the last tokens and
returns their bytes. `HealingMatcher` first allows only tokens that spell these bytes, and then those of the
grammar.
When: before `generate`, for prompts that end in text.
Limits: tokens are only removed up to the last token without text.

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
        prompt_ids: the remaining ids.
        prefix: the bytes of the removed tokens, which the first generated tokens must spell.
    """

    prompt_ids: list[int]
    prefix: bytes


def heal(prompt_ids: Iterable[int], tokenizer: Any, *, tokens: int = 1) -> Healed:
    """Remove the last tokens of a prompt.

    Args:
        prompt_ids: the ids of one prompt.
        tokenizer: a `hybrid.Vocabulary`, or a Hugging Face tokenizer. Making a vocabulary from a tokenizer is
            slow, so pass a vocabulary to heal many prompts.
        tokens: how many tokens to remove at most. A prompt that does not end in text stays as it is.

    Returns:
        The ids that remain, and the bytes of the removed tokens.

    Raises:
        ArgumentError: an id is out of range, or `tokens` is below 0.
        VocabularyError: no vocabulary can be made from the tokenizer.
    """
    vocabulary = tokenizer if isinstance(tokenizer, Vocabulary) else Vocabulary.from_huggingface(tokenizer)
    if isinstance(prompt_ids, (str, bytes)) or not isinstance(prompt_ids, Iterable):
        raise ArgumentError(f"prompt_ids must be the ids of one prompt, but is {shown(prompt_ids)}")
    ids = [integer(token, "a prompt id") for token in prompt_ids]
    most = integer_from(0, tokens, "tokens")
    for token in ids:
        if not 0 <= token < vocabulary.size:
            raise ArgumentError(f"prompt ids must be from 0 to {vocabulary.size - 1}, but one is {token}")
    unread = {*vocabulary.stop_token_ids, *vocabulary.special_token_ids}
    kept = len(ids)
    while (
        kept and len(ids) - kept < most and ids[kept - 1] not in unread and vocabulary.tokens[ids[kept - 1]]
    ):
        kept -= 1
    return Healed(ids[:kept], b"".join(vocabulary.tokens[token] for token in ids[kept:]))
