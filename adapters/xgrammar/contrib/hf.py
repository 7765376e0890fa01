"""The logits processor for transformers, under XGrammar's name.

What: `LogitsProcessor` is `adapters.transformers.GrammarLogitsProcessor` for this package's compiled
grammars, with the attributes of XGrammar's. It also supports beam search and assisted decoding, and may be
used again.
When: pass ``logits_processor=[LogitsProcessor(compiled)]`` to `generate`.
Limits: scores beyond the vocabulary are masked out, too; XGrammar leaves them as they are. Matchers that the
program has set read only the last token of each row, as in XGrammar.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import xgrammar

from adapters.generations import Generation, Ids, State
from adapters.transformers import GrammarLogitsProcessor, HistoryError
from adapters.xgrammar.compiled import CompiledGrammar
from adapters.xgrammar.conversion import grammar_of
from equivalence.errors import ArgumentError, BatchError


class LogitsProcessor(GrammarLogitsProcessor):
    """Masks the scores of every row with its grammar's next tokens.

    Args:
        compiled_grammar: one grammar for all rows, or a list.
        **options: options of `GrammarLogitsProcessor`.

    Attributes:
        compiled_grammars: the list of the given grammars.
        full_vocab_size: number of ids of their vocabulary.
        batch_size: number of rows of the last call, or 0.
        prefilled: whether it was called. If a program sets it to False, the next call reads no token.
        token_bitmask: the bitmask of the last call, or None.
    """

    def __init__(
        self,
        compiled_grammar: CompiledGrammar | xgrammar.CompiledGrammar | Sequence[CompiledGrammar],
        **options: Any,
    ) -> None:
        given = compiled_grammar if isinstance(compiled_grammar, (list, tuple)) else [compiled_grammar]
        self.compiled_grammars = [grammar_of(one) for one in given]
        self._set_matchers: Sequence[Any] = []
        super().__init__([one.hybrid for one in self.compiled_grammars], **options)
        self.full_vocab_size = self.compiled_grammars[0].tokenizer_info.vocab_size
        self.batch_size = 0
        self.prefilled = False
        self.token_bitmask: torch.Tensor | None = None

    @property
    def matchers(self) -> Sequence[Any]:
        """The matchers of the rows of the last call; none before the first.

        A program may set them before a generation, one for each row, for example to go on after a text that
        was generated earlier. From then on, they are used until others are set, and each reads the last token
        of its row. No matchers: the next call starts a generation.

        Raises:
            ArgumentError: the processor has `max_new_tokens` or `prefix`, which are for whole generations.
        """
        if self._generation is None:
            return self._set_matchers
        return tuple(state.matcher for state in self._generation.rows)

    @matchers.setter
    def matchers(self, matchers: Sequence[Any]) -> None:
        if matchers and (self._limit is not None or any(self._prefixes)):
            raise ArgumentError(
                "max_new_tokens and prefix do not apply to matchers that a program sets; leave them out, and "
                "call limit_tokens of each matcher, or let it read the prefix"
            )
        self.reset()
        self._set_matchers = matchers

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """Return masked scores in a new tensor. As in XGrammar, ids without a score are ignored."""
        padded: Any = scores
        if isinstance(padded, torch.Tensor) and padded.ndim == 2 and padded.is_floating_point():
            missing = self.full_vocab_size - padded.shape[1]
            if missing > 0:
                padded = torch.nn.functional.pad(padded, (0, missing), value=-torch.inf)
        masked: Any = super().__call__(input_ids, padded)[:, : scores.shape[1]]
        self.batch_size, self.prefilled, self.token_bitmask = len(input_ids), True, self._bitmask
        return masked

    def _locate(self, input_ids: torch.Tensor) -> list[State]:
        if not self._set_matchers:
            return super()._locate(input_ids)
        if len(input_ids) != len(self._set_matchers):
            raise BatchError(
                f"there must be one matcher for each of the {len(input_ids)} rows, but matchers has "
                f"{len(self._set_matchers)}"
            )
        self._rejected = {}
        rows = []
        for index, matcher in enumerate(self._set_matchers):
            ids = input_ids[index, -1:].detach().to("cpu", torch.int64).numpy()
            state = State(matcher, ids[:0], index)
            state.ended = "stop" if matcher.is_terminated() else ""
            if self.prefilled and len(ids) and not state.append(int(ids[0])):
                self._rejected[index] = True
            rows.append(state)
        return rows

    def _begin(self, host: Ids) -> Generation:
        now, is_guessed = self._generation, self.prompt_length is None
        if is_guessed and now is not None and host.shape == (len(now.prompt), 1):
            # As prompts, such rows would get the first mask again. XGrammar would read them.
            is_first_step = now.longest == now.prompt.shape[1] and not np.array_equal(host, now.prompt)
            tokens = zip(now.rows, host[:, 0].tolist(), strict=True)
            if is_first_step and all(state.matcher.fork().accept_token(token) for state, token in tokens):
                raise HistoryError(
                    "cannot tell whether rows of one token are new prompts or the tokens that were chosen "
                    "last; pass whole rows, as generate does, or set matchers, one for each row; if these "
                    "are new prompts, call reset() before"
                )
        return super()._begin(host)
