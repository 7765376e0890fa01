"""Compare our matcher with plain XGrammar's: both get the same calls and must give the same answers.

What: `Sides` is a pair of matchers of one grammar over one of two small vocabularies.
When: in the tests of the matcher, ``test_matcher*.py``.
Limits: small invented vocabularies; real ones are compared in ``test_equality.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import xgrammar
from numpy.typing import NDArray

from equivalence import MatcherError, Vocabulary
from hybrid import CompiledGrammar, GrammarCompiler, GrammarMatcher, allocate_token_bitmask
from hybrid.testing.mask_comparison import bits_of

STRATEGIES = ("classifier", "representatives", "engine")

A, B, C, ONE, AB, ABC, X, EMPTY, SPECIAL, C1, BC, STOP = range(12)
"""Ids of the small vocabulary. `SPECIAL` has text that the grammars allow, but is declared special."""

SIZE = 40
WORDS = 2

VOCABULARY = Vocabulary.from_bytes(
    [b"a", b"b", b"c", b"1", b"ab", b"abc", b"x", b"", b"a", b"c1", b"bc", b""],
    stop_token_ids=STOP,
    special_token_ids=[SPECIAL],
    vocab_size=SIZE,
)

TEXT_STOPS = Vocabulary.from_bytes([b"a", b"b", b"c", b"ab", b"bc"], stop_token_ids=B)
"""A vocabulary whose stop token is text as well."""

SUFFIXED = 'root ::= "a" "b" [c1]*'


@cache
def compiled_by(vocabulary: Vocabulary, strategy: str, grammar: str) -> CompiledGrammar:
    compiled = GrammarCompiler(vocabulary, strategy=strategy).compile_grammar(grammar)
    assert compiled.strategy == strategy
    return compiled


@cache
def plain_compiled_by(vocabulary: Vocabulary, grammar: str) -> xgrammar.CompiledGrammar:
    return xgrammar.GrammarCompiler(vocabulary.tokenizer_info, max_threads=1).compile_grammar(grammar)


class Sides:
    """Our matcher and plain XGrammar's, which get the same calls and must give the same answers."""

    def __init__(self, ours: GrammarMatcher, plain: Any, size: int) -> None:
        self.ours, self.plain, self.size = ours, plain, size

    @classmethod
    def of(
        cls, strategy: str, grammar: str = SUFFIXED, vocabulary: Vocabulary = VOCABULARY, **options: Any
    ) -> Sides:
        return cls(
            GrammarMatcher(compiled_by(vocabulary, strategy, grammar), **options),
            xgrammar.GrammarMatcher(plain_compiled_by(vocabulary, grammar), **options),
            vocabulary.size,
        )

    def same(self, method: str, *arguments: Any) -> Any:
        """Return the common answer of both sides to a method, or `RuntimeError` if both raise it."""
        ours = outcome(getattr(self.ours, method), *arguments, error=MatcherError)
        plain = outcome(getattr(self.plain, method), *arguments)
        assert ours == plain, f"{method}{arguments}: ours {ours!r}, plain {plain!r}"
        return ours

    def mask(self) -> list[int]:
        """The allowed ids, the same on both sides."""
        ours, plain = allowed(self.ours, self.size), allowed(self.plain, self.size)
        assert ours == plain
        return ours[1]

    def state(self) -> Any:
        """All that can be observed, the same on both sides."""
        facts = [self.same(name) for name in ("is_terminated", "is_completed", "find_jump_forward_string")]
        return (*facts, outcome(self.mask))

    def fork(self) -> Sides:
        return Sides(self.ours.fork(), self.plain.fork(), self.size)


def outcome(call: Callable[..., Any], *arguments: Any, error: type[RuntimeError] = RuntimeError) -> Any:
    """The answer of a call, or `RuntimeError` if it raises such an error: ours is a `MatcherError`. Forced
    text that ends within a character is a `UnicodeDecodeError` on both sides."""
    try:
        return call(*arguments)
    except error:
        return RuntimeError
    except UnicodeDecodeError:
        return UnicodeDecodeError


def allowed(matcher: Any, size: int, tokens_left: int = 0) -> tuple[bool, list[int]]:
    """What ``fill`` returns, and the ids whose bit is set; the row held other bits before, and the rows
    around it stay as they were.

    Args:
        matcher: a matcher of ours or of XGrammar.
        size: number of ids.
        tokens_left: if it is not 0, the mask is the limited mask for so many tokens.
    """
    bitmask = allocate_token_bitmask(3, size)
    bitmask.fill_(0x55555555)
    if tokens_left:
        needed = matcher.fill_limited_bitmask(bitmask, tokens_left, 1)
    else:
        needed = matcher.fill_next_token_bitmask(bitmask, 1)
    assert bitmask[[0, 2]].eq(0x55555555).all()
    return bool(needed), ids_of(bitmask[1], size)


def mask_of(matcher: Any, tokens_left: int = 0) -> list[int]:
    """The ids that a matcher of ours allows, see `allowed`."""
    return allowed(matcher, matcher.compiled_grammar.vocabulary.size, tokens_left)[1]


def taken_by(matcher: Any, size: int | None = None) -> list[int]:
    """The ids that ``accept_token`` accepts, asked one by one; a mask has to allow the same.

    Args:
        matcher: a matcher of ours or of XGrammar.
        size: number of ids; None: those of the vocabulary of a matcher of ours.
    """
    ids = range(matcher.compiled_grammar.vocabulary.size if size is None else size)
    return [token for token in ids if matcher.fork().accept_token(token)]


def words_of(bits: Any) -> NDArray[np.uint32]:
    """The words of rows with these bits, the inverse of `bits_of`."""
    padded = np.zeros((*bits.shape[:-1], -(-bits.shape[-1] // 32) * 32), np.bool_)
    padded[..., : bits.shape[-1]] = bits
    return np.packbits(padded, axis=-1, bitorder="little").view(np.uint32)


def links(parents: list[int]) -> tuple[list[int], list[int]]:
    """Return a tree as links, those of `traverse_draft_tree`: the first child and the next sibling of each
    node, -1 if there is none.

    Args:
        parents: the parent of each node; node 0 is the root.
    """
    child, sibling = [-1] * len(parents), [-1] * len(parents)
    for node in range(len(parents) - 1, 0, -1):
        parent = parents[node]
        sibling[node], child[parent] = child[parent], node
    return child, sibling


def ids_of(words: Any, size: int) -> list[int]:
    """The ids whose bit is set in one row of words."""
    return np.flatnonzero(bits_of(words, size)).tolist()
