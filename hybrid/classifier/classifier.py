"""The parser stack classifier of one grammar: what its matchers share.

What: an automaton over the parser stack, read from the top, whose states are sets of pending representatives
and whose outputs are sets of classes; built on demand, a state when a stack first asks for it. Around it the
sets of stacks met so far, interned, so that equal configurations are one number, and what was found for them.
When: made by `hybrid.compile.compilation` for strategy "classifier"; for any number of matchers, in any
threads.
Limits: bytes and stacks only; `budget` bytes of tables. Where they are used up a new `Session` begins with
empty tables, and matchers bring over what they hold.

Source: the parser stack classification paper; configurations as sets of stacks with shared tails are graph
structured stacks (Tomita 1985).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence import BudgetExceeded, TokenClasses, Vocabulary, forking
from equivalence._kernels import POPS
from equivalence.runs import Members, members_of
from hybrid.classifier import _kernels
from hybrid.classifier.reachable import Reachable
from hybrid.classifier.tables import Fixed, Store, Summaries, addresses, copied, no_summaries
from hybrid.representatives.gather import Gather, members_by_class

STEP_BYTES = 180
"""Memory of one remembered step: an entry of a dictionary and its two integers."""

ROW_BYTES = 640
"""Memory of one mask besides its words: an entry of a dictionary, the tuple, its array and views."""

NEVER = sys.maxsize
"""A number of sequences that is never met."""


class Row(NamedTuple):
    """A mask over the vocabulary: its words (uint32, never changed), their address, whether it forbids any,
    and the words as memory that is copied in half the time.

    Whoever copies from the address holds the row meanwhile, so that it outlives its session's dictionaries.
    """

    words: NDArray[np.uint32]
    address: int
    needed: bool
    memory: memoryview


class Session:
    """What one period of a classifier's work has met; matchers move on when the next one begins.

    Attributes:
        serial: number of the session; configurations of different sessions have nothing in common.
        store: the tables (of the classifier's kind).
        steps: configuration << bits | token -> configuration after it (0: not accepted).
        rows: by stop ids, (what `class_mask` names -> mask, configuration -> mask, these ids).
        start: the configuration before any text.
        left: bytes that may still be remembered in dictionaries.
    """

    def __init__(self, serial: int, store: Any, start: int, left: int) -> None:
        self.serial = serial
        self.store = store
        self.steps: dict[int, int] = {}
        self.rows: dict[tuple[int, ...], tuple[dict[int, Row], dict[int, Row], NDArray[np.int64]]] = {}
        self.start = start
        self.left = left

    def rows_for(self, stops: tuple[int, ...]) -> tuple[dict[int, Row], dict[int, Row], NDArray[np.int64]]:
        """The masks met so far under some stop ids: by class mask, and by configuration; and these ids."""
        found = self.rows.get(stops)
        if found is None:
            found = self.rows[stops] = ({}, {}, np.array(stops, np.int64))
        return found


class Classifier:
    """Masks and steps of one grammar, for all its matchers.

    Args:
        fixed: the grammar network and the representatives (`tables.fixed_tables`).
        classes: the tokens of the classes of the same grammar, numbered as the representatives are
            (`distinct_classes`).
        vocabulary: the vocabulary that the classes are of.
        limit: bytes that tables, remembered steps and masks may take together.
        known: summaries built ahead of time; ``None``: all are found on demand.
        reachable: what stacks the network allows, by which `completing` finds the others; ``None``: who
            wants to know builds the network again.
        met: the configurations that exploring the same network met (`explore.Met.space`), where its counts
            are bounded as here: the first session begins with them. Finding them again took a quarter of what
            a new mask of a JSON schema takes.

    Attributes:
        served: sequences that were begun.
        look_at, look: what is called when so many were begun (`hybrid.compile.promotion`).
        is_refused: whether completing it was more than the budget allows.
    """

    kernels: Any = _kernels
    """What decides: `class_mask`, `class_masks`, `advance`, `advances`, `advance_text`, `forced_byte`."""

    whole_asks_kernels = False
    """Whether `is_whole` is called with the lock held, like all that asks them; else at any time."""

    _kept_bytes = 0  # of Lark grammars, which keep nothing beside their sessions

    def __init__(
        self, fixed: Fixed, classes: Members, vocabulary: Vocabulary, limit: int,
        known: Summaries | None = None, reachable: Reachable | None = None, met: Any = None,
    ) -> None:  # fmt: skip
        self._fixed = fixed
        self._known = known
        self.reachable = reachable
        self._met = met
        self._count_kept()
        self._begin(classes, vocabulary, limit)

    def _begin(self, classes: TokenClasses | Members, vocabulary: Vocabulary, limit: int) -> None:
        self.gather = Gather(classes, vocabulary.size)
        self._gather_table = addresses(self.gather.tables)
        self.vocabulary = vocabulary
        self.token_bits = max(vocabulary.size - 1, 1).bit_length()
        self.limit = limit
        self.lock = forking.listed(threading.Lock(), forking.Order.TABLES, self._torn)
        self.served = 0
        self.look_at = NEVER
        self.look: Callable[[], None] = _nothing
        self.is_refused = False
        self.session = self._new_session(0)

    @property
    def known(self) -> Summaries:
        """The summaries that sessions begin with."""
        return no_summaries(self._fixed) if self._known is None else self._known

    @property
    def is_complete(self) -> bool:
        """Whether sessions begin with all that stacks can ask for."""
        return self._known is not None and self._known.complete

    @property
    def n_found(self) -> int:
        """States of the automaton that the session under way has read: first ones, and those below them."""
        store = self.session.store
        return int(store.counts[_kernels.N_SUMMARIES]) + int((store.known.first[:, 0] >= 0).sum())

    @property
    def n_network_states(self) -> int:
        """States of the grammar network."""
        return len(self._fixed.net[0])

    def complete_with(self, known: Summaries) -> None:
        """Let later sessions begin with these summaries; the one under way goes on with its own."""
        self._known, self.reachable = known, None
        self._count_kept()

    def serve(self) -> None:
        """Count one more sequence."""
        # two threads may count one: nothing exact depends on it
        self.served += 1
        if self.served >= self.look_at:
            self.look()

    def _new_session(self, serial: int) -> Session:
        """A session with empty tables."""
        known = self.known if self._known is None else copied(self._known)
        store, self._met = Store(self._fixed, self.limit // 2, known, self._met), None
        start = store.call(_kernels.start_of, self._fixed.start, self._fixed.start_final)
        return Session(serial, store, start, self.limit // 2)

    @property
    def memory_size_bytes(self) -> int:
        """Bytes held now."""
        session = self.session
        size = session.store.nbytes + (self.limit // 2 - session.left) + self.gather.memory_size_bytes
        return size + self._kept_bytes

    def _count_kept(self) -> None:
        """Count what does not grow; caches ask for sizes with each call."""
        known = 0 if self._known is None else self._known.nbytes
        self._kept_bytes = known + (0 if self.reachable is None else self.reachable.nbytes)

    # the methods below are called with `lock` held

    def renew(self) -> Session:
        """Begin a new session with empty tables."""
        self.session = self._new_session(self.session.serial + 1)
        return self.session

    def _torn(self) -> None:
        """A process was forked while a kernel wrote into the tables: what matchers hold was whole before, and
        is all that they bring over."""
        self.renew()

    def step(self, session: Session, config: int, token: int) -> int:
        """The configuration after a token, 0 if it is not accepted; remembered."""
        after = session.store.call(self.kernels.advance, config, token)
        session.steps[config << self.token_bits | token] = after
        session.left -= STEP_BYTES
        return after

    def read(self, session: Session, config: int, text: bytes) -> int:
        """The configuration after some bytes, 0 if they are not accepted."""
        return session.store.call(self.kernels.advance_text, config, np.frombuffer(text, np.uint8))

    def is_whole(self, session: Session, config: int) -> bool:
        """Whether the text read so far is a sentence of the grammar."""
        return bool(session.store.space.facts[config, POPS] > 0)

    def row(self, session: Session, config: int, stops: tuple[int, ...]) -> Row:
        """The mask of a configuration; remembered."""
        return self.row_of_mask(session, config, session.store.call(self.kernels.class_mask, config), stops)

    def row_of_mask(self, session: Session, config: int, mask: int, stops: tuple[int, ...]) -> Row:
        """The mask of a configuration for which `class_mask` gave a number; remembered."""
        known, rows, ids = session.rows_for(stops)
        row = known.get(mask)
        if row is None:
            row = known[mask] = self._expand(session, mask, ids)
            session.left -= row.words.nbytes + ROW_BYTES
        rows[config] = row
        session.left -= STEP_BYTES
        return row

    def _expand(self, session: Session, mask: int, stops: NDArray[np.int64]) -> Row:
        """The row of what `class_mask` names."""
        out: NDArray[np.uint32] = np.empty(self.gather.n_words, np.uint32)
        words = session.store.mask_words(mask >> 1)
        found = int(_kernels.expand(words, mask & 1, self._gather_table, stops, self.vocabulary.size, out))
        return Row(out, found >> 1, bool(found & 1), out.data)

    def moved(self, config: int, old: Any, session: Session) -> int:
        """A configuration of an earlier session's tables, brought to a session."""
        tails, frames = old.space.tails, old.space.frames
        pool, starts = old.space.configs.pool, old.space.configs.starts
        values = np.array(pool[starts[config] : starts[config + 1]], np.int64)
        pairs = 2 + int(values[1])

        def frames_of(tail: int) -> list[int]:
            return [int(frame) for frame in tails.pool[tails.starts[tail] : tails.starts[tail + 1]]]

        found = {0: 0}
        waiting = [int(tail) for tail in values[pairs + 1 :: 2]]
        needed = set(waiting)
        while waiting:
            for frame in frames_of(waiting.pop()):
                below = int(frames[frame, 2])
                if frame and below not in needed:
                    needed.add(below)
                    waiting.append(below)
        for tail in sorted(needed - {0}):  # a tail has a greater number than all that lie below it
            singles = [
                session.store.call(
                    _kernels.put_frame,
                    int(frames[frame, 0]),
                    int(frames[frame, 1]),
                    found[int(frames[frame, 2])],
                )
                if frame
                else 0
                for frame in frames_of(tail)
            ]
            found[tail] = session.store.call(_kernels.put_tail, np.array(singles, np.int64))
        for place in range(pairs + 1, len(values), 2):
            values[place] = found[int(values[place])]
        return session.store.call(_kernels.put_config, values)


def _nothing() -> None:
    """What is done where nobody looks."""


def distinct_classes(classes: TokenClasses, vocabulary: Vocabulary) -> tuple[list[bytes], Members]:
    """The distinct representatives in byte order, and the tokens of the classes numbered like them.

    A stop id that is also text is a class of its own, whose bytes another class may have: here they are one,
    as stop ids are decided apart.
    """
    tokens = vocabulary.tokens
    if classes.runs is not None:  # no two representatives are equal
        in_order = np.argsort(vocabulary.trie.group_of_token[classes.representatives])
        renumbered = np.empty(classes.n_classes, np.int32)
        renumbered[in_order] = np.arange(classes.n_classes, dtype=np.int32)
        texts = [tokens[token_id] for token_id in classes.representatives[in_order].tolist()]
        return texts, members_of(classes.runs, vocabulary.byte_order, renumbered)
    texts = [tokens[token_id] for token_id in classes.representatives.tolist()]
    distinct = sorted(set(texts))
    number = {text: index for index, text in enumerate(distinct)}
    renumbered = np.array([number[text] for text in texts] + [-1], np.int32)
    return distinct, members_by_class(renumbered[classes.class_of_token], len(distinct))


def forced_text(classifier: Classifier, session: Session, config: int, most: int) -> bytes:
    """The bytes that are forced from a configuration on, up to `most`; called with the lock held.

    Raises:
        BudgetExceeded: the tables are full before the first byte is known; after it, there are fewer bytes.
    """
    text = bytearray()
    try:
        while len(text) < most:
            byte = session.store.call(classifier.kernels.forced_byte, config)
            if byte == _kernels.NO_BYTE:
                break
            config = classifier.read(session, config, bytes([byte]))
            text.append(byte)
    except BudgetExceeded:
        if not text:
            raise
    return bytes(text)
