"""All rows of a step in one call: masks, also after drafts, are the same as row by row.

What: random drafts (accepted, refused, stop tokens, ids that do not exist, padding) of several matchers on
every strategy, beside a loop that accepts, fills and rolls back as vLLM's does; threads that fill while
tables grow; exhausted budgets of tables; trees in one call; tables of wrong arguments.
When: after any change of `hybrid.api.draft_rows` or `hybrid.classifier.lookup`.
Limits: small invented vocabularies.
"""

from __future__ import annotations

import itertools
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence import ArgumentError, BatchError, BitmaskError, HybridError, MatcherError
from hybrid import BatchGrammarMatcher, CompiledGrammar, GrammarCompiler, GrammarMatcher, Vocabulary
from hybrid.api.draft_rows import fill_trees
from tests.matchers import STRATEGIES, mask_of
from tests.misuse import WORDS, A, B, buffer, unmoved, untouched

pytestmark = pytest.mark.kernels

SIZE, STOP = 70, 5
VOCABULARY = Vocabulary.from_bytes(
    [b"a", b"b", b"ab", b"c", b"abc", b"", b'"'], stop_token_ids=STOP, vocab_size=SIZE
)
GRAMMARS = ('root ::= "a"* "b" "c"?', 'root ::= ("a" | "ab" | "abc") root | "c"', "root ::= [a-c]{2,4}")
LARK = 'start: A* "b" "c"?\nA: "a"'


def compiled_anew() -> list[CompiledGrammar]:
    """Return grammars of all strategies that have not been used yet."""
    made = [
        GrammarCompiler(VOCABULARY, strategy=strategy).compile_grammar(text)
        for strategy, text in itertools.product(STRATEGIES, GRAMMARS)
    ]
    return [*made, GrammarCompiler(VOCABULARY).compile_lark(LARK)]


COMPILED = compiled_anew()


def by_rows(matcher: GrammarMatcher, drafts: list[int], rows: torch.Tensor) -> int:
    """Write the rows of a request as vLLM's loop does; return how many drafts were accepted."""
    taken, padded = 0, False
    for at, draft in enumerate([*drafts, -1]):
        if padded or matcher.is_terminated():
            rows[at] = -1
        else:
            matcher.fill_next_token_bitmask(rows, at)
        if draft == -1:
            padded = True
        elif not padded:
            if matcher.is_terminated() or not matcher.accept_token(draft):
                rows[at + 1 :] = rows[at]
                break
            taken += 1
    matcher.rollback(taken)
    return taken


def check(matchers: list[GrammarMatcher], drafts: list[list[int]], gap: int = 0) -> list[int]:
    """Check that both ways write the same rows, and no others; return how many drafts were accepted."""
    firsts = [0, *itertools.accumulate(len(one) + 1 + gap for one in drafts)]
    found, expected = buffer(3 * firsts[-1]).view(-1, 3), buffer(3 * firsts[-1]).view(-1, 3)
    told = BatchGrammarMatcher.batch_fill_draft_bitmask(matchers, found, drafts, firsts[:-1] if gap else None)
    taken = [
        by_rows(matcher, one, expected[first : first + len(one) + 1])
        for matcher, one, first in zip(matchers, drafts, firsts, strict=False)
    ]
    assert told == taken
    assert found.equal(expected), (drafts, found.tolist(), expected.tolist())
    return taken


