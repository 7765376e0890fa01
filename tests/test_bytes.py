"""The bound on memory: errors name it, results are exact within it, and real memory stays within it."""

from __future__ import annotations

import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest
import xgrammar

from bench import memory
from bench.cases import CHECKOUT
from equivalence import BudgetExceeded, Capacity, Vocabulary, compute_classes
from hybrid import Budget, GrammarCompiler
from hybrid.testing.mask_comparison import compare_walk

C_LIKE = (CHECKOUT / "hybrid/grammars/c_like.gbnf").read_text(encoding="utf-8")
MANY_OUTCOMES = (CHECKOUT / "hybrid/grammars/sql_like.gbnf").read_text(encoding="utf-8")

MIB = 2**20


def test_a_compilation_with_few_bytes_is_exact() -> None:
    tokens = [bytes([value]) for value in range(256)] + [b"", b"((", b"))", b")(", b"ab", b"a)", b"+a"]
    vocabulary = Vocabulary.from_bytes(tokens, stop_token_ids=[256])
    text = 'root ::= root "+" part | part\npart ::= "(" root ")" | [a-z]+'
    compiled = GrammarCompiler(vocabulary, budget=Budget(bytes=100_000), on_demand=True).compile_grammar(text)
    assert "100000 bytes" in compiled.reason
    plain = xgrammar.GrammarCompiler(vocabulary.tokenizer_info).compile_grammar(text)
    assert compare_walk(compiled, plain, seed=1, steps=200).exact


def test_the_network_is_bounded_before_it_is_built() -> None:
    grammar = xgrammar.Grammar.from_ebnf(f'root ::= "{"ab" * 2000}"')
    vocabulary = Vocabulary.from_bytes([b"a", b"b"])
    with pytest.raises(BudgetExceeded, match=r"more than 1000000 bytes; raise Budget.bytes"):
        compute_classes(grammar, vocabulary, capacity=Capacity(bytes=1_000_000))
    with pytest.raises(BudgetExceeded, match="more than 20 states"):
        compute_classes(grammar, vocabulary, capacity=Capacity(bytes=1_000_000), max_states=20)


def peaks(specification: str, grammars: list[str], bounds: list[int]) -> list[list[tuple[int, bool, int]]]:
    """Return for each grammar and bound whether classes could be computed, and by how much the resident size
    rose; nothing if the system does not say."""
    from hybrid.cli.vocabulary_spec import load_vocabulary

    vocabulary = load_vocabulary(specification).prepare()
    if not memory.reset_peak():
        return []
    found: list[list[tuple[int, bool, int]]] = []
    for grammar in grammars:
        found.append([])
        for bound in bounds:
            memory.reset_peak()
            before = memory.status_bytes("VmRSS")
            try:
                compute_classes(json.loads(grammar), vocabulary, capacity=Capacity(bytes=bound))
                fits = True
            except BudgetExceeded:
                fits = False
            found[-1].append((bound, fits, memory.status_bytes("VmHWM") - before))
    return found


def test_real_memory_stays_within_the_bound() -> None:
    grammars = [xgrammar.Grammar.from_ebnf(text).serialize_json() for text in (C_LIKE, MANY_OUTCOMES)]
    bounds = [shift * MIB for shift in (4, 8, 16, 32, 48, 64, 96, 192)]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = pool.submit(peaks, "tekken", grammars, bounds).result()
    if not found:
        pytest.skip("the system does not say")
    for of_grammar in found:
        fits = [fit for _, fit, _ in of_grammar]
        assert not fits[0] and fits[-1] and fits == sorted(fits)
        # 6 MiB for memory that is not counted: Python's objects, pages of code, the allocator's reserve
        assert all(peak <= 1.2 * bound + 6 * MIB for bound, _, peak in of_grammar), of_grammar
