"""Grammars that name token ids, count, or end early: masks over representatives follow `accept_token`.

What: many small grammars of each construct, then random ones; at every step of random walks each bit is
held against a fork of plain XGrammar that is asked to accept the token.
Limits: small vocabularies, chosen for what may go wrong: equal bytes, named ids that are also text, ids
without text, stop ids that are text or named.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import xgrammar

from equivalence import GrammarError, UnsupportedGrammar, VocabularyError
from hybrid import CompiledGrammar, GrammarCompiler, GrammarMatcher, Vocabulary, allocate_token_bitmask

TOKENS: list[bytes] = [
    b"", b"</s>", b"ab", b"a", b"b", b"<t>", b"ab", b"x", b"1", b" ", b"<", b"e", b"<e", b"!", b"z",
    "é".encode(), b"\xc3", b"\xa9", b'"', b"a ", b"ab ", b"e<", b"<ex", b"c", b"xy", b"xa", b"!z", b"e!",
    "éa".encode(), b"b ", b"bb", b"ba", "aé".encode(), b"1a", b"\n", b"<ea", b"cb", b"bc", b"abc", b"ac",
    " é".encode(), b"t>", b"tt", b"y", b"t", b">", b"", b"z", b"q", b"\x00", b"a\x00", b"\xc3x",
    "日本".encode(), "日".encode()[:2], "日".encode()[:1], b"",
]  # fmt: skip
"""Ids 1 and 55 stop, the first of them is also text."""
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


def mask(matcher: GrammarMatcher, size: int) -> tuple[np.ndarray, bool]:
    bitmask = allocate_token_bitmask(1, size)
    needed = matcher.fill_next_token_bitmask(bitmask)
    bits = np.unpackbits(bitmask.numpy()[0].view(np.uint8), bitorder="little")
    return bits[:size].astype(bool), needed


def forced(matcher: GrammarMatcher) -> Any:
    try:
        return matcher.find_jump_forward_string()
    except UnicodeDecodeError as part_of_a_character:
        return part_of_a_character.object


def walk_together(
    ours: GrammarMatcher, plain: GrammarMatcher, rng: random.Random, steps: int, vocabulary: Vocabulary
) -> int:
    """A random walk of both, compared at every step; returns how many bits were set."""
    history: list[int] = []
    seen = 0
    for _ in range(steps):
        mask(plain, vocabulary.size)  # an exhausted budget is enforced by the mask before the token
        found, needed = mask(ours, vocabulary.size)
        taken = np.array([plain.fork().accept_token(token_id) for token_id in range(vocabulary.size)])
        wrong = np.flatnonzero(found != taken).tolist()
        assert not wrong, (history, [(i, vocabulary.tokens[i], bool(taken[i])) for i in wrong[:5]])
        assert needed == (not taken.all())
        assert ours.is_completed() == plain.is_completed()
        assert forced(ours) == forced(plain)
        assert ours.get_captures() == plain.get_captures()
        seen += int(taken.sum())
        if history and rng.random() < 0.15:
            count = rng.randint(1, min(3, len(history)))
            ours.rollback(count)
            plain.rollback(count)
            del history[-count:]
            continue
        if rng.random() < 0.1:
            ours, plain = ours.fork(), plain.fork()
        anything = rng.random() < 0.1
        choice = range(vocabulary.size) if anything else np.flatnonzero(taken).tolist()
        if not choice:
            break
        token_id = rng.choice(choice)
        accepted = plain.accept_token(token_id)
        assert ours.accept_token(token_id) == accepted, (history, token_id)
        if accepted:
            history.append(token_id)
        assert ours.is_terminated() == plain.is_terminated()
        if plain.is_terminated():
            break
    return seen


def compiled_twice(
    grammar: xgrammar.Grammar, vocabulary: Vocabulary
) -> tuple[CompiledGrammar, CompiledGrammar]:
    ours = GrammarCompiler(vocabulary, strategy="representatives").compile_grammar(grammar)
    plain = GrammarCompiler(vocabulary, strategy="engine").compile_grammar(grammar)
    return ours, plain


@pytest.mark.parametrize("name", [*LARK, *EBNF])
def test_masks_follow_accept_token(name: str) -> None:
    ours, plain = compiled_twice(parse(name), VOCABULARY)
    assert ours.strategy == "representatives"
    rng = random.Random(name)
    seen = sum(
        walk_together(GrammarMatcher(ours), GrammarMatcher(plain), rng, 20, VOCABULARY) for _ in range(25)
    )
    assert seen > 100


@pytest.mark.parametrize("stops", [[3], [7, 1], [5, 0], [2]])
@pytest.mark.parametrize("name", ["token beside text", "excluded beside text", "lazy", "characters"])
def test_other_stop_tokens(name: str, stops: list[int]) -> None:
    ours, plain = compiled_twice(parse(name), VOCABULARY)
    rng = random.Random(1)
    for _ in range(15):
        first, second = (GrammarMatcher(each, override_stop_tokens=stops) for each in (ours, plain))
        walk_together(first, second, rng, 12, VOCABULARY)


def test_structural_tags_that_name_tokens() -> None:
    tag = {"type": "tag", "begin": {"type": "token", "token": 5}, "end": {"type": "token", "token": 12},
           "content": {"type": "json_schema", "json_schema": {"type": "integer"}}}  # fmt: skip
    formats: list[dict[str, Any]] = [
        tag,
        {"type": "token_triggered_tags", "trigger_tokens": [5], "tags": [tag]},
        {"type": "any_tokens", "exclude_tokens": [5, 2]},
        {"type": "sequence", "elements": [{"type": "exclude_token", "exclude_tokens": [3]}, tag]},
    ]
    rng = random.Random(2)
    for content in formats:
        grammar = xgrammar.Grammar.from_structural_tag({"type": "structural_tag", "format": content})
        ours, plain = compiled_twice(grammar, VOCABULARY)
        for _ in range(15):
            walk_together(GrammarMatcher(ours), GrammarMatcher(plain), rng, 15, VOCABULARY)


ALPHABET = ["a", "b", "c", "<", "é", "日"]


def random_grammar(rng: random.Random, size: int, construct: str) -> str:
    """A few rules over a small alphabet with one construct besides text."""

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
        if kind < 0.85 and level < 2:  # no recursion: XGrammar may take all memory where it is ambiguous
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


def random_vocabulary(rng: random.Random) -> Vocabulary:
    tokens = [bytes([byte]) for byte in sorted(set("".join(ALPHABET).encode()))]
    for _ in range(rng.randint(5, 30)):
        text = "".join(rng.choice(ALPHABET) for _ in range(rng.randint(1, 4))).encode()
        tokens.append(text[rng.choice([0, 0, 1]) :] or b"a")
    tokens += [token[:1] for token in tokens] * 2 + [b"", b"q", b"zz", b"a\x00", b"z"]
    rng.shuffle(tokens)
    stops = [len(tokens)] + ([rng.randrange(len(tokens))] if rng.random() < 0.3 else [])
    return Vocabulary.from_bytes([*tokens, b""], stop_token_ids=stops)


@pytest.mark.parametrize("construct", ["token", "excluded", "max_tokens", "max_chars", "lazy"])
def test_random_grammars(construct: str) -> None:
    walked = 0
    for seed in range(40):
        rng = random.Random(f"{construct} {seed}")
        vocabulary = random_vocabulary(rng)
        text = random_grammar(rng, vocabulary.size, construct)
        grammar = xgrammar.Grammar.from_ebnf(text)
        try:
            ours, plain = compiled_twice(grammar, vocabulary)
        except UnsupportedGrammar:  # a byte that is only a stop token, with max_tokens
            continue
        walked += ours.classes.method == "byte strings"
        for _ in range(3):
            walk_together(GrammarMatcher(ours), GrammarMatcher(plain), rng, 8, vocabulary)
    assert walked >= 20


def test_a_whole_text_is_accepted_at_once_as_in_plain() -> None:
    ours, plain = compiled_twice(parse("characters, then a token"), VOCABULARY)
    for compiled in (ours, plain):
        matcher = GrammarMatcher(compiled)
        assert matcher.accept_string("aé ")
        assert not matcher.accept_string("a")
        assert matcher.accept_token(5)
        assert matcher.accept_string("1")
        assert matcher.accept_token(55)
        assert matcher.is_terminated()
        matcher.rollback(2)
        assert matcher.accept_token(8)


def test_classes_are_few_and_ids_that_count_are_alone() -> None:
    ours, _ = compiled_twice(parse("token beside text"), VOCABULARY)
    assert ours.classes.method == "byte strings" and "token edges" in ours.reason
    assert ours.classes.n_classes < 12
    for token_id in (5, 6):
        assert ours.classes.members(int(ours.classes.class_of_token[token_id])).tolist() == [token_id]


def test_captures_of_representatives_are_refused() -> None:
    grammar = xgrammar.Grammar.from_lark('start: r "1"\nr[max_tokens=2, capture]: /[a-c]+/')
    with pytest.raises(UnsupportedGrammar, match="captures beside max_tokens"):
        GrammarCompiler(VOCABULARY, strategy="representatives").compile_grammar(grammar)


def test_a_budget_of_tokens_needs_single_bytes() -> None:
    vocabulary = Vocabulary.from_bytes([b"ab", b"a", b"bc", b"b ", b""], stop_token_ids=[4])
    grammar = xgrammar.Grammar.from_ebnf('root ::= r "a"\nr[max_tokens=1] ::= [a-c ]*')
    with pytest.raises(UnsupportedGrammar, match="no ordinary token that is this byte alone"):
        GrammarCompiler(vocabulary, strategy="representatives").compile_grammar(grammar)
    ours, _ = compiled_twice(parse("token budget"), VOCABULARY)
    with pytest.raises(VocabularyError, match="no other token for the same byte"):
        GrammarMatcher(ours, override_stop_tokens=[3])
    assert GrammarMatcher(ours, override_stop_tokens=[14]).stop_token_ids == [14]


@pytest.mark.parametrize("strategy", ["auto", "representatives", "engine"])
@pytest.mark.parametrize("text", ["root ::= Token(56)", 'root ::= "a"\nunused ::= ExcludeToken(3, 4000)'])
def test_ids_that_the_vocabulary_lacks(text: str, strategy: str) -> None:
    """XGrammar's compiler would read past its tables."""
    with pytest.raises(GrammarError, match="allowed are ids from 0 to 55"):
        GrammarCompiler(VOCABULARY, strategy=strategy).compile_grammar(text)


