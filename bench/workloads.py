"""What the benchmarks run on: schema files, instances, token sequences, compilers of both sides.

What: reads folders of schema files, renders instances as JSON text, cuts texts into tokens, and makes
the two compilers, without caches unless they are asked for.
When: in every benchmark.
Limits: a schema file is JSON with the keys ``schema`` and ``tests`` (each ``{valid, data}``), the layout
of MaskBench; anything else of it is ignored.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import typer
import xgrammar
from rich.console import Console

from bench.report import readable, say
from bench.request import hybrid_start, plain_start
from hybrid.testing.comparison import Comparison, Times
from hybrid.testing.segmentation import tokenize_greedy, tokenize_random

if TYPE_CHECKING:
    from equivalence.vocabulary import Vocabulary

THROW_AWAY_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "warm": {"type": "string", "minLength": 1, "maxLength": 5},
        "up": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
        "now": {"enum": ["yes", "no", 1, None]},
        "kind": {"anyOf": [{"type": "number"}, {"type": "string", "pattern": "^[a-c]+$"}]},
    },
    "required": ["warm"],
    "additionalProperties": {"type": "boolean"},
}
"""Compiled before anything is measured, so that kernels are ready; it has a bit of everything."""

THROW_AWAY_TEXT = b'{"warm": "abc", "up": [1, 23], "now": "yes", "kind": 1.5e3, "other": true}'


@dataclass(frozen=True)
class SchemaFile:
    """One file of a folder of schemas: a schema and instances of it."""

    name: str
    schema: Any
    valid: tuple[Any, ...]
    invalid: tuple[Any, ...]


def load_schema_files(folder: Path, limit: int | None = None, seed: int = 0) -> list[SchemaFile]:
    """The schema files of a folder by name, or a random sample of ``limit`` of them.

    Raises:
        ValueError: there is no schema file, or a file is not of the layout.
    """
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise ValueError(
            f"{str(folder)!r} holds no *.json file; expected is a folder of files with the keys "
            "schema and tests"
        )
    if limit is not None and limit < len(paths):
        paths = sorted(random.Random(seed).sample(paths, limit))
    return [_read_schema_file(path) for path in paths]


def _read_schema_file(path: Path) -> SchemaFile:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        tests = content.get("tests", [])
        return SchemaFile(
            path.stem,
            content["schema"],
            tuple(test["data"] for test in tests if test["valid"]),
            tuple(test["data"] for test in tests if not test["valid"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path.name} is not a schema file ({error!r}); expected is JSON with the keys schema and tests"
        ) from error


def render_instance(data: Any) -> bytes:
    """An instance as models usually write it: one line, a space after commas and colons, UTF-8."""
    text = json.dumps(data, separators=(", ", ": "), ensure_ascii=False)
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate: only its escape can be written
        return json.dumps(data, separators=(", ", ": ")).encode()


def token_sequences(vocabulary: Vocabulary, text: bytes, seed: str) -> list[list[int]]:
    """The text in tokens, cut twice: by the longest match, and at random."""
    return [tokenize_greedy(vocabulary, text), tokenize_random(vocabulary, text, seed)]


def compare_walks(ours: Any, plain: Any, first_seed: int, walks: int, steps: int) -> Comparison:
    """Masks along random walks; their times, of what no model is meant to write, are left out."""
    from hybrid.testing.verify import compare_walk

    total = Comparison()
    for walk in range(walks):
        total.add(compare_walk(ours, plain, first_seed + walk, steps))
    total.times = Times()
    return total


def load_vocabulary(spec: str) -> Vocabulary:
    """The vocabulary of a command line, with what is derived from it once per model already derived."""
    from hybrid.cli.vocabulary_spec import load_vocabulary as load

    return load(spec)


def short_name(spec: str) -> str:
    """The name of a vocabulary in tables: the last part of its path."""
    return Path(spec).name.removesuffix(".npz").removesuffix(".vocab")


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turns what is wrong with the arguments into a message of the command line, without a traceback."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def read_text(path: Path) -> str:
    """A grammar file.

    Raises:
        ValueError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"cannot read the grammar {str(path)!r} ({error}); expected is an EBNF file"
        ) from error


def class_count(compiled: Any) -> int | None:
    """The number of token classes, None where a grammar runs without classes."""
    classes = compiled.classes
    return None if classes is None else int(classes.n_classes)


class Setup:
    """What is made once, before anything is measured, and the seconds each part took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        started = perf_counter()
        yield
        self.seconds[name] = perf_counter() - started

    def warm(self, ours: Any, plain: Any, vocabulary: Vocabulary, bitmask: Any) -> None:
        """Compiles the throw-away schema on both sides, twice on ours."""
        ids = tokenize_greedy(vocabulary, THROW_AWAY_TEXT)
        again = {**THROW_AWAY_SCHEMA, "title": "again"}  # another schema to a cache
        for name, begin, compiler, schema in (
            ("first mask, ours, cold", hybrid_start, ours, THROW_AWAY_SCHEMA),
            ("first mask, ours, warm", hybrid_start, ours, again),
            ("first mask, XGrammar", plain_start, plain, THROW_AWAY_SCHEMA),
        ):
            begun = begin(partial(compiler.compile_json_schema, schema, strict_mode=False), bitmask)
            if begun.calls is None:
                raise RuntimeError(f"the throw-away schema was refused: {begun.error}")
            self.seconds[name] = begun.seconds
            for token in ids:
                begun.calls.accept(token)
                begun.calls.fill()

    def print(self, console: Console) -> None:
        for name, seconds in self.seconds.items():
            say(console, f"before: {name} {readable(seconds)}")


def hybrid_compiler(
    vocabulary: Vocabulary, strategy: str, threads: int | None, on_demand: bool = False, cache: bool = False
) -> Any:
    """Our compiler, without caches unless they are asked for; None is its own number of threads."""
    from hybrid import GrammarCompiler

    return GrammarCompiler(
        vocabulary, strategy=strategy, max_threads=threads, cache_enabled=cache, on_demand=on_demand
    )


def plain_compiler(
    vocabulary: Vocabulary, threads: int | None, cache: bool = False
) -> xgrammar.GrammarCompiler:
    """Plain XGrammar's compiler, without caches unless they are asked for, over the same vocabulary."""
    own = {} if threads is None else {"max_threads": threads}
    return xgrammar.GrammarCompiler(vocabulary.tokenizer_info, cache_enabled=cache, **own)
