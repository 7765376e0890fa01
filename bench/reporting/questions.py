"""The questions of the report, and the benchmarks that answer each.

What: `QUESTIONS` lists them in order. `asked` makes their jobs from a user's inputs, and says what is missing
for a full answer; `recorded` finds the jobs again in a folder of records.
When: in ``python -m bench report`` and ``python -m bench page``.
Limits: the seconds of a job are for two slow cores, and only used for the remaining time. The first word of a
job's name is its kind, and each kind belongs to one question.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.cases import BUILTIN_JSON, CHECKOUT
from bench.peers import cfgzip, llguidance
from bench.reporting.inputs import Inputs, Sizes
from bench.reporting.jobs import Job
from bench.workloads import short_name

GRAMMARS = CHECKOUT / "hybrid" / "grammars"

CASES = CHECKOUT / "tests" / "cases"

EBNF: Mapping[str, str] = {
    "json": BUILTIN_JSON,
    "sql": str(GRAMMARS / "sql_like.gbnf"),
    "c": str(GRAMMARS / "c_like.gbnf"),
    "arithmetic": str(GRAMMARS / "arithmetic.gbnf"),
}
"""The grammars of question a, by the name of their documents."""

LARK: Mapping[str, Path] = {
    "json": GRAMMARS / "json.lark",
    "sql": GRAMMARS / "sql_select.lark",
    "c": GRAMMARS / "c_like.lark",
}
"""The same in Lark's notation; documents are files whose suffix is the grammar's name."""


@dataclass(frozen=True)
class Question:
    """One question, its jobs, and what is missing for them.

    Attributes:
        letter: its letter; "" is equality, which comes first.
        kinds: the kinds of its jobs, each with what it measures.
    """

    letter: str
    title: str
    kinds: Mapping[str, str]
    jobs: Sequence[Job] = ()
    missing: Sequence[str] = ()


QUESTIONS = (
    Question("", "Are masks equal to XGrammar's?", {
        "equality": "masks along instances and random walks", "fuzz": "random grammars",
    }),
    Question("a", "Grammars used often: what do a mask, a token and building cost?", {
        "grammar": "grammars in EBNF, beside XGrammar", "lark": "Lark grammars, beside llguidance",
    }),
    Question("b", "Token classes: how many, how fast, next to CFGzip?", {"classes": "token classes"}),
    Question("c", "JSON schemas that are new: how long to the first mask, what is a mask, what is taken?", {
        "schemas": "everybody's defaults", "situ": "the same, other memory changed before each request",
        "options": "without caches, one thread, strict_mode=False",
        "burst": "many new schemas at once", "cold": "cold caches",
    }),
    Question("d", "Growth: vocabulary, properties, nesting, threads, batches; and a new process", {
        "scaling": "vocabulary and properties", "growth": "nesting, threads and batches",
        "starting": "a new process",
    }),
    Question("e", "End to end: tokens per second of generate, small random model, CPU", {
        "generating": "generate in transformers",
    }),
    Question("f", "When to use what: one schema, once and many times", {"strategies": "every strategy"}),
    Question("g", "Tools and bounds that servers send: what do they cost?", {
        "tags": "tags of models", "tools": "many tools in one request", "lengths": "strings near long bounds",
    }),
    Question("h", "Less work for the model: drafts, own choices, healed prompts", {
        "drafts": "drafts", "choices": "own choices first", "healing": "healed prompts",
        "invasive": "tokens that a mask takes from the model",
    }),
    Question("i", "What does a server survive?", {"traffic": "mixed traffic", "killed": "killed processes"}),
    Question("j", "JSON Schema as it was written: what is refused, and what can be written?", {
        "maskbench": "labelled instances, judged by jsonschema", "testsuite": "the JSON-Schema-Test-Suite",
    }),
)  # fmt: skip


def asked(inputs: Inputs, sizes: Sizes) -> list[Question]:
    """Return all questions with their jobs, and what is missing."""
    missing: dict[str, list[str]] = {one.letter: [] for one in QUESTIONS}
    missing["a"] = _without_documents(inputs)
    for letter in ("", "c", "f", "j") if not inputs.schemas else ():
        missing[letter].append("no folder of schemas was given (--schemas)")
    if inputs.test_suite is None:
        missing["j"].append("no checkout of the JSON-Schema-Test-Suite was given (--test-suite)")
    if not inputs.grammars:
        missing["b"].append("the CFGzip paper's grammars of XML, C++ and Bython (--grammars FOLDER)")
    if not sizes.is_full:
        missing["c"].append("strict_mode=False without caches, on one thread (without --quick)")
        for letter in ("h", "i"):
            missing[letter].append("takes long: not in a quick report")
    return [
        replace(one, jobs=list(_MAKERS[one.letter](inputs, sizes)), missing=missing[one.letter])
        for one in QUESTIONS
    ]


def recorded(names: Iterable[str]) -> list[Question]:
    """Return all questions with the jobs of these names; for each kind without a job, how to measure it."""
    by_kind: dict[str, list[Job]] = {}
    for name in names:
        job = Job(name, (), 0)
        by_kind.setdefault(job.kind, []).append(job)
    found = []
    for one in QUESTIONS:
        jobs = [job for kind in one.kinds for job in by_kind.get(kind, ())]
        missing = [
            f"{what} (python -m bench report --out DIR --only {kind} ...)"
            for kind, what in one.kinds.items()
            if kind not in by_kind
        ]
        found.append(replace(one, jobs=jobs, missing=missing))
    return found


def missing_peers() -> list[str]:
    """Return the peers that are not installed, with the command that installs each."""
    found = []
    if not llguidance.is_installed():
        found.append("llguidance is not installed (pip install llguidance): its columns are missing")
    if shutil.which(cfgzip.PROGRAM) is None:
        found.append("CFGzip is not installed (pip install cfgzip; Linux on x86-64): its classes are missing")
    return found


def _job(name: str, seconds: float, *arguments: Any, program: str = "bench") -> Job:
    return Job(name, tuple(map(str, arguments)), seconds, program)


def _options(name: str, values: Iterable[Any]) -> list[Any]:
    """Return an option that is given once for each value."""
    return [part for value in values for part in (name, value)]


def _equality(inputs: Inputs, sizes: Sizes) -> Iterator[Job]:
    for spec in inputs.vocabularies:
        short = short_name(spec)
        own = ("equality", "--vocabulary", spec, "--seed", inputs.seed, "--walks", "1")
        grammars = ("--grammars", GRAMMARS, "--walk-steps", "25", "--seconds", "20")
        yield _job(f"equality-grammars-{short}", 40, *own, *grammars)
        for folder in inputs.schemas:
            more = ("--schemas", folder, "--limit", sizes.equality, "--seconds", "20")
            name = f"equality-{folder.name}-{short}"
            yield _job(name, 5 + 2 * sizes.equality, *own, "--walk-steps", "100", *more)
        if sizes.is_full:  # plain XGrammar takes minutes for one mask of the case that is left out
            cases = ("--grammars", CASES, "--without", "nullable_star", "--strategy", "representatives")
            yield _job(f"equality-cases-{short}", 240, *own, *cases, "--seconds", sizes.equality / 50)
    yield _job(
        "fuzz", 20 + 60 * sizes.fuzz_minutes, "--minutes", sizes.fuzz_minutes, "--seed", inputs.seed,
        "--vocabulary", inputs.vocabularies[0], program="tests.robustness.fuzz",
    )  # fmt: skip


def _grammars(inputs: Inputs, sizes: Sizes) -> Iterator[Job]:
    measured = ("--rounds", sizes.rounds, "--builds", sizes.builds, "--batch", "16", "--seed", inputs.seed)
    for spec in _some(inputs, sizes):
        for name, grammar in {**EBNF, **_given_grammars(inputs)}.items():
            if (folder := inputs.documents_of(name)) is not None:
                yield _job(
                    f"grammar-{name}-{short_name(spec)}", 25 + sizes.plain_masks / 2, "grammar",
                    "--grammar", grammar, "--sample", folder, "--vocabulary", spec,
                    "--documents", sizes.documents, "--plain-masks", sizes.plain_masks,
                    "--max-tokens", sizes.document_tokens, *measured,
                )  # fmt: skip
    for name, path, folder in _larks(inputs):
        for spec in _some(inputs, sizes):
            yield _job(
                f"lark-{name}-{short_name(spec)}", 20 + 2 * sizes.documents, "lark", "--vocabulary", spec,
                "--grammar", f"{name}={path}", "--documents", f"{name}={folder}",
                "--count", sizes.documents, "--judged-files", "3", "--judged-steps", "10", *measured,
            )  # fmt: skip


def _larks(inputs: Inputs) -> Iterator[tuple[str, Path, Path]]:
    """Yield the Lark grammars that have documents: a name, the grammar, and the documents."""
    for name, path in {**LARK, **inputs.lark}.items():
        if (folder := inputs.documents_of(name)) is not None:
            yield name, path, folder


def _given_grammars(inputs: Inputs) -> dict[str, str]:
    """Return the grammars of --grammars that have documents, by name; for the others, only classes are
    computed."""
    files = [
        file
        for path in inputs.grammars
        for file in (sorted(path.glob("*.[eg]bnf")) if path.is_dir() else [path])
        if file.suffix in (".gbnf", ".ebnf")
    ]
    return {file.stem: str(file) for file in files if inputs.documents_of(file.stem) is not None}


def _without_documents(inputs: Inputs) -> list[str]:
    """Return the grammars that cannot be measured, with the option that would help."""
    kinds = (("grammar", EBNF), ("Lark grammar", {**LARK, **inputs.lark}))
    return [
        f"no documents for the {kind} {name} (--documents {name}=PATH)"
        for kind, names in kinds
        for name in names
        if inputs.documents_of(name) is None
    ]


def _classes(inputs: Inputs, sizes: Sizes) -> Iterator[Job]:
    peer = shutil.which(cfgzip.PROGRAM) is not None
    for spec in _some(inputs, sizes):
        arguments: list[Any] = ["classes", "--vocabulary", spec, "--repeats", "3", "--displacement"]
        arguments += _options("--grammars", (GRAMMARS, *inputs.grammars))
        if peer:
            arguments += ["--peer", "cfgzip", "--peer-seconds", sizes.peer_seconds]
        for folder in inputs.schemas[:1]:
            arguments += ["--schemas", folder, "--limit", sizes.class_schemas]
        seconds = 30 + sizes.class_schemas / 2 + (8 * sizes.peer_seconds if peer else 0)
        yield _job(f"classes-{short_name(spec)}", seconds, *arguments)


def _schemas(inputs: Inputs, sizes: Sizes) -> Iterator[Job]:
    elsewhere = [] if inputs.elsewhere is None else ["--xgrammar-elsewhere", inputs.elsewhere]
    plain = ("--no-strict", "--no-cache", "--threads", "1")
    for number, spec in enumerate(_some(inputs, sizes)):
        count = sizes.more_schemas if number else sizes.schemas
        for folder in inputs.schemas:
            name = f"{folder.name}-{short_name(spec)}"
            files = ("schemas", "--vocabulary", spec, "--seed", inputs.seed, "--schemas", folder)
            bounded = (*files, "--max-plain-seconds", sizes.plain_seconds)
            defaults = (*bounded, "--limit", count, *elsewhere, "--xgrammar-states")
            yield _job(f"schemas-{name}", 10 + 3 * count, *defaults)
            if number or folder != inputs.schemas[0]:
                continue
            yield _job(f"situ-{name}", 10 + 3 * count, *defaults, "--in-situ")
            if limit := sizes.option_schemas:
                yield _job(f"options-{name}", 10 + 6 * limit, *bounded, *plain, "--limit", limit)
            limit = sizes.burst * sizes.bursts * 4 // 3 + 1  # llguidance refuses up to a seventh
            yield _job(f"burst-{name}", 15 + limit / 3, *files, "--burst", sizes.burst, "--limit", limit)
            cold = ("--cold-caches", "--limit", sizes.cold_schemas, "--max-plain-seconds", "2")
            yield _job(f"cold-{name}", 15 + 12 * sizes.cold_schemas, *files, *plain, *cold)


def _growth(inputs: Inputs, sizes: Sizes) -> Iterator[Job]:
    first = inputs.vocabularies[0]
    yield _job(
        "scaling", 40, "classes", "--vocabulary", first, "--scaling", "--repeats", "1", "--no-memory",
        *_options("--growth-vocabulary", inputs.vocabularies), "--grammars", GRAMMARS,
    )  # fmt: skip
    more = ("growth", "--vocabulary", first, "--repeats", sizes.growth)
    yield _job(f"growth-{short_name(first)}", 40 + 6 * sizes.growth, *more)
    for spec in _some(inputs, sizes):
        start = ("starting", "--vocabulary", spec, "--repeats", sizes.starts)
        yield _job(f"starting-{short_name(spec)}", 35 + 15 * sizes.starts, *start)


def _generating(inputs: Inputs, sizes: Sizes) -> Iterator[Job]:
    for spec in _some(inputs, sizes):
        yield _job(f"generating-{short_name(spec)}", 60, "generating", "--vocabulary", spec)


def _break_even(inputs: Inputs, sizes: Sizes) -> Iterator[Job]:
    seconds = 10 + sizes.strategies * (4 + sizes.strategy_documents / 30)
    for spec in _some(inputs, sizes):
        for folder in inputs.schemas[:1]:
            own = ("strategies", "--vocabulary", spec, "--schemas", folder, "--limit", sizes.strategies)
            more = ("--most", sizes.strategy_documents, "--seed", inputs.seed)
            yield _job(f"strategies-{short_name(spec)}", seconds, *own, *more)


def _tags(inputs: Inputs, sizes: Sizes) -> Iterator[Job]:
    spec = inputs.vocabularies[0]
    short, limit = short_name(spec), ("--seconds", sizes.alone_seconds)
    yield _job(
        f"tags-{short}", sum(15 + 9 * count for count in sizes.tools), "--vocabulary", spec,
        "--steps", sizes.tag_tokens, *_options("--tools", sizes.tools),
        program="tests.robustness.model_tags",
    )  # fmt: skip
    many = ("tools", "--vocabulary", spec, *_options("--tools", sizes.many_tools), "--runs", sizes.builds)
    yield _job(f"tools-{short}", sum(sizes.many_tools) * sizes.builds / 2, *many, *limit)
    long = ("lengths", "--vocabulary", spec, "--longest", sizes.longest)
    yield _job(f"lengths-{short}", 40 + sizes.longest / 1000, *long, *limit)


def _less_work(inputs: Inputs, sizes: Sizes) -> Iterator[Job]:
    """Yield jobs for drafts and masks of Lark grammars, and for healed prompts. All need many documents, and
    none is quick."""
    if not sizes.drafted:
        return
    vocabulary = ("--vocabulary", inputs.vocabularies[0], "--seed", inputs.seed)
    short = short_name(inputs.vocabularies[0])
    for name, path, folder in _larks(inputs):
        own = (*vocabulary, "--lark", f"{name}={path}", "--documents", f"{name}={folder}", "--count")
        yield _job(f"drafts-{name}-{short}", 180, "drafts", *own, max(2, sizes.drafted))
        yield _job(f"invasive-{name}-{short}", 120, "invasive", *own, min(30, sizes.drafted))
        yield _job(f"choices-{name}-{short}", 120, "opportunistic", *own, min(10, sizes.drafted))
    if (folder := inputs.documents_of("json")) is not None:
        healing = ("healing", *vocabulary, "--document", folder, "--prompts", sizes.drafted)
        yield _job(f"healing-{short}", 300, *healing)


def _surviving(inputs: Inputs, sizes: Sizes) -> Iterator[Job]:
    for folder in inputs.schemas[:1] if sizes.is_full else ():
        own = ("--vocabulary", inputs.vocabularies[0], "--schemas", folder)
        traffic = (*own, "--requests", 16 * sizes.schemas, "--limit", sizes.schemas)
        killed = (*own, "--seconds", min(40, 5 + sizes.schemas), "--limit", min(60, sizes.schemas))
        yield _job("traffic", 20 + sizes.schemas, *traffic, program="tests.robustness.traffic")
        yield _job("killed", 120, *killed, program="tests.robustness.killed")


def _as_written(inputs: Inputs, sizes: Sizes) -> Iterator[Job]:
    """Yield jobs for schemas as they were written. In a quick report, they only compute verdicts, because
    XGrammar takes a second to compile a schema."""
    for folder in inputs.schemas:
        own = ("maskbench", "--data", folder, "--limit", sizes.schemas, "--seed", inputs.seed)
        name = f"maskbench-{folder.name}"
        if sizes.is_full:
            spec = inputs.vocabularies[0]
            yield _job(f"{name}-{short_name(spec)}", 60 + 3 * sizes.schemas, *own, "--vocabulary", spec)
        else:
            yield _job(name, 30 + 0.2 * sizes.schemas, *own, "--quick")
    if inputs.test_suite is not None:
        yield _job("testsuite", 240, "testsuite", "--data", inputs.test_suite)


def _some(inputs: Inputs, sizes: Sizes) -> Sequence[str]:
    """Return all vocabularies in a full report, else the first."""
    return inputs.vocabularies if sizes.is_full else inputs.vocabularies[:1]


_MAKERS: Mapping[str, Callable[[Inputs, Sizes], Iterator[Job]]] = {
    "": _equality, "a": _grammars, "b": _classes, "c": _schemas, "d": _growth, "e": _generating,
    "f": _break_even, "g": _tags, "h": _less_work, "i": _surviving, "j": _as_written,
}  # fmt: skip
