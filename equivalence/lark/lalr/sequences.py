"""Terminal sequences, numbered so that those that no stack tells apart share what was found for them.

What: a sequence is a terminal in front of a sequence, so the numbers are made from the end: of each pair
(terminal, number of the rest) once, whatever token or lexer state it came from. What becomes of a sequence on
each state on top of the stack is its row; where the stack is used up, the row names the sequence that is left
and what to pop first. Sequences with equal rows get the same number, and a rest that no stack takes ends the
work.
When: while the token classes of a Lark grammar are computed; `equivalence.lark.lalr.stacks` then merges what
reading further down the stack cannot tell apart either.
Limits: a reduction that goes on without end is an error; sequences, bytes of tables and time are bounded.

Why from the end: 124,000 sequences of a Java grammar are 19,500 pairs and get 1,700 numbers. Running the trie
of all sequences on each state from the front, the first design, met the same rests again and again.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from equivalence.deadline import Deadline
from equivalence.errors import BudgetExceeded, UnsupportedGrammar
from equivalence.lark.lalr.machine import LalrMachine
from equivalence.lark.lalr.numbering import Numbering
from equivalence.lark.lalr.outcomes import DEAD, PASS, SHIFT_POPS, SHIFT_REST

__all__ = ["DEAD", "PASS", "SequenceTable"]

LONGEST_RULE = 1 << SHIFT_POPS
"""Symbols on the right of a rule; what is popped below the state on top is one less."""

MOST_NONTERMINALS = 1 << (SHIFT_REST - SHIFT_POPS)

SLICE = 1 << 12
"""Sequences after which it is noted how many are done."""


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
        ValueError: a number in the machine is out of its range.
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
        _check_ranges(machine)
        self.machine = machine
        self.deadline = deadline or Deadline()
        needed = bytes_beneath(machine)
        if needed > max_bytes:
            raise BudgetExceeded(
                f"{machine.n_states} states of the parser, with rules of up to {longest} symbols, take "
                f"{needed} bytes; allowed are {max_bytes}: shorten the longest rules, or raise the budget"
            )
        self.numbering = Numbering(
            machine,
            states_beneath(machine, self.deadline),
            initial,
            max_sequences,
            f"terminal sequences take more bytes than the {max_bytes} that are allowed; raise the budget",
        )
        self.numbering.bound(max_bytes)

    def numbers(self, texts: NDArray[np.int32], starts: NDArray[np.int64]) -> NDArray[np.int32]:
        """int32[n], the numbers of the sequences ``texts[starts[i]:starts[i + 1]]`` of terminals.

        The end of input may be the last terminal of a sequence only: nothing can be read after it.
        `DEAD` is the number of every sequence that no stack takes, `PASS` that of the empty one.

        Raises:
            BudgetExceeded: too many sequences or bytes, or too late.
            UnsupportedGrammar: the parser would reduce without end.
            ValueError: there is no such terminal, or a sequence is not within the texts.
        """
        found: NDArray[np.int32] = np.zeros(len(starts) - 1, np.int32)
        for done in range(0, len(found), SLICE):
            end = min(done + SLICE, len(found))
            with self.deadline.stopping(_progress(done, len(found))) as stop:
                self.numbering.find(texts, starts[done : end + 1], found[done:end], stop)
        self.check_time(f"{len(found)} terminal sequences were classified")
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
        return self.numbering.count

    @property
    def nbytes(self) -> int:
        """Bytes of the tables, and of what the machine takes."""
        return self.numbering.nbytes


def _progress(done: int, count: int) -> str:
    return f"the parser's part, when {done} of {count} terminal sequences were classified"


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


def _check_ranges(machine: LalrMachine) -> None:
    """Refuse numbers that lead out of the tables."""
    n_states = machine.action.shape[0]
    n_rules, n_nonterminals = len(machine.rule_length), machine.goto.shape[1]
    for name, values, least, bound in (
        ("action", machine.action, -n_rules, n_states + 2),
        ("goto", machine.goto, -1, n_states),
        ("rule_length", machine.rule_length, 0, 1 << 31),
        ("rule_origin", machine.rule_origin, 0, n_nonterminals),
    ):
        if values.size and not least <= int(values.min()) <= int(values.max()) < bound:
            raise ValueError(f"the parser's {name} has numbers outside of {least} to {bound - 1}")
    if machine.goto.shape[0] != n_states or len(machine.rule_origin) != n_rules:
        raise ValueError("the parser's tables are not of one size")
