"""The command line, ``python -m hybrid``.

What: `demo` constrains a small model on a real vocabulary, and compares every mask with plain XGrammar's.
`classes` shows the token classes of a grammar or schema. `compile` writes compiled grammars to files, and
`inspect` shows what is in one. `explain` shows what a grammar allows in a document, and `try` what may come
next while you type. `grammars` lists the grammars that come with the package.
When: to try the project or to examine a grammar. Programs use `hybrid.GrammarCompiler`.
Limits: the model of the demonstration has random weights, so its text is noise that obeys a grammar.
"""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from equivalence import HybridError, TokenClasses, Vocabulary, compute_classes
from equivalence.errors import NotInstalled
from hybrid.cli.artifacts import SUFFIX, compile_files, inspect_file
from hybrid.cli.explain_command import explain_grammar, print_classes
from hybrid.cli.grammar_source import ALLOWED as GRAMMARS
from hybrid.cli.grammar_source import COMPILED, message_of, read_grammar, read_named
from hybrid.cli.shipped_grammars import shipped_grammar, shipped_grammars
from hybrid.cli.try_command import try_grammar
from hybrid.cli.vocabulary_spec import ALLOWED, load_vocabulary
from hybrid.explain.characters import shown
from hybrid.pages.classes import ClassTable

MOST_CHARACTERS = 4_000
"""Most characters of a line of an error that are printed."""

VocabularySpec = Annotated[str, typer.Option(help=f"SPEC: {ALLOWED}.")]
Root = Annotated[
    str | None,
    typer.Option(help="Name of the grammar's root rule.", show_default="root; for Lark's notation, start"),
]
StrictMode = Annotated[
    bool, typer.Option("--strict-mode/--no-strict-mode", help="XGrammar's strict_mode for schemas.")
]
Semantics = Annotated[str, typer.Option(help="Semantics of JSON schemas: xgrammar or json-schema.")]
Formats = Annotated[
    bool,
    typer.Option(help="With --semantics json-schema: check format, instead of treating it as an annotation."),
]

app = typer.Typer(
    help="Compile grammars, and show which tokens and texts they allow.",
    no_args_is_help=True,
    add_completion=False,
)


@app.command()
def demo(
    tokens: Annotated[int, typer.Option(min=8, help="Maximum number of tokens for each grammar.")] = 160,
    seed: Annotated[int, typer.Option(help="Seed of the random weights and of the sampling.")] = 0,
) -> None:
    """Constrain a model with random weights by three grammars, and check every mask and text."""
    with _errors_printed():
        try:
            # imported by name, because adapters depend on this package, and not the other way round
            module = importlib.import_module("adapters.demo")
        except ModuleNotFoundError as error:
            if error.name != "jsonschema":
                raise
            raise NotInstalled("python -m hybrid demo", error.name, "demo") from error
        status = module.run(tokens=tokens, seed=seed)
    raise typer.Exit(status)


@app.command()
def classes(
    grammar: Annotated[str, typer.Argument(help=GRAMMARS)],
    vocabulary: VocabularySpec = "tekken",
    relation: Annotated[
        str, typer.Option(help="Kind of token classes: acceptance or displacement.")
    ] = "acceptance",
    top: Annotated[int, typer.Option(min=1, help="How many of the largest classes to show.")] = 10,
    root: Annotated[str, typer.Option(help="Name of the grammar's root rule.")] = "root",
    strict: StrictMode = True,
) -> None:
    """Print the token classes of a grammar or schema: how many, the largest ones, and the time."""
    with _errors_printed() as console:
        parsed = read_grammar(grammar, root, strict)
        with console.status("reading the vocabulary") as status:
            words = load_vocabulary(vocabulary)
            status.update("building the trie")
            _ = words.trie
            status.update("computing classes")
            found = compute_classes(parsed, words, relation)  # type: ignore[arg-type]
    _print_classes(console, words, found, top)


@app.command(name="compile")
def compile_command(
    grammars: Annotated[list[str], typer.Argument(metavar="GRAMMAR...", help=COMPILED)],
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            help=f"The file to write; for several grammars, a folder (one NAME{SUFFIX} for each).",
        ),
    ],
    vocabulary: VocabularySpec = "tekken",
    n_jobs: Annotated[
        int, typer.Option(help="Number of threads for several grammars; -1 means one for each core.")
    ] = 1,
    root: Root = None,
    strict: StrictMode = True,
    semantics: Semantics = "xgrammar",
    formats: Formats = True,
) -> None:
    """Compile grammars to files that CompiledGrammar.load reads in milliseconds.

    If some of several grammars cannot be written, the others are, and the exit status is 1.
    """
    with _errors_printed() as console:
        read = partial(read_named, root=root, strict=strict, semantics=semantics, formats=formats)
        failed = compile_files(console, grammars, read, vocabulary, output, n_jobs)
    if failed:
        raise typer.Exit(1)


