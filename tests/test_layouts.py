"""Layouts of other versions of XGrammar: read as ours, written back, or refused by name."""

import json
from typing import Any

import pytest
import xgrammar

from equivalence.errors import GrammarError, UnsupportedGrammar
from equivalence.network import dialect, serial
from equivalence.network.layouts import OWN, PREVIEW, own_layout, written
from equivalence.network.reading import read_as_far, read_grammar
from hybrid import GrammarCompiler, GrammarMatcher, Vocabulary

EBNF = 'root ::= "a" one{2,5} | two\none[max_tokens=3, capture] ::= [a-c]\ntwo[temperature=0.5] ::= "x"\n'


def own() -> dict[str, Any]:
    return own_layout(json.loads(xgrammar.Grammar.from_ebnf(EBNF).serialize_json()))


def as_preview(monkeypatch: pytest.MonkeyPatch, grammar: dict[str, Any]) -> dict[str, Any]:
    monkeypatch.setattr(xgrammar, "get_serialization_version", lambda: PREVIEW)
    found: dict[str, Any] = json.loads(written(grammar))
    return found


def test_what_is_written_is_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    preview = as_preview(monkeypatch, own())
    assert preview[serial.VERSION_FIELD] == PREVIEW
    assert {len(rule) for rule in preview[serial.RULES]} == {serial.TEMPERATURE + 3}
    assert [rule[-3:] for rule in preview[serial.RULES]] == [rule[-3:] for rule in own()[serial.RULES]]
    before = json.dumps(preview)
    assert own_layout(preview) == own()
    assert json.dumps(preview) == before, "what was given has changed"
    monkeypatch.setattr(xgrammar, "get_serialization_version", lambda: OWN)
    assert json.loads(written(own())) == own()


def test_the_installed_xgrammar_reads_what_is_written() -> None:
    again = xgrammar.Grammar.deserialize_json(written(own()))
    assert str(again) == str(xgrammar.Grammar.from_ebnf(EBNF))
    assert own_layout(json.loads(again.serialize_json())) == own()


def bounded(preview: dict[str, Any]) -> None:
    preview[serial.RULES][1][serial.CAPTURE] = 2


def silent(preview: dict[str, Any]) -> None:
    preview["no_forcing"] = True


def added(preview: dict[str, Any]) -> None:
    preview[serial.STARTS].append(len(preview[serial.DATA]))
    preview[serial.DATA] += [serial.N_TYPES + 2, 0]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (bounded, "rule 'one' bounds the characters of a JSON string"),
        (silent, "forces no text"),
        (added, "stop tokens inside of a text"),
    ],
)
def test_what_has_no_place_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, change: Any, named: str
) -> None:
    preview = as_preview(monkeypatch, own())
    change(preview)
    assert read_as_far(preview).rules == own()[serial.RULES]
    with pytest.raises(UnsupportedGrammar, match=f"{named}.*strategy='engine'"):
        read_grammar(preview)


@pytest.mark.parametrize("columns", [[], [0, -1, "x"], [True, -1], [1.5, -1]])
def test_rules_of_another_form_are_refused(monkeypatch: pytest.MonkeyPatch, columns: list[Any]) -> None:
    preview = as_preview(monkeypatch, own())
    preview[serial.RULES][0][serial.CAPTURE : serial.CAPTURE + 2] = columns
    with pytest.raises(GrammarError, match="a rule of layout 'v20'"):
        own_layout(preview)


def test_bounded_strings_run_exactly_in_every_version() -> None:
    """In previews they are rules that are not read, elsewhere repeats."""
    vocabulary = Vocabulary.from_bytes([*(bytes([one]) for one in range(256)), b""], stop_token_ids=[256])
    schema = {"type": "string", "minLength": 2, "maxLength": 3}
    for strategy in ("auto", "classifier"):
        compiled = GrammarCompiler(vocabulary, strategy=strategy).compile_json_schema(schema)
        is_refused = "bounds the characters of a JSON string" in compiled.reason
        assert (compiled.strategy == "engine") is is_refused
        assert not is_refused or xgrammar.get_serialization_version() == PREVIEW
        for text, whole in ((b'"ab"', True), (b'"abc"', True), (b'"a"', False), (b'"abcd"', False)):
            assert accepted(compiled, text) is whole, text


def accepted(compiled: Any, text: bytes) -> bool:
    matcher = GrammarMatcher(compiled)
    return all(matcher.accept_token(byte) for byte in text) and matcher.accept_token(256)


@pytest.mark.parametrize(
    ("grammar", "refused"),
    [
        ('root ::= "a" ([0-9]{2}){1,2} "b"', True),
        ("root ::= one{1,2}\none ::= two\ntwo ::= [0-9]{2}", True),
        ('root ::= one{1,2}\none ::= [0-9]{2} "x"', False),
        ("root ::= ([0-9] [0-9]){1,2}", False),
        ("root ::= [0-9]{2} one{3,4}\none ::= [a-z]", False),
    ],
)
def test_repeats_of_repeats(grammar: str, refused: bool) -> None:
    read = read_as_far(xgrammar.Grammar.from_ebnf(grammar))
    arguments = read.data.tolist(), read.starts.tolist(), read.rules
    if refused:
        with pytest.raises(UnsupportedGrammar, match=r"a repeat, is repeated, of which XGrammar 0\.2\.7"):
            dialect.refuse_repeats_in_repeats(*arguments)
    else:
        dialect.refuse_repeats_in_repeats(*arguments)
