"""Simple implementations of the LALR machine and of the stack automaton, which must agree.

What: `shift` and `takes` simulate the parser as Lark runs it; `kind_takes` reads the automaton of
`equivalence.lark.lalr.stacks` down one stack.
When: in tests, and to see what a machine does with a stack.
Limits: slow on purpose; if a parser reduces forever, this does not end.
"""

from __future__ import annotations

from collections.abc import Sequence

from equivalence.lark.lalr.machine import LalrMachine
from equivalence.lark.lalr.outcomes import DEAD, PASS, SHIFT_POPS
from equivalence.lark.lalr.stacks import StackAutomaton

Stack = tuple[int, ...]
"""States of the parser from the bottom to the top; the first is the start state."""


def shift(machine: LalrMachine, stack: Stack, terminal: int) -> Stack | None:
    """The stack after reductions and the shift of a terminal; None if the parser refuses it.

    Lark accepts by shifting the end of input. Then the top is a state that does not exist.
    """
    states = list(stack)
    while states[-1] < machine.n_states:
        action = int(machine.action[states[-1], terminal])
        if action == 0:
            return None
        if action > 0:
            return (*states, action - 1)
        rule = -action - 1
        del states[len(states) - int(machine.rule_length[rule]) :]
        states.append(int(machine.goto[states[-1], machine.rule_origin[rule]]))
    return None


def takes(machine: LalrMachine, stack: Stack, sequence: Sequence[int]) -> bool:
    """Whether the parser can shift all terminals of a sequence, one after another."""
    for terminal in sequence:
        after = shift(machine, stack, terminal)
        if after is None:
            return False
        stack = after
    return True


def kind_takes(automaton: StackAutomaton, kind: int, stack: Stack) -> bool:
    """Whether a stack accepts the sequences of a kind, according to the automaton."""
    cells = automaton.cells[automaton.cell_start[kind] : automaton.cell_start[kind + 1]].tolist()
    outcome = dict(cells).get(stack[-1], DEAD)
    place = len(stack) - 1
    while outcome > PASS:
        color, skipped = (outcome - 2) >> SHIFT_POPS, (outcome - 2) & ((1 << SHIFT_POPS) - 1)
        place -= skipped + 1
        number = automaton.color_list[color]
        states = automaton.list_state[automaton.list_start[number] : automaton.list_start[number + 1]]
        begin = int(automaton.color_start[color])
        outcome = int(automaton.color_outcome[begin + states.tolist().index(stack[place])])
    return outcome == PASS
