"""Times as a server meets them: repeated documents, new ones, first ones, batches.

What: `timed` takes the time of every call along tokens, on any engine; `serve` does so for documents, and
`call_times` and `batch_times` sum that up by what the grammar has met before, `rounds_table` prints it.
When: in `bench.grammar` and `bench.lark`, after masks were compared; `timed` in `bench.cold_caches`, too.
Limits: calls from Python, one thread. A call is timed by `perf_counter`, whose own cost (`clock_cost`) is
subtracted from each time. Between two clocks stands the call and nothing else; methods are looked up before
(some 10 ns less than with the look-up, on all engines). The garbage collector stays on with its usual
thresholds, as in a server; what earlier work left is collected before documents are run. On a shared machine
the system takes the core away now and then, for milliseconds: groups of tokens and batches during which it
did (`switches`) are told apart, and *calm* numbers leave them out.
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
from rich.table import Table

from bench.report import Spread, make_table, say, spread_table
from bench.request import Calls, calls_of

try:
    import resource
except ImportError:  # not a Unix
    resource = None  # type: ignore[assignment]

Ids = Sequence[int]

Fresh = Callable[[], Any]
"""Gives the grammar with nothing met."""

Begin = Callable[[], Calls]
"""Gives a matcher at the beginning of a document."""

AROUND = 16
"""Tokens between two looks at whether the core was taken away."""


@dataclass
class Served:
    """Seconds of each mask and of each token of some documents.

    `calm` says for each token whether the core was this process's own all the time around it.
    """

    fill: array[float] = field(default_factory=lambda: array("d"))
    accept: array[float] = field(default_factory=lambda: array("d"))
    calm: bytearray = field(default_factory=bytearray)


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


def nothing() -> None:
    """What is done between calls, unless something is asked for."""


def timed(calls: Calls, ids: Ids, between: Callable[[], None] = nothing) -> tuple[array[float], array[float]]:
    """Seconds of each mask and of each token of a document that is taken; a full row for each token.

    `between` is done before each call, and is not timed.
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
    """New matchers of a grammar of ours, all with one row."""
    from hybrid import GrammarMatcher

    bitmask = xgrammar.allocate_token_bitmask(1, compiled.vocabulary.size)
    return lambda: calls_of(GrammarMatcher(compiled), bitmask)


def serve(begin: Begin, documents: Sequence[Ids], served: Served | None = None) -> Served:
    """Run documents one after the other, each on a new matcher, and add their times to those before."""
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


def call_times(
    ways: Mapping[str, Fresh], documents: Sequence[Ids], rounds: int, seed: int, clock: float
) -> dict[str, Rounds]:
    """Times of single calls, named by what is called and what was met before, such as ``"mask, new
    document"``.

    A *new document* comes after half of the others, a *first* one on a grammar that has met nothing.

    Args:
        ways: to get the grammar, by what its rows are called; repeated documents are run on the first only.
        documents: token ids of documents that it accepts.
        rounds: of each kind; twice as many documents are once the first.
        seed: of the halves, and of the order of first documents.
        clock: `clock_cost`.
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
        # all calls of first documents are taken together: a round of one document says little
        found[f"first document{end}"] = [firsts := Served()]
        for number in range(2 * rounds):
            serve(beginning(fresh()), [documents[order[number % len(order)]]], firsts)
    rows = {f"mask, {kind}": _rounds(served, "fill", clock) for kind, served in found.items()}
    return rows | {f"token, {kind}": _rounds(served, "accept", clock) for kind, served in found.items()}


def rounds_of(served: Sequence[Served], clock: float) -> dict[str, Rounds]:
    """Masks and tokens of some rounds, summed up."""
    return {"mask": _rounds(served, "fill", clock), "token": _rounds(served, "accept", clock)}


def _rounds(served: Sequence[Served], what: str, clock: float) -> Rounds:
    times = [getattr(one, what) for one in served]
    calm = compress(chain(*times), chain.from_iterable(one.calm for one in served))
    return Rounds.of(times, clock, list(calm))


def batch_times(
    fresh: Fresh, documents: Sequence[Ids], size: int, seed: int, clock: float
) -> dict[str, Spread]:
    """Times of a row in batches, each row begun with another document: after half of them, and once more."""
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
    """Run one stream of documents in each row of a batch; a document that ends makes room for the next.

    Returns:
        seconds of each call for masks, and for tokens.
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


def rounds_table(title: str, rows: Mapping[str, Rounds]) -> Table:
    """A table of rounds in microseconds; the last three columns are of calm calls alone."""
    numbers = ("calls", "mean", "least", "p50", "p99", "calm calls", "mean", "p99")
    table = make_table(title, ("us",), numbers)
    for name, row in rows.items():
        every = (f"{value * 1e6:,.3g}" for value in (row.mean, row.least, row.p50, row.p99))
        calm = (f"{value * 1e6:,.3g}" for value in (row.calm_mean, row.calm_p99))
        table.add_row(name, f"{row.calls:,}", *every, f"{row.calm_calls:,}", *calm)
    return table


def measure_calls(
    console: Console, ways: Mapping[str, Fresh], documents: Sequence[Ids], rounds: int, batch: int, seed: int
) -> tuple[dict[str, Any], dict[str, Rounds]]:
    """Times of calls and of batches, and what is held after all documents: printed, and as a record.

    Args:
        ways, documents, rounds, seed: as for `call_times`; the first way is that of batches.
        batch: rows of a batch; none below 2.
    """
    clock, fresh = clock_cost(), next(iter(ways.values()))
    rows = call_times(ways, documents, rounds, seed, clock)
    title = f"calls from Python, cost of the clock {clock * 1e9:.0f} ns subtracted"
    console.print(rounds_table(title, rows))
    found: dict[str, Any] = {"clock": clock, "calls": rows}
    if batch > 1:
        found["batches"] = batch_times(fresh, documents, batch, seed, clock)
        console.print(spread_table(f"a row of a batch of {batch}", found["batches"]))
    compiled = fresh()
    serve(beginning(compiled), documents)
    found["held"] = compiled.memory_size_bytes
    say(console, f"held after the documents: {found['held'] / 2**20:.1f} MiB")
    return found, rows
