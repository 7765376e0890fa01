"""A text can be completed within n tokens, not bytes, if and only if masks allow n tokens that complete it.

These vocabularies do not spell every byte, so the shortest completion in bytes often cannot be written in
tokens.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterator

import pytest
import xgrammar

from equivalence import BudgetExceeded, MatcherError, UnsupportedGrammar, Vocabulary
from hybrid import GrammarCompiler, GrammarMatcher
from hybrid.healing import HealingMatcher
from tests.classifiers import vocabulary_of
from tests.matchers import STRATEGIES, allowed, mask_of, taken_by
from tests.test_completion import limited
from tests.tiny_grammars import fewest_tokens, tiny_grammar, tiny_vocabulary

ABB = Vocabulary.from_bytes([b"abb", b"bb", b"a", b"c", b"abba", b""], stop_token_ids=5)
COUNTED = "root ::= root{1,3} [ac]{2,} [ac] | [b]"

LAWFUL = 150
"""How many grammars the law is tested on. Once, 10,000 were tried in 131 s of CPU: 0 differences."""

LIMITED = 100
"""How many grammars the law of limits is tested on."""

MOST_TOKENS = 4


def matcher_of(grammar: str, vocabulary: Vocabulary, strategy: str) -> GrammarMatcher:
    return GrammarMatcher(GrammarCompiler(vocabulary, strategy=strategy).compile_grammar(grammar))


def test_a_way_of_tokens_is_found_where_the_shortest_bytes_have_none(strategy: str) -> None:
    matcher = matcher_of(COUNTED, ABB, strategy)
    assert matcher.shortest_completion() == [1, 2, 2, 2]  # bb a a a
    assert matcher.can_complete_within(4) is True and matcher.can_complete_within(3) is False
    assert limited(matcher, 6) == limited(matcher, 4) == [1]
    with pytest.raises(MatcherError, match="within 3 tokens: every completion needs more"):
        limited(matcher, 3)
    for left, token in ((4, 1), (3, 2), (2, 3), (1, 2)):
        assert token in limited(matcher, left) and matcher.accept_token(token)
    assert matcher.is_completed() and matcher.can_complete_within(0) is True


def test_behind_a_healed_prompt_ways_are_searched_too() -> None:
    matcher = HealingMatcher(GrammarCompiler(ABB).compile_grammar(COUNTED), "a")
    assert matcher.can_complete_within(2) is False and matcher.can_complete_within(3) is True
    assert matcher.shortest_completion() == [4, 2, 2]  # abba a a: "a", and "bbaaa" of the grammar
    with pytest.raises(MatcherError, match="within 2 tokens"):
        limited(matcher, 2)
    for left, token in ((3, 4), (2, 2), (1, 2)):
        assert limited(matcher, left) == [token] or left < 3
        assert token in limited(matcher, left) and matcher.accept_token(token)
    assert matcher.is_completed()


def test_what_was_not_searched_to_its_end_is_masked_without_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hybrid.completion.plans.MOST_SEARCHED", 0)
    matcher = matcher_of(COUNTED, ABB, "classifier")
    assert matcher.can_complete_within(6) is None
    assert limited(matcher, 6) == [1]
    with pytest.raises(BudgetExceeded, match="found no other completion within its limits"):
        matcher.shortest_completion()
    assert matcher.can_complete_within(0) is False  # this needs no search


def test_law_closable_within_n_tokens_if_and_only_if_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SECONDS_HERE", "SECONDS_AT_TOKENS"):  # the law must hold on a busy machine, too
        monkeypatch.setattr(f"hybrid.completion.plans.{name}", 60.0)
    decided = unknown = 0
    for draw, ours, plain, size in _drawn(LAWFUL):
        for _ in range(3):
            found = _holds_here(ours, plain, draw.randint(1, MOST_TOKENS), size)
            decided, unknown = decided + (found is True), unknown + (found is None)
            readable = taken_by(plain, size)
            if not readable:
                break
            token = draw.choice(readable)
            assert plain.accept_token(token) and ours.accept_token(token)
    assert decided > LAWFUL and unknown <= LAWFUL // 100


def _drawn(grammars: int) -> Iterator[tuple[random.Random, GrammarMatcher, xgrammar.GrammarMatcher, int]]:
    """Yield our matcher and plain XGrammar's of tiny grammars, behind what drew them, and the number of
    tokens, which is the stop id."""
    for draw in map(random.Random, range(grammars)):
        tokens, grammar, strategy = tiny_vocabulary(draw), tiny_grammar(draw), draw.choice(STRATEGIES)
        vocabulary = vocabulary_of(tokens)
        with contextlib.suppress(UnsupportedGrammar):  # left recursion through a counted repeat
            ours = matcher_of(grammar, vocabulary, strategy)
            ours.can_complete_within(0)
            compiler = xgrammar.GrammarCompiler(vocabulary.tokenizer_info, max_threads=1)
            yield draw, ours, xgrammar.GrammarMatcher(compiler.compile_grammar(grammar)), len(tokens)


def _holds_here(ours: GrammarMatcher, plain: xgrammar.GrammarMatcher, left: int, size: int) -> bool | None:
    """Check the law here; False if it could not be checked, None if our search was given up."""
    needed = fewest_tokens(plain, left, size)
    if needed is None:
        return False
    closes = ours.can_complete_within(left)
    if closes is None:
        return None
    assert closes == (needed <= left)
    try:
        plan = ours.shortest_completion()
    except BudgetExceeded:
        plan = []
    if plan is None:
        assert needed == math.inf
    elif plan:
        whole = plain.fork()
        assert all(whole.accept_token(token) for token in plan) and whole.is_completed()
    if not closes:
        with pytest.raises(MatcherError, match="cannot be completed within"):
            limited(ours, left)
        return True
    _check_tokens(ours, plain, limited(ours, left), left, size)
    return True


def _check_tokens(
    ours: GrammarMatcher, plain: xgrammar.GrammarMatcher, ids: list[int], left: int, size: int
) -> None:
    """Check that a token is allowed if and only if fewer tokens than are left complete the text after it."""
    by_engine, in_mask = ours.compiled_grammar.strategy == "engine", allowed(plain, size + 1)[1]
    for token in range(size):
        after = plain.fork()
        rest = fewest_tokens(after, left - 1, size) if after.accept_token(token) else math.inf
        assert rest is not None
        if by_engine and token not in ids and token not in in_mask:
            continue  # XGrammar's own mask lacks a token that its accept_token takes: see docs/limits.md
        assert (token in ids) == (rest <= left - 1)


def test_law_texts_under_a_limit_end_in_time() -> None:
    ended = 0
    for draw, ours, plain, size in _drawn(LIMITED):
        left, with_stop = draw.randint(0, MOST_TOKENS), draw.random() < 0.5
        closes, needed = ours.limit_tokens(left, with_stop_token=with_stop), fewest_tokens(plain, left, size)
        if needed is None or closes is None:  # too many texts to try
            continue
        assert closes == (needed <= left)
        if not closes:
            continue
        room_for_stop = with_stop and needed < left  # the stop token fits, too
        while not ours.is_terminated():
            assert ours.tokens_left == left and left >= room_for_stop
            ids = mask_of(ours)
            assert (size in ids) == plain.is_completed()
            if plain.is_completed() and left == room_for_stop:
                assert ids == [size]
            else:
                _check_tokens(ours, plain, ids, left - room_for_stop, size)
            texts = [token for token in ids if token < size]
            token = draw.choice(texts if texts and draw.random() < 0.8 else ids)
            assert ours.accept_token(token) and plain.accept_token(token)
            left -= 1
        assert plain.is_completed() and left >= (0 if room_for_stop else -1)
        ended += 1
    assert ended > LIMITED // 4
