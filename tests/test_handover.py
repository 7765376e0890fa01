"""Masks that take too long: handed over to plain XGrammar, or refused."""

from __future__ import annotations

import random

import numpy as np
import pytest

import hybrid.representatives.follower
from equivalence import BudgetExceeded, HybridError
from hybrid import Budget, GrammarCompiler, GrammarMatcher, Vocabulary, allocate_token_bitmask
from hybrid.representatives.handover import Rival

TOKENS = [b"a", b"b", b"ab", b"(", b")", b"()", b"x", b"((", b"))", b"aa", b"ba"]
STOP = len(TOKENS)
VOCABULARY = Vocabulary.from_bytes([*TOKENS, b""], stop_token_ids=[STOP])
WITH_IDS = 'root ::= s "x"\ns ::= s s | [ab]+ | "(" s ")" | Token(0)'
BOTH_WAYS = WITH_IDS.replace("Token(0)", "Token(9)")
"""Token 9 is of several bytes and read as text too, so classes are tried once it was taken."""


def mask(matcher: GrammarMatcher) -> list[bool]:
    bitmask = allocate_token_bitmask(1, VOCABULARY.size)
    matcher.fill_next_token_bitmask(bitmask)
    return (
        np.unpackbits(bitmask.numpy()[0].view(np.uint8), bitorder="little")[: STOP + 1].astype(bool).tolist()
    )


def taken(matcher: GrammarMatcher) -> list[bool]:
    return [matcher.fork().accept_token(token_id) for token_id in range(STOP + 1)]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every mask is slow, and slower than plain XGrammar's."""
    monkeypatch.setattr(hybrid.representatives.follower, "SLOW_SECONDS", 0.0)
    monkeypatch.setattr(hybrid.representatives.follower, "FACTOR", 0.0)
    monkeypatch.setattr(Rival, "after", _at_once)


def _at_once(self: Rival, seconds: float) -> object:
    if self._made is None:
        self._made = self._make()
    return self._made


@pytest.mark.usefixtures("impatient")
def test_a_slow_sequence_goes_on_in_plain_xgrammar() -> None:
    compiled = GrammarCompiler(VOCABULARY, strategy="representatives").compile_grammar(WITH_IDS)
    assert "'engine'" not in compiled.reason
    matcher = GrammarMatcher(compiled)
    for text in (b"(", b"a", b"ab"):
        assert matcher.accept_string(text)
    assert matcher.accept_token(TOKENS.index(b"))")) is False
    size = compiled.memory_size_bytes
    before = mask(matcher)  # after it, the sequence is plain XGrammar's
    assert compiled.memory_size_bytes > size
    assert compiled.rival is not None and compiled.rival.handed_over == 1
    assert "went on in 'engine'" in compiled.reason
    assert compiled.strategy == "representatives" and matcher.compiled_grammar is compiled
    assert mask(matcher) == before == taken(matcher)
    matcher.rollback(2)
    twin = matcher.fork()
    assert matcher.accept_token(0) and twin.accept_string(b"b")
    assert taken(matcher) == mask(matcher) and taken(twin) == mask(twin)
    assert matcher.accept_string(b")x") and matcher.accept_token(STOP) and matcher.is_terminated()
    matcher.reset()
    assert mask(matcher) == taken(matcher)


@pytest.mark.usefixtures("impatient")
def test_free_ends_are_kept() -> None:
    compiler = GrammarCompiler(VOCABULARY, strategy="representatives")
    compiled = compiler.compile_grammar('root ::= Token(0) "b"?')
    free = GrammarMatcher(compiled, terminate_without_stop_token=True)
    assert free.accept_token(0)
    mask(free)
    assert compiled.rival is not None and compiled.rival.handed_over == 1
    assert free.is_terminated()


@pytest.mark.usefixtures("impatient")
def test_other_stop_tokens_are_not_handed_over() -> None:
    # a stop token with text is missing in XGrammar's tables, whether it stops or not
    vocabulary = Vocabulary.from_bytes([*TOKENS, b""], stop_token_ids=[STOP, TOKENS.index(b"aa")])
    compiled = GrammarCompiler(vocabulary, strategy="representatives").compile_grammar(
        "root ::= [^x]* Token(0)"
    )
    matcher = GrammarMatcher(compiled, override_stop_tokens=[STOP])
    for _ in range(2):
        assert mask(matcher) == taken(matcher)
        assert matcher.accept_string("b")
    assert mask(matcher)[TOKENS.index(b"aa")]
    assert compiled.rival is not None and compiled.rival.handed_over == 0


@pytest.mark.usefixtures("impatient")
def test_the_bound_of_a_mask_goes_along() -> None:
    compiler = GrammarCompiler(VOCABULARY, strategy="representatives", budget=Budget(mask_seconds=20.0))
    matcher = GrammarMatcher(compiler.compile_grammar(WITH_IDS))
    assert matcher._follower._mask_seconds == 20.0
    mask(matcher)
    follower = matcher._follower
    assert follower._gather is None and follower._mask_seconds == 20.0


