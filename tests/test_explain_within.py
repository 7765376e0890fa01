"""`explain` and `explain_refusal` take at most `Budget.mask_seconds`, and say if they were cut short."""

from __future__ import annotations

import random
import time

import pytest

from equivalence import BudgetExceeded, UnsupportedGrammar, Vocabulary
from equivalence.deadline import Deadline
from hybrid import Budget, GrammarCompiler, GrammarMatcher
from hybrid.explain import explainer as explainer_module
from hybrid.explain.rules import Rules
from tests.matchers import STRATEGIES
from tests.tiny_grammars import tiny_grammar

ENDLESS = 'root ::= ("a"*)* (root "b")+'
BYTES = [bytes([byte]) for byte in range(256)]
WITH_BYTES = Vocabulary.from_bytes([*BYTES, b"aa", b"ab", b"abc", b"cc", b""], stop_token_ids=260)
WITHOUT = Vocabulary.from_bytes([b"a", b"b", b"c", b"aa", b"ab", b"abc", b"cc", b""], stop_token_ids=7)

GRAMMARS = 60
"""Number of grammars. For 1,500, 9,000 answers took at most 0.127 s (limit 0.1 s), and 237 were cut short."""

BOUND, GRACE = 0.1, 0.1


def matcher_of(grammar: str, seconds: float, strategy: str = "auto") -> GrammarMatcher:
    compiler = GrammarCompiler(WITH_BYTES, strategy=strategy, budget=Budget(mask_seconds=seconds))
    return GrammarMatcher(compiler.compile_grammar(grammar))


def test_what_is_forced_without_end_is_cut_short() -> None:
    matcher = matcher_of(ENDLESS, 0.2, "classifier")
    assert matcher.accept_string("aaaaaa")
    began = time.perf_counter()
    told = matcher.explain()
    assert time.perf_counter() - began < 2  # took 15 s before there was a bound
    assert told.cut_short and told.forced.startswith("aaa")
    assert "incomplete" in str(told)
    refusal = matcher.explain_refusal("aac")
    assert refusal is not None and (refusal.offset, refusal.byte) == (2, ord("c"))


def test_a_text_that_is_read_slowly_is_refused_in_time_or_cut_short() -> None:
    matcher = matcher_of("root ::= root root root | [a-c] | root root", 0.2)
    began = time.perf_counter()
    refusal = matcher.explain_refusal("abc" * 20_000 + "x")
    assert time.perf_counter() - began < 2
    assert refusal is not None
    if refusal.cut_short:
        assert refusal.offset < 60_000 and "no time to check" in str(refusal)
        assert refusal.explanation.cut_short
    else:
        assert refusal.offset == 60_000


def test_a_grammar_whose_names_take_long_has_them_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(*arguments: object) -> object:
        time.sleep(0.5)
        return Rules(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(explainer_module, "Rules", slowly)
    matcher = matcher_of('root ::= "abc" | "abd"', 0.1)
    told = matcher.explain()
    assert told.cut_short and "the time ran out" in str(told)
    time.sleep(1.0)
    later = matcher.explain()
    assert not later.cut_short and later.rules == ("root",)


def test_nothing_is_cut_short_where_there_is_time() -> None:
    matcher = matcher_of('root ::= "abc" | "abd"', 60.0)
    assert not matcher.explain().cut_short
    refusal = matcher.explain_refusal("abx")
    assert refusal is not None and not refusal.cut_short and refusal.offset == 2
    over = matcher.explain_within(Deadline(0.0))
    assert over.cut_short and "there was no time" in str(over)


def test_law_answers_are_there_in_time() -> None:
    cut = 0
    for seed in range(GRAMMARS):
        draw = random.Random(seed)
        grammar, strategy = tiny_grammar(draw), draw.choice(["auto", *STRATEGIES])
        compiler = GrammarCompiler(
            draw.choice([WITH_BYTES, WITHOUT]), strategy=strategy, budget=Budget(mask_seconds=BOUND)
        )
        try:
            matcher = GrammarMatcher(compiler.compile_grammar(grammar))
        except UnsupportedGrammar:
            continue
        for _ in range(3):
            for _ in range(draw.randint(0, 12)):
                matcher.accept_string(draw.choice("abc"))
            text = "".join(draw.choice("abc") for _ in range(draw.choice([3, 30, 300, 3000])))
            cut += _answered(matcher, text)
    assert cut < GRAMMARS


def _answered(matcher: GrammarMatcher, text: str) -> int:
    """Count how many of the two answers were cut short. Each must come in time; it gets three tries, because
    another program may be using the processor."""
    cut = 0
    for ask in (matcher.explain, lambda: matcher.explain_refusal(text)):
        for last in (False, False, True):
            began = time.perf_counter()
            try:
                answer = ask()
            except BudgetExceeded:  # raised by the mask itself
                answer = None
            if time.perf_counter() - began <= BOUND + GRACE:
                break
            assert not last
        cut += answer is not None and answer.cut_short
    return cut
