"""Masks of several compilations of one grammar, compared with one another at every step.

What: `agree_along` and `agree_walk` drive one matcher of each side by side and compare all masks, bit for
bit, and what `accept_token` answers.
When: in `bench.grammar`, where plain XGrammar is too slow to be asked at every step: what is compared with
it is compared on the way with everything else.
Limits: our own sides only, ended masks of terminated matchers are not asked for. Which of two sides is
right is not decided.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xgrammar

from hybrid.testing.random_walk import Walker

KEPT = 20
"""Differences that are written out."""


@dataclass
class Agreement:
    """How many masks were compared, and where sides differed."""

    masks: int = 0
    difference_count: int = 0
    differences: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        self.difference_count += 1
        if len(self.differences) < KEPT:
            self.differences.append(text)

    def add(self, other: Agreement) -> None:
        """Count another's masks and differences, too."""
        self.masks += other.masks
        self.difference_count += other.difference_count
        self.differences += other.differences[: KEPT - len(self.differences)]


class Sides:
    """Matchers of several compilations in the same state, by name; the first is what others are held to."""

    def __init__(self, compiled: dict[str, Any], result: Agreement) -> None:
        from hybrid import GrammarMatcher

        self.names = list(compiled)
        self.matchers = [GrammarMatcher(side) for side in compiled.values()]
        self.vocabulary = next(iter(compiled.values())).vocabulary
        self.size = self.vocabulary.size
        self.bitmask = xgrammar.allocate_token_bitmask(len(compiled), self.size)
        for row in range(len(compiled)):  # a word that one side leaves as it is shows up as a difference
            self.bitmask[row].fill_(-1 if row % 2 else 0x55555555)
        self.words = self.bitmask.numpy()
        self.last = np.int32((1 << self.size % 32) - 1)
        self.result = result
        self.path: list[int] = []

    def compare(self) -> None:
        """Fill and compare the masks of all sides."""
        for row, matcher in enumerate(self.matchers):
            matcher.fill_next_token_bitmask(self.bitmask, row)
        self.result.masks += 1
        for row in range(1, len(self.matchers)):
            different = self.words[0] ^ self.words[row]
            if self.size % 32:
                different[-1] &= self.last
            if different.any():
                self.result.note(f"mask of {self.names[row]} against {self.names[0]} after {self._text()!r}")

    def accept(self, token: int) -> bool:
        """Give a token to all sides; whether the first accepted it."""
        answers = [bool(matcher.accept_token(token)) for matcher in self.matchers]
        for name, answer in zip(self.names[1:], answers[1:], strict=True):
            if answer != answers[0]:
                self.result.note(f"{name} answers {answer} to token {token} after {self._text()!r}")
        self.path.append(token)
        return answers[0] and all(answers)

    def allowed(self) -> Any:
        """One flag for each id, from the first side's mask."""
        bits = np.unpackbits(self.words[0].view(np.uint8), bitorder="little")[: self.size]
        return bits.view(np.bool_)

    def _text(self) -> bytes:
        return b"".join(self.vocabulary.tokens[token] for token in self.path[-60:])


def agree_along(compiled: dict[str, Any], ids: Sequence[int]) -> Agreement:
    """Compare all sides along a sequence, and after its end, up to the first token that is refused."""
    sides = Sides(compiled, Agreement())
    for token in ids:
        sides.compare()
        if not sides.accept(token):
            return sides.result
    sides.compare()
    return sides.result


def agree_walk(compiled: dict[str, Any], seed: int, steps: int) -> Agreement:
    """Compare all sides along a random walk; one that ends begins again."""
    result = Agreement()
    rng = random.Random(seed)
    vocabulary = next(iter(compiled.values())).vocabulary
    walker = Walker(rng, vocabulary.tokens, vocabulary.stop_token_ids, 0.5)
    sides = Sides(compiled, result)
    for _ in range(steps):
        sides.compare()
        allowed = sides.allowed()
        if (
            not allowed.any()
            or not sides.accept(walker.draw_from(allowed))
            or sides.matchers[0].is_terminated()
        ):
            sides = Sides(compiled, result)
    return result
