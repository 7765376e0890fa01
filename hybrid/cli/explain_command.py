"""The command ``python -m hybrid explain``: a page about a grammar, or a summary in the terminal.

What: `explain_grammar` compiles a grammar, reads a document, and writes or prints what `hybrid.pages` finds.
When: called by `hybrid.cli.commands`.
Limits: documents have at most `MOST_BYTES`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from equivalence import ArgumentError
from equivalence.array_files import read_whole
from hybrid.api.compiler import GrammarCompiler
from hybrid.api.parallel import compiled_from
from hybrid.cli.artifacts import print_differences
from hybrid.cli.grammar_source import Named
from hybrid.cli.vocabulary_spec import load_vocabulary
from hybrid.explain import Refusal
from hybrid.explain.characters import shown
from hybrid.pages import Facts, facts_of, render
from hybrid.pages.classes import ClassRow, ClassTable
from hybrid.pages.document import LEVELS
from hybrid.pages.page import duration, size
from hybrid.testing.segmentation import tokenize_greedy

MOST_BYTES = 1 << 20
"""Size of the largest document."""

TOP = 8
"""Number of classes in the summary."""

STRICT = (
    "strict_mode forbids properties and items that the schema does not declare; --no-strict-mode allows them"
)


def explain_grammar(
    console: Console, named: Named, text: Path | None, html: Path | None, vocabulary: str, strategy: str
) -> Refusal | None:
    """Write a page or print a summary.

    Args:
        console: where to print.
        named: the grammar.
        text: the document; None for one that comes with the grammar, or a text of the grammar.
        html: the file of the page; None for a summary.
        vocabulary: SPEC of the vocabulary.
        strategy: the compiler's strategy.

    Returns:
        Where the grammar refuses the document, or where there was no time to check more; else None.

    Raises:
        HybridError: the grammar, the vocabulary or the document cannot be used.
        OSError: the page cannot be written.
    """
    document, text_is = named.document, "a valid document that came with the schema"
    if text is not None:
        document, text_is = _read(text), f"the document {text.name}"
    with console.status("reading the vocabulary") as status:
        words = load_vocabulary(vocabulary).prepare()
        tokenize_greedy(words, b"")  # so that the tokeniser's dictionary is made now
        with GrammarCompiler(words, strategy=strategy, cache_enabled=False) as compiler:
            status.update("compiling")
            began = time.perf_counter()
            compiled = compiled_from(compiler, named.source)
            seconds = time.perf_counter() - began
            status.update("explaining")
            facts = facts_of(compiled, named.title, named.kind, seconds, document, text_is)
    if html is None:
        _print(console, facts)
    else:
        page = render(facts)
        data = page.encode("utf-8", "replace")
        html.write_bytes(data)
        console.print(
            f"{html}: {len(data) / 1024:,.0f} KiB; compiled in {duration(facts.compile_seconds)}",
            highlight=False, markup=False, soft_wrap=True,
        )  # fmt: skip
        if facts.document.refusal is not None:
            console.print(str(facts.document.refusal), highlight=False, markup=False, style="red")
    return facts.document.refusal


def print_classes(
    console: Console, classes: ClassTable, rows: Sequence[ClassRow], relation: str = ""
) -> None:
    """Print some of the largest classes as a table."""
    title = f"the largest of {classes.n_classes:,} token classes" + (f" ({relation})" if relation else "")
    table = Table(title=title, title_justify="left")
    table.add_column("tokens", justify="right")
    table.add_column("some of them")
    for row in rows:
        table.add_row(f"{row.size:,}", Text("  ".join(row.samples)))
    console.print(table)


def _read(path: Path) -> bytes:
    try:
        return read_whole(path, MOST_BYTES)
    except (OSError, ValueError) as error:
        raise ArgumentError(f"the document cannot be read: {error}") from error


def _print(console: Console, facts: Facts) -> None:
    compiled, classes, document = facts.compiled, facts.classes, facts.document
    title = escape(shown(facts.title))  # names may contain control sequences for terminals
    console.print(f"[bold]{title}[/bold] ({facts.kind})", highlight=False)
    console.print(f"[bold]{compiled.strategy}[/bold]: {escape(facts.strategy)}", highlight=False)
    console.print(f"why: {escape(shown(compiled.reason, 800))}", style="dim", highlight=False)
    if classes.rows:
        print_classes(console, classes, classes.rows[:TOP])
        console.print(f"{classes.n_never:,} tokens are never allowed", style="dim", highlight=False)
    console.print(
        f"\n{shown(facts.document_is)}; darker: fewer tokens allowed (median "
        f"{document.median_allowed:,}), underlined: forced",
        style="dim", highlight=False, markup=False,
    )  # fmt: skip
    read = Text()
    for step in document.steps:
        shade = 232 + (2 * LEVELS + 2) * step.level // LEVELS  # xterm's greys
        style = f"{'white' if step.level < LEVELS // 2 else 'black'} on color({shade})"
        read.append(step.text, style + (" underline" if step.is_forced else ""))
    if document.n_cut:
        read.append(f"... ({document.n_cut:,} more bytes are not shown)", "dim")
    elif document.refusal is not None:
        read.append(document.left[:1] or " ", "white on red")
        read.append(document.left[1:], "dim strike")
    console.print(read)
    if document.refusal is not None:
        console.print(Text(str(document.refusal), "red"))
    if facts.kind == "JSON schema":
        console.print()
        print_differences(console, compiled)
        if facts.is_strict:
            console.print(STRICT, style="dim", highlight=False)
    console.print(
        f"\ncompiled in {duration(facts.compile_seconds)}, {size(compiled.memory_size_bytes)} in memory",
        highlight=False, markup=False,
    )  # fmt: skip
