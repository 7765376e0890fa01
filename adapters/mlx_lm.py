"""A logits processor that makes mlx-lm write texts of a grammar.

What: `GrammarLogitsProcessor` passes the tokens of a sequence to the processor of `adapters.transformers`,
which finds out what is prompt and what was generated. Then it masks MLX's logits with the result.
When: ``mlx_lm.generate(..., logits_processors=[GrammarLogitsProcessor(schema, tokenizer)])``. It also works
with `stream_generate`, with batches (one processor for each sequence), and with a draft model.
Limits: it needs `mlx`. Masks are computed on the CPU and copied, one byte for each id. mlx-lm computes one
step ahead; after the end of a text, it gets stop tokens.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import torch

from adapters import transformers
from equivalence.arguments import shown
from equivalence.errors import ArgumentError

INSTALL = "pip install 'equimask[mlx]'"


class GrammarLogitsProcessor:
    """Masks the logits of one sequence at a time with the grammar's next tokens.

    Args:
        compiled: a `hybrid.CompiledGrammar`; or, with a tokenizer, a JSON schema (a dict or text) or a
            pydantic model class.
        tokenizer: the tokenizer that `mlx_lm.load` returned, or one of transformers. Its stop tokens end the
            text.
        options: options of `adapters.transformers.GrammarLogitsProcessor`. ``max_new_tokens`` is the
            ``max_tokens`` of `generate`.

    Raises:
        ImportError: `mlx` is not installed; the message has the command to install it.
        VocabularyError, ArgumentError, UnsupportedGrammar: as there.
    """

    def __init__(self, compiled: Any, tokenizer: Any = None, **options: Any) -> None:
        self._mlx = mlx_core()
        if is_wrapper(tokenizer):
            if options.get("override_stop_tokens") is None and tokenizer.eos_token_ids:
                options["override_stop_tokens"] = sorted(tokenizer.eos_token_ids)
            tokenizer = tokenizer._tokenizer
        self._inner = transformers.GrammarLogitsProcessor(compiled, tokenizer, **options)

    def reset(self) -> None:
        """Forget all rows. The next call starts a generation."""
        self._inner.reset()

    def is_complete(self, tokens: Any) -> bool:
        """Whether the text of a sequence is complete, and was not cut off.

        Args:
            tokens: the ids of the sequence, including the prompt.

        Raises:
            HistoryError: the sequence does not begin with the prompt of the last generation.
        """
        return self._inner.is_complete(np.asarray(tokens).tolist())

    def __call__(self, tokens: Any, logits: Any) -> Any:
        """Return masked logits.

        Args:
            tokens: the ids of the sequence so far, an array of one dimension.
            logits: an array of shape (ids,) or (1, ids).

        Raises:
            ArgumentError: an array has another shape.
            BatchError, NoAllowedToken, RejectedToken, HistoryError: as `adapters.transformers` says.
        """
        shape = tuple(getattr(logits, "shape", ()))
        if len(getattr(tokens, "shape", ())) != 1 or len(shape) not in (1, 2):
            raise ArgumentError(
                f"tokens and logits must be arrays, but tokens is {shown(tokens)} and logits is "
                f"{shown(logits)}"
            )
        if len(shape) == 2 and shape[0] != 1:
            raise ArgumentError(
                f"logits must have one row, but have shape {shape}; each row of a batch needs its own "
                "processor"
            )
        rows = torch.tensor([tokens.tolist()], dtype=torch.int64, device="cpu")
        allowed = self._inner.allowed(rows, shape[-1]).numpy()
        mask = self._mlx.array(allowed if len(shape) == 2 else allowed[0])
        return self._mlx.where(mask, logits, self._mlx.array(-np.inf, dtype=logits.dtype))


def is_wrapper(tokenizer: Any) -> bool:
    """Whether a tokenizer is mlx-lm's wrapper of a tokenizer of transformers. Only the class name tells,
    because the wrapper has all attributes of the wrapped tokenizer."""
    return type(tokenizer).__name__ == "TokenizerWrapper"


def mlx_core() -> Any:
    """Import the module `mlx.core`.

    Raises:
        ImportError: it is not installed, or does not work on this machine.
    """
    try:
        return importlib.import_module("mlx.core")
    except ImportError as error:
        raise ImportError(f"mlx.core cannot be imported ({error}); install it: {INSTALL}") from error
