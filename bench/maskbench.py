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

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import track

from bench import options, report, workloads
from bench.json_schema import engines, files, runner, summary
from bench.json_schema.worker import BYTES, JUDGE
from bench.reporting.answers import publish
from bench.workloads import SchemaFile

EnginesOption = Annotated[
    str | None, typer.Option("--engines", help=f"Commas between them: {', '.join(engines.ENGINES)}.")
]
ResultsOption = Annotated[
    Path | None,
    typer.Option(help="Folder of what was measured; beside the record if it is not given.", file_okay=False),
]


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
    seed: Annotated[int, typer.Option(help="Of the order of schemas.")] = 0,
    results: ResultsOption = None,
) -> None:
    """Run MaskBench on every engine: what is refused, what can be written, times; judged by jsonschema."""
    arguments = dict(locals())
    console = report.make_console()
    with workloads.usage_errors():
        paths = files.choose(data, limit, seed)
        names, missing = available(chosen, console)
    tokens = workloads.absolute(vocabulary or (BYTES if quick else "tekken"))
    settings = runner.Settings(tokens, quick, unique_items=restore_unique_items)
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
    rows = run(reading, results or json.with_suffix(".results"), [JUDGE, *names], settings, console)
    found = summary.summarise(labels, rows[JUDGE], {name: rows[name] for name in names})
    record: dict[str, Any] = {
        "versions": {name: engines.version(name) for name in names}, "missing": missing, "quick": quick,
        "not_read": unread, "files": len(labels), "instances": sum(map(len, labels.values())),
        "mislabelled": list(summary.mislabelled(labels, rows[JUDGE])),
        "rows": {name: one.record() for name, one in found.items()},
    }  # fmt: skip
    publish(console, json, "maskbench", arguments, record)


def available(chosen: str | None, console: Any) -> tuple[list[str], dict[str, str]]:
    """Return the chosen engines that are available, and why the others are not.

    Raises:
        ValueError: there is no engine of some name, or none is left.
    """
    asked = [one.strip() for one in chosen.split(",")] if chosen else list(engines.DEFAULT)
    missing = {name: why for name in asked if (why := engines.missing(name))}
    for name, why in missing.items():
        report.say(console, f"left out: {name}: {why}")
    found = [name for name in dict.fromkeys(asked) if name not in missing]
    if not found:
        raise ValueError("no engine can be had")
    return found, missing


def run(
    reading: Sequence[tuple[str, Callable[[], SchemaFile]]],
    folder: Path,
    names: Sequence[str],
    settings: runner.Settings,
    console: Any,
) -> dict[str, dict[str, runner.Row]]:
    """Measure files on engines, except for the results in a folder. Return all results, by engine and
    file."""
    kept = {name: runner.ResultFile(folder, name, runner.key_of(name, settings)) for name in names}
    for name, one in kept.items():
        if one.begun_anew:
            report.say(console, f"{name}: begun anew, as the code, the version or the settings are others")
        elif one.rows:
            report.say(console, f"{name}: {len(one.rows):,} results are there already")
    with workloads.usage_errors():
        done = runner.run_all(reading, kept, settings)
        for _ in track(done, "files", total=len(reading), console=console, transient=True):
            pass
    for one in kept.values():
        one.close()
    return {name: one.rows for name, one in kept.items()}
