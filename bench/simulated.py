"""A substitute for a model without weights: an n-gram model of documents, under a grammar's masks.

What: `Ngrams` counts which tokens follow up to `ORDER` others. `write` draws a document from it, each token
from its distribution under the mask.
When: in `bench.drafts`, to test drafts on a model's own texts.
Limits: it knows what its documents contain, and nothing about their meaning. If something was never seen
after the last tokens, its probability comes from fewer of them (Witten and Bell 1991).
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from hybrid import CompiledGrammar, GrammarMatcher
from hybrid.testing.mask_comparison import flags_of

ORDER = 5
TRIES = 50
"""After this many draws that the grammar refuses, a token is drawn uniformly from its mask."""


class Ngrams:
    """Counts of the tokens that follow others.

    Args:
        documents: ids, each document with its stop token.
        order: how many previous tokens are considered.
    """

    def __init__(self, documents: Iterable[Sequence[int]], order: int = ORDER) -> None:
        self._order = order
        self._seen: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        for ids in documents:
            padded = [*[-1] * order, *ids]
            for at in range(order, len(padded)):
                for length in range(order + 1):
                    self._seen[tuple(padded[at - length : at])][padded[at]] += 1

    def draw(self, recent: Sequence[int], rng: random.Random) -> int:
        """Draw a token after the last ones (-1 stands before the beginning)."""
        for length in range(self._order, -1, -1):
            seen = self._seen.get(tuple(recent[len(recent) - length :]))
            if seen is None:
                continue
            total = seen.total()
            if length == 0 or rng.random() * (total + len(seen)) < total:
                return rng.choices([*seen], [*seen.values()])[0]
        raise AssertionError("something was seen")

    def write(self, compiled: CompiledGrammar, rng: random.Random, most: int) -> list[int]:
        """Write a document of the grammar, cut off after this many tokens."""
        matcher, ids = GrammarMatcher(compiled), [-1] * self._order
        while len(ids) < most + self._order and not matcher.is_terminated():
            for _ in range(TRIES):
                token = self.draw(ids[len(ids) - self._order :], rng)
                if matcher.accept_token(token):
                    break
            else:
                token = rng.choice(np.flatnonzero(flags_of(matcher)).tolist())
                assert matcher.accept_token(token), "the mask has it"
            ids.append(token)
        return ids[self._order :]
