"""The results of `GrammarMatcher.explain` and `explain_refusal` agree with the matcher on every strategy.

What: along the strings of the cases, bytes, literals and counts are compared with the matcher byte by byte,
and with plain XGrammar; names with grammars that have some; refusals with the longest prefix that is
accepted.
When: after a change of `hybrid.explain`.
Limits: the tokens are single bytes and a few longer ones. Long strings are cut.
"""

from __future__ import annotations

import json
import random
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import xgrammar
from hypothesis import given, settings
from hypothesis import strategies as st
from lark import Lark

from bench.cases import Case
from bench.workloads import plain_compiler
from equivalence import BudgetExceeded, UnsupportedGrammar, Vocabulary
from equivalence.deadline import Deadline
from hybrid import Budget, CompiledGrammar, GrammarCompiler, GrammarMatcher
from hybrid.classifier import classifier
from hybrid.cli.shipped_grammars import shipped_grammar
from hybrid.explain import Expected, Explanation
from hybrid.explain.rules import Rules
from tests.caches import wait_for
from tests.conftest import load_cases
from tests.matchers import STRATEGIES, mask_of
from tests.random_grammars import GrammarCase, grammar_cases
from tests.tiny_grammars import tiny_grammar

STOP = 256
TOKENS = [bytes([value]) for value in range(256)] + [b"", b"ab", b"})", b'", "', b"  "]
BYTES = Vocabulary.from_bytes(TOKENS, stop_token_ids=STOP)

LONGEST = 45

KEY = "na\"me'\n"
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        KEY: {"enum": ["red", "green"]},
        "list": {"type": "array", "items": {"type": "object", "properties": {"x/y": {"type": "number"}}}},
    },
    "required": ["name", KEY, "list"],
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


def along(matcher: GrammarMatcher, text: bytes) -> Iterator[bytes]:
    """Read a text, and yield its beginnings at every third position within its first bytes."""
    for place in range(min(len(text), LONGEST) + 1):
        if place and not matcher.accept_string(text[place - 1 : place]):
            return
        if place % 3 == 0:
            yield text[:place]


def compiled_by(strategy: str, case: Case) -> CompiledGrammar:
    return GrammarCompiler(BYTES, strategy=strategy).compile_grammar(case.parse())


def told_after(matcher: GrammarMatcher, text: str | bytes) -> Explanation:
    matcher.reset()
    assert matcher.accept_string(text)
    return matcher.explain()


def check(matcher: GrammarMatcher, plain: Any) -> Explanation:
    """Compare an explanation with the matcher itself and with another matcher, XGrammar's or a fork."""
    mask = mask_of(matcher)
    told = matcher.explain()
    assert mask_of(matcher) == mask, "an explanation changes nothing"
    assert (told.n_allowed, told.n_tokens) == (len(mask), len(TOKENS))
    assert told.may_end == plain.is_completed() and not told.has_ended
    assert told.next_bytes == {byte for byte in range(256) if plain.fork().accept_string(bytes([byte]))}
    for one in told.expected:
        # in a literal, bytes that are not UTF-8 are shown as escapes
        if one.kind == "key" or (one.kind == "literal" and "\\x" not in one.text):
            text = json.dumps(one.text, ensure_ascii=False) if one.kind == "key" else one.text
            assert plain.fork().accept_string(text.encode()[one.read :])
    if told.next_bytes:
        assert told.expected
    assert told.sentence and str(told)
    return told


@pytest.mark.parametrize("case", load_cases(), ids=str)
def test_what_is_told_is_true(case: Case) -> None:
    compiled = compiled_by("auto", case)
    plain_compiled = plain_compiler(BYTES, 1).compile_grammar(case.parse())
    for text in case.accepts[:3]:
        matcher, plain = GrammarMatcher(compiled), xgrammar.GrammarMatcher(plain_compiled)
        for beginning in along(matcher, text):
            plain.reset()
            assert plain.accept_string(beginning)
            check(matcher, plain)


