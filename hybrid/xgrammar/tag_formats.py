"""The formats inside a structural tag.

What: `formats_of` finds every format of a parsed tag, with its place.
When: before XGrammar parses a tag: to replace token strings (`hybrid.xgrammar.token_strings`), and JSON
schemas (`hybrid.compile.tag_request`).
Limits: data that is not a tag in the form of XGrammar's documentation is left out, and XGrammar refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

FORMATS = ("format", "content", "begin", "end")
"""Fields that contain a format. Other fields, such as a JSON schema, may contain anything under the same
names."""

LISTS_OF_FORMATS = ("elements", "tags")


def formats_of(tag: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the JSON pointer and the fields of each format in a tag, and of the tag itself. Fields may be
    changed in place.

    Args:
        tag: a tag as parsed JSON.
    """
    waiting = [("", tag)]
    while waiting:
        pointer, at = waiting.pop()
        if not isinstance(at, dict):
            continue
        yield pointer, at
        for number, rule in enumerate(list_of(at.get("rules"))):
            if isinstance(rule, list) and len(rule) == 2:
                waiting.append((f"{pointer}/rules/{number}/1", rule[1]))
        waiting.extend((f"{pointer}/{name}", at.get(name)) for name in FORMATS)
        for name in LISTS_OF_FORMATS:
            waiting.extend((f"{pointer}/{name}/{k}", one) for k, one in enumerate(list_of(at.get(name))))


def list_of(value: Any) -> list[Any]:
    """The value if it is a list; otherwise an empty one."""
    return value if isinstance(value, list) else []
