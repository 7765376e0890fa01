"""llguidance beside us on JSON schemas: time to the first mask, and the times of masks and tokens.

What: `SchemaPeer` compiles a schema with llguidance and runs the same documents in the same tokens.
When: in `bench.schemas`, with ``--llguidance``, where llguidance is installed.
Limits: times are what is compared. llguidance has its own reading of a schema (it keeps keywords that
XGrammar leaves out, and refuses others by name), so its masks mean something else: masks are asserted to be
equal to XGrammar's only. A document counts up to the first token that it refuses. Its
vocabulary and slices are made before, and one thread serves. One matcher is reset for each document: what it
has learnt of the lexer stays, as what a grammar of ours has met does.
"""

from __future__ import annotations

import gc
import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import Any

import numpy as np

from bench.lark_peers import peer_tokenizer
from bench.report import Spread, summed


@dataclass
class PeerTimes:
    """Seconds of one schema in llguidance; `refusal` says why there are none."""

    refusal: str = ""
    first_mask: float | None = None
    first_mask_cpu: float | None = None
    documents: int = 0
    complete: int = 0
    fill: array[float] = field(default_factory=lambda: array("d"))
    accept: array[float] = field(default_factory=lambda: array("d"))

    def record(self) -> dict[str, Any]:
        return {
            "refusal": self.refusal,
            "first_mask": self.first_mask,
            "first_mask_cpu": self.first_mask_cpu,
            "documents": self.documents,
            "complete": self.complete,
            "mask": summed(Spread.of(self.fill)),
            "accept": summed(Spread.of(self.accept)),
        }


class SchemaPeer:
    """llguidance over one vocabulary.

    Raises:
        ValueError: it is not installed.
    """

    def __init__(self, vocabulary: Any) -> None:
        try:
            self._tokenizer = peer_tokenizer(vocabulary)
        except ImportError as error:
            raise ValueError(
                f"llguidance cannot be imported ({error}); install it with: pip install llguidance"
            ) from error
        self._row = np.zeros((vocabulary.size + 31) // 32, np.int32)

    def measure(self, schema: Any, documents: Sequence[Sequence[int]]) -> PeerTimes:
        """Compile a schema, take the time of its first mask, then run documents."""
        from llguidance import LLMatcher

        found = PeerTimes()
        address, size = self._row.ctypes.data, self._row.nbytes
        gc.collect()
        cpu_began, began = process_time(), perf_counter()
        try:
            text = schema if isinstance(schema, str) else json.dumps(schema)
            matcher = LLMatcher(self._tokenizer, LLMatcher.grammar_from_json_schema(text), log_level=0)
            if not matcher.get_error():
                matcher.unsafe_compute_mask_ptr(address, size)
            found.first_mask, found.first_mask_cpu = perf_counter() - began, process_time() - cpu_began
            found.refusal = matcher.get_error()
        except (ValueError, RecursionError) as error:
            found.refusal = str(error) or type(error).__name__
        if found.refusal:
            found.first_mask = found.first_mask_cpu = None
            return found
        for ids in documents:
            self._serve(matcher, ids, found)
        return found

    def _serve(self, matcher: Any, ids: Sequence[int], found: PeerTimes) -> None:
        # a copy finds where to stop, so that the matcher has learnt nothing of this document before
        taken = matcher.deep_copy().try_consume_tokens(list(ids))
        address, size = self._row.ctypes.data, self._row.nbytes
        for token in ids[:taken]:
            began = perf_counter()
            matcher.unsafe_compute_mask_ptr(address, size)
            filled = perf_counter()
            matcher.consume_token(token)
            ended = perf_counter()
            found.fill.append(filled - began)
            found.accept.append(ended - filled)
        found.documents += 1
        found.complete += taken == len(ids) and matcher.is_accepting()
        matcher.reset()


def peer_spreads(rows: Sequence[Any]) -> dict[str, Spread]:
    """First masks and masks on the schemas that it takes, and ours on the same; rows of `bench.schemas`."""
    taken = [(row, row.peer) for row in rows if row.timed and row.peer is not None and not row.peer.refusal]
    if not taken:
        return {}
    return {
        "first mask, llguidance": Spread.of(peer.first_mask or 0.0 for _, peer in taken),
        "first mask, ours where llguidance has one": Spread.of(row.first_mask or 0.0 for row, _ in taken),
        "first mask, llguidance, CPU": Spread.of(peer.first_mask_cpu or 0.0 for _, peer in taken),
        "mask, llguidance": Spread.of(value for _, peer in taken for value in peer.fill),
        "mask, ours where llguidance has one": Spread.of(
            value for row, _ in taken for value in row.comparison.times.fill
        ),
        "accept, llguidance": Spread.of(value for _, peer in taken for value in peer.accept),
    }


def peer_counts(rows: Sequence[Any]) -> dict[str, int]:
    """How many schemas it takes, and how many documents it reads to the end."""
    peers = [row.peer for row in rows if row.peer is not None]
    return {
        "schemas": len(peers),
        "taken": sum(not peer.refusal for peer in peers),
        "documents": sum(peer.documents for peer in peers),
        "complete": sum(peer.complete for peer in peers),
    }
