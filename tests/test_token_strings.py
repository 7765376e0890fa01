"""Strings for tokens in structural tags become the ids that XGrammar's own compiler takes."""

import json
from typing import Any

import pytest
import xgrammar

from equivalence import GrammarError, Vocabulary
from hybrid import GrammarCompiler, GrammarMatcher, allocate_token_bitmask
from hybrid.xgrammar.token_strings import with_token_ids

VOCABULARY = Vocabulary.from_bytes(
    [b"a", b"b", b"<t>", b"</t>", "é".encode(), b"<t>", b"", b"a"], stop_token_ids=[6], vocab_size=10
)


def tag(form: Any) -> str:
    return json.dumps({"type": "structural_tag", "format": form})


def token(name: Any) -> dict[str, Any]:
    return {"type": "token", "token": name}


def anything(*excluded: Any) -> dict[str, Any]:
    return {"type": "any_tokens", "exclude_tokens": list(excluded)}


FORMS: dict[str, tuple[Any, Any]] = {
    "token": (token("<t>"), token(2)),
    "not ascii": (token("é"), token(4)),
    "nested": ({"type": "sequence", "elements": [token("a"), {"type": "optional", "content": token("b")}]},
     {"type": "sequence", "elements": [token(0), {"type": "optional", "content": token(1)}]}),
    "excluded": (anything("<t>", 3, "b"), anything(2, 3, 1)),
    "tags by tokens": ({"type": "token_triggered_tags", "trigger_tokens": ["<t>"], "exclude_tokens": ["b"],
     "tags": [{"begin": token("<t>"), "content": anything("</t>"), "end": token("</t>")}]},
     {"type": "token_triggered_tags", "trigger_tokens": [2], "exclude_tokens": [1],
     "tags": [{"begin": token(2), "content": anything(3), "end": token(3)}]}),
    "dispatch": ({"type": "token_dispatch", "rules": [["<t>", token("a")]], "exclude_tokens": ["b"]},
     {"type": "token_dispatch", "rules": [[2, token(0)]], "exclude_tokens": [1]}),
    "dispatch by text": ({"type": "dispatch", "rules": [["<t>", token("a")]]},
     {"type": "dispatch", "rules": [["<t>", token(0)]]}),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_strings_become_the_first_id_of_the_text(name: str) -> None:
    given, expected = FORMS[name]
    assert json.loads(with_token_ids(tag(given), VOCABULARY)) == json.loads(tag(expected))


@pytest.mark.parametrize(
    "text",
    [
        tag(FORMS["excluded"][1]),
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
    compiler = GrammarCompiler(VOCABULARY)
    with pytest.raises(GrammarError, match="<nowhere>"):
        compiler.compile_structural_tag(tag(token("<nowhere>")))


EMPTY = {
    "token": token(""),
    "excluded": anything(""),
    "trigger": {"type": "token_triggered_tags", "trigger_tokens": [""],
     "tags": [{"begin": token(6), "content": anything(3), "end": token(3)}]},
    "end of a tag": {"type": "tag", "begin": token(2), "content": anything(3), "end": token("")},
    "dispatch": {"type": "token_dispatch", "rules": [["", token(0)]]},
}  # fmt: skip


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_string_is_a_token_only_where_it_is_one_in_xgrammar(name: str) -> None:
    compilers = xgrammar.GrammarCompiler(VOCABULARY.tokenizer_info), GrammarCompiler(VOCABULARY)
    if name == "dispatch":
        for compiler in compilers:
            compiler.compile_structural_tag(tag(EMPTY[name]))
        return
    for compiler, error in zip(compilers, (RuntimeError, GrammarError), strict=True):
        with pytest.raises(error, match="empty"):
            compiler.compile_structural_tag(tag(EMPTY[name]))


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("strategy", ["auto", "engine"])
def test_masks_are_those_of_xgrammars_own_compiler(name: str, strategy: str) -> None:
    plain = xgrammar.GrammarCompiler(VOCABULARY.tokenizer_info).compile_structural_tag(tag(FORMS[name][0]))
    compiled = GrammarCompiler(VOCABULARY, strategy=strategy).compile_structural_tag(tag(FORMS[name][0]))
    ours, theirs = GrammarMatcher(compiled), xgrammar.GrammarMatcher(plain)
    masks = allocate_token_bitmask(2, VOCABULARY.size)
    for token_id in (None, 2, 0, 3):
        if token_id is not None:
            assert ours.accept_token(token_id) is theirs.accept_token(token_id)
        if theirs.is_terminated():
            break
        assert ours.fill_next_token_bitmask(masks, 0) is theirs.fill_next_token_bitmask(masks, 1)
        bits = masks & (1 << VOCABULARY.size) - 1  # bits after the last id mean nothing
        assert bits[0].tolist() == bits[1].tolist()
