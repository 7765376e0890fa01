"""Times of a Lark grammar as a server meets them, what its stacks cost, and what it holds after all files.

What: `mask_times` takes repeated files, new files on a warm grammar, first files and batches
(`bench.serving`); `stack_depths` counts the states that were read of stacks; `held` the tables.
When: in `bench.lark`, after `bench.lark_checks`.
Limits: those of `bench.serving`. A first file is the first after loading the artefact, each time another
object; without an artefact it is the first in a new session, whose tables are as empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xgrammar

from bench import serving
from bench.report import Spread
from bench.serving import Rounds, Served

Fresh = Callable[[], Any]
"""Gives the grammar with nothing met."""


def fresh_from(compiled: Any, artefact: Path | None) -> Fresh:
    """A way to get a grammar with nothing met: from its artefact, or by emptying its tables."""
    if artefact is None:

        def emptied() -> Any:
            with compiled.classifier.lock:
                compiled.classifier.renew()
            return compiled

        return emptied

    def loaded() -> Any:
        from hybrid import CompiledGrammar

        return CompiledGrammar.load(artefact, compiled.vocabulary)

    return loaded


def rounds_of(served: Sequence[Served], clock: float) -> dict[str, Rounds]:
    """Masks and tokens of some rounds, summed up."""
    found = {}
    for what, name in (("fill", "mask"), ("accept", "accept")):
        times = [serving.flat(getattr(item, what)) for item in served]
        found[name] = Rounds.of(times, clock, serving.calm(served, what))
    return found


def mask_times(
    fresh: Fresh, documents: Sequence[Sequence[int]], rounds: int, firsts: int, seed: int, clock: float
) -> tuple[dict[str, Rounds], dict[str, Spread]]:
    """Times of single calls, each named by what is called and what was met before.

    Args:
        fresh: gives the grammar with nothing met.
        documents: token ids of files that it accepts.
        rounds: of repeated and of new files.
        firsts: files of which each is once the first.
        seed: of the halves that warm the grammar.
        clock: `serving.clock_cost`.

    Returns:
        Rounds by names such as ``"mask, new file"``; and, of each first file, the mean of its calls.
    """
    compiled = fresh()
    bitmask = xgrammar.allocate_token_bitmask(1, compiled.vocabulary.size)
    first = serving.first_documents(fresh, documents, bitmask, min(firsts, len(documents)), seed)
    kinds = {
        "repeated": serving.repeated(compiled, documents, bitmask, rounds),
        "new file": [item for _, item in serving.new_requests(fresh, documents, bitmask, rounds, seed)],
    }
    found = {
        f"{what}, {kind}": numbers
        for kind, served in kinds.items()
        for what, numbers in rounds_of(served, clock).items()
    }
    # a round of first files is a file: all calls are taken together, not medians over files
    together = Served(
        *([part for item in first for part in getattr(item, name)] for name in ("fill", "accept", "calm"))
    )
    found |= {f"{what}, first file": numbers for what, numbers in rounds_of([together], clock).items()}
    means = {
        f"mean {what} of a first file": Spread.of(
            float(np.mean(np.maximum(np.asarray(times[0]) - clock, 0.0)))
            for item in first
            if len((times := getattr(item, call))[0])
        )
        for what, call in (("mask", "fill"), ("accept", "accept"))
    }
    return dict(sorted(found.items(), key=lambda item: item[0].startswith("accept"))), means


def batch_times(
    fresh: Fresh, documents: Sequence[Sequence[int]], size: int, steps: int, clock: float
) -> dict[str, Any]:
    """Times of a row in batches, each row begun with another file: on empty tables, and once more."""
    serving.serve_batch(fresh(), [[documents[0]]] * size, 3)  # kernels that only batches use
    compiled = fresh()
    streams = [[documents[(row + k) % len(documents)] for k in range(len(documents))] for row in range(size)]
    found: dict[str, Any] = {}
    for name in ("new", "repeated"):
        batches = serving.serve_batch(compiled, streams, steps)
        for what, times in (("mask", batches.fill), ("accept", batches.accept)):
            values = np.maximum(np.asarray(times) - clock, 0.0) / size
            found[f"{what} a row, {name}"] = Spread.of(values)
    return found


def stack_depths(compiled: Any, documents: Sequence[Sequence[int]]) -> tuple[Spread, Spread]:
    """States read of the stack for each mask, and states that the stack has."""
    from hybrid import GrammarMatcher

    read, whole = [], []
    bitmask = xgrammar.allocate_token_bitmask(1, compiled.vocabulary.size)
    known: dict[int, tuple[int, int]] = {}
    for ids in documents:
        matcher: Any = GrammarMatcher(compiled)
        serial = matcher._session.serial
        for token in ids:
            matcher.fill_next_token_bitmask(bitmask)
            if matcher._session.serial != serial:
                serial = matcher._session.serial
                known.clear()
            config, store = matcher._config, matcher._session.store
            if config not in known:
                known[config] = store.depth_read(config), len(store.stack(config))
            depth, size = known[config]
            read.append(depth)
            whole.append(size)
            matcher.accept_token(token)
    return Spread.of(read), Spread.of(whole)


def held(compiled: Any, documents: Sequence[Sequence[int]]) -> dict[str, int]:
    """What the grammar holds after all documents."""
    bitmask = xgrammar.allocate_token_bitmask(1, compiled.vocabulary.size)
    serving.serve(compiled, documents, bitmask)
    session = compiled.classifier.session
    store = session.store
    return {
        "compiled": int(compiled.memory_size_bytes),
        "fixed tables": int(store.fixed.nbytes),
        "tables": int(store.nbytes),
        **store.counts(),
        "masks": sum(rows.n_rows for rows in session.rows.values()),
        "steps": len(session.steps),
        "session": session.serial,
    }
