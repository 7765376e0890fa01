"""Input that an attacker might send to harm a server: a mask or a clear error, and then the next grammar.

What: every kind of `tests.robustness.hostile_schemas` in its large size, and hostile patterns, grammars, tags
and Python objects, each compiled in a forked process with bounded memory that is ended after a generous time.
When: after any change of code between a grammar and its first mask.
Limits: needs fork; a vocabulary of bytes and some short tokens. Other tests check that masks are right.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
from functools import partial
from typing import Any

import pytest

from bench.forked import in_a_fork
from equivalence import BudgetExceeded, HybridError, Vocabulary
from hybrid import Budget, GrammarCompiler, GrammarMatcher
from tests.robustness import hostile_schemas
from tests.robustness.budgets import fill_masks

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

SECONDS, HARD_SECONDS = 0.3, 60.0
"""Seconds of the budget, and after which a case counts as hung; other programs may share the machine."""

TRIES = 20
"""Attempts at the grammar after a hostile one, each with `SECONDS`; a broken compiler fails in all."""

MEMORY = 3 * 2**30
"""Bytes that a case may allocate beyond those at its start."""

WORDS = [b"", b"ab", b'": ', b"}]", b"value", b"  ", b'{"', b"123"]
VOCABULARY = Vocabulary.from_bytes([*(bytes([value]) for value in range(256)), *WORDS], stop_token_ids=[256])


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """Build the trie here once, and not in each forked process."""
    VOCABULARY.trie  # noqa: B018


Input = tuple[str, Any, dict[str, Any]]
"""What is compiled: as what, the source, and options."""


def schema(source: Any, **options: Any) -> Input:
    return "json_schema", source, options


def tag(form: Any) -> Input:
    return "structural_tag", {"type": "structural_tag", "format": form}, {}


def references(count: int, text: str) -> dict[str, Any]:
    defs = {f"d{n}": json.loads(text.replace("BELOW", f"#/$defs/d{n - 1}")) for n in range(1, count + 1)}
    return {"$defs": {"d0": {"type": "integer"}, **defs}, "$ref": f"#/$defs/d{count}"}


def nested(depth: int) -> Any:
    value: Any = {"type": "integer"}
    for _ in range(depth):
        value = {"type": "object", "properties": {"a": value}}
    return value


CYCLIC: dict[str, Any] = {"type": "object"}
CYCLIC["properties"] = {"a": CYCLIC}

REPEATS = "|".join(f"[a-z]{{1,{n + 300}}}" for n in range(50))
ESCAPED = json.dumps(hostile_schemas.counted_properties(2000, 1000, 1500)[1]).replace("minP", "min\\u0050")
STEPS = {f"p{n}": {"type": "integer", "multipleOf": 1024 - n} for n in range(100)}
TWICE = '[{"$ref": "BELOW"}, {"$ref": "BELOW"}]'
CHAIN = [f'r{n} ::= "x" r{n + 1} "y"' for n in range(20_000)]
DOUBLED = [f"r{n} ::= r{n - 1} | r{n - 1} [a-z]" for n in range(1, 41)]
DEEP_TAG = '{"type":"sequence","elements":[' * 10_000 + '{"type":"any_text"}' + "]}" * 10_000
OTHERS: dict[str, Input] = {
    "oneOf doubled 40 times": schema(references(40, f'{{"oneOf": {TWICE}}}')),
    "allOf doubled 40 times": schema(references(40, f'{{"allOf": {TWICE}}}')),
    "lists doubled 40 times": schema(references(40, f'{{"prefixItems": {TWICE}}}'), strict=True),
    "chain of references": schema(references(20_000, '{"$ref": "BELOW"}')),
    "chain of objects": schema(
        references(5000, '{"type": "object", "properties": {"a": {"$ref": "BELOW"}}}')
    ),
    "escaped keyword": schema(ESCAPED),
    "bounds of 300 digits": schema({"type": "integer", "minimum": -(10**300), "maximum": 10**300}),
    "bounds of 4,000 digits": schema({"type": "integer", "maximum": 10**4000, "multipleOf": 7}),
    "bounds without end": schema({"type": "number", "maximum": float("inf")}, strict=True),
    "many steps": schema({"properties": STEPS}),
    "pattern of optional letters": schema({"type": "string", "pattern": "a?" * 5000}),
    "pattern of alternative repeats": schema({"type": "string", "pattern": f"^({REPEATS})$"}),
    "a million items": schema({"type": "array", "minItems": 10**6}, strict=True),
    "dict of depth 10,000": schema(nested(10_000), strict=True),
    "cyclic dict": schema(CYCLIC),
    "not a number": schema({"const": float("nan")}),
    "lone surrogate": schema({"const": "\ud800"}),
    "lone surrogate in text": schema('{"const": "\ud800"}'),
    "groups, deep": ("regex", "(" * 100_000 + "a" + ")" * 100_000, {}),
    "groups, open": ("regex", "(" * 1_000_000, {}),
    "repeats of repeats": ("regex", "(" * 6 + "[^a]" + "){1,1000}" * 6, {}),
    "many alternatives": ("regex", "|".join(f"w{n}" for n in range(100_000)), {}),
    "no text": ("regex", None, {}),
    "deep grammar": ("grammar", "root ::= " + "(" * 20_000 + '"a"' + ")" * 20_000, {}),
    "chain of rules": ("grammar", "\n".join(["root ::= r0", *CHAIN, 'r20000 ::= "a"']), {}),
    "rules doubled 40 times": ("grammar", "\n".join(["root ::= r40", *DOUBLED, 'r0 ::= ""']), {}),
    "ambiguous": ("grammar", 'root ::= root root root | "a" | ""', {}),
    "long text": ("grammar", 'root ::= "' + "x" * 5_000_000 + '"', {}),
    "repeats of repeats, written": (
        "grammar", 'root ::= (([a-z]{1,1000} "x"?){1,1000} [^a]{1,500}){1,1000}', {},
    ),
    "deep tag": ("structural_tag", f'{{"type":"structural_tag","format":{DEEP_TAG}}}', {}),
    "tag of a slow pattern": tag(
        {"type": "json_schema", "json_schema": {"type": "string", "pattern": "^[a-z]{1,20000}$"}}
    ),
    "tag of a set": tag({1}),
}  # fmt: skip


ON_THE_ENGINE_TOO = ("no text", "many steps", "repeats of repeats, written", "ambiguous")


def answered(given: Input, *strategies: str) -> str:
    """What is wrong with the answers to some input; computed in a forked process."""
    with open("/proc/self/statm") as status:
        begun = int(status.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (begun + MEMORY, begun + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for strategy in strategies:
        try:
            with GrammarCompiler(VOCABULARY, strategy=strategy, budget=Budget(seconds=SECONDS)) as compiler:
                message = first_masks(compiler, *given)
                if not 0 < len(message.split(": ", 1)[-1]) <= len(message) < 4000:
                    return f"{strategy}: the message is {message[:2000]!r}"
                if not goes_on(compiler):
                    return f"{strategy}: the compiler does not go on after {message}"
        except BaseException as error:  # noqa: BLE001 - told to who forked
            return f"{strategy}: {type(error).__name__}: {error}"[:2000]
    return ""


def first_masks(compiler: GrammarCompiler, method: str, source: Any, options: dict[str, Any]) -> str:
    """Compile, and fill some masks; return how many tokens the first one allows, or what the error says."""
    try:
        compiled = getattr(compiler, f"compile_{method}")(source, **options)
    except HybridError as error:
        return str(error)
    assert isinstance(compiled.relaxed, tuple)
    return f"{fill_masks(compiled)} tokens"


def goes_on(compiler: GrammarCompiler) -> bool:
    """Whether the next grammar is compiled.

    On a busy machine, starting a new process of the guard may take all the seconds of the budget. The error
    says so, and the previous grammar is not at fault: the call is repeated.
    """
    for _ in range(TRIES):
        with contextlib.suppress(BudgetExceeded):
            return GrammarMatcher(compiler.compile_regex("ab?")).accept_string("ab")
    return False


def check(given: Input, *strategies: str) -> None:
    wrong = in_a_fork(partial(answered, given, *strategies), HARD_SECONDS)
    assert wrong is not None, "it crashed, or did not end"
    assert not wrong, wrong


@pytest.mark.parametrize("kind", hostile_schemas.KINDS, ids=lambda kind: kind[0].__name__)
def test_hostile_schemas(kind: Any) -> None:
    make, _, large = kind
    check(schema(make(*large)[1]), "auto", "engine")


@pytest.mark.parametrize("name", OTHERS)
def test_other_hostile_input(name: str) -> None:
    check(OTHERS[name], "auto", *(["engine"] if name in ON_THE_ENGINE_TOO else []))
