"""The states of frames: what lies on a stack is a state to return to, or a counted rule under way.

What: a frame's state is that of an automaton, or, below 0, a code of counted rule k: `counting` makes it,
`unit_of` and `relative_of` read it. Relative counts begin where a context does: what was read before them is
unknown.
When: whoever makes or reads frames (`equivalence.parser.stacks`).
Limits: -1 is no state and no code.

Compiled modules take the functions from `frames.pxd`, where a call of them costs nothing.
"""

from __future__ import annotations


def counting(unit: int, relative: int) -> int:
    """The state of the frame of a counted rule; `relative` is 1 where its count is, and 0 elsewhere."""
    return -2 - (2 * unit + relative)


def unit_of(state: int) -> int:
    """The counted rule of a frame whose state is below 0."""
    return (-2 - state) >> 1


def relative_of(state: int) -> int:
    """Whether the count of a frame whose state is below 0 is relative, 1 or 0."""
    return (-2 - state) & 1
