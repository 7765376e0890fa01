"""References to other documents, dynamic references, metaschemas, and formats as annotations.

What: small schemas with the verdicts of `jsonschema`, or of the specification where they differ; refusals
with a clear error; caches that distinguish the registries and options of calls.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import referencing
from referencing.jsonschema import DRAFT7, DRAFT202012

from hybrid import GrammarCompiler
from hybrid.json_schema import SchemaRefused, documents_of, grammar_of_schema
from tests.test_json_schema_meaning import BYTES, OPEN, written

DRAFT = "https://json-schema.org/draft/2020-12/schema"
DATE = {"type": "string", "format": "date"}
INTEGER, STRING = {"type": "integer"}, {"type": "string"}


BACK_REFERENCE = {"pattern": "(a)\\1"}


def registry(**documents: Any) -> Any:
    found = [(f"http://x/{name}.json", DRAFT202012.create_resource(one)) for name, one in documents.items()]
    return referencing.Registry().with_resources(found)


def valid(schema: Any, instance: Any, given: Any = None, formats: bool = True) -> bool:
    made = grammar_of_schema(schema, OPEN, documents=documents_of(given), assert_formats=formats)
    return made.instances.text(instance) is not None


@pytest.mark.parametrize(
    "part", ["a/-1", "a/01", "a/+1", "a/ 1", "a/1_0", "a/\u0661", "text/1", "x~2", "x~", "x%7E2", "~/0"]
)
@pytest.mark.parametrize("address", ["", "http://x/a.json"])
def test_a_pointer_is_written_as_in_rfc_6901(part: str, address: str) -> None:
    kept: Any = {"a": [{"type": "string"}] * 20, "text": "abc", "-1": {"a": {"01": {"type": "integer"}}}}
    kept |= {"x~2": {}, "x~": {}, "~": [{}]}
    given = registry(a={"kept": kept})
    assert valid({"kept": kept, "$ref": f"{address}#/kept/a/1"}, "x", given)
    assert valid({"kept": kept, "$ref": f"{address}#/kept/-1/a/01"}, 1, given)
    assert valid({"kept": kept, "$ref": f"{address}#/kept/x~02"}, 1, given)
    with pytest.raises(SchemaRefused, match="refers to"):
        valid({"kept": kept, "$ref": f"{address}#/kept/{part}"}, "x", given)


@pytest.mark.parametrize(("error", "told"), [(MemoryError, MemoryError), (RecursionError, SchemaRefused)])
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_a_lack_of_memory_or_depth_does_not_decide_what_a_reference_means(
    keyword: str, error: type[Exception], told: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = referencing.Registry.anchor, [0, 0]  # the number of calls, and which of them fails

    def failing(*arguments: Any) -> Any:
        calls[0] += 1
        if calls[0] == calls[1]:
            raise error
        return real(*arguments)

    monkeypatch.setattr(referencing.Registry, "anchor", failing)
    schema = {keyword: "#a", "$defs": {"x": {"$dynamicAnchor": "a", "type": "integer"}}}
    assert valid(schema, 1)
    for last in range(1, calls[0] + 1):
        calls[:] = 0, last
        with pytest.raises(told):
            valid(schema, 1)


@pytest.mark.parametrize("keyword", ["$anchor", "$id"])
def test_references_to_names_take_linear_time(keyword: str) -> None:
    """Each took a search through the whole schema: 1,000 references to 1,000 anchors took over 50 s."""
    mark = "#" if keyword == "$anchor" else ""
    names = [f"n{number}" for number in range(1000)]
    schema = {"$defs": {name: {keyword: name} for name in names}}
    schema["anyOf"] = [{"$ref": mark + name} for name in names]
    began = time.process_time()
    assert valid(schema, 1)
    assert time.process_time() - began < 10


@pytest.mark.parametrize("given", [None, referencing.Registry()], ids=["alone", "with a registry"])
@pytest.mark.parametrize("order", [1, -1])
def test_names_are_found_beside_lists_of_keys(order: int, given: Any) -> None:
    """`referencing` takes all values of `dependencies` for schemas, or none."""
    dependencies = {"a": {"properties": {"b": {"$id": "#integer", **INTEGER}}}, "b": ["c"]}
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#", "properties": {"c": {"$ref": "#integer"}},
        "dependencies": dict([*dependencies.items()][::order]),
    }  # fmt: skip
    assert valid(schema, {"c": 1}, given)
    assert not valid(schema, {"c": "x"}, given)


@pytest.mark.parametrize("draft", ["draft-04", "draft-06", "draft-07", "draft/2019-09", "draft/2020-12"])
@pytest.mark.parametrize("given", [None, referencing.Registry()], ids=["alone", "with a registry"])
def test_a_pointer_passes_keys_that_are_named_like_the_keyword_for_addresses(draft: str, given: Any) -> None:
    inner = {"id": INTEGER, "$id": INTEGER, "items": STRING, "b": {"properties": {"id": STRING}}}
    inside: Any = {"properties": inner}
    ways: Any = {"allOf/0/items": {"allOf": [{"items": inside}]}}
    ways["dependencies/a"] = {"dependencies": {"id": ["b"], "$id": ["b"], "a": inside}}
    if "2020" not in draft:
        ways["items/0"] = {"items": [inside]}
    for way, schema in ways.items():
        schema["$schema"] = f"http://json-schema.org/{draft}/schema#"
        for key, good in {"id": 1, "$id": 1, "items": "a", "b/properties/id": "a"}.items():
            schema["properties"] = {"r": {"$ref": f"#/{way}/properties/{key}"}}
            assert valid(schema, {"r": good}, given)
            assert not valid(schema, {"r": None}, given)


@pytest.mark.parametrize("draft", ["draft-04", "draft-07", "draft/2019-09"])
def test_a_schema_behind_items_or_dependencies_has_its_address(draft: str) -> None:
    name = "id" if draft == "draft-04" else "$id"
    properties = {"a": {"$ref": "#/definitions/c"}}
    part = {name: "http://x/part", "definitions": {"c": INTEGER}, "properties": properties}
    schema: Any = {"$schema": f"http://json-schema.org/{draft}/schema#", "definitions": {"c": STRING}}
    ways = {"d/items": {"items": part}, "d/items/0": {"items": [part]}}
    if draft != "draft/2019-09":
        ways["d/dependencies/items"] = {"dependencies": {"items": part}}
    for way, found in ways.items():
        schema["definitions"]["d"] = found
        schema["properties"] = {"r": {"$ref": f"#/definitions/{way}/properties/a"}}
        assert valid(schema, {"r": 1})
        assert not valid(schema, {"r": "a"})


def test_a_reference_of_draft_4_may_lead_to_a_boolean() -> None:
    schema: Any = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "definitions": {"a": True, "b": False},
    }
    schema["properties"] = {name: {"$ref": f"#/definitions/{name}"} for name in "ab"}
    assert valid(schema, {"a": 1})
    assert not valid(schema, {"b": 1})


def test_what_is_no_schema_has_no_names() -> None:
    """Nothing leads to the two definitions, and draft 4 had no schema `true`."""
    draft = "http://json-schema.org/draft-04/schema#"
    definitions = {"comment": "text", "list": [1], "a": {"id": "#a", **INTEGER}}
    schema = {"$schema": draft, "definitions": definitions, "properties": {"a": {"$ref": "#a"}, "b": True}}
    assert valid(schema, {"a": 1, "b": 1})
    assert not valid(schema, {"a": "x"})


def test_formats_are_annotations_on_request() -> None:
    for one, instance, formats, expected in (
        (DATE, "x", True, False), (DATE, "x", False, True), (DATE, 1, False, False),
        ({**DATE, "maxLength": 3}, "abcd", False, False),
    ):  # fmt: skip
        assert valid(one, instance, formats=formats) == expected
    with pytest.raises(SchemaRefused, match="has no valid instance"):
        grammar_of_schema({"type": "string", "not": {"format": "date"}}, assert_formats=False)


OUTER = {"properties": {"a": {
    "$id": "inner", "items": {"$dynamicRef": "#x"}, "$defs": {"x": {"$dynamicAnchor": "x"}}}},
    "$defs": {"x": {"$dynamicAnchor": "x", **STRING}}}  # fmt: skip


def recursive(is_anchor: bool) -> Any:
    inner = {"$id": "inner", "$recursiveAnchor": is_anchor, "properties": {"a": {"$recursiveRef": "#"}}}
    return {
        "$schema": "https://json-schema.org/draft/2019-09/schema", "$id": "http://x/outer",
        "$recursiveAnchor": True, "$ref": "inner", "required": ["b"], "$defs": {"i": inner},
    }  # fmt: skip


REFERENCES: list[tuple[str, Any, list[Any], list[Any]]] = [
    ("a document that leads to another", {"$ref": "http://x/a.json", "maximum": 9}, [9], [10, "x"]),
    ("an id counts once however it is reached",
     {"$id": "http://x/root.json", "properties": {"a": {"$ref": "#/$defs/part"}, "b": {"$ref": "folder/"}},
      "$defs": {"part": {"$id": "folder/", "items": {"$ref": "item.json"}}}},
     [{"a": [1]}, {"b": [1]}], [{"a": ["x"]}, {"b": ["x"]}]),
    ("a schema around another is on the way to it", OUTER, [{"a": ["x"]}], [{"a": [1]}]),
    ("also if it has an id", {"$id": "http://x/outer", **OUTER}, [{"a": ["x"]}], [{"a": [1]}]),
    ("plain references to dynamic anchors are plain",
     {"$id": "http://x/o", "$ref": "inner", "$defs": {
         "i": {"$id": "inner", "items": {"$ref": "#x"}, "$defs": {"x": {"$dynamicAnchor": "x"}}},
         "x": {"$dynamicAnchor": "x", **STRING}}}, [[1]], []),
    ("recursive references mean the outermost schema", recursive(True), [{"a": {"b": 1}, "b": 1}],
     [{"a": {}, "b": 1}]),
    ("unless the inner one is no anchor", recursive(False), [{"a": {}, "b": 1}], []),
    ("the metaschema of the draft", {"$ref": DRAFT},
     [{"properties": {"a": {"minLength": 1}}}], [{"properties": {"a": {"minLength": "x"}}}]),
    *(("the name of the latest draft", {"$schema": named, "prefixItems": [STRING]}, [["x"]], [[1]])
      for named in ("http://json-schema.org/schema#", "https://json-schema.org/schema")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "good", "bad"), [row[1:] for row in REFERENCES], ids=[row[0] for row in REFERENCES]
)
def test_what_references_mean(schema: Any, good: list[Any], bad: list[Any]) -> None:
    documents = {"a": {"$ref": "b.json#/$defs/n"}, "b": {"$defs": {"n": INTEGER}}, "folder/item": INTEGER}
    given = registry(**documents)
    assert [one for one in (*good, *bad) if valid(schema, one, given)] == good


def test_nothing_is_fetched() -> None:
    given = referencing.Registry(retrieve=lambda uri: pytest.fail(uri))  # type: ignore[call-arg]
    for documents in (documents_of(None), documents_of(given)):
        with pytest.raises(SchemaRefused, match=r"'http://x/a.json', a document that `registry=`"):
            grammar_of_schema({"$ref": "http://x/a.json"}, documents=documents)


def test_documents_of_another_draft_are_refused():
    seven = {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "integer"}]}
    given = referencing.Registry().with_resource("http://x/a.json", DRAFT7.create_resource(seven))
    for reference in ("http://x/a.json", "http://x/a.json#/items/0"):
        with pytest.raises(SchemaRefused, match="a document of another draft"):
            grammar_of_schema({"$ref": reference}, documents=documents_of(given))
    unnamed = {"dependencies": {"a": ["b"]}, "$defs": {"c": {"$id": "c"}}}  # the resource names the draft
    given = referencing.Registry().with_resource("http://x/a.json", DRAFT7.create_resource(unnamed))
    for reference in ("http://x/a.json", "http://x/a.json#/$defs/c", "http://x/c"):
        with pytest.raises(SchemaRefused, match=r"refers to .*, a"):
            grammar_of_schema({"$ref": reference}, documents=documents_of(given))
    opaque = referencing.Registry().with_resource("http://x/a.json", referencing.Resource.opaque(unnamed))
    assert valid({"$ref": "http://x/a.json"}, {"a": 1}, opaque)
    with pytest.raises(SchemaRefused, match="names draft 7, but the schema around it names 2020-12"):
        grammar_of_schema({"$schema": DRAFT, "items": {"$id": "http://x/b", **seven}})
    part = {**seven, "items": {"type": "integer"}}  # not a separate document: its $schema has no effect
    assert not valid({"$schema": DRAFT, "items": part}, [["x"]])


@pytest.mark.parametrize(
    ("document", "good", "bad"),
    [
        ({"properties": {1: {"type": "integer"}}}, {"1": 2}, {"1": "x"}),
        ({"items": OrderedDict(type="integer")}, [1], ["x"]),
        ({"allOf": ({"type": ("integer", "null")},)}, 1, "x"),
        ({"const": {"a": (1, 2)}}, {"a": [1, 2]}, {"a": 1}),
    ],
    ids=str,
)
def test_documents_are_read_as_json(document: Any, good: Any, bad: Any) -> None:
    given = registry(a=document)
    assert [valid({"$ref": "http://x/a.json"}, one, given) for one in (good, bad)] == [True, False]


@pytest.mark.parametrize("name", ["HTTP://x/a", "http://x/a?", "file:///a/../b"])
def test_an_address_that_is_not_in_its_normal_form_counts_once(name: str) -> None:
    part = {"$id": name, "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}}
    schema = {"properties": {"a": part, "b": {"$ref": name}}}
    assert valid(schema, {"a": [1], "b": [1]})
    assert not valid(schema, {"b": ["x"]})


TREE = {
    "$id": "http://x/tree.json",
    "$dynamicAnchor": "node",
    "type": "object",
    "properties": {"data": True, "children": {"type": "array", "items": {"$dynamicRef": "#node"}}},
}


def test_dynamic_references_mean_the_outermost_anchor():
    strict = {"$id": "http://x/strict.json", "$dynamicAnchor": "node", "$ref": "tree.json"}
    strict["unevaluatedProperties"] = False
    given = registry(tree=TREE)
    both = {"properties": {"s": strict, "t": {"$ref": "http://x/tree.json"}}, "$id": "http://x/both.json"}
    for schema in (strict, both):
        validator = jsonschema.Draft202012Validator(schema, registry=given)
        for instance in (
            {"children": [{"data": 1}]},
            {"children": [{"daat": 1}]},
            {"s": {"children": [{"daat": 1}]}},
            {"t": {"children": [{"daat": 1}]}},
            {"t": {"children": [{"children": [1]}]}},
        ):
            assert valid(schema, instance, given) == validator.is_valid(instance), instance


def metaschema(**vocabularies: bool) -> Any:
    base = "https://json-schema.org/draft/2020-12/vocab/"
    named = {base + name.replace("_", "-"): asked for name, asked in vocabularies.items()}
    return registry(meta={"$schema": DRAFT, "$vocabulary": named})


def test_a_metaschema_says_which_keywords_are_read():
    schema = {"$schema": "http://x/meta.json", "properties": {"a": {"minimum": 3}, "b": False}}
    for given, minimum in (
        (metaschema(core=True, applicator=True), False),
        (metaschema(core=True, applicator=True, validation=True), True),
        (metaschema(core=True, applicator=True, validation=False), True),
        (registry(meta={"$schema": DRAFT}), True),
    ):
        assert valid(schema, {"a": 1}, given) != minimum
        assert not valid(schema, {"b": 1}, given)


def test_a_metaschema_may_assert_formats():
    schema = {"$schema": "http://x/meta.json", **DATE}
    annotated = metaschema(core=True, validation=True, format_annotation=True)
    for given, formats, expected in (
        (metaschema(core=True, validation=True, format_assertion=False), False, False),
        (annotated, False, True),
        (annotated, True, False),
        (registry(meta={"$schema": DRAFT}), False, True),
    ):
        assert valid(schema, "x", given, formats) == expected


@pytest.mark.parametrize(
    ("named", "given", "message"),
    [
        ("http://x/unknown.json", None, "must name a draft .*, but names 'http://x/unknown.json'"),
        ("http://json-schema.org/draft-03/schema#", None, "must name a draft"),
        ("http://x/meta.json", registry(meta={}), "whose own \\$schema does not name a draft"),
        ("http://x/meta.json", registry(meta={"$schema": DRAFT, "$vocabulary": {"urn:v": True}}), "'urn:v'"),
    ],
)
def test_other_metaschemas_are_refused(named: str, given: Any, message: str):
    schema = {"$schema": named, "type": "string"}
    with pytest.raises(SchemaRefused, match=message) as caught:
        grammar_of_schema(schema, documents=documents_of(given))
    assert (caught.value.keyword, caught.value.pointer) == ("$schema", "")
    relaxed = grammar_of_schema(schema, documents=documents_of(given), relax=True)
    assert [one.keyword for one in relaxed.left_out] == ["$schema"]


def test_compilers_tell_what_was_given_apart(tmp_path: Path):
    schema = {"type": "array", "items": {"$ref": "http://x/a.json"}}
    for _ in range(2):  # the second compiler reads the files of the first
        compiler = GrammarCompiler(BYTES, semantics="json-schema", cache_dir=tmp_path, strategy="classifier")
        for kind, text in (("integer", "[1]"), ("string", '["x"]')):
            compiled = compiler.compile_json_schema(schema, registry=registry(a={"type": kind}))
            assert [written(compiled, one) for one in ("[1]", '["x"]')] == [text == "[1]", text != "[1]"]
        for formats in (True, False):
            assert written(compiler.compile_json_schema(DATE, assert_formats=formats), '"x"') != formats
        document = {
            "$defs": {"x": {"$anchor": "n", "const": 1}}, "definitions": {"x": {"$id": "#n", "const": 2}},
        }  # fmt: skip
        seven = {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "http://x/n#n"}
        given = referencing.Registry().with_resource("http://x/n", DRAFT7.create_resource(document))
        assert written(compiler.compile_json_schema(seven, registry=given), "2")
        given = referencing.Registry().with_resource("http://x/n", DRAFT202012.create_resource(document))
        with pytest.raises(SchemaRefused, match="a document of another draft"):
            compiler.compile_json_schema(seven, registry=given)


@pytest.mark.parametrize(
    ("schema", "pointer", "bad"),
    [
        (
            {"properties": {"%": {"$ref": "#/$defs/%25"}, "%25": {"$ref": "#/$defs/%2525"}},
             "$defs": {"%": BACK_REFERENCE, "%25": {"pattern": "^a"}}},
            "/$defs/%", {"%25": "b"},
        ),
        (
            {"$id": "https://example.com/a", "properties": {"p": {"$ref": "#/$defs/x"}, "q": {"$ref": "b"}},
             "$defs": {"x": BACK_REFERENCE,
                       "b": {"$id": "b", "items": {"$ref": "#/$defs/x"}, "$defs": {"x": {"pattern": "^a"}}}}},
            "/$defs/x", {"q": ["b"]},
        ),
    ],
)  # fmt: skip
def test_only_the_place_that_is_named_is_left_out(schema: Any, pointer: str, bad: Any) -> None:
    """Percent signs stand for other characters in references, and `#` for the part that has an address."""
    grammar = grammar_of_schema(schema, {}, relax=True)
    assert [(one.pointer, one.keyword) for one in grammar.left_out] == [(pointer, "pattern")]
    assert grammar.instances.text(bad) is None


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"items": {"$dynamicRef": "#a"}, "$defs": {"x/y": {"$dynamicAnchor": "a", **BACK_REFERENCE}}},
         "/$defs/x~1y"),
        ({"items": {"$ref": "#a"}, "$defs": {"x": {"$anchor": "a", "allOf": [{"items": BACK_REFERENCE}]}}},
         "/$defs/x/allOf/0/items"),
        ({"$id": "http://x/", "items": {"$ref": "b"},
          "$defs": {"q": {"$id": "b", "$ref": "#/$defs/z", "$defs": {"z": BACK_REFERENCE}}}},
         "/$defs/q/$defs/z"),
        ({"items": {"$ref": "http://x/other.json"}}, "/items/$ref"),
    ],
)  # fmt: skip
def test_places_are_pointers_into_the_schema(schema: Any, pointer: str) -> None:
    """Those behind anchors were ways through references, such as `/items/$ref`, as in other documents."""
    given = documents_of(registry(other=BACK_REFERENCE))
    with pytest.raises(SchemaRefused) as caught:
        grammar_of_schema(schema, {}, documents=given)
    assert (caught.value.pointer, caught.value.keyword) == (pointer, "pattern")
    left_out = grammar_of_schema(schema, {}, documents=given, relax=True).left_out
    assert [(one.pointer, one.keyword) for one in left_out] == [(pointer, "pattern")]


class Other(dict[str, Any]):
    """An object that is not exactly a dictionary."""


@pytest.mark.parametrize("kind", [dict, Other])
def test_documents_of_a_registry_are_read_again_only_if_they_change(kind: Any) -> None:
    """Each call parsed all documents again: 0.8 s for 4,755 of them."""
    document = kind({"const": 1})
    given = registry(a=document)
    first = documents_of(given)
    assert first is not None and (documents_of(given) is first) == (kind is dict)
    document["const"] = True
    second = documents_of(given)
    assert second is not None and second.digest != first.digest
    reference = {"$ref": "http://x/a.json"}
    assert valid(reference, True, given) and not valid(reference, 1, given)
    document["const"] = 1
    assert valid(reference, 1, given) and documents_of(given).digest == first.digest  # type: ignore[union-attr]
