"""Find what XGrammar leaves out of schemas of strings and integers.

What: `string_gaps` and `integer_gaps` give the keywords with reasons.
When: by `hybrid.xgrammar.relaxed.walk`, for parts of these types.
Limits: only keywords that XGrammar reads for the type. Bounds of numbers and lengths are enforced.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hybrid.xgrammar.relaxed.keywords import is_idle, is_multiple
from hybrid.xgrammar.relaxed.narrow import RAW, read_of_string
from hybrid.xgrammar.relaxed.objects import NEXT_TO, Gap
from hybrid.xgrammar.relaxed.patterns import FORMAT_GAPS, pattern_gap

LARGEST_STEP = 1024
WIDEST_RANGE = 10_000
"""XGrammar enforces ``multipleOf`` for integers only up to this step, and this width of the range."""


def string_gaps(node: dict[str, Any]) -> Iterator[Gap]:
    """Find the gaps of strings."""
    read = read_of_string(node)
    if "format" in node:
        gap = FORMAT_GAPS.get(node["format"], "XGrammar does not know this format")
        if gap:
            yield Gap("format", gap)
    if read == "pattern":
        gap = pattern_gap(node["pattern"])
        if gap:
            yield Gap("pattern", gap)
    if read in ("format", "pattern"):
        for keyword in ("pattern", "minLength", "maxLength"):
            if keyword in node and keyword != read and not is_idle(keyword, node):
                yield Gap(keyword, NEXT_TO.format(read))
    elif read:
        yield Gap(read, RAW)


def integer_gaps(node: dict[str, Any]) -> Iterator[Gap]:
    """Find the gaps of integers: ``multipleOf`` is enforced for small steps, without bounds or in small
    ranges."""
    step = node.get("multipleOf")
    if step is None or is_multiple(1, step):
        return
    least = [node[key] + more for key, more in (("minimum", 0), ("exclusiveMinimum", 1)) if key in node]
    most = [node[key] - more for key, more in (("maximum", 0), ("exclusiveMaximum", 1)) if key in node]
    if step > LARGEST_STEP or step != int(step):
        yield Gap("multipleOf", f"for integers, only integer steps up to {LARGEST_STEP} are enforced")
    elif (least or most) and not (least and most and min(most) - max(least) < WIDEST_RANGE):
        reason = f"next to minimum or maximum, it is enforced only in ranges of up to {WIDEST_RANGE} integers"
        yield Gap("multipleOf", reason)
