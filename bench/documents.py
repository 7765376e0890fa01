"""The documents that grammars are measured on: real files, and samples that come with the project.

What: `read_documents` reads files and folders. `read_sources` reads a folder, in an order that depends only
on a seed. `cut_samples` cuts texts into tokens and says which ones a grammar accepts to the end. `parsable`
keeps the files that Lark parses.
When: in `bench.grammar` and `bench.lark`.
Limits: texts are cut by longest match or at random, unlike by real tokenizers. If Lark judges, and a grammar
is narrower than its language, few files are kept. Sources that are not UTF-8, or larger than a bound, are
skipped and not counted.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lark import Lark
from lark.exceptions import LarkError

from bench.workloads import token_sequences
from hybrid.testing.comparison import Comparison


def read_documents(paths: Sequence[Path], limit: int | None = None, seed: int = 0) -> list[tuple[str, bytes]]:
    """Return names and texts of files, and of all files in folders; a random sample of ``limit`` of them."""
    files: list[Path] = []
    for path in paths:
        files += sorted(item for item in path.iterdir() if item.is_file()) if path.is_dir() else [path]
    if limit is not None and limit < len(files):
        files = sorted(random.Random(seed).sample(files, limit))
    return [(file.name, file.read_bytes()) for file in files]


@dataclass
class Sample:
    """A text cut into tokens: its name with the kind of cut, and whether a grammar accepts it to the end.

    `comparison` is the comparison of masks along it, if there was one.
    """

    name: str
    ids: list[int]
    accepted: bool
    comparison: Comparison | None = None


CUTS = ("longest match", "random cuts")


def cut_samples(
    compiled: Any, vocabulary: Any, texts: Sequence[tuple[str, bytes]], most: int, seed: int
) -> list[Sample]:
    """Cut texts in both ways. The white space around a text is removed if it is accepted only without.

    Args:
        compiled: the grammar.
        vocabulary: the vocabulary of the tokens.
        texts: names and texts.
        most: most tokens kept of each text.
        seed: the seed of the random cuts.
    """
    found = []
    for name, text in texts:
        taken = [tried for tried in (text, text.strip()) if tried and is_accepted(compiled, tried)]
        sequences = token_sequences(vocabulary, [*taken, text][0], f"{seed} {name}")
        for cut, ids in zip(CUTS, sequences, strict=True):
            found.append(Sample(f"{name}, {cut}", ids[:most], bool(taken)))
    return found


def is_accepted(compiled: Any, text: bytes, *, whole: bool = True) -> bool:
    """Whether a text is a sentence of the grammar, or the beginning of one."""
    from hybrid import GrammarMatcher

    matcher = GrammarMatcher(compiled)
    return matcher.accept_string(text) and (not whole or matcher.is_completed())


MOST_BYTES = 20_000
"""Most bytes of a file: enough for deep nesting, and few enough for a mask at each token."""


@dataclass(frozen=True)
class Source:
    """The text of a file, and its name."""

    name: str
    text: str


def read_sources(path: Path, suffix: str, seed: int, most: float = MOST_BYTES) -> Iterator[Source]:
    """Yield the files with a suffix in a folder, shuffled, without those of more than `most` bytes.

    Raises:
        ValueError: it is no folder.
    """
    if not path.is_dir():
        raise ValueError(f"documents must be in a folder, but {path} is none")
    files = sorted((item for item in path.rglob(f"*{suffix}") if item.is_file()), key=str)
    random.Random(seed).shuffle(files)
    for file in files:
        if file.stat().st_size <= most:
            with contextlib.suppress(UnicodeDecodeError):
                yield Source(str(file.relative_to(path)), file.read_bytes().decode("utf-8"))


def parsable(lark: Lark, files: Iterable[Source], count: int) -> tuple[list[Source], int]:
    """Return the first files that Lark (parser "lalr", lexer "basic") parses, and how many it read."""
    kept: list[Source] = []
    seen = 0
    for source in files:
        if len(kept) >= count:
            break
        seen += 1
        with contextlib.suppress(LarkError):
            lark.parse(source.text)
            kept.append(source)
    return kept, seen
