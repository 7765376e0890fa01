"""A soak of mixed traffic: many threads, a small memory cache, broken and hostile schemas among the others.

What: serves requests (`bench.requests`) from one compiler with a bounded memory cache; reports times to the
first mask, errors by type, memory over the run, and whether the masks of a sample are plain XGrammar's.
When: ``python -m bench traffic --vocabulary SPEC --schemas FOLDER --json FILE``.
Limits: the traffic runs in a process of its own, which this one watches: a request that takes longer than
``--dead-man-seconds`` is named, and where one takes ten times as long the process is ended and the run has
failed. Masks of sampled requests are kept as digests and compared after the run, so that XGrammar's memory
is not in the measurement; what plain XGrammar does not compile within ``--max-plain-seconds`` is counted as
not compared. Where a digest differs, both sides run again, and a bit that XGrammar's own ``accept_token``
decides for us is a contradiction of XGrammar. Times are wall times of threads that share cores and the
interpreter's lock. Resident memory is known on Linux only; slopes are least squares over the second half.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import xgrammar
from rich.console import Console
from rich.progress import track

from bench import options, report, workloads
from bench.adversarial import as_text
from bench.forked import in_a_fork
from bench.report import Spread
from bench.requests import Answer, Request, Traffic, mask_name
from bench.traffic_server import Mark, Served, Settings, watch


@dataclass
class Compared:
    """Masks of the sampled requests, beside plain XGrammar's."""

    requests: int = 0
    masks: int = 0
    equal: int = 0
    contradictions: int = 0
    not_compared: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)


def compare(
    traffic: Traffic, answers: list[Answer], vocabulary: Any, max_plain_seconds: float, console: Console
) -> Compared:
    """The masks that were made during the traffic against plain XGrammar, each schema in a forked process."""
    found = Compared()
    requests = {request.number: request for request in traffic.requests()}
    by_case: dict[tuple[str, int], list[Answer]] = defaultdict(list)
    for one in answers:
        if one.digests:
            request = requests[one.number]
            by_case[request.kind, request.which].append(one)
    cases = list(by_case.values())
    for of_case in track(cases, "compared with XGrammar", console=console, transient=True):
        name, schema = traffic.case(requests[of_case[0].number])
        met = in_a_fork(partial(_beside_plain, schema, of_case, vocabulary), max_plain_seconds)
        if met is None or "refused" in met:
            why = "not within the time" if met is None else met["refused"]
            found.not_compared.append(f"{name}: {why}")
            continue
        found.requests += len(of_case)
        found.masks += met["masks"]
        found.equal += met["equal"]
        found.contradictions += met["contradictions"]
        found.differences += [f"{name}: {line}" for line in met["differences"]]
    return found


def _beside_plain(schema: Any, answers: list[Answer], vocabulary: Any) -> dict[str, Any]:
    """Plain XGrammar's digests along the same tokens; where they differ, who is right."""
    from hybrid.testing.verify import compare_along

    try:
        compiler = workloads.plain_compiler(vocabulary, 1)
        plain = compiler.compile_grammar(xgrammar.Grammar.from_json_schema(as_text(schema)))
    except Exception as error:  # noqa: BLE001 - whatever it is, there is nothing to compare with
        return {"refused": f"{type(error).__name__}: {str(error)[:200]}"}
    bitmask = xgrammar.allocate_token_bitmask(1, vocabulary.size)
    row = bitmask.numpy()[0]
    found: dict[str, Any] = {"masks": 0, "equal": 0, "contradictions": 0, "differences": []}
    for one in answers:
        digests: list[str] = []
        matcher = xgrammar.GrammarMatcher(plain)
        for place in range(len(one.digests)):
            row.fill(-1)
            matcher.fill_next_token_bitmask(bitmask)
            digests.append(mask_name(row, vocabulary.size))
            if place < len(one.ids) and not matcher.accept_token(one.ids[place]):
                break
        equal = sum(mine == theirs for mine, theirs in zip(one.digests, digests, strict=False))
        found["masks"] += len(one.digests)
        found["equal"] += equal
        if equal == len(one.digests):
            continue
        ours = workloads.hybrid_compiler(vocabulary, "auto", 1).compile_json_schema(schema)
        met = compare_along(ours, plain, one.ids)
        found["contradictions"] += met.contradiction_count
        found["differences"] += [str(item) for item in met.differences[:5]]
        if not met.contradiction_count and not met.difference_count:
            found["differences"].append(
                f"request {one.number}: its masks differ, those of a new compile do not"
            )
    return found


