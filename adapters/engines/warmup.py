"""Compiling and following a grammar of each kind before the first request, so that it need not wait.

What: `GRAMMARS` to compile, and `exercise`.
When: at the start of an engine. Afterwards, everything exists that is made at first use (tables of kernels,
processes that run XGrammar's converters).
Limits: none of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from hybrid import allocate_token_bitmask

SCHEMA = """{
"type": "object", "required": ["name"], "properties": {
"name": {"type": "string", "maxLength": 9}, "age": {"type": "integer"},
"tags": {"type": "array", "items": {"enum": ["a", "b"]}}}}"""

GRAMMARS: tuple[tuple[str, str], ...] = (
    ("compile_json_schema", '{"type": "object"}'),  # what engines use for any JSON object
    ("compile_json_schema", SCHEMA),
    ("compile_regex", "[a-z]+[0-9]{2,4}"),
    ("compile_grammar", 'root ::= "a" root "b" | [0-9]*'),
)
"""Methods of a compiler, each with a grammar."""


def exercise(
    fill: Callable[[torch.Tensor, int], object], accept: Callable[[int], object],
    ended: Callable[[], bool], size: int,
) -> None:  # fmt: skip
    """Fill some masks, and accept tokens that they allow.

    Args:
        fill: overwrites a row of a bitmask with the mask.
        accept: reads a token.
        ended: whether the text has ended.
        size: number of ids of the vocabulary.
    """
    bitmask = allocate_token_bitmask(1, size)
    for _ in range(8):
        fill(bitmask, 0)
        words = bitmask[0].numpy()
        if not words.any():  # the vocabulary cannot spell such a text
            break
        word = int(words.nonzero()[0][0])
        lowest = int(words[word]) & -int(words[word])
        accept(32 * word + lowest.bit_length() - 1)
        if ended():
            break
