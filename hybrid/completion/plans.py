"""Plans: how a text is completed soonest.

What: the *plan* of a text is the cheapest text that completes it, the first such text in the order of bytes,
spelled with the fewest tokens. If no tokens spell it, or more than allowed, `Plans` searches for another way.
When: base class of `hybrid.completion.completion.Completion`.
Limits: plans of at most `MOST_PLANNED` bytes. A longer text may have fewer tokens. Searches are bounded by
what they read, and by time.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np

from equivalence import BudgetExceeded, Vocabulary, forks
from equivalence.deadline import Deadline
from hybrid.completion.costed_configurations import CostedConfigurations, Tables
from hybrid.completion.distances import UNSPELLED
from hybrid.completion.search import Way, search
from hybrid.completion.spelling import LONGEST, Spelling
from hybrid.values.mask_time import TooSlow, limited

MOST_PLANNED = 1 << 16
"""Most bytes of a plan."""

TABLE_BYTES = 32 * 2**20
"""Bytes of the tables of one `CostedConfigurations`; the data stored with their rows takes about as much
again. A JSON text of 40 kB, with plans at 1,000 of its places, took 6 MiB of each; with a schema without
`any`, 0.3 MiB.
"""

READS_HERE = 1 << 18
"""Tokens read in a search for a completion of the text itself: 2 configurations of 128,000 tokens, in 2 to
40 ms. A row pays that at each step that has no room for its plan."""

READS_AT_TOKENS = 1 << 14
"""Tokens read after each token of a mask after which the plan does not fit: 256 configurations of 64
tokens, and no configuration of 128,000, where one alone takes 1 to 20 ms."""

WAY_BYTES = 256
"""Memory of the result of a search, half of it: what is stored beside the tables is counted twice."""

MOST_SEARCHED = 256
"""Configurations of one search: if each reads few tokens, finding 256 takes about 25 ms."""

SECONDS_HERE, SECONDS_AT_TOKENS = 0.5, 0.02
"""Seconds that such searches may take. All that are made after tokens for one mask may take as long as one
here."""

Answer = TypeVar("Answer")


class TooLong(BudgetExceeded):
    """A plan has too many bytes, or a search was given up. New tables would not help."""


class Place(NamedTuple):
    """The place of a text: what stands for the tables (so that it does not keep old ones), the bytes that
    must be spelled before the text begins, the text before it, and the configuration."""

    tables: object
    prefix: bytes
    text: bytes
    configuration: int


class Cut(NamedTuple):
    """For a configuration: the number of tokens of its plan, the first token, and how many bytes that one
    has."""

    n_tokens: float
    token: int
    length: int


_NOTHING_LEFT = Cut(0, -1, 0)

_NOT_SEARCHED = Way(math.inf, [], -1, False)


class Plans:
    """The plans of one grammar's texts; thread-safe.

    Args:
        tables: the tables of the grammar's network.
        vocabulary: the vocabulary.
        spelling: the spelling of the same vocabulary.
        seconds: time for the plans that one question needs; None: any.
    """

    def __init__(
        self, tables: Tables, vocabulary: Vocabulary, spelling: Spelling, seconds: float | None = None
    ) -> None:
        self._tables, self._vocabulary, self._spelling = tables, vocabulary, spelling
        self._seconds = seconds
        self._lock = forks.registered(threading.Lock(), forks.Order.TABLES, self._renew)
        self._renew()

    def _renew(self) -> None:
        """Start new tables."""
        self._configurations = CostedConfigurations(self._tables, self._vocabulary, TABLE_BYTES)
        self._current = object()
        self._steps: dict[int, tuple[int, int]] = {}  # first byte of each plan, and what follows
        self._cuts: dict[int, Cut] = {}
        self._ways: dict[tuple[int, float, int], Way] = {}

    def _asked(
        self, text: bytes, before: Place | None, prefix: bytes, question: Callable[[int], Answer]
    ) -> tuple[Answer, Place]:
        """Ask the tables; if they are full, ask new ones, without searches after tokens."""
        with self._lock:
            self._until = time.monotonic() + SECONDS_HERE
            self._deadline = Deadline(self._seconds)
            try:
                return self._answer(text, before, prefix, question)
            except (TooLong, TooSlow):
                raise
            except BudgetExceeded:
                self._renew()
                self._until = -math.inf  # searches after tokens may have filled the tables
            return self._answer(text, None, prefix, question)

    def _answer(
        self, text: bytes, before: Place | None, prefix: bytes, question: Callable[[int], Answer]
    ) -> tuple[Answer, Place]:
        self._configurations.deadline = self._deadline
        try:
            with limited(self._configurations.account, self._deadline.left):
                place = self._find(text, before, prefix)
                return question(place.configuration), place
        except TooSlow:
            raise TooSlow(
                f"finding the shortest completion takes more than {self._seconds:g} s; use masks without a "
                "token limit for this grammar"
            ) from None

    def _find(self, text: bytes, before: Place | None, prefix: bytes) -> Place:
        configurations = self._configurations
        known = self._current, prefix
        if before is None or before[:2] != known or not text.startswith(before.text):
            before = Place(*known, b"", configurations.before(prefix))
        configuration = configurations.read(before.configuration, text[len(before.text) :])
        return Place(*known, text, configuration)

    # --- plans ---

    def _tokens(self, configuration: int) -> list[int] | None:
        """The tokens of the plan, or of another way; None if there is no way."""
        found = self._planned_tokens(configuration)
        if found is not None or self._configurations.fewest(configuration) == math.inf:
            return found
        way = self._search(configuration, math.inf, READS_HERE)
        if way.n_tokens == math.inf:
            if way.is_whole:
                return None
            raise TooLong(
                "the vocabulary has no tokens for the shortest completion, and the search found no "
                "other completion within its limits; use masks without a token limit for this grammar"
            )
        behind = self._planned_tokens(way.last)
        assert behind is not None, "a search ends where there is a plan"
        return way.tokens + behind

    def _planned_tokens(self, configuration: int) -> list[int] | None:
        """The tokens of the plan; None if no tokens spell it."""
        tokens: list[int] = []
        while (cut := self._cut(configuration)).token >= 0:
            tokens.append(cut.token)
            for _ in range(cut.length):
                configuration = self._step(configuration)[1]
        return tokens if cut is _NOTHING_LEFT else None

    def _step(self, configuration: int) -> tuple[int, int]:
        """The first byte of a plan that is not empty, and the configuration after it."""
        found = self._steps.get(configuration)
        if found is None:
            byte = self._configurations.first(configuration)
            found = self._steps[configuration] = byte, self._configurations.read(configuration, bytes([byte]))
        return found

    def _cut(self, configuration: int) -> Cut:
        """How the plan of a configuration is divided into tokens. The number is infinite if that is
        impossible, or if there is no plan."""
        found = self._cuts.get(configuration)
        if found is not None:
            return found
        cost = self._configurations.cost(configuration)
        if cost == 0:
            return _NOTHING_LEFT
        if cost == math.inf:
            return Cut(math.inf, -1, 0)
        length = cost - UNSPELLED * self._configurations.prefix_left(configuration)
        if length % UNSPELLED + length // UNSPELLED > MOST_PLANNED:
            raise TooLong(
                f"the shortest completion has {cost % UNSPELLED:.0f} bytes, but the limit is "
                f"{MOST_PLANNED}; use masks without a token limit for this grammar"
            )
        plan, at = bytearray(), [configuration]
        while self._configurations.cost(at[-1]) > 0:
            if self._deadline.is_over:
                raise TooSlow
            byte, following = self._step(at[-1])
            plan.append(byte)
            at.append(following)
        text = bytes(plan)
        self._cuts[at[-1]] = _NOTHING_LEFT
        # from the end; if a place is known, everything after it is known
        for i in range(len(text) - 1, -1, -1):
            if at[i] not in self._cuts:
                self._cuts[at[i]] = Cut(*self._spelling.least(text, i, lambda k: self._cuts[at[k]].n_tokens))
        return self._cuts[configuration]

    # --- ways other than plans ---

    def _can_complete(self, configuration: int, left: int, reads: int) -> bool | None:
        """Whether at most `left` tokens complete what was read; None if the search was given up."""
        if self._configurations.fewest(configuration) > left:
            return False
        if self._fits(configuration, left):
            return True
        way = self._search(configuration, left, reads)
        return way.n_tokens <= left or (False if way.is_whole else None)

    def _search(self, configuration: int, most: float, reads: int) -> Way:
        """The shortest way of at most `most` tokens. If `most` is finite, the first that is found."""
        key = configuration, most, reads
        found = self._ways.get(key)
        if found is None:
            if reads == READS_AT_TOKENS and time.monotonic() > self._until:
                return _NOT_SEARCHED
            most_read = min(reads // max(len(self._spelling.ids), 1), MOST_SEARCHED)
            seconds = SECONDS_HERE if reads == READS_HERE else SECONDS_AT_TOKENS
            self._configurations.set_aside(WAY_BYTES)  # one for each limit with which it is searched
            found = self._ways[key] = search(
                configuration,
                most,
                most_read,
                seconds,
                self._ends_of,
                self._planned,
                self._configurations.fewest,
            )
        return found

    def _ends_of(self, configuration: int) -> Iterator[tuple[int, int]]:
        """For each configuration that one token leads to: the smallest such token, and the configuration."""
        ids = self._spelling.ids
        ends, first = np.unique(self._configurations.read_tokens(configuration, ids), return_index=True)
        order = np.argsort(first)  # by token: numbers of configurations depend on the history
        return zip(ids[first[order]].tolist(), ends[order].tolist(), strict=True)

    def _planned(self, configuration: int) -> float:
        """The number of tokens of the plan; infinite if no tokens spell it, or it is too long."""
        try:
            return self._cut(configuration).n_tokens
        except TooLong:
            return math.inf

    def _fits(self, configuration: int, left: int) -> bool:
        """Whether the plan has at most `left` tokens."""
        cost = self._configurations.cost(configuration)
        if cost < UNSPELLED:
            if cost <= left:  # one token for each byte
                return True
            if cost > min(left * LONGEST, MOST_PLANNED):
                return False
        return self._cut(configuration).n_tokens <= left
