# cython: language_level=3
# mypy: ignore-errors
"""The tables of a Lark grammar's classifier: configurations, the kinds that stacks accept, and masks.

What: a `Store` reads text with the lexer and the parser (`advance`), and finds the classes that may come next
(`class_mask`). A configuration is a state of the lexer and a stack of the parser. Everything is interned,
so that equal things have equal numbers and nothing is computed twice. The tables grow as they fill.
When: one at a time for each compiled grammar. When the budget of bytes is used up, a new one replaces it,
and matchers move their configurations (`migrate_from`). It has the methods of
`hybrid.classifier.store.Store`.
Limits: two threads must not use it at once: `hybrid.classifier.classifier` holds a lock around every call.
Long computations release the interpreter's lock.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.hashing import mix
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.arrays.pairs import Pairs
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.classifier.base_store import BaseStore
from cython.cimports.hybrid.lark.reader import Reader
from cython.cimports.hybrid.lark.stacks import Stacks
from numpy.typing import NDArray

from hybrid.classifier.base_store import NO_BYTE

check_source(__name__)

NOWHERE = cython.declare(cython.Py_ssize_t, 0)
"""The configuration after a refused text."""

NO_ONE_BYTE = cython.declare(cython.Py_ssize_t, NO_BYTE)


@cython.final
@cython.cclass
class Store(BaseStore):
    """The growing tables of one classifier.

    Args:
        fixed: the constant data (`hybrid.lark.tables.Fixed`), with numbers within their ranges.
        limit: bytes that all tables may take; the initial tables may exceed it.

    Attributes:
        stacks: the parser's stacks.
        reader: finds the kinds of terminal sequences that stacks accept.
        configurations: pairs (lexer state, stack), and for each the result of `class_mask`.
        decided: pairs (lexer state, set of kinds), and for each the same result.
        masks: sets of classes, as words of 32 bits; number 0 is the empty set.
        allowed: uint8, scratch space: for each set that a lexer state asks for, whether the stack accepts a
            kind in it.
    """

    def __init__(self, fixed: Any, limit: cython.Py_ssize_t) -> None:
        excess = (
            f"the classifier's tables have {{taken}} bytes and need more, but the limit is {limit}; "
            "raise Budget.table_bytes"
        )
        n_words: cython.Py_ssize_t = max((fixed.n_classes + 31) // 32, 1)
        self.fixed = fixed
        self.account = Account(None, excess=excess)
        self.stacks = Stacks(fixed, self.account)
        self.reader = Reader(self.stacks, fixed, self.account)
        self.configurations = Pairs(1024, self.account)
        self.decided = Pairs(1024, self.account)
        self.masks = Interned(512, n_words, account=self.account)
        self.masks.add(np.zeros(n_words, np.int64))
        self.class_of_byte = fixed.class_of_byte
        self.step = fixed.step
        self.emitted = fixed.emitted
        self.sequence = fixed.sequence
        self.sequence_start = fixed.sequence_start
        self.set_start = fixed.set_start
        self.set_kind = fixed.set_kind
        self.set_of = fixed.set_of
        self.stop_set = fixed.stop_set
        self.alive_set = fixed.alive_set
        self.used_start = fixed.used_start
        self.used = fixed.used
        self.allowed = np.zeros(len(fixed.set_start) - 1, np.uint8)
        self.data = fixed.data
        self.offsets = fixed.offsets
        self.account.most = limit  # the limit does not apply to the initial tables

    def count(self) -> cython.Py_ssize_t:
        """See `BaseStore`."""
        return self.configurations.count

    def known_mask(self, configuration: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """See `BaseStore`."""
        return self.configurations.rows[configuration].result

    # ---------------------------------------------------------------- reading text

    def start(self) -> int:
        """The configuration before any text."""
        return self.configurations.number(0, self.stacks.of(np.zeros(1, np.int64)))

    def read_text(self, configuration, text, begin, end):
        """The configuration after the bytes between two places, or `NOWHERE` if they are refused."""
        state: cython.Py_ssize_t = self.configurations.rows[configuration].first
        node: cython.Py_ssize_t = self.configurations.rows[configuration].second
        if configuration == NOWHERE:
            return NOWHERE
        i: cython.Py_ssize_t
        for i in range(begin, end):
            byte_class = self.class_of_byte[text[i]]
            emitted = self.emitted[state, byte_class]
            state = self.step[state, byte_class]
            if state < 0:
                return NOWHERE
            if emitted:
                node = self.read_sequence(node, emitted)
                if node == NOWHERE:
                    return NOWHERE
        # the lexer's state and the stack may be incompatible: check that some text can follow
        if not self.takes(self.reader.kinds_of(node), self.alive_set[state]):
            return NOWHERE
        return self.configurations.number(state, node)

    def read_sequence(self, node, sequence):
        """The stack after the terminals that the lexer returns, or `NOWHERE` if the parser refuses them."""
        for k in range(self.sequence_start[sequence], self.sequence_start[sequence + 1]):
            node = self.stacks.shifted(node, self.sequence[k])
            if node == NOWHERE:
                break
        return node

    def takes(self, kinds, number):
        """Whether two sets of kinds have a common kind: what a stack accepts, and what is asked for. Every
        stack accepts kinds below 0."""
        begin = self.reader.kinds.starts[kinds]
        for k in range(self.set_start[number], self.set_start[number + 1]):
            kind = self.set_kind[k]
            if kind < 0 or (self.reader.kinds.pool[begin + (kind >> 5)] >> (kind & 31)) & 1:
                return True
        return False

    def is_whole(self, configuration: cython.Py_ssize_t) -> bool:
        """Whether Lark accepts the text that leads to a configuration as complete.

        Raises:
            BudgetExceeded, IndexError: like `class_mask`, from which it is computed.
        """
        return self.class_mask(configuration) & 1 == 1

    def forced_byte(self, configuration: cython.Py_ssize_t) -> int:
        """The only byte that can come next, or `NO_BYTE` if there are several or none, or if the text may end
        here.

        Raises:
            BudgetExceeded, IndexError: as `advance`.
        """
        self.checked(configuration)
        with cython.nogil:
            found = self.only_byte(configuration)
        return found  # noqa: RET504 - an object that is read while the lock is held

    def only_byte(self, configuration):
        """See `forced_byte`. It tries all bytes."""
        found: cython.Py_ssize_t = NO_ONE_BYTE
        if self.mask_of(configuration) & 1 or configuration == NOWHERE:
            return NO_ONE_BYTE
        text = cython.declare(cython.uchar[1])
        for byte in range(256):
            if self.step[self.configurations.rows[configuration].first, self.class_of_byte[byte]] < 0:
                continue
            text[0] = cython.cast(cython.uchar, byte)
            if self.read_text(configuration, text, 0, 1) != NOWHERE:
                if found != NO_ONE_BYTE:
                    return NO_ONE_BYTE
                found = byte
        return found

    def stack(self, configuration: cython.Py_ssize_t) -> NDArray[np.int64]:
        """The parser's states in a configuration, from the bottom to the top, int64.

        Raises:
            IndexError: there is no such configuration.
        """
        return self.stacks.states(self.configurations.rows[self.checked(configuration)].second)

    def top_hash(self, configuration: cython.Py_ssize_t, depth: cython.Py_ssize_t) -> int:
        """A hash (30 bits) of the lexer's state and of the top states of the parser's stack, `depth` states
        in all. It depends only on states, so it is the same in every session of one grammar.

        Raises:
            IndexError: there is no such configuration.
        """
        found: cython.Py_ssize_t = mix(5, self.configurations.rows[self.checked(configuration)].first)
        node: cython.Py_ssize_t = self.configurations.rows[configuration].second
        for _ in range(depth - 1):
            if node == 0:
                break
            found = mix(found, self.stacks.nodes.rows[node].first)
            node = self.stacks.nodes.rows[node].second
        return found

    def migrate_from(self, other: Store, configuration: cython.Py_ssize_t) -> int:
        """The configuration in these tables that equals one of an earlier session.

        Args:
            other: the tables of that session, for the same grammar.
            configuration: a configuration of that session.

        Raises:
            BudgetExceeded: the tables are full.
            IndexError: there is no such configuration.
            ValueError: the tables are for another grammar.
        """
        if other.fixed is not self.fixed:
            raise ValueError("the configuration belongs to another grammar")
        if other.checked(configuration) == NOWHERE:
            return NOWHERE
        node: cython.Py_ssize_t = self.stacks.of(other.stack(configuration))
        return self.configurations.number(other.configurations.rows[configuration].first, node)

    # ---------------------------------------------------------------- masks

    def mask_of(self, configuration: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """See `class_mask`."""
        if self.configurations.rows[configuration].result < 0:
            kinds = self.reader.kinds_of(self.configurations.rows[configuration].second)
            found = self.decide(self.configurations.rows[configuration].first, kinds)
            self.configurations.rows[configuration].result = cython.cast(cython.int, found)
        return self.configurations.rows[configuration].result

    def decide(self, state, kinds):
        """The result of `class_mask` for a lexer state and the kinds that a stack accepts.

        Most classes of a lexer state ask for the same few sets, so each set is tested once.
        """
        row = self.decided.number(state, kinds)
        if self.decided.rows[row].result >= 0:
            return self.decided.rows[row].result
        for k in range(self.used_start[state], self.used_start[state + 1]):
            self.account.check()
            self.allowed[self.used[k]] = self.takes(kinds, self.used[k])
        n_classes: cython.Py_ssize_t = self.set_of.shape[1]
        n_words: cython.Py_ssize_t = max((n_classes + 31) >> 5, 1)
        at = self.masks.room(n_words)
        for w in range(n_words):
            word: cython.uint = 0
            for c in range(32 * w, min(32 * w + 32, n_classes)):
                # the cast is needed: a single byte would lose the bit when it is shifted
                bit = cython.cast(cython.uint, self.allowed[self.set_of[state, c]])
                word |= bit << (c & 31)
            self.masks.pool[at + w] = word
        mask = self.masks.intern(n_words)
        found = 2 * mask + (1 if self.takes(kinds, self.stop_set[state]) else 0)
        self.decided.rows[row].result = cython.cast(cython.int, found)
        return found
