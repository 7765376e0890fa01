"""Real files of a language: read from a folder, an archive or a list, and kept where Lark parses them.

What: `read_sources` reads files in an order that only a seed decides, `parsable` keeps those that Lark
parses.
When: in `bench.lark`.
Limits: Lark is the judge, so a grammar that is narrower than its language keeps few files. Files that are
not UTF-8, or larger than a bound, are passed over and not counted as seen.
"""

from __future__ import annotations

import random
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lark import Lark
from lark.exceptions import LarkError

MOST_BYTES = 20_000
"""Of a file: long enough for deep nesting, short enough for a mask at each of its tokens."""


@dataclass(frozen=True)
class Source:
    """A file's text, and its name: a path, or the member of an archive."""

    name: str
    text: str


@dataclass(frozen=True)
class Parsable:
    """The files that Lark parses, and how many of the files seen it lexed and parsed."""

    kept: list[Source]
    seen: int
    lexed: int

    @property
    def parsed(self) -> int:
        return len(self.kept)


def read_sources(path: Path, suffix: str, most_bytes: int, seed: int) -> Iterator[Source]:
    """The files with a suffix below a folder or in a ``.zip``, shuffled; or those that a text file lists."""
    if path.is_dir():
        files = {str(item.relative_to(path)): item for item in path.rglob(f"*{suffix}") if item.is_file()}
        for name in _shuffled(files, seed):
            if files[name].stat().st_size <= most_bytes:
                yield from _decoded(name, files[name].read_bytes())
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as opened:
            sizes = {item.filename: item.file_size for item in opened.infolist()}
            for name in _shuffled((name for name in sizes if name.endswith(suffix)), seed):
                if sizes[name] <= most_bytes:
                    yield from _decoded(name, opened.read(name))
    else:
        for name in path.read_text(encoding="utf-8").splitlines():
            yield Source(Path(name).name, Path(name).read_bytes().decode("utf-8"))


def parsable(lark: Lark, files: Iterable[Source], count: int | None = None) -> Parsable:
    """The first files that Lark (parser "lalr", lexer "basic") parses; a count of None takes all."""
    kept: list[Source] = []
    seen = lexed = 0
    for source in files:
        if count is not None and len(kept) >= count:
            break
        seen += 1
        try:
            for _ in lark.lex(source.text):
                pass
            lexed += 1
            lark.parse(source.text)
            kept.append(source)
        except LarkError:
            pass
    return Parsable(kept, seen, lexed)


def _shuffled(names: Iterable[str], seed: int) -> list[str]:
    order = sorted(names)
    random.Random(seed).shuffle(order)
    return order


def _decoded(name: str, data: bytes) -> Iterator[Source]:
    try:
        yield Source(name, data.decode("utf-8"))
    except UnicodeDecodeError:
        return
