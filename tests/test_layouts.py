"""Layouts and meanings of other versions of XGrammar: read as ours, written back, or left to XGrammar."""

import json
from typing import Any

import pytest
import xgrammar

from equivalence.errors import GrammarError, UnsupportedGrammar
from equivalence.network import dialect, reading, serial
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


SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^a+$"}}, "required": ["a"]}

TAG = {
    "type": "structural_tag",
    "format": {
        "type": "tag",
        "begin": "<a>",
        "content": {"type": "json_schema", "json_schema": SCHEMA},
        "end": "</a>",
    },
}

REQUESTS: dict[str, Any] = {
    "schema": lambda compiler: compiler.compile_json_schema(SCHEMA),
    "regex": lambda compiler: compiler.compile_regex("a+b"),
    "grammar": lambda compiler: compiler.compile_grammar('root ::= "ab" | "b"'),
    "tag": lambda compiler: compiler.compile_structural_tag(TAG),
    "json": lambda compiler: compiler.compile_builtin_json_grammar(),
}

BYTES = Vocabulary.from_bytes([*(bytes([one]) for one in range(256)), b""], stop_token_ids=[256])


@pytest.fixture
def unknown_layout(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("equivalence.network.layouts.OWN", "v77")
    monkeypatch.setattr("equivalence.network.layouts.PREVIEW", "v78")
    monkeypatch.setattr(reading, "SERIALIZATION_VERSION", "v77")
    reading._prints_as_known.cache_clear()
    yield
    reading._prints_as_known.cache_clear()


@pytest.mark.usefixtures("unknown_layout")
@pytest.mark.parametrize("request_of", REQUESTS.values(), ids=REQUESTS)
def test_every_request_of_an_unknown_layout_runs_in_plain_xgrammar(request_of: Any) -> None:
    plain = xgrammar.GrammarMatcher(request_of(xgrammar.GrammarCompiler(BYTES.tokenizer_info)))
    compiled = request_of(GrammarCompiler(BYTES))
    assert compiled.strategy == "engine" and "supported are 'v77' and 'v78'" in compiled.reason
    matcher = GrammarMatcher(compiled)
    bitmasks = [xgrammar.allocate_token_bitmask(1, BYTES.size) for _ in range(2)]
    for _ in range(4):
        plain.fill_next_token_bitmask(bitmasks[0])
        matcher.fill_next_token_bitmask(bitmasks[1])
        assert bitmasks[0].equal(bitmasks[1])
        told = matcher.explain()
        assert told.expected or told.may_end
        if bitmasks[0][0, 8] & 1:
            break
        token = next(i for i in range(256) if int(bitmasks[0][0, i // 32]) >> i % 32 & 1)
        assert plain.accept_token(token) and matcher.accept_token(token)


@pytest.mark.usefixtures("unknown_layout")
def test_what_needs_no_grammar_of_xgrammars_has_classes_all_the_same() -> None:
    compiled = GrammarCompiler(BYTES, semantics="json-schema").compile_json_schema(SCHEMA)
    assert compiled.strategy == "classifier" and accepted(compiled, b'{"a": "aa"}')
    lark = GrammarCompiler(BYTES).compile_lark('start: "a"+')
    assert lark.strategy == "classifier" and accepted(lark, b"aa")


@pytest.fixture
def later_version(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(dialect, "_installed", lambda: "0.3.0")
    dialect._read_otherwise.cache_clear()
    reading._prints_as_known.cache_clear()
    yield
    dialect._read_otherwise.cache_clear()
    reading._prints_as_known.cache_clear()


def test_this_version_reads_what_is_known() -> None:
    assert dialect.LOOSE or dialect._read_otherwise() == ""


@pytest.mark.usefixtures("later_version")
@pytest.mark.skipif(dialect.LOOSE, reason="XGrammar before 0.2.8 reads classes otherwise")
def test_a_later_version_that_means_the_same_has_classes() -> None:
    assert GrammarCompiler(BYTES).compile_json_schema(SCHEMA).strategy == "classifier"


@pytest.mark.usefixtures("later_version")
@pytest.mark.parametrize("known", [((b"a",), (b"b",)), ((b"ab",), (b"b", b"a"))])
@pytest.mark.parametrize("request_of", REQUESTS.values(), ids=REQUESTS)
def test_a_later_version_that_means_something_else_is_not_read(
    monkeypatch: pytest.MonkeyPatch, request_of: Any, known: Any
) -> None:
    monkeypatch.setattr(dialect, "KNOWN", {'root ::= "a"': ((b"a",), ()), 'root ::= "b" | "ab"': known})
    compiled = request_of(GrammarCompiler(BYTES))
    assert compiled.strategy == "engine"
    assert (
        'XGrammar 0.3.0 reads the grammar \'root ::= "b" | "ab"\' differently from 0.2.8' in compiled.reason
    )
