"""Small Lark grammars, each of which stresses one feature of the lexer or the parser.

What: `SMALL_GRAMMARS`, each with its alphabet and with tokens to ask `tests.lark_brute_force` about.
When: in tests of the code that answers without brute force.
Limits: continuations of ``length`` characters decide all lexemes of a grammar.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from lark import Lark

from tests.lark_brute_force import Oracle


@dataclass(frozen=True)
class SmallGrammar:
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

    @cached_property
    def lark(self) -> Lark:
        return Lark(self.text, parser="lalr", lexer="basic", start="start")

    def oracle(self) -> Oracle:
        """Return a new oracle that has remembered nothing yet."""
        return Oracle(self.lark, self.alphabet, self.length)


def _small(
    name: str, text: str, alphabet: str, more: str, length: int = 3, cut: Sequence[bytes] = ()
) -> SmallGrammar:
    """A grammar; its tokens are the alphabet, the words of ``more`` (``_`` is a space), and ``cut``."""
    words = [*alphabet, *(word.replace("_", " ") for word in more.split())]
    tokens = dict.fromkeys(word.encode() for word in words)
    tokens.update(dict.fromkeys(cut))
    return SmallGrammar(name, text, alphabet, tuple(tokens), length)


SMALL_GRAMMARS = (
    _small(
        "keyword or identifier",
        r"""
        start: statement+
        statement: "if" NAME ";" | NAME "=" NAME ";" | "f" ";"
        NAME: /[ifx]+/
        %ignore " "
        """,
        "ifx=; ",
        "if fi ff if_ _if =x =i ;i x; f; x=f",
    ),
    _small(
        "keyword on its own",  # no pattern covers the words, so `iffi` is three of them, and `i` none
        r"""
        start: ("if" "f" | "i" "," | "ii" ("f" "#")?)*
        """,
        "if,#",
        "if ff ii ,i fi iif if, i,f",
    ),
    _small(
        "priorities",  # the weaker pattern would match more
        r"""
        start: (HEAD NAME? | NAME ",")*
        HEAD.2: /ab?/
        NAME: /[abc]+/
        LOW.-1: /c+,/
        %ignore LOW
        """,
        "abc,",
        "ab bc abc ca c, ,a cc, bb",
    ),
    _small(
        "order of equal priorities",  # widest pattern first, then longest, then by name; not longest match
        r"""
        start: (A B | B A "x" | C C)*
        A: /a|ab/
        B: /ab?c?/
        C: /[bc]x?/
        """,
        "abcx",
        "ab abc bc ax cx bx aab cc",
    ),
    _small(
        "lazy comment",
        r"""
        start: ("a" | "/" | "*" "b")*
        COMMENT: /\/\*(.|\n)*?\*\//
        %ignore COMMENT
        """,
        "a/*b",
        "/* */ a/ *b */a **/ /*/ *a",
        length=4,
    ),
    _small(
        "lazy quantifiers",
        r"""
        start: (SHORT "b" | PAIR SHORT)*
        SHORT: /a+?b?/
        PAIR: /b{2,3}?c|ca*?d??/
        """,
        "abcd",
        "ab aa bb bc bbc cd ca aab",
        length=4,
    ),
    _small(
        "un-reading that the parser sees",  # `1e+` is a number, a name and an operator
        r"""
        start: product ("+" product)*
        product: (NUMBER | NAME)+
        NUMBER: /[0-9]+(\.[0-9]+)?(e\+?[0-9]+)?/
        NAME: /[ex]+/
        """,
        "1e+.x",
        "1e e+ +1 1. .1 e1 1e+ e+1 x1",
    ),
    _small(
        "un-reading that the parser refuses",
        r"""
        start: (NUMBER | NAME) ("+" (NUMBER | NAME) | "." NAME)*
        NUMBER: /[0-9]+(\.[0-9]+)?(e\+?[0-9]+)?/
        NAME: /[ex]+/
        """,
        "1e+.x",
        "1e e+ +1 1. .1 e1 1e+ e+1 .x x.",
    ),
    _small(
        "keyword that begins with white space",
        r"""
        start: NAME (AND NAME)*
        AND: / *aa/
        NAME: /[ab]+/
        %ignore / +/
        """,
        "ab #",
        "aa _a _aa ab a_ __ b_a a_b",
    ),
    _small(
        "keywords in any case",  # as part of a pattern in any case, and next to one in lower case
        r"""
        start: ("is"i LOWER | ANY "ix"i)*
        LOWER.1: /[isx]+/
        ANY: /[A-Z]+/i
        %ignore " "
        """,
        "isSx ",
        "is IS iS ix IX xi _i s_ isx xS",
    ),
    _small(
        "case folding of Unicode",  # the long s and the Kelvin sign are letters in any case
        r"""
        start: ("ask"i WORD)*
        WORD: /[a-k]\w/i
        """,
        "ask\u017f\u212a",
        "as sk as\u212a a\u017fk \u017f\u212a",
        cut=(b"\xc5", b"\xbf", b"\xe2\x84", b"\xaa", b"a\xc5", b"\xbfk"),
    ),
    _small(
        "dangling else",
        r"""
        start: statement
        statement: "i" statement | "i" statement "e" statement | "x"
        """,
        "iex",
        "ii ie xe ex iix xex ixe",
    ),
    _small(
        "conflict that loses sentences",  # shifting `b` leaves `xb` without its last letter
        r"""
        start: (part "b")+
        part: "x" | "x" "b"
        """,
        "xb",
        "xb bx bb xx xbb bbx",
    ),
    _small(
        "nullable rules",
        r"""
        start: first second "x" first
        first: | "a" first
        second: third? third?
        third: "b" | "(" second ")"
        """,
        "abx()",
        "ab xa () (b b) )x xaa ((",
    ),
    _small(
        "left and right recursion",
        r"""
        start: left "=" right
        left: left "," "a" | "a"
        right: "a" "," right | "a" | "-" right
        """,
        "a,=-",
        "a, ,a =a =- a= -- a=a ,,",
    ),
    _small(
        "look-ahead decides the reduction",
        r"""
        start: (one "d" | two "e" | one two "f")*
        one: "c"
        two: "c" | "cc"
        """,
        "cdef",
        "cc cd ce cf dc ccf ccc ec",
    ),
    _small(
        "error after several reductions",  # one state for `x` in either bracket
        r"""
        start: "(" sum ")" | "[" sum "]" | "[" product "|" "]"
        sum: product | sum "+" product
        product: power | product "*" power
        power: "x" | start
        """,
        "([x])+|",
        "(x [x x] x) x+ +x )] |] ((",
    ),
    _small(
        "characters of several bytes",
        r"""
        start: ("é" GREEK | EURO | OTHER "x")*
        EURO: "€"+
        GREEK: /[α-γ]+/
        OTHER: /[^\x00-\xffα-γ€]/
        """,
        "éα€😀xδ",
        "αα é€ 😀x xα xx",
        cut=(
            *(
                b"\xc3",
                b"\xa9",
                b"\xce",
                b"\xb1",
                b"\xce\xb1\xce",
                b"\xb4",
                b"\xe2",
                b"\xe2\x82",
                b"\x82\xac",
            ),
            *(b"\xac", b"\xf0", b"\xf0\x9f\x98", b"\x98\x80", b"\x80x", b"\xff", b"x\xf0", b"\xa9\xc3"),
        ),
    ),
    _small(
        "white space at some places",
        r"""
        start: line+
        line: NAME (_GAP NAME)* "\n"
        NAME: /[ab]+/
        _GAP: / +/
        NOTE: /#[^\n]*/
        %ignore NOTE
        """,
        "ab \n#",
        "a_ _b ab #a _# b# __",
    ),
    _small(
        "keyword in what is ignored",  # renamed too late: it is ignored all the same
        r"""
        start: ("c" "!" | "ab" "!")*
        DROPPED: /[ab]+/
        %ignore DROPPED
        """,
        "abc!",
        "ab ba ca c! a! bc abc",
    ),
    _small(
        "start may be empty",
        r"""
        start: | "a" start "b"
        %ignore "#"
        """,
        "ab#",
        "aa ab bb ## a# #b aab",
    ),
    _small(
        "templates and repeats",
        r"""
        start: _list{item, ","}
        _list{element, separator}: element (separator element)*
        item: "a"~2..3 | B "!"~2
        B: "b"~2..3
        """,
        "ab,!",
        "aa bb ,a a, bbb !! b! aaa",
    ),
    _small(
        "placeholders",
        r"""
        start: "(" ["a"] [pair] ")" ["c"]
        pair: "b" ["c"]
        """,
        "(abc)",
        "(a (b ab bc )c c) () (ab",
    ),
    _small(
        "imports",
        r"""
        start: (CNAME "=" SIGNED_NUMBER)*
        %import common (CNAME, SIGNED_NUMBER, WS)
        %ignore WS
        """,
        "e1=+. ",
        "=1 =+ 1e e1 1. .1 e= 1_ 1e+",
    ),
    _small(
        "escaped string",  # its pattern looks behind, within itself
        r"""
        start: (ESCAPED_STRING | "a")*
        %import common.ESCAPED_STRING
        """,
        '"a\\',
        '"a a" "" \\" \\\\ \\a "\\ a"a',
    ),
)
"""Small enough for all texts of six characters to be tried."""
