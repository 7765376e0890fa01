"""Results equal plain XGrammar's: languages on every strategy, and masks bit by bit on real vocabularies.

What: every case of ``tests/cases`` on every strategy; masks along its strings in random tokenisations and
along random walks; JSON schemas of the corpora on three vocabularies, if the corpora are installed.
When: after any change at all; it is the end-to-end test of exactness.
Limits: masks are compared only in the states that the walks visit. There must be no difference;
contradictions between XGrammar's masks and its own ``accept_token`` are counted and printed (``pytest -rP``
shows them).
"""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import xgrammar

from bench.cases import Case
from bench.workloads import compare_walks, load_schema_files, plain_compiler, render_instance
from equivalence import UnsupportedGrammar, Vocabulary
from hybrid import CompiledGrammar, GrammarCompiler, GrammarMatcher
from hybrid.testing.comparison import Comparison
from hybrid.testing.mask_comparison import compare_along, compare_walk
from hybrid.testing.segmentation import tokenize_greedy, tokenize_random
from tests.conftest import load_cases
from tests.matchers import mask_of

STOP = 256
BYTES = Vocabulary.from_bytes(
    [bytes([value]) for value in range(256)] + [b"", b"ab", b"})", b'", "', b"  "], stop_token_ids=STOP
)

LONGEST = 90
"""Bytes of a string along which masks over a real vocabulary are compared; plain XGrammar is slow."""

SLOW = {"c_like", "sql_like", "s_expression", "repeat_bounded_text", "nullable_star"}
"""Cases that plain XGrammar fills slowly over a real vocabulary, up to minutes a mask (``nullable_star``)."""

TOO_SLOW = {"nullable_star", "repeat_bounded_text"}
"""Those of them that take minutes: ``python -m bench equality`` compares them."""

PACED = SLOW | {"regular_expression"}
"""Cases with a quarter of a second for many masks: their strings in greedy tokens, and half the walk."""


CASES = {case.name: case for case in load_cases()}


@cache
def on_bytes(name: str, strategy: str) -> CompiledGrammar:
    """Compile a case over single bytes."""
    return GrammarCompiler(BYTES, strategy=strategy).compile_grammar(CASES[name].parse())


LONG = 2_000
"""Bytes of strings that are read at once."""


def ends(compiled: CompiledGrammar, string: bytes) -> bool:
    """Whether a string is read to a complete end; short ones byte by byte, each of which the mask allows."""
    matcher = GrammarMatcher(compiled)
    if compiled.strategy == "engine" or len(string) > LONG:  # masks of XGrammar contradict what it accepts
        is_read = matcher.accept_string(string)
    else:
        is_read = all(byte in mask_of(matcher) and matcher.accept_token(byte) for byte in string)
    return is_read and matcher.is_completed() and matcher.accept_token(STOP) and matcher.is_terminated()


ON_CLASSES = pytest.param("classifier", marks=pytest.mark.kernels)


@pytest.mark.parametrize("strategy", [ON_CLASSES, "representatives", "engine", "auto"])
@pytest.mark.parametrize("name", CASES)
def test_language(name: str, strategy: str) -> None:
    try:
        compiled = on_bytes(name, strategy)
    except UnsupportedGrammar as error:
        assert strategy == "representatives" and on_bytes(name, "auto").strategy == "engine"
        pytest.skip(f"no token classes: {error}")
    case = CASES[name]
    assert case.accepts and case.rejects, "a case needs strings of its language, and others"
    assert [string for string in case.accepts if not ends(compiled, string)] == []
    assert [string for string in case.rejects if ends(compiled, string)] == []
    for string in case.prefixes:
        assert GrammarMatcher(compiled).accept_string(string), f"{string!r} is not read"


def test_few_cases_are_without_classes() -> None:
    """Most cases have classes, so the engine is not only compared with itself; the other cases say why
    not."""
    compiled = {name: on_bytes(name, "auto") for name in CASES}
    reasons = {name: one.reason for name, one in compiled.items() if one.strategy == "engine"}
    assert len(reasons) <= len(compiled) // 5, reasons
    assert all(reason.startswith("no token classes: ") for reason in reasons.values())


