"""Hostile schemas under budgets of seconds: each gives a mask or a clear error, and how late it comes.

What: compiles every large kind of `tests.robustness.hostile_schemas` with each budget on each strategy and
fills some masks, each in a forked process that is ended after `HARD_SECONDS`.
When: ``python -m tests.robustness.budgets --vocabulary SPEC``; `tests/robustness/test_soaks.py` runs a part
of it.
Limits: Unix. Wall time beyond the budget includes the load of other programs; *busy* is by how much the CPU
time exceeds the budget. The first task of XGrammar's separate process waits for that process to start, within
the budget. Other tests check that masks are right.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated, Any

import typer

from bench import options, workloads
from bench.forked import in_a_fork
from hybrid import Budget, CompiledGrammar, GrammarCompiler, GrammarMatcher, HybridError
from tests.matchers import mask_of
from tests.robustness import hostile_schemas

ALLOWED = 0.05
"""Seconds that a compilation may exceed its budget by without being listed."""

HARD_SECONDS = 60.0
"""Seconds beyond the budget after which a case has hung."""

CRASHED = "crashed or hung"


@dataclass
class Row:
    """One compilation. `outcome` is "mask (STRATEGY)", the name of an error, `CRASHED`, or begins with
    "unexpected" for an error that is not ours; `late` and `busy` are seconds beyond the budget."""

    name: str
    seconds: float
    strategy: str
    outcome: str
    message: str = ""
    late: float = 0.0
    busy: float = 0.0

    @property
    def survived(self) -> bool:
        return self.outcome != CRASHED and not self.outcome.startswith("unexpected")


def fill_masks(compiled: CompiledGrammar) -> int:
    """Fill the first mask, and some after texts; return how many tokens the first one allows."""
    matcher = GrammarMatcher(compiled)
    first = len(mask_of(matcher))
    for text in ("{", '"', "a", "x", "1"):
        if matcher.accept_string(text):
            mask_of(matcher)
    return first


def measure(vocabulary: Any, schema: Any, seconds: float, strategy: str) -> tuple[str, str, float, float]:
    """Compile one schema, in a process of its own; return what a `Row` has from its outcome on."""
    compiler = GrammarCompiler(vocabulary, strategy=strategy, budget=Budget(seconds=seconds))
    compiled, message = None, ""
    began = time.monotonic(), time.process_time()
    try:
        compiled = compiler.compile_json_schema(schema)
    except HybridError as error:
        outcome, message = type(error).__name__, str(error)
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        outcome, message = f"unexpected {type(error).__name__}", str(error)
    ended = time.monotonic(), time.process_time()
    late, busy = (max(end - begin - seconds, 0.0) for begin, end in zip(began, ended, strict=True))
    if compiled is not None:
        fill_masks(compiled)
        outcome, message = f"mask ({compiled.strategy})", compiled.reason
    return outcome, message[:200], late, busy


def run(
    vocabulary: Any,
    cases: Sequence[tuple[str, Any]],
    budgets: Sequence[float],
    strategies: Sequence[str] = ("auto",),
    hard_seconds: float = HARD_SECONDS,
) -> list[Row]:
    """Run every case under every budget on every strategy."""
    rows = []
    for (name, schema), seconds, strategy in product(cases, budgets, strategies):
        work = partial(measure, vocabulary, schema, seconds, strategy)
        found = in_a_fork(work, seconds + hard_seconds) or (CRASHED,)
        rows.append(Row(name, seconds, strategy, *found))
    return rows


def command(
    vocabulary: options.VocabularyOption,
    seconds: Annotated[list[float] | None, typer.Option(help="A budget; repeatable.")] = None,
    strategy: Annotated[list[str] | None, typer.Option(help="A strategy; repeatable.")] = None,
) -> None:
    """Hostile schemas under budgets of seconds: a mask or a clear error, and how late."""
    tokens = workloads.load_vocabulary(vocabulary)
    tokens.prepare()
    workloads.hybrid_compiler(tokens, "auto", 1).compile_json_schema(workloads.THROW_AWAY_SCHEMA)
    cases = list(hostile_schemas.adversarial("large"))
    rows = run(tokens, cases, seconds or [0.5, 2.0, 10.0], strategy or ["auto"])
    for budget, name in sorted({(row.seconds, row.strategy) for row in rows}):
        some = [row for row in rows if (row.seconds, row.strategy) == (budget, name)]
        outcomes = ", ".join(f"{n} {one}" for one, n in sorted(Counter(row.outcome for row in some).items()))
        in_time = sum(row.late <= ALLOWED for row in some)
        print(
            f"{budget:g} s, {name}: {outcomes}; {in_time} of {len(some)} within {ALLOWED * 1000:.0f} ms, "
            f"latest {max(row.late for row in some):.3f} s, busy {max(row.busy for row in some):.3f} s"
        )
    for row in rows:
        if row.late > ALLOWED or not row.survived:
            print("LATE" if row.survived else "FAILED", row)
    if not all(row.survived for row in rows):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(command)
