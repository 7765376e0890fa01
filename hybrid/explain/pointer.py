"""The JSON pointer of the value that the end of an unfinished JSON text stands in.

What: `pointer_of` follows brackets, keys and commas (RFC 6901 for the notation).
When: for texts of JSON schemas, whose rules have names that nobody gave them.
Limits: the text is the beginning of JSON as a grammar took it; of anything else some pointer is given.
"""

from __future__ import annotations

import json
import re

_PARTS = re.compile(rb'"(?:[^"\\]|\\.)*"?|[{}\[\],:]', re.DOTALL)


def pointer_of(text: bytes) -> str:
    """The pointer; "" is the whole document.

    In an object, before a key is whole, it is the object's.
    """
    path: list[str | int | None] = []  # None: an object without a key as yet
    key = b""
    for match in _PARTS.finditer(text):
        part = match[0]
        if part == b"{":
            path.append(None)
        elif part == b"[":
            path.append(0)
        elif part in (b"}", b"]"):
            if path:
                path.pop()
        elif not path:
            continue
        elif part == b",":
            path[-1] = path[-1] + 1 if isinstance(path[-1], int) else None
        elif part == b":":
            path[-1] = _unquoted(key)
        else:
            key = part
    words = [str(step) for step in path if step is not None]
    return "".join("/" + word.replace("~", "~0").replace("/", "~1") for word in words)


def _unquoted(key: bytes) -> str:
    text = key.decode("utf-8", "replace")
    try:
        return str(json.loads(text))
    except ValueError:
        return text.strip('"')
