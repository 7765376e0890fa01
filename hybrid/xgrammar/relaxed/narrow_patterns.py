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

from collections.abc import Sequence

from hybrid.xgrammar.relaxed.patterns import Piece, ranges_of, reversed_pieces, split

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
    is_anchored = _begins_anchored(pieces) and _begins_anchored(reversed_pieces(pieces))
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


def _begins_anchored(pieces: Sequence[Piece]) -> bool:
    """Whether all alternatives of a pattern begin with an anchor, or with any text (``.*``, ``.+``)."""
    anchored = True  # whether all earlier alternatives of the group begin with an anchor
    here = False  # whether this alternative begins with an anchor
    begun = False
    outside: list[tuple[bool, bool, bool]] = []
    for place, piece in enumerate(pieces):
        after = pieces[place + 1].text if place + 1 < len(pieces) else ""
        if piece.kind == "(":
            outside.append((anchored, here, begun))
            anchored, here, begun = True, False, False
        elif piece.kind == ")":
            inside = anchored and here
            anchored, here, begun = outside.pop() if outside else (True, False, False)
            if not begun:
                here, begun = inside and after[:1] not in ("?", "*", "{"), True
        elif piece.kind == "|":
            anchored, here, begun = anchored and here, False, False
        elif piece.kind != "quantifier" and not begun:
            here, begun = piece.kind == "^" or (piece.text == "." and after[:1] in ("*", "+")), True
    return anchored and here
