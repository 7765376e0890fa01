"""Completions of texts, and the tokens that leave room for one.

What: the *plan* of a text is the cheapest text that completes it, of all such the least byte by byte, spelled
in the fewest tokens. `Completion.shortest` writes it out; `Completion.restrict` takes out of a mask every
token after which no completion fits into the tokens that are left.
When: one for a compiled grammar and a set of stop ids, shared by its matchers, in any threads.
Limits: plans of at most `MOST_PLANNED` bytes. A longer text may have fewer tokens: such are searched where no
plan fits (`hybrid.completion.search`), and behind the tokens of a mask as far as `READS_AT_TOKENS` goes.

Why it never gets stuck: the plan is found byte by byte, and each byte follows from the configuration alone.
So the plan of a text that went on with the first token of its plan is the rest of it, one token shorter: as
long as a plan fits into what is left, the mask has that token at least. A way that was searched is found
again from its next configuration.

Most tokens need no look: a token is safe if the most that any stack may cost from here on, and what its bytes
may add to that (`hybrid.completion.bounds`), fit into what is left.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from equivalence import BudgetExceeded, MatcherError, Vocabulary, forking
from hybrid.completion.bounds import MOST_RISE
from hybrid.completion.distances import UNSPELLED
from hybrid.completion.reading import EMPTY_TEXT, REJECT, Reading, Tables
from hybrid.completion.search import Way, search
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

READS_HERE = 1 << 18
"""Tokens read in the search for a completion of the text itself: 2 configurations of 128,000 tokens, 2 to
40 ms, which a row pays at each step that has no room for its plan."""

READS_AT_TOKENS = 1 << 14
"""Tokens read behind each token of a mask after which the plan does not fit: 256 configurations of 64
tokens, and none of 128,000, where one alone takes 1 to 20 ms."""

MOST_SEARCHED = 256
"""Configurations of one search: where few tokens are read at each, to find 256 takes some 25 ms."""

SECONDS_HERE, SECONDS_AT_TOKENS = 0.5, 0.02
"""What such searches may take."""

Answer = TypeVar("Answer")


class TooLong(BudgetExceeded):
    """A plan has more bytes than any may have, or a search was given up: new tables would not help."""


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
        self._ways: dict[tuple[int, float, int], Way] = {}
        self._ends_known: dict[int, tuple[NDArray[np.int32], NDArray[np.int32]]] = {}

    @property
    def nbytes(self) -> int:
        """Bytes held; what is noted beside the tables that grow is counted as much as these."""
        kept = sum(len(ids) for ids, _ in list(self._ends_known.values()))
        size = self._tables.nbytes + self._risky.nbytes + self._minus_rise.nbytes + 8 * kept
        return size + 2 * self._reading.nbytes

    def shortest(self, text: bytes, before: Place | None) -> tuple[list[int] | None, Place]:
        """The tokens of the plan, of the shortest way that is found where no tokens spell it, or None where
        nothing completes the text; and where the text stands.

        Args:
            text: what was read.
            before: where an earlier text stood.

        Raises:
            BudgetExceeded: the plan, or what finding it takes, is larger than there is room for.
        """
        return self._asked(text, before, self._tokens)

    def closes(self, text: bytes, before: Place | None, left: int, brief: bool) -> tuple[bool | None, Place]:
        """Whether at most so many tokens complete the text, None where the search was given up; and where
        the text stands.

        Args:
            text, before: as of `shortest`.
            left: the tokens.
            brief: search as far as behind each token of a mask.

        Raises:
            BudgetExceeded: as `shortest`.
        """
        reads = READS_AT_TOKENS if brief else READS_HERE
        return self._asked(text, before, lambda here: self._closes(here, left, reads))

    def restrict(
        self, text: bytes, before: Place | None, left: int, words: NDArray[np.uint32]
    ) -> tuple[bool, Place]:
        """Take out of a mask all tokens after which no completion is known that fits; whether it had any of
        these. The mask stays as it is where the search for one was given up at the text itself.

        Args:
            text, before: as of `shortest`.
            left: tokens that may still follow, the next one included.
            words: the mask, of the tokens that can be read.

        Raises:
            MatcherError: nothing completes the text in so few tokens.
            BudgetExceeded: as `shortest`.
        """
        return self._asked(text, before, lambda configuration: self._restrict(configuration, left, words))

    def count_untouched(self, text: bytes, before: Place | None, left: int) -> tuple[int, Place]:
        """How many masks from here on, this one included, `restrict` leaves as they are, whatever tokens are
        read meanwhile; and where the text stands.

        Args:
            text, before: as of `shortest`.
            left: tokens that may still follow here; one less at each mask.

        Returns:
            A lower bound: each token that is read takes one of those that are left, and may make what is to
            come dearer by what the dearest token of the vocabulary may.

        Raises:
            BudgetExceeded: as `shortest`.
        """
        return self._asked(text, before, lambda configuration: self._untouched(configuration, left))

    def shortest_behind(self, left: bytes) -> list[int] | None:
        """As `shortest`, of bytes that have to be spelled before the first text of the grammar begins."""
        return self._asked(b"", None, lambda start: self._tokens_behind(left, start))[0]

    def closes_behind(self, left: bytes, tokens_left: int, brief: bool) -> bool | None:
        """As `closes`, of the same bytes."""
        return self._asked(b"", None, lambda start: self._closes_behind(left, start, tokens_left, brief))[0]

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
            except TooLong:
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
        found = self._planned_tokens(configuration)
        if found is not None or self._reading.fewest(configuration) == math.inf:
            return found
        way = self._search(configuration, math.inf, READS_HERE)
        return self._whole(way)

    def _whole(self, way: Way) -> list[int] | None:
        """The tokens of a way, those of the plan behind it included; None where there is none."""
        if way.n_tokens == math.inf:
            if way.is_whole:
                return None
            raise TooLong(
                "no tokens spell the shortest text of the sentence, and none that spell another were "
                "found within the bounds of a search; use masks without a limit of tokens for this grammar"
            )
        behind = self._planned_tokens(way.last)
        assert behind is not None, "a search ends where there is a plan"
        return way.tokens + behind

    def _planned_tokens(self, configuration: int) -> list[int] | None:
        """The tokens of the plan; None where no tokens spell it."""
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
            raise TooLong(
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

    # --- ways that are no plans ---

    def _most_read(self, reads: int) -> int:
        """Configurations at which all tokens may be read."""
        return min(reads // max(len(self._spelling.ids), 1), MOST_SEARCHED)

    def _closes(self, configuration: int, left: int, reads: int) -> bool | None:
        """Whether at most so many tokens complete what was read; None where the search was given up."""
        if self._reading.fewest(configuration) > left:
            return False
        if self._fits(configuration, left):
            return True
        way = self._search(configuration, left, reads)
        return way.n_tokens <= left or (False if way.is_whole else None)

    def _search(self, configuration: int, most: float, reads: int) -> Way:
        """The shortest way of at most so many tokens, or the first one where there is a number."""
        key = configuration, most, reads
        found = self._ways.get(key)
        if found is None:
            enough = most if most < math.inf else 0
            seconds = SECONDS_HERE if reads == READS_HERE else SECONDS_AT_TOKENS
            found = self._ways[key] = search(
                configuration, most, enough, self._most_read(reads), seconds, self._ends_of, self._planned,
                self._reading.fewest,
            )  # fmt: skip
        return found

    def _ends_of(self, configuration: int) -> Iterator[tuple[int, int]]:
        """A token for each configuration that one leads to, the least one, and that configuration."""
        ids = self._spelling.ids
        ends, first = np.unique(self._reading.read_tokens(configuration, ids), return_index=True)
        order = np.argsort(first)  # by their tokens: numbers of configurations depend on what was read before
        return zip(ids[first[order]].tolist(), ends[order].tolist(), strict=True)

    def _planned(self, configuration: int) -> float:
        """The tokens of the plan; infinitely many where none spell it, or it is too long."""
        try:
            return self._cut(configuration).n_tokens
        except TooLong:
            return math.inf

    # --- behind bytes that are spelled first ---

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

    def _search_behind(
        self, left: bytes, start: int, cuts: list[_Cut], most: float, reads: int, place: int = 0
    ) -> Way:
        """As `_search`, from a place of the bytes on: place i is node -2 - i."""
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
        seconds = SECONDS_HERE if reads == READS_HERE else SECONDS_AT_TOKENS
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
        if slack > -math.inf:  # the bytes that are left raise nothing, but are counted with their token
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
            # an error where it is longer than any plan
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
            # on the engine, masks may lack what is taken; behind the first token of a way, fewer are read
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


def _too_few(left: int, planned: float, is_endless: bool) -> MatcherError:
    """The error where no completion fits into what is left.

    Args:
        left: the tokens that are left.
        planned: those of the plan; infinitely many where none spell it.
        is_endless: whether nothing ends the text.
    """
    known = f"the shortest text takes {planned:.0f}" if planned < math.inf else "the shortest takes more"
    return MatcherError(
        f"the text cannot be completed within {left} tokens: {'nothing ends it' if is_endless else known}; "
        "allow more tokens from the start on, or ask for masks without a limit"
    )
