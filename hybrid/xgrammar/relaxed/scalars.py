"""Find what XGrammar leaves out of schemas of strings and numbers, and which of their values it cannot write.

What: `string_findings`, `integer_findings` and `number_findings` give the keywords with reasons, in both
directions. `constant_limit` and `several_keys` say what cannot be written of listed values.
When: by `hybrid.xgrammar.relaxed.walk`, for parts of these types.
Limits: only keywords that XGrammar reads for the type. Bounds of numbers and lengths are enforced. Only
values count, not their spellings: that the integer 1 cannot be written as 1.0 is not listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from hybrid.xgrammar.relaxed.keywords import (
    LARGEST_COUNT,
    NEXT_TO,
    Finding,
    gap,
    is_idle,
    is_multiple,
    limit,
)
from hybrid.xgrammar.relaxed.kinds import parts_of
from hybrid.xgrammar.relaxed.patterns import UNESCAPED, pattern_gap, pattern_limit

DAYS = "only its shape is checked: February 30 is allowed"
LEAP = "only its shape is checked: any minute may have 61 seconds"

FORMATS: dict[str, tuple[str, str]] = {
    "date": (DAYS, ""),
    "date-time": (DAYS, "lower-case t and z cannot be written"),
    "duration": ("", ""),
    "email": (
        "lengths of the name and of the labels are not checked",
        "addresses in brackets and labels of one character after a dot cannot be written",
    ),
    "hostname": (
        "lengths of labels and of the name are not checked",
        "upper-case letters cannot be written",
    ),
    "ipv4": ("numbers may begin with zeros", ""),
    "ipv6": (
        "the numbers of an IPv4 part may begin with zeros",
        "most forms that end with an IPv4 address cannot be written",
    ),
    "json-pointer": (UNESCAPED, ""),
    "relative-json-pointer": (UNESCAPED, ""),
    "time": (LEAP, "a lower-case z cannot be written"),
    "uri": ("", "schemes with digits and hosts in brackets cannot be written"),
    "uri-reference": ("", "references with a scheme and hosts in brackets cannot be written"),
    "uri-template": ("", "apostrophes and characters that are not ASCII cannot be written"),
    "uuid": ("", ""),
}
"""The formats that XGrammar reads; what each allows beyond its definition, and what cannot be written; empty
if nothing is known. All other formats are ignored."""

NO_ESCAPES = "no escape can be written, so no quotation mark, backslash or line end"
RAW = "control characters other than line ends can be written without escapes, which is not JSON"
DIGITS = "at most 6 digits after the decimal point and no exponent can be written"
AS_DOUBLE = "fractions are written with 17 digits, 0.1 as 0.10000000000000001"
BEYOND = "numbers beyond 64 bits are written in the precision of a double"
EXACT = 2**63
"""XGrammar does not read numbers from here on as they are written."""

BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")

LARGEST_STEP = 1024
WIDEST_RANGE = 10_000
"""XGrammar enforces ``multipleOf`` for integers only up to this step, and this width of the range."""


def string_findings(node: dict[str, Any]) -> Iterator[Finding]:
    """Find the gaps and limits of strings. Of ``format``, ``pattern`` and lengths, XGrammar reads only the
    first one that is present and known."""
    is_known = node.get("format") in FORMATS
    if "format" in node:
        is_loose, is_tight = FORMATS.get(node["format"], ("XGrammar does not know this format", ""))
        yield from _both("format", is_loose, is_tight)
    if not is_known and "pattern" in node:
        yield from _both("pattern", pattern_gap(node["pattern"]), pattern_limit(node["pattern"]))
    read = "format" if is_known else "pattern" if "pattern" in node else ""
    if read:
        for keyword in ("pattern", "minLength", "maxLength"):
            if keyword in node and keyword != read and not is_idle(keyword, node):
                yield gap(keyword, NEXT_TO.format(read))
    elif -1 < node.get("maxLength", -1) <= LARGEST_COUNT:
        if node["maxLength"]:
            yield from _both("maxLength", RAW, NO_ESCAPES)
    elif node.get("minLength", 0) > 0:
        yield from _both("minLength", RAW, NO_ESCAPES)


def _both(keyword: str, is_loose: str, is_tight: str) -> Iterator[Finding]:
    """Yield a gap and a limit, unless their reasons are empty."""
    if is_loose:
        yield gap(keyword, is_loose)
    if is_tight:
        yield limit(keyword, is_tight)


def integer_findings(node: dict[str, Any]) -> Iterator[Finding]:
    """Find the gaps of integers: ``multipleOf`` is enforced for small steps, without bounds or in small
    ranges."""
    step = node.get("multipleOf")
    if step is None or is_multiple(1, step):
        return
    least = [node[key] + more for key, more in (("minimum", 0), ("exclusiveMinimum", 1)) if key in node]
    most = [node[key] - more for key, more in (("maximum", 0), ("exclusiveMaximum", 1)) if key in node]
    if step > LARGEST_STEP or step != int(step):
        yield gap("multipleOf", f"for integers, only integer steps up to {LARGEST_STEP} are enforced")
    elif (least or most) and not (least and most and min(most) - max(least) < WIDEST_RANGE):
        reason = f"next to minimum or maximum, it is enforced only in ranges of up to {WIDEST_RANGE} integers"
        yield gap("multipleOf", reason)


def number_findings(node: dict[str, Any]) -> Iterator[Finding]:
    """Find the limits of numbers. If there are bounds, texts of numbers match a regular expression with few
    digits."""
    keyword = next((one for one in BOUNDS if one in node), "")
    if keyword:
        yield limit(keyword, DIGITS)
    for one in BOUNDS:
        if abs(node.get(one, 0)) >= EXACT:
            yield limit(one, "XGrammar reads integers beyond 64 bits as a different number")


def constant_limit(values: list[Any]) -> str:
    """Return `BEYOND` or `AS_DOUBLE` if XGrammar writes a number in the values with another value or
    spelling."""
    found = ""
    for one in parts_of(values):
        if isinstance(one, float) and Decimal(format(one, ".17g")) != Decimal(repr(one)):
            found = AS_DOUBLE
        if isinstance(one, int) and not -EXACT <= one < EXACT:
            return BEYOND
    return found


def several_keys(values: list[Any]) -> bool:
    """Whether some value contains an object with several keys, which can only be written in one order."""
    containers = (one for one in values if isinstance(one, (dict, list)))
    return any(isinstance(one, dict) and len(one) > 1 for one in parts_of(containers))
