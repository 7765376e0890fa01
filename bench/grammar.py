"""One grammar that is used often: compile time, classes, and the cost of each mask along real texts.

What: compiles an EBNF (GBNF) grammar with plain XGrammar and with ours, compares every mask along the
samples and along random walks, and reports the times of both sides.
When: ``python -m bench grammar --grammar FILE --sample FILE --vocabulary SPEC --json FILE``.
Limits: as in `bench.schemas`: one process, no caches, mask times are those of the first visit. A sample
that the grammar does not accept is compared up to the first token that both sides refuse.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
import xgrammar
from rich.console import Console
from rich.progress import track

from bench import options, report, workloads
from bench.report import Spread
from hybrid.comparison import Comparison, Times

BUILTIN_JSON = "builtin:json"


@dataclass
class SampleRow:
    """One sample in one way to cut it into tokens."""

    name: str
    tokens: int
    comparison: Comparison
    repeated: list[float] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        times = self.comparison.times
        return {
            "name": self.name,
            "tokens": self.tokens,
            "accepted": self.comparison.accepted,
            "complete": self.comparison.complete,
            "masks": self.comparison.masks,
            "equal": self.comparison.equal,
            "contradictions": self.comparison.contradiction_count,
            "differences": [str(item) for item in self.comparison.differences],
            "mask": report.summed(Spread.of(times.fill)),
            "plain_mask": report.summed(Spread.of(times.plain_fill)),
            "repeated_mask": report.summed(Spread.of(self.repeated)),
            "accept": report.summed(Spread.of(times.accept)),
            "plain_accept": report.summed(Spread.of(times.plain_accept)),
        }


def start_both(
    ours: Any, plain: Any, text: str | None, root: str, bitmask: Any
) -> tuple[workloads.Start, workloads.Start]:
    """Compiles on both sides; a text of None stands for XGrammar's built-in JSON grammar."""
    if text is None:
        return (
            workloads.hybrid_start(ours.compile_builtin_json_grammar, bitmask),
            workloads.plain_start(plain.compile_builtin_json_grammar, bitmask),
        )
    return (
        workloads.hybrid_start(lambda: ours.compile_grammar(text, root_rule_name=root), bitmask),
        workloads.plain_start(lambda: plain.compile_grammar(text, root_rule_name=root), bitmask),
    )


def compare_samples(
    console: Console,
    ours: Any,
    plain: Any,
    tokens: Any,
    samples: list[tuple[str, bytes]],
    seed: int,
    max_tokens: int,
) -> list[SampleRow]:
    """Compares along every sample, cut by longest match and at random, with a progress bar."""
    from hybrid.verify import compare_along

    bitmask = xgrammar.allocate_token_bitmask(1, tokens.size)
    work = []
    for name, data in samples:
        greedy, scattered = workloads.token_sequences(tokens, data, f"{seed} {name}")
        work += [(f"{name}, longest match", greedy), (f"{name}, random cuts", scattered)]
    rows = []
    for name, ids in track(work, "samples", console=console, transient=True):
        ids = ids[:max_tokens]
        found = compare_along(ours, plain, ids)
        row = SampleRow(name, len(ids), found)
        if found.exact:
            row.repeated = workloads.run_along(ours, ids[: found.accepted], bitmask)
        rows.append(row)
    return rows


def compare_walks(console: Console, ours: Any, plain: Any, seed: int, walks: int, steps: int) -> Comparison:
    """Compares along random walks; their times are left out."""
    from hybrid.verify import compare_walk

    total = Comparison()
    for walk in track(range(walks), "walks", console=console, transient=True):
        total.add(compare_walk(ours, plain, seed * 1000 + walk, steps))
    total.times = Times()
    return total


def command(
    grammar: Annotated[str, typer.Option(help=f"EBNF file, or {BUILTIN_JSON}.")],
    vocabulary: options.VocabularyOption,
    json: options.RecordOption,
    sample: options.SamplesOption = None,
    root: options.RootOption = "root",
    walks: options.WalksOption = 0,
    walk_steps: options.WalkStepsOption = 500,
    seed: options.SeedOption = 0,
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens of each sample.")] = 2000,
    threads: options.ThreadsOption = 0,
    strategy: options.StrategyOption = "auto",
    warm: options.WarmOption = True,
) -> None:
    """One grammar used often: compile time, classes, masks; ours next to plain XGrammar."""
    arguments = dict(locals())
    console = report.make_console()
    threads = threads or report.usable_cores()
    samples = [(path.name, path.read_bytes()) for path in sample or []]
    setup = workloads.Setup()
    with workloads.usage_errors():
        text = None if grammar == BUILTIN_JSON else workloads.read_text(Path(grammar))
        with setup.timed("vocabulary"):
            tokens = workloads.load_vocabulary(vocabulary)
    with setup.timed("compilers"):
        ours_compiler = workloads.hybrid_compiler(tokens, strategy, threads)
        plain_compiler = workloads.plain_compiler(tokens, threads)
    bitmask = xgrammar.allocate_token_bitmask(1, tokens.size)
    if warm:
        setup.warm(ours_compiler, plain_compiler, tokens, bitmask)
    ours, plain = start_both(ours_compiler, plain_compiler, text, root, bitmask)
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
    rows = compare_samples(console, ours.compiled, plain.compiled, tokens, samples, seed, max_tokens)
    walked = compare_walks(console, ours.compiled, plain.compiled, seed, walks, walk_steps)
    total = Comparison()
    for row in rows:
        total.add(row.comparison)
    repeated = [value for row in rows for value in row.repeated]
    spreads = {
        "mask, ours": Spread.of(total.times.fill),
        "mask, ours repeated": Spread.of(repeated),
        "mask, XGrammar": Spread.of(total.times.plain_fill),
        "accept, ours": Spread.of(total.times.accept),
        "accept, XGrammar": Spread.of(total.times.plain_accept),
    }
    total.add(walked)
    summary = {
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
        "spreads": spreads if total.exact else {},
        "masks": total.masks,
        "equal": total.equal,
        "contradictions": total.contradiction_count,
        "differences": total.difference_count,
    }
    _print_summary(console, summary, rows, total)
    listed = [str(item) for item in total.contradictions[:100]]
    record |= {
        "peak_memory_bytes": report.peak_memory_bytes(),
        "summary": report.flat(summary),
        "contradictions": listed,
        "differences": [str(item) for item in total.differences],
        "rows": [row.record() for row in rows],
    }
    report.write_json(json, record)
    if not total.exact:
        raise typer.Exit(1)


def _print_summary(
    console: Console, summary: dict[str, Any], rows: list[SampleRow], total: Comparison
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
    console.print(report.spread_table("seconds", [(n, "s", s) for n, s in summary["spreads"].items()]))
    for row in rows:
        reached = "to the end" if row.comparison.complete else f"up to {row.comparison.accepted:,}"
        report.say(console, f"{row.name}: {row.tokens:,} tokens, accepted {reached}")
    report.say(console, str(total))
    for item in total.differences[:20]:
        report.say(console, f"DIFFERENCE {item}")
