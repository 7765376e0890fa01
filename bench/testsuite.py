"""The JSON-Schema-Test-Suite: is each case right, wrong, or refused by name?

What: every engine gets every schema of the suite, and every instance is written and read to its end. The
suite says which instances are valid. Right and wrong are counted by draft and by file; each file is about one
keyword.
When: ``python -m bench testsuite --data DIR --json FILE``; the folder is a checkout of the repository
json-schema-org/JSON-Schema-Test-Suite. Only the required part, unless ``--optional`` or ``--format`` is
given.
Limits: verdicts only, over a vocabulary of bytes. A schema that names no dialect gets that of its draft. Our
engine with JSON Schema's meaning gets the suite's folder of remote schemas as a registry, and treats formats
as annotations if the draft says so (2019-09, 2020-12; for earlier drafts, the required part does not test
this). The others have no such options: they can only refuse such references, and asserting formats counts as
wrong. With ``--format``, formats are asserted in all drafts, as the tests in that folder require. An instance
is tried in several spellings (`bench.json_schema.texts`).
"""

from __future__ import annotations

import json as json_module
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from bench import maskbench, options, report, workloads
from bench.json_schema import engines, running
from bench.json_schema.files import Labelled
from bench.json_schema.summary import reason
from bench.json_schema.worker import BYTES

DRAFTS: Mapping[str, str] = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
"""The drafts that are tested, with the URI of each."""


@dataclass(frozen=True)
class Case:
    """A schema of the suite with its tests; `part` is the name of its file without the suffix."""

    draft: str
    part: str
    description: str
    file: Labelled


def read(folder: Path, drafts: Sequence[str], *, optional: bool = False, formats: bool = False) -> list[Case]:
    """Read the cases of the suite.

    Raises:
        ValueError: the folder is not a checkout of it, or there is no such draft.
    """
    if wrong := [draft for draft in drafts if draft not in DRAFTS]:
        raise ValueError(f"there is no draft {wrong[0]!r}; allowed are {', '.join(DRAFTS)}")
    found = []
    for draft in drafts:
        own = folder / "tests" / draft
        paths = sorted(own.glob("*.json"))
        if not paths:
            raise ValueError(
                f"{str(folder)!r} has no tests/{draft}/*.json; expected is a checkout of the repository "
                "json-schema-org/JSON-Schema-Test-Suite"
            )
        paths += sorted((own / "optional").glob("*.json")) if optional else []
        paths += sorted((own / "optional" / "format").glob("*.json")) if formats else []
        for path in paths:
            part = path.relative_to(own).with_suffix("").as_posix()
            for number, case in enumerate(json_module.loads(path.read_text(encoding="utf-8"))):
                found.append(_case(draft, part, number, case))
    return found


def _case(draft: str, part: str, number: int, case: Mapping[str, Any]) -> Case:
    schema = case["schema"]
    if isinstance(schema, Mapping) and "$schema" not in schema:
        schema = {"$schema": DRAFTS[draft], **schema}
    tests = case["tests"]
    labels = [bool(test["valid"]) for test in tests]
    file = Labelled(f"{draft}/{part}#{number}", schema, [test["data"] for test in tests], labels)
    return Case(draft, part, case["description"], file)


