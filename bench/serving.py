"""Times as a server meets them: repeated texts, new requests, first documents, batches.

What: `serve` runs documents through matchers and takes the time of every call; `repeated`, `new_requests`,
`first_documents` and `batches` say what the grammar has met before.
When: in `bench.grammar`, after masks were compared.
Limits: calls from Python, one thread. A call is timed by `perf_counter`, whose own cost (`clock_cost`) is
subtracted from each time. Between two clocks stands the call and nothing else; the method is looked up as
a server does. The garbage collector stays on with its usual thresholds, as in a server; what earlier work
left is collected before each round. On a shared machine the system takes the core away now and then, for
milliseconds: groups of tokens and batches during which it did (`switches`) are told apart, and *calm*
numbers leave them out.
"""

from __future__ import annotations

import gc
import random
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from time import perf_counter
from typing import Any

import numpy as np
import xgrammar

from hybrid.testing.segmentation import tokenize_random

try:
    import resource
except ImportError:  # not a Unix
    resource = None  # type: ignore[assignment]

Ids = Sequence[int]

AROUND = 16
"""Tokens between two looks at whether the core was taken away."""


@dataclass
class Served:
    """Seconds of each mask and of each token of some documents, one array for each document.

    `calm` says for each token whether the core was this process's own all the time around it; `new` counts
    the configurations whose mask was not known before (0 without a classifier).
    """

    fill: list[array[float]] = field(default_factory=list)
    accept: list[array[float]] = field(default_factory=list)
    calm: list[bytearray] = field(default_factory=list)
    new: int = 0


@dataclass(frozen=True)
class Rounds:
    """Several rounds of one measurement, in seconds, the cost of the clock subtracted.

    Attributes:
        calls: calls of all rounds.
        mean, p50, p99: medians over the rounds of each round's mean, median and 99th percentile.
        least: the least mean of a round.
        max: the longest call of all.
        calm_calls, calm_mean, calm_p99: of the calls of all rounds while the core was not taken away.
    """

    calls: int
    mean: float
    least: float
    p50: float
    p99: float
    max: float
    calm_calls: int = 0
    calm_mean: float = 0.0
    calm_p99: float = 0.0

    @classmethod
    def of(
        cls, rounds: Sequence[Sequence[float]], clock: float, calm: Sequence[float] | None = None
    ) -> Rounds:
        """Sum up the times of some rounds; `calm` are those of them all that count as calm (None: all)."""
        values = [np.maximum(np.asarray(times, np.float64) - clock, 0.0) for times in rounds if len(times)]
        if not values:
            return cls(0, 0.0, 0.0, 0.0, 0.0, 0.0)
        means = [float(times.mean()) for times in values]
        p50, p99 = (float(np.median([np.percentile(times, share) for times in values])) for share in (50, 99))
        longest = max(float(times.max()) for times in values)
        still = np.concatenate(values)
        if calm is not None:
            still = np.maximum(np.asarray(calm, np.float64) - clock, 0.0)
        share = (int(still.size), float(still.mean()), float(np.percentile(still, 99))) if still.size else ()
        return cls(
            sum(times.size for times in values),
            float(np.median(means)),
            min(means),
            p50,
            p99,
            longest,
            *share,
        )


def clock_cost(times: int = 20_000) -> float:
    """Seconds that one pair of `perf_counter` calls reports for nothing: the median of many."""
    found = array("d")
    for _ in range(times):
        began = perf_counter()
        ended = perf_counter()
        found.append(ended - began)
    return float(np.median(found))


