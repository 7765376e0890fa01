"""How often a mask forbids the model's own next token, along texts that the grammar accepts.

What: documents are cut by a reference tokenizer. In each step, is the next token's bit set? Minimally
invasive masks allow all of these tokens. This is counted for each of our strategies, for plain XGrammar and
llguidance, and for masks that only allow tokens within one terminal (`bench.peers.terminals`).
When: ``python -m bench invasive --schema NAME=FILE --documents NAME=FOLDER --vocabulary FOLDER --json FILE``.
Limits: peers are asked as long as they accept the document: llguidance reads grammars in its own way, and has
its own lexer. Plain XGrammar has no Lark grammars with a lexer. Exits with status 1 if one of our masks
forbids a token of a text that the grammar accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
import typer
from lark import Lark
from rich.progress import track

from bench import options, report
from bench.peers import llguidance, terminals
from bench.reference import (
    DocumentsOption,
    LarksOption,
    Reference,
    SchemasOption,
    Subject,
    asked_for,
    opened,
)
from hybrid import GrammarCompiler, GrammarMatcher, allocate_token_bitmask

STRATEGIES = ("classifier", "representatives", "engine")


@dataclass
class Counted:
    """How many steps were tested, how many tokens were masked, and how many documents were left early."""

    steps: int = 0
    masked: int = 0
    left: int = 0
    documents: int = 0
    first: str = ""

    def add(self, bits: Sequence[bool], whole: bool, name: str) -> None:
        """Count a document: for each of its tokens, whether the mask allowed it."""
        missing = [at for at, bit in enumerate(bits) if not bit]
        if missing and not self.first:
            self.first = f"{name}, token {missing[0]}"
        self.steps, self.masked = self.steps + len(bits), self.masked + len(missing)
        self.documents, self.left = self.documents + 1, self.left + (not whole)


def command(
    vocabulary: options.VocabularyOption,
    documents: DocumentsOption,
    json: options.RecordOption,
    lark: LarksOption = [],  # noqa: B006 - of typer
    schema: SchemasOption = [],  # noqa: B006
    count: Annotated[int, typer.Option(min=1, help="Documents of each grammar.")] = 60,
    most_tokens: Annotated[int, typer.Option(min=1, help="Of a document.")] = 1500,
    seed: options.SeedOption = 0,
) -> None:
    """Measure the share of steps at which a mask forbids the model's own next token."""
    arguments = dict(locals())
    console, used = opened(vocabulary)
    found = asked_for(used, arguments)
    table = report.make_table(
        "own tokens masked",
        ["grammar", "masks of"],
        ["documents", "left early", "steps", "masked", "share, %"],
    )
    rows: list[dict[str, Any]] = []
    wrong = False
    for subject in found:
        for name, ours, follow in maskers(used, subject):
            counted = Counted()
            for number in track(range(len(subject.ids)), name, console=console, transient=True):
                bits, whole = follow(number)
                counted.add(bits, whole, subject.names[number])
            share = 100 * counted.masked / max(counted.steps, 1)
            wrong |= ours and bool(counted.masked or counted.left)
            rows.append({"grammar": subject.name, "masks of": name, "share": share} | vars(counted))
            numbers = (counted.documents, counted.left, counted.steps, counted.masked)
            table.add_row(subject.name, name, *(f"{number:,}" for number in numbers), f"{share:.2f}")
    console.print(table)
    report.write_json(json, {"benchmark": "invasive", **report.environment(arguments), "rows": rows})
    if wrong:
        raise typer.Exit(1)


Follow = Callable[[int], tuple[list[bool], bool]]


def maskers(used: Reference, subject: Subject) -> list[tuple[str, bool, Follow]]:
    """Return what computes masks: a name, whether it is ours, and a function that follows the document of a
    number."""
    found: list[tuple[str, bool, Follow]] = []
    bitmask = allocate_token_bitmask(1, used.vocabulary.size)

    def by_matchers(begin: Callable[[], Any]) -> Follow:
        return lambda number: along(begin(), bitmask, subject.ids[number])

    if subject.kind == "lark":
        found.append(("ours, classifier (Lark)", True, by_matchers(lambda: GrammarMatcher(subject.compiled))))
    else:
        for strategy in STRATEGIES:
            compiled = GrammarCompiler(used.vocabulary, strategy=strategy).compile_json_schema(subject.text)
            name = f"ours, {compiled.strategy}"
            found.append((name, True, by_matchers(lambda one=compiled: GrammarMatcher(one))))  # type: ignore[misc]
        found.append(("XGrammar", False, by_matchers(plain(used, subject))))
    if llguidance.is_installed():
        peer = llguidance.Peer(used.vocabulary)
        begun = peer.lark(subject.text) if subject.kind == "lark" else peer.schema(subject.text)
        if begun.error:
            found.append(
                (f"llguidance refuses: {begun.error.splitlines()[0][:60]}", False, lambda _: ([], False))
            )
        else:
            found.append(("llguidance", False, lambda number: along_calls(begun, subject.ids[number])))
    else:
        found.append(("llguidance is not installed", False, lambda _: ([], False)))
    found.append(("one terminal a token", False, one_terminal(used, subject)))
    return found


def along(matcher: Any, bitmask: torch.Tensor, ids: Sequence[int]) -> tuple[list[bool], bool]:
    """For each token, return whether the mask before it allows it; and whether all tokens were accepted."""
    words, bits = bitmask.numpy()[0], []
    for token in ids:
        matcher.fill_next_token_bitmask(bitmask)
        bits.append(bool(int(words[token >> 5]) >> (token & 31) & 1))
        if not matcher.accept_token(token):
            return bits, False
    return bits, True


def along_calls(begun: Any, ids: Sequence[int]) -> tuple[list[bool], bool]:
    """Do the same for llguidance. The stop token at the end is not tested, because llguidance ends by
    itself."""
    calls, bits = llguidance.beginning_of(begun)(), []
    words = calls.bitmask.numpy()[0]
    for token in ids[:-1]:
        calls.fill()
        bits.append(bool(int(words[token >> 5]) >> (token & 31) & 1))
        if not bits[-1] or not calls.accept(token):
            return bits, False
    return bits, True


def plain(used: Reference, subject: Subject) -> Callable[[], Any]:
    """Return a function that makes plain XGrammar's matchers of a schema."""
    import xgrammar

    compiler = xgrammar.GrammarCompiler(used.vocabulary.tokenizer_info, max_threads=2)
    compiled = compiler.compile_json_schema(subject.text)
    return lambda: xgrammar.GrammarMatcher(compiled)


def one_terminal(used: Reference, subject: Subject) -> Follow:
    """Return the masks that only allow tokens within one terminal; for JSON schemas, with the terminals of
    JSON."""
    from hybrid.cli.shipped import shipped_grammar

    text = subject.text if subject.kind == "lark" else shipped_grammar("json.lark").text
    lexer = Lark(text, parser="lalr", lexer="basic")

    def follow(number: int) -> tuple[list[bool], bool]:
        tokens = [used.vocabulary.tokens[token] for token in subject.ids[number][:-1]]
        return [not bit for bit in terminals.masked(lexer, subject.texts[number], tokens)], True

    return follow