def summarise(traffic: Traffic, served: Served, compared: Compared) -> dict[str, Any]:
    """Times by kind and source, errors, memory, and what the comparison found."""
    requests = {request.number: request for request in traffic.requests()}
    groups: dict[str, list[Answer]] = defaultdict(list)
    errors: dict[str, Counter[str]] = {kind: Counter() for kind in ("schema", "malformed", "adversarial")}
    for one in served.answers:
        kind = requests[one.number].kind
        groups[f"{kind}, {'refused' if one.error else one.source}"].append(one)
        if one.error:
            errors[kind][one.error] += 1
    ordinary = [one for one in served.answers if requests[one.number].kind == "schema" and not one.error]
    spreads = {"first mask, all ordinary": Spread.of(one.first for one in ordinary)}
    for group in sorted(groups, reverse=True):
        spreads[f"first mask: {group}"] = Spread.of(one.first for one in groups[group])
        spreads[f"  of it CPU: {group}"] = Spread.of(one.first_cpu for one in groups[group])
    spreads |= {"mask after it": served.fill.spread(), "token": served.accept.spread()}
    good = [one for one in served.answers if not one.error]
    return {
        "spreads": spreads,
        "requests": len(served.answers),
        "seconds": served.seconds,
        "throughput": len(served.answers) / served.seconds if served.seconds else 0.0,
        "tokens": sum(one.tokens for one in served.answers),
        "kinds": dict(Counter(requests[one.number].kind for one in served.answers)),
        "sources": dict(Counter(one.source for one in good)),
        "strategies": dict(Counter(one.strategy for one in good)),
        "errors": {kind: dict(counts) for kind, counts in errors.items()},
        "crashes": [
            f"{traffic.case(requests[one.number])[0]}: {one.error}: {one.message}"
            for one in served.answers
            if not one.expected
        ],
        "others": _others(traffic, served.answers, requests),
        "late": {traffic.case(requests[number])[0]: seconds for number, seconds in served.late.items()},
        "failure": served.failure,
        "memory": memory(served),
        "compared": asdict(compared),
    }


def _others(
    traffic: Traffic, answers: Sequence[Answer], requests: dict[int, Request]
) -> dict[str, dict[str, Any]]:
    """What schemas got that are no ordinary ones, or were refused: outcomes, the longest time, a message."""
    found: dict[str, dict[str, Any]] = {}
    names: dict[tuple[str, int], str] = {}
    for one in answers:
        request = requests[one.number]
        if request.kind == "schema" and not one.error:
            continue
        case = (request.kind, request.which)
        if case not in names:
            names[case] = f"{request.kind}: {traffic.case(request)[0]}"
        at = found.setdefault(names[case], {"outcomes": Counter(), "longest": 0.0, "message": ""})
        at["outcomes"][one.error or one.strategy] += 1
        at["longest"] = max(at["longest"], one.first)
        at["message"] = one.message or at["message"]
    return {name: {**at, "outcomes": dict(at["outcomes"])} for name, at in sorted(found.items())}


def memory(served: Served) -> dict[str, Any]:
    """Resident memory over the run, in bytes, and what the cache says of itself."""
    marks = served.marks
    return {
        "before": served.resident_before,
        "most": max((mark.resident for mark in marks), default=0),
        "after": served.resident_after,
        "cleared": served.resident_cleared,
        "slope_per_1000_requests": slope(marks),
        "cache_most": max((mark.cache for mark in marks), default=0),
        "cache_after": served.cache_after,
        "counted_after": served.counted_after,
        "kept_walks": marks[-1].kept_walks if marks else 0,
    }


def slope(marks: Sequence[Mark]) -> float | None:
    """Resident bytes for each 1,000 further requests, least squares of the second half; None for too few."""
    late = [mark for mark in marks if mark.requests > marks[-1].requests / 2]
    if len(late) < 3:
        return None
    return 1000 * float(np.polyfit([mark.requests for mark in late], [mark.resident for mark in late], 1)[0])


