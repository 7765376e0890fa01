"""The parser stack classifier of one grammar, which all its matchers share.

What: an automaton that reads the parser stack from its top. Its states are sets of pending representatives,
its outputs are sets of classes. It is built on demand: a state is computed when a stack first needs it. The
sets of stacks are interned, so that equal configurations are one number, and all results are cached.
When: made by `hybrid.compile.compilation` for strategy "classifier"; for any number of matchers, in any
threads.
Limits: only grammars of bytes and stacks; `budget` bytes of tables. When they are full, a new `Session`
starts with empty tables, and matchers move their configurations to it.

Source: the parser stack classification paper. Configurations are sets of stacks with shared tails, that is,
graph structured stacks (Tomita 1985).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from equivalence import BudgetExceeded, TokenClasses, Vocabulary, forks
from equivalence.deadline import Deadline
from equivalence.network.token_ids import MARKER, escaped
from equivalence.runs import Members, members_of
from hybrid.classifier.base_store import NO_BYTE
from hybrid.classifier.mask_pieces import PieceGather
from hybrid.classifier.named_ids import NamedIds, ReadBothWays
from hybrid.classifier.rows import Rows
from hybrid.classifier.step_cache import StepCache
from hybrid.classifier.store import Store
from hybrid.classifier.summaries import Summaries
from hybrid.classifier.tables import Fixed
from hybrid.values.follower import joined
from hybrid.values.gather import Gather, members_by_class
from hybrid.values.mask_time import limited

FIRST_ROWS_BYTES = 2200
"""Bytes of `Rows` without any row."""

MOST_EFFORT = 1 << 24
"""Of forced text, the sum over its bytes of the squares of the numbers of stacks, which is about the time: in
an ambiguous grammar (``p ::= "a" p{0,2} | Token(1)``), each byte may have more stacks than the one before."""


class Session:
    """The tables that a classifier uses for some time. Matchers move on when the next session starts.

    Attributes:
        serial: number of the session; configurations of different sessions are unrelated.
        store: the tables; their type depends on the classifier.
        steps: the known steps.
        rows: the known masks, by stop ids.
        class_rows: the known masks by class; None until they are first needed.
        start: the configuration before any text.
        left: bytes that steps and rows may still take.
        numbers: numbers of masks that depend on more than their classes (`hybrid.classifier.named_ids`).
        gather: expands masks of classes, or of pieces.
        tops, forced: what `hybrid.drafts` caches for configurations: hashes of the tops of stacks, forced
            text.
    """

    def __init__(self, serial: int, store: Any, start: int, left: int, gather: Gather) -> None:
        self.serial = serial
        self.store = store
        self.steps = StepCache()
        self.rows: dict[tuple[int, ...], Rows] = {}
        self.class_rows: Rows | None = None
        self.start = start
        self.left = left
        self.numbers: dict[tuple[int, tuple[int, ...]], int] = {}
        self.gather = gather
        self.tops: dict[int, int] = {}
        self.forced: dict[int, bytes] = {}

    def rows_for(self, stops: tuple[int, ...]) -> Rows:
        """The known masks for some stop ids.

        Called with the classifier's lock held, unless they are known.
        """
        found = self.rows.get(stops)
        if found is None:
            found = self.rows[stops] = Rows(self.gather, stops)
            self.left -= FIRST_ROWS_BYTES
        return found

    def rows_by_class(self) -> Rows:
        """The known masks by class: rows with a bit for each class, and one for all stop ids.

        Called with the classifier's lock held, when there are classes.
        """
        if self.class_rows is None:
            n_classes = self.gather.n_classes
            itself = Gather(members_by_class(np.arange(n_classes, dtype=np.int32), n_classes), n_classes + 1)
            self.left -= itself.memory_size_bytes
            self.class_rows = Rows(itself, (n_classes,))
        return self.class_rows

    def remember(self, configuration: int, token: int, after: int) -> None:
        """Cache a step. If the bytes are used up, nothing more is cached in this session."""
        steps = self.steps
        if steps.is_full:
            if steps.next_nbytes > self.left:
                self.left = -1
                return
            self.left -= steps.next_nbytes
        steps.add(configuration, token, after)


class Classifier:
    """Masks and steps of one grammar, for all its matchers.

    Args:
        fixed: the grammar network and the representatives (`tables.Fixed`), or the vocabulary's trie
            (`walk_tables.WalkTables`).
        classes: the tokens of the classes of the same grammar, numbered like the representatives
            (`distinct_classes`); ``None``: there are none yet, and masks come from walks.
        vocabulary: the vocabulary of the classes.
        limit: bytes that tables and cached steps and masks may take together.
        summaries: summaries computed ahead of time; ``None``: all are computed on demand.
        ids: the meaning of ids that are not only read by their texts; ``None``: there are none.

    Attributes:
        fixed, ids: the arguments.
        is_used: whether any sequence was begun.
        is_refused: whether an attempt to compute all states exceeded the budget.
    """

    has_handed_over = False
    """Whether all sequences start on another strategy from now on."""

    def __init__(
        self, fixed: Any, classes: TokenClasses | Members | None, vocabulary: Vocabulary, limit: int,
        summaries: Summaries | None = None, ids: NamedIds | None = None,
    ) -> None:  # fmt: skip
        self.fixed = fixed
        self.ids = ids
        self._summaries = summaries
        self._count_kept()
        self.gather = None if classes is None else Gather(classes, vocabulary.size)
        self.vocabulary = vocabulary
        self.limit = limit
        self.lock = forks.registered(threading.Lock(), forks.Order.TABLES, self._after_torn_fork)
        self.is_used = False
        self.is_refused = False
        self._former: tuple[weakref.ref[Session], ...] = ()  # sessions that matchers may still be in
        self.session = self._new_session(0)

    @property
    def by_text(self) -> bool:
        """Whether ids are read only by their texts, so that a mask depends only on its classes."""
        return self.ids is None

    @property
    def summaries(self) -> Summaries:
        """The summaries with which sessions start."""
        if self._summaries is None:
            return Summaries(self.fixed.parser.automaton.n_states, self.fixed.n_words)
        return self._summaries

    @property
    def is_complete(self) -> bool:
        """Whether sessions start with every state that stacks can need."""
        return self._summaries is not None and self._summaries.complete

    @property
    def is_walked(self) -> bool:
        """Whether masks come from walks over the vocabulary, because there are no classes yet."""
        return self.gather is None

    def take_classes(self, fixed: Fixed, classes: Members) -> None:
        """Use classes instead of walks from now on. Matchers move their configurations. The lock must be
        held.

        Args:
            fixed: the tables for the network of which the walked tables were made.
            classes: as for `Classifier`.
        """
        gather = Gather(classes, self.vocabulary.size)
        self.fixed, self.gather = fixed, gather
        self._count_kept()
        self.renew()

    def complete_with(self, summaries: Summaries) -> None:
        """Let later sessions start with these summaries; the current one keeps its own."""
        self._summaries = summaries
        self._count_kept()

    def _new_session(self, serial: int) -> Session:
        """A session with empty tables."""
        store = self._new_store()
        gather = self.gather or PieceGather(store.walker, self.vocabulary.size)
        return Session(serial, store, store.start(), self.limit // 2, gather)

    def _new_store(self) -> Any:
        return Store(self.fixed, self.limit // 2, self._summaries)

    @property
    def memory_size_bytes(self) -> int:
        """Bytes held now, also by earlier sessions, each of which lives until its last matcher moves on."""
        session = self.session
        size = session.store.nbytes + (self.limit // 2 - session.left) + session.gather.memory_size_bytes
        for ref in self._former:
            former = ref()
            if former is not None:
                size += former.store.nbytes + (self.limit // 2 - former.left)
                size += 0 if former.gather is session.gather else former.gather.memory_size_bytes
        return size + self._kept_bytes

    def _count_kept(self) -> None:
        """Count what does not grow, once, because caches ask for the size at each call."""
        kept = self.fixed, self._summaries, self.ids
        self._kept_bytes = sum(one.nbytes for one in kept if one is not None)

    # the lock must be held for the methods below

    def renew(self) -> Session:
        """Start a new session with empty tables."""
        session = self._new_session(self.session.serial + 1)
        former = (*(ref for ref in self._former if ref() is not None), weakref.ref(self.session))
        self._former, self.session = former, session
        return session

    def _after_torn_fork(self) -> None:
        """Handle a fork that happened while a thread was writing to the tables. Matchers refer only to what
        was complete before, and only that is moved to new tables."""
        self.renew()

    def step(self, session: Session, configuration: int, token: int) -> int:
        """The configuration after a token, or 0 if it is not accepted. The step is cached.

        Raises:
            ReadBothWays: the token is read both as text and as an id.
        """
        store = session.store
        after: int = (
            store.advance(configuration, token)
            if self.ids is None
            else self.ids.step(store, configuration, token)
        )
        if after < 0:
            raise ReadBothWays
        session.remember(configuration, token, after)
        return after

    def read(self, session: Session, configuration: int, text: bytes) -> int:
        """The configuration after some bytes, or 0 if they are not accepted."""
        after: int = session.store.advance_text(configuration, text if self.ids is None else escaped(text))
        return after

    def read_again(self, session: Session, read: list[int | bytes | None], tokens: Sequence[bytes]) -> int:
        """The configuration after a history of ids, texts and stop tokens (`None`) that were accepted."""
        if self.ids is None:
            return self.read(session, session.start, joined(read, tokens))
        configuration = session.start
        for one in read:
            if isinstance(one, bytes):
                configuration = self.read(session, configuration, one)
            elif one is not None:
                configuration = self.step(session, configuration, one)
        return configuration

    def forced_byte(self, session: Session, configuration: int) -> int:
        """The only byte of text that can come next, or `NO_BYTE`. As in XGrammar, an id that could replace
        the text does not count."""
        but = () if self.ids is None else (MARKER,)
        return int(session.store.forced_byte(configuration, *but))


def distinct_classes(classes: TokenClasses, vocabulary: Vocabulary) -> tuple[list[bytes], Members]:
    """The distinct representatives in byte order, and the tokens of the classes, numbered like them.

    A stop id that also has text is a class of its own, and another class may have the same bytes. They are
    merged here, because stop ids are decided separately.
    """
    tokens = vocabulary.tokens
    if classes.runs is not None:  # then all representatives differ
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


def forced_text(
    classifier: Classifier, session: Session, configuration: int, most: int, deadline: Deadline
) -> bytes:
    """The bytes that are forced after a configuration, at most `most` and as many as are found in time or
    with `MOST_EFFORT`. The lock must be held.

    Raises:
        BudgetExceeded: the tables are full or the time is over before the first byte is known. If that
            happens later, the bytes so far are returned.
    """
    text, effort = bytearray(), 0
    try:
        with limited(session.store.account, deadline.left):
            while len(text) < most and effort <= MOST_EFFORT and not deadline.is_over:
                effort += session.store.width(configuration) ** 2
                byte = classifier.forced_byte(session, configuration)
                if byte == NO_BYTE:
                    break
                configuration = classifier.read(session, configuration, bytes([byte]))
                text.append(byte)
    except BudgetExceeded:
        if not text:
            raise
    return bytes(text)
