"""Building one grammar in a process of its own: seconds by phase, and memory at its peak.

What: `measure_building` starts a process, loads vocabulary and kernels, compiles another grammar, and then
compiles the one that is asked for a few times.
When: in `bench.grammar`.
Limits: memory on Linux only (None elsewhere). The vocabulary's own tables are there before and are part of
the peak of the process, not of what building takes above it.
"""

from __future__ import annotations

import gc
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from time import perf_counter, process_time
from typing import Any

from bench.memory import give_back, reset_peak, status_bytes


def measure_building(
    vocabulary: str, text: str | None, root: str, *, on_demand: bool, repeats: int, strategy: str
) -> dict[str, Any]:
    """What building a grammar takes.

    Args:
        vocabulary: as on the command line.
        text: of the grammar; None is XGrammar's grammar of all JSON.
        root: its root rule.
        on_demand: as for `GrammarCompiler`.
        repeats: compilations.
        strategy: as for `GrammarCompiler`.

    Returns:
        ``phases``: for each compilation, seconds by phase with ``total``; ``cpu``: its CPU seconds.
        ``before``: resident bytes before.
        ``above``: bytes above them at the peak, for each compilation. ``process``: peak of the process.
        ``kept``: bytes that the compiled grammar itself counts.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_build_here, vocabulary, text, root, on_demand, repeats, strategy).result()


def _build_here(
    spec: str, text: str | None, root: str, on_demand: bool, repeats: int, strategy: str
) -> dict[str, Any]:
    from bench.workloads import THROW_AWAY_SCHEMA
    from hybrid import GrammarCompiler
    from hybrid.cli.vocabulary_spec import load_vocabulary

    vocabulary = load_vocabulary(spec).prepare()
    compiler = GrammarCompiler(vocabulary, strategy=strategy, on_demand=on_demand, cache_enabled=False)
    for _ in range(2):
        compiler.compile_json_schema(THROW_AWAY_SCHEMA, strict_mode=False)
    found: dict[str, Any] = {"phases": [], "cpu": [], "above": [], "before": None, "process": None}
    compiled = None
    for _ in range(repeats):
        compiled = None
        gc.collect()
        known = reset_peak()
        before = status_bytes("VmRSS") if known else 0
        began, cpu_began = perf_counter(), process_time()
        if text is None:
            compiled = compiler.compile_builtin_json_grammar()
        else:
            compiled = compiler.compile_grammar(text, root_rule_name=root)
        found["cpu"].append(process_time() - cpu_began)
        found["phases"].append({**compiled.timings, "total": perf_counter() - began})
        if known:
            peak = status_bytes("VmHWM")
            found["above"].append(peak - before)
            found["before"] = before if found["before"] is None else found["before"]
            found["process"] = max(peak, found["process"] or 0)
    found["kept"] = None if compiled is None else compiled.memory_size_bytes
    give_back()
    return found
