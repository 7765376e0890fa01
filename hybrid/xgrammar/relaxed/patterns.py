"""Patterns and formats of JSON schemas: what XGrammar allows beyond their meaning.

What: `pattern_gap` says why XGrammar allows more than a pattern does; `FORMAT_GAPS` says the same for
formats. `literal_prefix` is the text with which each match of a pattern begins.
When: by `hybrid.xgrammar.relaxed`.
Limits: patterns are examined and never run, because they come from elsewhere and could run forever. In doubt,
a gap is reported. That patterns must match the whole text makes them narrower, and is not a gap.
"""

from __future__ import annotations

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

QUANTIFIERS = "*+?{"
SPECIAL = '"\\'
CLASS_LETTERS = "dDwWsS"
CONTROL_LETTERS = "nrtfv0"
CLOSED, ALL, OPEN = 0, 1, 2
"""How a part of a pattern ends: without a repeat, as one whole repeat, or with a repeat after something."""


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


def pattern_gap(pattern: str) -> str:
    """Say why XGrammar allows more texts than the pattern does; empty if it does not."""
    pieces = split(pattern)
    if any(piece.kind == "(" and piece.text[:3] in ("(?=", "(?!") for piece in pieces):
        return "look-ahead is ignored"
    for piece in pieces:
        if piece.kind == "(" and piece.text == "(?":
            return "the modifier of a group is ignored"
        if piece.kind == "character" and piece.text[:1] == "\\" and not piece.character:
            return f"XGrammar reads the escape {piece.text!r} as the character itself"
        if piece.kind == "class" and piece.text != "\\s" and ("\\S" in piece.text or _leaves_out(piece.text)):
            return "only ASCII white space and U+00A0 are excluded"
    quantifiers = [piece.text if piece.kind == "quantifier" else "" for piece in pieces]
    if any(first and second not in ("", "?") for first, second in pairwise(quantifiers)):
        return "quantifiers of quantifiers are applied one after the other"
    if _skips_beginnings(pieces):
        return "of an optional group that ends with a repeat, XGrammar allows the repeat alone"
    if _anchored_inside(pieces) or _anchored_inside(reversed_pieces(pieces)):
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
    pieces = []
    at = 0
    while at < len(pattern):
        piece = _piece_at(pattern, at)
        pieces.append(piece)
        at += len(piece.text)
    return pieces


def _piece_at(pattern: str, at: int) -> Piece:
    here = pattern[at]
    if here == "\\":
        return _escape(pattern, at)
    if here == "[":
        end = at + 1
        while end < len(pattern) and pattern[end] != "]":
            end += 2 if pattern[end] == "\\" else 1
        return Piece("class", pattern[at : end + 1])
    if here == "(":
        for opening in ("(?:", "(?=", "(?!", "(?<", "(?P<", "(?"):
            if pattern.startswith(opening, at):
                return Piece("(", opening)
        return Piece("(", "(")
    if here in ")|^$":
        return Piece(here, here)
    if here in QUANTIFIERS:
        end = pattern.find("}", at) if here == "{" else at
        return Piece("quantifier", pattern[at : max(end, at) + 1])
    return Piece("class", ".") if here == "." else Piece("character", here, here)


