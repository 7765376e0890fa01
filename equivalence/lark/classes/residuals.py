# cython: language_level=3
# mypy: ignore-errors
"""The residuals of lexer states: the results of reading the rest of each token after its first byte.

What: a *path* is a numbered sequence of terminals: path 0 is empty, any other is a path and one more
terminal. A *rest* is the result of a text in a lexer state: a path, and the family of the state that the
lexer is in then; -1 if the text is dead. A *block* is a lexer state after a first byte, with all tokens
that begin with that byte. `Residuals` reads every block once.
When: the first half of `equivalence.lark.classes.walks`. `equivalence.lark.classes.pairs` combines its
results with the states before first bytes.
Limits: it takes one number for each block and token; the caller counts them first.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.built import check_source
from cython.cimports.equivalence.classes.splitting import Parts
from numpy.typing import NDArray

from equivalence.arrays.equal_lists import lie_side_by_side

check_source(__name__)


@cython.final
@cython.cclass
class Residuals:
    """The rests of all blocks, and tokens separated by them.

    Args:
        lexer: an `equivalence.lark.lexer.LexerMachine`.
        trie: the vocabulary's trie, whose groups are the distinct tokens.
        sequence: int32, the terminals of all sequences that the lexer emits.
        sequence_start: int64, where each sequence begins.
        family: int32[Q], a number for each state, equal for states with equal continuations.
        account: says when to stop.

    Raises:
        ValueError: the sizes of arrays differ, or a number is out of its range.

    Attributes:
        paths: the paths as [path, terminal].
        rests: the rests as [path, family].
        starts: int64[blocks + 1], where the rests of a block begin.
        found: int32, one rest for each group below the block's byte.
        kind: int64[groups], what distinguishes groups: first their bytes, then their rests in each block.
        parts: the kinds into which blocks split those before.
    """

    def __init__(
        self,
        lexer: object,
        trie: object,
        sequence: NDArray[np.int32],
        sequence_start: NDArray[np.int64],
        family: NDArray[np.int32],
        account: Account,
    ) -> None:
        _check(lexer, sequence, sequence_start, family)
        self.step, self.emitted = lexer.step, lexer.emitted
        self.sequence, self.sequence_start, self.family = sequence, sequence_start, family
        self.nodes = np.stack([trie.byte, trie.depth, trie.skip], axis=1).astype(np.int32)
        self.groups = trie.group
        self.account = account
        self.paths, self.rests = Interned(1024, 2), Interned(4096, 2)
        self.paths.pair(-1, -1)
        self.state = np.zeros(trie.longest + 2, np.int64)
        self.path = np.zeros(trie.longest + 2, np.int64)
        self.top = np.full(256, -1, np.int64)
        self.kind = np.zeros(trie.n_groups, np.int64)
        self.parts = Parts(1, account)
        self.part_by_first_byte()

    def part_by_first_byte(self):
        """Find the node of each first byte, and separate tokens by first byte."""
        node: cython.Py_ssize_t = 1
        most: cython.Py_ssize_t = 1
        while node < self.nodes.shape[0]:
            self.top[self.nodes[node, 0]] = node
            most = max(most, self.groups[self.nodes[node, 2]] - self.groups[node])
            for group in range(self.groups[node], self.groups[self.nodes[node, 2]]):
                self.kind[group] = self.parts.count
            self.parts.count = self.parts.count + 1
            node = self.nodes[node, 2]
        self.parts.make_room(most)

    def read(
        self, states: cython.const[cython.Py_ssize_t][::1], first_bytes: cython.const[cython.Py_ssize_t][::1]
    ) -> None:
        """Read every token that begins with a byte, from the lexer's state after that byte.

        Args:
            states: int64[blocks].
            first_bytes: int64[blocks].

        Raises:
            ValueError: there is no such state, or no token begins with such a byte.
            BudgetExceeded, KeyboardInterrupt: told to stop.
        """
        n: cython.Py_ssize_t = states.shape[0]
        starts = np.zeros(n + 1, np.int64)
        self.starts = starts
        for block in range(n):
            byte = first_bytes[block]
            if not (0 <= byte < 256 and 0 <= states[block] < self.step.shape[0]) or self.top[byte] < 0:
                raise ValueError(
                    f"no token begins with the byte {byte}, or there is no state {states[block]}"
                )
            root = self.top[byte]
            self.starts[block + 1] = self.starts[block] + self.groups[self.nodes[root, 2]] - self.groups[root]
        self.found = np.full(starts[n], -1, np.int32)
        with cython.nogil:
            for block in range(n):
                self.account.look()
                self.read_block(block, states[block], self.top[first_bytes[block]])

    def read_block(self, block, state, root):
        """Find the rests of a block, and separate the tokens by them."""
        first = self.groups[root]
        last: cython.Py_ssize_t = self.nodes[root, 2]
        first_new = self.parts.count
        begin = self.starts[block]
        self.state[1] = state
        self.path[1] = 0
        node: cython.Py_ssize_t = root
        while node < last:
            depth: cython.Py_ssize_t = self.nodes[node, 1]
            if node > root and self.follow(self.nodes[node, 0], depth) < 0:
                node = self.nodes[node, 2]
                continue
            group = self.groups[node]
            if self.groups[node + 1] > group:
                rest = self.rest_of(depth)
                self.found[begin + group - first] = cython.cast(cython.int, rest)
                self.kind[group] = self.parts.part(self.kind[group], rest, first_new)
            node += 1

    def follow(self, byte, depth):
        """Continue by a byte to a depth. Return the state there, or -1 if the text is dead."""
        before = self.state[depth - 1]
        after = self.step[before, byte]
        if after < 0:
            return -1
        self.state[depth] = after
        at = self.path[depth - 1]
        emitted = self.emitted[before, byte]
        if emitted > 0:
            for k in range(self.sequence_start[emitted], self.sequence_start[emitted + 1]):
                at = self.paths.pair(at, self.sequence[k])
        self.path[depth] = at
        return after

    def rest_of(self, depth):
        """The number of the rest of the text down to a depth."""
        return self.rests.pair(self.path[depth], self.family[self.state[depth]])

    def classes(self) -> tuple[NDArray[np.int32], int]:
        """The classes of groups, in order of the first group, and their number.

        int32[groups], equal if and only if the rests of two groups are equal in all blocks.
        """
        n: cython.Py_ssize_t = self.kind.shape[0]
        found = np.empty(n, np.int32)
        class_of: cython.int[::1] = found
        number: cython.int[::1] = np.full(self.parts.count, -1, np.int32)
        count: cython.int = 0
        for group in range(n):
            if number[self.kind[group]] < 0:
                number[self.kind[group]] = count
                count += 1
            class_of[group] = number[self.kind[group]]
        return found, count


def _check(lexer, sequence, sequence_start, family):
    """Refuse numbers that lead out of the tables."""
    n_states = len(lexer.step)
    if lexer.step.shape != (n_states, 256) or lexer.emitted.shape != (n_states, 256):
        raise ValueError(f"a lexer with the shapes {lexer.step.shape} and {lexer.emitted.shape}")
    if len(family) != n_states:
        raise ValueError(f"{len(family)} families for {n_states} states")
    if lexer.step.size and not -1 <= int(lexer.step.min()) <= int(lexer.step.max()) < n_states:
        raise ValueError(f"a lexer of {n_states} states leads out of them")
    emitted = lexer.emitted
    if emitted.size and not 0 <= int(emitted.min()) <= int(emitted.max()) < len(sequence_start) - 1:
        raise ValueError("a lexer emits an unknown sequence")
    if not lie_side_by_side(sequence_start, len(sequence)):
        raise ValueError("sequences do not lie side by side")
