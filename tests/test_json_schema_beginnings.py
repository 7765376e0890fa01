"""How many values begin with a text, for items that must be unique: compared with lists of all values."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from hybrid.json_schema import grammar_of_schema
from hybrid.json_schema.beginnings import Beginnings
from hybrid.json_schema.cardinality import MANY
from tests.test_remembering import unique


def beginnings_of_items(items: dict[str, Any]) -> Beginnings:
    places = grammar_of_schema(unique(items)).places
    assert places is not None
    found = places.all[places.start].beginnings
    assert found is not None
    return found


def texts(letters: str, most: int) -> list[str]:
    return ["".join(text) for length in range(most + 1) for text in product(letters, repeat=length)]


LISTED: list[Any] = ["a", "ab", "", "\n", "\u00e9", '"', "\\", 1, 10, 12.5, -3, *"cdefgh"]
VALUES: list[tuple[dict[str, Any], list[Any]]] = [
    ({"type": "string", "pattern": '^["\\n\u00e9\U0001f600]{0,3}$'}, texts('"\n\u00e9\U0001f600', 3)),
    ({"type": "string", "pattern": "^a?[bc]*$", "maxLength": 4},
     [text for text in texts("abc", 4) if "a" not in text[1:]]),
    ({"type": "string", "pattern": "^x{1,2}y*$", "minLength": 33, "maxLength": 36},
     [f"{'x' * n}{'y' * (length - n)}" for n in (1, 2) for length in range(33, 37)]),
    ({"type": "string", "pattern": "^(?:a|b{4,45})$"}, ["a", *("b" * n for n in range(4, 46))]),
    ({"type": "string", "pattern": "^a*$", "maxLength": 60}, ["a" * n for n in range(61)]),
    ({"type": "integer", "minimum": -30, "maximum": 120}, [*range(-30, 121)]),
    ({"enum": LISTED}, LISTED),
]  # fmt: skip


@pytest.mark.parametrize(("items", "values"), VALUES)
def test_values_that_begin_with_a_text_are_counted(items: dict[str, Any], values: list[Any]) -> None:
    beginnings = beginnings_of_items(items)
    written = [json.dumps(value, ensure_ascii=False) for value in values]
    unfinished = [text.removesuffix('"') if len(text) > 1 else text for text in written]
    for text in unfinished:
        for begun in (text[:end] for end in range(1, len(text) + 1)):
            if begun[-1] != "\\" or begun.endswith("\\\\"):
                assert beginnings.n_values(begun) == sum(one.startswith(begun) for one in written), begun
    assert beginnings.n_values('"zz' if unfinished[0][0] == '"' else "999") == 0


def test_infinitely_many_values_are_counted_as_many() -> None:
    beginnings = beginnings_of_items({"type": ["string", "number"], "pattern": "^a?b*c$"})
    assert [beginnings.n_values(begun) for begun in ('"ab', '"abc', "-", "10")] == [MANY, 1, MANY, MANY]
    assert beginnings.n_values("1.0") is beginnings.n_values("1e") is None  # may become equal to 1


def test_strings_of_several_schemas_are_not_counted() -> None:
    beginnings = beginnings_of_items({"type": "string", "pattern": "^a{2,20}$"})
    assert beginnings.n_values('"a') == 19
    schema = unique({"type": "string", "pattern": "^a{2,20}$"}, prefixItems=[{"enum": ["a", "b"]}])
    places = grammar_of_schema(schema).places
    assert places is not None and places.all[places.start].beginnings is not None
    assert places.all[places.start].beginnings.n_values('"a') is None
