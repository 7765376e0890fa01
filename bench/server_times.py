"""Times as in a server: repeated documents, new ones, first ones, batches.

What: `timed` measures every call along tokens, on any engine, and `serve` does so for documents. `call_times`
and `batch_times` sum this up by what the grammar has read before.
When: in `bench.grammar` and `bench.lark`, after masks were compared; `timed` in `bench.cold_caches`, too.
Limits: calls from Python, one thread. A call is timed by `perf_counter`, whose own cost (`clock_cost`) is
subtracted from each time. Nothing but the call stands between the two clock reads; methods are looked up
before (this saves some 10 ns on all engines). The garbage collector stays on with its usual thresholds, as in
a server; garbage of earlier work is collected before documents are run. On a shared machine, the system
sometimes takes the core away for milliseconds. Groups of tokens and batches in which it did are recognised
(`switches`), and *calm* numbers leave them out.
"""

from __future__ import annotations

import gc
import random
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress
from time import perf_counter
from typing import Any

import numpy as np
import xgrammar
from rich.console import Console

from bench.report import Spread
from bench.request import Calls, calls_of
from bench.tables import Table, percentiles

try:
    import resource
except ImportError:  # not on Unix
    resource = None  # type: ignore[assignment]

Ids = Sequence[int]

Fresh = Callable[[], Any]
"""Returns the grammar as if it had read nothing."""

Begin = Callable[[], Calls]
"""Returns a matcher at the beginning of a document."""

AROUND = 16
"""Number of tokens between two checks whether the core was taken away."""


@dataclass
class Served:
    """The seconds of each mask and of each token of some documents.

    `calm` says for each token whether the process kept its core all the time around it.
    """

    fill: array[float] = field(default_factory=lambda: array("d"))
    accept: array[float] = field(default_factory=lambda: array("d"))
    calm: bytearray = field(default_factory=bytearray)


@dataclass(frozen=True)
class Rounds:
    """Several rounds of one measurement, in seconds, without the cost of the clock.

    Attributes:
        calls: number of calls in all rounds.
        mean, p50, p99: the median over the rounds of each round's mean, median and 99th percentile.
        least: the smallest mean of a round.
        max: the longest call.
        calm_calls, calm_mean, calm_p99: the same for the calls of all rounds during which the core was not
            taken away.
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
        """Sum up the times of some rounds. `calm` has the calm times of all rounds together (None: all times
        are)."""
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
    """Return the seconds that a pair of `perf_counter` calls measures for nothing: the median of many."""
    found = array("d")
    for _ in range(times):
        began = perf_counter()
        ended = perf_counter()
        found.append(ended - began)
    return float(np.median(found))


def switches() -> int:
    """Return how often the system has taken the core away from this thread; 0 if unknown."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw if resource is not None else 0


def nothing() -> None:
    """Do nothing between calls."""


def timed(calls: Calls, ids: Ids, between: Callable[[], None] = nothing) -> tuple[array[float], array[float]]:
    """Return the seconds of each mask and of each token of a document that the matcher accepts. One mask is
    filled before each token.

    `between` is called before each call, and is not timed.
    """
    fill, accept = calls.fill, calls.accept
    masks, tokens = array("d"), array("d")
    for token in ids:
        between()
        began = perf_counter()
        fill()
        masks.append(perf_counter() - began)
        between()
        began = perf_counter()
        taken = accept(token)
        tokens.append(perf_counter() - began)
        assert taken, "all engines take the document"
    return masks, tokens


def beginning(compiled: Any) -> Begin:
    """Return a function that makes new matchers of one of our grammars, all with one row."""
    from hybrid import GrammarMatcher

    bitmask = xgrammar.allocate_token_bitmask(1, compiled.vocabulary.size)
    return lambda: calls_of(GrammarMatcher(compiled), bitmask)


def serve(begin: Begin, documents: Sequence[Ids], served: Served | None = None) -> Served:
    """Run documents one after the other, each on a new matcher, and append their times."""
    served = served or Served()
    gc.collect()
    for ids in documents:
        calls = begin()
        for first in range(0, len(ids), AROUND):
            before = switches()
            masks, tokens = timed(calls, ids[first : first + AROUND])
            served.calm.extend([switches() == before] * len(masks))
            served.fill.extend(masks)
            served.accept.extend(tokens)
    return served


