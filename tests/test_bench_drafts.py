"""The benchmarks of drafts, healed prompts, own choices and masked tokens run, and their figures add up.

What: small vocabularies and documents; the arithmetic of serving; the n-gram model; the masker of one
terminal.
When: after a change of these benchmarks.
Limits: no measured value is asserted.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from lark import Lark

from bench import drafts
from bench.invasive import spanning
from bench.simulated import Ngrams
from hybrid import GrammarCompiler, GrammarMatcher, Vocabulary
from tests.benches import recorded

pytestmark = pytest.mark.usefixtures("one_thread")

TEXTS = ['{"a": 1}', '{"a": 12, "b": "x"}', '{"b": "yy", "a": 3}', '{"a": 44}', '{"b": "z"}']
TOKENS = [bytes([byte]) for byte in range(128)] + [b'{"', b'": ', b', "', b'"a": ', b""]
SCHEMA = {"type": "object", "additionalProperties": {"anyOf": [{"type": "integer"}, {"type": "string"}]}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A vocabulary, a schema and documents."""
    Vocabulary.from_bytes(TOKENS, stop_token_ids=len(TOKENS) - 1).save(tmp_path / "v.npz")
    (tmp_path / "s.json").write_text(json.dumps(SCHEMA))
    (tmp_path / "documents").mkdir()
    for number, text in enumerate(TEXTS):
        (tmp_path / "documents" / f"{number}.json").write_text(text)
    return tmp_path


def ran(folder: Path, *arguments: str) -> Any:
    """Run a benchmark and return its record."""
    return recorded(folder / "out.json", *arguments, "--vocabulary", folder / "v.npz")[1]


def sources(folder: Path) -> list[str]:
    return ["--schema", f"x={folder}/s.json", "--documents", f"x={folder}/documents"]


def test_drafts(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    lark = ["--lark", "json.lark", "--documents", f"json={folder}/documents"]
    record = ran(folder, "drafts", *sources(folder), *lark, "--picture", f"{folder}/p.svg")
    methods = {"drafts", "forced text alone", "prompt lookup"}
    assert {row["method"] for row in record["rows"]} == methods
    for row in record["rows"]:
        tokens, steps = row["by document"]
        assert sum(tokens) == row["tokens"] and all(1 <= s <= t for s, t in zip(steps, tokens, strict=True))
    assert (folder / "p.svg").read_text().startswith("<?xml")


def test_invasive(folder: Path) -> None:
    record = ran(folder, "invasive", *sources(folder))
    ours = [row for row in record["rows"] if row["masks of"].startswith("ours")]
    assert len(ours) == 3 and all(row["masked"] == 0 and row["documents"] == len(TEXTS) for row in ours)
    [rival] = [row for row in record["rows"] if row["masks of"] == "one terminal a token"]
    assert 0 < rival["masked"] < rival["steps"]


def test_healing(folder: Path) -> None:
    record = ran(folder, "healing", "--document", f"{folder}/documents", "--prompts", "2")
    assert all(row["different"] == 0 and row["masks"] for row in record["rows"])


def test_opportunistic(folder: Path) -> None:
    record = ran(folder, "opportunistic", *sources(folder), "--count", "1", "--refused", "0.5")
    assert [row["strategy"] for row in record["rows"]] == ["classifier", "engine"]


def test_what_is_kept_of_a_draft() -> None:
    for after, kept in (([5, 6, 7], 2), ([5, 6], 2), ([5], 1), ([5, 7], 1), ([], 0)):
        assert drafts.kept([5, 6], after) == kept


def test_the_ngram_model_writes_texts_of_the_grammar() -> None:
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b"c", b""], stop_token_ids=3)
    compiled = GrammarCompiler(vocabulary).compile_grammar('root ::= ("a" | "b"){1,6}')
    model, rng = Ngrams([[0, 1, 0, 3], [1, 1, 3], [2, 2, 3]]), random.Random(1)
    texts = [model.write(compiled, rng, 20) for _ in range(50)]
    for text in texts:
        matcher = GrammarMatcher(compiled)
        assert all(matcher.accept_token(token) for token in text) and matcher.is_terminated()
    assert [0, 1, 0, 3] in texts and len({tuple(text) for text in texts}) > 3
    nothing_seen = Ngrams([[2, 2, 2]]).write(compiled, rng, 20)  # what it knows is never allowed
    assert 2 not in nothing_seen and nothing_seen


def test_a_masker_of_one_terminal_a_token() -> None:
    lark = Lark('start: (WORD | "=")*\nWORD: /[a-zé]+/\n%ignore " "', parser="lalr", lexer="basic")
    tokens = [b"a", b"b", b" ", b"=x", b"\xc3", b"\xa9 ", b"= "]
    assert spanning(lark, "ab =xé = ", tokens) == [False, False, False, True, False, True, True]
