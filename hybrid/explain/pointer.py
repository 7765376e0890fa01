"""The JSON pointer of the value that contains the end of an unfinished JSON text.

What: `pointer_of` follows brackets, keys and commas. RFC 6901 defines the notation.
When: for texts of JSON schemas, because the names of their rules say nothing.
Limits: the text must be the beginning of valid JSON. For other texts the pointer is meaningless.
"""

from __future__ import annotations

import json
import re

_PARTS = re.compile(rb'"(?:[^"\\]|\\.)*"?|[{}\[\],:]', re.DOTALL)


def pointer_of(text: bytes) -> str:
    """The pointer. "" is the whole document.

    In an object, before a key is complete, it is the pointer of the object.
    """
    path: list[str | int | None] = []  # None: an object before its first key
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
