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
import xgrammar

from bench.cases import CHECKOUT
from bench.documents import read_documents
from bench.memory import STATUS, status_bytes
from hybrid import GrammarCompiler, GrammarMatcher, Vocabulary
from hybrid.testing.random_walk import Walker
from hybrid.testing.segmentation import tokenize_random
from tests.robustness.documents import endless

LONGEST_WALK = 300

MOST_BYTES = 2000
"""Resident bytes for each further token; 0 to 662 were measured over 100,000 tokens of seven grammars."""

WORDS = [b"foo", b"bar = ", b" = ", b";\n", b"12", b'"}', b'{"', b'": ', b"true", b"int ", b"return "]
VOCABULARY = Vocabulary.from_bytes(
    [bytes([value]) for value in range(256)] + [b"", *WORDS], stop_token_ids=[256]
)
GRAMMAR = """root ::= (ws stmt)* ws
stmt ::= [a-z]+ ws "=" ws [0-9]+ ";"
ws ::= [ \\n]*
"""
TEXTS = [b"foo = 12;\nbar=3;", b"a=1; ", b"begin = 1;\n\nend = 22;", b"x = 0;"]

Call = tuple[Any, int]


def requests(compiled: Any, texts: Sequence[bytes], seed: int) -> Iterator[Call]:
    """Yield each token with the matcher that is to read it, from documents cut at random and random walks in
    turn."""
    vocabulary = compiled.vocabulary
    rng = random.Random(seed)
    walker = Walker(rng, vocabulary.tokens, vocabulary.stop_token_ids, 0.5)
    bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
    octets = bitmask.numpy()[0].view(np.uint8)
    number = 0
    while True:
        matcher = GrammarMatcher(compiled)
        number += 1
        if number % 2:
            for token in tokenize_random(vocabulary, rng.choice(texts), f"{seed} {number}"):
                yield matcher, token
            continue
        for _ in range(LONGEST_WALK):
            matcher.fill_next_token_bitmask(bitmask)
            allowed = np.unpackbits(octets, bitorder="little")[: vocabulary.size].view(np.bool_)
            yield matcher, walker.draw_from(allowed)
            if matcher.is_terminated():
                break


def one_text(compiled: Any, ids: Iterator[int]) -> Iterator[Call]:
    matcher = GrammarMatcher(compiled)
    for token in ids:
        yield matcher, token


def read(compiled: Any, calls: Iterator[Call], tokens: int) -> float | None:
    """Read this number of tokens; return the growth in resident bytes per token over the second half, None if
    unknown."""
    bitmask = xgrammar.allocate_token_bitmask(1, compiled.vocabulary.size)
    every = max(tokens // 20, 1)
    marks: list[tuple[int, int]] = []
    for number, (matcher, token) in enumerate(islice(calls, tokens), 1):
        matcher.fill_next_token_bitmask(bitmask)
        assert matcher.accept_token(token), f"token {token} was refused in a text that the grammar accepts"
        if number % every == 0 and number >= tokens // 2 and STATUS.exists():
            gc.collect()
            marks.append((number, status_bytes("VmRSS")))
    if len(marks) < 3:
        return None
    return float(np.polyfit([place for place, _ in marks], [size for _, size in marks], 1)[0])


def compile_grammar(text: str) -> Any:
    return GrammarCompiler(VOCABULARY, strategy="classifier").compile_grammar(text)


def test_all_tokens_are_read() -> None:
    compiled = compile_grammar(GRAMMAR)
    read(compiled, requests(compiled, TEXTS, 0), 300)
    ids = endless(compiled, VOCABULARY, TEXTS, 0)
    assert ids is not None
    read(compiled, one_text(compiled, ids), 300)


def test_a_text_without_end_is_found_where_there_is_one() -> None:
    values = GrammarCompiler(VOCABULARY, strategy="classifier").compile_builtin_json_grammar()
    ids = endless(values, VOCABULARY, [b'{"a": 1}', b"[true]"], seed=3)
    assert ids is not None
    matcher = GrammarMatcher(values)
    assert all(matcher.accept_token(token) for token in islice(ids, 200))
    assert endless(compile_grammar('root ::= "a"'), VOCABULARY, [b"a"], seed=3) is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["requests", "endless"])
def test_memory_stays_where_it_is(kind: str) -> None:
    compiled = compile_grammar((CHECKOUT / "hybrid" / "grammars" / "c_like.gbnf").read_text())
    texts = [text for _, text in read_documents([CHECKOUT / "bench" / "samples" / "c_like"])]
    ids = endless(compiled, VOCABULARY, texts, 0)
    assert ids is not None
    calls = requests(compiled, texts, 0) if kind == "requests" else one_text(compiled, ids)
    grown = read(compiled, calls, 40_000)
    assert grown is None or grown < MOST_BYTES
