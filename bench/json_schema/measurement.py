"""One schema on one engine: is it accepted, what can be written, and what does each step cost?

What: `measure` follows MaskBench's protocol, `check` only computes verdicts.
When: in the processes of `bench.json_schema.worker`.
Limits: times are those of one text for each instance: the accepted one, else the first one, up to the refused
token. A text is cut into tokens by longest match. An instance is *taken* if every token's bit is set in the
mask before it, every token is accepted, and the mask after the last one allows a stop token.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from bench.json_schema.engines import Engine
from bench.json_schema.order import keywords_at
from bench.json_schema.texts import place_at, spellings
from bench.request import Calls
from hybrid.testing.segmentation import tokenize_greedy

AROUND = 24
"""Bytes on each side of a refused byte that are kept for people to read."""


@dataclass
class Taken:
    """The result for an instance.

    Attributes:
        how: the spelling that was accepted, "" if none was; see `texts.spellings`.
        tried: how many spellings were tried.
        stopped: after how many bytes the first spelling is refused.
        around: the text around that place.
        keywords: the keywords of the subschemas that apply to the value that contains that place.
        failure: an exception that the engine raised while it read the instance; then there is no verdict.
    """

    how: str = ""
    tried: int = 0
    stopped: int | None = None
    around: str = ""
    keywords: list[str] = field(default_factory=list)
    failure: str = ""


@dataclass
class Result:
    """The result for one schema on one engine; times in seconds.

    Attributes:
        refusal: the engine's message, "" if it accepted the schema.
        crashed: whether that was an error that no user should see.
        first_mask, first_mask_cpu: times; None if there are none.
        left_out: what the engine itself says that it leaves out of the schema.
        instances: the results for instances, in the order of the file.
        masks, tokens: microseconds of each mask, and of each token.
        dead_ends: number of masks without a bit.
        unlike: number of tokens about which the mask and the matcher disagree.
    """

    refusal: str = ""
    crashed: bool = False
    first_mask: float | None = None
    first_mask_cpu: float | None = None
    left_out: list[str] = field(default_factory=list)
    instances: list[Taken] = field(default_factory=list)
    masks: list[float] = field(default_factory=list)
    tokens: list[float] = field(default_factory=list)
    dead_ends: int = 0
    unlike: int = 0


def left_out(compiled: Any) -> list[str]:
    """Return what an engine itself says that it leaves out of a schema; others refuse what they do not
    enforce."""
    return [str(one) for one in getattr(compiled, "relaxed", ())]


def measure(engine: Engine, vocabulary: Any, schema: Any, instances: Sequence[Any]) -> Iterator[Result]:
    """Follow the whole protocol. Yield a result after compiling, and the same one when everything is done."""
    gc.collect()
    begun = engine.start(schema)
    result = Result(begun.error, begun.crashed)
    if begun.calls is not None:
        result.first_mask, result.first_mask_cpu = begun.seconds, begun.cpu_seconds
        result.left_out = left_out(begun.compiled)
    yield result
    if begun.calls is not None:
        steps = _Steps(vocabulary, result)
        for instance in instances:
            result.instances.append(_guarded(partial(steps.take, engine, begun.compiled, schema, instance)))
    yield result


def check(engine: Engine, schema: Any, instances: Sequence[Any]) -> Iterator[Result]:
    """Compute verdicts only; yield as `measure` does, but a refusal once."""
    result = Result()
    try:
        compiled = engine.compile(schema)
    except Exception as error:  # noqa: BLE001 - whatever an engine raises is its refusal
        result.refusal = f"{type(error).__name__}: {error}"
        yield result
        return
    result.left_out = left_out(compiled)
    yield result
    for instance in instances:
        result.instances.append(_guarded(partial(_read, engine, compiled, schema, instance)))
    yield result


def _guarded(take: Callable[[], Taken]) -> Taken:
    try:
        return take()
    except Exception as error:  # noqa: BLE001 - a benchmark of many schemas goes on and reports it
        return Taken(failure=f"{type(error).__name__}: {error}".splitlines()[0])


def _read(engine: Engine, compiled: Any, schema: Any, instance: Any) -> Taken:
    found = Taken()
    for how, text in spellings(schema, instance):
        found.tried += 1
        reading = engine.reads(compiled, text)
        if reading.taken:
            found.how = how
            break
        if found.stopped is None:
            _stop(found, text, reading.stopped, schema, instance)
    return found


def _stop(found: Taken, text: bytes, place: int | None, schema: Any, instance: Any) -> None:
    """Record where the first spelling is refused."""
    found.stopped = place if place is not None else len(text)
    around = text[max(0, found.stopped - AROUND) : found.stopped], text[found.stopped :][:AROUND]
    found.around = " >>> ".join(part.decode("utf-8", "replace") for part in around)
    found.keywords = keywords_at(schema, place_at(instance, found.stopped))


class _Steps:
    """Reads texts token by token, with a mask before each token."""

    def __init__(self, vocabulary: Any, result: Result) -> None:
        self._vocabulary, self._result = vocabulary, result
        self._stops = list(vocabulary.stop_token_ids)

    def take(self, engine: Engine, compiled: Any, schema: Any, instance: Any) -> Taken:
        found = Taken()
        first: tuple[list[float], list[float]] = ([], [])
        for how, text in spellings(schema, instance):
            found.tried += 1
            ids = tokenize_greedy(self._vocabulary, text)
            masks: list[float] = []
            tokens: list[float] = []
            count = self._follow(engine.begin(compiled), ids, masks, tokens)
            if count is None:
                found.how = how
                first = masks, tokens
                break
            if found.stopped is None:
                place = sum(len(self._vocabulary.tokens[one]) for one in ids[:count])
                _stop(found, text, place, schema, instance)
                first = masks, tokens
        self._result.masks += first[0]
        self._result.tokens += first[1]
        return found

    def _follow(
        self, calls: Calls, ids: Sequence[int], masks: list[float], tokens: list[float]
    ) -> int | None:
        """Read a text. Return None if it is accepted, else how many of its tokens are."""
        row = np.asarray(calls.bitmask).reshape(-1).view(np.uint32)
        fill, accept = calls.fill, calls.accept
        for count, token in enumerate(ids):
            began = perf_counter()
            fill()
            filled = perf_counter()
            if problem := calls.error():
                raise ValueError(problem)
            allowed = bool(row[token >> 5] >> np.uint32(token & 31) & 1)
            self._result.dead_ends += not row.any()
            asked = perf_counter()
            accepted = bool(accept(token))
            done = perf_counter()
            # A matcher of llguidance may also report in this way that a token is refused.
            accepted = accepted and not calls.error()
            masks.append(round((filled - began) * 1e6, 1))
            tokens.append(round((done - asked) * 1e6, 1))
            self._result.unlike += allowed != accepted
            if not allowed or not accepted:
                return count
        began = perf_counter()
        fill()
        masks.append(round((perf_counter() - began) * 1e6, 1))
        self._result.dead_ends += not row.any()
        may_end = any(row[one >> 5] >> np.uint32(one & 31) & 1 for one in self._stops)
        return None if may_end else len(ids)
