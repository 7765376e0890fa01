"""Formats with limits: a text beyond a limit neither has the format nor lacks it; lists are exact. Formats
that other texts match, too, are named."""

from __future__ import annotations

from typing import Any

import pytest

from hybrid import HybridError
from hybrid.json_schema import SchemaRefused, grammar_of_schema
from hybrid.json_schema.languages.automaton import difference
from hybrid.json_schema.languages.formats import FORMATS, format_language, has_format, wider_language
from tests.test_json_schema_meaning import compiled_bytes, written

HOST = ".".join("abcdefghijklm")
"""A host name with more labels than `hostname` allows."""


def texts(schema: Any, *values: Any) -> list[bool]:
    instances = grammar_of_schema(schema, {}).instances
    return [instances.text(value) is not None for value in values]


HOSTS = ("a.b", HOST, "a b")


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"format": "hostname"}, [True, False, False]),
        ({"not": {"format": "hostname"}}, [False, False, True]),
        ({"not": {"not": {"format": "hostname"}}}, [True, False, False]),
        ({"oneOf": [{"format": "hostname"}, {"format": "ipv4"}]}, [True, False, False]),
        ({"oneOf": [{"format": "hostname"}, {"pattern": "[a-z ]"}]}, [False, False, True]),
        ({"not": {"oneOf": [{"format": "hostname"}, {"pattern": "[a-z ]"}]}}, [True, False, False]),
        ({"if": {"format": "hostname"}, "then": False}, [False, False, True]),
        ({"enum": list(HOSTS), "format": "hostname"}, [True, True, False]),
        ({"enum": list(HOSTS), "not": {"format": "hostname"}}, [False, False, True]),
    ],
)
def test_a_text_beyond_the_limits_of_a_format_neither_has_it_nor_lacks_it(
    schema: Any, written: list[bool]
) -> None:
    assert texts(schema, *HOSTS) == written
    of_items = {"items": schema, "contains": schema}
    assert texts(of_items, *([host] for host in HOSTS)) == written


@pytest.mark.parametrize("negated", [False, True])
def test_keys_beyond_the_limits_of_a_format(negated: bool) -> None:
    names = {"propertyNames": {"format": "hostname"}}
    found = texts({"not": names} if negated else names, *({host: 1} for host in HOSTS))
    assert found == [not negated, False, negated]
    named = {"properties": {HOST: {}}, "propertyNames": {"format": "hostname"}}
    assert texts(named, {HOST: 1}) == [True]


def test_leap_seconds_that_cannot_be_written_are_not_written_where_they_are_forbidden() -> None:
    values = ["23:59:60Z", "12:00:60+12:01", "11:58:60.5-12:01", "12:00:60+12:02", "x"]
    assert [has_format("time", value) for value in values] == [True, True, True, False, False]
    assert texts({"not": {"format": "time"}}, *values) == [False, False, False, False, True]
    assert texts({"enum": values, "not": {"format": "time"}}, *values) == [False, False, False, True, True]
    assert has_format("date-time", "2020-01-01T12:00:60+12:01")


def test_a_pointer_with_an_index_that_is_moved() -> None:
    """Only the newer drafts of relative JSON pointers have them."""
    values = ("0", "0+1/a", "1-1#", "0+0", "+1/a")
    assert texts({"format": "relative-json-pointer"}, *values) == [True, False, False, False, False]
    assert texts({"not": {"format": "relative-json-pointer"}}, *values) == [False, False, False, True, True]


def test_a_text_beyond_a_limit_is_in_no_other_case() -> None:
    """What `a` decides was split into cases, of which one seemed to be empty: the other one had all texts."""
    beyond = {"allOf": [{"format": "hostname"}, {"pattern": "^([a-z][.]){12}"}]}
    schema = {
        "properties": {"a": {"type": "string"}, "b": {}, "c": {}},
        "oneOf": [{"properties": {"a": beyond}, "required": ["b"]}, {"required": ["c"]}],
    }
    host = {"a": HOST, "b": 1}
    assert texts(schema, host, {"a": HOST, "c": 1}, {"a": "x", "c": 1}) == [False, False, True]
    with pytest.raises(SchemaRefused, match="no valid instance"):
        grammar_of_schema(beyond | {"type": "string"}, {})
    formats = ("date", "email", "hostname", "ipv4", "uri", "idn-hostname")
    branches = [{"properties": {"a": {"type": "string", "format": name}, "b": {"const": name}},
                 "required": ["a", "b"]} for name in formats]  # fmt: skip
    assert texts({"oneOf": branches}, {"a": "x.y", "b": "hostname"}, {"a": "x", "b": "ipv4"}) == [True, False]


