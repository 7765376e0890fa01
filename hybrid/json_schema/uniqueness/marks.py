"""Marks: commas and closing brackets of arrays in which an item was repeated.

What: sometimes it depends on other parts of a value whether items may be equal (`not`, or one branch of a
`oneOf`). Then the grammar has *marks* in place of the commas and the closing bracket that follow once two
items are equal. Marks are characters that no JSON text contains. While a text is read, `hybrid.uniqueness`
replaces its commas and brackets by marks, so that the grammar's states know whether items were equal.
When: for arrays at places where some must have unique items and others need not (`places.py`).
Limits: a grammar with marks does not describe texts by itself.
"""

from __future__ import annotations

COMMA, CLOSE = "\x03", "\x02"

_FROM, _TO = b"\x03\x02", b",]"

MARKED = {to: mark for mark, to in zip(_FROM, _TO, strict=True)}
"""For each byte, the mark that replaces it once an item was repeated."""

BYTES = frozenset(_FROM)
"""The marks, as bytes."""

_BACK = bytes.maketrans(_FROM, _TO)


def unmarked(text: bytes) -> bytes:
    """Return a text with its marks replaced by commas and brackets."""
    return text.translate(_BACK)
