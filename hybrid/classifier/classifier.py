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
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from equivalence import BudgetExceeded, TokenClasses, Vocabulary, forking
from equivalence.deadline import Deadline
from equivalence.parser.space import Space
from equivalence.runs import Members, members_of
from hybrid.api.follower import text_of
from hybrid.classifier.pieces import PieceGather
from hybrid.classifier.reachable import Reachable
from hybrid.classifier.rows import Rows
from hybrid.classifier.steps import Steps
from hybrid.classifier.store import NO_BYTE, Store
from hybrid.classifier.summaries import Summaries
from hybrid.classifier.tables import Fixed
from hybrid.classifier.walk_tables import WalkTables
from hybrid.representatives.gather import Gather, members_by_class

NEVER = sys.maxsize
"""A number of sequences that is never met."""


class Session:
    """What one period of a classifier's work has met; matchers move on when the next one begins.

    Attributes:
        serial: number of the session; configurations of different sessions have nothing in common.
        store: the tables (of the classifier's kind).
        steps: the steps that were made before.
        rows: the masks met so far, by stop ids.
        class_rows: those that were asked for by classes; None: none was.
        start: the configuration before any text.
        left: bytes that may still be taken by steps and rows.
        numbers: of masks that more than their classes decide (`hybrid.classifier.token_ids`).
        gather: expands masks of classes, or pieces.
        tops, forced: what `hybrid.drafts` remembers of configurations: hashes of what is on top, forced text.
    """

    def __init__(self, serial: int, store: Any, start: int, left: int, gather: Gather) -> None:
        self.serial = serial
        self.store = store
        self.steps = Steps()
        self.rows: dict[tuple[int, ...], Rows] = {}
        self.class_rows: Rows | None = None
        self.start = start
        self.left = left
        self.numbers: dict[tuple[int, tuple[int, ...]], int] = {}
        self.gather = gather
        self.tops: dict[int, int] = {}
        self.forced: dict[int, bytes] = {}

    def rows_for(self, stops: tuple[int, ...]) -> Rows:
        """The masks met so far under some stop ids."""
        found = self.rows.get(stops)
        if found is None:
            found = self.rows[stops] = Rows(self.gather, stops)
        return found

    def rows_by_class(self) -> Rows:
        """The masks asked for by classes: rows of a bit for each class, and one for all stop ids.

        Called with the classifier's lock held, where there are classes.
        """
        if self.class_rows is None:
            n_classes = self.gather.n_classes
            itself = Gather(members_by_class(np.arange(n_classes, dtype=np.int32), n_classes), n_classes + 1)
            self.left -= itself.memory_size_bytes
            self.class_rows = Rows(itself, (n_classes,))
        return self.class_rows

    def remember(self, config: int, token: int, after: int) -> None:
        """Remember a step; or nothing more in this session, where the bytes are used up."""
        steps = self.steps
        if steps.is_full:
            if steps.nbytes > self.left:
                self.left = -1
                return
            self.left -= steps.nbytes
        steps.add(config, token, after)


