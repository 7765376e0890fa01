"""What the report asks: for each question, the benchmarks that answer it.

What: `Inputs` are the files that a user has, `Sizes` how much of them is used, `questions` the jobs of each
question, with what is missing for a full answer.
When: in ``python -m bench report``.
Limits: `SECONDS` are those of two slow cores; they are for the time left alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.cases import BUILTIN_JSON, CHECKOUT
from bench.peers import cfgzip, llguidance
from bench.reporting.jobs import Job
from bench.workloads import short_name

GRAMMARS = CHECKOUT / "hybrid" / "grammars"
SAMPLES = CHECKOUT / "bench" / "samples"

EBNF: Mapping[str, str] = {
    "json": BUILTIN_JSON,
    "sql": str(GRAMMARS / "sql_like.gbnf"),
    "c": str(GRAMMARS / "c_like.gbnf"),
    "arithmetic": str(GRAMMARS / "arithmetic.gbnf"),
}
"""Grammars of question a, by the name of their documents."""

LARK: Mapping[str, Path] = {
    "json": GRAMMARS / "json.lark",
    "sql": GRAMMARS / "sql_select.lark",
    "c": GRAMMARS / "c_like.lark",
}
"""Likewise in Lark's notation; documents are files whose names end with the grammar's."""

DOCUMENTS: Mapping[str, Path] = {"c": SAMPLES / "c_like", "arithmetic": SAMPLES / "arithmetic"}
"""What comes with the project."""


@dataclass(frozen=True)
class Inputs:
    """What a user gives; `documents` and `lark` are files and folders by name."""

    vocabularies: Sequence[str]
    schemas: Sequence[Path] = ()
    documents: Mapping[str, Path] = field(default_factory=dict)
    lark: Mapping[str, Path] = field(default_factory=dict)
    grammars: Sequence[Path] = ()
    seed: int = 0

    def documents_of(self, name: str) -> Path | None:
        return self.documents.get(name, DOCUMENTS.get(name))


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    equality: int
    schemas: int
    strategies: int
    strategy_documents: int
    class_schemas: int
    documents: int
    document_tokens: int
    plain_masks: int
    rounds: int
    builds: int
    starts: int
    plain_seconds: float
    peer_seconds: float
    all_vocabularies: bool


QUICK = Sizes(12, 40, 6, 100, 30, 6, 100, 40, 2, 1, 3, 10.0, 5.0, False)
FULL = Sizes(100, 200, 30, 1000, 200, 30, 2000, 300, 4, 3, 7, 60.0, 120.0, True)


@dataclass(frozen=True)
class Question:
    """One question, its jobs, and what is missing for them."""

    letter: str
    title: str
    jobs: Sequence[Job]
    missing: Sequence[str] = ()


def limited(sizes: Sizes, limit: int | None) -> Sizes:
    """The sizes with at most so many schemas or documents in each job."""
    if limit is None:
        return sizes
    names = ("equality", "schemas", "strategies", "class_schemas", "documents", "starts")
    smaller = {name: min(limit, getattr(sizes, name)) for name in names}
    return Sizes(**{**vars(sizes), **smaller})


def questions(inputs: Inputs, sizes: Sizes) -> list[Question]:
    """All of them, in the order in which they are asked: whether masks are equal comes first."""
    return [
        _equality(inputs, sizes),
        _grammars(inputs, sizes),
        _classes(inputs, sizes),
        _schemas(inputs, sizes),
        _growth(inputs, sizes),
        _generating(inputs, sizes),
        _break_even(inputs, sizes),
    ]


def missing_peers() -> list[str]:
    """Peers that are not installed, with the way out."""
    found = []
    if not llguidance.is_installed():
        found.append("llguidance is not installed (pip install llguidance): its columns are missing")
    if shutil.which(cfgzip.PROGRAM) is None:
        found.append("CFGzip is not installed (pip install cfgzip; Linux on x86-64): its classes are missing")
    return found


NO_SCHEMAS = "no folder of schemas was given (--schemas)"


def _equality(inputs: Inputs, sizes: Sizes) -> Question:
    jobs = []
    for spec in inputs.vocabularies:
        own = ("equality", "--vocabulary", spec, "--seed", str(inputs.seed), "--walks", "1")
        grammars = (*own, "--grammars", str(GRAMMARS), "--walk-steps", "25", "--seconds", "20")
        jobs.append(Job(f"equality-grammars-{short_name(spec)}", grammars, 40))
        for folder in inputs.schemas:
            more = ("--schemas", str(folder), "--limit", str(sizes.equality), "--seconds", "20")
            name = f"equality-{folder.name}-{short_name(spec)}"
            jobs.append(Job(name, (*own, "--walk-steps", "100", *more), 5 + 2 * sizes.equality))
    return Question("", "Are masks equal to XGrammar's?", jobs, [] if inputs.schemas else [NO_SCHEMAS])


def _grammars(inputs: Inputs, sizes: Sizes) -> Question:
    jobs, missing = [], []
    for spec in _some(inputs, sizes):
        for name, grammar in EBNF.items():
            folder = inputs.documents_of(name)
            if folder is None:
                missing.append(f"no documents for the grammar {name} (--documents {name}=PATH)")
                continue
            arguments = (
                "grammar", "--grammar", grammar, "--sample", str(folder), "--vocabulary", spec,
                "--threads", "1", "--documents", str(sizes.documents), "--seed", str(inputs.seed),
                "--plain-masks", str(sizes.plain_masks), "--max-tokens", str(sizes.document_tokens),
                "--rounds", str(sizes.rounds), "--builds", str(sizes.builds), "--batch", "16",
            )  # fmt: skip
            jobs.append(Job(f"grammar-{name}-{short_name(spec)}", arguments, 10 + sizes.plain_masks / 2))
    for name, path in {**LARK, **inputs.lark}.items():
        folder = inputs.documents_of(name)
        if folder is None:
            missing.append(f"no documents for the Lark grammar {name} (--documents {name}=PATH)")
            continue
        for spec in _some(inputs, sizes):
            arguments = (
                "lark", "--vocabulary", spec, "--grammar", f"{name}={path}",
                "--documents", f"{name}={folder}", "--count", str(sizes.documents),
                "--judged-files", "3", "--judged-steps", "10",
                "--rounds", str(sizes.rounds), "--builds", str(sizes.builds), "--batch", "16",
                "--seed", str(inputs.seed),
            )  # fmt: skip
            jobs.append(Job(f"lark-{name}-{short_name(spec)}", arguments, 20 + 2 * sizes.documents))
    return Question("a", "Grammars used often: what do a mask, a token and building cost?", jobs, missing)


def _classes(inputs: Inputs, sizes: Sizes) -> Question:
    jobs = []
    peer = shutil.which(cfgzip.PROGRAM) is not None
    for spec in inputs.vocabularies:
        arguments: tuple[str, ...] = ("classes", "--vocabulary", spec, "--repeats", "3", "--displacement")
        for folder in (GRAMMARS, *inputs.grammars):
            arguments += ("--grammars", str(folder))
        if peer:
            arguments += ("--peer", "cfgzip", "--peer-seconds", str(sizes.peer_seconds))
        for folder in inputs.schemas[:1]:
            arguments += ("--schemas", str(folder), "--limit", str(sizes.class_schemas))
        jobs.append(
            Job(f"classes-{short_name(spec)}", arguments, 30 + (8 * sizes.peer_seconds if peer else 0))
        )
    missing = (
        [] if inputs.grammars else ["the CFGzip paper's grammars of XML, C++ and Bython (--grammars FOLDER)"]
    )
    return Question("b", "Token classes: how many, how fast, next to CFGzip?", jobs, missing)


def _schemas(inputs: Inputs, sizes: Sizes) -> Question:
    jobs = []
    for spec in inputs.vocabularies:
        for folder in inputs.schemas:
            arguments = (
                "schemas", "--vocabulary", spec, "--schemas", str(folder), "--limit", str(sizes.schemas),
                "--max-plain-seconds", str(sizes.plain_seconds), "--seed", str(inputs.seed),
            )  # fmt: skip
            jobs.append(Job(f"schemas-{folder.name}-{short_name(spec)}", arguments, 10 + 1.5 * sizes.schemas))
    title = "JSON schemas that are new: how long to the first mask, what is a mask, what is taken?"
    return Question("c", title, jobs, [] if inputs.schemas else [NO_SCHEMAS])


def _growth(inputs: Inputs, sizes: Sizes) -> Question:
    own = [part for spec in inputs.vocabularies for part in ("--growth-vocabulary", spec)]
    first = inputs.vocabularies[0]
    arguments = ("classes", "--vocabulary", first, "--scaling", "--repeats", "1", "--no-memory", *own,
                 "--grammars", str(GRAMMARS))  # fmt: skip
    jobs = [Job("growth", arguments, 40)]
    for spec in _some(inputs, sizes):
        start = ("starting", "--vocabulary", spec, "--repeats", str(sizes.starts))
        jobs.append(Job(f"starting-{short_name(spec)}", start, 15 * sizes.starts))
    missing = [
        "nesting, threads, and batches of up to 256: not measured here",
        "the cold start of a new machine",
    ]
    return Question("d", "Growth: with the vocabulary, with properties; and a new process", jobs, missing)


def _generating(inputs: Inputs, sizes: Sizes) -> Question:
    jobs = [
        Job(f"generating-{short_name(spec)}", ("generating", "--vocabulary", spec), 60)
        for spec in _some(inputs, sizes)
    ]
    return Question("e", "End to end: tokens per second of generate, small random model, CPU", jobs)


def _break_even(inputs: Inputs, sizes: Sizes) -> Question:
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
    title = "When to use what: one schema, once and many times"
    return Question("f", title, jobs, [] if inputs.schemas else [NO_SCHEMAS])


def _some(inputs: Inputs, sizes: Sizes) -> Sequence[str]:
    """All vocabularies, or the first."""
    return inputs.vocabularies if sizes.all_vocabularies else inputs.vocabularies[:1]
