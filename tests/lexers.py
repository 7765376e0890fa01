"""Small lexers for the tests of `equivalence.lark.lexer`, and what Lark makes of all short texts.

What: `GRAMMARS` names grammars whose terminals interact (order, keywords, ignoring, giving back,
look-around), each with the characters that matter to it; `lark_grammar` builds one as the machine needs it.
When: imported by ``tests/test_lexing*.py``; `is_unclosed` also by ``test_lark.py``.
Limits: the rules accept any sequence of terminals: only the lexer is of interest.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import cache
from typing import Any
from unittest import mock

import lark

from tests.lark_oracle import SMALL_GRAMMARS

GRAMMARS = {
    "priorities": ("abc", 'start: (A | B | C)*\nA.2: "ab"\nB: /[ab]+/\nC: "c" "c"'),
    "lazy_comment": ("/*x", r"""start: (SLASH | STAR | X)*
        SLASH: "/"
        STAR: "*"
        X: "x"
        COMMENT: /\/\*.*?\*\//s
        %ignore COMMENT"""),
    "first_wins": ("jox ", 'start: (JO | NAME)*\nJO.2: /jo/\nNAME: /[jox]+/\n%ignore " "'),
    "space_in_keyword": ("lj .", 'start: (J | N | D)*\nJ.2: /( *l +)? +j/\nN: /[lj]+/\nD: "."\n%ignore / /'),
    "ignored_keyword": ("abz", 'start: (K | Z)*\nK: "ab"\nW: /[ab]+/\nZ: "z"\n%ignore W'),
    "keyword_is_ignored": ("abz", 'start: (K | W | Z)*\nK: "ab"\nW: /[ab]+/\nZ: "z"\n%ignore K'),
    "without_case": (
        "k\N{KELVIN SIGN}sſéÉ ",
        'start: (K | S | N | M)*\nK: "k"i\nS: /s+/i\nN: "ſ"\nM: /[é-í]+/i\n%ignore " "',
    ),
    "keyword_without_case": ("iIsSſ ", 'start: (K | N)*\nK: "is"i\nN: /\\w+/\n%ignore " "'),
    "strings": ('"\\r#\n', r"""start: (SHORT | LONG | NAME | COMMENT)*
        SHORT: /r?("(?!"").*?(?<!\\)(\\\\)*?")/i
        LONG: /r?"{3}(?<!\\).*?"{3}/is
        NAME: /[a-zR]/
        COMMENT: /#.*(\n)+/
        %ignore "\n" """),
    "look_ahead": ("abc", r"""start: (A | B | C | D)*
        A: /a+(?=b)/
        B: /a(?!bb)|b/
        C: /c(?=(ab|$))/
        D: /ab\b|[abc]c/"""),
    "nested_look_ahead": ("abc", "start: (A | B | C)*\nA: /a(?=b(?!c))/\nB: /[ab]+?(?!a(?=b))/\nC: /c|ac/"),
    "ends": (
        "abn\n",
        "start: (A | B | C | D)*\nA: /a\\Z/\nB: /[ab]$/\nC: /[abn]\\b/\nD: /[abn]|\\n/\nE: /n(?m:$)b?/",
    ),
    "empty_rounds": ("abc", "start: (A | B | C)*\nA: /(|a)*b/\nB: /(a*|b)*c/\nC: /a(b|a?)*?/"),
    "deep": ("abc", "start: (A | X)*\nX: /a+b/\nA: /a/\n%ignore A"),
    "ignored_tail": ("abc", 'start: (A | B | C)*\nA: "a"\nB: "b"\nC: "c"\nI.2: /aab(ba*c)?/\n%ignore I'),
    "contradiction": ("abc", "start: (X | B | C)*\nX: /a(?=b)(?=c)[bc]/\nB: /b(?=a)/\nC: /bc/"),
    "ignored_before": ("xvwi", "start: (V | W)*\nV: /x?v/\nW: /x?vw/\nI: /i(?=v)/\n%ignore I"),
    "characters": ("a٣é!𝔘漢", "start: (W | D | P)*\nW: /\\w+/\nD.2: /\\d+!/\nP: /[^\\w]/"),
    "lexemes_given_back": next(
        (one.alphabet, one.text) for one in SMALL_GRAMMARS if one.name == "un-reading that the parser sees"
    ),
}  # fmt: skip
"""By name, the characters that matter to a grammar, and its text."""


@cache
def lark_grammar(name: str) -> Any:
    """Return the `lark.Lark` of one of `GRAMMARS`."""
    return build_lark(GRAMMARS[name][1])


def build_lark(text: str) -> Any:
    """Build a `lark.Lark` with the lexer that the machine follows.

    The optional package that warns about overlapping terminals is not used: it is slow, and fails on some
    patterns.
    """
    with mock.patch("lark.lexer.has_interegular", False):
        return lark.Lark(text, parser="lalr", lexer="basic", start="start")


def texts(alphabet: str, longest: int) -> Iterator[str]:
    """All texts over an alphabet, the shortest first."""
    for length in range(longest + 1):
        for text in itertools.product(alphabet, repeat=length):
            yield "".join(text)


def is_unclosed(text: str) -> bool:
    """Whether a comment is opened and never closed.

    At the end of the text, Lark backtracks over such an opening; the machine does not (docs/lark.md), and the
    text must go on.
    """
    return "/*" in re.sub(r"/\*.*?\*/", "x", text, flags=re.DOTALL)
