"""``python -m bench classes`` reports correct figures where they can be known; no speed is asserted."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import xgrammar
from tokenizers import Tokenizer

from bench import memory, scaling
from bench.peers import cfgzip
from equivalence import Vocabulary, compute_classes
from tests import benches
from tests.benches import fixture_vocabulary, fixture_vocabulary_file  # noqa: F401 - fixtures
from tests.test_bench import GRAMMAR


def test_the_record_says_what_compute_classes_says(
    vocabulary: Vocabulary, vocabulary_file: str, tmp_path: Path
) -> None:
    schemas = {"a_object": benches.OBJECT_SCHEMA, "b_refused": benches.REFUSED_SCHEMA, "a_flag": True}
    labelled = {name: (schema, [(True, {"a": "hello"})]) for name, schema in schemas.items()}
    folder = benches.write_schemas(tmp_path / "schemas", labelled)
    grammar = tmp_path / "made.gbnf"
    grammar.write_text(GRAMMAR)
    output, record = benches.recorded(
        tmp_path / "out.json",
        *("classes", "--vocabulary", vocabulary_file, "--grammars", grammar, "--schemas", folder),
        *("--walk-steps", 20, "--repeats", 2, "--displacement", "--no-memory"),
    )
    assert "0 grammars with differences" in output
    rows = {row["name"]: row for row in record["grammars"]}
    wanted = compute_classes(xgrammar.Grammar.from_ebnf(GRAMMAR), vocabulary)
    found = rows["made"]
    assert found["classes"] == wanted.n_classes
    assert found["never_allowed"] == int((wanted.class_of_token < 0).sum())
    assert set(found["phases"]) == {"network", "explore", "partition"}
    assert found["seconds"] >= sum(found["phases"].values()) * 0.5 > 0
    assert found["displacement"]["classes"] >= found["classes"] > 1
    assert found["masks"] == rows["builtin:json"]["masks"] == 40
    summary = record["schemas"]["made"]["summary"]
    assert summary["refused"] == ["b_refused"] and summary["counts"]["classes"]["count"] == 2


def test_a_difference_ends_with_status_1(
    vocabulary_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hybrid.testing.mask_comparison.compare_walk", benches.differ)
    named = ("--vocabulary", vocabulary_file, "--no-memory", "--repeats", 1)
    output, _ = benches.recorded(tmp_path / "out.json", "classes", *named, status=1)
    assert "DIFFERENCE made, builtin:json" in output


# --- Memory, growth ------------------------------------------------------------------------------


@pytest.mark.skipif(not memory.CLEAR.exists(), reason="the system does not say")
@pytest.mark.slow
def test_memory_is_measured_in_another_process(vocabulary_file: str) -> None:
    grammar = xgrammar.Grammar.builtin_json_grammar().serialize_json()
    found = memory.peak_of_classes(vocabulary_file, grammar)
    assert found is not None and 0 < found < 2**28


def test_the_peak_sees_what_was_freed() -> None:
    if not memory.reset_peak():
        pytest.skip("the system does not say")
    before = memory.status_bytes("VmRSS")
    np.ones(2**26, np.uint8)
    assert memory.status_bytes("VmHWM") - before > 2**25
    memory.reset_peak()
    assert memory.status_bytes("VmHWM") - before < 2**25


def test_made_schemas_are_equal_every_time_and_use_all_kinds() -> None:
    made = scaling.made_schema(40)
    assert made == scaling.made_schema(40)
    assert (len(made["properties"]), len(made["required"])) == (40, 20)
    assert len({json.dumps(part.get("type", list(part))) for part in made["properties"].values()}) == 8


def test_growth(
    vocabulary: Vocabulary, vocabulary_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scaling, "SMALLEST_VOCABULARY", 100)
    monkeypatch.setattr(scaling.by_properties, "__defaults__", ((1, 4),))
    larger = tmp_path / "larger.npz"
    Vocabulary.from_bytes([*vocabulary.tokens, *(b"%d" % n for n in range(1000, 1130))]).save(larger)
    output, record = benches.recorded(
        tmp_path / "out.json",
        *("classes", "--vocabulary", vocabulary_file, "--no-memory", "--scaling", "--repeats", 1),
        *("--walks", 0, "--growth-vocabulary", larger),
    )
    found = record["scaling"]
    assert [row["size"] for row in found["properties"]["rows"]] == [1, 1, 4, 4]
    assert [row["size"] for row in found["vocabulary"]["rows"]] == [100, 200, 400]
    assert "Growth with the vocabulary" in output


def test_the_exponent_is_the_slope() -> None:
    rows = [{"size": size, "cpu_seconds": 3e-6 * size**1.5} for size in (10, 100, 500)]
    assert scaling.exponent([*rows, {"size": 9, "refusal": "no"}]) == pytest.approx(1.5)
    assert scaling.exponent(rows[:1]) is None


# --- The peer ----------------------------------------------------------------------------------------------


def test_a_tokenizer_has_the_same_bytes_for_the_same_ids(tmp_path: Path) -> None:
    tokens = [*(bytes([value]) for value in range(256)), b"", "é €".encode(), b"a", b"<|end0|>"]
    vocabulary = Vocabulary.from_bytes(tokens, stop_token_ids=[256])
    assert cfgzip.write_tokenizer(vocabulary, tmp_path) == 1, "a is there twice"
    (file,) = tmp_path.rglob("tokenizer.json")
    tokenizer = Tokenizer.from_file(str(file))
    letters = {letter: byte for byte, letter in cfgzip.byte_letters().items()}
    words = {number: tokenizer.id_to_token(number) for number in range(len(tokens))}
    assert words.pop(256) == "<|end1|>" and words.pop(258) is None
    for token_id, word in words.items():
        assert bytes(letters[letter] for letter in word) == tokens[token_id]


def test_what_the_peer_is_given_is_the_same_grammar(vocabulary: Vocabulary) -> None:
    grammar = xgrammar.Grammar.builtin_json_grammar()
    text = cfgzip.printed(grammar)
    assert "(=" not in text and r"\0" not in text and r"\x00" in text
    again = compute_classes(xgrammar.Grammar.from_ebnf(text), vocabulary)
    assert np.array_equal(again.class_of_token, compute_classes(grammar, vocabulary).class_of_token)


def test_relations() -> None:
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b"c", b"d", b""], stop_token_ids=[4])
    for found, refines, split, missing in (
        ([5, 6, 7, -1, 9], True, 0, 0),
        ([5, 5, 7, 8, 9], True, 0, 0),
        ([5, 6, 6, -1, 9], False, 1, 0),
        ([5, -1, 7, -1, 9], False, 0, 1),
    ):
        made = cfgzip.relate(np.array([0, 0, 1, -1, -1], np.int32), np.array(found), vocabulary)
        assert (made["refines"], made["split"], made["missing"]) == (refines, split, missing)


PROGRAM = """#!{python}
import pathlib, shutil, sys

