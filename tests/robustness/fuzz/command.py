"""Random grammars of every kind against plain XGrammar and Lark, on every strategy.

What: draws cases (`inputs`), walks through them (`run`), makes small what is wrong
(`minimise`), and prints counts: masks, wrong bits, contradictions of XGrammar, refusals by name,
slow peers, crashes and hangs. Ends with status 1 where our side is wrong anywhere.
When: ``python -m tests.robustness.fuzz --minutes N --seed S``; with ``--cases N`` a fixed number of cases,
with ``--only SEED`` one case again.
Limits: random walks visit few states of each grammar. Cases run in child processes: one that takes too long
is run again with the peer alone, and is a hang of ours unless the peer is slow, too.

A *wrong bit* is one where our mask is not what `accept_token` of plain XGrammar (or Lark) says; on strategy
"engine", where masks are plain XGrammar's own, such a bit is a *contradiction of XGrammar*, unless it is not
plain's, either. Everything else that is not alike is an *other error*: answers of `accept_token`,
`is_terminated`, forced text, captures, exceptions.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench import options, report, workloads
from tests.robustness.fuzz.inputs import KINDS, Case, draw_case
from tests.robustness.fuzz.minimise import snippet
from tests.robustness.fuzz.walks import Finding, Outcome
from tests.robustness.fuzz.workers import Crashed, Hung, Worker

MINIMISED = 3
"""Findings made small for each kind of grammar, strategy, and what is wrong; of others the seed is listed."""

PEER_SHARE = 8
"""Ours walks on four strategies, three of them with XGrammar inside: a peer that alone takes an eighth of the
time bound is what the time went to."""


COUNTED = ("cases", "masks", "wrong bits", "other errors", "contradictions")
"""Counts of each vocabulary, kind and strategy; besides there is one of each refusal and of each choice."""


@dataclass
class Found:
    """Something wrong, for the record: the case's seed, and a program that shows it."""

    seed: str
    kind: str
    vocabulary: str
    strategy: str
    what: str
    text: str


