"""Masks and tokens under `Budget.mask_seconds`, and rows that XGrammar initialises with all bits set."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from threading import Event
from time import sleep
from typing import Any

import pytest

from equivalence import BudgetExceeded, GrammarError, MatcherError, Vocabulary
from equivalence.arrays.account import Account
from equivalence.deadline import Deadline
from hybrid import Budget, CompiledGrammar, GrammarCompiler, GrammarMatcher, allocate_token_bitmask
from hybrid.representatives import bounded_calls
from hybrid.representatives.bounded_calls import MOST_LEFT
from hybrid.values.mask_time import TooSlow
from tests.matchers import mask_of
from tests.new_process import printed_by

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
    with pytest.raises(
        TooSlow, match=r"(a token|the text again in plain XGrammar) took .* Budget\.mask_seconds"
    ):
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


NEVER_ENDS = """
import sys
from equivalence import Vocabulary
from hybrid import Budget, GrammarCompiler, GrammarMatcher, allocate_token_bitmask
from hybrid.values.mask_time import TooSlow
vocabulary = Vocabulary.from_bytes([b"a" * n for n in range(1, 129)] + [b"</s>"], stop_token_ids=[128])
compiled = GrammarCompiler(vocabulary, strategy="engine", budget=Budget(mask_seconds=0.3)).compile_grammar(
    sys.argv[1]
)
for text in ("", "aaa"):
    matcher = GrammarMatcher(compiled)
    assert matcher.accept_string(text)
    try:
        matcher.fill_next_token_bitmask(allocate_token_bitmask(1, 129))
    except TooSlow as error:
        print(error)
    print(matcher.accept_string("a"))
"""


def test_a_mask_that_takes_xgrammar_hours_is_given_up() -> None:
    lines = printed_by(NEVER_ENDS, AMBIGUOUS).splitlines()
    assert [line.split(" or more")[0] for line in lines] == ["a mask took 0.3 s", "True"] * 2


class Stuck:
    """A matcher of XGrammar whose calls wait for an event."""

    def __init__(self, matcher: object, event: Event) -> None:
        self._matcher, self._event = matcher, event

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: object, **options: object) -> Any:
            assert self._event.wait(60)
            return getattr(self._matcher, name)(*arguments, **options)

        return call


def stuck(matcher: GrammarMatcher, event: Event) -> None:
    follower = matcher._follower
    follower._matcher = Stuck(follower._matcher, event)


CALLS: dict[str, Callable[[GrammarMatcher], Any]] = {
    "mask": mask_of,
    "token": lambda matcher: matcher.accept_token(0),
    "text": lambda matcher: matcher.accept_string(b"a"),
    "forced": lambda matcher: matcher.find_jump_forward_string(),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("strategy", ["engine", "representatives"])
def test_a_call_that_was_given_up_changes_nothing(strategy: str, call: str) -> None:
    grammar = 'root ::= ("a"{1,2} "b"){1,2} "xx"'
    plain = GrammarMatcher(GrammarCompiler(VOCABULARY, strategy=strategy).compile_grammar(grammar))
    compiler = GrammarCompiler(VOCABULARY, strategy=strategy, budget=Budget(mask_seconds=0.2))
    matcher, event = GrammarMatcher(compiler.compile_grammar(grammar)), Event()
    for one in (plain, matcher):
        assert one.accept_token(2) and one.accept_token(0)
    stuck(matcher, event)
    if call == "forced":
        assert matcher.find_jump_forward_string() == ""
    else:
        with pytest.raises(TooSlow, match=r"Budget\.mask_seconds"):
            CALLS[call](matcher)
    twin = matcher.fork()
    masks = [mask_of(one) for one in (plain, matcher, twin)]
    event.set()  # the call that was given up writes its mask, and reads its token, elsewhere
    for one in (plain, matcher, twin):
        masks.append(mask_of(one))
        assert one.accept_token(1)
        one.rollback(2)
        assert one.accept_token(10) is False and one.accept_token(0)
    assert all(mask == masks[0] for mask in masks)
    assert mask_of(matcher) == mask_of(plain)
    stuck(matcher, event)
    matcher.reset()
    assert mask_of(matcher) == [0, 2, 9]


def test_few_calls_that_were_given_up_may_go_on() -> None:
    compiler = GrammarCompiler(VOCABULARY, strategy="engine", budget=Budget(mask_seconds=0.05))
    compiled, event = compiler.compile_grammar(AMBIGUOUS), Event()
    for n in range(MOST_LEFT + 1):
        matcher = GrammarMatcher(compiled)
        stuck(matcher, event)
        with pytest.raises(TooSlow, match="was not begun" if n == MOST_LEFT else "took 0.05 s"):
            mask_of(matcher)
    event.set()
    for _ in range(6000):
        if not bounded_calls._left:
            break
        sleep(0.01)
    assert mask_of(matcher) and mask_of(GrammarMatcher(compiled))


@pytest.mark.parametrize(
    ("grammar", "wanted"),
    [
        (AMBIGUOUS, True),
        ('root ::= "a" root{0,5} "b"?', True),
        ('root ::= root "a" root | "b"', True),
        ('root ::= ("a" | "b")+ "x"{1,500}', False),
        ('root ::= "(" root ")" | "x"', False),
    ],
)
def test_grammars_for_which_xgrammar_may_be_slow(grammar: str, wanted: bool) -> None:
    assert GrammarCompiler(VOCABULARY, strategy="engine").compile_grammar(grammar).may_be_slow == wanted
