"""Differences between the installed XGrammar and the newest known version in writing and reading grammars.

What: `LAYOUT` is the layout of serialised grammars; `refuse_other_layout` refuses grammars of another.
`LOOSE` says that character classes read some bytes that are not UTF-8, as XGrammar before 0.2.8 does: a class
that excludes characters accepts C0 to DF and one continuation byte, E0 to EF and two, F0 to F7 and three; a
range of characters whose encodings have several lengths accepts overlong encodings of the greater lengths.
When: whenever a serialised grammar is read or written, and by `equivalence.network.automata` and `edges`;
tested against 0.2.7, 0.2.8 and 0.2.9.
Limits: two readings of older releases are refused by name: classes that exclude characters beyond ASCII,
and ranges that end within a block of 4,096 characters but begin before it, which they read with gaps.
Repeats of a rule that is only a repeat are refused for 0.2.7, which uses parts of the inner repeat:
``([0-9]{2}){1,2}`` reads ``123`` there. Grammars that name token ids are refused for 0.2.9. A later version
is tested on the grammars in `KNOWN`, because a release may change the meaning of a grammar without changing
its form. If any of them is read differently, no grammar is read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from typing import Any

from equivalence.errors import GrammarError, UnsupportedGrammar
from equivalence.network import serial

STRICT_FROM, PARTS_IN, NEWEST = (0, 2, 8), (0, 2, 7), (0, 2, 9)
"""The first version that reads classes strictly; the one that uses parts of repeats in repeats; the newest
on which the tests have run."""

V18_FROM = (0, 2, 9)
"""The first version that serialises in the layout v18."""

KNOWN: dict[str, tuple[tuple[bytes, ...], tuple[bytes, ...]]] = {
    "root ::= [^a-c]": (
        (b"d", b"\x00", "é".encode(), "\U0010ffff".encode()),
        (b"a", b"\xc0\x80", b"\xff", b""),
    ),
    "root ::= [\\x20-\\u2fff]": ((b" ", "é".encode(), b"\xe2\xbf\xbf"), (b"\xe0\x82\x80",)),
    "root ::= [^a]* [x-z] [^\\n]{2}": ((b"xbc", b"bzaa"), (b"xb", b"axbc", b"x\n\n")),
    "root ::= ([0-9]{2}){1,2}": ((b"12", b"1234"), (b"1", b"123", b"12345")),
    'root ::= ("ab" | "a"){2,3} "b"?': (
        (b"aa", b"abab", b"aab", b"ababab", b"aaab", b"aabb"),
        (b"a", b"b", b"abbb"),
    ),
    'root ::= "a"{0,} ("b" | "")': ((b"", b"aaaa", b"aab"), (b"bb", b"ba")),
    'root ::= root "+" one | one\none ::= "(" root ")" | "1"': ((b"1", b"1+(1+1)+1"), (b"1+", b"(1", b"+1")),
    'root ::= "" | one root\none ::= [ab] one | "" | "c"': ((b"", b"abc", b"cab"), (b"d",)),
    'root ::= one "b"\none ::= "a" | "ab" (="c")': ((b"ab", b"abb"), (b"abc", b"b")),
    'root ::= "\\x41\\u00e9\\"\\\\\\n"': (('Aé"\\\n'.encode(),), (b'A\xe9"\\\n',)),
}
"""What grammars read, and what they do not read, in `NEWEST`: classes, repeats, recursion, rules that may
be empty, lookahead assertions, escapes."""


def is_loose(version: str) -> bool:
    """Whether a version of XGrammar reads classes loosely; False if the text is not a version number."""
    numbers = _numbers(version)
    return numbers is not None and numbers < STRICT_FROM


def _numbers(version: str) -> tuple[int, ...] | None:
    found = re.match(r"\d+(\.\d+){0,2}", version)
    return None if found is None else tuple(map(int, found[0].split(".")))


def refuse_other_layout(features: dict[str, Any]) -> None:
    """Refuse a serialised grammar, parsed by `json.loads`, that cannot be read here.

    Raises:
        GrammarError: the layout is unknown; or a later XGrammar is installed, which reads grammars
            differently.
    """
    version = features.get(serial.VERSION_FIELD)
    if version != LAYOUT:
        raise GrammarError(
            f"XGrammar serialises grammars in version {version!r}, but only {LAYOUT!r} is supported "
            f"with xgrammar {_installed()}; install xgrammar 0.2.7 to 0.2.9"
        )
    refuse_other_meaning()


def refuse_other_meaning() -> None:
    """Refuse to read grammars if the installed, later XGrammar reads some known grammar differently.

    Raises:
        GrammarError: the message names the grammar.
    """
    numbers = _numbers(_installed())
    other = _read_otherwise() if numbers is not None and numbers > NEWEST else ""
    if other:
        raise GrammarError(
            f"XGrammar {_installed()} reads the grammar {other!r} differently from "
            f"{'.'.join(map(str, NEWEST))}; install that version"
        )


@cache
def _read_otherwise() -> str:
    """The first grammar of `KNOWN` that is read differently, or an empty string; found once, in 14 ms."""
    import xgrammar

    info = xgrammar.TokenizerInfo([*(bytes([one]) for one in range(256)), b""], stop_token_ids=[256])
    compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
    for grammar, (taken, refused) in KNOWN.items():
        try:
            compiled = compiler.compile_grammar(grammar)
        except RuntimeError:
            return grammar
        for text in (*taken, *refused):
            matcher = xgrammar.GrammarMatcher(compiled)
            is_read = matcher.accept_string(text) and matcher.accept_token(256)
            if is_read != (text in taken):
                return grammar
    return ""


def refuse_repeats_in_repeats(data: Sequence[int], starts: Sequence[int], rules: Sequence[Any]) -> None:
    """Refuse a grammar that repeats a rule which is only a repeat.

    Raises:
        UnsupportedGrammar: the message names the rule.
    """
    for at in starts:
        if data[at] != serial.REPEAT:
            continue
        seen: set[int] = set()
        number = data[at + 2]
        while number not in seen:
            seen.add(number)
            body = starts[rules[number][serial.BODY]]
            while data[body] in serial.WHOLES and data[body + 1] == 1:
                body = starts[data[body + 2]]
            if data[body] == serial.REPEAT:
                raise UnsupportedGrammar(
                    f"rule {rules[number][serial.NAME]!r} is a repeat, and is repeated: XGrammar 0.2.7 "
                    "accepts parts of such a rule; install xgrammar 0.2.8 or newer"
                )
            if data[body] == serial.RULE:
                number = data[body + 2]


def refuse_token_ids() -> None:
    """Refuse a grammar that names token ids if the installed XGrammar may read one within a token.

    For ``"a" ExcludeToken(5)``, XGrammar 0.2.9 takes the token ``ab``: its id is not excluded, so the edge
    reads what is left of the token. Forced text ends where an id may be read.

    Raises:
        UnsupportedGrammar: the installed XGrammar is 0.2.9 or later.
    """
    if JOINS_TOKENS:
        raise UnsupportedGrammar(
            "the grammar names token ids, and XGrammar from 0.2.9 on may read one within a token; "
            "install xgrammar 0.2.8"
        )


@cache
def _installed() -> str:
    try:
        return metadata.version("xgrammar")
    except metadata.PackageNotFoundError:  # grammars come from somewhere else
        return ""


LOOSE = is_loose(_installed())
TAKES_PARTS = _numbers(_installed()) == PARTS_IN
JOINS_TOKENS = (_numbers(_installed()) or NEWEST) >= V18_FROM
"""Whether a token may begin as text and end where the grammar names token ids."""

DROPS_PARTS = JOINS_TOKENS
"""Whether forced text that would begin within a character is empty; otherwise it is an error."""

LAYOUT = "v18" if JOINS_TOKENS else "v16"
"""The layout of serialised grammars that is read and written here: that of the installed XGrammar."""

NOT_COMPILED = serial.LAYOUTS[LAYOUT]
"""The fields that the installed XGrammar's compiler adds, and their content before."""
