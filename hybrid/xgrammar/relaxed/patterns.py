"""Patterns and formats of JSON schemas: what XGrammar allows beyond their meaning.

What: `pattern_gap` says why XGrammar allows more than a pattern does; `FORMAT_GAPS` says the same for
formats. `literal_prefix` is the text with which each match of a pattern begins.
When: by `hybrid.xgrammar.relaxed`.
Limits: patterns are examined and never run, because they come from elsewhere and could run forever. In doubt,
a gap is reported. That patterns must match the whole text makes them narrower, and is not a gap.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

DAYS = "only its shape is checked: February 30 is allowed"
LEAP = "only its shape is checked: any minute may have 61 seconds"
RAW = "XGrammar writes its characters into the JSON text without escapes"

FORMAT_GAPS: dict[str, str] = {
    "date": DAYS,
    "date-time": DAYS,
    "duration": "",
    "email": "lengths of the name and of the labels are not checked",
    "hostname": "lengths of labels and of the name are not checked",
    "ipv4": "numbers may begin with zeros",
    "ipv6": "the numbers of an IPv4 part may begin with zeros",
    "json-pointer": RAW,
    "relative-json-pointer": RAW,
    "time": LEAP,
    "uri": "",
    "uri-reference": "",
    "uri-template": "",
    "uuid": "",
}
"""The formats that XGrammar reads, and what each allows beyond its definition; empty if nothing is known. All
other formats are ignored."""

SPECIAL = '"\\'
CLASS_LETTERS = "dDwWsS"
CONTROL_LETTERS = "cnrtfv0"
CLOSED, ALL, OPEN, SKIPS = range(4)
"""How a part of a pattern ends: without a repeat, as one whole repeat, or with a repeat after something.
`SKIPS`: it contains an optional group of the last kind."""

UNANCHORED, ANCHORED, INSIDE = range(3)
"""Whether a part of a pattern has no anchors, only anchors with nothing before them, or others."""

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
    if not (pattern.isascii() and pattern.isprintable()) or any(map(_needs_escape, pieces)):
        return RAW
    return ""


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


def _needs_escape(piece: Piece) -> bool:
    """Whether the piece consists only of characters that JSON strings contain only as escapes."""
    if piece.kind == "character":
        return piece.character in SPECIAL or piece.character < " "
    if piece.kind != "class" or not piece.text.startswith("[") or piece.text.startswith("[^"):
        return False
    ranges = ranges_of(piece.text)
    if not ranges:
        return False
    return all(last < ord(" ") or (first == last and chr(first) in SPECIAL) for first, last in ranges)


def ranges_of(brackets: str) -> list[tuple[int, int]] | None:
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
    found, at_start = UNANCHORED, True
    for piece, inside, quantifier in items:
        has_anchor = inside if piece.kind == ")" else ANCHORED if piece.kind == anchor else UNANCHORED
        if has_anchor and (not at_start or (piece.kind == ")" and quantifier not in ("", "?"))):
            return INSIDE
        found = max(found, has_anchor)
        at_start = at_start and piece.kind in "^$"
    return found
