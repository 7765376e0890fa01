# cython: language_level=3, boundscheck=True, show_performance_hints=False
# mypy: ignore-errors
"""What the expressions of a serialised grammar are, without lists of all their numbers.

What: `types_among` says which types occur; `only_repeats` which rules are nothing but a repeat of a rule.
When: for every grammar, before anything is made of it. To list the numbers of a large schema took 0.5 ms.
Limits: the layout of `equivalence.network.serial`; a number that leads out of the arrays is an error.
"""

from __future__ import annotations

import cython

from equivalence import built

if cython.compiled:
    from cython.cimports.equivalence.built import EQUIMASK_SOURCE

    built.check(__name__, EQUIMASK_SOURCE)

REPEAT = cython.declare(cython.Py_ssize_t, 8)
SEQUENCE = cython.declare(cython.Py_ssize_t, 5)
CHOICES = cython.declare(cython.Py_ssize_t, 6)
"""As of `equivalence.network.serial`, for C."""

MOST_TYPES = 64


def types_among(
    data: cython.const[cython.Py_ssize_t][::1], starts: cython.const[cython.Py_ssize_t][::1]
) -> set[int]:
    """The types of all expressions.

    Args:
        data, starts: as of `equivalence.network.reading.ReadGrammar`.
    """
    one: cython.ulonglong = 1
    met: cython.ulonglong = 0
    others: set[int] = set()
    for i in range(starts.shape[0]):
        kind = data[starts[i]]
        if 0 <= kind < MOST_TYPES:
            met |= one << kind
        else:
            others.add(kind)
    kind = 0
    while met:
        if met & 1:
            others.add(kind)
        met >>= 1
        kind += 1
    return others


def only_repeats(
    data: cython.const[cython.Py_ssize_t][::1],
    starts: cython.const[cython.Py_ssize_t][::1],
    bodies: list[int],
) -> bool:
    """Whether some rule is nothing but a repeat.

    Args:
        data, starts: as of `equivalence.network.reading.ReadGrammar`.
        bodies: the expression of each rule.
    """
    expression: cython.Py_ssize_t
    for expression in bodies:
        at = starts[expression]
        for _ in range(starts.shape[0]):  # an expression within itself would have no end
            if data[at + 1] != 1 or (data[at] != SEQUENCE and data[at] != CHOICES):
                break
            at = starts[data[at + 2]]  # one part alone
        if data[at] == REPEAT:
            return True
    return False
