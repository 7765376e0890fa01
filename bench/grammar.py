"""One grammar that is used often: equality, masks and tokens in a server, building, memory.

What: compiles an EBNF (GBNF) grammar with plain XGrammar and with ours, compares masks along documents and
random walks, and reports times: for repeated, new and first documents, for batches, and for building.
When: ``python -m bench grammar --grammar FILE --sample FILE_OR_FOLDER --vocabulary SPEC --json FILE``.
Limits: one process and one thread, no caches. Plain XGrammar computes ``--plain-masks`` masks; in every step,
our own ways to run the grammar (ahead of time, on demand, representatives) are compared with one another. A
sample that the grammar does not accept is compared up to the first refused token, and not timed.
`bench.server_times` explains the times. Nothing is timed if a mask differs.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer
import xgrammar
from rich.console import Console
from rich.progress import track

from bench import build_cost, options, report, server_times, workloads
from bench.cases import BUILTIN_JSON
from bench.documents import CUTS, Sample, cut_samples, read_documents
from bench.report import Spread
from bench.reporting.answers import publish
from bench.request import hybrid_start, plain_start
from hybrid.testing.comparison import Comparison


def compare_samples(
    console: Console, ours: Any, plain: Any, samples: Sequence[Sample], seed: int, most: int | None
) -> Comparison:
    """Compare with plain XGrammar along samples in random order, until this many masks were compared.

    For each text, both cuts (by longest match, at random) follow each other, so that a bound leaves out
    texts, not cuts.
    """
    from hybrid.testing.mask_comparison import compare_along

    texts = len(samples) // len(CUTS)
    order = random.Random(seed).sample(range(texts), texts)
    total = Comparison()
    work = list(product(order, range(len(CUTS))))
    for place, cut in track(work, "samples", console=console, transient=True):
        if most is not None and total.masks >= most:
            break
        sample = samples[len(CUTS) * place + cut]
        sample.comparison = compare_along(ours, plain, sample.ids)
        total.add(sample.comparison)
    return total


def sample_record(sample: Sample, found: Comparison) -> dict[str, Any]:
    """Return a sample that was compared, for the record."""
    counts = {"tokens": len(sample.ids), "accepted": found.accepted, "complete": found.complete}
    return {"name": sample.name, **counts, **report.compared(found)}


def agree(
    console: Console, sides: dict[str, Any], sequences: Any, seed: int, walks: int, steps: int
) -> Comparison:
    """Compare our ways to run the grammar with the first of them, along all samples and along random walks.

    Plain XGrammar is too slow to be asked in every step. The way that is compared with it is compared here
    with all others. A bit in which one of ours contradicts its own ``accept_token`` is an error here, too.
    """
    from hybrid.testing.mask_comparison import compare_along

    first, *others = sides.values()
    total = Comparison()
    work = list(product(sequences, others))
    for ids, other in track(work, "ours, samples", console=console, transient=True):
        total.add(compare_along(other, first, ids))
    for other in track(others, "ours, walks", console=console, transient=True):
        total.add(workloads.compare_walks(other, first, seed * 1000 + 500, walks, steps))
    total.difference_count += total.contradiction_count
    total.differences += total.contradictions
    return total


def command(
    grammar: Annotated[str, typer.Option(help=f"EBNF file, or {BUILTIN_JSON}.")],
    vocabulary: options.VocabularyOption,
    json: options.RecordOption,
    sample: options.SamplesOption = None,
    walks: options.WalksOption = 0,
    walk_steps: options.WalkStepsOption = 500,
    seed: options.SeedOption = 0,
    documents: Annotated[int | None, typer.Option(min=1, help="A random sample of so many.")] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens of each sample.")] = 2000,
    plain_masks: Annotated[
        int | None, typer.Option(min=0, help="Masks of samples to compare with plain XGrammar; default all.")
    ] = None,
    rounds: options.RoundsOption = 6,
    batch: options.BatchOption = 64,
    builds: options.BuildsOption = 5,
    strategy: options.StrategyOption = "classifier",
    warm: options.WarmOption = True,
) -> None:
    """Measure one grammar that is used often: masks, tokens, batches, building, memory; compared with plain
    XGrammar."""
    arguments = dict(locals())
    console = report.make_console()
    with workloads.usage_errors():
        texts = read_documents(sample or [], documents, seed)
        text = None if grammar == BUILTIN_JSON else workloads.read_text(Path(grammar))
        tokens = workloads.load_vocabulary(vocabulary)
    ours_compiler = workloads.hybrid_compiler(tokens, strategy, 1)
    plain_compiler = workloads.plain_compiler(tokens, 1)
    bitmask = xgrammar.allocate_token_bitmask(1, tokens.size)
    if warm:
        workloads.warm(ours_compiler, plain_compiler, tokens, bitmask)
    compile_with = partial(build_cost.ebnf, text)
    ours = hybrid_start(partial(compile_with, ours_compiler), bitmask)
    plain = plain_start(partial(compile_with, plain_compiler), bitmask)
    record: dict[str, Any] = {"refusals": [start.error for start in (ours, plain) if start.error]}
    if record["refusals"]:
        publish(console, json, "grammar", arguments, record, exact=False)

    samples = cut_samples(ours.compiled, tokens, texts, max_tokens, seed)
    ids = [one.ids for one in samples[:: len(CUTS)] if one.accepted]
    total = compare_samples(console, ours.compiled, plain.compiled, samples, seed, plain_masks)
    spreads = {
        "mask, XGrammar": Spread.of(total.times.plain_fill),
        "token, XGrammar": Spread.of(total.times.plain_accept),
    }
    total.add(workloads.compare_walks(ours.compiled, plain.compiled, 1000 * seed, walks, walk_steps))
    compilers = {strategy: ours_compiler}
    if ours.compiled.strategy == "classifier":
        compilers["on demand"] = workloads.hybrid_compiler(tokens, "classifier", 1, on_demand=True)
    sides = {name: compile_with(compiler) for name, compiler in compilers.items()}
    if strategy != "representatives":
        other = workloads.hybrid_compiler(tokens, "representatives", 1)
        sides["representatives"] = compile_with(other)
    agreed = agree(console, sides, [one.ids for one in samples], seed, walks, walk_steps)
    exact = total.exact and not agreed.difference_count
    summary: dict[str, Any] = {
        "strategy": ours.compiled.strategy,
        "reason": ours.compiled.reason,
        "classes": workloads.class_count(ours.compiled),
        "compile": ours.compile_seconds,
        "plain_compile": plain.compile_seconds,
        "first_mask": ours.seconds,
        "plain_first_mask": plain.seconds,
        "spreads": spreads if exact else {},
        "documents": len(ids),
        "document_tokens": sum(map(len, ids)),
        "masks": total.masks,
        "equal": total.equal,
        "contradictions": total.contradiction_count,
        "differences": total.difference_count,
        "our_masks": agreed.masks,
        "our_differences": agreed.difference_count,
        "compared_sides": list(sides),
    }
    rows = [sample_record(one, one.comparison) for one in samples if one.comparison is not None]
    for row in rows:
        if not row["complete"]:
            told = f"{row['name']}: accepted up to token {row['accepted']:,} of {row['tokens']:,}"
            report.say(console, told)
    report.say(console, f"against plain XGrammar: {total}")
    report.say(console, f"{', '.join(sides)}: {agreed}")
    for item in (*total.differences[:20], *agreed.differences[:20]):
        report.say(console, f"DIFFERENCE {item}")
    if exact and rounds and ids:
        ways = {
            "" if name == strategy else name: partial(compile_with, one) for name, one in compilers.items()
        }
        summary["measured"] = server_times.measure_calls(console, ways, ids, rounds, batch, seed)
    if exact and builds:
        found = {"ahead": False} | ({"on demand": True} if ours.compiled.strategy == "classifier" else {})
        summary["building"] = {
            name: build_cost.measure_building(vocabulary, compile_with, builds, strategy, way)
            for name, way in found.items()
        }
    record |= {
        "summary": summary,
        "contradictions": [str(item) for item in total.contradictions[:100]],
        "differences": [str(item) for item in total.differences + agreed.differences],
        "rows": rows,
    }
    publish(console, json, "grammar", arguments, record, exact)
