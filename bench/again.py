"""A schema that was seen before: how long the memory cache takes, and the folder in a new process.

What: compiles each schema of a folder once with a `cache_dir`, asks for it again in memory (as a dict, and as
text), then asks for all in a new process, which finds them in the folder.
When: ``python -m bench again --vocabulary SPEC --schemas FOLDER --json FILE``.
Limits: one thread. In memory the median of some calls counts: a dict is written as JSON by each call, which
is told apart. The new process has loaded the vocabulary and met a small schema, so that kernels are there;
it sees each schema once. Its masks along an instance have to equal those of the process that compiled
(whose masks `bench.schemas` compares with XGrammar). What is not kept on disk, by its strategy, is counted.
"""

from __future__ import annotations

import gc
import json as json_format
import multiprocessing
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Annotated, Any

import typer
import xgrammar
from rich.console import Console
from rich.progress import track

from bench import options, report, workloads
from bench.report import Spread
from bench.ways import accepted, mask_digest
from hybrid.testing.segmentation import tokenize_greedy

IN_MEMORY, ON_DISK = 0.2e-3, 10e-3
"""Seconds that a second sight may take."""

TIMES = 9
"""Calls in memory for each schema."""

LARGE_BYTES = 2**40
"""A bound that no run meets: nothing is evicted."""

Ids = list[int]


@dataclass
class Row:
    """One schema; seconds. `found` tells whether the new process had it from the folder."""

    name: str
    text_bytes: int = 0
    strategy: str = ""
    refusal: str = ""
    compile: float = 0.0
    as_dict: float = 0.0
    as_text: float = 0.0
    writing_json: float = 0.0
    disk: float = 0.0
    disk_cpu: float = 0.0
    found: bool = False
    phases: dict[str, float] = field(default_factory=dict)
    masks: int = 0
    digest: str = ""
    equal: bool = True


def in_memory(
    vocabulary: Any, folder: Path, files: list[workloads.SchemaFile], console: Console
) -> tuple[list[Row], list[Ids]]:
    """Compile everything once, and ask for it again; and a document of each schema."""
    from hybrid import GrammarCompiler

    compiler = GrammarCompiler(
        vocabulary, cache_dir=folder, cache_limit_bytes=LARGE_BYTES, cache_dir_limit_bytes=LARGE_BYTES
    )
    bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
    compiler.compile_json_schema(workloads.THROW_AWAY_SCHEMA)
    rows, documents = [], []
    for file in track(files, "compiled, and in memory", console=console, transient=True):
        text = json_format.dumps(file.schema)
        row, ids = Row(file.name, len(text)), []
        began = perf_counter()
        try:
            compiled = compiler.compile_json_schema(file.schema)
        except Exception as error:  # noqa: BLE001 - what is refused has no second sight
            row.refusal = f"{type(error).__name__}: {error}"
        else:
            row.compile, row.strategy = perf_counter() - began, compiled.strategy
            row.as_dict = _median_seconds(lambda f=file: compiler.compile_json_schema(f.schema))
            row.as_text = _median_seconds(lambda t=text: compiler.compile_json_schema("".join((t, ""))))
            row.writing_json = _median_seconds(lambda f=file: json_format.dumps(f.schema))
            ids = _document(compiled, file)
            row.masks, row.digest = len(ids), mask_digest(compiled, ids, bitmask).hex()
        rows.append(row)
        documents.append(ids)
    return rows, documents


def _median_seconds(call: Any) -> float:
    found = []
    for _ in range(TIMES):
        began = perf_counter()
        call()
        found.append(perf_counter() - began)
    return median(found)


def _document(compiled: Any, file: workloads.SchemaFile) -> Ids:
    if not file.valid:
        return []
    text = workloads.render_instance(file.valid[0])
    return accepted(compiled, tokenize_greedy(compiled.vocabulary, text))


def in_a_new_process(spec: str, folder: str, schemas: list[Any], documents: list[Ids]) -> dict[str, Any]:
    """Ask for every schema once; to be called in a process that has compiled none of them."""
    from hybrid import GrammarCompiler

    began = perf_counter()
    vocabulary = workloads.load_vocabulary(spec).prepare()
    setup = perf_counter() - began
    compiler = GrammarCompiler(
        vocabulary, cache_dir=folder, cache_limit_bytes=LARGE_BYTES, cache_dir_limit_bytes=LARGE_BYTES
    )
    bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
    began = perf_counter()
    first = compiler.compile_json_schema(workloads.THROW_AWAY_SCHEMA)
    first_seconds = perf_counter() - began
    workloads.run_along(
        first, accepted(first, tokenize_greedy(vocabulary, workloads.THROW_AWAY_TEXT)), bitmask
    )
    gc.collect()
    gc.freeze()
    found = []
    for schema, ids in zip(schemas, documents, strict=True):
        gc.collect()
        hits = compiler.stats()["disk"]["hits"]
        cpu_began, began = process_time(), perf_counter()
        compiled = compiler.compile_json_schema(schema)
        seconds, cpu_seconds = perf_counter() - began, process_time() - cpu_began
        found.append(
            {
                "disk": seconds,
                "disk_cpu": cpu_seconds,
                "found": compiler.stats()["disk"]["hits"] > hits,
                "phases": dict(compiled.timings),
                "digest": mask_digest(compiled, ids, bitmask).hex(),
            }
        )
    return {"setup": setup, "first": first_seconds, "rows": found}


