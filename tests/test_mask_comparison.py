"""The comparison with plain XGrammar: it must find every wrong bit, but not blame us for XGrammar's errors.

Our side is played by plain XGrammar, by matchers with a deliberate fault, and by an oracle that asks
``accept_token`` for every bit: no part of these tests needs a compiled grammar of ours.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import xgrammar

from equivalence import Vocabulary
from hybrid.testing.comparison import KEEP, Comparison
from hybrid.testing.mask_comparison import compare_along, compare_walk
from hybrid.testing.random_walk import Walker
from hybrid.testing.segmentation import tokenize_greedy, tokenize_random
from tests.matchers import words_of

STOP = 256
"""The stop token of the test vocabulary, which is not text."""

WORDS = [b"}]", b" }]", b'"}', b"ab", b"abc", b"bc", b'":', b", ", b"ab", b"\n  ", b"true"]
TOKENS = [bytes([value]) for value in range(256)] + [b""] + WORDS
VOCABULARY = Vocabulary.from_bytes(TOKENS, stop_token_ids=STOP, vocab_size=len(TOKENS) + 3)


@pytest.fixture(scope="module")
def compiler() -> xgrammar.GrammarCompiler:
    return xgrammar.GrammarCompiler(VOCABULARY.tokenizer_info, max_threads=1)


def unchanged(*_: Any) -> None:
    return None


class Twisted:
    """A plain matcher whose answers may be changed before they are returned."""

    def __init__(
        self, compiled: Any, fill: Any = unchanged, accept: Any = unchanged, inner: Any = None
    ) -> None:
        self.compiled, self.fill, self.accept = compiled, fill, accept
        self.inner = inner or xgrammar.GrammarMatcher(compiled)

    def fill_next_token_bitmask(self, bitmask: Any) -> bool:
        need_apply = self.inner.fill_next_token_bitmask(bitmask)
        changed = self.fill(self, bitmask)
        return need_apply if changed is None else changed

    def accept_token(self, token_id: int) -> bool:
        changed = self.accept(self, token_id)
        return self.inner.accept_token(token_id) if changed is None else changed

    def fork(self) -> Twisted:
        return Twisted(self.compiled, self.fill, self.accept, self.inner.fork())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def ask_every_token(matcher: Twisted, bitmask: Any) -> None:
    """Fill the exact mask: each bit is the answer of ``accept_token``."""
    taken = [matcher.inner.fork().accept_token(i) for i in range(len(TOKENS))]
    bitmask.numpy()[0] = words_of(np.array(taken)).view(np.int32)


def flip(token_id: int) -> Callable[[Twisted, Any], None]:
    def fill(_: Twisted, bitmask: Any) -> None:
        bitmask.numpy()[0, token_id // 32] ^= np.array(1 << (token_id % 32), np.uint32).view(np.int32)

    return fill


# --- The tokenisers --------------------------------------------------------------------------------------


def test_tokens_spell_a_text() -> None:
    greedy: list[int] | None
    random_ones: set[tuple[int, ...]] | None
    for tokens, text, greedy, random_ones in (
        ([b"a", b"b", b"c", b"ab", b"abc", b"cc"], b"abccabb", [4, 2, 3, 1], None),  # the longest token first
        ([b"a"], b"", [], {()}),
        ([b"ab", b"a", b"bcd", b"b"], b"abcd", [1, 2], {(1, 2)}),  # what is left must be spelled, too
        ([b"a", b"b", b"ab", b"ab"], b"ab", None, {(0, 1), (2,), (3,)}),  # each id of a text
        ([b"ab", b"", b"a", b"b"], b"ab", [2, 3], {(2, 3)}),  # the stop token is no text
    ):
        words = Vocabulary.from_bytes(tokens, stop_token_ids=[0] if b"" in tokens else [])
        drawn = {tuple(tokenize_random(words, text, seed)) for seed in range(60)}
        assert random_ones is None or drawn == random_ones
        assert greedy is None or tokenize_greedy(words, text) == greedy
        assert all(b"".join(tokens[i] for i in ids) == text for ids in drawn)
        assert tokenize_random(words, text, 5) == tokenize_random(words, text, 5)


@pytest.mark.parametrize("tokenize", [tokenize_greedy, partial(tokenize_random, seed=1)])
def test_text_that_no_tokens_spell_is_refused(tokenize: Callable[[Any, bytes], list[int]]) -> None:
    with pytest.raises(ValueError, match=r"no sequence of tokens spells b'axb'.*b'x' would help"):
        tokenize(Vocabulary.from_bytes([b"a", b"b"]), b"axb")


# --- Masks -----------------------------------------------------------------------------------------------


def test_equal_masks_are_equal(compiler: xgrammar.GrammarCompiler) -> None:
    compiled = compiler.compile_builtin_json_grammar()
    ids = [*tokenize_random(VOCABULARY, b'{"ab": [true, 12, "c"]}', 3), STOP]
    found = compare_along(compiled, compiled, ids)
    assert found.masks == found.equal == found.accepted == len(ids)
    assert found.exact and found.complete and not found.contradictions
    assert len(found.times.fill) == len(found.times.plain_fill) == found.masks
    assert len(found.times.accept) == len(found.times.plain_accept) == found.accepted


@pytest.mark.parametrize("token_id", [0, 31, ord("a"), ord("z"), STOP, len(TOKENS) - 1])
def test_one_wrong_bit_is_a_difference(compiler: xgrammar.GrammarCompiler, token_id: int) -> None:
    compiled = compiler.compile_grammar('root ::= "abc" [0-9]*')
    found = compare_along(compiled, compiled, list(b"ab"), matcher=Twisted(compiled, fill=flip(token_id)))
    assert (found.masks, found.equal, found.difference_count, found.different_masks) == (3, 0, 3, 3)
    assert not found.exact
    last = found.differences[-1]
    assert (last.kind, last.step, last.token_id, last.token) == ("mask", 2, token_id, TOKENS[token_id])
    assert (last.prefix, last.text) == ((ord("a"), ord("b")), b"ab")
    assert last.ours != last.plain == last.accepted


def test_bits_behind_the_vocabulary_do_not_count(compiler: xgrammar.GrammarCompiler) -> None:
    compiled = compiler.compile_grammar('root ::= "ab"')
    size = compiled.tokenizer_info.vocab_size
    assert size % 32
    for token_id, differences in ((size, 0), (size - 1, 3)):
        wrong = Twisted(compiled, fill=flip(token_id))
        assert compare_along(compiled, compiled, list(b"ab"), matcher=wrong).difference_count == differences


def test_an_error_of_xgrammar_is_a_contradiction(compiler: xgrammar.GrammarCompiler) -> None:
    """XGrammar's built-in JSON grammar drops ``}]`` here, which its own ``accept_token`` accepts."""
    compiled = compiler.compile_builtin_json_grammar()
    ids = list(b'[{"a":"x"')
    found = compare_along(compiled, compiled, ids, matcher=Twisted(compiled, fill=ask_every_token))
    assert found.exact, found.differences
    here = {item.token for item in found.contradictions if item.text == b'[{"a":"x"'}
    assert here == {b"}]", b" }]"}
    assert all(item.ours and item.accepted and not item.plain for item in found.contradictions)
    assert found.contradicted_masks == found.masks - found.equal > 0
    assert "contradictions" in str(found)


