"""The measurement of token classes on one grammar: time, memory, lower bound, comparison, peer.

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

from bench import cfgzip, workloads
from bench.memory import measure_memory
from bench.observed import Observed, directed_masks, follow_masks, walk_masks
from equivalence import HybridError, Vocabulary, compute_classes
from equivalence.network import build_network

BUILTIN_JSON = "builtin:json"


@dataclass
class Row:
    """One grammar over one vocabulary; seconds and bytes throughout.

    ``refusal`` is the error where there are no classes. ``errors`` are masks that contradict the classes.
    ``walk_bound`` is what masks of walks and samples tell apart, ``bound`` what masks after directed texts
    tell apart as well.
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
    walk_bound: int | None = None
    bound: int | None = None
    masks: int = 0
    distinct_masks: int = 0
    compared_masks: int = 0
    contradictions: int = 0
    errors: list[str] = field(default_factory=list)
    peer: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Classes for each class that is proved to be needed."""
        return self.classes / self.bound if self.classes and self.bound else None


@dataclass
class Source:
    """A grammar to measure: its name, how to parse it, its text if it is a file, and texts to follow."""

    name: str
    parse: Callable[[], xgrammar.Grammar]
    text: str | None = None
    samples: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Settings:
    """What is asked of every grammar, in the words of the command's options."""

    displacement: bool = False
    repeats: int = 5
    walks: int = 10
    walk_steps: int = 200
    depth: int = 4
    check_walks: int = 2
    check_steps: int = 25
    root: str = "root"
    seed: int = 0


@dataclass
class ClassBench:
    """One vocabulary and the settings of a run."""

    name: str
    spec: str
    vocabulary: Vocabulary
    settings: Settings

    def measure(
        self,
        source: Source,
        *,
        memory: bool,
        check: bool,
        directed: bool = True,
        peer: cfgzip.Peer | None = None,
    ) -> Row:
        """Everything that is asked for, of one grammar."""
        row = Row(self.name, source.name)
        try:
            began = perf_counter()
            grammar = source.parse()
            row.parse_seconds = perf_counter() - began
            found = compute_classes(grammar, self.vocabulary)
            repeats = self.settings.repeats
            timed = time_classes(grammar, self.vocabulary, "acceptance", repeats)
            if self.settings.displacement:
                row.displacement = self._displacement(grammar)
        except (HybridError, RuntimeError) as error:
            row.refusal = f"{type(error).__name__}: {error}"
            return row
        row.classes, row.never_allowed = found.n_classes, int((found.class_of_token < 0).sum())
        for name, value in timed.items():
            setattr(row, name, value)
        observed = Observed(found, self.vocabulary.stop_token_ids)
        self._observe(row, grammar, source, observed, check)
        if directed and self.settings.depth and found.method == "explored":
            self._observe_directed(row, grammar, observed)
        row.errors = observed.split[:20] + row.errors
        if memory:
            row.memory = measure_memory(self.spec, grammar.serialize_json(), "acceptance")
        if peer is not None:
            made = peer.run(
                grammar, source.text, self.settings.root, found.class_of_token, observed.distinct_masks()
            )
            row.peer = made.record()
        return row

    def _displacement(self, grammar: xgrammar.Grammar) -> dict[str, Any]:
        """The finer relation, or why there is none."""
        try:
            return time_classes(grammar, self.vocabulary, "displacement", self.settings.repeats)
        except HybridError as error:
            return {"refusal": f"{type(error).__name__}: {error}"}

    def _observe(
        self, row: Row, grammar: xgrammar.Grammar, source: Source, observed: Observed, check: bool
    ) -> None:
        """The lower bound, and the comparison with plain XGrammar."""
        from hybrid.testing.verify import compare_walk

        compiled = workloads.hybrid_compiler(self.vocabulary, "auto", 1).compile_grammar(grammar)
        seeds = range(1000 * self.settings.seed, 1000 * self.settings.seed + self.settings.walks)
        for words in walk_masks(compiled, self.vocabulary, seeds, self.settings.walk_steps):
            observed.add(words)
        for number, text in enumerate(source.samples if self.settings.walks else ()):
            seed = f"{self.settings.seed} {source.name} {number}"
            for ids in workloads.token_sequences(self.vocabulary, text, seed):
                for words in follow_masks(compiled, self.vocabulary, ids):
                    observed.add(words)
        if observed.masks:
            row.bound, row.masks, row.distinct_masks = observed.bound, observed.masks, observed.distinct
        row.walk_bound = row.bound
        if check and self.settings.check_walks:
            plain = workloads.plain_compiler(self.vocabulary, 1).compile_grammar(grammar)
            for walk in range(self.settings.check_walks):
                seed = 1000 * self.settings.seed + walk
                compared = compare_walk(compiled, plain, seed, self.settings.check_steps)
                row.compared_masks += compared.masks
                row.contradictions += compared.contradiction_count
                row.errors += [str(item) for item in compared.differences[:20]]

    def _observe_directed(self, row: Row, grammar: xgrammar.Grammar, observed: Observed) -> None:
        """The lower bound once more, with masks that walks hardly ever meet."""
        network = build_network(grammar, token_bytes=self.vocabulary.trie.longest)
        compiled = workloads.hybrid_compiler(self.vocabulary, "representatives", 1).compile_grammar(grammar)
        for words in directed_masks(
            compiled, self.vocabulary, network, self.settings.depth, self.settings.seed
        ):
            observed.add(words)
        row.bound, row.masks, row.distinct_masks = observed.bound, observed.masks, observed.distinct


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


def grammar_sources(files: Sequence[Path], root: str, samples: Sequence[Path]) -> list[Source]:
    """The builtin JSON grammar, then the files; a folder stands for the ``*.gbnf`` in it.

    Raises:
        ValueError: a file cannot be read.
    """
    texts = tuple(path.read_bytes() for path in samples)
    paths = [
        path for given in files for path in (sorted(given.glob("*.gbnf")) if given.is_dir() else [given])
    ]
    sources = [Source(BUILTIN_JSON, xgrammar.Grammar.builtin_json_grammar, None, texts)]
    for path in paths:
        text = workloads.read_text(path)
        parse = _parser(xgrammar.Grammar.from_ebnf, text, root_rule_name=root)
        sources.append(Source(path.stem, parse, text, texts))
    return sources


def schema_sources(files: Sequence[workloads.SchemaFile], strict: bool) -> list[Source]:
    """The schemas of a folder, with their valid instances."""
    return [
        Source(
            file.name,
            _parser(xgrammar.Grammar.from_json_schema, json.dumps(file.schema), strict_mode=strict),
            None,
            tuple(map(workloads.render_instance, file.valid)),
        )
        for file in files
    ]


def _parser(function: Callable[..., xgrammar.Grammar], *given: Any, **keywords: Any) -> Callable[[], Any]:
    return lambda: function(*given, **keywords)
