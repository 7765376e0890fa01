"""The tables of a Lark grammar's classifier: what follows from the grammar, and what its texts have met.

What: `Fixed` are the arrays of lexer, parser, stack automaton and classes as kernels read them; a `Store`
adds stacks, configurations, what was read of stacks, and masks, all interned, and grows them.
When: one `Fixed` per compiled grammar, one `Store` at a time; a new one takes over where the budget is used
up.
Limits: not for concurrent use; the classifier holds a lock around every call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.errors import BudgetExceeded
from equivalence.factored import FactoredClasses
from equivalence.interning import _kernels as interning
from equivalence.lalr import LalrMachine
from equivalence.lexing import LexerMachine
from hybrid.classifier._kernels import rehashed
from hybrid.lark import _kernels

Integers = NDArray[np.int64]


class Fixed(NamedTuple):
    """What does not change while a classifier runs: arrays of `_kernels.Tables`, in its order."""

    class_of_byte: NDArray[np.uint8]
    step: NDArray[np.int32]
    emitted: NDArray[np.int32]
    sequence: NDArray[np.int32]
    sequence_start: Integers
    action: NDArray[np.int32]
    goto: NDArray[np.int32]
    rule_length: NDArray[np.int32]
    rule_origin: NDArray[np.int32]
    top_start: Integers
    top_kind: NDArray[np.int32]
    top_outcome: Integers
    place: NDArray[np.int32]
    color_list: NDArray[np.int32]
    color_start: Integers
    color_outcome: Integers
    set_start: Integers
    set_kind: NDArray[np.int32]
    set_of: NDArray[np.int32]
    stop_set: NDArray[np.int32]
    alive_set: NDArray[np.int32]
    used_start: Integers
    used: NDArray[np.int32]
    data: NDArray[np.uint8]
    offsets: Integers

    @property
    def n_kinds(self) -> int:
        """Number of kinds of terminal sequences."""
        return int(self.top_kind.max(initial=0)) + 1

    @property
    def n_classes(self) -> int:
        """Number of token classes."""
        return int(self.set_of.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays but the vocabulary's."""
        return sum(int(array.nbytes) for array in self[:-2])


def fixed_tables(
    lexer: LexerMachine,
    machine: LalrMachine,
    classes: FactoredClasses,
    data: NDArray[np.uint8],
    offsets: Integers,
) -> Fixed:
    """The arrays of a grammar, and of the vocabulary's bytes."""
    columns, class_of_byte = np.unique(
        np.concatenate([lexer.step, lexer.emitted]), axis=1, return_inverse=True
    )
    n_states = len(lexer.step)
    step, emitted = columns[:n_states], columns[n_states:]
    lengths = np.array([len(sequence) for sequence in lexer.sequences], np.int64)
    sequence = np.array([terminal for sequence in lexer.sequences for terminal in sequence], np.int32)
    automaton = classes.automaton
    number = np.cumsum(np.diff(automaton.cell_start) > 0) - 1  # a kind without cells is in no set
    kind_of_cell = np.repeat(number, np.diff(automaton.cell_start))
    set_kind = classes.sets.terminals.copy()
    set_kind[set_kind >= 0] = number[set_kind[set_kind >= 0]]
    order = np.lexsort((kind_of_cell, automaton.cells[:, 0]))
    tops = np.searchsorted(automaton.cells[order, 0], np.arange(machine.n_states + 1))
    place = places_of(automaton.list_start, automaton.list_state, machine.n_states)
    return Fixed(
        class_of_byte.astype(np.uint8).ravel(), _compact(step), _compact(emitted), sequence, _starts(lengths),
        machine.action, machine.goto, machine.rule_length, machine.rule_origin, tops.astype(np.int64),
        kind_of_cell[order].astype(np.int32), automaton.cells[order, 1].copy(), place, automaton.color_list,
        automaton.color_start, automaton.color_outcome, classes.sets.start, set_kind,
        _compact(classes.set_of), classes.stop_set, classes.alive_set,
        *used_sets(classes.set_of),
        data, offsets,
    )  # fmt: skip