def print_summary(console: Console, summary: dict[str, Any], cache_bytes: int) -> None:
    """The tables on the screen."""
    console.print(report.spread_table("seconds", [(n, "s", s) for n, s in summary["spreads"].items()]))
    lines = [
        f"{name}: " + ", ".join(f"{count:,} {what}" for what, count in summary[name].items())
        for name in ("kinds", "sources", "strategies")
    ]
    for kind, errors in summary["errors"].items():
        lines += [f"errors of {kind}: {count:,} {error}" for error, count in errors.items()]
    lines += [f"CRASH {line}" for line in summary["crashes"]]
    lines += [f"LATE {name}: {seconds:.1f} s" for name, seconds in summary["late"].items()]
    if summary["failure"]:
        lines.append(f"FAILED {summary['failure']}")
    mib = {name: f"{(value or 0) / 2**20:,.1f}" for name, value in summary["memory"].items()}
    compared = summary["compared"]
    lines += [
        f"resident: {mib['before']} MiB before, at most {mib['most']}, {mib['after']} after, "
        f"{mib['cleared']} with the cache cleared; slope over the second half "
        f"{mib['slope_per_1000_requests']} MiB per 1,000 requests",
        f"cache: at most {mib['cache_most']} of {cache_bytes / 2**20:,.0f} MiB; at the end "
        f"{mib['cache_after']} by its own account, {mib['counted_after']} counted anew; kept walks "
        f"{mib['kept_walks']} MiB",
        f"{summary['requests']:,} requests, {summary['tokens']:,} tokens in {summary['seconds']:,.0f} s "
        f"({summary['throughput']:.1f} requests a second)",
        f"{compared['masks']:,} masks of {compared['requests']:,} requests compared, {compared['equal']:,} "
        f"equal, {compared['contradictions']:,} contradictions of XGrammar, "
        f"{len(compared['differences']):,} differences, {len(compared['not_compared']):,} schemas not "
        "compared",
    ]
    for line in lines:
        report.say(console, line)


def command(
    vocabulary: options.VocabularyOption,
    schemas: options.SchemasOption,
    json: options.RecordOption,
    limit: options.LimitOption = None,
    seed: options.SeedOption = 0,
    requests: Annotated[int, typer.Option(min=1, help="Requests in all.")] = 10_000,
    threads: Annotated[int, typer.Option(min=1, help="Threads that serve.")] = 8,
    cache_mib: Annotated[int, typer.Option(min=1, help="Bound of the memory cache.")] = 200,
    cache_dir: Annotated[
        Path | None, typer.Option(help="Folder for compiled grammars; none by default.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Budget of one compilation.")] = 10.0,
    on_budget: Annotated[str, typer.Option(help="Where the budget is met: engine, raise.")] = "engine",
    strategy: options.StrategyOption = "auto",
    adversarial: Annotated[str, typer.Option(help="Size of hostile schemas: small, large, both.")] = "both",
    malformed_share: Annotated[float, typer.Option(help="Share of malformed schemas.")] = 0.01,
    adversarial_share: Annotated[float, typer.Option(help="Share of hostile schemas.")] = 0.01,
    sample: Annotated[float, typer.Option(help="Share of requests whose masks are compared.")] = 0.01,
    zipf: Annotated[float, typer.Option(help="Exponent of the popularity of schemas.")] = 1.0,
    dead_man_seconds: Annotated[float, typer.Option(help="A longer request is reported by name.")] = 15.0,
    max_plain_seconds: Annotated[float, typer.Option(help="XGrammar's, for one comparison.")] = 30.0,
    picture: Annotated[Path | None, typer.Option(help="Where a picture of the run is written.")] = None,
) -> None:
    """A soak of mixed traffic: first masks, errors, memory over the run, masks of a sample compared."""
    arguments = dict(locals())
    console = report.make_console()
    settings = Settings(
        vocabulary, schemas, limit, requests, threads, cache_mib * 2**20, cache_dir, seconds, on_budget,
        strategy, seed, adversarial, malformed_share, adversarial_share, sample, zipf,
    )  # fmt: skip
    with workloads.usage_errors():
        if adversarial not in ("small", "large", "both"):
            raise ValueError(f"--adversarial is {adversarial!r}, allowed are small, large, both")
        if picture is not None:
            from bench.pictures import require_matplotlib

            require_matplotlib()
        traffic = settings.traffic()
        tokens = workloads.load_vocabulary(vocabulary)
        tokens.prepare()
    served = watch(settings, dead_man_seconds, console)
    compared = compare(traffic, served.answers, tokens, max_plain_seconds, console)
    summary = summarise(traffic, served, compared)
    print_summary(console, summary, settings.cache_bytes)
    for line in compared.differences:
        report.say(console, f"DIFFERENCE {line}")
    record = {
        "benchmark": "traffic",
        **report.environment(arguments),
        "summary": report.flat(summary),
        "stats": served.stats,
        "marks": [asdict(mark) for mark in served.marks],
        "firsts": [
            {"request": one.number, "seconds": one.first, "source": one.source or "refused"}
            for one in served.answers
        ],
    }
    report.write_json(json, record)
    if picture is not None:
        from bench.pictures import draw_traffic

        draw_traffic(record["marks"], record["firsts"], picture, cache_bytes=settings.cache_bytes)
    if compared.differences or summary["crashes"] or served.failure:
        raise typer.Exit(1)
