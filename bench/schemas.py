"""JSON schemas that are used once: time to the first mask, through one document, and the cost of each mask.

What: for each schema of a folder, compiles it on every engine, takes each through one document, compares
every mask of ours with XGrammar's along the instances (and random walks), and reports times, refusals and
classes.
When: ``python -m bench schemas --vocabulary SPEC --schemas FOLDER --json FILE``. Everybody has the defaults
of its library; ``--strict``, ``--no-strict``, ``--no-cache`` and ``--threads`` give XGrammar and ours other
ones, which are named above the table. ``--beside STRATEGY`` measures ours on another strategy in the same
run. llguidance is measured where it is installed; its masks mean something else and are not compared
(`bench.peers.llguidance`), nor are those of another XGrammar (`bench.peers.elsewhere`). ``--burst N`` asks
for many schemas at once (`bench.burst`).
Limits: one process; the order of the engines is drawn for each schema. Each serves a small other schema
right before, untimed: the interpreter and caches are as between two requests, not as after a collection of
garbage. ``--in-situ`` changes 64 MiB of other memory between the two, as a server's other work does. Every
schema is met once, so caches of whole grammars never answer, but what XGrammar keeps of rules, and ours of
walks, may.

What XGrammar keeps of rules depends on what it met first: after one grammar that is not a schema of the run
it takes three times as long for the median schema. So "XGrammar" meets nothing but the schemas of the run,
which is its best state; small other schemas are served by another compiler of the same settings.
``--xgrammar-states`` measures it besides as it is after another schema ("XGrammar, warmed"), and with one
thread, in its best state ("XGrammar, one thread"). Compilers, vocabularies and kernels are made before (a
server makes them once), and what that takes is reported apart. The document is the first instance that
XGrammar takes. Where XGrammar fails for what its cache holds, it counts as a refusal, and masks are compared
with those that it has without a cache. Times of a schema with a difference are left out.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
import xgrammar
from rich.console import Console
from rich.progress import track

from bench import burst as bursts
from bench import headline, options, picture, report, workloads
from bench.cold_caches import TOUCHED_BYTES, ColdCaches, is_taken
from bench.forked import ends_within
from bench.peers.elsewhere import Peer as Elsewhere
from bench.peers.llguidance import Peer, beginning_of, is_installed
from bench.request import Request, Start, hybrid_start, plain_start, run_document
from bench.schema_rows import NOT_ALIKE, Row, print_summary, summarise
from bench.serving import beginning, clock_cost, timed
from bench.verdicts import Verdicts
from hybrid.testing.comparison import Times
from hybrid.testing.segmentation import tokenize_greedy

if TYPE_CHECKING:
    from equivalence.vocabulary import Vocabulary


OTHER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"other": {"type": "integer"}, "schema": {"type": "string"}},
}
"""What each engine serves, untimed, before each schema; with another title each time."""

WARMED, ONE_THREAD = "XGrammar, warmed", "XGrammar, one thread"
"""XGrammar in other states than its best one with all threads."""


@dataclass
class SchemaBench:
    """All compilers, their settings, and the measurement of one schema.

    `threads` and `strict` of None are each library's defaults. `beside` are other strategies of ours, each
    with a vocabulary of its own: what one strategy keeps there of a schema is not to make another one
    faster.
    """

    vocabulary: Vocabulary
    strategy: str = "auto"
    threads: int | None = None
    strict: bool | None = None
    seed: int = 0
    walks: int = 0
    walk_steps: int = 200
    max_plain_seconds: float | None = None
    beside: Mapping[str, Vocabulary] = field(default_factory=dict)
    llguidance: bool = False
    cold_caches: ColdCaches | None = None
    cache: bool = True
    elsewhere: Elsewhere | None = None
    xgrammar_states: bool = False
    touched: int = 0
    """Bytes of other memory that are changed before each request."""

    def __post_init__(self) -> None:
        self.options: dict[str, Any] = {} if self.strict is None else {"strict_mode": self.strict}
        self.ours = workloads.hybrid_compiler(self.vocabulary, self.strategy, self.threads, cache=self.cache)
        self.others = {
            strategy: workloads.hybrid_compiler(own, strategy, self.threads, cache=self.cache)
            for strategy, own in self.beside.items()
        }
        self.plain = workloads.plain_compiler(self.vocabulary, self.threads, self.cache)
        self.aside = workloads.plain_compiler(self.vocabulary, self.threads, self.cache)
        """Meets all that XGrammar is not to meet before the schemas of the run."""
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
        """What everybody was given, in words."""
        strict = "default" if self.strict is None else str(self.strict)
        threads = "default (XGrammar 8, ours 1)" if self.threads is None else str(self.threads)
        caches = "on (default)" if self.cache else "off"
        between = f"{self.touched >> 20} MiB changed before each request" if self.touched else "back to back"
        given = f"strict_mode {strict}, caches {caches}, threads {threads}, {between}"
        return f"{given}; llguidance has its defaults"

    def measure(self, file: workloads.SchemaFile) -> Row:
        """Compiles, serves and compares one schema; the engines come in a random order."""
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
        for name in order:
            gc.collect()
            # A collection empties what Python keeps for new objects, and the processor's caches.
            before = self._engine_aside if name in plains else engines[name]
            before({**OTHER_SCHEMA, "title": file.name}, self.bitmask)
            self._memory += 1
            found[name] = engines[name](file.schema, self.bitmask)
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
            row.peer = self.peer.measure(found["llguidance"], list(self._sequences(file.name, file.valid)))
        row.beside = {strategy: Row(file.name) for strategy in self.others}
        for name, one in {"ours": row, **row.beside}.items():
            self._fill(one, file, found[name], plain, cold=name == "ours")
        row.verdicts = self._verdicts(file, {name: found[name] for name in engines})
        return row

    def _verdicts(self, file: workloads.SchemaFile, found: Mapping[str, Start]) -> dict[str, Verdicts]:
        """Which instances each engine takes that runs here and has not refused the schema."""
        texts = (map(workloads.render_instance, instances) for instances in (file.valid, file.invalid))
        valid, invalid = ([tokenize_greedy(self.vocabulary, text) for text in side] for side in texts)
        return {
            name: Verdicts.of(partial(self._takes, name, begun), valid, invalid)
            for name, begun in found.items()
            if begun.calls is not None
        }

    def _takes(self, name: str, begun: Start, ids: Sequence[int]) -> bool:
        from hybrid import GrammarMatcher

        if self.peer is not None and name == "llguidance":
            taken = self.peer.taken(begun.compiled, [ids])[0]
            begun.compiled.try_consume_tokens(taken)
            return len(taken) == len(ids) and bool(begun.compiled.is_accepting())
        is_plain = name == "XGrammar" or name in self.states
        matcher = (xgrammar.GrammarMatcher if is_plain else GrammarMatcher)(begun.compiled)
        return all(map(matcher.accept_token, ids)) and bool(matcher.is_completed())

    def _engines(self) -> dict[str, Callable[[Any, Any], Start]]:
        """From a schema, and the row for masks, to a first mask: ours, our other strategies, the peers."""

        def ours(compiler: Any, schema: Any, bitmask: Any) -> Start:
            compile_it = partial(compiler.compile_json_schema, schema, **self.options)
            return hybrid_start(compile_it, bitmask, collect=False)

        def plain(schema: Any, bitmask: Any) -> Start:
            return plain_start(partial(self._compile_plain, schema), bitmask, collect=False)

        states = {name: partial(self._start_plain, compiler) for name, compiler in self.states.items()}
        compilers = {"ours": self.ours, **self.others}
        engines = {name: partial(ours, compiler) for name, compiler in compilers.items()}
        peers = {} if self.peer is None else {"llguidance": partial(self.peer.schema, collect=False)}
        if self.elsewhere is not None:
            peers[self.elsewhere.name] = self.elsewhere.schema
        return {**engines, "XGrammar": plain, **states, **peers}

    def _first_document(self, file: workloads.SchemaFile, plain: Start | None) -> list[int] | None:
        """The first instance that XGrammar takes, if there is one."""
        if plain is not None and plain.compiled is not None:
            for text in map(workloads.render_instance, file.valid):
                matcher = xgrammar.GrammarMatcher(plain.compiled)
                if matcher.accept_string(text) and matcher.is_completed():
                    return workloads.token_sequences(self.vocabulary, text, "")[0]
        return None

    def _fill(
        self, row: Row, file: workloads.SchemaFile, ours: Start, plain: Start | None, cold: bool
    ) -> None:
        """What one compiler of ours has made, beside XGrammar; None where that would take too long."""
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
        if ours.compiled is not None:  # only now: who asks for the classes of a grammar makes them
            row.strategy, row.reason = ours.compiled.strategy, ours.compiled.reason
            row.classes = workloads.class_count(ours.compiled)

    def _run_cold(self, calls: ColdCaches, file: workloads.SchemaFile, ours: Any, plain: Any) -> None:
        """The first document with cold caches; only what all engines take."""
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

    def _engine_aside(self, schema: Any, bitmask: Any) -> Start:
        """XGrammar by a compiler that is not measured, or is measured after whatever it met."""
        return self._start_plain(self.aside, schema, bitmask)

    def _compile_plain(self, schema: Any) -> Any:
        return self.plain.compile_json_schema(schema, **self.options)

    def _compare(self, row: Row, file: workloads.SchemaFile, ours: Any, plain: Any) -> None:
        from hybrid.testing.verify import compare_along

        begin = beginning(ours)
        for sequence in self._sequences(file.name, file.valid):
            found = compare_along(ours, plain, sequence)
            row.instances += 1
            row.instances_accepted += found.complete
            row.comparison.add(found)
            if found.exact:
                row.repeated.extend(timed(begin(), sequence[: found.accepted])[0])
        # What no model is meant to write is compared as well, but its times are nobody's business.
        for ids in self._sequences(file.name, file.invalid):
            found = compare_along(ours, plain, ids)
            found.times = Times()
            row.comparison.add(found)
        seed = 1000 * self.seed
        row.comparison.add(workloads.compare_walks(ours, plain, seed, self.walks, self.walk_steps))

    def _sequences(self, name: str, instances: tuple[Any, ...]) -> Iterator[list[int]]:
        for number, data in enumerate(instances):
            text = workloads.render_instance(data)
            yield from workloads.token_sequences(self.vocabulary, text, f"{self.seed} {name} {number}")

    def run_bursts(self, schemas: list[Any], size: int, threads: int) -> list[dict[str, bursts.Burst]]:
        """Bursts of schemas at once on some threads, each on all engines."""

        def serve(begin: Callable[[Any, Any], Start], schema: Any) -> Any:
            begun = begin(schema, xgrammar.allocate_token_bitmask(1, self.vocabulary.size))
            if begun.crashed:
                raise RuntimeError(begun.error)
            return begun.compiled

        engines = {name: partial(serve, begin) for name, begin in self._engines().items()}
        for other in (
            *self.others,
            *self.states,
            *([self.elsewhere.name] if self.elsewhere is not None else ()),
        ):
            del engines[other]
        return bursts.run_all(engines, schemas, size, self.seed, threads)


def _refusal(ours: Start, plain: Start) -> str:
    """The outcome where at least one side has not made a mask."""
    if ours.compiled is not None:
        return "only XGrammar refuses"
    # What plain XGrammar raises in the same words may pass through us, whatever its type.
    if ours.crashed and ours.error != plain.error:
        return "ours crashes"
    return "both refuse" if plain.compiled is None else "only ours refuses"


def command(
    vocabulary: options.VocabularyOption,
    schemas: options.SchemasOption,
    json: options.RecordOption,
    limit: options.LimitOption = None,
    seed: options.SeedOption = 0,
    walks: options.WalksOption = 0,
    walk_steps: options.WalkStepsOption = 200,
    max_plain_seconds: Annotated[
        float | None,
        typer.Option(help="Give XGrammar up after so many seconds, which then count; costs a compile more."),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Of XGrammar and ours; else each one's default.")
    ] = None,
    strategy: options.StrategyOption = "auto",
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
    picture: Annotated[
        Path | None, typer.Option(help="An SVG of the distribution of times to the first mask.")
    ] = None,
) -> None:
    """JSON schemas used once: to the first mask, through a document, masks; all engines at their defaults."""
    arguments = dict(locals())
    console = report.make_console()
    setup = workloads.Setup()
    with workloads.usage_errors():
        files = workloads.load_schema_files(schemas, limit, seed)
        check(len(files), burst, picture)
        with setup.timed("vocabulary"):
            tokens = workloads.load_vocabulary(vocabulary)
    with workloads.usage_errors(), setup.timed("compilers"):
        bench = SchemaBench(
            tokens, strategy, threads, strict, seed, walks, walk_steps, max_plain_seconds,
            {other: workloads.load_vocabulary(vocabulary) for other in beside or ()},
            is_installed() if llguidance is None else llguidance,
            ColdCaches(clock_cost()) if cold_caches else None, cache, None, xgrammar_states,
            TOUCHED_BYTES if in_situ else 0,
        )  # fmt: skip
        if xgrammar_elsewhere is not None:
            bench.elsewhere = Elsewhere(tokens, xgrammar_elsewhere, bench.options)
    if warm:
        for compiler in (*bench.others.values(), bench.ours):
            setup.warm(compiler, bench.aside, tokens, bench.bitmask)
        if bench.peer is not None:
            bench.peer.schema(workloads.THROW_AWAY_SCHEMA)
    setup.print(console)
    record = {"benchmark": "schemas", **report.environment(arguments), "setup_seconds": setup.seconds}
    try:
        if burst is None:
            found, alike = _one_by_one(console, bench, files, picture)
        else:
            found, alike = _at_once(console, bench, files, burst, burst_threads or [bursts.THREADS])
    finally:
        if bench.elsewhere is not None:
            bench.elsewhere.close()
    record |= {"peak_memory_bytes": report.peak_memory_bytes(), **found}
    report.write_json(json, record)
    if not alike:
        raise typer.Exit(1)


def check(count: int, burst: int | None, path: Path | None) -> None:
    """Refuses what would fail only after everything was measured.

    Raises:
        ValueError: fewer schemas than a burst, a picture of bursts, or no matplotlib.
    """
    if burst is not None and count < burst:
        raise ValueError(f"--burst {burst} wants at least {burst} schemas, here are {count}")
    if burst is not None and path is not None:
        raise ValueError("--picture is of single schemas; leave out --burst")
    if path is not None:
        picture.pyplot()


def _one_by_one(
    console: Console, bench: SchemaBench, files: list[workloads.SchemaFile], path: Path | None
) -> tuple[dict[str, Any], bool]:
    rows = []
    for file in track(files, "schemas", console=console, transient=True):
        row = bench.measure(file)
        rows.append(row)
        if not row.alike:
            for one in (row, *row.beside.values()):
                for line in one.refusals if one.outcome in NOT_ALIKE else one.comparison.differences[:5]:
                    report.say(console, f"DIFFERENCE {file.name}: {one.outcome}: {line}")
    summary = {"options": bench.settings, **summarise(rows), "kept": _kept(bench.vocabulary)}
    if bench.cold_caches is not None:
        summary["cold_caches"] = bench.cold_caches.spreads()
    print_summary(console, summary)
    if path is not None:
        requests = [row.requests for row in rows if row.alike]
        times = {name: headline.first_masks(requests, name) for name in headline.engines(requests)}
        picture.draw(path, times, f"New JSON schemas, {bench.vocabulary.size:,} token ids")
    return {"summary": summary, "rows": [row.record() for row in rows]}, all(row.alike for row in rows)


def _kept(vocabulary: Vocabulary) -> dict[str, int]:
    """How often walks were found that were kept from other schemas."""
    kept = vocabulary.kept_reads
    return {"found": kept.hits, "not found": kept.misses}


def _at_once(
    console: Console, bench: SchemaBench, files: list[workloads.SchemaFile], size: int, threads: list[int]
) -> tuple[dict[str, Any], bool]:
    """Bursts on each number of threads; the record has the bursts on the first one."""
    masks = differences = 0
    summaries: dict[int, Any] = {}
    each: list[Any] = []
    for count in threads:
        schemas = [file.schema for file in files]
        if summaries:
            schemas = bursts.renamed(schemas, f"on {count} threads")
        found = bench.run_bursts(schemas, size, count)
        for one in found:
            compared, differing = bursts.compare(one)
            masks, differences = masks + compared, differences + differing
        summaries[count] = bursts.summarise(found)
        each = each or [[one.record() for one in burst.values()] for burst in found]
        title = f"seconds; {len(found)} bursts of {size} new schemas on {count} threads; {bench.settings}"
        bursts.print_summary(console, summaries[count], title)
    if len(threads) > 1:
        bursts.print_scaling(console, summaries)
    report.say(console, f"{masks:,} first masks compared, {differences:,} differences")
    counts = {
        "options": bench.settings, "masks": masks, "differences": differences,
        "engines": summaries[threads[0]], "by_threads": summaries,
    }  # fmt: skip
    return {"summary": counts, "bursts": each}, not differences
