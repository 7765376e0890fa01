"""Draft trees are traversed as in XGrammar, on every strategy; arrays that are not a tree are refused.

What: random trees over small grammars, side by side with plain XGrammar: masks, temperatures, rows that stay
unwritten, and that the matcher returns to where it was; time thresholds; tables of wrong arguments.
When: after any change of `hybrid.api.draft_tree`, or of accepting, filling and rolling back.
Limits: small invented vocabularies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import xgrammar
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence import ArgumentError, BitmaskError, HybridError
from hybrid import GrammarMatcher, allocate_token_bitmask
from hybrid.testing.mask_comparison import bits_of
from tests.matchers import links
from tests.misuse import PATTERN, WORDS, buffer, unmoved, untouched
from tests.test_draft_rows import COMPILED, GRAMMARS, SIZE, STOP, VOCABULARY

pytestmark = pytest.mark.kernels

PLAIN = [
    xgrammar.GrammarCompiler(VOCABULARY.tokenizer_info, max_threads=1).compile_grammar(text)
    for text in GRAMMARS
]


@settings(deadline=None, max_examples=60)
@given(data=st.data(), prefix=st.text("abc", max_size=3), unaided=st.booleans(), at=st.integers(0, 2))
def test_random_trees(data: st.DataObject, prefix: str, unaided: bool, at: int) -> None:
    nodes = 1 + data.draw(st.integers(0, 8))
    parents = [-1, *(data.draw(st.integers(0, node - 1)) for node in range(1, nodes))]
    child, sibling = map(torch.tensor, links(parents))
    ids = st.one_of(st.integers(0, STOP), st.integers(-2, SIZE))
    tokens = torch.tensor(data.draw(st.lists(ids, min_size=nodes, max_size=nodes)))
    options: dict[str, Any] = {"terminate_without_stop_token": unaided, "default_temperature": 0.25}
    plain = xgrammar.GrammarMatcher(PLAIN[at], **options)
    if not plain.accept_string(prefix):
        return
    expected, heat = buffer(nodes * 3).view(nodes, 3), torch.zeros(nodes)
    assert plain.traverse_draft_tree(child, sibling, tokens, expected, -1.0, heat)
    for compiled in COMPILED[at :: len(GRAMMARS)]:
        ours = GrammarMatcher(compiled, **options)
        assert ours.accept_string(prefix)
        found, warm = buffer(nodes * 3).view(nodes, 3), torch.zeros(nodes)
        assert ours.traverse_draft_tree(child, sibling, tokens, found, temperatures=warm)
        same = bits_of(found, SIZE) == bits_of(expected, SIZE)  # XGrammar sets bits behind the last id
        assert same.all(), f"{compiled.strategy} {tokens.tolist()}"
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


CHILD, SIBLING, TOKENS = "retrieve_next_token", "retrieve_next_sibling", "draft_tokens"
NO_LINKS: dict[str, tuple[str, list[int]]] = {
    "a loop": (CHILD, [1, 2, 0]),
    "a node twice": (SIBLING, [-1, 2, -1]),
    "its own child": (CHILD, [1, 1, -1]),
    "its own sibling": (SIBLING, [-1, 1, -1]),
    "too far": (CHILD, [1, 3, -1]),
    "-2": (CHILD, [1, -2, -1]),
    "a root with siblings": (SIBLING, [1, -1, -1]),
    "fewer children": (CHILD, [1, 2]),
    "fewer siblings": (SIBLING, [-1, -1]),
    "fewer tokens": (TOKENS, [0, 0]),
}
CHANGES: dict[str, tuple[tuple[str, ...], Callable[[Any], Any]]] = {
    "int32": ((CHILD, SIBLING, TOKENS), lambda value: value.int()),
    "two dimensions": ((CHILD, SIBLING, TOKENS), lambda value: value[None]),
    "a list": ((CHILD, SIBLING, TOKENS, "temperatures"), lambda value: value.tolist()),
    "no memory": ((CHILD, SIBLING, TOKENS), lambda value: value.to("meta")),
    "fewer": (("token_bitmask", "temperatures"), lambda value: value[:2]),
    "more": (("token_bitmask", "temperatures"), lambda value: torch.cat([value, value])),
    "one row": (("token_bitmask",), lambda value: value[0]),
    "narrow rows": (("token_bitmask",), lambda value: value[:, 1:]),
    "in one place": (("token_bitmask", "temperatures"), lambda value: value[:1].expand(value.shape)),
    "int64 rows": (("token_bitmask",), lambda value: value.long()),
    "float64": (("temperatures",), lambda value: value.double()),
}
WRONG: dict[str, dict[str, Any]] = {
    **{what: {name: torch.tensor(numbers)} for what, (name, numbers) in NO_LINKS.items()},
    **{f"{what} {name}": {name: change} for what, (names, change) in CHANGES.items() for name in names},
    **{f"time {time!r}": {"time_threshold": time} for time in ("1", True, None)},
    "no nodes": dict.fromkeys((CHILD, SIBLING, TOKENS), lambda value: value[:0]),
}
"""Other arguments, or functions that change the right ones."""


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_what_is_no_tree_is_refused(matcher: GrammarMatcher, wrong: dict[str, Any]) -> None:
    """XGrammar does not return from a loop, and reads other memory for a node that does not exist."""
    guard, heat = buffer(), torch.full((3,), 7.0)
    given = {**chain(3), "token_bitmask": guard[10 * WORDS : 13 * WORDS].view(3, WORDS), "temperatures": heat}
    for name, value in wrong.items():
        given[name] = value(given[name]) if callable(value) else value
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