@settings(deadline=None, max_examples=40)
@given(data=st.data(), is_new=st.booleans(), ends_without_stop=st.booleans(), gap=st.integers(0, 2))
def test_random_drafts(data: st.DataObject, is_new: bool, ends_without_stop: bool, gap: int) -> None:
    grammars = compiled_anew() if is_new else COMPILED
    chosen = data.draw(st.lists(st.integers(0, len(grammars) - 1), min_size=1, max_size=7))
    odd = st.one_of(st.integers(0, 6), st.sampled_from([STOP, -1, 64, SIZE, 1 << 40, -7]))
    matchers, drafts = [], []
    for one in chosen:
        # the second one says which drafts are allowed, so that tables of the first one may be new
        matcher, twin = (
            GrammarMatcher(of[one], terminate_without_stop_token=ends_without_stop and one % 2 == 0)
            for of in (grammars, COMPILED)
        )
        for token in data.draw(st.lists(st.integers(0, 6), max_size=2)):
            for each in (matcher, twin):
                if each.accept_token(token) and each.is_terminated():
                    each.rollback(1)
        draft: list[int] = []
        for is_odd in data.draw(st.lists(st.sampled_from([False, False, True]), max_size=4)):
            ids = [] if twin.is_terminated() else mask_of(twin)
            draft.append(data.draw(odd if is_odd or not ids else st.sampled_from(ids)))
            twin.accept_token(draft[-1])
        matchers.append(matcher)
        drafts.append(draft)
    check(matchers, drafts, gap)
    check(matchers, drafts)  # nothing has moved, and everything is cached now


def test_full_tables_are_left_to_each_matcher() -> None:
    compiled = compiled_anew()[1]
    matchers = [GrammarMatcher(compiled) for _ in range(6)]
    assert compiled.classifier is not None
    compiled.classifier.session.left = 0
    check(matchers, [[0, 2], [2], [4, 0], [3, STOP], [], [1]])


@pytest.mark.parametrize("n_matchers", [3, 40])
def test_rows_are_filled_while_tables_grow(n_matchers: int) -> None:
    """Tables are replaced while other threads read them without the interpreter's lock."""
    vocabulary = Vocabulary.from_bytes(
        [bytes([byte]) for byte in range(256)] + [b"ab", b'": ', b"]}", b""], stop_token_ids=259
    )
    compiled = GrammarCompiler(vocabulary, strategy="classifier").compile_builtin_json_grammar()
    ways = [
        (b"{", b'"x, ]'), (b'{"a', b'"x, ]'), (b'{"a": ', b"1x, ]"), (b"[1", b"1x, ]"), (b"[1, ", b'"x, ]'),
        (b"[true", b",x, ]"), (b'["\\u12', b"3x, ]"),
    ]  # fmt: skip
    matchers, ids = [], []
    for at in range(n_matchers):
        read, draft = ways[at % len(ways)]
        matchers.append(GrammarMatcher(compiled))
        assert matchers[at].accept_string(read)
        ids.append(list(draft[: 1 + at % 5]))
    n_rows = sum(map(len, ids)) + n_matchers
    expected = buffer(n_rows * 9).view(n_rows, 9)
    taken = BatchGrammarMatcher.batch_fill_draft_bitmask(matchers, expected, ids)
    done = threading.Event()

    def grow(seed: int) -> int:
        """Read other texts, so that steps and masks are met."""
        randomness, count = random.Random(seed), 0
        row = buffer(9).view(1, 9)
        while not done.is_set():
            matcher = GrammarMatcher(compiled)
            matcher.accept_string(b'{"')
            for _ in range(40):
                count += matcher.accept_token(randomness.choice(b'ab":,[]{}01e. '))
                matcher.fill_next_token_bitmask(row)
        return count

    def fill(twins: list[GrammarMatcher]) -> bool:
        for _ in range(150):
            bitmask = buffer(n_rows * 9).view(n_rows, 9)
            told = BatchGrammarMatcher.batch_fill_draft_bitmask(twins, bitmask, ids)
            if told != taken or not bitmask.equal(expected):
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        growing = [pool.submit(grow, seed) for seed in range(2)]
        try:
            twins = [[matcher.fork() for matcher in matchers] for _ in range(2)]
            assert all(pool.map(fill, twins))
        finally:
            done.set()
        assert all(one.result() > 0 for one in growing)


TREES = (
    [[1, 3, -1, -1], [-1, 2, -1, -1], [0, A, B, A]],
    [[1, 2, 3, -1], [-1, -1, -1, -1], [0, 2, 3, STOP]],
    [[2, -1, 3, 1], [-1, -1, -1, -1], [0, STOP, 3, 1 << 40]],
)
"""The first children, next siblings and tokens of different trees."""


