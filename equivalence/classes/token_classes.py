"""Token classes as a value: what every way to find them returns.

What: the class of each id, and one representative per class.
When: made by `equivalence.classes.classes` and `equivalence.classes.byte_strings.classes`, read by the
strategies.
Limits: of one grammar over one vocabulary; classes of different grammars have nothing in common.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equivalence import forking
from equivalence.runs.order import ByteOrder, ClassRuns, tokens_of


@forking.with_listed_properties
@dataclass(frozen=True, eq=False)
class TokenClasses:
    """Classes of a vocabulary under one grammar.

    Attributes:
        given: int32[V], class of each id, where it was found as an array; ``None`` where `runs` tell it, as
            for a schema that serves a few documents nobody asks (0.5 ms, and as much memory as its masks).
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
        trial_after: ids that are read as text too, after which that is so in any case.
        cause: why the classes were not explored; empty if they were.
        runs: the same classes run by run of the vocabulary's byte order, where that says it all; ``None``
            otherwise.
        order: that byte order, which the vocabulary has anyway; ``None`` without runs.
        met: what `equivalence.classes.explore` found that a classifier begins with; ``None`` once nobody
            needs it.
    """

    given: NDArray[np.int32] | None
    n_classes: int
    representatives: NDArray[np.int32]
    relation: str
    seconds: dict[str, float]
    sizes: dict[str, int]
    method: str = "explored"
    trial: bool = False
    trial_after: frozenset[int] = frozenset()
    cause: str = ""
    runs: ClassRuns | None = None
    order: ByteOrder | None = None
    met: Any = None

    @cached_property
    def class_of_token(self) -> NDArray[np.int32]:
        """int32[V], class of each id; -1 = never allowed (special ids included)."""
        if self.given is not None:
            return self.given
        assert self.runs is not None and self.order is not None
        return tokens_of(self.runs, self.order)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that are held now, the vocabulary's order left out."""
        runs = () if self.runs is None else self.runs
        held = (self.__dict__.get("class_of_token", self.given), self.representatives, *runs)
        return sum(array.nbytes for array in held if array is not None)

    def settled(self) -> TokenClasses:
        """The same without what only compiling needs."""
        return replace(self, met=None)

    def members(self, class_id: int) -> NDArray[np.int32]:
        """The ids of one class, ascending; ``-1`` gives the ids that are never allowed."""
        return np.flatnonzero(self.class_of_token == class_id).astype(np.int32)
