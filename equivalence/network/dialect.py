"""What the XGrammar that is installed reads in another way than the newest one.

What: `LOOSE` says that character classes read some bytes that are no UTF-8, as XGrammar before 0.2.8 does: a
class that excludes characters takes C0 to DF and one continuation byte, E0 to EF and two, F0 to F7 and three;
a range of characters whose encodings have several lengths takes overlong ones of the greater lengths.
When: by `equivalence.network.automata` and `edges`; tested against 0.2.7 and 0.2.8.
Limits: two readings of older releases are refused by name: classes that exclude characters beyond ASCII, and
ranges that end within a block of 4,096 characters but begin before it, of which they leave some out.
"""

from __future__ import annotations

import re
from importlib import metadata

STRICT_FROM = (0, 2, 8)


def is_loose(version: str) -> bool:
    """Whether XGrammar of a version reads classes loosely; what is no number of a version does not."""
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    return numbers is not None and tuple(map(int, numbers.groups())) < STRICT_FROM


def _installed() -> str:
    try:
        return metadata.version("xgrammar")
    except metadata.PackageNotFoundError:  # grammars come from elsewhere
        return ""


LOOSE = is_loose(_installed())
