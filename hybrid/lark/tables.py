"""The constant data of a Lark grammar's classifier: lexer, parser, and token classes.

What: `fixed_tables` makes a `Fixed` from these, in the form that compiled code reads. `places_of` and
`used_sets` compute the parts that files do not contain.
When: once for each compiled grammar; the `hybrid.lark.store.Store` of each session reads it.
Limits: nothing is checked here. Numbers are checked when an artefact is read (`hybrid.files.lark_files`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.arrays.interning import number_lists
from equivalence.arrays.ranges import starts_of
from equivalence.lark.classes import FactoredClasses
from equivalence.lark.classes.walks import Sequences
from equivalence.lark.lalr import LalrMachine
from equivalence.lark.lexer import LexerMachine

Integers = NDArray[np.int64]


class Fixed(NamedTuple):
    """Constant data. Q lexer states, B byte classes, S parser states, T terminals, N nonterminals, C token
    classes.

    Attributes:
        class_of_byte: uint8[256].
        step, emitted: int32[Q, B], the lexer: the next state, or -1; the sequence of terminals that it
            returns.
        sequence, sequence_start: the terminals of all sequences, and where each sequence begins.
        action: int32[S, T], the parser: 0 refuses, ``state + 1`` shifts, ``-1 - rule`` reduces.
        goto: int32[S, N]; -1: there is none.
        rule_length, rule_origin: for each rule, the number of symbols that it pops, and its nonterminal.
        top_start, top_kind, top_outcome: the outcomes of kinds for each top state.
        place, color_list, color_start, color_outcome: the automaton for states below the top
            (`equivalence.lark.lalr.StackAutomaton`); place is int32[lists, S].
        set_start, set_kind: sets of kinds.
        set_of: int32[Q, C], the set that decides about a class: the stack must accept one of its kinds.
        stop_set, alive_set: int32[Q], the sets that decide about the end of the text, and about the state
            itself.
        used_start, used: the distinct sets of each lexer state.
        data, offsets: the bytes of each token id.
    """

    class_of_byte: NDArray[np.uint8]
    step: NDArray[np.int32]
    emitted: NDArray[np.int32]
    sequence: NDArray[np.int32]
    sequence_start: Integers
    action: NDArray[np.int32]
    goto: NDArray[np.int32]
    rule_length: NDArray[np.int32]
    rule_origin: NDArray[np.int32]
    top_start: Integers
    top_kind: NDArray[np.int32]
    top_outcome: Integers
    place: NDArray[np.int32]
    color_list: NDArray[np.int32]
    color_start: Integers
    color_outcome: Integers
    set_start: Integers
    set_kind: NDArray[np.int32]
    set_of: NDArray[np.int32]
    stop_set: NDArray[np.int32]
    alive_set: NDArray[np.int32]
    used_start: Integers
    used: NDArray[np.int32]
    data: NDArray[np.uint8]
    offsets: Integers

    @property
    def n_kinds(self) -> int:
        """Number of kinds of terminal sequences."""
        return int(self.top_kind.max(initial=0)) + 1

    @property
    def n_terminals(self) -> int:
        """Number of terminals, without the end of the text, which has the last column of `action`."""
        return int(self.action.shape[1]) - 1

    @property
    def n_classes(self) -> int:
        """Number of token classes."""
        return int(self.set_of.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays except the vocabulary's."""
        return sum(int(array.nbytes) for array in self[:-2])


def fixed_tables(
    lexer: LexerMachine,
    machine: LalrMachine,
    classes: FactoredClasses,
    data: NDArray[np.uint8],
    offsets: Integers,
) -> Fixed:
    """Make the constant data of a grammar; `data` and `offsets` are the vocabulary's bytes."""
    columns = np.concatenate([lexer.step, lexer.emitted]).T.astype(np.int64)
    class_of_byte, first = number_lists(np.arange(257) * columns.shape[1], columns.ravel())
    automaton = classes.automaton
    kind_of_cell = np.repeat(np.arange(automaton.n_kinds), np.diff(automaton.cell_start))
    order = np.lexsort((kind_of_cell, automaton.cells[:, 0]))
    tops = np.searchsorted(automaton.cells[order, 0], np.arange(machine.n_states + 1))
    place = places_of(automaton.list_start, automaton.list_state, machine.n_states)
    return Fixed(
        class_of_byte.astype(np.uint8), _compact(lexer.step[:, first]), _compact(lexer.emitted[:, first]),
        *Sequences.of(lexer.sequences), machine.action, machine.goto, machine.rule_length,
        machine.rule_origin, tops.astype(np.int64),
        kind_of_cell[order].astype(np.int32), automaton.cells[order, 1].copy(), place, automaton.color_list,
        automaton.color_start, automaton.color_outcome, classes.sets.start, classes.sets.terminals,
        _compact(classes.set_of), classes.stop_set, classes.alive_set,
        *used_sets(classes.set_of),
        data, offsets,
    )  # fmt: skip


def places_of(list_start: Integers, list_state: NDArray[np.int32], n_states: int) -> NDArray[np.int32]:
    """The place of each state in each sorted list, int32[lists, S]; -1 if the list does not contain it."""
    place = np.full((len(list_start) - 1, n_states), -1, np.int32)
    of_cell = np.repeat(np.arange(len(place)), np.diff(list_start))
    place[of_cell, list_state] = np.arange(len(of_cell)) - list_start[:-1][of_cell]
    return place


def used_sets(set_of: NDArray[np.int32]) -> tuple[Integers, NDArray[np.int32]]:
    """The distinct sets of each row: where those of each row begin, and the sets."""
    used = [np.flatnonzero(np.bincount(row)) for row in set_of]
    return starts_of([len(row) for row in used]), np.concatenate([np.empty(0, np.int32), *used]).astype(
        np.int32
    )


def _compact(array: NDArray[Any]) -> NDArray[np.int32]:
    return np.ascontiguousarray(array, np.int32)
