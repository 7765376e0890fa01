"""Laws of JSON Schema's own meaning, on random schemas over all keywords, judged by the jsonschema package.

What: an instance has a text if and only if it is valid; that text is accepted, and texts of random walks are
valid; no walk meets a dead end; masks equal XGrammar's `accept_token` over the same grammar as EBNF. The same
where items or keys must not be repeated, often under conditions.
Limits: numbers are compared only if floats can distinguish them.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
import xgrammar

from hybrid import CompiledGrammar, GrammarCompiler, GrammarMatcher
from hybrid.json_schema import SchemaRefused
from hybrid.testing.mask_comparison import compare_along
from tests.random_schemas import judged_grammar, random_instance, random_schema
from tests.robustness.schema_walks import VOCABULARY, Found, Walk
from tests.test_json_schema_meaning import OPEN
from tests.test_uniqueness import ends, random_value

Drawn = tuple[Any, list[Any], Any, list[bool]]
"""A schema, instances, the grammar and the verdicts."""

CONDITIONS = ("not", "oneOf", "anyOf", "if")
NOT_REPEATED = {
    "array": (*["uniqueItems"] * 3, "items", "items", "minItems", "maxItems", "contains", *CONDITIONS),
    "object": (
        *["minProperties"] * 2, "maxProperties", "propertyNames", "additionalProperties", "patternProperties",
        "properties", *CONDITIONS,
    ),
}  # fmt: skip
"""Keywords of schemas in which items or keys must not be repeated."""


def drawn(seed: int, kind: str = "any") -> Drawn | None:
    """Draw a schema and instances, and judge them. `kind` is one of `NOT_REPEATED`, or any schema."""
    chance = random.Random(seed)
    if kind == "any":
        schema, draw_value = random_schema(chance, 3), random_instance
    else:
        schema, draw_value = (
            {"type": kind, "allOf": [random_schema(chance, 3, NOT_REPEATED[kind])]},
            random_value,
        )
    instances = [draw_value(chance, 3) for _ in range(40)]
    found = judged_grammar(schema, instances)
    if found is None or (kind != "any" and found[0].places is None):
        return None
    return schema, instances, *found


@pytest.mark.parametrize("block", range(8))
def test_an_instance_has_a_text_if_and_only_if_it_is_valid(block: int) -> None:
    assert sum(drawn(1000 * block + i) is not None for i in range(40)) >= 15


def compiled_from(seeds: range, kind: str = "any") -> Iterator[tuple[Drawn, CompiledGrammar]]:
    """Yield what is drawn from seeds with the compiled schema, for each schema that is not refused."""
    compiler = GrammarCompiler(VOCABULARY, semantics="json-schema")
    for found in filter(None, (drawn(seed, kind) for seed in seeds)):
        with contextlib.suppress(SchemaRefused):
            yield found, compiler.compile_json_schema(found[0], **OPEN)


@pytest.mark.parametrize("block", range(4))
@pytest.mark.parametrize(("kind", "count"), [("any", 12), ("array", 17), ("object", 8)])
def test_texts_are_accepted_and_walks_are_valid(kind: str, count: int, block: int) -> None:
    chance, counts, first = random.Random(block), Found(), 100_000 * (block + 1)
    for (schema, instances, grammar, verdicts), compiled in compiled_from(range(first, first + count), kind):
        for instance, verdict in zip(instances, verdicts, strict=True):
            text = grammar.instances.text(instance) or json.dumps(instance)
            assert ends(GrammarMatcher(compiled), text) == verdict, (schema, text)
        walk = Walk(compiled, schema, chance, counts, most_steps=150)
        for _ in range(3):
            assert walk.run() == "", (schema, walk.text)
    assert counts.judged >= (10 if kind == "any" else 3)


@pytest.mark.parametrize("block", range(3))
def test_masks_are_those_of_xgrammar_over_the_same_grammar(block: int) -> None:
    plain = xgrammar.GrammarCompiler(VOCABULARY.tokenizer_info, cache_enabled=False)
    first = 900_000 + 100 * block
    for (schema, instances, grammar, verdicts), compiled in compiled_from(range(first, first + 6)):
        if grammar.places is not None:
            continue  # the grammar alone allows repeated items and keys
        engine = plain.compile_grammar(grammar.xgrammar)
        valid = [one for one, verdict in zip(instances, verdicts, strict=True) if verdict][:3]
        for text in map(grammar.instances.text, valid):
            found = compare_along(compiled, engine, text.encode())
            assert found.exact and found.complete, (schema, text, found)
