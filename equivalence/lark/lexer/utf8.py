"""From kinds of characters to bytes: states in the middle of a character.

What: UTF-8 as a graph of blocks: a block of 64 characters that share all bytes except the last, a block of 64
such blocks, and so on. For each state, steps on kinds become steps on bytes. Blocks whose characters do the
same share a state, and emit at once what all of them emit.
When: the last step of `equivalence.lark.lexer.machine.build_lexer`.
Limits: everything that is not UTF-8 (surrogates, over-long forms, above U+10FFFF) is dead. States inside of a
character differ only if some byte after them does something different, so merging needs no second pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.deadline import Deadline
from equivalence.errors import BudgetExceeded
from equivalence.lark.lexer.characters import Kinds
from equivalence.lark.lexer.lexeme_automaton import or_more_states
from equivalence.lark.lexer.lexeme_transducer import Terminals
from equivalence.lark.lexer.minimisation import Transducer, common_prefix

SIZE = 64
"""Bytes that continue a character: 0x80 to 0xBF."""


class Blocks(NamedTuple):
    """Distinct blocks. Their parts are -1 where there is no character.

    Attributes:
        ascii: int32[128], the kind of each character of one byte.
        leaves: int32[L, 64], kinds of characters: blocks whose bytes differ only in the last one.
        middle: int32[M, 64], numbers of leaves.
        upper: int32[U, 64], numbers of middle blocks.
        leads: int32[256, 2], for each first byte of two to four, the level (0 to 2) and number of its block.
    """

    ascii: NDArray[np.int32]
    leaves: NDArray[np.int32]
    middle: NDArray[np.int32]
    upper: NDArray[np.int32]
    leads: NDArray[np.int32]


def blocks_of(kinds: Kinds) -> Blocks:
    """The blocks of a partition of all characters."""
    lengths = np.diff(kinds.firsts, append=0x110000)
    whole = np.repeat(kinds.kinds, lengths).reshape(-1, SIZE)
    ascii_kinds = whole[:2].reshape(-1).copy()
    # a longer form excludes what has a shorter one: one byte, two (U+0000 to U+07FF), three (to U+FFFF)
    whole[:2] = -1
    leaf_of, leaves = _distinct(whole)
    longer = leaf_of.copy()
    longer[:32] = -1
    middle_of, middle = _distinct(longer.reshape(-1, SIZE))
    leads = np.full((256, 2), -1, np.int32)
    for byte in range(0xC2, 0xE0):
        leads[byte] = 0, leaf_of[byte - 0xC0]
    for byte in range(0xE0, 0xF0):
        leads[byte] = 1, middle_of[byte - 0xE0]
    upper = np.full((5, SIZE), -1, np.int32)
    upper.reshape(-1)[16 : len(middle_of)] = middle_of[16:]
    for byte in range(0xF0, 0xF5):
        leads[byte] = 2, byte - 0xF0
    return Blocks(ascii_kinds, leaves, middle, upper, leads)


def _distinct(rows: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The number of each row among the distinct ones, and the distinct rows; fast for equal neighbours."""
    changes = np.ones(len(rows), bool)
    changes[1:] = (rows[1:] != rows[:-1]).any(1)
    numbers: dict[bytes, int] = {}
    of_runs = [numbers.setdefault(row.tobytes(), len(numbers)) for row in rows[changes]]
    found = np.frombuffer(b"".join(numbers), np.int32).reshape(-1, rows.shape[1])
    return np.array(of_runs, np.int32)[np.cumsum(changes) - 1], found


