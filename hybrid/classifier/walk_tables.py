"""The constant tables of walks: the automata, what may follow, and the vocabulary's trie.

What: `walk_tables` makes `WalkTables` from a network and a vocabulary, as `hybrid.classifier.tables` makes
`Fixed` from a network and representatives. The time does not depend on the size of the vocabulary.
When: once for each grammar whose first masks are walked.
Limits: it validates nothing. Networks and tries are validated where they are made or read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence import BudgetExceeded, UnsupportedGrammar, Vocabulary
from equivalence.deadline import Deadline
from equivalence.network import Network
from equivalence.walks.follow_sets import follow_sets_of
from equivalence.walks.token_texts import TokenTexts
from equivalence.walks.walk_cache import WalkCache
from hybrid.classifier.delta_walker import DeltaWalker
from hybrid.classifier.tables import PHASE, ParserTables, parser_tables
from hybrid.classifier.vocabulary_walker import FEW_PIECES, MOST_PIECES

FOLLOW_SETS_SECONDS = 0.25
"""Budget for computing what may follow, in the middle of a mask. The median JSON schema takes 0.05 ms."""


class WalkTables(NamedTuple):
    """Constant data. Fields with the names of `hybrid.classifier.tables.Fixed` mean the same.

    Attributes:
        network: the network from which all of this is made.
        texts: the vocabulary's trie and bytes.
        walk_cache: the cached walks of other grammars over the vocabulary.
    """

    parser: ParserTables
    network: Network
    texts: TokenTexts
    walk_cache: WalkCache
    start: int
    start_final: bool

    @property
    def nbytes(self) -> int:
        """As in `Fixed`."""
        return int(self.parser.byte_tables.nbytes)

    @property
    def n_words(self) -> int:
        """Words of 32 bits of a mask of pieces."""
        return (FEW_PIECES if self.network.n_states <= FEW_PIECES else MOST_PIECES) // 32

    def follow_sets(self) -> NDArray[np.uint8]:
        """As in `Fixed`, computed on first use. If that takes too long, or is impossible, any byte counts as
        one that may follow. Then walks enter more nodes, and find the same masks."""
        try:
            with Deadline(FOLLOW_SETS_SECONDS).stopping(PHASE) as stop:
                return follow_sets_of(self.network, self.parser.byte_tables.first, stop)
        except (BudgetExceeded, UnsupportedGrammar):
            n_symbols = self.network.n_states + len(self.parser.net[5])
            return np.ones((n_symbols, self.parser.byte_tables.n_classes), np.uint8)

    def walker(self, space: Any, summaries: Any) -> Any:
        """A `hybrid.classifier.vocabulary_walker.VocabularyWalker`."""
        return DeltaWalker(space, summaries, self)


def walk_tables(network: Network, vocabulary: Vocabulary, deadline: Deadline | None = None) -> WalkTables:
    """The constant data of a grammar whose masks come from walks.

    Raises:
        BudgetExceeded: the deadline has passed.
    """
    with (deadline or Deadline()).stopping(PHASE) as stop:
        parser = parser_tables(network, stop)
    return WalkTables(
        parser, network, vocabulary.token_texts, vocabulary.walk_cache, network.start, network.start_final
    )