def value_of(option):
    return pathlib.Path(sys.argv[sys.argv.index(option) + 1])

if "mine" in value_of("--grammar-file").read_text():
    sys.exit("Error: invalid GBNF rule")
if "--skip-repeat-bytes" not in sys.argv:
    sys.exit("memory allocation of 5 bytes failed")
value_of("--output").mkdir()
shutil.copy({classes!r}, value_of("--output") / "tc.pt")
for name, value in (("load_tokenizer_s", 1), ("compute_token_classes_total_s", 2), ("total_s", 4)):
    print(f"cfgzip timing: {{name}}={{value}}", file=sys.stderr)
"""


def test_what_the_peer_cannot_take_is_given_in_other_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program answers as the peer's does: it refuses, runs out of memory, then gives classes."""
    classes, path = tmp_path / "classes.pt", tmp_path / cfgzip.PROGRAM
    torch.save(torch.arange(3, dtype=torch.int32), classes)
    path.write_text(PROGRAM.format(python=sys.executable, classes=str(classes)))
    path.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b"c", b"d"])
    grammar = xgrammar.Grammar.from_ebnf('root ::= "a" | "b"')
    with cfgzip.Peer(vocabulary, 60, 2**36) as peer:
        found = peer.run(grammar, "mine", np.array([0, 1, -1, -1], np.int32))
    assert (found.classes, found.seconds, found.class_seconds) == (3, 3.0, 2.0)
    assert found.form == "as XGrammar prints it, without tokens that repeat a byte"
    refused = "as written: invalid GBNF rule"
    assert found.attempts == [refused, "as XGrammar prints it: needs more than 64 GiB of memory"]
    assert found.relation["refines"] and not peer.folder.exists()