class _Expansion:
    """Adds states, numbered after the old ones. A *result* is a pair of an emission and a state; 0: dead."""

    def __init__(self, machine: Transducer, blocks: Blocks, max_states: int) -> None:
        self.max_states = max_states
        self.sequences = {one: number for number, one in enumerate(machine.sequences)}
        self.results: dict[tuple[Terminals, int], int] = {((), -1): 0}
        self.outcomes: list[tuple[Terminals, int]] = [((), -1)]
        self.rows: list[tuple[int, ...]] = []
        self.continuations = list(machine.continuations)
        self._states: dict[tuple[int, ...], int] = {}
        self.levels = [blocks.leaves.tolist(), blocks.middle.tolist(), blocks.upper.tolist()]
        self.first: list[list[int]] = blocks.leads[128:].tolist()
        self._known: dict[tuple[int, ...], tuple[list[int], NDArray[np.intp]]] = {}

    def result(self, terminals: Terminals, state: int) -> int:
        number = self.results.setdefault((terminals, state), len(self.outcomes))
        if number == len(self.outcomes):
            self.outcomes.append((terminals, state))
        return number

    def combine(self, row: tuple[int, ...]) -> int:
        """The result of a byte after which 64 others lead to the results of a row."""
        if row in self._states:
            return self._states[row]
        outcomes = {number: self.outcomes[number] for number in set(row)}
        alive = [outcome for number, outcome in outcomes.items() if number]
        if not alive:
            found = 0
        else:
            shared = reduce(common_prefix, [terminals for terminals, _ in alive])
            if shared:
                rest = {
                    number: self.result(one[len(shared) :], state)
                    for number, (one, state) in outcomes.items()
                }
                _, state = self.outcomes[self.combine(tuple([rest[number] for number in row]))]
            else:
                state = self._add(row, alive)
            found = self.result(shared, state)
        self._states[row] = found
        return found

    def _add(self, row: tuple[int, ...], alive: list[tuple[Terminals, int]]) -> int:
        number = len(self.continuations)
        if number >= self.max_states:
            raise BudgetExceeded(
                f"the lexer has more than {self.max_states} states of bytes; use patterns with fewer "
                f"ranges of characters{or_more_states(self.max_states)}"
            )
        self.rows.append(row)
        self.continuations.append(
            tuple(
                sorted({terminals + one for terminals, state in alive for one in self.continuations[state]})
            )
        )
        return number

    def leads(self, row: tuple[int, ...]) -> tuple[list[int], NDArray[np.intp]]:
        """Results of bytes from 0x80, given the results of kinds (the last: no character): the distinct ones,
        and the place of each byte's among them."""
        if row not in self._known:
            levels: list[list[int]] = []
            below: Sequence[int] = row
            for blocks in self.levels:
                levels.append([self.combine(tuple([below[part] for part in block])) for block in blocks])
                below = [*levels[-1], 0]
            found = [levels[level][number] if level >= 0 else 0 for level, number in self.first]
            places = {number: place for place, number in enumerate(dict.fromkeys(found))}
            self._known[row] = list(places), np.array([places[number] for number in found])
        return self._known[row]

    def tables(self, results: NDArray[np.int32]) -> NDArray[np.int32]:
        """Steps and emissions of results, one axis more at the end."""
        table = np.empty((len(self.outcomes), 2), np.int32)
        for number in np.flatnonzero(np.bincount(results.ravel())).tolist():
            terminals, state = self.outcomes[number]
            table[number] = state, self.sequences.setdefault(terminals, len(self.sequences))
        return table[results]


def expand(machine: Transducer, kinds: Kinds, max_states: int, deadline: Deadline) -> Transducer:
    """A machine on bytes, made from a merged machine on kinds, whose states come first.

    Raises:
        BudgetExceeded: more than `max_states` states, or the time ran out.
    """
    blocks = blocks_of(kinds)
    expansion = _Expansion(machine, blocks, max_states)
    n_states = len(machine.step)
    beyond = np.zeros(kinds.number + 1, bool)  # kinds with characters of more than one byte
    beyond[np.unique(blocks.leaves)] = True
    leads = np.zeros((n_states, 128), np.int32)
    for state in range(n_states):
        deadline.check("the lexer's bytes")
        steps, emissions = machine.step[state], machine.emitted[state]
        alive = np.flatnonzero(beyond[:-1] & (steps >= 0)).tolist()
        if not alive:
            continue
        texts = [machine.sequences[number] for number in emissions[alive].tolist()]
        shared = reduce(common_prefix, texts)  # without it, more states have equal rows
        row = [0] * (kinds.number + 1)
        for kind, text in zip(alive, texts, strict=True):
            row[kind] = expansion.result(text[len(shared) :], int(steps[kind]))
        found, place = expansion.leads(tuple(row))
        outcomes = [expansion.outcomes[number] for number in found]
        leads[state] = np.array(
            [expansion.result(shared + one, after) if after >= 0 else 0 for one, after in outcomes]
        )[place]
    whole = np.full((n_states + len(expansion.rows), 256, 2), (-1, 0), np.int32)
    whole[:n_states, :128] = np.stack([machine.step, machine.emitted], axis=2)[:, blocks.ascii]
    whole[:n_states, 128:] = expansion.tables(leads)
    whole[n_states:, 128:192] = expansion.tables(np.array(expansion.rows, np.int32).reshape(-1, SIZE))
    return Transducer(
        np.ascontiguousarray(whole[:, :, 0]),
        np.ascontiguousarray(whole[:, :, 1]),
        np.concatenate([machine.at_end, np.full(len(expansion.rows), -1, np.int32)]),
        list(expansion.sequences),
        expansion.continuations,
    )
