"""llguidance next to us, on JSON schemas and on Lark grammars: the times of its masks on the same tokens.

What: `Peer` compiles schemas and Lark grammars with llguidance, or says why it does not, and runs the same
documents in the same tokens as we do.
When: in `bench.schemas` and in `bench.lark`, where llguidance is installed.
Limits: times are what is compared. llguidance has its own reading of a schema (it keeps keywords that
XGrammar leaves out, and refuses others by name) and a lexer of its own for Lark's notation, so its masks mean
something else; how often they differ is told for information. A document counts up to the first token that it
refuses. Its vocabulary and slices are made before, and one thread serves. One matcher is reset for each
document: what it has learnt of the lexer stays, which suits it better than a new one.
"""

from __future__ import annotations

import gc
import importlib.util
import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import Any

import numpy as np
import xgrammar

from bench.report import Spread
from bench.serving import AROUND, Served, switches
from hybrid.testing.segmentation import tokenize_greedy

HEADER = '%llguidance {"allow_initial_skip": true}\n'
"""As in Lark, what is ignored may come first, such as a comment at the head of a file."""


def is_installed() -> bool:
    """Whether llguidance can be imported."""
    return importlib.util.find_spec("llguidance") is not None


class _Tokenizer:
    """A vocabulary as llguidance wants it."""

    def __init__(self, vocabulary: Any) -> None:
        self.eos_token_id = int(vocabulary.stop_token_ids[0])
        self.bos_token_id = None
        # ids without text are marked as special, as llguidance marks them: they are not to match any text
        self.tokens = [token or b"\xff[%d]" % number for number, token in enumerate(vocabulary.tokens)]
        self.special_token_ids = [
            number for number, token in enumerate(vocabulary.tokens) if not token
        ] + list(vocabulary.stop_token_ids)
        self._vocabulary = vocabulary

    def __call__(self, text: bytes | str) -> list[int]:
        data = text.encode() if isinstance(text, str) else text
        return tokenize_greedy(self._vocabulary, data) if data else []


@dataclass
class Started:
    """A grammar in llguidance; `refusal` says why there is none. Seconds are those to the first mask."""

    matcher: Any = None
    refusal: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0


@dataclass
class PeerTimes:
    """Documents of one schema in llguidance, in seconds a call; `refusal` says why there are none."""

    refusal: str = ""
    documents: int = 0
    complete: int = 0
    mask: array[float] = field(default_factory=lambda: array("d"))
    accept: array[float] = field(default_factory=lambda: array("d"))


