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
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from lark import Lark
from rich.console import Console
from rich.progress import track

from bench import build_cost, lark_checks, options, report, server_times, workloads
from bench.documents import CUTS, Source, parsable, read_sources
from bench.lark_judge import Judge
from bench.peers import llguidance
from bench.reporting.answers import publish
from hybrid import CompiledGrammar

PEER_FILES = 60
"""Files for llguidance."""


def grammar_texts(values: list[str]) -> dict[str, str]:
    """Read grammars by their names: files, or those of the package.

    Raises:
        ValueError: there is none.
    """
    from equivalence.errors import GrammarError
    from hybrid.cli.shipped_grammars import shipped_grammar

    found: dict[str, str] = {}
    for value in values:
        if "=" in value:
            found |= {
                name: workloads.read_text(path)
                for name, path in workloads.named([value], "--grammar").items()
            }
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
        typer.Option(help="NAME=PATH: folder with files *.NAME; repeatable."),
    ],
    vocabulary: options.VocabulariesOption,
    json: options.RecordOption,
    count: Annotated[int, typer.Option(min=1, help="Files for each grammar.")] = 300,
    judged_files: Annotated[int, typer.Option(min=0, help="Files whose masks Lark judges.")] = 50,
    judged_steps: Annotated[int, typer.Option(min=0, help="Masks of each; 0 takes all.")] = 40,
    refused: Annotated[int, typer.Option(min=0, help="Refused tokens of each mask.")] = 200,
    allowed: Annotated[int, typer.Option(min=0, help="Allowed tokens of each mask.")] = 10,
    rounds: options.RoundsOption = 6,
    batch: options.BatchOption = 64,
    builds: options.BuildsOption = 3,
    seed: options.SeedOption = 0,
) -> None:
    """Measure Lark grammars: files, tokens judged by Lark, masks, building; compared with llguidance's
    masks."""
    arguments = {name: value for name, value in locals().items() if name not in ("grammar", "documents")}
    console = report.make_console()
    with workloads.usage_errors():
        texts = grammar_texts(grammar)
        paths = workloads.named(documents, "--documents")
        for name in texts.keys() - paths.keys():
            raise ValueError(f"the grammar {name!r} has no documents: give --documents {name}=PATH")
        tokens = {workloads.short_name(spec): (spec, workloads.load_vocabulary(spec)) for spec in vocabulary}
    rows = []
    for name, text in texts.items():
        lark = Lark(text, parser="lalr", lexer="basic")
        with console.status(f"{name}: Lark parses files"), workloads.usage_errors():
            files, seen = parsable(lark, read_sources(paths[name], f".{name}", seed), count)
            if not files:
                raise ValueError(f"Lark parses no file of {paths[name]} by the grammar {name!r}")
        report.say(console, f"{name}: Lark parses {len(files):,} of {seen:,} files seen")
        for short, (spec, one) in tokens.items():
            console.rule(f"{name}, {short}")
            judged = (judged_steps, refused, allowed)
            case = _Case(console, text, lark, files, spec, one, judged_files, judged, seed)
            row = {"grammar": name, "vocabulary": short, "load_average": report.load_average()}
            rows.append(row | case.measure(rounds, batch, builds))
            report.write_json(json, {"benchmark": "lark", "rows": rows})  # the next ones take minutes each
    publish(console, json, "lark", arguments, {"rows": rows}, all(row["exact"] for row in rows))


@dataclass
class _Case:
    """One grammar on one vocabulary; `judged`: how many masks of a file are judged, and tokens refused and
    allowed by each."""

    console: Console
    text: str
    lark: Lark
    files: list[Source]
    spec: str
    vocabulary: Any
    judged_files: int
    judged: tuple[int, int, int]
    seed: int

    def measure(self, rounds: int, batch: int, builds: int) -> dict[str, Any]:
        """Measure everything that is asked for, and return it for the record."""
        found: dict[str, Any] = {}
        compile_with = partial(build_cost.lark, self.text)
        compiler = workloads.hybrid_compiler(self.vocabulary, "auto", 1)
        if builds:
            found["building"] = build_cost.measure_building(self.spec, compile_with, builds, "auto")
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
            found |= server_times.measure_calls(self.console, {"": fresh}, ids, rounds, batch, self.seed)
            found["llguidance"] = self._peer(fresh, ids[:PEER_FILES], found["clock"])
        return found

    def _check(self, compiled: Any, cuts: list[list[list[int]]]) -> dict[str, Any]:
        """Follow files, and ask Lark about tokens."""
        followed = [
            lark_checks.follow(compiled, self.files[number].name, ids, cut)
            for number in self._track(len(cuts), "files")
            for cut, ids in zip(CUTS, cuts[number], strict=True)
        ]
        failed = [item for item in followed if item.failure]
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
            f"judged by Lark, {judged.steps:,} masks of {judged_files} files: of the refused tokens, "
            f"{judged.not_text:,} are no text, and {len(judged.unclosed)} leave an opening unclosed",
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

    def _peer(self, fresh: server_times.Fresh, ids: list[list[int]], clock: float) -> dict[str, Any]:
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
        begins = {"equimask": server_times.beginning(fresh()), "llguidance": llguidance.beginning_of(begun)}
        for begin in begins.values():
            server_times.serve(begin, taken[:half])
        rows = {
            f"{what}, {kind}, {side}": numbers
            for kind in ("new document", "repeated document")
            for side, begin in begins.items()
            for what, numbers in server_times.rounds_of(
                [server_times.serve(begin, taken[half:])], clock
            ).items()
        }
        report.say(
            self.console,
            f"llguidance takes {sum(map(len, taken)):,} of {sum(map(len, ids)):,} tokens; masks differ at "
            f"{different:,} of {steps:,} steps (another lexer)",
        )
        return {
            "refusal": "", "compile": begun.seconds, "tokens": sum(map(len, taken)), "steps": steps,
            "different": different, "calls": rows,
        }  # fmt: skip
