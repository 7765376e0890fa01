"""``python -m bench report`` and ``python -m bench page``: run all benchmarks, keep their records, and write
pages.

What: `report` runs the benchmarks of `bench.reporting.questions` one after the other, equality first, and
keeps ``records/*.json`` in a folder. `page` measures nothing. Both write ``report.html`` there from all
records in the folder, and, if asked for, Markdown and the numbers of a README.
When: to reproduce what the README says, on a quiet machine; in several runs with ``--only``.
Limits: the page lists what is missing (peers, schemas, documents). Records with the same arguments and
sources are not made again; delete them to measure once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench import options, picture, report, workloads
from bench.reporting import facts, jobs, markdown, page, plots, questions
from bench.reporting.inputs import FULL, QUICK, Inputs, limited
from equivalence.array_files import write_whole

SHIPPED_VOCABULARY = "tekken"

MarkdownOption = Annotated[
    Path | None, typer.Option("--markdown", help="A Markdown file for the page, too.", dir_okay=False)
]
ReadmeOption = Annotated[
    Path | None,
    typer.Option(
        help="A README whose numbers are rendered between its markers.", exists=True, dir_okay=False
    ),
]


def command(
    out: Annotated[Path, typer.Option("--out", help="Folder of the page and the records.", file_okay=False)],
    quick: Annotated[
        bool, typer.Option("--quick", help="Less of everything: 35 minutes instead of hours.")
    ] = False,
    vocabulary: Annotated[
        list[str] | None,
        typer.Option(help="tekken (the default), an .npz file, or a Hugging Face folder; repeatable."),
    ] = None,
    schemas: Annotated[
        list[Path] | None,
        typer.Option(help="Folder of schema files; repeatable.", exists=True, file_okay=False),
    ] = None,
    documents: Annotated[
        list[str] | None,
        typer.Option(help="NAME=PATH: files of json, sql, or of the name of a grammar; repeatable."),
    ] = None,
    lark: Annotated[
        list[str] | None, typer.Option(help="NAME=PATH: one more Lark grammar; repeatable.")
    ] = None,
    grammars: options.GrammarsOption = None,
    xgrammar_elsewhere: Annotated[
        Path | None,
        typer.Option(help="A folder with another XGrammar; see bench.peers.elsewhere.", exists=True),
    ] = None,
    test_suite: Annotated[
        Path | None,
        typer.Option(help="A checkout of the JSON-Schema-Test-Suite.", exists=True, file_okay=False),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="A question's letter, or the beginning of the names of jobs; repeatable."),
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="Name the jobs and measure nothing.")] = False,
    limit: Annotated[
        int | None, typer.Option(min=1, help="At most so many schemas or documents in each benchmark.")
    ] = None,
    seed: options.SeedOption = 0,
    markdown_file: MarkdownOption = None,
    readme: ReadmeOption = None,
) -> None:
    """Answer all questions of the README, with peers side by side, on one page."""
    console = report.make_console()
    with workloads.usage_errors():
        inputs = Inputs(
            [workloads.absolute(spec) for spec in vocabulary or [SHIPPED_VOCABULARY]],
            [path.resolve() for path in schemas or ()],
            {name: path.resolve() for name, path in workloads.named(documents or [], "--documents").items()},
            {name: path.resolve() for name, path in workloads.named(lark or [], "--lark").items()},
            [path.resolve() for path in grammars or ()],
            seed,
            None if xgrammar_elsewhere is None else xgrammar_elsewhere.resolve(),
            None if test_suite is None else test_suite.resolve(),
        )
        asked = questions.asked(inputs, limited(QUICK if quick else FULL, limit))
        wanted = choose(asked, only)
        if not show:
            for spec in inputs.vocabularies:
                workloads.load_vocabulary(spec)
            check_pages(readme)
    if show:
        for job in wanted:
            report.say(console, f"{job.name}: about {job.seconds / 60:.1f} min")
        report.say(console, f"{sum(job.seconds for job in wanted) / 60:.0f} minutes in all")
        return
    records = out.resolve() / "records"
    done = jobs.run_all(console, wanted, records)
    known = jobs.read_all(records) | done
    found = questions.recorded(known)
    if only is None:
        missing = {one.letter: one.missing for one in asked}
        found = [replace(one, missing=missing[one.letter]) for one in found]
    told = facts.gather(found, known, questions.missing_peers())
    write(console, out, told, markdown_file, readme)
    failed = [name for name, one in done.items() if one.status != 0]
    for name in failed:
        report.say(console, f"did not end well: {name}")
    if told.differences or failed:
        raise typer.Exit(1)


def page_command(
    folder: Annotated[Path, typer.Argument(help="The folder of a report.", exists=True, file_okay=False)],
    markdown_file: MarkdownOption = None,
    readme: ReadmeOption = None,
) -> None:
    """Write the pages of a folder of records; nothing is measured."""
    console = report.make_console()
    with workloads.usage_errors():
        done = jobs.read_all(folder / "records")
        if not done:
            raise ValueError(f"{folder} has no records; expected is a folder that `bench report` has written")
        check_pages(readme)
    told = facts.gather(questions.recorded(done), done)
    write(console, folder, told, markdown_file, readme)


def check_pages(readme: Path | None) -> None:
    """Raise errors now that would otherwise come only after all measurements.

    Raises:
        ValueError: matplotlib is missing, or a README has no markers.
    """
    picture.pyplot()
    if readme is not None:
        text = readme.read_text(encoding="utf-8")
        if markdown.BEGIN not in text or markdown.END not in text:
            raise ValueError(f"{readme.name} has not the lines {markdown.BEGIN!r} and {markdown.END!r}")


def write(
    console: Console, folder: Path, told: facts.Facts, markdown_file: Path | None, readme: Path | None
) -> None:
    """Write ``report.html``, and all pages that are asked for."""
    pages = {folder / "report.html": page.render(told)}
    if markdown_file is not None:
        pages[markdown_file] = markdown.render(told)
    if readme is not None:
        pages[readme] = markdown.put_into(readme.read_text(encoding="utf-8"), told)
        if told.headline.schemas is not None:
            plots.draw_first_masks(readme.parent / markdown.FIRST_MASK, told.headline.schemas)
    for path, text in pages.items():
        write_whole(path, text.encode("utf-8", "replace"))
    names = ", ".join(str(path) for path in pages)
    report.say(console, f"{told.masks:,} masks compared, {told.differences:,} differences; {names}")


def choose(asked: Sequence[questions.Question], only: Sequence[str] | None) -> list[jobs.Job]:
    """Return the jobs to run.

    Raises:
        ValueError: no question or job has the given letter or name, two inputs have one name, or a name
            cannot be a file's.
    """
    every = [job for one in asked for job in one.jobs]
    names = [job.name for job in every]
    if wrong := [name for name in names if Path(name).name != name]:
        raise ValueError(f"{wrong[0]!r} cannot be the name of a file; give names without folders")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(
            f"two inputs have one name: {twice[0]!r} would be made twice; rename a file or folder"
        )
    if only is None:
        return every
    found: dict[str, jobs.Job] = {}
    for word in only:
        if len(word) == 1:
            own = [job for one in asked if one.letter == word for job in one.jobs]
        else:
            own = [job for job in every if job.name.startswith(word)]
        if not own:
            kinds = ", ".join(dict.fromkeys(job.kind for job in every))
            letters = "".join(one.letter for one in asked)
            raise ValueError(
                f"--only {word!r}: there is no question or job of this name; letters are {letters!r}, with "
                f"these inputs jobs begin with {kinds}"
            )
        found |= {job.name: job for job in own}
    return list(found.values())
