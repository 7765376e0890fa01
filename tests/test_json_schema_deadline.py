"""The time limit, and the memory, of schemas with long lists."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import pytest
import xgrammar

from equivalence import BudgetExceeded
from equivalence.deadline import Deadline
from hybrid.json_schema import Bounds, SchemaRefused, grammar_of_schema
from tests.test_forged_files import allocating_at_most
from tests.test_json_schema_meaning import OPEN


@pytest.mark.parametrize(
    "schema",
    [
        '{"enum": [' + ",".join(f"{number}e-390" for number in range(1, 10_000)) + "]}",
        {"allOf": [{"$comment": "x"}] * 200_000},
        {"enum": [list(range(number)) for number in range(1000)]},
        {"anyOf": [{"const": f"s{number}"} for number in range(100_000)]},
    ],
    ids=["small numbers", "comments", "arrays", "texts"],
)
def test_reading_long_lists_looks_at_the_deadline(schema: Any) -> None:
    """These took 2 to 8 s more than they were given."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    began = time.process_time()
    with pytest.raises(BudgetExceeded):
        grammar_of_schema(text, OPEN, deadline=Deadline(0.2))
    assert time.process_time() - began < 1.5


def test_writing_the_text_of_a_grammar_looks_at_the_deadline() -> None:
    """10,000 keys took 3 s of CPU time with a limit of 1 s: XGrammar's parser had a whole limit again."""
    given: list[Any] = []

    def convert(text: str, before: Deadline | None) -> xgrammar.Grammar:
        given.append(before)
        return xgrammar.Grammar.from_ebnf(text)

    deadline = Deadline(60)
    schema = {"properties": {"a": {"type": "string"}}}
    assert grammar_of_schema(schema, deadline=deadline, convert=convert).xgrammar is not None
    made = grammar_of_schema(schema, deadline=deadline, convert=convert)
    deadline.cancel()
    with pytest.raises(BudgetExceeded):
        _ = made.ebnf
    made.forget()
    assert made.xgrammar is not None
    assert given == [deadline, None]


def test_long_arrays_that_must_be_unique_in_some_cases_take_linear_time() -> None:
    """11,000 items took 12 s, whatever the limit."""
    items = [{"type": "integer", "minimum": number % 50} for number in range(11_000)]
    rest = [{"uniqueItems": True}, {"items": {"type": "string"}}]
    schema = {"type": "array", "prefixItems": items, "minItems": len(items), "anyOf": rest}
    began = time.process_time()
    grammar_of_schema(schema, bounds=Bounds(states=12_000), deadline=Deadline(60))
    assert time.process_time() - began < 6


def test_finding_new_items_looks_at_the_deadline() -> None:
    """This took 5 s more than it was given."""
    n = 4000
    values = {"$defs": {"a": {"enum": [*range(n + 1)]}}, "prefixItems": [{"$ref": "#/$defs/a"}] * n}
    bounds = Bounds(states=n + 10)
    grammar_of_schema(values, bounds=bounds, deadline=Deadline(60))  # what comes before takes no time
    began = time.process_time()
    with pytest.raises(BudgetExceeded):
        grammar_of_schema({**values, "uniqueItems": True}, bounds=bounds, deadline=Deadline(1))
    assert time.process_time() - began < 3


N = 3000
LONG: dict[str, tuple[int, dict[str, Any]]] = {  # the most MiB, and a schema
    "items": (40, {"prefixItems": [{"const": number} for number in range(N)]}),
    "constants": (40, {"const": [*range(N)]}),
    "keys": (120, {"properties": {f"k{k}": {"type": "null"} for k in range(N)}, "minProperties": 1}),
    "anchors": (120, {
        "$defs": {f"d{number}": {"$dynamicAnchor": f"a{number}", "maxItems": number} for number in range(N)},
        "prefixItems": [{"$dynamicRef": f"#a{number}"} for number in range(N)],
    }),
    "ranges": (40, {
        "oneOf": [{"type": "integer", "minimum": 2 * k, "maximum": 2 * k + 1} for k in range(N)],
        "multipleOf": 2,
    }),
    "numbers": (40, {"type": "integer", "oneOf": [{"const": number} for number in range(N)]}),
    "patterns": (40, {"type": "string", "oneOf": [{"pattern": f"^k{number}[a-z]+$"} for number in range(N)]}),
}  # fmt: skip


@pytest.mark.parametrize("name", LONG)
def test_memory_does_not_grow_with_the_square_of_a_list(name: str) -> None:
    """10,000 items took 0.8 GB, 10,000 keys 2 GB, 3,000 anchors as much as they have pairs, and 3,000 ranges
    of numbers 0.8 GB."""
    most, schema = LONG[name]
    with allocating_at_most(most * 2**20), contextlib.suppress(SchemaRefused):
        grammar_of_schema(schema, bounds=Bounds(states=N + 10), deadline=Deadline(60))


def test_long_texts_are_refused_before_they_are_written_for_xgrammar() -> None:
    """A megabyte of text took more than 1 GB."""
    made = grammar_of_schema({"const": "x" * 150_000}, most_bytes=2**21)
    assert made.whole.rows is not None
    with allocating_at_most(20 * 2**20), pytest.raises(BudgetExceeded, match=r"Budget\.bytes"):
        _ = made.ebnf


@pytest.mark.parametrize("repeat", ["{1000}", "{0,1000}"])
def test_repeats_of_groups_with_assertions_look_at_the_deadline(repeat: str) -> None:
    """Hundreds of millions of such groups were written out, whatever the limit."""
    pattern = f"^(?:(?:(?:(?=a)a){repeat}){repeat}){{400}}$"
    began = time.process_time()
    with pytest.raises(BudgetExceeded):
        grammar_of_schema({"pattern": pattern}, OPEN, deadline=Deadline(0.2))
    assert time.process_time() - began < 1.5
