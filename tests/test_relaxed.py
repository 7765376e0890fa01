"""What XGrammar does not enforce in JSON schemas: every invalid text that it accepts must be explained.

What: a table of schemas with a text that XGrammar accepts and the schema forbids; schemas that are enforced
completely; random schemas; the invalid instances of the corpus; hostile schemas; the compiler's `strict`.
Limits: the jsonschema package decides what is valid. XGrammar compiles grammars over single bytes, which
accept the same texts as any vocabulary.
"""

from __future__ import annotations

import contextlib
import json
import random
import time
from functools import cache, partial
from typing import Any

import jsonschema
import pydantic
import pytest
import xgrammar

from equivalence import GrammarError
from hybrid.api.compiler import GrammarCompiler
from hybrid.compiled import CompiledGrammar
from hybrid.xgrammar.relaxed import find_differences
from hybrid.xgrammar.relaxed.patterns import literal_prefix, pattern_gap
from tests.random_schemas import random_instance, random_schema
from tests.versions import CONFUSES_PARTS

STOP = 256
OPEN = {"strict_mode": False}


def bytes_info() -> xgrammar.TokenizerInfo:
    tokens = [*(bytes([byte]) for byte in range(STOP)), b"<stop>"]
    return xgrammar.TokenizerInfo(tokens, xgrammar.VocabType.RAW, stop_token_ids=[STOP])


@cache
def plain() -> xgrammar.GrammarCompiler:
    return xgrammar.GrammarCompiler(bytes_info(), max_threads=1, cache_enabled=False)


def compile_plain(schema: Any, **options: Any) -> xgrammar.CompiledGrammar:
    text = json.dumps(schema)
    return plain().compile_grammar(xgrammar.Grammar.from_json_schema(text, **{**OPEN, **options}))


def takes(compiled: xgrammar.CompiledGrammar, text: str) -> bool:
    matcher = xgrammar.GrammarMatcher(compiled)
    written = text.encode("utf-8", "surrogatepass")
    return all(matcher.accept_token(byte) for byte in written) and matcher.accept_token(STOP)


