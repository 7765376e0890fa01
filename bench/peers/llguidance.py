"""llguidance on JSON schemas and on Lark grammars: the times of its masks on the same tokens.

What: `Peer` compiles schemas and Lark grammars with llguidance, or returns why it refuses them, and runs the
same documents in the same tokens as we do.
When: in `bench.schemas` and in `bench.lark`, if llguidance is installed.
Limits: only times are compared. llguidance gives schemas its own meaning (it enforces keywords that XGrammar
leaves out, and refuses others by name), and has its own lexer for Lark's notation, so its masks have another
meaning; how often they differ is reported for information. A document counts up to the first token that it
refuses. Its vocabulary and slices are made before, and it uses one thread. One matcher is reset for each
document: what it has learned about the lexer stays, which makes it faster than a new one.
"""

from __future__ import annotations

import importlib.util
import json
from array import array
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import xgrammar

from bench.request import Calls, Start, start
from bench.server_times import Begin, beginning, timed
from hybrid.testing.mask_comparison import bits_of
from hybrid.testing.segmentation import tokenize_greedy

HEADER = '%llguidance {"allow_initial_skip": true}\n'
"""Allows ignored text at the beginning, such as a comment at the head of a file, as Lark does."""


def is_installed() -> bool:
    """Whether llguidance can be imported."""
    return importlib.util.find_spec("llguidance") is not None


class _Tokenizer:
    """A vocabulary in the form that llguidance needs."""

    def __init__(self, vocabulary: Any) -> None:
        self.eos_token_id = int(vocabulary.stop_token_ids[0])
        self.bos_token_id = None
        # ids without text get llguidance's mark of special tokens, so that they match no text
        self.tokens = [token or b"\xff[%d]" % number for number, token in enumerate(vocabulary.tokens)]
        self.special_token_ids = [
            number for number, token in enumerate(vocabulary.tokens) if not token
        ] + list(vocabulary.stop_token_ids)
        self._vocabulary = vocabulary

    def __call__(self, text: bytes | str) -> list[int]:
        data = text.encode() if isinstance(text, str) else text
        return tokenize_greedy(self._vocabulary, data) if data else []


class Peer:
    """llguidance over one vocabulary, with its default slices.

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
        self.tokenizer = LLTokenizer(TokenizerWrapper(_Tokenizer(vocabulary)), n_vocab=vocabulary.size)
        self._bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)

    def schema(self, schema: Any, bitmask: Any = None, collect: bool = True) -> Start:
        """Take a JSON schema to its first mask.

        Args:
            schema: the schema, as text or as JSON data.
            bitmask: the row for masks; each thread needs its own.
            collect: whether to collect garbage of earlier work.
        """
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return self._start("grammar_from_json_schema", text, bitmask, collect)

    def lark(self, text: str) -> Start:
        """Take a Lark grammar to its first mask."""
        return self._start("grammar_from_lark", HEADER + text)

    def _start(self, read: str, text: str, bitmask: Any = None, collect: bool = True) -> Start:
        return start(
            partial(self.compile, read, text), partial(self.calls, row=bitmask), (Exception,), collect
        )

    def compile(self, read: str, text: str) -> Any:
        """Return a matcher of a text that a method of its `LLMatcher` reads.

        Raises:
            ValueError: it refuses the text.
        """
        from llguidance import LLMatcher

        matcher = LLMatcher(self.tokenizer, getattr(LLMatcher, read)(text), log_level=0)
        if problem := matcher.get_error():
            raise ValueError(problem)
        return matcher

    def calls(self, matcher: Any, row: Any = None) -> Calls:
        """Return the methods of one of its matchers, with a row for masks."""
        row = self._bitmask if row is None else row
        fill = partial(matcher.unsafe_compute_mask_ptr, row.data_ptr(), 4 * row.numel())
        return Calls(fill, matcher.consume_token, matcher.is_accepting, row, matcher.get_error)

    def masks(self, begun: Start, documents: Sequence[Sequence[int]]) -> array[float]:
        """Return the seconds of each mask along documents, if it accepts the schema."""
        found = array("d")
        for taken in self.taken(begun.compiled, documents) if begun.calls is not None else ():
            begun.compiled.reset()
            found.extend(timed(begun.calls, taken)[0])
        return found

    def taken(self, matcher: Any, documents: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return each document up to the first token that it refuses. Copies are used, so that the matcher
        learns nothing."""
        matcher.reset()
        return [list(ids[: matcher.deep_copy().try_consume_tokens(list(ids))]) for ids in documents]

    def differing(self, begun: Start, compiled: Any, documents: Sequence[Sequence[int]]) -> tuple[int, int]:
        """Return the number of steps, and in how many of them its mask differs from ours in an id that has
        text."""
        textual = np.array([bool(token) for token in self._vocabulary.tokens])
        textual[list(self._vocabulary.stop_token_ids)] = False
        steps = different = 0
        begin, begin_ours = beginning_of(begun), beginning(compiled)
        for ids in documents:
            theirs, ours = begin(), begin_ours()
            for token in ids:
                theirs.fill()
                ours.fill()
                steps += 1
                differing = bits_of((theirs.bitmask ^ ours.bitmask)[0], textual.size)
                different += bool(np.any(differing & textual))
                theirs.accept(token)
                ours.accept(token)
        return steps, different


def beginning_of(begun: Start) -> Begin:
    """Return a function that resets a grammar's matcher for the next document."""

    def begin() -> Calls:
        begun.compiled.reset()
        assert begun.calls is not None, "the grammar was not refused"
        return begun.calls

    return begin
