"""Laws of unique items that have finitely many values, on random schemas: compared with lists of all values.

What: after some items, masks allow each text of a value that did not come, and no text that only becomes a
value that came.
Limits: `python -m tests.test_uniqueness_values N` checks N more schemas.
"""

from __future__ import annotations

import json
import random
import sys
from itertools import combinations, permutations, product
from typing import Any

import pytest

from hybrid.json_schema import SchemaRefused
from hybrid.json_schema.equality import key_of
from tests.matchers import mask_of
from tests.test_uniqueness import CLOSE, matcher_of, unique

MOST = 120
"""At most this many values of an item, and of its parts fewer."""

Drawn = tuple[Any, list[Any]]
"""A schema, and all its values."""


def distinct(values: list[Any]) -> list[Any]:
    return [*{key_of(value): value for value in values}.values()]


def scalars(draw: random.Random) -> Drawn:
    kind = draw.choice(["enum", "integer", "fraction", "string", "boolean", "null"])
    if kind == "enum":
        found = draw.sample([0, 1, 1.5, 10, -1, "", "a", "ab", '"', "\\", "\u00e9", "a,]}", True, None], 3)
        return {"enum": found}, found
    if kind == "integer":
        low = draw.choice([-3, 0, 8])
        high = low + draw.choice([2, 5, 12])
        return {"type": "integer", "minimum": low, "maximum": high}, [*range(low, high + 1)]
    if kind == "fraction":
        step = draw.choice([0.25, 0.05, 0.5])
        values = [n * round(step * 100) / 100 for n in range(11)]
        return {"type": "number", "minimum": 0, "maximum": values[-1], "multipleOf": step}, [
            int(value) if value == int(value) else value for value in values
        ]
    if kind == "string":
        letters = draw.choice(["ab", 'a"', "\u00e9\u00ea"])
        least, most = draw.choice([0, 1]), draw.choice([1, 2, 3])
        texts = ["".join(text) for n in range(least, most + 1) for text in product(letters, repeat=n)]
        return {"type": "string", "pattern": f"^[{letters}]*$", "minLength": least, "maxLength": most}, texts
    if kind == "boolean":
        return {"type": "boolean"}, [True, False]
    return {"type": "null"}, [None]


def arrays(draw: random.Random, depth: int) -> Drawn:
    schema, values = drawn(draw, depth - 1)
    if draw.random() < 0.3:
        other, more = drawn(draw, depth - 1)
        least = draw.choice([0, 1, 2])
        found = [list(one) for n, one in enumerate([(), *product(values), *product(values, more)])]
        found = [one for one in found if len(one) >= least]
        return {"type": "array", "prefixItems": [schema, other], "minItems": least, "items": False}, found
    is_unique, least, most = draw.random() < 0.5, draw.choice([0, 1, 2]), draw.choice([1, 2, 3])
    most = max(least, most)
    chosen = permutations if is_unique else lambda some, n: product(some, repeat=n)
    if len(values) ** most > 10 * MOST:
        most = least = 1
    found = [list(one) for n in range(least, most + 1) for one in chosen(values, n)]
    schema = {"type": "array", "items": schema, "minItems": least, "maxItems": most}
    return schema | {"uniqueItems": is_unique}, found


def objects(draw: random.Random, depth: int) -> Drawn:
    # keys come in the order of their first declaration, which must not depend on what stands beside
    names = ["\u00e9", "a", "ab"][: draw.choice([1, 2, 3])]
    parts = {name: drawn(draw, depth - 1) for name in names}
    required = [name for name in names if draw.random() < 0.6]
    found = []
    for n in range(len(names) + 1):
        for some in combinations(names, n):
            if set(required) <= set(some):
                each = product(*(parts[name][1] for name in some))
                found += [dict(zip(some, one, strict=True)) for one in each]
    schema = {"type": "object", "properties": {name: part for name, (part, _) in parts.items()}}
    return schema | {"required": required, "additionalProperties": False}, found


def drawn(draw: random.Random, depth: int) -> Drawn:
    kind = draw.choice(["scalar", "array", "object", "array", "object", "any"] if depth else ["scalar"])
    if kind == "any":
        parts = [drawn(draw, depth - 1) for _ in range(2)]
        schema, found = {"anyOf": [part for part, _ in parts]}, [value for _, some in parts for value in some]
    elif kind == "scalar":
        schema, found = scalars(draw)
    else:
        schema, found = (arrays if kind == "array" else objects)(draw, depth)
    found = distinct(found)
    return (schema, found) if 0 < len(found) <= MOST else drawn(draw, depth)


def written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def spelled(text: str, draw: random.Random) -> str:
    """Another spelling of a text, which the grammar allows as well."""
    return text.replace("\u00e9", draw.choice(["\u00e9", "\\u00e9", "\\u00E9"]))


