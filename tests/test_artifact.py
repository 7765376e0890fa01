"""Compiled grammars in files give the same masks; everything else that a file may hold gives an error.

What: masks along walks, compiled and loaded; damage, other versions and vocabularies; forged files; writing.
When: after any change of `hybrid.files`, or of the tables of the classifier.
Limits: small vocabularies and one real one; sizes and times are measured, not tested (docs/artifacts.md).
"""

from __future__ import annotations

import hashlib
import json
import os
import random
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import xgrammar

from bench.cases import CHECKOUT
from equivalence import ArtifactError, HybridError, StrategyError, UnsupportedGrammar, compute_classes
from hybrid import (
    Budget,
    CompiledGrammar,
    GrammarCompiler,
    GrammarMatcher,
    Vocabulary,
    allocate_token_bitmask,
)
from hybrid.files import class_runs, from_bytes, to_bytes
from hybrid.files.container import BODY, MAGIC, VERSION, pack, unpack
from tests.conftest import load_cases
from tests.matchers import ids_of, mask_of

WORDS = [b'":', b'"}', b"}]", b"]}", b"ab", b"((", b"))", b"12", b"e1", b" = ", b'"a": ', b"ab"]
TOKENS = [*(bytes([byte]) for byte in range(256)), *WORDS, b""]
VOCABULARY = Vocabulary.from_bytes(TOKENS, stop_token_ids=[len(TOKENS) - 1, 65])
"""One stop id also has text, and one text occurs twice."""

SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 4},
        "b": {"type": "string", "minLength": 2, "maxLength": 7},
    },
}


def grammar_of(name: str) -> xgrammar.Grammar:
    if name == "json":
        return xgrammar.Grammar.builtin_json_grammar()
    if name == "schema":
        return xgrammar.Grammar.from_json_schema(json.dumps(SCHEMA))
    if name == "small":
        return xgrammar.Grammar.from_ebnf('root ::= "(" root ")" | [a-c]{2,4} root?')
    return xgrammar.Grammar.from_ebnf((CHECKOUT / "hybrid" / "grammars" / f"{name}.gbnf").read_text("utf-8"))


@cache
def compiled_as(name: str, on_demand: bool = False) -> CompiledGrammar:
    compiler = GrammarCompiler(VOCABULARY, strategy="classifier", on_demand=on_demand)
    return compiler.compile_grammar(grammar_of(name))


@cache
def small() -> bytes:
    return to_bytes(compiled_as("small"))


def masks_along(compiled: CompiledGrammar, seed: int = 1, steps: int = 40) -> list[bytes]:
    """Return the masks of a random walk that depends only on the masks."""
    matcher, rng, found = GrammarMatcher(compiled), random.Random(seed), []
    bitmask = allocate_token_bitmask(1, compiled.vocabulary.size)
    for _ in range(steps):
        if matcher.is_terminated():
            matcher.reset()
        matcher.fill_next_token_bitmask(bitmask)
        found.append(bitmask.numpy().tobytes())
        allowed = ids_of(bitmask[0], compiled.vocabulary.size)
        if not allowed:
            matcher.reset()
            continue
        assert matcher.accept_token(rng.choice(allowed))
    return found


