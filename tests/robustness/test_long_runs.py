"""A long run: memory stays constant over very many tokens, in new requests and in one endless text.

What: reads tokens one by one, with a mask before each, alternating between documents cut at random and random
walks, and in one endless document; watches resident memory over the second half.
When: after a change of the tables of a classifier, of matchers or of sessions.
Limits: resident memory is known on Linux only. An endless text keeps its history, 81 bytes per token.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pytest

from bench.cases import CHECKOUT
from bench.documents import read_documents
from equivalence import Vocabulary
from hybrid import GrammarCompiler, GrammarMatcher, allocate_token_bitmask
from hybrid.testing.mask_comparison import flags_of
from hybrid.testing.random_walk import Walker
from hybrid.testing.segmentation import tokenize_random
from tests.robustness.documents import resident_bytes

LONGEST_WALK = 300

MOST_BYTES = 2000
"""Resident bytes for each further token; 0 to 662 were measured over 100,000 tokens of seven grammars."""

WORDS = [b"foo", b"bar = ", b" = ", b";\n", b"12", b'"}', b'{"', b'": ', b"true", b"int ", b"return "]
VOCABULARY = Vocabulary.from_bytes([b"", *(bytes([value]) for value in range(256)), *WORDS], stop_token_ids=0)

Call = tuple[Any, int]


def requests(compiled: Any, texts: Sequence[bytes]) -> Iterator[Call]:
    """Yield each token with the matcher that is to read it, from documents cut at random and random walks in
    turn."""
    rng = random.Random(0)
    walker = Walker(rng, VOCABULARY.tokens, VOCABULARY.stop_token_ids, 0.5)
    while True:
        matcher = GrammarMatcher(compiled)
        for token in tokenize_random(VOCABULARY, rng.choice(texts), rng.random().hex()):
            yield matcher, token
        matcher = GrammarMatcher(compiled)
        for _ in range(LONGEST_WALK):
            yield matcher, walker.draw_from(flags_of(matcher))
            if matcher.is_terminated():
                break


def endless(compiled: Any, texts: Sequence[bytes]) -> Iterator[Call]:
    """Yield each token of one text, in which documents follow one another."""
    rng, matcher = random.Random(0), GrammarMatcher(compiled)
    while True:
        for token in tokenize_random(VOCABULARY, rng.choice(texts), rng.random().hex()):
            yield matcher, token


def read(calls: Iterator[Call], tokens: int) -> float:
    """Read this number of tokens; return the growth in resident bytes per token over the second half."""
    bitmask = allocate_token_bitmask(1, VOCABULARY.size)
    places, sizes = [], []
    for number, (matcher, token) in enumerate(islice(calls, tokens), 1):
        matcher.fill_next_token_bitmask(bitmask)
        assert matcher.accept_token(token), f"token {token} was refused in a text that the grammar accepts"
        if number % (tokens // 20) == 0 and number >= tokens // 2:
            gc.collect()
            places.append(number)
            sizes.append(resident_bytes())
    return float(np.polyfit(places, sizes, 1)[0])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [requests, endless])
def test_memory_stays_where_it_is(kind: Any) -> None:
    text = (CHECKOUT / "hybrid" / "grammars" / "c_like.gbnf").read_text()
    compiled = GrammarCompiler(VOCABULARY, strategy="classifier").compile_grammar(text)
    texts = [text for _, text in read_documents([CHECKOUT / "bench" / "samples" / "c_like"])]
    assert read(kind(compiled, texts), 40_000) < MOST_BYTES
