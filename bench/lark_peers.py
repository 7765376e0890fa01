"""llguidance next to us: the same Lark text, the same documents and tokens, the times of its masks.

What: `Peer` compiles a grammar with llguidance, or says why it does not; `Peer.serve` runs documents through
it as `bench.serving.serve` runs them through ours; `differing` counts the steps at which masks differ.
When: in `bench.lark`, where llguidance is installed.
Limits: times are what is compared. llguidance reads Lark's notation with a lexer of its own: its masks mean
something else, and how often they differ is told for information. One matcher is reset for each document:
what it has learnt of the lexer stays, which suits it better than a new one.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np
import xgrammar

from bench.serving import AROUND, Served, switches
from hybrid.testing.segmentation import tokenize_greedy

HEADER = '%llguidance {"allow_initial_skip": true}\n'
"""As in Lark, what is ignored may come first, such as a comment at the head of a file."""


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


def peer_tokenizer(vocabulary: Any) -> Any:
    """A vocabulary in llguidance, with the slices that it takes by itself."""
    from llguidance import LLTokenizer, TokenizerWrapper

    return LLTokenizer(TokenizerWrapper(_Tokenizer(vocabulary)), n_vocab=vocabulary.size)


class Peer:
    """A grammar in llguidance.

    Attributes:
        refusal: why it cannot be used; empty if it can.
        seconds: of compiling and the first matcher.
    """

    def __init__(self, tokenizer: Any, vocabulary: Any, text: str) -> None:
        from llguidance import LLMatcher

        self._vocabulary = vocabulary
        self.refusal = ""
        began = perf_counter()
        try:
            grammar = LLMatcher.grammar_from_lark(HEADER + text)
            self._matcher = LLMatcher(tokenizer, grammar, log_level=0)
            self.refusal = self._matcher.get_error()
        except ValueError as error:
            self.refusal = str(error)
        self.seconds = perf_counter() - began

    def taken(self, documents: Sequence[Sequence[int]]) -> list[list[int]]:
        """Each document up to the first token that it refuses."""
        found = []
        for ids in documents:
            self._matcher.reset()
            found.append(list(ids[: self._matcher.try_consume_tokens(list(ids))]))
        self._matcher.reset()
        return found

    def serve(self, documents: Sequence[Sequence[int]]) -> Served:
        """Run documents that it takes, a full row for each token; as `bench.serving.serve`."""
        served = Served()
        row = np.zeros((self._vocabulary.size + 31) // 32, np.int32)
        address, size = row.ctypes.data, row.nbytes
        matcher = self._matcher
        for ids in documents:
            fills, accepts, calm = array("d"), array("d"), bytearray()
            matcher.reset()
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

    def differing(self, compiled: Any, documents: Sequence[Sequence[int]]) -> tuple[int, int]:
        """Steps, and at how many of them its mask differs from ours in an id that has text."""
        from hybrid import GrammarMatcher

        row = np.zeros((self._vocabulary.size + 31) // 32, np.int32)
        bitmask = xgrammar.allocate_token_bitmask(1, self._vocabulary.size)
        ours = bitmask.numpy()[0]
        textual = np.array([bool(token) for token in self._vocabulary.tokens])
        textual[list(self._vocabulary.stop_token_ids)] = False
        packed = np.packbits(textual, bitorder="little")
        words = np.zeros(row.nbytes, np.uint8)
        words[: packed.size] = packed
        compared = words.view(np.int32)
        steps = different = 0
        for ids in documents:
            self._matcher.reset()
            matcher = GrammarMatcher(compiled)
            for token in ids:
                self._matcher.unsafe_compute_mask_ptr(row.ctypes.data, row.nbytes)
                matcher.fill_next_token_bitmask(bitmask)
                steps += 1
                different += bool(np.any((row ^ ours) & compared))
                self._matcher.consume_token(token)
                matcher.accept_token(token)
        return steps, different
