"""The differential fuzzer: what it generates, and what it finds."""

from __future__ import annotations

import os
import re
import signal
import threading
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from bench.reporting import others
from hybrid import GrammarMatcher
from hybrid.classifier.follower import ClassifierFollower
from tests.robustness.fuzz.__main__ import PLAIN_ALONE, Fuzzer, app
from tests.robustness.fuzz.grammars import Drawn
from tests.robustness.fuzz.inputs import KINDS, SPARSE, Case, draw_case
from tests.robustness.fuzz.run import program, run_case
from tests.robustness.fuzz.walks import Outcome
from tests.robustness.fuzz.workers import Ended, Worker
from tests.versions import READS_STOPS


class Here(Worker):
    """A worker that runs cases in this process."""

    def run(self, case: Case, strategies: tuple[str, ...] | None, *_: Any) -> Outcome:
        return run_case(case, strategies)


# ---- what is drawn


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_gives_its_case_again(kind: str) -> None:
    cases = [draw_case(f"1-{number}", kinds=(kind,)) for number in range(25)]
    assert cases == [draw_case(f"1-{number}", kinds=(kind,)) for number in range(25)]
    assert len({case.drawn.source for case in cases}) > 12
    for case in cases:
        assert case.drawn.kind == kind and case.vocabulary == SPARSE
        assert 2 <= len(case.tokens) - 1 <= 50 and case.drawn.ids <= len(case.tokens)


def test_cases_over_a_real_vocabulary_have_their_share() -> None:
    cases = [draw_case(f"2-{number}", ("tekken", "other.npz"), 0.2) for number in range(300)]
    real = [case for case in cases if case.vocabulary != SPARSE]
    assert 30 < len(real) < 90 and {case.vocabulary for case in real} == {"tekken", "other.npz"}


def test_classes_cross_the_lengths_of_utf8_and_are_repeated() -> None:
    """These were once wrong on representatives: classes after calls, negated, overlapping, counted."""
    sources = "".join(draw_case(f"3-{number}", kinds=("ebnf",)).drawn.source for number in range(600))
    assert re.search(r"root ::= \(\(\[[^\n]*\)\|\[[^\n]*\)\{\d\}", sources)
    for wanted in (r"\[\^[^]]*\\u0800", r"-\\U00010000\]", r"\]\{4,7\}", r"\]\{(0,140|129|130,|100,200)\}"):
        assert re.search(wanted, sources), wanted


# ---- what is found


WORDS = Case(
    "by hand",
    Drawn("ebnf", "ebnf", 'root ::= ("ab" [a-z] | "c" | other)+\nother ::= "é" root?\n', ()),
    tokens=(b"a", b"b", b"ab", b"abz", b"c", b"cc", "é".encode(), b"\xc3", b"x", b"abzab", b""),
    stops=(10,),
)


