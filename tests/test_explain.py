"""The results of `GrammarMatcher.explain` and `explain_refusal` agree with the matcher on every strategy.

What: along the strings of the cases, bytes, literals and counts are compared with the matcher byte by byte,
and with plain XGrammar; names with grammars that have some; refusals with the longest prefix that is
accepted.
When: after a change of `hybrid.explain`.
Limits: the tokens are single bytes and a few longer ones. Long strings are cut.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import xgrammar
from hypothesis import given, settings
from hypothesis import strategies as st
from lark import Lark

from bench.cases import Case
from equivalence import UnsupportedGrammar, Vocabulary
from hybrid import CompiledGrammar, GrammarCompiler, GrammarMatcher
from hybrid.cli.shipped_grammars import shipped_grammar
from hybrid.explain import Expected, Explanation
from hybrid.explain.characters import first_bytes
from tests.conftest import load_cases
from tests.random_grammars import GrammarCase, grammar_cases

STOP = 256
TOKENS = [bytes([value]) for value in range(256)] + [b"", b"ab", b"})", b'", "', b"  "]
BYTES = Vocabulary.from_bytes(TOKENS, stop_token_ids=STOP)

LONGEST = 45
STEP = 3
"""Within the first `LONGEST` bytes of a string, every third position is explained."""

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "na\"me'\n": {"enum": ["red", "green"]},
        "list": {"type": "array", "items": {"type": "object", "properties": {"x/y": {"type": "number"}}}},
    },
    "required": ["name", "na\"me'\n", "list"],
}

TALK = """
root ::= greeting " " (name | "you") "!"
greeting ::= "hello" | "help" | "good " time
time ::= "morning" | "night"
name ::= [A-Z] [a-zé]*
"""

LARK = """
start: "select" NAME ("," NAME)* ["limit" INT] ";"
NAME: /[a-z]+/
INT: /[0-9]+/
%ignore " "
"""


def compile_with(strategy: str, case: Case) -> CompiledGrammar:
    try:
        return GrammarCompiler(BYTES, strategy=strategy).compile_grammar(case.parse())
    except UnsupportedGrammar as error:
        pytest.skip(str(error))


def matchers_along(matcher: GrammarMatcher, text: bytes):
    for place in range(min(len(text), LONGEST) + 1):
        if place and not matcher.accept_string(text[place - 1 : place]):
            return
        if place % STEP == 0:
            yield text[:place]


def check(matcher: GrammarMatcher, plain: Any) -> Explanation:
    """Compare an explanation with the matcher itself and with another matcher, XGrammar's or a fork."""
    mask = np.zeros(-(-len(TOKENS) // 32), np.int32)
    matcher.fill_next_token_bitmask(mask)
    told = matcher.explain()
    again = np.zeros_like(mask)
    matcher.fill_next_token_bitmask(again)
    assert (mask == again).all()
    assert told.n_allowed == np.unpackbits(mask.view(np.uint8), bitorder="little")[
        : len(TOKENS)
    ].sum() and told.n_tokens == len(TOKENS)
    assert told.may_end == plain.is_completed() and not told.has_ended
    assert told.next_bytes == {byte for byte in range(256) if plain.fork().accept_string(bytes([byte]))}
    for one in told.expected:
        if one.kind in ("literal", "key"):
            if one.kind == "literal":
                # bytes that are not UTF-8 are shown as escapes
                if "\\x" not in one.text:
                    assert plain.fork().accept_string(one.text.encode()[one.read :])
            else:
                assert plain.fork().accept_string(
                    json.dumps(one.text, ensure_ascii=False).encode()[one.read :]
                )
    if told.next_bytes:
        assert told.expected
    assert told.sentence and str(told)
    return told


@pytest.mark.parametrize("case", load_cases(), ids=str)
def test_what_is_told_is_true(case: Case) -> None:
    compiled = compile_with("auto", case)
    plain_compiled = xgrammar.GrammarCompiler(BYTES.tokenizer_info, max_threads=1).compile_grammar(
        case.parse()
    )
    for text in case.accepts[:3]:
        matcher, plain = GrammarMatcher(compiled), xgrammar.GrammarMatcher(plain_compiled)
        read = 0
        for beginning in matchers_along(matcher, text):
            assert plain.accept_string(beginning[read:])
            read = len(beginning)
            check(matcher, plain)


@pytest.mark.parametrize("case", load_cases(), ids=str)
def test_strategies_tell_the_same(case: Case) -> None:
    text = max(case.accepts, key=len, default=b"")[: LONGEST // 2]
    told: dict[bytes, list[Explanation]] = {}
    for strategy in ("classifier", "representatives", "engine"):
        try:
            compiled = GrammarCompiler(BYTES, strategy=strategy).compile_grammar(case.parse())
        except UnsupportedGrammar:
            continue
        if compiled.strategy != strategy:
            continue
        for beginning in matchers_along(matcher := GrammarMatcher(compiled), text):
            told.setdefault(beginning, []).append(matcher.explain())
    for explanations in told.values():
        first = explanations[0]
        for other in explanations[1:]:
            assert other.next_bytes == first.next_bytes and other.n_allowed == first.n_allowed
            assert other.may_end == first.may_end
            if not first.omitted and not other.omitted:
                assert other.expected == first.expected and other.rules == first.rules


@pytest.mark.parametrize("case", load_cases(), ids=str)
def test_refusals_are_at_the_first_byte(case: Case) -> None:
    compiled = compile_with("auto", case)
    for text in case.rejects:
        whole = text[:400]
        refusal = GrammarMatcher(compiled).explain_refusal(whole, is_whole=True)
        longest = 0
        matcher = GrammarMatcher(compiled)
        while longest < len(whole) and matcher.accept_string(whole[longest : longest + 1]):
            longest += 1
        if refusal is None:
            assert matcher.is_completed() and longest == len(whole)
            continue
        assert refusal.offset == longest
        assert refusal.byte == (whole[longest] if longest < len(whole) else None)
        assert refusal.byte not in refusal.explanation.next_bytes
        assert "expected" in str(refusal) or "nothing may follow" in str(refusal)


@pytest.mark.parametrize("strategy", ["auto", "classifier", "representatives", "engine"])
def test_keys_literals_and_places_of_a_schema(strategy: str) -> None:
    compiled = GrammarCompiler(BYTES, strategy=strategy).compile_json_schema(SCHEMA)
    matcher = GrammarMatcher(compiled)
    key = json.dumps("na\"me'\n")

    def told_after(text: str) -> Explanation:
        matcher.reset()
        assert matcher.accept_string(text)
        return matcher.explain()

    assert [one.text for one in told_after("{").expected if one.kind == "key"] == ["name"]
    assert told_after('{"na').expected == (Expected("key", "name", 3, ("root",)),)
    assert 'the rest of key "name"' in str(told_after('{"na'))
    assert told_after('{"na').forced == 'me"'
    assert told_after('{"name": ').pointer == "/name"
    assert "a string" in told_after('{"name": ').sentence
    after = told_after(f'{{"name": "", {key}: "')
    assert [(one.kind, one.text, one.read) for one in after.expected] == [
        ("literal", '"red"', 1), ("literal", '"green"', 1)
    ]  # fmt: skip
    inside = told_after(f'{{"name": "", {key}: "red", "list": [{{}}, {{"x/y": 1')
    assert inside.pointer == "/list/1/x~1y"
    assert told_after(f'{{"name": "", {key}: "red", "list": [').rules[0] == "root"
    ended = told_after(f'{{"name": "", {key}: "red", "list": []}}')
    assert ended.may_end and not ended.expected and "the end of the text" in ended.sentence
    assert matcher.accept_token(STOP) and matcher.explain().has_ended

    refusal = GrammarMatcher(compiled).explain_refusal('{\n "name": "x",\n "naive": 1}')
    assert refusal is not None and (refusal.line, refusal.column, refusal.byte) == (3, 5, ord("i"))
    assert "line 3, column 5" in str(refusal) and "the rest of key" in str(refusal)
    early = GrammarMatcher(compiled).explain_refusal('{"name": "é', is_whole=True)
    assert early is not None and early.byte is None and early.column == 12 and "too early" in str(early)
    assert GrammarMatcher(compiled).explain_refusal('{"name": "') is None


@pytest.mark.parametrize("strategy", ["auto", "representatives", "engine"])
def test_rules_and_literals_of_a_grammar(strategy: str) -> None:
    matcher = GrammarMatcher(GrammarCompiler(BYTES, strategy=strategy).compile_grammar(TALK))

    def words(text: str) -> list[tuple[str, str]]:
        matcher.reset()
        assert matcher.accept_string(text)
        return [(str(one), one.rules[0]) for one in matcher.explain().expected]

    assert words("") == [('"hello"', "greeting"), ('"help"', "greeting"), ('"good "', "greeting")]
    assert words("hel") == [('the rest of "hello"', "greeting"), ('the rest of "help"', "greeting")]
    assert words("good ") == [('"morning"', "time"), ('"night"', "time")]
    assert matcher.explain().rules == ("root", "greeting")
    assert words("help ") == [('"you"', "root"), ("[A-Z]", "name")]
    assert words("help Zoé") == [('"!"', "root"), ("[a-zé]", "name")]


def test_terminals_of_a_lark_grammar() -> None:
    compiled = GrammarCompiler(BYTES).compile_lark(LARK)
    matcher = GrammarMatcher(compiled)
    told = {}
    for text in ("", "sel", "select", "select ab", "select ab ", "select ab, c limit 1"):
        matcher.reset()
        assert matcher.accept_string(text)
        told[text] = matcher.explain()
        for one in told[text].expected:
            if one.kind == "literal":
                assert matcher.fork().accept_string(one.text[one.read :])
    assert "NAME" in told["select"].sentence or "NAME" in told["select ab"].sentence
    assert 'the rest of "select"' in told["sel"].sentence
    assert "the rest of NAME" in told["select ab"].sentence and '","' in told["select ab"].sentence
    assert '"limit"' in told["select ab "].sentence and "INT" in told["select ab, c limit 1"].sentence
    assert told["sel"].omitted and not told["sel"].rules
    refusal = matcher.explain_refusal(" x")
    assert refusal is not None and refusal.offset == 1 and '";"' in str(refusal)


READ = r"""
start: ("null" | "nab" | "éaé" | "éaè" | "it"i | "sékſ"i | "ſ€"i | WORD "!")*
WORD: /[it]+/i
%ignore " "
"""


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("nu", {"null": 2}),  # nothing else is possible: Lark's lexer would emit it now
        ("nul", {"null": 3}),
        ("null n", {"null": 1, "nab": 1}),
        (b"\xc3", {"éaé": 1, "éaè": 1}),  # half of a character
        ("é", {"éaé": 2, "éaè": 2}),
        ("éa", {"éaé": 3, "éaè": 3}),
        (b"null \xc3\xa9a\xc3", {"éaé": 4, "éaè": 4}),
        ("S", {"sékſ": 1, "ſ€": 2}),  # ſ in another case, which has two bytes
        ("SÉ", {"sékſ": 3}),
        ("SÉ\u212a", {"sékſ": 4}),  # the Kelvin sign has three bytes, k has one
        ("I", {"it": 1}),
        ("IT", {}),  # it is a whole literal, or the beginning of WORD
        ("ſ", {"ſ€": 2, "sékſ": 1}),
        (b"\xc5\xbf\xe2", {"ſ€": 3}),
    ],
)
def test_bytes_that_were_read_of_a_literal(text: str | bytes, read: dict[str, int]) -> None:
    matcher = GrammarMatcher(GrammarCompiler(BYTES).compile_lark(READ))
    assert matcher.accept_string(text)
    literals = [one for one in matcher.explain().expected if one.kind == "literal"]
    assert {one.text: one.read for one in literals if one.read} == read
    for one in literals:
        assert matcher.fork().accept_string(one.text.encode()[one.read :])


def test_a_literal_that_utf_8_cannot_spell_is_told_as_a_terminal() -> None:
    matcher = GrammarMatcher(GrammarCompiler(BYTES).compile_lark('start: A | "b"\nA: "\\ud800"'))
    assert [str(one) for one in matcher.explain().expected] == ['"b"']


def test_a_schema_without_a_form_for_xgrammar_is_explained() -> None:
    """XGrammar's form has no counts, and would need too many states."""
    schema = {"type": "string", "pattern": "^[a-z]+(?:-[a-z]+)*$", "maxLength": 3_000_000}
    matcher = GrammarMatcher(GrammarCompiler(BYTES, semantics="json-schema").compile_json_schema(schema))
    assert matcher.accept_string('"ab')
    assert matcher.explain().sentence == 'expected ["\\-a-z]'


def test_threads_share_a_grammar() -> None:
    compiled = GrammarCompiler(BYTES).compile_json_schema(SCHEMA)

    def told(_: int) -> list[Explanation]:
        matcher = GrammarMatcher(compiled)
        return [matcher.explain() for character in '{"name": "x", ' if matcher.accept_string(character)]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(told, range(16)))
    assert len(found[0]) == 14 and all(one == found[0] for one in found)


