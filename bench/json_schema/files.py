"""Schemas with labelled instances, in MaskBench's structure.

What: `choose` returns the files of a folder in an order that depends only on a seed, `read` reads one of
them, and `restored` restores the keyword ``uniqueItems`` in a schema.
When: in ``python -m bench maskbench``.
Limits: a file is JSON with the keys ``schema`` and ``tests`` (each ``{valid, data}``). Other keys are
ignored, and so are files whose names begin with a dot.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HIDDEN, SHOWN = "_uniqueItems", "uniqueItems"
"""The name of the keyword in MaskBench, and in JSON Schema."""

NAMES_BELOW = ("properties", "patternProperties", "definitions", "$defs", "dependentSchemas", "dependencies")
"""Keywords whose members are names that the schema's author chose."""

VALUES = ("enum", "const", "default", "examples", "example")
"""Keywords that hold instances, where nothing is a keyword."""


@dataclass(frozen=True)
class Labelled:
    """One file: a schema, and instances with their labels."""

    name: str
    schema: Any
    instances: Sequence[Any]
    labels: Sequence[bool]


def choose(folder: Path, limit: int | None = None, offset: int = 0, seed: int = 0) -> list[Path]:
    """Return the schema files of a folder, shuffled by the seed; ``limit`` of them after the first
    ``offset``.

    Raises:
        ValueError: there are none.
    """
    paths = sorted(path for path in folder.glob("*.json") if not path.name.startswith("."))
    random.Random(seed).shuffle(paths)
    found = paths[offset:] if limit is None else paths[offset : offset + limit]
    if not found:
        raise ValueError(
            f"{str(folder)!r} has {len(paths):,} *.json files, of which --offset {offset} leaves none; "
            "expected is a folder of files with the keys schema and tests"
        )
    return found


def read(path: Path, unique_items: bool = False) -> Labelled:
    """Read one file, with ``uniqueItems`` restored if that is asked for.

    Raises:
        ValueError: it has another structure.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        tests = content.get("tests", [])
        schema = restored(content["schema"]) if unique_items else content["schema"]
        labels = [bool(test["valid"]) for test in tests]
        return Labelled(path.stem, schema, [test["data"] for test in tests], labels)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{path.name} is not a schema file ({error!r}); expected is JSON with the keys schema and tests"
        ) from error


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