def check(seed: int, strategy: str = "auto") -> bool:
    """Check the laws on a random schema. Returns whether the schema could be checked."""
    draw = random.Random(seed)
    items, values = drawn(draw, 3)
    schema = unique(items)
    first = draw.sample(values, min(2, len(values))) if draw.random() < 0.3 else []
    first = first if "{" not in json.dumps(first) else []
    if first:
        schema["prefixItems"] = [{"enum": first}]
    try:
        matcher = matcher_of(schema, strategy, **CLOSE)
    except SchemaRefused:
        return False
    places = matcher.compiled_grammar.places
    if places is not None and any(place.is_marked for place in places.all):
        return False  # a search for new values decides there, which allows some dead ends
    draw.shuffle(values)
    if first:
        values.sort(key=lambda value: key_of(value) != key_of(first[0]))
    left = draw.choice([1, 1, 2, 3, len(values) // 2])
    used, new = values[: len(values) - left], values[len(values) - left :]
    if not used:
        return False
    assert matcher.accept_string(f"[{','.join(map(written, used))}"), (seed, schema)
    if not new:
        assert not matcher.accept_string(","), (seed, schema)
        return True
    assert matcher.accept_string(","), (seed, schema, used)
    texts = [written(value) for value in new]
    for text in {*texts, *(spelled(text, draw) for text in texts)}:
        made, begun = 0, ""
        for byte in text.encode():
            mask = mask_of(matcher)
            assert byte in mask, (seed, schema, used, text, begun)
            if begun.isascii() and "\\" not in begun and "." not in text:
                for other in range(0x20, 0x7F):
                    if other in mask and chr(other) not in "\\." and (chr(other) not in ",]" or begun):
                        longer = begun + chr(other)
                        assert any(one.startswith(longer) or longer[:-1] == one for one in texts), (
                            seed,
                            schema,
                            used,
                            longer,
                        )
            assert matcher.accept_token(byte)
            made, begun = made + 1, text.encode()[: made + 1].decode("utf-8", "ignore")
        assert {ord(","), ord("]")} & set(mask_of(matcher)), (seed, schema, used, text)
        matcher.rollback(made)
    return True


def test_items_may_become_all_values_that_did_not_come_and_no_others(strategy: str) -> None:
    assert sum(check(i, strategy) for i in range(25)) >= 15


OPEN = {"type": "object", "additionalProperties": {"enum": [0, 1]}}
LAST = ["aa", "ab", "b"]
AROUND = [
    ("{'m':", ",'k':", "}"),
    ("{'o':{'m':", "},'k':", "}"),
    ("['{\\\\',", ",", "]"),
    ("[[{'x':", "}],", "]"),
]
"""Texts of items before, between and after an object with any keys and one of `LAST`."""


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object", "properties": properties, "required": [*properties], "additionalProperties": False,
    }  # fmt: skip


def pair(first: Any, second: Any) -> dict[str, Any]:
    return {"type": "array", "prefixItems": [first, second], "items": False, "minItems": 2}


ITEMS = [
    closed(m=OPEN, k={"enum": LAST}),
    closed(o=closed(m=OPEN), k={"enum": LAST}),
    {
        "type": "array",
        "items": False,
        "minItems": 3,
        "prefixItems": [{"enum": ["{\\", "a"]}, OPEN, {"enum": LAST}],
    },
    pair({"type": "array", "items": closed(x=OPEN), "minItems": 1, "maxItems": 1}, {"enum": LAST}),
]


@pytest.mark.parametrize("kind", range(len(ITEMS)))
def test_keys_that_come_in_any_order(kind: int, strategy: str) -> None:
    matcher, draw = matcher_of(unique(ITEMS[kind]), strategy, **CLOSE), random.Random(kind)
    before, between, after = (text.replace("'", '"') for text in AROUND[kind])
    used: set[tuple[frozenset[tuple[str, int]], str]] = set()
    n_full = 0
    assert matcher.accept_string("[")
    for _ in range(60):
        keys = draw.sample(["a", "ab", "b"], draw.choice([1, 2, 2]))
        members = {key: draw.choice([0, 1]) for key in keys}
        left = [last for last in LAST if (frozenset(members.items()), last) not in used]
        begin = (
            f'{{"{keys[0]}":{draw.choice([0, 1])},' if draw.random() < 0.3 else "{"
        )  # the last value counts
        assert matcher.accept_string("," * bool(used) + before + begin + written(members)[1:-1])
        assert (ord("}") in mask_of(matcher)) == bool(left), (members, used)
        if not left:
            n_full += 1
            assert not matcher.accept_string("}")
            assert matcher.accept_string(f',"{draw.random()}":0')  # with another key, it is new
            left, members = LAST, {str(draw.random()): 0}
        assert matcher.accept_string(f'}}{between}"')
        last, begun = draw.choice(left), ""
        while begun != last:
            mask = mask_of(matcher)
            for letter in "ab":
                can_follow = any(one.startswith(begun + letter) for one in left)
                assert (ord(letter) in mask) == can_follow, (members, used, begun)
            begun = last[: len(begun) + 1]
            assert matcher.accept_string(begun[-1])
        assert matcher.accept_string(f'"{after}')
        used.add((frozenset(members.items()), last))
    assert n_full > 3


def test_only_the_last_of_equal_keys_is_compared(strategy: str) -> None:
    matcher = matcher_of(unique(pair({"type": "object"}, {"const": True})), strategy, **CLOSE)
    assert matcher.accept_string('[[{"a":2},true],[{"a":{"b":1},"a":2')
    mask = mask_of(matcher)
    assert ord(",") in mask and ord("}") not in mask
    assert matcher.accept_string(',"a":3}')


if __name__ == "__main__":
    print(sum(map(check, range(10**6, 10**6 + int(sys.argv[1])))), "schemas compiled, no difference")