def places_of(list_start: Integers, list_state: NDArray[np.int32], n_states: int) -> NDArray[np.int32]:
    """int32[lists, S], the place of each state in each sorted list, -1 where it is not in it."""
    place = np.full((len(list_start) - 1, n_states), -1, np.int32)
    of_cell = np.repeat(np.arange(len(place)), np.diff(list_start))
    place[of_cell, list_state] = np.arange(len(of_cell)) - list_start[:-1][of_cell]
    return place


def used_sets(set_of: NDArray[np.int32]) -> tuple[Integers, NDArray[np.int32]]:
    """The distinct sets of each row: where those of each begin, and the sets."""
    used = [np.unique(row) for row in set_of]
    lengths = np.array([len(row) for row in used], np.int64)
    return _starts(lengths), np.concatenate([np.empty(0, np.int32), *used]).astype(np.int32)


def _compact(array: NDArray[Any]) -> NDArray[np.int32]:
    return np.ascontiguousarray(array, np.int32)


def _starts(lengths: Integers) -> Integers:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]).astype(np.int64)


class Store:
    """The growing tables of one classifier.

    Args:
        fixed: what does not change.
        limit: bytes that all growing tables may take.
    """

    def __init__(self, fixed: Fixed, limit: int) -> None:
        self.fixed, self.limit = fixed, limit
        n_words = max((fixed.n_kinds + 31) // 32, 1)
        mask_words = max((fixed.n_classes + 31) // 32, 1)
        n_sets = len(fixed.set_start) - 1
        self.nodes: Integers = np.full((1024, 2), -1, np.int64)
        self.node_table: NDArray[np.int32] = np.full(2048, -1, np.int32)
        self.node_out: Integers = np.full(1024, -1, np.int64)
        self.configs: Integers = np.full((1024, 2), -1, np.int64)
        self.config_table: NDArray[np.int32] = np.full(2048, -1, np.int32)
        self.tops: Integers = np.full((len(fixed.action), 2), -1, np.int64)
        self.frontiers: Any = interning.new_interned(512, 64)
        self.skip: Integers = np.zeros(512, np.int64)
        self.reads: Integers = np.full((4096, 4), -1, np.int64)
        self.kinds: Any = interning.new_interned(512, n_words)
        self.masks: Any = interning.new_interned(512, mask_words)
        self.pairs: Integers = np.full((2048, 3), -1, np.int64)
        self.counts: Integers = np.array([1, 1, 0, 0], np.int64)
        self.nodes[0] = 0  # below the bottom is the same again
        self._scratch = (
            np.zeros(fixed.n_kinds + mask_words + 4, np.int64), np.zeros(n_words, np.int64),
            np.zeros(n_words, np.int64), np.zeros(n_sets, np.uint8),
        )  # fmt: skip
        interning.intern(np.zeros(1, np.int64), 0, self.frontiers)
        interning.intern(np.zeros(n_words, np.int64), n_words, self.kinds)
        interning.intern(np.zeros(mask_words, np.int64), mask_words, self.masks)
        self.table: Integers = self._flat()
        self.start = self.call(_kernels.start_of)

    def _growing(self) -> list[Any]:
        """The arrays that grow, in the order of `_kernels.opened`."""
        return [
            self.nodes, self.node_table, self.node_out, self.configs, self.config_table, self.tops,
            *self.frontiers, self.skip, self.reads, *self.kinds, *self.masks, self.pairs, self.counts,
        ]  # fmt: skip

    def _flat(self) -> Integers:
        rows = []
        for array in (*self.fixed, *self._growing(), *self._scratch):
            assert array.flags.c_contiguous
            rows.append((array.ctypes.data, array.shape[0], array.shape[1] if array.ndim == 2 else 0))
        return np.array(rows, np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes of the tables that grow."""
        return sum(int(array.nbytes) for array in self._growing())

    # what classifiers and matchers ask, as `hybrid.classifier.store.Store` answers it

    def advance(self, configuration: int, token: int) -> int:
        """The configuration after a token, 0 if it is not accepted."""
        return self.call(_kernels.advance, configuration, token)

    def advance_text(self, configuration: int, text: bytes) -> int:
        """The configuration after some bytes, 0 if they are not accepted."""
        return self.call(_kernels.advance_text, configuration, np.frombuffer(text, np.uint8))

    def advances(self, configurations: Integers, tokens: Integers, found: Integers) -> None:
        """Write `advance` of each configuration by its token."""
        self.call(_kernels.advances, configurations, tokens, found)

    def forced_byte(self, configuration: int) -> int:
        """The only byte that can come next, or `NO_BYTE`."""
        return self.call(_kernels.forced_byte, configuration)

    def is_whole(self, configuration: int) -> bool:
        """Whether Lark takes the text read so far as it is."""
        return bool(self.class_mask(configuration) & 1)

    def class_mask(self, configuration: int) -> int:
        """Twice the number of the mask of classes that may come next, plus one if the text may end here."""
        return self.call(_kernels.class_mask, configuration)

    def class_masks(self, configurations: Integers, found: Integers) -> None:
        """Write `class_mask` of each configuration."""
        self.call(_kernels.class_masks, configurations, found)

    def mask_words(self, mask: int) -> NDArray[np.uint32]:
        """The words of a mask of classes, by its number."""
        words: Integers = self.masks.pool[self.masks.starts[mask] : self.masks.starts[mask + 1]]
        return words.astype(np.uint32)

    def bring(self, other: Store, configuration: int) -> int:
        """The configuration that is in these tables what one is in an earlier session's."""
        state, node = other.configs[configuration].tolist()
        states = []
        while node:
            below = int(other.nodes[node, 1])
            states.append(int(other.nodes[node, 0]))
            node = below
        return self.call(_kernels.put_config, state, np.array(states[::-1], np.int64))

    def depth_read(self, configuration: int) -> int:
        """Stack symbols read for the mask of a configuration."""
        return self.call(_kernels.depth_read, configuration)

    def call(self, kernel: Callable[..., Any], *arguments: Any) -> int:
        """What a kernel finds; where a table is full it is given room first.

        Raises:
            BudgetExceeded: the tables would need more than their limit of bytes.
        """
        found = int(kernel(self.table, *arguments))
        while found < 0:
            self.grow()
            found = int(kernel(self.table, *arguments))
        return found

    def grow(self, every: bool = False) -> None:
        """Twice the room in every table that is nearly full, or in `every` one (to compile its kernels
        ahead); where something is raised, all tables stay as they were.

        Raises:
            BudgetExceeded: as `call`.
        """
        before = dict(vars(self))
        try:
            self._grow(every)
        except BaseException:
            # Ctrl-C or no memory; the addresses of arrays that are gone must not stay
            vars(self).update(before)
            raise

    def _grow(self, every: bool) -> None:
        if 2 * self.nbytes > self.limit:
            raise BudgetExceeded(
                f"the classifier's tables have {self.nbytes} bytes and need more, allowed are {self.limit}; "
                "raise the budget's table_bytes"
            )
        nodes, configs, reads, pairs = self.counts.tolist()
        if every or 4 * nodes > 3 * len(self.nodes):
            self.nodes, self.node_table = _doubled(self.nodes), _rehashed(self.nodes, nodes)
            longer = np.full(len(self.nodes), -1, np.int64)
            longer[: len(self.node_out)] = self.node_out
            self.node_out = longer
        if every or 4 * configs > 3 * len(self.configs):
            self.configs, self.config_table = _doubled(self.configs), _rehashed(self.configs, configs)
        if every or 8 * reads > 3 * len(self.reads):
            self.reads = rehashed(self.reads)
        if every or 8 * pairs > 3 * len(self.pairs):
            self.pairs = rehashed(self.pairs)
        for name in ("frontiers", "kinds", "masks"):
            lists = getattr(self, name)
            number, cells = lists.counts.tolist()
            capacity, room = lists.starts.size - 2, lists.pool.size
            widest = self.fixed.n_kinds + len(self._scratch[0])
            if every or 4 * number > 3 * capacity or cells + widest > room:
                larger = 2 * capacity if 4 * number > 3 * capacity else capacity
                setattr(self, name, interning.grown_interned(lists, larger, 2 * room // larger + 1))
        self.skip = np.concatenate(
            [self.skip, np.zeros(max(self.frontiers.starts.size - len(self.skip), 0), np.int64)]
        )
        self.table = self._flat()


def _doubled(rows: Integers) -> Integers:
    return np.concatenate([rows, np.full(rows.shape, -1, np.int64)])


def _rehashed(rows: Integers, count: int) -> NDArray[np.int32]:
    return np.asarray(_kernels.rehashed(rows, count, 4 * len(rows)))
