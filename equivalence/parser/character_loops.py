# cython: language_level=3
# mypy: ignore-errors
"""Loops of characters: configurations that stay the same after every character beyond ASCII.

What: `CharacterLoops.find` records in a configuration's facts whether all such characters lead it back to
itself.
When: used by walks over the vocabulary, once for each configuration that loops on ASCII. If it does, a walk
takes a subtree at once, although its nodes begin and end in the middle of characters.
Limits: it may overlook a loop; then a walk only takes longer.
"""

from __future__ import annotations

import cython
from cython.cimports.equivalence.arrays.utf8 import utf8_step
from cython.cimports.equivalence.parser.character_loops import BYTE_LOOP
from cython.cimports.equivalence.parser.space import REJECT, Space, after
from cython.cimports.equivalence.source_check import check_source

check_source(__name__)


@cython.no_gc
@cython.cclass
class CharacterLoops:
    """Finds the loops in one space."""

    def __init__(self, space: Space) -> None:
        self.space = space

    def find(self, configuration):
        """Record whether every character of several bytes leads a configuration back to itself, or even every
        byte of such characters does."""
        self.space.facts[configuration].characters_known = 1
        if self.loops_on_others(configuration):
            self.space.facts[configuration].character_loop = BYTE_LOOP
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
                if self.space.facts[inside[state]].label != 0:
                    return 0
                for byte in range(0x80, 0xF5):
                    state_after = utf8_step(state, byte)
                    if state_after < 0:
                        continue
                    following = after(self.space, inside[state], self.space.class_of_byte[byte])
                    if state_after == 0:
                        if not self.is_back(following, configuration):
                            return 0
                    elif following == REJECT or inside[state_after] not in (-1, following):
                        return 0
                    else:
                        inside[state_after] = following
        self.space.facts[configuration].character_loop = 1
        return 0

    def loops_on_others(self, configuration):
        """Whether each byte beyond ASCII leads a configuration back to itself, as in free text between tags:
        its automata read bytes, and a vocabulary has 100,000 nodes that begin or end within a character."""
        byte: cython.Py_ssize_t
        for byte in range(0x80, 0x100):
            if after(self.space, configuration, self.space.class_of_byte[byte]) != configuration:
                return False
        return True

    def is_back(self, following, configuration):
        """Whether a character that leads from the second configuration to the first leads back."""
        return following == configuration
