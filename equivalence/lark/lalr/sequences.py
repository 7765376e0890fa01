"""Terminal sequences, numbered so that sequences which no stack distinguishes share their results.

What: a sequence is a terminal followed by a sequence, so numbers are computed from the end, once for each
pair (terminal, number of the rest), whatever token or lexer state it comes from. The row of a sequence says
what happens on each state on top of the stack. If the known stack ends, the row names the rest of the
sequence, and what to pop first. Sequences with equal rows get the same number. If no stack accepts a rest,
the work ends there.
When: while the token classes of a Lark grammar are computed. Then `equivalence.lark.lalr.stacks` merges
sequences that reading further down the stack cannot distinguish, either.
Limits: a reduction that goes on forever is an error; sequences, bytes of tables and time are bounded.

Why from the end: 124,000 sequences of a Java grammar are 19,500 pairs and get 1,700 numbers. The first
design ran the trie of all sequences on each state from the front, and ran the same rests again and again.
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
"""Most symbols on the right of a rule. A reduction pops one state less below the state on top."""

MOST_NONTERMINALS = 1 << (SHIFT_REST - SHIFT_POPS)

SLICE = 1 << 12
"""Progress is recorded after this many sequences."""


class SequenceTable:
    """Numbers of terminal sequences; it grows on demand.

    Args:
        machine: the parser.
        max_sequences: most distinct sequences.
        max_bytes: most bytes of the tables, including those that depend only on the machine.
        deadline: when to give up.
        initial: sequences that fit at first.

    Raises:
        UnsupportedGrammar: a rule, or the number of nonterminals, is too large to write a pending outcome
            with 64 bits.
        BudgetExceeded: the machine alone takes more bytes than allowed.
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
                f"the grammar has a rule of {longest} symbols, but the limit is {LONGEST_RULE}; split it"
            )
        if machine.goto.shape[1] > MOST_NONTERMINALS:
            raise UnsupportedGrammar(
                f"the grammar has {machine.goto.shape[1]} nonterminals, but the limit is {MOST_NONTERMINALS}"
            )
        _check_ranges(machine)
        self.machine = machine
        self.deadline = deadline or Deadline()
        needed = bytes_beneath(machine)
        if needed > max_bytes:
            raise BudgetExceeded(
                f"{machine.n_states} states of the parser, with rules of up to {longest} symbols, need "
                f"{needed} bytes, but the limit is {max_bytes}; shorten the longest rules, or raise "
                "Budget.bytes"
            )
        self.numbering = Numbering(
            machine,
            states_beneath(machine, self.deadline),
            initial,
            max_sequences,
            f"terminal sequences need more than {max_bytes} bytes; raise Budget.bytes",
        )
        self.numbering.bound(max_bytes)

    def numbers(self, texts: NDArray[np.int32], starts: NDArray[np.int64]) -> NDArray[np.int32]:
        """The numbers of the sequences ``texts[starts[i]:starts[i + 1]]`` of terminals, int32[n].

        Only the last terminal of a sequence may be the end of input, because nothing can be read after it.
        `DEAD` is the number of every sequence that no stack accepts, `PASS` that of the empty one.

        Raises:
            BudgetExceeded: too many sequences or bytes, or the time ran out.
            UnsupportedGrammar: the parser would reduce forever.
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
        """Raise if the deadline has passed; `done` says what was done before."""
        if self.deadline.is_over:
            raise self.deadline.error(f"the parser's part, when {done}")

    @property
    def n_sequences(self) -> int:
        """Distinct sequences so far, without `DEAD` and `PASS`."""
        return self.numbering.count

    @property
    def nbytes(self) -> int:
        """Bytes of the tables, including those of the machine."""
        return self.numbering.nbytes


def _progress(done: int, count: int) -> str:
    return f"the parser's part, when {done} of {count} terminal sequences were classified"


def bytes_beneath(machine: LalrMachine) -> int:
    """Bytes of `states_beneath`."""
    depths = max(int(machine.rule_length.max(initial=1)), 1)
    return depths * machine.n_states * -(-machine.n_states // 8)


def states_beneath(machine: LalrMachine, deadline: Deadline | None = None) -> NDArray[np.uint8]:
    """uint8[D, S, ceil(S / 8)]: at [d, s] bit p says whether state p may lie d + 1 below state s.

    D covers all depths that a rule pops. In a stack, a shift or a goto connects any two neighbours. Nothing
    else is considered, so this allows more than occurs in the parser.
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
            raise ValueError(f"the parser's {name} has numbers outside the range from {least} to {bound - 1}")
    if machine.goto.shape[0] != n_states or len(machine.rule_origin) != n_rules:
        raise ValueError("the parser's tables are not of one size")