def test_what_cannot_be_told_is_named() -> None:
    tag = {
        "type": "structural_tag",
        "format": {
            "type": "triggered_tags", "triggers": ["<f>"],
            "tags": [{"begin": "<f>", "content": {"type": "regex", "pattern": "a+"}, "end": "</f>"}],
        },
    }  # fmt: skip
    for strategy in ("classifier", "engine"):
        matcher = GrammarMatcher(GrammarCompiler(BYTES, strategy=strategy).compile_structural_tag(tag))
        assert matcher.accept_string("x<f>a")
        told = matcher.explain()
        assert told.next_bytes == {ord("a"), ord("<")}
        assert bool(told.omitted) == (strategy == "engine")
    assert [str(one) for one in told.expected] == ['"</f>"', '"a"']  # found by trying bytes


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.text('{}"name:, x1[]é\\', max_size=8)), max_size=8))
def test_going_back_and_forth_tells_the_same(moves: list[tuple[int, str]]) -> None:
    compiled = GrammarCompiler(BYTES).compile_builtin_json_grammar()
    matcher, made = GrammarMatcher(compiled), 0
    for back, text in moves:
        back = min(back, made)
        matcher.rollback(back)
        made -= back
        for character in text:
            made += matcher.accept_string(character)
        fresh = GrammarMatcher(compiled)
        assert fresh.accept_string(matcher._follower.text_read())
        assert matcher.explain() == fresh.explain()


