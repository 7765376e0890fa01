"""Outcomes of a terminal sequence on a stack of which only the top is known, as integers.

What: an *outcome* is `DEAD`, `PASS` (shifted to its end), or pending: more of the stack is needed. A
pending outcome is the number of states to pop, the nonterminal to take from the state below them, and the
rest of the sequence to read then, in one integer (`pending`). An *edge* is `DEAD`, `PASS`, or the number of
states to pop and the item that follows (`equivalence.lark.lalr.items`).
When: wherever `equivalence.lark.lalr` reads or writes one.
Limits: 12 bits for the pops, 20 for the nonterminal, and the bits above for the rest; `SequenceTable`
refuses larger numbers.

Compiled modules use `outcomes.pxd` instead, where a call costs nothing; this is the same for modules in
plain Python.
"""

from __future__ import annotations

DEAD, PASS = 0, 1
"""Outcomes and edges; also the numbers of the sequence that no stack accepts, and of the empty one."""

NEVER, ALWAYS = -1, -2
"""The kinds of the sequence that no stack accepts, and of the one that every stack accepts."""

SHIFT_POPS, SHIFT_REST = 12, 32
"""The bit where the nonterminal (or the item) begins, and the bit where the rest begins."""

CAN_DIE, CAN_PASS = 1, 2
"""The bits of an item's status."""

MOST_REDUCTIONS = 1 << 20
"""A parser that reduces this many times in a row without shifting is assumed to do so forever."""


def pending(pops: int, nonterminal: int, rest: int) -> int:
    """The outcome for something pending."""
    return int(rest) << SHIFT_REST | int(nonterminal) << SHIFT_POPS | int(pops)


def pops_of(outcome: int) -> int:
    """States to pop."""
    return outcome & ((1 << SHIFT_POPS) - 1)


def nonterminal_of(outcome: int) -> int:
    """The nonterminal to take."""
    return outcome >> SHIFT_POPS & ((1 << (SHIFT_REST - SHIFT_POPS)) - 1)


def rest_of(outcome: int) -> int:
    """The number of the sequence to read then."""
    return outcome >> SHIFT_REST


def edge_to(item: int, pops: int) -> int:
    """The edge that pops a number of states and leads to an item."""
    return (int(item) << SHIFT_POPS | int(pops)) + 2


def item_after(edge: int) -> int:
    """The item that an edge leads to."""
    return edge - 2 >> SHIFT_POPS
