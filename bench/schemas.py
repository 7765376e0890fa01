"""JSON schemas that are used once: time to the first mask, through one document, and the cost of each mask.

What: compiles each schema of a folder on every engine, takes each engine through one document, compares all
of our masks with XGrammar's along the instances, and reports times, refusals and classes.
When: ``python -m bench schemas --vocabulary SPEC --schemas FOLDER --json FILE``. Each engine has the defaults
of its library. ``--strict``, ``--no-strict``, ``--no-cache`` and ``--threads`` change them for XGrammar and
ours; the note below the table names such changes. ``--beside STRATEGY`` also measures another strategy of
ours in the same run. llguidance is measured if it is installed, and so is our ``semantics="json-schema"``
(``--no-json-schema`` leaves it out). The masks of these two have another meaning and are not compared, nor
are those of another XGrammar (`bench.peers.elsewhere`). ``--burst N`` compiles many schemas at once
(`bench.burst`).
Limits: one process; the order of the engines is random for each schema. Right before each request, the engine
serves another small schema, untimed, so that the interpreter and caches are as between two requests, not as
after a garbage collection. ``--in-situ`` changes 64 MiB of other memory between the two, like a server's
other work. Each schema is compiled once, so caches of whole grammars are never hit, but XGrammar's cache of
rules and our cache of walks may be.

XGrammar's cache of rules depends on the first grammars: after one grammar that is not a schema of the run,
the median schema takes three times as long. So "XGrammar" only compiles the schemas of the run, which is its
best case; another compiler with the same settings serves the small other schemas. ``--xgrammar-states`` also
measures it after another schema ("XGrammar, warmed"), and with one thread in its best case ("XGrammar, one
thread"). Compilers, vocabularies and kernels are made before (a server makes them once) and not timed. All
engines get the text of a schema. The document is the first instance that XGrammar accepts. If XGrammar fails
because of its cache, this counts as a refusal, and masks are compared with those that it has without a cache.
Times of a schema with a difference are left out.
"""

from __future__ import annotations

import gc
import json as json_format
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
import xgrammar
from rich.console import Console
from rich.progress import track

from bench import burst as bursts
from bench import options, report, workloads
from bench.cold_caches import TOUCHED_BYTES, ColdCaches, is_taken
from bench.forked import ends_within
from bench.peers.elsewhere import Peer as Elsewhere
from bench.peers.llguidance import Peer, beginning_of, is_installed
from bench.picture import pyplot
from bench.reporting.answers import publish
from bench.reporting.plots import draw_first_masks
from bench.reporting.requests import between_other_work
from bench.request import Request, Start, hybrid_start, plain_start, run_document
from bench.schema_rows import JSON_SCHEMA, NOT_ALIKE, Row, summarise
from bench.server_times import clock_cost
from hybrid.testing.comparison import Times

if TYPE_CHECKING:
    from equivalence.vocabulary import Vocabulary


WARMED, ONE_THREAD = "XGrammar, warmed", "XGrammar, one thread"
"""XGrammar in other cases than its best one with all threads."""


