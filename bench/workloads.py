"""The inputs of the benchmarks: schema files, instances, token sequences, compilers of both sides.

What: reads folders of schema files, writes instances as JSON text, cuts texts into tokens, and makes the two
compilers, without caches unless they are asked for.
When: in every benchmark.
Limits: a schema file is JSON with the keys ``schema`` and ``tests`` (each ``{valid, data}``), as in
MaskBench; other keys are ignored.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
import xgrammar

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
"""Compiled before anything is measured, so that kernels are ready; it uses many features."""

OTHER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"other": {"type": "integer"}, "schema": {"type": "string"}},
}
"""The schema that each engine serves, untimed, before each measured one; with another title each time."""

THROW_AWAY_TEXT = b'{"warm": "abc", "up": [1, 23], "now": "yes", "kind": 1.5e3, "other": true}'


@dataclass(frozen=True)
class SchemaFile:
    """One file of a folder of schemas: a schema, and its instances with their labels."""

    name: str
    schema: Any
    instances: Sequence[Any]
    labels: Sequence[bool]

    @property
    def valid(self) -> list[Any]:
        """The instances that are labelled as valid."""
        return list(compress(self.instances, self.labels))

    @property
    def invalid(self) -> list[Any]:
        """The other instances."""
        return [one for one, label in zip(self.instances, self.labels, strict=True) if not label]


def load_schema_files(folder: Path, limit: int | None = None, seed: int = 0) -> list[SchemaFile]:
    """Return the schema files of a folder by name, or a random sample of ``limit`` of them.

    Raises:
        ValueError: there is no schema file, or a file has another structure.
    """
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise ValueError(
            f"{str(folder)!r} holds no *.json file; expected is a folder of files with the keys "
            "schema and tests"
        )
    if limit is not None and limit < len(paths):
        paths = sorted(random.Random(seed).sample(paths, limit))
    return list(map(read_schema_file, paths))


def read_schema_file(path: Path) -> SchemaFile:
    """Read one file.

    Raises:
        ValueError: it has another structure.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        tests = content.get("tests", [])
        labels = [bool(test["valid"]) for test in tests]
        return SchemaFile(path.stem, content["schema"], [test["data"] for test in tests], labels)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{path.name} is not a schema file ({error!r}); expected is JSON with the keys schema and tests"
        ) from error


def render_instance(data: Any) -> bytes:
    """Write an instance as models usually do: on one line, with a space after commas and colons, as UTF-8."""
    text = json.dumps(data, separators=(", ", ": "), ensure_ascii=False)
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate can only be written as an escape
        return json.dumps(data, separators=(", ", ": ")).encode()


def token_sequences(vocabulary: Vocabulary, text: bytes, seed: str) -> list[list[int]]:
    """Cut a text into tokens in two ways: by longest match, and at random."""
    return [tokenize_greedy(vocabulary, text), tokenize_random(vocabulary, text, seed)]


def compare_walks(ours: Any, plain: Any, first_seed: int, walks: int, steps: int) -> Comparison:
    """Compare masks along random walks. Their times are dropped, because no model should write such texts."""
    from hybrid.testing.mask_comparison import compare_walk

    total = Comparison()
    for walk in range(walks):
        total.add(compare_walk(ours, plain, first_seed + walk, steps))
    total.times = Times()
    return total


def load_vocabulary(spec: str) -> Vocabulary:
    """Load the vocabulary of a command line, and derive at once what is derived once for each model."""
    from hybrid.cli.vocabulary_spec import load_vocabulary as load

    return load(spec)


def short_name(spec: str) -> str:
    """Return the name of a vocabulary in tables: the last part of its path."""
    return Path(spec).name.removesuffix(".npz").removesuffix(".vocab")


@contextmanager
def usage_errors() -> Iterator[None]:
    """A context that turns errors about arguments into messages of the command line, without a traceback."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def read_text(path: Path) -> str:
    """Read a grammar file.

    Raises:
        ValueError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"cannot read the grammar {str(path)!r} ({error}); expected is an EBNF file"
        ) from error


def named(values: list[str], option: str) -> dict[str, Path]:
    """Parse ``NAME=PATH`` options.

    Raises:
        ValueError: an option has another form, or there is no such path.
    """
    found = {}
    for value in values:
        name, separator, path = value.partition("=")
        if not separator or not name or not Path(path).exists():
            raise ValueError(f"{option} {value!r}: expected is NAME=PATH with a path that exists")
        found[name] = Path(path)
    return found


def absolute(spec: str) -> str:
    """Return absolute paths of files and folders, for processes that work in another folder."""
    path = Path(spec)
    return str(path.resolve()) if path.exists() else spec


def class_count(compiled: Any) -> int | None:
    """Return the number of token classes; None if a grammar runs without classes."""
    classes = compiled.classes
    return None if classes is None else int(classes.n_classes)


def warm(ours: Any, plain: Any, vocabulary: Vocabulary, bitmask: Any) -> None:
    """Compile the throw-away schema: once on XGrammar's side, twice on ours; and read a text of it."""
    ids = tokenize_greedy(vocabulary, THROW_AWAY_TEXT)
    again = {**THROW_AWAY_SCHEMA, "title": "again"}  # another schema for a cache
    for begin, compiler, schema in (
        (hybrid_start, ours, THROW_AWAY_SCHEMA), (hybrid_start, ours, again),
        (plain_start, plain, THROW_AWAY_SCHEMA),
    ):  # fmt: skip
        begun = begin(partial(compiler.compile_json_schema, schema, strict_mode=False), bitmask)
        if begun.calls is None:
            raise RuntimeError(f"the throw-away schema was refused: {begun.error}")
        for token in ids:
            begun.calls.accept(token)
            begun.calls.fill()


def hybrid_compiler(
    vocabulary: Vocabulary, strategy: str, threads: int | None, on_demand: bool = False, cache: bool = False,
    semantics: str = "xgrammar",
) -> Any:  # fmt: skip
    """Make our compiler, without caches unless they are asked for. None as number of threads is its
    default."""
    from hybrid import GrammarCompiler

    return GrammarCompiler(
        vocabulary, strategy=strategy, max_threads=threads, cache_enabled=cache, on_demand=on_demand,
        semantics=semantics,
    )  # fmt: skip


def plain_compiler(
    vocabulary: Vocabulary, threads: int | None, cache: bool = False
) -> xgrammar.GrammarCompiler:
    """Make plain XGrammar's compiler, without caches unless they are asked for, over the same vocabulary."""
    own = {} if threads is None else {"max_threads": threads}
    return xgrammar.GrammarCompiler(vocabulary.tokenizer_info, cache_enabled=cache, **own)
