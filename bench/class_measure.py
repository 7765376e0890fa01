"""The measurement of token classes on one grammar: comparison, time, memory, peer.

What: `ClassBench.measure` gives a `Row`; `grammar_sources` and `schema_sources` name what is measured.
When: in `bench.classes`, which describes the figures.
Limits: one grammar at a time, in this process but for memory and the peer.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

import numpy as np
import xgrammar

from bench import workloads
from bench.memory import measure_memory
from bench.peers import cfgzip
from equivalence import HybridError, Vocabulary, compute_classes

BUILTIN_JSON = "builtin:json"


@dataclass
class Row:
    """One grammar over one vocabulary; seconds and bytes throughout.

    ``refusal`` is the error where there are no classes. ``errors`` are masks that contradict the classes.
    """

    vocabulary: str
    name: str
    refusal: str = ""
    parse_seconds: float | None = None
    classes: int | None = None
    never_allowed: int | None = None
    seconds: float | None = None
    cpu_seconds: float | None = None
    phases: dict[str, float] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    displacement: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, int] | None = None
    masks: int = 0
    contradictions: int = 0
    errors: list[str] = field(default_factory=list)
    peer: dict[str, Any] = field(default_factory=dict)


@dataclass
class Source:
    """A grammar to measure: its name, how to parse it, and its text if it is a file."""

    name: str
    parse: Callable[[], xgrammar.Grammar]
    text: str | None = None


@dataclass(frozen=True)
class Settings:
    """What is asked of every grammar, in the words of the command's options."""

    displacement: bool = False
    repeats: int = 5
    walks: int = 2
    walk_steps: int = 25
    root: str = "root"
    seed: int = 0


@dataclass
class ClassBench:
    """One vocabulary and the settings of a run."""

    name: str
    spec: str
    vocabulary: Vocabulary
    settings: Settings

    def measure(self, source: Source, *, memory: bool, check: bool, peer: cfgzip.Peer | None = None) -> Row:
        """Everything that is asked for, of one grammar."""
        row = Row(self.name, source.name)
        try:
            began = perf_counter()
            grammar = source.parse()
            row.parse_seconds = perf_counter() - began
            found = compute_classes(grammar, self.vocabulary)
            if check:
                self._compare(row, grammar)
            timed = time_classes(grammar, self.vocabulary, "acceptance", self.settings.repeats)
            if self.settings.displacement:
                row.displacement = self._displacement(grammar)
        except (HybridError, RuntimeError) as error:
            row.refusal = f"{type(error).__name__}: {error}"
            return row
        row.classes, row.never_allowed = found.n_classes, int((found.class_of_token < 0).sum())
        for name, value in timed.items():
            setattr(row, name, value)
        if memory:
            row.memory = measure_memory(self.spec, grammar.serialize_json(), "acceptance")
        if peer is not None:
            made = peer.run(grammar, source.text, self.settings.root, found.class_of_token)
            row.peer = made.record()
        return row

    def _displacement(self, grammar: xgrammar.Grammar) -> dict[str, Any]:
        """The finer relation, or why there is none."""
        try:
            return time_classes(grammar, self.vocabulary, "displacement", self.settings.repeats)
        except HybridError as error:
            return {"refusal": f"{type(error).__name__}: {error}"}

    def _compare(self, row: Row, grammar: xgrammar.Grammar) -> None:
        """Masks of representatives, one for each class, beside plain XGrammar's over the whole vocabulary."""
        from hybrid.testing.verify import compare_walk

        ours = workloads.hybrid_compiler(self.vocabulary, "representatives", 1).compile_grammar(grammar)
        plain = workloads.plain_compiler(self.vocabulary, 1).compile_grammar(grammar)
        for walk in range(self.settings.walks):
            seed = 1000 * self.settings.seed + walk
            compared = compare_walk(ours, plain, seed, self.settings.walk_steps)
            row.masks += compared.masks
            row.contradictions += compared.contradiction_count
            row.errors += [str(item) for item in compared.differences[:20]]


def time_classes(
    grammar: xgrammar.Grammar, vocabulary: Vocabulary, relation: str, repeats: int
) -> dict[str, Any]:
    """Medians of some computations, after one that is not counted."""
    compute_classes(grammar, vocabulary, relation)  # type: ignore[arg-type]
    gc.collect()
    seconds, cpu, phases = [], [], []
    for _ in range(repeats):
        cpu_began, began = thread_time(), perf_counter()
        found = compute_classes(grammar, vocabulary, relation)  # type: ignore[arg-type]
        seconds.append(perf_counter() - began)
        cpu.append(thread_time() - cpu_began)
        phases.append(found.seconds)
    return {
        "classes": found.n_classes,
        "seconds": float(np.median(seconds)),
        "cpu_seconds": float(np.median(cpu)),
        "phases": {name: float(np.median([part[name] for part in phases])) for name in phases[0]},
        "sizes": found.sizes,
    }


def grammar_sources(files: Sequence[Path], root: str) -> list[Source]:
    """The builtin JSON grammar, then the files; a folder stands for the ``*.gbnf`` in it.

    Raises:
        ValueError: a file cannot be read.
    """
    paths = [
        path for given in files for path in (sorted(given.glob("*.gbnf")) if given.is_dir() else [given])
    ]
    sources = [Source(BUILTIN_JSON, xgrammar.Grammar.builtin_json_grammar)]
    for path in paths:
        text = workloads.read_text(path)
        parse = _parser(xgrammar.Grammar.from_ebnf, text, root_rule_name=root)
        sources.append(Source(path.stem, parse, text))
    return sources


def schema_sources(files: Sequence[workloads.SchemaFile], strict: bool) -> list[Source]:
    """The schemas of a folder."""
    return [
        Source(
            file.name,
            _parser(xgrammar.Grammar.from_json_schema, json.dumps(file.schema), strict_mode=strict),
        )
        for file in files
    ]


def _parser(function: Callable[..., xgrammar.Grammar], *given: Any, **keywords: Any) -> Callable[[], Any]:
    return lambda: function(*given, **keywords)
