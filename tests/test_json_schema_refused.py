"""JSON Schema's own meaning: what it refuses, and what it omits on request.

What: refusals with keyword, location and remedy; ``relax=True``; hostile schemas within their budget;
compiled grammars in files and caches.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import referencing

from equivalence import BudgetExceeded, HybridError
from equivalence.deadline import Deadline
from hybrid import Budget, CompiledGrammar, GrammarCompiler
from hybrid.json_schema import SchemaRefused, grammar_of_schema
from hybrid.json_schema.dialects import ALL_KEYWORDS
from hybrid.json_schema.grammar import SERIALISED
from tests.test_json_schema_meaning import BYTES, OPEN, compiled_bytes, written

REFUSED: list[tuple[Any, str, str, str]] = [
    ({"properties": {"a/b": {"pattern": "(?<=x)y"}}}, "unsupported", "pattern", "/properties/a~1b"),
    ({"pattern": "("}, "invalid", "pattern", ""),
    ({"items": {"format": {"$data": "1/a"}}}, "invalid", "format", "/items"),
    ({"pattern": "^(a|b)*a(a|b){20}$"}, "bounds", "pattern", ""),
    ({"properties": {"a": {"pattern": "^(ab{1,3})*(cd{1,9})*$", "minLength": 4700, "maxLength": 4700},
     "b": {"pattern": "^(\\S{1,40} ){0,30}\\S{1,40}$", "maxLength": 90}}}, "bounds", "maxLength",
     "/properties/b"),
    ({"allOf": [{"format": "hostname"}, {"minLength": 64}]}, "bounds", "format", "/allOf/0"),
    ({"items": {"propertyNames": {"maxLength": 20_000}}}, "bounds", "propertyNames", "/items"),
    ({"items": {"not": {"multipleOf": 99_731}}}, "bounds", "multipleOf", "/items/not"),
    ({"items": {"anyOf": [{"maxProperties": 20_000}, {"required": ["a"]}]}}, "bounds", "maxProperties",
     "/items/anyOf/0"),
    ({"allOf": [{"contains": {"const": 1}, "minContains": 20_000}]}, "bounds", "contains", "/allOf/0"),
    ({"contains": {"const": 1}, "minItems": 20_000}, "bounds", "minItems", ""),
    ({"not": {"minProperties": 20_000}}, "bounds", "minProperties", "/not"),
    ({"type": "text"}, "invalid", "type", ""),
    ({"$ref": "#/x/a", "x": {"a": {"items": [{}]}}}, "invalid", "", "/x/a/items"),
    ({"$ref": "#/default", "default": {"items": []}}, "invalid", "", "/default/items"),
    ({"minLength": -1}, "invalid", "minLength", ""),
    ({"uniqueItems": 1}, "invalid", "uniqueItems", ""),
    ({"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": 2}, "invalid",
     "exclusiveMinimum", ""),
    ({"minimum": "1"}, "invalid", "minimum", ""),
    ({"exclusiveMaximum": None}, "invalid", "exclusiveMaximum", ""),
    ({"$ref": "#/x"}, "invalid", "$ref", ""),
    ({"items": {"$ref": "https://example.org/x.json"}}, "unsupported", "$ref", "/items"),
    ({"$ref": "#"}, "invalid", "$ref", ""),
    ({"properties": {}, "unevaluatedProperties": False, "$ref": "#"}, "invalid", "$ref", ""),
    ({"prefixItems": [], "unevaluatedItems": False, "allOf": [{"$ref": "#"}]}, "invalid", "$ref", "/allOf/0"),
    ({"$schema": "https://json-schema.org/draft/2019-09/schema", "items": {"$recursiveRef": "#/a"}, "a": {}},
     "invalid", "$recursiveRef", "/items"),
    ({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#"}, "invalid", "$ref", ""),
    ({"type": "null", "not": {"anyOf": [{"$ref": "#"}]}}, "invalid", "$ref", "/not/anyOf/0"),
    ({"items": {"$dynamicRef": "#/items"}}, "invalid", "$dynamicRef", "/items"),
    ({"$schema": "http://json-schema.org/draft-03/schema#"}, "unsupported", "$schema", ""),
    ({"properties": {"l": {"type": "array", "not": {"uniqueItems": True}, "maxItems": 3}}}, "unsupported",
     "uniqueItems", "/properties/l/not"),
    ({"properties": {"k": {"uniqueItems": True}, "l": {"uniqueItems": True, "items": {"maxProperties": 2}}}},
     "unsupported", "uniqueItems", "/properties/l"),
    ({"uniqueItems": True, "items": {"type": "array", "uniqueItems": True, "items": False,
     "prefixItems": [{"enum": [[1], [2]]}, {"enum": [[2], [3]]}]}}, "unsupported", "uniqueItems", ""),
    ({"minProperties": 3, "propertyNames": {"pattern": "^[a-z]{2}$"}}, "unsupported", "minProperties", ""),
    ({"minProperties": 11_000, "propertyNames": {"pattern": "^(?:[0-9]{4}|a[0-9]{3})$"}, "type": "object"},
     "unsupported", "minProperties", ""),
    ({"type": "string", "minLength": 3, "maxLength": 1}, "unsatisfiable", "", ""),
    (False, "unsatisfiable", "", ""),
    ({"allOf": [{"type": "object", "required": ["a"]}, {"properties": {"a": False}}]}, "unsatisfiable", "",
     ""),
    ("{", "invalid", "", ""),
    ('{"maxLength": NaN}', "invalid", "", ""),
    ({"const": float("inf")}, "limit", "", ""),
    ('{"maximum": ' + "1" * 5000 + "}", "invalid", "", ""),
    ('{"maximum": 1e99999999999999999999}', "invalid", "", ""),
    ('{"exclusiveMinimum": 1e-400}', "limit", "exclusiveMinimum", ""),
    ('{"items": {"enum": [1e400]}}', "limit", "", "/items"),
    ('{"enum": [[1e99999999]], "uniqueItems": true}', "limit", "", ""),
    ('{"minimum": 0.' + "3" * 4500 + "}", "limit", "minimum", ""),
    ('{"items": {"enum": [1.' + "3" * 4500 + "]}}", "limit", "", "/items"),
    ([1], "invalid", "", ""),
    ({"allOf": 5}, "invalid", "allOf", ""),
    ({"dependentRequired": {"a": [1]}}, "invalid", "dependentRequired", ""),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"$dynamicAnchor": []}}}, "invalid", "", ""),
    ({"items": {"$id": "http://[", "$ref": "#"}}, "invalid", "", ""),
    ({"$id": 5, "items": {"$ref": "#"}}, "invalid", "", ""),
]  # fmt: skip


RUNS_OUT = {
    "type": "array", "uniqueItems": True, "minItems": 3, "maxItems": 12,
    "prefixItems": [{"enum": ["a", "b"]}, {"const": "b"}], "items": {"enum": [*"bcdefghijkl", 1, 2]},
}  # fmt: skip
"""Unique items of several kinds, whose values may run out."""


@pytest.mark.parametrize(("schema", "kind", "keyword", "pointer"), REFUSED)
def test_what_is_refused_says_keyword_place_and_way_out(
    schema: Any, kind: str, keyword: str, pointer: str
) -> None:
    with pytest.raises(SchemaRefused) as caught:
        grammar_of_schema(schema, OPEN)
    assert (caught.value.kind, caught.value.keyword, caught.value.pointer) == (kind, keyword, pointer)
    assert pointer in str(caught.value)
    relax = "pass relax=True to ignore it (CompiledGrammar.relaxed then lists it)"
    ways = {
        "unsupported": f"remove the keyword, {relax}, or use semantics='xgrammar'",
        "bounds": f"simplify it, raise Budget.states, or {relax}",
        "limit": "simplify it" + f" or {relax}" * bool(keyword),
        "invalid": "correct the schema",
        "unsatisfiable": "correct the schema",
    }
    message = str(caught.value)
    if message.startswith("the schema cannot be read: "):  # the fault says what to do
        assert not message.endswith(ways[kind])
    elif "`registry=`" in message:
        assert message.endswith(f"; add the document to the registry, {ways[kind]}")
    else:
        assert message.endswith(f"; {ways[kind]}")


@pytest.mark.parametrize(
    ("schema", "keyword", "pointer"),
    [(schema, *where) for schema, kind, *where in REFUSED if kind in ("unsupported", "bounds")],
)
def test_what_a_refusal_names_can_be_left_out(schema: Any, keyword: str, pointer: str) -> None:
    if pointer.endswith("/not"):
        with pytest.raises(SchemaRefused, match="is inside a negation"):
            grammar_of_schema(schema, OPEN, relax=True)
    else:
        found = grammar_of_schema(schema, OPEN, relax=True).left_out
        assert [(one.pointer, one.keyword) for one in found] == [(pointer, keyword)]


def test_messages_can_be_encoded_whatever_the_names() -> None:
    with pytest.raises(SchemaRefused, match=r"at '/properties/\\ud800\\n' must") as caught:
        grammar_of_schema({"properties": {"\ud800\n": {"type": "text"}}})
    assert str(caught.value).encode() and caught.value.pointer == "/properties/\ud800\n"


@pytest.mark.parametrize(
    "around",
    [
        lambda one: one,
        lambda one: {"anyOf": [{"type": "string", **one}, {"type": ["object", "array"]}]},
        lambda one: {"anyOf": [one, {}], "unevaluatedProperties": False, "unevaluatedItems": False},
        lambda one: {"$schema": "http://json-schema.org/draft-07/schema#", "items": one, "uniqueItems": True},
    ],
)
def test_values_that_keywords_must_not_have_raise_no_other_error(around: Callable[[Any], Any]) -> None:
    values: list[Any] = [5, None, True, "x", [], {}, [5], {"a": 5}, {"a": [5]}, {"": {}}]
    for keyword, value, options in product(sorted(ALL_KEYWORDS), values, (OPEN, {})):
        with contextlib.suppress(SchemaRefused):
            grammar_of_schema(around({keyword: value}), options)


def test_on_request_it_is_left_out_by_name() -> None:
    schema = {
        "properties": {
            "a": RUNS_OUT,
            "b": {"type": "string", "pattern": "(?<=x)y"},
            "c": {"type": "string", "format": "regex"},
        },
    }  # fmt: skip
    compiled = compiled_bytes(schema, relax=True)
    assert sorted((one.pointer, one.keyword) for one in compiled.relaxed) == [
        ("/properties/a", "uniqueItems"), ("/properties/b", "pattern"), ("/properties/c", "format"),
    ]  # fmt: skip
    assert written(compiled, '{"a":["a","b","b"],"b":"x","c":"["}')
    with pytest.raises(HybridError, match="uniqueItems"):
        compiled_bytes(schema, relax=True, strict=True)


NOWHERE = {"$ref": "https://example.org/x.json"}
UNREAD_KEYS: dict[str, Any] = {"patternProperties": {"(?<=x)y": {}}}
BEHIND = {"type": "string", "pattern": "(?<=x)y"}
MANY = {"anyOf": [{"contains": {"const": letter}} for letter in "abcdefghi"]}


@pytest.mark.parametrize(
    ("schema", "keyword", "why"),
    [
        ({"not": BEHIND}, "pattern", "negation"),
        ({"properties": {"a": {"type": "string"}, "b": {"not": BEHIND}}}, "pattern", "negation"),
        ({"$defs": {"x": {"allOf": [BEHIND]}},
         "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"not": {"$ref": "#/$defs/x"}}}}, "pattern",
         "negation"),
        ({**UNREAD_KEYS, "additionalProperties": False}, "patternProperties", "additionalProperties"),
        ({"allOf": [NOWHERE], "unevaluatedProperties": False}, "$ref", "unevaluatedProperties"),
        ({"anyOf": [NOWHERE, {}], "unevaluatedItems": False}, "$ref", "unevaluatedItems"),
    ],
)  # fmt: skip
def test_what_would_forbid_valid_instances_is_not_left_out(schema: Any, keyword: str, why: str) -> None:
    with pytest.raises(SchemaRefused, match=why) as caught:
        compiled_bytes(schema, relax=True, **OPEN)
    assert (caught.value.kind, caught.value.keyword) == ("needed", keyword)
    assert "pass relax=True" not in str(caught.value)


@pytest.mark.parametrize("is_strict", [False, True])
@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"properties": {"a": BEHIND}}, '{"a":"q"}'),
        ({"maxProperties": 20_000}, '{"a":1}'),
        ({"items": {"contains": {"const": 1}, "minContains": 20_000}}, "[[2]]"),
        ({"properties": {"a": NOWHERE}}, '{"a":{"b":[]}}'),
        ({"patternProperties": {"(?<=x)y": False}}, '{"xy":1}'),
        ({"$schema": "http://json-schema.org/draft-07/schema#", **NOWHERE, "type": "string"}, "1"),
        ({"prefixItems": [{}], **MANY, "unevaluatedItems": {"type": "string"}}, '[1,"a","z"]'),
        ({**UNREAD_KEYS, "allOf": [{"properties": {"a": {}}}]}, '{"xy":1}'),
        ({"properties": {"b": {}}, "if": {"required": ["a"]}, "else": UNREAD_KEYS}, '{"xy":1}'),
        ({"items": UNREAD_KEYS, "allOf": [{"items": {"properties": {"b": {}}}}]}, '[{"xy":1}]'),
        ({"allOf": [NOWHERE, {"properties": {"a": {}}}]}, '{"b":1}'),
        ({"allOf": [NOWHERE, {"items": [{}]}], "items": [{}]}, "[1,2]"),
    ],
)
def test_what_only_forbids_is_left_out(schema: dict[str, Any], text: str, is_strict: bool) -> None:
    compiled = compiled_bytes(schema, relax=True, strict_mode=is_strict)
    assert len(compiled.relaxed) == 1 and written(compiled, text)


@pytest.mark.parametrize(("keyword", "value"), [("Length", '"a"'), ("Items", "[1]")])
@pytest.mark.parametrize("bound", ["1e30", "9223372036854775808", "18446744073709551616", "1e400"])
def test_counts_that_nothing_reaches(keyword: str, value: str, bound: str) -> None:
    assert written(compiled_bytes(f'{{"max{keyword}": {bound}}}', **OPEN), value)
    least = compiled_bytes(f'{{"min{keyword}": {bound}}}', **OPEN)
    assert not written(least, value) and written(least, "1")


def test_left_out_keywords_are_kept_in_files(tmp_path: Path) -> None:
    compiler = GrammarCompiler(BYTES, strategy="classifier", semantics="json-schema")
    compiled = compiler.compile_json_schema(RUNS_OUT, relax=True, strict_mode=False)
    compiled.save(tmp_path / "schema.equimask")
    loaded = CompiledGrammar.load(tmp_path / "schema.equimask", BYTES)
    assert loaded.relaxed == compiled.relaxed
    assert [one.keyword for one in loaded.relaxed] == ["uniqueItems"]
    assert written(loaded, '["a","b","b"]')


def test_both_meanings_are_kept_apart(tmp_path: Path) -> None:
    schema = {"type": "string", "pattern": "a"}
    compiler = GrammarCompiler(BYTES, cache_dir=tmp_path, strategy="classifier")
    exact = compiler.compile_json_schema(schema, semantics="json-schema")
    assert (written(exact, '"bab"'), written(compiler.compile_json_schema(schema), '"bab"')) == (True, False)
    other = GrammarCompiler(BYTES, cache_dir=tmp_path, strategy="classifier", cache_enabled=False)
    assert written(other.compile_json_schema(schema, semantics="json-schema"), '"bab"')
    assert other.stats()["disk"]["hits"] == 1


OWN = {"semantics": "json-schema"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"semantics": "other"}, "semantics must be 'xgrammar' or 'json-schema'"),
        ({"relax": True}, "relax"),
        ({"assert_formats": False}, "assert_formats is an option of semantics='json-schema' only"),
        ({"registry": referencing.Registry()}, "registry is an option of semantics='json-schema' only"),
        ({**OWN, "registry": {}}, r"must be a referencing\.Registry or None"),
        ({**OWN, "indents": 2}, "indents"),
        ({**OWN, "any_order": True}, "any_order"),
        *(
            ({**OWN, "any_whitespace": False, "indent": indent}, "indent must be an integer from 0 to 256")
            for indent in (-1, 257, 10**9, 10**30)
        ),
    ],
    ids=str,
)
def test_arguments_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(HybridError, match=message):
        GrammarCompiler(BYTES).compile_json_schema({"properties": {"a": {"items": {}}}}, **options)
    with pytest.raises(HybridError, match="json-schema"):
        GrammarCompiler(BYTES, semantics="openai")


def nested(depth: int) -> Any:
    schema: Any = {"required": ["end"]}
    for i in range(depth):
        schema = {"not": {"properties": {f"p{i % 3}": schema}}}
    return schema


HOSTILE: dict[str, Any] = {
    "deep negations": nested(40),
    "deeper than Python reaches": nested(5000),
    "30 alternatives that overlap": {
        "oneOf": [{"properties": {f"k{i}": {"minimum": i}, "z": {"maximum": 50 - i}}} for i in range(30)]
    },
    "200 optional keys, some of which must come": {
        "properties": {f"k{i}": {"type": "integer"} for i in range(200)},
        "additionalProperties": False,
        "minProperties": 100,
    },
    "nothing to begin with": {"$ref": "#/$defs/a", "$defs": {
        "a": {"type": "object", "required": ["b"], "properties": {"b": {"$ref": "#/$defs/c"}}},
        "c": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/a"}}}},
    "words and characters": {"type": "string", "pattern": "^(\\w+ ){0,400}\\w+$", "maxLength": 10**6},
    "divisors with long periods": {"anyOf": [{"multipleOf": n} for n in (9973, 9967, 9949)]},
    "arrays with and without equal items": {
        "oneOf": [{"type": "array", "uniqueItems": i % 2 == 0, "maxItems": 9 + i, "items": {"maxLength": i}}
                  for i in range(30)]
    },
    "keys that run out": {
        "propertyNames": {"pattern": "^[a-z]{1,2}$"}, "minProperties": 300, "maxProperties": 600},
    "keys that are listed": {
        "propertyNames": {"enum": [f"k{i}" for i in range(60)]}, "minProperties": 30,
        "anyOf": [{"required": [f"k{i}"]} for i in range(60)]},
    "keys that ask for the next key": {"dependentRequired": {f"k{i}": [f"k{i + 1}"] for i in range(3000)}},
    "a chain of patterns of keys": {
        "$ref": "#/definitions/d0", "definitions": {
            f"d{i}": {"patternProperties": {"^a": {"$ref": f"#/definitions/d{(i + 1) % 20_000}"}}}
            for i in range(20_000)}},
    "11,000 keys that are counted": {"type": "object", "maxProperties": 11_000},
    "11,000 objects with a key each": {
        "allOf": [{"properties": {f"k{i}": {"minLength": i % 5}}} for i in range(11_000)]},
    "400 arrays whose first items may be used up": {
        "properties": {f"k{i}": {
            "type": "array", "uniqueItems": True, "minItems": 9,
            "prefixItems": [{"enum": [(i * j + k) % 40 for k in range(4)]} for j in range(9)],
        } for i in range(400)}},
    "a billion paths to what is evaluated": {
        "$ref": "#/$defs/d0", "unevaluatedProperties": False,
        "$defs": {"d30": {"properties": {"a": True}}} | {
            f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}, {"$ref": f"#/$defs/d{i + 1}", "title": "b"}]}
            for i in range(30)}},
    "60 tags that are patterns": {
        "anyOf": [{"properties": {"t": {"pattern": f"^a{i}_"}, f"x{i}": {}}, "required": ["t"]}
                  for i in range(60)]},
    "3,000 lengths": {
        "type": "string", "anyOf": [{"minLength": i, "maxLength": i} for i in range(0, 6000, 2)]},
    "keys that may be evaluated by 1,500 patterns": {
        "properties": {f"k{i}": {} for i in range(20_000)}, "unevaluatedProperties": False,
        "patternProperties": {f"^x{i}$": {} for i in range(1500)}},
    "patterns that overlap": {
        "patternProperties": {f"k.{{{i}}}x": {"minimum": i} for i in range(12)}, "minProperties": 0},
}  # fmt: skip


@pytest.mark.parametrize("schema", HOSTILE.values(), ids=HOSTILE)
def test_hostile_schemas_are_answered_within_the_budget(schema: Any) -> None:
    began = time.perf_counter()
    try:
        grammar = grammar_of_schema(schema, OPEN, deadline=Deadline(1.0))
    except SchemaRefused as error:
        if error.kind == "invalid":
            raise
    except BudgetExceeded:
        assert time.perf_counter() - began < 20  # a wide margin: it only has to end
    else:
        assert grammar.whole.start.is_productive


@pytest.fixture(params=[None, 1_000_000], ids=["usual limit", "no limit"])
def recursion_limit(request: pytest.FixtureRequest) -> Iterator[None]:
    """Set Python's limit of nested calls, which programs may raise for their own purposes."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(request.param or before)
    yield
    sys.setrecursionlimit(before)