def halves(count: int, rounds: int, seed: int) -> Iterator[tuple[list[int], list[int]]]:
    """For each round, return the documents that come first and those that are measured: random halves.

    Every second round swaps the halves of the round before, so that every document is measured.
    """
    rng = random.Random(seed)
    order = list(range(count))
    for number in range(rounds):
        if number % 2 == 0 or count == 1:
            rng.shuffle(order)
            yield order[: count // 2], order[count // 2 :]
        else:
            yield order[count // 2 :], order[: count // 2]


def call_times(
    ways: Mapping[str, Fresh], documents: Sequence[Ids], rounds: int, seed: int, clock: float
) -> dict[str, Rounds]:
    """Return times of single calls, named by the call and by what the grammar has read before, such as
    ``"mask, new document"``.

    A *new document* comes after half of the others. A *first* document comes on a grammar that has read
    nothing.

    Args:
        ways: for each name in the results, a function that loads the grammar. Repeated documents are run only
            with the first one.
        documents: token ids of documents that the grammar accepts.
        rounds: number of rounds of each kind; twice as many documents are first once.
        seed: the seed of the halves, and of the order of first documents.
        clock: the result of `clock_cost`.
    """
    found: dict[str, list[Served]] = {}
    order = random.Random(seed).sample(range(len(documents)), len(documents))
    for way, fresh in ways.items():
        begin, end = beginning(fresh()), f", {way}" if way else ""
        if "repeated document" not in found:
            serve(begin, documents)
            found["repeated document"] = [serve(begin, documents) for _ in range(rounds)]
        found[f"new document{end}"] = served = []
        for warm, measured in halves(len(documents), rounds, seed):
            begin = beginning(fresh())
            serve(begin, [documents[i] for i in warm])
            served.append(serve(begin, [documents[i] for i in measured]))
        # all calls of first documents count as one round, because a round of one document says little
        found[f"first document{end}"] = [firsts := Served()]
        for number in range(2 * rounds):
            serve(beginning(fresh()), [documents[order[number % len(order)]]], firsts)
    rows = {f"mask, {kind}": _rounds(served, "fill", clock) for kind, served in found.items()}
    return rows | {f"token, {kind}": _rounds(served, "accept", clock) for kind, served in found.items()}


def rounds_of(served: Sequence[Served], clock: float) -> dict[str, Rounds]:
    """Sum up masks and tokens of some rounds."""
    return {"mask": _rounds(served, "fill", clock), "token": _rounds(served, "accept", clock)}


def _rounds(served: Sequence[Served], what: str, clock: float) -> Rounds:
    times = [getattr(one, what) for one in served]
    calm = compress(chain(*times), chain.from_iterable(one.calm for one in served))
    return Rounds.of(times, clock, list(calm))


def batch_times(
    fresh: Fresh, documents: Sequence[Ids], size: int, seed: int, clock: float
) -> dict[str, Spread]:
    """Return times of a row in batches. Each row begins with another document: once after half of the
    documents, and once more."""
    compiled = fresh()
    warm, measured = next(halves(len(documents), 1, seed))
    serve(beginning(compiled), [documents[i] for i in warm])
    chosen = [documents[i] for i in measured]
    streams = [[chosen[(row + k) % len(chosen)] for k in range(len(chosen))] for row in range(size)]
    steps = sum(len(stream[0]) for stream in streams) // size
    found: dict[str, Spread] = {}
    for name in ("new", "repeated"):
        fills, accepts = serve_batch(compiled, streams, steps)
        for what, times in (("mask", fills), ("token", accepts)):
            found[f"{what} a row, {name}"] = Spread.of(np.maximum(np.asarray(times) - clock, 0.0) / size)
    return found


def serve_batch(
    compiled: Any, streams: Sequence[Sequence[Ids]], steps: int
) -> tuple[array[float], array[float]]:
    """Run one stream of documents in each row of a batch. When a document ends, the next one takes its row.

    Returns:
        The seconds of each call for masks, and for tokens.
    """
    from hybrid import BatchGrammarMatcher, GrammarMatcher

    batch, fills, accepts = BatchGrammarMatcher(), array("d"), array("d")
    bitmask = xgrammar.allocate_token_bitmask(len(streams), compiled.vocabulary.size)
    places = [[0, 0] for _ in streams]
    matchers = [GrammarMatcher(compiled) for _ in streams]
    for _ in range(steps):
        tokens = []
        for row, place in enumerate(places):
            if place[1] == len(streams[row][place[0]]):
                place[:] = [(place[0] + 1) % len(streams[row]), 0]
                matchers[row] = GrammarMatcher(compiled)
            tokens.append(streams[row][place[0]][place[1]])
            place[1] += 1
        began = perf_counter()
        batch.batch_fill_next_token_bitmask(matchers, bitmask)
        filled = perf_counter()
        batch.batch_accept_token(matchers, tokens)
        fills.append(filled - began)
        accepts.append(perf_counter() - filled)
    return fills, accepts


def measure_calls(
    console: Console, ways: Mapping[str, Fresh], documents: Sequence[Ids], rounds: int, batch: int, seed: int
) -> dict[str, Any]:
    """Measure calls and batches, and the memory held after all documents. Print those of batches, which pages
    do not have, and return all for the record.

    Args:
        ways, documents, rounds, seed: as for `call_times`; batches use the first way.
        batch: rows of a batch; below 2, there are no batches.
    """
    clock, fresh = clock_cost(), next(iter(ways.values()))
    found: dict[str, Any] = {"clock": clock, "calls": call_times(ways, documents, rounds, seed, clock)}
    if batch > 1:
        found["batches"] = times = batch_times(fresh, documents, batch, seed, clock)
        rows = [[name, percentiles(vars(spread))] for name, spread in times.items()]
        Table(f"a row of a batch of {batch}", ["", "p50 / p90 / p99"], rows).print(console)
    compiled = fresh()
    serve(beginning(compiled), documents)
    found["held"] = compiled.memory_size_bytes
    return found
