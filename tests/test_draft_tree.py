"""Draft trees are traversed as in XGrammar, on every strategy; arrays that are not a tree are refused.

What: random trees over small grammars, side by side with plain XGrammar: masks, temperatures, rows that stay
unwritten, and that the matcher returns to where it was; time thresholds; tables of wrong arguments.
When: after any change of `hybrid.api.draft_tree`, or of accepting, filling and rolling back.
Limits: small invented vocabularies.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import xgrammar
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence import ArgumentError, BitmaskError, HybridError
from hybrid import CompiledGrammar, GrammarCompiler, GrammarMatcher, Vocabulary, allocate_token_bitmask
from tests.misuse import PATTERN, WORDS, buffer, unmoved, untouched

pytestmark = pytest.mark.kernels

VOCABULARY = Vocabulary.from_bytes([b"a", b"b", b"ab", b"c", b"", b"abc"], stop_token_ids=4, vocab_size=64)
GRAMMARS = (
    'root ::= "a"* "b" "c"?',
    'root ::= ("a" | "ab" | "abc") root | "c"',
    "root ::= [a-c]{2,4}",
)
LARK = 'start: A* "b" "c"?\nA: "a"'
COMPILED: dict[tuple[str, str], CompiledGrammar] = {
    **{
        (strategy, text): GrammarCompiler(VOCABULARY, strategy=strategy).compile_grammar(text)
        for strategy, text in itertools.product(("classifier", "representatives", "engine"), GRAMMARS)
    },
    ("lark", GRAMMARS[0]): GrammarCompiler(VOCABULARY).compile_lark(LARK),
}
PLAIN = {
    text: xgrammar.GrammarCompiler(VOCABULARY.tokenizer_info, max_threads=1).compile_grammar(text)
    for text in GRAMMARS
}


def tree_of(parents: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return first children and next siblings of a tree in which node i + 1 has the parent ``parents[i]``."""
    child, sibling = [-1] * (len(parents) + 1), [-1] * (len(parents) + 1)
    for node, parent in enumerate(parents, 1):
        if child[parent] < 0:
            child[parent] = node
        else:
            at = child[parent]
            while sibling[at] >= 0:
                at = sibling[at]
            sibling[at] = node
    return torch.tensor(child), torch.tensor(sibling)


@settings(deadline=None, max_examples=60)
@given(
    data=st.data(), prefix=st.text("abc", max_size=3), unaided=st.booleans(), text=st.sampled_from(GRAMMARS)
)
def test_random_trees(data: st.DataObject, prefix: str, unaided: bool, text: str) -> None:
    parents = [data.draw(st.integers(0, node)) for node in range(data.draw(st.integers(0, 8)))]
    nodes = len(parents) + 1
    tokens = torch.tensor(data.draw(st.lists(st.integers(-2, 70), min_size=nodes, max_size=nodes)))
    usual = torch.tensor(data.draw(st.lists(st.integers(0, 5), min_size=nodes, max_size=nodes)))
    tokens = torch.where(
        torch.tensor(data.draw(st.lists(st.booleans(), min_size=nodes, max_size=nodes))), tokens, usual
    )
    child, sibling = tree_of(parents)
    options: dict[str, Any] = {"terminate_without_stop_token": unaided, "default_temperature": 0.25}
    plain = xgrammar.GrammarMatcher(PLAIN[text], **options)
    if not plain.accept_string(prefix):
        return
    expected, heat = buffer(nodes * 2).view(nodes, 2), torch.zeros(nodes)
    assert plain.traverse_draft_tree(child, sibling, tokens, expected, -1.0, heat)
    for (strategy, of), compiled in COMPILED.items():
        if of != text:
            continue
        ours = GrammarMatcher(compiled, **options)
        assert ours.accept_string(prefix)
        found, warm = buffer(nodes * 2).view(nodes, 2), torch.zeros(nodes)
        assert ours.traverse_draft_tree(child, sibling, tokens, found, temperatures=warm)
        assert found.equal(expected), f"{strategy} {tokens.tolist()}"
        assert warm.equal(heat)
        ours.rollback()
        assert ours.accept_string(prefix)  # nothing else had been read


def chain(nodes: int) -> dict[str, Any]:
    """Return a chain of a's after a root."""
    after = torch.arange(1, nodes + 1)
    after[-1] = -1
    return {
        "retrieve_next_token": after,
        "retrieve_next_sibling": torch.full((nodes,), -1),
        "draft_tokens": torch.zeros(nodes, dtype=torch.int64),
    }


def test_a_chain_deeper_than_recursion(matcher: GrammarMatcher) -> None:
    bitmask = allocate_token_bitmask(3000, 320)
    assert matcher.traverse_draft_tree(**chain(3000), token_bitmask=bitmask)
    assert bitmask[2999, 0] == bitmask[1, 0] != -1 and unmoved(matcher)


def test_time_is_looked_at_behind_the_root(matcher: GrammarMatcher) -> None:
    bitmask = buffer(4 * WORDS).view(4, WORDS)
    assert not matcher.traverse_draft_tree(**chain(4), token_bitmask=bitmask, time_threshold=1e-9)
    assert not bitmask[0].eq(PATTERN).any() and bitmask[1:].eq(PATTERN).all() and unmoved(matcher)
    assert matcher.traverse_draft_tree(**chain(4), token_bitmask=bitmask, time_threshold=60)
    assert not bitmask.eq(PATTERN).all(1).any() and unmoved(matcher)


