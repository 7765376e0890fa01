"""Continuing the drafts of requests with tokens that their grammars force or make likely.

What: `Continuations` has a draft model for each grammar in use. A draft model learns from the tokens that
matchers read, and proposes tokens to follow a draft, above all forced ones.
When: used by the adapters of engines whose own speculation checks drafts, in the process that has the
matchers.
Limits: one thread. A draft model is dropped, with everything that it has learned, when 64 others have been
used since.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from adapters.engines.proposer import Proposer
from hybrid import GrammarMatcher
from hybrid.api.draft_tree import in_place
from hybrid.drafts.forced import Encode
from hybrid.drafts.model import MOST_DRAFT

logger = logging.getLogger("equimask.drafts")

MODEL_BYTES = 4 << 20
"""Size of the counts of one draft model: about 8,000 tokens of text."""


def encode_of(tokenizer: Any) -> Encode | None:
    """Return a function that tokenises texts with a tokenizer; None if the tokenizer cannot do that."""

    def encode(text: str) -> list[int]:
        return [*tokenizer.encode(text, add_special_tokens=False)]

    try:
        return encode if all(isinstance(token, int) for token in encode('"a": 1')) else None
    except Exception as error:  # noqa: BLE001 - tokenizers may raise anything
        logger.info(
            "Forced text is split into the longest tokens, because the tokenizer cannot be used for "
            "this (%r)",
            error,
        )
        return None


class Continuations(Proposer):
    """Continues the drafts of requests.

    Args:
        most: most tokens of a draft.
        encode: the model's tokenizer, for forced text; None takes the longest token that fits.
        options: as for `adapters.engines.proposer.Proposer`.
    """

    key_of = staticmethod(lambda grammar: grammar)  # a key of its text may take seconds

    def __init__(self, most: int, encode: Encode | None = None, **options: Any) -> None:
        super().__init__(min(most, MOST_DRAFT), **{"most_bytes": MODEL_BYTES, "encode": encode, **options})

    def learn(self, matcher: GrammarMatcher, new: int) -> None:
        """Learn from the last tokens that a request has read."""
        if new > 0:
            self.model(matcher.compiled_grammar).learn(matcher, new)

    def continue_draft(self, matcher: GrammarMatcher, draft: Sequence[int]) -> list[int]:
        """Continue a draft with likely tokens.

        Args:
            matcher: the request's matcher, before the draft. Its state does not change.
            draft: tokens that the matcher allows one after the other.

        Returns:
            The draft with the tokens that the grammar makes likely after it, at most `most` in all.
        """
        found = [*draft]
        room = self._most - len(found)
        if room <= 0:
            return found
        propose = self.model(matcher.compiled_grammar).propose
        if not found:
            return [] if matcher.is_terminated() else propose(matcher, room)

        def after_draft() -> list[int]:
            is_read = all(map(matcher.accept_token, found)) and not matcher.is_terminated()
            return propose(matcher, room) if is_read else []

        return found + in_place(matcher, after_draft)
