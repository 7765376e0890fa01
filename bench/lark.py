"""Lark grammars on real files: are the masks right, what do they cost, what does compiling take.

What: for each grammar and vocabulary, follows files that Lark parses token by token, puts refused and
allowed tokens to Lark itself, and reports mask times, llguidance's beside them, building, memory and tables.
When: ``python -m bench lark --grammar go=go.lark --documents go=FOLDER --vocabulary SPEC --json FILE``.
Limits: one process and one thread; compiling is measured in a process of its own. Nothing is timed where a
file fails or Lark takes a token that a mask refuses. No plain XGrammar beside: it has no lexer like Lark's.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from lark import Lark
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench import lark_checks, lark_times, options, report, serving, workloads
from bench.grammar_times import rounds_table
from bench.lark_build import measure_build
from bench.lark_files import MOST_BYTES, Source, folder_sources, parsable, zip_sources
from bench.lark_judge import Judge
from bench.report import Spread


def named(values: list[str], option: str) -> dict[str, Path]:
    """What ``NAME=PATH`` options say.

    Raises:
        ValueError: one is not of this form, or there is no such path.
    """
    found = {}
    for value in values:
        name, separator, path = value.partition("=")
        if not separator or not name or not Path(path).exists():
            raise ValueError(f"{option} {value!r}: expected is NAME=PATH with a path that exists")
        found[name] = Path(path)
    return found


def grammar_texts(values: list[str]) -> dict[str, str]:
    """Grammars by their names: files, or those of the package.

    Raises:
        ValueError: there is none.
    """
    from equivalence.errors import GrammarError
    from hybrid.cli.shipped import shipped_grammar

    found: dict[str, str] = {}
    for value in values:
        if "=" in value:
            found |= {name: workloads.read_text(path) for name, path in named([value], "--grammar").items()}
            continue
        try:
            found[value.removesuffix(".lark")] = shipped_grammar(value).text
        except GrammarError as error:
            raise ValueError(f"--grammar {value!r}: {error}; or give NAME=PATH") from error
    return found


def read_sources(path: Path, suffix: str, most_bytes: int, seed: int) -> Iterator[Source]:
    """The files of a folder, of an archive, or of a list as `bench.lark_files` writes it, in its order."""
    if path.is_dir():
        yield from folder_sources(path, suffix, most_bytes, seed)
    elif path.suffix == ".zip":
        yield from zip_sources(path, suffix, most_bytes, seed)
    else:
        for name in path.read_text(encoding="utf-8").splitlines():
            yield Source(Path(name).name, Path(name).read_bytes().decode("utf-8"))


def command(
    grammar: Annotated[list[str], typer.Option(help="NAME=PATH, or a shipped one's name; repeatable.")],
    documents: Annotated[
        list[str],
        typer.Option(help="NAME=PATH: folder or .zip with files *.NAME, or a list of files; repeatable."),
    ],
    vocabulary: options.VocabulariesOption,
    json: options.RecordOption,
    start: Annotated[str, typer.Option(help="Start rule.")] = "start",
    count: Annotated[int, typer.Option(min=1, help="Files for each grammar.")] = 300,
    most_bytes: Annotated[int, typer.Option(min=1, help="Of a file.")] = MOST_BYTES,
    parse: Annotated[bool, typer.Option(help="Keep only files that Lark parses.")] = True,
    judged_files: Annotated[int, typer.Option(min=0, help="Files whose masks Lark judges.")] = 50,
    judged_steps: Annotated[int, typer.Option(min=0, help="Masks of each; 0 takes all.")] = 40,
    refused: Annotated[int, typer.Option(min=0, help="Refused tokens of each mask.")] = 200,
    allowed: Annotated[int, typer.Option(min=0, help="Allowed tokens of each mask.")] = 10,
    rounds: Annotated[int, typer.Option(min=0, help="Of times; 0 leaves them out.")] = 6,
    firsts: Annotated[int, typer.Option(min=1, help="Files that are the first after loading.")] = 30,
    batch: Annotated[int, typer.Option(min=0, help="Sequences of a batch; 0 leaves batches out.")] = 64,
    builds: Annotated[int, typer.Option(min=0, help="Compilations in a process of their own.")] = 3,
    peer_files: Annotated[int, typer.Option(min=0, help="Files for llguidance, too; 0: none.")] = 60,
    seed: options.SeedOption = 0,
) -> None:
    """Lark grammars: files, tokens judged by Lark, masks, building; llguidance's masks beside ours."""
    arguments = dict(locals())
    console = report.make_console()
    with workloads.usage_errors():
        texts = grammar_texts(grammar)
        paths = named(documents, "--documents")
        for name in texts.keys() - paths.keys():
            raise ValueError(f"the grammar {name!r} has no documents: give --documents {name}=PATH")
        tokens = {workloads.short_name(spec): (spec, workloads.load_vocabulary(spec)) for spec in vocabulary}
    rows = []
    for name, text in texts.items():
        lark = Lark(text, parser="lalr", lexer="basic", start=start)
        sources = read_sources(paths[name], f".{name}", most_bytes, seed)
        files = _files(console, name, lark, sources, count, parse)
        for short, (spec, one) in tokens.items():
            console.rule(f"{name}, {short}")
            case = _Case(
                console, name, text, start, lark, files, spec, one, judged_files, judged_steps, refused,
                allowed, rounds, firsts, batch, builds, peer_files, seed,
            )  # fmt: skip
            rows.append({"grammar": name, "vocabulary": short, **case.measure()})
            report.write_json(json, _record(arguments, rows))
    if not all(row["exact"] for row in rows):
        raise typer.Exit(1)