class Classifier:
    """Masks and steps of one grammar, for all its matchers.

    Args:
        fixed: the grammar network and the representatives (`tables.fixed_tables`), or the vocabulary's trie
            (`walk_tables.walk_tables`).
        classes: the tokens of the classes of the same grammar, numbered as the representatives are
            (`distinct_classes`); ``None``: there are none, and masks are walked until there are.
        vocabulary: the vocabulary that the classes are of.
        limit: bytes that tables, remembered steps and masks may take together.
        known: summaries built ahead of time; ``None``: all are found on demand.
        reachable: what stacks the network allows, by which `completing` finds the others; ``None``: who
            wants to know builds the network again.
        met: the configurations that exploring the same network met (`explore.Met.space`), where its counts
            are bounded as here: the first session begins with them. Finding them again took a quarter of what
            a new mask of a JSON schema takes. What is no `Space` is left alone.

    Attributes:
        served: sequences that were begun.
        look_at, look: what is called when so many were begun (`hybrid.compile.promotion`).
        look_entered: nodes that walks enter before it is called in the middle of a sequence, too.
        is_refused: whether completing it was more than the budget allows.
    """

    whole_takes_lock = False
    """Whether `is_whole` is called with the lock held, like all that asks the store; else at any time."""

    by_text = True
    """Whether ids are read by their texts only, so that a mask is that of its classes and nothing else."""

    ids: Any = None
    """What ids mean that are not read by their texts alone (`hybrid.classifier.named_ids`)."""

    has_handed_over = False
    """Whether all sequences begin on another strategy from now on."""

    _kept_bytes = 0  # of Lark grammars, which keep nothing beside their sessions

    def __init__(
        self, fixed: Fixed | WalkTables, classes: Members | None, vocabulary: Vocabulary, limit: int,
        known: Summaries | None = None, reachable: Reachable | None = None, met: Any = None,
    ) -> None:  # fmt: skip
        self._fixed = fixed
        self._known = known
        self.reachable = reachable
        self._met = met if isinstance(met, Space) else None
        self._count_kept()
        self._begin(classes, vocabulary, limit)

    def _begin(self, classes: TokenClasses | Members | None, vocabulary: Vocabulary, limit: int) -> None:
        self.gather = None if classes is None else Gather(classes, vocabulary.size)
        self.vocabulary = vocabulary
        self.limit = limit
        self.lock = forking.listed(threading.Lock(), forking.Order.TABLES, self._torn)
        self.served = 0
        self.look_at = self.look_entered = NEVER
        self.look: Callable[[], None] = _nothing
        self.is_refused = False
        self.session = self._new_session(0)

    @property
    def known(self) -> Summaries:
        """The summaries that sessions begin with."""
        if self._known is None:
            return Summaries(self.n_network_states, self._fixed.n_words)
        return self._known

    @property
    def is_complete(self) -> bool:
        """Whether sessions begin with all that stacks can ask for."""
        return self._known is not None and self._known.complete

    @property
    def n_found(self) -> int:
        """States of the automaton that the session under way has read: first ones, and those below them."""
        return int(self.session.store.n_found)

    @property
    def n_network_states(self) -> int:
        """States of the grammar network."""
        return len(self._fixed.net[0])

    @property
    def is_walked(self) -> bool:
        """Whether masks are walked over the vocabulary, as long as there are no classes."""
        return self.gather is None

    @property
    def n_entered(self) -> int:
        """Nodes of the vocabulary's trie that walks of the session under way entered; 0 with classes."""
        return int(self.session.store.summariser.n_entered) if self.is_walked else 0

    def take_classes(self, fixed: Fixed, classes: Members, reachable: Reachable | None = None) -> None:
        """Go on with classes where masks were walked; with the lock held. Matchers bring over what they hold.

        Args:
            fixed: of the network that the walked tables were made of.
            classes, reachable: as of `Classifier`.
        """
        gather = Gather(classes, self.vocabulary.size)
        self._fixed, self.gather, self.reachable = fixed, gather, reachable
        self._count_kept()
        self.renew()

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

    def look_at_walks(self) -> None:
        """Call `look`, as walks have become long; without the lock."""
        self.look_at, self.look_entered = 0, NEVER
        self.look()

    def _new_session(self, serial: int) -> Session:
        """A session with empty tables."""
        store, self._met = Store(self._fixed, self.limit // 2, self._known, self._met), None
        start = store.start(self._fixed.start, self._fixed.start_final)
        gather = self.gather or PieceGather(store.summariser, self.vocabulary.size)
        return Session(serial, store, start, self.limit // 2, gather)

    @property
    def memory_size_bytes(self) -> int:
        """Bytes held now."""
        session = self.session
        size = session.store.nbytes + (self.limit // 2 - session.left) + session.gather.memory_size_bytes
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
        """A process was forked while a thread wrote into the tables: what matchers hold was whole before, and
        is all that they bring over."""
        self.renew()

    def step(self, session: Session, config: int, token: int) -> int:
        """The configuration after a token, 0 if it is not accepted; remembered."""
        after: int = session.store.advance(config, token)
        session.remember(config, token, after)
        return after

    def read(self, session: Session, config: int, text: bytes) -> int:
        """The configuration after some bytes, 0 if they are not accepted."""
        return session.store.advance_text(config, text)

    def read_again(self, session: Session, read: list[int | bytes | None], tokens: Sequence[bytes]) -> int:
        """The configuration after ids, texts and stop tokens (`None`) that were accepted from the start."""
        return self.read(session, session.start, text_of(read, tokens))

    def forced_byte(self, session: Session, config: int) -> int:
        """The only byte of text that can come next, or `NO_BYTE`."""
        return int(session.store.forced_byte(config))

    def is_whole(self, session: Session, config: int) -> bool:
        """Whether the text read so far is a sentence of the grammar."""
        return session.store.is_whole(config)

    def note_mask(self, session: Session, config: int, mask: int, rows: Rows) -> None:
        """Make the row of a configuration for which `class_mask` gave a number, and remember it."""
        if not rows.of(config, mask):
            before = rows.nbytes
            rows.make(config, mask, session.store.mask_words(mask >> 1))
            session.left -= rows.nbytes - before

    def moved(self, config: int, old: Any, session: Session) -> int:
        """A configuration of an earlier session's tables, brought to a session."""
        return session.store.bring(old, config)


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


def forced_text(
    classifier: Classifier, session: Session, config: int, most: int, deadline: Deadline
) -> bytes:
    """The bytes that are forced from a configuration on, up to `most`, as many as are found in time; called
    with the lock held.

    Raises:
        BudgetExceeded: the tables are full before the first byte is known; after it, there are fewer bytes.
    """
    text = bytearray()
    try:
        while len(text) < most and not deadline.is_over:
            byte = classifier.forced_byte(session, config)
            if byte == NO_BYTE:
                break
            config = classifier.read(session, config, bytes([byte]))
            text.append(byte)
    except BudgetExceeded:
        if not text:
            raise
    return bytes(text)
