# cython: language_level=3, wraparound=True, annotation_typing=True
# mypy: ignore-errors
"""Checked values of keywords: numbers, counts, lists, objects.

What: functions that return what a keyword holds, or raise an error that says what is allowed.
When: whenever a keyword is read.
Limits: only keywords that are read are checked; the schema is not validated against its metaschema.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import cython
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.json_schema.locations import Location, are_texts

from hybrid.json_schema.errors import SchemaRefused, shown

check_source(__name__)

_LARGEST_EXPONENT = 400
_LARGEST = 10**_LARGEST_EXPONENT
"""Numbers beyond 1e400, or closer to 0 than 1e-400, are refused: each digit would need a state."""

_MOST_PLACES = 4000
"""Numbers with more digits after the point are refused: Python converts at most 4,300 digits."""

_ALLOWED = (
    f"between 1e-{_LARGEST_EXPONENT} and 1e{_LARGEST_EXPONENT}, "
    f"with at most {_MOST_PLACES} digits after the point"
)

MOST_COUNTED = 2**30
"""Larger counts and lengths mean the same: no text has so many characters, items or keys."""

INFINITY = float("inf")


def is_number(value: object) -> cython.bint:
    """Whether a JSON value is a number."""
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def decimal(value: object) -> Any:
    """Return a number of a schema as the decimal that is written there.

    Raises:
        SchemaRefused: it is beyond the largest exponent, has too many digits, or is not a number.
    """
    if isinstance(value, int):
        is_refused = not -_LARGEST < value < _LARGEST
    elif isinstance(value, Decimal):
        is_refused = value != 0 and (
            abs(value.adjusted()) >= _LARGEST_EXPONENT or value.as_tuple().exponent < -_MOST_PLACES
        )
    else:
        is_refused = value != value or value in (INFINITY, -INFINITY)
    if is_refused:
        raise SchemaRefused("limit", "", "", f"contains a number whose absolute value is not {_ALLOWED}")
    return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)


def decimal_of(location: Location, keyword: str) -> Any:
    """Return a keyword's number."""
    value = location.schema[keyword]
    if not is_number(value) or value in (INFINITY, -INFINITY) or value != value:
        raise location.refused(keyword, f"must be a number, but is {shown(value)}", "invalid")
    try:
        return decimal(value)
    except SchemaRefused as error:
        raise location.refused(
            keyword, f"must be 0, or have an absolute value {_ALLOWED}", "limit"
        ) from error


def flag_of(location: Location, keyword: str) -> Any:
    """Return the boolean that a keyword holds."""
    value = location.schema[keyword]
    if not isinstance(value, bool):
        raise location.refused(keyword, f"must be true or false, but is {shown(value)}", "invalid")
    return value


def count_of(location: Location, keyword: str) -> Any:
    """Return the non-negative integer that a keyword holds."""
    value = location.schema[keyword]
    if is_number(value) and value >= MOST_COUNTED:
        return MOST_COUNTED
    if not is_number(value) or not value >= 0 or value != int(value):
        raise location.refused(keyword, f"must be an integer of at least 0, but is {shown(value)}", "invalid")
    return int(value)


def value_of_kind(schema: dict, keyword: str, kind: type) -> Any:
    """Return the list or object of a keyword; an empty one if the keyword is missing or has another value."""
    value = schema.get(keyword)
    return value if isinstance(value, kind) else kind()


def list_of(location: Location, keyword: str) -> list:
    """Return a keyword's list."""
    value = location.schema[keyword]
    if not isinstance(value, list):
        raise location.refused(keyword, "is not a list", "invalid")
    return value


def dict_of(location: Location, keyword: str) -> dict:
    """Return the object that a keyword holds; empty if the keyword is missing."""
    value = location.schema.get(keyword, {})
    if not isinstance(value, dict):
        raise location.refused(keyword, "is not an object", "invalid")
    return value


def names_of(location: Location, keyword: str) -> list:
    """Return the list of keys that a keyword holds; empty if the keyword is missing."""
    value = location.schema.get(keyword, [])
    if not isinstance(value, list) or not are_texts(value):
        if isinstance(value, bool):
            return []  # a flag of draft 3, which means nothing in later drafts
        raise location.refused(keyword, "is not a list of keys", "invalid")
    return value
