"""The command line: what it prints, and how it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from hybrid import GrammarError, Vocabulary
from hybrid.cli import app, read_grammar

DIGITS = "root ::= [0-9]+"


@pytest.fixture
def vocabulary(tmp_path: Path) -> str:
    """The path of a small vocabulary: all bytes and some words, the last id stops."""
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
        (["classes", DIGITS, "--vocabulary", "SPEC", "--relation", "sameness"], "allowed are acceptance"),
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
