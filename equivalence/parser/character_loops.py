# cython: language_level=3
# mypy: ignore-errors
"""Loops of characters: configurations that stay the same after every character beyond ASCII.

What: `find_character_loop` records in a configuration's facts whether all such characters lead it back to
itself.
When: used by walks over the vocabulary, once for each configuration that loops on ASCII. If it does, a walk
takes a subtree at once, although its nodes begin and end in the middle of characters.
Limits: an answer of no is always correct.
"""

from __future__ import annotations

import cython
from cython.cimports.equivalence.arrays.utf8 import utf8_step
from cython.cimports.equivalence.parser.character_loops import BYTE_LOOP
from cython.cimports.equivalence.parser.space import REJECT
from cython.cimports.equivalence.source_check import check_source

check_source(__name__)


def find_character_loop(space, configuration):
    """Record whether every character of several bytes leads a configuration back to itself, or even every
    byte of such characters does."""
    space.facts[configuration].characters_known = 1
    if loops_on_others(space, configuration):
        space.facts[configuration].character_loop = BYTE_LOOP
        return 0
    # the configuration inside a character, by the state of the decoder: at most one for each
    inside = cython.declare(cython.Py_ssize_t[8])
    state: cython.Py_ssize_t
    byte: cython.Py_ssize_t
    n_read: cython.Py_ssize_t
    for state in range(8):
        inside[state] = -1
    inside[0] = configuration
    for n_read in range(4):
        for state in range(8):
            if inside[state] < 0 or (state == 0) != (n_read == 0):
                continue
            if space.facts[inside[state]].label != 0:
                return 0
            for byte in range(0x80, 0xF5):
                state_after = utf8_step(state, byte)
                if state_after < 0:
                    continue
                following = space.after(inside[state], space.class_of_byte[byte])
                known = inside[state_after]
                if following == REJECT or (known >= 0 and known != following):
                    return 0
                inside[state_after] = following
    space.facts[configuration].character_loop = 1
    return 0


def loops_on_others(space, configuration):
    """Whether each byte beyond ASCII leads a configuration back to itself, as in free text between tags: its
    automata read bytes, and a vocabulary has 100,000 nodes that begin or end within a character."""
    byte: cython.Py_ssize_t
    for byte in range(0x80, 0x100):
        if space.after(configuration, space.class_of_byte[byte]) != configuration:
            return False
    return True
