"""Commas and closing brackets of arrays in which an item has come again.

What: where it hangs on other things whether items may be equal (`not`, or one branch of a `oneOf`), the
grammar has marks in place of the commas and the closing bracket that follow once two items are equal:
characters that no JSON text has. Who follows a text writes them (`hybrid.remembering`), and so states tell.
When: for arrays at places where some must have unique items and others need not (`places.py`).
Limits: a grammar with marks is no grammar of texts by itself.
"""

from __future__ import annotations

COMMA, CLOSE = "\x03", "\x02"

_FROM, _TO = b"\x03\x02", b",]"

MARKED = {to: mark for mark, to in zip(_FROM, _TO, strict=True)}
"""The mark that stands for a byte once an item has come again."""

BYTES = frozenset(_FROM)
"""The marks, as bytes."""

_BACK = bytes.maketrans(_FROM, _TO)


def unmarked(text: bytes) -> bytes:
    """A text with commas and brackets for marks."""
    return text.translate(_BACK)
