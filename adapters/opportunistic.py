"""Opportunistic masking: let the model choose first, and compute a mask only if the grammar refuses its
choice.

What: `first_choices` lets the model choose as if there were no grammar, and asks the grammar only about the
chosen tokens. If it allows a token, no mask is computed or copied to the device. `second_choices` draws for
the other rows after they are masked.
When: used by `adapters.transformers.GrammarLogitsProcessor` with ``opportunistic=``.
Limits: not for beam search. Top-k, top-p and min-p of `Sampling` are supported; other options that restrict
the distribution are refused if they are known. On strategy "engine", XGrammar's masks may forbid tokens that
its `accept_token` allows, and such a token may be chosen here.

The distribution is the same as with masks. Let p be the distribution of all tokens at the temperature, and q
the distribution under the mask, cut by top-k, top-p and min-p: q(t) >= p(t) wherever q(t) > 0. A token is
drawn from p. It is *sure* if it survives the cuts, whatever else is masked: it is one of the k most likely
tokens; even if only it and the tokens that may rank above it remain, those above have less than a share of
top-p; and it has the fraction of the largest probability that min-p requires. A sure token that the grammar
allows is chosen. Otherwise a token is drawn from the rest: q, minus p for all sure and allowed tokens (the
residual of speculative sampling). Without cuts, all tokens are sure, and the rest is q itself.

Source: Beurer-Kellner, Fischer and Vechev, "Guiding LLMs The Right Way: Fast, Non-Invasive Constrained
Generation" (ICML 2024), without cuts; the residual is that of Leviathan et al., "Fast inference from
transformers via speculative decoding" (ICML 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import transformers
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from adapters.generations import State
from equivalence.arguments import shown
from equivalence.errors import ArgumentError, BudgetExceeded

WITHOUT_RULE = {
    "typical_p": (None, 1.0),
    "top_h": (None,),
    "epsilon_cutoff": (None, 0.0),
    "eta_cutoff": (None, 0.0),
    "num_beams": (None, 1),
    "watermarking_config": (None,),
}
"""Options of `generate` that change the distribution, with the values that do not."""

DEFAULT_TOP_K = 50
"""The default of `generate`."""

ROUNDING = 0.999
"""A margin for sure tokens, so that rounding never decides: two different scores may have equal
probabilities, and top-k keeps the larger. A token that would be sure without the margin is drawn from the
rest."""


class Sampling(NamedTuple):
    """How to draw a token, with the options of `generate`.

    Attributes:
        temperature: 0 means greedy decoding, whatever the other options are.
        top_k: how many of the most likely tokens are kept; 0 keeps all.
        top_p: the most likely tokens are kept until their probabilities add up to this; 1 keeps all.
        min_p: tokens with less than this fraction of the largest probability are dropped; 0 keeps all.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    @property
    def cuts(self) -> bool:
        """Whether some tokens may be dropped."""
        return self.top_k > 0 or self.top_p < 1 or self.min_p > 0


def sampling_from(given: Any) -> Sampling:
    """Convert the argument ``opportunistic``.

    Args:
        given: a temperature, a `Sampling`, or the `GenerationConfig` that is passed to `generate`.

    Raises:
        ArgumentError: it has another type, a number is out of range, or the configuration has an option that
            is not supported.
    """
    if isinstance(given, transformers.GenerationConfig):
        for name, harmless in WITHOUT_RULE.items():
            value = getattr(given, name, None)
            if value not in harmless:
                raise ArgumentError(
                    "opportunistic supports only temperature, top_k, top_p and min_p, but the "
                    f"GenerationConfig has {name}={shown(value)}; omit {name} or opportunistic"
                )
        if not given.do_sample:
            return Sampling(0.0)
        found = Sampling(
            1.0 if given.temperature is None else given.temperature,
            DEFAULT_TOP_K if given.top_k is None else given.top_k,
            1.0 if given.top_p is None else given.top_p,
            0.0 if given.min_p is None else given.min_p,
        )
    else:
        found = given if isinstance(given, Sampling) else Sampling(given)
    for name, value, most in zip(found._fields, found, (float("inf"), float("inf"), 1, 1), strict=True):
        kinds = int if name == "top_k" else (int, float)
        is_number = isinstance(value, kinds) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= most or value == float("inf"):
            raise ArgumentError(
                "opportunistic must be None, a temperature of at least 0, a GenerationConfig, or a "
                "Sampling (top_k: an integer of at least 0; top_p and min_p: from 0 to 1), but has "
                f"{name}={shown(value)}"
            )
    return found


