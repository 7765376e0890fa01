"""JSON schemas that are used once: time to the first mask, and the cost of each mask after it.

What: for each schema of a folder, compiles it with plain XGrammar and with ours, compares every mask
along its instances (and random walks), and reports times, classes and strategies of both sides.
When: ``python -m bench schemas --vocabulary SPEC --schemas FOLDER --json FILE``.
``--beside STRATEGY`` measures ours on another strategy in the same run, ``--llguidance`` that library, whose
masks mean something else and are not compared (`bench.peers.llguidance`).
Limits: one process, caches off, every compile a fresh one; compilers, vocabularies and kernels are made
before (a server makes them once), and what that takes is reported apart. Mask times are taken while masks
are compared, in turns of who goes first: the first time that this grammar sees them ("repeated" is
ours along the same tokens once more). Times of a schema with a difference are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer
import xgrammar
from rich.console import Console
from rich.progress import track

from bench import options, report, workloads
from bench.cold_caches import ColdCaches, is_taken
from bench.forked import ends_within
from bench.peers.llguidance import Peer, PeerTimes, peer_counts, peer_spreads
from bench.report import Spread
from bench.serving import clock_cost
from hybrid.testing.comparison import Comparison, Times

if TYPE_CHECKING:
    from equivalence.vocabulary import Vocabulary

NOT_ALIKE = ("ours crashes", "only ours refuses", "only XGrammar refuses")
"""Outcomes that are errors of ours, before any mask."""


@dataclass
class Row:
    """What was measured on one schema; seconds throughout.

    ``outcome`` is ``"compared"``, ``"both refuse"``, ``"plain too slow"`` or one of `NOT_ALIKE`.
    """

    name: str
    outcome: str = "compared"
    strategy: str = ""
    reason: str = ""
    classes: int | None = None
    first_mask: float | None = None
    plain_first_mask: float | None = None
    first_mask_cpu: float | None = None
    plain_first_mask_cpu: float | None = None
    compile: float | None = None
    plain_compile: float | None = None
    phases: dict[str, float] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    instances: int = 0
    instances_accepted: int = 0
    comparison: Comparison = field(default_factory=Comparison)
    repeated: list[float] = field(default_factory=list)
    beside: dict[str, Row] = field(default_factory=dict)
    peer: PeerTimes | None = None

    @property
    def alike(self) -> bool:
        beside = all(row.alike for row in self.beside.values())
        return beside and self.comparison.exact and self.outcome not in NOT_ALIKE

    @property
    def timed(self) -> bool:
        """Both sides have a time to the first mask, of masks known to be equal."""
        return self.alike and self.first_mask is not None and self.plain_first_mask is not None

    def record(self) -> dict[str, Any]:
        """This row as it is written to the record."""
        plain = ("comparison", "repeated", "beside", "peer")
        return {
            **{one.name: getattr(self, one.name) for one in fields(self) if one.name not in plain},
            **report.compared(self.comparison),
            "repeated_mask": Spread.of(self.repeated),
            "beside": {strategy: row.record() for strategy, row in self.beside.items()},
            "llguidance": self.peer,
        }


@dataclass
class SchemaBench:
    """Both compilers, their settings, and the measurement of one schema.

    `beside` are other strategies of ours, each with a vocabulary of its own: what one strategy keeps there
    from a schema is not to make another one faster.
    """

    vocabulary: Vocabulary
    strategy: str = "auto"
    threads: int = 1
    strict: bool = False
    seed: int = 0
    walks: int = 0
    walk_steps: int = 200
    max_plain_seconds: float | None = None
    beside: Mapping[str, Vocabulary] = field(default_factory=dict)
    llguidance: bool = False
    cold_caches: ColdCaches | None = None

    def __post_init__(self) -> None:
        self.options: dict[str, Any] = {"strict_mode": self.strict}
        self.ours = workloads.hybrid_compiler(self.vocabulary, self.strategy, self.threads)
        self.others = {
            strategy: workloads.hybrid_compiler(own, strategy, self.threads)
            for strategy, own in self.beside.items()
        }
        self.plain = workloads.plain_compiler(self.vocabulary, self.threads)
        self.peer = Peer(self.vocabulary) if self.llguidance else None
        self.bitmask = xgrammar.allocate_token_bitmask(1, self.vocabulary.size)
        self._cold: set[str] = set()

    def measure(self, file: workloads.SchemaFile, plain_first: bool) -> Row:
        """Compiles and compares one schema; the sides take turns at being first."""
        row = Row(file.name)
        too_slow = self.max_plain_seconds is not None and not ends_within(
            lambda: self._compile_plain(file.schema), self.max_plain_seconds
        )
        plain = workloads.Start(None, 0.0, 0.0, 0.0)
        if plain_first and not too_slow:
            plain = workloads.plain_start(lambda: self._compile_plain(file.schema), self.bitmask)
        ours = self._start(self.ours, file.schema)
        others = {strategy: self._start(one, file.schema) for strategy, one in self.others.items()}
        if not plain_first and not too_slow:
            plain = workloads.plain_start(lambda: self._compile_plain(file.schema), self.bitmask)
        if self.peer is not None:
            documents = [ids for _, ids in self._sequences(file.name, file.valid)]
            row.peer = self.peer.measure(file.schema, documents)
        row.beside = {strategy: Row(file.name) for strategy in others}
        for one, start in ((row, ours), *((row.beside[strategy], others[strategy]) for strategy in others)):
            self._fill(one, file, start, None if too_slow else plain)
        return row

    def _start(self, compiler: Any, schema: Any) -> workloads.Start:
        return workloads.hybrid_start(
            lambda: compiler.compile_json_schema(schema, **self.options), self.bitmask
        )

    def _fill(
        self, row: Row, file: workloads.SchemaFile, ours: workloads.Start, plain: workloads.Start | None
    ) -> None:
        """What one compiler of ours has made, beside XGrammar; None where that would take too long."""
        if ours.compiled is not None:
            row.first_mask, row.compile = ours.seconds, ours.compile_seconds
            row.first_mask_cpu = ours.cpu_seconds
            row.strategy, row.reason = ours.compiled.strategy, ours.compiled.reason
            row.classes = workloads.class_count(ours.compiled)
            row.phases = dict(ours.compiled.timings)
        if plain is None:
            row.outcome = "plain too slow"
            return
        row.refusals = [start.error for start in (ours, plain) if start.error]
        if ours.compiled is None or plain.compiled is None:
            row.outcome = _refusal(ours, plain)
            return
        row.plain_first_mask, row.plain_compile = plain.seconds, plain.compile_seconds
        row.plain_first_mask_cpu = plain.cpu_seconds
        self._compare(row, file, ours.compiled, plain.compiled)
        if self.cold_caches is not None and row.name not in self._cold and row.alike:
            self._run_cold(file, ours.compiled, plain.compiled)

    def _run_cold(self, file: workloads.SchemaFile, ours: Any, plain: Any) -> None:
        """The first document with cold caches; only what all engines take."""
        assert self.cold_caches is not None
        self._cold.add(file.name)
        _, ids = next(self._sequences(file.name, file.valid), (b"", []))
        if not is_taken(ours, ids):
            return
        matcher = None
        if self.peer is not None:
            started = self.peer.schema(file.schema)
            if started.refusal or self.peer.taken(started.matcher, [ids]) != [list(ids)]:
                return
            matcher = started.matcher
        self.cold_caches.add(ours, plain, ids, matcher)

    def _compile_plain(self, schema: Any) -> Any:
        return self.plain.compile_grammar(xgrammar.Grammar.from_json_schema(schema, **self.options))

    def _compare(self, row: Row, file: workloads.SchemaFile, ours: Any, plain: Any) -> None:
        from hybrid.testing.verify import compare_along, compare_walk

        for _, sequence in self._sequences(file.name, file.valid):
            found = compare_along(ours, plain, sequence)
            row.instances += 1
            row.instances_accepted += found.complete
            row.comparison.add(found)
            if found.exact:
                accepted = sequence[: found.accepted]
                row.repeated.extend(workloads.run_along(ours, accepted, self.bitmask))
        # What no model is meant to write is compared as well, but its times are nobody's business.
        untimed = [compare_along(ours, plain, ids) for _, ids in self._sequences(file.name, file.invalid)]
        for walk in range(self.walks):
            untimed.append(compare_walk(ours, plain, self.seed * 1000 + walk, self.walk_steps))
        for found in untimed:
            found.times = Times()
            row.comparison.add(found)

    def _sequences(self, name: str, instances: tuple[Any, ...]) -> Iterator[tuple[bytes, list[int]]]:
        for number, data in enumerate(instances):
            text = workloads.render_instance(data)
            for ids in workloads.token_sequences(self.vocabulary, text, f"{self.seed} {name} {number}"):
                yield text, ids


def _refusal(ours: workloads.Start, plain: workloads.Start) -> str:
    """The outcome where at least one side has not made a mask."""
    if ours.compiled is not None:
        return "only XGrammar refuses"
    # What plain XGrammar raises in the same words may pass through us, whatever its type.
    if ours.crashed and ours.error != plain.error:
        return "ours crashes"
    return "both refuse" if plain.compiled is None else "only ours refuses"


def summarise(rows: list[Row]) -> dict[str, Any]:
    """The figures over all schemas; keys of spreads hold a `Spread` each."""
    timed, good = ([row for row in rows if one(row)] for one in (lambda r: r.timed, lambda r: r.alike))
    ratios = Spread.of((row.plain_first_mask or 0.0) / (row.first_mask or 1.0) for row in timed)
    phases = dict.fromkeys(phase for row in good for phase in row.phases)
    times = [row.comparison.times for row in good]
    compared = [one.comparison for row in rows for one in (row, *row.beside.values())]
    spreads = {
        **_spreads(good, "ours"),
        "first mask, XGrammar": Spread.of(row.plain_first_mask or 0.0 for row in timed),
        "first mask, XGrammar, CPU": Spread.of(row.plain_first_mask_cpu or 0.0 for row in timed),
        "mask, XGrammar": Spread.of(value for part in times for value in part.plain_fill),
        "accept, XGrammar": Spread.of(value for part in times for value in part.plain_accept),
        **{f"phase {p}": Spread.of(row.phases[p] for row in good if p in row.phases) for p in phases},
    }
    for strategy in dict.fromkeys(strategy for row in rows for strategy in row.beside):
        spreads |= _spreads([row.beside[strategy] for row in good if strategy in row.beside], strategy)
    ours, plain = spreads["first mask, ours"], spreads["first mask, XGrammar"]
    return {
        "spreads": spreads | peer_spreads(rows),
        "classes": Spread.of(row.classes for row in good if row.classes is not None),
        "ratio": ratios,
        "ratio_of_medians": plain.p50 / ours.p50 if ours.p50 else None,
        "ratio_of_means": plain.mean / ours.mean if ours.mean else None,
        "outcomes": dict(Counter(row.outcome for row in rows)),
        "strategies": dict(Counter(row.strategy for row in rows if row.strategy).most_common()),
        "engine_reasons": dict(Counter(r.reason for r in rows if r.strategy == "engine").most_common()),
        "masks": sum(one.masks for one in compared),
        "equal": sum(one.equal for one in compared),
        "contradictions": sum(one.contradiction_count for one in compared),
        "differences": sum(one.difference_count for one in compared),
        "llguidance": peer_counts(rows),
        "not_alike": [row.name for row in rows if not row.alike],
        "sequences": sum(row.instances for row in rows),
        "sequences_accepted": sum(row.instances_accepted for row in rows),
    }


def _spreads(rows: list[Row], name: str) -> dict[str, Spread]:
    """First masks, masks and tokens of one strategy of ours."""
    timed, times = [row for row in rows if row.timed], [row.comparison.times for row in rows]
    return {
        f"first mask, {name}": Spread.of(row.first_mask or 0.0 for row in timed),
        f"first mask, {name}, CPU": Spread.of(row.first_mask_cpu or 0.0 for row in timed),
        f"mask, {name}": Spread.of(value for part in times for value in part.fill),
        f"mask, {name} repeated": Spread.of(value for row in rows for value in row.repeated),
        f"accept, {name}": Spread.of(value for part in times for value in part.accept),
    }


def print_summary(console: Console, summary: dict[str, Any]) -> None:
    """The tables on the screen."""
    if "cold_caches" in summary:
        console.print(report.spread_table("seconds of calls, caches warm and cold", summary["cold_caches"]))
    console.print(report.spread_table("seconds", summary["spreads"]))
    console.print(report.spread_table("classes", {"classes": summary["classes"]}, ""))
    console.print(report.spread_table("ratios", {"XGrammar / ours, first mask": summary["ratio"]}, "x"))
    if summary["ratio_of_medians"] is not None:
        report.say(
            console,
            f"time to first mask, XGrammar / ours: {summary['ratio_of_medians']:.3g}x of medians, "
            f"{summary['ratio'].p50:.3g}x median of ratios, {summary['ratio_of_means']:.3g}x of means",
        )
    for title in ("outcomes", "strategies", "engine_reasons"):
        for name, count in summary[title].items():
            report.say(console, f"{title.replace('_', ' ')}: {count:,} {name}")
    peers = summary["llguidance"]
    if peers["schemas"]:
        report.say(
            console,
            f"llguidance takes {peers['taken']:,} of {peers['schemas']:,} schemas, and {peers['complete']:,} "
            f"of {peers['documents']:,} token sequences to the end; its masks are not compared",
        )
    report.say(
        console,
        f"{summary['sequences_accepted']:,} of {summary['sequences']:,} token sequences of valid instances "
        f"accepted to the end; {summary['masks']:,} masks compared, {summary['equal']:,} equal, "
        f"{summary['contradictions']:,} contradictions of XGrammar, {summary['differences']:,} differences",
    )


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
        typer.Option(help="Leave out the comparison where XGrammar takes longer; costs a compile more."),
    ] = None,
    threads: options.ThreadsOption = 0,
    strategy: options.StrategyOption = "auto",
    strict: options.StrictOption = False,
    warm: options.WarmOption = True,
    beside: Annotated[
        list[str] | None, typer.Option(help="Another strategy of ours in the same run; repeatable.")
    ] = None,
    llguidance: Annotated[bool, typer.Option(help="llguidance in the same run, times only.")] = False,
    cold_caches: options.ColdCachesOption = False,
) -> None:
    """JSON schemas used once: time to first mask, classes, masks; ours next to plain XGrammar."""
    arguments = dict(locals())
    console = report.make_console()
    threads = threads or report.usable_cores()
    setup = workloads.Setup()
    with workloads.usage_errors():
        files = workloads.load_schema_files(schemas, limit, seed)
        with setup.timed("vocabulary"):
            tokens = workloads.load_vocabulary(vocabulary)
    with workloads.usage_errors(), setup.timed("compilers"):
        bench = SchemaBench(
            tokens, strategy, threads, strict, seed, walks, walk_steps, max_plain_seconds,
            {other: workloads.load_vocabulary(vocabulary) for other in beside or ()}, llguidance,
            ColdCaches(clock_cost()) if cold_caches else None,
        )  # fmt: skip
    if warm:
        for compiler in (*bench.others.values(), bench.ours):
            setup.warm(compiler, bench.plain, tokens, bench.bitmask)
    rows = []
    for number, file in enumerate(track(files, "schemas", console=console, transient=True)):
        row = bench.measure(file, plain_first=bool(number & 1))
        rows.append(row)
        if not row.alike:
            for one in (row, *row.beside.values()):
                for line in one.refusals if one.outcome in NOT_ALIKE else one.comparison.differences[:5]:
                    report.say(console, f"DIFFERENCE {file.name}: {one.outcome}: {line}")
    summary = summarise(rows)
    if bench.cold_caches is not None:
        summary["cold_caches"] = bench.cold_caches.spreads()
    setup.print(console)
    print_summary(console, summary)
    record = {
        "benchmark": "schemas",
        **report.environment({**arguments, "threads": threads}),
        "setup_seconds": setup.seconds,
        "peak_memory_bytes": report.peak_memory_bytes(),
        "summary": summary,
        "rows": [row.record() for row in rows],
    }
    report.write_json(json, record)
    if not all(row.alike for row in rows):
        raise typer.Exit(1)