@pytest.mark.parametrize("strategy", ["representatives", "auto"])
def test_a_budget_of_characters_may_end_before_a_marker(strategy: str) -> None:
    # `accept_string` would not end the rule there, `accept_token` does
    vocabulary = Vocabulary.from_bytes([b"e", b"a", b"</s>", b"<", b"b"], stop_token_ids=[2, 1])
    grammar = xgrammar.Grammar.from_lark('start: head \nhead[max_chars=3, stop="é"]: "b" "<e"\n')
    judge = xgrammar.GrammarMatcher(
        xgrammar.GrammarCompiler(vocabulary.tokenizer_info).compile_grammar(grammar)
    )
    matcher = GrammarMatcher(GrammarCompiler(vocabulary, strategy=strategy).compile_grammar(grammar))
    for token_id in (4, 3, 0):
        assert matcher.accept_token(token_id) and judge.accept_token(token_id)
    assert matcher.is_completed() and judge.is_completed()
    assert matcher.fork().accept_token(2) and mask(matcher, vocabulary.size)[0][2]


@pytest.mark.parametrize("strategy", ["auto", "classifier"])
def test_a_token_that_only_begins_the_marker_of_a_budget(strategy: str) -> None:
    """It is never allowed, and has no class; but XGrammar ends the rule where it could have begun to."""
    vocabulary = Vocabulary.from_bytes(["!!!é".encode(), b"a", b""], stop_token_ids=[2])
    grammar = xgrammar.Grammar.from_lark('start: head\nhead[max_chars=3, stop="!"]: "a"* "!"\n')
    judge = xgrammar.GrammarMatcher(
        xgrammar.GrammarCompiler(vocabulary.tokenizer_info).compile_grammar(grammar)
    )
    compiled = GrammarCompiler(vocabulary, strategy=strategy).compile_grammar(grammar)
    assert compiled.strategy == "engine" and "max_chars" in compiled.reason
    matcher = GrammarMatcher(compiled)
    for _ in range(3):
        assert mask(matcher, vocabulary.size)[0].tolist() == mask(judge, vocabulary.size)[0].tolist()
        assert matcher.accept_token(1) and judge.accept_token(1)
    assert mask(matcher, vocabulary.size)[0].tolist() == mask(judge, vocabulary.size)[0].tolist()
    assert matcher.is_completed() == judge.is_completed()
    with pytest.raises(UnsupportedGrammar, match="the grammar has max_chars, and the vocabulary"):
        GrammarCompiler(vocabulary, strategy="representatives").compile_grammar(grammar)


def test_a_free_end_inside_a_budget_is_no_end() -> None:
    # the budget's end is found by filling a mask, but where ends are free nothing ends by a stop token
    vocabulary = Vocabulary.from_bytes([b"", b"a", b" "], stop_token_ids=[0])
    grammar = xgrammar.Grammar.from_lark('start: head \nhead[suffix="<", max_tokens=2]: /[a-zé] /\n')
    compiled = GrammarCompiler(vocabulary, strategy="representatives").compile_grammar(grammar)
    for free in (False, True):
        matcher = GrammarMatcher(compiled, terminate_without_stop_token=free)
        for token_id in (1, 2):
            mask(matcher, vocabulary.size)
            assert matcher.accept_token(token_id)
        found, _ = mask(matcher, vocabulary.size)
        assert found[0] == matcher.fork().accept_token(0) == (not free)
