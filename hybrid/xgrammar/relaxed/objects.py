"""Find what XGrammar leaves out of schemas of objects and arrays, and which of their values it cannot write.

What: `object_findings` and `array_findings` give the keywords with reasons, in both directions. `needs_order`
and `is_closed` are about restrictions that come from XGrammar's options and not from one keyword.
When: by `hybrid.xgrammar.relaxed.walk`, for parts of these types.
Limits: names are compared only with the beginnings of patterns; in doubt they match, and a keyword is listed.

XGrammar writes declared properties in their order, and other members between or after them. Keys of other
members are kept different from declared names only if there is neither ``patternProperties`` nor
``propertyNames``. Patterns are alternatives to each other, and to everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from hybrid.xgrammar.relaxed.confused_parts import SKIPPED
from hybrid.xgrammar.relaxed.keywords import (
    APPLIES,
    LARGEST_COUNT,
    Finding,
    fits,
    gap,
    is_idle,
    limit,
    permits_all,
)
from hybrid.xgrammar.relaxed.kinds import Kinds, covers, finite
from hybrid.xgrammar.relaxed.patterns import literal_prefix, pattern_gap, pattern_limit


def object_findings(
    node: dict[str, Any], kinds: Kinds, strict_mode: bool, any_order: bool
) -> Iterator[Finding]:
    """Find the gaps and limits of one schema of objects, without those of the schemas in it."""
    may_have_others = is_open(node, strict_mode)
    yield from _required(node, may_have_others, any_order)
    for keyword in ("minProperties", "maxProperties"):
        if node.get(keyword, 0) > LARGEST_COUNT:
            reason = f"XGrammar reads a number above {LARGEST_COUNT} as a different number"
            yield gap(keyword, reason)
            yield limit(keyword, reason)
    if isinstance(node.get("propertyNames"), dict):
        yield from _names(node, may_have_others, kinds)
    yield from _others(node, strict_mode)
    if node.get("patternProperties"):
        yield from _patterns(node, may_have_others)
    elif node.get("properties") and may_have_others:
        yield from _declared(node)


def array_findings(node: dict[str, Any]) -> Iterator[Finding]:
    """Find what XGrammar requires of arrays beyond the schema."""
    if node.get("minContains", 0) > 0 and "contains" not in node:
        yield limit("minContains", "without contains, XGrammar reads it as minItems")
    if "items" not in node and "unevaluatedItems" in node and not is_idle("unevaluatedItems", node):
        if not {"contains", "if", "then", "else"}.isdisjoint(node):
            reason = "XGrammar reads it as items, even for items that other keywords evaluate"
            yield limit("unevaluatedItems", reason)


def is_open(node: dict[str, Any], strict_mode: bool) -> bool:
    """Whether XGrammar allows properties that are not declared."""
    if "additionalProperties" in node:
        return node["additionalProperties"] is not False
    if "unevaluatedProperties" in node:
        return not (strict_mode and node["unevaluatedProperties"] is False)
    return not strict_mode


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


def _required(node: dict[str, Any], is_open: bool, any_order: bool) -> Iterator[Finding]:
    properties = node.get("properties", {})
    required = node.get("required", ())
    missing = [name for name in required if name not in properties]
    if missing:
        yield gap("required", f"{_short(missing[0])} is required, but is not in properties")
        if properties and is_open:
            yield limit(
                "required",
                "if it names a key that is not in properties, XGrammar also requires one of the properties",
            )
    elif any_order and required and (is_open or len(properties) > 1 or node.get("patternProperties")):
        yield gap("required", "with any_order, required properties are not enforced")


def _names(node: dict[str, Any], is_open: bool, kinds: Kinds) -> Iterator[Finding]:
    """Find the gaps of ``propertyNames``, which XGrammar reads for undeclared keys if there are no
    patterns."""
    names = node["propertyNames"]
    properties = node.get("properties")
    if node.get("patternProperties"):
        if not permits_all(names):
            yield gap("propertyNames", "is ignored next to patternProperties")
    elif permits_all(names):
        if not properties or is_open:
            yield gap("propertyNames", "with an empty schema, keys may also be other values than strings")
    elif not covers({"string"}, kinds.written(names, "string")):
        yield gap("propertyNames", "keys may also be other values than strings")
    elif properties and not _are_named(properties, names):
        yield gap("propertyNames", "is not applied to the names of properties")


def _others(node: dict[str, Any], strict_mode: bool) -> Iterator[Finding]:
    """Find the gaps of ``additionalProperties``, or else ``unevaluatedProperties``, if it forbids other
    properties, and the limits of the latter."""
    keyword = "additionalProperties" if "additionalProperties" in node else "unevaluatedProperties"
    if keyword == "unevaluatedProperties" and keyword in node and not is_idle(keyword, node):
        if not {"dependentSchemas", "if", "then", "else"}.isdisjoint(node):
            reason = (
                "XGrammar reads it as additionalProperties, even for properties that other keywords evaluate"
            )
            yield limit(keyword, reason)
    if node.get(keyword) is not False:
        return
    if not node.get("properties") and not node.get("patternProperties") and "propertyNames" in node:
        yield gap(keyword, "next to propertyNames and without properties, other properties are allowed")
    elif keyword == "unevaluatedProperties" and not strict_mode:
        yield gap(keyword, "false is enforced only with strict_mode")


def _declared(node: dict[str, Any]) -> Iterator[Finding]:
    """Find the gaps of declared properties: another member may have the name of one."""
    told = [name for name, schema in node["properties"].items() if not permits_all(schema)]
    if told and "propertyNames" in node:
        yield gap("properties", "a key that matches propertyNames may have the name of a property")
        return
    for name in told:
        if not (name.isascii() and name.isprintable()) or '"' in name or "\\" in name:
            reason = (
                f"the key {_short(name)} may also be written as an additional property, because not "
                "all of its characters are printable ASCII without quotes and backslashes"
            )
            yield gap("properties", reason)
            return


def _patterns(node: dict[str, Any], is_open: bool) -> Iterator[Finding]:
    properties = node.get("properties", {})
    patterns = node["patternProperties"]
    if not properties and node.get("additionalProperties") is not False:
        yield limit("patternProperties", "without properties, only keys that match can be written")
    rest = node.get("additionalProperties", node.get("unevaluatedProperties", True))
    is_any = bool(properties) and is_open and permits_all(rest)
    for pattern in patterns:
        if reason := pattern_gap(pattern):
            yield gap("patternProperties", reason, pattern)
        if not is_any and (reason := pattern_limit(pattern)):
            yield limit("patternProperties", reason, pattern)
    of_names = bool(properties) and not is_idle("properties", node)
    of_patterns = not is_idle("patternProperties", node)
    if properties and is_open:
        if of_names:
            yield gap(
                "properties", "next to patternProperties, a property may also count as an additional one"
            )
        if of_patterns:
            yield gap("patternProperties", "a key that matches may also count as an additional property")
        return
    prefixes = [literal_prefix(pattern) for pattern in patterns]
    if may_begin(list(properties), prefixes):
        if of_names:
            yield gap("properties", "a key that matches patternProperties may have the name of a property")
        if of_patterns:
            yield gap("patternProperties", "is not applied to properties")
    if of_patterns and may_begin(prefixes, prefixes, others=True):
        yield gap("patternProperties", "of several patterns that match a key, only one is applied")


def may_begin(texts: list[str], prefixes: list[str], others: bool = False) -> bool:
    """Whether one of the texts begins with one of the prefixes; or, with `others`, one prefix with another.

    In sorted order, the shortest prefix of a text comes before it, and everything between them begins with
    that prefix, too.
    """
    marked = [(text, 1) for text in texts] if not others else []
    last: str | None = None
    for text, is_text in sorted(marked + [(prefix, 0) for prefix in prefixes]):
        inside = last is not None and text.startswith(last)
        if inside and (is_text or others):
            return True
        if not is_text and not inside:
            last = text
    return False


def _are_named(properties: Iterable[str], names: dict[str, Any]) -> bool:
    """Whether all names are known to satisfy the schema of names."""
    constants = finite(names)
    if constants is not None and not {one for one in constants if isinstance(one, str)}.issuperset(
        properties
    ):
        return False
    said = [
        keyword
        for keyword in names
        if keyword in APPLIES and keyword not in ("const", "enum") and "string" in APPLIES[keyword]
    ]
    return all(fits(keyword, name, names[keyword]) for keyword in said for name in properties)


def _short(name: str) -> str:
    return repr(name if len(name) <= 40 else name[:37] + "...")