def test_other_answers_are_compared(compiler: xgrammar.GrammarCompiler) -> None:
    compiled = compiler.compile_grammar('root ::= "ab"')
    ended, unfilled = Twisted(compiled), Twisted(compiled)
    ended.is_terminated = lambda: True  # type: ignore[attr-defined]
    unfilled.fill_next_token_bitmask = lambda bitmask: True  # type: ignore[method-assign]
    fail = Mock(side_effect=ZeroDivisionError("on purpose"))
    for wrong, kinds in (
        (Twisted(compiled), []),
        (Twisted(compiled, accept=lambda _, token_id: False), ["accept"]),
        (Twisted(compiled, accept=lambda _, token_id: False if token_id == STOP else None), ["accept"]),
        (Twisted(compiled, fill=lambda *_: False), ["need_apply"] * 3),
        (Twisted(compiled, fill=fail), ["error"]),
        (Twisted(compiled, accept=fail), ["error"]),
        (ended, ["terminated"]),
    ):
        found = compare_along(compiled, compiled, list(b"ab"), matcher=wrong)
        assert [item.kind for item in found.differences] == kinds
    assert not compare_along(compiled, compiled, [], matcher=unfilled).exact


def test_a_run_with_many_differences_ends_early_and_sums_keep_full_counts(
    compiler: xgrammar.GrammarCompiler,
) -> None:
    compiled = compiler.compile_grammar("root ::= [a-z]*")

    def compared(most: int) -> Comparison:
        wrong = Twisted(compiled, fill=flip(ord("0")))
        return compare_along(compiled, compiled, [97] * 699, matcher=wrong, max_differences=most)

    found = compared(4)
    assert found.difference_count == 5 and not found.complete
    total, one = Comparison(), compared(10_000)
    total.add(one)
    total.add(one)
    assert total.masks == total.difference_count == total.different_masks == len(total.times.fill) == 1400
    assert len(total.differences) == KEEP


# --- Walks -----------------------------------------------------------------------------------------------


def test_walks_are_repeatable_and_go_far(compiler: xgrammar.GrammarCompiler) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"enum": ["x", "yy"]}}}
    compiled = compiler.compile_json_schema(schema, strict_mode=False)
    found, again = (compare_walk(compiled, compiled, 7, 400) for _ in range(2))
    assert found.masks == found.equal == again.masks == 400
    assert again.accepted == found.accepted
    assert found.complete and found.exact


def test_walks_find_a_wrong_bit(compiler: xgrammar.GrammarCompiler) -> None:
    compiled = compiler.compile_grammar('root ::= ("a" | "b" "c")* "."')
    other = compiler.compile_grammar('root ::= ("a" | "b" [cd])* "."')
    found = compare_walk(compiled, other, 1, 60)
    assert {item.token for item in found.differences} == {b"d"}
    assert all(item.text.endswith(b"b") for item in found.differences)


def test_draws_from_many_are_allowed_and_varied() -> None:
    tokens = [bytes([value]) for value in range(256)] + [b"a%d" % i for i in range(6000)] + [b""]
    stop = len(tokens) - 1
    allowed = np.zeros(len(tokens), np.bool_)
    allowed[[ord('"'), ord("("), 200, 9, stop]] = True
    allowed[1000:5000] = True
    walker = Walker(random.Random(2), tokens, [stop], 0.5)
    drawn = [walker.draw_from(allowed) for _ in range(2000)]
    assert allowed[drawn].all()
    assert {ord('"'), ord("("), 200, 9, stop} <= set(drawn)
    assert drawn.count(ord('"')) > 50 > drawn.count(stop)
    assert sum(token_id >= 1000 for token_id in drawn) > 1000
