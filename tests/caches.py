"""Helpers for the tests of caches: compilers with a cache folder, and a gate that holds them up.

What: a compiler over a small vocabulary and a folder, the entries that it found there, and the files in the
folder; `Gate` holds compilations up until it is opened.
When: in ``test_cache*.py`` and in other tests that wait for several threads.
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


def compiler_in(folder: Path | str, vocabulary: Vocabulary = VOCABULARY, **options: Any) -> GrammarCompiler:
    """A compiler that writes all grammars to a folder."""
    return GrammarCompiler(vocabulary, **{"cache_dir": folder, "strategy": "classifier"} | options)


def disk(compiler: GrammarCompiler) -> tuple[int, int, int]:
    found = compiler.stats()["disk"]
    return found["hits"], found["misses"], found["writes"]


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if ENTRY.fullmatch(path.name))


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


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
