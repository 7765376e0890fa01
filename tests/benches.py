"""Helpers for the tests of benchmarks: run a command, read its record, and write folders of schemas.

What: also what benchmarks do in other processes, done in this one, as starting a process takes seconds.
When: in ``test_bench*.py``.
"""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from bench.__main__ import app
from bench.json_schema import runner, worker
from bench.workloads import SchemaFile
from equivalence import Vocabulary
from hybrid.testing.comparison import Comparison, Disagreement

WORDS = [
    b'"a"', b'": ', b'{"', b'"}', b", ", b'", "', b"true", b"12", b"hello", b" world", b"]}", b"}]", b"end",
]  # fmt: skip


@pytest.fixture(name="vocabulary", scope="module")
def fixture_vocabulary() -> Vocabulary:
    """All bytes and some words."""
    return vocabulary_with(*WORDS)


@pytest.fixture(name="vocabulary_file")
def fixture_vocabulary_file(vocabulary: Vocabulary, tmp_path: Path) -> str:
    """The path of a file of it."""
    vocabulary.save(tmp_path / "made.npz")
    return str(tmp_path / "made.npz")


OPEN_SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
"""An object that may have other properties, unless strict_mode forbids them."""

OBJECT_SCHEMA = {
    "type": "object", "properties": {"a": {"type": "string"}, "b": {"items": {"type": "integer"}}},
    "required": ["a"], "additionalProperties": False,
}  # fmt: skip
REFUSED_SCHEMA = {"type": "no such type"}


@pytest.fixture(name="schema_folder")
def fixture_schema_folder(tmp_path: Path) -> Path:
    """A folder of five schemas with instances; the last one is refused."""
    contents: dict[str, tuple[Any, list[tuple[bool, Any]]]] = {
        "object": (OBJECT_SCHEMA, [(True, {"a": "hello world", "b": [1, 22]}), (False, {"a": 3})]),
        "order": (OBJECT_SCHEMA, [(True, {"b": [], "a": "é\ud800"})]),
        "open": (OPEN_SCHEMA, [(True, {"a": 12, "b": 1}), (True, {"a": 1})]),
        "choice": ({"enum": ["x", "yy", 3, None]}, [(True, "yy"), (True, None)]),
        "refused": (REFUSED_SCHEMA, [(True, 1)]),
    }
    return write_schemas(tmp_path / "schemas", contents)


def run(*arguments: object) -> Result:
    """Run a benchmark."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def recorded(target: Path, *arguments: object, status: int = 0) -> tuple[str, Any]:
    """Run a benchmark that ends with a status; return its output and its record."""
    done = run(*arguments, "--json", target)
    assert done.exit_code == status, done.output
    return done.output, json.loads(target.read_text())


def vocabulary_with(*words: bytes) -> Vocabulary:
    """All bytes, a stop token (256), and words."""
    return Vocabulary.from_bytes(
        [*(bytes([value]) for value in range(256)), b"", *words], stop_token_ids=[256]
    )


def write_schemas(folder: Path, schemas: Mapping[str, tuple[Any, Iterable[tuple[bool, Any]]]]) -> Path:
    """Write files of schemas with labelled instances, as MaskBench has them, to a new folder."""
    folder.mkdir()
    for name, (schema, instances) in schemas.items():
        tests = [{"description": "", "valid": valid, "data": data} for valid, data in instances]
        text = json.dumps({"description": name, "meta": {}, "schema": schema, "tests": tests})
        (folder / f"{name}.json").write_text(text)
    return folder


def differ(*_: object, **__: object) -> Comparison:
    """Stand-in for a comparison: one bit differs."""
    item = Disagreement("mask", 3, 104, b"h", (1, 2, 3), b"\x01\x02\x03", True, False, False)
    return Comparison(masks=4, accepted=3, differences=[item], difference_count=1, different_masks=1)


# --- What other processes do -------------------------------------------------------------------------------


def done_here(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a function as `bench.memory.in_another_process` does, but in this process. It stands in for that in
    `bench.build_cost`."""
    function, arguments = pickle.loads(pickle.dumps((function, arguments)))
    return pickle.loads(pickle.dumps(function(*arguments)))


class WorkerHere(runner.Process):
    """A worker in this process, which gives the answers of the real one."""

    def begin(self) -> None:
        pass

    def ask(self, file: SchemaFile) -> Iterator[runner.Row]:
        question = {"file": file.name, "schema": file.schema, "instances": list(file.instances)}
        told: list[Any] = []
        own = {"name": self.name, **vars(self._settings)}
        worker.main(own, io.StringIO(json.dumps(question)), lambda one: told.append(json.dumps(one)))
        first, *answers, last = map(json.loads, told)
        assert first == {"missing": ""} and last == {"done": True}
        yield from (one["answer"] for one in answers)
