"""Cutting texts into tokens by their bytes alone: by longest match, or at random.

What: `tokenize_greedy` and `tokenize_random` return token ids of a vocabulary.
When: to drive matchers along a given text in comparisons, benchmarks and tests.
Limits: they do not apply the merges of a real tokenizer. Stop tokens are never used, even if they have text.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from equivalence import Vocabulary
from hybrid.values.once import made_once


def tokenize_greedy(vocabulary: Vocabulary, data: bytes) -> list[int]:
    """Cut bytes into tokens, always taking the longest token.

    A vocabulary may lack some single bytes. If no tokens spell the text after the longest token, the longest
    token is taken after which they can.

    Raises:
        ValueError: no sequence of tokens spells the bytes.
    """
    return _segmenter(vocabulary).segment(data, lambda candidates: candidates[-1][0])


def tokenize_random(vocabulary: Vocabulary, data: bytes, seed: int | str) -> list[int]:
    """Cut bytes into tokens, drawing each from all tokens that fit; equal seeds give equal ids.

    Ids with the same bytes are equally likely.

    Raises:
        ValueError: no sequence of tokens spells the bytes.
    """
    rng = random.Random(seed)
    return _segmenter(vocabulary).segment(data, lambda candidates: rng.choice(rng.choice(candidates)))


class _Segmenter:
    """Maps bytes to the ids of a vocabulary that have them, without stop tokens."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        ends = frozenset(vocabulary.stop_token_ids)
        self.tokens = tokens = vocabulary.tokens
        self.ids: dict[bytes, list[int]] = {}
        self.longest: dict[bytes, int] = {}
        for token_id, token in enumerate(tokens):
            if token and token_id not in ends:
                self.ids.setdefault(token, []).append(token_id)
                # A maximum for each pair of leading bytes leaves far fewer lengths to try than one maximum
                # for all tokens, which a token of 128 spaces would set.
                head = token[:2]
                self.longest[head] = max(self.longest.get(head, 1), len(token))
        self.every_byte = all(bytes([value]) in self.ids for value in range(256))

    def candidates(self, data: bytes, start: int, spelled: Sequence[bool] | None) -> list[list[int]]:
        """Return the ids of the tokens that fit at a place, in a list for each length, shortest first."""
        longest = self.longest.get(data[start : start + 2], 1)
        found = []
        for end in range(start + 1, min(start + longest, len(data)) + 1):
            ids = self.ids.get(data[start:end])
            if ids is not None and (spelled is None or spelled[end]):
                found.append(ids)
        return found

    def segment(self, data: bytes, choose: Callable[[list[list[int]]], int]) -> list[int]:
        spelled = None if self.every_byte else self._spelled(data)
        result = []
        place = 0
        while place < len(data):
            token_id = choose(self.candidates(data, place, spelled))
            result.append(token_id)
            place += len(self.tokens[token_id])
        return result

    def _spelled(self, data: bytes) -> list[bool]:
        """For each place, find whether tokens spell the rest of the text."""
        spelled = [False] * len(data) + [True]
        last = len(data)
        for start in range(len(data) - 1, -1, -1):
            spelled[start] = bool(self.candidates(data, start, spelled))
            if spelled[start]:
                last = start
        if not spelled[0]:
            raise ValueError(
                f"no sequence of tokens spells {data[:80]!r} ({len(data)} bytes): the vocabulary has "
                f"no tokens for what comes before place {last}; the token "
                f"{data[last - 1 : last]!r} would help here"
            )
        return spelled


_segmenter = made_once(_Segmenter)
"""The dictionary of a vocabulary; it takes 0.1 s for a real one."""
