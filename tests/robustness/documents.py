"""Documents for long runs: the accepted part of one, the digest of its masks, and an endless one.

What: `accepted` cuts a document at the first refused token, `mask_digest` identifies all masks along it,
`endless` joins documents into one endless text.
When: in the tests of this folder.
Limits: an endless text is found for grammars whose documents may follow one another, or be members of an
array or an element.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

from bench.documents import is_accepted
from hybrid import GrammarMatcher
from hybrid.testing.segmentation import tokenize_greedy, tokenize_random

HEAD = re.compile(
    rb"(?:\s|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*>|#include[^\n]*|using namespace[^\n]*|typedef[^\n]*;)*",
    re.DOTALL,
)
"""Text that may occur only at the beginning of a document."""

TAIL = re.compile(rb"[\s`]*$")
"""Text that may occur only at its end."""

JOINTS = (
    (b"", b"\n"),
    (b"", b";\n"),
    (b"", b" + "),
    (b"[", b",\n"),
    (b'<?xml version="1.1"?>\n<all>', b"\n"),
)
"""Ways to join documents: the opening of the text, and the separator."""


def accepted(compiled: Any, ids: Sequence[int]) -> list[int]:
    """A document up to the first refused token, with a stop token if it may end there."""
    matcher = GrammarMatcher(compiled)
    found: list[int] = []
    for token in ids:
        if not matcher.accept_token(token):
            return found
        found.append(token)
    stop = compiled.vocabulary.stop_token_ids[0]
    return [*found, stop] if matcher.accept_token(stop) else found


def mask_bits(row: Any, size: int) -> Any:
    """A mask without the unused bits of its last word, whose values are unspecified."""
    if size % 32:
        row = row.copy()
        row[-1] &= (1 << size % 32) - 1
    return row


def mask_digest(compiled: Any, ids: Sequence[int], bitmask: Any) -> str:
    """A digest of the masks before each token of a document."""
    matcher, digest = GrammarMatcher(compiled), blake2b(digest_size=16)
    row = bitmask.numpy()[0]
    for token in ids:
        row.fill(-1)  # a fill has to write the whole row
        matcher.fill_next_token_bitmask(bitmask)
        digest.update(mask_bits(row, compiled.vocabulary.size))
        if not matcher.accept_token(token):
            raise AssertionError(f"token {token} was refused in a document that another compile accepts")
    return digest.hexdigest()


def endless(compiled: Any, vocabulary: Any, texts: Sequence[bytes], seed: int) -> Iterator[int] | None:
    """The tokens, split at random, of one endless text; None if no way to make one is known."""
    for trim in (b"", b";"):
        cores = [TAIL.sub(b"", text[HEAD.match(text).end() :]).removesuffix(trim) for text in texts]
        for opening, joint in JOINTS:
            follow = [
                core for core in cores if is_accepted(compiled, opening + joint.join([core] * 3), whole=False)
            ]
            if follow and is_accepted(compiled, opening + joint.join([*follow, *follow]), whole=False):
                return _strung(vocabulary, follow, opening, joint, seed)
    return None


def _strung(vocabulary: Any, texts: list[bytes], opening: bytes, joint: bytes, seed: int) -> Iterator[int]:
    rng = random.Random(seed)
    if opening:
        yield from tokenize_greedy(vocabulary, opening)
    while True:
        text = rng.choice(texts) + joint
        yield from tokenize_random(vocabulary, text, f"{seed} {rng.random()}")