def write(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def found(schema: Any, **options: Any) -> list[str]:
    return [one.pointer for one in find_differences(json.dumps(schema), **{**OPEN, **options}).relaxed]


MAKERS: list[Any] = [partial(dict, type=kind) for kind in ("string", "object", "array")]
strings, objects, arrays = MAKERS
INTEGER = {"type": "integer"}
TITLES = {kind: objects(properties={"title": {"type": kind}}) for kind in ("string", "integer")}

# (schema, an instance that it forbids and XGrammar takes, the pointer to the keyword)
GAPS: list[tuple[Any, Any, str]] = [
    ({"$ref": "#/$defs/x", "minLength": 2, "$defs": {"x": strings()}}, "a", "/minLength"),
    ({"$defs": {"x": {"$anchor": "x", **INTEGER}}, "$ref": "#x"}, "a", "/$ref"),
    ({"const": 1, "minimum": 2}, 1, "/minimum"), ({"const": 1, "enum": [2]}, 1, "/enum"),
    ({"const": True, "enum": [1]}, True, "/enum"), ({"const": [0], "enum": [[False]]}, [0], "/enum"),
    ({"enum": [1, "a"], "type": "string"}, 1, "/type"),
    ({"enum": ["a", "abc"], "pattern": "^...$"}, "a", "/pattern"),
    ({"anyOf": [strings(), INTEGER], "type": "string"}, 1, "/type"),
    ({"anyOf": [{"required": ["a"]}], **objects(properties={"a": INTEGER})}, {"a": "x"}, "/properties"),
    ({"anyOf": [{"required": ["a"]}]}, {}, "/anyOf/0/required"),
    ({"oneOf": [INTEGER, {"type": "number"}]}, 1, "/oneOf"),
    ({"oneOf": [strings(), {"properties": {"a": {}}}]}, "a", "/oneOf"),
    ({"oneOf": [{"const": 1}, {"enum": [1.0, 2]}]}, 1, "/oneOf"),
    ({"oneOf": [objects(properties={"k": {"const": k}}) for k in "ab"]}, {}, "/oneOf"),
    ({"allOf": [strings(), {"minLength": 2}]}, 1, "/allOf"),
    ({"allOf": [strings()], "minLength": 2}, "a", "/minLength"), ({"minimum": 3}, 1, "/minimum"),
    ({"required": ["a"]}, {}, "/required"), (strings(**{"not": {"const": "a"}}), "a", "/not"),
    ({"if": {"const": 1}, "then": False}, 1, "/if"), (INTEGER | {"multipleOf": 1025}, 1, "/multipleOf"),
    (INTEGER | {"multipleOf": 1.5}, 1, "/multipleOf"),
    (INTEGER | {"multipleOf": 2, "minimum": 0}, 1, "/multipleOf"),
    (INTEGER | {"multipleOf": 2, "minimum": 0, "maximum": 10_000}, 1, "/multipleOf"),
    ({"type": "number", "multipleOf": 1}, 1.5, "/multipleOf"),
    (strings(pattern="^a*$", maxLength=1), "aa", "/maxLength"),
    (strings(format="uuid", maxLength=1), "0" * 8 + "-0000" * 3 + "-" + "0" * 12, "/maxLength"),
    (strings(pattern="(?=b)a"), "a", "/pattern"), (strings(pattern="x^a"), "xa", "/pattern"),
    (strings(pattern="^(^a)*$"), "aa", "/pattern"),
    (strings(pattern="^c(ba+)?$"), "ca", "/pattern"),
    (arrays(uniqueItems=True), [1, 1], "/uniqueItems"), (arrays(contains=INTEGER), ["a"], "/contains"),
    (arrays(contains=INTEGER, minContains=2), ["a", 1], "/minContains"),
    (arrays(contains=INTEGER, minContains=0, maxContains=1), [1, 1], "/maxContains"),
    ({"items": INTEGER, "uniqueItems": True}, [1, 1], "/uniqueItems"),
    (objects(required=["a"]), {}, "/required"),
    (objects(properties={"a": {}}, required=["b"]), {"a": 1}, "/required"),
    (objects(dependentRequired={"a": ["b"]}), {"a": 1}, "/dependentRequired"),
    (objects(dependentSchemas={"a": {"required": ["b"]}}), {"a": 1}, "/dependentSchemas"),
    (objects(minProperties=2**32), {}, "/minProperties"),
    (objects(properties={"a": {}}, unevaluatedProperties=False), {"b": 1}, "/unevaluatedProperties"),
    (objects(properties={"a": {}}, propertyNames={"minLength": 2}), {"a": 1}, "/propertyNames"),
    (objects(propertyNames={"minLength": 1}, additionalProperties=False),
     {"a": "x"}, "/additionalProperties"),
    (objects(propertyNames={"minLength": 2, "pattern": "^a"}), {"a": 1}, "/propertyNames/minLength"),
    (objects(properties={"a": INTEGER}, propertyNames={"minLength": 1}), {"a": "x"}, "/properties"),
    (objects(patternProperties={"^a": INTEGER}, propertyNames={"minLength": 2}), {"a": 1}, "/propertyNames"),
    (objects(patternProperties={"^a": INTEGER}, properties={"b": INTEGER}), {"b": "x"}, "/properties"),
    (objects(patternProperties={"^a": INTEGER}, properties={"b": {}}), {"a": "x"}, "/patternProperties"),
    (objects(patternProperties={"^a": INTEGER}, properties={"ab": {}}, additionalProperties=False),
     {"ab": "x"}, "/patternProperties"),
    (objects(patternProperties={"^a.*": INTEGER, ".*b$": strings()}), {"ab": 1}, "/patternProperties"),
    (objects(patternProperties={"^(?!ab).*$": INTEGER}, additionalProperties=False), {"ab": 1}, ""),
    (objects(properties={"é": INTEGER}), {"é": "x"}, "/properties"),
    (objects(properties={'a"b': INTEGER}), {'a"b': "x"}, "/properties"),
    (arrays(items={"$ref": "#/$defs/a"}, **{"$defs": {"a": {"not": {}}}}), [1], "/$defs/a/not"),
    (objects(properties={"a/b~": arrays(uniqueItems=True)}),
     {"a/b~": [1, 1]}, "/properties/a~1b~0/uniqueItems"),
    (arrays(prefixItems=[{"minimum": 1}]), [0], "/prefixItems/0/minimum"),
    ({"type": ["string", "integer"], "multipleOf": 2000}, 1, "/multipleOf"),
]  # fmt: skip
GAPS_BEFORE_0_2_9: list[tuple[Any, Any, str]] = [
    (strings(pattern=r"^\S$"), "\u2003", "/pattern"),
    (objects(properties={"a": TITLES["string"], "b": TITLES["integer"]}),
     {"a": {"title": "x"}, "b": {"title": "x"}}, "/properties/b/properties"),
    (objects(properties={"a": {"const": {"title": 1}}, "b": {"const": {"title": 2}}}),
     {"a": {"title": 1}, "b": {"title": 1}}, "/properties/b/const"),
    (objects(properties={"a": {"title": "x", "minLength": 1}, "b": objects(propertyNames={"minLength": 1})}),
     {"b": {"": 1}}, "/properties/b/propertyNames/minLength"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "instance", "pointer", "is_taken"),
    [*((*row, True) for row in GAPS), *((*row, CONFUSES_PARTS) for row in GAPS_BEFORE_0_2_9)],
)
def test_what_is_left_out_is_listed(schema: Any, instance: Any, pointer: str, is_taken: bool):
    if pointer:
        assert takes(compile_plain(schema), write(instance)) == is_taken, "XGrammar enforces it now"
        assert pointer in found(schema)
    else:  # a narrower reading of the rest may refuse the instance
        assert found(schema)
    assert not jsonschema.Draft202012Validator(schema).is_valid(instance)


# (schema, instances that it forbids): all of it is enforced
KEPT: list[tuple[Any, list[Any]]] = [
    (True, []), ({"title": "t", "description": "d", "default": 1, "examples": [1], "$comment": "c"}, []),
    (strings(enum=["a", "b"]), ["c", 1]), ({"const": 1, "enum": ["a", 1.0]}, ["a"]),
    ({"enum": [1, 2.0], "type": "integer", "minimum": 1}, [3]),
    ({"const": "a", "minimum": 3, "minLength": 1}, ["b"]),
    ({"anyOf": [strings(), {"type": "null"}], "type": ["string", "null"], "minimum": 1}, [1]),
    ({"oneOf": [strings(), INTEGER]}, [None]), ({"oneOf": [{"const": 1}, {"enum": [True, "a"]}]}, [2]),
    ({"oneOf": [objects(properties={"k": {"const": k}}, required=["k"]) for k in "ab"]}, [{"k": "c"}, {}]),
    ({"oneOf": [{"$ref": "#/$defs/a"}, {"type": "null"}], "$defs": {"a": INTEGER}}, ["a"]),
    ({"allOf": [strings(pattern="^.$")], "description": "x"}, ["ab"]),
    ({"$ref": "#/$defs/a", "type": "integer", "$defs": {"a": INTEGER}}, ["a"]),
    (INTEGER | {"minimum": -3, "exclusiveMaximum": 12, "multipleOf": 5}, [-5, 1, 12, 15]),
    (INTEGER | {"multipleOf": 7}, [1, -8, 100]), (INTEGER | {"multipleOf": 0.01, "minimum": 0}, [-1]),
    ({"type": "number", "exclusiveMinimum": 0.5, "maximum": 2}, [0.5, 2.1, -1, 0.4999]),
    (strings(minLength=0), [1]), (strings(pattern="^$|^[a-z]{2}$"), ["a", "abc"]),
    (strings(format="uuid"), ["a"]), (arrays(items=INTEGER, minItems=1, maxItems=2), [[], [1, 2, 3], ["a"]]),
    (arrays(items=INTEGER, maxItems=1, uniqueItems=True, minContains=1), [[1, 1]]),
    (arrays(prefixItems=[INTEGER], unevaluatedItems=False), [["a"], [1, 1]]),
    (objects(properties={"a": INTEGER, "b": {}}, required=["a"], minProperties=1, maxProperties=2),
     [{}, {"a": "x"}, {"b": 1}, {"a": 1, "b": 1, "c": 1}]),
    (objects(propertyNames={"pattern": "^..+$"}, additionalProperties=INTEGER), [{"a": 1}, {"ab": "x"}]),
    (objects(additionalProperties=INTEGER, maxProperties=1), [{"a": "x"}, {"a": 1, "b": 1}]),
    (objects(patternProperties={"^a": INTEGER, "^b": strings()}, additionalProperties=False),
     [{"a": "x"}, {"b": 1}, {"c": 1}]),
    (objects(properties={"b": INTEGER}, patternProperties={"^x-": {}}, additionalProperties=False),
     [{"b": "x"}, {"c": 1}]),
    (objects(properties={"a": TITLES["string"], "b": TITLES["string"]}), [{"b": {"title": 1}}]),
    (objects(properties={"a": {"$ref": "#"}}, additionalProperties=False), [{"a": {"b": 1}}, 1]),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "forbidden"), KEPT)