def assert_exact(title: str, found: Comparison) -> None:
    """Fail if there is a difference; print the verdict and XGrammar's contradictions to the test's output."""
    print(f"{title}: {found}", *found.contradictions[:20], sep="\n  ")
    assert found.exact, (title, found.differences[:5])


Compilers = tuple[GrammarCompiler, xgrammar.GrammarCompiler]


@pytest.fixture(scope="module")
def tekken_compilers(tekken: Vocabulary) -> Compilers:
    return GrammarCompiler(tekken), plain_compiler(tekken, 2)


def chosen_cases() -> list[Any]:
    """All hard grammars, a seeded third of the rest, and always the builtin JSON grammar and the regexes;
    slow ones are marked."""
    cases = [case for case in CASES.values() if case.name not in SLOW]
    hard = {"left-recursion", "ambiguous", "nullable", "deep", "unicode"}
    kept = [case for case in cases if case.kind == "ebnf" and case.features & hard]
    assert len(kept) >= 10
    kept += [case for case in cases if case.kind in ("regex", "builtin_json")]
    rest = [case for case in cases if case not in kept]
    kept += random.Random(20).sample(rest, len(rest) // 3)
    slow = [case for case in CASES.values() if case.name in SLOW - TOO_SLOW]
    return [*kept, *(pytest.param(case, marks=pytest.mark.slow) for case in slow)]


@pytest.mark.parametrize("case", chosen_cases(), ids=str)
def test_masks_on_a_real_vocabulary(case: Case, tekken_compilers: Compilers) -> None:
    ours, plain = (compiler.compile_grammar(case.parse()) for compiler in tekken_compilers)
    found = Comparison()
    vocabulary = ours.vocabulary
    short = [string for string in case.accepts if len(string) <= LONGEST]
    for number, string in enumerate(short or [min(case.accepts, key=len)[:LONGEST]]):
        if case.name in PACED:
            ids = tokenize_greedy(vocabulary, string)
        else:
            ids = tokenize_random(vocabulary, string, seed=f"{case.name} {number}")
        along = compare_along(ours, plain, ids)
        assert along.complete, f"{string!r} was left at {along.accepted} of {len(ids)} tokens"
        found.add(along)
    found.add(compare_walk(ours, plain, seed=1, steps=10 if case.name in PACED else 40))
    assert found.masks > (10 if case.name in SLOW else 40)
    assert_exact(case.name, found)


def test_masks_of_the_builtin_json_grammar(tekken_compilers: Compilers) -> None:
    """If XGrammar's own assertion is wrong (``}]`` after a string), our mask follows its ``accept_token``."""
    ours, plain = (compiler.compile_builtin_json_grammar() for compiler in tekken_compilers)
    assert ours.strategy == "classifier"
    found = compare_along(ours, plain, tokenize_random(ours.vocabulary, b'[{"a":"x"}]\n', 1))
    found.add(compare_walks(ours, plain, 0, 4, 150))
    assert_exact("builtin JSON", found)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "share"), [("llama3", 15), ("qwen2.5", 4), ("gemma3", 4)])
def test_masks_of_real_schemas(corpora: Path, name: str, share: int) -> None:
    vocabulary = Vocabulary.load(corpora / "tokenizers" / f"{name}.vocab.npz")
    compiler, plain_one = GrammarCompiler(vocabulary), plain_compiler(vocabulary, 2)
    files = load_schema_files(corpora / "schemas" / "dev")
    # short enough for plain XGrammar to compile them in time
    files = [file for file in files if len(json.dumps(file.schema)) < 4000]
    compared = 0
    for file in random.Random(7).sample(files, min(45, len(files))):
        if compared == share:
            break
        try:
            grammar = xgrammar.Grammar.from_json_schema(json.dumps(file.schema), strict_mode=False)
        except RuntimeError:
            continue  # not a schema for XGrammar
        ours, plain = compiler.compile_grammar(grammar), plain_one.compile_grammar(grammar)
        compared += 1
        found = compare_walks(ours, plain, 0, 2, 100)
        for instance in file.valid[:1]:
            ids = tokenize_random(vocabulary, render_instance(instance)[:LONGEST], seed=file.name)
            found.add(compare_along(ours, plain, ids))
        assert_exact(file.name, found)
    assert compared == share