def test_strides_are_followed(matcher: GrammarMatcher) -> None:
    whole = buffer(8 * 2 * WORDS).view(8, 2 * WORDS)
    arguments = {name: value.repeat_interleave(2)[::2] for name, value in chain(4).items()}
    heat = torch.zeros(8)
    assert matcher.traverse_draft_tree(**arguments, token_bitmask=whole[::2, :WORDS], temperatures=heat[::2])
    assert not whole[::2, :WORDS].eq(PATTERN).all(1).any()
    assert whole[1::2].eq(PATTERN).all() and whole[:, WORDS:].eq(PATTERN).all()
    assert heat.tolist() == [-1.0, 0.0] * 4


def test_an_error_in_the_middle_takes_all_back(
    matcher: GrammarMatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill = matcher._fill
    left = iter(range(3))

    def failing(*arguments: Any) -> bool:
        if next(left, None) is None:
            raise HybridError("no more")
        return fill(*arguments)

    monkeypatch.setattr("hybrid.api.draft_tree.fill_trees", lambda *_: [0])  # so that it is walked
    monkeypatch.setattr(matcher, "_fill", failing)
    with pytest.raises(HybridError, match="no more"):
        matcher.traverse_draft_tree(**chain(6), token_bitmask=allocate_token_bitmask(6, 320))
    monkeypatch.undo()
    assert unmoved(matcher)


def test_a_matcher_that_has_ended_has_a_row_of_zeros(matcher: GrammarMatcher) -> None:
    assert matcher.accept_string("ab") and matcher.accept_token(3)
    bitmask = buffer(2 * WORDS).view(2, WORDS)
    assert matcher.traverse_draft_tree(**chain(2), token_bitmask=bitmask)
    assert bitmask[0].eq(0).all() and bitmask[1].eq(PATTERN).all() and matcher.is_terminated()


def _put(name: str, *values: int) -> Callable[[dict[str, Any]], None]:
    return lambda given: given.update({name: torch.tensor(values)})


def _as(name: str, change: Callable[[Any], Any]) -> Callable[[dict[str, Any]], None]:
    return lambda given: given.update({name: change(given[name])})


LISTS = ("retrieve_next_token", "retrieve_next_sibling", "draft_tokens")
WRONG: dict[str, Callable[[dict[str, Any]], None]] = {
    "a loop": _put("retrieve_next_token", 1, 2, 0),
    "a node twice": _put("retrieve_next_sibling", -1, 2, -1),
    "its own child": _put("retrieve_next_token", 1, 1, -1),
    "its own sibling": _put("retrieve_next_sibling", -1, 1, -1),
    "too far": _put("retrieve_next_token", 1, 3, -1),
    "-2": _put("retrieve_next_token", 1, -2, -1),
    "a root with siblings": _put("retrieve_next_sibling", 1, -1, -1),
    "fewer children": _put("retrieve_next_token", 1, 2),
    "fewer siblings": _put("retrieve_next_sibling", -1, -1),
    "fewer tokens": _put("draft_tokens", 0, 0),
    **{f"int32 {name}": _as(name, lambda value: value.int()) for name in LISTS},
    **{f"two dimensions of {name}": _as(name, lambda value: value[None]) for name in LISTS},
    **{f"a list of {name}": _as(name, lambda value: value.tolist()) for name in LISTS},
    **{f"no memory of {name}": _as(name, lambda value: value.to("meta")) for name in LISTS},
    "no nodes": lambda given: given.update({name: given[name][:0] for name in LISTS}),
    "fewer rows": _as("token_bitmask", lambda value: value[:2]),
    "more rows": _as("token_bitmask", lambda value: value.repeat(2, 1)),
    "one row": _as("token_bitmask", lambda value: value[0]),
    "narrow rows": _as("token_bitmask", lambda value: value[:, 1:]),
    "rows in one place": _as("token_bitmask", lambda value: value[:1].expand(3, WORDS)),
    "int64 rows": _as("token_bitmask", lambda value: value.long()),
    "float64 temperatures": _as("temperatures", lambda value: value.double()),
    "fewer temperatures": _as("temperatures", lambda value: value[:2]),
    "more temperatures": _as("temperatures", lambda value: value.repeat(2)),
    "a list of temperatures": _as("temperatures", lambda value: value.tolist()),
    "temperatures in one place": _as("temperatures", lambda value: value[:1].expand(3)),
    "time in text": lambda given: given.update(time_threshold="1"),
    "time True": lambda given: given.update(time_threshold=True),
    "no time": lambda given: given.update(time_threshold=None),
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_what_is_no_tree_is_refused(
    matcher: GrammarMatcher, change: Callable[[dict[str, Any]], None]
) -> None:
    """XGrammar does not return from a loop, and reads other memory for a node that does not exist."""
    guard, heat = buffer(), torch.full((3,), 7.0)
    given = {**chain(3), "token_bitmask": guard[10 * WORDS : 13 * WORDS].view(3, WORDS), "temperatures": heat}
    change(given)
    with pytest.raises((ArgumentError, BitmaskError)):
        matcher.traverse_draft_tree(**given)
    assert untouched(guard) and heat.eq(7).all() and unmoved(matcher)


def test_what_the_root_does_not_reach_is_not_looked_at(matcher: GrammarMatcher) -> None:
    traverse: Any = matcher.traverse_draft_tree
    lists = ([2, 99, -1, 3], [-1, 1, -1, 3], [0, 0, 0, 0])
    found = [buffer(4 * WORDS).view(4, WORDS) for _ in range(3)]
    assert traverse(*map(torch.tensor, lists), found[0])
    assert traverse(*map(torch.tensor, lists), found[1].numpy())
    assert traverse(*map(np.array, lists), found[2])
    for bitmask in found:
        assert bitmask[[1, 3]].eq(PATTERN).all() and not bitmask[[0, 2]].eq(PATTERN).any()
