"""Grammars that name ids, count, or end early: plain XGrammar runs what stacks do not decide, and says so.

What: small grammars of each construct; masks are those of plain XGrammar at every step of random walks.
Limits: a small vocabulary, chosen for what may go wrong: equal bytes, named ids that are also text, ids
without text, stop ids that are text or named. `tests.test_token_ids` covers what a classifier decides.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
import xgrammar

from equivalence import GrammarError, UnsupportedGrammar
from equivalence.network import dialect
from equivalence.network.features import features_of
from equivalence.network.grammar_reader import read_grammar
from hybrid import CompiledGrammar, GrammarCompiler, GrammarMatcher, Vocabulary
from tests.matchers import allowed, mask_of, outcome, taken_by

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


def walk(ours: GrammarMatcher, plain: Any, rng: random.Random, steps: int = 12) -> tuple[bool, int]:
    """Walk both at random, comparing every step. Returns whether the classifier was in use to the end, and
    how many bits were set."""
    compiled = ours.compiled_grammar
    vocabulary = compiled.vocabulary
    history: list[int | bytes] = []
    seen = 0
    for _ in range(steps):
        needed, found = allowed(ours, vocabulary.size)
        if hasattr(ours._follower, "config"):
            taken = taken_by(plain, vocabulary.size)
        else:  # plain XGrammar, whose masks may contradict what it accepts
            taken = allowed(plain, vocabulary.size)[1]
        assert found == taken, (history, [vocabulary.tokens[i] for i in {*found} ^ {*taken}])
        assert needed == (len(taken) < vocabulary.size)
        for method in ("is_completed", "find_jump_forward_string", "get_captures"):
            both = [outcome(getattr(one, method)) for one in (ours, plain)]
            # on "engine", there is no forced text if XGrammar's search may not return
            assert both[0] == both[1] or ("" in both and compiled.has_texts_without_end)
        seen += len(taken)
        if compiled.known_classes is not None:
            same_bits(compiled, taken, [*STOPS, *vocabulary.stop_token_ids])
        if history and rng.random() < 0.15:
            count = rng.randint(1, min(3, len(history)))
            ours.rollback(count)
            plain.rollback(count)
            del history[-count:]
            continue
        if rng.random() < 0.1:
            ours, plain = ours.fork(), plain.fork()
        read: int | bytes
        if rng.random() < 0.05:
            method, read = "accept_string", rng.choice([b"ab", b"a", b"\xff", b"x<", b"\xffa"])
        elif choice := range(vocabulary.size) if rng.random() < 0.1 else taken:
            method, read = "accept_token", rng.choice(choice)
        else:
            break
        accepted = getattr(plain, method)(read)
        assert getattr(ours, method)(read) == accepted, (history, read)
        history += [read] * accepted
        assert ours.is_terminated() == plain.is_terminated()
        if plain.is_terminated():
            break
    return hasattr(ours._follower, "config"), seen


def same_bits(compiled: CompiledGrammar, taken: list[int], stops: list[int]) -> None:
    """Check that tokens of a class have equal bits and tokens without a class none, except for stop ids."""
    classes = compiled.known_classes.class_of_token.tolist()
    bits = {(classes[i], i in taken) for i in range(len(classes)) if i not in stops}
    assert (-1, True) not in bits and len(bits) == len({number for number, _ in bits})


@pytest.mark.parametrize("name", [*LARK, *EBNF])
def test_what_stacks_do_not_decide_runs_in_plain_xgrammar(name: str) -> None:
    grammar = parse(name)
    features = features_of(read_grammar(grammar))
    compiled = GrammarCompiler(VOCABULARY).compile_grammar(grammar)
    ids = features.only_ids and not features.captures and not dialect.JOINS_TOKENS
    if not features.beyond_stacks or ids:
        assert compiled.strategy == "classifier"
        return
    construct = f"the grammar uses {features}: which tokens are allowed depends on more than the text's bytes"
    assert compiled.strategy == "engine" and compiled.classes is None
    assert compiled.reason.startswith("no token classes: ") and construct in compiled.reason
    assert GrammarCompiler(VOCABULARY, strategy="engine").compile_grammar(grammar).strategy == "engine"
    with pytest.raises(UnsupportedGrammar, match=f"{construct}.*; use strategy='auto'"):
        GrammarCompiler(VOCABULARY, strategy="representatives").compile_grammar(grammar)
    plain = xgrammar.GrammarCompiler(VOCABULARY.tokenizer_info).compile_grammar(grammar)
    rng = random.Random(name)
    matchers = ((GrammarMatcher(compiled), xgrammar.GrammarMatcher(plain)) for _ in range(12))
    assert sum(walk(ours, theirs, rng, 20)[1] for ours, theirs in matchers) > 50


@pytest.mark.parametrize("name", ["lookahead", "wrong lookahead"])
def test_representatives_follow_accept_token(name: str) -> None:
    """They must ignore the lookahead assertions that sharpen XGrammar's masks, some of them wrongly."""
    compiled = GrammarCompiler(VOCABULARY, strategy="representatives").compile_grammar(parse(name))
    rng = random.Random(name)
    for _ in range(25):
        matcher = GrammarMatcher(compiled)
        for _ in range(8):
            found = mask_of(matcher)
            assert found == taken_by(matcher)
            if not found or not matcher.accept_token(rng.choice(found)) or matcher.is_terminated():
                break


@pytest.mark.parametrize("strategy", ["auto", "representatives", "engine"])
@pytest.mark.parametrize("text", ["root ::= Token(56)", 'root ::= "a"\nunused ::= ExcludeToken(3, 4000)'])
def test_ids_that_the_vocabulary_lacks(text: str, strategy: str) -> None:
    """Such ids must be refused, because XGrammar's compiler would read past its tables."""
    with pytest.raises(GrammarError, match="ids of this vocabulary are from 0 to 55"):
        GrammarCompiler(VOCABULARY, strategy=strategy).compile_grammar(text)
