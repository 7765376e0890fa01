"""Logits masked on their device: masking by class gives the same logits as the whole bitmask.

What: the torch reference and the Triton kernel against `apply_token_bitmask_inplace`, on random maps, words,
types, sizes and strides; real matchers on every strategy, alone and mixed, along random documents, when
classes are added later, budgets are exceeded and sequences are handed over; lines of the class maps; what is
refused.
When: after any change of `hybrid.device`, or of how followers write masks by class.
Limits: without a GPU the kernel runs in Triton's interpreter, and is skipped if there is no Triton.
"""

from __future__ import annotations

import json
import os
import random
import re
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence import UnsupportedGrammar
from hybrid import (
    Budget,
    CompiledGrammar,
    GrammarCompiler,
    GrammarMatcher,
    Vocabulary,
    allocate_token_bitmask,
    apply_token_bitmask_inplace,
)
from hybrid.device import DeviceGather
from hybrid.device.maps import MASKS_A_LINE, NO_LINE, ClassMaps, bits_of_tokens
from hybrid.device.masking import has_triton
from hybrid.testing.mask_comparison import bits_of
from tests import matchers as small
from tests import test_token_level as token_level
from tests.classifiers import LETTERED, NESTED, compiled_of
from tests.conftest import load_cases
from tests.matchers import AB, SIZE, STOP, STRATEGIES, TEXT_STOPS, A, B, C, compiled_by, words_of
from tests.new_process import printed_by

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when the kernel's module is imported

