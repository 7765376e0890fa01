"""Terminal sequences, numbered so that sequences which no stack distinguishes share their results.

What: a sequence is a terminal followed by a sequence, so numbers are computed from the end, once for each
pair (terminal, number of the rest), whatever token or lexer state it comes from. The row of a sequence says
what happens on each state on top of the stack. If the known stack ends, the row names the rest of the
sequence, and what to pop first. Sequences with equal rows get the same number. If no stack accepts a rest,
the work ends there.
When: while the token classes of a Lark grammar are computed. Then `equivalence.lark.lalr.stacks` merges
sequences that reading further down the stack cannot distinguish, either.
Limits: a reduction that goes on forever is an error; sequences, bytes of tables and time are bounded.

124,000 sequences of a Java grammar are 19,500 pairs and get 1,700 numbers.

Rejected: running the trie of all sequences on each state from the front. It runs the same rests again and
again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from equivalence.deadline import Deadline
from equivalence.errors import BudgetExceeded, UnsupportedGrammar
from equivalence.lark.lalr.machine import LalrMachine
from equivalence.lark.lalr.outcomes import PASS, SHIFT_POPS, SHIFT_REST
from equivalence.lark.lalr.sequence_numbers import SequenceNumbers

LONGEST_RULE = 1 << SHIFT_POPS
"""Most symbols on the right of a rule. A reduction pops one state less below the state on top."""

MOST_NONTERMINALS = 1 << (SHIFT_REST - SHIFT_POPS)

PHASE = "the parser's part"
"""The name of this computation in errors."""

Integers = NDArray[np.int64]


class SequenceTable:
    """Numbers of terminal sequences; it grows on demand.

    Args:
        machine: the parser; its numbers are not checked.
        max_sequences: most distinct sequences.
        max_bytes: most bytes of the tables, including those that depend only on the machine.
        deadline: when to give up.
        initial: sequences that fit at first.

    Raises:
        UnsupportedGrammar: a rule, or the number of nonterminals, is too large to write a pending outcome
            with 64 bits.
        BudgetExceeded: the machine alone takes more bytes than allowed.
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
                f"the grammar has {machine.goto.shape[1]} nonterminals, but the limit is "
                f"{MOST_NONTERMINALS}; use fewer rules"
            )
        self.machine = machine
        self.deadline = deadline or Deadline()
        needed = bytes_beneath(machine)
        if needed > max_bytes:
            raise BudgetExceeded(
                f"{machine.n_states} states of the parser, with rules of up to {longest} symbols, need "
                f"{needed} bytes, but the limit is {max_bytes}; shorten the longest rules, or raise "
                "Budget.bytes"
            )
        self.sequence_numbers = SequenceNumbers(
            machine,
            states_beneath(machine, self.deadline),
            initial,
            max_sequences,
            f"terminal sequences need more than {max_bytes} bytes; raise Budget.bytes",
        )
        self.sequence_numbers.bound(max_bytes)

    def before(self, terminals: NDArray[np.integer[Any]], rests: NDArray[np.int32]) -> NDArray[np.int32]:
        """The number of each terminal followed by the sequence of a number, int32[n].

        `DEAD` is the number of every sequence that no stack accepts, `PASS` that of the empty one.

        Raises:
            BudgetExceeded: too many sequences or bytes, or the time ran out.
            UnsupportedGrammar: the parser would reduce forever.
        """
        found = np.empty(len(rests), np.int32)
        with self.deadline.stopping(PHASE) as stop:
            self.sequence_numbers.find(terminals.astype(np.int32), rests, found, stop)
        return found

    def numbers(
        self, texts: NDArray[np.int32], begin: Integers, end: Integers, rests: NDArray[np.int32] | None = None
    ) -> NDArray[np.int32]:
        """The numbers of the sequences ``texts[begin[i]:end[i]]`` of terminals, followed by `rests` (default:
        nothing), int32[n].

        Only the last terminal of a sequence may be the end of input, because nothing can be read after it.

        Raises:
            BudgetExceeded, UnsupportedGrammar: see `before`.
        """
        found = np.full(len(begin), PASS, np.int32) if rests is None else rests
        end = end.copy()
        while (left := np.flatnonzero(end > begin)).size:
            end[left] -= 1
            found[left] = self.before(texts[end[left]], found[left])
        return found


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
    shifting, terminals = np.nonzero((machine.action > 0) & (machine.action <= n))
    going, nonterminals = np.nonzero(machine.goto >= 0)
    above = np.concatenate([machine.action[shifting, terminals] - 1, machine.goto[going, nonterminals]])
    order = np.argsort(above)
    below = np.concatenate([shifting, going])[order]
    neighbours = np.split(below, np.searchsorted(above[order], np.arange(1, n)))
    depths = max(int(machine.rule_length.max(initial=1)), 1)
    beneath = np.zeros((depths, n, -(-n // 8)), np.uint8)
    np.bitwise_or.at(beneath[0], (above[order], below >> 3), (1 << (below & 7)).astype(np.uint8))
    for depth in range(1, depths):
        for state, lower in enumerate(neighbours):
            if state % 256 == 0:
                deadline.check(PHASE)
            np.bitwise_or.reduce(beneath[depth - 1, lower], axis=0, out=beneath[depth, state])
    return beneath
