"""Compiling many grammars at once, in threads.

What: `compile_all` implements `GrammarCompiler.compile_many`. A `Source` is a grammar in any notation.
When: for the grammars of a server when it starts, or for a corpus of schemas. Each grammar is compiled in one
thread.
Limits: the interpreter's lock is held for a third of the time, so more than four threads gain nothing with a
lock (docs/artifacts.md).

Rejected: other processes. 40 schemas took 1.14 s in two processes, 0.46 s in two threads and 0.66 s in one,
because compiled grammars are sent as files, which takes longer than to compile a schema.

Rejected: one grammar in several threads. Its contexts lead to the same pending sets: if two threads take
half of them each, one still needs 63 to 75 % of the summaries' time (C++ 11 of 18 ms, SQL 16 of 22, the
C-like grammar 28 of 39; llama3). This would save 3 to 8 % of a compilation, before the tables are merged.
"""

from __future__ import annotations

import copy
import inspect
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import xgrammar

from equivalence import ArgumentError, HybridError
from equivalence.arguments import integer_from, shown
from hybrid.compile.request import METHODS
from hybrid.compiled import CompiledGrammar

Compiler = Any
"""A `hybrid.GrammarCompiler`; its module imports this one."""

MOST_JOBS = 1024
"""At most this many threads may be requested: each takes memory as soon as it starts."""


class Source(NamedTuple):
    """A grammar in any notation of `GrammarCompiler`. A plain tuple can be used instead.

    Attributes:
        kind: the notation, a key of `METHODS`.
        argument: the first argument of the compile method; None for "builtin_json".
        options: its keyword arguments.
    """

    kind: str
    argument: Any = None
    options: Mapping[str, Any] | None = None


Progress = Callable[[int, int], None]


def compile_all(
    compiler: Compiler, grammars: Iterable[Any], n_jobs: int | None, on_error: str,
    progress: Progress | None,
) -> list[Any]:  # fmt: skip
    """See `GrammarCompiler.compile_many`."""
    if on_error not in ("raise", "return"):
        raise HybridError(f"on_error must be 'raise' or 'return', but is {on_error!r}")
    if n_jobs is not None:
        n_jobs = integer_from(-MOST_JOBS, n_jobs, "n_jobs", most=MOST_JOBS)
        if not n_jobs:
            raise ArgumentError("n_jobs must be a positive integer, or -1 for one job per core, but is 0")
    if progress is not None and not callable(progress):
        raise ArgumentError(f"progress must be a function or None, but is {shown(progress)}")
    if isinstance(grammars, (str, bytes)) or not isinstance(grammars, Iterable):
        raise ArgumentError(f"grammars must be a list of grammars, but is {shown(grammars)}")
    import joblib  # imported late, as it takes 0.1 s

    sources = [_source(compiler, place, item) for place, item in enumerate(grammars)]
    compiler.vocabulary.prepare()
    is_over = threading.Event()

    def task(source: Source) -> CompiledGrammar | HybridError | None:
        if is_over.is_set():
            return None
        try:
            return compiled_from(compiler, source)
        except HybridError as error:
            return error

    found: list[Any] = []
    # threads, whatever backend joblib is configured with; results come in order, while others are computed
    run = joblib.Parallel(n_jobs=n_jobs, require="sharedmem", return_as="generator")
    results = run(joblib.delayed(task)(source) for source in sources)
    try:
        for result in results:
            if is_over.is_set():
                continue  # joblib warns if results are not read
            found.append(result)
            if on_error == "raise" and isinstance(result, HybridError):
                is_over.set()
            elif progress is not None:
                progress(len(found), len(sources))
    except BaseException:
        is_over.set()  # threads skip what is left
        raise
    if is_over.is_set():
        error = found[-1]
        numbered = copy.copy(error)
        numbered.args = (f"grammars[{len(found) - 1}]: {error}",)
        raise numbered from error
    return found


def _source(compiler: Compiler, place: int, item: Any) -> Source:
    """Convert an item to a source."""
    if isinstance(item, (str, xgrammar.Grammar)):
        return Source("grammar", item)
    source = Source(*item) if isinstance(item, tuple) and 1 <= len(item) <= 3 else None
    if source is None or source.kind not in METHODS or not isinstance(source.options, (Mapping, type(None))):
        raise HybridError(
            f"grammars[{place}] must be EBNF text, an xgrammar.Grammar, or (kind, argument, options) "
            f"with one of the kinds {', '.join(METHODS)} and a dict of options, but is "
            f"{repr(item)[:200]}"
        )
    method = METHODS[source.kind]
    try:
        inspect.signature(getattr(compiler, method)).bind(*_arguments(source), **(source.options or {}))
    except TypeError as error:
        raise ArgumentError(f"grammars[{place}] has options that {method} does not have: {error}") from error
    return source


def compiled_from(compiler: Compiler, source: Source) -> CompiledGrammar:
    """Compile one grammar."""
    compile_it: Callable[..., CompiledGrammar] = getattr(compiler, METHODS[source.kind])
    return compile_it(*_arguments(source), **(source.options or {}))


def _arguments(source: Source) -> tuple[Any, ...]:
    return () if source.kind == "builtin_json" else (source.argument,)
