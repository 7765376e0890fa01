"""Transducers over kinds of characters: drop dead states, emit early, merge states.

What: `Transducer` is a plain table. `tabulate` makes one, without steps to states from which no text can end
well. `advance_emissions` moves emissions that all texts from a state have in common to the steps into it.
`merge` joins states that no text distinguishes.
When: in this order, after `equivalence.lark.lexer.continuations`, whose sets also distinguish states.
Limits: none; whole rows are compared.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.arrays.closure import close_backwards
from equivalence.arrays.refinement import classes_of
from equivalence.deadline import Deadline
from equivalence.lark.lexer.lexeme_transducer import LexemeTransducer, Terminals

PHASE = "the lexer's merging of states"

Continuations = tuple[Terminals, ...]


class Transducer(NamedTuple):
    """S states, K kinds. `sequences` numbers the sequences of terminals; 0 is the empty one.

    Attributes:
        step: int32[S, K], next state or -1.
        emitted: int32[S, K], what the step emits; 0 if the step is -1.
        at_end: int32[S], what is emitted at the end of the text; -1: dead.
        sequences: the sequences.
        continuations: for each state, the set that `equivalence.lark.lexer.continuations` defines; () before.
    """

    step: NDArray[np.int32]
    emitted: NDArray[np.int32]
    at_end: NDArray[np.int32]
    sequences: list[Terminals]
    continuations: list[Continuations]


def tabulate(transducer: LexemeTransducer) -> Transducer:
    """The table of all explored states. Dead states are in it, but no step leads to them."""
    sequences: dict[Terminals, int] = {(): 0}
    n_states, n_kinds = len(transducer.places), transducer.lexemes.kinds.number
    step = np.full((n_states, n_kinds), -1, np.int32)
    emitted = np.zeros((n_states, n_kinds), np.int32)
    at_end = np.full(n_states, -1, np.int32)
    before: list[set[int]] = [set() for _ in range(n_states)]
    for state in range(n_states):
        row = transducer.row(state)
        step[state] = [-1 if one is None else one.state for one in row]
        for target in {one.state for one in row if one is not None}:
            before[target].add(state)
        emitted[state] = [
            0 if one is None or not one.terminals else sequences.setdefault(one.terminals, len(sequences))
            for one in row
        ]
        end = transducer.at_end[state]
        if end is not None:
            at_end[state] = sequences.setdefault(end.terminals, len(sequences))
    live: list[bool] = (at_end >= 0).tolist()
    close_backwards(live, before)
    dead = (step < 0) | ~np.array(live)[step]
    step[dead] = -1
    emitted[dead] = 0
    return Transducer(step, emitted, at_end, list(sequences), [()] * n_states)


def common_prefix(one: Terminals, other: Terminals) -> Terminals:
    """The longest sequence with which both begin."""
    length = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        length += 1
    return one[:length]


def advance_emissions(machine: Transducer, deadline: Deadline) -> Transducer:
    """Emit as early as possible: each step emits what all texts from there on would emit first.

    The continuations of a state lose what was emitted before it; a continuation that was emitted completely
    becomes empty.
    """
    n_states, n_sequences = len(machine.step), len(machine.sequences)
    states, kinds = np.nonzero(machine.step >= 0)
    keys = states * n_sequences + machine.emitted[states, kinds]
    distinct, place = np.unique(keys * n_states + machine.step[states, kinds], return_inverse=True)
    steps = [
        (key // n_states // n_sequences, machine.sequences[key // n_states % n_sequences], key % n_states)
        for key in distinct.tolist()
    ]
    edges: list[list[tuple[Terminals, int]]] = [[] for _ in range(n_states)]
    before: list[set[int]] = [set() for _ in range(n_states)]
    for source, terminals, target in steps:
        edges[source].append((terminals, target))
        before[target].add(source)
    ends = [None if number < 0 else machine.sequences[number] for number in machine.at_end.tolist()]
    prefix: list[Terminals | None] = [None] * n_states  # None: not known yet, any sequence
    pending = list(range(n_states))
    waiting = [True] * n_states
    while pending:
        state = pending.pop()
        deadline.check(PHASE)
        waiting[state] = False
        found = ends[state]
        for terminals, target in edges[state]:
            ahead = prefix[target]
            if ahead is not None:
                whole = terminals + ahead
                found = whole if found is None else common_prefix(found, whole)
            if found == ():
                break
        if found != prefix[state]:
            prefix[state] = found
            for source in before[state]:
                if not waiting[source] and prefix[source] != ():
                    waiting[source] = True
                    pending.append(source)
    prefix[0] = ()  # nothing can be emitted before the text begins
    early: list[Terminals] = [one or () for one in prefix]
    if not any(early):
        return machine
    sequences: dict[Terminals, int] = {(): 0}
    renamed = []
    for source, terminals, target in steps:
        rest = (terminals + early[target])[len(early[source]) :]
        renamed.append(sequences.setdefault(rest, len(sequences)))
    emitted = np.zeros_like(machine.emitted)
    emitted[states, kinds] = np.array(renamed, np.int32)[place]
    at_end = machine.at_end.copy()
    for state, end in enumerate(ends):
        if end is not None:
            rest = end[len(early[state]) :]
            at_end[state] = sequences.setdefault(rest, len(sequences))
    continuations = [
        tuple(sorted({one[len(gone) :] for one in some})) if gone else some
        for some, gone in zip(machine.continuations, early, strict=True)
    ]
    return Transducer(machine.step, emitted, at_end, list(sequences), continuations)


def merge(machine: Transducer, deadline: Deadline) -> Transducer:
    """The smallest transducer with the same steps, emissions, ends and continuations; state 0 stays first."""
    classes = _classes(machine, deadline)
    reached, order = {0}, [0]
    chosen = np.unique(classes, return_index=True)[1].astype(np.int32)  # one state of each class
    chosen[classes[0]] = 0
    for state in order:  # breadth first, so that numbers do not depend on the order of discovery
        for target in machine.step[state].tolist():
            if target >= 0:
                target = int(chosen[classes[target]])
                if target not in reached:
                    reached.add(target)
                    order.append(target)
    position = np.full(len(classes), -1, np.int32)
    position[classes[order]] = np.arange(len(order))
    number = position[classes]
    step = machine.step[order]
    return Transducer(
        np.where(step >= 0, number[step], -1).astype(np.int32),
        machine.emitted[order],
        machine.at_end[order],
        machine.sequences,
        [machine.continuations[state] for state in order],
    )


def _classes(machine: Transducer, deadline: Deadline) -> NDArray[np.int64]:
    """The class of each state."""
    numbers: dict[object, int] = {}
    colors = []
    for state, end in enumerate(machine.at_end.tolist()):
        key = (end, machine.continuations[state], machine.emitted[state].tobytes())
        colors.append(numbers.setdefault(key, len(numbers)))
    states, kinds = np.nonzero(machine.step >= 0)
    edges = np.column_stack([kinds, kinds, machine.step[states, kinds]]).astype(np.int64)
    starts = np.searchsorted(states, np.arange(len(colors) + 1)).astype(np.int64)
    return classes_of(starts, edges, colors, lambda: deadline.check(PHASE))
