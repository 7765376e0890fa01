"""Pages of `python -m hybrid explain`: how long they take beyond compiling, and how large they are.

What: for schemas with their first valid documents, and for languages that come with the package with a sample
each: the seconds of explaining and of rendering, the bytes of the page, and how much of the document was
described.
When: ``python -m bench.explain_pages --vocabulary SPEC --schemas DIR --json FILE``.
Limits: one page each, in one process. Tables that depend only on the vocabulary are made before.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter, process_time
from typing import Annotated, Any

import typer

from bench import options
from bench.cases import CHECKOUT
from bench.report import make_console
from bench.reporting.answers import publish
from equivalence import HybridError
from hybrid import GrammarCompiler
from hybrid.api.parallel import compiled_from
from hybrid.cli.grammar_source import Named, read_named
from hybrid.cli.vocabulary_spec import load_vocabulary
from hybrid.pages import facts_of, render
from hybrid.testing.segmentation import tokenize_greedy

LANGUAGES = ("c_like.gbnf", "sql_like.gbnf", "c_like.lark", "json.lark")
"""Grammars that come with the package."""

C_SAMPLE = CHECKOUT / "bench" / "samples" / "c_like" / "life.c"

SAMPLES = {
    "sql": b"SELECT c.name, COUNT(*) AS orders, SUM(o.total) FROM customers AS c\n"
    b"LEFT JOIN orders AS o ON o.customer = c.id\n"
    b"WHERE c.country IN ('NL', 'FR') AND o.total >= 10.5\nGROUP BY c.name ORDER BY c.name LIMIT 20;\n",
    "json": b'{"name": ["a", 1.5e3, true], "other": {"": null, "text": "\\u00e9 and more"}, "last": -12}',
}
"""Documents, by the first part of a grammar's name."""


def measured(compiler: GrammarCompiler, named: Named, document: bytes | None) -> dict[str, Any]:
    """Make one page. Return its measurements."""
    began = perf_counter()
    compiled = compiled_from(compiler, named.source)
    compiling = perf_counter() - began
    began, used = perf_counter(), process_time()
    facts = facts_of(compiled, named.title, named.kind, compiling, document)
    explained = perf_counter()
    page = render(facts)
    return {
        "name": named.title,
        "strategy": compiled.strategy,
        "compiling": compiling,
        "explaining": explained - began,
        "rendering": perf_counter() - explained,
        "processor": process_time() - used,
        "bytes": len(page.encode()),
        "tokens": len(facts.document.steps),
        "cut": facts.document.n_cut,
        "refused": str(facts.document.refusal or ""),
    }


def command(
    vocabulary: Annotated[str, typer.Option(help="tekken, an .npz file or a tokenizer.")] = "tekken",
    schemas: Annotated[Path | None, typer.Option(help="Folder of schemas of MaskBench's form.")] = None,
    count: Annotated[int, typer.Option(min=1, help="Schemas, evenly taken from the folder.")] = 20,
    json: options.OptionalRecordOption = None,
) -> None:
    """Time pages about grammars."""
    arguments = dict(locals())
    console = make_console()
    words = load_vocabulary(vocabulary).prepare()
    tokenize_greedy(words, b"the dictionary of a vocabulary is made once")
    jobs: list[tuple[Named, bytes | None]] = []
    for name in LANGUAGES:
        document = SAMPLES.get(name[: name.find("_")]) or SAMPLES.get(name[: name.find(".")])
        if document is None:
            document = C_SAMPLE.read_bytes()
        jobs.append((read_named(str(CHECKOUT / "hybrid" / "grammars" / name)), document))
    if schemas is not None:
        files = sorted(schemas.glob("*.json"))
        for file in files[:: max(1, len(files) // count)][:count]:
            named = read_named(str(file))
            jobs.append((named, named.document))
    rows: list[dict[str, Any]] = []
    with GrammarCompiler(words, cache_enabled=False) as compiler:
        for named, document in jobs:
            try:
                rows.append(measured(compiler, named, document))
            except HybridError as error:
                rows.append({"name": named.title, "error": str(error)})
    publish(console, json, "pages", arguments, {"rows": rows})


if __name__ == "__main__":
    typer.run(command)
