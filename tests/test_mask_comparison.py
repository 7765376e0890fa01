"""The comparison with plain XGrammar: it must find every wrong bit, but not blame us for XGrammar's errors.

Our side is played by plain XGrammar, by matchers with a deliberate fault, and by an oracle that asks
``accept_token`` for every bit: no part of these tests needs a compiled grammar of ours.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import xgrammar

from hybrid.testing.comparison import KEEP, Comparison
from hybrid.testing.mask_comparison import compare_along, compare_walk
from hybrid.testing.random_walk import Walker
from hybrid.testing.segmentation import tokenize_greedy, tokenize_random

STOP = 256
"""The stop token of the test vocabulary, which is not text."""

WORDS = [b"}]", b" }]", b'"}', b"ab", b"abc", b"bc", b'":', b", ", b"ab", b"\n  ", b"true"]
TOKENS = [bytes([value]) for value in range(256)] + [b""] + WORDS


@dataclass(eq=False)
class Weak:
    """A vocabulary with only the two attributes that the tokenisers need."""

    tokens: list[bytes]
    stop_token_ids: list[int]


def vocabulary(*tokens: bytes, stops: tuple[int, ...] = ()) -> Any:
    return Weak(tokens=list(tokens), stop_token_ids=list(stops))


@pytest.fixture(scope="module")
def compiler() -> xgrammar.GrammarCompiler:
    info = xgrammar.TokenizerInfo(
        TOKENS, xgrammar.VocabType.RAW, vocab_size=len(TOKENS) + 3, stop_token_ids=[STOP]
    )
    return xgrammar.GrammarCompiler(info, max_threads=1)


class Twisted:
    """A plain matcher whose answers may be changed before they are returned."""

    def __init__(
        self,
        compiled: Any,
        fill: Callable[[Twisted, Any], Any] | None = None,
        accept: Callable[[Twisted, int], Any] | None = None,
        inner: Any = None,
    ) -> None:
        self.compiled = compiled
        self.inner = xgrammar.GrammarMatcher(compiled) if inner is None else inner
        self.fill = fill
        self.accept = accept

    def fill_next_token_bitmask(self, bitmask: Any) -> bool:
        need_apply = self.inner.fill_next_token_bitmask(bitmask)
        changed = self.fill(self, bitmask) if self.fill else None
        return need_apply if changed is None else changed

    def accept_token(self, token_id: int) -> bool:
        changed = self.accept(self, token_id) if self.accept else None
        return self.inner.accept_token(token_id) if changed is None else changed

    def fork(self) -> Twisted:
        return Twisted(self.compiled, self.fill, self.accept, self.inner.fork())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def ask_every_token(matcher: Twisted, bitmask: Any) -> None:
    """Fill the exact mask: each bit is the answer of ``accept_token``."""
    bits = np.zeros(bitmask.shape[1] * 32, np.uint8)
    bits[: len(TOKENS)] = [matcher.inner.fork().accept_token(i) for i in range(len(TOKENS))]
    bitmask.numpy()[0] = np.packbits(bits, bitorder="little").view(np.int32)


def flip(token_id: int) -> Callable[[Twisted, Any], None]:
    def fill(_: Twisted, bitmask: Any) -> None:
        bitmask.numpy()[0, token_id // 32] ^= np.array(1 << (token_id % 32), np.uint32).view(np.int32)

    return fill


# The tokenisers.


def test_greedy_takes_the_longest_token() -> None:
    words = vocabulary(b"a", b"b", b"c", b"ab", b"abc", b"cc")
    assert tokenize_greedy(words, b"abccabb") == [4, 2, 3, 1]
    assert tokenize_greedy(words, b"") == []


def test_greedy_leaves_a_rest_that_can_be_spelled() -> None:
    assert tokenize_greedy(vocabulary(b"ab", b"a", b"bcd"), b"abcd") == [1, 2]


@pytest.mark.parametrize("seed", range(20))
def test_random_tokens_spell_the_text(seed: int) -> None:
    words = Weak(tokens=TOKENS, stop_token_ids=[STOP])
    text = b'{"abc": true, "ab": ["abcabc"]}\n  '
    ids = tokenize_random(words, text, seed)
    assert b"".join(TOKENS[i] for i in ids) == text
    assert ids == tokenize_random(words, text, seed)


def test_random_tokens_take_every_id_of_a_byte_string() -> None:
    words = vocabulary(b"a", b"b", b"ab", b"ab")
    assert {tuple(tokenize_random(words, b"ab", seed)) for seed in range(60)} == {(0, 1), (2,), (3,)}


def test_random_tokens_never_get_stuck() -> None:
    words = vocabulary(b"ab", b"a", b"bcd", b"b")
    assert {tuple(tokenize_random(words, b"abcd", seed)) for seed in range(20)} == {(1, 2)}


@pytest.mark.parametrize("tokenize", [tokenize_greedy, lambda v, data: tokenize_random(v, data, 1)])
def test_text_that_no_tokens_spell_is_refused(tokenize: Callable[[Any, bytes], list[int]]) -> None:
    with pytest.raises(ValueError, match=r"no sequence of tokens spells b'axb'.*b'x' would help"):
        tokenize(vocabulary(b"a", b"b"), b"axb")


def test_stop_tokens_and_empty_tokens_are_no_text() -> None:
    assert tokenize_greedy(vocabulary(b"ab", b"", b"a", b"b", stops=(0,)), b"ab") == [2, 3]


# Masks.


def test_equal_masks_are_equal(compiler: xgrammar.GrammarCompiler) -> None:
    compiled = compiler.compile_builtin_json_grammar()
    ids = tokenize_random(Weak(tokens=TOKENS, stop_token_ids=[STOP]), b'{"ab": [true, 12, "c"]}', 3)
    found = compare_along(compiled, compiled, [*ids, STOP])
    assert (found.masks, found.equal, found.accepted) == (len(ids) + 1, len(ids) + 1, len(ids) + 1)
    assert found.exact
    assert found.complete
    assert not found.contradictions
    assert len(found.times.fill) == len(found.times.plain_fill) == found.masks
    assert len(found.times.accept) == len(found.times.plain_accept) == found.accepted


def test_a_sequence_is_compared_up_to_the_first_refusal(compiler: xgrammar.GrammarCompiler) -> None:
    compiled = compiler.compile_grammar('root ::= "ab"')
    found = compare_along(compiled, compiled, list(b"axb"))
    assert (found.masks, found.accepted, found.complete, found.exact) == (2, 1, False, True)


@pytest.mark.parametrize("token_id", [0, 31, ord("a"), ord("z"), STOP, len(TOKENS) - 1])
def test_one_wrong_bit_is_a_difference(compiler: xgrammar.GrammarCompiler, token_id: int) -> None:
    compiled = compiler.compile_grammar('root ::= "abc" [0-9]*')
    wrong = Twisted(compiled, fill=flip(token_id))
    found = compare_along(compiled, compiled, list(b"ab"), matcher=wrong)
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
    found = compare_along(compiled, compiled, list(b"ab"), matcher=Twisted(compiled, fill=flip(size)))
    assert found.equal == found.masks == 3
    found = compare_along(compiled, compiled, list(b"ab"), matcher=Twisted(compiled, fill=flip(size - 1)))
    assert found.difference_count == 3


def test_a_row_that_is_not_filled_is_a_difference(compiler: xgrammar.GrammarCompiler) -> None:
    compiled = compiler.compile_builtin_json_grammar()
    wrong = Twisted(compiled)
    wrong.fill_next_token_bitmask = lambda bitmask: True  # type: ignore[method-assign]
    assert not compare_along(compiled, compiled, [], matcher=wrong).exact


def test_an_error_of_xgrammar_is_a_contradiction(compiler: xgrammar.GrammarCompiler) -> None:
    """XGrammar's built-in JSON grammar drops ``}]`` here, which its own ``accept_token`` accepts."""
    compiled = compiler.compile_builtin_json_grammar()
    ids = list(b'[{"a":"x"')
    exact = Twisted(compiled, fill=ask_every_token)
    found = compare_along(compiled, compiled, ids, matcher=exact)
    assert found.exact, found.differences
    here = {item.token for item in found.contradictions if item.text == b'[{"a":"x"'}
    assert here == {b"}]", b" }]"}
    assert all(item.ours and item.accepted and not item.plain for item in found.contradictions)
    assert found.contradicted_masks == found.masks - found.equal > 0
    assert "contradictions" in str(found)


