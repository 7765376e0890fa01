"""Checks of the arguments of matchers: texts, temperatures, stop ids.

What: each function converts an argument to the form that matchers use, or raises an error that names it.
When: before a matcher moves or writes anything.
Limits: integers are checked by `equivalence.arguments`, bitmasks by `hybrid.api.bitmask`.
"""

from __future__ import annotations

import codecs
import math
from collections.abc import Iterable, Sequence
from typing import Any, SupportsFloat, TypeVar

import numpy as np

from equivalence import ArgumentError, HybridError, VocabularyError
from equivalence.arguments import one_or_more, shown

T = TypeVar("T")


def one_of(allowed: Sequence[T], value: T, name: str, error: type[HybridError] = ArgumentError) -> T:
    """Return a value, or raise an error if it is not one of those that are allowed."""
    if value not in allowed:
        *others, last = map(repr, allowed)
        raise error(f"{name} must be {', '.join(others)} or {last}, but is {shown(value)}")
    return value


def encoded(text: Any) -> bytes:
    """Return the argument of `accept_string` as bytes.

    Raises:
        ArgumentError: it is neither text nor bytes, or has half of a surrogate pair.
    """
    if isinstance(text, str):
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            raise ArgumentError(
                f"input_str must be bytes, or text that UTF-8 can encode, but {shown(text)} has half "
                "of a surrogate pair"
            ) from error
    if isinstance(text, (bytes, bytearray, memoryview)):
        return bytes(text)
    raise ArgumentError(f"input_str must be str or bytes, but is {shown(text)}")


def temperature_of(value: SupportsFloat | None) -> float | None:
    """Return a temperature rounded to 32 bits, as XGrammar keeps it.

    Raises:
        ArgumentError: it is not a number, below 0, or not finite in 32 bits.
    """
    if value is None:
        return None
    try:
        with np.errstate(over="ignore"):
            kept = math.nan if isinstance(value, (bool, str, bytes)) else float(np.float32(float(value)))
    except Exception:  # noqa: BLE001 - the caller's object may raise anything
        kept = math.nan
    if not 0 <= kept < math.inf:
        raise ArgumentError(
            f"default_temperature must be a finite non-negative number or None, but is {shown(value)}"
        )
    return kept


def stop_ids(values: int | Iterable[int] | None, size: int) -> tuple[int, ...] | None:
    """Return the distinct ids that end a sequence, in the order given; None stands for the vocabulary's.

    Raises:
        VocabularyError: there is none, or one is not an integer or not an id of the vocabulary.
    """
    if values is None:
        return None
    ids = one_or_more(values, "override_stop_tokens", VocabularyError)
    if not ids:
        raise VocabularyError(
            "override_stop_tokens must not be empty: pass token ids, or None to use the vocabulary's "
            "stop tokens"
        )
    for token_id in ids:
        if not 0 <= token_id < size:
            raise VocabularyError(
                f"override_stop_tokens contains {token_id}, but ids must be from 0 to {size - 1}"
            )
    return tuple(dict.fromkeys(ids))


def whole_characters(text: bytes) -> str:
    """Decode a text, without an incomplete character at its end."""
    return codecs.getincrementaldecoder("utf-8")().decode(text)
