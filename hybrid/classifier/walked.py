"""What does not change while masks are walked: the automata, what may follow, and the vocabulary's trie.

What: `walked_tables` makes a `Walked` from a network and a vocabulary, as `hybrid.classifier.tables` makes a
`Fixed` from a network and representatives. Nothing in it takes longer for a larger vocabulary.
When: once per grammar whose first masks are walked.
Limits: nothing is validated: networks and tries are where they are made or read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence import Vocabulary
from equivalence.deadline import Deadline
from equivalence.network import Network
from equivalence.parser.absorbing import absorbing_states
from equivalence.parser.automaton import Automaton
from equivalence.parser.byte_tables import ByteTables
from equivalence.walks.kept import KeptReads
from hybrid.classifier.tables import PHASE, tables_of_network
from hybrid.classifier.walking import MOST_PIECES, Walker

Integers = NDArray[np.int64]


class Walked(NamedTuple):
    """What does not change. Names that `hybrid.classifier.tables.Fixed` has mean the same.

    Attributes:
        nodes, height: of the vocabulary's trie (`equivalence.trie.Trie`).
        token_starts, tokens: the ids of each group (`equivalence.runs.ByteOrder`).
        kept: what other grammars read of the vocabulary.
    """

    net: tuple[NDArray[Any], ...]
    byte_tables: ByteTables
    rank: Integers
    absorbing: NDArray[np.uint8]
    behind: NDArray[np.uint8]
    nodes: NDArray[np.int32]
    height: NDArray[np.int32]
    token_starts: Integers
    tokens: NDArray[np.int32]
    kept: KeptReads
    longest: int
    data: NDArray[np.uint8]
    offsets: Integers
    start: int
    start_final: bool

    @property
    def n_words(self) -> int:
        """Words of 32 bits of a mask of pieces."""
        return MOST_PIECES // 32

    def summariser(self, space: Any, known: Any) -> Any:
        """What walks the vocabulary, a `Walker`."""
        return Walker(space, known, self)


def walked_tables(network: Network, vocabulary: Vocabulary, deadline: Deadline | None = None) -> Walked:
    """The fixed tables of a grammar whose masks are walked.

    Raises:
        BudgetExceeded: it is too late.
    """
    with (deadline or Deadline()).stopping(PHASE) as stop:
        net, rank, byte_tables, behind = tables_of_network(network, stop)
    trie, order = vocabulary.trie, vocabulary.byte_order
    return Walked(
        net, byte_tables, rank, absorbing_states(Automaton(net)), behind, trie.nodes, trie.height,
        order.token_starts, order.tokens, vocabulary.kept_reads, trie.longest, *vocabulary.flat,
        network.start, network.start_final,
    )  # fmt: skip
