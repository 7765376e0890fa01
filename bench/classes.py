"""Token classes alone: how many, how fast, how much memory, and how they grow.

What: runs `equivalence.compute_classes` on grammars and on the schemas of a folder, over one or more
vocabularies, and reports time by phase, sizes, memory, growth, and CFGzip's classes beside ours.
When: ``python -m bench classes --vocabulary SPEC --json FILE``, with ``--grammars``, ``--schemas``,
``--scaling``, ``--peer cfgzip`` and ``--pictures FOLDER`` as needed.
Limits: one thread, kernels compiled and the trie of the vocabulary built before; the time includes the
grammar network and leaves out XGrammar's parsing, which is reported apart. Times are medians of repeats.
Before anything is reported, masks of representatives along random walks are compared with plain XGrammar's
over the whole vocabulary (all grammars, some schemas). That classes are as few as could be is not said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
import xgrammar
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench import options, report, scaling, workloads
from bench.class_measure import (
    ClassBench,
    Row,
    Settings,
    Source,
    grammar_sources,
    schema_sources,
    time_classes,
)
from bench.peers import cfgzip
from bench.report import Spread
from equivalence import HybridError, Vocabulary


def summarise(rows: Sequence[Row]) -> dict[str, Any]:
    """The figures over the schemas of one vocabulary."""
    good = [row for row in rows if not row.refusal]
    phases = dict.fromkeys(phase for row in good for phase in row.phases)
    spreads = {
        "time": Spread.of(row.seconds or 0.0 for row in good),
        "time, CPU": Spread.of(row.cpu_seconds or 0.0 for row in good),
        **{f"phase {phase}": Spread.of(row.phases[phase] for row in good) for phase in phases},
    }
    counts = {
        "classes": Spread.of(row.classes or 0 for row in good),
    }
    moved = [row.displacement for row in good if row.displacement.get("classes")]
    if moved:
        spreads["time, displacement"] = Spread.of(found["seconds"] for found in moved)
        counts["classes, displacement"] = Spread.of(found["classes"] for found in moved)
    return {
        "spreads": spreads,
        "counts": counts,
        "schemas": len(rows),
        "refused": [row.name for row in rows if row.refusal],
        "errors": [row.name for row in rows if row.errors],
    }


def grammar_table(rows: Sequence[Row]) -> Table:
    """One line for each grammar and vocabulary."""
    table = Table(title="grammars, one thread", title_justify="left")
    for column in ("vocabulary", "grammar"):
        table.add_column(column)
    for column in ("classes", "time", "CPU", "network", "explore", "memory"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        if row.refusal:
            table.add_row(row.vocabulary, row.name, "refused")
            continue
        table.add_row(
            row.vocabulary,
            row.name,
            f"{row.classes:,}",
            report.readable(row.seconds or 0.0),
            report.readable(row.cpu_seconds or 0.0),
            *(report.readable(row.phases[phase]) for phase in ("network", "explore")),
            "-" if row.memory is None else f"{row.memory['first'] / 2**20:.1f} MiB",
        )
    return table


def finer_table(rows: Sequence[Row]) -> Table:
    """Displacement, ours and the peer's, a line for each grammar and vocabulary that has either."""
    table = Table(title="displacement: equal masks and equal stacks afterwards", title_justify="left")
    for column in ("vocabulary", "grammar"):
        table.add_column(column)
    for column in ("ours", "time", "peer", "time"):
        table.add_column(column, justify="right", no_wrap=True)
    for column in ("within our classes of masks", "the peer's input"):
        table.add_column(column)
    for row in rows:
        if row.displacement or row.peer:
            lies = row.peer.get("relation") or {}
            within = "-" if not lies else "yes" if lies["refines"] else "NO"
            form = row.peer.get("form", "")
            cells = (*_counted(row.displacement), *_counted(row.peer), within, form)
            table.add_row(row.vocabulary, row.name, *cells)
    return table


def _counted(found: dict[str, Any]) -> tuple[str, str]:
    """Classes and time of a relation, where there are any."""
    if found.get("classes") is None:
        return "-", "-"
    return f"{found['classes']:,}", report.readable(found["seconds"])


