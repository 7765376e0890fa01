"""What compiling a Lark grammar takes: seconds by phase, memory, classes, and its artefact.

What: `measure_build` compiles a grammar several times in a new process, saves it, and loads it.
When: in `bench.lark`.
Limits: Linux for memory (None elsewhere). The vocabulary, its trie and the kernels are there before, as in
`bench.memory`; the memory is that of the first compilation, above what the process held before it.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

TINY = 'start: (WORD | "(" start ")")+\nWORD: /[a-z]+/\n%ignore " "\n'
"""Compiled before, so that kernels are ready."""


def measure_build(spec: str, text: str, start: str, builds: int, artefact: Path | None) -> dict[str, Any]:
    """Compile a grammar in a process of its own.

    Args:
        spec: the vocabulary, as on the command line.
        text: the grammar, in Lark's notation.
        start: its start rule.
        builds: compilations.
        artefact: where it is saved; None: it is not.

    Returns:
        ``seconds`` and ``cpu`` seconds of each compilation, ``phases`` (medians), ``peak`` bytes or None,
        ``classes``, ``sizes``, and, if it was saved, ``save`` and ``load`` seconds and ``artefact`` bytes.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_measure_here, spec, text, start, builds, artefact).result()


def _measure_here(spec: str, text: str, start: str, builds: int, artefact: Path | None) -> dict[str, Any]:
    from bench.memory import give_back, reset_peak, status_bytes
    from hybrid import CompiledGrammar, GrammarCompiler
    from hybrid.cli.vocabulary_spec import load_vocabulary

    vocabulary = load_vocabulary(spec).prepare()
    compiler = GrammarCompiler(vocabulary, cache_enabled=False)
    _use(compiler.compile_lark(TINY))
    known = reset_peak()
    before = status_bytes("VmRSS") if known else 0
    found: dict[str, Any] = {"seconds": [], "cpu": [], "peak": None, "before": before if known else None}
    phases: dict[str, list[float]] = {}
    compiled: Any = None
    for number in range(builds):
        del compiled
        give_back()
        began, cpu_began = perf_counter(), process_time()
        compiled = compiler.compile_lark(text, start=start)
        found["seconds"].append(perf_counter() - began)
        found["cpu"].append(process_time() - cpu_began)
        for name, seconds in compiled.timings.items():
            phases.setdefault(name, []).append(seconds)
        if number == 0 and known:
            found["peak"] = status_bytes("VmHWM") - before
    found["phases"] = {name: median(values) for name, values in phases.items()}
    found["classes"] = int(compiled.classes.n_classes)
    found["sizes"] = dict(compiled.classes.sizes)
    if artefact is not None:
        began = perf_counter()
        compiled.save(artefact)
        found["save"] = perf_counter() - began
        found["artefact"] = artefact.stat().st_size
        loads = []
        for _ in range(max(builds, 3)):
            began = perf_counter()
            CompiledGrammar.load(artefact, vocabulary)
            loads.append(perf_counter() - began)
        found["load"] = median(loads)
    return found


def _use(compiled: Any) -> None:
    import xgrammar

    from hybrid import GrammarMatcher

    matcher = GrammarMatcher(compiled)
    matcher.fill_next_token_bitmask(xgrammar.allocate_token_bitmask(1, compiled.vocabulary.size))
    matcher.accept_string("(ab)")