def _escape(pattern: str, at: int) -> Piece:
    letter = pattern[at + 1 : at + 2]
    text = pattern[at : at + 2]
    if letter and letter in CLASS_LETTERS:
        return Piece("class", text)
    if letter in ("x", "u"):
        digits = 2 if letter == "x" else 4
        text = pattern[at : at + 2 + digits]
        if pattern[at + 2 : at + 3] == "{":
            text = pattern[at : max(pattern.find("}", at), at + 2) + 1]
        try:
            return Piece("character", text, chr(int(text[2:].strip("{}"), 16)))
        except (ValueError, OverflowError):
            return Piece("character", text)
    if letter == "c":
        return Piece("character", pattern[at : at + 3], "\n")
    if letter and letter in CONTROL_LETTERS:
        return Piece("character", text, "\n")
    if letter.isalpha():
        return Piece("character", text)
    return Piece("character", text, letter)


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
    letters = []
    at = 0
    while at < len(inside):
        piece = _escape(inside, at) if inside[at] == "\\" else Piece("character", inside[at], inside[at])
        if not piece.character:
            return None
        letters.append(piece)
        at += len(piece.text)
    ranges, at = [], 0
    while at < len(letters):
        is_range = at + 2 < len(letters) and letters[at + 1].text == "-"
        last = at + 2 if is_range else at
        ranges.append((ord(letters[at].character), ord(letters[last].character)))
        at = last + 1
    return ranges


def _skips_beginnings(pieces: list[Piece]) -> bool:
    """Whether an optional group ends with a repeat after something else, as in ``(ab+)?``."""
    ends, last, begun = CLOSED, CLOSED, False  # of earlier alternatives, and of this one
    outside: list[tuple[int, int, bool]] = []
    for before, piece in pairwise([Piece("", ""), *pieces]):
        if piece.kind == "quantifier":
            if before.kind == "quantifier":
                continue
            if piece.text == "?":
                if before.kind == ")" and last == OPEN:
                    return True
                last = CLOSED
            elif piece.text in "*+" or "," in piece.text:
                is_all = not begun and last == CLOSED and piece.text[:3] in ("*", "+", "{0,", "{1,")
                last = ALL if is_all else OPEN
            continue
        if before.kind not in ("", "(", "|", "^"):
            begun = True
        if piece.kind == "(":
            outside.append((ends, last, begun))
            ends, last, begun = CLOSED, CLOSED, False
        elif piece.kind == ")":
            inside = max(ends, last)
            ends, _, begun = outside.pop() if outside else (CLOSED, CLOSED, True)
            last = OPEN if inside and begun else inside
        elif piece.kind == "|":
            ends, last, begun = max(ends, last), CLOSED, False
        elif piece.kind not in "^$":
            last = CLOSED
    return False


def _anchored_inside(pieces: list[Piece]) -> bool:
    """Whether a ``^`` has something before it, in its alternative or in those around it, or is repeated."""
    at_start = True
    outside: list[
        tuple[bool, bool]
    ] = []  # for each open group: whether it begins at the start, and whether there was an anchor
    anchors = False
    closed_with_anchor = False
    for piece in pieces:
        if piece.kind == "(":
            outside.append((at_start, anchors))
            anchors = False
        elif piece.kind == ")":
            closed_with_anchor = anchors
            at_start, before = False, outside.pop()[1] if outside else False
            anchors = anchors or before
            continue
        elif piece.kind == "|":
            at_start = outside[-1][0] if outside else True
        elif piece.kind == "^":
            if not at_start:
                return True
            anchors = True
        elif piece.kind == "quantifier":
            if closed_with_anchor and piece.text != "?":
                return True
            continue
        elif piece.kind != "$":
            at_start = False
        closed_with_anchor = False
    return False


def reversed_pieces(pieces: list[Piece]) -> list[Piece]:
    """Return the pieces as read from the end: ``$`` becomes ``^``, and quantifiers stay after what they
    repeat."""
    swapped = {"(": ")", ")": "(", "^": "$", "$": "^"}
    backwards: list[Piece] = []
    quantifier: Piece | None = None
    waiting: list[Piece | None] = []  # quantifiers of groups whose opening is still to come
    for piece in reversed(pieces):
        if piece.kind == "quantifier":
            quantifier = piece
            continue
        backwards.append(piece._replace(kind=swapped.get(piece.kind, piece.kind)))
        if piece.kind == ")":
            waiting.append(quantifier)
        else:
            after = (waiting.pop() if waiting else None) if piece.kind == "(" else quantifier
            if after is not None:
                backwards.append(after)
        quantifier = None
    return backwards
