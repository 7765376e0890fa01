"""Many grammars at once: results in order, errors raised or returned.

What: `GrammarCompiler.compile_many`.
When: after any change of `hybrid.api.parallel`.
Limits: how much faster threads are is measured, not tested (docs/artifacts.md).
"""

from __future__ import annotations

from typing import Any

import joblib
import pytest
import xgrammar

from equivalence import GrammarError, HybridError, Vocabulary
from hybrid import CompiledGrammar, GrammarCompiler, SchemaRefused
from hybrid.api.parallel import Source
from hybrid.files import to_bytes

TOKENS = [*(bytes([byte]) for byte in range(256)), b'":', b'"}', b"ab", b""]
VOCABULARY = Vocabulary.from_bytes(TOKENS, stop_token_ids=[len(TOKENS) - 1])

GOOD: list[Any] = [
    'root ::= "a" | "b" root',
    xgrammar.Grammar.from_ebnf("root ::= [0-9]+"),
    ("json_schema", {"type": "boolean"}),
    Source("json_schema", '{"type": "object", "not": {"required": ["a"]}}', {"strict_mode": False}),
    ("regex", "[a-f]+"),
    ("builtin_json",),
    ("grammar", 'start ::= "x"', {"root_rule_name": "start"}),
    ("grammar", xgrammar.Grammar.from_ebnf('root ::= "y"')),
    ("structural_tag", {"type": "structural_tag", "format": {"type": "const_string", "value": "a"}}),
]
BAD = ("regex", "(((")


def compiler(strategy: str = "classifier") -> GrammarCompiler:
    return GrammarCompiler(VOCABULARY, strategy=strategy)


@pytest.mark.parametrize("strategy", ["classifier", "representatives", "engine", "auto"])
def test_threads_give_what_one_thread_gives(strategy: str) -> None:
    alone = compiler(strategy).compile_many(GOOD)
    together = compiler(strategy).compile_many(GOOD, 2)
    assert [str(one.grammar) for one in together] == [str(one.grammar) for one in alone]
    assert [one.strategy for one in together] == [one.strategy for one in alone]
    if strategy == "classifier":
        assert [to_bytes(one) for one in together] == [to_bytes(one) for one in alone]


def test_no_grammars_are_no_work() -> None:
    assert compiler().compile_many([], 2) == []


def test_threads_use_the_memory_cache() -> None:
    one = compiler()
    (compiled,) = one.compile_many([GOOD[0]])
    assert one.compile_grammar(GOOD[0]) is compiled


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_errors_are_raised_or_returned(backend: str) -> None:
    """Processes are not used, whatever joblib is told."""
    with joblib.parallel_config(backend=backend):
        found = compiler().compile_many([GOOD[0], BAD, GOOD[4]], 2, on_error="return")
        assert [isinstance(one, CompiledGrammar) for one in found] == [True, False, True]
        assert type(found[1]) is GrammarError
        with pytest.raises(GrammarError, match=r"grammars\[1\]: XGrammar refuses the regex"):
            compiler().compile_many([GOOD[0], BAD, GOOD[4]], 2)


def test_a_refused_schema_is_numbered() -> None:
    with pytest.raises(
        SchemaRefused, match=r"grammars\[0\]: the keyword 'type' at /properties/a must"
    ) as caught:
        compiler().compile_many(
            [("json_schema", {"properties": {"a": {"type": 3}}}, {"semantics": "json-schema"})]
        )
    assert caught.value.pointer == "/properties/a"


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([5], r"grammars\[0\] must be EBNF text, .*, but is 5"),
        (["root ::= [a]", ("yaml", "a")], r"grammars\[1\] must be EBNF text"),
        ([("regex", "a", 5)], "must be EBNF text"),
        ([()], "must be EBNF text"),
    ],
)
def test_what_is_no_grammar_is_named(items: list[Any], message: str) -> None:
    with pytest.raises(HybridError, match=message):
        compiler().compile_many(items)


def test_an_unknown_answer_to_errors_is_named() -> None:
    with pytest.raises(HybridError, match="must be 'raise' or 'return'"):
        compiler().compile_many([], on_error="ignore")


def test_progress_is_told_in_order() -> None:
    seen: list[tuple[int, int]] = []
    compiler().compile_many(GOOD[:4], 2, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
