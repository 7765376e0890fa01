"""A process that serves mixed traffic from one compiler, and the one that watches it.

What: `serve` lets threads answer the requests of `bench.requests` and tells answers and memory on the way;
`watch` starts it in a process of its own, notes requests that take too long, and ends it if one never does.
When: in `bench.traffic`.
Limits: resident memory is known on Linux only. What is told goes to a file, so that it takes no memory of the
process that is measured, and is there when it dies.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import multiprocessing
import queue
import tempfile
import threading
import time
import weakref
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import xgrammar
from rich.console import Console
from rich.progress import Progress

from bench import workloads
from bench.memory import STATUS, give_back, status_bytes
from bench.requests import Answer, Histogram, Request, Traffic, Worker, answer

MARKS = 200
"""Times that memory is looked at during a run."""

GIVE_UP = 10
"""Times the dead man's seconds after which the run is ended."""


@dataclass(frozen=True)
class Settings:
    """What the process that serves has to know; paths and numbers only, as it is a new one."""

    vocabulary: str
    schemas: Path
    limit: int | None
    requests: int
    threads: int
    cache_bytes: int
    cache_dir: Path | None
    seconds: float | None
    on_budget: str
    strategy: str
    seed: int
    size: str
    malformed: float
    hostile: float
    sampled: float
    zipf: float

    def traffic(self) -> Traffic:
        return Traffic(
            workloads.load_schema_files(self.schemas, self.limit, self.seed),
            self.requests, self.seed, self.size, self.malformed, self.hostile, self.sampled, self.zipf,
        )  # fmt: skip


@dataclass
class Mark:
    """Memory after some requests."""

    requests: int
    seconds: float
    resident: int
    cache: int
    kept_walks: int


@dataclass
class Served:
    """What the process that served has told.

    Attributes:
        answers, marks: as they were told on the way; they are known of a process that died too.
        late: requests that took too long, and the longest time that was seen.
        failure: why the run did not come to its end; empty if it did. What follows is known only then.
        seconds: of the run.
        resident_before: bytes before the first request; `resident_after` the last one, `resident_cleared` the
            cache was cleared, each after what nobody uses was given back to the system.
        cache_after: bytes of the cache by its own account; `counted_after`: counted anew, of the grammars
            that are still there.
        stats: of the compiler.
        fill, accept: the times of masks, but the first of each request, and of tokens.
    """

    answers: list[Answer] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    late: dict[int, float] = field(default_factory=dict)
    failure: str = ""
    seconds: float = 0.0
    resident_before: int = 0
    resident_after: int = 0
    resident_cleared: int = 0
    cache_after: int = 0
    counted_after: int = 0
    stats: dict[str, Any] = field(default_factory=dict)
    fill: Histogram = field(default_factory=Histogram)
    accept: Histogram = field(default_factory=Histogram)


_shared: Any = None
"""In the process that serves: an array of (request, since when) for each thread, and the requests done."""


def _serve(shared: Any, settings: Settings, told: str) -> None:
    global _shared
    _shared = shared
    faulthandler.enable()
    serve(settings, told)


