"""Masks of "these bytes, then the grammar" equal those of a slow filter that tests the bytes of every token.

What: prompts and their prefixes on a synthetic tokenizer (``python -m bench healing`` cuts prompts of a real
one at every byte); calls behind the prefix. ``test_drafts_random.py`` walks through prefixes of random
grammars, also with masks that leave room for the end of the text.
When: after a change of `hybrid.healing`, or of code that accepts text.
Limits: the slow filter calls `accept_string` of a new matcher, which other tests compare with XGrammar.
"""

from __future__ import annotations

from functools import cache

import pytest
import torch

from equivalence import ArgumentError, BitmaskError, BudgetExceeded, MatcherError, UnsupportedGrammar
from hybrid import (
    BatchGrammarMatcher,
    Budget,
    CompiledGrammar,
    GrammarCompiler,
    GrammarMatcher,
    Vocabulary,
    allocate_token_bitmask,
)
from hybrid.device import DeviceGather
from hybrid.healing import HealingMatcher, heal
from hybrid.healing.matcher import MOST_PREFIX
from hybrid.healing.token_prefixes import prefixes_of
from tests.generating import TOKENIZER, VOCABULARY
from tests.matchers import STRATEGIES, ids_of, mask_of

pytestmark = pytest.mark.kernels

GRAMMARS = {
    "object": 'root ::= "{" ("\\"yes\\":true" | "\\"no\\":" [0-9]+) "}"',
    "words": 'root ::= ("true" | "yes" | [a-b]+ | "é") ("," root)?',
}
LARK = 'start: (WORD ","?)+\nWORD: /[a-z]+/\n'


@cache
def compiled_by(kind: str, name: str) -> CompiledGrammar:
    if kind == "lark":
        return GrammarCompiler(VOCABULARY).compile_lark(LARK)
    return GrammarCompiler(VOCABULARY, strategy=kind).compile_grammar(GRAMMARS[name])


def reference(compiled: CompiledGrammar, left: bytes) -> list[int]:
    """The ids whose bytes begin the remaining prefix, or complete it and go on with text that the grammar
    accepts."""
    vocabulary, found = compiled.vocabulary, []
    for token, text in enumerate(vocabulary.tokens):
        if not text or token in vocabulary.stop_token_ids:
            continue
        crosses = text.startswith(left) and GrammarMatcher(compiled).accept_string(text[len(left) :])
        if left.startswith(text) or crosses:
            found.append(token)
    return found


def after(compiled: CompiledGrammar, text: str | bytes) -> list[int]:
    """The ids that the grammar alone allows after a text."""
    matcher = GrammarMatcher(compiled)
    assert matcher.accept_string(text)
    return mask_of(matcher)


@pytest.mark.parametrize("kind", STRATEGIES)
def test_behind_the_prefix_all_is_the_grammars(kind: str) -> None:
    compiled = compiled_by(kind, "object")
    matcher, plain = HealingMatcher(compiled, "x"), GrammarMatcher(compiled)
    assert matcher.find_jump_forward_string() == 'x{"'
    assert matcher.accept_string('x{"') and plain.accept_string('{"')
    for text in ("no", '":', "1", "}"):
        assert mask_of(matcher) == mask_of(plain)
        assert matcher.find_jump_forward_string() == plain.find_jump_forward_string()
        assert matcher.accept_string(text) and plain.accept_string(text)
    assert matcher.is_completed() and not matcher.is_terminated()
    assert matcher.accept_token(matcher.stop_token_ids[0]) and matcher.is_terminated()
    matcher.rollback(3)
    assert mask_of(matcher) == after(compiled, '{"no":')
    matcher.rollback(3)
    assert matcher.left == b"x" and mask_of(matcher) == reference(compiled, b"x")
    matcher = HealingMatcher(compiled, b"")
    assert matcher.left == b"" and mask_of(matcher) == after(compiled, "")


