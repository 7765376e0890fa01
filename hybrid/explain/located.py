"""The names that were located for a place in a text, before the matcher has checked them.

What: `Located`, made by both kinds of readings.
When: passed from `hybrid.explain.words` to `hybrid.explain.position`.
Limits: plain data.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from hybrid.explain.explanation import Expected

Rest: TypeAlias = "bytes | frozenset[int] | None"
"""How the matcher checks an expected thing: by a text that it must allow, by a set of bytes of which it must
allow one, or not at all."""


class Located(NamedTuple):
    """Words for a place.

    Attributes:
        expected: what may come next.
        rest: how the matcher checks each thing.
        rules: the names of the rules that contain the place, outermost first.
        unsaid: what is missing, and why; empty if nothing is.
        cut_short: whether the time ran out.
    """

    expected: list[Expected]
    rest: dict[Expected, Rest]
    rules: tuple[str, ...] = ()
    unsaid: str = ""
    cut_short: bool = False
