"""The documents that grammars are measured on: real ones, samples of ours, and one without end.

What: `read_documents` reads files and folders; `Documents.of` keeps those that a grammar accepts to the
end, cut into tokens; `endless` strings them together to one text that goes on for ever.
When: in `bench.grammar` and `bench.soak`.
Limits: cuts are by longest match or at random, which no real tokenizer makes. A text without end is found
for grammars whose documents may follow one another, or stand in an array or an element.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hybrid.testing.segmentation import tokenize_greedy, tokenize_random

HEAD = re.compile(
    rb"(?:\s|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*>|#include[^\n]*|using namespace[^\n]*|typedef[^\n]*;)*",
    re.DOTALL,
)
"""What may stand at the beginning of a document only."""

TAIL = re.compile(rb"[\s`]*$")
"""What may stand at its end only."""

JOINTS = (
    (b"", b"\n"),
    (b"", b";\n"),
    (b"", b" + "),
    (b"[", b",\n"),
    (b'<?xml version="1.1"?>\n<all>', b"\n"),
)
"""Ways to string documents together: what opens the text, and what stands between two."""


def read_documents(paths: Sequence[Path], limit: int | None = None, seed: int = 0) -> list[tuple[str, bytes]]:
    """Names and texts of files, and of all files in folders; a random sample of ``limit`` of them."""
    files: list[Path] = []
    for path in paths:
        files += sorted(item for item in path.iterdir() if item.is_file()) if path.is_dir() else [path]
    if limit is not None and limit < len(files):
        files = sorted(random.Random(seed).sample(files, limit))
    return [(file.name, file.read_bytes()) for file in files]


@dataclass(frozen=True)
class Documents:
    """Texts that a grammar accepts to the end, and their tokens by longest match."""

    names: list[str]
    texts: list[bytes]
    ids: list[list[int]]

    @classmethod
    def of(cls, compiled: Any, vocabulary: Any, texts: Sequence[tuple[str, bytes]], most: int) -> Documents:
        """Those of some texts that are accepted, if need be without the white space around them.

        Args:
            compiled: the grammar.
            vocabulary: of the tokens.
            texts: names and texts.
            most: tokens kept of each.
        """
        found = cls([], [], [])
        for name, text in texts:
            for tried in (text, text.strip()):
                if tried and is_accepted(compiled, tried):
                    found.names.append(name)
                    found.texts.append(tried)
                    found.ids.append(tokenize_greedy(vocabulary, tried)[:most])
                    break
        return found


def is_accepted(compiled: Any, text: bytes, *, whole: bool = True) -> bool:
    """Whether a text is a sentence of the grammar, or the beginning of one."""
    from hybrid import GrammarMatcher

    matcher = GrammarMatcher(compiled)
    return matcher.accept_string(text) and (not whole or matcher.is_completed())


def endless(compiled: Any, vocabulary: Any, texts: Sequence[bytes], seed: int) -> Iterator[int] | None:
    """The tokens, cut at random, of one text without end; None if no way to make one is known."""
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
