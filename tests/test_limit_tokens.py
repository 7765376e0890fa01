"""A matcher with a limit of tokens gives the masks of `fill_limited_bitmask`, in batches and trees of drafts
too.

What: walks with rollbacks over random grammars and schemas, compared with a matcher without a limit that is
asked for each limited mask.
When: after a change of `hybrid.completion.follower`, or of code that counts steps.
Limits: ``test_completion.py`` checks the limited masks themselves.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from equivalence import ArgumentError, BudgetExceeded, MatcherError, UnsupportedGrammar, Vocabulary
from hybrid import BatchGrammarMatcher, GrammarCompiler, GrammarMatcher, allocate_token_bitmask
from hybrid.completion import Completion, plans
from hybrid.drafts import DraftModel
from tests.matchers import STRATEGIES, ids_of, mask_of
from tests.random_grammars import GrammarCase, grammar_cases
from tests.test_completion import BYTES, NESTED, SCHEMA, STOP, VOCABULARY, assume_network, limited, matcher_of

SCHEMAS = {"bounded": SCHEMA, "recursive": NESTED, "any object": {"type": "object"}}


@pytest.fixture(autouse=True, scope="module")
def patience() -> Iterator[None]:
    """A search that times out on a busy machine finds less than the next search does."""
    with mock.patch.multiple(plans, SECONDS_HERE=60.0, SECONDS_AT_TOKENS=60.0):
        yield


def wanted(matcher: GrammarMatcher, left: int, stop: int | None = None) -> list[int]:
    """The mask that a limit should give, computed by a matcher without one.

    Args:
        matcher: a matcher without a limit.
        left: number of tokens left.
        stop: the stop token that has to fit too, if possible.
    """
    if 0 <= left <= (stop is not None) and matcher.is_completed():
        return matcher.stop_token_ids
    for for_stop in (1, 0) if stop is not None else (0,):
        if left > for_stop:
            with contextlib.suppress(MatcherError):
                return limited(matcher, left - for_stop)
    return mask_of(matcher)


def wander(
    limited: GrammarMatcher, plain: GrammarMatcher, left: int, stop: int | None, draw: random.Random, n: int
) -> int:
    """Compare masks along tokens of the plain mask, some of which leave too little room, and along
    rollbacks."""
    read = 0
    for _ in range(n):
        assert mask_of(limited) == wanted(plain, left, stop)
        assert limited.tokens_left == left
        token = draw.choice(mask_of(plain))
        for matcher in (limited, plain):
            assert matcher.accept_token(token)
        read, left = read + 1, left - 1
        back = draw.randint(1, min(read, 4)) if plain.is_terminated() or draw.random() < 0.3 else 0
        for matcher in (limited, plain):
            matcher.rollback(back)
        read, left = read - back, left + back
    return left


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    grammar_cases(), st.sampled_from(STRATEGIES), st.booleans(), st.integers(0, 1 << 30), st.integers(0, 9)
)
def test_masks_are_closing_masks_wherever_the_text_stands(
    case: GrammarCase, strategy: str, with_stop: bool, seed: int, more: int
) -> None:
    tokens = [*BYTES, *(token for token in case.vocabulary if token)]
    vocabulary = Vocabulary.from_bytes([*tokens, b""], stop_token_ids=len(tokens))
    limited, plain = (matcher_of(case.ebnf, strategy, vocabulary) for _ in range(2))
    assume_network(limited)
    plan = limited.shortest_completion()
    assume(plan is not None)
    left = max(len(plan) + more, 1)
    assert limited.limit_tokens(left, with_stop_token=with_stop)
    wander(limited, plain, left, len(tokens) if with_stop else None, random.Random(seed), 8)


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("left", [30, 90])
def test_masks_are_closing_masks_of_schemas(name: str, strategy: str, left: int) -> None:
    limited, plain = (matcher_of(SCHEMAS[name], strategy) for _ in range(2))
    assert limited.limit_tokens(left, with_stop_token=True)
    wander(limited, plain, left, STOP, random.Random(name), 60)


@pytest.mark.parametrize("name", SCHEMAS)
def test_most_masks_are_not_looked_at(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limited, plain = (matcher_of(SCHEMAS[name]) for _ in range(2))
    assert limited.limit_tokens(4000)
    monkeypatch.setattr(Completion, "restrict", lambda *_: pytest.fail("a mask was looked at"))
    draw = random.Random(1)
    for _ in range(150):
        ids = mask_of(limited)
        assert ids == mask_of(plain)
        token = draw.choice([one for one in ids if one != STOP] or ids)
        for matcher in (limited, plain):
            assert matcher.accept_token(token)
            if matcher.is_terminated():
                matcher.rollback(1)


@pytest.mark.parametrize("with_stop", [False, True])
def test_only_stop_tokens_follow_a_complete_text_if_no_token_is_left(strategy: str, with_stop: bool) -> None:
    vocabulary = Vocabulary.from_bytes([b"a", b"-", b"", b"b", b""], stop_token_ids=[2, 4])
    matcher = matcher_of('root ::= "a" ("-" "a")*', strategy, vocabulary)
    assert matcher.limit_tokens(1, with_stop_token=with_stop)
    assert mask_of(matcher) == [0] and matcher.accept_token(0)
    assert matcher.tokens_left == 0 and mask_of(matcher) == [2, 4]
    assert matcher.limit_tokens(0, with_stop_token=with_stop) and mask_of(matcher) == [2, 4]
    assert matcher.limit_tokens(1, with_stop_token=with_stop)
    assert mask_of(matcher) == [2, 4]  # "-" would need another token
    assert matcher.limit_tokens(2, with_stop_token=with_stop)
    assert mask_of(matcher) == ([2, 4] if with_stop else [1, 2, 4])
    matcher.limit_tokens(0, with_stop_token=with_stop)
    assert matcher.accept_token(1)  # masked out: the limit is exceeded
    assert matcher.tokens_left == -1 and mask_of(matcher) == [0]
    assert matcher.accept_token(0) and mask_of(matcher) == [1, 2, 4]
    matcher.rollback(2)
    assert mask_of(matcher) == [2, 4]
    assert matcher.accept_token(4) and matcher.is_terminated()


def test_a_rollback_forgets_which_masks_stay_as_they_are(strategy: str) -> None:
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b"c", b"d", b""], stop_token_ids=[4])
    matcher = matcher_of('root ::= "a" "c"* | "b" ("c" | "dddddddd")', strategy, vocabulary)
    assert matcher.limit_tokens(6)
    assert matcher.accept_token(0) and mask_of(matcher) == [2, 4]  # the limit forbids nothing in any step
    matcher.rollback(1)
    assert matcher.accept_token(1) and mask_of(matcher) == [2]  # there is no room for eight "d"


TOKEN = {text: index for index, text in enumerate(VOCABULARY.tokens) if len(text) > 1}
LIMITS = [None, 24, 15, 16, 17, 200, 9]


def limited_matchers() -> list[GrammarMatcher]:
    """A matcher for each of `LIMITS`, of which each has read the same four tokens."""
    compiled = GrammarCompiler(VOCABULARY).compile_json_schema(SCHEMA)
    matchers = [GrammarMatcher(compiled) for _ in LIMITS]
    for matcher, limit in zip(matchers, LIMITS, strict=True):
        matcher.limit_tokens(limit)
    for token in [TOKEN[b'{"'], ord("a"), TOKEN[b'":'], ord('"')]:
        BatchGrammarMatcher.batch_accept_token(matchers, [token] * len(matchers))
    return matchers


def test_batches_have_the_masks_of_their_matchers() -> None:
    matchers = limited_matchers()
    rows = allocate_token_bitmask(len(matchers), VOCABULARY.size)
    BatchGrammarMatcher().batch_fill_next_token_bitmask(matchers, rows)
    found = [ids_of(row, VOCABULARY.size) for row in rows]
    assert found == [mask_of(matcher) for matcher in matchers]
    assert len(set(map(tuple, found))) >= 3


def test_trees_of_drafts_have_the_masks_of_their_places() -> None:
    """One branch goes on after "xx", the other ends after "x"."""
    tree = [ord('"'), ord("x"), ord("x"), TOKEN[b'","'], ord("x"), ord("b")]
    child = torch.tensor([1, 2, 4, 5, -1, -1])
    sibling = torch.tensor([-1, -1, 3, -1, -1, -1])
    paths = [[], [1], [1, 2], [1, 3], [1, 2, 4], [1, 3, 5]]
    for matcher, limit in zip(limited_matchers(), LIMITS, strict=True):
        rows = torch.zeros_like(allocate_token_bitmask(len(tree), VOCABULARY.size))
        matcher.traverse_draft_tree(child, sibling, torch.tensor(tree), rows)
        for row, path in zip(rows, paths, strict=True):
            other = _read(b'{"a":"')
            expected: list[int] = []
            for read, node in enumerate([*path, None]):
                expected = mask_of(other) if limit is None else wanted(other, limit - 4 - read)
                if node is not None and tree[node] not in expected:
                    expected = []  # the limit forbids a token before this place
                    break
                assert node is None or other.accept_token(tree[node])
            assert ids_of(row, VOCABULARY.size) == expected


def test_forks_go_on_with_the_limit_and_a_new_start_has_none() -> None:
    matcher = matcher_of(SCHEMA)
    matcher.limit_tokens(15)
    assert matcher.accept_token(TOKEN[b'{"'])
    twin = matcher.fork()
    assert twin.tokens_left == matcher.tokens_left == 14
    assert twin.accept_token(ord("a")) and (twin.tokens_left, matcher.tokens_left) == (13, 14)
    twin.rollback(2)
    assert (twin.tokens_left, matcher.tokens_left) == (15, 14)
    assert matcher.accept_string(b'a": "') and matcher.tokens_left == 13
    assert mask_of(matcher) == wanted(_read(b'{"a": "'), 13)
    matcher.reset()
    again: GrammarMatcher = matcher.fork()
    assert again.tokens_left is None and mask_of(again) == mask_of(matcher_of(SCHEMA))
    for limit in (20, 17, None):
        matcher.limit_tokens(limit)
        assert matcher.tokens_left == limit


def _read(text: bytes) -> GrammarMatcher:
    matcher = matcher_of(SCHEMA)
    assert matcher.accept_string(text)
    return matcher


def test_a_limit_that_no_text_fits_into_is_told_and_masks_are_plain() -> None:
    matcher, plain = _read(b'{"a": "xx'), _read(b'{"a": "xx')
    plan = matcher.shortest_completion()
    assert matcher.limit_tokens(len(plan) - 4) is False
    assert mask_of(matcher) == mask_of(plain)
    assert matcher.limit_tokens(0) is False and mask_of(matcher) == mask_of(plain)
    assert matcher.limit_tokens(len(plan)) is True
    assert mask_of(matcher) == limited(plain, len(plan)) != mask_of(plain)


@pytest.mark.parametrize("value", [-1, 2.5, "9", True])
def test_what_is_no_limit_is_refused(value: Any) -> None:
    matcher = matcher_of(SCHEMA)
    matcher.limit_tokens(30)
    with pytest.raises(ArgumentError, match="tokens_left"):
        matcher.limit_tokens(value)
    assert matcher.tokens_left == 30


def test_grammars_without_completions_are_refused_by_name_each_time() -> None:
    compiler = GrammarCompiler(VOCABULARY)
    unique = compiler.compile_json_schema({"type": "array", "uniqueItems": True}, semantics="json-schema")
    named = compiler.compile_grammar('root ::= Token(3) "a"')
    for compiled, why in ((unique, "must not be repeated"), (named, "token ids")):
        matcher = GrammarMatcher(compiled)
        for _ in range(2):
            with pytest.raises(UnsupportedGrammar, match=why):
                matcher.limit_tokens(30)
        assert matcher.tokens_left is None
        mask_of(matcher)


def test_a_limit_that_takes_too_much_is_lost_by_name() -> None:
    matcher, plain = matcher_of(SCHEMA), matcher_of(SCHEMA)
    matcher.limit_tokens(15)
    assert matcher.limit_error is None
    error = BudgetExceeded("a token limit needs more than 9 bytes")
    with mock.patch.object(Completion, "restrict", side_effect=error):
        assert mask_of(matcher) == mask_of(plain)
    assert matcher.tokens_left is None and "more than 9 bytes" in str(matcher.limit_error)
    assert matcher.accept_token(TOKEN[b'{"']) and plain.accept_token(TOKEN[b'{"'])
    assert mask_of(matcher) == mask_of(plain)


def test_a_draft_that_takes_too_much_does_not_lose_the_limit(strategy: str) -> None:
    matcher = matcher_of(SCHEMA, strategy)
    matcher.limit_tokens(15)
    expected, restrict = mask_of(matcher), Completion.restrict

    def failing(completion: Completion, text: bytes, *arguments: Any) -> Any:
        if text:
            raise BudgetExceeded("a token limit needs more than 9 bytes")
        return restrict(completion, text, *arguments)

    bitmask = allocate_token_bitmask(2, VOCABULARY.size)
    with mock.patch.object(Completion, "restrict", failing):
        assert BatchGrammarMatcher.batch_fill_draft_bitmask([matcher], bitmask, [[TOKEN[b'{"']]]) == [1]
        assert matcher.tokens_left == 15 and matcher.limit_error is None
        assert mask_of(matcher) == expected
        assert matcher.accept_token(TOKEN[b'{"'])
        mask_of(matcher)
        assert "more than 9 bytes" in str(matcher.fork().limit_error)
        matcher.rollback()
    assert matcher.tokens_left == 15 and mask_of(matcher) == expected


def test_stop_tokens_without_text_share_what_is_known() -> None:
    compiled = GrammarCompiler(VOCABULARY).compile_json_schema(SCHEMA)
    first = compiled.completions.of((STOP,))
    assert compiled.completions.of((STOP, STOP - 2)) is first  # an id without text
    assert compiled.completions.of((STOP, ord("x"))) is not first


# --- Drafts ------------------------------------------------------------------------------------------------


def test_drafts_are_made_and_learned_under_a_limit(strategy):
    compiled = GrammarCompiler(VOCABULARY, strategy=strategy).compile_regex("(abc|[0-9]+,)*end")
    models = DraftModel(compiled), DraftModel(compiled)
    draw, seen = random.Random(5), 0
    for _ in range(6):
        matchers = _, limited = GrammarMatcher(compiled), GrammarMatcher(compiled)
        limited.limit_tokens(30, with_stop_token=True)
        while not limited.is_terminated():
            left = limited.tokens_left
            free_draft, draft = (
                model.propose(matcher) for matcher, model in zip(matchers, models, strict=True)
            )
            assert draft == free_draft and limited.tokens_left == left
            seen += len(draft)
            token = draw.choice(mask_of(limited))
            for matcher, model in zip(matchers, models, strict=True):
                assert matcher.accept_token(token)
                model.learn(matcher)
    assert seen > 30
