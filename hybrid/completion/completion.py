"""Completions of texts, and the tokens that leave room for one.

What: `Completion.shortest` returns the plan of a text (`hybrid.completion.plans`). `Completion.restrict`
removes from a mask every token after which no completion fits into the remaining tokens.
When: one for each compiled grammar and set of stop ids, shared by its matchers, in any threads.
Limits: plans of at most `MOST_PLANNED` bytes. A longer text may have fewer tokens. Such texts are searched
for if no plan fits (`hybrid.completion.search`), and after the tokens of a mask as far as `READS_AT_TOKENS`
allows.

Why it never gets stuck: the plan is found byte by byte, and each byte depends only on the configuration. If
a text continues with the first token of its plan, its new plan is the rest of the old one, one token
shorter. So as long as a plan fits into the remaining tokens, the mask has at least that token. A way that
was found by a search is found again from its next configuration.

Most tokens need not be examined: a token is safe if the most that any stack may cost from here on, plus
what the token's bytes may add (`hybrid.completion.bounds`), fits into the remaining tokens.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equivalence import MatcherError, Vocabulary
from hybrid.completion.bounds import MOST_RISE
from hybrid.completion.costed_configurations import Tables
from hybrid.completion.plans import READS_AT_TOKENS, READS_HERE, Place, Plans
from hybrid.completion.spelling import Spelling

WORTH_KEEPING = 4096
"""For at least this many tokens, the configurations to which they lead are cached: reading 128,000 takes 20
ms, a look-up 1 ms."""

ENDS_KEPT = 4
"""Number of configurations for which this is cached, 1 MiB each."""


class Completion(Plans):
    """The plans of one grammar's texts, and masks of tokens after which one fits; thread-safe. Arguments are
    those of `Plans`."""

    def __init__(
        self, tables: Tables, vocabulary: Vocabulary, spelling: Spelling, seconds: float | None = None
    ) -> None:
        data, offsets = vocabulary.flat
        sums = np.concatenate([[0], np.cumsum(tables.bounds.rise[data])])
        rise = np.minimum(sums[offsets[1:]] - sums[offsets[:-1]], MOST_RISE)[spelling.ids]
        order = np.argsort(-rise, kind="stable")
        self._risky: NDArray[np.int64] = spelling.ids[order]  # the riskiest first
        self._minus_rise: NDArray[np.int64] = -rise[order]
        super().__init__(tables, vocabulary, spelling, seconds)

    def _renew(self) -> None:
        super()._renew()
        self._ends_known: dict[int, tuple[NDArray[np.int32], NDArray[np.int32]]] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of memory; the data stored beside the growing tables is counted as the same amount."""
        kept = sum(len(ids) for ids, _ in list(self._ends_known.values()))
        size = self._tables.nbytes + self._risky.nbytes + self._minus_rise.nbytes + 8 * kept
        return size + 2 * self._configurations.nbytes

    def shortest(
        self, text: bytes, before: Place | None, prefix: bytes = b""
    ) -> tuple[list[int] | None, Place]:
        """The tokens that complete the text soonest, and the place of the text.

        Args:
            text: what was read.
            before: the place of an earlier text.
            prefix: bytes that must be spelled before the first text of the grammar begins.

        Returns:
            The tokens of the plan; if no tokens spell it, those of the shortest way that is found; None if
            nothing completes the text. Then the place.

        Raises:
            BudgetExceeded: the plan, or finding it, needs more room than there is.
        """
        return self._asked(text, before, prefix, self._tokens)

    def can_complete(
        self, text: bytes, before: Place | None, left: int, brief: bool, prefix: bytes = b""
    ) -> tuple[bool | None, Place]:
        """Whether at most `left` tokens complete the text (None if the search was given up), and the place
        of the text.

        Args:
            text, before, prefix: as for `shortest`.
            left: the number of tokens.
            brief: search only as far as after each token of a mask.

        Raises:
            BudgetExceeded: as for `shortest`.
        """
        reads = READS_AT_TOKENS if brief else READS_HERE
        return self._asked(text, before, prefix, lambda here: self._can_complete(here, left, reads))

    def restrict(
        self, text: bytes, before: Place | None, left: int, words: NDArray[np.uint32], prefix: bytes = b""
    ) -> tuple[bool, Place]:
        """Remove from a mask all tokens after which no fitting completion is known. Return whether it had
        any, and the place of the text. If the search at the text itself was given up, the mask is
        unchanged.

        Args:
            text, before, prefix: as for `shortest`.
            left: how many more tokens may follow, including the next one.
            words: the mask of the tokens that can be read. With a prefix, these are prefixes of its bytes,
                and tokens that begin with them and continue with text of the grammar.

        Raises:
            MatcherError: nothing completes the text in so few tokens.
            BudgetExceeded: as for `shortest`.
        """
        return self._asked(text, before, prefix, lambda here: self._restrict(here, left, words))

    def count_untouched(self, text: bytes, before: Place | None, left: int) -> tuple[int, Place]:
        """For how many masks from here on, including this one, `restrict` changes nothing, whatever tokens
        are read meanwhile; and the place of the text.

        Args:
            text, before: as for `shortest`.
            left: how many more tokens may follow here; one less at each mask.

        Returns:
            A lower bound: each token that is read uses up one of the remaining tokens, and may raise the
            cost of the rest by the most that any token of the vocabulary may add.

        Raises:
            BudgetExceeded: as for `shortest`.
        """
        return self._asked(text, before, b"", lambda here: self._untouched(here, left))

    # --- masks ---

    def _restrict(self, configuration: int, left: int, words: NDArray[np.uint32]) -> bool:
        is_completable = self._can_complete(configuration, left, READS_HERE)
        if not is_completable:
            if is_completable is None:
                return False
            # an error if it is longer than any plan may be
            planned = self._cut(configuration).n_tokens
            raise _too_few(left, planned, self._configurations.fewest(configuration) == math.inf)
        slack = left - 1 - self._configurations.most(configuration)
        n_risky = len(self._risky)
        if slack > -math.inf:
            n_risky = int(np.searchsorted(self._minus_rise, -slack, side="left"))
        if n_risky == 0:
            return False
        ids = self._risky[:n_risky]
        ids = ids[(words[ids >> 5] >> (ids & 31).astype(np.uint32)) & 1 == 1]
        ends = self._ends(configuration, ids)
        least = int(ends.min(initial=0))  # below 0 before the first text
        is_late = np.zeros(int(ends.max(initial=0)) - least + 1, bool)
        for place in np.flatnonzero(np.bincount(ends - least)).tolist():
            is_late[place] = not self._can_complete(place + least, left - 1, READS_AT_TOKENS)
        late = ids[is_late[ends - least]]
        if len(late):
            bits = np.zeros(32 * len(words), np.uint8)
            bits[late] = 1
            words &= ~np.packbits(bits, bitorder="little").view(np.uint32)
        if self._configurations.cost(configuration) > left:
            # the engine's masks may lack accepted tokens; after the first token of a way, fewer are read
            if self._fits(configuration, left):
                token = self._cut(configuration).token
            else:
                token = self._search(configuration, left, READS_HERE).tokens[0]
            words[token >> 5] |= np.uint32(1 << (token & 31))
        return len(late) > 0

    def _untouched(self, configuration: int, left: int) -> int:
        most = self._configurations.most(configuration)
        if not -math.inf < most < math.inf:
            return 0
        dearest = -int(self._minus_rise[0]) if len(self._minus_rise) else 0
        return max(0, int(left - most) // (dearest + 1))

    def _ends(self, configuration: int, ids: NDArray[np.int64]) -> NDArray[Any]:
        """The configuration after each of some tokens. Long results are cached, because a string stays in
        the same configuration, and rows of a batch reach the same ones."""
        if len(ids) < WORTH_KEEPING:
            return self._configurations.read_tokens(configuration, ids)
        known = self._ends_known.get(configuration)
        if known is None or not np.array_equal(known[0], ids):
            self._ends_known.pop(configuration, None)
            while len(self._ends_known) >= ENDS_KEPT:
                del self._ends_known[next(iter(self._ends_known))]
            known = (
                ids.astype(np.int32),
                self._configurations.read_tokens(configuration, ids).astype(np.int32),
            )
            self._ends_known[configuration] = known
        return known[1]


def _too_few(left: int, planned: float, is_endless: bool) -> MatcherError:
    """The error if no completion fits into the remaining tokens.

    Args:
        left: the number of remaining tokens.
        planned: the number of tokens of the plan; infinite if no tokens spell it.
        is_endless: whether nothing completes the text.
    """
    text = f"the text cannot be completed within {left} token{'s' * (left != 1)}"
    if is_endless:
        return MatcherError(f"{text}: no tokens complete it; use masks without a token limit")
    needed = (
        f"the shortest completion needs {planned:.0f}"
        if planned < math.inf
        else "every completion needs more"
    )
    return MatcherError(f"{text}: {needed}; start with a larger limit, or use masks without a token limit")
