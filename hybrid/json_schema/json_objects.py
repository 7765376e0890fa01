# cython: language_level=3
# mypy: ignore-errors
"""The objects in a JSON value that have certain keys.

What: `objects_with` finds them.
When: once or twice for each schema, to look for references and to guess its draft. As ordinary Python it took
a twentieth of the time of a grammar.
Limits: none.
"""

from __future__ import annotations

from typing import Any

import cython
from cython.cimports.equivalence.source_check import check_source

check_source(__name__)


def objects_with(value: Any, keys: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return all objects in a value, at any depth, that have one of the keys, in no particular order.

    In a schema, these include instances in `enum` and the like.
    """
    wanted: tuple = keys
    found: list = []
    todo: list = [value]
    i: cython.Py_ssize_t = 0
    while i < len(todo):
        one: object = todo[i]
        if isinstance(one, dict):
            for key in wanted:
                if key in cython.cast(dict, one):
                    found.append(one)
                    break
            for inner in cython.cast(dict, one).values():
                if isinstance(inner, (dict, list)):
                    todo.append(inner)
        elif isinstance(one, list):
            for inner in cython.cast(list, one):
                if isinstance(inner, (dict, list)):
                    todo.append(inner)
        i += 1
    return found
