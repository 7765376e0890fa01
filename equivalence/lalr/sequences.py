"""Terminal sequences, numbered so that those that no stack tells apart share what was found for them.

What: a sequence is a terminal in front of a sequence, so the numbers are made from the end: of each pair
(terminal, number of the rest) once, whatever token or lexer state it came from. What becomes of a sequence on
each state on top of the stack is its row; where the stack is used up, the row names the sequence that is left
and what to pop first. Sequences with equal rows get the same number, and a rest that no stack takes ends the
work.
When: while the token classes of a Lark grammar are computed; `equivalence.lalr.stacks` then merges what
reading further down the stack cannot tell apart either.
Limits: a reduction that goes on without end is an error; sequences, bytes of tables and time are bounded.

Why from the end: 124,000 sequences of a Java grammar are 19,500 pairs and get 1,700 numbers. Running the trie
of all sequences on each state from the front, the first design, met the same rests again and again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equivalence.deadline import Deadline
from equivalence.errors import BudgetExceeded, UnsupportedGrammar
from equivalence.interning import _kernels as interning
from equivalence.lalr import _kernels
from equivalence.lalr._kernels import DEAD, PASS
from equivalence.lalr.machine import LalrMachine

__all__ = ["DEAD", "PASS", "SequenceTable"]

LONGEST_LOCAL = 1 << 14
"""States that a sequence may put on top of the known part of a stack."""

LONGEST_RULE = 1 << _kernels.SHIFT_POPS
"""Symbols on the right of a rule; what is popped below the state on top is one less."""

MOST_NONTERMINALS = 1 << (_kernels.SHIFT_REST - _kernels.SHIFT_POPS)

SLICE = 1 << 12
"""Sequences between two looks at the clock."""

WIDTHS = {"pairs": 3, "items": 3, "rows": 32, "lists": 32}
"""Integers of each list that is interned: exact for the first two, a guess for the others."""

BESIDE = {
    "pairs": (("pair_value", -1),),
    "rows": (("row_sequence", -1),),
    "lists": (),
    "items": (("status", 0), ("edge_start", 0)),
}
"""The arrays beside each kind of list, and what stands in them at first."""

FULL = {
    _kernels.FULL_PAIRS: "pairs",
    _kernels.FULL_ROWS: "rows",
    _kernels.FULL_LISTS: "lists",
    _kernels.FULL_ITEMS: "items",
    _kernels.FULL_CELLS: "outcome",
    _kernels.FULL_EDGES: "edge",
    _kernels.FULL_SEQUENCES: "first",
}
"""What each status says is full."""


class SequenceTable:
    """Numbers of terminal sequences, growing as sequences are asked for.

    Args:
        machine: the parser.
        max_sequences: bound of distinct sequences.
        max_bytes: bound of the tables; what only depends on the machine counts too.
        deadline: when to give up.
        initial: sequences that there is room for at first.

    Raises:
        UnsupportedGrammar: a rule, or the number of nonterminals, is too large for 64 bits to say what is
            pending.
        BudgetExceeded: the machine alone takes more than the bytes.
    """

    def __init__(
        self,
        machine: LalrMachine,
        max_sequences: int = 1 << 20,
        max_bytes: int = 1 << 30,
        deadline: Deadline | None = None,
        initial: int = 512,
    ) -> None:
        longest = int(machine.rule_length.max(initial=1))
        if longest > LONGEST_RULE:
            raise UnsupportedGrammar(
                f"the grammar has a rule of {longest} symbols, allowed are {LONGEST_RULE}; split it"
            )
        if machine.goto.shape[1] > MOST_NONTERMINALS:
            raise UnsupportedGrammar(
                f"the grammar has {machine.goto.shape[1]} nonterminals, allowed are {MOST_NONTERMINALS}"
            )
        self.machine = machine
        self.max_sequences, self.max_bytes = max_sequences, max_bytes
        self.deadline = deadline or Deadline()
        needed = bytes_beneath(machine)
        if needed > max_bytes:
            raise BudgetExceeded(
                f"{machine.n_states} states of the parser, with rules of up to {longest} symbols, take "
                f"{needed} bytes; allowed are {max_bytes}: shorten the longest rules, or raise the budget"
            )
        self.arrays = machine_arrays(machine, self.deadline)
        self._local = np.zeros(LONGEST_LOCAL, np.int32)
        room = max(min(initial, max_sequences), 1) + PASS + 1
        parts: dict[str, Any] = {
            "first": np.zeros(room, np.int32),
            "rest": np.zeros(room, np.int32),
            "row": np.zeros(room, np.int64),
            "outcome": np.zeros(64 * initial, np.int64),
            "cell": np.zeros(64 * initial, np.int64),
            "edge": np.zeros(64 * initial, np.int64),
            "counts": np.array([PASS + 1, 0, 0, 0], np.int64),
            "key": np.zeros(3 * machine.n_states + 4, np.int64),
        }
        for name, width in WIDTHS.items():
            parts[name] = interning.new_interned(2 * initial, width)
            for beside, fill in BESIDE[name]:
                parts[beside] = _room_beside(parts[name], beside, fill)
        self.tables: Any = _kernels.Tables(**parts)

    def numbers(self, texts: NDArray[np.int32], starts: NDArray[np.int64]) -> NDArray[np.int32]:
        """int32[n], the numbers of the sequences ``texts[starts[i]:starts[i + 1]]`` of terminals.

        The end of input may be the last terminal of a sequence only: nothing can be read after it.
        `DEAD` is the number of every sequence that no stack takes, `PASS` that of the empty one.

        Raises:
            BudgetExceeded: too many sequences or bytes, or too late.
            UnsupportedGrammar: the parser would reduce without end.
        """
        found: NDArray[np.int32] = np.zeros(len(starts) - 1, np.int32)
        done = 0
        while done < len(found):
            end = min(done + SLICE, len(found))
            status, done = _kernels.classify(
                texts, starts, done, end, self._local, self.arrays, self.tables, found
            )
            self.check_time(f"{done} of {len(found)} terminal sequences were classified")
            if status == _kernels.LOST:
                raise UnsupportedGrammar(
                    "the LALR parser of the grammar reduces without end on some text; "
                    "remove rules that derive themselves"
                )
            if status < 0:
                self._grow(FULL[status])
        return found

    def number(self, sequence: Iterable[int]) -> int:
        """The number of one sequence of terminals; see `numbers`."""
        text = np.fromiter(sequence, np.int32)
        return int(self.numbers(text, np.array([0, len(text)], np.int64))[0])

    def check_time(self, done: str) -> None:
        """Give up where the time is up; `done` says how far it went."""
        if self.deadline.is_over:
            raise self.deadline.error(f"the parser's part, when {done}")

    @property
    def n_sequences(self) -> int:
        """Distinct sequences so far, without `DEAD` and `PASS`."""
        return int(self.tables.counts[_kernels.N_SEQUENCES]) - PASS - 1

    @property
    def nbytes(self) -> int:
        """Bytes of the tables, and of what the machine takes."""
        return sum(map(_nbytes, self.tables)) + sum(map(_nbytes, self.arrays))

    def _grow(self, name: str) -> None:
        """Twice the room in a table, and in the arrays beside it."""
        tables = self.tables
        changes: dict[str, Any] = {}
        if name == "first":
            if self.n_sequences >= self.max_sequences:
                raise BudgetExceeded(
                    f"the grammar and the vocabulary have more than {self.n_sequences} distinct terminal "
                    f"sequences, allowed are {self.max_sequences}; raise the budget"
                )
            room = min(2 * tables.first.size, self.max_sequences + PASS + 1)
            changes = {part: _longer(getattr(tables, part), room) for part in ("first", "rest", "row")}
        elif name in WIDTHS:
            lists = getattr(tables, name)
            capacity = lists.starts.size - 2
            width = -(-lists.pool.size // capacity)
            if WIDTHS[name] == 3:
                capacity, width = 2 * capacity, 3
            elif 2 * int(lists.counts[0]) >= capacity:
                capacity *= 2
            else:
                width *= 2
            changes[name] = interning.grown_interned(lists, capacity, width)
            for beside, fill in BESIDE[name]:
                changes[beside] = _room_beside(changes[name], beside, fill)
                before = getattr(tables, beside)
                changes[beside][: before.size] = before
        else:
            array = getattr(tables, name)
            changes[name] = _longer(array, 2 * array.size)
            if name == "outcome":
                changes["cell"] = _longer(tables.cell, 2 * array.size)
        self.tables = tables._replace(**changes)
        if self.nbytes > self.max_bytes:
            raise BudgetExceeded(
                f"{self.n_sequences} terminal sequences take {self.nbytes} bytes, "
                f"allowed are {self.max_bytes}; raise the budget"
            )


def _room_beside(lists: Any, name: str, fill: int) -> NDArray[Any]:
    """An array beside interned lists, with room for as many and one more, for the end of `edge_start`."""
    kind = {"status": np.uint8, "edge_start": np.int64}.get(name, np.int32)
    return np.full(lists.starts.size + 1, fill, kind)


def _longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    longer = np.zeros(size, array.dtype)
    longer[: array.size] = array
    return longer


def _nbytes(part: Any) -> int:
    return sum(array.nbytes for array in part) if isinstance(part, tuple) else int(part.nbytes)


def machine_arrays(machine: LalrMachine, deadline: Deadline | None = None) -> Any:
    """The machine as its kernels read it."""
    action, goto = machine.action, machine.goto
    n_states, n_terminals = action.shape
    users = [np.flatnonzero(action[:, terminal]) for terminal in range(n_terminals)]
    place = np.full((n_terminals, n_states), -1, np.int32)
    for terminal, states in enumerate(users):
        place[terminal, states] = np.arange(len(states))
    starts = np.cumsum([0, *map(len, users)]).astype(np.int64)
    return _kernels.Machine(
        action, goto, machine.rule_length, machine.rule_origin, np.concatenate(users).astype(np.int32),
        starts, place, states_beneath(machine, deadline),
    )  # fmt: skip


def bytes_beneath(machine: LalrMachine) -> int:
    """Bytes of `states_beneath`."""
    depths = max(int(machine.rule_length.max(initial=1)), 1)
    return depths * machine.n_states * -(-machine.n_states // 8)


def states_beneath(machine: LalrMachine, deadline: Deadline | None = None) -> NDArray[np.uint8]:
    """uint8[D, S, ceil(S / 8)]: at [d, s] bit p says whether state p may lie d + 1 below state s.

    For all depths that a rule pops. In a stack each two neighbours are joined by a shift or a goto; that is
    all that is looked at, so more is said to be possible than the parser meets.
    """
    deadline = deadline or Deadline()
    n = machine.n_states
    joined: list[set[int]] = [set() for _ in range(n)]  # for each state, the neighbours below it
    for state in range(n):
        shifted = machine.action[state]
        for target in (shifted[(shifted > 0) & (shifted <= n)] - 1).tolist():
            joined[target].add(state)
        went = machine.goto[state]
        for target in went[went >= 0].tolist():
            joined[target].add(state)
    neighbours = [np.array(sorted(states), np.int64) for states in joined]
    depths = max(int(machine.rule_length.max(initial=1)), 1)
    beneath = np.zeros((depths, n, -(-n // 8)), np.uint8)
    for state, below in enumerate(neighbours):
        np.bitwise_or.at(beneath[0, state], below >> 3, (1 << (below & 7)).astype(np.uint8))
    for depth in range(1, depths):
        for state, below in enumerate(neighbours):
            if state % 256 == 0:
                deadline.check("the parser's part")
            np.bitwise_or.reduce(beneath[depth - 1, below], axis=0, out=beneath[depth, state])
    return beneath
