"""Compilers with a cache folder: what the tests of caches ask of it.

What: a compiler over a small vocabulary and a folder, what it found there, and which files there are; `Gate`
holds a computation until it is let go.
When: in ``test_cache*.py`` and other tests that wait for several threads.
Limits: small vocabularies.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
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


class Point(BaseModel):
    x: int


class Writing(GrammarCompiler):
    """A compiler whose calls return when what they compiled is written."""

    def _now(self, request: Any) -> CompiledGrammar:
        compiled = super()._now(request)
        self.settle()
        return compiled


def compiler_in(folder: Path | str, vocabulary: Vocabulary = VOCABULARY, **options: Any) -> GrammarCompiler:
    return Writing(vocabulary, cache_dir=folder, **options)


def disk(compiler: GrammarCompiler) -> tuple[int, int, int]:
    found = compiler.stats()["disk"]
    return found["hits"], found["misses"], found["writes"]


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if ENTRY.fullmatch(path.name))


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


class Gate:
    """Holds compilations up until it is opened, and counts them."""

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
