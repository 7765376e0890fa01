"""Drafts of JSON Schema, and what they differ in.

What: `Dialect` says which keywords a draft knows and how it reads them; `dialect_of` finds a schema's.
When: once for each schema.
Limits: drafts 4, 6, 7, 2019-09 and 2020-12. A schema that names none is read as 2020-12, or as 2019-09 where
it lists schemas in `items`, which 2020-12 does not allow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hybrid.json_schema.errors import SchemaRefused

_DRAFT_4 = frozenset(
    [
        "type",
        "enum",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "$ref",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "pattern",
        "format",
        "minLength",
        "maxLength",
        "properties",
        "patternProperties",
        "additionalProperties",
        "required",
        "minProperties",
        "maxProperties",
        "dependencies",
        "items",
        "additionalItems",
        "minItems",
        "maxItems",
        "uniqueItems",
    ]
)
_DRAFT_6 = _DRAFT_4 | {"const", "contains", "propertyNames"}
_DRAFT_7 = _DRAFT_6 | {"if"}
_DRAFT_2019 = (_DRAFT_7 - {"dependencies"}) | {
    "dependentRequired", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "$recursiveRef",
}  # fmt: skip
_DRAFT_2020 = (_DRAFT_2019 - {"additionalItems", "$recursiveRef"}) | {"prefixItems", "$dynamicRef"}

READ_BESIDE = frozenset(("then", "else", "minContains", "maxContains"))
"""Keywords that say nothing by themselves, but with the one that they stand beside."""


@dataclass(frozen=True)
class Dialect:
    """A draft.

    Attributes:
        name: as people call it.
        keywords: those that decide whether an instance is valid.
        uri: that `referencing` knows it by.
        id_keyword: names a subschema.
        ref_alone: whether what stands beside `$ref` is not read.
        boolean_exclusive: whether `exclusiveMinimum` says how `minimum` is meant.
    """

    name: str
    keywords: frozenset[str] = field(repr=False)
    uri: str
    id_keyword: str = "$id"
    ref_alone: bool = False
    boolean_exclusive: bool = False

    @property
    def lists_items(self) -> bool:
        """Whether `items` may be a list of schemas."""
        return "prefixItems" not in self.keywords

    @property
    def counts_contains(self) -> bool:
        """Whether `minContains` and `maxContains` are read."""
        return "dependentRequired" in self.keywords


_SCHEMA = "http://json-schema.org/draft-0{}/schema#"

DIALECTS = {
    "4": Dialect("draft 4", _DRAFT_4, _SCHEMA.format(4), "id", True, True),
    "6": Dialect("draft 6", _DRAFT_6, _SCHEMA.format(6), ref_alone=True),
    "7": Dialect("draft 7", _DRAFT_7, _SCHEMA.format(7), ref_alone=True),
    "2019-09": Dialect("2019-09", _DRAFT_2019, "https://json-schema.org/draft/2019-09/schema"),
    "2020-12": Dialect("2020-12", _DRAFT_2020, "https://json-schema.org/draft/2020-12/schema"),
}
"""By the part of their URI that tells them apart."""

ALL_KEYWORDS = frozenset(("$schema", *READ_BESIDE)).union(*(one.keywords for one in DIALECTS.values()))
"""The keywords of all drafts that decide whether an instance is valid, and the one that names the draft."""

_DRAFT_OF_URI = re.compile(r"json-schema\.org/draft[-/]0?([0-9-]+)/(?:hyper-)?schema#?$")


def dialect_of(schema: Any) -> Dialect:
    """The draft that a schema is to be read by.

    Raises:
        SchemaRefused: it names a draft before 4.
    """
    named = schema.get("$schema") if isinstance(schema, dict) else None
    found = _DRAFT_OF_URI.search(named) if isinstance(named, str) else None
    if found is not None:
        if found[1] in DIALECTS:
            return DIALECTS[found[1]]
        if found[1] in ("0", "1", "2", "3"):
            raise SchemaRefused(
                "unsupported", "$schema", "", f"names draft {found[1]}, known are 4 and later"
            )
    if not isinstance(named, str) and _lists_items(schema):
        return DIALECTS["2019-09"]
    return DIALECTS["2020-12"]


def objects_in(schema: Any) -> Iterator[dict[str, Any]]:
    """All objects of a schema at any depth, in no order; instances in `enum` and the like among them."""
    todo = [schema]
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            yield one
            todo.extend(one.values())
        elif isinstance(one, list):
            todo.extend(one)


def _lists_items(schema: Any) -> bool:
    """Whether some `items` is a list; instances in `enum` and the like are looked into too: no harm is
    done.
    """
    return any(
        isinstance(one.get("items"), list) and "prefixItems" not in one and all(map(_is_schema, one["items"]))
        for one in objects_in(schema)
    )


def _is_schema(one: Any) -> bool:
    return isinstance(one, (dict, bool))