def test_stop_tokens_are_compared_at_the_end(compiler: xgrammar.GrammarCompiler) -> None:
    compiled = compiler.compile_grammar('root ::= "a"')
    refusing = Twisted(compiled, accept=lambda _, token_id: False if token_id == STOP else None)
    found = compare_along(compiled, compiled, list(b"a"), matcher=refusing)
    assert [(item.kind, item.token_id) for item in found.differences] == [("accept", STOP)]


def test_other_answers_are_compared(compiler: xgrammar.GrammarCompiler) -> None:
    compiled = compiler.compile_grammar('root ::= "abc"')

    def kinds(**faults: Any) -> list[str]:
        found = compare_along(compiled, compiled, list(b"ab"), matcher=Twisted(compiled, **faults))
        return [item.kind for item in found.differences]

    def fail(*_: Any) -> None:
        raise ZeroDivisionError("on purpose")

    assert kinds() == []
    assert kinds(accept=lambda _, token_id: False) == ["accept"]
    assert kinds(fill=lambda *_: False) == ["need_apply"] * 3
    assert kinds(fill=fail) == ["error"]
    assert kinds(accept=fail) == ["error"]
    ended = Twisted(compiled)
    ended.is_terminated = lambda: True  # type: ignore[method-assign, attr-defined]
    assert [i.kind for i in compare_along(compiled, compiled, [97], matcher=ended).differences] == [
        "terminated"
    ]


