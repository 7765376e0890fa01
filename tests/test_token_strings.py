"""Strings for tokens in structural tags become the ids that XGrammar's own compiler takes."""

import json
import time
from typing import Any

import pytest
import xgrammar

from equivalence import GrammarError, Vocabulary
from hybrid import GrammarCompiler, GrammarMatcher
from hybrid.xgrammar.token_strings import with_token_ids
from tests.matchers import Sides

VOCABULARY = Vocabulary.from_bytes(
    [b"a", b"b", b"<t>", b"</t>", "é".encode(), b"<t>", b"", b"a"], stop_token_ids=[6], vocab_size=10
)


def tag(form: Any) -> str:
    return json.dumps({"type": "structural_tag", "format": form})


def token(name: Any) -> dict[str, Any]:
    return {"type": "token", "token": name}


def anything(*excluded: Any) -> dict[str, Any]:
    return {"type": "any_tokens", "exclude_tokens": list(excluded)}


FORMS: dict[str, Any] = {
    "token": token("<t>"),
    "not ascii": token("é"),
    "nested": {"type": "sequence", "elements": [token("a"), {"type": "optional", "content": token("b")}]},
    "excluded": anything("<t>", 3, "b"),
    "tags by tokens": {"type": "token_triggered_tags", "trigger_tokens": ["<t>"], "exclude_tokens": ["b"],
     "tags": [{"begin": token("<t>"), "content": anything("</t>"), "end": token("</t>")}]},
    "dispatch": {"type": "token_dispatch", "rules": [["<t>", token("a")]], "exclude_tokens": ["b"]},
    "dispatch by text": {"type": "dispatch", "rules": [["ab", token("a")]]},
}  # fmt: skip
IDS = {"<t>": 2, "</t>": 3, "é": 4, "a": 0, "b": 1}


@pytest.mark.parametrize("name", FORMS)
def test_strings_become_the_first_id_of_the_text(name: str) -> None:
    expected = tag(FORMS[name])
    for text, number in IDS.items():
        expected = expected.replace(json.dumps(text), str(number))
    assert json.loads(with_token_ids(tag(FORMS[name]), VOCABULARY)) == json.loads(expected)


def in_lark(text: str) -> str:
    return tag({"type": "grammar", "syntax": "lark", "grammar": text})


LARK = [
    ('start: <t> "a" </t>', 'start: <[2,5]> "a" <[3]>'),
    ("start: <[*]> <[1,2]>", "start: <[0-9]> <[1,2]>"),
    ('start: "<t>" /<t>\\/<t>/ %json {"enum": ["\\"<t>"]} // <t>\n  # <t>\n  | <t>', None),
    ("start: <nowhere> < t>", "start: <nowhere> < t>"),
]


@pytest.mark.parametrize(("given", "expected"), LARK)
def test_tokens_in_lark_grammars_become_all_ids_of_the_text(given: str, expected: str | None) -> None:
    if expected is None:
        expected = given.removesuffix("<t>") + "<[2,5]>"
    assert json.loads(with_token_ids(in_lark(given), VOCABULARY)) == json.loads(in_lark(expected))


@pytest.mark.parametrize("part", ['\\"', "\\/", "<a", '"\n', "/a\n"])
def test_lark_grammars_are_read_in_linear_time(part: str) -> None:
    began = time.perf_counter()
    text = in_lark("start: " + part * 300_000)
    assert with_token_ids(text, VOCABULARY) is text
    assert time.perf_counter() - began < 3


@pytest.mark.skipif("syntax" not in xgrammar.structural_tag.GrammarFormat.model_fields, reason="since 0.2.9")
@pytest.mark.parametrize("text", [given for given, _ in LARK[:3]])
def test_lark_grammars_in_tags_are_those_of_xgrammars_own_compiler(text: str) -> None:
    plain, ours = (compiler.compile_structural_tag(in_lark(text)) for compiler in COMPILERS)
    sides = Sides(GrammarMatcher(ours), xgrammar.GrammarMatcher(plain), VOCABULARY.size)
    sides.mask()
    for token_id in (5, 0, 3):
        sides.same("accept_token", token_id)
        sides.mask()


def test_many_strings_are_looked_up_in_time() -> None:
    """Each took as long as a search through the vocabulary: 16 s for 5,000."""
    many = Vocabulary.from_bytes([f"token {number}".encode() for number in range(100_000)])
    began = time.perf_counter()
    found = json.loads(with_token_ids(tag(anything(*map("token {}".format, range(90_000, 100_000)))), many))
    assert found["format"]["exclude_tokens"] == [*range(90_000, 100_000)]
    assert time.perf_counter() - began < 3


@pytest.mark.parametrize(
    "text",
    [
        tag(anything(2, 3, 1)),
        tag({"type": "json_schema", "json_schema": {"exclude_tokens": ["b"], "type": "token", "token": "b"}}),
        tag({"type": "const_string", "value": "token"}),
        '{"type": "token"',
        '"token"' * 2,
        '["token"]',
        '{"format": {"trigger_tokens": "a", "tags": 3, "rules": [[1], 2]}}',
        "[" * 100_000 + '"token"',
        b'{"token": "b"}',
        None,
    ],
)
def test_all_else_stays_as_it_is(text: Any) -> None:
    assert with_token_ids(text, VOCABULARY) is text


def test_what_is_no_token_is_refused_by_name() -> None:
    for name in ("<nowhere>", "\ud800"):
        with pytest.raises(GrammarError, match="names the token"):
            with_token_ids(tag(token(name)), VOCABULARY)
    with pytest.raises(GrammarError, match="<nowhere>"):
        GrammarCompiler(VOCABULARY).compile_structural_tag(tag(token("<nowhere>")))


COMPILERS: tuple[Any, Any] = xgrammar.GrammarCompiler(VOCABULARY.tokenizer_info), GrammarCompiler(VOCABULARY)


@pytest.mark.parametrize(
    "form",
    [
        token(""),
        anything(""),
        {"type": "token_triggered_tags", "trigger_tokens": [""], "tags": []},
        {"type": "tag", "begin": token(2), "content": anything(3), "end": token("")},
    ],
)
def test_an_empty_string_is_no_token(form: Any) -> None:
    for compiler, error in zip(COMPILERS, (RuntimeError, GrammarError), strict=True):
        with pytest.raises(error, match="empty"):
            compiler.compile_structural_tag(tag(form))


def test_an_empty_string_may_be_dispatched() -> None:
    for compiler in COMPILERS:
        compiler.compile_structural_tag(tag({"type": "token_dispatch", "rules": [["", token(0)]]}))


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("strategy", ["auto", "engine"])
def test_masks_are_those_of_xgrammars_own_compiler(name: str, strategy: str) -> None:
    text = tag(FORMS[name])
    ours = GrammarMatcher(GrammarCompiler(VOCABULARY, strategy=strategy).compile_structural_tag(text))
    plain = xgrammar.GrammarCompiler(VOCABULARY.tokenizer_info).compile_structural_tag(text)
    sides = Sides(ours, xgrammar.GrammarMatcher(plain), VOCABULARY.size)
    sides.mask()
    for token_id in (2, 0, 3):
        sides.same("accept_token", token_id)
        if sides.same("is_terminated"):
            break
        sides.mask()
