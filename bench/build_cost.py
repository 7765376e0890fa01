"""Building one grammar in a separate process: seconds, peak memory, its file.

What: `measure_building` starts a process, loads the vocabulary, compiles another grammar first, and then
compiles the given grammar several times. If the result can be saved, it is saved and loaded, too.
When: in `bench.grammar` and `bench.lark`.
Limits: memory is measured on Linux only (else None). The vocabulary's own tables are made before, so they do
not count as memory of building.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

from bench import workloads
from bench.memory import give_back, in_another_process, with_peak

Compile = Callable[[Any], Any]
"""Compiles a grammar by the given compiler; it must be picklable."""


TINY = 'start: (WORD | "(" start ")")+\nWORD: /[a-z]+/\n%ignore " "\n'
"""A Lark grammar that is compiled before, so that one-time work is not measured."""


def ebnf(text: str | None, compiler: Any) -> Any:
    """Compile an EBNF grammar by either side's compiler. None as text means XGrammar's built-in JSON
    grammar."""
    if text is None:
        return compiler.compile_builtin_json_grammar()
    return compiler.compile_grammar(text)


def lark(text: str, compiler: Any) -> Any:
    """Compile a grammar in Lark's notation."""
    return compiler.compile_lark(text)


def measure_building(
    vocabulary: str,
    compile_with: Compile,
    repeats: int,
    strategy: str = "classifier",
    on_demand: bool = False,
) -> dict[str, Any]:
    """Measure what building a grammar costs.

    Args:
        vocabulary: as on the command line.
        compile_with: `ebnf` or `lark`, with the grammar's text bound.
        repeats: number of compilations.
        strategy, on_demand: as for `GrammarCompiler`.

    Returns:
        ``seconds`` and ``cpu`` of each compilation; ``peak``: how much the resident bytes rose in the first
            one, or None; ``classes``; with a classifier also ``artefact`` (bytes of the file) and ``load``
            (seconds).
    """
    return in_another_process(_build_here, vocabulary, compile_with, repeats, strategy, on_demand)


def _build_here(
    spec: str, compile_with: Compile, repeats: int, strategy: str, on_demand: bool
) -> dict[str, Any]:
    vocabulary = workloads.load_vocabulary(spec).prepare()
    compiler = workloads.hybrid_compiler(vocabulary, strategy, 1, on_demand)
    compiler.compile_json_schema(workloads.THROW_AWAY_SCHEMA, strict_mode=False)
    if strategy in ("auto", "classifier"):
        compiler.compile_lark(TINY)
    found: dict[str, Any] = {"seconds": [], "cpu": []}

    def build() -> Any:
        began, cpu_began = perf_counter(), process_time()
        compiled = compile_with(compiler)
        found["seconds"].append(perf_counter() - began)
        found["cpu"].append(process_time() - cpu_began)
        return compiled

    compiled, found["peak"] = with_peak(build)
    for _ in range(1, repeats):
        del compiled
        give_back()
        compiled = build()
    found["classes"] = workloads.class_count(compiled)
    if compiled.classifier is not None:
        found |= _artefact(compiled, vocabulary)
    return found


def _artefact(compiled: Any, vocabulary: Any) -> dict[str, Any]:
    from hybrid import CompiledGrammar

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "grammar"
        compiled.save(path)
        loads = []
        for _ in range(3):
            began = perf_counter()
            CompiledGrammar.load(path, vocabulary)
            loads.append(perf_counter() - began)
        return {"artefact": path.stat().st_size, "load": median(loads)}