@pytest.mark.parametrize("least", [40, 100, 253])
def test_host_names_under_a_great_least_length(least: int) -> None:
    schema = {"type": "string", "format": "hostname", "minLength": least}
    hosts = [".".join(["a" * 40] * n)[:length] for n in (3, 7) for length in (39, 100, 253, 254)]
    expected = [least <= len(host) <= 253 for host in hosts]
    assert texts(schema, *hosts) == expected
    assert texts({"not": schema}, *hosts) == [not one for one in expected]


@pytest.mark.parametrize("name", sorted(FORMATS))
@pytest.mark.parametrize("bounds", [(False, None), (True, None), (True, 20), (True, 1024)])
def test_the_wider_language_has_all_texts_of_a_format(name: str, bounds: tuple[bool, int | None]) -> None:
    narrow, wide = format_language(name, *bounds), wider_language(name)
    assert narrow is not None
    assert difference(narrow, wide, 20_000).is_empty or (
        name in ("hostname", "idn-hostname") and bounds[1] == 20
    )


def test_a_greatest_length_that_no_text_exceeds_splits_no_other_language() -> None:
    """The second branch was split at 2,000 characters, which took too many states."""
    for branch in ({"maxLength": 2000, "format": "date"}, {"maxLength": 2000, "pattern": "^[0-9]{3}$"}):
        long_uri, short_text = f"a:{'b' * 3000}", "2020-01-01" if "format" in branch else "123"
        schema = {"anyOf": [branch, {"format": "uri"}]}
        assert texts(schema, long_uri, short_text, "x") == [True, True, False]
    mail = {"format": "email", "maxLength": 400}  # its language has fewer texts than the format
    long_mail = f"a@{'.'.join(['b' * 50] * 9)}"
    assert texts({"type": "string", "not": mail}, long_mail, "a@b", "x") == [True, False, True]


def test_a_format_that_is_no_regular_language_is_named() -> None:
    compiled = compiled_bytes({"type": "string", "format": "regex"})
    assert [one.keyword for one in compiled.relaxed] == ["format"]
    assert written(compiled, '"["')
    with pytest.raises(HybridError, match=r"^the grammar does not enforce .*: format at the root \(.*no gr"):
        compiled_bytes({"type": "string", "format": "regex"}, strict=True)


@pytest.mark.parametrize(("name", "text"), [("idn-hostname", "\u2603.com"), ("idn-email", "a@\u2603.com")])
def test_formats_that_also_allow_symbols_are_named(name: str, text: str) -> None:
    schema = {"type": "array", "items": {"type": "string", "format": name}}
    compiled = compiled_bytes(schema)
    assert [(one.pointer, one.keyword) for one in compiled.relaxed] == [("/items", "format")]
    assert "RFC 5892" in compiled.relaxed[0].reason and written(compiled, f'["{text}"]')
    with pytest.raises(HybridError, match="RFC 5892"):
        compiled_bytes(schema, strict=True)
    assert compiled_bytes(schema, assert_formats=False, strict=True).relaxed == ()


REGEX = {"format": "regex"}
TWO = {"type": "array", "minItems": 2}


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"not": REGEX}, "/not"),
        ({"oneOf": [{"type": "string"}, {"type": "string", **REGEX}]}, "/oneOf/1"),
        ({"prefixItems": [dict(REGEX), {"not": REGEX}], **TWO}, "/prefixItems/1/not"),
        ({"const": "\u2603.com", "not": {"format": "idn-hostname"}}, "/not"),
        ({"type": "string", "minLength": 2, "maxLength": 1, **REGEX}, None),
        ({"const": " ", "format": "idn-hostname"}, None),
    ],
)
@pytest.mark.parametrize("relax", [False, True])
def test_a_negated_format_that_is_not_checked_is_named(schema: Any, place: str | None, relax: bool) -> None:
    """The schema was said to have no valid instance, though a text without the format may be one."""
    with pytest.raises(SchemaRefused, match="no valid" if place is None else "inside a negation") as caught:
        grammar_of_schema(schema, relax=relax)
    named = ("unsatisfiable", "", "") if place is None else ("needed", "format", place)
    assert (caught.value.kind, caught.value.keyword, caught.value.pointer) == named