@pytest.mark.parametrize("kind", STRATEGIES)
def test_batches_take_matchers_within_and_behind_the_prefix(kind: str) -> None:
    compiled = compiled_by(kind, "object")
    within, behind, plain = (
        HealingMatcher(compiled, "xyz"),
        HealingMatcher(compiled, "x"),
        GrammarMatcher(compiled),
    )
    matchers, size = [within, behind, plain], VOCABULARY.size
    assert BatchGrammarMatcher.batch_accept_string(matchers, ["x", 'x{"', '{"']) == [True] * 3
    bitmask = allocate_token_bitmask(3, size)
    BatchGrammarMatcher().batch_fill_next_token_bitmask(matchers, bitmask)
    wanted = [reference(compiled, b"yz"), after(compiled, '{"'), after(compiled, '{"')]
    assert [ids_of(row, size) for row in bitmask] == wanted
    tokens = [wanted[0][0], wanted[1][0], wanted[2][0]]
    assert BatchGrammarMatcher.batch_accept_token(matchers, tokens) == [True] * 3
    with pytest.raises(MatcherError, match="only 2 were made"):
        BatchGrammarMatcher.batch_rollback(matchers, [2, 3, 2])
    assert behind.left == b"" and within.left == b"yz"[len(VOCABULARY.tokens[tokens[0]]) :]
    BatchGrammarMatcher.batch_rollback(matchers, 2)
    assert (within.left, behind.left) == (b"xyz", b"x")
    gather = DeviceGather(size, "cpu")
    gather.fill(matchers)
    logits = torch.zeros(3, size)
    gather.apply(logits)
    wanted = [reference(compiled, b"xyz"), reference(compiled, b"x"), after(compiled, "")]
    assert [torch.nonzero(row == 0).flatten().tolist() for row in logits] == wanted


@pytest.mark.parametrize("kind", STRATEGIES)
def test_the_rest_of_a_prefix_is_explained(kind: str) -> None:
    matcher = HealingMatcher(compiled_by(kind, "object"), "xy")
    assert matcher.accept_string("x")
    told = matcher.explain()
    assert told.forced == 'y{"' and told.next_bytes == frozenset(b"y") and told.sentence == "expected 'y{\"'"
    refusal = matcher.explain_refusal('y{"a')
    assert refusal is not None and refusal.offset == 3 and "yes" in refusal.explanation.sentence
    with pytest.raises(MatcherError, match="b'y' is left"):
        matcher.limit_tokens(9)
    assert matcher.limit_tokens(None) is None  # there is none
    assert mask_of(matcher) == reference(matcher.compiled_grammar, b"y")
    assert not matcher.accept_token(after(matcher.compiled_grammar, "")[0])
    assert matcher.accept_string("y") and matcher.limit_tokens(9) and matcher.tokens_left == 9
    matcher.rollback(2)
    assert matcher.left == b"xy" and matcher.tokens_left is None


def test_an_empty_text_is_a_step_as_in_other_matchers() -> None:
    compiled = compiled_by("classifier", "words")
    for matcher in (HealingMatcher(compiled, "x"), GrammarMatcher(compiled)):
        assert matcher.accept_string("") and matcher.accept_string(b"")
        matcher.rollback(2)
        with pytest.raises(MatcherError):
            matcher.rollback(1)


def test_masks_of_a_lark_grammar_are_those_of_a_filter() -> None:
    compiled = compiled_by("lark", "")
    for prefix in (b"t", b'x{"', b"true", b"yesno", "é".encode(), b'":'):
        assert mask_of(HealingMatcher(compiled, prefix)) == reference(compiled, prefix)


def test_closing_where_nothing_ends() -> None:
    compiled = GrammarCompiler(VOCABULARY, strategy="classifier").compile_grammar('root ::= "a" root')
    matcher = HealingMatcher(compiled, "tr")
    assert matcher.shortest_completion() is None
    with pytest.raises(MatcherError, match="no tokens complete it"):
        mask_of(matcher, 9)
    with pytest.raises(UnsupportedGrammar, match="Lark"):
        mask_of(HealingMatcher(compiled_by("lark", ""), "tr"), 9)


@pytest.mark.parametrize("strategy", ["auto", "classifier", "engine"])
def test_a_tag_that_begins_with_a_token_id_is_read_behind_the_prefix_only(strategy: str) -> None:
    """A token that spells the prefix and more is read as text, never as the id that the tag names."""
    tokens = [b'"/>.\n', b'"/>.', b"\n", b'"/>.\n<t>', b"<t>", b"a", b'"', b"/>.\na", b""]
    vocabulary = Vocabulary.from_bytes(tokens, stop_token_ids=8)
    elements = [{"type": "token", "token": 4}, {"type": "const_string", "value": "a"}]
    tag = {"type": "structural_tag", "format": {"type": "sequence", "elements": elements}}
    compiled = GrammarCompiler(vocabulary, strategy=strategy).compile_structural_tag(tag)
    matcher = HealingMatcher(compiled, b'"/>.\n')
    assert mask_of(matcher) == [0, 1, 6]  # not 3: its "<t>" is text, and the tag begins with the id 4
    assert not matcher.accept_token(3) and not matcher.accept_token(4)
    assert matcher.accept_token(1) and mask_of(matcher) == [2]
    assert matcher.accept_token(2) and mask_of(matcher) == [4]
    assert matcher.accept_token(4) and matcher.accept_token(5) and matcher.is_completed()


