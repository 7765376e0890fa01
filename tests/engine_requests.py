"""What requests to real engines ask for, and drafts for them.

When: in tests of the adapters of vLLM and SGLang, with the engines or with stand-ins.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from tests.matchers import ids_of

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 5},
        "tags": {"type": "array", "items": {"enum": ["ab", 1]}},
    },
    "required": ["name"],
    "additionalProperties": False,
}
LEGACY = {"structures": [{"begin": "<f>", "schema": SCHEMA, "end": "</f>"}], "triggers": ["<f"]}
"""A structural tag in its first form."""


def tags_of(begin: str, end: str, trigger: str) -> dict[str, Any]:
    """Return the format of a structural tag with `SCHEMA` between two texts."""
    content = {"type": "json_schema", "json_schema": SCHEMA}
    tags = [{"begin": begin, "content": content, "end": end}]
    return {"type": "triggered_tags", "triggers": [trigger], "tags": tags}


def guesses(matcher: Any, draw: Any, n: int, size: int) -> list[int]:
    """Return drafts that a matcher's grammar accepts, ignoring the token limit."""
    twin = matcher.fork()
    twin.limit_tokens(None)
    twin.has_failed = False
    found: list[int] = []
    row = torch.zeros((1, (size + 31) // 32), dtype=torch.int32)
    while len(found) < n and not twin.is_terminated():
        twin.fill_next_token_bitmask(row, 0)
        found.append(draw.choice(ids_of(row[0], size)))
        assert twin.accept_token(found[-1])
    return found


def cut_off(name: str, why: str = "") -> str:
    """Return the beginning of a notice to a request whose text is not completed."""
    return f"Request {name}: the text may be cut off at its token limit: {why}"


def fail(*_: object, **__: object) -> NoReturn:
    """Stand for a function that fails."""
    raise MemoryError("no room")
