"""How the work of a server grows: with the nesting of a schema, with threads, and with the rows of a batch.

What: generated schemas of 1 to 30 levels, up to the first mask and along one document; new schemas on several
threads; masks of batches of up to 256 rows, each row at another place of its text.
When: ``python -m bench growth --vocabulary SPEC --json FILE``; `bench.scaling` measures growth with the
vocabulary and with properties.
Limits: no caches of compiled grammars, and one thread for each compiler, on both sides. Masks are compared
with plain XGrammar's before times count: along each document, the first mask of each new schema, and all rows
of each batch. XGrammar's batches run with one thread and with all cores; ours always run on one.
"""

from __future__ import annotations

import json as json_format
from collections.abc import Sequence
from functools import partial
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer
import xgrammar

from bench import burst, options, report, workloads
from bench.reporting.answers import publish
from bench.request import Start, hybrid_start, plain_start
from bench.scaling import made_schema
from bench.server_times import timed
from hybrid.testing.mask_comparison import bits_of, compare_along
from hybrid.testing.segmentation import tokenize_greedy

DEPTHS = (1, 2, 3, 5, 10, 20, 30)
THREADS = (1, 2, 4, 8)
ROWS = (1, 4, 16, 64, 256)
BATCH_CALLS = 20


def nested_schema(depth: int, number: int = 0) -> dict[str, Any]:
    """Make nested objects, each with an integer and the next object; another `number` gives another
    schema."""
    found: dict[str, Any] = {"type": "string", "maxLength": 10 + number}
    for level in range(depth, 0, -1):
        found = {
            "type": "object",
            "properties": {f"count_{level}": {"type": "integer"}, f"part_{level}": found},
            "required": [f"count_{level}", f"part_{level}"],
            "additionalProperties": False,
        }
    return found


def nested_document(depth: int) -> bytes:
    """Return a text of the schema with this many levels."""
    found: Any = "the end"
    for level in range(depth, 0, -1):
        found = {f"count_{level}": 10 * level, f"part_{level}": found}
    return workloads.render_instance(found)


