"""Equality of JSON values.

What: `key_of` returns a key for comparing a value with others, `are_distinct` compares items.
When: for items that must be unique.
Limits: a value may not be nested more deeply than Python's recursion allows.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

MOST_DIGITS = 10_000
"""A decimal with more digits before or after the point has no fraction: 1e99999999 would take all memory."""


def key_of(value: Any) -> Any:
    """Return a key that is the same for equal JSON values and different for others. 1 and 1.0 are equal, 1
    and true are not; objects are equal if they have the same keys and values in any order."""
    if isinstance(value, bool) or value is None:
        return value, "constant"
    if isinstance(value, Decimal) and abs(value.adjusted()) > MOST_DIGITS:
        return value
    if isinstance(value, float):
        return Fraction(repr(value))
    if isinstance(value, (int, Decimal)):
        return Fraction(value)
    if isinstance(value, list):
        return "array", tuple(map(key_of, value))
    if isinstance(value, tuple):  # a number that is already in comparable form
        return value
    if isinstance(value, dict):
        return "object", frozenset((name, key_of(inner)) for name, inner in value.items())
    return value


def are_distinct(items: list[Any]) -> bool:
    """Whether no two values are equal."""
    return len(set(map(key_of, items))) == len(items)