CHAINS: dict[str, Callable[[Any], Any]] = {
    "alone": lambda ref: ref,
    "in allOf": lambda ref: {"allOf": [ref]},
    "in anyOf": lambda ref: {"anyOf": [ref, {"minLength": 2}]},
    "in oneOf": lambda ref: {"oneOf": [ref, {"maxLength": 2}]},
    "in not": lambda ref: {"not": ref},
    "in if": lambda ref: {"if": ref, "then": {"maxProperties": 3}},
    "in dependentSchemas": lambda ref: {"dependentSchemas": {"a": ref}},
}


@pytest.mark.usefixtures("recursion_limit")
@pytest.mark.parametrize("step", CHAINS.values(), ids=CHAINS)
def test_long_chains_of_references_are_refused(step: Callable[[Any], Any]) -> None:
    """Such chains crashed the process, because each reference used some of the C stack."""
    n = 20_000
    chain = {f"d{i}": step({"$ref": f"#/definitions/d{i + 1}"}) for i in range(n)}
    chain[f"d{n}"] = {"type": "object", "properties": {"a": {"type": "string"}}}
    with pytest.raises(
        SchemaRefused, match=r"is nested too deeply; the limits are .* references; simplify it$"
    ):
        grammar_of_schema({"definitions": chain, "$ref": "#/definitions/d0"})


