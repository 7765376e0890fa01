"""Lark grammars on real files: are the masks right, and what do masks and compiling cost?

What: for each grammar and vocabulary, follows files that Lark parses, token by token; asks Lark itself about
refused and allowed tokens; and reports the times of masks, those of llguidance, building and memory.
When: ``python -m bench lark --grammar go=go.lark --documents go=FOLDER --vocabulary SPEC --json FILE``.
Limits: one process and one thread; compiling is measured in a separate process. Nothing is timed if a file
fails, or Lark accepts a token that a mask refuses. There is no comparison with plain XGrammar, which has no
lexer like Lark's.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer
from lark import Lark
from rich.console import Console
from rich.progress import track

from bench import building, lark_checks, options, report, serving, workloads
from bench.documents import CUTS, MOST_BYTES, Source, parsable, read_sources
from bench.lark_judge import Judge
from bench.peers import llguidance
from hybrid import CompiledGrammar


def named(values: list[str], option: str) -> dict[str, Path]:
    """Parse ``NAME=PATH`` options.

    Raises:
        ValueError: an option has another form, or there is no such path.
    """
    found = {}
    for value in values:
        name, separator, path = value.partition("=")
        if not separator or not name or not Path(path).exists():
            raise ValueError(f"{option} {value!r}: expected is NAME=PATH with a path that exists")
        found[name] = Path(path)
    return found


def grammar_texts(values: list[str]) -> dict[str, str]:
    """Read grammars by their names: files, or those of the package.

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
    rounds: options.RoundsOption = 6,
    batch: options.BatchOption = 64,
    builds: options.BuildsOption = 3,
    peer_files: Annotated[int, typer.Option(min=0, help="Files for llguidance, too; 0: none.")] = 60,
    seed: options.SeedOption = 0,
) -> None:
    """Measure Lark grammars: files, tokens judged by Lark, masks, building; compared with llguidance's
    masks."""
    arguments = {name: value for name, value in locals().items() if name not in ("grammar", "documents")}
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
        files = _files(console, name, lark, sources, count) if parse else list(islice(sources, count))
        for short, (spec, one) in tokens.items():
            console.rule(f"{name}, {short}")
            judged = (judged_steps, refused, allowed)
            case = _Case(console, text, start, lark, files, spec, one, judged_files, judged, seed)
            row = {"grammar": name, "vocabulary": short, "load_average": report.load_average()}
            rows.append(row | case.measure(rounds, batch, builds, peer_files))
            report.write_json(json, {"benchmark": "lark", **report.environment(arguments), "rows": rows})
    if not all(row["exact"] for row in rows):
        raise typer.Exit(1)


def _files(console: Console, name: str, lark: Lark, sources: Iterator[Source], count: int) -> list[Source]:
    with console.status(f"{name}: Lark parses files"):
        kept, seen, lexed = parsable(lark, sources, count)
    report.say(console, f"{name}: Lark parses {len(kept):,} of {seen:,} files seen and lexes {lexed:,}")
    return kept


@dataclass
class _Case:
    """One grammar on one vocabulary; `judged`: how many masks of a file are judged, and tokens refused and
    allowed by each."""

    console: Console
    text: str
    start: str
    lark: Lark
    files: list[Source]
    spec: str
    vocabulary: Any
    judged_files: int
    judged: tuple[int, int, int]
    seed: int

    def measure(self, rounds: int, batch: int, builds: int, peer_files: int) -> dict[str, Any]:
        """Measure everything that is asked for, and return it for the record."""
        found: dict[str, Any] = {}
        compile_with = partial(building.lark, self.text, self.start)
        compiler = workloads.hybrid_compiler(self.vocabulary, "auto", 1)
        if builds:
            found["building"] = building.measure_building(self.spec, compile_with, builds, "auto")
            building.print_building(self.console, "in a process of its own", found["building"])
        cuts = [
            workloads.token_sequences(self.vocabulary, file.text.encode(), f"{self.seed} {number}")
            for number, file in enumerate(self.files)
        ]
        found |= self._check(compile_with(compiler), cuts)
        ids = [tokens for tokens, _ in cuts if tokens]
        if not (found["exact"] and rounds and ids):
            return found
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "grammar"
            compile_with(compiler).save(path)
            fresh = partial(CompiledGrammar.load, path, self.vocabulary)
            found |= serving.measure_calls(self.console, {"": fresh}, ids, rounds, batch, self.seed)[0]
            if peer_files:
                found["llguidance"] = self._peer(fresh, ids[:peer_files], found["clock"])
        return found

    def _check(self, compiled: Any, cuts: list[list[list[int]]]) -> dict[str, Any]:
        """Follow files, and ask Lark about tokens."""
        followed = [
            lark_checks.follow(compiled, self.files[number].name, ids, cut)
            for number in self._track(len(cuts), "files")
            for cut, ids in zip(CUTS, cuts[number], strict=True)
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
        near = sorted({token for greedy, _ in cuts for token in greedy})
        judged_files = min(self.judged_files, len(self.files))
        for number in self._track(judged_files, "judged by Lark"):
            text, ids = self.files[number].text, cuts[number][number % 2]
            judged.add(lark_checks.judge_file(compiled, judge, text, ids, near, rng, *self.judged))
        report.say(
            self.console,
            f"judged by Lark, {judged.steps:,} masks of {judged_files} files: {judged.refused:,} refused "
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
            "failed": failed,
            "judged": judged,
        }

    def _track(self, count: int, what: str) -> Iterable[int]:
        return track(range(count), what, console=self.console, transient=True)

    def _peer(self, fresh: serving.Fresh, ids: list[list[int]], clock: float) -> dict[str, Any]:
        try:
            peer = llguidance.Peer(self.vocabulary)
        except ValueError as error:
            report.say(self.console, str(error))
            return {"refusal": "not installed"}
        begun = peer.lark(self.text)
        if begun.error:
            report.say(self.console, f"llguidance refuses the grammar: {begun.error.splitlines()[0]}")
            return {"refusal": begun.error}
        taken = peer.taken(begun.compiled, ids)
        steps, different = peer.differing(begun, fresh(), taken)
        half = len(taken) // 2
        begins = {"equimask": serving.beginning(fresh()), "llguidance": llguidance.beginning_of(begun)}
        for begin in begins.values():
            serving.serve(begin, taken[:half])
        rows = {
            f"{what}, {kind}, {side}": numbers
            for kind in ("new document", "repeated document")
            for side, begin in begins.items()
            for what, numbers in serving.rounds_of([serving.serve(begin, taken[half:])], clock).items()
        }
        self.console.print(serving.rounds_table("the same documents in turn, one round", rows))
        ratios = {
            f"{number}, {kind}": getattr(rows[f"mask, {kind}, llguidance"], number)
            / max(getattr(rows[f"mask, {kind}, equimask"], number), 1e-9)
            for kind in ("new document", "repeated document")
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
            "compile": begun.seconds,
            "tokens": sum(map(len, taken)),
            "steps": steps,
            "different": different,
            "calls": rows,
            "ratios": ratios,
        }