def first_choices(
    rows: Sequence[State], scores: torch.Tensor, sampling: Sampling, limit: int | None = None
) -> dict[int, int]:
    """Return the rows in which the grammar allows what the model chooses by itself, with the chosen tokens.

    Args:
        rows: the states of all rows. Rows that have ended choose nothing.
        scores: float[rows, width], logits.
        sampling: how to choose.
        limit: how many tokens a row may have; its text must be complete by then. None: no limit.

    Raises:
        ArgumentError: the scores are log probabilities, as in beam search.
    """
    live = [index for index, state in enumerate(rows) if not state.ended]
    if not live:
        return {}
    if all(not len(rows[index].generated) for index in live):
        _refuse_beams(scores)
    part = scores if len(live) == len(scores) else scores[live]
    if sampling.temperature:
        possible = part.amax(dim=-1, keepdim=True) > -torch.inf
        # a row without any possible token accepts nothing
        shares = torch.softmax(part.float().masked_fill(~possible, 0) / sampling.temperature, dim=-1)
        drawn = draw(shares)
        sure = possible & is_sure(shares, drawn, sampling)
    else:
        drawn = largest(part)
        sure = part.gather(1, drawn) > -torch.inf
    found: dict[int, int] = {}
    for index, token, is_kept in zip(live, drawn.squeeze(1).tolist(), sure.squeeze(1).tolist(), strict=True):
        left = None if limit is None else limit - len(rows[index].generated)
        if is_kept and is_allowed(rows[index], token, left):
            found[index] = token
    return found


def second_choices(
    rows: Sequence[int], scores: torch.Tensor, masked: torch.Tensor, sampling: Sampling
) -> dict[int, int]:
    """Return the choices of rows whose first choice was refused.

    Args:
        rows: the numbers of these rows.
        scores, masked: float[rows, width], logits before and after masking. Each row has a possible token.
        sampling: how to choose.
    """
    if not rows:
        return {}
    chosen = [*rows]
    if not sampling.temperature:
        drawn = largest(masked[chosen])
    else:
        drawn = draw(missing(scores[chosen], masked[chosen], sampling))
    return dict(zip(chosen, drawn.squeeze(1).tolist(), strict=True))


def largest(scores: torch.Tensor) -> torch.Tensor:
    """Return the token with the largest score of each row, int64[rows, 1]; the first of equal ones."""
    if scores.device.type == "cpu" and scores.dtype == torch.float32:  # 17 us for 128,000; torch takes 163
        return torch.from_numpy(scores.detach().numpy().argmax(axis=-1, keepdims=True))
    return scores.argmax(dim=-1, keepdim=True)


def draw(weights: torch.Tensor) -> torch.Tensor:
    """Draw a token for each row by weights, some of which are above 0: int64[rows, 1]."""
    if weights.device.type != "cpu":
        return torch.multinomial(weights, 1)
    # 0.7 ms for 128,000 weights; torch.multinomial draws a number for each of them, which takes 7 ms
    sums = weights.cumsum(dim=-1, dtype=torch.float64)
    aim = torch.rand((len(weights), 1), dtype=torch.float64, device="cpu") * sums[:, -1:]
    drawn = torch.searchsorted(sums, aim, right=True).clamp_(max=weights.shape[1] - 1)
    has_weight = weights.gather(1, drawn) > 0
    # rounding may put the aim after the last token that has weight
    return drawn if bool(has_weight.all()) else torch.where(has_weight, drawn, largest(weights))