def summarise(rows: list[Row]) -> dict[str, Any]:
    """Spreads of all schemas that compile; those on disk of all that were found there."""
    known = [row for row in rows if not row.refusal]
    on_disk = [row for row in known if row.found]
    return {
        "spreads": {
            "compiled and written": Spread.of(row.compile for row in known),
            "in memory, a dict": Spread.of(row.as_dict for row in known),
            "in memory, text": Spread.of(row.as_text for row in known),
            "of a dict: json.dumps": Spread.of(row.writing_json for row in known),
            "in memory, a dict, less json.dumps": Spread.of(row.as_dict - row.writing_json for row in known),
            "on disk, new process": Spread.of(row.disk for row in on_disk),
            "on disk, new process, CPU": Spread.of(row.disk_cpu for row in on_disk),
        },
        "text": Spread.of(row.text_bytes for row in known),
        "schemas": len(rows),
        "refused": len(rows) - len(known),
        "not_on_disk": {row.name: row.strategy for row in known if not row.found},
        "dicts_over": sorted(row.name for row in known if row.as_dict > IN_MEMORY),
        "texts_over": sorted(row.name for row in known if row.as_text > IN_MEMORY),
        "disk_over": sorted(row.name for row in on_disk if row.disk > ON_DISK),
        "disk_cpu_over": sorted(row.name for row in on_disk if row.disk_cpu > ON_DISK),
        "masks": sum(row.masks for row in known if row.found),
        "differences": sorted(row.name for row in known if not row.equal),
    }


def print_summary(console: Console, summary: dict[str, Any]) -> None:
    console.print(report.spread_table("seconds", [(n, "s", s) for n, s in summary["spreads"].items()]))
    console.print(report.spread_table("bytes", [("JSON text", "", summary["text"])]))
    for name, bound in (
        ("dicts_over", IN_MEMORY), ("texts_over", IN_MEMORY),
        ("disk_over", ON_DISK), ("disk_cpu_over", ON_DISK),
    ):  # fmt: skip
        count = len(summary[name])
        report.say(console, f"{name.replace('_', ' ')} {report.readable(bound)}: {count:,} schemas")
    report.say(
        console,
        f"{summary['schemas']:,} schemas, {summary['refused']:,} refused, {len(summary['not_on_disk']):,} "
        f"not on disk; {summary['masks']:,} masks of the new process compared, on "
        f"{len(summary['differences']):,} schemas different",
    )


def command(
    vocabulary: options.VocabularyOption,
    schemas: options.SchemasOption,
    json: options.RecordOption,
    limit: options.LimitOption = None,
    seed: options.SeedOption = 0,
    cache_dir: Annotated[
        Path | None, typer.Option(help="Where grammars are kept; a temporary folder by default.")
    ] = None,
) -> None:
    """JSON schemas seen before: from memory, and from a folder in a new process."""
    arguments = dict(locals())
    console = report.make_console()
    with workloads.usage_errors():
        files = workloads.load_schema_files(schemas, limit, seed)
        tokens = workloads.load_vocabulary(vocabulary)
        tokens.prepare()
    with tempfile.TemporaryDirectory() as folder:
        kept = cache_dir or Path(folder)
        rows, documents = in_memory(tokens, kept, files, console)
        asked = [number for number, row in enumerate(rows) if not row.refusal]
        with (
            console.status("a new process"),
            ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool,
        ):
            found = pool.submit(
                in_a_new_process,
                vocabulary,
                str(kept),
                [files[number].schema for number in asked],
                [documents[number] for number in asked],
            ).result()
    for number, values in zip(asked, found["rows"], strict=True):
        row, digest = rows[number], values.pop("digest")
        for name, value in values.items():
            setattr(row, name, value)
        row.equal = row.digest == digest
        if not row.equal:
            report.say(console, f"DIFFERENCE {row.name}: masks of the new process are others")
    summary = summarise(rows)
    report.say(console, f"before, in the new process: {report.readable(found['setup'])}, then one small "
               f"schema from the folder: {report.readable(found['first'])}")  # fmt: skip
    print_summary(console, summary)
    record = {
        "benchmark": "again",
        **report.environment(arguments),
        "setup": {"new_process": found["setup"], "first_schema": found["first"]},
        "summary": report.flat(summary),
        "rows": [asdict(row) for row in rows],
    }
    report.write_json(json, record)
    if summary["differences"]:
        raise typer.Exit(1)
