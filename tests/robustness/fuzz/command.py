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
from contextlib import closing, suppress
from threading import Lock
from time import monotonic
from typing import Annotated, Any

import typer

from bench import options, report, workloads
from bench.reporting.answers import publish
from tests.robustness.fuzz.inputs import KINDS, Case, draw_case
from tests.robustness.fuzz.minimise import snippet
from tests.robustness.fuzz.walks import Finding, Outcome
from tests.robustness.fuzz.workers import Crashed, Hung, Worker

MINIMISED = 3
"""Findings made small for each kind of grammar, strategy, and what is wrong; of others the seed is listed."""

CASE_SECONDS = 30.0
"""Bound of one case."""

PEER_SHARE = 8
"""Ours walks on four strategies, three of them with XGrammar inside: a peer that alone takes an eighth of the
time bound is what the time went to."""

COUNTED = ("cases", "masks", "wrong bits", "other errors", "contradictions")
"""Counts of each vocabulary, kind and strategy; besides there is one of each refusal."""


class Totals:
    """All that a run has found so far; `counts` are by vocabulary, kind, strategy and what is counted."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str, str, str]] = Counter()
        self.found: list[dict[str, str]] = []  # each with the case's seed, and a program that shows it
        self.cases = self.ended_early = 0
        self.slow_peers: list[str] = []
        self.peer_crashes: list[str] = []

    def add(self, outcome: Outcome) -> None:
        """Count a case."""
        self.cases += 1
        self.ended_early += outcome.ended_early
        each = (dict.fromkeys(outcome.masks, 1), outcome.masks, outcome.wrong, outcome.other)
        counted = dict(zip(COUNTED, (*each, outcome.contradictions), strict=True))
        for strategy, name, _ in outcome.refusals:
            counted[f"refused {name}"] = counted.get(f"refused {name}", {}) | {strategy: 1}
        for name, of in counted.items():
            for strategy, number in of.items():
                self.counts[outcome.vocabulary, outcome.kind, strategy, name] += number

    def by_name(self, kind: str = "", strategy: str = "") -> Counter[str]:
        """All counts, over all vocabularies and over what is not given."""
        found: Counter[str] = Counter()
        for (_, of_kind, of_strategy, name), number in self.counts.items():
            if kind in ("", of_kind) and strategy in ("", of_strategy):
                found[name] += number
        return found

    def sum(self, name: str) -> int:
        """A count of all strategies of ours."""
        return self.by_name()[name] - self.by_name(strategy="plain")[name]

    def refusals(self, kind: str = "", strategy: str = "") -> dict[str, int]:
        """How often each error refused a grammar."""
        counts = self.by_name(kind, strategy).most_common()
        return {name.removeprefix("refused "): n for name, n in counts if name.startswith("refused ")}

    @property
    def failed(self) -> bool:
        return bool(self.found or self.sum("wrong bits") or self.sum("other errors"))

    def record(self) -> dict[str, Any]:
        """For the file."""
        plain, what = self.by_name(strategy="plain"), Counter(found["what"] for found in self.found)
        rows: dict[tuple[str, ...], dict[str, Any]] = {}
        for (*where, counted), number in self.counts.items():
            row = dict(zip(("vocabulary", "kind", "strategy"), where, strict=True))
            rows.setdefault(tuple(where), row)[counted] = number
        return {
            "cases": self.cases,
            "masks": self.sum("masks"),
            "wrong_bits": self.sum("wrong bits"),
            "other_errors": self.sum("other errors"),
            "contradictions": plain["contradictions"],
            "plain_masks": plain["masks"],
            "refusals": self.refusals(),
            "crashes": what["crash"],
            "hangs": what["hang"],
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
            key = (case.drawn.kind, finding.strategy, finding.what)
            with self._lock:
                self._met[key] += 1
                is_known = self._met[key] > MINIMISED
            small = (case, finding)
            if not is_known and finding.what != "compile":
                with suppress(Hung, Crashed, RuntimeError):  # it stays as it is
                    small = worker.ask("minimise", case, finding, seconds=3 * self.seconds)
            self._note(case, finding, "" if is_known else snippet(*small))

    def _attribute(self, worker: Worker, case: Case, error: Hung | Crashed) -> None:
        """Whose a hang or crash is: the peer alone is asked the same, then each strategy of ours."""
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
        if peers:
            return
        culprit = "auto"
        for strategy in case.strategies:
            try:
                worker.ask("run", case, (strategy,), self.seconds / 2, seconds=self.seconds)
            except (Hung, Crashed) as own:
                culprit, error = strategy, own
                break
            except RuntimeError:
                pass
        finding = Finding(culprit, "hang" if hung else "crash", ())
        self._note(case, finding, f"{error}\n{snippet(case, finding)}")

    def _note(self, case: Case, finding: Finding, text: str) -> None:
        found = {
            "seed": case.seed, "kind": case.drawn.kind, "vocabulary": case.vocabulary,
            "strategy": finding.strategy, "what": finding.what, "text": text,
        }  # fmt: skip
        with self._lock:
            self.totals.found.append(found)
        where = finding.strategy or "any strategy"
        if finding.ran_on not in ("", finding.strategy):
            where += f" (ran on {finding.ran_on})"
        self.say(f"\n# {finding.what} on {where}: case {case.seed}, {case.drawn.kind}\n{text}".rstrip())


def run_cases(fuzzer: Fuzzer, cases: Iterator[Case], jobs: int, after: Any) -> None:
    """Run cases one after the other in each of some workers, until there are no more."""
    lock = Lock()

    def work() -> None:
        with closing(Worker(fuzzer.specs)) as worker:
            while True:
                with lock:
                    case = next(cases, None)
                if case is None:
                    return
                fuzzer.run(worker, case)
                after()

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
    jobs: Annotated[int, typer.Option(min=1, help="Processes at a time.")] = 1,
    json: options.OptionalRecordOption = None,
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
    began = monotonic()
    end = began + 60 * minutes if minutes is not None else float("inf")
    with console.status("starting") as status:

        def say(text: str) -> None:
            report.say(console, text)
            console.file.flush()

        fuzzer = Fuzzer(specs, CASE_SECONDS, say)
        totals = fuzzer.totals

        def after() -> None:
            masks, wrong = totals.sum("masks"), totals.sum("wrong bits")
            status.update(f"{totals.cases:,} cases, {masks:,} masks, {wrong:,} wrong bits")

        drawn_seeds = (f"{seed}-{number}" for number in itertools.count())
        seeds = itertools.islice(drawn_seeds if only is None else [only], cases)
        seeds = itertools.takewhile(lambda _: monotonic() < end, seeds)
        drawn = (draw_case(one, specs, real_share, kinds) for one in seeds)
        run_cases(fuzzer, drawn, jobs, after)
    record = totals.record()
    counts = {name: len(value) if isinstance(value, list) else value for name, value in record.items()}
    told = ", ".join(f"{name} {counts[name]}" for name in counts if name not in ("cases", "rows"))
    report.say(console, f"{totals.cases:,} cases in {(monotonic() - began) / 60:.1f} minutes: {told}")
    publish(console, json, "fuzz", arguments, record, not totals.failed)
