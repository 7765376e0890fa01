"""Which way to run a schema takes the least time, and how near `auto` comes to it.

What: for each schema of a folder, compiles it in every way (`bench.ways`), runs documents through each, and
lays the totals (compiling and the masks of all documents) side by side at 1, 10 and 1,000 documents.
When: ``python -m bench strategies --vocabulary SPEC --schemas FOLDER --json FILE``.
Limits: one process, caches off. Schemas come in random order, and each compilation meets what the schemas
before left in the vocabulary (kept walks), not what its own repetitions left. Documents are valid instances
in turn, cut by the longest match and at random in turn, each cut at random another one; an instance counts up
to the first token that XGrammar's meaning refuses. A way runs up to ``--documents`` of them, fewer where they
take more than ``--way-seconds``; the others are extrapolated (`bench.ways`): what is said of 1,000 documents
is never run, and promotions that would come later are not in it. The ways take turns, five documents each, so
that what else the machine does meets all of them. Ours are compiled three times, in random order, and the
median counts; a compilation over a second is not repeated. What is there before the first schema is hidden
from the garbage collector (`gc.freeze`), which stays on. XGrammar over the whole vocabulary is compiled in a
forked process first, which is ended after ``--max-plain-seconds``: the engine is then taken for a way that is
not the best. Where it took more than a tenth of a second, the figures are those of that process (its first
writes to shared pages cost a little). The masks of the first documents are compared with XGrammar's and among
all ways before a time counts.
"""

from __future__ import annotations

import gc
import json as json_format
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
import xgrammar
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench import options, report, workloads
from bench.forked import in_a_fork
from bench.ways import (
    AUTO,
    CLOCKS,
    ENGINE,
    PARTS,
    WAYS,
    Costs,
    Document,
    KeptAsBefore,
    Overhead,
    accepted,
    compile_timed,
    mask_digest,
    serve_in_turns,
)
from hybrid.testing.segmentation import tokenize_greedy, tokenize_random

if TYPE_CHECKING:
    from equivalence.vocabulary import Vocabulary

COUNTS = (1, 10, 1000)
"""Documents for one schema."""

NEAR = 1.25
"""A way that takes at most this many times as long as the best one is near it."""

REPEATS = 3
LONG = 1.0
"""Seconds of a compilation that is not repeated."""

QUICK_ENGINE = 0.1
"""Seconds of XGrammar's compilation that are spent once more in this process."""

COMPARED = 2
"""Documents whose masks are compared: one cut by the longest match, one at random."""

COMPARING_SECONDS = 5.0


@dataclass
class Row:
    """One schema: features, the costs of every way, and what the comparison of masks found.

    ``outcome`` is "measured", "refused" (by every way) or "differs".
    """

    name: str
    outcome: str = "measured"
    features: dict[str, Any] = field(default_factory=dict)
    lengths: list[int] = field(default_factory=list)
    costs: dict[str, Costs] = field(default_factory=dict)
    masks: int = 0
    contradictions: int = 0
    differences: list[str] = field(default_factory=list)

    def totals(self, count: int, clock: str, part: str) -> dict[str, float]:
        """Seconds of every way that is known."""
        return {
            name: costs.total(count, self.lengths, clock, part)
            for name, costs in self.costs.items()
            if costs.known
        }

    def ratio(self, way: str, count: int, clock: str, part: str) -> float | None:
        """How many times as long as the best way a way takes; None where it cannot be had."""
        totals = self.totals(count, clock, part)
        return totals[way] / min(totals.values()) if way in totals else None

    def record(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "outcome": self.outcome,
            "features": self.features,
            "documents": len(self.lengths),
            "tokens": sum(self.lengths),
            "masks": self.masks,
            "contradictions": self.contradictions,
            "differences": self.differences,
            "ways": {name: costs.record(self.lengths) for name, costs in self.costs.items()},
        }


