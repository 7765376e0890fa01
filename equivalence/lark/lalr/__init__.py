"""The LALR parser of a Lark grammar, and terminal sequences classified by the stacks that accept them."""

from equivalence.lark.lalr.machine import END, LalrMachine, may_follow, read_machine
from equivalence.lark.lalr.sequences import SequenceTable
from equivalence.lark.lalr.stacks import StackAutomaton, stack_automaton

__all__ = [
    "END",
    "LalrMachine",
    "SequenceTable",
    "StackAutomaton",
    "may_follow",
    "read_machine",
    "stack_automaton",
]
