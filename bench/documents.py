"""The documents that grammars are measured on: real ones, and samples of ours.

What: `read_documents` reads files and folders; `Documents.of` keeps those that a grammar accepts to the
end, cut into tokens.
When: in `bench.grammar`.
Limits: cuts are by longest match or at random, which no real tokenizer makes.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hybrid.testing.segmentation import tokenize_greedy


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