@dataclass
class StrategiesBench:
    """One compiler for each way, and the measurement of one schema."""

    vocabulary: Vocabulary
    documents: int = 70
    way_seconds: float = 2.0
    max_plain_seconds: float = 20.0
    seed: int = 0

    def __post_init__(self) -> None:
        self.compilers = {way.name: way.compiler(self.vocabulary) for way in WAYS}
        self.bitmask = xgrammar.allocate_token_bitmask(1, self.vocabulary.size)
        self.overhead = Overhead.measured()

    def warm(self) -> None:
        """The throw-away schema and its instance in every way."""
        ids = tokenize_greedy(self.vocabulary, workloads.THROW_AWAY_TEXT)
        for name, compiler in self.compilers.items():
            compiled = compile_timed(compiler, workloads.THROW_AWAY_SCHEMA, Costs(name))
            workloads.run_along(compiled, ids, self.bitmask)
        # each compilation collects garbage first, which takes 0.2 s where it looks at the vocabulary too
        gc.collect()
        gc.freeze()

    def measure(self, file: workloads.SchemaFile) -> Row:
        """All ways on one schema."""
        row = Row(file.name)
        kept = KeptAsBefore(self.vocabulary)
        compiled = self._compile(row, file.schema, kept)
        if not compiled:
            row.outcome = "refused"
            return row
        sample = compiled.get(AUTO.name) or next(iter(compiled.values()))
        documents = self._documents(sample, file)
        # the measured ones are to meet the first document as what is new
        compiled = self._compile(row, file.schema, kept, again=True)
        row.lengths = [len(ids) for ids in documents]
        row.features = features(sample, file.schema)
        serve_in_turns(compiled, self.compilers, documents, row.costs, self.overhead, self.way_seconds)
        self._compare(row, compiled, documents)
        self._engine(row, file.schema, compiled, documents)
        if row.differences:
            row.outcome = "differs"
        return row

    def _compile(self, row: Row, schema: Any, kept: KeptAsBefore, again: bool = False) -> dict[str, Any]:
        """Every way but the engine, in rounds; what the last one has made of each.

        In random order: one that came after representatives in each round took longer than its like after a
        classifier, which leaves in the processor's caches what both use.
        """
        made: dict[str, Any] = {}
        ways = [way for way in WAYS if way is not ENGINE]
        rng = random.Random(f"{self.seed} {row.name} {again}")
        for number in range(1 if again else REPEATS - 1):
            rng.shuffle(ways)
            for way in ways:
                costs = row.costs.setdefault(way.name, Costs(way.name))
                if costs.error or (number and sum(costs.compile) > LONG):
                    continue
                kept.restore()
                compiled = compile_timed(self.compilers[way.name], schema, costs)
                if compiled is not None:
                    made[way.name] = compiled
        return made

    def _documents(self, compiled: Any, file: workloads.SchemaFile) -> list[list[int]]:
        """The documents of a schema; none where it has no valid instance."""
        texts = [workloads.render_instance(data) for data in file.valid]
        if not texts:
            return []
        return list(islice(self._cuts(compiled, file.name, texts), self.documents))

    def _cuts(self, compiled: Any, name: str, texts: Sequence[bytes]) -> Iterator[list[int]]:
        known: dict[int, list[int]] = {}
        number = 0
        while True:
            at = number // 2 % len(texts)
            if number % 2 == 0:
                if at not in known:
                    known[at] = accepted(compiled, tokenize_greedy(self.vocabulary, texts[at]))
                yield known[at]
            else:
                seed = f"{self.seed} {name} {number}"
                yield accepted(compiled, tokenize_random(self.vocabulary, texts[at], seed))
            number += 1

    def _compare(self, row: Row, compiled: dict[str, Any], documents: list[list[int]]) -> None:
        """The masks of ours among each other."""
        for number, ids in enumerate(documents[:COMPARED]):
            found = {name: mask_digest(one, ids, self.bitmask) for name, one in compiled.items()}
            row.masks += len(ids) * (len(found) - 1)
            common = Counter(found.values()).most_common(1)[0][0]
            row.differences += [
                f"document {number}: the masks of {name} differ from those of other ways"
                for name, digest in found.items()
                if digest != common
            ]

    def _engine(self, row: Row, schema: Any, compiled: dict[str, Any], documents: list[list[int]]) -> None:
        """XGrammar over the whole vocabulary: in a process that can be ended, then here if it is quick."""
        seconds = self.max_plain_seconds + self.way_seconds + COMPARING_SECONDS
        found = in_a_fork(lambda: self._plainly(schema, compiled, documents, compare=True), seconds)
        costs = row.costs[ENGINE.name] = Costs(ENGINE.name)
        if found is None:
            costs.error = f"not within {seconds:.0f} s, or its process crashed"
            return
        for name, value in found["costs"].items():
            setattr(costs, name, value)
        costs.documents = [Document(**one) for one in found["costs"]["documents"]]
        row.masks += found["masks"]
        row.contradictions += found["contradictions"]
        row.differences += found["differences"]
        if costs.known and costs.compile[0] < QUICK_ENGINE:
            again = self._plainly(schema, {}, documents, compare=False)
            row.costs[ENGINE.name] = Costs(
                **{**again["costs"], "documents": [Document(**one) for one in again["costs"]["documents"]]}
            )

    def _plainly(
        self, schema: Any, compiled: dict[str, Any], documents: list[list[int]], *, compare: bool
    ) -> dict[str, Any]:
        from hybrid.testing.verify import compare_along

        costs = Costs(ENGINE.name)
        found: dict[str, Any] = {"masks": 0, "contradictions": 0, "differences": []}
        for _ in range(1 if compare else REPEATS):
            engine = compile_timed(self.compilers[ENGINE.name], schema, costs)
        if engine is not None:
            name = ENGINE.name
            serve_in_turns(
                {name: engine}, self.compilers, documents, {name: costs}, self.overhead, self.way_seconds
            )
            until = time.perf_counter() + COMPARING_SECONDS
            for name, one in compiled.items() if engine.strategy == "engine" else ():
                for ids in documents[:COMPARED]:
                    # a stop token ends a comparison by itself
                    met = compare_along(one, engine.engine, ids, deadline=until)
                    found["masks"] += met.masks
                    found["contradictions"] += met.contradiction_count
                    found["differences"] += [f"{name}: {item}" for item in met.differences[:3]]
        return {**found, "costs": asdict(costs)}


