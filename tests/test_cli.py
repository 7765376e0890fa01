"""The command line: what it prints, and which errors it reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from hybrid import (
    CompiledGrammar,
    GrammarCompiler,
    GrammarError,
    GrammarMatcher,
    Vocabulary,
    allocate_token_bitmask,
)
from hybrid.classifier.depth import depths_read
from hybrid.classifier.follower import ClassifierFollower
from hybrid.cli.commands import app
from hybrid.cli.grammar_source import read_grammar

DIGITS = "root ::= [0-9]+"


@pytest.fixture
def vocabulary(tmp_path: Path) -> str:
    """The path of a small vocabulary: all bytes and some words; the last id is the stop token."""
    tokens = [*(bytes([b]) for b in range(256)), b"12", b"true", b"12a", b""]
    path = tmp_path / "small.npz"
    Vocabulary.from_bytes(tokens, stop_token_ids=[len(tokens) - 1]).save(path)
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


def test_classes_of_a_text(vocabulary: str) -> None:
    result = run("classes", DIGITS, "--vocabulary", vocabulary)
    assert result.exit_code == 0, result.output
    assert "1 classes for 260 ids" in result.output
    assert "'12'" in result.output and "ms" in result.output


def test_classes_of_a_file_and_of_a_schema(vocabulary: str, tmp_path: Path) -> None:
    grammar = tmp_path / "digits.gbnf"
    grammar.write_text(DIGITS)
    assert "1 classes for 260 ids" in run("classes", str(grammar), "--vocabulary", vocabulary).output
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps({"type": "boolean"}))
    result = run("classes", str(schema), "--vocabulary", vocabulary, "--relation", "displacement")
    assert result.exit_code == 0 and "displacement" in result.output and "'true'" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["classes", "root ::= (", "--vocabulary", "SPEC"], "GrammarError"),
        (["classes", '{"type": 5}', "--vocabulary", "SPEC"], "GrammarError"),
        (["classes", DIGITS, "--vocabulary", "no-such-file.npz"], "VocabularyError"),
        (
            ["classes", DIGITS, "--vocabulary", "SPEC", "--relation", "sameness"],
            "must be 'acceptance' or 'displacement'",
        ),
    ],
)
def test_refusals_say_why_and_end_with_status_2(arguments: list[str], message: str, vocabulary: str) -> None:
    result = run(*(vocabulary if argument == "SPEC" else argument for argument in arguments))
    assert result.exit_code == 2
    assert message in result.output and "Traceback" not in result.output


def test_a_file_of_a_schema_corpus_is_read_for_its_schema(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    path.write_text(json.dumps({"description": "", "schema": {"const": 7}, "tests": []}))
    assert '"7"' in str(read_grammar(str(path)))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bytes.gbnf"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(GrammarError, match="UTF-8"):
        read_grammar(str(path))


# --- Files with compiled grammars --------------------------------------------------------------------------

NESTED = 'root ::= "(" root ")" | [0-9]+'


@pytest.fixture
def grammars(tmp_path: Path) -> list[str]:
    """Files that hold a grammar, a schema, and neither."""
    (tmp_path / "nested.gbnf").write_text(NESTED)
    (tmp_path / "schema.json").write_text(json.dumps({"type": "boolean"}))
    (tmp_path / "broken.gbnf").write_text("root ::= (")
    return [str(tmp_path / name) for name in ("nested.gbnf", "schema.json", "broken.gbnf")]


def test_the_file_of_a_schema_names_what_is_not_enforced(
    vocabulary: str, grammars: list[str], tmp_path: Path
) -> None:
    Path(grammars[1]).write_text(json.dumps({"type": "array", "uniqueItems": True}))
    file = tmp_path / "schema.equimask"
    result = run("compile", grammars[1], "--vocabulary", vocabulary, "-o", str(file))
    for output in (result.output, run("inspect", str(file)).output):
        assert "keywords that are not enforced: 1" in output and "uniqueItems" in output


def test_a_grammar_is_compiled_to_a_file_and_inspected(
    vocabulary: str, grammars: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "nested.equimask"
    result = run("compile", grammars[0], "--vocabulary", vocabulary, "-o", str(file))
    assert result.exit_code == 0, result.output
    assert "nested.equimask: " in result.output and "classes" in result.output
    loaded = CompiledGrammar.load(file, Vocabulary.load(vocabulary))
    assert GrammarMatcher(loaded).accept_string("((12))")

    result = run("inspect", str(file))
    assert result.exit_code == 0, result.output
    for part in ("classifier", "pending sets", "summaries", "KiB in the file", loaded.vocabulary.fingerprint):
        assert part in result.output
    assert "loaded in" not in result.output

    sample = tmp_path / "sample"
    sample.write_text("((12))")
    result = run("inspect", str(file), "--vocabulary", vocabulary, "--sample", str(sample))
    assert result.exit_code == 0, result.output
    assert "loaded in" in result.output and "6 masks of the sample" in result.output
    result = run("inspect", str(file), "--vocabulary", vocabulary, "--steps", "20")
    assert result.exit_code == 0, result.output
    assert "20 masks of a random walk" in result.output and "%" in result.output


def test_several_grammars_go_to_a_folder(vocabulary: str, grammars: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "out"
    arguments = ["--vocabulary", vocabulary, "-o", str(folder), "--n-jobs", "2"]
    result = run("compile", "builtin:json", *grammars, *arguments)
    assert result.exit_code == 1, result.output
    assert "broken.gbnf: GrammarError" in result.output
    assert {file.suffix for file in folder.iterdir()} == {".equimask"}
    assert {file.stem for file in folder.iterdir()} == {"builtin_json", "nested", "schema"}
    result = run("compile", grammars[0], *arguments)
    assert result.exit_code == 0 and "nested.equimask" in result.output, "a folder takes one too"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compile", "root ::= (", "-o", "OUT/x.equimask"], "GrammarError"),
        (["compile", DIGITS, DIGITS, "-o", "OUT/x"], "is not a file; if the output is a folder"),
        (
            ["compile", "builtin:json", "builtin:json", "-o", "OUT/x"],
            "several grammars have the name",
        ),
        (["compile", DIGITS, "-o", "OUT/no/folder.equimask"], "FileNotFoundError"),
        (["inspect", "OUT/missing.equimask"], "ArtifactError"),
        (["inspect", "SPEC"], "this is not a compiled grammar"),
    ],
)
def test_files_are_refused_with_status_2(
    arguments: list[str], message: str, vocabulary: str, tmp_path: Path
) -> None:
    words = [word.replace("OUT", str(tmp_path)).replace("SPEC", vocabulary) for word in arguments]
    if words[0] == "compile":
        words += ["--vocabulary", vocabulary]
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert message in result.output and "Traceback" not in result.output
    assert not list(tmp_path.glob("*.equimask")) and not (tmp_path / "x").exists()


def test_a_grammar_is_refused_before_a_vocabulary_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hybrid.cli.artifacts.load_vocabulary", lambda spec: pytest.fail("it was loaded"))
    result = run("compile", "root ::= (", "--vocabulary", "a-name-on-the-hub", "-o", "x")
    assert result.exit_code == 2 and "GrammarError" in result.output


def test_a_sample_that_does_not_fit_is_refused(vocabulary: str, grammars: list[str], tmp_path: Path) -> None:
    file, sample = tmp_path / "nested.equimask", tmp_path / "sample"
    run("compile", grammars[0], "--vocabulary", vocabulary, "-o", str(file))
    sample.write_text("((x")
    result = run("inspect", str(file), "--vocabulary", vocabulary, "--sample", str(sample))
    assert result.exit_code == 2 and "after byte 2" in result.output
    assert "line 1, column 3" in result.output and "expected " in result.output
    result = run("inspect", str(file), "--sample", str(sample))
    assert result.exit_code == 2 and "--sample needs --vocabulary" in result.output


@pytest.mark.parametrize("grammar", ['root ::= "(" root ")" | "x"', 'root ::= "(" ("x" | root) ")" "!"{0,5}'])
def test_depths_are_those_of_the_brackets(grammar: str) -> None:
    tokens = [b"(", b")", b"x", b"))", b")))", b"!", b""]
    words = Vocabulary.from_bytes(tokens, stop_token_ids=[6])
    matcher = GrammarMatcher(GrammarCompiler(words, strategy="classifier").compile_grammar(grammar))
    follower = matcher._follower
    assert isinstance(follower, ClassifierFollower)
    bitmask = allocate_token_bitmask(1, words.size)
    configs = []
    for depth in range(1, 8):
        matcher.reset()
        assert matcher.accept_string("(" * depth + "x")
        matcher.fill_next_token_bitmask(bitmask)
        configs.append(follower.config)
    found = depths_read(follower.session.store, configs)
    assert [found[config] for config in configs][:3] == [1, 2, 3]
    if "!" not in grammar:
        assert {found[config] for config in configs[3:]} == {3}
