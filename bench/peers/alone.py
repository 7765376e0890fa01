"""One engine alone in its own process: from a schema or tags to a first mask, with time and memory.

What: `engines` returns their names, `Asked` is a request, `begin` makes a function from a request to a first
mask, and `alone` works with an engine in a forked process, which is killed if it takes too long.
When: in `bench.tools` and `bench.lengths`, whose requests may take minutes on some engines.
Limits: Unix. Each process has compiled only one small schema before, by another compiler if an engine has
caches: XGrammar's cache of rules is slower after other grammars. The number of threads is each library's
default. Caches are on, and empty.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import xgrammar

from bench import memory, workloads
from bench.forked import in_a_fork
from bench.peers import llguidance
from bench.request import Start, hybrid_start, plain_start
from hybrid.testing.comparison import Comparison
from hybrid.testing.mask_comparison import compare_along

OURS, EXACT, PLAIN, GUIDANCE = "equimask", "equimask, JSON Schema", "XGrammar", "llguidance"


def engines() -> list[str]:
    """Return the engines that are installed."""
    return [OURS, EXACT, PLAIN, *([GUIDANCE] if llguidance.is_installed() else [])]


NOT_ENDED = "not within its time"
"""The refusal that is recorded if an engine was killed."""


@dataclass(frozen=True)
class Asked:
    """A request.

    Attributes:
        schema: a JSON schema; None for tags.
        tags: tags as XGrammar's `compile_structural_tag` accepts them.
        lark: the same for llguidance.
    """

    schema: Mapping[str, Any] | None = None
    tags: Mapping[str, Any] | None = None
    lark: str = ""


Begin = Callable[[Asked], Start]


def begin(engine: str, vocabulary: Any) -> Begin:
    """Return a function from a request to the first mask of an engine; its kernels and tables are ready."""
    if engine == GUIDANCE:
        peer = llguidance.Peer(vocabulary)
        peer.schema(workloads.THROW_AWAY_SCHEMA)
        return lambda asked: peer.schema(asked.schema) if asked.schema is not None else peer.lark(asked.lark)
    bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
    if engine == PLAIN:
        warm = workloads.plain_compiler(vocabulary, None, cache=True)
        plain_start(partial(warm.compile_json_schema, workloads.THROW_AWAY_SCHEMA), bitmask)
        plain = workloads.plain_compiler(vocabulary, None, cache=True)
        return lambda asked: plain_start(_compile(plain, asked), bitmask)
    semantics = "json-schema" if engine == EXACT else "xgrammar"
    ours = workloads.hybrid_compiler(vocabulary, "auto", None, cache=True, semantics=semantics)
    hybrid_start(partial(ours.compile_json_schema, workloads.THROW_AWAY_SCHEMA), bitmask)
    return lambda asked: hybrid_start(_compile(ours, asked), bitmask)


def _compile(compiler: Any, asked: Asked) -> Callable[[], Any]:
    """Return a function that compiles a request, given as text, with our compiler or XGrammar's."""
    if asked.schema is None:
        return partial(compiler.compile_structural_tag, json.dumps(asked.tags))
    return partial(compiler.compile_json_schema, json.dumps(asked.schema))


def compared(vocabulary: Any, asked: Asked, texts: Sequence[Sequence[int]], seconds: float) -> Any:
    """Compare our masks with XGrammar's along texts. Return the `Comparison`; None if XGrammar does not end
    within the time."""

    def work() -> Comparison:
        ours, plain = (begin(engine, vocabulary)(asked) for engine in (OURS, PLAIN))
        if ours.compiled is None or plain.compiled is None:
            raise ValueError([ours.error, plain.error])
        total = Comparison()
        for ids in texts:
            total.add(compare_along(ours.compiled, plain.compiled, ids))
        return total

    return in_a_fork(work, seconds)


def refusal_of(begun: Start) -> dict[str, str]:
    """Return the refusal of an engine, for its row."""
    return {"refusal": begun.error.splitlines()[0][:200] if begun.error else "refused"}


def alone(
    engine: str, vocabulary: Any, work: Callable[[Begin], dict[str, Any]], seconds: float
) -> dict[str, Any]:
    """Do some work with an engine in a separate process, and measure the peak of memory.

    Returns:
        The result of the work with ``"bytes"``; ``{"refusal": NOT_ENDED}`` if it does not end within the
            time, or its process crashes.
    """
    vocabulary.tokenizer_info  # noqa: B018 - made once, before processes share it

    def measured() -> dict[str, Any]:
        way = begin(engine, vocabulary)
        found, at_peak = memory.with_peak(lambda: work(way))
        return {**found, "bytes": at_peak}

    began = perf_counter()
    found: dict[str, Any] | None = in_a_fork(measured, seconds)
    return {"refusal": NOT_ENDED, "over": perf_counter() - began} if found is None else found
