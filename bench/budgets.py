"""Hostile schemas under budgets of seconds: what comes of each, and how much later than allowed.

What: compiles every large kind of `bench.adversarial`, and schemas of a folder where one is given, with each
budget on each strategy, and fills a first mask. Each is compiled in a forked process, which is ended after
``--hard-seconds``.
When: ``python -m bench budgets --vocabulary SPEC --json FILE``.
Limits: Unix. *Overrun* is wall time of the compile call beyond the budget, so it counts what else the machine
does; *busy* is the CPU time that this process spent beyond it. The first task of XGrammar's other process
waits for that process to start, within the budget, in each case anew. Memory is what this process grew by at
most, and on Linux only. Masks are not compared here (`bench.equality`, `tests/test_adversarial.py`).
"""

from __future__ import annotations

import resource
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
import xgrammar
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench import adversarial, options, report, workloads
from bench.forked import in_a_fork

ALLOWED = 0.05
"""Seconds that a compilation may exceed its budget by."""


@dataclass
class Row:
    """One compilation. ``outcome`` is "mask", an error's type, "crashed or hung", or an error that is none of
    ours, which begins with "unexpected"; the rest is None where there is nothing to tell.
    """

    name: str
    seconds: float
    strategy: str
    outcome: str
    message: str = ""
    took: float | None = None
    busy: float | None = None
    memory: int | None = None

    @property
    def overrun(self) -> float:
        return max((self.took or 0.0) - self.seconds, 0.0)

    @property
    def survived(self) -> bool:
        return self.outcome != "crashed or hung" and not self.outcome.startswith("unexpected")


def measure(vocabulary: Any, schema: Any, seconds: float, strategy: str, on_budget: str) -> dict[str, Any]:
    """Compile one schema here, in a process of its own."""
    from hybrid import Budget, GrammarCompiler, GrammarMatcher, HybridError

    compiler = GrammarCompiler(
        vocabulary, strategy=strategy, budget=Budget(seconds=seconds), on_budget=on_budget
    )
    bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    late: list[float] = []
    alarm = threading.Timer(seconds, lambda: late.append(time.process_time()))
    alarm.daemon = True
    compiled, message = None, ""
    alarm.start()
    began = time.monotonic()
    try:
        compiled = compiler.compile_json_schema(schema)
        outcome = "mask"
    except HybridError as error:
        outcome, message = type(error).__name__, str(error)
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        outcome, message = f"unexpected {type(error).__name__}", str(error)
    took, busy = time.monotonic() - began, time.process_time()
    alarm.cancel()
    if compiled is not None:
        GrammarMatcher(compiled).fill_next_token_bitmask(bitmask)
        outcome, message = f"mask ({compiled.strategy})", compiled.reason
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "outcome": outcome,
        "message": message[:200],
        "took": took,
        "busy": busy - late[0] if late else 0.0,
        "memory": 1024 * (after - before),
    }


def cases(schemas: Path | None, limit: int | None, seed: int) -> Iterator[tuple[str, Any]]:
    """All that is compiled, one at a time."""
    yield from adversarial.adversarial("large")
    if schemas is not None:
        for file in workloads.load_schema_files(schemas, limit, seed):
            yield file.name, file.schema


def run(
    vocabulary: Any,
    every: list[tuple[str, Any]],
    budgets: list[float],
    strategies: list[str],
    on_budget: str,
    hard_seconds: float,
    console: Console,
) -> list[Row]:
    """Every case under every budget on every strategy."""
    rows = []
    for name, schema in track(every, "schemas", console=console, transient=True):
        for seconds in budgets:
            for strategy in strategies:

                def work(schema: Any = schema, seconds: float = seconds, strategy: str = strategy) -> Any:
                    return measure(vocabulary, schema, seconds, strategy, on_budget)

                found = in_a_fork(work, seconds + hard_seconds) or {"outcome": "crashed or hung"}
                rows.append(Row(name, seconds, strategy, **found))
    return rows


def summarise(rows: list[Row]) -> dict[str, Any]:
    """For each budget and strategy: outcomes, overruns and memory."""
    found: dict[str, Any] = {}
    for seconds, strategy in sorted({(row.seconds, row.strategy) for row in rows}):
        some = [row for row in rows if (row.seconds, row.strategy) == (seconds, strategy)]
        over = sorted(row.overrun for row in some)
        found[f"{seconds:g} s, {strategy}"] = {
            "cases": len(some),
            "outcomes": dict(Counter(row.outcome for row in some)),
            "in_time": sum(one <= ALLOWED for one in over),
            "overrun": over[-1],
            "busy": max((row.busy or 0.0 for row in some), default=0.0),
            "memory": max((row.memory or 0 for row in some), default=0),
        }
    return found


def print_summary(console: Console, rows: list[Row], summary: dict[str, Any]) -> None:
    """A line for each budget and strategy, and the latest cases."""
    table = Table(title="hostile schemas under budgets", title_justify="left")
    for name in ("budget", "outcomes", f"within {1000 * ALLOWED:.0f} ms", "latest", "busy beyond", "memory"):
        table.add_column(name)
    for name, found in summary.items():
        outcomes = ", ".join(f"{count} {one}" for one, count in sorted(found["outcomes"].items()))
        table.add_row(
            name, outcomes, f"{found['in_time']} of {found['cases']}", report.readable(found["overrun"]),
            report.readable(found["busy"]), f"{found['memory'] / 2**20:.0f} MiB",
        )  # fmt: skip
    console.print(table)
    for row in sorted(rows, key=lambda row: -row.overrun)[:8]:
        if row.overrun > ALLOWED:
            report.say(
                console,
                f"{1000 * row.overrun:.0f} ms late ({1000 * (row.busy or 0):.0f} ms busy): {row.name}, "
                f"{row.seconds:g} s, {row.strategy}: {row.outcome}: {row.message[:100]}",
            )


def command(
    vocabulary: options.VocabularyOption,
    json: options.RecordOption,
    schemas: options.OptionalSchemasOption = None,
    limit: options.LimitOption = None,
    seed: options.SeedOption = 0,
    seconds: Annotated[list[float] | None, typer.Option(help="A budget; repeatable.")] = None,
    strategy: Annotated[list[str] | None, typer.Option(help="A strategy; repeatable.")] = None,
    on_budget: Annotated[str, typer.Option(help="engine or raise.")] = "engine",
    hard_seconds: Annotated[float, typer.Option(help="Beyond the budget, a case has hung.")] = 60.0,
) -> None:
    """Hostile schemas under budgets of seconds: a mask or a clear error, and how late."""
    arguments = dict(locals())
    console = report.make_console()
    with workloads.usage_errors():
        tokens = workloads.load_vocabulary(vocabulary)
        tokens.prepare()
        every = list(cases(schemas, limit, seed))
    # kernels are there before the processes are forked
    workloads.hybrid_compiler(tokens, "auto", 1).compile_json_schema(workloads.THROW_AWAY_SCHEMA)
    rows = run(
        tokens, every, seconds or [0.5, 2.0, 10.0], strategy or ["auto"], on_budget, hard_seconds, console
    )
    summary = summarise(rows)
    print_summary(console, rows, summary)
    record = {
        "benchmark": "budgets",
        **report.environment(arguments),
        "summary": report.flat(summary),
        "rows": [{**asdict(row), "overrun": row.overrun} for row in rows],
    }
    report.write_json(json, record)
    for row in rows:
        if not row.survived:
            report.say(console, f"{row.outcome.upper()}: {row.name}, {row.seconds:g} s, {row.strategy}")
    if not all(row.survived for row in rows):
        raise typer.Exit(1)
