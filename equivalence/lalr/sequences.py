"""Terminal sequences, numbered so that those that no stack tells apart share what was found for them.

What: a sequence is a terminal in front of a sequence, so the numbers are made from the end: of each pair
(terminal, number of the rest) once, whatever token or lexer state it came from. What becomes of a sequence on
each state on top of the stack is its row; where the stack is used up, the row names the sequence that is left
and what to pop first. Sequences with equal rows get the same number, and a rest that no stack takes ends the work.
When: while the token classes of a Lark grammar are computed; `equivalence.lalr.stacks` then merges what reading
further down the stack cannot tell apart either.
Limits: a reduction that goes on without end is an error; bounded by `capacity` sequences and bytes of tables.

Why from the end: 12,020 sequences of a Java grammar have 5,166 pairs and 1,920 rows, found in 65 ms. Running the
trie of all sequences on each state from the front, the first design, met the same rests again and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equivalence.errors import BudgetExceeded, UnsupportedGrammar
from equivalence.interning import _kernels as interning
from equivalence.lalr import _kernels
from equivalence.lalr._kernels import DEAD, PASS
from equivalence.lalr.machine import LalrMachine

LONGEST_LOCAL = 1 << 14
"""States that a sequence may put on top of the known part of a stack."""


def machine_arrays(machine: LalrMachine) -> Any:
    """The machine as its kernels read it."""
    action, goto = machine.action, machine.goto
    n_states, n_terminals = action.shape
    users = [np.flatnonzero(action[:, terminal]) for terminal in range(n_terminals)]
    place = np.full((n_terminals, n_states), -1, np.int32)
    for terminal, states in enumerate(users):
        place[terminal, states] = np.arange(len(states))
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(states) for states in users])])
    return _kernels.Machine(
        action, goto, machine.rule_length, machine.rule_origin, np.concatenate(users).astype(np.int32),
        starts.astype(np.int64), place, states_beneath(machine),
    )  # fmt: skip


def states_beneath(machine: LalrMachine) -> NDArray[np.bool_]:
    """bool[D, S, S]: whether state p may lie d + 1 below state s, for all depths that a rule pops."""
    n = machine.n_states
    below = np.zeros((n, n), np.bool_)
    for state in range(n):
        shifted = machine.action[state]
        below[shifted[(shifted > 0) & (shifted <= n)] - 1, state] = True
        went = machine.goto[state]
        below[went[went >= 0], state] = True
    depths = max(int(machine.rule_length.max(initial=1)), 1)
    found = [below]
    for _ in range(depths - 1):
        found.append((found[-1].astype(np.float32) @ below.astype(np.float32)) > 0)
    return np.stack(found)


class SequenceTable:
    """Numbers of terminal sequences, growing as sequences are asked for.

    Args:
        machine: the parser.
        max_sequences: bound of distinct sequences.
        max_bytes: bound of the tables.
    """

    def __init__(
        self, machine: LalrMachine, max_sequences: int = 1 << 20, max_bytes: int = 1 << 30
    ) -> None:
        self.machine = machine
        self.arrays = machine_arrays(machine)
        self.max_sequences, self.max_bytes = max_sequences, max_bytes
        self._local = np.zeros(LONGEST_LOCAL, np.int32)
        n_states, n_nonterminals = machine.goto.shape
        depths = len(self.arrays.beneath)

        def lists(capacity: int, width: int) -> Any:
            return interning.new_interned(capacity, width)

        self.tables: Any = _kernels.Tables(
            np.zeros(512, np.int32), np.zeros(512, np.int32), np.zeros(512, np.int64), np.zeros(1 << 15, np.int64),
            lists(1024, 2), np.full(1024, -1, np.int32), lists(512, 64), np.full(512, -1, np.int32),
            lists(512, 64), np.full(512, -1, np.int32), lists(128, 32),
            np.full((depths, n_states, n_nonterminals), -1, np.int32), lists(1024, 3), np.zeros(1024, np.uint8),
            np.zeros(1026, np.int64), np.zeros(1 << 15, np.int64), np.array([2, 0, 0, 0], np.int64),
            np.zeros(2 * n_states + 4, np.int64),
        )  # fmt: skip

    def numbers(self, texts: NDArray[np.int32], starts: NDArray[np.int64]) -> NDArray[np.int32]:
        """int32[n], the numbers of the sequences ``texts[starts[i]:starts[i + 1]]`` of terminals.

        `DEAD` is the number of every sequence that no stack takes, `PASS` that of the empty one.

        Raises:
            BudgetExceeded: too many sequences, or bytes.
            UnsupportedGrammar: the parser would reduce without end.
        """
        found: NDArray[np.int32] = np.zeros(len(starts) - 1, np.int32)
        done = 0
        while done < len(found):
            status, done = _kernels.classify(
                texts, starts, done, self._local, self.arrays, self.tables, found
            )
            if status == _kernels.LOST:
                raise UnsupportedGrammar(
                    "the LALR parser of the grammar reduces without end on some text; "
                    "remove rules that derive themselves"
                )
            if status == _kernels.FULL:
                self._grow()
        return found

    def number(self, sequence: Iterable[int]) -> int:
        """The number of one sequence of terminals; see `numbers`."""
        text = np.fromiter(sequence, np.int32)
        return int(self.numbers(text, np.array([0, len(text)], np.int64))[0])

    @property
    def nbytes(self) -> int:
        """Bytes of the tables."""
        total = 0
        for part in self.tables:
            total += sum(array.nbytes for array in part) if isinstance(part, tuple) else part.nbytes
        return total

    def _grow(self) -> None:
        """Twice the room in every table that is half full."""
        tables, counts = self.tables, self.tables.counts
        if counts[_kernels.N_SEQUENCES] > self.max_sequences or 2 * self.nbytes > self.max_bytes:
            raise BudgetExceeded(
                f"{counts[_kernels.N_SEQUENCES]} terminal sequences in {self.nbytes} bytes, allowed are "
                f"{self.max_sequences} in {self.max_bytes}; raise the budget"
            )
        n = int(counts[_kernels.N_SEQUENCES])
        changes: dict[str, Any] = {}
        if 2 * n > tables.first.size - 4:
            for name in ("first", "rest", "row"):
                changes[name] = _longer(getattr(tables, name))
        if 2 * int(counts[_kernels.N_CELLS]) > tables.outcome.size - 4 * len(self.machine.action):
            changes["outcome"] = _longer(tables.outcome)
        if 2 * int(counts[_kernels.N_EDGES]) > tables.edge.size - 4 * len(self.machine.action):
            changes["edge"] = _longer(tables.edge)
        for name, beside in (
            ("known", ("known_sequence",)), ("raw", ("raw_sequence",)), ("plain", ("plain_sequence",)),
            ("lists", ()), ("items", ("status", "edge_start")),
        ):  # fmt: skip
            table = getattr(tables, name)
            lists, cells = table.counts.tolist()
            capacity, room = table.starts.size - 2, table.pool.size
            if 2 * lists > capacity or 2 * cells > room - 2 * len(self.machine.action):
                larger = 2 * capacity if 2 * lists > capacity else capacity
                wide = 2 * room if 2 * cells > room - 2 * len(self.machine.action) else room
                changes[name] = interning.grown_interned(table, larger, wide // larger + 1)
                for array in beside:
                    longer = _longer(getattr(tables, array), larger + 2 * (array == "edge_start"))
                    changes[array] = longer
        self.tables = tables._replace(**changes)


def _longer(array: NDArray[Any], size: int = 0) -> NDArray[Any]:
    """The same array with room for `size` elements, or twice its own; what is new is -1 where that has a meaning."""
    longer = np.full(max(size, 2 * array.size) if size == 0 else max(size, array.size), -1, array.dtype) \
        if array.dtype == np.int32 else np.zeros(size or 2 * array.size, array.dtype)
    longer[: array.size] = array
    return longer


__all__ = ["DEAD", "PASS", "Sequence", "SequenceTable", "machine_arrays", "states_beneath"]
