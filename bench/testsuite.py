"""The JSON-Schema-Test-Suite: is each case right, wrong, or refused by name?

What: every engine gets every schema of the suite, and every instance is written and read to its end. The
suite says which instances are valid. Right and wrong are counted by draft and by file; each file is about one
keyword.
When: ``python -m bench testsuite --data DIR --json FILE``; the folder is a checkout of the repository
json-schema-org/JSON-Schema-Test-Suite, of which the required part is used.
Limits: verdicts only, over a vocabulary of bytes. A schema that names no dialect gets that of its draft. Our
engine with JSON Schema's meaning gets the suite's folder of remote schemas as a registry, and treats formats
as annotations if the draft says so (2019-09, 2020-12; for earlier drafts, the required part does not test
this). The others have no such options: they can only refuse such references, and asserting formats counts as
wrong. An instance is tried in several spellings (`bench.json_schema.texts`).
"""

from __future__ import annotations

import json as json_module
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from bench import maskbench, options, report, workloads
from bench.json_schema import engines, runner
from bench.json_schema.remotes import DRAFTS
from bench.json_schema.summary import reason
from bench.json_schema.worker import BYTES
from bench.reporting.answers import publish
from bench.workloads import SchemaFile


@dataclass(frozen=True)
class Case:
    """A schema of the suite with its tests; `part` is the name of its file without the suffix."""

    draft: str
    part: str
    description: str
    file: SchemaFile


def read(folder: Path, drafts: Sequence[str]) -> list[Case]:
    """Read the cases of the suite.

    Raises:
        ValueError: the folder is not a checkout of it, or there is no such draft.
    """
    if wrong := [draft for draft in drafts if draft not in DRAFTS]:
        raise ValueError(f"there is no draft {wrong[0]!r}; allowed are {', '.join(DRAFTS)}")
    found = []
    for draft in drafts:
        paths = sorted((folder / "tests" / draft).glob("*.json"))
        if not paths:
            raise ValueError(
                f"{str(folder)!r} has no tests/{draft}/*.json; expected is a checkout of the repository "
                "json-schema-org/JSON-Schema-Test-Suite"
            )
        for path in paths:
            for number, case in enumerate(json_module.loads(path.read_text(encoding="utf-8"))):
                found.append(_case(draft, path.stem, number, case))
    return found


def _case(draft: str, part: str, number: int, case: Mapping[str, Any]) -> Case:
    schema = case["schema"]
    if isinstance(schema, Mapping) and "$schema" not in schema:
        schema = {"$schema": DRAFTS[draft], **schema}
    tests = case["tests"]
    labels = [bool(test["valid"]) for test in tests]
    file = SchemaFile(f"{draft}/{part}#{number}", schema, [test["data"] for test in tests], labels)
    return Case(draft, part, case["description"], file)


VERDICTS = ("right", "wrong", "refused", "ended")
"""An engine judges a test right or wrong, refuses its schema, or was killed on it or failed."""


def count(case: Case, row: Mapping[str, Any]) -> dict[str, int]:
    """Count the tests of one case on one engine, by verdict."""
    labels = case.file.labels
    if row["outcome"] == "refused":
        return {"refused": len(labels)}
    if row["outcome"] != "done" or any(one["failure"] for one in row["instances"]):
        return {"ended": len(labels)}
    right = sum(bool(one["how"]) == label for one, label in zip(row["instances"], labels, strict=True))
    return {"right": right, "wrong": len(labels) - right}


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
    results: maskbench.ResultsOption = None,
) -> None:
    """Run the JSON-Schema-Test-Suite on every engine: right, wrong or refused, by keyword and draft."""
    arguments = dict(locals())
    console = report.make_console()
    with workloads.usage_errors():
        cases = read(data, draft or list(DRAFTS))
        names, missing = maskbench.available(chosen, console)
    remotes = str((data / "remotes").resolve())
    settings = runner.Settings(BYTES, quick=True, seconds=20.0, remotes=remotes)
    reading = [(case.file.name, lambda case=case: case.file) for case in cases]
    rows = maskbench.run(reading, results or json.with_suffix(".results"), names, settings, console)
    record = {
        "versions": {name: engines.version(name) for name in names}, "missing": missing,
        "rows": {name: told(cases, own) for name, own in rows.items()},
    }  # fmt: skip
    publish(console, json, "testsuite", arguments, record)


def told(cases: Sequence[Case], rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the results of one engine: counts by draft and file, refused cases by reason, and mistakes."""
    parts: dict[str, dict[str, Counter[str]]] = defaultdict(
        lambda: defaultdict(lambda: Counter(dict.fromkeys(VERDICTS, 0)))
    )
    refusals: Counter[str] = Counter()
    wrong: list[dict[str, Any]] = []
    for case in cases:
        row = rows[case.file.name]
        parts[case.draft][case.part].update(count(case, row))
        wrong += mistakes(case, row)
        if row["outcome"] == "refused":
            refusals[reason(row["refusal"])] += 1
    return {"parts": parts, "refusals": dict(refusals.most_common()), "mistakes": wrong}
