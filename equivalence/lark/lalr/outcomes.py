"""What becomes of a terminal sequence on a stack of which the top is known, as integers.

What: an *outcome* is `DEAD`, `PASS` (shifted to its end), or that more of the stack is needed: so many
states to pop, the nonterminal to go by on the state below them, and the rest of the sequence to read then,
in one integer (`pending`). An *edge* is `DEAD`, `PASS`, or so many states to pop and the item to go on with
(`equivalence.lark.lalr.items`).
When: wherever `equivalence.lark.lalr` reads or writes one.
Limits: 12 bits for the pops, 20 for the nonterminal, the rest of the sequence above: `SequenceTable` refuses
what has more.

Compiled modules take all of it from `outcomes.pxd`, where a call costs nothing; this is the same for modules
that run as plain Python.
"""

from __future__ import annotations

DEAD, PASS = 0, 1
"""Outcomes and edges, and the numbers of the sequence that no stack takes and of the empty one."""

NEVER, ALWAYS = -1, -2
"""The kinds of the sequence that no stack takes, and of the one that every stack takes."""

SHIFT_POPS, SHIFT_REST = 12, 32
"""Where the nonterminal (or the item) begins in an integer, and where the rest does."""

CAN_DIE, CAN_PASS = 1, 2
"""What is said of an item, bit by bit."""

MOST_REDUCTIONS = 1 << 20
"""Reductions in a row, without a terminal shifted, after which a parser is taken to go on without end."""


def pending(pops: int, nonterminal: int, rest: int) -> int:
    """The outcome that says what is pending."""
    return int(rest) << SHIFT_REST | int(nonterminal) << SHIFT_POPS | int(pops)


def pops_of(outcome: int) -> int:
    """States to pop."""
    return outcome & ((1 << SHIFT_POPS) - 1)


def nonterminal_of(outcome: int) -> int:
    """The nonterminal to go by."""
    return outcome >> SHIFT_POPS & ((1 << (SHIFT_REST - SHIFT_POPS)) - 1)


def rest_of(outcome: int) -> int:
    """The number of the sequence to read then."""
    return outcome >> SHIFT_REST


def edge_to(item: int, pops: int) -> int:
    """The edge that says: pop so many states, then the item."""
    return (int(item) << SHIFT_POPS | int(pops)) + 2


def item_after(edge: int) -> int:
    """The item that an edge leads to."""
    return edge - 2 >> SHIFT_POPS
