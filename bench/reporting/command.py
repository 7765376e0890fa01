"""``python -m bench report``: all questions, their records, and one page.

What: asks the questions of `bench.reporting.questions` one after the other, equality first, and writes
``report.html`` and ``records/*.json`` into a folder.
When: to reproduce what the README says, on a quiet machine.
Limits: what is missing (peers, schemas, documents) is named on the page. Records that are there with the
same arguments and sources are not made again; delete them to measure once more.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from bench import options, picture, report, workloads
from bench.lark import named
from bench.reporting import jobs, page, plots, questions
from bench.reporting.answers import Cell, Table, answer
from bench.reporting.standings import CLOSE, OURS, Standing, standings
from equivalence.store import write_whole

SHIPPED_VOCABULARY = "tekken"


def command(
    out: Annotated[Path, typer.Option("--out", help="Folder of the page and the records.", file_okay=False)],
    quick: Annotated[
        bool, typer.Option("--quick", help="Less of everything: minutes in place of hours.")
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
        typer.Option(help="NAME=PATH: files of json, sql, or of the name of a --lark; repeatable."),
    ] = None,
    lark: Annotated[
        list[str] | None, typer.Option(help="NAME=PATH: one more Lark grammar; repeatable.")
    ] = None,
    grammars: options.GrammarsOption = None,
    only: Annotated[
        str | None, typer.Option(help="Letters of the questions to be asked, such as cf; equality always is.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="At most so many schemas or documents in each benchmark.")
    ] = None,
    seed: options.SeedOption = 0,
) -> None:
    """All questions of the README at once, peers side by side, as one page."""
    arguments = dict(locals())
    console = report.make_console()
    with workloads.usage_errors():
        inputs = questions.Inputs(
            [_absolute(spec) for spec in vocabulary or [SHIPPED_VOCABULARY]],
            [path.resolve() for path in schemas or ()],
            {name: path.resolve() for name, path in named(documents or [], "--documents").items()},
            {name: path.resolve() for name, path in named(lark or [], "--lark").items()},
            [path.resolve() for path in grammars or ()],
            seed,
        )
        asked = questions.questions(
            inputs, questions.limited(questions.QUICK if quick else questions.FULL, limit)
        )
        check(asked, only)
        for spec in inputs.vocabularies:
            workloads.load_vocabulary(spec)
        picture.pyplot()
    asked = [one for one in asked if only is None or not one.letter or one.letter in only]
    done = jobs.run_all(console, [job for one in asked for job in one.jobs], out.resolve() / "records")
    facts = gather(asked, done, report.environment(arguments), quick)
    target = out / "report.html"
    write_whole(target, page.render(facts).encode("utf-8", "replace"))
    failed = [name for name, one in done.items() if one.status != 0]
    report.say(console, f"{facts.masks:,} masks compared, {facts.differences:,} differences; {target}")
    for name in failed:
        report.say(console, f"did not end well: {name}")
    if facts.differences or failed:
        raise typer.Exit(1)


def check(asked: Sequence[questions.Question], only: str | None) -> None:
    """Refuses letters that no question has, two inputs of one name, and names that are no files' names.

    Raises:
        ValueError: saying which.
    """
    letters = "".join(one.letter for one in asked)
    if only is not None and (wrong := [letter for letter in only if letter not in letters]):
        raise ValueError(
            f"--only {only!r}: there is no question {wrong[0]!r}; allowed are letters of {letters!r}"
        )
    names = [job.name for one in asked for job in one.jobs]
    if wrong := [name for name in names if Path(name).name != name]:
        raise ValueError(f"{wrong[0]!r} cannot be the name of a file; give names without folders")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(
            f"two inputs have one name: {twice[0]!r} would be made twice; rename a file or folder"
        )


def gather(
    asked: Sequence[questions.Question],
    done: Mapping[str, jobs.Done],
    environment: Mapping[str, Any],
    is_quick: bool,
) -> page.Facts:
    """All that the page tells of these records."""
    rows = [row for one in asked for row in standings(one, done)]
    sections = [
        page.Section(
            one.letter, one.title, answer(one, done), plots.pictures(one, done), one.missing,
            {job.name: done[job.name].said for job in one.jobs if done[job.name].status != 0},
        )
        for one in asked
    ]  # fmt: skip
    masks, differences = compared(done)
    behind = sorted((row for row in rows if row.is_behind), key=lambda row: -(row.ratio or 0))
    return page.Facts(
        environment, masks, differences, when_to_use(rows), behind,
        sum(row.ratio is not None for row in rows), sections, questions.missing_peers(),
        _command(environment["arguments"]), is_quick,
    )  # fmt: skip


def compared(done: Mapping[str, jobs.Done]) -> tuple[int, int]:
    """Masks that were compared with plain XGrammar, and differences, over all records."""
    masks = differences = 0
    for one in done.values():
        record = one.record
        summary = record.get("summary", {})
        if record.get("bench") == "equality":
            masks, differences = masks + record["masks"], differences + record["difference_count"]
            differences += record["refused_by_one_side"]
        elif record.get("benchmark") in ("schemas", "grammar") and summary:
            masks, differences = masks + summary["masks"], differences + summary["differences"]
            differences += summary.get("our_differences", 0) + len(summary.get("not_alike", ()))
        elif record.get("benchmark") == "strategies":
            differences += record["differences"]
        elif record.get("benchmark") == "classes":
            of_schemas = [row for own in record.get("schemas", {}).values() for row in own["rows"]]
            for row in (*record["grammars"], *of_schemas):
                masks, differences = masks + row["masks"], differences + len(row["errors"])
    return masks, differences


HEADLINES = (
    "to the first mask, p50", "to the first mask, p99", "first mask and one document, p50",
    "first mask and one document, p99", "a mask in its document (of what each engine takes), p50",
    "a mask, new document, mean", "a token, new document, mean", "compiling and first mask",
    "a mask, new file, mean", "a mask, new file, p99",
    "compiling (equimask: all of it before the first token)",
    "a new process: all but the vocabulary",
)  # fmt: skip
"""What "when to use what" tells of, in this order, and what changes with the inputs; the rest is below."""


def headline(row: Standing) -> int | None:
    """Where a row stands among the headlines; None if it is none."""
    if row.what in HEADLINES:
        return HEADLINES.index(row.what)
    by_inputs = row.situation.startswith("a schema for") or row.situation.startswith("generate")
    return len(HEADLINES) if by_inputs else None


def when_to_use(rows: Sequence[Standing]) -> Table:
    """For each situation what was measured, over all vocabularies and grammars: who is ahead."""
    found = []
    groups: dict[tuple[str, str], list[Standing]] = {}
    told_of = [row for row in rows if row.ratio is not None and headline(row) is not None]
    for row in sorted(told_of, key=lambda row: headline(row) or 0):
        groups.setdefault((row.situation, row.what), []).append(row)
    for (situation, what), own in groups.items():
        ratios = sorted(row.ratio for row in own if row.ratio is not None)
        middle = ratios[len(ratios) // 2]
        behind = sum(row.is_behind for row in own)
        leaders = sorted({row.ahead or "nobody clearly" for row in own})
        peers = sorted({name for row in own for name in row.values} - {OURS})
        told = _factor(middle)
        same = sorted(row.values[OURS] / row.values["XGrammar"] for row in own if row.values.get("XGrammar"))
        look = "behind" if behind > len(own) / 2 else "best" if leaders == [OURS] else ""
        found.append([
            Cell(situation), Cell(what), Cell(", ".join(peers)), Cell(", ".join(leaders), look),
            Cell(told, look), Cell(_factor(same[len(same) // 2]) if same else "-"),
            Cell(f"{behind} of {len(own)}", "behind" if behind else ""),
        ])  # fmt: skip
    note = (
        "Medians over vocabularies and grammars, against the best of the peers in each row. First find your "
        "situation, then see whether its row is green; amber says that a peer is ahead there."
    )
    columns = [
        "for",
        "what counts",
        "peers measured",
        "ahead",
        "equimask, next to the best peer",
        "next to XGrammar (same masks)",
        "a peer is ahead in",
    ]
    return Table("", columns, found, note)


def _factor(ratio: float) -> str:
    """Our time / theirs, in words."""
    if 1 / CLOSE < ratio < CLOSE:
        return "equal"
    return f"{report.readable(max(ratio, 1 / ratio), 'x')} {'faster' if ratio < 1 else 'slower'}"


def _absolute(spec: str) -> str:
    """Files and folders by their whole paths, as jobs run elsewhere."""
    path = Path(spec)
    return str(path.resolve()) if path.exists() else spec


def _command(arguments: Mapping[str, Any]) -> str:
    """The command line, with the last parts of paths alone."""
    words = ["python", "-m", "bench", "report"]
    for name, value in arguments.items():
        for one in value if isinstance(value, list) else [value]:
            if one is True:
                words.append(f"--{name}")
            elif one is not None and one is not False:
                words += [f"--{name}", str(one)]
    return shlex.join(words)
