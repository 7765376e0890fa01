"""Small runs of `tests.robustness.schema_walks` and `schema_mixtures`, and checks that they detect errors.

What: walks through schemas whose keywords depend on each other, and through mixtures of them; a matcher that
allows too much or too little.
When: after any change of the meaning of schemas, or of masks.
Limits: the commands take real schemas, for a given time.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from bench.workloads import SchemaFile
from hybrid import GrammarCompiler, GrammarMatcher
from hybrid.json_schema import grammar_of_schema
from tests.matchers import mask_of
from tests.robustness import schema_mixtures, schema_walks
from tests.robustness.schema_walks import (
    VOCABULARY,
    Found,
    Inexact,
    Walk,
    read_integer,
    read_number,
    walk_all,
)

SCHEMAS: list[tuple[str, Any]] = [
    ("unique", {"type": "array", "uniqueItems": True}),
    ("keys", {"type": "object", "minProperties": 2, "propertyNames": {"maxLength": 3}}),
    ("formats", {"anyOf": [{"type": "string", "format": name} for name in ("date-time", "ipv6", "email")]}),
    ("numbers", {"type": "number", "multipleOf": 0.25, "exclusiveMinimum": -2, "maximum": 1e9}),
    ("conditions", {
        "type": "object", "properties": {"a": {"enum": [1, "x"]}, "b": {"type": "integer"}},
        "if": {"properties": {"a": {"const": 1}}, "required": ["a"]}, "then": {"required": ["b"]},
        "else": {"maxProperties": 1},
    }),
    ("patterns", {"type": "string", "pattern": "^(?!ab)[a-c]{2,6}\\d*$", "maxLength": 8}),
    ("recursive", {"$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}, "maxItems": 2}},
                   "$ref": "#/$defs/n"}),
    ("one of", {"oneOf": [{"type": "integer", "minimum": 3}, {"type": "integer", "maximum": 5}]}),
]  # fmt: skip


def test_walks_find_nothing() -> None:
    found = walk_all(SCHEMAS, 0, 0.0, walks=20)
    assert found.problems == []
    assert found.schemas == len(SCHEMAS) and not found.refused
    assert found.walks == 20 * len(SCHEMAS) and found.ended > 150
    assert found.masks > 2000 and found.compared > 10 and found.judged > 100


def test_what_is_wrong_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = GrammarCompiler(VOCABULARY, semantics="json-schema").compile_json_schema({"type": "integer"})

    def run(schema: Any) -> set[str]:
        walk = Walk(compiled, schema, random.Random(1), Found(), compared=0.2)
        return {walk.run().partition(":")[0] for _ in range(25)}

    assert run({"type": "integer"}) == {""}
    assert run({"type": "string"}) == {"the text is invalid"}
    assert run({"type": "string", "format": "regex"}) == {""}  # there is no verdict
    monkeypatch.setattr(schema_walks, "mask_of", lambda matcher: [*mask_of(matcher), ord("x")])
    assert run({}) >= {"the mask is wrong", f"token {ord('x')} is in the mask, and is refused"}
    monkeypatch.setattr(schema_walks, "mask_of", lambda matcher: [])
    assert run({}) == {"no token is allowed"}
    monkeypatch.setattr(schema_walks, "mask_of", mask_of)
    monkeypatch.setattr(GrammarMatcher, "rollback", lambda matcher, _: matcher.reset())
    assert "the mask is another one where a part of the text was read again" in run({})
    monkeypatch.setattr(GrammarMatcher, "accept_token", lambda *_: 1 / 0)
    assert "ZeroDivisionError" in walk_all(SCHEMAS[:1], 0, 0.0).problems[0]


def test_numbers_that_floats_do_not_hold_have_no_verdict() -> None:
    assert read_number("0.25", True) == 0.25 and read_number("1.5e3", True) == 1500
    assert read_number("0.1", False) == 0.1
    assert read_integer("-113081686866860831", False) == -113081686866860831
    with pytest.raises(Inexact):  # 2.5 seems to divide it
        read_integer("-113081686866860831", True)
    with pytest.raises(Inexact):
        read_number("0.1", True)
    for text in ("1e400", "1e-400", "0.10000000000000000001", "9007199254740993.0", "1e99999999999999999999"):
        with pytest.raises(Inexact):
            read_number(text, False)


FILES = [
    SchemaFile(name, schema, instances, [True, True, False, False])
    for name, schema, instances in (
        ("conditions", SCHEMAS[4][1], [{"a": 1, "b": 2}, {"a": "x"}, {"a": 1}, {"a": 2}]),
        ("keys", SCHEMAS[1][1], [{"a": 1, "b": [2, 2]}, {"abc": "x", "": None}, {"a": 1}, {"abcd": 1}]),
        ("recursive", SCHEMAS[6][1], [[], [[], [[]]], [[], [], []], [1]]),
    )
]


def test_mixtures_find_nothing() -> None:
    found = schema_mixtures.mix(FILES, 0, 0.0, 80, walks=1)
    assert found.problems == []
    assert found.schemas - found.refused > 40 and found.judged > 1500 and found.walks > 40


def test_mixtures_find_a_wrong_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        schema_mixtures, "grammar_of_schema", lambda _, options: grammar_of_schema(True, options)
    )
    assert any("the instance is invalid" in one for one in schema_mixtures.mix(FILES, 0, 0.0, 10).problems)
