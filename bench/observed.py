"""How many token classes a grammar needs at least: those that masks along walks tell apart.

What: `Observed` takes masks and counts the classes that at least one of them tells apart; `walk_masks`,
`follow_masks` and `directed_masks` yield the masks along a random walk, along a sequence of tokens, and
after texts that lead to every kind of stack.
When: in `bench.classes`, beside the number of classes that were computed.
Limits: a lower bound, exact for the masks that were met: configurations that no walk reached are missing. A
class that no mask allowed is not counted, for it might be empty of use.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import xgrammar
from numpy.typing import NDArray

from bench.directed import Automata, Prefixes
from equivalence import TokenClasses, Vocabulary
from equivalence.network import Network
from hybrid.testing.random_walk import Walker
from hybrid.testing.verify import split_classes


class Observed:
    """A partition of the classes that is refined by every mask.

    Two classes stay together as long as every mask has equal bits for them, so the parts are the distinct
    columns of the table (mask, class). Nothing is hashed but whole masks that were seen before.

    Attributes:
        masks: how many masks were taken.
        distinct: how many of them differ.
        split: one line for each distinct mask that is no union of classes: an error of ours.
    """

    def __init__(self, classes: TokenClasses, stop_token_ids: Sequence[int]) -> None:
        self.classes = classes
        self.stop_token_ids = [i for i in stop_token_ids if classes.class_of_token[i] < 0]
        self.masks = 0
        self.split: list[str] = []
        self._seen: set[bytes] = set()
        self._part = np.zeros(classes.n_classes, np.int64)
        self._allowed = np.zeros(classes.n_classes, np.bool_)

    @property
    def distinct(self) -> int:
        return len(self._seen)

    def distinct_masks(self) -> Iterator[NDArray[np.int32]]:
        """Each mask once."""
        return (np.frombuffer(key, np.int32) for key in self._seen)

    @property
    def part(self) -> NDArray[np.int64]:
        """A number for each class: equal for classes that all masks treat alike."""
        return self._part

    @property
    def bound(self) -> int:
        """No partition of the vocabulary with fewer classes gives these masks."""
        return int(np.unique(self._part[self._allowed]).size)

    def add(self, words: NDArray[np.int32]) -> None:
        """Take one mask over the vocabulary, in the layout of XGrammar's bitmasks."""
        self.masks += 1
        key = words.tobytes()
        if key in self._seen:
            return
        self._seen.add(key)
        wrong = split_classes(self.classes, words, ignore_ids=self.stop_token_ids)
        if wrong.size:
            self.split.append(f"mask {self.masks} splits {wrong.size} classes: {wrong[:5].tolist()} ...")
        ids = self.classes.representatives.astype(np.int64)
        bits = (words[ids >> 5].astype(np.int64) >> (ids & 31)) & 1
        self._allowed |= bits > 0
        _, self._part = np.unique(2 * self._part + bits, return_inverse=True)


def walk_masks(
    compiled: Any, vocabulary: Vocabulary, seeds: Iterable[int], steps: int
) -> Iterator[NDArray[np.int32]]:
    """The masks of random walks; a walk that ends begins again."""
    from hybrid import GrammarMatcher

    walker = Walker(random.Random(0), vocabulary.tokens, vocabulary.stop_token_ids, 0.5)
    bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
    words = bitmask.numpy()[0]
    for seed in seeds:
        walker.rng = random.Random(seed)
        matcher = GrammarMatcher(compiled)
        for _ in range(steps):
            matcher.fill_next_token_bitmask(bitmask)
            yield words
            bits = np.unpackbits(words.view(np.uint8), bitorder="little")[: vocabulary.size]
            allowed = np.flatnonzero(bits)
            # plain XGrammar may allow in a mask what it refuses
            while allowed.size and not matcher.accept_token(token := walker.draw(allowed)):
                allowed = allowed[allowed != token]
            if not allowed.size or matcher.is_terminated():
                matcher.reset()


def follow_masks(compiled: Any, vocabulary: Vocabulary, token_ids: Sequence[int]) -> Iterator[Any]:
    """The masks along a sequence of tokens, up to the first one that is refused."""
    from hybrid import GrammarMatcher

    bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
    matcher = GrammarMatcher(compiled)
    for token_id in token_ids:
        matcher.fill_next_token_bitmask(bitmask)
        yield bitmask.numpy()[0]
        if not matcher.accept_token(token_id) or matcher.is_terminated():
            return
    matcher.fill_next_token_bitmask(bitmask)
    yield bitmask.numpy()[0]


def directed_masks(
    compiled: Any, vocabulary: Vocabulary, network: Network, depth: int, seed: int, most: int = 40_000
) -> Iterator[NDArray[np.int32]]:
    """The masks after texts that lead to every reachable stack, down to a depth (see `bench.directed`).

    Raises:
        AssertionError: the engine refuses such a text, so the network would be wrong.
    """
    from hybrid import GrammarMatcher

    bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
    texts = dict.fromkeys(Prefixes(Automata(network), seed).all(depth, most).values())
    for text in texts:
        matcher = GrammarMatcher(compiled)
        if not matcher.accept_string(text):
            raise AssertionError(f"the engine refuses {text!r}, which the network leads to")
        matcher.fill_next_token_bitmask(bitmask)
        yield bitmask.numpy()[0]
