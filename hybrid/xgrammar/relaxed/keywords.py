"""The keywords of JSON Schema that constrain values: for which kinds of values, and when they have no effect.

What: `APPLIES` has the kinds of values that each keyword concerns. `is_idle` says whether a keyword excludes
no value, `fits` whether a value satisfies it. A `Finding` is a keyword with what XGrammar makes of it.
When: by `hybrid.xgrammar.relaxed`, for keywords that XGrammar leaves out: one without effect is no loss.
Limits: `fits` knows the keywords for numbers, lengths and types. All others would need a validator.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple, TypeGuard

from hybrid.json_schema.dialects import Dialect
from hybrid.xgrammar.relaxed.kinds import ALL, covers, kind_of

NUMBERS = frozenset({"integer", "number"})
STRINGS = frozenset({"string"})
ARRAYS = frozenset({"array"})
OBJECTS = frozenset({"object"})

APPLIES: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        (
            "$ref", "$dynamicRef", "$recursiveRef", "const", "enum", "anyOf", "oneOf", "allOf", "type", "not",
            "if",
        ),
        ALL,
    ),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), NUMBERS),
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format"), STRINGS),
    **dict.fromkeys(
        (
            "items", "prefixItems", "unevaluatedItems", "contains", "minContains", "maxContains", "minItems",
            "maxItems", "uniqueItems",
        ),
        ARRAYS,
    ),
    **dict.fromkeys(
        (
            "properties", "patternProperties", "additionalProperties", "unevaluatedProperties",
            "propertyNames", "required", "minProperties", "maxProperties", "dependentRequired",
            "dependentSchemas", "dependencies",
        ),
        OBJECTS,
    ),
}  # fmt: skip
"""All other words (``title``, ``default``, ``$defs``, unknown ones ...) constrain nothing."""

AT_LEAST = ("minLength", "minItems", "minProperties")
SCHEMAS = ("items", "unevaluatedItems", "additionalProperties", "unevaluatedProperties", "propertyNames")
MAPS = ("properties", "patternProperties", "dependentSchemas", "dependentRequired", "dependencies")


LARGEST_COUNT = 2**31 - 1
"""XGrammar reads a larger count as a different number."""

NEXT_TO = "is next to {0}: XGrammar reads only {0} and ignores this keyword"


LATER = frozenset(
    {
        "const", "propertyNames", "prefixItems", "unevaluatedItems", "unevaluatedProperties", "minContains",
    }
)  # fmt: skip
"""The keywords that XGrammar reads although some drafts do not have them."""


class Finding(NamedTuple):
    """A keyword that XGrammar does not read as it is meant.

    Attributes:
        is_gap: True if XGrammar does not enforce it completely; False if valid values cannot be written
            because of it.
        keyword: its name.
        reason: what XGrammar allows, or what cannot be written.
        inside: the key below the keyword that is meant, or empty.
    """

    is_gap: bool
    keyword: str
    reason: str
    inside: str = ""


gap, limit = partial(Finding, True), partial(Finding, False)


def unknown_to(dialect: Dialect) -> frozenset[str]:
    """Find the keywords that XGrammar reads although a draft does not have them."""
    return LATER - dialect.keywords - ({"minContains"} if dialect.counts_contains else set())


def permits_all(schema: Any) -> bool:
    """Whether a schema constrains no value."""
    return schema is True or (isinstance(schema, dict) and APPLIES.keys().isdisjoint(schema))


def is_idle(keyword: str, node: dict[str, Any], has_counts: bool = True) -> bool:
    """Whether a keyword of a schema excludes no value. In drafts before 2019-09, ``minContains`` has no
    meaning; then `has_counts` is False."""
    value = node[keyword]
    if keyword in AT_LEAST:
        return _is_number(value) and value <= 0
    if keyword == "uniqueItems":
        most = node.get("maxItems")
        return value is not True or (_is_number(most) and most <= 1)
    if keyword == "contains":
        return has_counts and node.get("minContains") == 0 and "maxContains" not in node
    if keyword in ("minContains", "maxContains"):
        return "contains" not in node or (keyword == "minContains" and value in (0, 1))
    if keyword in SCHEMAS:
        return permits_all(value)
    if keyword in MAPS:
        return isinstance(value, dict) and all(one == [] or permits_all(one) for one in value.values())
    if keyword == "if":
        return all(permits_all(node.get(branch, True)) for branch in ("then", "else"))
    if keyword in ("allOf", "prefixItems"):
        return isinstance(value, list) and all(map(permits_all, value))
    if keyword == "anyOf":
        return isinstance(value, list) and any(map(permits_all, value))
    if keyword == "not":
        return value is False
    return keyword == "required" and value == []


def fits(keyword: str, value: Any, bound: Any) -> bool:
    """Whether a value satisfies a keyword that concerns values of its kind; False if that is unknown."""
    if keyword == "type":
        types = [bound] if isinstance(bound, str) else bound if isinstance(bound, list) else []
        return covers([one for one in types if isinstance(one, str)], [kind_of(value)])
    if not _is_number(bound):
        return False
    if keyword == "multipleOf":
        return is_multiple(value, bound)
    if keyword in ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"):
        return len(value) >= bound if keyword.startswith("min") else len(value) <= bound
    if keyword in ("minimum", "maximum"):
        return value >= bound if keyword == "minimum" else value <= bound
    if keyword in ("exclusiveMinimum", "exclusiveMaximum"):
        return value > bound if keyword == "exclusiveMinimum" else value < bound
    return False


def is_multiple(value: float, step: Any) -> bool:
    """Whether a number is a multiple of another one, both as they are written in decimals."""
    if not _is_number(step) or step <= 0:
        return False
    try:
        return (Fraction(repr(value)) / Fraction(repr(step))).denominator == 1
    except ValueError:  # one of them is infinite
        return False


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
