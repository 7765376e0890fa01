"""Helpers for the tests of wrong arguments: a small grammar on all strategies, and buffers that reveal
writes.

When: imported by ``test_misuse*.py`` and ``test_draft_tree.py``.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

from equivalence import MatcherError
from hybrid import CompiledGrammar, GrammarCompiler, GrammarMatcher, Vocabulary, allocate_token_bitmask

SUBJECTS = ("classifier", "representatives", "engine", "lark")

A, B, AB, STOP, LATE, SIZE, WORDS = 0, 1, 2, 3, 200, 320, 10
PATTERN = 0x5A5A5A5A
FIRST = [1 << A | 1 << AB, 0, 0, 0, 0, 0, 1 << LATE % 32, 0, 0, 0]
"""The mask of the first token."""

VOCABULARY = Vocabulary.from_bytes(
    [b"a", b"b", b"ab", b"", *[b""] * (LATE - 4), b"aab"], stop_token_ids=STOP, vocab_size=SIZE
)


@cache
def compiled_by(subject: str) -> CompiledGrammar:
    if subject == "lark":
        return GrammarCompiler(VOCABULARY).compile_lark('start: "a"+ "b"')
    return GrammarCompiler(VOCABULARY, strategy=subject).compile_grammar('root ::= "a"+ "b"')


def each(table: dict[str, list[Any]]) -> list[tuple[str, Any]]:
    """The pairs of an argument and one of its wrong values."""
    return [(name, value) for name, values in table.items() for value in values]


def buffer(words: int = 40 * WORDS) -> torch.Tensor:
    return torch.full((words,), PATTERN, dtype=torch.int32)


def words_of(bitmask: torch.Tensor) -> torch.Tensor:
    """All words of the storage, even if the tensor itself was changed."""
    return torch.empty(0, dtype=torch.int32).set_(bitmask.untyped_storage())


def untouched(*tensors: torch.Tensor) -> bool:
    return all(bool(words_of(tensor).eq(PATTERN).all()) for tensor in tensors)


def unmoved(matcher: GrammarMatcher) -> bool:
    """Whether the matcher is at its start."""
    with pytest.raises(MatcherError, match="cannot roll back 1 steps: only 0 were made"):
        matcher.rollback(1)
    bitmask = allocate_token_bitmask(1, SIZE)
    matcher.fill_next_token_bitmask(bitmask)
    return bitmask[0].tolist() == FIRST
