"""Find what XGrammar leaves out of schemas of objects.

What: `object_gaps` gives the keywords that XGrammar reads for objects and does not enforce completely, with
reasons.
When: by `hybrid.xgrammar.relaxed.walk`, for parts of this type.
Limits: names are compared only with the beginnings of patterns; in doubt they match.

XGrammar writes declared properties in their order, and other members between or after them. Keys of other
members are kept different from declared names only if there is neither ``patternProperties`` nor
``propertyNames``. Patterns are alternatives to each other, and to everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from hybrid.xgrammar.relaxed.keywords import APPLIES, fits, is_idle, permits_all
from hybrid.xgrammar.relaxed.patterns import literal_prefix, pattern_gap
from hybrid.xgrammar.relaxed.values import Kinds, covers, finite

LARGEST_COUNT = 2**31 - 1

NEXT_TO = "is next to {0}: XGrammar reads only {0} and ignores this keyword"


class Gap(NamedTuple):
    """A keyword that is not enforced completely. ``inside`` is the key below it that is meant, or empty."""

    keyword: str
    reason: str
    inside: str = ""


def object_gaps(node: dict[str, Any], kinds: Kinds, strict_mode: bool, any_order: bool) -> Iterator[Gap]:
    """Find the gaps of one schema, without those of the schemas in it."""
    may_have_others = is_open(node, strict_mode)
    yield from _required_gaps(node, may_have_others, any_order)
    yield from large_counts(node)
    if isinstance(node.get("propertyNames"), dict):
        yield from _name_gaps(node, may_have_others, kinds)
    yield from _additional_gaps(node, strict_mode)
    if node.get("patternProperties"):
        yield from _pattern_gaps(node, may_have_others)
    elif node.get("properties") and may_have_others:
        yield from _declared_gaps(node)


def large_counts(node: dict[str, Any]) -> Iterator[Gap]:
    """Find bounds of the number of properties that XGrammar misreads, in either direction."""
    for keyword in ("minProperties", "maxProperties"):
        if node.get(keyword, 0) > LARGEST_COUNT:
            yield Gap(keyword, f"XGrammar reads a number above {LARGEST_COUNT} as a different number")


def is_open(node: dict[str, Any], strict_mode: bool) -> bool:
    """Whether XGrammar allows properties that are not declared."""
    if "additionalProperties" in node:
        return node["additionalProperties"] is not False
    if "unevaluatedProperties" in node:
        return not (strict_mode and node["unevaluatedProperties"] is False)
    return not strict_mode


def _required_gaps(node: dict[str, Any], is_open: bool, any_order: bool) -> Iterator[Gap]:
    properties = node.get("properties", {})
    required = node.get("required", ())
    missing = [name for name in required if name not in properties]
    if missing:
        yield Gap("required", f"{_short(missing[0])} is required, but is not in properties")
    elif any_order and required and (is_open or len(properties) > 1 or node.get("patternProperties")):
        yield Gap("required", "with any_order, required properties are not enforced")


def _name_gaps(node: dict[str, Any], is_open: bool, kinds: Kinds) -> Iterator[Gap]:
    """Find the gaps of ``propertyNames``, which XGrammar reads for undeclared keys if there are no
    patterns."""
    names = node["propertyNames"]
    properties = node.get("properties")
    if node.get("patternProperties"):
        if not permits_all(names):
            yield Gap("propertyNames", "is ignored next to patternProperties")
    elif permits_all(names):
        if not properties or is_open:
            yield Gap("propertyNames", "with an empty schema, keys may also be other values than strings")
    elif not covers({"string"}, kinds.written(names, "string")):
        yield Gap("propertyNames", "keys may also be other values than strings")
    elif properties and not _are_named(properties, names):
        yield Gap("propertyNames", "is not applied to the names of properties")


def _additional_gaps(node: dict[str, Any], strict_mode: bool) -> Iterator[Gap]:
    """Find the gaps of ``additionalProperties``, or else ``unevaluatedProperties``, if it forbids other
    properties."""
    keyword = "additionalProperties" if "additionalProperties" in node else "unevaluatedProperties"
    if node.get(keyword) is not False:
        return
    if not node.get("properties") and not node.get("patternProperties") and "propertyNames" in node:
        yield Gap(keyword, "next to propertyNames and without properties, other properties are allowed")
    elif keyword == "unevaluatedProperties" and not strict_mode:
        yield Gap(keyword, "false is enforced only with strict_mode")


def _declared_gaps(node: dict[str, Any]) -> Iterator[Gap]:
    """Find the gaps of declared properties: another member may have the name of one."""
    told = [name for name, schema in node["properties"].items() if not permits_all(schema)]
    if told and "propertyNames" in node:
        yield Gap("properties", "a key that matches propertyNames may have the name of a property")
        return
    for name in told:
        if not (name.isascii() and name.isprintable()) or '"' in name or "\\" in name:
            reason = (
                f"the key {_short(name)} may also be written as an additional property, because not "
                "all of its characters are printable ASCII without quotes and backslashes"
            )
            yield Gap("properties", reason)
            return


def _pattern_gaps(node: dict[str, Any], is_open: bool) -> Iterator[Gap]:
    properties = node.get("properties", {})
    patterns = node["patternProperties"]
    for pattern in patterns:
        gap = pattern_gap(pattern)
        if gap:
            yield Gap("patternProperties", gap, pattern)
    of_names = bool(properties) and not is_idle("properties", node)
    of_patterns = not is_idle("patternProperties", node)
    if properties and is_open:
        if of_names:
            yield Gap(
                "properties", "next to patternProperties, a property may also count as an additional one"
            )
        if of_patterns:
            yield Gap("patternProperties", "a key that matches may also count as an additional property")
        return
    prefixes = [literal_prefix(pattern) for pattern in patterns]
    if may_begin(list(properties), prefixes):
        if of_names:
            yield Gap("properties", "a key that matches patternProperties may have the name of a property")
        if of_patterns:
            yield Gap("patternProperties", "is not applied to properties")
    if of_patterns and may_begin(prefixes, prefixes, others=True):
        yield Gap("patternProperties", "of several patterns that match a key, only one is applied")


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
