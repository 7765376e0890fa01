"""Regular expressions of ECMA-262, as trees.

What: `parse` reads a pattern into tuples: ("chars", ranges), ("cat", parts), ("or", parts), ("repeat", part,
least, most), ("start",), ("end",), ("boundary", negated), ("look", ahead, negated).
When: for each new pattern (`hybrid.json_schema.languages.pattern`).
Limits: constructs that are not regular, or mean something else in other dialects, are refused by name:
back-references, look-behind, flags, `\\A`, `\\z`, possessive quantifiers, POSIX classes.

Why a parser of our own: `regress` on PyPI matches ECMA-262 but gives no tree, and Python's `re` reads
another syntax (`$` before a last newline, Unicode `\\d`, no `\\u{...}`) into a private tree. Syntax:
ECMA-262, section 22.2.1, with Annex B.1.2 for patterns outside Unicode mode.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from itertools import groupby
from typing import Any

from equivalence.arrays.ranges import LAST, Ranges, joined, others
from hybrid.json_schema.languages.limits import MOST_NESTED, check_deadline

Tree = tuple[Any, ...]


class Unsupported(Exception):
    """A construct that is not regular, or not a part of ECMA-262."""


class InvalidPattern(Exception):
    """The pattern is not a regular expression."""


_DIGITS: Ranges = ((48, 57),)
WORD: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
SPACES = joined(
    [(9, 13), (32, 32), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F),
     (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF)]
)  # fmt: skip
LINES: Ranges = ((10, 10), (13, 13), (0x2028, 0x2029))
_CLASSES = {"d": _DIGITS, "w": WORD, "s": SPACES}
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_MOST_REPEATS = 1_000_000
_BOUNDS = re.compile("{([0-9]+)(?:(,)([0-9]*))?}")
_CODE_POINT = re.compile("{([0-9a-fA-F]+)}")
_QUANTIFIERS, _SYNTAX = frozenset("*+?{"), frozenset("()[{.*+?^$|\\")
"""The first characters of quantifiers, and those that need not mean themselves."""


def parse(source: str) -> Tree:
    """Parse a pattern.

    Raises:
        Unsupported: a construct that is refused.
        InvalidPattern: it is not a regular expression.
    """
    parser = _Parser(source)
    tree = parser.alternatives()
    if parser.at < len(source):
        raise InvalidPattern(f"unmatched ')' at {parser.at}")
    return tree


class _Parser:
    """Reads a pattern from left to right.

    Attributes:
        at: the place of the next character.
        depth: the groups that contain it.
        names: the names of groups that may take part in one match with a group that begins here.
    """

    def __init__(self, source: str) -> None:
        self.source, self.at, self.depth = source, 0, 0
        self.names: frozenset[str] = frozenset()

    def _peek(self, text: str) -> bool:
        return self.source.startswith(text, self.at)

    def _take(self, text: str) -> bool:
        if not self._peek(text):
            return False
        self.at += len(text)
        return True

    def _next(self) -> str:
        if self.at >= len(self.source):
            raise InvalidPattern("it ends too early")
        self.at += 1
        return self.source[self.at - 1]

    def alternatives(self) -> Tree:
        before = self.names
        parts = [self._sequence()]
        names = self.names
        while self._take("|"):
            self.names = before
            parts.append(self._sequence())
            if self.names is not before:
                names |= self.names
        self.names = names
        return parts[0] if len(parts) == 1 else ("or", tuple(parts))

    def _sequence(self) -> Tree:
        check_deadline()
        parts: list[Tree] = []
        source = self.source
        while self.at < len(source) and source[self.at] not in "|)":
            letter = source[self.at]
            if letter in _SYNTAX or source[self.at + 1 : self.at + 2] in _QUANTIFIERS:
                parts.append(self._quantified())
            else:  # most parts are single letters
                check_deadline()
                parts.append(("chars", ((ord(letter), ord(letter)),)))
                self.at += 1
        return parts[0] if len(parts) == 1 else ("cat", tuple(parts))

    def _quantified(self) -> Tree:
        check_deadline()
        is_group = self._peek("(")
        tree = self._single()
        bounds = self._quantifier()
        if bounds is None:
            return tree
        if tree[0] in ("start", "end", "boundary") and not is_group:
            raise InvalidPattern(f"nothing to repeat at {self.at}")
        least, most = bounds
        if most is not None and most < least:
            raise InvalidPattern(f"{{{least},{most}}} is out of order")
        if max(least, most or 0) > _MOST_REPEATS:
            raise Unsupported(f"a repeat of more than {_MOST_REPEATS}")
        if not self._take("?") and self._peek("+"):
            raise Unsupported("a possessive quantifier")
        if self._quantifier() is not None:
            raise InvalidPattern(f"nothing to repeat at {self.at}")
        if tree[0] in ("start", "end", "boundary", "look"):  # reads nothing, however often
            return tree if least else ("cat", ())
        return "repeat", tree, least, most

    def _quantifier(self) -> tuple[int, int | None] | None:
        if self.source[self.at : self.at + 1] not in _QUANTIFIERS:
            return None
        if self._take("*"):
            return 0, None
        if self._take("+"):
            return 1, None
        if self._take("?"):
            return 0, 1
        if not self._peek("{"):
            return None
        found = _BOUNDS.match(self.source, self.at)
        if found is None:
            return None  # Annex B: a brace that means itself
        self.at = found.end()
        least, comma, most = found.groups()
        return _count(least), (_count(least) if not comma else _count(most) if most else None)

    def _single(self) -> Tree:
        letter = self._next()
        if letter == "(":
            return self._group()
        if letter == "[":
            return "chars", self._class()
        if letter == ".":
            return "chars", others(LINES)
        if letter == "^":
            return ("start",)
        if letter == "$":
            return ("end",)
        if letter == "\\":
            return self._escape()
        if letter in "*+?" or (letter == "{" and _BOUNDS.match(self.source, self.at - 1)):
            raise InvalidPattern(f"nothing to repeat at {self.at - 1}")
        return "chars", ((ord(letter), ord(letter)),)

    def _group(self) -> Tree:
        look = None
        if self._take("?"):
            if self._take("=") or self._take("!"):
                look = self.source[self.at - 1] == "!"
            elif self._take("<=") or self._take("<!"):
                raise Unsupported("look-behind")
            elif self._take("<") or self._take("P<"):
                self._name()
            elif self._take("P="):
                raise Unsupported("a back-reference")
            elif self._take(">"):
                raise Unsupported("an atomic group")
            elif not self._take(":"):
                raise Unsupported("flags or another extension of groups")
        if self.depth == MOST_NESTED:
            raise Unsupported("groups nested too deeply")
        self.depth += 1
        tree = self.alternatives()
        self.depth -= 1
        if not self._take(")"):
            raise InvalidPattern("'(' without ')'")
        return tree if look is None else ("look", tree, look)

    def _name(self) -> None:
        """Read a group's name, and its end."""
        name = ""
        while not self._take(">"):
            check_deadline()
            letter = self._next()
            if letter == "\\" and self._take("u"):
                begin = self.at
                code = self._code("u", False)
                letter = chr(code) if self.at > begin else "\\"
            name += letter
        if not _is_name(name):
            raise InvalidPattern(f"a group's name is not an identifier at {self.at}")
        if name in self.names:
            raise InvalidPattern(f"two groups have the same name at {self.at}")
        self.names |= {name}

    def _escape(self) -> Tree:
        letter = self.source[self.at : self.at + 1]
        if letter in ("b", "B") and letter:
            self.at += 1
            return "boundary", letter == "B"
        if letter in ("A", "Z", "z", "G") and letter:
            raise Unsupported(f"\\{letter}, which ECMA-262 does not have")
        if letter == "k" and self.source[self.at + 1 : self.at + 2] == "<":
            raise Unsupported("a back-reference")
        if letter and letter in "123456789":
            raise Unsupported("a back-reference")
        return "chars", self._escaped(False)

    def _escaped(self, in_class: bool) -> Ranges:
        letter = self._next()
        if letter.lower() in _CLASSES:
            ranges = _CLASSES[letter.lower()]
            return ranges if letter.islower() else others(ranges)
        if letter in "pP" and self._peek("{"):
            end = self.source.find("}", self.at)
            if end < 0:
                raise InvalidPattern("a property has no end")
            name, self.at = self.source[self.at + 1 : end], end + 1
            ranges = _property(name)
            return ranges if letter == "p" else others(ranges)
        code = self._code(letter, in_class)
        return ((code, code),)

    def _code(self, letter: str, in_class: bool) -> int:
        """Read the code point of an escaped character."""
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter == "b" and in_class:
            return 8
        following = self.source[self.at : self.at + 1]
        if letter in "01234567":  # other escapes like \\1 are back-references
            if following and following in "0123456789":
                raise Unsupported("an octal escape")
            return int(letter, 8)
        if letter == "c":
            if not (following.isascii() and following.isalpha()):
                raise Unsupported("\\c without a letter")
            return ord(self._next()) % 32
        if letter == "x":
            return self._hexadecimal(2, letter)
        if letter == "u":
            found = _CODE_POINT.match(self.source, self.at)
            if found is None:
                return self._unit(letter)
            self.at = found.end()
            if int(found[1], 16) > LAST:
                raise InvalidPattern("\\u{...} is not a character")
            return int(found[1], 16)
        return ord(letter)

    def _unit(self, letter: str) -> int:
        """Read a code unit of four digits; two that form a surrogate pair are one character."""
        code = self._hexadecimal(4, letter)
        if 0xD800 <= code < 0xDC00 and self._peek("\\u"):
            digits = self.source[self.at + 2 : self.at + 6]
            if len(digits) == 4 and _is_hexadecimal(digits) and 0xDC00 <= int(digits, 16) < 0xE000:
                self.at += 6
                return 0x10000 + ((code - 0xD800) << 10) + int(digits, 16) - 0xDC00
        return code

    def _hexadecimal(self, length: int, letter: str) -> int:
        digits = self.source[self.at : self.at + length]
        if len(digits) < length or not _is_hexadecimal(digits):
            return ord(letter)  # Annex B: the letter means itself
        self.at += length
        return int(digits, 16)

    def _class(self) -> Ranges:
        is_negated = self._take("^")
        found: list[tuple[int, int]] = []
        while not self._take("]"):
            check_deadline()
            if self._peek("[:") and ":]" in self.source[self.at + 2 : self.at + 12]:
                raise Unsupported("a POSIX class")
            one = self._member()
            if not self._peek("-") or self.source[self.at + 1 : self.at + 2] in ("]", ""):
                found += one
                continue
            self.at += 1
            other = self._member()
            if _is_single(one) and _is_single(other):
                if one[0][0] > other[0][0]:
                    raise InvalidPattern("a range of characters is out of order")
                found.append((one[0][0], other[0][0]))
            else:
                found += [*one, (45, 45), *other]
        ranges = joined(found)
        return others(ranges) if is_negated else ranges

    def _member(self) -> Ranges:
        letter = self._next()
        return self._escaped(True) if letter == "\\" else ((ord(letter), ord(letter)),)


