"""The commands ``python -m hybrid compile`` and ``inspect``, which write and read files.

What: `compile_files` writes compiled grammars. `inspect_file` prints what is in one.
When: before a server starts, or to see why a grammar is large.
Limits: only strategy "classifier" can be written to files.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from equivalence import ArtifactError, GrammarError, HybridError
from equivalence.array_files import read_whole
from hybrid import files as artifact
from hybrid.api.compiler import GrammarCompiler
from hybrid.api.parallel import Source
from hybrid.cli.grammar_source import BUILTIN_JSON, Named, is_file, message_of
from hybrid.cli.vocabulary_spec import load_vocabulary
from hybrid.compiled import CompiledGrammar
from hybrid.explain.characters import shown
from hybrid.files.checks import TEXTS
from hybrid.files.container import unpack
from hybrid.files.schema_text import schema_of
from hybrid.xgrammar.relaxed import Differences, differences_of

MOST_BYTES = 1 << 30
"""Bound of the bytes of all arrays of a file that is inspected."""

TOP = 8
"""Most keywords of each kind that are listed."""

SUFFIX = ".equimask"
"""Suffix of the files that are written into a folder."""


def compile_files(
    console: Console, grammars: Sequence[str], read: Callable[[str], Named], spec: str, output: Path,
    n_jobs: int,
) -> int:  # fmt: skip
    """Compile grammars to files.

    Args:
        console: where to print progress and results.
        grammars: arguments of the command line.
        read: reads one; see `hybrid.cli.grammar_source.read_named`.
        spec: SPEC of the vocabulary.
        output: a file; or a folder, if there are several grammars or the folder exists.
        n_jobs: number of threads.

    Returns:
        How many grammars could not be written.

    Raises:
        HybridError: the vocabulary, the names of the files, or the only grammar cannot be used.
    """
    many = len(grammars) > 1 or output.is_dir()
    targets = _targets(grammars, output) if many else [output]
    found: list[Any] = [_read_or_refused(word, read) for word in grammars]
    if not many and isinstance(found[0], HybridError):
        raise found[0]  # before a vocabulary is loaded, or even downloaded
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    failed = 0
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("reading the vocabulary", total=len(grammars))
        vocabulary = load_vocabulary(spec).prepare()
        compiler = GrammarCompiler(vocabulary, strategy="classifier", cache_enabled=False)
        if many:
            output.mkdir(parents=True, exist_ok=True)
        progress.update(task, description="compiling")
        made = compiler.compile_many(
            [one for one in found if not isinstance(one, HybridError)], n_jobs, on_error="return",
            progress=lambda done, total: progress.update(task, completed=done),
        )  # fmt: skip
        following = iter(made)
        found = [one if isinstance(one, HybridError) else next(following) for one in found]
        for word, target, compiled in zip(grammars, targets, found, strict=True):
            try:
                if isinstance(compiled, HybridError):
                    raise compiled
                compiled.save(target)
            except (HybridError, OSError) as error:
                if not many:
                    raise
                failed += 1
                console.print(f"{word}: {message_of(error)}", highlight=False, markup=False, style="red")
                continue
            _print_written(console, target, compiled)
    return failed


def _read_or_refused(word: str, read: Callable[[str], Named]) -> Source | GrammarError:
    try:
        return read(word).source
    except GrammarError as error:
        return error


def _targets(grammars: Sequence[str], folder: Path) -> list[Path]:
    """Return a file in the folder for each grammar, with the grammar's name.

    Raises:
        ArtifactError: a grammar has no name, or two have the same.
    """
    names = []
    for word in grammars:
        if word != BUILTIN_JSON and not is_file(word):
            raise ArtifactError(
                f"{word[:60]!r} is not a file; if the output is a folder, grammars must be files or "
                f"{BUILTIN_JSON}"
            )
        names.append("builtin_json" if word == BUILTIN_JSON else Path(word).stem)
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise ArtifactError(
            f"several grammars have the name {', '.join(twice)}; rename them, or compile them one by one"
        )
    return [folder / (name + SUFFIX) for name in names]


def _print_written(console: Console, target: Path, compiled: CompiledGrammar) -> None:
    assert compiled.classes is not None
    phases = ", ".join(
        f"{name} {1e3 * compiled.timings[name]:.0f} ms"
        for name in ("network", "explore", "automata", "walk", "sequences", "partition", "classifier")
        if name in compiled.timings
    )
    console.print(
        f"{target}: {target.stat().st_size / 1024:.1f} KiB, {compiled.classes.n_classes:,} classes "
        f"({phases})",
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip
    if compiled.relaxed or compiled.narrowed:
        print_differences(console, compiled)


def inspect_file(console: Console, path: Path, spec: str | None) -> None:
    """Print what is in a file, and, given a vocabulary, how long it takes to load.

    Args:
        console: where to print.
        path: the file.
        spec: SPEC of the vocabulary; None prints only what the file contains.

    Raises:
        HybridError: the file or the vocabulary cannot be used.
    """
    try:
        data = read_whole(path, MOST_BYTES)
    except (OSError, ValueError) as error:
        raise ArtifactError(f"the file cannot be read: {error}") from error
    _print_content(console, path, data)
    if spec is None:
        return
    vocabulary = load_vocabulary(spec)
    began = time.perf_counter()
    artifact.from_bytes(data, vocabulary)
    first = time.perf_counter() - began
    began = time.perf_counter()
    artifact.from_bytes(data, vocabulary)
    again = time.perf_counter() - began
    console.print(f"loaded in {1e3 * again:.1f} ms (the first time: {first:.2f} s)", highlight=False)


def _print_content(console: Console, path: Path, data: bytes) -> None:
    header, arrays = unpack(data, MOST_BYTES, TEXTS)
    table = Table(title=Text(str(path)), title_justify="left", show_header=False)
    table.add_column("what")
    table.add_column("value")
    # another program may have written the header, with control sequences for terminals
    for what, value in (
        ("strategy", f"{header.get('strategy')} ({header.get('reason')})"),
        ("vocabulary", f"{header.get('vocabulary')} ({header.get('vocabulary_size')} ids)"),
        ("grammar", str(header.get("grammar"))),
    ):
        table.add_row(what, shown(value, 800))
    is_lark = header.get("notation") == "lark"
    if is_lark:
        table.add_row("built", "lexer, parser and stack automaton; stacks and masks are computed on demand")
    else:
        whole = header.get("complete")
        table.add_row("built", "completely" if whole else "some; the others are computed on demand")
    console.print(table, markup=False)
    members = Table(title="arrays", title_justify="left")
    for column in ("array", "shape", "bytes in the file"):
        members.add_column(column, justify="left" if column == "array" else "right")
    for name, array in arrays.items():
        shape = " x ".join(f"{size:,}" for size in array.shape)
        members.add_row(shown(name), shape, f"{header['members'][name][2]:,}")
    members.add_row("all, with the header", "", f"{len(data):,}")
    console.print(members, markup=False)
    schema = None if is_lark else schema_of(header, arrays)
    if schema is not None:
        print_differences(console, differences_of(schema))


def print_differences(console: Console, found: Differences | CompiledGrammar) -> None:
    """Print the differences, or those of a compiled grammar."""
    for listed, words in (
        (found.relaxed, "that are not enforced"),
        (found.narrowed, "that forbid some valid values"),
    ):
        console.print(f"keywords {words}: {len(listed):,}", highlight=False)
        for one in listed[:TOP]:
            line = f"  {one.keyword} at {one.pointer or '/'}: {one.reason}"
            console.print(Text(shown(line, 300)))  # names may contain control sequences for terminals
