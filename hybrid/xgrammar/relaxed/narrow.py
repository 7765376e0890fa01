"""Find the valid values that XGrammar's grammar cannot write, for the parts of a schema.

What: for a part of each type, functions that give the keywords with reasons; `needs_order` and `is_closed`
for restrictions that come from XGrammar's options and not from one keyword.
When: by `hybrid.xgrammar.relaxed.walk`, for `CompiledGrammar.narrowed`.
Limits: only values count, not their spellings: that the integer 1 cannot be written as 1.0 is not listed. In
doubt, a keyword is listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from hybrid.xgrammar.relaxed.keywords import is_idle, permits_all
from hybrid.xgrammar.relaxed.narrow_patterns import FORMAT_LIMITS, pattern_limit
from hybrid.xgrammar.relaxed.objects import LARGEST_COUNT, Gap, large_counts
from hybrid.xgrammar.relaxed.patterns import FORMAT_GAPS
from hybrid.xgrammar.relaxed.twins import SKIPPED
from hybrid.xgrammar.relaxed.values import parts_of

NO_ESCAPES = "no escape can be written, so no quotation mark, backslash or line end"
RAW = "control characters other than line ends can be written without escapes, which is not JSON"
DIGITS = "at most 6 digits after the decimal point and no exponent can be written"
AS_DOUBLE = "fractions are written with 17 digits, 0.1 as 0.10000000000000001"
BEYOND = "numbers beyond 64 bits are written in the precision of a double"
EXACT = 2**63
"""XGrammar does not read numbers from here on as they are written."""

BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")

LATER: dict[str, frozenset[str]] = {
    "draft-03": frozenset({"const", "propertyNames", "allOf", "anyOf", "oneOf"}),
    "draft-04": frozenset({"const", "propertyNames"}),
    "draft-06": frozenset(),
    "draft-07": frozenset(),
    "2019-09": frozenset(),
}
"""For each draft, the keywords that it does not have although XGrammar reads them, besides `NEWEST`."""

NEWEST = frozenset({"prefixItems"})
"""The keywords that only 2020-12 has."""

NEW = frozenset({"unevaluatedItems", "unevaluatedProperties", "minContains"})
"""The keywords that only 2019-09 and 2020-12 have."""


def unknown_to(named: Any) -> frozenset[str]:
    """Find the keywords that XGrammar reads although the draft that ``$schema`` names does not have them."""
    if not isinstance(named, str):
        return frozenset()
    for draft, keywords in LATER.items():
        if draft in named:
            return keywords | NEWEST | (frozenset() if draft == "2019-09" else NEW)
    return frozenset()


def read_of_string(node: dict[str, Any]) -> str:
    """Return the keyword that decides which strings XGrammar writes; empty if it writes all. Of ``format``,
    ``pattern`` and lengths, it reads only the first one that is present and known."""
    if node.get("format") in FORMAT_GAPS:
        return "format"
    if "pattern" in node:
        return "pattern"
    if -1 < node.get("maxLength", -1) <= LARGEST_COUNT:
        return "maxLength" if node["maxLength"] else ""
    return "minLength" if node.get("minLength", 0) > 0 else ""


def string_limits(node: dict[str, Any]) -> Iterator[Gap]:
    """Find the limits of strings."""
    keyword = read_of_string(node)
    if keyword == "format":
        limit = FORMAT_LIMITS.get(node["format"], "")
    else:
        limit = pattern_limit(node["pattern"]) if keyword == "pattern" else NO_ESCAPES
    if keyword and limit:
        yield Gap(keyword, limit)


def number_limits(node: dict[str, Any]) -> Iterator[Gap]:
    """Find the limits of numbers. If there are bounds, texts of numbers match a regular expression with few
    digits."""
    keyword = next((one for one in BOUNDS if one in node), "")
    if keyword:
        yield Gap(keyword, DIGITS)
    for one in BOUNDS:
        if abs(node.get(one, 0)) >= EXACT:
            yield Gap(one, "XGrammar reads integers beyond 64 bits as a different number")


def constant_limit(values: list[Any]) -> str:
    """Return `BEYOND` or `AS_DOUBLE` if XGrammar writes a number in the values with another value or
    spelling."""
    limit = ""
    for one in parts_of(values):
        if isinstance(one, float) and Decimal(format(one, ".17g")) != Decimal(repr(one)):
            limit = AS_DOUBLE
        if isinstance(one, int) and not -EXACT <= one < EXACT:
            return BEYOND
    return limit


def several_keys(values: list[Any]) -> bool:
    """Whether some value contains an object with several keys, which can only be written in one order."""
    containers = (one for one in values if isinstance(one, (dict, list)))
    return any(isinstance(one, dict) and len(one) > 1 for one in parts_of(containers))


def array_limits(node: dict[str, Any]) -> Iterator[Gap]:
    """Find what XGrammar requires of arrays beyond the schema."""
    if node.get("minContains", 0) > 0 and "contains" not in node:
        yield Gap("minContains", "without contains, XGrammar reads it as minItems")
    if "items" not in node and "unevaluatedItems" in node and not is_idle("unevaluatedItems", node):
        if not {"contains", "if", "then", "else"}.isdisjoint(node):
            yield Gap(
                "unevaluatedItems", "XGrammar reads it as items, even for items that other keywords evaluate"
            )


def object_limits(node: dict[str, Any], is_open: bool) -> Iterator[Gap]:
    """Find what XGrammar requires of objects beyond the schema."""
    properties, patterns = node.get("properties"), node.get("patternProperties")
    missing = [name for name in node.get("required", ()) if properties and name not in properties]
    if missing and is_open:
        yield Gap(
            "required",
            "if it names a key that is not in properties, XGrammar also requires one of the properties",
        )
    yield from large_counts(node)
    if patterns:
        if not properties and node.get("additionalProperties") is not False:
            yield Gap("patternProperties", "without properties, only keys that match can be written")
        rest = node.get("additionalProperties", node.get("unevaluatedProperties", True))
        if not (properties and is_open and permits_all(rest)):
            for pattern in patterns:
                limit = pattern_limit(pattern)
                if limit:
                    yield Gap("patternProperties", limit, pattern)
    if "additionalProperties" not in node and "unevaluatedProperties" in node:
        if not is_idle("unevaluatedProperties", node):
            if not {"dependentSchemas", "if", "then", "else"}.isdisjoint(node):
                reason = (
                    "XGrammar reads it as additionalProperties, even for properties that other "
                    "keywords evaluate"
                )
                yield Gap("unevaluatedProperties", reason)


def needs_order(node: dict[str, Any], is_open: bool) -> bool:
    """Whether the keys of an object can only be written in one order."""
    named = len(node.get("properties", ()))
    return named > 1 or (named == 1 and (is_open or bool(node.get("patternProperties"))))


def is_closed(node: dict[str, Any], one: str) -> bool:
    """Whether only ``strict_mode`` forbids other properties of an object, or other items of an array.

    It does so if there is any keyword other than ``type`` and annotations, whatever its value.
    """
    if all(keyword == "type" or keyword in SKIPPED for keyword in node):
        return False
    if one == "array":
        return "items" not in node and "unevaluatedItems" not in node
    if "additionalProperties" in node or "unevaluatedProperties" in node:
        return False
    return not ("propertyNames" in node and not node.get("properties")) or bool(node.get("patternProperties"))