def test_what_is_enforced_is_not_listed(schema: Any, forbidden: list[Any]):
    assert found(schema) == []
    compiled = compile_plain(schema)
    validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker(["uuid"]))
    for instance in forbidden:
        assert not validator.is_valid(instance)
        assert not takes(compiled, write(instance))


# (schema, a text that is no instance for other readers, the pointer to the keyword, is it taken?)
TEXTS: list[tuple[Any, str, str, bool]] = [
    (strings(format="date"), '"2021-02-30"', "/format", True),
    (strings(format="regex"), '"("', "/format", True),
    (strings(minLength=1), '"\t"', "/minLength", True),
    (strings(maxLength=1), '"\t"', "/maxLength", True),
    ({"const": 2**64}, "1.8446744073709552e+19", "/const", True),
    (objects(propertyNames={}), "{1: 2}", "/propertyNames", CONFUSES_PARTS),
    (objects(propertyNames={"enum": [1]}), "{1: 2}", "/propertyNames", True),
    (objects(propertyNames={"$ref": "#/$defs/a"}, **{"$defs": {"a": {}}}), "{1: 2}", "/propertyNames", True),
]


@pytest.mark.parametrize(("schema", "text", "pointer", "is_taken"), TEXTS)
def test_texts_that_are_no_json_or_of_another_shape_are_listed(
    schema: Any, text: str, pointer: str, is_taken: bool
):
    assert takes(compile_plain(schema), text) == is_taken
    assert pointer in found(schema)


