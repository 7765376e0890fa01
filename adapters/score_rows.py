"""Rows of ids and scores: their checks, rows of bitmasks, and the errors about them.

What: `check_call` and `check_width` validate what a decoding loop passes; `bitmask_row` and `unpack` go from
ids to bits and back; `apply` masks scores; `quoted` and `expected` are the parts of messages that quote a
row.
When: by `adapters.transformers` and `adapters.continuous_batching`.
Limits: plain functions without state.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from adapters.generations import State
from equivalence import Vocabulary
from equivalence.arguments import shown
from equivalence.errors import ArgumentError, BatchError, BudgetExceeded, HybridError, VocabularyError
from hybrid import apply_token_bitmask_inplace
from hybrid.api.bitmask import LOGITS


class NoAllowedToken(HybridError):
    """No token is allowed by both the grammar and the other logits processors."""


class RejectedToken(HybridError):
    """A row was continued with a token that the grammar does not allow."""


class HistoryError(HybridError):
    """The rows may be a step of the generation or a new prompt, and it is impossible to tell; or they are
    neither."""


def quoted(tokens: Iterable[int], vocabulary: Vocabulary) -> str:
    """Return the last bytes of some tokens, for messages."""
    known = vocabulary.tokens
    text = b"".join(known[token] for token in tokens if 0 <= token < len(known))
    return repr(text) if len(text) <= 60 else f"...{text[-60:]!r}"


def expected(state: State) -> str:
    """Return what the grammar expects where a row was refused, for messages. Empty if that takes too
    long."""
    try:
        return f"; {state.matcher.explain().sentence}"
    except BudgetExceeded:
        return ""


def no_token(row: int, state: State, ids: list[int], vocabulary: Vocabulary) -> NoAllowedToken:
    """Return the error of a row for which no token is left, of the ids that the grammar allows."""
    stops = vocabulary.stop_token_ids
    texts = ["a stop token" if token in stops else quoted([token], vocabulary) for token in ids[:8]]
    some = [f"{token} ({text})" for token, text in zip(ids, texts, strict=False)] + ["..."] * (len(ids) > 8)
    why = (
        f"The grammar allows {len(ids)} token{'s' * (len(ids) != 1)}: {', '.join(some)}; but something else, "
        "such as another logits processor, set all of them to -inf. Relax min_new_tokens, min_length, "
        "suppress_tokens, bad_words_ids or no_repeat_ngram_size"
        if ids
        else "The grammar requires text that no token of the vocabulary can begin"
    )
    many = "s" * (len(state.generated) != 1)
    return NoAllowedToken(
        f"row {row}: no token is left after {len(state.generated)} generated token{many}, "
        f"{quoted(state.generated, vocabulary)}. {why}"
    )


def check_call(input_ids: Any, scores: Any) -> None:
    """Raise an error unless the arguments are rows of ids, with a row of scores for each."""
    for name, given in (("input_ids", input_ids), ("scores", scores)):
        if not isinstance(given, torch.Tensor) or given.ndim != 2:
            kind = shown(given) if not isinstance(given, torch.Tensor) else f"of shape {tuple(given.shape)}"
            raise ArgumentError(f"{name} must be a tensor with two dimensions, but is {kind}")
    is_ids = input_ids.dtype in (torch.int64, torch.int32) or not input_ids.numel()
    if not is_ids or not scores.is_floating_point():
        raise ArgumentError(
            "input_ids must be int64 or int32, and scores must be floats, but they are "
            f"{input_ids.dtype} and {scores.dtype}"
        )
    if len(input_ids) != len(scores):
        raise BatchError(
            f"input_ids and scores must have the same number of rows, but have {len(input_ids)} and "
            f"{len(scores)}"
        )


def check_width(scores: torch.Tensor, size: int) -> None:
    """Raise `VocabularyError` if there are fewer scores than ids."""
    if scores.shape[-1] < size:
        raise VocabularyError(
            f"the scores have {scores.shape[-1]} columns, but the grammar's vocabulary has {size} ids; build "
            "the vocabulary for the model's logits (vocab_size=model.config.vocab_size)"
        )


def bitmask_row(ids: Iterable[int], size: int) -> torch.Tensor:
    """Return a row of a bitmask with the bits of ``ids`` set; with all bits set if there are no ids."""
    chosen = [token for token in ids if 0 <= token < size]
    bits = np.zeros(-(-size // 32) * 32, np.uint8) if chosen else np.ones(-(-size // 32) * 32, np.uint8)
    bits[chosen] = 1
    return torch.from_numpy(np.packbits(bits, bitorder="little").view(np.int32).copy())


def unpack(bitmask: torch.Tensor, size: int) -> torch.Tensor:
    """Return the bits of a bitmask as booleans, one per id."""
    bits = (bitmask.unsqueeze(-1) >> torch.arange(32, dtype=torch.int32, device=bitmask.device)) & 1
    return bits.flatten(-2)[..., :size].bool()


def apply(scores: torch.Tensor, bitmask: torch.Tensor, size: int) -> None:
    """Set scores to -inf where the bit of one of the first `size` ids is 0. The bitmask is on the CPU."""
    if scores.device.type in ("cpu", "cuda") and scores.dtype in LOGITS:
        bitmask = bitmask.to(scores.device, non_blocking=True)
        apply_token_bitmask_inplace(scores, bitmask, vocab_size=size)
    else:  # there is no kernel
        scores[:, :size].masked_fill_(~unpack(bitmask, size).to(scores.device), -torch.inf)