class GrowthBench:
    """Both compilers over one vocabulary."""

    def __init__(self, vocabulary: Any, repeats: int) -> None:
        self.vocabulary, self.repeats = vocabulary, repeats
        self.ours = workloads.hybrid_compiler(vocabulary, "auto", 1)
        self.plain = workloads.plain_compiler(vocabulary, 1)
        self.bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
        self.masks = self.differences = 0

    def begin(self, engine: str, schema: Any, bitmask: Any = None, collect: bool = True) -> Start:
        """Take one schema to its first mask. Garbage is collected before, unless other requests are
        running."""
        compiler, start = (self.ours, hybrid_start) if engine == "ours" else (self.plain, plain_start)
        compile_it = partial(compiler.compile_json_schema, json_format.dumps(schema))
        begun = start(compile_it, self.bitmask if bitmask is None else bitmask, collect)
        if begun.error:
            raise RuntimeError(begun.error)
        return begun

    def compare(self, ours: Any, plain: Any, ids: Sequence[int]) -> None:
        """Compare the masks along a text, and count the differences from XGrammar."""
        found = compare_along(ours, plain, ids)
        self.masks, self.differences = self.masks + found.masks, self.differences + found.difference_count

    def nesting(self, depth: int) -> dict[str, Any]:
        """Measure the seconds to the first mask, of a mask and of a token, by engine: medians over similar
        schemas."""
        ids = tokenize_greedy(self.vocabulary, nested_document(depth))
        found: dict[str, dict[str, list[float]]] = {}
        for number in range(self.repeats):
            begun = {
                engine: self.begin(engine, nested_schema(depth, number)) for engine in ("ours", "XGrammar")
            }
            for engine, one in begun.items():
                own = found.setdefault(engine, {"first mask": [], "mask": [], "token": []})
                assert one.calls is not None
                masks, tokens = timed(one.calls, ids)
                own["first mask"].append(one.seconds)
                own["mask"].append(float(np.mean(masks[1:])))
                own["token"].append(float(np.mean(tokens)))
            self.compare(begun["ours"].compiled, begun["XGrammar"].compiled, ids)
        medians = {
            name: {what: float(np.median(times)) for what, times in own.items()}
            for name, own in found.items()
        }
        return {"size": depth, **medians}

    def threads(self, count: int, at_once: int) -> dict[str, Any]:
        """Measure the seconds until all of some new schemas have a first mask, by engine."""
        row: dict[str, Any] = {"size": count}
        schemas = [{**made_schema(4 + number), "title": str(count)} for number in range(at_once)]
        found = {}
        for engine in ("ours", "XGrammar"):

            def serve(schema: Any, engine: str = engine) -> Any:
                bitmask = xgrammar.allocate_token_bitmask(1, self.vocabulary.size)
                return self.begin(engine, schema, bitmask, collect=False).compiled

            found[engine] = burst.run(engine, serve, schemas, count)
            row[engine] = {"all answered": found[engine].total, "CPU": found[engine].cpu}
        masks, differences = burst.compare(found)
        self.masks, self.differences = self.masks + masks, self.differences + differences
        return row

    def batches(self) -> list[dict[str, Any]]:
        """Measure the seconds for each row, by engine, for each number of rows: medians of calls."""
        from hybrid import BatchGrammarMatcher, GrammarMatcher

        schema, ids = nested_schema(10), tokenize_greedy(self.vocabulary, nested_document(10))
        compiled = {engine: self.begin(engine, schema).compiled for engine in ("ours", "XGrammar")}
        cores = report.usable_cores()
        ways: dict[str, tuple[str, Any, Any]] = {
            "ours": ("ours", GrammarMatcher, BatchGrammarMatcher()),
            "XGrammar": ("XGrammar", xgrammar.GrammarMatcher, xgrammar.BatchGrammarMatcher(max_threads=1)),
        }
        if cores > 1:
            batch = xgrammar.BatchGrammarMatcher(max_threads=cores)
            ways[f"XGrammar, {cores} threads"] = ("XGrammar", xgrammar.GrammarMatcher, batch)
        rows = []
        for count in ROWS:
            row: dict[str, Any] = {"size": count}
            last: list[Any] = []
            for way, (engine, matcher, batch) in ways.items():
                bitmask = xgrammar.allocate_token_bitmask(count, self.vocabulary.size)
                matchers = [matcher(compiled[engine]) for _ in range(count)]
                for place, one in enumerate(matchers):
                    for token in ids[: place * len(ids) // count]:
                        one.accept_token(token)
                times = []
                for _ in range(BATCH_CALLS):
                    began = perf_counter()
                    batch.batch_fill_next_token_bitmask(matchers, bitmask)
                    times.append((perf_counter() - began) / count)
                row[way] = {"a row": float(np.median(times))}
                # Bits of the last word beyond the vocabulary differ in XGrammar, so they are cut off.
                last.append(bits_of(bitmask, self.vocabulary.size))
            self.masks += count
            self.differences += sum(int((one != last[0]).any(axis=1).sum()) for one in last[1:])
            rows.append(row)
        return rows


def command(
    vocabulary: options.VocabularyOption,
    json: options.RecordOption,
    repeats: Annotated[int, typer.Option(min=1, help="Schemas of each depth.")] = 3,
    most_depth: Annotated[int, typer.Option(min=1, help="Levels.")] = DEPTHS[-1],
    at_once: Annotated[int, typer.Option(min=1, help="New schemas that threads share.")] = 16,
) -> None:
    """Measure growth with nesting, threads and rows of a batch, compared with plain XGrammar."""
    arguments = dict(locals())
    console = report.make_console()
    with workloads.usage_errors():
        bench = GrowthBench(workloads.load_vocabulary(vocabulary), repeats)
    for engine in ("ours", "XGrammar"):
        bench.begin(engine, workloads.THROW_AWAY_SCHEMA)
    found = {
        "nesting": [bench.nesting(depth) for depth in DEPTHS if depth <= most_depth],
        "threads": [bench.threads(count, at_once) for count in THREADS],
        "batches": bench.batches(),
    }
    report.say(console, f"{bench.masks:,} masks compared, {bench.differences:,} differences")
    counts = {"masks": bench.masks, "differences": bench.differences}
    publish(console, json, "growth", arguments, {**counts, **found}, not bench.differences)
