"""Token classes alone: how many, how fast, how much memory, and how these grow.

What: runs `equivalence.compute_classes` on the builtin JSON grammar, on grammars and on the schemas of a
folder, over one or more vocabularies. It reports times, memory, growth, and the classes of CFGzip for
comparison.
When: ``python -m bench classes --vocabulary SPEC --json FILE``, with ``--grammars``, ``--schemas``,
``--scaling`` and ``--peer cfgzip`` as needed.
Limits: one thread; the trie of the vocabulary is built before. Times include the grammar network, but not
XGrammar's parsing, and are medians of repeats. Before anything is reported, masks of representatives along
random walks are compared with plain XGrammar's over the whole vocabulary (all grammars, `CHECKED` schemas).
The benchmark does not show that there could not be fewer classes.
"""

from __future__ import annotations

import gc
import json as json_format
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from time import perf_counter, thread_time
from typing import Annotated, Any, Literal

import numpy as np
import typer
import xgrammar
from rich.progress import track

from bench import options, report, scaling, workloads
from bench.cases import BUILTIN_JSON, Case, load_grammars
from bench.memory import peak_of_classes
from bench.peers import cfgzip
from bench.report import Spread
from bench.reporting.answers import publish
from equivalence import HybridError, Vocabulary, compute_classes

PEER_BYTES = 8 << 30
"""The memory limit of one run of the peer."""

CHECKED = 10
"""The masks of this many schemas are compared with plain XGrammar's, and those of all grammars."""


@dataclass
class Row:
    """The result for one grammar over one vocabulary, in seconds and bytes.

    ``refusal`` is the error if there are no classes. ``errors`` are masks that contradict the classes.
    """

    vocabulary: str
    name: str
    refusal: str = ""
    classes: int | None = None
    never_allowed: int | None = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    displacement: dict[str, Any] = field(default_factory=dict)
    memory: int | None = None
    masks: int = 0
    contradictions: int = 0
    errors: list[str] = field(default_factory=list)
    peer: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ClassBench:
    """One vocabulary, and the settings for every grammar, named as the options of the command."""

    spec: str
    vocabulary: Vocabulary
    displacement: bool
    repeats: int
    walks: int
    walk_steps: int
    seed: int

    @property
    def name(self) -> str:
        return workloads.short_name(self.spec)

    def measure(self, case: Case, *, memory: bool, check: bool, peer: cfgzip.Peer | None = None) -> Row:
        """Measure everything that is asked for on one grammar."""
        row = Row(self.name, case.name)
        try:
            grammar = case.parse()
            found = compute_classes(grammar, self.vocabulary)
            if check:
                self._compare(row, grammar)
            timed = time_classes(grammar, self.vocabulary, "acceptance", self.repeats)
        except (HybridError, RuntimeError) as error:
            row.refusal = f"{type(error).__name__}: {error}"
            return row
        for name, value in timed.items():
            setattr(row, name, value)
        row.never_allowed = int((found.class_of_token < 0).sum())
        if self.displacement:
            row.displacement = self.try_classes(grammar, "displacement")
        if memory:
            row.memory = peak_of_classes(self.spec, grammar.serialize_json())
        if peer is not None:
            text = case.grammar if case.kind == "ebnf" else None
            row.peer = vars(peer.run(grammar, text, found.class_of_token))
        return row

    def try_classes(
        self, grammar: xgrammar.Grammar, relation: str, vocabulary: Vocabulary | None = None
    ) -> dict[str, Any]:
        """Return the result of `time_classes`, or why there are no classes."""
        try:
            return time_classes(grammar, vocabulary or self.vocabulary, relation, self.repeats)
        except HybridError as error:
            return {"refusal": f"{type(error).__name__}: {error}"}

    def _compare(self, row: Row, grammar: xgrammar.Grammar) -> None:
        """Compare masks over one representative for each class with plain XGrammar's over the whole
        vocabulary."""
        ours = workloads.hybrid_compiler(self.vocabulary, "representatives", 1).compile_grammar(grammar)
        plain = workloads.plain_compiler(self.vocabulary, 1).compile_grammar(grammar)
        found = workloads.compare_walks(ours, plain, 1000 * self.seed, self.walks, self.walk_steps)
        row.masks, row.contradictions = found.masks, found.contradiction_count
        row.errors = [str(item) for item in found.differences[:20]]


def time_classes(
    grammar: xgrammar.Grammar, vocabulary: Vocabulary, relation: str, repeats: int
) -> dict[str, Any]:
    """Compute classes several times, after a first time that is not counted, and return medians."""
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


