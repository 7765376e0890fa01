"""Drafts from a grammar's state in `model.generate` of transformers.

What: `GrammarDrafts` is a decoding method: the assisted generation of transformers, with a candidate
generator that asks a `hybrid.drafts.DraftModel`. The result is the same as without it: the model chooses each
token, greedily or by sampling, under the masks of the same logits processors.
When: ``model.generate(**inputs, logits_processor=[GrammarLogitsProcessor(compiled)],
custom_generate=GrammarDrafts(DraftModel(compiled)), use_cache=True)``.
Limits: one row, as for all assisted generation; a version of transformers whose `generate` accepts a function
as ``custom_generate``; a cache that can be cropped. With ``max_time`` a text may end at another token, as in
any two calls. It uses one private method of transformers, ``_assisted_decoding``, because there is no public
way to pass a candidate generator.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from typing import Any

import torch
from transformers.generation.candidate_generator import CandidateGenerator
from transformers.generation.stopping_criteria import EosTokenCriteria, MaxLengthCriteria, MaxTimeCriteria

from adapters.transformers import GrammarLogitsProcessor
from equivalence.arguments import integer_from, shown
from equivalence.errors import ArgumentError, BatchError, StrategyError
from hybrid import GrammarMatcher
from hybrid.drafts import DraftModel
from hybrid.drafts.model import MOST_DRAFT

COUNTED = (EosTokenCriteria, MaxLengthCriteria, MaxTimeCriteria)
"""Criteria that drafts need not be checked for: a draft has no stop token and keeps the length, and time is
not predictable."""


class DraftCandidates(CandidateGenerator):
    """Candidates for one row, from a draft model that learns from the tokens that are kept.

    Args:
        drafts: the draft model.
        most: most tokens of a draft.
        max_length: length limit of the row, including the prompt; None: no limit.
        matcher: a matcher of the draft model's grammar, before any text; None: a new one.
        learn: whether the draft model learns from this row.
        ends: ids that end the row, besides those of the matcher.
        criteria: the stopping criteria of `generate`. A draft ends where one of them would end the row.

    Attributes:
        proposed, kept: how many tokens were drafted, and how many of them the model chose.
    """

    def __init__(
        self, drafts: DraftModel, most: int = 8, *, max_length: int | None = None,
        matcher: GrammarMatcher | None = None, learn: bool = True,
        ends: Iterable[int] = (), criteria: Iterable[Any] = (),
    ) -> None:  # fmt: skip
        self._drafts, self._most, self._max_length, self._learn = drafts, most, max_length, learn
        self._matcher = GrammarMatcher(drafts.compiled_grammar) if matcher is None else matcher
        self._stops = frozenset([*self._matcher.stop_token_ids, *ends])
        self._criteria = [one for one in criteria if not isinstance(one, COUNTED)]
        self._read: int | None = None  # columns that were read; those of the first call are the prompt
        self._is_lost = False  # whether the row has left the grammar
        self.proposed = self.kept = 0

    def _follow(self, input_ids: torch.Tensor) -> None:
        """Read the new tokens of the row."""
        if self._read is None:
            self._read = input_ids.shape[1]
        new = input_ids[0, self._read :].tolist()
        self._read = input_ids.shape[1]
        matcher = self._matcher
        for token in new:
            if self._is_lost or matcher.is_terminated():
                return
            was_inside = not matcher._unspelled
            self._is_lost = not matcher.accept_token(token)
            if self._learn and was_inside and not self._is_lost:
                self._drafts.learn(matcher)

    def get_candidates(self, input_ids: torch.Tensor, **_: Any) -> tuple[torch.Tensor, None]:
        """Return the row with a draft appended, and no logits, because a draft is not drawn from a
        distribution."""
        self._follow(input_ids)
        # the model chooses one more token than the draft has
        room = self._most if self._max_length is None else self._max_length - input_ids.shape[1] - 1
        if self._is_lost or room <= 0:
            return input_ids, None
        proposed = self._drafts.propose(self._matcher, min(self._most, room))
        # some versions would continue after a stop token
        draft = [*takewhile(lambda token: token not in self._stops, proposed)]
        if not draft:
            return input_ids, None
        candidates = torch.cat([input_ids, input_ids.new_tensor([draft])], dim=1)
        begin = input_ids.shape[1]
        if self._criteria:
            for end in range(begin + 1, candidates.shape[1] + 1):
                if any(bool(one(candidates[:, :end], None)) for one in self._criteria):
                    candidates = candidates[:, : end - 1]  # the model chooses this token itself, and stops
                    break
        self.proposed += candidates.shape[1] - begin
        return candidates, None

    def update_candidate_strategy(
        self, input_ids: torch.Tensor, scores: torch.Tensor, num_matches: int
    ) -> None:
        """Read the tokens that were kept, and learn from them."""
        self.kept += int(num_matches)
        self._follow(input_ids)


class GrammarDrafts:
    """A decoding method for ``custom_generate`` of `model.generate`.

    Stop ids, and the prefix of a healed prompt, come from the `GrammarLogitsProcessor` of the same call.

    Args:
        drafts: the draft model. Any number of calls and threads may share it.
        most: the maximum number of tokens in a draft, 1 to 256.
        learn: whether the draft model learns from what is generated.

    Attributes:
        last: the candidates of the last call, with the numbers of drafted and kept tokens.

    Raises:
        ArgumentError: `drafts` is not a draft model, or `most` is out of range.
    """

    def __init__(self, drafts: DraftModel, most: int = 8, *, learn: bool = True) -> None:
        if not isinstance(drafts, DraftModel):
            raise ArgumentError(f"drafts must be a hybrid.drafts.DraftModel, but is {shown(drafts)}")
        self._most = integer_from(1, most, "most", most=MOST_DRAFT)
        self._drafts, self._learn = drafts, learn
        self.last: DraftCandidates | None = None

    def __call__(self, model: Any, input_ids: torch.Tensor, generation_config: Any, **arguments: Any) -> Any:
        """Generate, with the arguments of transformers' decoding methods.

        Raises:
            BatchError: there are several rows.
            StrategyError: this version of transformers has no assisted generation.
            ArgumentError: the call's `GrammarLogitsProcessor` has another grammar.
        """
        if len(input_ids) != 1:
            raise BatchError(
                f"drafts work with one row in each call, but {len(input_ids)} rows were given; call generate "
                "for one prompt at a time"
            )
        decode = getattr(type(model), "_assisted_decoding", None)
        if decode is None:
            raise StrategyError(f"{type(model).__name__} has no assisted generation; update transformers")
        ends = getattr(generation_config, "_eos_token_tensor", None)
        self.last = candidates = DraftCandidates(
            self._drafts,
            self._most,
            max_length=generation_config.max_length,
            matcher=self._matcher(arguments.get("logits_processor") or ()),
            learn=self._learn,
            ends=[] if ends is None else ends.flatten().tolist(),
            criteria=arguments.get("stopping_criteria") or (),
        )
        with_drafts = _WithCandidates(model, candidates)
        return decode(with_drafts, input_ids, generation_config=generation_config, **arguments)

    def _matcher(self, processors: Iterable[Any]) -> GrammarMatcher | None:
        """Make a matcher like that of the call's `GrammarLogitsProcessor`."""
        masking = [one for one in processors if isinstance(one, GrammarLogitsProcessor)]
        if not masking:
            return None
        matcher = masking[0].new_matcher()
        if not self._drafts.is_of(matcher.compiled_grammar):
            raise ArgumentError(
                "the logits processor and the drafts must have the same grammar and vocabulary; make "
                "both from one compiled grammar"
            )
        return matcher


class _WithCandidates:
    """A model with another candidate generator. Everything else is the model's."""

    def __init__(self, model: Any, candidates: DraftCandidates) -> None:
        self._model, self._candidates = model, candidates

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._model(*arguments, **named)

    def _get_candidate_generator(self, *_: Any, **__: Any) -> DraftCandidates:
        return self._candidates
