"""Grammars that name ids, count, or end early: plain XGrammar runs what stacks do not decide, and says so.

What: small grammars of each construct; masks are those of plain XGrammar at every step of random walks.
Limits: a small vocabulary, chosen for what may go wrong: equal bytes, named ids that are also text, ids
without text, stop ids that are text or named. `tests.test_token_ids` covers what a classifier decides.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import xgrammar

from equivalence import GrammarError, UnsupportedGrammar
from equivalence.network import dialect
from equivalence.network.features import features_of
from equivalence.network.grammar_reader import read_grammar
from hybrid import CompiledGrammar, GrammarCompiler, GrammarMatcher, Vocabulary, allocate_token_bitmask
from tests.matchers import bits_of

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
    "token budget, repeated": 'start: r+ "1"\nr[max_tokens=2]: /[a-z]+ /',
    "token budget of text": 'start: r "<t>"\nr[max_tokens=3]: TEXT' + TEXT,
    "token budget, lazy": 'start: head "z"\nhead[max_tokens=2, lazy]: TEXT "!"' + TEXT,
    "token budget, suffix": 'start: head "z"\nhead[max_tokens=2, suffix="!"]: TEXT' + TEXT,
    "lazy": 'start: head "!"\nhead[lazy]: ("a"|"b")* "<e"',
    "lazy, repeated": 'start: (head "c")*\nhead[lazy]: AB+ "<"\nAB: /a|b/',
    "lazy, ambiguous inside": 'start: (head "c")* "x"\nhead[lazy]: AB* "ab"\nAB: /a|b/',
    "lazy, last": 'start: "a" head | "a" "a" head\nhead[lazy]: AB+ "<"\nAB: /a|b/',
    "stop": 'start: head "x"\nhead[stop="<e"]: TEXT' + TEXT,
    "suffix, captured": 'start: head "x"\nhead[suffix="<e", capture="h"]: TEXT' + TEXT,
    "characters": 'start: r "1"\nr[max_chars=3]: /([a-zé]* )+/',
    "characters, repeated": 'start: r+ "1"\nr[max_chars=3]: /[a-zé]+ /',
    "characters of text": 'start: r "<e"\nr[max_chars=4]: TEXT' + TEXT,
    "characters, lazy": 'start: head "z"\nhead[max_chars=2, lazy]: TEXT "!"' + TEXT,
    "characters, suffix": 'start: head "z"\nhead[max_chars=4, suffix="!e"]: TEXT' + TEXT,
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
    "excluded, read as text too": (
        'root ::= r "b" | ExcludeToken(1) s\nr ::= "ab" t\nt ::= "a"\ns ::= t "x" | r'
    ),
    "token budget over calls": (
        'root ::= (r | "a" s)* "1"\nr[max_tokens=2] ::= s s?\ns ::= "a" "b"* | [^1] "x"'
    ),
    "token budget, excluded": 'root ::= r* "1"\nr[max_tokens=2] ::= [ab]* ExcludeToken(5) | [^b]',
    "token budget, token that is text": (
        'root ::= r+ Token(2)\nr[max_tokens=2] ::= [ab]* | Token(2) s\ns ::= "ab" s?'
    ),
    "lookahead": 'root ::= (r "b" | r "<e")+\nr ::= "a" | "ab" | s\ns ::= "x" (="b")',
    "wrong lookahead": 'root ::= r ("b" | "<e")\nr ::= "a" | "ab" (="1")',
}


def parse(name: str) -> xgrammar.Grammar:
    if name in LARK:
        return xgrammar.Grammar.from_lark(LARK[name])
    return xgrammar.Grammar.from_ebnf(EBNF[name])


def mask(matcher: Any, size: int) -> tuple[np.ndarray, bool]:
    bitmask = allocate_token_bitmask(1, size)
    needed = matcher.fill_next_token_bitmask(bitmask)
    return bits_of(bitmask[0], size), needed


def forced(matcher: Any) -> Any:
    try:
        return matcher.find_jump_forward_string()
    except UnicodeDecodeError as part_of_a_character:
        return part_of_a_character.object


def walk(ours: GrammarMatcher, plain: Any, rng: random.Random, steps: int = 12) -> tuple[bool, int]:
    """Walk both at random, comparing every step. Returns whether the classifier was in use to the end, and
    how many bits were set."""
    compiled = ours.compiled_grammar
    vocabulary = compiled.vocabulary
    history: list[int | bytes] = []
    seen = 0
    for _ in range(steps):
        found, needed = mask(ours, vocabulary.size)
        if hasattr(ours._follower, "config"):
            taken = np.array([plain.fork().accept_token(token_id) for token_id in range(vocabulary.size)])
        else:  # plain XGrammar, whose masks may contradict what it accepts
            taken = mask(plain, vocabulary.size)[0]
        wrong = np.flatnonzero(found != taken).tolist()
        assert not wrong, (history, [(i, vocabulary.tokens[i], bool(taken[i])) for i in wrong[:5]])
        assert needed == (not taken.all())
        assert ours.is_completed() == plain.is_completed()
        assert forced(ours) == forced(plain)
        assert ours.get_captures() == plain.get_captures()
        seen += int(taken.sum())
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
        if rng.random() < 0.05:
            text = rng.choice([b"ab", b"a", b"\xff", b"x<", b"\xffa"])
            accepted = plain.accept_string(text)
            assert ours.accept_string(text) == accepted, (history, text)
            history += [text] * accepted
            continue
        choice = range(vocabulary.size) if rng.random() < 0.1 else np.flatnonzero(taken).tolist()
        if not choice:
            break
        token_id = rng.choice(choice)
        accepted = plain.accept_token(token_id)
        assert ours.accept_token(token_id) == accepted, (history, token_id)
        history += [token_id] * accepted
        assert ours.is_terminated() == plain.is_terminated()
        if plain.is_terminated():
            break
    return hasattr(ours._follower, "config"), seen


def same_bits(compiled: CompiledGrammar, taken: np.ndarray, stops: list[int]) -> None:
    """Check that tokens of a class have equal bits and tokens without a class none, except for stop ids."""
    assert compiled.known_classes is not None
    classes = compiled.known_classes.class_of_token
    text = np.setdiff1d(np.arange(len(taken)), stops)
    assert not taken[text][classes[text] < 0].any()
    bits = set(zip(classes[text].tolist(), taken[text].tolist(), strict=True))
    assert len(bits - {(-1, False)}) == len({number for number, _ in bits} - {-1})


@pytest.mark.parametrize("name", [*LARK, *EBNF])
def test_what_stacks_do_not_decide_runs_in_plain_xgrammar(name: str) -> None:
    grammar = parse(name)
    features = features_of(read_grammar(grammar))
    compiled = GrammarCompiler(VOCABULARY).compile_grammar(grammar)
    ids = features.only_ids and not features.captures and not dialect.JOINS_TOKENS
    if not features.beyond_stacks or ids:
        assert compiled.strategy == "classifier"
        return
    assert compiled.strategy == "engine" and f"the grammar uses {features}: which tokens" in compiled.reason
    with pytest.raises(UnsupportedGrammar, match="depends on more than the text's bytes"):
        GrammarCompiler(VOCABULARY, strategy="representatives").compile_grammar(grammar)
    plain = xgrammar.GrammarCompiler(VOCABULARY.tokenizer_info).compile_grammar(grammar)
    rng = random.Random(name)
    matchers = ((GrammarMatcher(compiled), xgrammar.GrammarMatcher(plain)) for _ in range(25))
    assert sum(walk(ours, theirs, rng, 20)[1] for ours, theirs in matchers) > 100


@pytest.mark.parametrize("name", ["lookahead", "wrong lookahead"])
def test_representatives_follow_accept_token(name: str) -> None:
    """They must ignore the lookahead assertions that sharpen XGrammar's masks, some of them wrongly."""
    compiled = GrammarCompiler(VOCABULARY, strategy="representatives").compile_grammar(parse(name))
    rng = random.Random(name)
    for _ in range(25):
        matcher = GrammarMatcher(compiled)
        for _ in range(8):
            found = mask(matcher, VOCABULARY.size)[0]
            assert found.tolist() == [matcher.fork().accept_token(i) for i in range(VOCABULARY.size)]
            allowed = np.flatnonzero(found).tolist()
            if not allowed or not matcher.accept_token(rng.choice(allowed)) or matcher.is_terminated():
                break


