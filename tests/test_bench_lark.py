"""The benchmark of Lark grammars: its judge is right, it finds wrong masks, and it writes its results."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from lark import Lark

from bench import build_cost, documents, lark, lark_checks, server_times, workloads
from bench.lark_judge import Judge
from bench.peers import llguidance
from equivalence.vocabulary import Vocabulary
from hybrid import GrammarCompiler
from tests import benches
from tests.benches import vocabulary_with

WORDS = [b"let", b"let ", b" = ", b"x1", b"12", b";\n", b"/* ", b" */", b'"a', b'";', b"++", b"le", b"\xc3"]

GRAMMAR = """start: (assignment ";")*
assignment: "let" NAME "=" value
?value: value OPERATOR atom | atom
?atom: NAME | NUMBER | STRING
OPERATOR: "+" | "/" | "*" "*"? | "é"
NAME: /[a-z][a-z0-9]*/
NUMBER: /[0-9]+/
STRING: /"[^"\\n]*"/
COMMENT: /\\/\\*(.|\\n)*?\\*\\//
%ignore COMMENT
%ignore /[ \\n]+/
"""
"""Keywords, an operator beyond ASCII, and a comment whose opening is also two operators."""

NARROW = GRAMMAR.replace('"+" | ', "")

TEXT = 'let x1 = 12 + "a b"; /* one\ntwo */\nlet y = x1;\n'


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return vocabulary_with(*WORDS)


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge(Lark(GRAMMAR, parser="lalr", lexer="basic"))


@pytest.fixture(scope="module")
def compiled(vocabulary: Vocabulary) -> Any:
    return GrammarCompiler(vocabulary).compile_lark(GRAMMAR)


@pytest.fixture(scope="module")
def narrow(vocabulary: Vocabulary) -> Any:
    return GrammarCompiler(vocabulary).compile_lark(NARROW)


@pytest.mark.parametrize(
    ("text", "rest", "token", "taken"),
    [
        ("let x1 = 12;", "", b"le", True),  # only with the rest of the keyword
        ("", "", b"m", False),
        ("let x1 = 12", ";", b"3", True),  # the number continues
        ("let x1 = 12", ";", b" 3", False),
        ("let x1 = 12", ";", b" /* let let", True),  # any text: it is in a comment
        ("let x1 = 12", ";", b" /* */ 3", False),
        ("let x1 = 12", ";", b' + "', True),  # only with a quote
        ("let x1 = 12", ";", b"\xc3", True),  # completed to the operator
        ("let x1 = 12", ";", b"\xc3\xc3", False),  # no text
    ],
)
def test_the_judge_knows_what_lark_takes(
    judge: Judge, text: str, rest: str, token: bytes, taken: bool
) -> None:
    """The text is part of a sentence, which ends with the rest."""
    (place,) = judge.places(text + rest, [len(text)])
    more = judge.taken(place, token)
    assert (more is not None) == taken
    assert more is None or judge.confirmed(text.encode() + token, more)


def test_a_find_is_confirmed_only_by_what_lark_takes(judge: Judge) -> None:
    for text, more, confirmed in (
        (b"let x = 1 +", b"", True),
        (b"let x = 1 + +", b"", False),
        (b"let x = 1 $", b"", False),
        (b"let x = 1;", b"$", True),  # what follows need not be lexed
        (b'let x = "', b"", False),
        (b'let x = "', b'"', True),
    ):
        assert judge.confirmed(text, more) is confirmed


def test_openings_that_are_never_closed_are_told_apart(judge: Judge) -> None:
    place = next(judge.places("let x = y / z;", [9]))
    assert place.text.endswith("= y")
    tokens = (b"/*", b"/* 1", b"/", b"/* */ /")
    assert [judge.unclosed(place, token, b"") for token in tokens] == [True, True, False, False]
    with pytest.raises(ValueError, match="beyond character 4"):
        list(judge.places("let let", []))


def judge_all(compiled: Any, judge: Judge, text: str, cut: int, *numbers: int) -> lark_checks.Judged:
    ids = workloads.token_sequences(compiled.vocabulary, text.encode(), "0")[cut]
    return lark_checks.judge_file(compiled, judge, text, ids, ids, random.Random(0), *numbers)


@pytest.mark.parametrize("cut", [0, 1], ids=documents.CUTS)
def test_right_masks_are_found_right(compiled: Any, judge: Judge, cut: int) -> None:
    found = judge_all(compiled, judge, TEXT, cut, 12, 100, 100)
    assert found.steps > 10 and found.refused > 300 and found.allowed > 100
    assert not found.unsound and not found.undecided


def test_wrong_masks_are_found(compiled: Any, judge: Judge) -> None:
    # without parts of characters, for which the judge tries many others
    few = Vocabulary.from_bytes([*(bytes([value]) for value in range(128)), b""], stop_token_ids=[128])
    refusing = judge_all(GrammarCompiler(few).compile_lark(NARROW), judge, "let x1 = 12;", 1, 0, 300, 0)
    assert (b"let x1 = 12", b"+", b"") in refusing.unsound
    assert {token[:1] for _, token, _ in refusing.unsound} == {b"+"}
    other = Judge(Lark(NARROW, parser="lalr", lexer="basic"))
    allowing = judge_all(compiled, other, 'let x1 = 12 / "a b";', 1, 0, 0, 300)
    assert (b"let x1 = 12", b"+") in allowing.undecided


def test_following_says_where_a_file_fails(compiled: Any, narrow: Any) -> None:
    ids = workloads.token_sequences(compiled.vocabulary, TEXT.encode(), "0")[0]
    whole = lark_checks.Followed("a", "longest match", len(ids), "")
    assert lark_checks.follow(compiled, "a", ids, "longest match") == whole
    for grammar, some, words in (
        (narrow, ids, "at byte 12, b'+'"),
        (narrow, ids, "the mask refuses it, accept_token gives False"),
        (compiled, ids[:3], "at the end"),
    ):
        assert words in lark_checks.follow(grammar, "a", some, "longest match").failure


def run(tmp_path: Path, vocabulary: Vocabulary, *arguments: str, status: int = 0) -> tuple[str, Any]:
    spec, text, record = tmp_path / "made.npz", tmp_path / "made.lark", tmp_path / "record.json"
    vocabulary.save(spec)
    text.write_text(GRAMMAR, encoding="utf-8")
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.made").write_text(TEXT * (number + 1), encoding="utf-8")
    (folder / "wrong.made").write_text("let", encoding="utf-8")
    named = ("lark", "--grammar", f"made={text}", "--vocabulary", spec, "--documents", f"made={folder}")
    return benches.recorded(record, *named, *arguments, status=status)


def test_the_command_checks_times_and_writes(
    tmp_path: Path, vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_cost, "in_another_process", benches.done_here)
    small = ["--rounds", "2", "--batch", "3", "--builds", "1", "--refused", "8", "--allowed", "3"]
    output, record = run(tmp_path, vocabulary, *small)
    (row,) = record["rows"]
    assert (row["grammar"], row["vocabulary"], row["exact"], row["files"]) == ("made", "made", True, 4)
    assert row["failed"] == row["judged"]["unsound"] == [] and row["judged"]["refused"] > 0
    assert row["calls"]["mask, new document"]["calls"] > 0 < row["building"]["classes"]
    assert row["batches"]["mask a row, repeated"]["count"] > 0 and row["held"] > 1000
    assert "8 of 8" in output


def test_the_command_fails_where_a_file_does(
    tmp_path: Path, vocabulary: Vocabulary, narrow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GrammarCompiler, "compile_lark", lambda *_, **__: narrow)
    output, record = run(tmp_path, vocabulary, "--builds", "0", "--judged-files", "0", status=1)
    assert "FAILED" in output
    (row,) = record["rows"]
    assert len(row["failed"]) == 8 and "calls" not in row


def test_sources_are_read_from_folders(tmp_path: Path) -> None:
    for name in ("b.made", "a.made", "c.txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / "d.made").write_bytes(b"\xff")
    sources = documents.read_sources(tmp_path, ".made", 0)
    assert {source.text for source in sources} == {"a.made", "b.made"}


def test_the_shipped_grammars_are_found_by_name() -> None:
    assert "start" in lark.grammar_texts(["json.lark"])["json"]
    with pytest.raises(ValueError, match=r"none\.lark"):
        lark.grammar_texts(["none.lark"])


def test_llguidance_runs_what_it_takes(compiled: Any, vocabulary: Vocabulary) -> None:
    pytest.importorskip("llguidance")
    peer = llguidance.Peer(vocabulary)
    begun = peer.lark(GRAMMAR)
    ids = workloads.token_sequences(vocabulary, TEXT.strip().encode(), "0")[0]
    wrong = workloads.token_sequences(vocabulary, b"let ;", "0")[0]
    assert peer.taken(begun.compiled, [ids, wrong]) == [ids, wrong[:1]]
    assert len(server_times.serve(llguidance.beginning_of(begun), [ids, ids]).fill) == 2 * len(ids)
    assert peer.differing(begun, compiled, [ids])[0] == len(ids)
    assert "priority" in peer.lark(GRAMMAR.replace("start:", "start.2:")).error