@pytest.mark.usefixtures("recursion_limit")
@pytest.mark.parametrize(
    "pattern", ["(" * 5_000 + "a" + ")" * 5_000, "(a|" * 3_000 + "b" + ")" * 3_000, "a?" * 20_000]
)
def test_long_patterns_end(pattern: str) -> None:
    with pytest.raises((SchemaRefused, BudgetExceeded)) as raised:
        grammar_of_schema({"type": "string", "pattern": pattern}, deadline=Deadline(4.0))
    if isinstance(raised.value, SchemaRefused):
        assert raised.value.kind in ("unsupported", "bounds")


def test_what_is_too_large_for_both_is_refused_before_it_is_written() -> None:
    """The text for XGrammar and its conversion took 1 to 3 s of a refusal."""
    compiler = GrammarCompiler(BYTES, semantics="json-schema", budget=Budget(states=5, bytes=100_000))
    with pytest.raises(BudgetExceeded, match=r"grammar of more than \d.* MiB.*Budget\.states"):
        compiler.compile_json_schema({"enum": [f"{i:b}" for i in range(512)]})
    grammar = grammar_of_schema({"enum": [f"{i:b}" for i in range(128)]}, most_bytes=10**6)
    assert 0.8 < len(grammar.serialize_json()) / (SERIALISED * len(grammar.ebnf)) < 1.6


