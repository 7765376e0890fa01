"""The model's own choice first: masks only where it is refused.

What: `own_choices` lets the model choose as if there were no grammar, and asks the grammar about these tokens
alone. Where it takes one, nobody needs a mask: none is computed, none goes to the device.
When: by `adapters.transformers.GrammarLogitsProcessor` with ``opportunistic=``.
Limits: greedy decoding, and sampling where the choice is known here: by a temperature, and nothing else.
Top-k and top-p look at the masked distribution, and what they keep is not known before there is a mask.

The distribution is that of masked decoding. With p before the mask and P the share of what is allowed, a
token t that is allowed comes out as the first choice with p(t), or by the mask after one that is refused,
with (1 - P) p(t) / P: together p(t) / P.

Source: Beurer-Kellner et al., "Guiding LLMs The Right Way" (ICML 2024), on opportunistic masking.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from adapters.generations import State
from equivalence.errors import ArgumentError


def own_choices(rows: Sequence[State], scores: torch.Tensor, temperature: float) -> dict[int, int]:
    """Rows in which the grammar takes what the model chooses by itself, and the token.

    Args:
        rows: the states of all rows; those that have ended choose nothing.
        scores: float[rows, width], logits.
        temperature: of the softmax that is drawn from; 0: the largest score.

    Raises:
        ArgumentError: the scores are log probabilities, as those of beam search.
    """
    live = [index for index, state in enumerate(rows) if not state.ended]
    if not live:
        return {}
    if all(not len(rows[index].generated) for index in live):
        _refuse_beams(scores)
    if temperature:
        shares = torch.softmax(scores.float() / temperature, dim=-1)
        drawn = torch.multinomial(shares, 1).squeeze(1)
    else:
        drawn = scores.argmax(dim=-1)
    best = scores.gather(1, drawn[:, None]).squeeze(1)
    tokens, possible = drawn.tolist(), (best > -torch.inf).tolist()
    return {
        index: tokens[index] for index in live if possible[index] and is_taken(rows[index], tokens[index])
    }


def is_taken(state: State, token: int) -> bool:
    """Whether a row's grammar takes a token; the row does not move."""
    matcher = state.matcher
    if matcher.compiled_grammar.strategy != "classifier":  # an engine's budgets of tokens do not go back
        return matcher.fork().accept_token(token)
    taken = matcher.accept_token(token)
    if taken:
        matcher.rollback(1)
    return taken


def only(scores: torch.Tensor, chosen: dict[int, int]) -> torch.Tensor:
    """A copy of the scores; of rows that have chosen, all but the chosen one are -inf."""
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
    """Raise `ArgumentError` for scores that are log probabilities: beams need those of all tokens."""
    if bool((scores.float().logsumexp(dim=-1).abs() < 1e-3).all()):
        raise ArgumentError(
            "the scores are log probabilities, as in beam search, allowed with opportunistic= are greedy "
            "decoding and sampling; leave opportunistic out"
        )
