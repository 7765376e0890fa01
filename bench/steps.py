"""All rows of a step of a server: 1 to 1,024 sequences, without drafts and with four drafts each.

What: seconds of a step with warm caches, with caches that 64 MiB of other work has emptied, and beside a
thread that keeps the interpreter busy. Measured are our one call; XGrammar's batches (one for each depth of
drafts, and as many to read them); both engines row by row; and vLLM's own manager over both
(`bench.peers.vllm_steps`), if vLLM can be imported.
When: ``python -m bench steps --vocabulary SPEC --json FILE``.
Limits: sequences stand at places in a document of some generated schemas, which both engines have read
before. Drafts are the tokens that follow there. All rows of all ways are compared before times count, except
for bits beyond the vocabulary. Results are medians of calls, in wall time and CPU time of the process. Ways
take turns: warm ones for some calls at a time, because the others would empty their caches.
"""

from __future__ import annotations

import json as json_format
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter, process_time
from typing import Annotated, Any

import numpy as np
import torch
import typer
import xgrammar

from bench import options, report, workloads
from bench.cold_caches import TOUCHED_BYTES
from bench.growth import nested_document, nested_schema
from bench.peers.vllm_steps import Managers
from bench.report import Spread
from bench.reporting.answers import publish
from hybrid.testing.mask_comparison import bits_of
from hybrid.testing.segmentation import tokenize_greedy

ROWS = (1, 64, 256, 1024)
DRAFTS = (0, 4)
SCHEMAS = 16
DEPTH = 10

TURNS = {"warm": (4, 8), "cold": (10, 1), "busy": (3, 2)}
"""For each regime, the number of turns of each way, and of calls in a turn."""

MOST_BUSY_ROWS = 64
"""Beside a busy thread, a call that works row by row may wait 5 ms for the interpreter's lock at each row."""

Step = Callable[[], Any]


