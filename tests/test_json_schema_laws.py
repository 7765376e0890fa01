"""Laws of JSON Schema's own meaning, on random schemas over all keywords, judged by the jsonschema package.

What: an instance has a text if and only if it is valid; that text is accepted, and texts of random walks are
valid; no walk meets a dead end; masks equal XGrammar's `accept_token` over the same grammar as EBNF.
Limits: numbers are compared only if floats can distinguish them.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import xgrammar

from hybrid import CompiledGrammar, GrammarCompiler, GrammarMatcher
from hybrid.json_schema import SchemaRefused, grammar_of_schema
from tests.matchers import allowed
from tests.random_schemas import random_instance, random_schema
from tests.test_json_schema_meaning import BYTES, OPEN, STOP, written

CLOSING = (0x22, 0x5D, 0x7D, STOP)
"""Tokens that close what is open in a text."""


def drawn(seed: int) -> tuple[Any, jsonschema.protocols.Validator, list[Any], list[bool]] | None:
    """A schema, its validator, and instances with their verdicts; None if the validator gives up."""
    chance = random.Random(seed)
    schema = random_schema(chance, 3)
    judge = jsonschema.Draft202012Validator(schema)
    instances = [random_instance(chance, 3) for _ in range(40)]
    try:
        return schema, judge, instances, [judge.is_valid(one) for one in instances]
    except RecursionError:
        return None


def check_instances(seed: int) -> bool:
    """Assert that each instance has a text if and only if it is valid; return whether the schema was
    compiled."""
    found = drawn(seed)
    if found is None:
        return False
    schema, _, instances, verdicts = found
    try:
        grammar = grammar_of_schema(schema, OPEN)
    except SchemaRefused as error:
        if error.kind == "unsatisfiable" and any(verdicts):
            raise
        return False
    for instance, verdict in zip(instances, verdicts, strict=True):
        assert (grammar.instances.text(instance) is not None) == verdict, (seed, schema, instance)
    return True


@pytest.mark.parametrize("block", range(8))
def test_an_instance_has_a_text_if_and_only_if_it_is_valid(block: int) -> None:
    assert sum(check_instances(1000 * block + i) for i in range(40)) >= 15


def walked(compiled: CompiledGrammar, chance: random.Random) -> bytes | None:
    """A random text along masks, or None if it grows too long."""
    matcher, text = GrammarMatcher(compiled), bytearray()
    for _ in range(150):
        ids = allowed(matcher, BYTES.size)[1]
        assert ids, f"a dead end behind {bytes(text)!r}"
        closing = [one for one in ids if one in CLOSING]
        token = chance.choice(closing if closing and chance.random() < 0.6 else ids)
        assert matcher.accept_token(token)
        if token == STOP:
            return bytes(text)
        text.append(token)
    return None


def compiled_from(seeds: range) -> Iterator[tuple[Any, Any, list[Any], list[bool], CompiledGrammar]]:
    """Yield the schemas among some drawn ones that are compiled, with what belongs to them."""
    compiler = GrammarCompiler(BYTES, semantics="json-schema")
    for seed in seeds:
        found = drawn(seed)
        with contextlib.suppress(SchemaRefused):
            if found is not None:
                yield (*found, compiler.compile_json_schema(found[0], **OPEN))


@pytest.mark.parametrize("block", range(4))
def test_texts_are_accepted_and_walks_are_valid(block: int) -> None:
    chance, ended, first = random.Random(block), 0, 100_000 * (block + 1)
    for schema, judge, instances, verdicts, compiled in compiled_from(range(first, first + 12)):
        texts = grammar_of_schema(schema, OPEN).instances
        for instance, verdict in zip(instances[:15], verdicts, strict=False):
            text = texts.text(instance) or json.dumps(instance)
            assert written(compiled, text) == verdict, (schema, text)
        for _ in range(3):
            text_walked = walked(compiled, chance)
            if text_walked is None:
                continue
            value = json.loads(text_walked)
            if json.loads(json.dumps(value)) == value and not _is_long_number(text_walked):
                ended += 1
                assert judge.is_valid(value), (schema, text_walked)
    assert ended >= 10


def _is_long_number(text: bytes) -> bool:
    """Whether a number has more digits than a float can distinguish."""
    digits = "".join(chr(one) if chr(one).isdigit() else " " for one in text.replace(b".", b"").lower())
    return any(len(one) > 15 for one in digits.split()) or b"e" in text.lower()


@pytest.mark.parametrize("block", range(3))
def test_masks_are_those_of_xgrammar_over_the_same_grammar(block: int) -> None:
    info = BYTES.tokenizer_info
    first = 900_000 + 100 * block
    for schema, _, instances, verdicts, compiled in compiled_from(range(first, first + 6)):
        grammar = grammar_of_schema(schema, OPEN)
        if grammar.places is not None:
            continue  # the grammar alone allows repeated items and keys
        engine = xgrammar.GrammarCompiler(info, cache_enabled=False).compile_grammar(grammar.xgrammar)
        valid = [one for one, verdict in zip(instances, verdicts, strict=True) if verdict][:3]
        for text in (grammar.instances.text(one) for one in valid):
            ours, theirs = GrammarMatcher(compiled), xgrammar.GrammarMatcher(engine)
            for byte in (text or "").encode():
                assert allowed(ours, BYTES.size)[1] == allowed(theirs, BYTES.size)[1], (schema, text)
                assert ours.accept_token(byte)
                assert theirs.accept_token(byte)
