# cython: language_level=3
# mypy: ignore-errors
"""What tokens mean in lexer states: pairs, and the sequences of which the parser must accept one.

What: a *pair* is [what the first byte emitted, the rest of the text, what is known of the stack]. A *text*
of it is what was emitted, then the rest's path, then one sequence of the rest's family. The token is
allowed if the parser accepts one of its texts.
When: the second half of `equivalence.lark.classes.walks`, after `Residuals` has read all blocks.
Limits: it makes the product of states and classes. The caller counts it first, and the terminals of all
texts, too.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.built import check_source
from cython.cimports.equivalence.lark.classes.residuals import Residuals
from numpy.typing import NDArray

from equivalence.arrays.equal_lists import lie_side_by_side

check_source(__name__)


@cython.final
@cython.cclass
class Pairs:
    """The pairs of all states and classes of tokens, and their texts.

    Args:
        rests: the rests of all blocks.
        family_sequence: int32, the sequences of all families.
        family_start: int64[families + 1], where those of each family begin.
        account: says when to stop.

    Raises:
        ValueError: a sequence or a family is unknown.

    Attributes:
        known: the pairs as [emitted sequence, rest, group].
        pair_start: int64[pairs + 1], the first text of each pair.
        text_start: int64[texts + 1], the first terminal of each text.
    """

    def __init__(
        self,
        rests: Residuals,
        family_sequence: NDArray[np.int32],
        family_start: NDArray[np.int64],
        account: Account,
    ) -> None:
        n_sequences = rests.sequence_start.shape[0] - 1
        if len(family_sequence) and not 0 <= family_sequence.min() <= family_sequence.max() < n_sequences:
            raise ValueError("a family has an unknown sequence")
        if not lie_side_by_side(family_start, len(family_sequence)):
            raise ValueError("families do not lie side by side")
        family = np.asarray(rests.family)
        if family.size and not 0 <= family.min() <= family.max() < len(family_start) - 1:
            raise ValueError("a state has an unknown family")
        self.rests = rests
        self.family_sequence, self.family_start = family_sequence, family_start
        self.known = Interned(4096, 3)
        self.account = account

    def find(
        self,
        block_of: cython.const[cython.int][:, ::1],
        group_of: cython.const[cython.int][::1],
        examples: cython.const[cython.Py_ssize_t][::1],
        first_byte: cython.const[cython.uchar][::1],
        first_group: cython.const[cython.Py_ssize_t][::1],
    ) -> NDArray[np.int32]:
        """The pair of each state and each class of groups, given the class's first group.

        Args:
            block_of: int32[Q, 256], the block that a state reaches on a byte, or -1.
            group_of: int32[Q], what is known of the stack in a state.
            examples: int64[K], the first group of each class.
            first_byte: uint8[groups].
            first_group: int64[256], the first group below each byte.

        Returns:
            int32[Q, K], numbers of pairs; -1 if the text is dead.

        Raises:
            ValueError: the arguments do not belong to the blocks that were read.
            BudgetExceeded, KeyboardInterrupt: told to stop.
        """
        n: cython.Py_ssize_t = block_of.shape[0]
        if n != self.rests.step.shape[0] or block_of.shape[1] != 256 or group_of.shape[0] != n:
            raise ValueError(f"blocks and groups of {n} and {group_of.shape[0]} states")
        if first_byte.shape[0] != self.rests.kind.shape[0] or first_group.shape[0] != 256:
            raise ValueError("first bytes of other groups")
        n_blocks: cython.Py_ssize_t = self.rests.starts.shape[0] - 1
        if np.max(block_of, initial=-1) >= n_blocks:
            raise ValueError(f"there are {n_blocks} blocks")
        if len(examples) and not 0 <= np.min(examples) <= np.max(examples) < first_byte.shape[0]:
            raise ValueError("an example is no group")
        found = np.full((n, examples.shape[0]), -1, np.int32)
        pair: cython.int[:, ::1] = found
        with cython.nogil:
            for state in range(n):
                self.account.look()
                for k in range(examples.shape[0]):
                    group = examples[k]
                    byte = first_byte[group]
                    block = block_of[state, byte]
                    if block < 0:
                        continue
                    rest = self.rests.found[self.rests.starts[block] + group - first_group[byte]]
                    if rest >= 0:
                        number = self.pair_of(self.rests.emitted[state, byte], rest, group_of[state])
                        pair[state, k] = cython.cast(cython.int, number)
        return found

    def pair_of(self, emitted, rest, group):
        """The number of a pair."""
        begin = self.known.room(3)
        self.known.pool[begin] = emitted
        self.known.pool[begin + 1] = rest
        self.known.pool[begin + 2] = group
        return self.known.intern(3)

    def measure(self) -> tuple[int, int]:
        """Find where texts begin. Return the number of texts, and of their terminals."""
        self.measure_paths()
        n = self.known.count
        counts = np.zeros(n + 1, np.int64)
        count: cython.Py_ssize_t[::1] = counts
        for pair in range(n):
            family = self.family_of(pair)
            count[pair + 1] = self.family_start[family + 1] - self.family_start[family]
        pair_start = np.cumsum(counts)
        lengths = np.zeros(pair_start[n] + 1, np.int64)
        length: cython.Py_ssize_t[::1] = lengths
        self.pair_start = pair_start
        text: cython.Py_ssize_t = 0
        with cython.nogil:
            for pair in range(n):
                front = self.length_of(self.known.pool[3 * pair]) + self.path_length[self.path_of(pair)]
                family = self.family_of(pair)
                for k in range(self.family_start[family], self.family_start[family + 1]):
                    text += 1
                    length[text] = front + self.length_of(self.family_sequence[k])
        text_start = np.cumsum(lengths)
        self.text_start = text_start
        return text, self.text_start[text]

    def measure_paths(self):
        """Find how many terminals each path has. A path comes after the one that it continues."""
        paths = self.rests.paths
        self.path_length = np.zeros(paths.count, np.int64)
        for path in range(1, paths.count):
            self.path_length[path] = self.path_length[paths.pool[2 * path]] + 1

    def path_of(self, pair):
        """The path of a pair's rest."""
        return self.rests.rests.pool[2 * self.known.pool[3 * pair + 1]]

    def family_of(self, pair):
        """The family of a pair's rest."""
        return self.rests.rests.pool[2 * self.known.pool[3 * pair + 1] + 1]

    def length_of(self, sequence):
        """The number of terminals in a sequence."""
        return self.rests.sequence_start[sequence + 1] - self.rests.sequence_start[sequence]

    def texts(self) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """The texts of all pairs, after `measure`.

        Returns:
            (int32 terminals, int64[texts + 1] where each text begins, int64[pairs + 1] the first text of each
            pair).

        Raises:
            BudgetExceeded, KeyboardInterrupt: told to stop.
        """
        self.terminals = np.empty(self.text_start[self.text_start.shape[0] - 1], np.int32)
        with cython.nogil:
            for pair in range(self.known.count):
                if pair % 1024 == 0:
                    self.account.look()
                family = self.family_of(pair)
                text = self.pair_start[pair]
                for k in range(self.family_start[family], self.family_start[family + 1]):
                    self.write(pair, self.family_sequence[k], self.text_start[text])
                    text += 1
        return np.asarray(self.terminals), np.asarray(self.text_start), np.asarray(self.pair_start)

    def write(self, pair, tail, place):
        """Write the text of a pair that ends with a sequence."""
        emitted = self.known.pool[3 * pair]
        for k in range(self.rests.sequence_start[emitted], self.rests.sequence_start[emitted + 1]):
            self.terminals[place] = self.rests.sequence[k]
            place += 1
        at = self.path_of(pair)
        place += self.path_length[at]
        back = place
        while at > 0:
            back -= 1
            self.terminals[back] = cython.cast(cython.int, self.rests.paths.pool[2 * at + 1])
            at = self.rests.paths.pool[2 * at]
        for k in range(self.rests.sequence_start[tail], self.rests.sequence_start[tail + 1]):
            self.terminals[place] = self.rests.sequence[k]
            place += 1

    def groups(self) -> NDArray[np.int32]:
        """What is known of the stack for each pair, int32[pairs]."""
        return np.asarray(self.known.pool)[: self.known.used].reshape(-1, 3)[:, 2].astype(np.int32)
