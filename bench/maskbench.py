"""MaskBench: JSON schemas with labelled instances, as they were written, on every engine.

What: for each schema of a folder and each engine: is it accepted, how long do the first mask and each later
one take, which valid instances cannot be written, and which invalid ones can?
When: ``python -m bench maskbench --data DIR --json FILE``; the data is the folder ``maskbench/data`` of the
repository guidance-ai/jsonschemabench. With ``--quick``, only verdicts are computed, over a vocabulary of
bytes: this takes minutes for all files. Results are kept in ``--results`` and not measured again.
Limits: as in MaskBench's own runner, an instance is followed token by token, with a mask before each token.
Some things differ from it. An instance must be complete at its end. The first mask is part of the time to it.
Texts are tried in several spellings (`bench.json_schema.texts`). Tokens are cut by longest match. An instance
counts as valid if `jsonschema` says so (`bench.json_schema.judge`), and instances with another label are
listed. The bound is a minute for each schema and engine instead of a quarter of an hour. In these files, the
keyword ``uniqueItems`` is called ``_uniqueItems``, which no engine reads: ``--restore-unique-items`` restores
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import track

from bench import options, picture, report, workloads
from bench.json_schema import engines, files, running, summary, tables
from bench.json_schema.files import Labelled
from bench.json_schema.worker import BYTES, JUDGE

EnginesOption = Annotated[
    str | None, typer.Option("--engines", help=f"Commas between them: {', '.join(engines.ENGINES)}.")
]
ResultsOption = Annotated[
    Path | None,
    typer.Option(help="Folder of what was measured; beside the record if it is not given.", file_okay=False),
]
SecondsOption = Annotated[float, typer.Option(min=0.1, help="Bound of one schema on one engine.")]
MemoryOption = Annotated[float, typer.Option("--gibibytes", min=0.5, help="Bound of an engine's process.")]
JobsOption = Annotated[int, typer.Option(min=1, help="Schemas at a time; more than 1 disturbs times.")]


def command(
    data: Annotated[Path, typer.Option(help="Folder of MaskBench's files.", exists=True, file_okay=False)],
    json: options.RecordOption,
    chosen: EnginesOption = None,
    vocabulary: Annotated[
        str | None,
        typer.Option(help="tekken (the default), bytes (with --quick), an .npz file, or a folder."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Verdicts alone: no masks, no times.")] = False,
    restore_unique_items: Annotated[
        bool, typer.Option("--restore-unique-items", help="Call _uniqueItems by its name.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="So many schemas.")] = None,
    offset: Annotated[int, typer.Option(min=0, help="Schemas left out before them.")] = 0,
    seed: Annotated[int, typer.Option(help="Of the order of schemas.")] = 0,
    jobs: JobsOption = 1,
    seconds: SecondsOption = 60.0,
    gibibytes: MemoryOption = 8.0,
    threads: Annotated[
        int | None, typer.Option(min=1, help="That compile; each library's default if not given.")
    ] = None,
    results: ResultsOption = None,
    picture_file: Annotated[
        Path | None, typer.Option("--picture", help="An SVG of times to the first mask.")
    ] = None,
) -> None:
    """Run MaskBench on every engine: what is refused, what can be written, times; judged by jsonschema."""
    arguments = dict(locals())
    console = report.make_console()
    with workloads.usage_errors():
        paths = files.choose(data, limit, offset, seed)
        names, missing = available(chosen)
        if picture_file is not None:
            picture.pyplot()
        tokens = vocabulary or (BYTES if quick else "tekken")
        settings = running.Settings(
            absolute(tokens), quick, seconds, gibibytes, threads, restore_unique_items
        )
    for name, why in missing.items():
        report.say(console, f"left out: {name}: {why}")
    kept = keep(results or json.with_suffix(".results"), (JUDGE, *names), settings, console)
    labels, unread = {}, {}
    for path in paths:
        try:
            labels[path.stem] = files.read(path).labels
        except ValueError as error:
            unread[path.stem] = str(error)
            report.say(console, f"not read: {error}")
    reading = [
        (path.stem, partial(files.read, path, restore_unique_items)) for path in paths if path.stem in labels
    ]
    run(reading, kept, settings, jobs, "schemas", console)
    found = summary.summarise(labels, kept[JUDGE].rows, {name: kept[name].rows for name in names})
    wrong = list(summary.mislabelled(labels, kept[JUDGE].rows))
    tables.show(console, found, wrong, quick)
    record: dict[str, Any] = {
        "benchmark": "maskbench", **report.environment(arguments),
        "versions": {name: engines.version(name) for name in names}, "missing": missing, "quick": quick,
        "not_read": unread, "files": len(labels), "instances": sum(map(len, labels.values())),
        "mislabelled": wrong, "rows": {name: one.record() for name, one in found.items()},
    }  # fmt: skip
    report.write_json(json, record)
    if picture_file is not None:
        times = {engines.ENGINES[name].title: list(one.first_mask) for name, one in found.items()}
        picture.draw(picture_file, times, f"MaskBench, {len(labels):,} schemas")


def available(chosen: str | None) -> tuple[list[str], dict[str, str]]:
    """Return the chosen engines that are available, and why the others are not.

    Raises:
        ValueError: there is no engine of some name, or none is left.
    """
    asked = [one.strip() for one in chosen.split(",")] if chosen else list(engines.DEFAULT)
    reasons = {name: engines.missing(name) for name in dict.fromkeys(asked)}
    found = [name for name, why in reasons.items() if not why]
    if not found:
        raise ValueError(f"no engine can be had: {'; '.join(f'{a}: {b}' for a, b in reasons.items())}")
    return found, {name: why for name, why in reasons.items() if why}


def absolute(spec: str) -> str:
    """Return absolute paths of files and folders, because workers run in another folder."""
    path = Path(spec)
    return str(path.resolve()) if path.exists() else spec


def run(
    reading: Sequence[tuple[str, Callable[[], Labelled]]],
    kept: Mapping[str, running.Kept],
    settings: running.Settings,
    jobs: int,
    what: str,
    console: Any,
) -> None:
    """Measure files on engines, with a progress bar, and close the files of results."""
    with workloads.usage_errors():
        done = running.run_all(reading, kept, settings, jobs)
        for _ in track(done, what, total=len(reading), console=console, transient=True):
            pass
    for one in kept.values():
        one.close()


def keep(folder: Path, names: tuple[str, ...], settings: running.Settings, console: Any) -> dict[str, Any]:
    """Open the file of results of each engine in a folder; print which of them begin anew."""
    kept = {name: running.Kept(folder, name, running.key_of(name, settings)) for name in names}
    for name, one in kept.items():
        if one.begun_anew:
            report.say(console, f"{name}: begun anew, as the code, the version or the settings are others")
        elif one.rows:
            report.say(console, f"{name}: {len(one.rows):,} results are there already")
    return kept