@pytest.mark.parametrize("strategy", ["representatives", "classifier"])
def test_a_planted_wrong_bit_is_found(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill = GrammarMatcher.fill_next_token_bitmask

    def flipped(self: Any, bitmask: Any, index: int = 0, **options: Any) -> bool:
        """The bit of "cc" is wrong where a text may end."""
        fill(self, bitmask, index, **options)
        if self.compiled_grammar.strategy == strategy and self.is_completed():
            np.asarray(bitmask)[index, 0] ^= 1 << list(self.compiled_grammar.vocabulary.tokens).index(b"cc")
        return True

    monkeypatch.setattr(GrammarMatcher, "fill_next_token_bitmask", flipped)
    outcome = run_case(WORDS)
    assert outcome.wrong[strategy] > 0 and not outcome.wrong["engine"] and not outcome.other
    finding = outcome.findings[0]
    assert finding.what == "bit" and WORDS.tokens[finding.token] == b"cc"
    printed: list[Any] = []
    exec(program(WORDS, finding), {"print": printed.append})
    ((again,),) = printed
    assert again == finding


def test_a_planted_error_is_counted_and_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClassifierFollower, "is_completed", lambda self: 1 // 0)
    fuzzer = Fuzzer(60.0)
    fuzzer.run(Here(), WORDS)
    assert {found["what"] for found in fuzzer.found} == {"error"}
    assert "ZeroDivisionError" in fuzzer.found[0]["text"]


def test_what_xgrammar_contradicts_after_a_hand_over_is_not_ours() -> None:
    """Token 0 is read as an id and by its text; then XGrammar's masks disagree with its `accept_token`."""
    source = """root ::= Token(0) q | [^\\u00e0-\\u4e2d]?
p ::= Token(1) Token(2) | [\\x0c-\\u20ac]{129}
q ::= p
"""
    drawn = Drawn("token_ids", "ebnf", source, (), ids=3)
    case = Case("both ways", drawn, tokens=("\xde".encode(), b"", b"", b"]\x0c", b""), stops=(4,), walks=20)
    outcome = run_case(case)
    assert not outcome.findings and not outcome.other
    assert outcome.contradictions["plain"] and outcome.contradictions["classifier"]


@pytest.mark.skipif(READS_STOPS, reason="XGrammar from 0.2.9 on reads stop tokens as text")
def test_stop_tokens_that_are_text_are_no_error() -> None:
    options = {"override_stop_tokens": [1], "terminate_without_stop_token": True}
    drawn = Drawn("ebnf", "ebnf", 'root ::= "a" "b"*\n', ())
    case = Case("by hand", drawn, tokens=(b"a", b"b", b"ab", b""), stops=(0,), options=options)
    outcome = run_case(case)
    assert outcome.masks["classifier"] > 10 and not outcome.findings


def test_what_is_refused_is_counted_by_name() -> None:
    endless = replace(WORDS, drawn=Drawn("ebnf", "ebnf", "root ::= root{2}\n", ()))
    outcome = run_case(endless)
    assert {name for _, name, _ in outcome.refusals} == {"GrammarError"} and not outcome.findings


CASES = {"ebnf": 30, "token_ids": 30, "lark": 12}
"""How many cases of a kind; 6 if it is not named here. Lark refuses half of its own."""


def reads_stops(case: Case) -> bool:
    """Whether an XGrammar that reads stop tokens as text has other masks for a case."""
    stops = case.options.get("override_stop_tokens", case.stops)
    return "terminate_without_stop_token" in case.options or any(case.tokens[stop] for stop in stops)


@pytest.mark.kernels
@pytest.mark.parametrize("kind", KINDS)
def test_a_short_run_finds_nothing(kind: str) -> None:
    """Matchers of all strategies behave as XGrammar's, or as Lark, under random calls."""
    fuzzer = Fuzzer(60.0)
    cases = [draw_case(f"7-{number}", kinds=(kind,)) for number in range(CASES.get(kind, 6))]
    cases = [case for case in cases if not READS_STOPS or not reads_stops(case)]
    for case in cases:
        fuzzer.run(Here(), case)
    assert not fuzzer.found, fuzzer.found[0]["text"]
    assert fuzzer.cases == len(cases) and fuzzer.sum("masks") > 100
    table = others.fuzz("fuzz", fuzzer.record())
    assert [row[0].text for row in table.rows] == [kind]


# ---- processes


class Ending(Worker):
    """A worker in which a case ends in one way, and the peer alone in another, or quickly (None)."""

    def __init__(self, whole: Ended, alone: Ended | None) -> None:
        super().__init__()
        self.whole, self.alone = whole, alone

    def run(self, case: Case, strategies: tuple[str, ...] | None, *_: Any) -> Outcome:
        error = self.alone if strategies == PLAIN_ALONE else self.whole
        if error is not None:
            raise error
        return run_case(case, strategies)


HUNG, CRASHED = Ended("Timeout"), Ended("Fatal Python error")


@pytest.mark.parametrize(
    ("whole", "alone", "ours"),
    [
        (HUNG, HUNG, False), (HUNG, None, True), (HUNG, CRASHED, False),
        (CRASHED, CRASHED, False), (CRASHED, None, True), (CRASHED, HUNG, True),
    ],
)  # fmt: skip
def test_whose_a_hang_or_crash_is(whole: Ended, alone: Ended | None, ours: bool) -> None:
    fuzzer = Fuzzer(60.0)
    fuzzer.run(Ending(whole, alone), WORDS)
    assert [found["what"] for found in fuzzer.found] == ([whole.what] if ours else [])
    assert fuzzer.cases == 1 and len(fuzzer.slow_peers) + len(fuzzer.peer_crashes) == (not ours)


@pytest.mark.slow
def test_children_run_cases_and_are_ended() -> None:
    with closing(Worker()) as worker:
        outcome = worker.run(WORDS, None, 120.0)
        assert outcome.masks["auto"] > 20 and not outcome.findings
        endless = replace(WORDS, walks=10**6)
        # a stack that changes while it is written may be cut
        with pytest.raises(Ended, match="File ") as hung:
            worker.run(endless, None, 1.0, 60.0)
        assert hung.value.what == "hang"
        assert worker.run(WORDS, PLAIN_ALONE, 120.0).masks["plain"] > 20
        (process,) = worker._pool._processes
        threading.Timer(1.0, os.kill, (process, signal.SIGSEGV)).start()
        with pytest.raises(Ended, match="File ") as crashed:
            worker.run(endless, None, 120.0)
        assert crashed.value.what == "crash"


def test_the_command_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr("tests.robustness.fuzz.__main__.Worker", Here)

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(app, [*arguments, "--real-share", "0"])

    record = tmp_path / "found.json"
    result = run("--cases", "3", "--jobs", "2", "--seed", "8", "--kind", "regex", "--json", str(record))
    assert result.exit_code == 0 and "3 cases in" in result.output and record.exists()
    again = run("--only", "8-0", "--kind", "regex")
    assert again.exit_code == 0 and "1 cases in" in again.output
    assert run().exit_code == run("--cases", "1", "--kind", "prose").exit_code == 2
    monkeypatch.setattr(ClassifierFollower, "is_completed", lambda self: 1 // 0)
    assert run("--only", "8-0", "--kind", "regex").exit_code == 1