def test_a_run_with_many_differences_ends_early(compiler: xgrammar.GrammarCompiler) -> None:
    compiled = compiler.compile_grammar("root ::= [a-z]*")
    wrong = Twisted(compiled, fill=flip(ord("0")))
    found = compare_along(compiled, compiled, [97] * 50, matcher=wrong, max_differences=4)
    assert found.difference_count == 5
    assert not found.complete


# Walks.


def test_walks_are_repeatable_and_go_far(compiler: xgrammar.GrammarCompiler) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"enum": ["x", "yy"]}}}
    compiled = compiler.compile_json_schema(schema, strict_mode=False)
    found = compare_walk(compiled, compiled, 7, 400)
    again = compare_walk(compiled, compiled, 7, 400)
    assert found.masks == found.equal == 400
    assert (again.masks, again.accepted) == (found.masks, found.accepted)
    assert found.complete
    assert found.exact


def test_walks_find_a_wrong_bit(compiler: xgrammar.GrammarCompiler) -> None:
    compiled = compiler.compile_grammar('root ::= ("a" | "b" "c")* "."')
    other = compiler.compile_grammar('root ::= ("a" | "b" [cd])* "."')
    found = compare_walk(compiled, other, 1, 60)
    assert {item.token for item in found.differences} == {b"d"}
    assert all(item.text.endswith(b"b") for item in found.differences)


def test_walks_go_through_contradictions(compiler: xgrammar.GrammarCompiler) -> None:
    compiled = compiler.compile_builtin_json_grammar()
    total = Comparison()
    for seed in range(10):
        exact = Twisted(compiled, fill=ask_every_token)
        total.add(compare_walk(compiled, compiled, seed, 60, matcher=exact))
    assert total.exact, total.differences
    assert total.masks == 600
    assert not total.shared_errors


def test_walkers_leave_strings() -> None:
    walker = Walker(random.Random(1), TOKENS, [STOP], 0.5)
    drawn = [walker.draw(np.arange(len(TOKENS))) for _ in range(2000)]
    assert drawn.count(ord('"')) > 10
    assert 0 < drawn.count(STOP) < 200
    assert walker.draw(np.array([STOP])) == STOP


def test_draws_from_many_are_allowed_and_varied() -> None:
    """There are too many allowed ids here to list them."""
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


# Sums and classes.


def test_sums_keep_full_counts(compiler: xgrammar.GrammarCompiler) -> None:
    compiled = compiler.compile_grammar("root ::= [a-z]*")
    wrong = Twisted(compiled, fill=flip(ord("0")))
    one = compare_along(compiled, compiled, [97] * 699, matcher=wrong, max_differences=10_000)
    total = Comparison()
    total.add(one)
    total.add(one)
    assert (total.masks, total.difference_count, total.different_masks) == (1400, 1400, 1400)
    assert len(total.differences) == KEEP
    assert len(total.times.fill) == 1400