@settings(max_examples=40, deadline=None)
@given(grammar_cases(), st.data())
def test_random_grammars_are_told_truly(case: GrammarCase, data: st.DataObject) -> None:
    matcher = GrammarMatcher(GrammarCompiler(BYTES).compile_grammar(case.ebnf))
    for _ in range(5):
        told = check(matcher, matcher.fork())  # plain XGrammar takes minutes for some of these
        literals = {one.text.encode()[one.read :] for one in told.expected if one.kind == "literal"}
        following = sorted(literals | {bytes([byte]) for byte in told.next_bytes})
        following = [one for one in following if one and matcher.fork().accept_string(one)]
        if not following:
            return
        assert matcher.accept_string(data.draw(st.sampled_from(following)))


@given(st.lists(st.tuples(st.integers(0, 0x10FFFF), st.integers(0, 300)), max_size=4), st.booleans())
def test_first_bytes_of_characters(begun: list[tuple[int, int]], excluded: bool) -> None:
    ranges = tuple((first, min(first + length, 0x10FFFF)) for first, length in begun)
    some = {0, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF}
    some |= {code + step for pair in ranges for code in pair for step in (-1, 0, 1)}
    inside = {
        code for code in some
        if 0 <= code <= 0x10FFFF and not 0xD800 <= code < 0xE000
        and any(first <= code <= last for first, last in ranges) is not excluded
    }  # fmt: skip
    told = first_bytes(excluded, ranges)
    assert {chr(code).encode()[0] for code in inside} <= told
    if not excluded:
        assert len(told) <= sum(last - first + 1 for first, last in ranges)


