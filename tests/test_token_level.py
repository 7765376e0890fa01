"""Grammars that name ids, count, or end early: plain XGrammar runs what stacks do not decide, and says so.

What: small grammars of each construct; masks are those of plain XGrammar at every step of random walks.
Limits: a small vocabulary, chosen for what may go wrong: equal bytes, named ids that are also text, ids
without text, stop ids that are text or named. `tests.test_token_ids` covers what a classifier decides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
import xgrammar

from equivalence import GrammarError, UnsupportedGrammar
from equivalence.network import dialect
from equivalence.network.features import features_of
from equivalence.network.grammar_reader import read_grammar
from hybrid import GrammarCompiler, Vocabulary
from tests.robustness.fuzz.grammars import Drawn
from tests.robustness.fuzz.inputs import Case
from tests.robustness.fuzz.run import run_case
from tests.robustness.fuzz.walks import Outcome

TOKENS: list[bytes] = [
    b"", b"</s>", b"ab", b"a", b"b", b"<t>", b"ab", b"x", b"1", b" ", b"<", b"e", b"<e", b"!", b"z",
    "é".encode(), b"\xc3", b"\xa9", b'"', b"a ", b"ab ", b"e<", b"<ex", b"c", b"xy", b"xa", b"!z", b"e!",
    "éa".encode(), b"b ", b"bb", b"ba", "aé".encode(), b"1a", b"\n", b"<ea", b"cb", b"bc", b"abc", b"ac",
    " é".encode(), b"t>", b"tt", b"y", b"t", b">", b"", b"z", b"q", b"\x00", b"a\x00", b"\xc3x",
    "日本".encode(), "日".encode()[:2], "日".encode()[:1], b"",
]  # fmt: skip
"""Ids 1 and 55 stop; the first one is also text."""
STOPS = [1, 55]
VOCABULARY = Vocabulary.from_bytes(TOKENS, stop_token_ids=STOPS)
TEXT = "\nTEXT: /(\\n|.)*/"

LARK = {
    "token budget": 'start: r "1"\nr[max_tokens=2]: /([a-z]* )+/',
    "token budget, lazy": 'start: head "z"\nhead[max_tokens=2, lazy]: TEXT "!"' + TEXT,
    "lazy": 'start: head "!"\nhead[lazy]: ("a"|"b")* "<e"',
    "stop": 'start: head "x"\nhead[stop="<e"]: TEXT' + TEXT,
    "suffix, captured": 'start: head "x"\nhead[suffix="<e", capture="h"]: TEXT' + TEXT,
    "characters": 'start: r "1"\nr[max_chars=3]: /([a-zé]* )+/',
    "characters, then a token": 'start: r <[5]> "1"\nr[max_chars=3]: /[a-zé ]*/',
    "characters, excluded tokens": 'start: r "1"\nr[max_chars=3]: <[^5,6]>+ "x"',
    "lazy, until a token": 'start: head "x"\nhead[lazy]: TEXT <[5]>' + TEXT,
    "token, captured": 'start: a "1"\na[capture]: /[a-z]+/ <[5]> "x"',
}
EBNF = {
    "token": 'root ::= "a" Token(5,7) root | "b"',
    "token beside text": 'root ::= (Token(5) | "a" | "ab" r)* "x"\nr ::= "b" Token(6) r | "x"',
    "token without text, stop ids": 'root ::= s Token(5, 0, 1, 46, 55)\ns ::= "\\"" [^"]* "\\""',
    "token that is also read as text": 'root ::= (Token(2) r | "ab" r)* "x"\nr ::= "b" s | "x"\ns ::= "1"',
    "token budget, token": 'root ::= r Token(5) "1"\nr[max_tokens=2] ::= [a-c] [a-c ]*',
    "token, called root": 'root ::= "(" root ")" | Token(5) | "<" Token(5, 2) root',
    "excluded": 'root ::= "a" ExcludeToken(5,7) root | "b"',
    "excluded, then text": 'root ::= (ExcludeToken(5) r)* "x"\nr ::= "b" r | "x"',
    "excluded beside text": 'root ::= (ExcludeToken(5) r | "a" r | "ab" r)* "x"\nr ::= "b" r | "x" | "1" r',
    "different exclusions": 'root ::= ExcludeToken(2) "a" | ExcludeToken(3, 4) "b" | "a" ExcludeToken(5)',
    "excluded, read as text too":
        'root ::= r "b" | ExcludeToken(1) s\nr ::= "ab" t\nt ::= "a"\ns ::= t "x" | r',
    "token budget, excluded": 'root ::= r* "1"\nr[max_tokens=2] ::= [ab]* ExcludeToken(5) | [^b]',
    "lookahead": 'root ::= (r "b" | r "<e")+\nr ::= "a" | "ab" | s\ns ::= "x" (="b")',
    "wrong lookahead": 'root ::= r ("b" | "<e")\nr ::= "a" | "ab" (="1")',
}  # fmt: skip


def parse(name: str) -> xgrammar.Grammar:
    if name in LARK:
        return xgrammar.Grammar.from_lark(LARK[name])
    return xgrammar.Grammar.from_ebnf(EBNF[name])


def walk(
    kind: str, source: str, vocabulary: Vocabulary, strategies: Sequence[str] | None = None, **options: Any
) -> Outcome:
    """Walk through a grammar at random, and compare every bit and every answer with plain XGrammar's; return
    the counts.

    Args:
        kind: what reads the source: "ebnf", "lark" or "structural_tag".
        source: the text of the grammar.
        vocabulary: its tokens may be named.
        strategies: of ours; None: all.
        options: of a `Case` of the fuzzer.
    """
    drawn = Drawn(kind, kind, source, (), counts=re.search("max_|lazy|stop=|suffix=", source) is not None)
    case = Case(source, drawn, tokens=vocabulary.tokens, stops=vocabulary.stop_token_ids, walks=15, **options)
    outcome = run_case(case, strategies)
    assert not outcome.findings, outcome.findings[0]
    assert outcome.masks["auto"] > 50
    return outcome


@pytest.mark.parametrize("name", [*LARK, *EBNF])
def test_what_stacks_do_not_decide_runs_in_plain_xgrammar(name: str) -> None:
    grammar = parse(name)
    features = features_of(read_grammar(grammar))
    compiled = GrammarCompiler(VOCABULARY).compile_grammar(grammar)
    ids = features.only_ids and not features.captures and not dialect.JOINS_TOKENS
    if not features.beyond_stacks or ids:
        assert compiled.strategy == "classifier"
        return
    construct = f"the grammar uses {features}, so the allowed tokens depend on more than the text's bytes"
    assert compiled.strategy == "engine" and compiled.classes is None
    assert ("stop= or suffix=" in compiled.reason) == features.markers
    assert compiled.reason.startswith("no token classes: ") and construct in compiled.reason
    assert GrammarCompiler(VOCABULARY, strategy="engine").compile_grammar(grammar).strategy == "engine"
    with pytest.raises(UnsupportedGrammar, match=f"{construct}.*; use strategy='auto'"):
        GrammarCompiler(VOCABULARY, strategy="representatives").compile_grammar(grammar)
    walk("lark" if name in LARK else "ebnf", (LARK | EBNF)[name], VOCABULARY, ["auto"])


@pytest.mark.parametrize("name", ["lookahead", "wrong lookahead"])
def test_representatives_follow_accept_token(name: str) -> None:
    """They must ignore the lookahead assertions that sharpen XGrammar's masks, some of them wrongly."""
    walk("ebnf", EBNF[name], VOCABULARY, ["representatives", "auto"])


@pytest.mark.parametrize("strategy", ["auto", "representatives", "engine"])
@pytest.mark.parametrize("text", ["root ::= Token(56)", 'root ::= "a"\nunused ::= ExcludeToken(3, 4000)'])
def test_ids_that_the_vocabulary_lacks(text: str, strategy: str) -> None:
    """Such ids must be refused, because XGrammar's compiler would read past its tables."""
    with pytest.raises(GrammarError, match="ids of this vocabulary are from 0 to 55"):
        GrammarCompiler(VOCABULARY, strategy=strategy).compile_grammar(text)
