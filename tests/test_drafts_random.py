"""Drafts, healed prompts and limited masks on random grammars: texts are the same as without them.

What: a model that is a hash of the text, decoded token by token, with drafts and after prefixes; masks after
prefixes, compared with filtering all tokens.
When: after a change of `hybrid.drafts` or `hybrid.healing`.
Limits: few tokens; the model chooses greedily. Distributions are tested in ``test_drafts_decoding.py``.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from equivalence import HybridError, MatcherError, UnsupportedGrammar, Vocabulary
from hybrid import CompiledGrammar, GrammarCompiler, GrammarMatcher
from hybrid.drafts import DraftModel, verify
from hybrid.healing import HealingMatcher
from tests.matchers import STRATEGIES, mask_of, taken_by
from tests.random_grammars import GrammarCase, grammar_cases
from tests.test_healing import reference

pytestmark = pytest.mark.kernels

MOST = 12
"""The maximal number of tokens in a text."""


def compiled_of(case: GrammarCase, strategy: str) -> CompiledGrammar:
    vocabulary = Vocabulary.from_bytes([*case.vocabulary, b""], stop_token_ids=len(case.vocabulary))
    try:
        return GrammarCompiler(vocabulary, strategy=strategy).compile_grammar(case.ebnf)
    except UnsupportedGrammar:
        assume(False)
        raise


def choice(text: Sequence[int], matcher: GrammarMatcher | HealingMatcher) -> int:
    """Return the model's choice after a text: mostly one of few tokens, so that texts repeat themselves."""
    found = mask_of(matcher)
    if not found:
        return -1
    return found[zlib.crc32(bytes(token % 251 for token in text[-2:])) % len(found)]


def plain_text(matcher: GrammarMatcher | HealingMatcher) -> list[int]:
    text: list[int] = []
    while len(text) < MOST and not matcher.is_terminated():
        token = choice(text, matcher)
        if token < 0 or not matcher.accept_token(token):
            break
        text.append(token)
    return text


def drafted_text(matcher: GrammarMatcher | HealingMatcher, model: DraftModel) -> tuple[list[int], int]:
    """Decode a text with drafts; return it and the number of passes of the model."""
    text: list[int] = []
    passes = 0
    while len(text) < MOST and not matcher.is_terminated():
        passes += 1
        draft = model.propose(matcher)
        read, twin = [*text], matcher.fork()
        chosen = [choice(read, twin)]
        for token in draft:
            assert twin.accept_token(token), "a draft is allowed"
            read.append(token)
            chosen.append(-1 if twin.is_terminated() else choice(read, twin))
        for token in verify(draft, chosen):
            if token < 0 or len(text) == MOST or matcher.is_terminated() or not matcher.accept_token(token):
                return text, passes
            text.append(token)
            model.learn(matcher)
    return text, passes


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(deadline=None, max_examples=15)
@given(case=grammar_cases(), threshold=st.sampled_from([0.0, 0.1, 0.6]))
def test_greedy_texts_are_those_without_drafts(strategy: str, case: GrammarCase, threshold: float) -> None:
    compiled = compiled_of(case, strategy)
    model = DraftModel(compiled, threshold=threshold)
    expected = plain_text(GrammarMatcher(compiled))
    for _ in range(3):
        text, passes = drafted_text(GrammarMatcher(compiled), model)
        assert text == expected and passes <= max(len(text), 1) + 1


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(deadline=None, max_examples=15)
@given(case=grammar_cases(), data=st.data())
def test_prefixes_of_random_grammars(strategy: str, case: GrammarCase, data: st.DataObject) -> None:
    compiled = compiled_of(case, strategy)
    texts = [token for token in case.vocabulary if token]
    assume(texts)
    prefix = b"".join(data.draw(st.lists(st.sampled_from(texts), min_size=1, max_size=3)))
    begin = data.draw(st.integers(0, len(prefix) - 1))
    prefix = prefix[begin : data.draw(st.integers(begin + 1, len(prefix)))]
    matcher = HealingMatcher(compiled, prefix)
    model = DraftModel(compiled, threshold=0)
    met: list[tuple[bytes, int]] = []
    while matcher.left:
        found = mask_of(matcher)
        assert found == taken_by(matcher) == reference(compiled, matcher.left)
        assert not matcher.is_terminated() and not matcher.is_completed()
        assert model.propose(matcher) == []
        try:
            plan = matcher.shortest_completion()
        except HybridError:
            plan = None
        if plan is not None:
            twins = {token: matcher.fork() for token in found}
            assert all(twin.accept_token(token) for token, twin in twins.items())
            for left in (len(plan), len(plan) + 2):
                closing = [t for t in found if twins[t].can_complete_within(left - 1, brief=True)]
                assert plan[0] in closing and mask_of(matcher, left) == closing
        if not found:
            break
        met.append((matcher.left, data.draw(st.sampled_from(found))))
        assert matcher.accept_token(met[-1][1])
    last, tokens = mask_of(matcher), [token for _, token in met]
    if not matcher.left:
        plain = GrammarMatcher(compiled)
        assert plain.accept_string(b"".join(case.vocabulary[token] for token in tokens)[len(prefix) :])
        assert mask_of(plain) == last
    for steps, (before, _) in enumerate(reversed(met), 1):
        twin = matcher.fork()
        twin.rollback(steps)
        assert twin.left == before and mask_of(twin) == reference(compiled, before)
        with pytest.raises(MatcherError, match="cannot roll back"):
            twin.rollback(len(met) - steps + 1)
        assert all(twin.accept_token(token) for token in tokens[-steps:]) and mask_of(twin) == last
    expected = plain_text(HealingMatcher(compiled, prefix))
    for _ in range(2):
        assert drafted_text(HealingMatcher(compiled, prefix), model)[0] == expected