def growth_table(title: str, rows: Sequence[dict[str, Any]]) -> Table:
    """CPU times, a line for each series and a column for each size."""
    sizes = sorted({row["size"] for row in rows})
    table = Table(title=title, title_justify="left")
    table.add_column("CPU time (classes)")
    for size in sizes:
        table.add_column(f"{size:,}", justify="right", no_wrap=True)
    for series in dict.fromkeys(row["series"] for row in rows):
        own = {row["size"]: row for row in rows if row["series"] == series}
        table.add_row(series, *(_growth_cell(own.get(size)) for size in sizes))
    return table


def _growth_cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "-"
    return "refused" if row["refusal"] else f"{report.readable(row['cpu_seconds'])} ({row['classes']:,})"


def command(
    vocabulary: options.VocabulariesOption,
    json: options.RecordOption,
    grammars: Annotated[
        list[Path] | None,
        typer.Option(help="GBNF file, or a folder of them; repeatable. JSON is always there.", exists=True),
    ] = None,
    root: options.RootOption = "root",
    schemas: options.OptionalSchemasOption = None,
    limit: options.LimitOption = None,
    strict: options.StrictOption = False,
    displacement: Annotated[bool, typer.Option(help="The finer relation as well.")] = False,
    walks: options.WalksOption = 2,
    walk_steps: options.WalkStepsOption = 25,
    check_schemas: Annotated[int, typer.Option(min=0, help="Schemas that are walked so.")] = 10,
    repeats: Annotated[int, typer.Option(min=1, help="Computations that a median is taken of.")] = 5,
    memory: Annotated[bool, typer.Option(help="Measure memory of the grammars.")] = True,
    with_scaling: Annotated[bool, typer.Option("--scaling", help="Growth with the sizes.")] = False,
    peer: Annotated[Literal["cfgzip"] | None, typer.Option(help="Run the peer on the grammars.")] = None,
    peer_seconds: Annotated[float, typer.Option(help="Bound of one run of the peer.")] = 120.0,
    peer_gib: Annotated[float, typer.Option(help="Memory of one run of the peer.")] = 8.0,
    growth_vocabulary: Annotated[
        list[str] | None,
        typer.Option(help="One more vocabulary for --scaling; the largest one is cut; repeatable."),
    ] = None,
    picture_folder: Annotated[
        Path | None, typer.Option("--pictures", help="Folder for pictures of --scaling.")
    ] = None,
    seed: options.SeedOption = 0,
) -> None:
    """Token classes alone: number, time, memory, growth; CFGzip beside them."""
    arguments = dict(locals())
    console = report.make_console()
    with workloads.usage_errors():
        sources = grammar_sources(grammars or (), root)
        files = workloads.load_schema_files(schemas, limit, seed) if schemas else []
        if picture_folder is not None:
            scaling.require_matplotlib()
        if peer is not None:
            cfgzip.find()
        settings = Settings(displacement, repeats, walks, walk_steps, root, seed)
        benches = [
            ClassBench(workloads.short_name(spec), spec, workloads.load_vocabulary(spec).prepare(), settings)
            for spec in vocabulary
        ]
        grown = {bench.name: bench.vocabulary for bench in benches}
        for spec in growth_vocabulary or ():
            grown[workloads.short_name(spec)] = workloads.load_vocabulary(spec).prepare()
    rows: list[Row] = []
    of_schemas: dict[str, list[Row]] = {}
    for bench in benches:
        rows += _measure_grammars(console, bench, sources, memory, peer is not None, peer_seconds, peer_gib)
        if files:
            checked = {round(k * len(files) / check_schemas) for k in range(check_schemas)}
            work = track(
                schema_sources(files, strict), f"{bench.name}: schemas", console=console, transient=True
            )
            of_schemas[bench.name] = [
                bench.measure(source, memory=False, check=number in checked)
                for number, source in enumerate(work)
            ]
    record: dict[str, Any] = {
        "benchmark": "classes",
        **report.environment(arguments),
        "grammars": [asdict(row) for row in rows],
    }
    console.print(grammar_table(rows))
    if displacement or peer:
        console.print(finer_table(rows))
    for row in rows:
        for attempt in row.peer.get("attempts", ()):
            report.say(console, f"peer, {row.vocabulary}, {row.name}: {attempt}")
        _say_where_peer_differs(console, row)
    for name, measured in of_schemas.items():
        summary = summarise(measured)
        record.setdefault("schemas", {})[name] = {
            "summary": report.flat(summary),
            "rows": [asdict(row) for row in measured],
        }
        times = [(n, "s", s) for n, s in summary["spreads"].items()]
        counts = [(n, "", s) for n, s in summary["counts"].items()]
        for title, spreads in ((f"{name}: {len(measured)} schemas", times), (f"{name}: counts", counts)):
            console.print(report.spread_table(title, spreads))
        report.say(console, f"{len(summary['refused'])} refused")
    if with_scaling:
        record["scaling"] = _scale(console, grown, sources, repeats, picture_folder)
    report.write_json(json, record)
    everything = rows + [row for measured in of_schemas.values() for row in measured]
    _finish(console, everything)


