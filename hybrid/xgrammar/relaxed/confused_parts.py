"""Find different parts of a JSON schema that XGrammar takes for the same.

What: `find_confused` finds them. XGrammar reads a part once, and recognises it again by its text. In this
text it skips ``title``, ``description`` and other annotations, even if these are names of properties or of
members of a constant. If two parts differ only there, the second one gets the grammar of the first. So does a
part without ``type`` if an equal one is read as strings, because it is the value of ``propertyNames``.
`has_forged_names` says whether names can make the texts of quite different parts equal.
When: by `hybrid.xgrammar.relaxed`, for schemas with such a name or such a part.
Limits: any two parts of the document are compared, even if XGrammar reads only one of them.
"""

from __future__ import annotations

from typing import Any

from hybrid.xgrammar.relaxed.keywords import APPLIES
from hybrid.xgrammar.relaxed.kinds import key_of, parts_of

SKIPPED = frozenset(
    {
        "title", "default", "description", "examples", "deprecated", "readOnly", "writeOnly", "$comment",
        "$schema",
    }
)  # fmt: skip
"""The keys that XGrammar 0.2.8 skips when it compares parts of a schema."""

MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
BRANCHES = frozenset({"$ref", "const", "enum", "anyOf", "oneOf", "allOf", "type"})
SCHEMA, MAP, DATA, NAMES = 0, 1, 2, 3
"""What a part of the document is: a schema, an object with a schema for each name, a constant, or the schema
of `propertyNames`."""


def skipped_names(node: dict[str, Any]) -> str:
    """Return the keyword of this part that contains one of those names, or may contain one; empty if none
    does."""
    for keyword in ("properties", "patternProperties"):
        if isinstance(node.get(keyword), dict) and not SKIPPED.isdisjoint(node[keyword]):
            return keyword
    if isinstance(node.get("const"), (dict, list)):
        return "const"
    values = node.get("enum")
    if isinstance(values, list) and any(isinstance(value, (dict, list)) for value in values):
        return "enum"
    return ""


def is_typed(node: dict[str, Any]) -> bool:
    """Whether XGrammar reads a part in the same way in ``propertyNames`` and elsewhere."""
    return not BRANCHES.isdisjoint(node)


def has_forged_names(root: Any) -> bool:
    """Whether a name contains a quotation mark and a colon. XGrammar writes names into its texts without
    escapes, so that such a name may look like several members."""
    return any('":' in name for part in parts_of([root]) if isinstance(part, dict) for name in part)


def find_confused(root: Any) -> dict[int, str]:
    """Find the parts (by their `id`) that are taken for others, and the keyword in which they differ.

    The time is linear in the size of the document: equal texts get equal numbers, from the leaves up, once
    with those names and once without.
    """
    numbers: dict[Any, int] = {}
    result: dict[
        int, tuple[int, int]
    ] = {}  # for the id of each container, its numbers without and with the names
    groups: dict[int, dict[int, list[dict[str, Any]]]] = {}
    waiting: list[tuple[Any, int, bool]] = [(root, SCHEMA, False)]
    while waiting:
        node, mode, ready = waiting.pop()
        if not isinstance(node, (dict, list)):
            continue
        if not ready:
            waiting.append((node, mode, True))
            items = node.items() if isinstance(node, dict) else ((None, one) for one in node)
            waiting.extend((child, _mode_of(mode, key), False) for key, child in items)
            continue
        less, exact = _texts(node, mode, result, numbers)
        if mode == NAMES and isinstance(node, dict) and not is_typed(node):
            exact = numbers.setdefault(("names", exact), len(numbers))
        result[id(node)] = (less, exact)
        if mode in (SCHEMA, NAMES) and isinstance(node, dict):
            groups.setdefault(less, {}).setdefault(exact, []).append(node)
    confused = {}
    for group in groups.values():
        if len(group) > 1:
            members = [node for nodes in group.values() for node in nodes]
            keyword = next(filter(None, map(skipped_names, members)), "")
            keyword = keyword or next((word for word in members[0] if word in APPLIES), "")
            confused.update({id(node): keyword for node in members if keyword})
    return confused


def _mode_of(mode: int, key: str | None) -> int:
    if mode == MAP:
        return SCHEMA
    if mode == DATA or key is None:
        return mode
    if key in MAPS:
        return MAP
    if key == "propertyNames":
        return NAMES
    return DATA if key in ("const", "enum") else SCHEMA


def _texts(
    node: Any, mode: int, result: dict[int, tuple[int, int]], numbers: dict[Any, int]
) -> tuple[int, int]:
    """Compute the numbers of a container from those of its children."""

    def number(content: Any) -> int:
        return numbers.setdefault(content, len(numbers))

    def of(child: Any) -> tuple[int, int]:
        if isinstance(child, (dict, list)):
            return result[id(child)]
        leaf = number((type(child), key_of(child)))
        return leaf, leaf

    if isinstance(node, list):
        pairs = [of(child) for child in node]
        return number(("[", *(less for less, _ in pairs))), number(("[", *(exact for _, exact in pairs)))
    named = {key: of(child) for key, child in node.items()}
    less = number(("{", *sorted((key, one) for key, (one, _) in named.items() if key not in SKIPPED)))
    shown = [key for key in named if mode in (MAP, DATA) or key not in SKIPPED]
    return less, number(("{", *sorted((key, named[key][1]) for key in shown)))
