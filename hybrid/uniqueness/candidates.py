"""Find the tokens of a mask that could repeat something, and must be read.

What: `candidates` finds the ids of a mask that may repeat an item or a key, or after which an item may only
become a repetition.
When: for each mask of `UniquenessFollower`.
Limits: more tokens are found than those that repeat something.

In a string, few tokens are tried: those that end the string and go on, and those that complete it to an
earlier item or key, which are found by the missing text. Elsewhere, the tokens that may end a value are
tried. If an item begins like an earlier one, the tokens that continue it like the earlier one are tried, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybrid.json_schema.uniqueness.prefix_counts import with_prefix
from hybrid.uniqueness.cursor import (
    ESCAPED,
    IN_SCALAR,
    IN_STRING,
    Container,
    Cursor,
    in_order,
    is_consistent,
)
from hybrid.uniqueness.numbers import IN_NUMBER, number_at_end
from hybrid.uniqueness.token_kinds import Kinds

MOST_TRIED = 4_096
"""After a backslash or within a character, each allowed id is tried if there are at most so many; otherwise
only ids with a quotation mark or a backslash."""

Likewise: TypeAlias = "list[tuple[str, frozenset[str]]]"
"""The texts of unfinished items, each with the texts of earlier items that it may become equal to."""

_NUMBER = re.compile(r"[-+.0-9eE]*")

_WITHIN_CHARACTER = re.compile(rb"\\u[0-9a-fA-F]{0,4}\Z")
"""A complete escape matches, too, since it may be the first half of a character."""


def candidates(cursor: Cursor, kinds: Kinds, bits: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Find the ids of a mask that may repeat something.

    Args:
        cursor: the place of the sequence.
        kinds: the token kinds of the vocabulary.
        bits: the mask, a bool for each id.
    """
    if not cursor.is_watching:
        is_within = cursor.mode in (IN_STRING, ESCAPED)  # without a quotation mark, the string goes on
        return np.flatnonzero(bits & kinds.opening & (kinds.with_quote | (not is_within)))
    # a fraction or an exponent can make a number equal to one that begins differently: -0, -0e1
    is_number = cursor.mode == IN_SCALAR
    begun_items = [(text, one.texts_like(text)) for text, _, one in cursor.begun(or_next=True)]
    likewise = [
        (text, texts)
        for text, texts in begun_items
        if is_consistent(text, texts) or (is_number and text[-1:] in IN_NUMBER)
    ]
    if cursor.mode == IN_STRING:
        begun = _begun_string(cursor)
        if begun is not None:
            return _in_string(cursor, kinds, bits, begun, likewise)
    if cursor.mode in (IN_STRING, ESCAPED):
        if likewise and np.count_nonzero(bits) <= MOST_TRIED:
            return np.flatnonzero(bits)
        chosen = bits & (kinds.with_quote | kinds.escaped if likewise else kinds.with_quote)
        return np.flatnonzero(chosen)
    chosen = bits & ((kinds.ending_scalar if cursor.mode == IN_SCALAR else kinds.ending) | kinds.opening)
    if not cursor.is_free:
        chosen |= bits & kinds.spacing
    if likewise:
        chosen |= bits & kinds.spelled
        _add_along(chosen, bits, kinds, likewise)
    return np.flatnonzero(chosen)


def _in_string(
    cursor: Cursor, kinds: Kinds, bits: NDArray[np.bool_], begun: str, likewise: Likewise
) -> NDArray[np.int64]:
    chosen = bits & (kinds.in_string | kinds.escaped if likewise else kinds.in_string)
    if not cursor.is_free:
        chosen |= bits & kinds.spacing & kinds.with_quote
    top = cursor.open[-1]
    if top.place is not None and (top.place.may_be_last or (top.texts and not top.is_array)):
        chosen |= bits & kinds.with_quote  # it also matters whether another item or key can follow
    endings = set(_missing(top, begun))
    for text, texts in likewise:
        endings.update(rest.partition(b'"')[0] for rest in rests(text, texts))
    for ending in endings:
        for token in kinds.ending_string.get(ending, ()):
            chosen[token] = bits[token]
    _add_along(chosen, bits, kinds, likewise)
    return np.flatnonzero(chosen)


def _missing(top: Container, begun: str) -> Iterator[bytes]:
    """Find the texts that complete a string to an earlier one, without the quotation mark."""
    if top.seen is None or top.begins < 0:
        return
    for one in top.seen:
        if isinstance(one, str) and one.startswith(begun):
            yield one[len(begun) :].encode("utf-8", "surrogatepass")


def _begun_string(cursor: Cursor) -> str | None:
    """Return the characters of the unfinished string; "" if it is not remembered. None: the text ends within
    a character."""
    if _WITHIN_CHARACTER.search(cursor.text):
        return None
    top = cursor.open[-1]
    try:
        if top.begins < 0:
            cursor.text.decode()
            return ""
        return str(json.loads(bytes(cursor.text[top.begins :]) + b'"'))
    except UnicodeDecodeError:
        return None


def _add_along(chosen: NDArray[np.bool_], bits: NDArray[np.bool_], kinds: Kinds, likewise: Likewise) -> None:
    """Add the tokens that continue an item like an earlier one."""
    for text, texts in likewise:
        tried = {
            rest[:length]
            for rest in rests(text, texts)
            for length in range(1, min(len(rest), kinds.longest) + 1)
        }
        tried.update(
            end + b"0" * n for end in _ends_of_fractions(text, texts) for n in range(1, kinds.most_zeros + 1)
        )
        for beginning in tried:
            for token in kinds.by_text.get(beginning, ()):
                chosen[token] = bits[token]


def _ends_of_fractions(begun: str, texts: frozenset[str]) -> Iterator[bytes]:
    """Find the digits that complete the fraction of an unfinished number to that of an earlier one. Zeros
    after them change nothing."""
    before, digits = number_at_end(begun)
    if "." not in digits:
        return
    for one in texts:
        if one.startswith(before):
            short = _NUMBER.match(one, len(before))[0]  # type: ignore[index]  # it may be empty
            if short.startswith(digits) or not digits.removeprefix(short).strip(".0"):
                yield short[len(digits) :].encode()


def rests(begun: str, texts: frozenset[str]) -> list[bytes]:
    """Find the texts that complete an unfinished item to an earlier one."""
    alike = with_prefix(begun, in_order(texts))
    return [one[len(begun) :].encode("utf-8", "surrogatepass") for one in alike]