@pytest.mark.parametrize(
    "schema", [strings(maxLength=0), strings(minLength=0), strings(maxLength=2**31), strings()]
)
def test_other_strings_take_no_control_characters(schema: Any):
    assert not takes(compile_plain(schema), '"\t"')
    assert found(schema) == []


def test_what_is_not_tried_is_listed_too():
    assert found(INTEGER | {"format": "int32"}) == []
    assert found({"enum": [[-(2**63) - 1]]}) == ["/enum"]
    assert found({"enum": [2**63 - 1, -(2**63)]}) == []


def test_strict_mode_enforces_what_is_not_evaluated():
    schema = objects(properties={"a": {}}, unevaluatedProperties=False)
    assert not takes(compile_plain(schema, strict_mode=True), '{"b":1}')
    assert found(schema, strict_mode=True) == [] and found(schema) == ["/unevaluatedProperties"]


def test_any_order_forgets_what_is_required():
    schema = objects(properties={"a": {}, "b": {}}, required=["a"], additionalProperties=False)
    assert takes(compile_plain(schema, any_order=True), '{"b": 1}')
    assert found(schema, any_order=True) == ["/required"]
    assert found(schema) == []


def test_beside_a_reference_older_drafts_say_nothing():
    schema = {"$ref": "#/definitions/a", "minimum": 5, "definitions": {"a": INTEGER}}
    assert found(schema) == ["/minimum"]
    for number in (3, 4, 6, 7):
        assert found({"$schema": f"http://json-schema.org/draft-0{number}/schema#", **schema}) == []


