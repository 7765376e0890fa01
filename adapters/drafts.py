"""Drafts from a grammar's state in `model.generate` of transformers.

What: `GrammarDrafts` is a decoding method: assisted generation of transformers itself, with a candidate
generator that asks a `hybrid.drafts.DraftModel`. What comes out is what comes out without it: the model
chooses each token, greedily or by sampling, under the masks of the same logits processors.
When: ``model.generate(**inputs, logits_processor=[GrammarLogitsProcessor(compiled)],
custom_generate=GrammarDrafts(DraftModel(compiled)), use_cache=True)``.
Limits: one row, as all assisted generation; a version of transformers whose `generate` takes a function as
``custom_generate``; a cache that can be cropped. Reaches into transformers at one place,
``_assisted_decoding``, which has no public way in for a candidate generator of one's own.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.generation.candidate_generator import CandidateGenerator

from equivalence.arguments import integer_from, shown
from equivalence.errors import ArgumentError, BatchError, StrategyError
from hybrid.drafts import DraftModel
from hybrid.healing import HealingMatcher


class DraftCandidates(CandidateGenerator):
    """Candidates for one row, from a draft model that learns from what is kept of them.

    Args:
        drafts: the draft model.
        most: tokens of a draft.
        max_length: of the row, prompt included; None: no limit.
        prefix: bytes that the generated text begins with before the grammar does (`hybrid.healing`).
        learn: whether the draft model learns from this row.

    Attributes:
        proposed, kept: tokens that were drafted, and those of them that the model chose.
    """

    def __init__(
        self,
        drafts: DraftModel,
        most: int = 8,
        *,
        max_length: int | None = None,
        prefix: str | bytes = b"",
        learn: bool = True,
    ) -> None:
        self._drafts, self._most, self._max_length, self._learn = drafts, most, max_length, learn
        self._matcher = HealingMatcher(drafts.compiled_grammar, prefix)
        self._stops = frozenset(self._matcher.stop_token_ids)
        self._read: int | None = None  # columns that were read; what the first call has is prompt
        self._is_lost = False  # whether the row has left the grammar
        self.proposed = self.kept = 0

    def _follow(self, input_ids: torch.Tensor) -> None:
        """Read what is new in the row."""
        if self._read is None:
            self._read = input_ids.shape[1]
        new = input_ids[0, self._read :].tolist()
        self._read = input_ids.shape[1]
        for token in new:
            if self._is_lost or self._matcher.is_terminated():
                return
            was_inside = self._matcher.inner is not None
            self._is_lost = not self._matcher.accept_token(token)
            if self._learn and was_inside and not self._is_lost:
                self._drafts.learn(self._matcher)

    def get_candidates(self, input_ids: torch.Tensor, **_: Any) -> tuple[torch.Tensor, None]:
        """The row with a draft behind it, and no logits: a draft is a guess, and not drawn from anything."""
        self._follow(input_ids)
        # the model chooses one more token than is drafted
        room = self._most if self._max_length is None else self._max_length - input_ids.shape[1] - 1
        draft = (
            [] if self._is_lost or room <= 0 else self._drafts.propose(self._matcher, min(self._most, room))
        )
        if draft and draft[-1] in self._stops:
            draft.pop()  # some versions would go on behind it
        self.proposed += len(draft)
        if not draft:
            return input_ids, None
        return torch.cat([input_ids, input_ids.new_tensor([draft])], dim=1), None

    def update_candidate_strategy(
        self, input_ids: torch.Tensor, scores: torch.Tensor, num_matches: int
    ) -> None:
        """Read and learn what was kept."""
        self.kept += int(num_matches)
        self._follow(input_ids)


class GrammarDrafts:
    """A decoding method for ``custom_generate`` of `model.generate`.

    Args:
        drafts: the draft model, shared by any number of calls and threads.
        most: tokens of a draft, 1 to 256.
        prefix: as the processor's (`GrammarLogitsProcessor(prefix=...)`).
        learn: whether the draft model learns from what is generated.

    Attributes:
        last: the candidates of the call that was made last, with what was drafted and kept.

    Raises:
        ArgumentError: not a draft model, or a number out of its range.
    """

    def __init__(
        self, drafts: DraftModel, most: int = 8, *, prefix: str | bytes = b"", learn: bool = True
    ) -> None:
        if not isinstance(drafts, DraftModel):
            raise ArgumentError(f"drafts is {shown(drafts)}, allowed is a hybrid.drafts.DraftModel")
        self._most = integer_from(1, most, "most")
        if self._most > 256:
            raise ArgumentError(f"most is {self._most}, allowed are 1 to 256")
        self._drafts, self._prefix, self._learn = drafts, prefix, learn
        self.last: DraftCandidates | None = None

    def __call__(self, model: Any, input_ids: torch.Tensor, generation_config: Any, **arguments: Any) -> Any:
        """As the decoding methods of transformers.

        Raises:
            BatchError: several rows. StrategyError: a version of transformers without assisted generation.
        """
        if len(input_ids) != 1:
            raise BatchError(f"{len(input_ids)} rows are generated with drafts, allowed is one a call")
        decode = getattr(type(model), "_assisted_decoding", None)
        if decode is None:
            raise StrategyError(f"{type(model).__name__} has no assisted generation; update transformers")
        self.last = candidates = DraftCandidates(
            self._drafts,
            self._most,
            max_length=generation_config.max_length,
            prefix=self._prefix,
            learn=self._learn,
        )
        with_drafts = _WithCandidates(model, candidates)
        return decode(with_drafts, input_ids, generation_config=generation_config, **arguments)


class _WithCandidates:
    """A model that hands in its own candidate generator: everything else is the model's."""

    def __init__(self, model: Any, candidates: DraftCandidates) -> None:
        self._model, self._candidates = model, candidates

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._model(*arguments, **named)

    def _get_candidate_generator(self, *_: Any, **__: Any) -> DraftCandidates:
        return self._candidates
