"""The bound on memory: errors name it, results are exact within it, and real memory stays within it."""

from __future__ import annotations

import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
import xgrammar

from bench import memory
from bench.cases import CHECKOUT
from equivalence import BudgetExceeded, Capacity, Vocabulary, compute_classes
from equivalence.classes.explore import DEFAULT_BYTES, explore
from equivalence.classes.partition import partition_runs
from equivalence.network import build_network
from hybrid import Budget, GrammarCompiler
from hybrid.testing.mask_comparison import compare_walk

C_LIKE = (CHECKOUT / "hybrid/grammars/c_like.gbnf").read_text(encoding="utf-8")
MANY_OUTCOMES = (CHECKOUT / "hybrid/grammars/sql_like.gbnf").read_text(encoding="utf-8")

MIB = 2**20


def test_too_few_bytes_are_an_error_that_names_them() -> None:
    grammar = xgrammar.Grammar.from_ebnf('root ::= "(" root ")" | [a-z]*')
    vocabulary = Vocabulary.from_bytes([b"a", b"((", b"a)"])
    with pytest.raises(BudgetExceeded, match=r"more than 100000 bytes; raise Budget.bytes"):
        compute_classes(grammar, vocabulary, capacity=Capacity(bytes=100_000))


def test_a_compilation_with_few_bytes_is_exact() -> None:
    tokens = [bytes([value]) for value in range(256)] + [b"", b"((", b"))", b")(", b"ab", b"a)", b"+a"]
    vocabulary = Vocabulary.from_bytes(tokens, stop_token_ids=[256])
    text = 'root ::= root "+" part | part\npart ::= "(" root ")" | [a-z]+'
    compiled = GrammarCompiler(vocabulary, budget=Budget(bytes=100_000), on_demand=True).compile_grammar(text)
    assert "100000 bytes" in compiled.reason
    plain = xgrammar.GrammarCompiler(vocabulary.tokenizer_info).compile_grammar(text)
    assert compare_walk(compiled, plain, seed=1, steps=200).exact


def test_the_default_of_both_layers() -> None:
    assert Budget().bytes == Budget().capacity.bytes == 300 * MIB
    assert Capacity().bytes == DEFAULT_BYTES > Budget().bytes
    assert Budget(bytes=5).capacity.bytes == 5


def test_the_network_is_bounded_before_it_is_built() -> None:
    grammar = xgrammar.Grammar.from_ebnf(f'root ::= "{"ab" * 2000}"')
    vocabulary = Vocabulary.from_bytes([b"a", b"b"])
    with pytest.raises(BudgetExceeded, match="more than 1000000 bytes"):
        compute_classes(grammar, vocabulary, capacity=Capacity(bytes=1_000_000))
    with pytest.raises(BudgetExceeded, match="more than 20 states"):
        compute_classes(grammar, vocabulary, capacity=Capacity(bytes=1_000_000), max_states=20)


@pytest.mark.kernels
def test_the_partition_is_bounded() -> None:
    vocabulary = Vocabulary.from_bytes([b"a", b"((", b"a)", b"(", b")"])
    network = build_network(
        xgrammar.Grammar.from_ebnf('root ::= "(" root ")" | "a"'), token_bytes=vocabulary.trie.longest
    )
    found = explore(network, vocabulary.trie)
    given = found, network, vocabulary.trie, vocabulary.byte_order.byte_starts
    enough = partition_runs(*given)
    failed = 0
    for shift in range(10, 30):
        try:
            limited = partition_runs(*given, capacity=Capacity(bytes=2**shift))
        except BudgetExceeded:
            failed += 1
            assert failed == shift - 9, "more bytes are never too few"
        else:
            assert all(map(np.array_equal, limited, enough))
    assert 0 < failed < 20


def peaks(specification: str, grammar: str, bounds: list[int]) -> list[tuple[int, bool, int]] | None:
    """Return for each bound whether classes could be computed, and by how much the resident size rose."""
    from hybrid.cli.vocabulary_spec import load_vocabulary

    vocabulary = load_vocabulary(specification).prepare()
    serialized = json.loads(grammar)
    if not memory.reset_peak():
        return None
    found = []
    for bound in bounds:
        memory.reset_peak()
        before = memory.status_bytes("VmRSS")
        try:
            compute_classes(serialized, vocabulary, capacity=Capacity(bytes=bound))
            fits = True
        except BudgetExceeded:
            fits = False
        found.append((bound, fits, memory.status_bytes("VmHWM") - before))
    return found


@pytest.mark.parametrize("text", [C_LIKE, MANY_OUTCOMES], ids=["c_like", "sql_like"])
def test_real_memory_stays_within_the_bound(text: str) -> None:
    grammar = xgrammar.Grammar.from_ebnf(text).serialize_json()
    bounds = [shift * MIB for shift in (4, 8, 16, 24, 32, 48, 64, 96, 128, 192)]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = pool.submit(peaks, "tekken", grammar, bounds).result()
    if found is None:
        pytest.skip("the system does not say")
    fits = [fit for _, fit, _ in found]
    assert not fits[0] and fits[-1] and fits == sorted(fits)
    # 6 MiB for memory that is not counted: Python's objects, pages of code, the allocator's reserve
    assert all(peak <= 1.2 * bound + 6 * MIB for bound, _, peak in found), found