def missing(scores: torch.Tensor, masked: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """Return the weights for rows whose first choice was refused, float[rows, width]."""
    wanted = masked.float() / sampling.temperature
    if not sampling.cuts:
        return torch.softmax(wanted, dim=-1)
    warpers: list[Any] = [TopKLogitsWarper(sampling.top_k)] if sampling.top_k else []
    warpers += [TopPLogitsWarper(sampling.top_p)] if sampling.top_p < 1 else []
    warpers += [MinPLogitsWarper(sampling.min_p)] if sampling.min_p else []
    # the warpers only use scores
    shares = torch.softmax(LogitsProcessorList(warpers)(None, wanted), dim=-1)
    own = torch.softmax(scores.float() / sampling.temperature, dim=-1)
    every = torch.arange(own.shape[1], device=own.device).expand_as(own)
    taken = (masked > -torch.inf) & is_sure(own, every, sampling)
    found = (shares - own * taken).clamp(min=0)
    # with rounding, nothing may be left; this hardly ever happens
    return torch.where(found.sum(dim=-1, keepdim=True) > 0, found, shares)


def is_sure(shares: torch.Tensor, tokens: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """Return which tokens survive the cuts, whatever else is masked: bool[rows, n].

    Args:
        shares: float[rows, width], the distribution of all tokens.
        tokens: int64[rows, n], the tokens in question.
        sampling: the cuts.
    """
    own = shares.gather(1, tokens)
    found = ROUNDING * own >= sampling.min_p * shares.amax(dim=-1, keepdim=True)
    if not sampling.top_k and sampling.top_p >= 1:
        return found
    if tokens.shape[1] == 1:  # one pass; sorting takes a hundred times as long
        others = (shares >= ROUNDING * own).sum(dim=-1, keepdim=True) - 1
        above = (shares * (shares >= own)).sum(dim=-1, keepdim=True) - own
    else:
        ordered = shares.sort(dim=-1).values
        others = shares.shape[1] - torch.searchsorted(ordered, ROUNDING * own) - 1
        sums = torch.cat([torch.zeros_like(ordered[:, :1]), ordered.flip(-1).cumsum(dim=-1)], dim=-1)
        above = sums.gather(1, shares.shape[1] - torch.searchsorted(ordered, own)) - own
    if sampling.top_k:
        found &= others < sampling.top_k
    if sampling.top_p < 1:  # at most, all tokens that are as likely rank above it, and none below it remains
        found &= above * (1 - sampling.top_p) <= ROUNDING * sampling.top_p * own
    return found


def is_allowed(state: State, token: int, left: int | None = None) -> bool:
    """Whether a row's grammar allows a token. The row does not change.

    Args:
        state: the row.
        token: an id.
        left: how many tokens may still follow, including this one; the text must be complete by then. None,
            or 0 and less, means no limit.
    """
    matcher = state.matcher
    left = None if left is not None and left <= 0 else left
    if matcher.compiled_grammar.strategy != "classifier":  # an engine's token budgets cannot be rolled back
        twin = matcher.fork()
        if not twin.accept_token(token):
            return False
        is_completable = left is None or _can_complete(twin, left - 1, brief=True)
    elif matcher.accept_token(token):
        is_completable = left is None or _can_complete(matcher, left - 1, brief=True)
        matcher.rollback(1)
    else:
        return False
    # if the text may not end in time, whatever follows, its mask is made without the limit
    return bool(is_completable) or left is None or not _can_complete(matcher, left)


def _can_complete(matcher: Any, left: int, *, brief: bool = False) -> bool | None:
    """`GrammarMatcher.can_complete_within`; None also if that is too expensive, as the mask will say."""
    try:
        found: bool | None = matcher.can_complete_within(left, brief=brief)
    except BudgetExceeded:
        return None
    return found


def keep_only(scores: torch.Tensor, chosen: dict[int, int]) -> torch.Tensor:
    """Return a copy of the scores. In rows with a chosen token, all other scores are -inf."""
    if len(chosen) == len(scores):
        masked = torch.full_like(scores, -torch.inf, memory_format=torch.contiguous_format)
    else:
        masked = scores.clone(memory_format=torch.contiguous_format)
    if chosen:
        rows = torch.tensor([*chosen], device=scores.device)
        tokens = torch.tensor([*chosen.values()], device=scores.device)
        kept = scores[rows, tokens]
        masked[rows] = -torch.inf
        masked[rows, tokens] = kept
    return masked


def _refuse_beams(scores: torch.Tensor) -> None:
    """Raise `ArgumentError` if scores are log probabilities: beam search needs those of all tokens."""
    if bool((scores.float().logsumexp(dim=-1).abs() < 1e-3).all()):
        raise ArgumentError(
            "the scores are log probabilities, as in beam search, but opportunistic supports only "
            "greedy decoding and sampling; omit opportunistic"
        )
