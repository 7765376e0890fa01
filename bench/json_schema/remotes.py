"""What the JSON-Schema-Test-Suite means by its schemas, told to those who can be told: documents and formats.

What: `as_the_suite` is a compile method that gets the suite's remote documents, and is told that formats are
annotations where the draft says so.
When: in ``python -m bench testsuite``, for our engine; the others have no such options.
Limits: a draft's documents are those of its folder, and those beside the folders that name no draft.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

BASE = "http://localhost:1234/"
"""Where the suite says that its documents are."""

SPECIFICATIONS = {
    "draft4": "http://json-schema.org/draft-04/schema", "draft6": "http://json-schema.org/draft-06/schema",
    "draft7": "http://json-schema.org/draft-07/schema",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}  # fmt: skip

ANNOTATING = ("draft2019-09", "draft2020-12")
"""Drafts whose `format` is an annotation."""


def as_the_suite(
    compile_it: Callable[..., Any], options: Mapping[str, Any], remotes: str, annotations: bool
) -> Callable[[Any], Any]:
    """A method that compiles a schema as the suite means it.

    Args:
        compile_it: the compiler's.
        options: that it gets for each schema.
        remotes: the folder of documents.
        annotations: whether formats are annotations where the draft says so.
    """

    def compiled(schema: Any) -> Any:
        draft = draft_of(schema)
        formats = not (annotations and draft in ANNOTATING)
        return compile_it(schema, assert_formats=formats, registry=documents(remotes, draft), **options)

    return compiled


def draft_of(schema: Any) -> str:
    """The folder of the draft that a schema names, also by a metaschema of the suite's own."""
    named = schema.get("$schema") if isinstance(schema, Mapping) else None
    found = re.search(r"draft[-/]?0?([0-9-]+)/", named) if isinstance(named, str) else None
    draft = f"draft{found[1]}" if found else ""
    return draft if draft in SPECIFICATIONS else "draft2020-12"


@cache
def documents(remotes: str, draft: str) -> Any:
    """The documents of a draft, as a `referencing.Registry`."""
    from referencing import Registry
    from referencing.jsonschema import specification_with

    specification = specification_with(SPECIFICATIONS[draft])
    found = []
    for path in sorted(Path(remotes).rglob("*.json")):
        name = path.relative_to(remotes).as_posix()
        folder = name.partition("/")[0]
        if folder == draft or not re.match("draft|v[0-9]", folder):
            contents = json.loads(path.read_text(encoding="utf-8"))
            found.append((BASE + name, specification.create_resource(contents)))
    return Registry().with_resources(found)