TEXTS = {
    "json.lark": '{"a": [1, true, "x y"], "b": {}, "": -1.5e3 }',
    "sql_select.lark": "SELECT a, count(b) FROM t -- all\nWHERE x1 >= 10.5 AND y = 'a''b' ORDER BY b LIMIT 3",
    "c_like.lark": "static int f(char *s[4]) {\n  /* x */ while (s[0]) { n += 0x1F; }\n  return 'a';\n}",
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_terminal_that_comes_is_told(name: str) -> None:
    text = TEXTS[name]
    grammar = shipped_grammar(name).text
    lark = Lark(grammar, parser="lalr", lexer="basic")
    literals = {one.name: one.pattern.value for one in lark.terminals if one.pattern.type == "str"}
    matcher = GrammarMatcher(GrammarCompiler(BYTES).compile_lark(grammar))
    missing = []
    tokens = list(lark.lex(text))
    told = []
    for place in range(len(text)):
        told.append(matcher.explain())
        assert matcher.accept_string(text[place]), text[:place]
    for token in tokens:
        assert token.start_pos is not None and token.end_pos is not None
        for place in range(token.start_pos, token.end_pos):
            words = {(one.kind, one.text, one.read) for one in told[place].expected}
            name_or_text, n_read = literals.get(token.type), place - token.start_pos  # texts are ASCII
            one = ("literal", name_or_text, n_read)
            if name_or_text is None:
                one = ("terminal", token.type, min(n_read, 1))
            if one not in words and not told[place].n_more:
                missing.append((text[max(0, place - 8) : place], token.type, told[place].sentence))
    assert not missing