@pytest.mark.parametrize("case", load_cases(), ids=str)
def test_strategies_tell_the_same(case: Case) -> None:
    text = max(case.accepts, key=len, default=b"")[: LONGEST // 2]
    told: dict[bytes, list[Explanation]] = {}
    for strategy in STRATEGIES:
        try:
            compiled = compiled_by(strategy, case)
        except UnsupportedGrammar:
            continue
        if compiled.strategy == strategy:
            for beginning in along(matcher := GrammarMatcher(compiled), text):
                told.setdefault(beginning, []).append(matcher.explain())
    for first, *others in told.values():
        for other in others:
            assert other.next_bytes == first.next_bytes and other.n_allowed == first.n_allowed
            assert other.may_end == first.may_end
            if not first.omitted and not other.omitted:
                assert other.expected == first.expected and other.rules == first.rules


@pytest.mark.parametrize("case", load_cases(), ids=str)
def test_refusals_are_at_the_first_byte(case: Case) -> None:
    compiled = compiled_by("auto", case)
    for text in case.rejects:
        whole = text[:400]
        refusal = GrammarMatcher(compiled).explain_refusal(whole, is_whole=True)
        matcher = GrammarMatcher(compiled)
        longest = next(
            (at for at in range(len(whole)) if not matcher.accept_string(whole[at : at + 1])), len(whole)
        )
        if refusal is None:
            assert matcher.is_completed() and longest == len(whole)
            continue
        assert refusal.offset == longest
        assert refusal.byte == (whole[longest] if longest < len(whole) else None)
        assert refusal.byte not in refusal.explanation.next_bytes
        assert "expected" in str(refusal) or "nothing may follow" in str(refusal)


def test_keys_literals_and_places_of_a_schema(strategy: str) -> None:
    matcher = GrammarMatcher(GrammarCompiler(BYTES, strategy=strategy).compile_json_schema(SCHEMA))
    named = f'{{"name": "", {json.dumps(KEY)}: "'
    after = partial(told_after, matcher)
    assert [one.text for one in after("{").expected if one.kind == "key"] == ["name"]
    assert after('{"na').expected == (Expected("key", "name", 3, ("root",)),)
    assert 'the rest of key "name"' in str(after('{"na'))
    assert after('{"na').forced == 'me"'
    assert after('{"name": ').pointer == "/name"
    assert "a string" in after('{"name": ').sentence
    literals = [("literal", '"red"', 1), ("literal", '"green"', 1)]
    assert [(one.kind, one.text, one.read) for one in after(named).expected] == literals
    assert after(named + 'red", "list": [{}, {"x/y": 1').pointer == "/list/1/x~1y"
    assert after(named + 'red", "list": [').rules[0] == "root"
    ended = after(named + 'red", "list": []}')
    assert ended.may_end and not ended.expected and "the end of the text" in ended.sentence
    assert matcher.accept_token(STOP) and matcher.explain().has_ended


def test_refusals_of_a_schema_say_where() -> None:
    matcher = GrammarMatcher(GrammarCompiler(BYTES).compile_json_schema(SCHEMA))
    refusal = matcher.explain_refusal('{\n "name": "x",\n "naive": 1}')
    assert refusal is not None and (refusal.line, refusal.column, refusal.byte) == (3, 5, ord("i"))
    assert "line 3, column 5" in str(refusal) and "the rest of key" in str(refusal)
    early = matcher.explain_refusal('{"name": "é', is_whole=True)
    assert early is not None and early.byte is None and early.column == 12 and "too early" in str(early)
    assert matcher.explain_refusal('{"name": "') is None


def test_rules_and_literals_of_a_grammar(strategy: str) -> None:
    matcher = GrammarMatcher(GrammarCompiler(BYTES, strategy=strategy).compile_grammar(TALK))
    for text, expected in (
        ("", [('"hello"', "greeting"), ('"help"', "greeting"), ('"good "', "greeting")]),
        ("hel", [('the rest of "hello"', "greeting"), ('the rest of "help"', "greeting")]),
        ("good ", [('"morning"', "time"), ('"night"', "time")]),
        ("help ", [('"you"', "root"), ("[A-Z]", "name")]),
        ("help Zoé", [('"!"', "root"), ("[a-zé]", "name")]),
    ):
        assert [(str(one), one.rules[0]) for one in told_after(matcher, text).expected] == expected
    assert told_after(matcher, "good ").rules == ("root", "greeting")


def test_rules_are_named_if_all_chains_of_calls_have_them() -> None:
    grammar = """
root ::= list | pair
list ::= "x" item "1" | "[" item "]"
pair ::= "x" item "2"
item ::= "(" item ")" | "yz" | "w" sum
sum ::= part "+" "v" | "v"
part ::= sum "-" | "v" "u"
"""
    matcher = GrammarMatcher(GrammarCompiler(BYTES).compile_grammar(grammar))
    for text, rules in (
        ("xy", ["root"]),
        ("x(wv", ["root"]),
        ("[y", ["root", "list", "item"]),
        ("[(y", ["root", "list", "item"]),
        ("[w", ["root", "list", "item"]),
        ("[wv", ["root", "list"]),
        ("[wvu", ["root", "list", "item", "sum"]),  # this sum may be in a part of another sum
    ):
        assert told_after(matcher, text).rules == tuple(rules)
    nested = GrammarCompiler(BYTES).compile_grammar('root ::= "(" other\nother ::= ")" root | "."')
    assert told_after(GrammarMatcher(nested), "()" * 300).rules == ("root", "other") * 200


def test_terminals_of_a_lark_grammar() -> None:
    matcher = GrammarMatcher(GrammarCompiler(BYTES).compile_lark(LARK))
    assert told_after(matcher, "sel").omitted and not matcher.explain().rules
    assert all(word in told_after(matcher, "select ab").sentence for word in ("the rest of NAME", '","'))
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
    literals = [one for one in told_after(matcher, text).expected if one.kind == "literal"]
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


@pytest.mark.parametrize(("pattern", "text"), [("[ab]{3,500}", "aa"), ("([ab]{3,300}c){2,200}", "aaac")])
def test_long_repeats_in_a_pattern_are_explained_by_the_pattern(pattern: str, text: str) -> None:
    """XGrammar makes rules of their own of them."""
    grammar = f'root ::= "c" word "d"\nword ::= Regex("{pattern}")'
    matcher = GrammarMatcher(GrammarCompiler(BYTES).compile_grammar(grammar))
    assert matcher.accept_string("c" + text)
    told = matcher.explain()
    assert told.sentence == f"expected text that matches {pattern}" and told.rules == ("root", "word")
    assert told.next_bytes == set(b"ab")


def test_going_back_takes_back_what_reading_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hybrid.explain.earley_parser.MOST_PLACES", 40)
    matcher = matcher_of('root ::= "a" root | "b"', 60.0)
    for _ in range(20):
        matcher.reset()
        assert matcher.accept_string("aaa") and matcher.explain().rules == ("root",)
        matcher.rollback(1)
        assert matcher.explain().rules == ("root",)
    assert matcher.accept_string("a" * 40) and "more than 40 places" in str(matcher.explain())


def test_places_are_counted_while_they_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty units of a repeat lead to one place for each count, without reading a byte."""
    monkeypatch.setattr("hybrid.explain.earley_parser.MOST_PLACES", 1_000)
    matcher = matcher_of('root ::= unit{0,100000} "b"\nunit ::= "a"?', 60.0)
    tracemalloc.start()
    told = str(matcher.explain())
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()
    assert "more than 1,000 places" in told


def test_what_cannot_be_told_is_named() -> None:
    function = {"begin": "<f>", "content": {"type": "regex", "pattern": "a+"}, "end": "</f>"}
    tags = {"type": "triggered_tags", "triggers": ["<f>"], "tags": [function]}
    for strategy in ("classifier", "engine"):
        compiler = GrammarCompiler(BYTES, strategy=strategy)
        matcher = GrammarMatcher(compiler.compile_structural_tag({"type": "structural_tag", "format": tags}))
        told = told_after(matcher, "x<f>a")
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


TEXTS = {
    "json.lark": '{"a": [1, true, "x y"], "b": {}, "": -1.5e3 }',
    "sql_select.lark": "SELECT a, count(b) FROM t -- all\nWHERE x1 >= 10.5 AND y = 'a''b' ORDER BY b LIMIT 3",
    "c_like.lark": "static int f(char *s[4]) {\n  /* x */ while (s[0]) { n += 0x1F; }\n  return 'a';\n}",
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_terminal_that_comes_is_told(name: str) -> None:
    text, grammar = TEXTS[name], shipped_grammar(name).text
    lark = Lark(grammar, parser="lalr", lexer="basic")
    literals = {one.name: one.pattern.value for one in lark.terminals if one.pattern.type == "str"}
    matcher = GrammarMatcher(GrammarCompiler(BYTES).compile_lark(grammar))
    told = []
    for place in range(len(text)):
        told.append(matcher.explain())
        assert matcher.accept_string(text[place]), text[:place]
    missing = []
    for token in lark.lex(text):
        for n_read, explained in enumerate(told[token.start_pos : token.end_pos]):  # texts are ASCII
            coming = ("terminal", token.type, min(n_read, 1))
            if token.type in literals:
                coming = ("literal", literals[token.type], n_read)
            words = {(one.kind, one.text, one.read) for one in explained.expected}
            if coming not in words and not explained.n_more:
                missing.append((token, n_read, explained.sentence))
    assert not missing


# --- Answers take at most `Budget.mask_seconds`, and say if they were cut short ----------------------------

ENDLESS = 'root ::= ("a"*)* (root "b")+'
WITHOUT = Vocabulary.from_bytes([b"a", b"b", b"c", b"aa", b"ab", b"abc", b"cc", b""], stop_token_ids=7)

GRAMMARS = 40
"""Number of grammars. For 1,500, 9,000 answers took at most 0.127 s (limit 0.1 s), and 237 were cut short."""

BOUND, GRACE = 0.1, 0.1


def matcher_of(
    grammar: str, seconds: float, strategy: str = "auto", vocabulary: Vocabulary = BYTES
) -> GrammarMatcher:
    compiler = GrammarCompiler(vocabulary, strategy=strategy, budget=Budget(mask_seconds=seconds))
    return GrammarMatcher(compiler.compile_grammar(grammar))


def test_what_is_forced_without_end_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classifier, "MOST_EFFORT", 1 << 60)  # only the clock ends it
    matcher = matcher_of(ENDLESS, 0.2, "classifier")
    assert matcher.accept_string("aaaaaa")
    began = time.perf_counter()
    told = matcher.explain()
    assert time.perf_counter() - began < 2  # took 15 s before there was a bound
    assert told.cut_short and told.forced.startswith("aaa")
    assert "incomplete" in str(told)
    refusal = matcher.explain_refusal("aac")
    assert refusal is not None and (refusal.offset, refusal.byte) == (2, ord("c"))


def test_a_text_that_is_read_slowly_is_refused_in_time_or_cut_short() -> None:
    matcher = matcher_of("root ::= root root root | [a-c] | root root", 0.2)
    began = time.perf_counter()
    refusal = matcher.explain_refusal("abc" * 20_000 + "x")
    assert time.perf_counter() - began < 2
    if refusal.cut_short:
        assert refusal.offset < 60_000 and "no time to check" in str(refusal)
        assert refusal.explanation.cut_short
    else:
        assert refusal.offset == 60_000


def test_a_grammar_whose_names_take_long_has_them_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(*arguments: Any) -> Rules:
        time.sleep(0.25)
        return Rules(*arguments)

    monkeypatch.setattr("hybrid.explain.explainer.Rules", slowly)
    matcher = matcher_of('root ::= "abc" | "abd"', 0.05)
    n_threads = threading.active_count()
    told = matcher.explain()
    assert told.cut_short and "the time ran out" in str(told)
    assert matcher.explain().cut_short and threading.active_count() <= n_threads + 1
    wait_for(lambda: not matcher.explain().cut_short)
    assert matcher.explain().rules == ("root",)


@pytest.mark.parametrize("strategy", ["classifier", "engine"])
@pytest.mark.parametrize("text", [b"A", b"ab"])
def test_a_token_that_is_named_by_its_id_is_no_text(text: bytes, strategy: str) -> None:
    token = {"type": "token", "token": TOKENS.index(text)}
    tag = {"type": "sequence", "elements": [token, {"type": "const_string", "value": "b"}]}
    compiler = GrammarCompiler(BYTES, strategy=strategy)
    matcher = GrammarMatcher(compiler.compile_structural_tag({"type": "structural_tag", "format": tag}))
    told = matcher.explain()
    assert not told.next_bytes and not told.expected and told.n_allowed == 1
    assert told.sentence == "expected a token that the grammar names by its id"
    refusal = matcher.explain_refusal(text)
    assert refusal is not None and refusal.offset == 0 and told.sentence in str(refusal)
    assert matcher.accept_token(TOKENS.index(text)) and matcher.explain().next_bytes == {ord("b")}


def test_nothing_is_cut_short_where_there_is_time() -> None:
    matcher = matcher_of('root ::= "abc" | "abd"', 60.0)
    assert not matcher.explain().cut_short
    refusal = matcher.explain_refusal("abx")
    assert refusal is not None and not refusal.cut_short and refusal.offset == 2
    over = matcher.explain_within(Deadline(0.0))
    assert over.cut_short and "there was no time" in str(over)


def test_law_answers_are_there_in_time() -> None:
    cut = 0
    for seed in range(GRAMMARS):
        draw = random.Random(seed)
        grammar, strategy = tiny_grammar(draw), draw.choice(["auto", *STRATEGIES])
        try:
            matcher = matcher_of(grammar, BOUND, strategy, draw.choice([BYTES, WITHOUT]))
        except UnsupportedGrammar:
            continue
        for _ in range(3):
            for _ in range(draw.randint(0, 12)):
                matcher.accept_string(draw.choice("abc"))
            text = "".join(draw.choice("abc") for _ in range(draw.choice([3, 30, 300, 3000])))
            cut += was_cut(matcher.explain) + was_cut(partial(matcher.explain_refusal, text))
    assert cut < GRAMMARS


def was_cut(ask: Callable[[], Any]) -> bool:
    """Whether an answer was cut short. It must come in time; it gets three tries, because another program may
    be using the processor."""
    for last in (False, False, True):
        began = time.perf_counter()
        try:
            answer = ask()
        except BudgetExceeded:  # raised by the mask itself
            answer = None
        if time.perf_counter() - began <= BOUND + GRACE:
            break
        assert not last
    return answer is not None and answer.cut_short