def switches() -> int:
    """How often the system has taken the core away from this thread; 0 where it does not say."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw if resource is not None else 0


def serve(compiled: Any, documents: Sequence[Ids], bitmask: Any) -> Served:
    """Run documents one after the other, each on a new matcher; a full row for each token."""
    from hybrid import GrammarMatcher

    served = Served()
    known = masks_known(compiled)
    for ids in documents:
        fills, accepts, calm = array("d"), array("d"), bytearray()
        matcher = GrammarMatcher(compiled)
        for first in range(0, len(ids), AROUND):
            before = switches()
            for token in ids[first : first + AROUND]:
                began = perf_counter()
                matcher.fill_next_token_bitmask(bitmask)
                filled = perf_counter()
                matcher.accept_token(token)
                ended = perf_counter()
                fills.append(filled - began)
                accepts.append(ended - filled)
            still = switches() == before
            calm.extend(still for _ in range(len(fills) - first))
        served.fill.append(fills)
        served.accept.append(accepts)
        served.calm.append(calm)
    served.new = masks_known(compiled) - known
    return served


def repeated(compiled: Any, documents: Sequence[Ids], bitmask: Any, rounds: int) -> list[Served]:
    """Documents all of whose configurations the grammar has met."""
    serve(compiled, documents, bitmask)
    return [_quietly(compiled, documents, bitmask) for _ in range(rounds)]


def halves(count: int, rounds: int, seed: int) -> Iterator[tuple[list[int], list[int]]]:
    """For each round, the documents that come first and those that are measured: shuffled halves.

    Every second round swaps the halves of the one before, so that every document is measured.
    """
    rng = random.Random(seed)
    order = list(range(count))
    for number in range(rounds):
        if number % 2 == 0 or count == 1:
            rng.shuffle(order)
            yield order[: count // 2], order[count // 2 :]
        else:
            yield order[count // 2 :], order[: count // 2]


def new_requests(
    compile_it: Callable[[], Any], documents: Sequence[Ids], bitmask: Any, rounds: int, seed: int
) -> list[tuple[list[int], Served]]:
    """Documents that the grammar has not met, after others: which ones, and their times, for each round."""
    found = []
    for warm, measured in halves(len(documents), rounds, seed):
        compiled = compile_it()
        serve(compiled, [documents[i] for i in warm], bitmask)
        chosen = [documents[i] for i in measured]
        found.append((measured, _quietly(compiled, chosen, bitmask)))
    return found


def first_documents(
    compile_it: Callable[[], Any], documents: Sequence[Ids], bitmask: Any, rounds: int, seed: int
) -> list[Served]:
    """The first document after compiling, another one in each round."""
    found = []
    order = random.Random(seed).sample(range(len(documents)), len(documents))
    for number in range(rounds):
        compiled = compile_it()
        ids = documents[order[number % len(order)]]
        found.append(_quietly(compiled, [ids], bitmask))
    return found


@dataclass
class Batches:
    """Seconds of each call for a whole batch, whether it was calm, and how many rows were new."""

    fill: array[float] = field(default_factory=lambda: array("d"))
    accept: array[float] = field(default_factory=lambda: array("d"))
    calm: list[bool] = field(default_factory=list)
    rows: int = 0
    new_rows: int = 0


def serve_batch(compiled: Any, streams: Sequence[Sequence[Ids]], steps: int) -> Batches:
    """Run one stream of documents in each row of a batch; a document that ends makes room for the next."""
    from hybrid import BatchGrammarMatcher, GrammarMatcher

    batch, size = BatchGrammarMatcher(), len(streams)
    bitmask = xgrammar.allocate_token_bitmask(size, compiled.vocabulary.size)
    places = [[0, 0] for _ in streams]
    matchers = [GrammarMatcher(compiled) for _ in streams]
    found = Batches()
    known = masks_known(compiled)
    for _ in range(steps):
        tokens = []
        for row, place in enumerate(places):
            if place[1] == len(streams[row][place[0]]):
                place[:] = [(place[0] + 1) % len(streams[row]), 0]
                matchers[row] = GrammarMatcher(compiled)
            tokens.append(streams[row][place[0]][place[1]])
            place[1] += 1
        before = switches()
        began = perf_counter()
        batch.batch_fill_next_token_bitmask(matchers, bitmask)
        filled = perf_counter()
        batch.batch_accept_token(matchers, tokens)
        ended = perf_counter()
        found.fill.append(filled - began)
        found.accept.append(ended - filled)
        found.calm.append(switches() == before)
    found.rows = size * steps
    found.new_rows = masks_known(compiled) - known
    return found


def streams_of(vocabulary: Any, texts: Sequence[bytes], size: int, seed: int) -> list[list[list[int]]]:
    """A stream of documents for each row: all texts, begun with another one, and cut at random."""
    return [
        [
            tokenize_random(vocabulary, texts[(row + k) % len(texts)], f"{seed} {row} {k}")
            for k in range(len(texts))
        ]
        for row in range(size)
    ]


def masks_known(compiled: Any) -> int:
    """Configurations whose row is remembered; 0 without a classifier."""
    if compiled.classifier is None:
        return 0
    return sum(len(rows) for rows in compiled.classifier.session.rows.values())


def flat(times: Sequence[Sequence[float]]) -> list[float]:
    """The times of several documents in one list."""
    return list(chain.from_iterable(times))


def calm(rounds: Sequence[Served], what: str) -> list[float]:
    """The times of "fill" or "accept" during which the core was not taken away."""
    return [
        value
        for served in rounds
        for values, kept in zip(getattr(served, what), served.calm, strict=True)
        for value, still in zip(values, kept, strict=True)
        if still
    ]


def _quietly(compiled: Any, documents: Sequence[Ids], bitmask: Any) -> Served:
    """As `serve`, the garbage of earlier work collected first."""
    gc.collect()
    return serve(compiled, documents, bitmask)
