"""Completions of texts, and the tokens that leave room for one.

What: the *plan* of a text is the cheapest text that completes it, of all such the least byte by byte, spelled
in the fewest tokens. `Completion.shortest` writes it out; `Completion.restrict` takes out of a mask every
token after which the plan has more tokens than are left.
When: one for a compiled grammar and a set of stop ids, shared by its matchers, in any threads.
Limits: plans of at most `MOST_PLANNED` bytes. Few tokens are those of a shortest text: a longer text may
have fewer, which is not looked for.

Why it never gets stuck: the plan is found byte by byte, and each byte follows from the configuration alone.
So the plan of a text that went on with the first token of its plan is the rest of it, one token shorter: as
long as a plan fits into what is left, the mask has that token at least.

Most tokens need no look: a token is safe if the most that any stack may cost from here on, and what its bytes
may add to that (`hybrid.completion.bounds`), fit into what is left.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from equivalence import BudgetExceeded, MatcherError, Vocabulary, forking
from hybrid.completion.bounds import MOST_RISE
from hybrid.completion.distances import UNSPELLED
from hybrid.completion.reading import Reading, Tables
from hybrid.completion.spelling import LONGEST, Spelling

MOST_PLANNED = 1 << 16
"""Bytes of the longest plan."""

TABLE_BYTES = 32 * 2**20
"""Of the tables of one `Reading`; what is noted of their rows beside them takes about as much again. A JSON
text of 40 kB, with plans at 1,000 of its places, took 6 MiB of each; of a schema without `any`, 0.3 MiB."""

WORTH_KEEPING = 4096
"""Tokens from which on it is kept where they lead: to read 128,000 takes 20 ms, to look them up 1 ms."""

ENDS_KEPT = 4
"""Configurations of which that is kept, 1 MiB each."""

Answer = TypeVar("Answer")


class _TooLong(BudgetExceeded):
    """A plan has more bytes than any may have: new tables would not help."""


class Place(NamedTuple):
    """Where a text stands: in which reading, after which text, at which configuration."""

    reading: Reading
    text: bytes
    configuration: int


class _Cut(NamedTuple):
    """Of a configuration: the tokens of its plan, the first one, and how many bytes that one has."""

    n_tokens: float
    token: int
    length: int


_NOTHING_LEFT = _Cut(0, -1, 0)


class Completion:
    """Plans of one grammar's texts; thread-safe.

    Args:
        tables: of the grammar's network.
        vocabulary: the vocabulary.
        spelling: of the same vocabulary.
    """

    def __init__(self, tables: Tables, vocabulary: Vocabulary, spelling: Spelling) -> None:
        self._tables, self._vocabulary, self._spelling = tables, vocabulary, spelling
        data, offsets = vocabulary.flat
        sums = np.concatenate([[0], np.cumsum(tables.bounds.rise[data])])
        rise = np.minimum(sums[offsets[1:]] - sums[offsets[:-1]], MOST_RISE)[spelling.ids]
        order = np.argsort(-rise, kind="stable")
        self._risky: NDArray[np.int64] = spelling.ids[order]  # those that may raise most come first
        self._minus_rise: NDArray[np.int64] = -rise[order]
        self._lock = forking.listed(threading.Lock(), forking.Order.TABLES, self._renew)
        self._renew()

    def _renew(self) -> None:
        self._reading = Reading(self._tables, self._vocabulary, TABLE_BYTES)
        self._steps: dict[int, tuple[int, int]] = {}  # the first byte of each plan, and what follows it
        self._cuts: dict[int, _Cut] = {}
        self._ends_known: dict[int, tuple[NDArray[np.int32], NDArray[np.int32]]] = {}

    @property
    def nbytes(self) -> int:
        """Bytes held; what is noted beside the tables that grow is counted as much as these."""
        kept = sum(len(ids) for ids, _ in list(self._ends_known.values()))
        size = self._tables.nbytes + self._risky.nbytes + self._minus_rise.nbytes + 8 * kept
        return size + 2 * self._reading.nbytes

    def shortest(self, text: bytes, before: Place | None) -> tuple[list[int] | None, Place]:
        """The tokens of the plan, or None where there is none; and where the text stands.

        Args:
            text: what was read.
            before: where an earlier text stood.

        Raises:
            BudgetExceeded: the plan, or what finding it takes, is larger than there is room for.
        """
        return self._asked(text, before, self._tokens)

    def restrict(
        self, text: bytes, before: Place | None, left: int, words: NDArray[np.uint32]
    ) -> tuple[bool, Place]:
        """Take out of a mask all tokens after which the plan has too many; whether it had any of these.

        Args:
            text, before: as of `shortest`.
            left: tokens that may still follow, the next one included.
            words: the mask, of the tokens that can be read.

        Raises:
            MatcherError: the plan itself has more tokens, or there is none.
            BudgetExceeded: as `shortest`.
        """
        return self._asked(text, before, lambda configuration: self._restrict(configuration, left, words))

    def shortest_behind(self, left: bytes) -> list[int] | None:
        """As `shortest`, of bytes that have to be spelled before the first text of the grammar begins."""
        return self._asked(b"", None, lambda start: self._tokens_behind(left, start))[0]

    def restrict_behind(self, left: bytes, tokens_left: int, words: NDArray[np.uint32]) -> bool:
        """As `restrict`, where some bytes, one at least, have to be spelled before the grammar begins.

        Args:
            left: the bytes.
            tokens_left: as `left` there.
            words: the mask, of tokens that are beginnings of these bytes, or begin with them and go on with
                what the grammar reads.
        """
        return self._asked(b"", None, lambda start: self._restrict_behind(left, start, tokens_left, words))[0]

    def _asked(
        self, text: bytes, before: Place | None, question: Callable[[int], Answer]
    ) -> tuple[Answer, Place]:
        """An answer from the tables; where they are full, from new ones."""
        with self._lock:
            try:
                place = self._find(text, before)
                return question(place.configuration), place
            except _TooLong:
                raise
            except BudgetExceeded:
                self._renew()
            place = self._find(text, None)
            return question(place.configuration), place

    def _find(self, text: bytes, before: Place | None) -> Place:
        reading = self._reading
        if before is None or before.reading is not reading or not text.startswith(before.text):
            before = Place(reading, b"", reading.start)
        configuration = reading.read(before.configuration, text[len(before.text) :])
        return Place(reading, text, configuration)

    # --- plans ---

    def _tokens(self, configuration: int) -> list[int] | None:
        tokens: list[int] = []
        while (cut := self._cut(configuration)).token >= 0:
            tokens.append(cut.token)
            for _ in range(cut.length):
                configuration = self._step(configuration)[1]
        return tokens if cut is _NOTHING_LEFT else None

    def _step(self, configuration: int) -> tuple[int, int]:
        """The first byte of a plan, which is not empty, and the configuration behind it."""
        found = self._steps.get(configuration)
        if found is None:
            byte = self._reading.first(configuration)
            found = self._steps[configuration] = byte, self._reading.read(configuration, bytes([byte]))
        return found

    def _cut(self, configuration: int) -> _Cut:
        """How the plan of a configuration is cut into tokens; infinitely many where it cannot be, or there is
        no plan."""
        found = self._cuts.get(configuration)
        if found is not None:
            return found
        cost = self._reading.cost(configuration)
        if cost == 0:
            return _NOTHING_LEFT
        if cost == math.inf:
            return _Cut(math.inf, -1, 0)
        if cost % UNSPELLED + cost // UNSPELLED > MOST_PLANNED:
            raise _TooLong(
                f"the shortest text that completes the sentence has {cost % UNSPELLED:.0f} bytes, allowed "
                f"are {MOST_PLANNED}; use masks without a limit of tokens for this grammar"
            )
        plan, at = bytearray(), [configuration]
        while self._reading.cost(at[-1]) > 0:
            byte, following = self._step(at[-1])
            plan.append(byte)
            at.append(following)
        text = bytes(plan)
        self._cuts[at[-1]] = _NOTHING_LEFT
        # from the end on; what is known from a place on was found with all that lies behind it
        for i in range(len(text) - 1, -1, -1):
            if at[i] not in self._cuts:
                self._cuts[at[i]] = _Cut(*self._spelling.least(text, i, lambda k: self._cuts[at[k]].n_tokens))
        return self._cuts[configuration]

    # --- plans behind bytes that are spelled first ---

    def _cuts_behind(self, left: bytes, start: int) -> list[_Cut]:
        """How these bytes and the plan behind them are cut, from each place of the bytes on and from their
        end; a token may cross it."""
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
            found[i] = _Cut(*self._spelling.least(text, i, needed))
        return found

    def _tokens_behind(self, left: bytes, start: int) -> list[int] | None:
        cuts, tokens, at = self._cuts_behind(left, start), list[int](), 0
        if cuts[0].n_tokens == math.inf:
            return None
        while at < len(left):
            tokens.append(cuts[at].token)
            at += cuts[at].length
        for _ in range(at - len(left)):
            start = self._step(start)[1]
        behind = self._tokens(start)
        assert behind is not None, "what is cut into finitely many tokens has a plan"
        return tokens + behind

    def _restrict_behind(self, left: bytes, start: int, tokens_left: int, words: NDArray[np.uint32]) -> bool:
        cuts = self._cuts_behind(left, start)
        if cuts[0].n_tokens > tokens_left:
            raise _too_few(tokens_left, cuts[0].n_tokens)
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")
        ids = self._spelling.ids[bits[self._spelling.ids] == 1]
        offsets = self._vocabulary.flat[1]
        lengths = offsets[ids + 1] - offsets[ids]
        within = lengths <= len(left)
        fits = np.array([cut.n_tokens <= tokens_left - 1 for cut in cuts])
        late = ids[within][~fits[lengths[within]]]
        slack = tokens_left - 1 - self._reading.most(start)
        risky = self._risky
        if slack > -math.inf:  # the bytes that are left raise nothing, but are counted with their token
            risky = risky[: int(np.searchsorted(self._minus_rise, -slack, side="left"))]
        for token in np.intersect1d(ids[~within], risky).tolist():
            rest = self._vocabulary.tokens[token][len(left) :]
            if not self._fits(self._reading.read(start, rest), tokens_left - 1):
                late = np.append(late, token)
        bits[late] = 0
        words[:] = np.packbits(bits, bitorder="little").view(np.uint32)
        return len(late) > 0

    # --- masks ---

    def _restrict(self, configuration: int, left: int, words: NDArray[np.uint32]) -> bool:
        if not self._fits(configuration, left):
            # an error where it is longer than any plan
            raise _too_few(left, self._cut(configuration).n_tokens)
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
            is_late[end] = not self._fits(end, left - 1)
        late = ids[is_late[ends]]
        if len(late):
            bits = np.zeros(32 * len(words), np.uint8)
            bits[late] = 1
            words &= ~np.packbits(bits, bitorder="little").view(np.uint32)
        if self._reading.cost(configuration) > left:  # on the engine, masks may lack what is taken
            token = self._cut(configuration).token
            words[token >> 5] |= np.uint32(1 << (token & 31))
        return len(late) > 0

    def _ends(self, configuration: int, ids: NDArray[np.int64]) -> NDArray[Any]:
        """The configuration after each of some tokens; long answers are kept, as a string goes on with the
        same configuration, and rows of a batch meet the same ones."""
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

    def _fits(self, configuration: int, left: int) -> bool:
        """Whether the plan has at most so many tokens."""
        cost = self._reading.cost(configuration)
        if cost < UNSPELLED:
            if cost <= left:  # a token a byte
                return True
            if cost > min(left * LONGEST, MOST_PLANNED):
                return False
        return self._cut(configuration).n_tokens <= left


def _too_few(left: int, needed: float) -> MatcherError:
    """The error where a plan has more tokens than are left."""
    known = f"the shortest completion takes {needed:.0f}" if needed < math.inf else "nothing ends it"
    return MatcherError(
        f"the text cannot be completed within {left} tokens: {known}; allow more tokens from the start on, "
        "or ask for masks without a limit"
    )