def _say_where_peer_differs(console: Console, row: Row) -> None:
    lies = row.peer.get("relation") or {"refines": True}
    if not lies["refines"]:
        report.say(
            console,
            f"peer, {row.vocabulary}, {row.name}: {lies['split']:,} of its classes hold several of ours "
            f"({'; '.join(lies['examples'][:3]) or 'none'}), {lies['missing']:,} ids are missing",
        )


def _measure_grammars(
    console: Console,
    bench: ClassBench,
    sources: Sequence[Source],
    memory: bool,
    with_peer: bool,
    peer_seconds: float,
    peer_gib: float,
) -> list[Row]:
    work = track(sources, f"{bench.name}: grammars", console=console, transient=True)
    if not with_peer:
        return [bench.measure(source, memory=memory, check=True) for source in work]
    with cfgzip.Peer(bench.vocabulary, peer_seconds, int(peer_gib * 2**30)) as peer:
        return [bench.measure(source, memory=memory, check=True, peer=peer) for source in work]


def _scale(
    console: Console,
    vocabularies: dict[str, Vocabulary],
    sources: Sequence[Source],
    repeats: int,
    picture_folder: Path | None,
) -> dict[str, Any]:
    """Growth with the properties on all vocabularies, and with the largest vocabulary on all grammars."""

    def measure(grammar: xgrammar.Grammar, vocabulary: Vocabulary) -> dict[str, Any]:
        try:
            return {"refusal": "", **time_classes(grammar, vocabulary, "acceptance", repeats)}
        except HybridError as error:
            return {"refusal": f"{type(error).__name__}: {error}"}

    largest = max(vocabularies, key=lambda name: vocabularies[name].size)
    by_properties = list(scaling.by_properties(vocabularies, measure))
    grammars = {source.name: source.parse() for source in sources}
    by_vocabulary = list(scaling.by_vocabulary(vocabularies[largest], grammars, measure))
    found: dict[str, Any] = {}
    for name, rows, title, label in (
        ("properties", by_properties, "schemas of mixed properties", "properties of the schema"),
        ("vocabulary", by_vocabulary, f"first ids of {largest}", "size of the vocabulary [ids]"),
    ):
        series = dict.fromkeys(row["series"] for row in rows)
        powers = {one: scaling.exponent([row for row in rows if row["series"] == one]) for one in series}
        found[name] = {"rows": rows, "exponents": powers}
        console.print(growth_table(title, rows))
        for one, power in powers.items():
            if power is not None:
                report.say(console, f"{one}: CPU time grows like the size to the power of {power:.2f}")
        if picture_folder is not None:
            path = picture_folder / f"classes_by_{name}.png"
            scaling.draw_growth(rows, path, title=title, size_label=label)
            report.say(console, f"picture: {path.name}")
    return found


def _finish(console: Console, rows: Sequence[Row]) -> None:
    """The last lines, and status 1 if any mask contradicts the classes."""
    masks = sum(row.masks for row in rows)
    wrong = [row for row in rows if row.errors]
    report.say(
        console,
        f"{masks:,} masks of walks compared with plain XGrammar "
        f"({sum(row.contradictions for row in rows):,} contradictions of XGrammar); "
        f"{len(wrong)} grammars with differences",
    )
    for row in rows:
        if row.refusal:
            report.say(console, f"refused, {row.vocabulary}, {row.name}: {row.refusal}")
    for row in wrong:
        report.say(console, f"DIFFERENCE {row.vocabulary}, {row.name}: {row.errors[0]}")
    if wrong:
        raise typer.Exit(1)
