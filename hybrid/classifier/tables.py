"""What a classifier has met: the tables that its kernels read and write, and their growth.

What: stacks (configurations, tails, frames), pending sets and their summaries, masks; all interned, so that
equal things have equal numbers and nothing is computed twice. A kernel that finds a table full says which;
`Store.call` makes room and calls again.
When: one `Store` per compiled grammar at a time; a new one takes over where the budget of bytes is used up.
Limits: not for concurrent use; `hybrid.classifier.classifier` holds a lock around every call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence import _kernels as exploring
from equivalence.arrays.uniting import unite_rows
from equivalence.deadline import Deadline, Stop
from equivalence.errors import BudgetExceeded
from equivalence.explore import Met
from equivalence.follow import follow_of
from equivalence.interning import _kernels as interning
from equivalence.network import Network
from equivalence.parser.automaton import Automaton
from equivalence.parser.byte_tables import ByteTables, byte_tables_of, call_ranks
from hybrid.classifier import _kernels

Integers = NDArray[np.int64]

PHASE = "the tables of the classifier"
"""What errors call the tables that do not change."""

UNIONS = 8192
"""Places for unions of two masks, 96 KiB: what a document unites again and again fits a processor's cache."""

LARGE_LIMIT = 1 << 25
"""Bytes from which on the tables of a complete automaton begin large: it was built to be used often, and to
double them in the middle of a document took a tenth of its steps and masks."""