def test_a_rival_is_made_when_it_is_paid_for() -> None:
    made: list[float] = []

    def make() -> object:
        made.append(1.0)
        return GrammarCompiler(VOCABULARY, strategy="engine").compile_grammar('root ::= "a"')

    rival = Rival(lambda: 1.0, make)  # type: ignore[arg-type]
    assert rival.after(0.4) is None and rival.after(0.4) is None and not made
    assert rival.after(0.4) is not None
    assert rival.after(0.0) is rival.after(0.0) and len(made) == 1


def test_a_rival_that_cannot_be_made_is_not_tried_again() -> None:
    tries: list[int] = []

    def make() -> object:
        tries.append(1)
        raise BudgetExceeded("too late")

    rival = Rival(lambda: 0.0, make)  # type: ignore[arg-type]
    assert rival.after(1.0) is None and rival.after(1.0) is None and len(tries) == 1


def test_deterministic_compilers_and_budgets_of_tokens_have_no_rival() -> None:
    compiler = GrammarCompiler(VOCABULARY, strategy="representatives", deterministic=True)
    assert compiler.compile_grammar(WITH_IDS).rival is None
    compiler = GrammarCompiler(VOCABULARY, strategy="representatives")
    assert compiler.compile_grammar('root ::= r "x"\nr[max_tokens=2] ::= [ab] [ab]*').rival is None


def test_classes_are_tried_only_after_a_token_that_is_text_too() -> None:
    compiled = GrammarCompiler(VOCABULARY, strategy="representatives").compile_grammar(BOTH_WAYS)
    assert compiled.classes is not None and compiled.rival is None
    assert not compiled.classes.trial and compiled.classes.trial_after == {9}
    plain = GrammarCompiler(VOCABULARY, strategy="engine").compile_grammar(BOTH_WAYS)
    chooser = random.Random(5)
    for _ in range(40):
        matcher, judge = GrammarMatcher(compiled), GrammarMatcher(plain)
        for _ in range(10):
            truth = taken(judge)
            assert mask(matcher) == truth
            allowed = [token_id for token_id in range(STOP) if truth[token_id]]
            if not allowed:
                break
            token_id = 9 if truth[9] and chooser.random() < 0.5 else chooser.choice(allowed)
            assert matcher.accept_token(token_id) and judge.accept_token(token_id)
            if chooser.random() < 0.2:
                matcher.rollback(1)
                judge.rollback(1)


@pytest.mark.parametrize("strategy", ["classifier", "representatives", "engine"])
def test_a_mask_over_its_bound_is_refused_and_nothing_written(strategy: str) -> None:
    compiler = GrammarCompiler(VOCABULARY, strategy=strategy, budget=Budget(mask_seconds=1e-9))
    matcher = GrammarMatcher(compiler.compile_grammar('root ::= "a" root | "b"'))
    bitmask = allocate_token_bitmask(1, VOCABULARY.size)
    bitmask.fill_(0x5A5A5A5A)
    with pytest.raises(BudgetExceeded, match=r"Budget\.mask_seconds"):
        matcher.fill_next_token_bitmask(bitmask)
    assert bool((bitmask == 0x5A5A5A5A).all())
    assert matcher.accept_string("a")  # the sequence itself goes on


def test_trying_ends_when_the_bound_is_met() -> None:
    text = "root ::= " + " | ".join(f'ExcludeToken({i}) "{chr(97 + i % 2)}"' for i in range(6))
    compiler = GrammarCompiler(VOCABULARY, strategy="representatives", budget=Budget(mask_seconds=1e-9))
    compiled = compiler.compile_grammar(text)
    assert compiled.classes is not None and compiled.classes.trial
    with pytest.raises(BudgetExceeded, match=r"Budget\.mask_seconds"):
        mask(GrammarMatcher(compiled))


@pytest.mark.parametrize("given", [0, -1.0, float("inf"), float("nan"), "1", True])
def test_bounds_of_masks_are_numbers_above_0(given: object) -> None:
    with pytest.raises(HybridError, match=r"Budget\.mask_seconds is"):
        Budget(mask_seconds=given)  # type: ignore[arg-type]


def test_a_stop_token_without_text_that_is_overridden_is_nothing() -> None:
    # nearly all is allowed, so XGrammar's mask begins with all bits
    text = "root ::= [^z]* Token(0)"
    for strategy in ("engine", "representatives"):
        compiled = GrammarCompiler(VOCABULARY, strategy=strategy).compile_grammar(text)
        matcher = GrammarMatcher(compiled, override_stop_tokens=[6])
        mask(matcher)
        assert not mask(matcher)[STOP] and not matcher.accept_token(STOP)
        assert matcher.fill_next_token_bitmask(allocate_token_bitmask(1, VOCABULARY.size))
