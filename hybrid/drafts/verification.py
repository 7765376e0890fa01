"""What a model keeps of a draft: greedy and sampled texts stay what they would have been.

What: `verify` follows what the model chose through a draft, as far as it was drafted.
When: in decoding loops of one's own; transformers and engines have their own.
Limits: none.

Each token that is kept was chosen by the model for the text before it: by its largest logit, or by a draw
from its masked distribution. A draft decides how far one pass of the model gets, and never what is chosen, so
the distribution of texts is exactly that of decoding token by token. For chains this is the rule of
speculative sampling (Leviathan et al., "Fast inference from transformers via speculative decoding", ICML
2023, section 2.3) with a draft model that is sure of its guess: the guess x is kept with probability p(x),
and what replaces it is drawn from p without x. Whoever chooses at all places at once draws more than is used;
draws at places that are not reached are thrown away, and those at the others do not depend on them.
"""

from __future__ import annotations

from collections.abc import Sequence

from equivalence import ArgumentError


def verify(draft: Sequence[int], chosen: Sequence[int]) -> list[int]:
    """Return the tokens that a pass over a draft has gained: one more than were drafted right.

    Args:
        draft: the tokens of the draft.
        chosen: what the model chose after the text, and then after each token of the draft.

    Raises:
        ArgumentError: there is not one choice more than the draft has tokens.
    """
    if len(chosen) != len(draft) + 1:
        raise ArgumentError(f"chosen must have {len(draft) + 1} tokens for this draft, but has {len(chosen)}")
    found = [chosen[0]]
    for token, following in zip(draft, chosen[1:], strict=True):
        if found[-1] != token:
            break
        found.append(following)
    return found
