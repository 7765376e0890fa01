"""A logits processor that keeps mlx-lm's generation inside a grammar.

What: `GrammarLogitsProcessor` hands the tokens of a sequence to that of `adapters.transformers`, which finds
out what is prompt and what was generated, and masks MLX's logits with its answer.
When: ``mlx_lm.generate(..., logits_processors=[GrammarLogitsProcessor(schema, tokenizer)])``, also
`stream_generate`, a batch with one processor a sequence, and a draft model.
Limits: needs `mlx` when it is called; masks are computed on the CPU and copied, a byte an id. mlx-lm computes
one step ahead: what it asks for behind the end of a text is answered with stop tokens.
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
        compiled: the grammar: a `hybrid.CompiledGrammar`, or, where there is a tokenizer, a JSON schema (a
            dict, or its text) or a pydantic model class.
        tokenizer: what `mlx_lm.load` returned beside the model, or one of transformers; its stop tokens end
            the text.
        options: of `adapters.transformers.GrammarLogitsProcessor`; ``max_new_tokens`` is what `generate` is
            given as ``max_tokens``.

    Raises:
        ImportError: there is no `mlx`; the message has the line that installs it.
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
        """Forget everything seen: the next call starts a generation."""
        self._inner.reset()

    def is_complete(self, tokens: Any) -> bool:
        """Whether a sequence is a whole text of the grammar, and not cut off.

        Args:
            tokens: its ids, prompt included, as the processor was given them.

        Raises:
            HistoryError: it does not begin with the prompt of the last generation.
        """
        return self._inner.is_complete(np.asarray(tokens).tolist())

    def __call__(self, tokens: Any, logits: Any) -> Any:
        """The masked logits.

        Args:
            tokens: the ids of the sequence so far, an array of one dimension.
            logits: an array of shape (ids,) or (1, ids).

        Raises:
            ArgumentError: arrays of other shapes.
            BatchError, NoAllowedToken, RejectedToken, HistoryError: as `adapters.transformers` says.
        """
        shape = tuple(getattr(logits, "shape", ()))
        if len(getattr(tokens, "shape", ())) != 1 or len(shape) not in (1, 2):
            raise ArgumentError(f"tokens are {shown(tokens)}, logits {shown(logits)}, allowed are two arrays")
        if len(shape) == 2 and shape[0] != 1:
            raise ArgumentError(
                f"logits are of shape {shape}, allowed is one row: each of a batch needs its own processor"
            )
        rows = torch.tensor([tokens.tolist()], dtype=torch.int64)
        allowed = self._inner.allowed(rows, shape[-1]).numpy()
        mask = self._mlx.array(allowed if len(shape) == 2 else allowed[0])
        return self._mlx.where(mask, logits, self._mlx.array(-np.inf, dtype=logits.dtype))


def is_wrapper(tokenizer: Any) -> bool:
    """Whether a tokenizer is mlx-lm's wrapper of one of transformers, told by its name: all that transformers
    knows is an attribute of it too."""
    return type(tokenizer).__name__ == "TokenizerWrapper"


def mlx_core() -> Any:
    """The module `mlx.core`.

    Raises:
        ImportError: it is not installed, or does not work here.
    """
    try:
        return importlib.import_module("mlx.core")
    except ImportError as error:
        raise ImportError(f"mlx.core cannot be imported ({error}); install it: {INSTALL}") from error