@pytest.mark.parametrize(
    "grammar",
    [
        'root ::= "z"', 'root ::= ""', "root ::= root", 'root ::= "a" root', 'root ::= "\\u00e9" [\\u00e0]',
        'root ::= ("a" "b"){2,2000000000}', 'root ::= [^\\u00e9-\\U0010ffff] "\\x00" [\\x00]*',
        'root ::= "😀"{3}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("tokens", [[b"a", b"b", b""], [b"", b"", b""], [b"a", b"\xc3", b"\xa9", b""]])
def test_grammars_and_vocabularies_of_nearly_nothing(grammar: str, tokens: list[bytes]) -> None:
    vocabulary = Vocabulary.from_bytes(tokens, stop_token_ids=[len(tokens) - 1])
    compiled = GrammarCompiler(vocabulary, strategy="classifier").compile_grammar(grammar)
    loaded = from_bytes(to_bytes(compiled), vocabulary)
    assert masks_along(loaded, 0, 20) == masks_along(compiled, 0, 20)
    assert to_bytes(loaded) == to_bytes(compiled)


def test_masks_over_a_real_vocabulary(tekken: Vocabulary, tmp_path: Path) -> None:
    compiled = GrammarCompiler(tekken, strategy="classifier").compile_grammar(grammar_of("sql_like"))
    compiled.save(tmp_path / "file")
    assert (tmp_path / "file").stat().st_size < 1 << 20
    loaded = CompiledGrammar.load(tmp_path / "file", tekken)
    assert masks_along(loaded, 5, 150) == masks_along(compiled, 5, 150)
    assert loaded.strategy == "classifier" and loaded.memory_size_bytes > 0 and loaded.timings["load"] > 0


def test_every_case_is_written_and_read_or_refused_by_name() -> None:
    written = 0
    compiler = GrammarCompiler(VOCABULARY, strategy="classifier", cache_enabled=False)
    for case in load_cases():
        try:
            compiled = compiler.compile_grammar(case.parse())
        except UnsupportedGrammar:
            continue
        if compiled.strategy != "classifier":
            with pytest.raises(StrategyError, match=r"can be saved, .*; compile it in each process$"):
                to_bytes(compiled)
            continue
        loaded = from_bytes(to_bytes(compiled), VOCABULARY)
        assert masks_along(loaded, 0, 8) == masks_along(compiled, 0, 8), case.name
        assert str(loaded.grammar) == str(compiled.grammar) and loaded.reason == compiled.reason
        assert np.array_equal(loaded.classes.class_of_token, compiled.classes.class_of_token)
        written += 1
    assert written > 50


def test_equal_grammars_give_equal_bytes() -> None:
    again = GrammarCompiler(VOCABULARY, strategy="classifier").compile_grammar(grammar_of("small"))
    masks_along(again, 1, 50)
    assert to_bytes(again) == small()
    assert to_bytes(from_bytes(small(), VOCABULARY)) == small()


def test_what_xgrammar_leaves_out_of_a_schema_is_known_after_loading() -> None:
    compiler = GrammarCompiler(VOCABULARY)
    schema = {"type": "object", "properties": {"é": {"type": "number", "multipleOf": 3}}, "required": ["b"]}
    relaxed = set()
    for options in ({}, {"any_order": True}, {"strict_mode": False}):
        compiled = compiler.compile_json_schema(json.dumps(schema, ensure_ascii=False), **options)
        loaded = from_bytes(to_bytes(compiled), VOCABULARY)
        assert loaded.schema == compiled.schema and loaded.relaxed == compiled.relaxed != ()
        relaxed.add(loaded.relaxed)
    assert len(relaxed) > 1, "options matter"
    for other in (compiler.compile_regex("a"), compiler.compile_lark('start: "a"')):
        assert from_bytes(to_bytes(other), VOCABULARY).schema is None


@pytest.mark.parametrize("strategy", ["representatives", "engine"])
def test_other_strategies_are_not_written(strategy: str, tmp_path: Path) -> None:
    compiled = GrammarCompiler(VOCABULARY, strategy=strategy).compile_grammar(grammar_of("small"))
    with pytest.raises(StrategyError, match="strategy='classifier'"):
        compiled.save(tmp_path / "file")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("bound", "told"),
    [({"states": 300}, "needs more than 300 configurations"), ({"seconds": 1e-9}, "Budget.seconds")],
)
def test_advice_for_grammars_whose_classes_exceed_the_budget(bound: dict[str, float], told: str) -> None:
    schema = {"properties": {str(n): {"type": "string", "maxLength": n} for n in range(20)}}
    compiled = GrammarCompiler(VOCABULARY).compile_json_schema(schema)
    compiled.deferred._budget = Budget(**bound)
    with pytest.raises(StrategyError, match=f"token classes.*{told}.*in each process") as refused:
        to_bytes(compiled)
    assert "strategy" not in str(refused.value)  # none helps


def test_matchers_of_a_loaded_grammar_fall_back_beyond_the_budget() -> None:
    whole = from_bytes(small(), VOCABULARY)
    tight = from_bytes(small(), VOCABULARY, budget=Budget(table_bytes=len(small()) * 40))
    matchers = GrammarMatcher(whole), GrammarMatcher(tight)
    assert all(matcher.accept_string(b"(" * 20_000) for matcher in matchers)
    assert mask_of(matchers[0]) == mask_of(matchers[1])
    assert "continued on" not in whole.reason and "continued on" in tight.reason


# --- What is refused ---------------------------------------------------------------------------------------


def refused(data: bytes, vocabulary: Vocabulary = VOCABULARY, **options: Any) -> str:
    with pytest.raises(ArtifactError) as caught:
        from_bytes(data, vocabulary, **options)
    return str(caught.value)


def test_every_flipped_bit_and_every_truncation_is_found() -> None:
    for place in range(len(small())):
        changed = bytearray(small())
        changed[place] ^= 1 << place % 8
        refused(bytes(changed))
        refused(small()[:place])
    refused(small() + b"\0")


def test_another_version_and_what_is_no_artefact_are_named() -> None:
    data = MAGIC + (VERSION + 1).to_bytes(4, "little") + small()[len(MAGIC) + 4 :]
    assert f"must have version {VERSION} of the format, but has {VERSION + 1}" in refused(data)
    for data in (b"", b"\x80\x04pickle"):
        assert "not a compiled grammar" in refused(data)


@pytest.mark.parametrize(
    "other",
    [
        Vocabulary.from_bytes([*TOKENS[:-2], b"ba", b""], stop_token_ids=[len(TOKENS) - 1, 65]),
        Vocabulary.from_bytes(TOKENS, stop_token_ids=[len(TOKENS) - 1]),
        Vocabulary.from_bytes(TOKENS[:100]),
    ],
)
def test_another_vocabulary_is_named(other: Vocabulary) -> None:
    message = refused(small(), other)
    assert VOCABULARY.fingerprint in message and other.fingerprint in message and "compile" in message


def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    with pytest.raises(HybridError, match=r"must be a hybrid\.Vocabulary"):
        from_bytes(small(), "tekken")
    with pytest.raises(HybridError, match=r"must be a hybrid\.Budget"):
        from_bytes(small(), VOCABULARY, budget=5)
    with pytest.raises(ArtifactError, match="missing"):
        CompiledGrammar.load(tmp_path / "missing", VOCABULARY)
    (tmp_path / "cut").write_bytes(small()[:-5])
    with pytest.raises(ArtifactError, match="cut': the compiled grammar is damaged"):
        CompiledGrammar.load(tmp_path / "cut", VOCABULARY)


def test_more_than_the_budget_is_not_decompressed() -> None:
    assert "raise Budget.table_bytes" in refused(small(), budget=Budget(table_bytes=100))


# --- Files that somebody made on purpose -------------------------------------------------------------------


@cache
def opened(data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of a file."""
    header, arrays = unpack(data, 1 << 30)
    del header["members"]
    return header, arrays


def forged(header: dict[str, Any] | None = None, of: bytes | None = None, **arrays: Any) -> bytes:
    """Return a file with changed members and a valid digest; a member that is None is left out."""
    found, members = opened(of or small())
    changed = {name: value for name, value in (members | arrays).items() if value is not None}
    return pack(found | (header or {}), {name: np.asarray(value) for name, value in changed.items()})


def with_text(text: bytes, of: bytes | None = None) -> bytes:
    """Return a file with another text of its grammar."""
    return forged(None, of, grammar=np.frombuffer(text, np.uint8))


def member(name: str) -> np.ndarray:
    return opened(small())[1][name].astype(np.int64)


def test_forging_nothing_changes_nothing() -> None:
    assert forged() == small()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("edges", lambda edges: np.maximum(edges, [255, 0, 0]), "edges are out of range, or not sorted"),
        ("pending_nodes", lambda nodes: nodes + 10**6, "member 'pending_nodes' contains numbers outside"),
        ("masks", lambda masks: masks * 0 + 1, "its first mask is not the empty one"),
        ("units", lambda units: units + 1000, "a counter frame is of no counter"),
        ("first", lambda first: first + 10**6, "a mask or a pending set that does not exist"),
        ("rows", lambda rows: rows + 10**6, "a summary must have numbers below"),
        ("rows", lambda rows: rows[:, ::-1], "its summaries are not sorted"),
    ],
)
def test_numbers_that_do_not_fit_are_refused_by_name(name: str, change: Any, message: str) -> None:
    assert message in refused(forged(**{name: change(member(name))}))


def test_a_class_without_its_representative_is_refused() -> None:
    numbers = member("run_classes")
    assert len(set(numbers.tolist())) > 3
    swapped = np.where(numbers == 0, 1, np.where(numbers == 1, 0, numbers))
    assert "representative" in refused(forged(run_classes=swapped))
    textless = member("representatives")
    textless[0] = len(TOKENS) - 1
    assert "representative" in refused(forged(representatives=textless))


@pytest.mark.parametrize("stops", [[], [65]])
def test_classes_are_written_run_by_run(stops: list[int]) -> None:
    # a stop id that is text shares it with another id, so that no run of equal bytes is one class
    vocabulary = Vocabulary.from_bytes([*TOKENS, b"A"], stop_token_ids=[len(TOKENS) - 1, *stops])
    assert TOKENS[65] == b"A" and TOKENS[-1] == b""
    classes = compute_classes(xgrammar.Grammar.from_ebnf('root ::= [A-Z]{2,4} root | "AB" | "é"'), vocabulary)
    members = class_runs.written(classes, vocabulary)
    found = class_runs.read(members, vocabulary, classes.relation, classes.sizes)
    assert (found.runs is None) == (classes.runs is None) == bool(stops)
    assert found.class_of_token.tolist() == classes.class_of_token.tolist()
    assert found.representatives.tolist() == classes.representatives.tolist()
    again = class_runs.written(replace(classes, given=classes.class_of_token, runs=None), vocabulary)
    assert {name: array.tolist() for name, array in again.items()} == {
        name: array.tolist() for name, array in members.items()
    }


@pytest.mark.parametrize(
    "header",
    [
        {"strategy": "engine"}, {"start": -2}, {"start": 10**9}, {"start": None}, {"start_final": 1},
        {"reason": 5}, {"complete": 1}, {"sizes": []}, {"schema": [True, False, True]},
        {"schema": [1, 0]}, {"schema": {"strict_mode": True}},
    ],
    ids=str,
)  # fmt: skip
def test_a_forged_header_is_refused(header: dict[str, Any]) -> None:
    assert "malformed" in refused(forged(header))


def test_a_schema_with_half_of_a_surrogate_pair_is_kept() -> None:
    compiler = GrammarCompiler(VOCABULARY, strategy="classifier", semantics="json-schema")
    compiled = compiler.compile_json_schema('{"title": "\ud800", "type": "integer"}')
    assert from_bytes(to_bytes(compiled), VOCABULARY).schema == compiled.schema


def test_a_forged_schema_is_refused() -> None:
    text = np.frombuffer("é".encode(), np.uint8)
    assert "options of its schema" in refused(forged(schema=text))
    assert "UTF-8" in refused(forged({"schema": [True, False]}, schema=text[:1]))


def test_a_grammar_that_the_engine_cannot_read_is_refused() -> None:
    message = refused(with_text(b'{"rules": 5}'))
    assert "XGrammar" in message and "compile the grammar again" in message


def test_what_is_missing_from_a_complete_automaton_is_never_made_up() -> None:
    """Masks stay right when rows are missing: another strategy answers. Merged pending sets have the members
    of one of them."""
    wanted, rows = masks_along(compiled_as("small"), 3, 60), member("rows")
    for data, continued in (
        (small(), False),
        (forged(rows=rows[:, :-1]), None),
        (forged(rows=rows[:, :-2]), None),
        (forged(rows=rows[:, :0]), True),
        (forged({"complete": False}, rows=rows[:, :0]), False),
    ):
        loaded = from_bytes(data, VOCABULARY)
        assert masks_along(loaded, 3, 60) == wanted
        assert continued is None or ("continued on" in loaded.reason) == continued


def test_a_call_that_leads_to_itself_is_refused() -> None:
    calls = member("calls")
    calls[:, 0] = np.repeat(np.arange(len(member("final"))), member("call_lengths"))
    assert "leads to itself" in refused(forged(calls=calls))


def test_a_stream_that_grows_without_end_is_not_followed() -> None:
    data = pack({"vocabulary": VOCABULARY.fingerprint}, {"grammar": np.zeros(10**6, np.uint8)})
    begin = BODY + 8
    length = int.from_bytes(data[BODY:begin], "little")
    header = json.loads(data[begin : begin + length])
    header["members"]["grammar"][1] = [1000]
    text = json.dumps(header).encode()
    body = len(text).to_bytes(8, "little") + text + data[begin + length :]
    digest = hashlib.blake2b(body, digest_size=32).digest()
    assert "must have 1000 bytes" in refused(data[: len(MAGIC) + 4] + digest + body)


# --- Writing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("saved", [compiled_as("small"), VOCABULARY], ids=lambda saved: type(saved).__name__)
def test_a_file_appears_whole_or_not_at_all(saved: Any, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    full = mock.patch.object(os, "replace", side_effect=OSError("no room left"))
    with full, pytest.raises(OSError, match="no room left"):
        saved.save(path)
    assert path.read_bytes() == b"before" and list(tmp_path.iterdir()) == [path]
    saved.save(path)
    assert path.read_bytes() != b"before" and list(tmp_path.iterdir()) == [path]
