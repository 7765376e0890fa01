# cython: language_level=3
# mypy: ignore-errors
"""The residuals of lexer states: the results of reading the rest of each token after its first byte.

What: a *path* is a numbered sequence of terminals: path 0 is empty, any other is a path and one more
terminal. A *rest* is the result of a text in a lexer state: a path, and the family of the state that the
lexer is in then; -1 if the text is dead. A *block* is a lexer state after a first byte, with all tokens
that begin with that byte. `Residuals` reads every block once, then combines the results with the states
before first bytes: a *pair* is [what the first byte emitted, the rest, what is known of the stack].
When: by `equivalence.lark.classes.walks`.
Limits: it takes one number for each block and token, and one for each state and class; the caller counts
them first. Indices are not checked.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.arrays.records import of_array
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.equivalence.trie.nodes import ENDS_AT
from numpy.typing import NDArray

from equivalence.trie.nodes import TRIE_NODE

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

    Attributes:
        paths: the paths as [path, terminal].
        rests: the rests as [path, family].
        pairs: the pairs as [emitted sequence, rest, group].
        child, end: for each depth on the path, the next child, and the end of the children.
        starts: int64[blocks + 1], where the rests of a block begin.
        found: int32, one rest for each group below the block's byte.
        kind: int64[groups], what distinguishes groups: first their bytes, then their rests in each block.
        n_kinds: number of kinds so far.
        parts: the kinds of the current block as [kind before, rest], numbered after all others.
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
        self.step, self.emitted = lexer.step, lexer.emitted
        self.sequence, self.sequence_start, self.family = sequence, sequence_start, family
        self.nodes, self.first_byte = of_array(trie.nodes, TRIE_NODE), trie.first_byte
        self.account = account
        self.paths, self.rests, self.pairs = Interned(1024, 2), Interned(4096, 2), Interned(4096, 3)
        self.paths.pair(-1, -1)
        self.state = np.zeros(trie.longest + 2, np.int64)
        self.path = np.zeros(trie.longest + 2, np.int64)
        self.child = np.zeros(trie.longest + 2, np.int32)
        self.end = np.zeros(trie.longest + 2, np.int32)
        self.top = np.full(256, -1, np.int64)
        self.kind = np.zeros(trie.n_groups, np.int64)
        self.parts = Interned(256, 2)
        self.n_kinds = 0
        self.part_by_first_byte()

    def part_by_first_byte(self):
        """Find the node of each first byte, and separate tokens by first byte."""
        for node in range(self.nodes[0].child, self.nodes[1].child):
            self.top[self.nodes[node].bits & 255] = node
            for group in range(self.nodes[node].group, self.nodes[node].group_end):
                self.kind[group] = self.n_kinds
            self.n_kinds += 1

    def read(
        self, states: cython.const[cython.Py_ssize_t][::1], first_bytes: cython.const[cython.Py_ssize_t][::1]
    ) -> None:
        """Read every token that begins with a byte, from the lexer's state after that byte.

        Args:
            states: int64[blocks].
            first_bytes: int64[blocks], with which some token begins.

        Raises:
            BudgetExceeded, KeyboardInterrupt: told to stop.
        """
        n: cython.Py_ssize_t = states.shape[0]
        starts = np.zeros(n + 1, np.int64)
        self.starts = starts
        for block in range(n):
            root = self.top[first_bytes[block]]
            self.starts[block + 1] = self.starts[block] + self.nodes[root].group_end - self.nodes[root].group
        self.found = np.full(starts[n], -1, np.int32)
        with cython.nogil:
            for block in range(n):
                self.account.check()
                self.read_block(block, states[block], self.top[first_bytes[block]])

    def read_block(self, block, state, root):
        """Find the rests of a block, and separate the tokens by them."""
        first = self.nodes[root].group
        self.parts.clear(self.nodes[root].group_end - first)
        begin = self.starts[block]
        self.state[1] = state
        self.path[1] = 0
        self.child[1] = cython.cast(cython.int, root)
        self.end[1] = cython.cast(cython.int, root + 1)
        depth: cython.Py_ssize_t = 1
        while depth > 0:
            node = self.child[depth]
            if node == self.end[depth]:
                depth -= 1
                continue
            self.child[depth] = node + 1
            if depth > 1 and self.follow(self.nodes[node].bits & 255, depth) < 0:
                continue
            if self.nodes[node].bits >> ENDS_AT & 1:
                group = self.nodes[node].group
                rest = self.rest_of(depth)
                self.found[begin + group - first] = cython.cast(cython.int, rest)
                self.kind[group] = self.n_kinds + self.parts.pair(self.kind[group], rest)
            depth += 1
            self.child[depth] = self.nodes[node].child
            self.end[depth] = self.nodes[node + 1].child
        self.n_kinds += self.parts.count

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

    def find_pairs(
        self,
        block_of: cython.const[cython.int][:, ::1],
        group_of: cython.const[cython.int][::1],
        examples: cython.const[cython.Py_ssize_t][::1],
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The pair of each state and each class of groups, given the class's first group.

        Args:
            block_of: int32[Q, 256], the block that a state reaches on a byte, or -1.
            group_of: int32[Q], what is known of the stack in a state.
            examples: int64[K], the first group of each class.

        Returns:
            (int32[Q, K], numbers of pairs, -1 if the text is dead; int32[Q], the pairs of the empty text).

        Raises:
            BudgetExceeded, KeyboardInterrupt: told to stop.
        """
        n: cython.Py_ssize_t = block_of.shape[0]
        found = np.full((n, examples.shape[0]), -1, np.int32)
        pair: cython.int[:, ::1] = found
        empty = np.empty(n, np.int32)
        empty_pair: cython.int[::1] = empty
        like: cython.Py_ssize_t[::1] = np.empty(n, np.int64)
        begin: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t = 0
        with cython.nogil:
            for state in range(n):
                number = self.pair_of(0, self.rests.pair(0, self.family[state]), group_of[state])
                empty_pair[state] = cython.cast(cython.int, number)
            while begin < examples.shape[0]:  # the classes of one byte
                byte = self.first_byte[examples[begin]]
                while end < examples.shape[0] and self.first_byte[examples[end]] == byte:
                    end += 1
                self.parts.clear(n)
                for state in range(n):
                    self.account.check()
                    block = block_of[state, byte]
                    if block < 0:
                        continue
                    before = self.parts.count
                    at = self.parts.room(3)
                    self.parts.pool[at] = block
                    self.parts.pool[at + 1] = self.emitted[state, byte]
                    self.parts.pool[at + 2] = group_of[state]
                    known = self.parts.intern(3)
                    if known < before:  # as in an earlier state
                        pair[state, begin:end] = pair[like[known], begin:end]
                        continue
                    like[known] = state
                    first = self.starts[block] - self.nodes[self.top[byte]].group
                    for k in range(begin, end):
                        rest = self.found[first + examples[k]]
                        if rest >= 0:
                            number = self.pair_of(self.emitted[state, byte], rest, group_of[state])
                            pair[state, k] = cython.cast(cython.int, number)
                begin = end
        return found, empty

    def pair_of(self, emitted, rest, group):
        """The number of a pair."""
        begin = self.pairs.room(3)
        self.pairs.pool[begin] = emitted
        self.pairs.pool[begin + 1] = rest
        self.pairs.pool[begin + 2] = group
        return self.pairs.intern(3)
