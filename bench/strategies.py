"""What "auto" costs, compared with the best strategy: for one schema, used once, ten times, a thousand times.

What: each of our strategies, and plain XGrammar, compiles each schema anew and takes it through this many
documents. The result is the CPU time up to the first, tenth and thousandth document, and how much more "auto"
takes than the strategy that was best for that schema and number of documents.
When: ``python -m bench strategies --vocabulary SPEC --schemas FOLDER --limit 20 --json FILE``.
Limits: one process, one thread. Each strategy has its own vocabulary, so that what one strategy caches of a
schema does not help another one. The documents of a schema are its valid instances, repeated: from the second
round on, hardly anything is new.
"""

from __future__ import annotations

import gc
import json as json_format
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Annotated, Any

import typer
import xgrammar
from rich.progress import track

from bench import options, report, workloads
from bench.cold_caches import is_taken
from bench.reporting.answers import publish

COUNTS = (1, 10, 1000)
AUTO = "auto"
OURS = (AUTO, "classifier", "representatives", "engine")
PLAIN = "XGrammar"

Times = Mapping[str, Mapping[int, float]]
"""CPU seconds of each way, by the number of documents."""


def serve(
    compile_it: Callable[[], Any], matcher: Callable[[Any], Any], documents: Sequence[Sequence[int]],
    bitmask: Any, counts: Sequence[int],
) -> dict[int, float]:  # fmt: skip
    """Return the CPU seconds from the schema to the end of each number of documents."""
    gc.collect()
    found: dict[int, float] = {}
    began = process_time()
    compiled = compile_it()
    for number in range(max(counts)):
        one = matcher(compiled)
        for token in documents[number % len(documents)]:
            one.fill_next_token_bitmask(bitmask)
            one.accept_token(token)
        if number + 1 in counts:
            found[number + 1] = process_time() - began
    return found


def summarise(rows: Sequence[Times], counts: Sequence[int]) -> dict[str, dict[str, Any]]:
    """For each number of documents, return the CPU seconds of each way on all schemas, and "auto" compared
    with our best strategy."""
    found: dict[str, dict[str, Any]] = {}
    for count in counts:
        totals = {way: sum(row[way][count] for row in rows) for way in (*OURS, PLAIN)}
        ratios = [row[AUTO][count] / min(row[way][count] for way in OURS) for row in rows]
        best = min(totals[way] for way in OURS)
        found[str(count)] = {
            "seconds": totals, "auto_to_best": totals[AUTO] / best, "ratios": report.Spread.of(ratios)
        }  # fmt: skip
    return found


@dataclass
class StrategyBench:
    """A compiler for each way, without caches of grammars: each schema is compiled anew."""

    vocabularies: Mapping[str, Any]
    counts: Sequence[int]

    def __post_init__(self) -> None:
        own = self.vocabularies
        self.ours = {way: workloads.hybrid_compiler(own[way], way, None) for way in OURS}
        self.plain = workloads.plain_compiler(own[AUTO], None)
        self.bitmask = xgrammar.allocate_token_bitmask(1, own[AUTO].size)
        for way in OURS:  # to make what is made once for a vocabulary
            self.run(way, workloads.THROW_AWAY_SCHEMA, [[]], [1])

    def run(
        self, way: str, schema: Any, documents: Sequence[Sequence[int]], counts: Sequence[int]
    ) -> dict[int, float]:
        """Call `serve` for one way."""
        from hybrid import GrammarMatcher

        compiler, matcher = (
            (self.plain, xgrammar.GrammarMatcher) if way == PLAIN else (self.ours[way], GrammarMatcher)
        )
        compile_it = partial(compiler.compile_json_schema, json_format.dumps(schema))
        return serve(compile_it, matcher, documents, self.bitmask, counts)

    def measure(self, file: workloads.SchemaFile) -> tuple[dict[str, dict[int, float]], int] | None:
        """Return times of each way, and how many masks differ; None if XGrammar refuses the schema, or "auto"
        accepts no instance."""
        from hybrid.testing.mask_comparison import compare_along

        try:
            reference = self.plain.compile_json_schema(file.schema)
        except Exception:  # noqa: BLE001 - what XGrammar refuses is nobody's measure
            return None
        auto = self.ours[AUTO].compile_json_schema(file.schema)
        texts = map(workloads.render_instance, file.valid)
        tokens = [workloads.token_sequences(self.vocabularies[AUTO], text, "")[0] for text in texts]
        documents = [ids for ids in tokens if is_taken(auto, ids)]
        if not documents:
            return None
        differences = sum(compare_along(auto, reference, ids).difference_count for ids in documents)
        times = {way: self.run(way, file.schema, documents, self.counts) for way in (*OURS, PLAIN)}
        return times, differences


def command(
    vocabulary: options.VocabularyOption,
    schemas: options.SchemasOption,
    json: options.RecordOption,
    limit: options.LimitOption = None,
    seed: options.SeedOption = 0,
    most: Annotated[int, typer.Option(min=1, help="Documents of a schema.")] = COUNTS[-1],
) -> None:
    """Compare the cost of "auto" with the best strategy, for schemas used once, ten and a thousand times."""
    arguments = dict(locals())
    console = report.make_console()
    with workloads.usage_errors():
        files = workloads.load_schema_files(schemas, limit, seed)
        vocabularies = {way: workloads.load_vocabulary(vocabulary) for way in OURS}
    counts = sorted({min(count, most) for count in COUNTS})
    bench = StrategyBench(vocabularies, counts)
    rows, differences = {}, 0
    for file in track(files, "schemas", console=console, transient=True):
        if (found := bench.measure(file)) is not None:
            rows[file.name] = found[0]
            differences += found[1]
    summary = summarise(list(rows.values()), counts)
    report.say(console, f"{differences:,} differences of masks")
    record = {"summary": summary, "differences": differences, "rows": rows}
    publish(console, json, "strategies", arguments, record, not differences)
