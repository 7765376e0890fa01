"""Random grammars of every kind against plain XGrammar and Lark, on every strategy.

What: draws cases (`inputs`), walks through them (`run`), prints a program for what is wrong, and counts:
masks, wrong bits, contradictions of XGrammar, refusals by name, slow peers, crashes and hangs. Ends with
status 1 if our side is wrong anywhere.
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

import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import takewhile
from textwrap import indent
from threading import Lock
from time import monotonic
from typing import Annotated, Any

import typer

from bench import options, report, workloads
from bench.reporting.answers import publish
from tests.robustness.fuzz.inputs import KINDS, Case, draw_case
from tests.robustness.fuzz.run import program
from tests.robustness.fuzz.walks import Finding, Outcome
from tests.robustness.fuzz.workers import Ended, Worker

SHOWN = 3
"""Findings shown with a program for each kind of grammar, strategy, and what is wrong."""

CASE_SECONDS = 30.0
"""Bound of one case."""

PLAIN_ALONE: tuple[str, ...] = ()
"""The strategies of ours with which the peer runs alone."""

PEER_SHARE = 8
"""Ours walks on four strategies, three of them with XGrammar inside: a peer that alone takes an eighth of the
time bound is what the time went to."""


class Fuzzer:
    """Runs cases, and keeps count.

    Args:
        seconds: bound of one case.
        say: told what is wrong, as soon as it is known.

    Attributes:
        rows: counts of each vocabulary, kind and strategy; "plain" is plain XGrammar or Lark.
        found: what is wrong, each with the case's seed, and a program that shows it.
    """

    def __init__(self, seconds: float, say: Callable[[str], None] = lambda text: None) -> None:
        self.seconds, self._say = seconds, say
        self.rows: defaultdict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
        self.refusals: Counter[str] = Counter()
        self.cases = self.ended_early = 0
        self.slow_peers: list[str] = []
        self.peer_crashes: list[str] = []
        self.found: list[dict[str, str]] = []
        self._met: Counter[tuple[str, str, str]] = Counter()
        self._lock = Lock()

    def run(self, worker: Worker, case: Case) -> None:
        """Run a case, and count; a finding of the same kind is shown with the fewest steps."""
        try:
            outcome = worker.run(case, None, self.seconds)
        except Ended as error:
            self._attribute(worker, case, error)
            return
        except Exception as error:  # noqa: BLE001 - of the fuzzer itself
            outcome = Outcome(case.drawn.kind, case.vocabulary)
            outcome.findings.append(Finding("", "error", (), note=repr(error)))
        with self._lock:
            self._add(outcome)
            longest_first = sorted(outcome.findings, key=lambda found: -len(found.steps))
            for finding in {(found.strategy, found.what): found for found in longest_first}.values():
                self._note(case, finding)

    def _add(self, outcome: Outcome) -> None:
        self.cases += 1
        self.ended_early += outcome.ended_early
        self.refusals.update(name for _, name in {(strategy, name) for strategy, name, _ in outcome.refusals})
        counted = {
            "cases": dict.fromkeys(outcome.masks, 1), "masks": outcome.masks, "wrong bits": outcome.wrong,
            "other errors": outcome.other, "contradictions": outcome.contradictions,
        }  # fmt: skip
        for name, numbers in counted.items():
            for strategy, number in numbers.items():
                self.rows[outcome.vocabulary, outcome.kind, strategy][name] += number

    def _attribute(self, worker: Worker, case: Case, error: Ended) -> None:
        """Whose a hang or crash is: the peer alone is asked the same."""
        hung, enough = error.what == "hang", self.seconds / PEER_SHARE
        try:
            alone = worker.run(case, PLAIN_ALONE, 2 * enough)
            is_peers = hung and alone.seconds > enough
        except Ended as again:
            is_peers = hung or again.what == "crash"
        with self._lock:
            self.cases += 1
            if is_peers:
                (self.slow_peers if hung else self.peer_crashes).append(case.seed)
            else:
                self._note(case, Finding("", error.what, (), note=str(error)))

    def _note(self, case: Case, finding: Finding) -> None:
        key = case.drawn.kind, finding.strategy, finding.what
        self._met[key] += 1
        answers = f"{finding.ours!r} of token {finding.token}, should be {finding.truth!r}; {finding.note}"
        text = "" if self._met[key] > SHOWN else f"{indent(answers, '# ')}\n{program(case, finding)}"
        where = dict(zip(("kind", "strategy", "what"), key, strict=True))
        self.found.append({"seed": case.seed, "vocabulary": case.vocabulary, **where, "text": text})
        ran_on = f" (ran on {finding.ran_on})" if finding.ran_on not in ("", finding.strategy) else ""
        on = finding.strategy or "any strategy"
        self._say(f"\n# {finding.what} on {on}{ran_on}: case {case.seed}, {case.drawn.kind}\n{text}".rstrip())

    def sum(self, name: str, of_plain: bool = False) -> int:
        """A count of all strategies of ours, or of plain XGrammar."""
        rows = list(self.rows.items())  # at once: other threads add to them
        return sum(row[name] for (*_, strategy), row in rows if (strategy == "plain") == of_plain)

    def record(self) -> dict[str, Any]:
        """For the file."""
        what = Counter(found["what"] for found in self.found)
        names = ("vocabulary", "kind", "strategy")
        return {
            "cases": self.cases,
            "masks": self.sum("masks"),
            "wrong_bits": self.sum("wrong bits"),
            "other_errors": self.sum("other errors"),
            "contradictions": self.sum("contradictions", of_plain=True),
            "plain_masks": self.sum("masks", of_plain=True),
            "refusals": dict(self.refusals.most_common()),
            "crashes": what["crash"],
            "hangs": what["hang"],
            "slow_peers": self.slow_peers,
            "peer_crashes": self.peer_crashes,
            "ended_early": self.ended_early,
            "found": self.found,
            "rows": [dict(zip(names, key, strict=True)) | row for key, row in self.rows.items()],
        }


app = typer.Typer(add_completion=False)


@app.command()
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
        if unknown := [name for name in kinds if name not in KINDS]:
            raise ValueError(f"no kind is named {unknown[0]!r}; allowed are {', '.join(KINDS)}")
    began = monotonic()
    end = began + 60 * minutes if minutes is not None else float("inf")
    with console.status("starting") as status:

        def say(text: str) -> None:
            report.say(console, text)
            console.file.flush()

        fuzzer = Fuzzer(CASE_SECONDS, say)

        def work(job: int) -> None:
            numbers = range(job, sys.maxsize if cases is None else cases, jobs)
            seeds = [only][job:] if only is not None else (f"{seed}-{number}" for number in numbers)
            with closing(Worker()) as worker:
                for one in takewhile(lambda _: monotonic() < end, seeds):
                    fuzzer.run(worker, draw_case(one, vocabulary, real_share, kinds))
                    masks, wrong = fuzzer.sum("masks"), fuzzer.sum("wrong bits")
                    status.update(f"{fuzzer.cases:,} cases, {masks:,} masks, {wrong:,} wrong bits")

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(work, range(jobs)))
    record = fuzzer.record()
    counts = {name: len(value) if isinstance(value, list) else value for name, value in record.items()}
    told = ", ".join(f"{name} {counts[name]}" for name in counts if name not in ("cases", "rows"))
    report.say(console, f"{fuzzer.cases:,} cases in {(monotonic() - began) / 60:.1f} minutes: {told}")
    publish(console, json, "fuzz", arguments, record, not fuzzer.found)


if __name__ == "__main__":
    app(prog_name="python -m tests.robustness.fuzz")
