"""Compiling many grammars at once, with joblib: in threads, in processes, or on a cluster.

What: `compile_all` implements `GrammarCompiler.compile_many`. A `Source` is a grammar in any notation.
When: for the grammars of a server when it starts, or for a corpus of schemas. Each grammar is compiled in one
thread.
Limits: if joblib's backend runs tasks in other processes, these return the bytes of files (`hybrid.files`),
so the strategy must be "auto" or "classifier". The caller compiles grammars without a classifier again.

Threads are the default: kernels run without the GIL, and nothing is copied. Other processes get the bytes of
the vocabulary with each batch of tasks (1.2 MB for 128k ids), and keep the compiler that they make from it.
They map the trie, which is 25 times as large, from a file, or build it if they cannot read that file.

One grammar is not split over threads, because its contexts lead to the same pending sets: if two threads take
half of them each, one still needs 63 to 75 % of the summaries' time (C++ 11 of 18 ms, SQL 16 of 22, the
C-like grammar 28 of 39; llama3). This would save 3 to 8 % of a compilation, before the tables are merged.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import xgrammar

from equivalence import ArgumentError, HybridError, StrategyError, Vocabulary, forks
from equivalence.arguments import integer_from, shown
from equivalence.trie.trie import stored_trie
from hybrid.compile.request import METHODS
from hybrid.compiled import CompiledGrammar
from hybrid.files import can_be_written, from_bytes, to_bytes

Compiler = Any
"""A `hybrid.GrammarCompiler`; its module imports this one."""

MOST_JOBS = 1024
"""At most this many threads or processes may be requested: each takes memory as soon as it starts."""


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
    shared = _Shared(compiler)
    found: list[Any] = []
    try:
        tasks = (joblib.delayed(_task)(shared, source) for source in sources)
        # results come one by one and in order, so they are read while others are computed
        run = joblib.Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")
        for source, result in zip(sources, run(tasks), strict=True):
            # after an error the rest is drained, because loky 3.6 loses its workers if a generator is
            # abandoned
            found.append(None if shared.is_over else _received(compiler, source, result))
            if on_error == "raise" and isinstance(found[-1], HybridError):
                shared.is_over = True
            elif progress is not None and not shared.is_over:
                progress(len(found), len(sources))
    except BaseException:
        shared.is_over = True  # threads skip the remaining tasks
        raise
    finally:
        shared.close()
    if shared.is_over:
        place, error = next((k, one) for k, one in enumerate(found) if isinstance(one, HybridError))
        raise type(error)(f"grammar {place} of {len(sources)}: {error}") from error
    return found


def _source(compiler: Compiler, place: int, item: Any) -> Source:
    """Convert an item to a source that can be sent to another process."""
    if isinstance(item, str):
        return Source("grammar", item)
    if isinstance(item, xgrammar.Grammar):
        return Source("serialized", item.serialize_json())
    source = Source(*item) if isinstance(item, tuple) and 1 <= len(item) <= 3 else None
    if source is None or source.kind not in METHODS or not isinstance(source.options, (Mapping, type(None))):
        raise HybridError(
            f"grammar {place} must be EBNF text, an xgrammar.Grammar, or (kind, argument, options) "
            f"with one of the kinds {', '.join(METHODS)} and a dict of options, but is "
            f"{repr(item)[:200]}"
        )
    method = METHODS[source.kind]
    given = _arguments(source)
    try:
        inspect.signature(getattr(compiler, method)).bind(*given, **(source.options or {}))
    except TypeError as error:
        raise ArgumentError(f"grammar {place} has options that {method} does not have: {error}") from error
    if source.kind == "grammar" and isinstance(source.argument, xgrammar.Grammar):
        return Source("serialized", source.argument.serialize_json())
    return source


def compiled_from(compiler: Compiler, source: Source) -> CompiledGrammar:
    """Compile one grammar."""
    if source.kind == "serialized":
        return compiler.compile_grammar(xgrammar.Grammar.deserialize_json(source.argument))
    compile_it: Callable[..., CompiledGrammar] = getattr(compiler, METHODS[source.kind])
    return compile_it(*_arguments(source), **(source.options or {}))


def _arguments(source: Source) -> tuple[Any, ...]:
    return () if source.kind == "builtin_json" else (source.argument,)


def _task(shared: _Shared, source: Source) -> CompiledGrammar | bytes | HybridError | None:
    """A compiled grammar or an error. In another process: the bytes of a file, None if the grammar has no
    file."""
    if shared.is_over:
        return None
    try:
        if shared.is_in_worker and shared.compiler.strategy in ("representatives", "engine"):
            raise StrategyError(
                "other processes can compile only for strategy 'auto' or 'classifier', but the strategy is "
                f"{shared.compiler.strategy!r}; use one of these, or joblib's backend 'threading'"
            )
        compiled = compiled_from(shared.compiler, source)
    except HybridError as error:
        return error
    if not shared.is_in_worker:
        return compiled
    try:
        return to_bytes(compiled) if can_be_written(compiled) else None
    except StrategyError:
        return None  # it has no classes


def _received(compiler: Compiler, source: Source, result: Any) -> CompiledGrammar | HybridError:
    if isinstance(result, bytes):
        return from_bytes(result, compiler.vocabulary, budget=compiler.budget)
    if result is not None:
        return result
    try:
        return compiled_from(compiler, source)
    except HybridError as error:
        return error


SENT = (
    "strategy", "budget", "n_jobs", "on_demand", "on_budget", "deterministic", "semantics",
    "max_whitespace_cnt", "assert_formats",
)  # fmt: skip
"""The attributes of a compiler that its copies in other processes get."""


class _Parcel(NamedTuple):
    """Everything from which another process makes a compiler."""

    kind: type[Compiler]
    fingerprint: str
    data: bytes
    lengths: bytes
    stops: tuple[int, ...]
    folder: str
    options: dict[str, Any]


class _Shared:
    """The compiler of a task. Pickling it makes the parcel; threads never pickle it."""

    def __init__(self, compiler: Compiler, is_in_worker: bool = False) -> None:
        self.compiler = compiler
        self.is_in_worker = is_in_worker
        self.is_over = False  # after an error, threads skip the remaining tasks
        self._lock = forks.registered(threading.Lock(), forks.Order.SLOW)
        self._parcel: _Parcel | None = None
        self._temporary = ""

    def __reduce__(self) -> Any:
        with self._lock:
            if self._parcel is None:
                self._parcel = self._packed()
        return _unpacked, (self._parcel,)

    def _packed(self) -> _Parcel:
        compiler, vocabulary = self.compiler, self.compiler.vocabulary
        folder = vocabulary._cache_dir
        if folder is None:
            folder = self._temporary = tempfile.mkdtemp(prefix="equimask-")
            stored_trie(lambda: vocabulary.trie, vocabulary.flat, vocabulary.fingerprint, folder)
        options = {name: getattr(compiler, name) for name in SENT}
        disk = compiler._disk
        if disk is not None:
            options |= {"cache_dir": os.fspath(disk.folder), "cache_dir_limit_bytes": disk.limit_bytes}
            with contextlib.suppress(OSError):  # writing an entry reports the error
                os.makedirs(disk.folder, exist_ok=True)
        data, offsets = vocabulary.flat
        return _Parcel(
            type(compiler), vocabulary.fingerprint, data.tobytes(),
            np.diff(offsets).astype(np.uint16).tobytes(), vocabulary.stop_token_ids, folder, options,
        )  # fmt: skip

    def close(self) -> None:
        """Remove the files for other processes, which keep what they have read."""
        if self._temporary:
            shutil.rmtree(self._temporary, ignore_errors=True)


_lock = forks.registered(threading.Lock(), forks.Order.SLOW)
_last: list[tuple[Any, Any]] = []
"""The compiler of the last parcel that this process received."""


def _unpacked(parcel: _Parcel) -> _Shared:
    key = parcel._replace(data=b"", lengths=b"", folder="")
    with _lock:
        if not _last or _last[0][0] != key:
            ends = np.cumsum(np.frombuffer(parcel.lengths, np.uint16), dtype=np.int64).tolist()
            tokens = [parcel.data[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]
            folder = parcel.folder if os.path.isdir(parcel.folder) else None  # may not exist on this machine
            vocabulary = Vocabulary(tokens, parcel.stops, (), None, folder).prepare()
            options = {**parcel.options, "cache_enabled": False}
            if not os.path.isdir(options.get("cache_dir", "")):
                options["cache_dir"] = None  # there is none, or this is another machine
            _last[:] = [(key, parcel.kind(vocabulary, **options))]
        return _Shared(_last[0][1], True)
