"""Masks and tokens under `Budget.mask_seconds`, and rows that XGrammar initialises with all bits set."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product

import pytest

from equivalence import BudgetExceeded, GrammarError, MatcherError, Vocabulary
from equivalence.arrays.account import Account
from equivalence.deadline import Deadline
from hybrid import Budget, CompiledGrammar, GrammarCompiler, GrammarMatcher, allocate_token_bitmask
from hybrid.values.mask_time import TooSlow
from tests.matchers import mask_of

TOKENS = [b"a", b"b", b"ab", b"(", b")", b"()", b"x", b"((", b"))", b"aa", b"ba"]
STOP = len(TOKENS)
VOCABULARY = Vocabulary.from_bytes([*TOKENS, b""], stop_token_ids=[STOP])


def test_a_mask_over_its_bound_is_refused_and_nothing_written(strategy: str) -> None:
    compiler = GrammarCompiler(VOCABULARY, strategy=strategy, budget=Budget(mask_seconds=1e-9))
    matcher = GrammarMatcher(compiler.compile_grammar('root ::= "a" root | "b"'))
    bitmask = allocate_token_bitmask(1, VOCABULARY.size)
    bitmask.fill_(0x5A5A5A5A)
    with pytest.raises(BudgetExceeded, match=r"Budget\.mask_seconds"):
        matcher.fill_next_token_bitmask(bitmask)
    assert bool((bitmask == 0x5A5A5A5A).all())
    assert matcher.accept_token(STOP) is False  # the sequence itself continues


SPACES = Vocabulary.from_bytes([b" " * n for n in range(1, 33)] + [b"</s>"], stop_token_ids=[32])
NESTED = "(( {1,100}){1,100}){1,100}"
"""Over tokens of many spaces, each byte has a stack for each way to divide the text."""


def steps(matcher: GrammarMatcher) -> int:
    return matcher.compiled_grammar.classifier.session.store.n_configurations


def test_a_slow_mask_is_stopped_while_it_is_computed() -> None:
    whole = GrammarMatcher(GrammarCompiler(SPACES).compile_regex(NESTED))
    assert mask_of(whole)
    compiler = GrammarCompiler(SPACES, budget=Budget(mask_seconds=1e-9))
    matcher = GrammarMatcher(compiler.compile_regex(NESTED))
    with pytest.raises(BudgetExceeded, match=r"Budget\.mask_seconds") as caught:
        mask_of(matcher)
    assert steps(matcher) < steps(whole)  # it was stopped, not checked afterwards
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert not matcher.is_completed()


def test_one_step_of_an_ambiguous_text_looks_at_the_clock_more_than_once() -> None:
    matcher = GrammarMatcher(GrammarCompiler(SPACES).compile_regex(NESTED))
    assert matcher.accept_string(" " * 9)
    account = matcher.compiled_grammar.classifier.session.store.account
    account.unchecked = 1000
    assert matcher.accept_string(" ")
    assert account.unchecked < 996


@pytest.mark.parametrize("read", ["accept_token", "accept_string"])
def test_a_slow_step_is_refused_and_changes_nothing(read: str) -> None:
    compiled = GrammarCompiler(SPACES, budget=Budget(mask_seconds=1e-9)).compile_regex(NESTED)
    matcher = GrammarMatcher(compiled)
    given = 7 if read == "accept_token" else b" " * 8
    with pytest.raises(BudgetExceeded, match=r"^reading a (token|text) took .* \(Budget\.mask_seconds\)"):
        getattr(matcher, read)(given)
    with pytest.raises(MatcherError, match="only 0 were made"):
        matcher.rollback(1)
    plain = GrammarMatcher(GrammarCompiler(SPACES).compile_regex(NESTED))
    assert getattr(plain, read)(given)


def test_a_long_text_may_take_longer_than_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed: list[float] = []

    @contextmanager
    def noted(account: object, most: float | None, phase: str = "a mask") -> Iterator[None]:
        assert most is not None
        allowed.append(most)
        yield

    monkeypatch.setattr("hybrid.classifier.follower.limited", noted)
    matcher = GrammarMatcher(
        GrammarCompiler(SPACES, budget=Budget(mask_seconds=3.0)).compile_regex(" {1,9000}")
    )
    assert matcher.accept_string(" ") and matcher.accept_string(" " * 8191)
    assert allowed == [3.0, 6.0]


class Slow(Deadline):  # type: ignore[misc]
    """The deadline of a mask that takes too long."""

    def error(self, phase: str) -> BudgetExceeded:
        return TooSlow()


def stop_at(account: Account, n: int) -> None:
    """Stop a computation at its n-th check."""
    account.stop_by(Slow(0.0).stopping("a mask"))
    account.unchecked = n


GRAMMARS = (
    'root ::= ("a" root "b" | "ab" | "x"){1,3}',
    'root ::= ("(" root ")" | "()" | "a"{2,9} | [^()x])*',
    'root ::= list | "a" root | "x"\nlist ::= ("(" list ")" | "b"){2,5} "a"?',
)
LARK = 'start: ("a" | "(" start ")" | pair)+\npair: "a" "b" | "b" start? "x"'


def compiled_by(strategy: str, grammar: str) -> CompiledGrammar:
    if strategy == "lark":
        return GrammarCompiler(VOCABULARY, cache_enabled=False).compile_lark(grammar)
    compiler = GrammarCompiler(VOCABULARY, strategy=strategy, on_demand=True, cache_enabled=False)
    return compiler.compile_grammar(grammar)


@pytest.mark.parametrize(
    ("strategy", "grammar"), [*product(("auto", "classifier"), GRAMMARS), ("lark", LARK)]
)
def test_a_mask_that_was_stopped_anywhere_is_right_in_the_end(strategy: str, grammar: str) -> None:
    n_stopped = 0
    for text in ("", "a", "((", "(a", "aab"):
        expected = GrammarMatcher(compiled_by(strategy, grammar))
        if not expected.accept_string(text):
            continue
        right, stopped = mask_of(expected), True
        for n in range(1000):  # a computation of n steps is not stopped at the next one
            if not stopped:
                break
            compiled = compiled_by(strategy, grammar)
            matcher = GrammarMatcher(compiled)
            account = compiled.classifier.session.store.account
            is_read = False
            stop_at(account, n)
            try:
                is_read = matcher.accept_string(text)
                mask_of(matcher)
                stopped = False
            except TooSlow:
                n_stopped += 1
            account.stop_by(None)
            assert is_read or matcher.accept_string(text)
            assert mask_of(matcher) == right, (text, n)
            for token in sorted(right)[:4]:
                twin, other = matcher.fork(), expected.fork()
                assert twin.accept_token(token) == other.accept_token(token)
                if not twin.is_terminated():
                    assert mask_of(twin) == mask_of(other)
    assert n_stopped > 5


def test_a_stop_token_without_text_that_is_overridden_is_nothing() -> None:
    # nearly all is allowed, so XGrammar's mask starts with all bits set
    text = 'root ::= [^z]* "a"'
    for strategy in ("engine", "representatives"):
        compiled = GrammarCompiler(VOCABULARY, strategy=strategy).compile_grammar(text)
        matcher = GrammarMatcher(compiled, override_stop_tokens=[6])
        mask_of(matcher)
        assert STOP not in mask_of(matcher) and not matcher.accept_token(STOP)
        assert matcher.fill_next_token_bitmask(allocate_token_bitmask(1, VOCABULARY.size))


AMBIGUOUS = 'root ::= (("a"{0,500} "b"?){0,500} "x"?){0,500}'


def test_reading_again_in_the_engine_is_limited() -> None:
    """XGrammar takes seconds for these letters, and minutes for more."""
    compiler = GrammarCompiler(VOCABULARY, budget=Budget(mask_seconds=0.1))
    compiled = compiler.compile_grammar(AMBIGUOUS)
    matcher = GrammarMatcher(compiled)
    for _ in range(12):
        assert matcher.accept_token(0)
    before = mask_of(matcher)
    with pytest.raises(TooSlow, match=r"the text again in plain XGrammar took .* Budget\.mask_seconds"):
        matcher._follower.fallback(12)
    assert mask_of(matcher) == before and matcher.accept_token(0)
    matcher._follower.fallback(3)


def test_a_failed_hand_over_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []

    def refuse(*arguments: object) -> None:
        calls.append(arguments)
        raise GrammarError("XGrammar cannot compile the grammar")

    monkeypatch.setattr("hybrid.guard.Guard.compile", refuse)
    compiled = GrammarCompiler(VOCABULARY, budget=Budget(table_bytes=20_000)).compile_grammar(AMBIGUOUS)
    before = compiled.reason
    for _ in range(3):
        with pytest.raises(
            BudgetExceeded, match="cannot continue in plain XGrammar: XGrammar cannot compile"
        ):
            GrammarMatcher(compiled).accept_token(9)
    assert len(calls) == 1 and compiled.reason == before


def test_reading_again_in_the_engine_ends_like_a_compilation() -> None:
    compiled = GrammarCompiler(VOCABULARY).compile_grammar(AMBIGUOUS)
    matcher = GrammarMatcher(compiled)
    assert matcher.accept_string("a") and compiled.fallback.strategy == "engine"
    before = compiled.reason
    object.__setattr__(compiled, "budget", Budget(seconds=1e-9))
    with pytest.raises(
        BudgetExceeded, match=r"reading the text again in plain XGrammar; raise Budget\.seconds"
    ):
        matcher._follower.fallback(1)
    assert compiled.reason == before
    object.__setattr__(compiled, "budget", Budget())
    matcher._follower.fallback(1)
    assert "on strategy 'engine', because they needed more memory" in compiled.reason