@app.command()
def inspect(
    file: Annotated[Path, typer.Argument(help="A file that compile, or CompiledGrammar.save, wrote.")],
    vocabulary: Annotated[
        str | None,
        typer.Option(help="The SPEC of its vocabulary, to see how long the file takes to load."),
    ] = None,
) -> None:
    """Print what is in a compiled grammar: digests, and the arrays with their sizes."""
    with _errors_printed() as console:
        inspect_file(console, file, vocabulary)


@app.command()
def explain(
    grammar: Annotated[str, typer.Argument(help=COMPILED)],
    text: Annotated[
        Path | None,
        typer.Option(
            help="The document to explain. Default: an example from the schema file, or a shortest or "
            "random text."
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a page that works offline, instead of a summary.")
    ] = None,
    vocabulary: VocabularySpec = "tekken",
    strategy: Annotated[str, typer.Option(help="auto, classifier, representatives or engine.")] = "auto",
    root: Root = None,
    strict: StrictMode = True,
    semantics: Semantics = "xgrammar",
    formats: Formats = True,
) -> None:
    """Show what a grammar allows in a document: token classes, masks, forced text, refusals.

    If the document is refused, the exit status is 1, and the output says where and what was expected. It is 2
    if there was no time to check all of it.
    """
    with _errors_printed() as console:
        named = read_named(grammar, root, strict, semantics, formats)
        refusal = explain_grammar(console, named, text, html, vocabulary, strategy)
    if refusal is not None:
        raise typer.Exit(2 if refusal.cut_short else 1)


@app.command(name="try")
def try_command(
    grammar: Annotated[str, typer.Argument(help=COMPILED)],
    vocabulary: VocabularySpec = "tekken",
    root: Root = None,
    strict: StrictMode = True,
    semantics: Semantics = "xgrammar",
    formats: Formats = True,
) -> None:
    """Type a text, and see what may come next and where it is refused. Needs the extra "try"."""
    with _errors_printed() as console:
        try_grammar(console, read_named(grammar, root, strict, semantics, formats), vocabulary)


@app.command(name="grammars")
def grammars_command(
    show_name: Annotated[
        str | None, typer.Option("--show", metavar="NAME", help="Print the text of this grammar.")
    ] = None,
) -> None:
    """List the grammars that come with the package, or print one."""
    if show_name is not None:
        with _errors_printed():
            typer.echo(shipped_grammar(show_name).text, nl=False)
        return
    table = Table()
    for column in ("name", "kind", "description"):
        table.add_column(column, no_wrap=column != "description")
    for grammar in shipped_grammars():
        table.add_row(grammar.name, grammar.kind, grammar.description)
    _console().print(table, markup=False)


def _console() -> Console:
    """A console that prints any text, even the names of files that are not UTF-8."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    return Console()


@contextmanager
def _errors_printed() -> Iterator[Console]:
    """A context in which an error is printed, and ends the command with status 2."""
    console = _console()
    try:
        yield console
    except BrokenPipeError:
        raise  # nobody reads what is printed
    except (HybridError, OSError) as error:
        # what was given may contain control sequences for terminals
        lines = [shown(line, MOST_CHARACTERS) for line in message_of(error).splitlines()]
        console.print("\n".join(lines), highlight=False, markup=False, style="red")
        raise typer.Exit(2) from error


def _print_classes(console: Console, vocabulary: Vocabulary, found: TokenClasses, top: int) -> None:
    classes = ClassTable(vocabulary, found)
    print_classes(console, classes, classes.largest(top), found.relation)
    console.print(
        f"{found.n_classes:,} classes for {vocabulary.size:,} ids; {classes.singles.size:,} of one token; "
        f"{classes.n_never:,} ids are never allowed",
        highlight=False,
    )
    phases = ", ".join(f"{name} {1e3 * seconds:.1f} ms" for name, seconds in found.seconds.items())
    console.print(f"{1e3 * sum(found.seconds.values()):.1f} ms ({phases})", highlight=False)
    console.print(", ".join(f"{value:,} {name}" for name, value in found.sizes.items()), highlight=False)
