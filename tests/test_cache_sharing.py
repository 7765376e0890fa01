"""Simultaneous equal calls, and calls in the background, share one computation, even if a caller is
interrupted.

What: threads that ask for the same grammar; errors and interrupts meanwhile; the ``_async`` methods and their
end.
When: after any change of `hybrid.compile.memory_cache` or of `hybrid.compile.background`.
Limits: small vocabularies; times are measured, not tested (docs/caches.md).
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import xgrammar

from bench.cases import CHECKOUT
from equivalence import GrammarError, HybridError
from hybrid import CompiledGrammar, GrammarCompiler
from tests.caches import LARK, REGEX, Gate, wait_for
from tests.test_artifact import SCHEMA, VOCABULARY


@pytest.mark.parametrize("with_disk", [False, True])
def test_equal_calls_share_one_computation(
    with_disk: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = GrammarCompiler(VOCABULARY, cache_dir=tmp_path if with_disk else None)
    gate = Gate(compiler, monkeypatch)
    with ThreadPoolExecutor(9) as pool:
        futures = [pool.submit(compiler.compile_regex, REGEX) for _ in range(8)]
        assert gate.reached.wait(30)
        other = pool.submit(compiler.compile_regex, "z")
        wait_for(lambda: gate.count == 2)  # the first one does not hold it up
        time.sleep(0.05)
        gate.opened.set()
        assert len({id(future.result()) for future in futures}) == 1 and other.result() is not None
    assert gate.count == 2
    found = compiler.stats()
    assert found["compilations"] == 2 and found["shared"] + found["memory"]["hits"] == 7
    assert found["memory"]["misses"] == 2 and not compiler._memory._under_way


def test_an_error_is_raised_in_all_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = GrammarCompiler(VOCABULARY)
    gate = Gate(compiler, monkeypatch)
    grammar = "root ::= root{2}"
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(compiler.compile_grammar, grammar) for _ in range(4)]
        assert gate.reached.wait(30)
        time.sleep(0.1)
        gate.opened.set()
        for future in futures:
            with pytest.raises(GrammarError, match="consists only of a repeat of itself"):
                future.result()
    shared = compiler.stats()["shared"]
    assert shared > 0 and gate.count + shared == 4 and not compiler._memory._under_way
    with pytest.raises(GrammarError):
        compiler.compile_grammar(grammar)
    assert compiler.stats()["errors"]["GrammarError"] == gate.count == 5 - shared


def test_an_interrupted_thread_does_not_interrupt_those_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = GrammarCompiler(VOCABULARY)
    decide, reached, opened = compiler._compilation.decide, threading.Event(), threading.Event()

    def interrupted(*arguments: Any) -> CompiledGrammar:
        monkeypatch.setattr(compiler._compilation, "decide", decide)
        reached.set()
        assert opened.wait(30)
        raise KeyboardInterrupt

    monkeypatch.setattr(compiler._compilation, "decide", interrupted)

    def first() -> bool:
        try:
            compiler.compile_regex("a")
        except KeyboardInterrupt:
            return True
        return False

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(first)
        assert reached.wait(30)
        other = pool.submit(compiler.compile_regex, "a")
        time.sleep(0.05)
        opened.set()
        assert one.result() and other.result().strategy == "classifier"
    assert not compiler._memory._under_way


def test_without_a_memory_cache_nothing_is_shared() -> None:
    compiler = GrammarCompiler(VOCABULARY, cache_enabled=False, n_jobs=4)
    with compiler:
        futures = [compiler.compile_regex_async("a") for _ in range(4)]
        assert len({id(future.result()) for future in futures}) == 4


# --- Later -------------------------------------------------------------------------------------------------

ASYNC: dict[str, Callable[[GrammarCompiler], tuple[Future[CompiledGrammar], CompiledGrammar]]] = {
    "grammar": lambda c: (
        c.compile_grammar_async("b ::= [a]", root_rule_name="b"),
        c.compile_grammar("b ::= [a]", root_rule_name="b"),
    ),
    "schema": lambda c: (
        c.compile_json_schema_async(SCHEMA, any_whitespace=False),
        c.compile_json_schema(SCHEMA, any_whitespace=False),
    ),
    "builtin": lambda c: (c.compile_builtin_json_grammar_async(), c.compile_builtin_json_grammar()),
    "regex": lambda c: (c.compile_regex_async("a"), c.compile_regex("a")),
    "tag": lambda c: (
        c.compile_structural_tag_async(
            [xgrammar.StructuralTagItem(begin="<f>", schema=SCHEMA, end="</f>")], ["<f"]
        ),
        c.compile_structural_tag(
            [xgrammar.StructuralTagItem(begin="<f>", schema=SCHEMA, end="</f>")], ["<f"]
        ),
    ),
    "Lark": lambda c: (
        c.compile_lark_async(LARK.replace("start", "begin"), start="begin"),
        c.compile_lark(LARK.replace("start", "begin"), start="begin"),
    ),
}


@pytest.mark.parametrize("both", ASYNC.values(), ids=ASYNC)
def test_async_methods_give_what_the_others_give(
    both: Callable[[GrammarCompiler], tuple[Future[CompiledGrammar], CompiledGrammar]],
) -> None:
    with GrammarCompiler(VOCABULARY, n_jobs=2) as compiler:
        future, compiled = both(compiler)
        assert isinstance(future, Future) and future.result(60) is compiled
        assert compiler.stats()["compilations"] == 1


def test_n_jobs_are_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = GrammarCompiler(VOCABULARY, n_jobs=2)
    assert compiler._background._pool is None, "no thread before the first call"
    gate = Gate(compiler, monkeypatch)
    futures = [compiler.compile_regex_async(letter) for letter in "abcd"]
    wait_for(lambda: gate.count == 2)
    time.sleep(0.05)
    assert gate.count == 2
    gate.opened.set()
    assert len({id(future.result(60)) for future in futures}) == 4
    compiler.close()


def test_close_cancels_what_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = GrammarCompiler(VOCABULARY)
    gate = Gate(compiler, monkeypatch)
    futures = [compiler.compile_regex_async(letter) for letter in "abc"]
    assert gate.reached.wait(30)
    threading.Timer(0.1, gate.opened.set).start()
    compiler.close()
    assert futures[0].result(0).strategy == "classifier"
    for future in futures[1:]:
        with pytest.raises(CancelledError):
            future.result(0)
    compiler.close()
    with pytest.raises(HybridError, match="closed; only the methods that do not end in _async"):
        compiler.compile_regex_async("a")
    assert compiler.compile_regex("b").strategy == "classifier"


def test_a_program_ends_without_closing() -> None:
    program = (
        "from tests.caches import *\n"
        "c = GrammarCompiler(VOCABULARY)\n"
        "c.compile_regex_async('a').result(); print('done')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=CHECKOUT, timeout=120, check=True
    )
    assert done.stdout.splitlines()[-1] == "done"