class Fixed(NamedTuple):
    """What does not change while a classifier runs; the arrays are those of `_kernels.Tables`."""

    net: tuple[NDArray[Any], ...]
    class_of_byte: Integers
    example: Integers
    first: NDArray[np.uint8]
    alike: NDArray[np.uint8]
    rank: Integers
    behind: NDArray[np.uint8]
    trie: tuple[NDArray[Any], ...]
    longest: int
    n_groups: int
    n_pairs: int
    data: NDArray[np.uint8]
    offsets: Integers
    start: int
    start_final: bool

    @property
    def n_words(self) -> int:
        """Words of 32 bits of a mask of classes."""
        return max((self.n_groups + 31) // 32, 1)


def addresses(arrays: Iterable[NDArray[Any]]) -> Integers:
    """int64[arrays, 3]: (address, rows, columns or 0) of arrays, as `_kernels.view` reads them."""
    rows = []
    for array in arrays:
        assert array.flags.c_contiguous
        rows.append((array.ctypes.data, array.shape[0], array.shape[1] if array.ndim == 2 else 0))
    return np.array(rows, np.int64)


def fixed_tables(
    network: Network, representatives: Sequence[bytes], data: NDArray[np.uint8], offsets: Integers,
    deadline: Deadline | None = None, met: Met | None = None,
) -> Fixed:  # fmt: skip
    """What follows from the network, the distinct representatives in byte order, and the vocabulary.

    Args:
        met: what exploring this network found; ``None``: it is found again.

    Raises:
        BudgetExceeded: it is too late.
    """
    with (deadline or Deadline()).stopping(PHASE) as stop:
        return _fixed_tables(network, representatives, data, offsets, stop, met)


def _fixed_tables(
    network: Network, representatives: Sequence[bytes], data: NDArray[np.uint8], offsets: Integers,
    stop: Stop, met: Met | None,
) -> Fixed:  # fmt: skip
    net = tuple(np.ascontiguousarray(array) for array in network.automaton)
    counted = net[5].copy()
    counted[:, 3] = counted[:, 2]  # counts are kept over many tokens here, not within a single one
    net = (*net[:5], counted, *net[6:])
    automaton = Automaton(net)
    rank = call_ranks(automaton)
    # neither depends on how far counts go
    byte_tables = byte_tables_of(automaton, rank, stop) if met is None else met.byte_tables
    _, example, first, _ = byte_tables
    follow = follow_of(network, first, stop) if met is None else met.follow
    behind = np.zeros((network.n_states + len(net[5]), len(example)), np.uint8)
    contexts, unit = network.contexts[:, 0], network.contexts[:, 1]
    # below a state that is explored together with a counter frame, the next unit may begin too
    on_frame = unit >= 0
    follows = follow.contexts.copy()
    follows[on_frame] |= first[net[5][unit[on_frame], 0]]
    for symbols, rows in ((contexts, follows), (follow.symbols, follow.returns)):
        place = np.where(symbols >= 0, symbols, network.n_states - 1 - symbols)
        unite_rows(behind, place, rows)
    # a unit that begins again on its frame is on top of the stack then, though it is no context of the
    # network
    unite_rows(behind, np.ascontiguousarray(counted[:, 0]), first[counted[:, 0]] | behind[network.n_states :])
    return assembled(
        net, rank, byte_tables, behind, representatives, data, offsets, network.start, network.start_final
    )


def assembled(
    net: tuple[NDArray[Any], ...], rank: Integers, byte_tables: ByteTables, behind: NDArray[np.uint8],
    representatives: Sequence[bytes], data: NDArray[np.uint8], offsets: Integers, start: int,
    start_final: bool,
) -> Fixed:  # fmt: skip
    """The fixed tables from those of their parts that take a network to find (see `fixed_tables`)."""
    lengths = np.array([len(text) for text in representatives], np.int64)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    text = np.frombuffer(b"".join(representatives), np.uint8)
    longest = int(lengths.max(initial=0))
    # without `equivalence.trie.build_trie`, which also orders the suffixes (7 ms)
    nodes = exploring.build_trie(text, ends, longest)[:4]
    walked = tuple(np.array(array, np.int64) for array in (*nodes, *exploring.build_suffixes(text, ends)))
    return Fixed(
        net, *byte_tables, rank, behind, walked, longest, len(representatives),
        int((lengths * (lengths + 1) // 2).sum()) + 2, data, offsets, start, start_final,
    )  # fmt: skip


class Summaries(NamedTuple):
    """What is known of pending sets, whatever the stacks met: the automaton that reads stacks from the top.

    Attributes:
        first: int64[S, 2], per state on top (mask, pending set), -1 = not known yet.
        table: int64[n, 4], a hash table (pending set, symbol, mask, pending set below it), -1 = empty.
        pendings, masks, units: the interned sets and counter frames that these numbers name.
        complete: whether all is known that stacks can ask for, and pending sets that behave alike are one
            (`minimise`). Their members are those of one of them, so that nothing may be added any more.
    """

    first: Integers
    table: Integers
    pendings: Any
    masks: Any
    units: Any
    complete: bool = False

    @property
    def n_known(self) -> int:
        """Number of rows of the table that are used."""
        return int((self.table[:, 0] >= 0).sum())

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (self.first, self.table, *self.pendings, *self.masks, *self.units)
        return sum(int(array.nbytes) for array in arrays)


def no_summaries(fixed: Fixed) -> Summaries:
    """Tables in which nothing is known yet; number 0 is the empty set."""
    pendings: Any = interning.new_interned(512, 64)
    masks: Any = interning.new_interned(512, fixed.n_words)
    interning.intern(np.zeros(1, np.int64), 0, pendings)
    interning.intern(np.zeros(fixed.n_words, np.int64), fixed.n_words, masks)
    return Summaries(
        np.full((fixed.net[0].size, 2), -1, np.int64), np.full((4096, 4), -1, np.int64), pendings, masks,
        interning.new_interned(64, 2),
    )  # fmt: skip


def copied(known: Summaries) -> Summaries:
    """The same tables in memory of their own."""

    def interned(lists: Any) -> Any:
        return type(lists)(*(array.copy() for array in lists))

    return Summaries(
        known.first.copy(), known.table.copy(), interned(known.pendings), interned(known.masks),
        interned(known.units), known.complete,
    )  # fmt: skip


class Store:
    """The growing tables of one classifier.

    Args:
        fixed: what does not change.
        limit: bytes that all tables may take.
        known: summaries to begin with; they are changed.
        met: configurations of the same network; of no use here, they are of another kind.

    Attributes:
        nbytes: bytes of the tables that grow.
    """

    nbytes: int

    def __init__(self, fixed: Fixed, limit: int, known: Summaries, met: Any = None) -> None:
        self.fixed, self.limit = fixed, limit
        large = known.complete and limit >= LARGE_LIMIT
        self._frames, self._configs, reads = (8192, 4096, 16384) if large else (4096, 1024, 4096)
        if large:
            known = known._replace(masks=_roomier(known.masks, int(known.masks.counts[0]) + 2048))
        self.space: Any = exploring.new_space(
            fixed.net, fixed.class_of_byte, fixed.example, fixed.first, fixed.alike, fixed.rank,
            self._frames, self._configs,
        )  # fmt: skip
        self.known = known
        self.reads: Integers = np.full((reads, 3), -1, np.int64)
        self.config_mask: Integers = np.full(self._configs + 2, -1, np.int64)
        most = known.n_known if known.complete else 1 << 62
        self.counts: Integers = np.array([known.n_known, 0, fixed.longest, most], np.int64)
        self._pairs: Integers = np.empty(max(fixed.n_pairs, 2), np.int64)
        self._bits: Integers = np.zeros(fixed.n_words, np.int64)
        self._row: Integers = np.zeros(fixed.n_words, np.int64)
        self._levels: Integers = np.zeros((64, 4), np.int64)
        self._unions: NDArray[np.int32] = np.full((UNIONS, 3), -1, np.int32)
        self.table: Integers = self._flat()

    def _arrays(self) -> list[Any]:
        """All arrays, in the order of `_kernels.opened`."""
        space, fixed, known = self.space, self.fixed, self.known
        return [
            space.frames, space.frame_table, *space.tails, space.tail_facts, *space.configs, space.steps,
            space.facts, space.state, space.links, space.returning, space.ports, space.key, space.by_state,
            space.class_of_byte, space.classes, space.behaviour, *fixed.net, fixed.behind, *fixed.trie,
            known.first, *known.pendings, *known.masks, *known.units, known.table, self.reads,
            self.config_mask, self.counts,
            self._pairs, self._bits, self._row, self._levels, self._unions, fixed.data, fixed.offsets,
        ]  # fmt: skip

    def _flat(self) -> Integers:
        """The addresses of all arrays, told anew whenever one of them is another; and their bytes."""
        arrays = self._arrays()
        n = len(self.fixed.net) + 1 + len(self.fixed.trie)
        # counted here, as caches ask for it with each call and a sum over 40 arrays takes 20 us
        self.nbytes = sum(int(array.nbytes) for array in arrays[:22] + arrays[22 + n : -2])
        return addresses(arrays)

    def mask_words(self, mask: int) -> Integers:
        """The words of a mask of classes, by its number."""
        masks = self.known.masks
        words: Integers = masks.pool[masks.starts[mask] : masks.starts[mask + 1]]
        return words

    def call(self, kernel: Callable[..., Any], *arguments: Any) -> int:
        """What a kernel finds; where a table is full it is given room first.

        Raises:
            BudgetExceeded: as `grow`.
        """
        found = int(kernel(self.table, *arguments))
        while found < 0:
            self.grow(found)
            found = int(kernel(self.table, *arguments))
        return found

    def grow(self, status: int) -> None:
        """Make room where a kernel had none; where something is raised, all tables stay as they were.

        Raises:
            BudgetExceeded: the tables would need more than their limit of bytes; or (an error of ours, which
                must not become a wrong mask) they are complete, and are asked for more.
        """
        before = dict(vars(self))
        try:
            self._grow(status)
        except BaseException:
            # Ctrl-C or no memory; the addresses of arrays that are gone must not stay
            vars(self).update(before)
            raise

    def _grow(self, status: int) -> None:
        if status == _kernels.COMPLETE:
            raise BudgetExceeded("a stack asks for a summary that was not built, though all should be")
        if 2 * self.nbytes > self.limit:
            raise BudgetExceeded(
                f"the classifier's tables have {self.nbytes} bytes and need more, allowed are {self.limit}; "
                "raise the budget's bytes, or use strategy='representatives'"
            )
        if status == _kernels.SPACE_FULL:
            self._frames, self._configs = 2 * self._frames, 2 * self._configs
            self.space = exploring.grown_space(self.space, self._frames, self._configs)
            known = np.full(self._configs + 2, -1, np.int64)
            known[: self.config_mask.size] = self.config_mask
            self.config_mask = known
        elif status == _kernels.SUMMARIES_FULL:
            self.known = _larger(self.known)
        elif status == _kernels.READS_FULL:
            self.reads = _rehashed(self.reads)
        else:
            self._levels = np.zeros((2 * len(self._levels), 4), np.int64)
        self.table = self._flat()


def _larger(known: Summaries) -> Summaries:
    """The same tables, those more than half full with twice the room; all of them if none is."""
    lists = (known.pendings, known.masks, known.units)
    full = [max(one.counts[0] / one.starts.size, one.counts[1] / one.pool.size) > 0.5 for one in lists]
    table_full = 4 * known.n_known > len(known.table)
    none = not (any(full) or table_full)
    pendings, masks, units = (
        _roomier(one, 2 * (one.starts.size - 2)) if none or is_full else one
        for one, is_full in zip(lists, full, strict=True)
    )
    table = _rehashed(known.table) if none or table_full else known.table
    return Summaries(known.first, table, pendings, masks, units, known.complete)


def _roomier(lists: Any, capacity: int) -> Any:
    """Interned lists with room for so many of the same width."""
    width = -(-(lists.pool.size - 2) // (lists.starts.size - 2))
    return interning.grown_interned(lists, capacity, width)


def _rehashed(rows: Integers) -> Integers:
    return np.asarray(_kernels.rehashed(rows))