def features(compiled: Any, schema: Any) -> dict[str, Any]:
    """What a rule might go by, all of it known before a strategy is chosen or right after the classes."""
    serialized = json_format.loads(compiled.grammar.serialize_json())
    classes = compiled.classes
    found: dict[str, Any] = {
        "schema_bytes": len(json_format.dumps(schema)),
        "rules": len(serialized["rules"]),
        "expressions": len(serialized["grammar_expr_indptr"]),
        "grammar_integers": len(serialized["grammar_expr_data"]),
        "features": "" if compiled.features is None else str(compiled.features),
        "strategy": compiled.strategy,
        "reason": compiled.reason,
        "relaxed": len(compiled.relaxed),
    }
    if classes is not None:
        found |= {"classes": classes.n_classes, "method": classes.method, "sizes": dict(classes.sizes)}
    return found


def summarise(rows: list[Row], worst: int = 15) -> dict[str, Any]:
    """Ratios to the best way, and the share of schemas that are near it, for every way."""
    measured = [row for row in rows if row.outcome == "measured"]
    found: dict[str, Any] = {
        "schemas": len(measured),
        "outcomes": dict(Counter(row.outcome for row in rows)),
        "masks": sum(row.masks for row in rows),
        "contradictions": sum(row.contradictions for row in rows),
        "differences": sum(len(row.differences) for row in rows),
        "refused": {
            way.name: sum(not row.costs[way.name].known for row in measured if way.name in row.costs)
            for way in WAYS
        },
        "strategies": {
            way.name: dict(Counter(row.costs[way.name].strategy for row in measured if way.name in row.costs))
            for way in WAYS
        },
        "near": {},
        "worst": {},
    }
    for clock in CLOCKS:
        for part in PARTS:
            for count in COUNTS:
                key = f"{clock}, {part}, {count}"
                best = Counter(
                    min(t, key=t.__getitem__) for row in measured if (t := row.totals(count, clock, part))
                )
                found["near"][key] = {
                    way.name: {**near([row.ratio(way.name, count, clock, part) for row in measured]),
                               "best": best[way.name]}
                    for way in WAYS
                }  # fmt: skip
                ratios = [(row.ratio(AUTO.name, count, clock, part) or 0.0, row) for row in measured]
                ratios.sort(key=lambda pair: -pair[0])
                found["worst"][key] = [
                    {"name": row.name, "ratio": ratio, "seconds": row.totals(count, clock, part)}
                    for ratio, row in ratios[:worst]
                ]
    return found