def serve(settings: Settings, told: str) -> None:
    """The whole traffic, in this process; answers and marks are appended to a file, as lines of JSON."""
    from hybrid import Budget, GrammarCompiler

    traffic = settings.traffic()
    vocabulary = workloads.load_vocabulary(settings.vocabulary).prepare()
    on_budget: Any = settings.on_budget
    compiler = GrammarCompiler(
        vocabulary, strategy=settings.strategy, cache_limit_bytes=settings.cache_bytes,
        cache_dir=settings.cache_dir, budget=Budget(seconds=settings.seconds), on_budget=on_budget,
    )  # fmt: skip
    _warm(compiler)
    waiting: queue.SimpleQueue[Request] = queue.SimpleQueue()
    for request in traffic.requests():
        waiting.put(request)
    known: Any = weakref.WeakValueDictionary()
    workers = [Worker(compiler, known) for _ in range(settings.threads)]
    give_back()
    gc.freeze()
    end: dict[str, Any] = {"resident_before": _resident()}
    lock, done = threading.Lock(), 0
    began = time.perf_counter()
    with open(told, "a", encoding="utf-8") as lines:

        def tell(what: str, value: dict[str, Any]) -> None:
            lines.write(json.dumps({"what": what, **value}) + "\n")
            lines.flush()

        def work(thread: int) -> None:
            nonlocal done
            while True:
                try:
                    request = waiting.get_nowait()
                except queue.Empty:
                    return
                _under_way(thread, request.number)
                found = answer(traffic, request, workers[thread])
                _under_way(thread, -1)
                with lock:
                    tell("answer", asdict(found))
                    done += 1
                    _done(done)
                    if done % max(settings.requests // MARKS, 1) == 0:
                        seconds, walks = time.perf_counter() - began, vocabulary.kept_walks.n_bytes
                        mark = Mark(done, seconds, _resident(), compiler.get_cache_size_bytes(), walks)
                        tell("mark", asdict(mark))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(settings.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        end |= {"seconds": time.perf_counter() - began, "stats": compiler.stats()}
        end["cache_after"] = compiler.get_cache_size_bytes()
        end["counted_after"] = sum(one.memory_size_bytes for one in list(known.values()))
        give_back()
        end["resident_after"] = _resident()
        compiler.clear_cache()
        give_back()
        end["resident_cleared"] = _resident()
        for name in ("fill", "accept"):
            end[name] = vars(Histogram.united([getattr(worker, name) for worker in workers]))
        tell("end", end)


def _warm(compiler: Any) -> None:
    from hybrid.testing.segmentation import tokenize_greedy

    compiled = compiler.compile_json_schema(workloads.THROW_AWAY_SCHEMA)
    ids = tokenize_greedy(compiler.vocabulary, workloads.THROW_AWAY_TEXT)
    workloads.run_along(compiled, ids, xgrammar.allocate_token_bitmask(1, compiler.vocabulary.size))


def _resident() -> int:
    return status_bytes("VmRSS") if STATUS.exists() else 0


def _under_way(thread: int, number: int) -> None:
    if _shared is not None:
        _shared[2 * thread + 1] = time.time()
        _shared[2 * thread] = number


def _done(done: int) -> None:
    if _shared is not None:
        _shared[-1] = done


def watch(settings: Settings, dead_man_seconds: float, console: Console) -> Served:
    """Let a new process serve, and look at how long each request takes."""
    context = multiprocessing.get_context("spawn")
    shared = context.Array("d", [-1.0] * (2 * settings.threads) + [0.0], lock=False)
    late: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told"
        told.touch()
        process = context.Process(target=_serve, args=(shared, settings, str(told)))
        process.start()
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task("requests", total=settings.requests)
            while process.is_alive():
                process.join(0.2)
                progress.update(task, completed=shared[-1])
                now = _late(shared, settings.threads, dead_man_seconds)
                late |= {number: max(late.get(number, 0.0), seconds) for number, seconds in now.items()}
                if max(now.values(), default=0.0) > GIVE_UP * dead_man_seconds:
                    process.kill()
        served = read(told)
    served.late = late
    if process.exitcode:
        numbers = [int(shared[2 * thread]) for thread in range(settings.threads)]
        under_way = ", ".join(str(number) for number in numbers if number >= 0)
        served.failure = f"the process ended with {process.exitcode}; under way were requests {under_way}"
    return served


def _late(shared: Any, threads: int, dead_man_seconds: float) -> dict[int, float]:
    """Requests that take too long, and their seconds so far."""
    now, found = time.time(), {}
    for thread in range(threads):
        number, since = int(shared[2 * thread]), shared[2 * thread + 1]
        if number >= 0 and now - since >= dead_man_seconds:
            found[number] = now - since
    return found


def read(told: Path) -> Served:
    """What a process told, be it to the end or not."""
    served = Served()
    for line in told.read_text(encoding="utf-8").splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            break  # the last line of a process that was ended
        what = value.pop("what")
        if what == "answer":
            served.answers.append(Answer(**value))
        elif what == "mark":
            served.marks.append(Mark(**value))
        else:
            for name, part in value.items():
                setattr(served, name, Histogram(**part) if name in ("fill", "accept") else part)
    return served
