"""Directed texts lead where they say, and the search for separating stacks says what masks say."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import xgrammar
from typer.testing import CliRunner

from bench.__main__ import app
from bench.directed import BOTTOM, Automata, Prefixes
from bench.separation import NOT_READ, OPEN, READ, VERDICTS, Reader, Separation, Stacks
from equivalence import Vocabulary
from equivalence.network import Network, build_network
from hybrid import GrammarCompiler

STOP = 256
TOKENS = [bytes([value]) for value in range(256)] + [b"", b"((", b"))", b"1+", b"),", b"))+1", b"ab", b"aba"]
VOCABULARY = Vocabulary.from_bytes(TOKENS, stop_token_ids=[STOP])

GRAMMARS = {
    "nested": 'root ::= sum\nsum ::= sum "+" atom | atom\natom ::= "(" sum ")" | [0-9]+',
    "brackets": 'root ::= "(" root ")" | [0-9]+',
    "counted": 'root ::= "<" pair{2,9} ">" root?\npair ::= [a-c]{5,70} ("," | "(" pair{0,12} ")")',
    "calls": 'root ::= ("f(" list ")" | "[" list "]")*\nlist ::= item ("," item)*\nitem ::= [a-z]+ | root',
    "text": r'root ::= "\"" ([^"\\] | "\\" ["\\n])* "\"" (" é" root)?',
}


@cache
def prepared(name: str) -> tuple[Network, Automata, xgrammar.CompiledGrammar]:
    grammar = xgrammar.Grammar.from_ebnf(GRAMMARS[name])
    network = build_network(grammar, token_bytes=VOCABULARY.trie.longest)
    plain = xgrammar.GrammarCompiler(VOCABULARY.tokenizer_info).compile_grammar(grammar)
    return network, Automata(network), plain


@pytest.mark.parametrize("name", GRAMMARS)
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_texts_are_texts_of_the_grammar(name: str, depth: int) -> None:
    _, automata, plain = prepared(name)
    found = Prefixes(automata).all(depth, most=3000)
    assert len(found) > len(automata.final) // 2
    for text in set(found.values()):
        assert xgrammar.GrammarMatcher(plain).accept_string(text), text


@pytest.mark.parametrize("name", GRAMMARS)
def test_a_text_to_one_stack_leads_to_it(name: str) -> None:
    """A token that is read on the stack, whatever lies below what is known of it, is read after the text."""
    _, automata, plain = prepared(name)
    prefixes, reader = Prefixes(automata), Reader(automata)
    read = 0
    for stack in Prefixes(automata).all(2, most=400):
        text = prefixes.one(*stack)
        assert text is not None, stack
        for token in TOKENS:
            if token and reader.answer(stack, token) == READ:
                matcher = xgrammar.GrammarMatcher(plain)
                assert matcher.accept_string(text + token), (stack, text, token)
                read += 1
    assert read > 100


@pytest.mark.parametrize("name", GRAMMARS)
def test_the_first_stack_reads_what_the_first_mask_allows(name: str) -> None:
    _, automata, plain = prepared(name)
    reader = Reader(automata)
    for token_id, token in enumerate(TOKENS):
        if token:
            answer = reader.answer((automata.start, (BOTTOM,)), token)
            assert answer in (READ, NOT_READ)
            matcher = xgrammar.GrammarMatcher(plain)
            assert matcher.accept_token(token_id) == (answer == READ), token


def test_a_stack_that_cannot_be_reached() -> None:
    _, automata, _ = prepared("brackets")
    prefixes = Prefixes(automata)
    returns = {symbol for _, below in prefixes.all(1) for symbol in below if symbol != BOTTOM}
    assert len(returns) == 1, "only a bracket has something to return to"
    (back,) = returns
    assert prefixes.one(automata.start, (BOTTOM,)) == b""
    assert prefixes.one(automata.start, (back, BOTTOM)) == b"("
    assert prefixes.one(automata.start, (back, back, back)) == b"((("
    assert prefixes.one(back[0], (back,)).startswith(b"((")
    assert prefixes.one(automata.start, (BOTTOM, back)) is None


def test_what_lies_below_may_matter() -> None:
    _, automata, _ = prepared("brackets")
    reader = Reader(automata)
    (back,) = {symbol for _, below in Prefixes(automata).all(1) for symbol in below if symbol != BOTTOM}
    (after_digit,) = {row[2] for edges in automata.edges for row in edges if row[0] <= ord("1") <= row[1]}
    assert reader.answer((after_digit, ()), b"))") == OPEN
    assert reader.answer((after_digit, (back,)), b"))") == OPEN
    assert reader.answer((after_digit, (back, back)), b"))") == READ
    assert reader.answer((after_digit, (back, BOTTOM)), b"))") == NOT_READ
    assert reader.answer((after_digit, ()), b"a") == OPEN, "anything may lie below"
    assert reader.answer((automata.start, ()), b"a)") == NOT_READ, "nothing is returned to yet"


def test_verdicts() -> None:
    """Words beside any other word are hidden; tokens that masks tell apart are apart."""
    text = 'root ::= ("if" | "in" | [a-z]+) " " number\nnumber ::= [0-9] number? | "(" number ")"'
    grammar = xgrammar.Grammar.from_ebnf(text)
    tokens = [b"f", b"n", b"z", b" ", b"1", b")", b"))", b"i", b"(", b""]
    vocabulary = Vocabulary.from_bytes(tokens, stop_token_ids=[9])
    compiled = GrammarCompiler(vocabulary, strategy="representatives").compile_grammar(grammar)
    network = build_network(grammar, token_bytes=vocabulary.trie.longest)
    separation = Separation(network, compiled, vocabulary, 0)
    number = {token: compiled.classes.class_of_token[place] for place, token in enumerate(tokens)}
    assert separation.verdict(number[b")"], number[b"))"]) == "apart"
    assert separation.verdict(number[b"1"], number[b")"]) == "apart"
    one, other = number[b"f"], number[b"n"]
    assert one == other or separation.verdict(one, other) in ("hidden", "apart")


@pytest.mark.parametrize("name", GRAMMARS)
def test_tops_and_longer_stacks_are_there(name: str) -> None:
    network, automata, _ = prepared(name)
    stacks = Stacks(network, automata)
    assert {top for (top, _), _ in stacks.tops} >= {automata.start}
    for stack, below in stacks.tops:
        for longer, _ in stacks.longer(stack, below):
            assert longer[1][: len(stack[1])] == stack[1] and len(longer[1]) == len(stack[1]) + 1


def test_the_command(tmp_path: Path) -> None:
    vocabulary, grammar, target = tmp_path / "made.npz", tmp_path / "made.gbnf", tmp_path / "out.json"
    VOCABULARY.save(vocabulary)
    grammar.write_text(GRAMMARS["nested"])
    arguments: list[Any] = ["separation", "--vocabulary", vocabulary, "--grammars", grammar, "--json", target]
    arguments += ["--walks", 1, "--walk-steps", 3, "--pairs", 20]
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    (row,) = json.loads(target.read_text())["rows"]
    assert row["classes"] >= row["directed_bound"] >= row["bound"] > 0
    assert set(row["verdicts"]) == set(VERDICTS)
    assert sum(row["verdicts"].values()) == min(20, row["pairs_alike"])
    assert row["split"] == []


def test_a_grammar_without_explored_classes_is_refused(tmp_path: Path) -> None:
    vocabulary, grammar = tmp_path / "made.npz", tmp_path / "made.gbnf"
    VOCABULARY.save(vocabulary)
    grammar.write_text('root ::= Token(3) "a"')
    done = CliRunner().invoke(
        app,
        [
            "separation",
            "--vocabulary",
            str(vocabulary),
            "--grammars",
            str(grammar),
            "--json",
            str(tmp_path / "o"),
        ],
    )
    assert done.exit_code == 2
    assert "has classes by byte strings" in done.output.replace("\n", " ")