ALPHABET = ["a", "b", "c", "<", "é", "日"]


def random_grammar(rng: random.Random, size: int, construct: str) -> str:
    """Return a few random rules over a small alphabet with one construct besides text."""

    level = -1

    def element(nested: bool) -> str:
        kind = rng.random()
        ids = ", ".join(str(rng.randrange(size)) for _ in range(rng.randint(1, 3)))
        if kind < 0.15 and construct == "token":
            return f"Token({ids})"
        if kind < 0.1 and construct == "excluded":
            return f"ExcludeToken({ids})"
        if kind < 0.5:
            return f'"{"".join(rng.choice(ALPHABET) for _ in range(rng.randint(1, 3)))}"'
        if kind < 0.65:
            return rng.choice(["[ab]", "[^b]", "[^<]", "[a-cé]", "[b<]*"])
        if kind < 0.85 and level < 2:  # no recursion: XGrammar may use all memory if it is ambiguous
            return f"r{rng.randint(level + 1, 2)}"
        if nested or construct == "max_chars":
            return '"a"'
        return f"({alternatives(True)}){rng.choice(['', '?', '+', '{1,2}'])}"

    def alternatives(nested: bool = False) -> str:
        return " | ".join(
            " ".join(element(nested) for _ in range(rng.randint(1, 3))) for _ in range(rng.randint(1, 3))
        )

    rules = [f"root ::= {alternatives()} | r0 r1"]
    for level in range(3):
        attribute = ""
        if construct in ("max_tokens", "max_chars") and rng.random() < 0.7:
            attribute = f"[{construct}={rng.randint(1, 3)}]"
        body = alternatives()
        if construct == "lazy" and rng.random() < 0.7:
            attribute = "[lazy]"
            body = f'({rng.choice(["[ab]", "[^<]", "[^b]"])})* "{rng.choice(["<", "<a", "b", "ab"])}"'
        rules.append(f"r{level}{attribute} ::= {body}")
    return "\n".join(rules)


@pytest.mark.parametrize("strategy", ["auto", "representatives", "engine"])
@pytest.mark.parametrize("text", ["root ::= Token(56)", 'root ::= "a"\nunused ::= ExcludeToken(3, 4000)'])
def test_ids_that_the_vocabulary_lacks(text: str, strategy: str) -> None:
    """Such ids must be refused, because XGrammar's compiler would read past its tables."""
    with pytest.raises(GrammarError, match="ids of this vocabulary are from 0 to 55"):
        GrammarCompiler(VOCABULARY, strategy=strategy).compile_grammar(text)
