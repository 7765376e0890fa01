"""A long run: what memory does over very many tokens, in new requests and in one text without end.

What: `soak` reads tokens one by one, filling a mask at each, and notes memory, tables and sessions on the
way; `matcher_bytes` says what one matcher holds.
When: in `bench.grammar`, with ``--soak-tokens``.
Limits: requests are documents cut at random and random walks, in turn; a walk costs more to draw than to
serve, so nothing is timed here. Resident memory is known on Linux only.
"""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import xgrammar

from bench.documents import endless
from bench.memory import STATUS, status_bytes
from hybrid.testing.random_walk import Walker
from hybrid.testing.segmentation import tokenize_random

LONGEST_WALK = 300


@dataclass
class Memory:
    """What was held after some tokens."""

    tokens: int
    resident: int | None
    tables: int
    configurations: int
    session: int


@dataclass
class Soak:
    """A long run of one kind.

    Attributes:
        kind: "requests" or "endless".
        tokens: tokens read.
        marks: memory on the way.
        slope: resident bytes for each further token, over the second half; None where it is not known.
        sessions: sessions of the classifier that were begun.
    """

    kind: str
    tokens: int = 0
    marks: list[Memory] = field(default_factory=list)
    slope: float | None = None
    sessions: int = 0

    def record(self) -> dict[str, Any]:
        return asdict(self)


def soak(compiled: Any, texts: Sequence[bytes], tokens: int, seed: int) -> list[Soak]:
    """Read many tokens: half of them in new requests, half in one text without end.

    Where no text without end is known for the grammar, all are read in new requests.
    """
    vocabulary = compiled.vocabulary
    follow = endless(compiled, vocabulary, texts, seed) if texts else None
    each = tokens if follow is None else tokens // 2
    found = [_run(compiled, "requests", _requests(compiled, texts, seed), each)]
    if follow is not None:
        found.append(_run(compiled, "endless", _one(compiled, follow), each))
    return found


Call = tuple[Any, int]


def _run(compiled: Any, kind: str, calls: Iterator[Call], tokens: int) -> Soak:
    bitmask = xgrammar.allocate_token_bitmask(1, compiled.vocabulary.size)
    result = Soak(kind)
    first = _mark(compiled, 0)
    result.marks.append(first)
    for matcher, token in calls:
        matcher.fill_next_token_bitmask(bitmask)
        if not matcher.accept_token(token):
            raise AssertionError(f"token {token} was refused in a text that the grammar accepts")
        result.tokens += 1
        if result.tokens % max(tokens // 20, 1) == 0:
            result.marks.append(_mark(compiled, result.tokens))
        if result.tokens >= tokens:
            break
    late = [mark for mark in result.marks if mark.tokens >= tokens // 2 and mark.resident is not None]
    if len(late) > 2:
        times, sizes = [mark.tokens for mark in late], [float(mark.resident or 0) for mark in late]
        result.slope = float(np.polyfit(times, sizes, 1)[0])
    result.sessions = result.marks[-1].session - first.session + 1
    return result


def _mark(compiled: Any, tokens: int) -> Memory:
    gc.collect()
    resident = status_bytes("VmRSS") if STATUS.exists() else None
    classifier = compiled.classifier
    if classifier is None:
        return Memory(tokens, resident, 0, 0, 0)
    session = classifier.session
    met = session.store.n_configurations
    return Memory(tokens, resident, classifier.memory_size_bytes, met, session.serial)


def _one(compiled: Any, ids: Iterator[int]) -> Iterator[Call]:
    from hybrid import GrammarMatcher

    matcher = GrammarMatcher(compiled)
    for token in ids:
        yield matcher, token


def _requests(compiled: Any, texts: Sequence[bytes], seed: int) -> Iterator[Call]:
    """Documents cut at random and random walks in turn; walks only where there are no documents."""
    from hybrid import GrammarMatcher

    vocabulary = compiled.vocabulary
    rng = random.Random(seed)
    walker = Walker(rng, vocabulary.tokens, vocabulary.stop_token_ids, 0.5)
    bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
    octets = bitmask.numpy()[0].view(np.uint8)
    number = 0
    while True:
        matcher = GrammarMatcher(compiled)
        number += 1
        if texts and number % 2:
            for token in tokenize_random(vocabulary, rng.choice(texts), f"{seed} {number}"):
                yield matcher, token
            continue
        for _ in range(LONGEST_WALK):
            matcher.fill_next_token_bitmask(bitmask)
            allowed = np.unpackbits(octets, bitorder="little")[: vocabulary.size].view(np.bool_)
            yield matcher, walker.draw_from(allowed)
            if matcher.is_terminated():
                break


def matcher_bytes(compiled: Any, ids: Sequence[int], count: int = 50) -> tuple[float, float]:
    """Bytes of a new matcher, and of each token that it has read, shared tables left out."""
    from hybrid import GrammarMatcher

    bitmask = xgrammar.allocate_token_bitmask(1, compiled.vocabulary.size)

    def read(matcher: Any) -> None:
        for token in ids:
            matcher.fill_next_token_bitmask(bitmask)
            matcher.accept_token(token)

    read(GrammarMatcher(compiled))  # whatever is new to the grammar
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        matchers = [GrammarMatcher(compiled) for _ in range(count)]
        begun = tracemalloc.get_traced_memory()[0]
        for matcher in matchers:
            read(matcher)
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    return (begun - before) / count, (after - begun) / count / max(len(ids), 1)