class Peer:
    """llguidance over one vocabulary, with the slices that it takes by itself.

    Raises:
        ValueError: it is not installed.
    """

    def __init__(self, vocabulary: Any) -> None:
        try:
            from llguidance import LLTokenizer, TokenizerWrapper
        except ImportError as error:
            raise ValueError(
                f"llguidance cannot be imported ({error}); install it with: pip install llguidance"
            ) from error
        self._vocabulary = vocabulary
        self._tokenizer = LLTokenizer(TokenizerWrapper(_Tokenizer(vocabulary)), n_vocab=vocabulary.size)
        self._row = np.zeros((vocabulary.size + 31) // 32, np.int32)

    def schema(self, schema: Any, collect: bool = True) -> Started:
        """A JSON schema; what work before has left is collected first, unless that is done."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return self._start("grammar_from_json_schema", text, collect)

    def lark(self, text: str) -> Started:
        """A Lark grammar."""
        return self._start("grammar_from_lark", HEADER + text)

    def first_mask(self, schema: Any) -> Any:
        """A matcher with its first mask, in a row of its own: for several threads; None if it is refused."""
        from llguidance import LLMatcher

        row = np.zeros_like(self._row)
        text = schema if isinstance(schema, str) else json.dumps(schema)
        try:
            matcher = LLMatcher(self._tokenizer, LLMatcher.grammar_from_json_schema(text), log_level=0)
            if not matcher.get_error():
                matcher.unsafe_compute_mask_ptr(row.ctypes.data, row.nbytes)
            return None if matcher.get_error() else matcher
        except (ValueError, RecursionError):
            return None

    def _start(self, read: str, text: str, collect: bool = True) -> Started:
        from llguidance import LLMatcher

        if collect:
            gc.collect()
        cpu_began, began = process_time(), perf_counter()
        try:
            matcher = LLMatcher(self._tokenizer, getattr(LLMatcher, read)(text), log_level=0)
            if not matcher.get_error():
                matcher.unsafe_compute_mask_ptr(self._row.ctypes.data, self._row.nbytes)
            refusal = matcher.get_error()
        except (ValueError, RecursionError) as error:
            matcher, refusal = None, str(error) or type(error).__name__
        return Started(matcher, refusal, perf_counter() - began, process_time() - cpu_began)

    @property
    def row(self) -> tuple[int, int]:
        """Address and bytes of the row that masks are written to."""
        return self._row.ctypes.data, self._row.nbytes

    def measure(self, started: Started, documents: Sequence[Sequence[int]]) -> PeerTimes:
        """Run documents on a schema that was begun."""
        if started.refusal:
            return PeerTimes(started.refusal)
        found = PeerTimes()
        for ids, taken in zip(documents, self.taken(started.matcher, documents), strict=True):
            served = self.serve(started.matcher, [taken])
            found.mask.extend(served.fill[0])
            found.accept.extend(served.accept[0])
            found.documents += 1
            found.complete += len(taken) == len(ids) and started.matcher.is_accepting()
        return found

    def taken(self, matcher: Any, documents: Sequence[Sequence[int]]) -> list[list[int]]:
        """Each document up to the first token that it refuses; by copies, which teach the matcher nothing."""
        matcher.reset()
        return [list(ids[: matcher.deep_copy().try_consume_tokens(list(ids))]) for ids in documents]

    def serve(self, matcher: Any, documents: Sequence[Sequence[int]]) -> Served:
        """Run documents that it takes, a full row for each token; as `bench.serving.serve`."""
        served = Served()
        address, size = self._row.ctypes.data, self._row.nbytes
        for ids in documents:
            matcher.reset()
            fills, accepts, calm = array("d"), array("d"), bytearray()
            for first in range(0, len(ids), AROUND):
                before = switches()
                for token in ids[first : first + AROUND]:
                    began = perf_counter()
                    matcher.unsafe_compute_mask_ptr(address, size)
                    filled = perf_counter()
                    matcher.consume_token(token)
                    ended = perf_counter()
                    fills.append(filled - began)
                    accepts.append(ended - filled)
                still = switches() == before
                calm.extend(still for _ in range(len(fills) - first))
            served.fill.append(fills)
            served.accept.append(accepts)
            served.calm.append(calm)
        return served

    def differing(self, matcher: Any, compiled: Any, documents: Sequence[Sequence[int]]) -> tuple[int, int]:
        """Steps, and at how many of them its mask differs from ours in an id that has text."""
        from hybrid import GrammarMatcher

        bitmask = xgrammar.allocate_token_bitmask(1, self._vocabulary.size)
        textual = np.array([bool(token) for token in self._vocabulary.tokens])
        textual[list(self._vocabulary.stop_token_ids)] = False
        compared = np.zeros_like(self._row)
        packed = np.packbits(textual, bitorder="little")
        compared.view(np.uint8)[: packed.size] = packed
        steps = different = 0
        for ids in documents:
            matcher.reset()
            ours = GrammarMatcher(compiled)
            for token in ids:
                matcher.unsafe_compute_mask_ptr(self._row.ctypes.data, self._row.nbytes)
                ours.fill_next_token_bitmask(bitmask)
                steps += 1
                different += bool(np.any((self._row ^ bitmask.numpy()[0]) & compared))
                matcher.consume_token(token)
                ours.accept_token(token)
        return steps, different


def peer_spreads(rows: Sequence[Any]) -> dict[str, Spread]:
    """Masks on the schemas that it takes, and ours on the same; rows of `bench.schemas`."""
    taken = [(row, row.peer) for row in rows if row.alike and row.peer is not None and not row.peer.refusal]
    if not taken:
        return {}
    return {
        "mask, llguidance": Spread.of(value for _, peer in taken for value in peer.mask),
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