def test_references_are_read_as_both_versions_of_xgrammar_do():
    parts = {"a~1b": strings(), "a/b": arrays(uniqueItems=True), "l": [INTEGER, arrays(uniqueItems=True)]}
    refs = {"#/$defs/a~1b": ["/$ref", "/$defs/a~1b/uniqueItems"], "#/$defs/l/1": ["/$defs/l/1/uniqueItems"]}
    refs |= {"#/$defs//a~1b": ["/$ref"], "#/%24defs/a~1b": ["/$defs/a~1b/uniqueItems"], "#/l/2": ["/$ref"]}
    assert {ref: found({"$ref": ref, "$defs": parts}) for ref in refs} == refs


@pytest.mark.parametrize(
    ("draft", "schema", "instance", "pointer"),
    [
        (jsonschema.Draft4Validator, {"oneOf": [{"const": 1}, strings()]}, "a", "/oneOf"),
        (jsonschema.Draft4Validator,
         {"oneOf": [objects(properties={"k": {"const": k}}, required=["k"]) for k in "ab"]}, {"k": "a"},
         "/oneOf"),
        (jsonschema.Draft7Validator, arrays(contains=INTEGER, minContains=0), [], "/contains"),
    ],
)  # fmt: skip
def test_keywords_have_no_meaning_in_drafts_without_them(
    draft: Any, schema: Any, instance: Any, pointer: str
):
    old = {"$schema": draft.META_SCHEMA["$schema"], **schema}
    assert takes(compile_plain(old), write(instance)) and not draft(old).is_valid(instance)
    assert found(old) == [pointer] and pointer not in found(schema)


PATTERNS = {
    True: ["(a$|b)c", "a|b^", r"[\^$]^", r"[^\s]", r"a\Z", "(?i)a", "a++", 'a"', '["]', "[\\x00-\\x1f]",
           r"\\", "é", "\\", "^(ba+)?$", "c(ba*)??c", "^(b(a+))?$", "(c|ba{2,})?", "(ba+c*$)?", "(a{2,})?"],
    False: ["^a$", "^(a|^b)$", "(^a$)|(^b$)", "(a|$)", r"[\^$]*\$", r"\s[^a]\/\.", "(?:a)(?<n>b)", "a+?",
            "[\\x00- ]", '[^"]', "(((", "[a",
            "^(a+)?$", "(ba+c)?", "(ba?)?", "(ba+){0,1}", "(ba+)*", "([a-z]{1,9}|b)?", "b+", "(ba{2})?"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "has_gap"), [(pattern, has) for has, patterns in PATTERNS.items() for pattern in patterns]
)
def test_gaps_of_patterns(pattern: str, has_gap: bool):
    assert bool(pattern_gap(pattern)) == has_gap


def test_what_patterns_begin_with():
    patterns = {"^ab": "ab", "^ab*": "a", "ab": "", "^a|b": "", r"^\.x-[a]": ".x-", "^(a)": "", "^ab+": "ab"}
    assert {pattern: literal_prefix(pattern) for pattern in patterns} == patterns


