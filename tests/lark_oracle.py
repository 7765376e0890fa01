"""Small Lark grammars, each of which stresses one feature of the lexer or the parser.

What: `SMALL_GRAMMARS`, each with its alphabet and with tokens to ask `tests.lark_brute_force` about.
When: in tests of the code that answers without brute force.
Limits: continuations of ``length`` characters decide all lexemes of a grammar.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lark import Lark

from tests.lark_brute_force import Oracle


class SmallGrammar(NamedTuple):
    """A grammar that stresses one feature.

    Attributes:
        name: the name of the feature.
        text: the grammar in Lark's syntax, with the rule ``start``.
        alphabet: the characters of texts and continuations.
        tokens: the tokens to ask about, including the alphabet's characters; some are never allowed.
        length: the length of continuations, enough to decide all lexemes.
    """

    name: str
    text: str
    alphabet: str
    tokens: tuple[bytes, ...]
    length: int = 3

    def oracle(self) -> Oracle:
        """Return a new oracle that has remembered nothing yet."""
        return Oracle(Lark(self.text, parser="lalr", lexer="basic"), self.alphabet, self.length)


def _small(
    name: str, alphabet: str, more: str, text: str, length: int = 3, cut: Sequence[bytes] = ()
) -> SmallGrammar:
    """A grammar; its tokens are the alphabet, the words of ``more`` (``_`` is a space), and ``cut``."""
    words = [*alphabet, *(word.replace("_", " ") for word in more.split())]
    tokens = dict.fromkeys(word.encode() for word in words)
    tokens.update(dict.fromkeys(cut))
    return SmallGrammar(name, text, alphabet, tuple(tokens), length)


CUT_CHARACTERS = (
    b"\xc3", b"\xa9", b"\xce", b"\xb1", b"\xce\xb1\xce", b"\xb4", b"\xe2", b"\xe2\x82", b"\x82\xac", b"\xac",
    b"\xf0", b"\xf0\x9f\x98", b"\x98\x80", b"\x80x", b"\xff", b"x\xf0", b"\xa9\xc3",
)  # fmt: skip
"""Beginnings, ends and other pieces of characters of two to four bytes."""

SMALL_GRAMMARS = (
    _small("keyword or identifier", "ifx=; ", "if fi ff if_ _if =x =i ;i x; f; x=f", r"""
        start: statement+
        statement: "if" NAME ";" | NAME "=" NAME ";" | "f" ";"
        NAME: /[ifx]+/
        %ignore " "
        """),
    # no pattern covers the words, so `iffi` is three of them, and `i` none
    _small("keyword on its own", "if,#", "if ff ii ,i fi iif if, i,f", r"""
        start: ("if" "f" | "i" "," | "ii" ("f" "#")?)*
        """),
    # the weaker pattern would match more
    _small("priorities", "abc,", "ab bc abc ca c, ,a cc, bb", r"""
        start: (HEAD NAME? | NAME ",")*
        HEAD.2: /ab?/
        NAME: /[abc]+/
        LOW.-1: /c+,/
        %ignore LOW
        """),
    # widest pattern first, then longest, then by name; not longest match
    _small("order of equal priorities", "abcx", "ab abc bc ax cx bx aab cc", r"""
        start: (A B | B A "x" | C C)*
        A: /a|ab/
        B: /ab?c?/
        C: /[bc]x?/
        """),
    _small("lazy comment", "a/*b", "/* */ a/ *b */a **/ /*/ *a", r"""
        start: ("a" | "/" | "*" "b")*
        COMMENT: /\/\*(.|\n)*?\*\//
        %ignore COMMENT
        """, length=4),
    _small("lazy quantifiers", "abcd", "ab aa bb bc bbc cd ca aab", r"""
        start: (SHORT "b" | PAIR SHORT)*
        SHORT: /a+?b?/
        PAIR: /b{2,3}?c|ca*?d??/
        """, length=4),
    # `1e+` is a number, a name and an operator
    _small("un-reading that the parser sees", "1e+.x", "1e e+ +1 1. .1 e1 1e+ e+1 x1", r"""
        start: product ("+" product)*
        product: (NUMBER | NAME)+
        NUMBER: /[0-9]+(\.[0-9]+)?(e\+?[0-9]+)?/
        NAME: /[ex]+/
        """),
    _small("un-reading that the parser refuses", "1e+.x", "1e e+ +1 1. .1 e1 1e+ e+1 .x x.", r"""
        start: (NUMBER | NAME) ("+" (NUMBER | NAME) | "." NAME)*
        NUMBER: /[0-9]+(\.[0-9]+)?(e\+?[0-9]+)?/
        NAME: /[ex]+/
        """),
    _small("keyword that begins with white space", "ab #", "aa _a _aa ab a_ __ b_a a_b", r"""
        start: NAME (AND NAME)*
        AND: / *aa/
        NAME: /[ab]+/
        %ignore / +/
        """),
    # as part of a pattern in any case, and next to one in lower case
    _small("keywords in any case", "isSx ", "is IS iS ix IX xi _i s_ isx xS", r"""
        start: ("is"i LOWER | ANY "ix"i)*
        LOWER.1: /[isx]+/
        ANY: /[A-Z]+/i
        %ignore " "
        """),
    # the long s and the Kelvin sign are letters in any case
    _small("case folding of Unicode", "ask\u017f\u212a", "as sk as\u212a a\u017fk \u017f\u212a", r"""
        start: ("ask"i WORD)*
        WORD: /[a-k]\w/i
        """, cut=(b"\xc5", b"\xbf", b"\xe2\x84", b"\xaa", b"a\xc5", b"\xbfk")),
    _small("dangling else", "iex", "ii ie xe ex iix xex ixe", r"""
        start: statement
        statement: "i" statement | "i" statement "e" statement | "x"
        """),
    # shifting `b` leaves `xb` without its last letter
    _small("conflict that loses sentences", "xb", "xb bx bb xx xbb bbx", r"""
        start: (part "b")+
        part: "x" | "x" "b"
        """),
    _small("nullable rules", "abx()", "ab xa () (b b) )x xaa ((", r"""
        start: first second "x" first
        first: | "a" first
        second: third? third?
        third: "b" | "(" second ")"
        """),
    _small("left and right recursion", "a,=-", "a, ,a =a =- a= -- a=a ,,", r"""
        start: left "=" right
        left: left "," "a" | "a"
        right: "a" "," right | "a" | "-" right
        """),
    _small("look-ahead decides the reduction", "cdef", "cc cd ce cf dc ccf ccc ec", r"""
        start: (one "d" | two "e" | one two "f")*
        one: "c"
        two: "c" | "cc"
        """),
    # one state for `x` in either bracket
    _small("error after several reductions", "([x])+|", "(x [x x] x) x+ +x )] |] ((", r"""
        start: "(" sum ")" | "[" sum "]" | "[" product "|" "]"
        sum: product | sum "+" product
        product: power | product "*" power
        power: "x" | start
        """),
    _small("characters of several bytes", "éα€😀xδ", "αα é€ 😀x xα xx", r"""
        start: ("é" GREEK | EURO | OTHER "x")*
        EURO: "€"+
        GREEK: /[α-γ]+/
        OTHER: /[^\x00-\xffα-γ€]/
        """, cut=CUT_CHARACTERS),
    _small("white space at some places", "ab \n#", "a_ _b ab #a _# b# __", r"""
        start: line+
        line: NAME (_GAP NAME)* "\n"
        NAME: /[ab]+/
        _GAP: / +/
        NOTE: /#[^\n]*/
        %ignore NOTE
        """),
    # renamed too late: it is ignored all the same
    _small("keyword in what is ignored", "abc!", "ab ba ca c! a! bc abc", r"""
        start: ("c" "!" | "ab" "!")*
        DROPPED: /[ab]+/
        %ignore DROPPED
        """),
    _small("start may be empty", "ab#", "aa ab bb ## a# #b aab", r"""
        start: | "a" start "b"
        %ignore "#"
        """),
    _small("escaped string", '"a\\', '"a a" "" \\" \\\\ \\a "\\ a"a', r"""
        start: (ESCAPED_STRING | "a")*
        %import common.ESCAPED_STRING
        """),
)  # fmt: skip
"""Small enough for all texts of six characters to be tried."""
