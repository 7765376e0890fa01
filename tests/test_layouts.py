"""Grammars in the serialisation layout or with the meaning of an unknown XGrammar version are left to plain
XGrammar, and the reason says so.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import xgrammar

from equivalence.errors import GrammarError, UnsupportedGrammar
from equivalence.network import dialect, grammar_reader
from equivalence.network.grammar_reader import read_grammar
from hybrid import GrammarCompiler, GrammarMatcher
from hybrid.testing.mask_comparison import compare_walk
from tests.caches import CALLS, SCHEMA
from tests.test_json_schema_meaning import BYTES


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
    read = read_grammar(xgrammar.Grammar.from_ebnf(grammar))
    arguments = read.data.tolist(), read.starts.tolist(), read.rules
    wanted = pytest.raises(UnsupportedGrammar, match=r"is a repeat, and is repeated: XGrammar 0\.2\.7")
    with wanted if refused else nullcontext():
        dialect.refuse_repeats_in_repeats(*arguments)


@pytest.fixture(params=[name for name in CALLS if name != "Lark"])
def compile_on(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """A call of a compiler, ours or XGrammar's."""
    return CALLS[request.param].on


@pytest.fixture(autouse=True)
def nothing_known() -> Any:
    """Let nothing that was found out about a version outlive a test."""
    caches = dialect._read_otherwise, grammar_reader._prints_as_known
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.fixture
def unknown_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialect, "LAYOUT", "v77")


@pytest.fixture
def later_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialect, "_installed", lambda: "0.3.0")


@pytest.mark.usefixtures("unknown_layout")
def test_every_request_of_an_unknown_layout_runs_in_plain_xgrammar(
    compile_on: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the classes nor the check for endless rules before them read it."""
    monkeypatch.setattr("hybrid.compile.compilation.refuse_endless_rules", lambda _: pytest.fail("was read"))
    compiled = compile_on(GrammarCompiler(BYTES))
    unknown = f"version {xgrammar.get_serialization_version()!r}, but only 'v77' is supported"
    assert compiled.strategy == "engine" and unknown in compiled.reason
    assert compare_walk(compiled, compile_on(xgrammar.GrammarCompiler(BYTES.tokenizer_info)), 1, 5).exact
    assert GrammarMatcher(compiled).explain().expected
    with pytest.raises(GrammarError, match="but only 'v77' is supported"):
        compile_on(GrammarCompiler(BYTES, strategy="representatives"))


@pytest.mark.usefixtures("unknown_layout")
def test_what_needs_no_grammar_of_xgrammars_has_classes_all_the_same() -> None:
    schema = GrammarCompiler(BYTES, semantics="json-schema").compile_json_schema({"pattern": "^a+$"})
    for compiled, text in ((schema, '"aa"'), (GrammarCompiler(BYTES).compile_lark('start: "a"+'), "aa")):
        matcher = GrammarMatcher(compiled)
        assert compiled.strategy == "classifier" and matcher.accept_string(text) and matcher.is_completed()


def test_this_version_reads_what_is_known() -> None:
    assert dialect.LOOSE or dialect._read_otherwise() == ""


@pytest.mark.usefixtures("later_version")
@pytest.mark.skipif(dialect.LOOSE, reason="XGrammar before 0.2.8 reads classes otherwise")
def test_a_later_version_that_means_the_same_has_classes() -> None:
    assert GrammarCompiler(BYTES).compile_json_schema(SCHEMA).strategy == "classifier"


@pytest.mark.parametrize("version", ["0.2.10", "0.3", "1.0rc1", "2"])
def test_later_versions_are_tested_however_many_numbers_they_have(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialect, "_installed", lambda: version)
    monkeypatch.setattr(dialect, "KNOWN", {'root ::= "a"': ((b"b",), ())})
    with pytest.raises(GrammarError, match=f"XGrammar {version} reads the grammar"):
        dialect.refuse_other_meaning()


@pytest.mark.usefixtures("later_version")
@pytest.mark.parametrize("known", [((b"a",), (b"b",)), ((b"ab",), (b"b", b"a"))])
def test_a_later_version_that_means_something_else_is_not_read(
    monkeypatch: pytest.MonkeyPatch, compile_on: Any, known: Any
) -> None:
    monkeypatch.setattr(dialect, "KNOWN", {'root ::= "a"': ((b"a",), ()), 'root ::= "b" | "ab"': known})
    compiled = compile_on(GrammarCompiler(BYTES))
    assert compiled.strategy == "engine"
    assert (
        'XGrammar 0.3.0 reads the grammar \'root ::= "b" | "ab"\' differently from 0.2.9' in compiled.reason
    )
