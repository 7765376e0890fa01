"""Finding the first byte of a text that a grammar refuses.

What: `find_refusal` reads the text in pieces. When one is refused, it halves that piece until it has found
the first refused byte.
When: used by `GrammarMatcher.explain_refusal`.
Limits: lines and columns are counted from the place where the matcher is.
"""

from __future__ import annotations

from typing import Any

from equivalence.deadline import Deadline, clock
from hybrid.explain.explanation import Refusal

SHOWN = 24
"""How many characters are shown before and after the place."""


QUICK, SLOW = 0.0005, 0.002
"""Seconds: after a piece that takes less, the next one is twice as long; after one that takes more, half."""


def find_refusal(at: Any, text: bytes, is_whole: bool, deadline: Deadline) -> Refusal | None:
    """Where a text is refused; None if it is allowed.

    Args:
        at: a fork of the matcher, with `accept_string`, `is_completed` and `explain_within`.
        text: the text that is to follow.
        is_whole: whether the text must be complete at its end.
        deadline: the deadline of the answer.
    """
    part = deadline.part(0.5)  # explaining the place takes the other half
    read, size = 0, 4
    while read < len(text):
        if part.is_over:
            return _refusal(text, read, at, part, True)
        began = clock.now()
        if not at.accept_string(text[read : read + size]):
            break
        read = min(read + size, len(text))
        seconds = clock.now() - began
        size = 2 * size if seconds < QUICK else max(size // 2, 1) if seconds > SLOW else size
    else:
        if not is_whole or at.is_completed():
            return None
        return _refusal(text, read, at, deadline, False)
    read, refused = _halved(text, read, min(read + size, len(text)), at, part)
    if refused - read > 1:
        return _refusal(text, read, at, part, True)
    return _refusal(text, read, at, deadline, False)


def _halved(text: bytes, read: int, refused: int, at: Any, deadline: Deadline) -> tuple[int, int]:
    """Halve the part that contains the refused byte, until one byte is left or the time is over."""
    while refused - read > 1 and not deadline.is_over:
        middle = (read + refused) // 2
        if at.accept_string(text[read:middle]):
            read = middle
        else:
            refused = middle
    return read, refused


def _refusal(text: bytes, offset: int, at: Any, deadline: Deadline, cut_short: bool) -> Refusal:
    before = text[:offset].decode("utf-8", "replace")
    rest = text[offset : offset + 4 * SHOWN]
    # if the byte is inside of a character, the whole character is shown
    start = offset
    while start > 0 and rest and 0x80 <= text[start] < 0xC0 and offset - start < 3:
        start -= 1
    found = text[start : start + 4 * SHOWN].decode("utf-8", "replace")[:SHOWN]
    whole = text[:start].decode("utf-8", "replace")
    line, column = whole.count("\n") + 1, len(whole) - whole.rfind("\n")
    byte = text[offset] if offset < len(text) else None
    shown = found.split("\n")[0] or found
    told = at.explain_within(deadline)
    return Refusal(offset, line, column, byte, shown, before[-SHOWN:], told, cut_short)