def _record(arguments: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "benchmark": "lark",
        **report.environment({k: v for k, v in arguments.items() if k not in ("grammar", "documents")}),
        "rows": [report.flat(row) for row in rows],
    }


def _files(
    console: Console, name: str, lark: Lark, sources: Iterator[Source], count: int, parse: bool
) -> list[Source]:
    if not parse:
        return [source for source, _ in zip(sources, range(count), strict=False)]
    with console.status(f"{name}: Lark parses files"):
        found = parsable(lark, sources, count)
    report.say(
        console,
        f"{name}: Lark parses {found.parsed:,} of {found.seen:,} files seen and lexes {found.lexed:,}",
    )
    return found.kept


class _Case:
    """One grammar on one vocabulary."""

    def __init__(
        self, console: Console, name: str, text: str, start: str, lark: Lark, files: list[Source], spec: str,
        vocabulary: Any, judged_files: int, judged_steps: int, refused: int, allowed: int, rounds: int,
        firsts: int, batch: int, builds: int, peer_files: int, seed: int,
    ) -> None:  # fmt: skip
        self.console, self.name, self.text, self.start, self.lark = console, name, text, start, lark
        self.files, self.spec, self.vocabulary = files, spec, vocabulary
        self.judged_files, self.judged_steps, self.refused, self.allowed = (
            judged_files, judged_steps, refused, allowed,
        )  # fmt: skip
        self.rounds, self.firsts, self.batch, self.builds = rounds, firsts, batch, builds
        self.peer_files, self.seed = peer_files, seed

    def measure(self) -> dict[str, Any]:
        """Everything that was asked for, as it goes into the record."""
        from hybrid import GrammarCompiler

        with tempfile.TemporaryDirectory() as folder:
            artefact: Path | None = Path(folder) / "grammar"
            found: dict[str, Any] = {"load_average": report.load_average()}
            compiled = GrammarCompiler(self.vocabulary, cache_enabled=False).compile_lark(
                self.text, start=self.start
            )
            try:
                compiled.save(artefact)
            except Exception as error:  # noqa: BLE001 - an artefact that cannot be is reported, and done without
                report.say(self.console, f"no artefact: {type(error).__name__}: {error}")
                artefact = None
            if self.builds:
                found["building"] = self._building(artefact)
            cuts = {
                cut: [
                    lark_checks.cut_text(self.vocabulary, file.text.encode(), cut, f"{self.seed} {number}")
                    for number, file in enumerate(self.files)
                ]
                for cut in lark_checks.CUTS
            }
            found |= self._check(compiled, cuts)
            fresh = lark_times.fresh_from(compiled, artefact)
            ids = [tokens for tokens in cuts[lark_checks.CUTS[0]] if tokens]
            if found["exact"] and self.rounds and ids:
                found |= self._times(fresh, ids)
            if ids:
                found |= self._held(fresh(), ids)
        return found

    def _building(self, artefact: Path | None) -> dict[str, Any]:
        found = measure_build(self.spec, self.text, self.start, self.builds, artefact)
        phases = ", ".join(f"{name} {report.readable(value)}" for name, value in found["phases"].items())
        sizes = ", ".join(f"{value:,} {name}" for name, value in found["sizes"].items())
        seconds, cpu = (", ".join(map(report.readable, sorted(found[what]))) for what in ("seconds", "cpu"))
        peak = "unknown" if found["peak"] is None else f"{found['peak'] / 2**20:,.0f} MiB"
        say = report.say
        say(self.console, f"compiling: {seconds}; in CPU time {cpu}; peak memory {peak}")
        say(self.console, f"phases: {phases}")
        say(self.console, f"{found['classes']:,} classes; {sizes}")
        if "artefact" in found:
            say(
                self.console,
                f"artefact {found['artefact'] / 2**20:.2f} MiB, saved in {report.readable(found['save'])}, "
                f"loaded in {report.readable(found['load'])}",
            )
        return found

    def _check(self, compiled: Any, cuts: dict[str, list[list[int]]]) -> dict[str, Any]:
        """Files followed, and tokens put to Lark."""
        followed = [
            lark_checks.follow(compiled, file.name, ids, cut)
            for cut, every in cuts.items()
            for file, ids in track(
                list(zip(self.files, every, strict=True)),
                f"files, {cut}",
                console=self.console,
                transient=True,
            )
        ]
        failed = [item for item in followed if item.failure]
        report.say(
            self.console,
            f"{len(followed) - len(failed):,} of {len(followed):,} files (cut twice) pass, "
            f"{sum(item.tokens for item in followed):,} tokens",
        )
        for item in failed:
            report.say(self.console, f"FAILED {item.name}, {item.cut}: {item.failure}")
        judge, rng, judged = Judge(self.lark), random.Random(self.seed), lark_checks.Judged()
        near = sorted({token for ids in cuts[lark_checks.CUTS[0]] for token in ids})
        chosen = list(range(min(self.judged_files, len(self.files))))
        for number in track(chosen, "judged by Lark", console=self.console, transient=True):
            ids = cuts[lark_checks.CUTS[number % 2]][number]
            judged.add(
                lark_checks.judge_file(
                    compiled, judge, self.files[number].text, ids, near, rng, self.judged_steps, self.refused,
                    self.allowed,
                )
            )  # fmt: skip
        report.say(
            self.console,
            f"judged by Lark, {judged.steps:,} masks of {len(chosen)} files: {judged.refused:,} refused "
            f"tokens ({judged.not_text:,} no text), {len(judged.unsound)} of them taken by Lark, and "
            f"{len(judged.unclosed)} where an opening is never closed; {judged.allowed:,} allowed tokens, "
            f"{len(judged.undecided)} undecided",
        )
        for text, token, more in judged.unsound[:20]:
            report.say(self.console, f"WRONG BIT after {text[-60:]!r}: {token!r}, taken before {more!r}")
        return {
            "exact": not failed and not judged.unsound,
            "files": len(self.files),
            "followed": len(followed),
            "tokens": sum(item.tokens for item in followed),
            "failed": [asdict(item) for item in failed],
            "judged": judged.record(),
        }

    def _times(self, fresh: lark_times.Fresh, ids: list[list[int]]) -> dict[str, Any]:
        clock = serving.clock_cost()
        rows, means = lark_times.mask_times(fresh, ids, self.rounds, self.firsts, self.seed, clock)
        title = f"calls from Python, cost of the clock {clock * 1e9:.0f} ns subtracted"
        self.console.print(rounds_table(title, rows, list(rows)))
        spreads = dict(means)
        if self.batch > 1:
            steps = 2 * sum(map(len, ids)) // len(ids)
            spreads |= lark_times.batch_times(fresh, ids, self.batch, steps, clock)
        title = f"first files; a row of a batch of {self.batch}"
        self.console.print(
            report.spread_table(title, [(name, "s", spread) for name, spread in spreads.items()])
        )
        found: dict[str, Any] = {"clock": clock, "calls": {name: asdict(row) for name, row in rows.items()}}
        found["spreads"] = spreads
        found["load_average_after"] = report.load_average()
        if self.peer_files:
            found["llguidance"] = self._peer(fresh, ids[: self.peer_files], clock)
        return found

    def _peer(self, fresh: lark_times.Fresh, ids: list[list[int]], clock: float) -> dict[str, Any]:
        try:
            from bench.lark_peers import Peer, peer_tokenizer

            peer = Peer(peer_tokenizer(self.vocabulary), self.vocabulary, self.text)
        except ImportError:
            report.say(self.console, "llguidance is not installed")
            return {"refusal": "not installed"}
        if peer.refusal:
            report.say(self.console, f"llguidance refuses the grammar: {peer.refusal.splitlines()[0]}")
            return {"refusal": peer.refusal}
        taken = peer.taken(ids)
        compiled = fresh()
        steps, different = peer.differing(compiled, taken)
        half = len(taken) // 2
        bitmask_of = _bitmask(compiled)
        compiled = fresh()
        serving.serve(compiled, taken[:half], bitmask_of)
        peer.serve(taken[:half])
        served = {"new file": (serving.serve(compiled, taken[half:], bitmask_of), peer.serve(taken[half:]))}
        served["repeated"] = (serving.serve(compiled, taken[half:], bitmask_of), peer.serve(taken[half:]))
        rows = {
            f"{what}, {kind}, {side}": numbers
            for kind, both in served.items()
            for side, one in zip(("equimask", "llguidance"), both, strict=True)
            for what, numbers in lark_times.rounds_of([one], clock).items()
        }
        order = sorted(rows, key=lambda name: name.startswith("accept"))
        self.console.print(rounds_table("the same documents in turn, one round", rows, order))
        ratios = {
            f"{number}, {kind}": getattr(rows[f"mask, {kind}, llguidance"], number)
            / max(getattr(rows[f"mask, {kind}, equimask"], number), 1e-9)
            for kind in served
            for number in ("mean", "p50", "p99")
        }
        shown = ", ".join(f"{name} {value:,.3g}" for name, value in ratios.items())
        report.say(self.console, f"a mask, llguidance / equimask: {shown}")
        report.say(
            self.console,
            f"llguidance takes {sum(map(len, taken)):,} of {sum(map(len, ids)):,} tokens; masks differ at "
            f"{different:,} of {steps:,} steps (another lexer)",
        )
        return {
            "refusal": "",
            "compile": peer.seconds,
            "tokens": sum(map(len, taken)),
            "steps": steps,
            "different": different,
            "calls": {name: asdict(row) for name, row in rows.items()},
            "ratios": ratios,
        }

    def _held(self, compiled: Any, ids: list[list[int]]) -> dict[str, Any]:
        held = lark_times.held(compiled, ids)
        read, whole = lark_times.stack_depths(compiled, ids)
        depths: dict[str, Spread] = {"states read": read, "states on the stack": whole}
        self.console.print(report.spread_table("stacks", [(name, "", row) for name, row in depths.items()]))
        table = Table(title="held after all files", title_justify="left")
        for name in held:
            table.add_column(name, justify="right")
        table.add_row(
            *(
                f"{value / 2**20:.1f} MiB" if name in ("compiled", "fixed tables", "tables") else f"{value:,}"
                for name, value in held.items()
            )
        )
        self.console.print(table)
        return {"depths": depths, "held": held}


def _bitmask(compiled: Any) -> Any:
    import xgrammar

    return xgrammar.allocate_token_bitmask(1, compiled.vocabulary.size)