@dataclass
class Count:
    """Cases and tests of one engine: for a file, for a draft, or for all.

    Attributes:
        right, wrong: tests of the cases that it accepts.
        refused: tests of the cases that it refuses.
        ended: tests of the cases on which it was killed, or failed.
        cases: number of cases by outcome: "right" (all tests), "wrong", "refused", "ended".
    """

    right: int = 0
    wrong: int = 0
    refused: int = 0
    ended: int = 0
    cases: Counter[str] = field(default_factory=Counter)

    def add(self, other: Count) -> None:
        for name in ("right", "wrong", "refused", "ended"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.cases += other.cases

    @property
    def told(self) -> str:
        """The numbers of right, wrong and refused tests, in short form."""
        return f"{self.right:,} / {self.wrong:,} / {self.refused + self.ended:,}"


def count(case: Case, row: Mapping[str, Any]) -> Count:
    """Count one case on one engine."""
    labels = case.file.labels
    if row["outcome"] == "refused":
        return Count(refused=len(labels), cases=Counter(["refused"]))
    if row["outcome"] != "done" or any(one["failure"] for one in row["instances"]):
        return Count(ended=len(labels), cases=Counter(["ended"]))
    right = sum(bool(one["how"]) == label for one, label in zip(row["instances"], labels, strict=True))
    outcome = "right" if right == len(labels) else "wrong"
    return Count(right, len(labels) - right, cases=Counter([outcome]))


def mistakes(case: Case, row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Return the tests of a case that an engine gets wrong."""
    for number, (one, label) in enumerate(zip(row.get("instances", ()), case.file.labels, strict=False)):
        if bool(one["how"]) != label and not one["failure"]:
            yield {
                "case": case.file.name, "description": case.description, "test": number, "valid": label,
                "instance": case.file.instances[number],
            }  # fmt: skip


def command(
    data: Annotated[Path, typer.Option(help="A checkout of the suite.", exists=True, file_okay=False)],
    json: options.RecordOption,
    chosen: maskbench.EnginesOption = None,
    draft: Annotated[
        list[str] | None, typer.Option(help=f"{', '.join(DRAFTS)}; repeatable, all if not given.")
    ] = None,
    optional: Annotated[bool, typer.Option("--optional", help="The optional part as well.")] = False,
    formats: Annotated[bool, typer.Option("--format", help="optional/format as well.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="So many cases.")] = None,
    jobs: maskbench.JobsOption = 1,
    seconds: maskbench.SecondsOption = 20.0,
    gibibytes: maskbench.MemoryOption = 8.0,
    results: maskbench.ResultsOption = None,
) -> None:
    """Run the JSON-Schema-Test-Suite on every engine: right, wrong or refused, by keyword and draft."""
    arguments = dict(locals())
    console = report.make_console()
    with workloads.usage_errors():
        cases = read(data, draft or list(DRAFTS), optional=optional, formats=formats)[:limit]
        names, missing = maskbench.available(chosen)
    for name, why in missing.items():
        report.say(console, f"left out: {name}: {why}")
    settings = running.Settings(
        BYTES, quick=True, seconds=seconds, gibibytes=gibibytes,
        remotes=str((data / "remotes").resolve()), annotations=not formats,
    )  # fmt: skip
    kept = maskbench.keep(results or json.with_suffix(".results"), tuple(names), settings, console)
    reading = [(case.file.name, lambda case=case: case.file) for case in cases]
    maskbench.run(reading, kept, settings, jobs, "cases", console)
    found = {name: counted(cases, kept[name].rows) for name in names}
    show(console, found)
    record = {
        "benchmark": "testsuite", **report.environment(arguments),
        "versions": {name: engines.version(name) for name in names}, "missing": missing,
        "rows": {
            name: {
                "parts": found[name],
                "refusals": dict(refusals(cases, kept[name].rows).most_common()),
                "mistakes": all_mistakes(cases, kept[name].rows),
            }
            for name in names
        },
    }  # fmt: skip
    report.write_json(json, record)


def all_mistakes(cases: Sequence[Case], rows: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what an engine gets wrong in the whole suite."""
    return [one for case in cases for one in mistakes(case, rows[case.file.name])]


def counted(cases: Sequence[Case], rows: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Count]]:
    """Return the counts of one engine by draft and file."""
    found: dict[str, dict[str, Count]] = defaultdict(lambda: defaultdict(Count))
    for case in cases:
        found[case.draft][case.part].add(count(case, rows[case.file.name]))
    return found


def refusals(cases: Sequence[Case], rows: Mapping[str, Mapping[str, Any]]) -> Counter[str]:
    """Return the refused cases, by reason."""
    own = (rows[case.file.name] for case in cases)
    return Counter(reason(row["refusal"]) for row in own if row["outcome"] == "refused")


def total(parts: Mapping[str, Count]) -> Count:
    """Add up all files of a draft."""
    found = Count()
    for one in parts.values():
        found.add(one)
    return found


def show(console: Console, found: Mapping[str, Mapping[str, Mapping[str, Count]]]) -> None:
    """Print a table for each draft, and one for all."""
    titles = [engines.ENGINES[name].title for name in found]
    drafts = list(dict.fromkeys(draft for own in found.values() for draft in own))
    for draft in drafts:
        table = report.make_table(f"{draft}: tests right / wrong / refused", ("",), titles)
        table.columns[0].no_wrap = True
        for part in dict.fromkeys(part for own in found.values() for part in own[draft]):
            table.add_row(part, *(own[draft][part].told for own in found.values()))
        console.print(table)
    for words, what in (
        ("tests right / wrong / refused", lambda one: one.told),
        (
            "cases right / wrong / refused / ended",
            lambda one: " / ".join(f"{one.cases[name]:,}" for name in ("right", "wrong", "refused", "ended")),
        ),
    ):
        table = report.make_table(words, ("",), titles)
        table.columns[0].no_wrap = True
        for draft in drafts:
            table.add_row(draft, *(what(total(own[draft])) for own in found.values()))
        console.print(table)