class StepBench:
    """Grammars of both engines over one vocabulary, and the places of sequences."""

    def __init__(self, vocabulary: Any, schemas: int) -> None:
        self.vocabulary = vocabulary
        ours, plain = (
            workloads.hybrid_compiler(vocabulary, "auto", 1),
            workloads.plain_compiler(vocabulary, 1),
        )
        texts = [json_format.dumps(nested_schema(DEPTH, number)) for number in range(schemas)]
        self.grammars = [(ours.compile_json_schema(text), plain.compile_json_schema(text)) for text in texts]
        self.ids = tokenize_greedy(vocabulary, nested_document(DEPTH))
        self.cores = report.usable_cores()
        self.memory = np.zeros(TOUCHED_BYTES // 8, np.int64)
        self.rows = self.differences = 0
        try:
            self.managers: Managers | None = Managers()
        except ImportError:
            self.managers = None

    def place(self, number: int, count: int, n_drafts: int) -> int:
        """Return how many tokens of the document a sequence has read."""
        return number * (len(self.ids) - n_drafts) // count

    def matchers(self, make: Callable[[Any, Any], Any], count: int, n_drafts: int) -> list[Any]:
        """Make matchers at their places.

        Args:
            make: makes a matcher of our compiled grammar, or of XGrammar's.
        """
        found = []
        for number in range(count):
            matcher = make(*self.grammars[number % len(self.grammars)])
            for token in self.ids[: self.place(number, count, n_drafts)]:
                assert matcher.accept_token(token)
            found.append(matcher)
        return found

    def ways(self, count: int, n_drafts: int) -> dict[str, tuple[Step, torch.Tensor]]:
        """Return the ways to fill all rows of a step: for each name, a function, and the bitmask that it
        fills."""
        from hybrid import BatchGrammarMatcher, GrammarMatcher

        size = self.vocabulary.size
        places = [self.place(number, count, n_drafts) for number in range(count)]
        drafts = [list(self.ids[place : place + n_drafts]) for place in places]
        ours = self.matchers(lambda one, _: GrammarMatcher(one), count, n_drafts)
        plain = self.matchers(lambda _, one: xgrammar.GrammarMatcher(one), count, n_drafts)
        found: dict[str, tuple[Step, torch.Tensor]] = {}

        def add(name: str, ask: Callable[..., Any], *given: Any) -> None:
            bitmask = xgrammar.allocate_token_bitmask(count * (1 + n_drafts), size)
            found[name] = (lambda: ask(*given, bitmask, drafts)), bitmask

        batch = BatchGrammarMatcher()
        add("ours, one call", lambda rows, ids: batch.batch_fill_draft_bitmask(ours, rows, ids))
        add("ours, row by row", by_rows, ours)
        for threads in sorted({1, self.cores}):
            name = f"XGrammar, batches, {threads} thread{'s' * (threads > 1)}"
            add(name, by_batches, xgrammar.BatchGrammarMatcher(max_threads=threads), plain)
        add("XGrammar, row by row", by_rows, plain)
        if self.managers is not None:
            managers = self.managers
            served = self.matchers(lambda one, _: managers.ours(one, self.vocabulary), count, n_drafts)
            for name, matchers, is_ours in (
                ("vLLM with us", served, True),
                ("vLLM's loop, our matchers", served, False),
                ("vLLM's loop, XGrammar's", plain, False),
            ):
                found[name] = managers.step(matchers, drafts, size, self.cores, is_ours)
        return found

    def measure(self, count: int, n_drafts: int) -> dict[str, Any]:
        """Measure the seconds of a step by way and regime, after all rows were compared."""
        ways = self.ways(count, n_drafts)
        for step, bitmask in ways.values():
            bitmask.fill_(0x55555555)
            step()
        self.compare([bitmask for _, bitmask in ways.values()])
        found: dict[str, dict[str, dict[str, Spread]]] = {name: {} for name in ways}
        for regime in TURNS:
            if regime == "busy" and count > MOST_BUSY_ROWS:
                continue
            with busy(regime == "busy"):
                times = self.times(regime, {name: step for name, (step, _) in ways.items()})
            for name, pairs in times.items():
                wall, cpu = zip(*pairs, strict=True)
                found[name][regime] = {"wall": Spread.of(wall), "CPU": Spread.of(cpu)}
        return {"size": count, "drafts": n_drafts, **found}

    def times(self, regime: str, ways: dict[str, Step]) -> dict[str, list[tuple[float, float]]]:
        """Return the seconds of the calls of each way, in wall time and in CPU time."""
        turns, calls = TURNS[regime]
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(turns):
            for name, step in ways.items():
                if regime == "warm":
                    step()
                for _ in range(calls):
                    if regime == "cold":
                        np.add(self.memory, 1, out=self.memory)
                    began, cpu = perf_counter(), process_time()
                    step()
                    times[name].append((perf_counter() - began, process_time() - cpu))
        return times

    def compare(self, bitmasks: Sequence[torch.Tensor]) -> None:
        """Count the rows that differ from those of the first way."""
        size = self.vocabulary.size
        first: Any = None
        for bitmask in bitmasks:
            bits = bits_of(bitmask, size)
            if first is None:
                first = bits
                self.rows += len(bits)
            else:
                self.differences += int((bits != first).any(axis=1).sum())


def by_rows(matchers: Sequence[Any], bitmask: Any, drafts: Sequence[list[int]]) -> None:
    """Fill one row after the other, and take drafts back, as vLLM's loop does."""
    row = 0
    for matcher, tokens in zip(matchers, drafts, strict=True):
        matcher.fill_next_token_bitmask(bitmask, row)
        for token in tokens:
            row += 1
            matcher.accept_token(token)
            matcher.fill_next_token_bitmask(bitmask, row)
        if tokens:
            matcher.rollback(len(tokens))
        row += 1


def by_batches(batch: Any, matchers: Sequence[Any], bitmask: Any, drafts: Sequence[list[int]]) -> None:
    """Fill a row of all matchers at once, once for each depth of their drafts, which have the same length."""
    n_drafts = len(drafts[0])
    for depth in range(n_drafts + 1):
        rows = list(range(depth, len(bitmask), n_drafts + 1))
        batch.batch_fill_next_token_bitmask(matchers, bitmask, rows)
        if depth < n_drafts:
            batch.batch_accept_token(matchers, [tokens[depth] for tokens in drafts])
    if n_drafts:
        batch.batch_rollback(matchers, n_drafts)


@contextmanager
def busy(is_wanted: bool) -> Iterator[None]:
    """A context with a thread that keeps the interpreter busy, if `is_wanted`."""
    done = threading.Event()

    def count() -> None:
        while not done.is_set():
            sum(range(1000))

    thread = threading.Thread(target=count, daemon=True)
    if is_wanted:
        thread.start()
    try:
        yield
    finally:
        done.set()
        if is_wanted:
            thread.join()


def command(
    vocabulary: options.VocabularyOption,
    json: options.RecordOption,
    rows: Annotated[list[int] | None, typer.Option(min=1, help="Sequences of a step; repeatable.")] = None,
    drafts: Annotated[list[int] | None, typer.Option(min=0, help="Drafts of each; repeatable.")] = None,
    schemas: Annotated[int, typer.Option(min=1, help="Schemas that sequences share.")] = SCHEMAS,
) -> None:
    """Measure all rows of a step of a server, compared with XGrammar's batches and vLLM's own loop."""
    arguments = dict(locals())
    console = report.make_console()
    with workloads.usage_errors():
        bench = StepBench(workloads.load_vocabulary(vocabulary), schemas)
    found = [bench.measure(count, n) for n in drafts or DRAFTS for count in rows or ROWS]
    report.say(console, f"{bench.rows:,} rows compared, {bench.differences:,} differences")
    record = {"steps": found, "rows": bench.rows, "differences": bench.differences}
    publish(console, json, "steps", arguments, record, not bench.differences)