def test_what_is_given_back() -> None:
    stop = VOCABULARY.stop_token_ids[0]
    ids = TOKENIZER("yes no", add_special_tokens=False)["input_ids"]
    assert heal(ids, VOCABULARY, tokens=0) == (ids, b"")
    assert heal(ids, TOKENIZER) == (ids[:-1], b"no")
    assert heal([*ids, stop], VOCABULARY) == ([*ids, stop], b"")
    assert heal([stop, *ids], VOCABULARY, tokens=100) == ([stop], b"yes no")
    assert heal([], VOCABULARY) == ([], b"")
    for wrong in ("ids", [-1], [1.5], None):
        with pytest.raises(ArgumentError):
            heal(wrong, VOCABULARY)
    with pytest.raises(ArgumentError, match=f"must be from 0 to {VOCABULARY.size - 1}, but"):
        heal([VOCABULARY.size], VOCABULARY)
    first = VOCABULARY.tokens[0]
    assert first and heal([stop, 0], VOCABULARY) == ([stop], first)


@pytest.mark.parametrize("kind", ["classifier", "engine"])
def test_a_tree_of_drafts(kind: str) -> None:
    matcher = HealingMatcher(compiled_by(kind, "words"), "y")
    words = (len(VOCABULARY.tokens) + 31) // 32
    token = [0, *(VOCABULARY.tokens.index(text) for text in (b"y", b"a", b"x"))]
    child, sibling = [1, 2, -1, -1], [-1, -1, 3, -1]
    found = torch.full((4, words), 7, dtype=torch.int32)
    assert matcher.traverse_draft_tree(torch.tensor(child), torch.tensor(sibling), torch.tensor(token), found)
    assert matcher.left == b"y" and not found[3].any(), "the grammar does not allow x"
    expected = allocate_token_bitmask(3, VOCABULARY.size)
    for row in range(3):
        assert not row or matcher.accept_token(token[row])
        matcher.fill_next_token_bitmask(expected, row)
    assert torch.equal(found[:3], expected)


def test_beginnings() -> None:
    vocabulary = Vocabulary.from_bytes([b"b", b"a", b"ab", b"abc", b"", b"ab", b"ac"], stop_token_ids=4)
    found = prefixes_of(vocabulary)
    assert found is prefixes_of(vocabulary)
    assert found.longer(b"a").tolist() == [2, 5, 3, 6] and found.longer(b"").tolist() == [1, 2, 5, 3, 6, 0]
    assert found.longer(b"ab").tolist() == [3] and found.longer(b"x").size == found.longer(b"abcd").size == 0
    assert found.within(b"abd") == [1, 2, 5] and found.within(b"x") == []
    assert found.longest(b"abd") == 2 and found.longest(b"x") == -1


@pytest.mark.parametrize("seconds", [0.01, 1e-6], ids=["for some tokens", "for no byte"])
def test_all_tokens_behind_a_prefix_have_the_time_of_one_mask(seconds: float) -> None:
    vocabulary = Vocabulary.from_bytes([*(b" " * count for count in range(1, 9)), b""], stop_token_ids=8)
    compiler = GrammarCompiler(vocabulary, strategy="engine", budget=Budget(mask_seconds=seconds))
    compiled = compiler.compile_grammar('root ::= ((" "{0,500} "b"?){0,500} "c"?){0,500}')
    matcher, row = HealingMatcher(compiled, " "), torch.zeros(1, 1, dtype=torch.int32)
    with pytest.raises(BudgetExceeded, match="a mask took"):
        matcher.fill_next_token_bitmask(row)
    assert matcher.left == b" " and not row.any()


def test_misuse() -> None:
    compiled = compiled_by("classifier", "words")
    for wrong in (3, None, "x" * (MOST_PREFIX + 1)):
        with pytest.raises(ArgumentError):
            HealingMatcher(compiled, wrong)
    assert HealingMatcher(compiled, "x" * MOST_PREFIX).left == b"x" * MOST_PREFIX
    matcher = HealingMatcher(compiled, "tr")
    with pytest.raises(BitmaskError):
        matcher.fill_next_token_bitmask(torch.zeros(3))
    with pytest.raises(ArgumentError):
        matcher.accept_token("t")
    assert not matcher.accept_token(-1) and not matcher.accept_token(1 << 40)
    assert not matcher.accept_string("tx")
    assert matcher.left == b"tr"


def test_stop_ids_with_text_spell_no_prefix() -> None:
    tokens = [b"t", b"tr", b"true", b"rue", b"tr", b"true"]
    vocabulary = Vocabulary.from_bytes(tokens, stop_token_ids=[4, 5])
    matcher = HealingMatcher(GrammarCompiler(vocabulary).compile_grammar('root ::= "e"'), b"tru")
    assert mask_of(matcher) == [0, 1, 2]
    assert not matcher.accept_token(4) and not matcher.accept_token(5)
    assert matcher.accept_token(0) and mask_of(matcher) == [3]