def _is_name(name: str) -> bool:
    """Whether a text is an identifier of ECMA-262. Python's have no dollar, and lack some letters."""
    first, rest = name[:1], name[1:]
    begins = first == "$" or first.isalpha() or first.isidentifier()
    return begins and all(one in "$\u200c\u200d" or one.isalpha() or f"a{one}".isidentifier() for one in rest)


def _count(digits: str) -> int:
    """A number of repeats; if it is too large, just some number that is."""
    digits = digits.lstrip("0")
    return int(digits or 0) if len(digits) < 12 else _MOST_REPEATS + 1


def _is_hexadecimal(text: str) -> bool:
    return bool(text) and all(letter in "0123456789abcdefABCDEF" for letter in text)


def _is_single(ranges: Ranges) -> bool:
    return len(ranges) == 1 and ranges[0][0] == ranges[0][1]


_NAMES = (
    "Letter=L Cased_Letter=LC Uppercase_Letter=Lu Lowercase_Letter=Ll Titlecase_Letter=Lt Modifier_Letter=Lm "
    "Other_Letter=Lo Mark=M Combining_Mark=M Nonspacing_Mark=Mn Spacing_Mark=Mc Enclosing_Mark=Me Number=N "
    "Decimal_Number=Nd digit=Nd Letter_Number=Nl Other_Number=No Punctuation=P punct=P "
    "Connector_Punctuation=Pc Dash_Punctuation=Pd Open_Punctuation=Ps Close_Punctuation=Pe "
    "Initial_Punctuation=Pi Final_Punctuation=Pf Other_Punctuation=Po Symbol=S Math_Symbol=Sm "
    "Currency_Symbol=Sc Modifier_Symbol=Sk Other_Symbol=So Separator=Z Space_Separator=Zs Line_Separator=Zl "
    "Paragraph_Separator=Zp Other=C Control=Cc cntrl=Cc Format=Cf Surrogate=Cs Private_Use=Co Unassigned=Cn"
)
_GENERAL = dict(pair.split("=") for pair in _NAMES.split(" "))
"""Long names of general categories (Unicode, PropertyValueAliases)."""
_CASED = "Lu", "Ll", "Lt"


