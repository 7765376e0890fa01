"""The drafts of JSON Schema and their differences.

What: `Dialect` says which keywords a draft knows and how it reads them; `dialect_of` finds the dialect of a
schema.
When: once for each schema.
Limits: drafts 4, 6, 7, 2019-09 and 2020-12, and metaschemas of the last two that list vocabularies. A
schema that names no draft is read as 2020-12, or as 2019-09 if the `items` of some subschema is a list of
schemas, which 2020-12 forbids.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hybrid.json_schema.errors import SchemaRefused, shown
from hybrid.json_schema.json_objects import objects_with

_DRAFT_4 = frozenset((
    "type", "enum", "allOf", "anyOf", "oneOf", "not", "$ref", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "pattern", "format", "minLength", "maxLength", "properties",
    "patternProperties", "additionalProperties", "required", "minProperties", "maxProperties", "dependencies",
    "items", "additionalItems", "minItems", "maxItems", "uniqueItems",
))  # fmt: skip
_DRAFT_6 = _DRAFT_4 | {"const", "contains", "propertyNames"}
_DRAFT_7 = _DRAFT_6 | {"if"}
_DRAFT_2019 = (_DRAFT_7 - {"dependencies"}) | {
    "dependentRequired", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "$recursiveRef",
}  # fmt: skip
_DRAFT_2020 = (_DRAFT_2019 - {"additionalItems", "$recursiveRef"}) | {"prefixItems", "$dynamicRef"}

DEPENDENT_KEYWORDS = frozenset(("then", "else", "minContains", "maxContains"))
"""Keywords that have no meaning alone, only beside another keyword."""


@dataclass(frozen=True)
class Dialect:
    """A draft.

    Attributes:
        name: its usual name.
        keywords: those that decide whether an instance is valid.
        uri: its URI in `referencing`.
        id_keyword: the keyword that gives a subschema its address.
        ignores_ref_siblings: whether other keywords beside `$ref` are ignored.
        boolean_exclusive: whether `exclusiveMinimum` is a boolean that modifies `minimum`.
        unread: keywords that are ignored although the draft has them.
        is_custom: whether a custom metaschema's list of vocabularies decides which keywords are read.
    """

    name: str
    keywords: frozenset[str] = field(repr=False)
    uri: str
    id_keyword: str = "$id"
    ignores_ref_siblings: bool = False
    boolean_exclusive: bool = False
    unread: frozenset[str] = field(default=frozenset(), repr=False)
    is_custom: bool = False

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
    "6": Dialect("draft 6", _DRAFT_6, _SCHEMA.format(6), ignores_ref_siblings=True),
    "7": Dialect("draft 7", _DRAFT_7, _SCHEMA.format(7), ignores_ref_siblings=True),
    "2019-09": Dialect("2019-09", _DRAFT_2019, "https://json-schema.org/draft/2019-09/schema"),
    "2020-12": Dialect("2020-12", _DRAFT_2020, "https://json-schema.org/draft/2020-12/schema"),
}
"""The drafts, by the part of their URI that identifies them."""

ALL_KEYWORDS = frozenset(("$schema", *DEPENDENT_KEYWORDS)).union(*(one.keywords for one in DIALECTS.values()))
"""The keywords of all drafts that decide whether an instance is valid, and the one that names the draft."""

_DRAFT_OF_URI = re.compile(r"json-schema\.org/(?:draft[-/]0?([0-9-]+)/(?:hyper-)?)?schema#?$")

_VALIDATION = frozenset((
    "type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum",
    "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "maxContains", "minContains",
    "maxProperties", "minProperties", "required", "dependentRequired",
))  # fmt: skip
_UNEVALUATED = frozenset(("unevaluatedItems", "unevaluatedProperties"))
_CORE = frozenset(("$ref", "$dynamicRef", "$recursiveRef"))
_APPLICATOR = (_DRAFT_2019 | _DRAFT_2020 | {"then", "else"}) - _VALIDATION - _UNEVALUATED - _CORE - {"format"}

NAMED = frozenset(("properties", "patternProperties", "dependentSchemas", "$defs", "definitions"))
_WITH_SCHEMAS = _APPLICATOR | _UNEVALUATED | NAMED
"""Keywords that contain subschemas; in those of `NAMED`, each subschema has a name."""

VOCABULARIES = {
    "2020-12": {
        "core": _CORE, "applicator": _APPLICATOR, "unevaluated": _UNEVALUATED, "validation": _VALIDATION,
        "format-annotation": frozenset[str](), "format-assertion": frozenset(("format",)),
        "meta-data": frozenset[str](), "content": frozenset[str](),
    },
    "2019-09": {
        "core": _CORE, "applicator": _APPLICATOR | _UNEVALUATED, "validation": _VALIDATION,
        "format": frozenset[str](), "meta-data": frozenset[str](), "content": frozenset[str](),
    },
}  # fmt: skip
"""The vocabularies of a draft, and the keywords of each that decide whether an instance is valid."""


def draft_named(named: Any) -> Dialect | None:
    """Return the draft that a `$schema` names; None: it names something else, or a draft before draft 4."""
    found = _DRAFT_OF_URI.search(named) if isinstance(named, str) else None
    return None if found is None else DIALECTS.get(found[1] or "2020-12")


def dialect_of(
    schema: Any, metaschema_of: Callable[[str], Any] | None = None, formats: bool = True
) -> Dialect:
    """Return the draft by which a schema must be read.

    Args:
        schema: the schema.
        metaschema_of: returns the document at an address, or None; its `$vocabulary` decides what is read.
        formats: check formats even if the draft says that they are annotations.

    Raises:
        SchemaRefused: it names a draft before draft 4, or an unknown metaschema.
    """
    named = schema.get("$schema") if isinstance(schema, dict) else None
    if not isinstance(named, str):
        found = DIALECTS["2019-09" if _lists_items(schema) else "2020-12"]
    else:
        known = draft_named(named)
        found = _custom(named, metaschema_of, formats) if known is None else known
    if formats or found.is_custom:
        return found
    return replace(found, unread=found.unread | {"format"})


def _custom(named: str, metaschema_of: Callable[[str], Any] | None, formats: bool) -> Dialect:
    """Return the dialect of a metaschema that does not belong to a draft."""

    def refused(why: str) -> SchemaRefused:
        return SchemaRefused("unsupported", "$schema", "", why)

    contents = None if metaschema_of is None else metaschema_of(named)
    if not isinstance(contents, Mapping):
        raise refused(
            f"must name a draft (4 or later) or a metaschema in registry=, but names {shown(named)}"
        )
    base = draft_named(contents.get("$schema"))
    if base is None:
        raise refused(f"names {shown(named)}, whose own $schema does not name a draft (4 or later)")
    asked = contents.get("$vocabulary")
    known = VOCABULARIES.get(base.name)
    if known is None or not isinstance(asked, Mapping):
        return base if formats else replace(base, unread=frozenset(("format",)))
    keywords: frozenset[str] = frozenset(("format",)) if formats else frozenset()
    for uri, is_required in asked.items():
        draft, _, name = uri.partition("/vocab/")
        own = known.get(name) if draft == f"https://json-schema.org/draft/{base.name}" else None
        if own is None:
            if is_required:
                raise refused(f"names {shown(named)}, which requires the unknown vocabulary {shown(uri)}")
        elif name == "format" and is_required:
            keywords |= {"format"}
        else:
            keywords |= own
    return replace(base, unread=(base.keywords | DEPENDENT_KEYWORDS) - keywords, is_custom=True)


def _lists_items(schema: Any) -> bool:
    """Whether the `items` of some subschema is a list of schemas. Instances, as in `default`, and unknown
    keywords do not count.
    """
    if not any(map(_has_list, objects_with(schema, ("items",)))):
        return False  # nearly all schemas
    todo = [schema]
    while todo:
        one = todo.pop()
        if not isinstance(one, dict):
            continue
        if _has_list(one):
            return True
        for keyword in _WITH_SCHEMAS.intersection(one):
            inner = one[keyword]
            if keyword in NAMED and isinstance(inner, dict):
                todo.extend(inner.values())
            else:
                todo.extend(inner if isinstance(inner, list) else (inner,))
    return False


def _has_list(one: dict[str, Any]) -> bool:
    items = one.get("items")
    return (
        isinstance(items, list)
        and "prefixItems" not in one
        and all(isinstance(item, (dict, bool)) for item in items)
    )