NEEDS_TRITON = pytest.mark.skipif(not has_triton(), reason="Triton is not installed")
BACKENDS = ["torch", pytest.param("triton", marks=NEEDS_TRITON)]
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def bitmask_of(flags: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(words_of(flags).view(np.int32))


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether all bits are equal, including those of NaN."""
    kind = torch.int32 if one.dtype == torch.float32 else torch.int16
    return torch.equal(one.contiguous().view(kind), other.contiguous().view(kind))


# --- The reference and the kernel ------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_entries_are_masked_as_by_the_bitmask(backend: str, data: st.DataObject) -> None:
    draw = data.draw
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    size = draw(st.sampled_from([1, 2, 31, 32, 33, 257, 1023, 1024, 1025, 2500]) | st.integers(1, 300))
    n_ids = size + draw(st.sampled_from([0, 1, 31, 32, 64, 1100]))
    n_rows, n_lines = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    n_bits = draw(st.integers(1, 100))
    maps = rng.integers(-1, n_bits, (n_lines, size + draw(st.integers(0, 16)))).astype(np.int16)
    rows = rng.permutation(n_rows)[: draw(st.integers(1, n_rows))]
    words: list[np.ndarray] = []
    entries, flags = [], np.ones((n_rows, n_ids), bool)
    for row in rows.tolist():
        line = draw(st.integers(NO_LINE, n_lines - 1))
        chosen = rng.random(size if line == NO_LINE else n_bits) < draw(st.sampled_from([0.0, 0.1, 0.9, 1.0]))
        words.append(np.full(draw(st.integers(0, 3)), -1, np.int32))  # of nobody; -1 has bits there
        entries.append((row, line, sum(map(len, words))))
        words.append(bitmask_of(chosen).numpy())
        bits = np.arange(size) if line == NO_LINE else maps[line, :size].astype(np.int64)
        flags[row] = np.append(chosen[bits] & (bits >= 0), np.zeros(n_ids - size, bool))
    staged = torch.from_numpy(np.concatenate([*words, np.array(entries, np.int32).reshape(-1)]))

    dtype = draw(st.sampled_from(DTYPES))
    values = torch.from_numpy(rng.normal(0, 100, (n_rows, n_ids)).astype(np.float32)).to(dtype)
    values[torch.from_numpy(rng.random((n_rows, n_ids)) < 0.05)] = torch.nan
    values[torch.from_numpy(rng.random((n_rows, n_ids)) < 0.05)] = torch.inf
    room = torch.full((n_rows + 1, 2 * n_ids + 3), 7.0, dtype=dtype, device=DEVICE)
    views = {
        "contiguous": values.to(DEVICE, copy=True),
        "transposed": values.to(DEVICE, copy=True).T.contiguous().T,
        "wider rows": room[:n_rows, 1 : 1 + n_ids],
        "every second id": room[:n_rows, 1 : 1 + 2 * n_ids : 2],
    }
    logits = views[draw(st.sampled_from(list(views)))]
    logits.copy_(values)
    expected = values.clone()
    apply_token_bitmask_inplace(expected, bitmask_of(flags))

    mask = DeviceGather(size, DEVICE, backend=backend)._mask_rows
    mask(logits, size, torch.from_numpy(maps).to(DEVICE), staged.to(DEVICE), torch.tensor(entries).int())
    assert same(logits.cpu(), expected)
    logits.fill_(7)
    assert (room == 7).all(), "something between the ids was written"


COMPILE = """
import json, sys
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from hybrid.device.kernel import ENTRY, ROUNDS, THREADS, mask_block

names = mask_block.arg_names
made = []
for dtype, strided in json.loads(sys.argv[1]):
    types = {"logits": "*" + dtype, "maps": "*i16", "staged": "*i32"}
    sizes = {"entry_size": ENTRY, "threads": THREADS, "rounds": ROUNDS}
    if not strided:
        sizes["between_ids"] = 1
    signature = {name: "constexpr" if name in sizes else types.get(name, "i32") for name in names}
    source = ASTSource(fn=mask_block, signature=signature, constexprs=sizes)
    options = {"num_warps": THREADS // 32}
    made.append(compile(source, target=GPUTarget("cuda", 90, 32), options=options).asm["ptx"])
print(json.dumps(made))
"""

VARIANTS = [("fp32", False), ("fp16", False), ("bf16", False), ("bf16", True)]
"""Types of logits, and whether the logits of a row are strided."""


@NEEDS_TRITON
def test_the_kernel_compiles_for_a_gpu() -> None:
    """This needs no GPU, but another process, because this one interprets the kernel. The kernel writes only
    logits, and does not read them."""
    kernels = json.loads(printed_by(COMPILE, json.dumps(VARIANTS), TRITON_INTERPRET=None))
    assert len(kernels) == len(set(kernels)) == len(VARIANTS)
    for (dtype, _), made in zip(VARIANTS, kernels, strict=True):
        bits = "32" if dtype == "fp32" else "16"
        assert set(re.findall(r"st\.global[.\w]*", made)) == {f"st.global.b{bits}"}
        loads = re.findall(r"ld\.global[.\w]*", made)
        assert (loads.count("ld.global.b16"), loads.count("ld.global.b32")) == (8, 3 + 8)


# --- Matchers --------------------------------------------------------------------------------------------


@pytest.fixture
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a program of the kernel run one round: the interpreter takes ten milliseconds for each, and one is
    enough for a small vocabulary."""
    if DEVICE == "cpu" and has_triton():
        monkeypatch.setattr("hybrid.device.kernel.ROUNDS", 1)


class Both:
    """Matchers and their twins: logits masked by class and by whole bitmasks must be equal.

    Args:
        matchers: one for each row; ``None`` for a free row. They are forked, as masks may change what a
            budget of tokens allows next.
        size: the size of the vocabulary.
        options: options of `DeviceGather`.
    """

    def __init__(self, matchers: list[Any], size: int, **options: Any) -> None:
        self.rng, self.size, self.matchers = random.Random(1), size, matchers
        self.twins = [matcher and matcher.fork() for matcher in matchers]
        self.gather = DeviceGather(size, DEVICE, max_rows=len(matchers) + 2, **options)

    def compare(self, padding: int = 3) -> np.ndarray:
        """Mask logits both ways and compare them; return the bits of the bitmask."""
        n = len(self.matchers)
        used = [row for row in range(n) if self.matchers[row] is not None]
        bitmask = torch.full((n, -(-(self.size + padding) // 32)), 0, dtype=torch.int32)
        for row in used:
            own = allocate_token_bitmask(1, self.size)
            self.twins[row].fill_next_token_bitmask(own)
            bitmask[row] = bitmask_of(np.append(bits_of(own[0], self.size), np.zeros(padding, bool)))
        self.rng.shuffle(used)
        cut = self.rng.randint(0, len(used))
        for part in (used[:cut], used[cut:]):
            self.gather.fill([self.matchers[row] for row in part], part)
        logits = torch.randn(n, self.size + padding).to(self.rng.choice(DTYPES))
        expected = logits.clone()
        if used:
            apply_token_bitmask_inplace(expected, bitmask, indices=used)
        masked = logits.to(DEVICE)
        self.gather.apply(masked)
        assert same(masked.cpu(), expected)
        return bits_of(bitmask, self.size)

    def walk(self, steps: int, padding: int = 3) -> None:
        """Compare along random documents; sequences that have ended start anew."""
        for _ in range(steps):
            allowed = self.compare(padding)
            for row, pair in enumerate(zip(self.matchers, self.twins, strict=True)):
                if pair[0] is None:
                    continue
                tokens = np.flatnonzero(allowed[row]).tolist()
                token, goes_back = self.rng.choice(tokens or [-1]), self.rng.random() < 0.1
                for matcher in pair:
                    is_taken = matcher.accept_token(token)
                    if is_taken and goes_back:
                        matcher.rollback(1)
                    elif not is_taken or matcher.is_terminated():
                        matcher.reset()


TINY = 'root ::= "a" root "c" | "1" | "b" [abc]*'


def tiny_json(strategy: str) -> CompiledGrammar:
    return compiled_by(small.VOCABULARY, strategy, TINY)


@pytest.mark.usefixtures("short_blocks")
@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_of_all_strategies_and_free_ones_stand_side_by_side(backend: str) -> None:
    lark = GrammarCompiler(small.VOCABULARY).compile_lark('start: "a" "b" ("c" | "1")*')
    matchers: list[GrammarMatcher | None] = [GrammarMatcher(lark)]
    matchers.append(GrammarMatcher(tiny_json("classifier"), terminate_without_stop_token=True))
    for strategy in STRATEGIES:
        suffixed = compiled_by(small.VOCABULARY, strategy, small.SUFFIXED)
        matchers += [GrammarMatcher(tiny_json(strategy)), None, GrammarMatcher(suffixed)]
    both = Both(matchers, SIZE, backend=backend)
    both.walk(60 if backend == "torch" else 12, padding=0)
    assert both.gather.rows_by_class > 0 and both.gather.rows_by_bitmask > 0


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("stops", [[A], [STOP], [STOP, AB], [B, C, STOP]], ids=str)
def test_stop_ids_of_a_sequence(strategy: str, stops: list[int]) -> None:
    """Stop ids whose text is in a class, and a usual stop id that is none here, beside a sequence with the
    usual ones."""
    compiled = tiny_json(strategy)
    matchers = [GrammarMatcher(compiled), GrammarMatcher(compiled, override_stop_tokens=stops)]
    both = Both(matchers, SIZE, backend="torch")
    both.walk(50)
    lines = len({(STOP,), tuple(stops)})
    assert both.gather.rows_by_bitmask == (100 if strategy == "engine" else lines * MASKS_A_LINE)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_stop_token_that_is_text(strategy: str) -> None:
    compiled = compiled_by(TEXT_STOPS, strategy, 'root ::= "a" "b"* "c" | "b" "a"')
    Both([GrammarMatcher(compiled)], TEXT_STOPS.size, backend="torch").walk(60)


@pytest.mark.parametrize("name", token_level.EBNF)
def test_grammars_of_ids_and_budgets(name: str) -> None:
    """Grammars for which XGrammar's masks over representatives are repaired, or depend on earlier masks."""
    for strategy in ("auto", "representatives"):
        try:
            compiler = GrammarCompiler(token_level.VOCABULARY, strategy=strategy)
            compiled = compiler.compile_grammar(token_level.EBNF[name])
        except UnsupportedGrammar:
            assert strategy == "representatives"
            continue
        matchers = [GrammarMatcher(compiled) for _ in range(2)]
        Both(matchers, token_level.VOCABULARY.size, backend="torch").walk(50)


BYTES = Vocabulary.from_bytes([bytes([byte]) for byte in range(256)] + [b'"a', b"</s>"], stop_token_ids=[257])


@pytest.mark.parametrize("case", load_cases(), ids=str)
def test_cases(case: Any) -> None:
    """Run every case on two strategies side by side, along its first string and at random."""
    matchers = []
    for strategy in ("auto", "representatives"):
        try:
            compiled = GrammarCompiler(BYTES, strategy=strategy).compile_grammar(case.parse())
        except UnsupportedGrammar:
            continue
        matchers.append(GrammarMatcher(compiled))
    both = Both(matchers, BYTES.size, backend="torch")
    for token in case.accepts[0][:30]:
        both.compare()
        for matcher in (*both.matchers, *both.twins):
            assert matcher.accept_token(token)
    both.walk(20)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_real_vocabulary(tekken: Vocabulary, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if backend == "triton" and DEVICE == "cpu":  # only two programs per row, as interpreting each takes long
        monkeypatch.setattr("hybrid.device.kernel.THREADS", 16_384)
    compiler = GrammarCompiler(tekken, strategy="classifier")
    json = compiler.compile_builtin_json_grammar()
    schema = compiler.compile_json_schema({"type": "object", "properties": {"n": {"type": "integer"}}})
    plain = GrammarCompiler(tekken, strategy="representatives").compile_regex(r"[a-z]+ [0-9]{2,5}")
    both = Both([GrammarMatcher(grammar) for grammar in (json, schema, plain)], tekken.size, backend=backend)
    both.walk(20 if backend == "torch" else 7, padding=5)
    if backend == "torch":
        before, sent = both.gather.bytes_sent, both.gather.rows_by_class
        both.walk(10)
        rows = both.gather.rows_by_class - sent
        assert rows == 30 and both.gather.bytes_sent - before < rows * 200


# --- Sequences that go on elsewhere ------------------------------------------------------------------------


def test_classes_that_follow_are_noticed() -> None:
    compiled = GrammarCompiler(small.VOCABULARY).compile_grammar(TINY)
    assert compiled.known_classes is None and compiled.classifier.is_walked
    both = Both([GrammarMatcher(compiled), GrammarMatcher(compiled)], SIZE, backend="torch")
    for matcher in (*both.matchers, *both.twins):
        assert matcher.accept_string("aa")
    for _ in range(MASKS_A_LINE + 2):
        both.compare()
    assert both.gather.rows_by_class == 0 and compiled.known_classes is None
    assert compiled.classes is not None
    for _ in range(MASKS_A_LINE + 2):
        both.compare()
    assert both.gather.rows_by_class == MASKS_A_LINE + 4
    both.walk(30)


@pytest.mark.kernels
def test_sessions_that_begin_anew_keep_their_line() -> None:
    compiled = compiled_of(NESTED, LETTERED, budget=Budget(table_bytes=4_000_000))
    classifier = compiled.classifier
    assert classifier is not None
    both = Both([GrammarMatcher(compiled) for _ in range(3)], LETTERED.size, backend="torch")
    for _ in range(12):
        both.walk(5)
        classifier.session.left = -1  # the budget of remembered steps and masks is used up
    assert classifier.session.serial > 5
    assert both.gather.rows_by_bitmask == MASKS_A_LINE
    assert both.gather._maps.bytes_sent == 2 * LETTERED.size


def test_a_sequence_that_outgrows_its_budget_goes_on_by_bitmask() -> None:
    compiled = compiled_of(NESTED, LETTERED)
    both = Both([GrammarMatcher(compiled), GrammarMatcher(compiled)], LETTERED.size, backend="torch")
    both.walk(20)
    for matcher in (both.matchers[0], both.twins[0]):
        matcher._follower = matcher._follower.fallback(matcher._follower.n_steps)
    assert compiled.fallback.strategy == "engine"
    before = both.gather.rows_by_bitmask
    both.walk(40)
    assert both.gather.rows_by_bitmask >= before + 40


# --- Lines -------------------------------------------------------------------------------------------------


def grammar_of(text: str) -> CompiledGrammar:
    return compiled_by(small.VOCABULARY, "classifier", f'root ::= "{text}" root | "1"')


def test_lines_go_to_others_once_two_steps_did_without() -> None:
    maps = ClassMaps(SIZE, torch.device(DEVICE), 2)
    stops = small.VOCABULARY.stop_token_ids
    gathers = [grammar_of(text).classifier.gather for text in ("a", "b", "c")]

    def line(number: int) -> int:
        found = maps.line(gathers[number], stops)
        if found != NO_LINE:
            bits = bits_of_tokens(gathers[number], stops)
            assert maps.table[found, :SIZE].cpu().tolist() == bits.tolist()
        return found

    assert [line(0) for _ in range(MASKS_A_LINE)] == [NO_LINE] * MASKS_A_LINE
    first = line(0)
    for number in (1, 2):
        for _ in range(MASKS_A_LINE):
            line(number)
    second = line(1)
    assert {first, second} == {0, 1} and maps.bytes_sent == 4 * SIZE
    assert line(2) == NO_LINE, "both are in use"
    maps.step += 1
    assert line(1) == second and line(2) == NO_LINE, "the other one was used in the last step"
    maps.step += 1
    assert line(1) == second and line(2) == first and line(0) == NO_LINE
    other = maps.line(gathers[1], (A,))
    assert other == NO_LINE, "other stop ids are another pair"


def test_maps_that_were_made_in_inference_mode_are_written_outside_of_it() -> None:
    with torch.inference_mode():
        maps = ClassMaps(SIZE, torch.device(DEVICE), 2)
    gather = grammar_of("a").classifier.gather
    lines = [maps.line(gather, small.VOCABULARY.stop_token_ids) for _ in range(MASKS_A_LINE + 1)]
    assert lines[-1] != NO_LINE


@pytest.mark.kernels
@pytest.mark.parametrize("max_maps", [1, 2, 5])
def test_more_grammars_than_lines(max_maps: int) -> None:
    """Grammars come and go; sessions forget the lines that were given to other grammars."""
    rng = random.Random(max_maps)
    grammars = [grammar_of(text) for text in ("a", "b", "c", "ab", "bc", "abc")]
    both = Both([None] * 4, SIZE, backend="torch", max_maps=max_maps)
    for _ in range(40):
        row = rng.randrange(4)
        both.matchers[row] = GrammarMatcher(rng.choice(grammars[: 2 + max_maps]))
        both.twins[row] = both.matchers[row].fork()
        both.walk(4)
    assert both.gather.rows_by_class > 50 and both.gather.rows_by_bitmask > 50
    assert both.gather._maps.bytes_sent > 2 * SIZE * max_maps, "some line had two grammars"
