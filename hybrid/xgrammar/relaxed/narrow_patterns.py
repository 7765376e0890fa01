"""Find patterns of JSON schemas that XGrammar reads more narrowly than they are meant.

What: `pattern_limit` says which texts that a pattern allows cannot be written; `FORMAT_LIMITS` says the same
for formats.
When: by `hybrid.xgrammar.relaxed`, for `CompiledGrammar.narrowed`; `hybrid.xgrammar.relaxed.patterns` is for
the other direction.
Limits: patterns are examined and never run. In doubt, a limit is reported.

In XGrammar, a pattern must match the whole text, whereas JSON Schema requires a match somewhere in it.
XGrammar also matches it against the text as it is written, and allows no escapes. So a quotation mark, a
backslash or a control character can only be written if the pattern spells out an escape.
"""

from __future__ import annotations

from hybrid.xgrammar.relaxed.patterns import Item, Piece, folded, ranges_of, split

UNANCHORED = "must match the whole text, not a part of it"
ESCAPED = "characters that JSON escapes (quotation mark, backslash, control characters) cannot be written"
BOTH = f"{UNANCHORED}; {ESCAPED}"

FORMAT_LIMITS: dict[str, str] = {
    "date-time": "lower-case t and z cannot be written",
    "email": "addresses in brackets and labels of one character after a dot cannot be written",
    "hostname": "upper-case letters cannot be written",
    "ipv6": "most forms that end with an IPv4 address cannot be written",
    "time": "a lower-case z cannot be written",
    "uri": "schemes with digits and hosts in brackets cannot be written",
    "uri-reference": "references with a scheme and hosts in brackets cannot be written",
    "uri-template": "apostrophes and characters that are not ASCII cannot be written",
}
"""For formats that XGrammar reads, what cannot be written. For all others, nothing is known."""

BRACKETED = {"\\s": True, "\\S": True, "\\W": True, "\\D": True, "\\w": False, "\\d": False, ".": True}
"""For each class, whether it has characters that JSON escapes."""


def pattern_limit(pattern: str) -> str:
    """Say which texts that a pattern allows cannot be written; empty if none are known."""
    pieces = split(pattern)
    begins = folded(pieces, lambda items: bool(items) and _is_anchor(items[0], "^"), min)
    ends = folded(pieces, lambda items: bool(items) and _is_anchor(items[-1], "$"), min)
    is_anchored = begins and ends
    is_escaped = any(map(_may_be_escaped, pieces))
    if is_escaped:
        return ESCAPED if is_anchored else BOTH
    if not is_anchored:
        return UNANCHORED
    return ""


def _may_be_escaped(piece: Piece) -> bool:
    """Whether a piece stands for a character that JSON escapes, possibly among others."""
    if piece.kind == "character":
        return piece.character in ('"', "\\") or piece.character < " "
    if piece.kind != "class":
        return False
    if not piece.text.startswith("["):
        return BRACKETED.get(piece.text, True)
    ranges = ranges_of(piece.text)
    if ranges is None or piece.text.startswith("[^"):
        return True
    return any(first < 0x20 or first <= 0x22 <= last or first <= 0x5C <= last for first, last in ranges)


def _is_anchor(item: Item, anchor: str) -> bool:
    """Whether an item is an anchor, any text (``.*``, ``.+``), or a group in which each alternative begins or
    ends like this."""
    piece, inside, quantifier = item
    if piece.kind == ")":
        return bool(inside) and quantifier[:1] not in ("?", "*", "{")
    return piece.kind == anchor or (piece.text == "." and quantifier[:1] in ("*", "+"))
