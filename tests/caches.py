"""Helpers for the tests of compilers and caches: a call of every method, cache folders, and a gate.

What: `CALLS` has calls of all methods; a compiler over a small vocabulary and a folder, the entries that it
found there, and the files in the folder; `Gate` holds compilations up until it is opened.
When: in tests of compilers and of caches, and in other tests that wait for several threads.
Limits: small vocabularies.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import xgrammar
from pydantic import BaseModel

from equivalence import Vocabulary
from hybrid import CompiledGrammar, GrammarCompiler
from hybrid.compile.cache import ENTRY
from tests.test_artifact import VOCABULARY

OTHER_VOCABULARY = Vocabulary.from_bytes(
    [*(bytes([byte]) for byte in range(256)), b"ab", b""], stop_token_ids=257
)
REGEX = "(a[bc])+"
LARK = 'start: "a" NUMBER\nNUMBER: /[0-9]+/'


SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
TAG: dict[str, Any] = {
    "type": "structural_tag",
    "format": {
        "type": "tag",
        "begin": "<f>",
        "content": {"type": "json_schema", "json_schema": SCHEMA},
        "end": "</f>",
    },
}


class Point(BaseModel):
    x: int


@dataclass
class Call:
    """A call of a ``compile_`` method, a text that its grammar accepts, and one that it refuses."""

    method: str
    arguments: list[Any]
    inside: str
    outside: str
    options: dict[str, Any] = field(default_factory=dict)

    def on(self, compiler: GrammarCompiler, **more: Any) -> CompiledGrammar:
        return getattr(compiler, f"compile_{self.method}")(*self.arguments, **self.options, **more)

    def later_on(self, compiler: GrammarCompiler, **more: Any) -> Future[CompiledGrammar]:
        return getattr(compiler, f"compile_{self.method}_async")(*self.arguments, **self.options, **more)


ITEMS = [xgrammar.StructuralTagItem(begin="<f>", schema=SCHEMA, end="</f>")]
CALLS = {
    "EBNF": Call("grammar", ['root ::= "a" [bc]+'], "abc", "a"),
    "another root": Call("grammar", ['root ::= "a"\nb ::= "b"'], "b", "a", {"root_rule_name": "b"}),
    "parsed": Call("grammar", [xgrammar.Grammar.from_regex("a+")], "aa", "b"),
    "Lark, parsed": Call("grammar", [xgrammar.Grammar.from_lark('start: "a" /[0-9]/')], "a1", "a"),
    "Lark": Call("lark", [LARK.replace("start", "begin")], "a12", "1", {"start": "begin"}),
    "schema": Call("json_schema", [SCHEMA], '{"a": 1}', '{"a": "1"}'),
    "schema as text": Call("json_schema", [json.dumps(SCHEMA)], '{"a": 1}', "{}"),
    "schema with options": Call(
        "json_schema", [SCHEMA], '{"a":1}', '{"a": 1}', {"any_whitespace": False, "separators": (",", ":")}
    ),
    "beyond ASCII": Call(
        "json_schema", ['{"const": "é"}'], '"é"', "é", {"separators": ("，", "："), "indent": 1}
    ),
    "model": Call("json_schema", [Point], '{"x": 1}', '{"a": 1}'),
    "builtin JSON": Call("builtin_json_grammar", [], '{"b": [1, null]}', "{1}"),
    "regex": Call("regex", ["(ab)+|c"], "abab", "aba"),
    "tag": Call("structural_tag", [TAG], '<f>{"a": 1}</f>', "<f></f>"),
    "tag as text": Call("structural_tag", [json.dumps(TAG)], '<f>{"a": 1}</f>', '{"a": 1}'),
    "tags and triggers": Call("structural_tag", [ITEMS, ["<f"]], 'so <f>{"a": 1}</f> then', "<f>1</f>"),
}


def compiler_in(folder: Path | str, vocabulary: Vocabulary = VOCABULARY, **options: Any) -> GrammarCompiler:
    """A compiler that writes all grammars to a folder."""
    return GrammarCompiler(vocabulary, **{"cache_dir": folder, "strategy": "classifier"} | options)


def disk(compiler: GrammarCompiler) -> tuple[int, int, int]:
    found = compiler.stats()["disk"]
    return found["hits"], found["misses"], found["writes"]


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if ENTRY.fullmatch(path.name))


class Gate:
    """Hold compilations up until the gate is opened, and count them."""

    def __init__(self, compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened, self.reached, self.count = threading.Event(), threading.Event(), 0
        decide, lock = compiler._compilation.decide, threading.Lock()

        def gated(*arguments: Any) -> CompiledGrammar:
            with lock:
                self.count += 1
            self.reached.set()
            assert self.opened.wait(30)
            return decide(*arguments)

        monkeypatch.setattr(compiler._compilation, "decide", gated)


def wait_for(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.005)
