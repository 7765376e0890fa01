"""The texts of an instance: the ways in which a benchmark tries to write it.

What: `spellings` yields the ways one after the other, each with its name.
When: for every instance on every engine; an instance can be written if any of them is accepted.
Limits: only these ways are tried: keys in the given order, in canonical order, and in that of the valid
alternatives; numbers as given, and without exponents or superfluous fractions; white space as in
`json.dumps`, and none at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from itertools import product
from typing import Any

from bench.json_schema.judge import Judge
from bench.json_schema.order import by_alternatives, canonical

WHITE_SPACE = {"": (", ", ": "), "compact": (",", ":")}

ORDERS: Mapping[str, Callable[[Any, Any], Any]] = {
    "": lambda _, instance: instance,
    "reordered": canonical,
    "reordered by alternatives": by_alternatives,
}


FLOAT = re.compile(r'"(?:[^"\\]|\\.)*"|(-?[0-9]+(?:\.[0-9]+(?:e[+-][0-9]+)?|e[+-][0-9]+))')
"""Finds strings, to skip them, and floats."""


def spellings(schema: Any, instance: Any) -> Iterator[tuple[str, bytes]]:
    """Yield ways to write an instance, those first that most engines accept; no text twice.

    Each has a name that says what was changed: ``"as given"``, or words from `ORDERS`, ``"plain numbers"``
    and `WHITE_SPACE`.
    """
    seen: set[bytes] = set()
    ordered: dict[str, Any] = {}
    by_value = not _tells_spellings_apart(schema) or _is_judged_alike(schema, instance)
    for white_space, separators in WHITE_SPACE.items():
        for order, numbers in product(ORDERS, ("", "plain numbers")):
            if order not in ordered:
                ordered[order] = ORDERS[order](schema, instance)
            text = written(ordered[order], separators, bool(numbers), by_value)
            if text not in seen:
                seen.add(text)
                yield ", ".join(filter(None, (order, numbers, white_space))) or "as given", text


def _tells_spellings_apart(schema: Any) -> bool:
    """Whether the schema distinguishes 1.0 from 1: in drafts 3 and 4, only the latter is an integer."""
    named = schema.get("$schema") if isinstance(schema, dict) else None
    return isinstance(named, str) and re.search("draft-0[34]", named) is not None


def _is_judged_alike(schema: Any, instance: Any) -> bool:
    """Whether an instance may be written with 1 instead of 1.0, if the judge can tell."""
    other = json.loads(written(instance, WHITE_SPACE["compact"], is_plain=True))
    if repr(other) == repr(instance):
        return True
    try:
        judge = Judge(schema)
        verdicts = {judge.verdict(one).valid for one in (instance, other)}
    except Exception:  # noqa: BLE001 - a schema that jsonschema cannot read
        return False
    return len(verdicts) == 1 and None not in verdicts


def written(
    instance: Any, separators: tuple[str, str], is_plain: bool = False, by_value: bool = True
) -> bytes:
    """Write an instance as one line of UTF-8.

    Args:
        instance: the instance.
        separators: a comma and a colon with their white space.
        is_plain: whether numbers are written by `plain_number`.
        by_value: whether 1.0 may be written as 1.
    """
    text = json.dumps(instance, separators=separators, ensure_ascii=False)
    if is_plain:
        text = FLOAT.sub(lambda one: plain_number(float(one[1]), by_value) if one[1] else one[0], text)
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate can only be written as an escape
        return "".join(
            f"\\u{ord(letter):04x}" if 0xD800 <= ord(letter) < 0xE000 else letter for letter in text
        ).encode()


def place_at(instance: Any, offset: int, separators: tuple[str, str] = WHITE_SPACE[""]) -> list[str | int]:
    """Return the keys and indices that lead to the value in which a byte of the text lies.

    A byte of a key, or between values, lies in the object or array around it.
    """
    path: list[str | int] = []
    value = instance
    while isinstance(value, (dict, list)) and value:
        start, found = 1, False
        members = value.items() if isinstance(value, dict) else enumerate(value)
        for number, (key, below) in enumerate(members):
            if number:
                start += len(separators[0])
            if isinstance(value, dict):
                start += len(written(key, separators)) + len(separators[1])
            length = len(written(below, separators))
            if start <= offset < start + length:
                path.append(key)
                value, offset, found = below, offset - start, True
                break
            start += length
        if not found:
            break
    return path


def plain_number(value: float, by_value: bool = True) -> str:
    """Write a number without an exponent, and without a fraction of zeros; ".0" is kept unless `by_value`."""
    text = format(Decimal(repr(value)), "f")
    whole, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0") or ("" if by_value else "0")
    return f"{whole}.{fraction}" if fraction else whole