@dataclass
class SchemaBench:
    """All compilers, their settings, and the measurement of one schema.

    If `threads` or `strict` is None, each library's default is used. `beside` lists other strategies of ours.
    Each has its own vocabulary, so that what one strategy caches there does not make another one faster.
    `json_schema` is the vocabulary of our ``semantics="json-schema"``; None leaves it out.
    """

    vocabulary: Vocabulary
    threads: int | None = None
    strict: bool | None = None
    seed: int = 0
    max_plain_seconds: float | None = None
    beside: Mapping[str, Vocabulary] = field(default_factory=dict)
    llguidance: bool = False
    cold_caches: ColdCaches | None = None
    cache: bool = True
    elsewhere: Elsewhere | None = None
    xgrammar_states: bool = False
    json_schema: Vocabulary | None = None
    touched: int = 0
    """Bytes of other memory that are changed before each request."""

    def __post_init__(self) -> None:
        self.options: dict[str, Any] = {} if self.strict is None else {"strict_mode": self.strict}
        self.ours = workloads.hybrid_compiler(self.vocabulary, "auto", self.threads, cache=self.cache)
        self.others = {
            strategy: workloads.hybrid_compiler(own, strategy, self.threads, cache=self.cache)
            for strategy, own in self.beside.items()
        }
        self.exact: Any = None
        if self.json_schema is not None:
            self.exact = workloads.hybrid_compiler(
                self.json_schema, "auto", self.threads, cache=self.cache, semantics="json-schema"
            )
        self.plain = workloads.plain_compiler(self.vocabulary, self.threads, self.cache)
        self.aside = workloads.plain_compiler(self.vocabulary, self.threads, self.cache)
        """Compiles everything that XGrammar must not compile before the schemas of the run."""
        self.states: dict[str, xgrammar.GrammarCompiler] = {}
        if self.xgrammar_states:
            self.states = {
                WARMED: self.aside, ONE_THREAD: workloads.plain_compiler(self.vocabulary, 1, self.cache)
            }  # fmt: skip
        self._memory = np.zeros(self.touched // 8, np.int64)
        self.judge = workloads.plain_compiler(self.vocabulary, 1)
        self.peer = Peer(self.vocabulary) if self.llguidance else None
        self.bitmask = xgrammar.allocate_token_bitmask(1, self.vocabulary.size)

    @property
    def settings(self) -> str:
        """Return the settings of all engines, in words."""
        strict = "default" if self.strict is None else str(self.strict)
        threads = "default (XGrammar 8, ours 1)" if self.threads is None else str(self.threads)
        caches = "on (default)" if self.cache else "off"
        between = f"{self.touched >> 20} MiB changed before each request" if self.touched else "back to back"
        given = f"strict_mode {strict}, caches {caches}, threads {threads}, {between}"
        return f"{given}; llguidance has its defaults"

    def measure(self, file: workloads.SchemaFile) -> Row:
        """Compile, serve and compare one schema; the engines run in random order."""
        row = Row(file.name)
        too_slow = self.max_plain_seconds is not None and not ends_within(
            lambda: self._compile_plain(file.schema), self.max_plain_seconds
        )
        engines = self._engines()
        plains = [name for name in ("XGrammar", *self.states) if name in engines]
        for name in plains if too_slow else ():
            del engines[name]
        order = list(engines)
        shuffle = random.Random(f"{self.seed} {file.name}").shuffle
        shuffle(order)
        found: dict[str, Start] = {}
        text = as_text(file.schema)
        for name in order:
            gc.collect()
            # A garbage collection empties Python's free lists and the processor's caches.
            before = partial(self._start_plain, self.aside) if name in plains else engines[name]
            before(as_text({**workloads.OTHER_SCHEMA, "title": file.name}), self.bitmask)
            self._memory += 1
            found[name] = engines[name](text, self.bitmask)
        row.requests = {name: Request.of(found[name]) for name in engines}
        plain = found.get("XGrammar")
        shuffle(order)
        ids = self._first_document(file, plain)
        for name in order if ids is not None else ():
            if (calls := found[name].calls) is not None:
                run_document(row.requests[name], calls, ids)
            elif self.elsewhere is not None and name == self.elsewhere.name and not found[name].error:
                self.elsewhere.document(row.requests[name], ids)
        for name in plains if too_slow else ():
            row.requests[name] = Request(over=self.max_plain_seconds)
        if self.peer is not None:
            row.peer = self.peer.masks(found["llguidance"], list(self._sequences(file.name, file.valid)))
        row.beside = {strategy: Row(file.name) for strategy in self.others}
        for name, one in {"ours": row, **row.beside}.items():
            self._fill(one, file, found[name], plain, cold=name == "ours")
        return row

    def _engines(self) -> dict[str, Callable[[Any, Any], Start]]:
        """Return functions from a schema, and the row for masks, to a first mask: ours, our other strategies,
        the peers."""

        def ours(compiler: Any, schema: Any, bitmask: Any) -> Start:
            compile_it = partial(compiler.compile_json_schema, schema, **self.options)
            return hybrid_start(compile_it, bitmask, collect=False)

        def plain(schema: Any, bitmask: Any) -> Start:
            return plain_start(partial(self._compile_plain, schema), bitmask, collect=False)

        compilers = {"ours": self.ours, **self.others}
        if self.exact is not None:
            compilers[JSON_SCHEMA] = self.exact
        engines: dict[str, Callable[[Any, Any], Start]]
        engines = {name: partial(ours, compiler) for name, compiler in compilers.items()}
        engines["XGrammar"] = plain
        engines |= {name: partial(self._start_plain, compiler) for name, compiler in self.states.items()}
        if self.peer is not None:
            engines["llguidance"] = partial(self.peer.schema, collect=False)
        if self.elsewhere is not None:
            engines[self.elsewhere.name] = self.elsewhere.schema
        return engines

    def _first_document(self, file: workloads.SchemaFile, plain: Start | None) -> list[int] | None:
        """Return the first instance that XGrammar accepts, or None."""
        if plain is not None and plain.compiled is not None:
            for text in map(workloads.render_instance, file.valid):
                matcher = xgrammar.GrammarMatcher(plain.compiled)
                if matcher.accept_string(text) and matcher.is_completed():
                    return workloads.token_sequences(self.vocabulary, text, "")[0]
        return None

    def _fill(
        self, row: Row, file: workloads.SchemaFile, ours: Start, plain: Start | None, cold: bool
    ) -> None:
        """Fill a row: compare the grammar of one of our compilers with XGrammar's. If `plain` is None,
        XGrammar was too slow."""
        if ours.compiled is not None:
            row.compile = ours.compile_seconds
            row.phases = dict(ours.compiled.timings)
        if plain is None:
            row.outcome = "plain too slow"
        elif ours.compiled is not None and plain.compiled is None and self.cache:
            row.outcome = "compared without XGrammar's cache"
            row.refusals = [plain.error]
            plain = plain_start(
                lambda: self.judge.compile_json_schema(file.schema, **self.options), self.bitmask
            )
        if plain is not None:
            if ours.compiled is None or plain.compiled is None:
                row.refusals = [one.error for one in (ours, plain) if one.error]
                row.outcome = _refusal(ours, plain)
                return
            row.plain_compile = plain.compile_seconds
            self._compare(row, file, ours.compiled, plain.compiled)
            if self.cold_caches is not None and cold and row.alike:
                self._run_cold(self.cold_caches, file, ours.compiled, plain.compiled)
        if ours.compiled is not None:  # only now, because asking for the classes of a grammar computes them
            row.strategy, row.reason = ours.compiled.strategy, ours.compiled.reason
            row.classes = workloads.class_count(ours.compiled)

    def _run_cold(self, calls: ColdCaches, file: workloads.SchemaFile, ours: Any, plain: Any) -> None:
        """Run the first document with cold caches, if all engines accept it."""
        ids: list[int] = next(self._sequences(file.name, file.valid), [])
        if not is_taken(ours, ids):
            return
        peer = None
        if self.peer is not None:
            begun = self.peer.schema(file.schema)
            if begun.error or self.peer.taken(begun.compiled, [ids]) != [ids]:
                return
            peer = beginning_of(begun)
        calls.add(ours, plain, ids, peer)

    def _start_plain(self, compiler: xgrammar.GrammarCompiler, schema: Any, bitmask: Any) -> Start:
        compile_it = partial(compiler.compile_json_schema, schema, **self.options)
        return plain_start(compile_it, bitmask, collect=False)

    def _compile_plain(self, schema: Any) -> Any:
        return self.plain.compile_json_schema(schema, **self.options)

    def _compare(self, row: Row, file: workloads.SchemaFile, ours: Any, plain: Any) -> None:
        from hybrid.testing.mask_comparison import compare_along

        for sequence in self._sequences(file.name, file.valid):
            found = compare_along(ours, plain, sequence)
            row.instances += 1
            row.instances_accepted += found.complete
            row.comparison.add(found)
        # Masks along invalid instances are compared, too, but their times do not matter.
        for ids in self._sequences(file.name, file.invalid):
            found = compare_along(ours, plain, ids)
            found.times = Times()
            row.comparison.add(found)

    def _sequences(self, name: str, instances: Sequence[Any]) -> Iterator[list[int]]:
        for number, data in enumerate(instances):
            text = workloads.render_instance(data)
            yield from workloads.token_sequences(self.vocabulary, text, f"{self.seed} {name} {number}")

    def warm(self) -> None:
        """Compile one schema on each engine."""
        for compiler in (*self.others.values(), self.exact, self.ours):
            if compiler is not None:
                workloads.warm(compiler, self.aside, self.vocabulary, self.bitmask)
        if self.peer is not None:
            self.peer.schema(workloads.THROW_AWAY_SCHEMA)

    def run_bursts(self, schemas: list[Any], size: int, threads: int) -> list[dict[str, bursts.Burst]]:
        """Compile several schemas at once on some threads, on each engine."""

        def serve(begin: Callable[[Any, Any], Start], schema: Any) -> Any:
            begun = begin(schema, xgrammar.allocate_token_bitmask(1, self.vocabulary.size))
            if begun.crashed:
                raise RuntimeError(begun.error)
            return begun.compiled

        wanted = ("ours", JSON_SCHEMA, "XGrammar", "llguidance")
        engines = {name: partial(serve, begin) for name, begin in self._engines().items() if name in wanted}
        return bursts.run_all(engines, list(map(as_text, schemas)), size, self.seed, threads)


def as_text(schema: Any) -> str:
    """Write a schema as a server gets it, so that no engine is timed while it writes JSON."""
    return json_format.dumps(schema)


def _refusal(ours: Start, plain: Start) -> str:
    """Return the outcome if at least one side has not made a mask."""
    if ours.compiled is not None:
        return "only XGrammar refuses"
    # Errors with the same message as plain XGrammar's may pass through our code, whatever their type is.
    if ours.crashed and ours.error != plain.error:
        return "ours crashes"
    return "both refuse" if plain.compiled is None else "only ours refuses"


def command(
    vocabulary: options.VocabularyOption,
    schemas: options.SchemasOption,
    json: options.RecordOption,
    limit: options.LimitOption = None,
    seed: options.SeedOption = 0,
    max_plain_seconds: Annotated[
        float | None,
        typer.Option(help="Give XGrammar up after so many seconds, which then count; costs a compile more."),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Of XGrammar and ours; else each one's default.")
    ] = None,
    strict: Annotated[
        bool | None, typer.Option("--strict/--no-strict", help="strict_mode; else the default, True.")
    ] = None,
    cache: Annotated[bool, typer.Option(help="The caches of both compilers, on by default.")] = True,
    warm: options.WarmOption = True,
    beside: Annotated[
        list[str] | None, typer.Option(help="Another strategy of ours in the same run; repeatable.")
    ] = None,
    llguidance: Annotated[
        bool | None, typer.Option(help="llguidance in the same run; else where it is installed.")
    ] = None,
    cold_caches: options.ColdCachesOption = False,
    burst: Annotated[
        int | None, typer.Option(min=2, help="Only bursts: so many new schemas at once on two threads.")
    ] = None,
    burst_threads: Annotated[
        list[int] | None, typer.Option(min=1, help="Threads of bursts, in place of two; repeatable.")
    ] = None,
    xgrammar_elsewhere: Annotated[
        Path | None,
        typer.Option(help="A folder with another XGrammar, in the same run; see bench.peers.elsewhere."),
    ] = None,
    xgrammar_states: Annotated[
        bool,
        typer.Option("--xgrammar-states", help="XGrammar as it is after another schema, and on one thread."),
    ] = False,
    in_situ: Annotated[
        bool, typer.Option("--in-situ", help="Change 64 MiB of other memory before each request.")
    ] = False,
    json_schema: Annotated[bool, typer.Option(help='Our semantics="json-schema" in the same run.')] = True,
    picture: Annotated[
        Path | None, typer.Option(help="An SVG of the distribution of times to the first mask.")
    ] = None,
) -> None:
    """Measure JSON schemas that are used once: to the first mask, through a document, masks; all engines with
    their defaults."""
    arguments = dict(locals())
    console = report.make_console()
    with workloads.usage_errors():
        files = workloads.load_schema_files(schemas, limit, seed)
        n_files = len(files)
        check(n_files, burst, picture)

        def make_bench() -> SchemaBench:
            tokens = workloads.load_vocabulary(vocabulary)
            bench = SchemaBench(
                tokens, threads, strict, seed, max_plain_seconds,
                {other: workloads.load_vocabulary(vocabulary) for other in beside or ()},
                is_installed() if llguidance is None else llguidance,
                ColdCaches(clock_cost()) if cold_caches else None, cache, None, xgrammar_states,
                workloads.load_vocabulary(vocabulary) if json_schema else None,
                TOUCHED_BYTES if in_situ else 0,
            )  # fmt: skip
            if xgrammar_elsewhere is not None and burst is None:
                bench.elsewhere = Elsewhere(tokens, xgrammar_elsewhere, bench.options)
            if warm:
                bench.warm()
            return bench

        bench = make_bench()
        if burst is not None and bench.peer is not None:
            files = _taken_by(bench.peer, files)
            check(len(files), burst, picture)
    if burst is not None:
        benches = chain([bench], iter(make_bench, None))
        record = _at_once(console, benches, files, burst, burst_threads or [bursts.THREADS])
        record["summary"]["left_out"] = n_files - len(files)
        publish(console, json, "burst", arguments, record, not record["summary"]["differences"])
        return
    try:
        record = _one_by_one(console, bench, files)
    finally:
        if bench.elsewhere is not None:
            bench.elsewhere.close()
    record = publish(console, json, "schemas", arguments, record, not record["summary"]["not_alike"])
    if cold_caches:
        between_other_work(workloads.short_name(vocabulary), record).print(console)
    if picture is not None:
        draw_first_masks(picture, record)


def check(count: int, burst: int | None, path: Path | None) -> None:
    """Raise errors now that would otherwise come only after all measurements.

    Raises:
        ValueError: there are fewer schemas than a burst needs, a picture of bursts is asked for, or
            matplotlib is missing.
    """
    if burst is not None and count < burst:
        raise ValueError(f"--burst {burst} wants at least {burst} schemas, here are {count}")
    if burst is not None and path is not None:
        raise ValueError("--picture is of single schemas; leave out --burst")
    if path is not None:
        pyplot()


def _one_by_one(console: Console, bench: SchemaBench, files: list[workloads.SchemaFile]) -> dict[str, Any]:
    rows = []
    for file in track(files, "schemas", console=console, transient=True):
        row = bench.measure(file)
        rows.append(row)
        if not row.alike:
            for one in (row, *row.beside.values()):
                for line in one.refusals if one.outcome in NOT_ALIKE else one.comparison.differences[:5]:
                    report.say(console, f"DIFFERENCE {file.name}: {one.outcome}: {line}")
    kept = bench.vocabulary.walk_cache  # cached walks of other schemas
    summary = {
        "options": bench.settings,
        **summarise(rows),
        "kept": {"found": kept.hits, "not found": kept.misses},
    }
    if bench.cold_caches is not None:
        summary["cold_caches"] = bench.cold_caches.spreads()
    for outcome, count in summary["outcomes"].items():
        report.say(console, f"{count:,} schemas: {outcome}")
    return {"summary": summary, "rows": [row.record() for row in rows]}


def _taken_by(peer: Peer, files: list[workloads.SchemaFile]) -> list[workloads.SchemaFile]:
    """Return the schemas that llguidance does not refuse: a burst with others would cost it less than us."""
    return [file for file in files if not peer.schema(file.schema).error]


def _at_once(
    console: Console,
    benches: Iterator[SchemaBench],
    files: list[workloads.SchemaFile],
    size: int,
    threads: list[int],
) -> dict[str, Any]:
    """Run bursts on each number of threads, each with the next compilers and vocabularies, so that no cache
    knows the schemas. The record has the bursts on the first number."""
    masks = differences = 0
    summaries: dict[int, Any] = {}
    each: list[Any] = []
    for count, bench in zip(threads, benches, strict=False):  # there are always more benches
        found = bench.run_bursts([file.schema for file in files], size, count)
        for one in found:
            compared, differing = bursts.compare(one)
            masks, differences = masks + compared, differences + differing
        summaries[count] = bursts.summarise(found)
        each = each or [[one.record() for one in burst.values()] for burst in found]
        told = f"{len(found)} bursts of {size} new schemas on {count} threads; {bench.settings}"
        report.say(console, told)
    if len(threads) > 1:
        bursts.print_scaling(console, summaries)
    counts = {
        "options": bench.settings, "masks": masks, "differences": differences,
        "engines": summaries[threads[0]], "by_threads": summaries,
    }  # fmt: skip
    return {"summary": counts, "bursts": each}
