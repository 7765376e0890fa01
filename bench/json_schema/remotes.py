"""The assumptions of the JSON-Schema-Test-Suite about its schemas: other documents, and the meaning of
formats.

What: `as_the_suite` compiles a schema with the suite's remote documents, and says that formats are
annotations if the draft says so.
When: in ``python -m bench testsuite``, for our engine; the others have no such options.
Limits: a draft's documents are those in its folder, and those outside of all drafts' folders.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

BASE = "http://localhost:1234/"
"""The address that the suite assumes for its documents."""

DRAFTS = {
    "draft4": "http://json-schema.org/draft-04/schema#", "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}  # fmt: skip
"""The drafts that are tested, with the URI of each."""


ANNOTATING = ("draft2019-09", "draft2020-12")
"""Drafts whose `format` is an annotation."""


def as_the_suite(compile_it: Callable[..., Any], remotes: str, schema: str) -> Any:
    """Compile a schema with the suite's meaning.

    Args:
        compile_it: the compiler's method.
        remotes: the folder of documents.
        schema: the text of the schema.
    """
    draft = draft_of(json.loads(schema))
    registry = documents(remotes, draft)
    return compile_it(schema, assert_formats=draft not in ANNOTATING, registry=registry)


def draft_of(schema: Any) -> str:
    """Return the folder of the draft that a schema names, perhaps by a metaschema of the suite."""
    named = schema.get("$schema") if isinstance(schema, Mapping) else None
    found = re.search(r"draft[-/]?0?([0-9-]+)/", named) if isinstance(named, str) else None
    draft = f"draft{found[1]}" if found else ""
    return draft if draft in DRAFTS else "draft2020-12"


@cache
def documents(remotes: str, draft: str) -> Any:
    """Return the documents of a draft, as a `referencing.Registry`."""
    from referencing import Registry
    from referencing.jsonschema import specification_with

    specification = specification_with(DRAFTS[draft])
    found = []
    for path in sorted(Path(remotes).rglob("*.json")):
        name = path.relative_to(remotes).as_posix()
        folder = name.partition("/")[0]
        if folder == draft or not re.match("draft|v[0-9]", folder):
            contents = json.loads(path.read_text(encoding="utf-8"))
            found.append((BASE + name, specification.create_resource(contents)))
    return Registry().with_resources(found)
