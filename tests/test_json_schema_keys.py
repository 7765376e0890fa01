"""Radix trees of keys: the grammar of a tree accepts the keys that were put into it, and no others."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence.errors import GrammarError
from equivalence.network.build import build_network
from hybrid.json_schema import grammar_of_schema
from hybrid.json_schema.key_tree import NO_KEYS

KEYS = st.lists(st.text('ab/"\\é\n', max_size=5), max_size=8, unique=True)


def test_a_label_is_as_long_as_it_can_be() -> None:
    tree = NO_KEYS.with_key("water", 0).with_key("waterfall", 1).with_key("watch", 2)
    assert [branch.label for branch in tree.branches.values()] == ["wat"]
    assert {branch.label for branch in tree.branches["w"].below.branches.values()} == {"er", "ch"}


@settings(max_examples=60, deadline=None)
@given(KEYS.filter(bool), st.data())
def test_listed_strings_and_keys_are_written_in_every_form_that_is_promised(
    keys: list[str], data: st.DataObject
) -> None:
    enum = grammar_of_schema({"enum": keys}).xgrammar
    object_ = grammar_of_schema(
        {"properties": {key: {"const": 1} for key in keys}, "additionalProperties": False, "type": "object"}
    ).xgrammar
    text = data.draw(st.sampled_from(keys) | st.text('ab/"', max_size=4))
    spelled = [json.dumps(text), json.dumps(text, ensure_ascii=False), json.dumps(text).replace("/", "\\/")]
    for one in spelled:
        assert takes(enum, one) == (text in keys)
        assert takes(object_, "{" + one + ":1}") == (text in keys)


@pytest.mark.parametrize("separators", [("，", "："), ("，，", ": "), (", ", "é"), ("", "")])
def test_separators_may_be_any_text(separators: tuple[str, str]) -> None:
    schema = {"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}}, "required": ["a", "b"]}
    grammar = grammar_of_schema(schema, {"any_whitespace": False, "separators": separators})
    comma, colon = separators
    assert takes(grammar.xgrammar, f'{{"a"{colon}1{comma}"b"{colon}2}}')
    assert takes(grammar.xgrammar, '{"a":1,"b":2}') == (separators == (",", ":"))
    assert build_network(grammar.read, token_bytes=8).automaton[2][:, 1].max() < 256


def test_separators_have_an_encoding() -> None:
    with pytest.raises(GrammarError, match="separators"):
        grammar_of_schema({}, {"any_whitespace": False, "separators": ("\ud800", ":")})


def takes(grammar: object, text: str) -> bool:
    """Whether XGrammar accepts a whole text under a grammar."""
    from xgrammar.testing import _is_grammar_accept_string

    return bool(_is_grammar_accept_string(grammar, text))
