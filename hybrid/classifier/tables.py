"""The constant data of a classifier: the automata, the representatives, and what may follow.

What: `fixed_tables` makes a `Fixed` from a network and the distinct representatives; `assembled` makes one
from parts that exist already. `parser_tables` makes the part that every parser of a network needs.
When: once for each compiled grammar; the `hybrid.classifier.store.Store` of each session reads it.
Limits: nothing is checked here: networks and artefacts are checked when they are made or read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.deadline import Deadline, Stop
from equivalence.network import Network
from equivalence.parser.absorption import absorbing_states
from equivalence.parser.automaton import Automaton
from equivalence.parser.byte_tables import ByteTables, call_ranks
from equivalence.trie.nodes import nodes_of
from equivalence.trie.trie import side_by_side
from equivalence.walks.follow_sets import follow_sets_of
from equivalence.walks.token_texts import TokenTexts
from hybrid.classifier.walker import Walker

Integers = NDArray[np.int64]

PHASE = "the tables of the classifier"
"""The name of the constant data in errors."""


class ParserTables(NamedTuple):
    """The first arguments of an `equivalence.parser.space.Space`, which says what they are.

    Attributes:
        automaton: the automata of a network with S states; the text's length bounds counts.
        byte_tables: the classes of bytes.
        rank: int64[S].
        absorbing: uint8[S].
    """

    automaton: Automaton
    byte_tables: ByteTables
    rank: Integers
    absorbing: NDArray[np.uint8]

    @property
    def net(self) -> tuple[NDArray[Any], ...]:
        """The arrays of the automata."""
        arrays: tuple[NDArray[Any], ...] = self.automaton.arrays
        return arrays


class Fixed(NamedTuple):
    """Constant data. S states, U counted rules, B classes of bytes.

    Attributes:
        parser: the automata and what follows from them.
        follow_sets: uint8[S + U, B]: classes of bytes that can follow after a symbol was popped.
        texts: the trie of the representatives, one for each class of tokens, and the bytes of each token id.
        n_classes: number of classes of tokens.
        start, start_final: the start of the grammar, -1 if there is none; whether the empty text is complete.
    """

    parser: ParserTables
    follow_sets: NDArray[np.uint8]
    texts: TokenTexts
    n_classes: int
    start: int
    start_final: bool

    @property
    def nbytes(self) -> int:
        """Bytes of what is not shared or small."""
        return int(self.parser.byte_tables.nbytes)

    @property
    def n_words(self) -> int:
        """Words of a mask of classes."""
        return max((self.n_classes + 31) // 32, 1)

    def walker(self, space: Any, summaries: Any) -> Any:
        """A `Walker`, which reads the representatives."""
        return Walker(space, summaries, self.texts, self.follow_sets)


def fixed_tables(
    network: Network, representatives: Sequence[bytes], data: NDArray[np.uint8], offsets: Integers,
    deadline: Deadline | None = None,
) -> Fixed:  # fmt: skip
    """Make the constant data from the network, the distinct representatives in byte order, and the
    vocabulary.

    Raises:
        BudgetExceeded: the deadline has passed.
    """
    with (deadline or Deadline()).stopping(PHASE) as stop:
        parser = parser_tables(network, stop)
        follow_sets = follow_sets_of(network, parser.byte_tables.first, stop)
    return assembled(parser, follow_sets, representatives, data, offsets, network.start, network.start_final)


def parser_tables(network: Network, stop: Stop) -> ParserTables:
    """Make the tables of a network's parser.

    Raises:
        BudgetExceeded: the computation was stopped.
    """
    net = network.automaton
    if len(net[5]):
        counted = net[5].copy()
        counted[:, 3] = counted[:, 2]  # here counts live over many tokens, not only within one
        net = (*net[:5], counted, *net[6:])
    automaton = Automaton(net)
    rank = call_ranks(automaton)
    return ParserTables(automaton, ByteTables(automaton, rank, stop), rank, absorbing_states(automaton))


def assembled(
    parser: ParserTables, follow_sets: NDArray[np.uint8], representatives: Sequence[bytes],
    data: NDArray[np.uint8], offsets: Integers, start: int, start_final: bool,
) -> Fixed:  # fmt: skip
    """Make the constant data from the parts whose computation needs a network (see `fixed_tables`)."""
    text, ends = side_by_side(representatives)
    # not with `equivalence.trie.trie.build_trie`, which also sorts the suffixes (7 ms)
    nodes = nodes_of(text, ends)
    texts = TokenTexts(nodes, int(np.diff(ends).max(initial=0)), (data, offsets))
    return Fixed(parser, follow_sets, texts, len(representatives), start, start_final)