@pytest.mark.parametrize("value", [{}, {"type": "string"}])
def test_formulas_that_share_their_parts_take_no_exponential_time(value: Any) -> None:
    """A look at all levels of such a formula took twice as long with each of them."""
    definitions: dict[str, Any] = {"0": {"properties": {"z": value}, "additionalProperties": False}}
    for i in range(1, 41):
        inner = {"$ref": f"#/$defs/{i - 1}"}
        definitions[str(i)] = {
            "anyOf": [
                {"allOf": [{"minProperties": i + 1}, inner]},
                {"allOf": [{"required": ["z"]}, {"maxProperties": i + 40}, inner]},
            ]
        }
    whole = {"$defs": definitions, "$ref": "#/$defs/40"}
    assert not grammar_of_schema(whole, deadline=Deadline(20.0)).left_out


@pytest.mark.parametrize(
    ("kind", "keyword"), [("number", "minimum"), ("number", "multipleOf"), ("string", "pattern")]
)
def test_deciding_formulas_that_share_their_parts_takes_no_exponential_time(kind: str, keyword: str) -> None:
    """Each level doubled the time of a decision, during which nothing looked at the deadline. Later, a state
    had a term for each level, and the divisors took 5 GB."""
    definitions: dict[str, Any] = {"0": {keyword: "a" if kind == "string" else 5}}
    for i in range(1, 41):
        inner, value = {"$ref": f"#/$defs/{i - 1}"}, f"^{i}b" if kind == "string" else 1000 + i
        definitions[str(i)] = {
            "anyOf": [{"allOf": [inner, {keyword: value}]}, {"not": inner, "title": str(i)}],
        }
    whole = {"type": kind, "$defs": definitions, "$ref": "#/$defs/40"}
    with contextlib.suppress(SchemaRefused):  # the divisors need too many states
        grammar_of_schema(whole, deadline=Deadline(20.0))


