"""Real sources for Lark grammars: Java, Go, SQL and JSON files that Lark itself parses.

What: `zip_sources` and `folder_sources` yield files in a fixed random order; `parsable` keeps those that Lark
lexes and parses, and counts all three. The command writes the names of the kept files, one a line.
When: before a Lark grammar is measured, and ``python -m bench.lark_files --grammar FILE ...``.
Limits: Lark is the judge, so a grammar that is narrower than its language keeps few files. Files that are
not UTF-8, or larger than a bound, are passed over and not counted as seen.
"""

from __future__ import annotations

import random
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from lark import Lark
from lark.exceptions import LarkError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

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


def folder_sources(
    folder: Path, suffix: str, most_bytes: int = MOST_BYTES, seed: int = 0
) -> Iterator[Source]:
    """The files below a folder with a suffix such as ``.go``, in an order that only ``seed`` decides."""
    files = {str(path.relative_to(folder)): path for path in folder.rglob(f"*{suffix}") if path.is_file()}
    for name in _shuffled(files, seed):
        if files[name].stat().st_size <= most_bytes:
            yield from _decoded(str(files[name]), files[name].read_bytes())


def zip_sources(archive: Path, suffix: str, most_bytes: int = MOST_BYTES, seed: int = 0) -> Iterator[Source]:
    """The files of an archive with a suffix such as ``.java``, in an order that only ``seed`` decides."""
    with zipfile.ZipFile(archive) as opened:
        sizes = {item.filename: item.file_size for item in opened.infolist()}
        for name in _shuffled((name for name in sizes if name.endswith(suffix)), seed):
            if sizes[name] <= most_bytes:
                yield from _decoded(name, opened.read(name))


def parsable(
    lark: Lark,
    files: Iterable[Source],
    count: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Parsable:
    """The first files that Lark parses to the end.

    Args:
        lark: the judge; parser "lalr", lexer "basic".
        files: in the order in which they are tried.
        count: how many are wanted; None takes all.
        progress: called after each file with the numbers of files seen and parsed.
    """
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
        if progress is not None:
            progress(seen, len(kept))
    return Parsable(kept, seen, lexed)


def extract(sources: Iterable[Source], folder: Path) -> list[Source]:
    """Write texts into a folder, and name each by its file: flat, so that no name leads out of it."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for source in sources:
        path = folder / source.name.strip("/").replace("/", "__")
        path.write_bytes(source.text.encode())
        written.append(Source(str(path), source.text))
    return written


def _shuffled(names: Iterable[str], seed: int) -> list[str]:
    order = sorted(names)
    random.Random(seed).shuffle(order)
    return order


def _decoded(name: str, data: bytes) -> Iterator[Source]:
    try:
        yield Source(name, data.decode("utf-8"))
    except UnicodeDecodeError:
        return


Folder = Annotated[Path | None, typer.Option(exists=True, file_okay=False)]


def main(
    grammar: Annotated[Path, typer.Option(help="Lark grammar with the rule `start`.", exists=True)],
    output: Annotated[Path, typer.Option(help="Where the names of the kept files are written.")],
    java_zip: Annotated[Path | None, typer.Option(help="Archive with .java files.", exists=True)] = None,
    go_dir: Folder = None,
    sql_dir: Folder = None,
    json_dir: Folder = None,
    extract_to: Annotated[Path | None, typer.Option(help="Folder for the kept files of an archive.")] = None,
    count: Annotated[int | None, typer.Option(min=1, help="Files to keep; default all.")] = None,
    most_bytes: Annotated[int, typer.Option(min=1, help="Of a file.")] = MOST_BYTES,
    seed: Annotated[int, typer.Option(help="Of the order in which files are tried.")] = 0,
) -> None:
    """Keep the files of one language that Lark parses; print how many were seen, lexed and parsed."""
    folders = [(go_dir, ".go"), (sql_dir, ".sql"), (json_dir, ".json")]
    chosen = [(folder, suffix) for folder, suffix in folders if folder is not None]
    if len(chosen) + (java_zip is not None) != 1:
        raise typer.BadParameter("give one of --java-zip, --go-dir, --sql-dir and --json-dir")
    if java_zip is not None and extract_to is None:
        raise typer.BadParameter("files of an archive need --extract-to, a folder to be written to")
    lark = Lark(grammar.read_text(encoding="utf-8"), parser="lalr", lexer="basic", start="start")
    if java_zip is not None:
        sources = zip_sources(java_zip, ".java", most_bytes, seed)
    else:
        sources = folder_sources(*chosen[0], most_bytes, seed)
    console = Console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("parsing", total=count)
        found = parsable(
            lark,
            sources,
            count,
            lambda seen, parsed: bar.update(task, completed=parsed, description=f"{seen} seen, parsed"),
        )
    kept = extract(found.kept, extract_to) if java_zip is not None and extract_to else found.kept
    output.write_text("".join(f"{source.name}\n" for source in kept), encoding="utf-8")
    size = sum(len(source.text.encode()) for source in kept)
    console.print(
        f"{found.seen} files seen, {found.lexed} lexed, {found.parsed} parsed ({size / 1e6:.1f} MB)",
        highlight=False,
    )


if __name__ == "__main__":
    typer.run(main)
