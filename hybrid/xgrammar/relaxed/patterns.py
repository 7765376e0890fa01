"""Patterns of JSON schemas: what XGrammar allows beyond their meaning, and what it does not let be written.

What: `pattern_gap` says why XGrammar allows more than a pattern does, `pattern_limit` which texts that the
pattern allows cannot be written. `literal_prefix` is the text with which each match of a pattern begins.
When: by `hybrid.xgrammar.relaxed`.
Limits: patterns are examined and never run, because they come from elsewhere and could run forever. In doubt,
a gap or a limit is reported.

In XGrammar, a pattern must match the whole text, whereas JSON Schema requires a match somewhere in it.
XGrammar also matches it against the text as it is written, and allows no escapes. So a quotation mark, a
backslash or a control character can only be written if the pattern spells out an escape.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

UNESCAPED = "XGrammar writes its characters into the JSON text without escapes"

UNANCHORED = "must match the whole text, not a part of it"
ESCAPED = "characters that JSON escapes (quotation mark, backslash, control characters) cannot be written"
BOTH = f"{UNANCHORED}; {ESCAPED}"

SPECIAL = '"\\'
CLASS_LETTERS = "dDwWsS"
CONTROL_LETTERS = "cnrtfv0"
CLOSED, ALL, OPEN, SKIPS = range(4)
"""How a part of a pattern ends: without a repeat, as one whole repeat, or with a repeat after something.
`SKIPS`: it contains an optional group of the last kind."""

NO_ANCHORS, AT_START, INSIDE = range(3)
"""Whether a part of a pattern has no anchors, only anchors with nothing before them, or others."""

NONE, SOME, EACH = range(3)
"""How many of the characters that a piece stands for are escaped in JSON."""

BRACKETED = {"\\s": True, "\\S": True, "\\W": True, "\\D": True, "\\w": False, "\\d": False, ".": True}
"""For each class, whether it has characters that JSON escapes."""

_ESCAPE = r"\\(?:[xu]\{(?:[^}]*\})?|x.{0,2}|u.{0,4}|c.?|.?)"
_LETTER = re.compile(f"({_ESCAPE})|.", re.DOTALL)
_PIECE = re.compile(
    rf"""
    [^\\[(*+?{{)|^$.] | (?P<escape>{_ESCAPE}) | (?P<class>\[(?:\\.?|[^\]\\])*\]?|\.)
    | (?P<quantifier>[*+?]|\{{(?:[^}}]*\}})?) | (?P<mark>[)|^$]) | (?P<opening>\((?:\?(?:P?<|[:=!])?)?)
    """,
    re.DOTALL | re.VERBOSE,
)


class Piece(NamedTuple):
    """A part of a pattern.

    Attributes:
        kind: one of ``( ) | ^ $``, "quantifier", "class" (brackets, or a letter such as ``\\d``) or
            "character".
        text: the piece as written; for a group, its opening with the modifier.
        character: the character that a "character" stands for; empty if it is unknown.
    """

    kind: str
    text: str
    character: str = ""


class Item(NamedTuple):
    """A character, a class, an anchor or a group in an alternative of a pattern.

    Attributes:
        piece: the piece; for a group, its end.
        inside: what `folded` has found for the group; 0 for other items.
        quantifier: the text of the first quantifier, or empty.
    """

    piece: Piece
    inside: int
    quantifier: str


def pattern_gap(pattern: str) -> str:
    """Say why XGrammar allows more texts than the pattern does; empty if it does not."""
    pieces = split(pattern)
    if any(piece.text in ("(?=", "(?!") for piece in pieces):
        return "look-ahead is ignored"
    for piece in pieces:
        if piece.text == "(?":
            return "the modifier of a group is ignored"
        if piece.kind == "character" and piece.text[:1] == "\\" and not piece.character:
            return f"XGrammar reads the escape {piece.text!r} as the character itself"
        if piece.kind == "class" and piece.text != "\\s" and ("\\S" in piece.text or _leaves_out(piece.text)):
            return "only ASCII white space and U+00A0 are excluded"
    quantifiers = [piece.text if piece.kind == "quantifier" else "" for piece in pieces]
    if any(first and second not in ("", "?") for first, second in pairwise(quantifiers)):
        return "quantifiers of quantifiers are applied one after the other"
    if ")?" in pattern and folded(pieces, _end_of, max) == SKIPS:
        return "of an optional group that ends with a repeat, XGrammar allows the repeat alone"
    kinds = [piece.kind for piece in pieces]
    if kinds.count("^") + kinds.count("$") > (kinds[:1] == ["^"]) + (kinds[-1:] == ["$"]):
        behind = folded(pieces, _anchors, max)
        if INSIDE in (behind, folded(pieces, lambda items: _anchors(items[::-1], "$"), max)):
            return "anchors in the middle are ignored"
    if not (pattern.isascii() and pattern.isprintable()) or EACH in map(_escaped_share, pieces):
        return UNESCAPED
    return ""


def pattern_limit(pattern: str) -> str:
    """Say which texts that a pattern allows cannot be written; empty if none are known."""
    pieces = split(pattern)
    begins = folded(pieces, lambda items: bool(items) and _is_anchor(items[0], "^"), min)
    ends = folded(pieces, lambda items: bool(items) and _is_anchor(items[-1], "$"), min)
    if any(map(_escaped_share, pieces)):
        return ESCAPED if begins and ends else BOTH
    return "" if begins and ends else UNANCHORED


def literal_prefix(pattern: str) -> str:
    """Return the text with which every match begins; empty if none is known."""
    pieces = split(pattern)
    if not pieces or pieces[0].kind != "^" or any(piece.kind == "|" for piece in pieces):
        return ""
    prefix = []
    for place, piece in enumerate(pieces[1:], 1):
        after = pieces[place + 1].text if place + 1 < len(pieces) else ""
        if piece.kind != "character" or not piece.character or after[:1] in ("*", "?", "{"):
            break
        prefix.append(piece.character)
    return "".join(prefix)


def split(pattern: str) -> list[Piece]:
    """Split a pattern into pieces, in order. An invalid pattern gives pieces, too."""
    return [_piece(found[0], found.lastgroup) for found in _PIECE.finditer(pattern)]


def _piece(text: str, group: str | None) -> Piece:
    if group is None:
        return Piece("character", text, text)
    if group == "escape":
        is_class = text[1:] and text[1:] in CLASS_LETTERS
        return Piece("class", text) if is_class else Piece("character", text, _escaped(text))
    return Piece({"mark": text, "opening": "("}.get(group, group), text)


def _escaped(text: str) -> str:
    """Return the character that an escape stands for; empty if it is unknown, or if it is a class."""
    letter = text[1:2]
    if letter in ("x", "u"):
        try:
            return chr(int(text[2:].strip("{}"), 16))
        except (ValueError, OverflowError):
            return ""
    if letter.isalpha() or letter == "0":
        return "\n" if letter in CONTROL_LETTERS else ""
    return letter


def folded(
    pieces: list[Piece], sequence: Callable[[list[Item]], int], choice: Callable[[list[int]], int]
) -> int:
    """Compute a number for a pattern from those of its groups. There is no recursion, as groups may be
    nested deeply.

    Args:
        pieces: the pattern.
        sequence: computes the number of an alternative from its items.
        choice: computes the number of a pattern or group from those of its alternatives.
    """
    outside: list[tuple[list[int], list[Item]]] = []
    choices: list[int] = []
    items: list[Item] = []
    ends = [Piece(")", "")] * (
        1 + sum(piece.kind == "(" for piece in pieces)
    )  # of groups without an end, too
    for piece, after in pairwise([*pieces, *ends, Piece("", "")]):
        quantifier = after.text if after.kind == "quantifier" else ""
        if piece.kind == "(":
            outside.append((choices, items))
            choices, items = [], []
        elif piece.kind == "|":
            choices.append(sequence(items))
            items = []
        elif piece.kind == ")":
            group = Item(piece, choice([*choices, sequence(items)]), quantifier)
            choices, items = outside.pop() if outside else ([], [])
            items.append(group)
        elif piece.kind != "quantifier":
            items.append(Item(piece, 0, quantifier))
    return items[-1].inside


def _leaves_out(brackets: str) -> bool:
    return brackets.startswith("[^") and "\\s" in brackets


def _escaped_share(piece: Piece) -> int:
    """How many of a piece's characters are escaped in JSON: `NONE`, `SOME` or `EACH`; in doubt `SOME`."""
    if piece.kind == "character":
        return EACH if piece.character in SPECIAL or piece.character < " " else NONE
    if piece.kind != "class":
        return NONE
    if not piece.text.startswith("["):
        return SOME if BRACKETED.get(piece.text, True) else NONE
    ranges = _ranges_of(piece.text)
    if ranges is None or piece.text.startswith("[^"):
        return SOME
    if ranges and all(last < ord(" ") or (first == last and chr(first) in SPECIAL) for first, last in ranges):
        return EACH
    is_any = any(first < 0x20 or first <= 0x22 <= last or first <= 0x5C <= last for first, last in ranges)
    return SOME if is_any else NONE


def _ranges_of(brackets: str) -> list[tuple[int, int]] | None:
    """Find the ranges of characters (first, last) in brackets; None if they contain a class."""
    inside = brackets[2:-1] if brackets.startswith("[^") else brackets[1:-1]
    texts = [found[0] for found in _LETTER.finditer(inside)]
    letters = [_escaped(text) if text[0] == "\\" else text for text in texts]
    if "" in letters:
        return None
    ranges, at = [], 0
    while at < len(letters):
        is_range = at + 2 < len(letters) and texts[at + 1] == "-"
        last = at + 2 if is_range else at
        ranges.append((ord(letters[at]), ord(letters[last])))
        at = last + 1
    return ranges


def _end_of(items: list[Item]) -> int:
    """Find how an alternative ends, or `SKIPS` if it has an optional group that ends with a repeat after
    something else, as in ``(ab+)?``."""
    last, begun = CLOSED, False
    for piece, inside, quantifier in items:
        if inside == SKIPS:
            return SKIPS
        if piece.kind == ")":
            last = OPEN if inside and begun else inside
        elif piece.kind not in "^$":
            last = CLOSED
        if quantifier == "?":
            if piece.kind == ")" and last == OPEN:
                return SKIPS
            last = CLOSED
        elif quantifier in ("*", "+") or "," in quantifier:
            is_all = not begun and last == CLOSED and quantifier[:3] in ("*", "+", "{0,", "{1,")
            last = ALL if is_all else OPEN
        begun = begun or piece.kind != "^" or quantifier != ""
    return last


def _anchors(items: list[Item], anchor: str = "^") -> int:
    """Find whether an alternative has anchors. They are inside if there is something before them, or if they
    are repeated."""
    found, at_start = NO_ANCHORS, True
    for piece, inside, quantifier in items:
        has_anchor = inside if piece.kind == ")" else AT_START if piece.kind == anchor else NO_ANCHORS
        if has_anchor and (not at_start or (piece.kind == ")" and quantifier not in ("", "?"))):
            return INSIDE
        found = max(found, has_anchor)
        at_start = at_start and piece.kind in "^$"
    return found


def _is_anchor(item: Item, anchor: str) -> bool:
    """Whether an item is an anchor, any text (``.*``, ``.+``), or a group in which each alternative begins or
    ends like this."""
    piece, inside, quantifier = item
    if piece.kind == ")":
        return bool(inside) and quantifier[:1] not in ("?", "*", "{")
    return piece.kind == anchor or (piece.text == "." and quantifier[:1] in ("*", "+"))
