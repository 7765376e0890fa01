"""Checked values of arguments: ids, rows, counts, switches, paths and limits.

What: integers of Python, of numpy, and of tensors without dimensions become a Python `int`, so that no
arithmetic is done in an 8-bit type. Everything else, also booleans, is refused with an error that names the
argument. `check_count` and `check_seconds` check limits, and refuse those that no kernel could keep.
When: for arguments of public calls. Hot paths check ``value.__class__ is int`` first.
Limits: texts, temperatures and bitmasks are checked in `hybrid.values.arguments` and `hybrid.api.bitmask`.
"""

from __future__ import annotations

import operator
import os
import sys
from typing import Any

from equivalence.errors import ArgumentError, HybridError

SHOWN = 60
"""Characters of a value that a message repeats."""

MOST = 2**48
"""Of states and bytes: more than any machine has, and an int64 still where a hundred times as much occurs."""


def shown(value: object) -> str:
    """A value for a message, shortened. If it cannot be written, its class is named."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - the caller's class may raise anything
        text = ""
    return text if 0 < len(text) <= SHOWN else f"of type {type(value).__name__}"


def integer(value: Any, name: str, error: type[HybridError] = ArgumentError) -> int:
    """The value as an `int`.

    Args:
        value: the argument.
        name: its name in the message.
        error: the class of the error.

    Raises:
        HybridError: of the given class: it is a boolean, a float, text, an array with dimensions, or
            something else.
    """
    if value.__class__ is int:
        return value
    kind = getattr(value, "dtype", None)
    is_number = not isinstance(value, bool) and (kind is None or "bool" not in str(kind))
    try:
        if is_number and getattr(value, "ndim", 0) == 0:
            return int(operator.index(value))  # int: an enumeration has a value too
    except Exception as cause:
        raise error(f"{name} must be an integer, but is {shown(value)}") from cause
    raise error(f"{name} must be an integer, but is {shown(value)}")


def integer_from(
    least: int, value: Any, name: str, error: type[HybridError] = ArgumentError, most: int | None = None
) -> int:
    """`integer`, within a range.

    Raises:
        HybridError: of the given class: as for `integer`, or it is out of range.
    """
    found = integer(value, name, error)
    if found < least or (most is not None and found > most):
        allowed = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise error(f"{name} must be an integer {allowed}, but is {shown(found)}")
    return found


def integers(values: Any, name: str, error: type[HybridError] = ArgumentError) -> list[int]:
    """The integers of any iterable as a list, also of arrays and tensors with one dimension.

    Raises:
        HybridError: of the given class: it is text, or cannot be iterated, or contains something else than
            integers.
    """
    given = values
    if isinstance(values, (str, bytes, bytearray)):
        values = None
    try:
        if getattr(values, "ndim", 1) == 1:
            # elements of a tensor are tensors, 100 times as slow
            values = values.tolist() if hasattr(values, "ndim") else list(values)
    except Exception as cause:
        raise error(
            f"{name} must be a list (or another iterable) of integers, but is {shown(given)}"
        ) from cause
    if not isinstance(values, list):
        raise error(f"{name} must be a list (or another iterable) of integers, but is {shown(given)}")
    if {int}.issuperset(map(type, values)):
        return values
    return [integer(value, f"an element of {name}", error) for value in values]


def one_or_more(values: Any, name: str, error: type[HybridError] = ArgumentError) -> list[int]:
    """Like `integers`; a single integer is a list of one."""
    is_one = not hasattr(values, "__iter__") or getattr(values, "ndim", 1) == 0
    return [integer(values, name, error)] if is_one else integers(values, name, error)


def flag(value: Any, name: str) -> bool:
    """A switch as a `bool`; booleans of numpy are allowed.

    Raises:
        ArgumentError: it is something else; as a condition, ``"false"`` would be true.
    """
    if isinstance(value, bool) or (
        str(getattr(value, "dtype", "")) == "bool" and getattr(value, "ndim", 1) == 0
    ):
        return bool(value)
    raise ArgumentError(f"{name} must be True or False, but is {shown(value)}")


def path_of(value: Any, name: str, error: type[HybridError] = ArgumentError) -> str:
    """A path of the file system as text.

    Raises:
        HybridError: of the given class: it is neither text nor `os.PathLike`, or it is bytes, or the system
            has no such paths (NUL, surrogates).
    """
    path = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(path, str) or not path or not _can_be_encoded(path):
        raise error(f"{name} must be the path of a file or folder, but is {shown(value)}")
    return path


def _can_be_encoded(path: str) -> bool:
    """Whether the system has bytes for the characters of a path."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def check_count(name: str, given: Any) -> None:
    """Check a limit of states, rows or bytes.

    Raises:
        HybridError: it is not an integer from 1 to `MOST`.
    """
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= MOST:
        raise HybridError(f"{name} must be an integer from 1 to {MOST}, but is {shown(given)}")


def check_seconds(name: str, given: Any) -> None:
    """Check a limit of seconds; None: there is no limit.

    Raises:
        HybridError: it is neither None nor a finite number above 0.
    """
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if given is not None and not (is_number and 0 < given <= sys.float_info.max):
        raise HybridError(f"{name} must be a positive number, or None for no limit, but is {shown(given)}")