def schema_case(file: workloads.SchemaFile) -> Case:
    """Return a schema as a case."""
    return Case(file.name, "json_schema", json_format.dumps(file.schema), {"strict_mode": False})


def summarise(rows: Sequence[Row]) -> dict[str, Any]:
    """Sum up the schemas of one vocabulary."""
    good = [row for row in rows if not row.refusal]
    return {
        "spreads": {"time, CPU": Spread.of(row.cpu_seconds for row in good)},
        "counts": {"classes": Spread.of(row.classes or 0 for row in good)},
        "schemas": len(rows),
        "refused": [row.name for row in rows if row.refusal],
    }


def command(
    vocabulary: options.VocabulariesOption,
    json: options.RecordOption,
    grammars: options.GrammarsOption = None,
    schemas: options.OptionalSchemasOption = None,
    limit: options.LimitOption = None,
    displacement: Annotated[bool, typer.Option(help="The finer relation as well.")] = False,
    walks: options.WalksOption = 2,
    walk_steps: options.WalkStepsOption = 25,
    repeats: Annotated[int, typer.Option(min=1, help="Computations that a median is taken of.")] = 5,
    memory: Annotated[bool, typer.Option(help="Measure memory of the grammars.")] = True,
    with_scaling: Annotated[bool, typer.Option("--scaling", help="Growth with the sizes.")] = False,
    peer: Annotated[Literal["cfgzip"] | None, typer.Option(help="Run the peer on the grammars.")] = None,
    peer_seconds: Annotated[float, typer.Option(help="Bound of one run of the peer.")] = 120.0,
    growth_vocabulary: Annotated[
        list[str] | None,
        typer.Option(help="One more vocabulary for --scaling; the largest one is cut; repeatable."),
    ] = None,
    seed: options.SeedOption = 0,
) -> None:
    """Measure token classes alone: number, time, memory, growth; compared with CFGzip's."""
    arguments = dict(locals())
    console = report.make_console()
    with workloads.usage_errors():
        cases = [Case(BUILTIN_JSON, "builtin_json", ""), *(load_grammars(grammars) if grammars else ())]
        files = workloads.load_schema_files(schemas, limit, seed) if schemas else []
        if peer is not None:
            cfgzip.find()
        settings = (displacement, repeats, walks, walk_steps, seed)
        benches = [
            ClassBench(spec, workloads.load_vocabulary(spec).prepare(), *settings) for spec in vocabulary
        ]
        grown = {bench.name: bench.vocabulary for bench in benches}
        for spec in growth_vocabulary or ():
            grown[workloads.short_name(spec)] = workloads.load_vocabulary(spec).prepare()
    rows: list[Row] = []
    of_schemas: dict[str, list[Row]] = {}
    checked = {round(number * len(files) / CHECKED) for number in range(CHECKED)}
    for bench in benches:
        made = cfgzip.Peer(bench.vocabulary, peer_seconds, PEER_BYTES) if peer else nullcontext()
        with made as running:
            for case in track(cases, f"{bench.name}: grammars", console=console, transient=True):
                rows.append(bench.measure(case, memory=memory, check=True, peer=running))
        work = track(files, f"{bench.name}: schemas", console=console, transient=True) if files else ()
        of_schemas[bench.name] = [
            bench.measure(schema_case(file), memory=False, check=number in checked)
            for number, file in enumerate(work)
        ]
    record: dict[str, Any] = {"grammars": rows}
    for name, measured in of_schemas.items():
        if measured:
            summary = {"summary": summarise(measured), "rows": measured}
            record.setdefault("schemas", {})[name] = summary
    if with_scaling:
        grammars_by_name = {one.name: one.parse() for one in cases}
        record["scaling"] = scaling.measure_growth(grown, grammars_by_name, benches[0].try_classes)
    every = rows + [row for measured in of_schemas.values() for row in measured]
    wrong = [row for row in every if row.errors]
    report.say(
        console,
        f"{sum(row.masks for row in every):,} masks of walks compared with plain XGrammar "
        f"({sum(row.contradictions for row in every):,} contradictions of XGrammar); "
        f"{len(wrong)} grammars with differences",
    )
    for row in every:
        if row.refusal:
            report.say(console, f"refused, {row.vocabulary}, {row.name}: {row.refusal}")
    for row in wrong:
        report.say(console, f"DIFFERENCE {row.vocabulary}, {row.name}: {row.errors[0]}")
    publish(console, json, "classes", arguments, record, not wrong)
