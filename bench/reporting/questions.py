"""The questions of the report, and the benchmarks that answer each.

What: `QUESTIONS` lists them in order. `asked` makes their jobs from a user's inputs, and says what is missing
for a full answer; `recorded` finds the jobs again in a folder of records.
When: in ``python -m bench report`` and ``python -m bench page``.
Limits: the seconds of a job are for two slow cores, and only used for the remaining time. The first word of a
job's name is its kind, and each kind belongs to one question.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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
    makers: Mapping[str, Callable[[Inputs, Sizes], list[Job]]] = {
        "": _equality, "a": _grammars, "b": _classes, "c": _schemas, "d": _growth, "e": _generating,
        "f": _break_even, "g": _tags, "h": _less_work, "i": _surviving,
        "j": _as_written,
    }  # fmt: skip
    missing: dict[str, list[str]] = {"a": without_documents(inputs)}
    if not inputs.schemas:
        missing |= {letter: [NO_SCHEMAS] for letter in ("", "c", "f", "j")}
    if inputs.test_suite is None:
        missing.setdefault("j", []).append(
            "no checkout of the JSON-Schema-Test-Suite was given (--test-suite)"
        )
    if not inputs.grammars:
        missing["b"] = ["the CFGzip paper's grammars of XML, C++ and Bython (--grammars FOLDER)"]
    if not sizes.is_full:
        missing |= {letter: ["takes long: not in a quick report"] for letter in ("h", "i")}
        missing.setdefault("c", []).append(
            "strict_mode=False without caches, on one thread (without --quick)"
        )
    return [
        Question(
            one.letter, one.title, one.kinds, makers[one.letter](inputs, sizes), missing.get(one.letter, [])
        )
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
        found.append(Question(one.letter, one.title, one.kinds, jobs, missing))
    return found


def missing_peers() -> list[str]:
    """Return the peers that are not installed, with the command that installs each."""
    found = []
    if not llguidance.is_installed():
        found.append("llguidance is not installed (pip install llguidance): its columns are missing")
    if shutil.which(cfgzip.PROGRAM) is None:
        found.append("CFGzip is not installed (pip install cfgzip; Linux on x86-64): its classes are missing")
    return found


NO_SCHEMAS = "no folder of schemas was given (--schemas)"


def _equality(inputs: Inputs, sizes: Sizes) -> list[Job]:
    jobs = []
    for spec in inputs.vocabularies:
        own = ("equality", "--vocabulary", spec, "--seed", str(inputs.seed), "--walks", "1")
        grammars = (*own, "--grammars", str(GRAMMARS), "--walk-steps", "25", "--seconds", "20")
        jobs.append(Job(f"equality-grammars-{short_name(spec)}", grammars, 40))
        for folder in inputs.schemas:
            more = ("--schemas", str(folder), "--limit", str(sizes.equality), "--seconds", "20")
            name = f"equality-{folder.name}-{short_name(spec)}"
            jobs.append(Job(name, (*own, "--walk-steps", "100", *more), 5 + 2 * sizes.equality))
        if sizes.is_full:  # plain XGrammar takes minutes for one mask of the case that is left out
            cases = ("--grammars", str(CASES), "--without", "nullable_star", "--strategy", "representatives")
            seconds = str(sizes.equality / 50)
            jobs.append(Job(f"equality-cases-{short_name(spec)}", (*own, *cases, "--seconds", seconds), 240))
    arguments = (
        "--minutes", str(sizes.fuzz_minutes), "--seed", str(inputs.seed), "--vocabulary",
        inputs.vocabularies[0],
    )  # fmt: skip
    fuzz = Job("fuzz", arguments, 20 + 60 * sizes.fuzz_minutes, "tests.robustness.fuzz")
    return [*jobs, fuzz]


def _grammars(inputs: Inputs, sizes: Sizes) -> list[Job]:
    jobs = []
    for spec in _some(inputs, sizes):
        for name, grammar in {**EBNF, **given_grammars(inputs)}.items():
            folder = inputs.documents_of(name)
            if folder is None:
                continue
            arguments = (
                "grammar", "--grammar", grammar, "--sample", str(folder), "--vocabulary", spec,
                "--threads", "1", "--documents", str(sizes.documents), "--seed", str(inputs.seed),
                "--plain-masks", str(sizes.plain_masks), "--max-tokens", str(sizes.document_tokens),
                "--rounds", str(sizes.rounds), "--builds", str(sizes.builds), "--batch", "16",
            )  # fmt: skip
            jobs.append(Job(f"grammar-{name}-{short_name(spec)}", arguments, 25 + sizes.plain_masks / 2))
    for name, path in {**LARK, **inputs.lark}.items():
        folder = inputs.documents_of(name)
        for spec in _some(inputs, sizes) if folder is not None else ():
            arguments = (
                "lark", "--vocabulary", spec, "--grammar", f"{name}={path}",
                "--documents", f"{name}={folder}", "--count", str(sizes.documents),
                "--judged-files", "3", "--judged-steps", "10",
                "--rounds", str(sizes.rounds), "--builds", str(sizes.builds), "--batch", "16",
                "--seed", str(inputs.seed),
            )  # fmt: skip
            jobs.append(Job(f"lark-{name}-{short_name(spec)}", arguments, 20 + 2 * sizes.documents))
    return jobs


def given_grammars(inputs: Inputs) -> dict[str, str]:
    """Return the grammars of --grammars that have documents, by name; for the others, only classes are
    computed."""
    files = [
        file
        for path in inputs.grammars
        for file in (sorted(path.glob("*.[eg]bnf")) if path.is_dir() else [path])
        if file.suffix in (".gbnf", ".ebnf")
    ]
    return {file.stem: str(file) for file in files if inputs.documents_of(file.stem) is not None}


def without_documents(inputs: Inputs) -> list[str]:
    """Return the grammars that cannot be measured, with the option that would help."""
    kinds = (("grammar", EBNF), ("Lark grammar", {**LARK, **inputs.lark}))
    return [
        f"no documents for the {kind} {name} (--documents {name}=PATH)"
        for kind, names in kinds
        for name in names
        if inputs.documents_of(name) is None
    ]


def _classes(inputs: Inputs, sizes: Sizes) -> list[Job]:
    jobs = []
    peer = shutil.which(cfgzip.PROGRAM) is not None
    for spec in _some(inputs, sizes):
        arguments: tuple[str, ...] = ("classes", "--vocabulary", spec, "--repeats", "3", "--displacement")
        for folder in (GRAMMARS, *inputs.grammars):
            arguments += ("--grammars", str(folder))
        if peer:
            arguments += ("--peer", "cfgzip", "--peer-seconds", str(sizes.peer_seconds))
        for folder in inputs.schemas[:1]:
            arguments += ("--schemas", str(folder), "--limit", str(sizes.class_schemas))
        seconds = 30 + sizes.class_schemas / 2 + (8 * sizes.peer_seconds if peer else 0)
        jobs.append(Job(f"classes-{short_name(spec)}", arguments, seconds))
    return jobs


def _schemas(inputs: Inputs, sizes: Sizes) -> list[Job]:
    jobs = []
    for number, spec in enumerate(_some(inputs, sizes)):
        count = sizes.more_schemas if number else sizes.schemas
        own = ("schemas", "--vocabulary", spec, "--seed", str(inputs.seed))
        for folder in inputs.schemas:
            name = f"{folder.name}-{short_name(spec)}"
            files = (*own, "--schemas", str(folder))
            bounded = (*files, "--max-plain-seconds", str(sizes.plain_seconds))
            defaults: tuple[str, ...] = (*bounded, "--limit", str(count))
            if inputs.elsewhere is not None:
                defaults += ("--xgrammar-elsewhere", str(inputs.elsewhere))
            jobs.append(Job(f"schemas-{name}", (*defaults, "--xgrammar-states"), 10 + 3 * count))
            if number or folder != inputs.schemas[0]:
                continue
            jobs.append(Job(f"situ-{name}", (*defaults, "--xgrammar-states", "--in-situ"), 10 + 3 * count))
            plain = ("--no-strict", "--no-cache", "--threads", "1")
            if sizes.option_schemas:
                more = (*bounded, *plain, "--limit", str(sizes.option_schemas))
                jobs.append(Job(f"options-{name}", more, 10 + 6 * sizes.option_schemas))
            limit = str(sizes.burst * sizes.bursts + 1)
            at_once = (*files, "--burst", str(sizes.burst), "--limit", limit)
            jobs.append(Job(f"burst-{name}", at_once, 15 + sizes.burst * sizes.bursts / 3))
            cold = ("--cold-caches", "--limit", str(sizes.cold_schemas), "--max-plain-seconds", "2")
            jobs.append(Job(f"cold-{name}", (*files, *plain, *cold), 15 + 12 * sizes.cold_schemas))
    return jobs


def _growth(inputs: Inputs, sizes: Sizes) -> list[Job]:
    own = [part for spec in inputs.vocabularies for part in ("--growth-vocabulary", spec)]
    first = inputs.vocabularies[0]
    arguments = ("classes", "--vocabulary", first, "--scaling", "--repeats", "1", "--no-memory", *own,
                 "--grammars", str(GRAMMARS))  # fmt: skip
    jobs = [Job("scaling", arguments, 40)]
    more = ("growth", "--vocabulary", first, "--repeats", str(sizes.growth))
    jobs.append(Job(f"growth-{short_name(first)}", more, 40 + 6 * sizes.growth))
    for spec in _some(inputs, sizes):
        start = ("starting", "--vocabulary", spec, "--repeats", str(sizes.starts))
        jobs.append(Job(f"starting-{short_name(spec)}", start, 35 + 15 * sizes.starts))
    return jobs


def _generating(inputs: Inputs, sizes: Sizes) -> list[Job]:
    return [
        Job(f"generating-{short_name(spec)}", ("generating", "--vocabulary", spec), 60)
        for spec in _some(inputs, sizes)
    ]


def _break_even(inputs: Inputs, sizes: Sizes) -> list[Job]:
    jobs = []
    for spec in _some(inputs, sizes):
        for folder in inputs.schemas[:1]:
            arguments = (
                "strategies", "--vocabulary", spec, "--schemas", str(folder),
                "--limit", str(sizes.strategies), "--most", str(sizes.strategy_documents),
                "--seed", str(inputs.seed),
            )  # fmt: skip
            seconds = 10 + sizes.strategies * (4 + sizes.strategy_documents / 30)
            jobs.append(Job(f"strategies-{short_name(spec)}", arguments, seconds))
    return jobs


def _tags(inputs: Inputs, sizes: Sizes) -> list[Job]:
    jobs = []
    for spec in inputs.vocabularies[:1]:
        arguments = ("--vocabulary", spec, "--steps", str(sizes.tag_tokens))
        for count in sizes.tools:
            arguments += ("--tools", str(count))
        seconds = sum(15 + 9 * count for count in sizes.tools)
        jobs.append(Job(f"tags-{short_name(spec)}", arguments, seconds, "tests.robustness.model_tags"))
        limit = ("--seconds", str(sizes.alone_seconds))
        counts = [part for count in sizes.many_tools for part in ("--tools", str(count))]
        many = ("tools", "--vocabulary", spec, *counts, "--runs", str(sizes.builds), *limit)
        jobs.append(Job(f"tools-{short_name(spec)}", many, sum(sizes.many_tools) * sizes.builds / 2))
        long = ("lengths", "--vocabulary", spec, "--longest", str(sizes.longest), *limit)
        jobs.append(Job(f"lengths-{short_name(spec)}", long, 40 + sizes.longest / 1000))
    return jobs


def _less_work(inputs: Inputs, sizes: Sizes) -> list[Job]:
    """Return jobs for drafts and masks of Lark grammars, and for healed prompts. All need many documents, and
    none is quick."""
    if not sizes.drafted:
        return []
    spec = inputs.vocabularies[0]
    short, jobs = short_name(spec), []
    found = [(name, path, inputs.documents_of(name)) for name, path in {**LARK, **inputs.lark}.items()]
    for name, path, folder in found:
        if folder is not None:
            own = ("--vocabulary", spec, "--lark", f"{name}={path}", "--documents", f"{name}={folder}",
                   "--seed", str(inputs.seed), "--count")  # fmt: skip
            jobs += [
                Job(f"drafts-{name}-{short}", ("drafts", *own, str(max(2, sizes.drafted))), 180),
                Job(f"invasive-{name}-{short}", ("invasive", *own, str(min(30, sizes.drafted))), 120),
                Job(f"choices-{name}-{short}", ("opportunistic", *own, str(min(10, sizes.drafted))), 120),
            ]
    if (folder := inputs.documents_of("json")) is not None:
        arguments = ("healing", "--vocabulary", spec, "--document", str(folder), "--seed", str(inputs.seed),
                     "--prompts", str(sizes.drafted))  # fmt: skip
        jobs.append(Job(f"healing-{short}", arguments, 300))
    return jobs


def _surviving(inputs: Inputs, sizes: Sizes) -> list[Job]:
    if not sizes.is_full or not inputs.schemas:
        return []
    own = ("--vocabulary", inputs.vocabularies[0], "--schemas", str(inputs.schemas[0]))
    traffic = (*own, "--requests", str(16 * sizes.schemas), "--limit", str(sizes.schemas))
    killed = (*own, "--seconds", str(min(40, 5 + sizes.schemas)), "--limit", str(min(60, sizes.schemas)))
    return [
        Job("traffic", traffic, 20 + sizes.schemas, "tests.robustness.traffic"),
        Job("killed", killed, 120, "tests.robustness.killed"),
    ]


def _as_written(inputs: Inputs, sizes: Sizes) -> list[Job]:
    """Return jobs for schemas as they were written. In a quick report, they only compute verdicts, because
    XGrammar takes a second to compile a schema."""
    jobs = []
    for folder in inputs.schemas:
        own = ("maskbench", "--data", str(folder), "--limit", str(sizes.schemas), "--seed", str(inputs.seed))
        name = f"maskbench-{folder.name}"
        if sizes.is_full:
            for spec in inputs.vocabularies[:1]:
                arguments = (*own, "--vocabulary", spec)
                jobs.append(Job(f"{name}-{short_name(spec)}", arguments, 60 + 3 * sizes.schemas))
        else:
            jobs.append(Job(name, (*own, "--quick"), 30 + 0.2 * sizes.schemas))
    if inputs.test_suite is not None:
        arguments = ("testsuite", "--data", str(inputs.test_suite))
        jobs.append(Job("testsuite", arguments, 240))
    return jobs


def _some(inputs: Inputs, sizes: Sizes) -> Sequence[str]:
    """Return all vocabularies in a full report, else the first."""
    return inputs.vocabularies if sizes.is_full else inputs.vocabularies[:1]
