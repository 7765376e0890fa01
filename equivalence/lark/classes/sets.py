# cython: language_level=3
# mypy: ignore-errors
"""Sets of kinds of which the stack must accept one: they decide where a token is allowed.

What: stacks accept the texts of a pair according to their kinds. `Sets` drops kinds that are redundant,
given what is known of the top of the stack, and numbers the sets that are left.
When: last, in `equivalence.lark.classes.classes`, after the kinds of all texts are known.
Limits: kinds are only compared in pairs: a kind that several others cover together stays in the set.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.arrays.sorting import insert_sorted
from cython.cimports.equivalence.lark.lalr.outcomes import ALWAYS, PASS
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

check_source(__name__)


@cython.final
@cython.cclass
class Sets:
    """Sorted lists of kinds and their numbers; set 0 is empty, set 1 is [`ALWAYS`].

    Args:
        tops: bool[groups, S], what may be known of the stack: the states that may be on its top.
        alike: int32[groups, kinds], the behaviour of each kind on these tops: the first kind that is equal
            there, -1 if all of them refuse it, `ALWAYS` if all accept it.
        cell_start: int64[kinds + 1], where the cells of a kind begin.
        cells: int64[cells, 2], (state on top, outcome), by kind and state.
        account: says when to stop.
    """

    def __init__(
        self,
        tops: NDArray[np.bool_],
        alike: NDArray[np.int32],
        cell_start: NDArray[np.int64],
        cells: NDArray[np.int64],
        account: Account,
    ) -> None:
        self.tops = np.ascontiguousarray(tops).view(np.uint8)
        self.alike = alike
        self.cell_start, self.cells = cell_start, cells
        self.account = account
        self.kind_sets = Interned(4096, 8)
        self.kind_sets.add(np.zeros(0, np.int64))
        self.kind_sets.add(np.array([ALWAYS], np.int64))

    def number(
        self,
        kinds: cython.const[cython.int][::1],
        pair_start: cython.const[cython.Py_ssize_t][::1],
        group_of: cython.const[cython.int][::1],
    ) -> NDArray[np.int32]:
        """The numbers of the sets of pairs, without redundant kinds.

        Args:
            kinds: int32, one for each text: -1 if no stack accepts it, `ALWAYS` if every stack does.
            pair_start: int64[pairs + 1], the first text of each pair.
            group_of: int32[pairs], what is known of the stack.

        Returns:
            int32[pairs].

        Raises:
            BudgetExceeded, KeyboardInterrupt: told to stop.
        """
        n: cython.Py_ssize_t = group_of.shape[0]
        found = np.empty(n, np.int32)
        numbers: cython.int[::1] = found
        with cython.nogil:
            for pair in range(n):
                self.account.check()
                group = cython.cast(cython.Py_ssize_t, group_of[pair])
                begin = self.kind_sets.room(pair_start[pair + 1] - pair_start[pair] + 1)
                count: cython.Py_ssize_t = 0
                for text in range(pair_start[pair], pair_start[pair + 1]):
                    kind: cython.Py_ssize_t = kinds[text]
                    if kind >= 0:
                        kind = self.alike[group, kind]
                    if kind == ALWAYS:
                        self.kind_sets.pool[begin] = ALWAYS
                        count = 1
                        break
                    if kind >= 0:
                        count = insert_sorted(self.kind_sets.pool, begin, count, kind)
                if count > 1:
                    count = self.without_covered(begin, count, group)
                numbers[pair] = cython.cast(cython.int, self.kind_sets.intern(count))
        return found

    def without_covered(self, begin, count, group):
        """Drop each kind of the set that another one covers. Return the number of kinds left.

        All pairs of kinds are compared, so one large set takes long.

        Raises:
            BudgetExceeded, KeyboardInterrupt: told to stop.
        """
        for a in range(begin, begin + count):
            self.account.check()
            for b in range(begin, begin + count):
                one = self.kind_sets.pool[a]
                other = self.kind_sets.pool[b]
                if a != b and other >= 0 and self.is_within(one, other, group):
                    self.kind_sets.pool[a] = -1
                    break
        kept: cython.Py_ssize_t = 0
        for a in range(begin, begin + count):
            if self.kind_sets.pool[a] >= 0:
                self.kind_sets.pool[begin + kept] = self.kind_sets.pool[a]
                kept += 1
        return kept

    def is_within(self, one, other, group):
        """Whether each stack of a group that accepts one kind accepts the other, according to the cells."""
        k = self.cell_start[other]
        end = self.cell_start[other + 1]
        for i in range(self.cell_start[one], self.cell_start[one + 1]):
            state = self.cells[i, 0]
            if not self.tops[group, state]:
                continue
            while k < end and self.cells[k, 0] < state:
                k += 1
            if k == end or self.cells[k, 0] != state:
                return False
            if self.cells[k, 1] != PASS and self.cells[k, 1] != self.cells[i, 1]:
                return False
        return True

    def lists(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """(int32, the kinds of all sets; int64[sets + 1], where those of each set begin)."""
        starts, kinds = self.kind_sets.lists()
        return kinds.astype(np.int32), starts
