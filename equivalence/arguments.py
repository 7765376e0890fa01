"""What callers give for ids, rows, counts, switches and paths, read in one place.

What: integers of Python, of numpy and of tensors without dimensions become an `int` of their own value, so
that no arithmetic is done in an 8-bit type; what is no integer is refused by name, booleans among it.
When: wherever a caller gives one. Hot paths ask ``value.__class__ is int`` first.
Limits: text, temperatures and bitmasks are `hybrid.values.arguments` and `hybrid.api.bitmask`.
"""

from __future__ import annotations

import operator
import os
from typing import Any

from equivalence.errors import ArgumentError, HybridError

SHOWN = 60
"""Characters of a value that a message repeats."""


def shown(value: object) -> str:
    """A value for a message, shortened; a class that cannot even be written has its name."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - whatever a class of the caller's does
        text = ""
    return text if 0 < len(text) <= SHOWN else f"of type {type(value).__name__}"


def integer(value: Any, name: str, error: type[HybridError] = ArgumentError) -> int:
    """The value as an `int`.

    Args:
        value: what was given.
        name: what it is, for the message.
        error: the class to raise.

    Raises:
        HybridError: of the given class: a boolean, a float, text, an array with dimensions, anything else.
    """
    if value.__class__ is int:
        return value
    kind = getattr(value, "dtype", None)
    is_number = not isinstance(value, bool) and (kind is None or "bool" not in str(kind))
    try:
        if is_number and getattr(value, "ndim", 0) == 0:
            return int(operator.index(value))  # int: an enumeration has a value too
    except Exception as cause:
        raise error(f"{name} is {shown(value)}, allowed is an integer") from cause
    raise error(f"{name} is {shown(value)}, allowed is an integer")


def integer_from(
    least: int, value: Any, name: str, error: type[HybridError] = ArgumentError, most: int | None = None
) -> int:
    """`integer`, in a range.

    Raises:
        HybridError: of the given class: as `integer`, or out of range.
    """
    found = integer(value, name, error)
    if found < least or (most is not None and found > most):
        allowed = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise error(f"{name} is {shown(found)}, allowed is an integer {allowed}")
    return found


def integers(values: Any, name: str, error: type[HybridError] = ArgumentError) -> list[int]:
    """A list of `integer`, of any iterable: arrays and tensors of one dimension too.

    Raises:
        HybridError: of the given class: text, what cannot be iterated, or one that is no integer.
    """
    given = values
    if isinstance(values, (str, bytes, bytearray)):
        values = None
    try:
        if getattr(values, "ndim", 1) == 1:
            # elements of a tensor are tensors, 100 times as slow
            values = values.tolist() if hasattr(values, "ndim") else list(values)
    except Exception as cause:
        raise error(f"{name} is {shown(given)}, allowed are integers, in a list for example") from cause
    if not isinstance(values, list):
        raise error(f"{name} is {shown(given)}, allowed are integers, in a list for example")
    if {int}.issuperset(map(type, values)):
        return values
    return [integer(value, f"an element of {name}", error) for value in values]


def one_or_more(values: Any, name: str, error: type[HybridError] = ArgumentError) -> list[int]:
    """`integers`, where a single integer stands for a list of one."""
    is_one = not hasattr(values, "__iter__") or getattr(values, "ndim", 1) == 0
    return [integer(values, name, error)] if is_one else integers(values, name, error)


def flag(value: Any, name: str) -> bool:
    """A switch as a `bool`; the booleans of numpy are read too.

    Raises:
        ArgumentError: anything else: ``"false"`` would be true.
    """
    if isinstance(value, bool) or (
        str(getattr(value, "dtype", "")) == "bool" and getattr(value, "ndim", 1) == 0
    ):
        return bool(value)
    raise ArgumentError(f"{name} is {shown(value)}, allowed are True and False")


def folder_of(value: Any, name: str, error: type[HybridError] = ArgumentError) -> str:
    """A path that stays where it is: absolute, as threads write there after the program has changed folders.

    Raises:
        HybridError: as `path_of`.
    """
    return os.path.abspath(path_of(value, name, error))


def path_of(value: Any, name: str, error: type[HybridError] = ArgumentError) -> str:
    """A path of the file system as text.

    Raises:
        HybridError: of the given class: it is neither text nor `os.PathLike`, or bytes.
    """
    path = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(path, str) or not path:
        raise error(f"{name} is {shown(value)}, allowed is the path of a file or folder")
    return path
