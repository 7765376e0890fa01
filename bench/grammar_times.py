"""The measurements of ``python -m bench grammar``, one after the other, each with its lines on the screen.

What: `measure` takes what was compared and found equal, and returns what goes into the record.
When: in `bench.grammar`.
Limits: what each number means is said in `bench.serving`, `bench.decisions`, `bench.building` and
`bench.soak`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from statistics import median
from typing import Any

import xgrammar
from rich.console import Console
from rich.table import Table

from bench import building, report, serving, soak, workloads
from bench.decisions import SharedTokens, decide
from bench.documents import Documents
from bench.serving import Rounds
from hybrid.testing.comparison import Comparison


@dataclass(frozen=True)
class Case:
    """What is measured: the grammar, its documents, and how much of everything.

    `plain` holds what comparing documents with plain XGrammar gave, by names, and `core_share` the share of
    a core that the process had meanwhile.
    """

    spec: str
    text: str | None
    root: str
    strategy: str
    threads: int
    vocabulary: Any
    documents: Documents
    rounds: int
    batch: int
    builds: int
    soak_tokens: int
    other: str | None
    seed: int
    plain: Mapping[str, Comparison]
    core_share: float

    def compile(self, vocabulary: Any = None, *, on_demand: bool = False) -> Any:
        """The grammar, newly compiled."""
        compiler = workloads.hybrid_compiler(
            self.vocabulary if vocabulary is None else vocabulary, self.strategy, self.threads, on_demand
        )
        if self.text is None:
            return compiler.compile_builtin_json_grammar()
        return compiler.compile_grammar(self.text, root_rule_name=self.root)


def measure(console: Console, case: Case) -> dict[str, Any]:
    """All measurements that the case asks for."""
    found: dict[str, Any] = {}
    compiled = case.compile()
    if case.rounds and case.documents.ids:
        clock = serving.clock_cost()
        found["clock"] = clock
        found["calls"], found["against_plain"] = _serve(console, case, compiled, clock)
        if case.batch > 1:
            found["batches"] = _batches(console, case, clock)
        if compiled.classifier is not None:
            found["decisions"] = _decisions(console, case, clock)
    if case.builds:
        found["building"] = _building(console, case)
    if case.documents.ids:
        found["memory"] = _memory(console, case, compiled)
    if case.soak_tokens:
        found["soak"] = _soak(console, case)
    return found


def _serve(console: Console, case: Case, compiled: Any, clock: float) -> tuple[Any, Any]:
    bitmask = xgrammar.allocate_token_bitmask(1, case.vocabulary.size)
    ids = case.documents.ids
    ways: dict[str, Callable[[], Any]] = {"ahead": case.compile}
    if compiled.classifier is not None:
        ways["on demand"] = lambda: case.compile(on_demand=True)
    rows: dict[str, Rounds] = {}
    raw: dict[str, list[float]] = {}
    shares: dict[str, float] = {}

    def add(name: str, rounds: Sequence[serving.Served]) -> None:
        for what in ("fill", "accept"):
            times = [serving.flat(getattr(served, what)) for served in rounds]
            label = f"{'mask' if what == 'fill' else 'accept'}, {name}"
            rows[label] = Rounds.of(times, clock, serving.calm(rounds, what))
            raw[label] = [sum(values) / max(len(values), 1) for values in times]
            if what == "fill":
                shares[label] = sum(served.new for served in rounds) / max(sum(map(len, times)), 1)

    add("repeated", serving.repeated(compiled, ids, bitmask, case.rounds))
    new: list[tuple[list[int], serving.Served]] = []
    for way, compile_it in ways.items():
        served = serving.new_requests(compile_it, ids, bitmask, case.rounds, case.seed)
        new = new or served
        add(f"new request, {way}", [item for _, item in served])
    for way, compile_it in ways.items():
        found = serving.first_documents(compile_it, ids, bitmask, 2 * case.rounds, case.seed)
        add(f"first document, {way}", found)
    order = sorted(rows, key=lambda name: name.startswith("accept"))
    title = f"calls from Python, cost of the clock {clock * 1e9:.0f} ns subtracted"
    console.print(rounds_table(title, rows, order))
    met = ", ".join(f"{name.removeprefix('mask, ')} {share:.0%}" for name, share in shares.items() if share)
    report.say(console, f"configurations whose mask was new: {met or 'none'}")
    against = _against_plain(case, new, clock)
    if against:
        report.say(
            console,
            f"new requests against plain XGrammar on the same {against['masks']:,} masks: "
            f"{against['plain_mean'] * 1e6:,.4g} us / {against['mean'] * 1e6:.3g} us = "
            f"{against['ratio']:,.0f} times",
        )
    calls = {
        name: {**asdict(row), "means_with_clock": raw[name], "new_share": shares.get(name)}
        for name, row in rows.items()
    }
    return calls, against


def _against_plain(
    case: Case, new: Sequence[tuple[list[int], serving.Served]], clock: float
) -> dict[str, Any] | None:
    """Means of new requests and of plain XGrammar over the masks of documents that both ran.

    Ours are of calm tokens. Those of plain XGrammar take too long to be calm: they are multiplied by the
    share of a core that the process had while comparing.
    """
    seconds: dict[int, list[float]] = {}
    for measured, served in new:
        for place, times, calm in zip(measured, served.fill, served.calm, strict=True):
            still = [value for value, kept in zip(times, calm, strict=True) if kept]
            if still:
                seconds.setdefault(place, []).append((sum(still) / len(still) - clock) * len(times))
    ours = plain = 0.0
    masks = 0
    for place, totals in seconds.items():
        known = case.plain.get(case.documents.names[place])
        count = len(case.documents.ids[place])
        if known is not None and len(known.times.plain_fill) >= count:
            ours += median(totals)
            plain += sum(known.times.plain_fill[:count]) - clock * count
            masks += count
    if not masks or not ours:
        return None
    plain *= min(case.core_share, 1.0)
    return {
        "masks": masks,
        "mean": ours / masks,
        "plain_mean": plain / masks,
        "ratio": plain / ours,
        "core_share": case.core_share,
    }


def _batches(console: Console, case: Case, clock: float) -> dict[str, Any]:
    """Batches of documents cut at random: after other documents, and once more."""
    texts = case.documents.texts
    rows: dict[str, Rounds] = {}
    fills: dict[str, list[list[float]]] = {"new": [], "repeated": []}
    accepts: dict[str, list[list[float]]] = {"new": [], "repeated": []}
    calm: dict[str, list[bool]] = {"new": [], "repeated": []}
    shares = []
    for warm, measured in serving.halves(len(texts), case.rounds, case.seed):
        compiled = case.compile()
        bitmask = xgrammar.allocate_token_bitmask(1, case.vocabulary.size)
        serving.serve(compiled, [case.documents.ids[i] for i in warm], bitmask)
        streams = serving.streams_of(case.vocabulary, [texts[i] for i in measured], case.batch, case.seed)
        # about one document a row: later ones were met in other rows
        steps = sum(len(stream[0]) for stream in streams) // len(streams)
        for name in ("new", "repeated"):
            found = serving.serve_batch(compiled, streams, steps)
            fills[name].append([(value - clock) / case.batch for value in found.fill])
            accepts[name].append([(value - clock) / case.batch for value in found.accept])
            calm[name] += found.calm
            if name == "new":
                shares.append(found.new_rows / max(found.rows, 1))
    for name in ("repeated", "new"):
        for what, times in (("mask", fills[name]), ("accept", accepts[name])):
            still = [value for value, kept in zip(chain(*times), calm[name], strict=True) if kept]
            rows[f"{what}, {name}"] = Rounds.of(times, 0.0, still)
    share = median(shares)
    title = f"batch of {case.batch} in one call, per row; {share:.0%} of the rows of 'new' are new"
    console.print(rounds_table(title, rows, sorted(rows, key=lambda name: name.startswith("accept"))))
    return {"size": case.batch, "new_share": share, **{name: asdict(row) for name, row in rows.items()}}


def _decisions(console: Console, case: Case, clock: float) -> dict[str, Any]:
    """Decisions alone; with another vocabulary, at the same configurations there."""
    vocabularies = [case.vocabulary]
    if case.other:
        vocabularies.append(workloads.load_vocabulary(case.other).prepare())
    shared = SharedTokens(vocabularies)
    cuts = [shared.cuts(text) for text in case.documents.texts]
    times: dict[str, list[list[float]]] = {}
    grown = [0] * len(vocabularies)
    classes = [0] * len(vocabularies)
    for warm, measured in serving.halves(len(cuts), case.rounds, case.seed):
        for number, vocabulary in enumerate(vocabularies):
            compiled = case.compile(vocabulary)
            classes[number] = workloads.class_count(compiled) or 0
            found = decide(compiled, [cuts[i][number] for i in warm], [cuts[i][number] for i in measured])
            grown[number] += found.grown
            bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
            documents = [cuts[i][number] for i in measured]
            serving.serve(compiled, documents, bitmask)
            again = serving.serve(compiled, documents, bitmask)
            rows = [
                value
                for value, still in zip(serving.flat(again.fill), chain(*again.calm), strict=True)
                if still
            ]
            for name, values in (
                ("class mask, new", found.mask), ("token, new", found.step), ("call, known", found.known),
                ("mask of a row, repeated", rows),
            ):  # fmt: skip
                times.setdefault(f"{name}, {vocabulary.size:,} ids", []).append(list(values))
    table = {name: Rounds.of(values, clock) for name, values in times.items()}
    console.print(rounds_table("decisions alone, the store called from Python", table, list(table)))
    result: dict[str, Any] = {
        "sizes": [vocabulary.size for vocabulary in vocabularies],
        "classes": classes,
        "grown": grown,
        **{name: asdict(row) for name, row in table.items()},
    }
    if len(vocabularies) == 2:
        names = ("class mask, new", "token, new", "mask of a row, repeated")
        sizes = [f"{vocabulary.size:,} ids" for vocabulary in vocabularies]
        ratios = {
            name: table[f"{name}, {sizes[1]}"].p50 / max(table[f"{name}, {sizes[0]}"].p50, 1e-12)
            for name in names
        }
        shown = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
        report.say(console, f"{sizes[1]} ({classes[1]} classes) / {sizes[0]} ({classes[0]}), by p50: {shown}")
        result["ratios"] = ratios
    return result


def _building(console: Console, case: Case) -> dict[str, Any]:
    result = {}
    for way in (False, True) if case.strategy == "classifier" else (False,):
        found = building.measure_building(
            case.spec, case.text, case.root, on_demand=way, repeats=case.builds, strategy=case.strategy
        )
        name = "on demand" if way else "ahead"
        result[name] = found
        best = min(found["phases"], key=lambda phases: phases["total"])
        phases = ", ".join(f"{phase} {report.readable(value)}" for phase, value in best.items())
        middle = median(phases["total"] for phases in found["phases"])
        memory = ""
        if found["process"] is not None:
            above = max(found["above"]) / 2**20
            memory = (
                f"; memory at most {above:,.0f} MiB above, the process {found['process'] / 2**20:,.0f} MiB"
            )
        cpu = report.readable(median(found["cpu"]))
        report.say(
            console,
            f"building {name}: median {report.readable(middle)}, CPU {cpu}; least: {phases}{memory}",
        )
    return result


def _memory(console: Console, case: Case, compiled: Any) -> dict[str, Any]:
    """What the compiled grammar holds after all documents, and what a matcher holds."""
    bitmask = xgrammar.allocate_token_bitmask(1, case.vocabulary.size)
    serving.serve(compiled, case.documents.ids, bitmask)
    longest = max(case.documents.ids, key=len)
    matcher, token = soak.matcher_bytes(compiled, longest)
    found: dict[str, Any] = {
        "compiled": compiled.memory_size_bytes,
        "matcher": matcher,
        "matcher_per_token": token,
    }
    if compiled.classifier is not None:
        session = compiled.classifier.session
        store = session.store
        found |= {
            "tables": store.nbytes,
            "configurations": store.n_configurations,
            "summaries": store.known.n_known,
            "steps": len(session.steps),
            "distinct_rows": sum(rows.n_rows for rows in session.rows.values()),
            "rows": serving.masks_known(compiled),
            "session": session.serial,
        }
    shown = ", ".join(
        f"{name} {value / 2**20:.1f} MiB" if name in ("compiled", "tables") else f"{name} {value:,.0f}"
        for name, value in found.items()
    )
    report.say(console, f"held after the documents (bytes where not said): {shown}")
    return found


def _soak(console: Console, case: Case) -> list[dict[str, Any]]:
    runs = soak.soak(case.compile(), case.documents.texts, case.soak_tokens, case.seed)
    for run in runs:
        slope = "unknown" if run.slope is None else f"{run.slope:,.0f} bytes a token"
        first, last = run.marks[0], run.marks[-1]
        resident = ""
        if first.resident is not None and last.resident is not None:
            resident = f"resident {first.resident / 2**20:,.0f} to {last.resident / 2**20:,.0f} MiB, "
        report.say(
            console,
            f"soak, {run.kind}: {run.tokens:,} tokens, {resident}slope of the second half {slope}; "
            f"tables {last.tables / 2**20:.1f} MiB, sessions {run.sessions}",
        )
    return [run.record() for run in runs]


def rounds_table(title: str, rows: Mapping[str, Rounds], order: Sequence[str]) -> Table:
    """A table of rounds in microseconds; the last three columns are of calm calls alone."""
    table = Table(title=title, title_justify="left")
    table.add_column("us", no_wrap=True)
    for name in ("calls", "mean", "least", "p50", "p99", "calm calls", "mean", "p99"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in order:
        row = rows[name]
        every = (f"{value * 1e6:,.3g}" for value in (row.mean, row.least, row.p50, row.p99))
        calm = (f"{value * 1e6:,.3g}" for value in (row.calm_mean, row.calm_p99))
        table.add_row(name, f"{row.calls:,}", *every, f"{row.calm_calls:,}", *calm)
    return table