@cache
def _categories() -> dict[str, list[tuple[int, int]]]:
    """For each general category, the ranges of its characters. To find all takes as long as to find one."""
    found: dict[str, list[tuple[int, int]]] = {}
    begin = 0
    for category, run in groupby(map(unicodedata.category, map(chr, range(LAST + 1)))):
        end = begin + sum(1 for _ in run)
        found.setdefault(category, []).append((begin, end - 1))
        begin = end
    return found


@lru_cache(maxsize=64)
def _property(name: str) -> Ranges:
    """Return the characters with a Unicode property: general categories, and a few other properties."""
    key, is_pair, value = name.rpartition("=")
    if is_pair and key not in ("General_Category", "gc"):
        raise Unsupported(f"the property \\p{{{name}}}")
    if name in ("ASCII", "Any"):
        return ((0, 0x7F if name == "ASCII" else LAST),)
    category = _GENERAL.get(value, value)
    if not category or category[0] not in "LMNPSZC" or len(category) > 2:
        raise Unsupported(f"the property \\p{{{name}}}")
    ranges_of = _categories()
    within = _CASED if category == "LC" else category
    found = joined([one for name in ranges_of if name.startswith(within) for one in ranges_of[name]])
    if not found:
        raise Unsupported(f"the property \\p{{{name}}}")
    return found
