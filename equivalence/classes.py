"""Token classes: the partition of a vocabulary that a grammar cannot look behind.

What: `compute_classes` gives every token id a class such that equivalent tokens have equal bits in every
mask of the grammar (relation "acceptance"), or also leave the same stacks behind ("displacement").
When: once per grammar and vocabulary; a few milliseconds to a few tenths of a second.
Limits: byte-level grammars (`UnsupportedGrammar` otherwise); bounded by `Capacity` (`BudgetExceeded`).
"""

from __future__ import annotations

import time
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from equivalence import _kernels
from equivalence.errors import HybridError
from equivalence.explore import Capacity, explore
from equivalence.network import build_network
from equivalence.partition import partition
from equivalence.vocabulary import Vocabulary

Relation = Literal["acceptance", "displacement"]


class TokenClasses(NamedTuple):
    """Classes of a vocabulary under one grammar.

    Attributes:
        class_of_token: int32[V], class of each id; -1 = never allowed as text (special ids included).
        n_classes: number of classes, -1 not counted.
        representatives: int32[n_classes], for each class the id of its shortest token (lowest id among
            those). Stop ids that are also text are alone in their class. Classes are numbered by first id.
        relation: "acceptance" or "displacement".
        seconds: wall time by phase: "network", "explore", "partition".
        sizes: what was met on the way: states, contexts, configurations, items.
    """

    class_of_token: NDArray[np.int32]
    n_classes: int
    representatives: NDArray[np.int32]
    relation: str
    seconds: dict[str, float]
    sizes: dict[str, int]

    def members(self, class_id: int) -> NDArray[np.int32]:
        """The ids of one class, ascending; ``-1`` gives the ids that are never allowed."""
        return np.flatnonzero(self.class_of_token == class_id).astype(np.int32)


def compute_classes(
    grammar: Any,
    vocabulary: Vocabulary,
    relation: Relation = "acceptance",
    *,
    capacity: Capacity = Capacity(),
    max_states: int = 200_000,
) -> TokenClasses:
    """The token classes of a grammar over a vocabulary.

    Args:
        grammar: an `xgrammar.Grammar`, or its serialised form parsed by `json.loads`.
        vocabulary: token bytes; its trie is built on first use.
        relation: "acceptance": equal bits in every mask, enough where the engine is advanced with the
            token's own bytes. "displacement": also the same stacks afterwards, so that an engine may be
            advanced with the representative (CFGzip's relation); more classes, slower.
        capacity: bounds of the exploration.
        max_states: bound on the states of the grammar network.

    Raises:
        UnsupportedGrammar: a construct that classes cannot be kept exact for, by name.
        BudgetExceeded: a bound was met.
        HybridError: an unknown relation.
    """
    if relation not in get_args(Relation):
        raise HybridError(f"relation is {relation!r}, allowed are {', '.join(get_args(Relation))}")
    displacement = relation == "displacement"
    trie = vocabulary.trie
    began = time.perf_counter()
    # displacement needs every count: no bound of a repeat is out of a token's reach
    token_bytes = 1 << 40 if displacement else trie.longest
    network = build_network(grammar, token_bytes=token_bytes, max_states=max_states)
    built = time.perf_counter()
    exploration = explore(network, trie, displacement=displacement, capacity=capacity)
    explored = time.perf_counter()
    class_of_group = partition(exploration, network, trie)
    # a stop id that is also text has a life of its own in every mask: it gets a class of its own
    alone = np.array(vocabulary.stop_token_ids, np.int64)
    class_of_token, representatives = _kernels.number_classes(
        class_of_group, trie.group_of_token, vocabulary.token_lengths, alone,
        int(class_of_group.max(initial=-1)) + 1,
    )  # fmt: skip
    done = time.perf_counter()
    seconds = {"network": built - began, "explore": explored - built, "partition": done - explored}
    sizes = {
        "states": network.n_states,
        "contexts": len(network.contexts),
        "configurations": exploration.n_configurations,
        "items": exploration.n_items,
        "outcomes": exploration.n_outcomes,
    }
    return TokenClasses(class_of_token, len(representatives), representatives, relation, seconds, sizes)
