"""The first byte of a text that a grammar refuses.

What: `find_refusal` halves the text until it knows the longest beginning that is read.
When: behind `GrammarMatcher.explain_refusal`.
Limits: what the matcher has read before belongs to the text, and lines and columns are counted from there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybrid.explain.explanation import Refusal

SHOWN = 24
"""Characters before and behind the place that are given."""


def find_refusal(begin: Callable[[], Any], text: bytes, is_whole: bool) -> Refusal | None:
    """Where a text is refused; None: it is read.

    Args:
        begin: gives forks of the matcher, which have `accept_string`, `is_completed` and `explain`.
        text: what is to follow.
        is_whole: whether the text has to end there.
    """
    at = begin()
    if at.accept_string(text) if text else True:
        if not is_whole or at.is_completed():
            return None
        return _refusal(text, len(text), at)
    read, refused = 0, len(text)
    at = begin()
    while refused - read > 1:  # text[:read] is read, text[:refused] is not
        middle = (read + refused) // 2
        if at.accept_string(text[read:middle]):
            read = middle
        else:
            refused = middle
    return _refusal(text, read, at)


def _refusal(text: bytes, offset: int, at: Any) -> Refusal:
    before = text[:offset].decode("utf-8", "replace")
    rest = text[offset : offset + 4 * SHOWN]
    # a refused byte within a character is shown with that character
    start = offset
    while start > 0 and rest and 0x80 <= text[start] < 0xC0 and offset - start < 3:
        start -= 1
    found = text[start : start + 4 * SHOWN].decode("utf-8", "replace")[:SHOWN]
    whole = text[:start].decode("utf-8", "replace")
    return Refusal(
        offset,
        whole.count("\n") + 1,
        len(whole) - (whole.rfind("\n") + 1) + 1,
        text[offset] if offset < len(text) else None,
        found.split("\n")[0] or found,
        before[-SHOWN:],
        at.explain(),
    )