def union_of(n: int, **beside: Any) -> Any:
    """A union of objects with a tag; each has a key of its own."""
    return {
        "oneOf": [
            {"properties": {"t": {"const": i}, f"x{i}": {"type": "integer"}}, "required": ["t"], **beside}
            for i in range(n)
        ]
    }


def test_states_of_an_object_are_bounded_by_the_budget() -> None:
    few, more = (
        GrammarCompiler(BYTES, semantics="json-schema", budget=Budget(states=n)) for n in (500, 5000)
    )
    with pytest.raises(SchemaRefused, match=r"more than 50 states.*raise Budget\.states"):
        few.compile_json_schema(union_of(16))
    assert written(more.compile_json_schema(union_of(16)), '{"t":3,"x3":1,"x4":"a"}')


def test_how_many_open_objects_a_union_may_have() -> None:
    """docs/json-schema.md has this number."""
    grammar_of_schema(union_of(150))
    with pytest.raises(SchemaRefused, match="an object of more than 12000 states"):
        grammar_of_schema(union_of(160))


def test_a_union_of_many_closed_objects_has_few_states() -> None:
    """Keys that cannot come in a case have no states: 20,000 states for 400 cases otherwise."""
    grammar = grammar_of_schema(union_of(400, additionalProperties=False))
    (one,) = (one for one in grammar.whole.nonterminals.all if one.object is not None)
    assert len(one.object.accepting) <= 2 * 400 + 2
    assert grammar.instances.text({"x399": 7, "t": 399}) == '{"t":399,"x399":7}'
    assert grammar.instances.text({"t": 399, "x398": 7}) is None
    assert grammar.instances.text({"t": 1}) == '{"t":1}'


def test_an_indentation_without_end_is_refused() -> None:
    with pytest.raises(SchemaRefused, match=r"64 levels, which `indent` .*; leave out this option$"):
        compiled_bytes({"properties": {"a": {"$ref": "#"}}}, any_whitespace=False, indent=1)


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "(" * 100_000}, {"pattern": "\\A" + "a" * 100_000}, {"pattern": ".*a.{99}" * 1000},
        {"minLength": "x" * 100_000}, {"type": "x" * 100_000}, {"dependentRequired": {"x" * 99: [[1] * 999]}},
        {"uniqueItems": "x" * 1000}, {"properties": {"x" * 100_000: {"minItems": -1}}},
        '{"maxItems": 0.' + "7" * 1000 + "}",
    ],
)  # fmt: skip
def test_messages_show_only_the_beginning_of_long_values(schema: Any) -> None:
    with pytest.raises(SchemaRefused) as caught:
        grammar_of_schema(schema, OPEN)
    assert len(str(caught.value)) < 600