class Totals:
    """All that a run has found so far; `counts` are by vocabulary, kind, strategy and what is counted."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str, str, str]] = Counter()
        self.found: list[Found] = []
        self.cases = self.ended_early = 0
        self.slow_peers: list[str] = []
        self.peer_crashes: list[str] = []

    def add(self, outcome: Outcome) -> None:
        """Count a case."""
        self.cases += 1
        self.ended_early += outcome.ended_early
        refused = {(strategy, f"refused {name}"): 1 for strategy, name, _ in outcome.refusals}
        chosen = {(strategy, f"chose {name}"): 1 for strategy, name in outcome.chosen.items()}
        each = (outcome.masks, outcome.wrong, outcome.other, outcome.contradictions)
        counted = {
            (strategy, name): n
            for name, of in zip(COUNTED[1:], each, strict=True)
            for strategy, n in of.items()
        }
        walked = {(strategy, "cases"): 1 for strategy in outcome.masks}
        for (strategy, name), number in (refused | chosen | counted | walked).items():
            self.counts[outcome.vocabulary, outcome.kind, strategy, name] += number

    def sum(self, name: str, kind: str = "", strategy: str = "") -> int:
        """Over all vocabularies, and over what is not given; "plain" is left out unless it is asked for."""
        return sum(
            number
            for (_, of_kind, of_strategy, counted), number in self.counts.items()
            if counted == name
            and kind in ("", of_kind)
            and (of_strategy == strategy if strategy else of_strategy != "plain")
        )

    def refusals(self, kind: str = "", strategy: str = "") -> dict[str, int]:
        """How often each error refused a grammar."""
        found: Counter[str] = Counter()
        for (_, of_kind, of_strategy, counted), number in self.counts.items():
            if counted.startswith("refused ") and kind in ("", of_kind) and strategy in ("", of_strategy):
                found[counted.removeprefix("refused ")] += number
        return dict(found.most_common())

    @property
    def failed(self) -> bool:
        return bool(self.found or self.sum("wrong bits") or self.sum("other errors"))

    def record(self) -> dict[str, Any]:
        """For the file."""
        rows: dict[tuple[str, ...], dict[str, Any]] = {}
        for (*where, counted), number in self.counts.items():
            row = dict(zip(("vocabulary", "kind", "strategy"), where, strict=True))
            rows.setdefault(tuple(where), row)[counted] = number
        return {
            "cases": self.cases,
            "masks": self.sum("masks"),
            "wrong_bits": self.sum("wrong bits"),
            "other_errors": self.sum("other errors"),
            "contradictions": self.sum("contradictions", strategy="plain"),
            "plain_masks": self.sum("masks", strategy="plain"),
            "refusals": self.refusals(),
            "crashes": sum(found.what == "crash" for found in self.found),
            "hangs": sum(found.what == "hang" for found in self.found),
            "slow_peers": self.slow_peers,
            "peer_crashes": self.peer_crashes,
            "ended_early": self.ended_early,
            "found": self.found,
            "rows": list(rows.values()),
        }


class Fuzzer:
    """Runs cases, and keeps count.

    Args:
        specs: real vocabularies.
        seconds: bound of one case.
        say: told what is wrong, as soon as it is known.
    """

    def __init__(self, specs: tuple[str, ...], seconds: float, say: Any = lambda text: None) -> None:
        self.specs, self.seconds, self.say = specs, seconds, say
        self.totals = Totals()
        self._met: Counter[tuple[str, str, str]] = Counter()
        self._lock = Lock()

    def run(self, worker: Worker, case: Case) -> None:
        """One case: run, attributed where it hangs or crashes, made small where it is wrong."""
        try:
            outcome = worker.ask("run", case, None, self.seconds / 2, seconds=self.seconds)
        except (Hung, Crashed) as error:
            self._attribute(worker, case, error)
            return
        except RuntimeError as error:  # not the case's: of the harness itself
            self._note(case, Finding("", "error", (), note=str(error)), str(error))
            return
        with self._lock:
            self.totals.add(outcome)
        first = {(finding.strategy, finding.what): finding for finding in reversed(outcome.findings)}
        for finding in reversed(first.values()):
            self._make_small(worker, case, finding)

    def _attribute(self, worker: Worker, case: Case, error: Hung | Crashed) -> None:
        """Whose a hang or crash is: the peer alone is asked the same."""
        hung = isinstance(error, Hung)
        enough = self.seconds / PEER_SHARE
        try:
            outcome = worker.ask("run", case, (), enough, seconds=2 * enough)
            peers = hung and outcome.seconds > enough
        except (Hung, Crashed, RuntimeError) as again:
            peers = isinstance(again, Crashed) or hung
        with self._lock:
            self.totals.cases += 1
            if peers:
                (self.totals.slow_peers if hung else self.totals.peer_crashes).append(case.seed)
        if not peers:
            strategy, error = self._narrowed(worker, case, error)
            finding = Finding(strategy, "hang" if hung else "crash", ())
            self._note(case, finding, f"{error}\n{snippet(case, finding)}")

    def _narrowed(self, worker: Worker, case: Case, error: Hung | Crashed) -> tuple[str, Hung | Crashed]:
        """The strategy that hangs or crashes by itself, if one does, and its own error."""
        for strategy in case.strategies:
            try:
                worker.ask("run", case, (strategy,), self.seconds / 2, seconds=self.seconds)
            except (Hung, Crashed) as own:
                return strategy, own
            except RuntimeError:
                pass
        return "auto", error

    def _make_small(self, worker: Worker, case: Case, finding: Finding) -> None:
        key = (case.drawn.kind, finding.strategy, finding.what)
        with self._lock:
            self._met[key] += 1
            is_known = self._met[key] > MINIMISED
        if is_known:
            self._note(case, finding, "")
            return
        small = (case, finding)
        if finding.what != "compile":
            with suppress(Hung, Crashed, RuntimeError):  # it stays as it is
                small = worker.ask("minimise", case, finding, seconds=3 * self.seconds)
        self._note(case, finding, snippet(*small))

    def _note(self, case: Case, finding: Finding, text: str) -> None:
        found = Found(case.seed, case.drawn.kind, case.vocabulary, finding.strategy, finding.what, text)
        with self._lock:
            self.totals.found.append(found)
        where = finding.strategy or "any strategy"
        ran_on = f" (ran on {finding.ran_on})" if finding.ran_on not in ("", finding.strategy) else ""
        where += ran_on
        self.say(f"\n# {found.what} on {where}: case {found.seed}, {found.kind}\n{text}".rstrip())


def summary_table(totals: Totals) -> Table:
    """Kinds by strategies, vocabularies summed up."""
    title = "random grammars against plain XGrammar and Lark"
    table = report.make_table(title, ("kind", "strategy", "refused"), COUNTED)
    for kind, strategy in sorted({key[1:3] for key in totals.counts}):
        refusals = totals.refusals(kind, strategy)
        refused = ", ".join(f"{name} {number:,}" for name, number in refusals.items())
        table.add_row(kind, strategy, refused, *(f"{totals.sum(name, kind, strategy):,}" for name in COUNTED))
    return table


def run_cases(fuzzer: Fuzzer, cases: Iterator[Case], jobs: int, after: Any) -> None:
    """Run cases one after the other in each of some workers, until there are no more."""
    lock = Lock()

    def work() -> None:
        worker = Worker(fuzzer.specs)
        try:
            while True:
                with lock:
                    case = next(cases, None)
                if case is None:
                    return
                fuzzer.run(worker, case)
                after()
        finally:
            worker.close()

    with ThreadPoolExecutor(jobs) as pool:
        for future in [pool.submit(work) for _ in range(jobs)]:
            future.result()


def command(
    minutes: Annotated[float | None, typer.Option(min=0, help="Draw cases for so long.")] = None,
    cases: Annotated[int | None, typer.Option(min=1, help="End after so many cases.")] = None,
    only: Annotated[str | None, typer.Option(help="Run the one case of this seed.")] = None,
    seed: Annotated[int, typer.Option(help="Of all cases.")] = 0,
    vocabulary: options.VocabulariesOption = ["tekken"],  # noqa: B006 - typer copies it
    real_share: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the cases that are over a real vocabulary.")
    ] = 0.04,
    kind: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(KINDS)}; repeatable; all.")] = None,
    case_seconds: Annotated[float, typer.Option(min=1, help="Bound of one case.")] = 30.0,
    jobs: Annotated[int, typer.Option(min=1, help="Processes at a time.")] = 1,
    json: Annotated[Path | None, typer.Option("--json", help="Where the record is written.")] = None,
) -> None:
    """Random grammars of every kind against plain XGrammar and Lark, on every strategy."""
    arguments = dict(locals())
    console = report.make_console()
    kinds = tuple(kind or KINDS)
    with workloads.usage_errors():
        if minutes is None and cases is None and only is None:
            raise ValueError("nothing says when to end; give --minutes N, --cases N or --only SEED")
        unknown = [name for name in kinds if name not in KINDS]
        if unknown:
            raise ValueError(f"no kind is named {unknown[0]!r}; allowed are {', '.join(KINDS)}")
    specs = tuple(vocabulary) if real_share else ()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    began = monotonic()
    end = began + 60 * minutes if minutes is not None else float("inf")
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("starting", total=cases if minutes is None else 60 * minutes)

        def say(text: str) -> None:
            report.say(progress.console, text)
            progress.console.file.flush()

        fuzzer = Fuzzer(specs, case_seconds, say)
        totals = fuzzer.totals

        def after() -> None:
            done = totals.cases if minutes is None else monotonic() - began
            masks, wrong = totals.sum("masks"), totals.sum("wrong bits")
            text = f"{totals.cases:,} cases, {masks:,} masks, {wrong:,} wrong bits"
            progress.update(task, completed=done, description=text)

        seeds: Iterator[str] = (f"{seed}-{number}" for number in itertools.count())
        if only is not None:
            seeds = iter([only])
        seeds = itertools.takewhile(lambda _: monotonic() < end, itertools.islice(seeds, cases))
        drawn = (draw_case(one, specs, real_share, kinds) for one in seeds)
        run_cases(fuzzer, drawn, jobs, after)
    console.print(summary_table(totals))
    record = totals.record()
    report.say(console, _summary(record, monotonic() - began))
    if json is not None:
        report.write_json(json, {"bench": "fuzz", **report.environment(arguments), **record})
    raise typer.Exit(1 if totals.failed else 0)


def _summary(record: dict[str, Any], seconds: float) -> str:
    refusals = ", ".join(f"{count:,} {name}" for name, count in record["refusals"].items()) or "none"
    return (
        f"{record['cases']:,} cases in {seconds / 60:.1f} minutes, {record['masks']:,} masks: "
        f"{record['wrong_bits']:,} wrong bits, {record['other_errors']:,} other errors, "
        f"{record['crashes']:,} crashes, {record['hangs']:,} hangs; "
        f"plain XGrammar contradicts itself in {record['contradictions']:,} bits of "
        f"{record['plain_masks']:,} masks, is slow in {len(record['slow_peers']):,} cases and crashes in "
        f"{len(record['peer_crashes']):,}; {record['ended_early']:,} cases ended early; refusals: {refusals}"
    )
