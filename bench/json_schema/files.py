"""Schemas with labelled instances, in MaskBench's structure.

What: `choose` returns the files of a folder in an order that depends only on a seed, `read` reads one of
them, and `restored` restores the keyword ``uniqueItems`` in a schema.
When: in ``python -m bench maskbench``.
Limits: a file is JSON with the keys ``schema`` and ``tests`` (each ``{valid, data}``). Other keys are
ignored, and so are files whose names begin with a dot.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.json_schema.judge import VALUES
from bench.workloads import SchemaFile, read_schema_file

HIDDEN, SHOWN = "_uniqueItems", "uniqueItems"
"""The name of the keyword in MaskBench, and in JSON Schema."""

NAMES_BELOW = ("properties", "patternProperties", "definitions", "$defs", "dependentSchemas", "dependencies")
"""Keywords whose members are names that the schema's author chose."""


def choose(folder: Path, limit: int | None = None, seed: int = 0) -> list[Path]:
    """Return the schema files of a folder, shuffled by the seed; the first ``limit`` of them.

    Raises:
        ValueError: there are none.
    """
    paths = sorted(path for path in folder.glob("*.json") if not path.name.startswith("."))
    if not paths:
        raise ValueError(
            f"{str(folder)!r} has no *.json files; expected are files with the keys schema and tests"
        )
    random.Random(seed).shuffle(paths)
    return paths[:limit]


def read(path: Path, unique_items: bool = False) -> SchemaFile:
    """Read one file, with ``uniqueItems`` restored if that is asked for.

    Raises:
        ValueError: it has another structure.
    """
    found = read_schema_file(path)
    return replace(found, schema=restored(found.schema)) if unique_items else found


def restored(schema: Any, *, is_names: bool = False) -> Any:
    """Return a schema in which ``_uniqueItems`` is renamed to ``uniqueItems`` wherever it is a keyword."""
    if isinstance(schema, list):
        return [restored(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    found = {}
    for key, value in schema.items():
        if is_names:
            found[key] = restored(value)
        elif key in VALUES:
            found[key] = value
        else:
            found[SHOWN if key == HIDDEN else key] = restored(value, is_names=key in NAMES_BELOW)
    return found
