"""Documents in the tokens of a reference tokenizer, and their grammars.

What: `opened` and `asked_for` are the first steps of a benchmark. They read what ``--lark``, ``--schema`` and
``--documents`` name: grammars, and for each grammar the documents that it accepts to the end, cut by the
tokenizer, with a stop token at the end.
When: in `bench.drafts`, `bench.healing`, `bench.invasive` and `bench.opportunistic`.
Limits: if the vocabulary is not a folder of Hugging Face, there is no tokenizer, and texts are cut by longest
match.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from bench import report, workloads
from bench.documents import is_accepted, read_sources
from bench.lark import grammar_texts
from bench.workloads import load_vocabulary, named, read_text
from hybrid import CompiledGrammar, GrammarCompiler
from hybrid.testing.segmentation import tokenize_greedy

DocumentsOption = Annotated[list[str], typer.Option(help="NAME=FOLDER; repeatable.")]
LarksOption = Annotated[
    list[str], typer.Option(help="A Lark grammar, NAME=PATH or a shipped one's name; repeatable.")
]
SchemasOption = Annotated[list[str], typer.Option(help="A JSON schema, NAME=PATH; repeatable.")]

HEADER = re.compile(r"\A\s*/\*.*?\*/\s*", re.DOTALL)
"""A comment at the head of a file, mostly a licence. As it repeats word by word, it would favour drafts."""


MOST_TOKENS = 600
"""Most tokens of a document, in benchmarks without an option for it."""


@dataclass
class Subject:
    """A grammar with documents: their texts, and ids with a stop token at the end."""

    name: str
    kind: str
    text: str
    compiled: CompiledGrammar
    texts: list[str]
    ids: list[list[int]]


@dataclass
class Reference:
    """A vocabulary, and how its tokenizer cuts a text; `encode` is None without a tokenizer."""

    vocabulary: Any
    encode: Callable[[str], list[int]] | None

    def ids(self, text: str) -> list[int]:
        """Cut a text as the tokenizer does."""
        if self.encode is None:
            return tokenize_greedy(self.vocabulary, text.encode())
        return self.encode(text)


def reference(spec: str) -> Reference:
    """Return a vocabulary, with its tokenizer if its folder has one."""
    vocabulary = load_vocabulary(spec)
    file = Path(spec) / "tokenizer.json"
    if not file.is_file():
        return Reference(vocabulary, None)
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(file))
    return Reference(vocabulary, lambda text: list(tokenizer.encode(text, add_special_tokens=False).ids))


@workloads.usage_errors()
def opened(vocabulary: str) -> tuple[Console, Reference]:
    """Return a console, and what cuts texts.

    Raises:
        typer.BadParameter: there is no such vocabulary.
    """
    return report.make_console(), reference(vocabulary)


@workloads.usage_errors()
def asked_for(used: Reference, arguments: Mapping[str, Any], strategy: str = "classifier") -> list[Subject]:
    """Return the grammars and documents that a command's arguments name, in an order that the seed decides.
    Strategies other than "classifier" are for schemas only.

    Raises:
        typer.BadParameter: a grammar has no documents, or accepts none of them.
    """
    most_tokens = arguments.get("most_tokens", MOST_TOKENS)
    paths, schemas = (named(arguments[what], f"--{what}") for what in ("documents", "schema"))
    compiler = GrammarCompiler(used.vocabulary, strategy=strategy)
    larks = grammar_texts(arguments["lark"] if strategy == "classifier" else [])
    texts = [(name, "lark", text) for name, text in larks.items()]
    texts += [(name, "schema", read_text(path)) for name, path in schemas.items()]
    found = []
    for name, kind, text in texts:
        if name not in paths:
            raise ValueError(f"the grammar {name!r} has no documents: give --documents {name}=FOLDER")
        compiled = compiler.compile_lark(text) if kind == "lark" else compiler.compile_json_schema(text)
        subject = Subject(name, kind, text, compiled, [], [])
        for file in read_sources(paths[name], "", arguments["seed"], math.inf):
            if len(subject.ids) == arguments["count"]:
                break
            document = HEADER.sub("", file.text)
            ids = used.ids(document)
            if ids and len(ids) <= most_tokens and is_accepted(compiled, document.encode()):
                subject.texts.append(document)
                subject.ids.append([*ids, used.vocabulary.stop_token_ids[0]])
        if not subject.ids:
            raise ValueError(f"the grammar {name!r} takes no document of {paths[name]}")
        found.append(subject)
    return found
