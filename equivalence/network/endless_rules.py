# cython: language_level=3, boundscheck=True, show_performance_hints=False
# mypy: ignore-errors
"""Finds a rule that is only a repeat of itself in a serialised grammar.

What: `endless_rule` follows rules that consist of another rule, or of a repeat of one.
When: before a grammar is compiled: XGrammar crashes on such a rule (`hybrid.xgrammar.sanitize`).
Limits: the expressions of `equivalence.network.serial`; a number that leads out of the arrays is an error.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.network import serial as types
from cython.cimports.equivalence.source_check import check_source

check_source(__name__)


def endless_rule(
    data: cython.const[cython.Py_ssize_t][::1],
    starts: cython.const[cython.Py_ssize_t][::1],
    bodies: cython.const[cython.Py_ssize_t][::1],
) -> int:
    """A rule that is only a repeat of itself, perhaps through others (``p ::= p{2}``); -1 if there is none.

    Args:
        data, starts: as in `equivalence.network.grammar_reader.ParsedGrammar`.
        bodies: int64, the expression of each rule.

    Raises:
        IndexError: an expression leads out of the arrays.
    """
    n: cython.Py_ssize_t = bodies.shape[0]
    # the rule that each rule consists of, or -1; whether it repeats that; the path that has visited it
    leads: cython.Py_ssize_t[::1] = np.empty(n, np.int64)
    repeats: cython.uchar[::1] = np.zeros(n, np.uint8)
    met: cython.Py_ssize_t[::1] = np.zeros(n, np.int64)
    some: cython.bint = False
    for number in range(n):
        expression = bodies[number]
        at = starts[expression]
        for _ in range(starts.shape[0]):  # an expression inside itself would never end
            if data[at + 1] != 1 or (data[at] != types.SEQUENCE and data[at] != types.CHOICES):
                break
            at = starts[data[at + 2]]  # it has only one part
        leads[number] = -1
        if data[at] == types.RULE or data[at] == types.REPEAT:
            leads[number] = data[at + 2]
            repeats[number] = data[at] == types.REPEAT
            some = some or data[at] == types.REPEAT
    if not some:
        return -1
    for way in range(n):
        number = way
        while leads[number] >= 0 and met[number] == 0:
            met[number] = way + 1
            number = leads[number]
        if leads[number] < 0 or met[number] != way + 1:
            continue
        # this path leads into a cycle that no earlier path has found
        end: cython.Py_ssize_t = number
        repeated = repeats[number]
        number = leads[number]
        while number != end:
            repeated |= repeats[number]
            number = leads[number]
        if repeated:
            return end
    return -1