def explained(schema: Any, instances: list[tuple[Any, bool]], strict_mode: bool) -> set[tuple[bool, bool]]:
    """Check that what XGrammar accepts is valid, unless something is relaxed; and that what is valid it
    accepts, unless something is narrowed.

    Args:
        schema: a schema that XGrammar may refuse.
        instances: each with whether it is valid.
        strict_mode: XGrammar's option.

    Returns:
        the pairs of whether an instance is valid, and whether it is taken.
    """
    try:
        compiled = compile_plain(schema, strict_mode=strict_mode)
    except RuntimeError:
        return set()
    differences = find_differences(json.dumps(schema), strict_mode=strict_mode)
    seen = set()
    for instance, is_valid in instances:
        seen.add((is_valid, is_taken := takes(compiled, write(instance))))
        assert is_valid == is_taken or (differences.relaxed if is_taken else differences.narrowed), instance
    return seen


@pytest.mark.parametrize("block", range(1, 5))
def test_every_difference_from_what_is_valid_is_explained(block: int) -> None:
    compared = 0
    for seed in range(1000 * block, 1000 * block + 300):
        chance = random.Random(seed)
        schema = random_schema(chance, 1 + seed % 3)
        validator = jsonschema.Draft202012Validator(schema)
        instances = [random_instance(chance, 2) for _ in range(12)]
        with contextlib.suppress(RecursionError):  # jsonschema follows references without end
            verdicts = [(one, validator.is_valid(one)) for one in instances]
            compared += bool(explained(schema, verdicts, strict_mode=chance.random() < 0.5))
    assert compared > 200


@pytest.mark.slow
@pytest.mark.parametrize("strict_mode", [False, True])
def test_instances_of_the_corpus_are_explained(corpora, strict_mode: bool):
    seen = set()
    for file in sorted((corpora / "schemas" / "dev").glob("*.json")):
        content = json.loads(file.read_text(encoding="utf-8"))
        instances = [(test["data"], test["valid"]) for test in content["tests"]]
        seen |= explained(content["schema"], instances, strict_mode)
    assert len(seen) == 4


def test_large_and_deep_schemas_are_listed_in_linear_time():
    began = time.process_time()
    deep: Any = arrays(uniqueItems=True)
    for _ in range(300):
        deep = arrays(items=deep)
    assert found(deep) == ["/items" * 300 + "/uniqueItems"]
    names = [f"p{number}" for number in range(1, 5000)]
    any_of_first = {"anyOf": [{"$ref": "#/properties/p0"}], "type": "array"}
    wide = objects(properties={"p0": {}, **dict.fromkeys(names, any_of_first)})
    assert found(wide) == [f"/properties/{name}/type" for name in names]
    large = {"oneOf": [{"enum": list(range(100_000))}, {"enum": ["a"]}], "type": ["integer", "string"]}
    assert found(large) == []
    letters = "".join(map(chr, range(0x4E00, 0x9E00))) * 10
    assert found(strings(pattern=f"^[{letters}]$")) == ["/pattern"]
    options = {"oneOf": [{"$ref": "#/$defs/large"}, {"type": "null"}]}
    of_refs = objects(properties=dict.fromkeys(names[:1000], options))
    of_refs["$defs"] = {"large": {"enum": list(map(str, range(50_000)))}}
    assert "/properties/p1/oneOf" not in found(of_refs)
    same_hash = [number * (2**61 - 1) for number in range(10, 20_000)]
    assert found({"oneOf": [{"enum": same_hash}, strings()]}) == ["/oneOf/0/enum"]
    far = {"$ref": "#" + "/" * 300_000 + "$defs/x"}
    of_far = objects(properties={name: {"$ref": "#/$defs/far", "minLength": 1} for name in names})
    of_far["$defs"] = {"far": far, "x": strings()}
    assert len(found(of_far)) == 5000
    text = '{"items":' * 10_000 + "{}" + "}" * 10_000
    assert len(find_differences(text).relaxed) <= 1  # Python's reader may refuse it, and says so
    assert time.process_time() - began < 15