def near(ratios: Sequence[float | None]) -> dict[str, float]:
    """The share of ratios that are near 1, and their quantiles; a way that cannot be had is not near."""
    known = np.array([ratio for ratio in ratios if ratio is not None])
    if not known.size:
        return {"share": 0.0, "known": 0}
    p50, p90, p95, p99 = (float(value) for value in np.percentile(known, (50, 90, 95, 99)))
    return {
        "share": float((known <= NEAR).sum() / len(ratios)),
        "known": int(known.size),
        "p50": p50,
        "p90": p90,
        "p95": p95,
        "p99": p99,
        "max": float(known.max()),
    }


def print_summary(console: Console, summary: dict[str, Any]) -> None:
    """The tables on the screen: the main one in CPU time, of masks."""
    for clock, part in (("cpu", "masks"), ("cpu", "masks and tokens"), ("wall", "masks")):
        table = Table(title=f"compiling and {part}, {clock} time, over the best way", title_justify="left")
        for name in ("documents", "way", "can", "best", f"within {NEAR}", "p50", "p90", "p95", "p99", "max"):
            table.add_column(name, justify="left" if name == "way" else "right", no_wrap=True)
        for count in COUNTS:
            for way, found in summary["near"][f"{clock}, {part}, {count}"].items():
                values = [found.get(name) for name in ("p50", "p90", "p95", "p99", "max")]
                table.add_row(
                    f"{count:,}", way, f"{found['known']}", f"{found['best']}",
                    f"{100 * found['share']:.1f} %",
                    *("" if value is None else report.readable(value, "") for value in values),
                )  # fmt: skip
            table.add_section()
        console.print(table)
    for count in COUNTS:
        for item in summary["worst"][f"cpu, masks, {count}"][:5]:
            seconds = ", ".join(f"{n} {report.readable(s)}" for n, s in item["seconds"].items())
            report.say(console, f"{count:,}: auto {item['ratio']:.2f}x on {item['name']} ({seconds})")
    for way, count in summary["refused"].items():
        report.say(console, f"cannot be had or takes too long: {way} on {count:,} schemas")
    report.say(
        console,
        f"{summary['schemas']:,} schemas, {summary['masks']:,} masks compared, {summary['contradictions']:,} "
        f"contradictions of XGrammar, {summary['differences']:,} differences",
    )


def command(
    vocabulary: options.VocabularyOption,
    schemas: options.SchemasOption,
    json: options.RecordOption,
    limit: options.LimitOption = None,
    seed: options.SeedOption = 0,
    documents: Annotated[int, typer.Option(min=1, help="Documents of a schema that are run.")] = 70,
    way_seconds: Annotated[float, typer.Option(help="Seconds for the documents of one way.")] = 2.0,
    max_plain_seconds: Annotated[
        float, typer.Option(help="The engine is left out where XGrammar takes longer.")
    ] = 20.0,
) -> None:
    """JSON schemas in every way: which takes the least time for some documents, and how near auto is."""
    arguments = dict(locals())
    console = report.make_console()
    setup = workloads.Setup()
    with workloads.usage_errors():
        files = workloads.load_schema_files(schemas, limit, seed)
        with setup.timed("vocabulary"):
            tokens = workloads.load_vocabulary(vocabulary)
            tokens.prepare()
    random.Random(seed).shuffle(files)
    bench = StrategiesBench(tokens, documents, way_seconds, max_plain_seconds, seed)
    with setup.timed("the throw-away schema in every way"):
        bench.warm()
    rows = []
    for file in track(files, "schemas", console=console, transient=True):
        row = bench.measure(file)
        rows.append(row)
        for line in row.differences:
            report.say(console, f"DIFFERENCE {file.name}: {line}")
    summary = summarise(rows)
    setup.print(console)
    print_summary(console, summary)
    record = {
        "benchmark": "strategies",
        **report.environment(arguments),
        "setup_seconds": setup.seconds,
        "overhead": asdict(bench.overhead),
        "summary": report.flat(summary),
        "rows": [row.record() for row in rows],
    }
    report.write_json(json, record)
    if summary["differences"]:
        raise typer.Exit(1)
