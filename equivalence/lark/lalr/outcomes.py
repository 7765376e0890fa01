"""Outcomes of a terminal sequence on a stack of which only the top is known, as integers.

What: an *outcome* is `DEAD`, `PASS` (shifted to its end), or pending: more of the stack is needed. A
pending outcome is the number of states to pop, the nonterminal to take from the state below them, and the
rest of the sequence to read then, in one integer. An *edge* is `DEAD`, `PASS`, or the number of
states to pop and the item that follows (`equivalence.lark.lalr.items`).
When: wherever `equivalence.lark.lalr` reads or writes one.
Limits: 12 bits for the pops, 20 for the nonterminal, and the bits above for the rest; `SequenceTable`
refuses larger numbers.

Compiled modules use `outcomes.pxd`, which has the same numbers, and the functions.
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
