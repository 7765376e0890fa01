"""Drafts are allowed by the grammar and repeat what was seen before; models forget, save and merge as
documented.

What: random texts of random grammars on every strategy; counts beside a dictionary that forgets nothing;
forced text beside what a tokenizer writes; files that are damaged or forged; full tables.
When: after a change of `hybrid.drafts`, or of what configurations are.
Limits: small vocabularies; ``python -m bench drafts`` measures how good drafts are.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from functools import cache
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence import ArgumentError, ArtifactError, BudgetExceeded, HybridError
from equivalence.array_files import write_arrays
from hybrid import Budget, CompiledGrammar, GrammarCompiler, GrammarMatcher, Vocabulary
from hybrid.drafts import DraftModel, verify
from hybrid.drafts.counts import LEVELS, Counts
from hybrid.drafts.model import DESCRIBED_BYTES
from tests.generating import TOKENIZER, VOCABULARY
from tests.matchers import STRATEGIES, mask_of

pytestmark = pytest.mark.kernels

GRAMMAR = r"""
root ::= "{" pair ("," pair)* "}"
pair ::= "\"" name "\":" value
name ::= "yes" | "no" | "ab"
value ::= "true" | [0-9]{1,3} | "\"" [a-z]* "\"" | root
"""
LARK = 'start: "{" pair ("," pair)* "}"\npair: NAME ":" value\nvalue: NUMBER | "true" | start\n'
LARK += 'NAME: /"[a-z]+"/\nNUMBER: /[0-9]{1,3}/\n'
KINDS = (*STRATEGIES, "lark")


def compiled_anew(kind: str, **options: Any) -> CompiledGrammar:
    if kind == "lark":
        return GrammarCompiler(VOCABULARY, **options).compile_lark(LARK)
    return GrammarCompiler(VOCABULARY, strategy=kind, **options).compile_grammar(GRAMMAR)


compiled_by = cache(compiled_anew)


def walk(matcher: GrammarMatcher, rng: random.Random, most: int, model: DraftModel) -> list[int]:
    """Read and learn random tokens; return their ids."""
    read: list[int] = []
    while len(read) < most and not matcher.is_terminated():
        read.append(rng.choice(mask_of(matcher)))
        assert matcher.accept_token(read[-1])
        model.learn(matcher)
    return read


def encode(text: str) -> list[int]:
    return TOKENIZER(text, add_special_tokens=False)["input_ids"]


def check_drafts(model: DraftModel, matcher: GrammarMatcher) -> None:
    """Assert that the grammar allows each token of a draft, and that the matcher stays."""
    before = mask_of(matcher)
    draft = model.propose(matcher, 8)
    assert mask_of(matcher) == before and len(draft) <= 8
    twin = matcher.fork()
    for token in draft:
        assert token in mask_of(twin)
        assert twin.accept_token(token)


@pytest.mark.parametrize("kind", KINDS)
def test_drafts_are_allowed_and_nothing_moves(kind: str) -> None:
    """Tables are often begun anew, while a long text goes on."""
    compiled = compiled_anew(kind, budget=Budget(table_bytes=1 << 18))
    model, rng, long = DraftModel(compiled, threshold=0), random.Random(6), GrammarMatcher(compiled)
    for _ in range(25):
        if compiled.classifier is not None:
            with compiled.classifier.lock:
                compiled.classifier.renew()
        for matcher in (long, GrammarMatcher(compiled)):
            walk(matcher, rng, 10, model)
            if matcher.is_terminated():
                matcher.reset()
            check_drafts(model, matcher)


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_seen_before_is_drafted_to_its_end(kind: str) -> None:
    compiled = compiled_by(kind)
    model = DraftModel(compiled)
    text = [*encode('{"yes":true,"no":123}'), VOCABULARY.stop_token_ids[0]]
    for _ in range(8):
        matcher = GrammarMatcher(compiled)
        for token in text:
            assert matcher.accept_token(token)
        model.learn(matcher, len(text))
    assert model.propose(GrammarMatcher(compiled), 50) == text
    assert model.propose(GrammarMatcher(compiled), 3) == text[:3]
    assert model.propose(GrammarMatcher(compiled), 0) == []
    assert model.propose(matcher) == []  # the text has ended


@settings(deadline=None, max_examples=60)
@given(texts=st.lists(st.lists(st.integers(0, 4), max_size=12), max_size=6), tops=st.randoms())
def test_counts_are_those_of_a_dictionary(texts: list[list[int]], tops: random.Random) -> None:
    counts = Counts(1 << 12)
    known: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)

    def keys(recent: list[int], top: int) -> list[tuple[int, ...]]:
        last = [-1] * 6 + recent
        return [
            (i, *last[len(last) - n :], (top >> 20 * (depth - 1)) & 0xFFFFF if depth else 0)
            for i, (n, depth) in enumerate(LEVELS)
        ]

    def guesses(recent: list[int], top: int) -> dict[int, float]:
        shares: dict[int, float] = {}
        for key in keys(recent, top):
            seen = known[key]
            if seen:
                weight = seen.total() + len(seen)
                shares = {token: share * len(seen) / weight for token, share in shares.items()}
                for token, count in seen.items():
                    shares[token] = shares.get(token, 0) + count / weight
        return shares

    for text in texts:
        for at, token in enumerate(text):
            top = tops.choice([0, 1 << 20 | 5, 7 << 40 | 2 << 20 | 5])
            found, expected = counts.guesses(text[:at], top), guesses(text[:at], top)
            for one, share in found:  # what coarse keys add after confident ones is left out
                assert share == pytest.approx(expected.pop(one), abs=0.001)
            assert all(share <= 0.001 for share in expected.values())
            assert [share for _, share in found] == sorted((share for _, share in found), reverse=True)
            counts.learn(text[:at], top, token)
            for key in keys(text[:at], top):
                known[key][token] += 1
            if (counts.copied()[:, 2] > 0).sum() < sum(map(bool, known.values())):
                return  # five keys of one place, which has room for four: one was forgotten


def test_coarse_keys_are_not_asked_behind_sure_ones() -> None:
    counts = Counts(1024)
    counts.learn([9], 0, 3)
    assert [token for token, _ in counts.guesses([1, 2, 3, 4, 5, 6], 0)] == [3]
    for _ in range(200):
        counts.learn([1, 2, 3, 4, 5, 6], 0, 7)
    assert [token for token, _ in counts.guesses([1, 2, 3, 4, 5, 6], 0)] == [7]


def test_full_counts_forget_and_stay_as_large() -> None:
    counts = Counts(1024)
    for number in range(30_000):
        counts.learn([number, number * 7 % 1000], 0, number % 50)
    assert counts.nbytes == 64 * 1024 and counts.used <= 1024
    for _ in range(3):
        counts.learn([1, 2, 3], 0, 4)
    assert counts.guesses([1, 2, 3], 0)[0][0] == 4
    for _ in range(100_000):
        counts.learn([1, 2, 3], 0, 5)  # halved on the way
    assert counts.guesses([1, 2, 3], 0)[0] == pytest.approx((5, 1), abs=0.01)


# --- forced text -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", STRATEGIES)
@pytest.mark.parametrize("ends_without_stop", [True, False])
@pytest.mark.parametrize("with_tokenizer", [True, False])
def test_forced_text_is_drafted_as_the_tokenizer_writes_it(
    kind: str, ends_without_stop: bool, with_tokenizer: bool
) -> None:
    compiler = GrammarCompiler(VOCABULARY, strategy=kind)
    compiled = compiler.compile_grammar('root ::= "yes\\":true" [a-b] "x"')
    model = DraftModel(compiled, encode=encode if with_tokenizer else None)
    matcher = GrammarMatcher(compiled, terminate_without_stop_token=ends_without_stop)
    ids = encode('yes":true')
    assert model.propose(matcher) == ids
    # not cut as the tokenizer would: the rest is tokenized on its own
    assert matcher.accept_token(encode("y")[0])
    assert model.propose(matcher)[:3] == encode("e") + encode("s") + encode('":')


def test_what_was_read_is_cut_together_with_forced_text() -> None:
    # after an "a" this tokenizer has a token for "bc" that it never writes elsewhere
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b"c", b"bc", b"cd", b"d", b""], stop_token_ids=6)
    compiler = GrammarCompiler(vocabulary, strategy="classifier")
    compiled = compiler.compile_grammar('root ::= ("a" | "d") "bcd"')
    texts = {"abcd": [0, 3, 5], "dbcd": [5, 1, 4], "bcd": [1, 4], "cd": [4], "acd": [0, 4], "d": [5]}

    def cut(text: str) -> list[int]:
        return texts.get(text, [vocabulary.tokens.index(letter.encode()) for letter in text])

    model = DraftModel(compiled, encode=cut, threshold=0)
    for first, rest in ((0, [3, 5]), (5, [1, 4])):
        matcher = GrammarMatcher(compiled)
        assert matcher.accept_token(first)
        assert model.propose(matcher)[:2] == rest


@pytest.mark.parametrize("kind", STRATEGIES)
def test_forced_characters_of_several_bytes(kind: str) -> None:
    vocabulary = Vocabulary.from_bytes([*(bytes([byte]) for byte in range(256)), b""], stop_token_ids=256)
    compiled = GrammarCompiler(vocabulary, strategy=kind).compile_grammar(f'root ::= "{"é" * 60}"')
    cut = Mock(side_effect=lambda text: list(text.encode()))
    model = DraftModel(compiled, encode=cut, threshold=0)
    matcher = GrammarMatcher(compiled)
    for read in range(3):  # also from within a character
        assert model.propose(matcher, 4) == (list("é".encode()) * 4)[read % 2 :][:4]
        assert matcher.accept_token(model.propose(matcher, 1)[0])
    assert cut.called


def test_text_that_may_be_part_of_a_longer_token_counts_less() -> None:
    compiler = GrammarCompiler(VOCABULARY, strategy="classifier")
    for text, draft in (('"t" ("rue" | "x")', []), ('"true" "x"', encode("true") + encode("x"))):
        compiled = compiler.compile_grammar(f"root ::= {text}")
        assert DraftModel(compiled, threshold=0.6).propose(GrammarMatcher(compiled)) == draft


@pytest.mark.parametrize("kind", STRATEGIES)
def test_text_without_end_is_drafted_in_time(kind: str) -> None:
    compiled = GrammarCompiler(VOCABULARY, strategy=kind).compile_grammar('root ::= "a" root')
    # XGrammar's search for forced text would not end here, so it is not started
    for ends_without_stop in (False, True):
        matcher = GrammarMatcher(compiled, terminate_without_stop_token=ends_without_stop)
        draft = DraftModel(compiled, threshold=0).propose(matcher, 5)
        assert draft == encode("aaaaa") if kind == "classifier" else draft == []


# --- files, bounds ---------------------------------------------------------------------------------------


def trained(compiled: CompiledGrammar, seed: int) -> DraftModel:
    model, rng = DraftModel(compiled), random.Random(seed)
    for _ in range(5):
        walk(GrammarMatcher(compiled), rng, 40, model)
    return model


def total(model: DraftModel) -> int:
    return int(model._counts.copied()[:, 2].sum())


def test_saved_and_merged(tmp_path) -> None:
    compiled = compiled_by("classifier")
    one, other = trained(compiled, 1), trained(compiled, 2)
    one.save(tmp_path / "one.drafts")
    again = compiled_anew("classifier")
    read, both = DraftModel(again), DraftModel(compiled)
    read.load(tmp_path / "one.drafts")
    rng = random.Random(3)
    for _ in range(5):
        matcher, twin = GrammarMatcher(compiled), GrammarMatcher(again)
        while not matcher.is_terminated():
            assert one.propose(matcher) == read.propose(twin)
            assert twin.accept_token(walk(matcher, rng, 1, other)[0])
    both.merge(one)
    both.load(tmp_path / "one.drafts")
    assert total(both) == 2 * total(one)
    both.merge(other)
    assert total(both) > total(other) > 0
    with pytest.raises(ArgumentError, match="same grammar"):
        one.merge(DraftModel(compiled_by("lark")))
    with pytest.raises(ArtifactError, match="something else"):
        DraftModel(compiled_by("lark")).load(tmp_path / "one.drafts")


@pytest.mark.parametrize(
    "change",
    [
        lambda slots: slots[:-1],
        lambda slots: slots.astype(np.int64),
        lambda slots: slots[:, :8],
        lambda slots: np.where(slots[:, 2:3] > 0, -slots, slots),
        lambda slots: np.where(slots > 0, slots | (1 << 30), slots),
        lambda slots: np.where((slots[:, 2:3] > 0) & (np.arange(16) == 4), VOCABULARY.size, slots),
    ],
)
def test_forged_counts_are_refused(tmp_path, change) -> None:
    model = trained(compiled_by("classifier"), 4)
    write_arrays(tmp_path / "x", {"slots": change(model._counts.copied()), "key": model._file_key})
    with pytest.raises(ArtifactError, match="cannot be used"):
        model.load(tmp_path / "x")


def test_a_small_file_cannot_claim_many_counts(tmp_path) -> None:
    model = DraftModel(compiled_by("classifier"))
    slots = np.zeros((1 << 16, 16), np.int32)
    write_arrays(tmp_path / "x", {"slots": slots, "key": model._file_key}, compressed=True)
    with pytest.raises(ArtifactError, match=r"cannot be read .* but the limit is"):
        model.load(tmp_path / "x")


def test_damaged_files_are_refused(tmp_path) -> None:
    model = trained(compiled_by("classifier"), 5)
    model.save(tmp_path / "x")
    data = bytearray((tmp_path / "x").read_bytes())
    data[-5] ^= 1
    (tmp_path / "x").write_bytes(data)
    for path in ("x", "missing"):
        with pytest.raises(ArtifactError, match="cannot be read"):
            model.load(tmp_path / path)


def test_what_takes_too_much_is_not_drafted(monkeypatch) -> None:
    model = trained(compiled_by("representatives"), 7)
    matcher = GrammarMatcher(model.compiled_grammar)
    assert model.propose(matcher)
    monkeypatch.setattr(GrammarMatcher, "accept_token", Mock(side_effect=BudgetExceeded("no time")))
    assert model.propose(matcher) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_draft_ends_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    model = trained(compiled_by(kind), 7)
    assert model.propose(GrammarMatcher(model.compiled_grammar))
    monkeypatch.setattr("hybrid.drafts.model.DRAFT_SECONDS", 1e-9)
    for ends_without_stop in (False, True):
        later = DraftModel(compiled_anew(kind))  # it knows no step
        later._counts.merge(model._counts.copied())
        matcher = GrammarMatcher(later.compiled_grammar, terminate_without_stop_token=ends_without_stop)
        assert later.propose(matcher) == []


def test_known_tokens_are_drafted_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    model = trained(compiled_by("classifier"), 7)
    matcher = GrammarMatcher(model.compiled_grammar)
    expected = model.propose(matcher)
    model._seconds = 0.0
    assert model.propose(matcher) == expected != []


def test_texts_that_never_repeat_take_no_more_than_they_may() -> None:
    # all texts differ, so that nearly every key and configuration is new
    compiled = compiled_anew("classifier", budget=Budget(table_bytes=1 << 18))
    model, rng, serials = DraftModel(compiled, most_bytes=1 << 17), random.Random(8), set()
    for _ in range(8):
        matcher = GrammarMatcher(compiled)
        text = "".join('{"' + rng.choice(["yes", "no", "ab"]) + '":' for _ in range(rng.randrange(100, 400)))
        for token in encode(text):
            assert matcher.accept_token(token)
            model.learn(matcher)
            model.propose(matcher, 4)
        session = compiled.classifier.session
        assert model.memory_size_bytes <= 1 << 17
        assert len(session.tops) * DESCRIBED_BYTES <= 1 << 17 and session.left > -4096
        serials.add(session.serial)
    assert len(serials) > 1, "tables were never full: the test shows nothing"


def test_other_stop_ids_and_free_ends() -> None:
    compiled = compiled_by("classifier")
    model = DraftModel(compiled, threshold=0)
    stop, own = VOCABULARY.stop_token_ids[0], encode("x")[0]
    text = encode('{"no":1}')
    for _ in range(4):
        for stops in ([stop], [own], [stop, own]):
            matcher = GrammarMatcher(compiled, override_stop_tokens=stops)
            for token in [*text, stops[-1]]:
                assert matcher.accept_token(token)
                model.learn(matcher)
    for stops in ([stop], [own], [own, stop]):
        matcher = GrammarMatcher(compiled, override_stop_tokens=stops)
        draft = model.propose(matcher, 20)
        assert draft[: len(text)] == text and draft[len(text)] in stops
    free = GrammarMatcher(compiled, terminate_without_stop_token=True)
    assert model.propose(free, 20)[: len(text)] == text
    assert free.accept_string('{"no":1}') and free.is_terminated() and model.propose(free) == []


def test_misuse() -> None:
    compiled = compiled_by("classifier")
    with pytest.raises(HybridError, match="compiled_grammar"):
        DraftModel("x")
    for given_ in ({"threshold": 2}, {"threshold": True}, {"most_bytes": 1}, {"encode": 3}):
        with pytest.raises(ArgumentError, match=next(iter(given_))):
            DraftModel(compiled, **given_)
    model = DraftModel(compiled)
    other = GrammarMatcher(GrammarCompiler(VOCABULARY).compile_grammar('root ::= "a"'))
    for wrong in (other, None, "x"):
        with pytest.raises(ArgumentError, match="matcher"):
            model.propose(wrong)
    for most in (-1, 1000, 2.5):
        with pytest.raises(ArgumentError, match="most"):
            model.propose(GrammarMatcher(compiled), most)
    with pytest.raises(ArgumentError, match="n_tokens"):
        model.learn(GrammarMatcher(compiled), -1)


def test_what_a_model_keeps() -> None:
    assert verify([5, 6, 7], [5, 6, 9, 8]) == [5, 6, 9]  # the token that replaced 7 is kept too
    assert verify([5, 6], [5, 6, 7]) == [5, 6, 7] and verify([5], [4, 3]) == [4] and verify([], [2]) == [2]
    for wrong in ([5, 6, 7], [5, 6, 7, 8, 9]):
        with pytest.raises(ArgumentError, match=r"chosen must have 4 tokens for this draft, but has "):
            verify([5, 6, 7], wrong)
