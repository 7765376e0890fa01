"""The words that a reading finds for a place, before they are held against the matcher.

What: `Found`, made by both kinds of readings.
When: between `hybrid.explain.words` and `hybrid.explain.position`.
Limits: plain data.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from hybrid.explain.explanation import Expected

Rest: TypeAlias = "bytes | frozenset[int] | None"
"""How an expected thing is held against the matcher: by text that has to be read, by bytes of which one has
to come next, or not at all."""


class Found(NamedTuple):
    """Words for a place.

    Attributes:
        expected: what may follow.
        rest: how each is held against the matcher.
        rules: names of the rules being read, outermost first.
        unsaid: what could not be told, and why; empty where all was.
        cut_short: it could not be told in time.
    """

    expected: list[Expected]
    rest: dict[Expected, Rest]
    rules: tuple[str, ...] = ()
    unsaid: str = ""
    cut_short: bool = False
