"""How often a mask forbids the model's own next token, along texts that the grammar accepts.

What: documents are cut by a reference tokenizer. In each step, is the next token's bit set? Minimally
invasive masks allow all of these tokens. This is counted for each of our strategies, for plain XGrammar and
llguidance, and for masks that only allow tokens within one terminal (`spanning`). Nobody uses such masks:
they are what "greedy" constraining means where its cost is discussed (Beurer-Kellner et al., "Guiding LLMs
The Right Way", ICML 2024).
When: ``python -m bench invasive --schema NAME=FILE --documents NAME=FOLDER --vocabulary FOLDER --json FILE``.
Limits: peers are asked as long as they accept the document: llguidance reads grammars in its own way, and has
its own lexer. Plain XGrammar has no Lark grammars with a lexer. Exits with status 1 if one of our masks
forbids a token of a text that the grammar accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer
import xgrammar
from lark import Lark
from rich.progress import track

from bench import options, workloads
from bench.peers import llguidance
from bench.reference import DocumentsOption, LarksOption, Reference, SchemasOption, Subject, asked_for, opened
from bench.reporting.answers import publish
from bench.request import Calls, calls_of
from bench.server_times import Begin, beginning
from hybrid import GrammarCompiler, allocate_token_bitmask

STRATEGIES = ("classifier", "representatives", "engine")


@dataclass
class Counted:
    """How many steps were tested, how many tokens were masked, and how many documents were left early."""

    steps: int = 0
    masked: int = 0
    left: int = 0
    documents: int = 0

    def add(self, bits: Sequence[bool], whole: bool) -> None:
        """Count a document: for each of its tokens, whether the mask allowed it."""
        self.steps, self.masked = self.steps + len(bits), self.masked + bits.count(False)
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
    rows: list[dict[str, Any]] = []
    wrong = False
    for subject in found:
        for name, ours, follow in maskers(used, subject):
            counted = Counted()
            for number in track(range(len(subject.ids)), name, console=console, transient=True):
                counted.add(*follow(number))
            wrong |= ours and bool(counted.masked or counted.left)
            rows.append({"grammar": subject.name, "masks of": name} | vars(counted))
    publish(console, json, "invasive", arguments, {"rows": rows}, not wrong)


Follow = Callable[[int], tuple[list[bool], bool]]


def maskers(used: Reference, subject: Subject) -> list[tuple[str, bool, Follow]]:
    """Return what computes masks: a name, whether it is ours, and a function that follows the document of a
    number."""
    found: list[tuple[str, bool, Follow]] = []

    def add(name: str, begin: Begin, is_ours: bool = False, end: int | None = None) -> None:
        found.append((name, is_ours, lambda number: along(begin(), subject.ids[number][:end])))

    if subject.kind == "lark":
        add("ours, classifier (Lark)", beginning(subject.compiled), is_ours=True)
    else:
        for strategy in STRATEGIES:
            compiled = GrammarCompiler(used.vocabulary, strategy=strategy).compile_json_schema(subject.text)
            add(f"ours, {compiled.strategy}", beginning(compiled), is_ours=True)
        plain = workloads.plain_compiler(used.vocabulary, 2, cache=True).compile_json_schema(subject.text)
        bitmask = allocate_token_bitmask(1, used.vocabulary.size)
        add("XGrammar", lambda: calls_of(xgrammar.GrammarMatcher(plain), bitmask))
    if llguidance.is_installed():
        peer = llguidance.Peer(used.vocabulary)
        begun = peer.lark(subject.text) if subject.kind == "lark" else peer.schema(subject.text)
        if begun.error:
            refusal = f"llguidance refuses: {begun.error.splitlines()[0][:60]}"
            found.append((refusal, False, lambda _: ([], False)))
        else:  # the stop token at the end is not tested, because llguidance ends by itself
            add("llguidance", llguidance.beginning_of(begun), end=-1)
    found.append(("one terminal a token", False, one_terminal(used, subject)))
    return found


def along(calls: Calls, ids: Sequence[int]) -> tuple[list[bool], bool]:
    """For each token, return whether the mask before it allows it; and whether all tokens were accepted."""
    words, bits = calls.bitmask.numpy()[0], []
    for token in ids:
        calls.fill()
        bits.append(bool(int(words[token >> 5]) >> (token & 31) & 1))
        if not calls.accept(token):
            return bits, False
    return bits, True


def one_terminal(used: Reference, subject: Subject) -> Follow:
    """Return the masks that only allow tokens within one terminal; for JSON schemas, with the terminals of
    JSON."""
    from hybrid.cli.shipped_grammars import shipped_grammar

    text = subject.text if subject.kind == "lark" else shipped_grammar("json.lark").text
    lexer = Lark(text, parser="lalr", lexer="basic")

    def follow(number: int) -> tuple[list[bool], bool]:
        tokens = [used.vocabulary.tokens[token] for token in subject.ids[number][:-1]]
        return [not bit for bit in spanning(lexer, subject.texts[number], tokens)], True

    return follow


def spanning(lark: Lark, text: str, tokens: Sequence[bytes]) -> list[bool]:
    """For each token of a text, return whether one terminal ends and another begins inside of it.

    Args:
        lark: a grammar that lexes the text, with the basic lexer.
        text: a document.
        tokens: the bytes of its tokens, which spell it.
    """
    ends = set()  # the places between terminals, in bytes
    places = [0]
    for character in text:
        places.append(places[-1] + len(character.encode()))
    for terminal in lark.lex(text, dont_ignore=True):
        ends |= {places[terminal.start_pos or 0], places[terminal.end_pos or 0]}
    found, at = [], 0
    for token in tokens:
        found.append(any(place in ends for place in range(at + 1, at + len(token))))
        at += len(token)
    return found
