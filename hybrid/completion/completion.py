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
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equivalence import MatcherError, Vocabulary
from hybrid.completion.bounds import MOST_RISE
from hybrid.completion.plans import READS_AT_TOKENS, READS_HERE, Cut, Place, Plans, seconds_for
from hybrid.completion.reading import EMPTY_TEXT, REJECT, Tables
from hybrid.completion.search import Way, search
from hybrid.completion.spelling import LONGEST, Spelling

WORTH_KEEPING = 4096
"""For at least this many tokens, the configurations to which they lead are cached: reading 128,000 takes 20
ms, a look-up 1 ms."""

ENDS_KEPT = 4
"""Number of configurations for which this is cached, 1 MiB each."""


class Completion(Plans):
    """The plans of one grammar's texts, and masks of tokens after which one fits; thread-safe. Arguments are
    those of `Plans`."""

    def __init__(self, tables: Tables, vocabulary: Vocabulary, spelling: Spelling) -> None:
        data, offsets = vocabulary.flat
        sums = np.concatenate([[0], np.cumsum(tables.bounds.rise[data])])
        rise = np.minimum(sums[offsets[1:]] - sums[offsets[:-1]], MOST_RISE)[spelling.ids]
        order = np.argsort(-rise, kind="stable")
        self._risky: NDArray[np.int64] = spelling.ids[order]  # the riskiest first
        self._minus_rise: NDArray[np.int64] = -rise[order]
        super().__init__(tables, vocabulary, spelling)

    def _renew(self) -> None:
        super()._renew()
        self._ends_known: dict[int, tuple[NDArray[np.int32], NDArray[np.int32]]] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of memory; the data stored beside the growing tables is counted as the same amount."""
        kept = sum(len(ids) for ids, _ in list(self._ends_known.values()))
        size = self._tables.nbytes + self._risky.nbytes + self._minus_rise.nbytes + 8 * kept
        return size + 2 * self._reading.nbytes

    def shortest(self, text: bytes, before: Place | None) -> tuple[list[int] | None, Place]:
        """The tokens that complete the text soonest, and the place of the text.

        Args:
            text: what was read.
            before: the place of an earlier text.

        Returns:
            The tokens of the plan; if no tokens spell it, those of the shortest way that is found; None if
            nothing completes the text. Then the place.

        Raises:
            BudgetExceeded: the plan, or finding it, needs more room than there is.
        """
        return self._asked(text, before, self._tokens)

    def closes(self, text: bytes, before: Place | None, left: int, brief: bool) -> tuple[bool | None, Place]:
        """Whether at most `left` tokens complete the text (None if the search was given up), and the place
        of the text.

        Args:
            text, before: as for `shortest`.
            left: the number of tokens.
            brief: search only as far as after each token of a mask.

        Raises:
            BudgetExceeded: as for `shortest`.
        """
        reads = READS_AT_TOKENS if brief else READS_HERE
        return self._asked(text, before, lambda here: self._closes(here, left, reads))

    def restrict(
        self, text: bytes, before: Place | None, left: int, words: NDArray[np.uint32]
    ) -> tuple[bool, Place]:
        """Remove from a mask all tokens after which no fitting completion is known. Return whether it had
        any, and the place of the text. If the search at the text itself was given up, the mask is
        unchanged.

        Args:
            text, before: as for `shortest`.
            left: how many more tokens may follow, including the next one.
            words: the mask of the tokens that can be read.

        Raises:
            MatcherError: nothing completes the text in so few tokens.
            BudgetExceeded: as for `shortest`.
        """
        return self._asked(text, before, lambda configuration: self._restrict(configuration, left, words))

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
        return self._asked(text, before, lambda configuration: self._untouched(configuration, left))

    def shortest_behind(self, left: bytes) -> list[int] | None:
        """`shortest` if some bytes must be spelled before the first text of the grammar begins."""
        return self._asked(b"", None, lambda start: self._tokens_behind(left, start))[0]

    def closes_behind(self, left: bytes, tokens_left: int, brief: bool) -> bool | None:
        """`closes` with such bytes."""
        return self._asked(b"", None, lambda start: self._closes_behind(left, start, tokens_left, brief))[0]

    def restrict_behind(self, left: bytes, tokens_left: int, words: NDArray[np.uint32]) -> bool:
        """`restrict` if some bytes, at least one, must be spelled before the grammar begins.

        Args:
            left: the bytes.
            tokens_left: `left` of `restrict`.
            words: the mask of the tokens that are prefixes of these bytes, or begin with them and continue
                with text of the grammar.
        """
        return self._asked(b"", None, lambda start: self._restrict_behind(left, start, tokens_left, words))[0]

    # --- after bytes that must be spelled first ---

    def _cuts_behind(self, left: bytes, start: int) -> list[Cut]:
        """How these bytes and the plan after them are divided into tokens, from each place of the bytes and
        from their end. A token may reach across the end."""
        plan, at = bytearray(), [start]
        if self._reading.cost(start) < math.inf:
            while len(plan) < LONGEST and self._reading.cost(at[-1]) > 0:
                byte, following = self._step(at[-1])
                plan.append(byte)
                at.append(following)
        text, n = left + plan, len(left)
        found = [self._cut(start)] * (n + 1)
        for i in range(n - 1, -1, -1):
            needed = lambda k: found[k].n_tokens if k < n else self._cut(at[k - n]).n_tokens  # noqa: E731
            found[i] = Cut(*self._spelling.least(text, i, needed))
        return found

    def _search_behind(
        self, left: bytes, start: int, cuts: list[Cut], most: float, reads: int, place: int = 0
    ) -> Way:
        """`_search` from a place in the bytes; place i is node -2 - i."""
        tokens = self._vocabulary.tokens

        def ends_of(node: int) -> Iterator[tuple[int, int]]:
            if node >= EMPTY_TEXT:
                yield from self._ends_of(node)
                return
            rest = left[-2 - node :]
            for token in self._spelling.ids.tolist():
                text = tokens[token]
                if len(text) < len(rest) and rest.startswith(text):
                    yield token, node - len(text)
                elif text.startswith(rest):
                    end = self._reading.read(start, text[len(rest) :])
                    if end != REJECT:
                        yield token, end

        def planned(node: int) -> float:
            return self._planned(node) if node >= EMPTY_TEXT else cuts[-2 - node].n_tokens

        def fewest(node: int) -> float:
            return self._reading.fewest(node) if node >= EMPTY_TEXT else 0

        enough = most if most < math.inf else 0
        seconds = seconds_for(reads)
        return search(-2 - place, most, enough, self._most_read(reads), seconds, ends_of, planned, fewest)

    def _tokens_behind(self, left: bytes, start: int) -> list[int] | None:
        cuts, tokens, at = self._cuts_behind(left, start), list[int](), 0
        if cuts[0].n_tokens == math.inf:
            way = self._search_behind(left, start, cuts, math.inf, READS_HERE)
            if way.last >= EMPTY_TEXT:
                return self._whole(way)
            tokens, at = way.tokens, -2 - way.last
            if way.n_tokens == math.inf:
                return self._whole(way)
        while at < len(left):
            tokens.append(cuts[at].token)
            at += cuts[at].length
        for _ in range(at - len(left)):
            start = self._step(start)[1]
        behind = self._planned_tokens(start)
        assert behind is not None, "what is cut into finitely many tokens has a plan"
        return tokens + behind

    def _closes_behind(self, left: bytes, start: int, tokens_left: int, brief: bool) -> bool | None:
        cuts = self._cuts_behind(left, start)
        if cuts[0].n_tokens <= tokens_left:
            return True
        way = self._search_behind(left, start, cuts, tokens_left, READS_AT_TOKENS if brief else READS_HERE)
        return way.n_tokens <= tokens_left or (False if way.is_whole else None)

    def _restrict_behind(self, left: bytes, start: int, tokens_left: int, words: NDArray[np.uint32]) -> bool:
        cuts = self._cuts_behind(left, start)
        kept = -1
        if cuts[0].n_tokens > tokens_left:
            way = self._search_behind(left, start, cuts, tokens_left, READS_HERE)
            if way.n_tokens > tokens_left:
                if way.is_whole:
                    raise _too_few(tokens_left, cuts[0].n_tokens, self._reading.fewest(start) == math.inf)
                return False
            kept = way.tokens[0]
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")
        ids = self._spelling.ids[bits[self._spelling.ids] == 1]
        offsets = self._vocabulary.flat[1]
        lengths = offsets[ids + 1] - offsets[ids]
        within = lengths <= len(left)
        fits = np.array([cut.n_tokens <= tokens_left - 1 for cut in cuts])
        for place in np.unique(lengths[within]).tolist():
            if not fits[place] and place < len(left):
                way = self._search_behind(left, start, cuts, tokens_left - 1, READS_AT_TOKENS, place)
                fits[place] = way.n_tokens <= tokens_left - 1
            elif not fits[place]:
                fits[place] = bool(self._closes(start, tokens_left - 1, READS_AT_TOKENS))
        late = ids[within][~fits[lengths[within]]]
        slack = tokens_left - 1 - self._reading.most(start)
        risky = self._risky
        if slack > -math.inf:  # the remaining bytes add nothing, but are counted with their token
            risky = risky[: int(np.searchsorted(self._minus_rise, -slack, side="left"))]
        for token in np.intersect1d(ids[~within], risky).tolist():
            rest = self._vocabulary.tokens[token][len(left) :]
            if not self._closes(self._reading.read(start, rest), tokens_left - 1, READS_AT_TOKENS):
                late = np.append(late, token)
        late = late[late != kept]
        bits[late] = 0
        words[:] = np.packbits(bits, bitorder="little").view(np.uint32)
        return len(late) > 0

    # --- masks ---

    def _restrict(self, configuration: int, left: int, words: NDArray[np.uint32]) -> bool:
        closes = self._closes(configuration, left, READS_HERE)
        if not closes:
            if closes is None:
                return False
            # an error if it is longer than any plan may be
            planned = self._cut(configuration).n_tokens
            raise _too_few(left, planned, self._reading.fewest(configuration) == math.inf)
        slack = left - 1 - self._reading.most(configuration)
        n_risky = len(self._risky)
        if slack > -math.inf:
            n_risky = int(np.searchsorted(self._minus_rise, -slack, side="left"))
        if n_risky == 0:
            return False
        ids = self._risky[:n_risky]
        ids = ids[(words[ids >> 5] >> (ids & 31).astype(np.uint32)) & 1 == 1]
        ends = self._ends(configuration, ids)
        is_late = np.zeros(int(ends.max(initial=0)) + 1, bool)
        for end in np.flatnonzero(np.bincount(ends)).tolist():
            is_late[end] = not self._closes(end, left - 1, READS_AT_TOKENS)
        late = ids[is_late[ends]]
        if len(late):
            bits = np.zeros(32 * len(words), np.uint8)
            bits[late] = 1
            words &= ~np.packbits(bits, bitorder="little").view(np.uint32)
        if self._reading.cost(configuration) > left:
            # the engine's masks may lack accepted tokens; after the first token of a way, fewer are read
            if self._fits(configuration, left):
                token = self._cut(configuration).token
            else:
                token = self._search(configuration, left, READS_HERE).tokens[0]
            words[token >> 5] |= np.uint32(1 << (token & 31))
        return len(late) > 0

    def _untouched(self, configuration: int, left: int) -> int:
        most = self._reading.most(configuration)
        if not -math.inf < most < math.inf:
            return 0
        dearest = -int(self._minus_rise[0]) if len(self._minus_rise) else 0
        return max(0, int(left - most) // (dearest + 1))

    def _ends(self, configuration: int, ids: NDArray[np.int64]) -> NDArray[Any]:
        """The configuration after each of some tokens. Long results are cached, because a string stays in
        the same configuration, and rows of a batch reach the same ones."""
        if len(ids) < WORTH_KEEPING:
            return self._reading.read_tokens(configuration, ids)
        known = self._ends_known.get(configuration)
        if known is None or not np.array_equal(known[0], ids):
            self._ends_known.pop(configuration, None)
            while len(self._ends_known) >= ENDS_KEPT:
                del self._ends_known[next(iter(self._ends_known))]
            known = ids.astype(np.int32), self._reading.read_tokens(configuration, ids).astype(np.int32)
            self._ends_known[configuration] = known
        return known[1]


def _too_few(left: int, planned: float, is_endless: bool) -> MatcherError:
    """The error if no completion fits into the remaining tokens.

    Args:
        left: the number of remaining tokens.
        planned: the number of tokens of the plan; infinite if no tokens spell it.
        is_endless: whether nothing completes the text.
    """
    text = f"the text cannot be completed within {left} tokens"
    if is_endless:
        return MatcherError(f"{text}: no tokens complete it; use masks without a token limit")
    needed = (
        f"the shortest completion needs {planned:.0f}"
        if planned < math.inf
        else "every completion needs more"
    )
    return MatcherError(f"{text}: {needed}; start with a larger limit, or use masks without a token limit")
