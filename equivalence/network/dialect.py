"""What the XGrammar that is installed reads in another way than the newest one.

What: `LOOSE` says that character classes read some bytes that are no UTF-8, as XGrammar before 0.2.8 does: a
class that excludes characters takes C0 to DF and one continuation byte, E0 to EF and two, F0 to F7 and three;
a range of characters whose encodings have several lengths takes overlong ones of the greater lengths.
When: by `equivalence.network.automata` and `edges`; tested against 0.2.7 and 0.2.8.
Limits: two readings of older releases are refused by name: classes that exclude characters beyond ASCII, and
ranges that end within a block of 4,096 characters but begin before it, of which they leave some out.
So are repeats of nothing but a repeat in 0.2.7, which takes parts of the inner one: ``([0-9]{2}){1,2}`` reads
``123`` there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from equivalence.errors import UnsupportedGrammar
from equivalence.network import serial

STRICT_FROM, PARTS_IN = (0, 2, 8), (0, 2, 7)
"""The first version that reads classes strictly; the one that takes parts of repeats in repeats."""


def is_loose(version: str) -> bool:
    """Whether XGrammar of a version reads classes loosely; what is no number of a version does not."""
    numbers = _numbers(version)
    return numbers is not None and numbers < STRICT_FROM


def _numbers(version: str) -> tuple[int, ...] | None:
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    return None if found is None else tuple(map(int, found.groups()))


def refuse_repeats_in_repeats(data: Sequence[int], starts: Sequence[int], rules: list[Any]) -> None:
    """Refuse a grammar in which a rule that is nothing but a repeat is repeated.

    Raises:
        UnsupportedGrammar: naming the rule.
    """
    for at in starts:
        if data[at] != serial.REPEAT:
            continue
        seen: set[int] = set()
        number = data[at + 2]
        while number not in seen:
            seen.add(number)
            body = starts[rules[number][serial.BODY]]
            while data[body] in serial.WHOLES and data[body + 1] == 1:
                body = starts[data[body + 2]]
            if data[body] == serial.REPEAT:
                raise UnsupportedGrammar(
                    f"rule {rules[number][serial.NAME]!r}, a repeat, is repeated, of which XGrammar 0.2.7 "
                    "takes parts"
                )
            if data[body] == serial.RULE:
                number = data[body + 2]


def _installed() -> str:
    try:
        return metadata.version("xgrammar")
    except metadata.PackageNotFoundError:  # grammars come from elsewhere
        return ""


LOOSE = is_loose(_installed())
TAKES_PARTS = _numbers(_installed()) == PARTS_IN
