"""The result of computing token classes.

What: the class of each id, and one representative for each class.
When: made by `equivalence.classes.classes`, used by the strategies.
Limits: for one grammar and one vocabulary. Classes of different grammars are unrelated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from equivalence import forks
from equivalence.runs.order import ByteOrder, ClassRuns, tokens_of


@forks.with_unlocked_properties
@dataclass(frozen=True, eq=False)
class TokenClasses:
    """The token classes of a grammar for a vocabulary.

    Attributes:
        given: int32[V], the class of each id, if it was computed as an array. ``None`` if `runs` has the
            classes; then the array is only made when it is needed (0.5 ms).
        n_classes: number of classes, without -1.
        representatives: int32[n_classes], the id of the shortest token of each class (the lowest such id).
            Stop ids with text, and ids that the grammar names, are alone in their classes. Classes are
            numbered by their first ids.
        relation: "acceptance" or "displacement".
        seconds: wall time by phase: "network", "explore" and "partition".
        sizes: numbers of states, contexts, configurations and items.
        runs: the classes as runs of the vocabulary's byte order, if that is possible; else ``None``.
        order: that byte order, which belongs to the vocabulary; ``None`` without runs.
    """

    given: NDArray[np.int32] | None
    n_classes: int
    representatives: NDArray[np.int32]
    relation: str
    seconds: dict[str, float]
    sizes: dict[str, int]
    runs: ClassRuns | None = None
    order: ByteOrder | None = None

    @cached_property
    def class_of_token(self) -> NDArray[np.int32]:
        """int32[V]: the class of each id; -1 for ids that are never allowed, including special ids."""
        if self.given is not None:
            return self.given
        assert self.runs is not None and self.order is not None
        return tokens_of(self.runs, self.order)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, without the vocabulary's order."""
        runs = () if self.runs is None else self.runs
        held = (self.__dict__.get("class_of_token", self.given), self.representatives, *runs)
        return sum(array.nbytes for array in held if array is not None)

    def members(self, class_id: int) -> NDArray[np.int32]:
        """The ids of a class, ascending. ``-1`` gives the ids that are never allowed."""
        return np.flatnonzero(self.class_of_token == class_id).astype(np.int32)
