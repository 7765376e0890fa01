"""The states of frames: a state to return to, or a counted rule that has begun.

What: the state of a frame is a state of an automaton, or a negative code for counted rule k. `counting` makes
the code; `unit_of` and `relative_of` read it. The count of a frame is *relative* if units may have been read
before the known part of the stack begins.
When: used where frames are made or read (`equivalence.parser.stacks`).
Limits: -1 is neither a state nor a code.

Compiled modules use the inline functions of `frames.pxd`.
"""

from __future__ import annotations


def counting(unit: int, relative: int) -> int:
    """The state of a counted rule's frame; `relative` is 1 if its count is relative, otherwise 0."""
    return -2 - (2 * unit + relative)


def unit_of(state: int) -> int:
    """The counted rule of a frame whose state is negative."""
    return (-2 - state) >> 1


def relative_of(state: int) -> int:
    """Whether the count of a frame whose state is negative is relative, 1 or 0."""
    return (-2 - state) & 1