@pytest.mark.parametrize("writes_zeros", [True, False])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_trees_of_many_matchers_are_filled_in_one_call(strategy: str, writes_zeros: bool) -> None:
    compiler = GrammarCompiler(VOCABULARY, strategy=strategy)
    matchers = [GrammarMatcher(compiler.compile_grammar(grammar)) for grammar in GRAMMARS]
    child, sibling, token = (torch.tensor(part) for part in zip(*TREES, strict=True))
    found = buffer(3 * 20).view(20, 3)
    rows = matchers[0]._rows_of(found)
    for finds in (False, True, True):
        left = fill_trees(
            matchers, rows, [0, 8, 16], child.numpy(), sibling.numpy(), token.numpy(), writes_zeros, finds
        )
        if strategy != "classifier" or not finds:
            assert left == [0, 1, 2] and untouched(found)
    if strategy != "classifier":
        return
    assert left == []
    for at, matcher in enumerate(matchers):
        expected = buffer(12).view(4, 3)
        assert matcher.traverse_draft_tree(child[at], sibling[at], token[at], expected)
        if not writes_zeros:
            expected[~expected.any(dim=1)] = buffer(3)
        assert found[8 * at : 8 * at + 4].equal(expected)
    assert untouched(found[4:8].clone(), found[12:16].clone())


NO_LIST = "drafts must be a list of lists of ids, but is"
WRONG: dict[str, tuple[Any, Any, type[HybridError], str]] = {
    "fewer lists": ([[A]], None, BatchError, r"one element for each matcher \(2\), but has 1"),
    "one list": ([A, B], None, ArgumentError, "drafts"),
    "no list": (None, None, ArgumentError, f"{NO_LIST} None"),
    "text": ("ab", None, ArgumentError, f"{NO_LIST} 'ab'"),
    "ids in text": ([["a"], []], None, ArgumentError, "drafts"),
    "half an id": ([[A], [0.5]], None, ArgumentError, "drafts"),
    "rows that overlap": ([[A], []], [0, 1], BitmaskError, "row 1 is the first row of a matcher"),
    "a row twice": ([[], []], [2, 2], BitmaskError, "row 2 is the first row of a matcher"),
    "no such row": (
        [[A], [A, B]],
        [0, 2],
        BitmaskError,
        "row from 0 to 3, but is 4; the bitmask has 4 rows, and each",
    ),
    "a row below 0": ([[A], []], [0, -1], BitmaskError, "index must be a row from 0 to 3, but is -1"),
    "fewer rows": ([[A], []], [0], BitmaskError, "indices must have one element for each matcher"),
}


@pytest.mark.parametrize(("drafts", "indices", "error", "message"), WRONG.values(), ids=WRONG)
def test_wrong_drafts_write_nothing(
    matcher: GrammarMatcher, drafts: Any, indices: Any, error: type[HybridError], message: str
) -> None:
    twin, bitmask = matcher.fork(), buffer(4 * WORDS).view(4, WORDS)
    with pytest.raises(error, match=message):
        BatchGrammarMatcher.batch_fill_draft_bitmask([matcher, twin], bitmask, drafts, indices)
    assert untouched(bitmask) and unmoved(matcher) and unmoved(twin)


def test_numbers_of_numpy_are_drafts(matcher: GrammarMatcher) -> None:
    bitmask, other = buffer(3 * WORDS).view(3, WORDS), buffer(3 * WORDS).view(3, WORDS)
    batch = BatchGrammarMatcher()
    assert batch.batch_fill_draft_bitmask([matcher], bitmask, [np.array([A, B])]) == [2]  # type: ignore[list-item]
    assert batch.batch_fill_draft_bitmask([matcher], other, [(A, B)]) == [2]
    assert bitmask.equal(other) and unmoved(matcher)
    assert batch.batch_fill_draft_bitmask([], bitmask, []) == []


def test_a_matcher_that_has_ended_is_refused(matcher: GrammarMatcher) -> None:
    for token in (A, B, 3):
        assert matcher.accept_token(token)
    bitmask = buffer(2 * WORDS).view(2, WORDS)
    with pytest.raises(MatcherError, match="terminated"):
        BatchGrammarMatcher.batch_fill_draft_bitmask([matcher.fork(), matcher], bitmask, [[], []])
    assert untouched(bitmask)