def test_pointers_that_would_take_much_memory_are_left_out():
    inner = objects(properties={f"k{number}": {"minimum": 1} for number in range(5000)})
    differences = find_differences(json.dumps(objects(properties={"a" * 10_000: inner})))
    assert sum(len(one.pointer) for one in differences.relaxed) < 5_000_000
    assert differences.relaxed[-1].keyword == "" and "more places" in differences.relaxed[-1].reason


def test_names_that_look_like_several_members_are_listed():
    def closed(**more: Any) -> dict[str, Any]:
        return objects(additionalProperties=False, description='a "name":', **more)

    first = closed(properties={"x": True, "y": strings()})
    schema = closed(properties={"p": first, "q": closed(properties={'x":true,"y': strings()})})
    assert takes(compile_plain(schema), '{"q":{"x":1,"y":"a"}}') == CONFUSES_PARTS  # takes q for p
    assert found(schema) == [""]
    assert found(closed(properties={"p": first, 'q"': {}})) == []


def test_numbers_beyond_doubles_are_compared_as_they_are_written():
    """XGrammar refuses them, but a file may contain such a schema."""
    large = 10**400
    assert found({"const": 3 * large, "multipleOf": large}) == ["/const"]
    assert found({"const": large, "multipleOf": 3}) == ["/const", "/multipleOf"]
    assert found(INTEGER | {"multipleOf": large}) == ["/multipleOf"]
    assert find_differences('{"const": 1e999, "multipleOf": 3}').relaxed[0].keyword == "multipleOf"


def test_malformed_keywords_that_xgrammar_does_not_read_do_no_harm():
    generator = random.Random(5)
    wrong = [None, True, 3, "x", [], [1], {}, {"a": 1}]
    keywords = [
        *objects(), "required", "properties", "anyOf", "if", "then", "minimum", "maxLength", "contains",
        "multipleOf", "dependentSchemas", "allOf", "items", "enum", "$id", "uniqueItems", "maxItems",
    ]  # fmt: skip
    taken = 0
    for _ in range(300):
        schema = {"$ref": "#/$defs/a", "$defs": {"a": strings()}}
        schema.update({keyword: generator.choice(wrong) for keyword in generator.sample(keywords, 5)})
        try:
            compile_plain(schema)
        except RuntimeError:
            continue
        taken += 1
        found(schema)
    assert taken > 100


@pytest.mark.parametrize("schema", ['{"enum":5}', '{"type":"object","properties":5}', '{"minimum":'])
def test_malformed_schemas_which_a_file_may_contain_are_called_unreadable(schema: str):
    (only,) = find_differences(schema).relaxed
    assert only.keyword == "" and "unknown" in only.reason


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    return GrammarCompiler(bytes_info(), strategy="engine")


def test_the_compiler_tells_and_refuses(compiler):
    loose = arrays(uniqueItems=True, contains=INTEGER)
    compiled = compiler.compile_json_schema(loose)
    assert [one.keyword for one in compiled.relaxed] == ["uniqueItems", "contains"]
    assert all(one.reason for one in compiled.relaxed)
    with pytest.raises(GrammarError, match=r"uniqueItems at /uniqueItems.*contains.*strict=False"):
        compiler.compile_json_schema(loose, strict=True)
    assert compiler.compile_json_schema(loose) is compiled
    assert compiler.compile_json_schema(arrays(), strict=True).relaxed == ()


def test_model_classes_and_other_grammars(compiler):
    class Model(pydantic.BaseModel):
        tags: set[str]

    (only,) = compiler.compile_json_schema(Model).relaxed
    assert only.pointer == "/properties/tags/uniqueItems"
    other: CompiledGrammar = compiler.compile_regex("a")
    assert other.relaxed == () and other.schema is None
