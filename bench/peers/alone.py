"""One engine alone in a process of its own: from a schema or tags to a first mask, with time and memory.

What: `ENGINES` are the names, `Asked` what one is asked, `begin` goes to its first mask, `alone` does some
work with an engine in a forked process that is ended where it takes too long.
When: in `bench.tools` and `bench.lengths`, whose requests may take an engine minutes.
Limits: Unix. Each process has met nothing but one small schema, by another compiler where an engine keeps
what it met: XGrammar's cache of rules is slower once it has met other grammars. Threads are each library's
default; caches are on, and empty. Tags have one meaning of ours, that of XGrammar.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import xgrammar

from bench import memory, workloads
from bench.forked import in_a_fork
from bench.peers import llguidance
from bench.request import Start, hybrid_start, plain_start

OURS, EXACT, PLAIN, GUIDANCE = "equimask", "equimask, JSON Schema", "XGrammar", "llguidance"
ENGINES = (OURS, EXACT, PLAIN, GUIDANCE)

NOT_ENDED = "not within its time"
"""What an engine is said to have refused that was ended."""


@dataclass(frozen=True)
class Asked:
    """What an engine is asked.

    Attributes:
        schema: a JSON schema; None: tags are asked.
        tags: as XGrammar's `compile_structural_tag` takes them.
        lark: the same as llguidance takes them.
    """

    schema: Mapping[str, Any] | None = None
    tags: Mapping[str, Any] | None = None
    lark: str = ""

    def engines(self) -> list[str]:
        """Those that can be asked here."""
        found = [OURS, EXACT, PLAIN] if self.schema is not None else [OURS, PLAIN]
        return [*found, GUIDANCE] if llguidance.is_installed() else found


Begin = Callable[[Asked], Start]


def begin(engine: str, vocabulary: Any) -> Begin:
    """How an engine goes from what it is asked to its first mask; its kernels and tables are ready."""
    if engine == GUIDANCE:
        peer = llguidance.Peer(vocabulary)
        peer.schema(workloads.THROW_AWAY_SCHEMA)
        return lambda asked: peer.schema(asked.schema) if asked.schema is not None else peer.lark(asked.lark)
    bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
    if engine == PLAIN:
        warm = workloads.plain_compiler(vocabulary, None, cache=True)
        plain_start(partial(warm.compile_json_schema, workloads.THROW_AWAY_SCHEMA), bitmask)
        plain = workloads.plain_compiler(vocabulary, None, cache=True)
        return lambda asked: plain_start(_compile(plain, asked, {}), bitmask)
    options = {"semantics": "json-schema"} if engine == EXACT else {}
    ours = workloads.hybrid_compiler(vocabulary, "auto", None, cache=True)
    hybrid_start(partial(ours.compile_json_schema, workloads.THROW_AWAY_SCHEMA, **options), bitmask)
    return lambda asked: hybrid_start(_compile(ours, asked, options), bitmask)


def _compile(compiler: Any, asked: Asked, options: Mapping[str, Any]) -> Callable[[], Any]:
    """What compiles a request by ours or by XGrammar."""
    if asked.schema is None:
        return partial(compiler.compile_structural_tag, asked.tags)
    return partial(compiler.compile_json_schema, asked.schema, **options)


def alone(
    engine: str, vocabulary: Any, work: Callable[[Begin], dict[str, Any]], seconds: float
) -> dict[str, Any]:
    """What some work with an engine finds, in a process of its own, with the bytes at its peak.

    Returns:
        the same with ``"bytes"``; ``{"refusal": NOT_ENDED}`` where it does not end within so many seconds,
        or its process crashes.
    """
    vocabulary.tokenizer_info  # noqa: B018 - made once, before processes share it

    def measured() -> dict[str, Any]:
        way = begin(engine, vocabulary)
        found, at_peak = memory.with_peak(lambda: work(way))
        return {**found, "bytes": at_peak}

    began = perf_counter()
    found: dict[str, Any] | None = in_a_fork(measured, seconds)
    return {"refusal": NOT_ENDED, "over": perf_counter() - began} if found is None else found
