"""What `memory_size_bytes` counts, compared with what Python has allocated.

What: the memory of a compiled grammar before and after something is made of it on request.
When: after a change of what a compiled grammar keeps.
Limits: memory of XGrammar's own objects is not traced.
"""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from equivalence import Vocabulary
from hybrid import CompiledGrammar, GrammarCompiler, GrammarMatcher, files
from hybrid.cli.shipped_grammars import shipped_grammar
from hybrid.lark import LarkGrammar
from tests.matchers import STRATEGIES, mask_of

BYTES = Vocabulary.from_bytes([*(bytes([value]) for value in range(256)), b""], stop_token_ids=256)


@pytest.mark.parametrize("notation", ["schema", "lark"])
def test_what_is_kept_for_explanations_is_counted(notation: str) -> None:
    compiler = GrammarCompiler(BYTES, strategy="classifier", cache_enabled=False)
    properties = {f"name{number}": {"enum": [number, "a"]} for number in range(200)}

    def compiled() -> CompiledGrammar:
        if notation == "schema":
            return compiler.compile_json_schema({"type": "object", "properties": properties})
        return compiler.compile_lark(shipped_grammar("json.lark").text)

    GrammarMatcher(compiled()).explain()  # makes what is made only once
    grammar = compiled()
    mask_of(GrammarMatcher(grammar))
    before = grammar.memory_size_bytes
    tracemalloc.start()
    try:
        GrammarMatcher(grammar).explain()
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held / 2 < grammar.memory_size_bytes - before < 2 * held + 20_000


LONG = "x" * 300_000
SCHEMA = {"description": LONG, "type": "integer"}
FORMAT = {"type": "json_schema", "json_schema": SCHEMA}
CALLS: dict[str, tuple[str, Any]] = {
    "grammar": ("grammar", f'root ::= "1" # {LONG}'),
    "schema": ("json_schema", SCHEMA),
    "exact schema": ("json_schema", SCHEMA),
    "tag": ("structural_tag", {"type": "structural_tag", "format": FORMAT}),
    "lark": ("lark", f'start: "1"  // {LONG}'),
}


@pytest.mark.parametrize("name", CALLS)
def test_texts_that_a_cache_keeps_are_counted(name: str, tmp_path: Path) -> None:
    notation, text = CALLS[name]
    semantics = "json-schema" if name.startswith("exact") else "xgrammar"
    for _ in ("made", "read from a file"):
        compiler = GrammarCompiler(
            BYTES, strategy="classifier", semantics=semantics, cache_dir=tmp_path, cache_limit_bytes=10**7
        )
        compiled: CompiledGrammar = getattr(compiler, f"compile_{notation}")(text)
        assert compiler.get_cache_size_bytes() == compiled.memory_size_bytes > len(LONG)
        compiler.clear_cache()
    assert compiler.stats()["disk"]["hits"] == 1
    if name not in ("grammar", "tag"):  # whose texts the grammars do not have
        compiled.save(tmp_path / "saved")
        assert CompiledGrammar.load(tmp_path / "saved", BYTES).memory_size_bytes > len(LONG)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_rules_that_are_parsed_and_not_used_are_counted(strategy: str) -> None:
    unused = "\n".join(f'unused{number} ::= [a-z] "b" unused{number + 1}' for number in range(2_000))
    text = f'root ::= "a"\n{unused}\nunused2000 ::= "c"'
    compiled = GrammarCompiler(BYTES, strategy=strategy).compile_grammar(text)
    small = GrammarCompiler(BYTES, strategy=strategy).compile_grammar('root ::= "a"')
    assert compiled.memory_size_bytes - small.memory_size_bytes > 3 * len(text)
    if strategy == "classifier":
        again = files.from_bytes(files.to_bytes(compiled), BYTES)
        assert again.memory_size_bytes - small.memory_size_bytes > 2 * len(text)


def test_patterns_that_lark_has_written_out_are_counted() -> None:
    """Each terminal names the next one twice, so the patterns are much longer than the text."""
    compiler = GrammarCompiler(BYTES)
    plain = compiler.compile_lark('start: A0\nA0: "x"')
    names = [f"A{number}: A{number + 1} | A{number + 1}" for number in range(10)]
    text = "\n".join(["start: A0", *names, 'A10: "x"'])
    compiled = compiler.compile_lark(text)
    assert isinstance(compiled.grammar, LarkGrammar)
    written = sum(len(one.pattern) for one in compiled.grammar.terminals)
    assert written > 20 * len(text)
    assert compiled.memory_size_bytes - plain.memory_size_bytes > written
