"""Token classes as a value: what every way to find them returns.

What: the class of each id, and one representative per class.
When: made by `equivalence.classes` and `equivalence.byte_classes`, read by the strategies.
Limits: of one grammar over one vocabulary; classes of different grammars have nothing in common.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.runs.order import ClassRuns


class TokenClasses(NamedTuple):
    """Classes of a vocabulary under one grammar.

    Attributes:
        class_of_token: int32[V], class of each id; -1 = never allowed (special ids included).
        n_classes: number of classes, -1 not counted.
        representatives: int32[n_classes], for each class the id of its shortest token (lowest id among
            those). Stop ids that are also text, and ids that the grammar names, are alone in their class.
            Classes are numbered by first id.
        relation: "acceptance" or "displacement".
        seconds: wall time by phase: "network", "explore", "partition", or "automata", "strings".
        sizes: what was met on the way: states, contexts, configurations, items, or states, sets.
        method: how the classes were found: "explored", "byte strings", or "distinct strings" (one class
            per byte string, where nothing better was within bounds).
        trial: whether XGrammar's masks over such a grammar may contradict its `accept_token`, so that each
            representative has to be tried.
        cause: why the classes were not explored; empty if they were.
        runs: the same classes run by run of the vocabulary's byte order, where that says it all; ``None``
            otherwise, and once nobody needs them.
        space: what `equivalence.explore.Exploration` keeps for a classifier; ``None`` once nobody needs it.
    """

    class_of_token: NDArray[np.int32]
    n_classes: int
    representatives: NDArray[np.int32]
    relation: str
    seconds: dict[str, float]
    sizes: dict[str, int]
    method: str = "explored"
    trial: bool = False
    cause: str = ""
    runs: ClassRuns | None = None
    space: Any = None

    def settled(self) -> TokenClasses:
        """The same without what only compiling needs."""
        return self._replace(runs=None, space=None)

    def members(self, class_id: int) -> NDArray[np.int32]:
        """The ids of one class, ascending; ``-1`` gives the ids that are never allowed."""
        return np.flatnonzero(self.class_of_token == class_id).astype(np.int32)
