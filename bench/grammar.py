"""One grammar that is used often: equality, masks and tokens as a server meets them, memory.

What: compiles an EBNF (GBNF) grammar with plain XGrammar and with ours, compares masks along documents and
random walks, and reports times: of repeated texts, of new requests, of the first document; of batches, of
decisions alone, of building; and what a long run holds.
When: ``python -m bench grammar --grammar FILE --sample FILE_OR_FOLDER --vocabulary SPEC --json FILE``.
Limits: one process and one thread, no caches. Plain XGrammar is asked at ``--plain-masks`` masks; at every
step our own ways to run the grammar (ahead of time, on demand, representatives) are compared with one
another. A sample that the grammar does not accept is compared up to the first token that is refused, and
not timed.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
import xgrammar
from rich.console import Console

from bench import compared, options, report, workloads
from bench.documents import Documents, read_documents
from bench.grammar_times import Case, measure
from bench.report import Spread
from hybrid.compile.compilation import without_classifier
from hybrid.compile.strategy import Budget
from hybrid.testing.comparison import Comparison

BUILTIN_JSON = "builtin:json"


def compile_text(compiler: Any, text: str | None, root: str) -> Any:
    """Compiles on either side; a text of None stands for XGrammar's built-in JSON grammar."""
    if text is None:
        return compiler.compile_builtin_json_grammar()
    return compiler.compile_grammar(text, root_rule_name=root)


