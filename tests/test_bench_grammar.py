"""What `bench grammar` compares, counts and cuts; no speed is asserted."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import pytest

from bench import build_cost, documents, report, server_times
from bench.grammar import agree
from equivalence.vocabulary import Vocabulary
from hybrid import GrammarCompiler
from tests.benches import done_here, recorded, vocabulary_with

ROOT = Path(__file__).parent.parent
STOP = 256
WORDS = [
    b"foo", b"bar = ", b" = ", b";\n", b"12", b"begin", b"end", b"begin a", b'"}', b'{"', b'": ', b"true",
]  # fmt: skip

GRAMMAR = """root ::= (ws stmt)* ws
stmt ::= [a-z]+ ws "=" ws [0-9]+ ";"
ws ::= [ \\n]*
"""
TEXTS = [b"foo = 12;\nbar=3;", b"a=1; ", b"begin = 1;\n\nend = 22;", b"x = 0;"]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return vocabulary_with(*WORDS)


@pytest.fixture(scope="module")
def compiled(vocabulary: Vocabulary) -> Any:
    return GrammarCompiler(vocabulary, strategy="classifier").compile_grammar(GRAMMAR)


@pytest.mark.parametrize("name", ["c_like", "arithmetic"])
def test_samples_are_sentences_of_their_grammars(name: str, vocabulary: Vocabulary) -> None:
    text = (ROOT / "hybrid" / "grammars" / f"{name}.gbnf").read_text()
    grammar = GrammarCompiler(vocabulary, strategy="classifier").compile_grammar(text)
    samples = documents.read_documents([ROOT / "bench" / "samples" / name])
    assert len(samples) >= 20
    for sample, content in samples:
        assert documents.is_accepted(grammar, content), sample


def test_all_measurements(tmp_path: Path, vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_cost, "in_another_process", done_here)
    spec, grammar = tmp_path / "one.npz", tmp_path / "made.gbnf"
    vocabulary.save(spec)
    grammar.write_text(GRAMMAR)
    folder = tmp_path / "texts"
    folder.mkdir()
    for number, text in enumerate([*TEXTS, b"no sentence"]):
        (folder / f"{number}.txt").write_bytes(text)
    output, record = recorded(
        tmp_path / "out.json",
        *("grammar", "--grammar", grammar, "--sample", folder, "--vocabulary", spec),
        *("--walks", 1, "--walk-steps", 30, "--rounds", 2, "--batch", 3, "--builds", 1),
        *("--plain-masks", 20, "--no-warm"),
    )
    summary = record["summary"]
    assert summary["differences"] == summary["our_differences"] == 0
    assert summary["compared_sides"] == ["classifier", "on demand", "representatives"]
    assert summary["documents"] == 4
    # plain XGrammar computed only as many masks as the bound allows, our strategies computed all
    assert 20 <= summary["masks"] - 30 < 50
    assert summary["our_masks"] - 60 > summary["masks"] - 30
    for row in record["rows"]:
        assert (row["accepted"] == row["tokens"]) == row["complete"]
        assert row["mask"]["count"] == row["plain_mask"]["count"] == row["masks"]
    cuts = [row["name"].split(", ")[1] for row in record["rows"]]
    assert abs(cuts.count("longest match") - cuts.count("random cuts")) <= 1, "a bound leaves out samples"
    measured = summary["measured"]
    assert len(measured["calls"]) == 10 and len(measured["batches"]) == 4
    # two rounds; two rounds of halves measure every document once
    for kind, count in (("repeated", 2), ("new", 1)):
        assert measured["calls"][f"mask, {kind} document"]["calls"] == count * summary["document_tokens"]
    for building in summary["building"].values():
        assert len(building["seconds"]) == 1 and building["classes"] == summary["classes"]
        assert building["artefact"] > 0 and building["load"] > 0
    assert "4.txt, longest match: accepted up to token" in output


def test_without_documents_nothing_is_timed(tmp_path: Path, vocabulary: Vocabulary) -> None:
    vocabulary.save(tmp_path / "one.npz")
    named = ("grammar", "--grammar", "builtin:json", "--vocabulary", tmp_path / "one.npz", "--no-warm")
    given = ("--walks", 1, "--walk-steps", 20, "--builds", 0, "--strategy", "representatives")
    summary = recorded(tmp_path / "out.json", *named, *given)[1]["summary"]
    assert (summary["masks"], summary["differences"], summary["compile"] > 0) == (20, 0, True)
    assert "measured" not in summary and summary["compared_sides"] == ["representatives"]


def test_a_wrong_side_is_found(compiled: Any, vocabulary: Vocabulary) -> None:
    narrow = GRAMMAR.replace("[0-9]+", "[0-8]+")
    other = GrammarCompiler(vocabulary, strategy="classifier").compile_grammar(narrow)
    console = report.make_console()
    for sides in ({"right": compiled, "wrong": other}, {"wrong": other, "right": compiled}):
        found = agree(console, sides, [list(b"a=9;")], 1, 0, 0)
        assert found.difference_count >= 2  # the mask before the digit, and the digit
        assert found.masks == 3
        assert agree(console, sides, [], 1, 1, 200).difference_count > 0
    found = agree(console, {"right": compiled, "twin": compiled}, [list(b"a=9;")], 1, 1, 50)
    assert found.difference_count == 0 and found.masks > 50


def test_halves_measure_each_document_equally_often() -> None:
    halves = list(server_times.halves(5, 4, seed=1))
    assert all(sorted([*warm, *measured]) == list(range(5)) for warm, measured in halves)
    assert sorted(place for _, measured in halves for place in measured) == sorted([*range(5)] * 2)


def test_rounds_subtract_the_clock() -> None:
    times = [array("d", one) for one in ([1.0, 3.0], [2.0, 6.0], [0.1, 2.1])]
    rounds = server_times.Rounds.of(times, 0.5)
    assert (rounds.calls, rounds.mean, rounds.calm_calls) == (6, 1.5, 6)
    assert rounds.least == pytest.approx(0.8)
    assert rounds.max == 5.5
    assert server_times.Rounds.of([], 0.5).calls == 0
    assert 0 < server_times.clock_cost(100) < 1


def test_calls_are_named_by_what_was_met_before(compiled: Any) -> None:
    ids = [list(text) for text in TEXTS]
    rows = server_times.call_times({"": lambda: compiled, "twin": lambda: compiled}, ids, 2, 0, 0.0)
    kinds = ["repeated document", "new document", "first document"]
    kinds += [f"{kind}, twin" for kind in kinds[1:]]
    assert list(rows) == [f"{what}, {kind}" for what in ("mask", "token") for kind in kinds]
    assert rows["mask, new document"].calls == rows["token, new document"].calls == sum(map(len, ids))
