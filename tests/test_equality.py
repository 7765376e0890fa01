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
from bench.workloads import load_schema_files, render_instance
from equivalence import UnsupportedGrammar, Vocabulary
from hybrid import CompiledGrammar, GrammarCompiler, GrammarMatcher
from hybrid.testing.comparison import Comparison
from hybrid.testing.mask_comparison import compare_along, compare_walk
from hybrid.testing.segmentation import tokenize_greedy, tokenize_random
from tests.conftest import load_cases

STRATEGIES = ("representatives", "engine", "auto")

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

SCHEMAS = 15
WALKS, STEPS = 2, 100


@cache
def on_bytes(case_name: str, strategy: str) -> CompiledGrammar | None:
    """Compile a case over single bytes; return None if it has no classes by design."""
    [case] = [case for case in load_cases() if case.name == case_name]
    try:
        return GrammarCompiler(BYTES, strategy=strategy).compile_grammar(case.parse())
    except UnsupportedGrammar:
        assert strategy == "representatives"
        return None


def compiled_or_skipped(case: Case, strategy: str) -> CompiledGrammar:
    compiled = on_bytes(case.name, strategy)
    if compiled is None:
        assert on_bytes(case.name, "auto").strategy == "engine"
        pytest.skip(f"no token classes: {on_bytes(case.name, 'auto').reason}")
    return compiled


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("case", load_cases(), ids=str)
def test_language(case: Case, strategy: str) -> None:
    compiled = compiled_or_skipped(case, strategy)
    for string in case.accepts:
        matcher = GrammarMatcher(compiled)
        assert matcher.accept_string(string), f"{string!r} is not read"
        assert matcher.is_completed() and matcher.accept_token(STOP) and matcher.is_terminated()
    for string in case.rejects:
        matcher = GrammarMatcher(compiled)
        read = matcher.accept_string(string)
        assert not (read and matcher.accept_token(STOP)), f"{string!r} is accepted"
    for string in case.prefixes:
        assert GrammarMatcher(compiled).accept_string(string), f"{string!r} is not read"


def test_few_cases_are_without_classes() -> None:
    """Most cases have classes, so the engine is not only compared with itself; the other cases say why
    not."""
    reasons = {
        case.name: compiled.reason
        for case in load_cases()
        if (compiled := on_bytes(case.name, "auto")).strategy == "engine"
    }
    assert len(reasons) <= len(load_cases()) // 5, reasons
    assert all(reason.startswith("no token classes: ") for reason in reasons.values())


def report(title: str, found: Comparison) -> None:
    """Print the verdict and XGrammar's contradictions to the test's output."""
    print(f"{title}: {found}")
    for contradiction in found.contradictions[:20]:
        print(f"  {contradiction}")


@pytest.fixture(scope="module")
def tekken_compilers(tekken: Vocabulary) -> tuple[GrammarCompiler, xgrammar.GrammarCompiler]:
    return GrammarCompiler(tekken), plain_compiler(tekken)


def plain_compiler(vocabulary: Vocabulary) -> xgrammar.GrammarCompiler:
    return xgrammar.GrammarCompiler(vocabulary.tokenizer_info, max_threads=2, cache_enabled=False)


def chosen_cases() -> list[Case]:
    """All hard grammars, a seeded third of the rest, and always the builtin JSON grammar and the regexes."""
    cases = [case for case in load_cases() if case.name not in SLOW]
    hard = {"left-recursion", "ambiguous", "nullable", "deep", "unicode"}
    kept = [case for case in cases if case.kind == "ebnf" and case.features & hard]
    kept += [case for case in cases if case.kind in ("regex", "builtin_json")]
    rest = [case for case in cases if case not in kept]
    return kept + random.Random(20).sample(rest, len(rest) // 3)


def test_the_chosen_cases_cover_what_is_hard() -> None:
    ebnf = [case for case in chosen_cases() if case.kind == "ebnf"]
    assert len(ebnf) >= 10
    met = set().union(*(case.features for case in ebnf))
    assert {"left-recursion", "ambiguous", "nullable", "unicode"} <= met
    assert any(case.kind == "regex" for case in chosen_cases())


def compare_case(case: Case, compilers: tuple[GrammarCompiler, xgrammar.GrammarCompiler]) -> Comparison:
    ours, plain = (compiler.compile_grammar(case.parse()) for compiler in compilers)
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
    return found


@pytest.mark.parametrize("case", chosen_cases(), ids=str)
def test_masks_on_a_real_vocabulary(
    case: Case, tekken_compilers: tuple[GrammarCompiler, xgrammar.GrammarCompiler]
) -> None:
    found = compare_case(case, tekken_compilers)
    report(case.name, found)
    assert found.masks > 40
    assert found.exact, found.differences[:5]


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in load_cases() if case.name in SLOW - TOO_SLOW], ids=str)
def test_masks_of_slow_grammars(
    case: Case, tekken_compilers: tuple[GrammarCompiler, xgrammar.GrammarCompiler]
) -> None:
    found = compare_case(case, tekken_compilers)
    report(case.name, found)
    assert found.exact, found.differences[:5]


def test_masks_of_the_builtin_json_grammar(
    tekken_compilers: tuple[GrammarCompiler, xgrammar.GrammarCompiler],
) -> None:
    """If XGrammar's own assertion is wrong (``}]`` after a string), our mask follows its ``accept_token``."""
    ours, plain = (compiler.compile_builtin_json_grammar() for compiler in tekken_compilers)
    assert ours.strategy == "classifier"
    text = b'[{"a":"x"}]\n'
    found = compare_along(ours, plain, tokenize_random(ours.vocabulary, text, 1))
    for seed in range(4):
        found.add(compare_walk(ours, plain, seed=seed, steps=150))
    report("builtin JSON", found)
    assert found.exact, found.differences[:5]


def small_schemas(corpora: Path) -> list[Any]:
    """A seeded sample of the schemas whose text is short enough for plain XGrammar to compile them in
    time."""
    files = [
        file for file in load_schema_files(corpora / "schemas" / "dev") if len(json.dumps(file.schema)) < 4000
    ]
    return random.Random(7).sample(files, min(3 * SCHEMAS, len(files)))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "share"), [("llama3", SCHEMAS), ("qwen2.5", 4), ("gemma3", 4)])
def test_masks_of_real_schemas(corpora: Path, name: str, share: int) -> None:
    vocabulary = Vocabulary.load(corpora / "tokenizers" / f"{name}.vocab.npz")
    compiler, plain_one = GrammarCompiler(vocabulary), plain_compiler(vocabulary)
    total, compared = Comparison(), 0
    for file in small_schemas(corpora):
        if compared == share:
            break
        try:
            grammar = xgrammar.Grammar.from_json_schema(json.dumps(file.schema), strict_mode=False)
        except RuntimeError:
            continue  # not a schema for XGrammar
        ours, plain = compiler.compile_grammar(grammar), plain_one.compile_grammar(grammar)
        compared += 1
        found = Comparison()
        for instance in file.valid[:1]:
            ids = tokenize_random(vocabulary, render_instance(instance)[:LONGEST], seed=file.name)
            found.add(compare_along(ours, plain, ids))
        for seed in range(WALKS):
            found.add(compare_walk(ours, plain, seed=seed, steps=STEPS))
        if found.contradiction_count:
            report(file.name, found)
        assert found.exact, (file.name, found.differences[:5])
        total.add(found)
    report(f"{compared} schemas on {name}", total)
    assert compared == share