def command(
    grammar: Annotated[str, typer.Option(help=f"EBNF file, or {BUILTIN_JSON}.")],
    vocabulary: options.VocabularyOption,
    json: options.RecordOption,
    sample: options.SamplesOption = None,
    root: options.RootOption = "root",
    walks: options.WalksOption = 0,
    walk_steps: options.WalkStepsOption = 500,
    our_walks: Annotated[int, typer.Option(min=0, help="Walks that only our own ways run.")] = 0,
    seed: options.SeedOption = 0,
    documents: Annotated[int | None, typer.Option(min=1, help="A random sample of so many.")] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens of each sample.")] = 2000,
    plain_masks: Annotated[
        int | None, typer.Option(min=0, help="Masks of samples to compare with plain XGrammar; default all.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=0, help="Of each measurement; 0 leaves times out.")] = 6,
    batch: Annotated[int, typer.Option(min=0, help="Sequences of a batch; 0 leaves batches out.")] = 64,
    builds: Annotated[int, typer.Option(min=0, help="Compilations in a process of their own.")] = 5,
    soak_tokens: Annotated[int, typer.Option(min=0, help="Tokens of the long run.")] = 0,
    other_vocabulary: Annotated[
        str | None, typer.Option(help="Where decisions are timed too, at the same configurations.")
    ] = None,
    threads: options.ThreadsOption = 0,
    strategy: options.StrategyOption = "classifier",
    warm: options.WarmOption = True,
) -> None:
    """One grammar used often: masks, tokens, batches, building, memory; ours next to plain XGrammar."""
    arguments = dict(locals())
    console = report.make_console()
    threads = threads or report.usable_cores()
    setup = workloads.Setup()
    with workloads.usage_errors():
        samples = read_documents(sample or [], documents, seed)
        text = None if grammar == BUILTIN_JSON else workloads.read_text(Path(grammar))
        with setup.timed("vocabulary"):
            tokens = workloads.load_vocabulary(vocabulary)
    with setup.timed("compilers"):
        ours_compiler = workloads.hybrid_compiler(tokens, strategy, threads)
        plain_compiler = workloads.plain_compiler(tokens, threads)
    bitmask = xgrammar.allocate_token_bitmask(1, tokens.size)
    if warm:
        setup.warm(ours_compiler, plain_compiler, tokens, bitmask)
    ours = workloads.hybrid_start(partial(compile_text, ours_compiler, text, root), bitmask)
    plain = workloads.plain_start(partial(compile_text, plain_compiler, text, root), bitmask)
    setup.print(console)
    record: dict[str, Any] = {
        "benchmark": "grammar",
        **report.environment({**arguments, "threads": threads}),
        "setup_seconds": setup.seconds,
        "refusals": [start.error for start in (ours, plain) if start.error],
    }
    if ours.compiled is None or plain.compiled is None:
        for side, start in (("ours", ours), ("XGrammar", plain)):
            report.say(console, f"{side}: {start.error or 'takes the grammar'}")
        report.write_json(json, record)
        raise typer.Exit(1)

    accepted = Documents.of(ours.compiled, tokens, samples, max_tokens)
    whole = dict(zip(accepted.names, accepted.texts, strict=True))
    names = [name for name, _ in samples]
    cuts = compared.cut_samples(
        tokens, [(name, whole.get(name, data)) for name, data in samples], seed, max_tokens
    )
    rows, core_share = compared.compare_samples(
        console, ours.compiled, plain.compiled, names, cuts, seed, plain_masks
    )
    walked = compared.compare_walks(console, ours.compiled, plain.compiled, seed, walks, walk_steps)
    total = Comparison()
    for row in rows:
        total.add(row.comparison)
    first_visits = {
        "mask, XGrammar": Spread.of(total.times.plain_fill),
        "accept, XGrammar": Spread.of(total.times.plain_accept),
        "mask, ours, first visit": Spread.of(total.times.fill),
        "accept, ours, first visit": Spread.of(total.times.accept),
    }
    total.add(walked)
    sides = _our_sides(ours.compiled, tokens, text, root, threads)
    agreed = compared.agree_samples(console, sides, cuts)
    more = compared.agree_walks(console, sides, seed, our_walks, walk_steps)
    exact = total.exact and not agreed.difference_count and not more.difference_count
    summary: dict[str, Any] = {
        "strategy": ours.compiled.strategy,
        "reason": ours.compiled.reason,
        "classes": workloads.class_count(ours.compiled),
        "compile": ours.compile_seconds,
        "plain_compile": plain.compile_seconds,
        "first_mask": ours.seconds,
        "plain_first_mask": plain.seconds,
        "first_mask_cpu": ours.cpu_seconds,
        "plain_first_mask_cpu": plain.cpu_seconds,
        "phases": dict(ours.compiled.timings),
        "spreads": first_visits if exact else {},
        "core_share": core_share,
        "documents": len(accepted.names),
        "document_tokens": sum(map(len, accepted.ids)),
        "masks": total.masks,
        "equal": total.equal,
        "contradictions": total.contradiction_count,
        "differences": total.difference_count,
        "our_masks": agreed.masks + more.masks,
        "our_differences": agreed.difference_count + more.difference_count,
        "compared_sides": list(sides),
    }
    _print_equality(console, summary, rows, total, [*agreed.differences, *more.differences])
    if exact:
        case = Case(
            vocabulary, text, root, strategy, threads, tokens, accepted, rounds, batch, builds, soak_tokens,
            other_vocabulary, seed, {row.name: row.comparison for row in rows if row.cut == 0},
            core_share,
        )  # fmt: skip
        summary["measured"] = measure(console, case)
    record |= {
        "peak_memory_bytes": report.peak_memory_bytes(),
        "load_average_after": report.load_average(),
        "summary": report.flat(summary),
        "contradictions": [str(item) for item in total.contradictions[:100]],
        "differences": [str(item) for item in total.differences] + agreed.differences + more.differences,
        "rows": [row.record() for row in rows],
    }
    report.write_json(json, record)
    if not exact:
        raise typer.Exit(1)


def _our_sides(compiled: Any, tokens: Any, text: str | None, root: str, threads: int) -> dict[str, Any]:
    """The grammar in every way that we can run it, by name; the one that is measured first."""
    sides = {compiled.strategy: compiled}
    if compiled.strategy == "classifier":
        lazy = workloads.hybrid_compiler(tokens, "classifier", threads, on_demand=True)
        sides["on demand"] = compile_text(lazy, text, root)
    if "representatives" not in sides:
        other = without_classifier(compiled.grammar, tokens, Budget(), threads)
        sides.setdefault(other.strategy, other)
    return sides


def _print_equality(
    console: Console,
    summary: dict[str, Any],
    rows: list[compared.SampleRow],
    total: Comparison,
    our_differences: list[str],
) -> None:
    readable = report.readable
    first, plain_first = readable(summary["first_mask"]), readable(summary["plain_first_mask"])
    report.say(console, f"strategy {summary['strategy']}: {summary['reason']}")
    report.say(
        console,
        f"compile: ours {readable(summary['compile'])}, XGrammar {readable(summary['plain_compile'])}; "
        f"first mask: ours {first}, XGrammar {plain_first}; CPU until then: "
        f"ours {readable(summary['first_mask_cpu'])}, XGrammar {readable(summary['plain_first_mask_cpu'])}",
    )
    phases = ", ".join(f"{name} {readable(value)}" for name, value in summary["phases"].items())
    report.say(console, f"classes: {summary['classes']}; phases: {phases or 'none'}")
    console.print(
        report.spread_table("while comparing", [(n, "s", s) for n, s in summary["spreads"].items()])
    )
    for row in rows:
        if not row.comparison.complete:
            report.say(
                console,
                f"{row.name}, {compared.CUTS[row.cut]}: accepted up to token "
                f"{row.comparison.accepted:,} of {row.tokens:,}",
            )
    report.say(
        console,
        f"{summary['documents']:,} documents are accepted to the end, {summary['document_tokens']:,} tokens",
    )
    report.say(console, f"against plain XGrammar: {total}")
    report.say(
        console,
        f"{', '.join(summary['compared_sides'])}: {summary['our_masks']:,} masks compared, "
        f"{summary['our_differences']} differences",
    )
    for item in [*map(str, total.differences[:20]), *our_differences]:
        report.say(console, f"DIFFERENCE {item}")
