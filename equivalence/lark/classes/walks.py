"""The terminal sequences for which every token may stand in every lexer state, computed once for all states
that agree.

What: in a lexer state, a token emits terminals and leads to another state. There, the unfinished lexeme may
continue in several ways (the *family* of sequences of that state). Tokens for which all this is the same in
all states are one *lexical class*.
When: the first half of the token classes of a Lark grammar; it does not need the parser.
Limits: memory is one number for each token and distinct (state after the first byte, first byte), and one
for each lexer state and lexical class. Both are counted first, and refused if they exceed the budget.

Walks are shared by first byte: states with the same target on a byte read the rest in the same way, and
most states of a lexer have the target of the start state, after emitting their own lexeme. Of the 283
states times 90 first bytes of a Java grammar, a few hundred walks are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.arrays.account import Account
from equivalence.arrays.interning import Interned, number_lists
from equivalence.arrays.ranges import starts_of
from equivalence.deadline import Deadline, Stop
from equivalence.errors import BudgetExceeded
from equivalence.lark.classes.residuals import Residuals
from equivalence.lark.lexer import LexerMachine
from equivalence.trie import Trie

Integers = NDArray[np.int64]

PHASE = "the lexer's part"
"""The name of this computation in errors."""


class Sequences(NamedTuple):
    """Terminal sequences by number: `terminals[start[i]:start[i + 1]]`; number 0 is the empty one."""

    terminals: NDArray[np.int32]
    start: Integers

    @classmethod
    def of(cls, sequences: Sequence[tuple[int, ...]]) -> Sequences:
        """Make the arrays from tuples."""
        terminals = np.array([t for s in sequences for t in s], np.int32)
        return cls(terminals, starts_of([len(s) for s in sequences]))


class LexicalWalks(NamedTuple):
    """What tokens mean in the states of a lexer.

    The *texts* of a pair are what was emitted, then the path of its rest, then one sequence of the rest's
    family. The pair is allowed if the parser accepts one of them.

    Attributes:
        class_of_group: int32[G], the lexical class of each distinct byte string: equal if and only if
            `pair` is.
        pair: int32[Q, K], the pair of a state and a class: its number, or -1 if the text is dead.
        empty_pair: int32[Q], the pair of a state and the empty token, which decides whether text may follow.
        pairs: int64[pairs, 3], (emitted sequence, rest, what is known of the stack; see `walk`).
        rests: int64[rests, 2], (path, family).
        paths: int64[paths, 2], (path, terminal that continues it); path 0 is the empty one.
        families: int32, the numbers of the sequences of each family, and int64 where those begin.
        sequences: the sequences.
    """

    class_of_group: NDArray[np.int32]
    pair: NDArray[np.int32]
    empty_pair: NDArray[np.int32]
    pairs: Integers
    rests: Integers
    paths: Integers
    families: Sequences
    sequences: Sequences


def walk(
    lexer: LexerMachine, trie: Trie, group_of: NDArray[np.int32], max_bytes: int, stop: Stop
) -> LexicalWalks:
    """Read all tokens in all states.

    Args:
        lexer: the lexer.
        trie: the vocabulary's trie.
        group_of: int32[Q], equal for states with the same knowledge of the parser's stack.
        max_bytes: most bytes of the arrays.
        stop: when to give up.

    Raises:
        BudgetExceeded: more bytes are needed, or the time ran out.
    """
    families = {family: index for index, family in enumerate(dict.fromkeys(lexer.continuations))}
    family_of = np.array([families[family] for family in lexer.continuations], np.int32)
    numbers = {sequence: index for index, sequence in enumerate(lexer.sequences)}
    for family in families:
        for sequence in family:
            numbers.setdefault(sequence, len(numbers))
    sequences = Sequences.of(list(numbers))
    groups_of_byte = np.bincount(trie.first_byte, minlength=256)
    states, of_byte, block_of = _blocks(lexer.step, np.flatnonzero(groups_of_byte))
    room = int(groups_of_byte[of_byte].sum())
    # a number for each, and as much again for paths and rests, most of which occur often
    within_bytes(
        max_bytes, 16 * room, f"{len(states)} states after a first byte times the tokens with that byte"
    )
    account = Account(stop)
    rests = Residuals(lexer, trie, *sequences, family_of, account)
    rests.read(states, of_byte)
    class_of_group, examples = number_lists(np.arange(trie.n_groups + 1), rests.kind)
    n_states, n_classes = len(lexer.step), len(examples)
    within_bytes(
        max_bytes, 16 * n_states * n_classes, f"{n_states} lexer states times {n_classes} kinds of tokens"
    )
    pair, empty_pair = rests.find_pairs(block_of, group_of, examples)
    # these separate tokens of different first bytes, whatever follows
    columns = np.ascontiguousarray(pair.T, np.int64).ravel()
    column, first = number_lists(np.arange(n_classes + 1) * n_states, columns)
    return LexicalWalks(
        column[class_of_group], pair[:, first], empty_pair, _rows(rests.pairs, 3), _rows(rests.rests, 2),
        _rows(rests.paths, 2), Sequences.of([tuple(numbers[s] for s in family) for family in families]),
        sequences,
    )  # fmt: skip


def _rows(lists: Interned, width: int) -> Integers:
    return lists.lists()[1].reshape(-1, width)


def within_bytes(most: int, needed: int, what: str) -> None:
    """Raise if too many bytes are needed."""
    if needed > most:
        raise BudgetExceeded(f"{what} need {needed} bytes, but the limit is {most}; raise Budget.bytes")


def _blocks(step: NDArray[np.int32], first_bytes: Integers) -> tuple[Any, Any, NDArray[np.int32]]:
    """The distinct (state after a first byte, first byte), ordered by bytes; int32[Q, 256], the index of
    each."""
    states: list[int] = []
    of_byte: list[int] = []
    block_of = np.full(step.shape, -1, np.int32)
    for byte in first_bytes.tolist():
        after, place = np.unique(step[:, byte], return_inverse=True)
        alive = after >= 0
        numbers = np.where(alive, len(states) + np.cumsum(alive) - 1, -1)
        block_of[:, byte] = numbers[place]
        states += after[alive].tolist()
        of_byte += [byte] * int(alive.sum())
    return np.array(states, np.int64), np.array(of_byte, np.int64), block_of


def last_emitted(lexer: LexerMachine, deadline: Deadline) -> list[int]:
    """For each state, the terminals that may have been emitted last before it, as bits; bit T: none.

    This terminal led the parser to the state on top of its stack.
    """
    last = [0, *(1 << sequence[-1] for sequence in lexer.sequences[1:])]
    found = [1 << len(lexer.terminals), *[0] * (len(lexer.step) - 1)]
    silent: list[list[int]] = [[] for _ in found]
    for state, targets in enumerate(silent):
        deadline.check(PHASE)
        for target, emitted in set(
            zip(lexer.step[state].tolist(), lexer.emitted[state].tolist(), strict=True)
        ):
            if target >= 0 and emitted:
                found[target] |= last[emitted]
            elif target >= 0:
                targets.append(target)
    pending = list(range(len(found)))
    while pending:
        deadline.check(PHASE)
        state = pending.pop()
        for target in silent[state]:
            if found[state] & ~found[target]:
                found[target] |= found[state]
                pending.append(target)
    return found
