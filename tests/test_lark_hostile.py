"""Lark grammars from untrusted users: a result or a clear error in time, and bounded memory in this process.

What: grammars for which Lark, `re` or the lexer would need minutes or gigabytes, under a small budget;
answers from the process that tries them; compiling without such a process.
When: after any change of `hybrid.lark`, of `hybrid.guard`, or with another version of Lark.
Limits: Linux. Bounds on time are loose, because other programs may share the machine.
"""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Iterator

import pytest

from equivalence import BudgetExceeded, GrammarError, HybridError, UnsupportedGrammar
from equivalence.deadline import Deadline
from hybrid import Budget, GrammarCompiler, GrammarMatcher
from hybrid.cli.shipped_grammars import shipped_grammar
from hybrid.guard import Guard, worker
from hybrid.guard.lark_construction import answer, construct
from hybrid.guard.lark_serialisation import deserialised
from hybrid.guard.process import is_lost_for_memory
from hybrid.testing.mask_comparison import flags_of
from hybrid.xgrammar.messages import MESSAGE_CHARACTERS
from tests.classifiers import vocabulary_of
from tests.lark_oracle import SMALL_GRAMMARS
from tests.test_lexing import same

needs_process = pytest.mark.skipif(not worker.is_available(), reason="needs Linux")

SECONDS, LATE_SECONDS = 1.0, 15.0
"""Seconds of the budget, and the time limit on a busy machine."""

MEMORY = 300 * 2**20
"""Bytes that this process may use for any of them."""

VOCABULARY = vocabulary_of([*(bytes([byte]) for byte in range(256)), b"ab", b"if", b"  ", b"aaaaaaaa"])
START = "start: A\nA: "


def doubled(count: int) -> str:
    """A grammar whose parser has to remember which of the last letters were an "a"."""
    rules = [f'a{n}: ("a" | "b") a{n + 1}' for n in range(count)]
    return "\n".join(['start: "a" start | "b" start | "a" a0', *rules, f'a{count}: "c"'])


def numbered(count: int, text: str, between: str = " | ") -> str:
    """The text with each number in place of ``#``."""
    return between.join(text.replace("#", str(n)) for n in range(count))


def twice(count: int, last: str) -> str:
    """A terminal that uses the next one twice, and so on."""
    return f"start: A0\nA{count}: {last}\n" + "\n".join(f"A{n}: A{n + 1} A{n + 1}" for n in range(count))


def class_of_characters(n: int) -> str:
    return f"[{chr(256 + n)}{chr(12288 + n)}-{chr(12544 + 2 * n)}]"


WORDS = "|".join("".join(random.Random(n).choices("abcdefgh", k=6)) for n in range(2500))

HOSTILE = {
    "optional parts": "start: " + numbered(20, '"#"?', " "),
    "placeholders": "start: " + numbered(20, '["#"]', " "),
    "stars": "start: " + numbered(200, '"#"*', " "),
    "groups": "start: " + numbered(2000, '("a#" | "b#")', " "),
    "repeats of groups": 'start: ("a" | "b" | "c")~1..40',
    "repeats in repeats": "start: (((((A~9)~9)~9)~9)~9)~49\nA: /a/",
    "optional parts of a template": "start: t{A}\nt{x}: " + "x? " * 20 + "\nA: /a/",
    "templates without end": "start: t{A}\nt{x}: x t{u{x}}\nu{x}: x\nA: /a/",
    "templates that double": "start: t{A}\nt{x}: x t{u{x, x}}\nu{x, y}: x y\nA: /a/",
    "templates of empty bodies": "start: t{A}\nt{x}: t{u{x}}" + " x~0" * 3000 + "\nu{x}: x\nA: /a/",
    "terminals in terminals": twice(40, '"a"'),
    "imported terminals in terminals": "%import common.NUMBER\n" + twice(40, "NUMBER"),
    "a chain of terminals": 'start: A0\nA2000: "a"\n' + "\n".join(f'A{n}: "b" A{n + 1}' for n in range(2000)),
    "what is ignored": 'start: "b"\n%ignore ' + "A " * 1000 + "\nA: " + '"abc" ' * 1000,
    "statements": "start: s+\ns: " + numbered(3000, '"a#" "b#" s'),
    "a parser with doubled states": doubled(40),
    "alternatives that end in themselves": "start: " + numbered(600, '"x#" start') + ' | "z"',
    "brackets of many kinds": "start: " + numbered(250, '"o#" start "c#"') + ' | start start | "x"',
    "empty rules": "start: " + numbered(300, "a#", " ") + numbered(300, '\na#: "x" | "y" a# |', ""),
    "a keyword that backtracks": f'start: KEY NAME\nKEY: "{"a" * 40}!"\nNAME: /(a+)+b/',
    "a keyword that backtracks twice": f'start: KEY NAME\nKEY: "{"a" * 60}!"\nNAME: /(a|aa)+$/',
    "many stars on a keyword": f'start: KEY NAME\nKEY: "{"ab" * 400}!"\nNAME: /(.*,){{20}}x/',
    "an exponential lexer": START + "/(a|b)*a(a|b){18}c/",
    "repeats in repeats of a pattern": START + "/((a{1,20}){1,20}){1,20}b/",
    "any characters in repeats": START + "/(.{1,50}){1,50}x/",
    "classes of characters": f"{START}/{''.join(map(class_of_characters, range(6000)))}/",
    "letters of any case": f"{START}/{''.join(map(chr, range(256, 9256)))}/i",
    "look-ahead in repeats": START + "/((?!ab)(?=.{0,30}x).){1,50}y/",
    "groups in groups": f"{START}/{'(?:' * 300}a{'b?)' * 300}/",
    "groups in too many groups": f"{START}/{'(?:' * 3000}a{'b?)' * 3000}/",
    "lexemes given back": 'start: (A|B|C|D|E)*\nA: /[a-d]+x/\nB: /[a-b]/\nC: /[b-d]{2}/\n'
    'D: /([a-d]|x)*y/\nE: /"(.|\\n)*?"/',
    "words": START + f"/{WORDS}/",
    "keywords": "start: NAME | " + numbered(800, '"k#"') + "\nNAME: /[a-z0-9]+/",
    "many rules": numbered(30_000, 'r#: "a" r#', "\n") + '\nstart: r0 | "z"',
    "a long comment": "start: A\n" + "// x\n" * 190_000 + 'A: "a"',
}  # fmt: skip


@pytest.fixture(scope="module")
def warm() -> Iterator[GrammarCompiler]:
    """A compiler that has loaded the kernels, and that keeps the other process alive."""
    with GrammarCompiler(VOCABULARY, cache_enabled=False) as compiler:
        compiler.compile_lark('start: "a" A\nA: /[b-z]+/')
        yield compiler


@needs_process
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_grammar_ends_in_time(text: str, warm: GrammarCompiler) -> None:
    compiler = GrammarCompiler(VOCABULARY, cache_enabled=False, budget=Budget(seconds=SECONDS))
    memory, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    try:
        matcher = GrammarMatcher(compiler.compile_lark(text))
    except (BudgetExceeded, GrammarError, UnsupportedGrammar):
        pass
    else:
        for token in (97, 98, 120):
            flags_of(matcher)
            matcher.accept_token(token)
    assert time.monotonic() - began < SECONDS + LATE_SECONDS
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) * 1024 < MEMORY
    assert warm.compile_lark('start: "b"').strategy == "classifier"


@needs_process
def test_what_takes_too_much_memory_is_ended_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hybrid.guard.CONVERT_BYTES", 20 * 2**20)
    with pytest.raises(BudgetExceeded, match="too much memory"):
        Guard(Budget()).lark("start: " + numbered(400, '"x#" start') + ' | "z"', "start", Deadline(60))
    monkeypatch.undo()
    with pytest.raises(BudgetExceeded, match="too much memory"):
        Guard(Budget(bytes=1000)).lark('start: "a"', "start", Deadline(60))


def test_a_lost_error_about_memory_is_known() -> None:
    lost = SystemError("<function LALR_Parser.__init__> returned NULL without setting an exception")
    assert is_lost_for_memory(lost)
    assert not is_lost_for_memory(SystemError("bad argument to internal function"))
    assert not is_lost_for_memory(ValueError("a rule without an exception"))


@needs_process
def test_the_other_process_raises_the_same_errors() -> None:
    guard = Guard(Budget())
    for text, error, message in (
        ("start: (", GrammarError, "Lark refuses the grammar"),
        ("start: X\n%declare X", UnsupportedGrammar, "declared terminal X"),
        ("start: " + "x" * (1 << 20), GrammarError, "characters, but the limit is .*; shorten it"),
    ):
        with pytest.raises(error, match=message):
            guard.lark(text, "start", Deadline(60))
        with pytest.raises(error, match=message):
            construct(text, "start", 50_000)
    with pytest.raises(BudgetExceeded, match="more than 5 states"):
        Guard(Budget(states=5)).lark('start: "abcdefghi"', "start", Deadline(60))


@pytest.mark.parametrize("text", ["start: {}", "%declare {}\nstart: {}", "start: {}\n{}: /^a/"])
def test_long_names_are_cut_in_messages(text: str, warm: GrammarCompiler) -> None:
    with pytest.raises(HybridError) as refused:
        warm.compile_lark(text.replace("{}", "A" * 50_000))
    assert len(str(refused.value)) < MESSAGE_CHARACTERS + 10


def test_parsers_with_too_many_states_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    construct('start: "a"', "start", 1000)  # Lark makes its parser of grammars once
    monkeypatch.setattr("hybrid.guard.lark_construction.MOST_STATES", 30)
    with pytest.raises(BudgetExceeded, match="Lark's parser has more than 30 states"):
        deserialised(answer(doubled(8), "start", 1000))
    assert deserialised(answer('start: "a"', "start", 1000)).machine.n_states < 30


def test_no_package_is_asked_for_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lark asks `interegular` for terminals that match the same text, and it fails on word boundaries."""
    monkeypatch.setattr("lark.lexer.has_interegular", True)
    assert construct("start: A B\nA: /a\\b/\nB: /b\\b/", "start", 100).lexer.terminals == ("A", "B")


def test_without_another_process_it_is_made_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "is_available", lambda: False)
    text = shipped_grammar("arithmetic.lark").text
    assert GrammarCompiler(VOCABULARY).compile_lark(text).strategy == "classifier"
    for refused in ("start: (", "start: /a{4294967296}/"):
        with pytest.raises(GrammarError, match="Lark refuses"):
            GrammarCompiler(VOCABULARY).compile_lark(refused)


@needs_process
def test_it_is_the_same_wherever_it_is_made() -> None:
    texts = [grammar.text for grammar in SMALL_GRAMMARS]
    texts += [shipped_grammar(name).text for name in ("arithmetic.lark", "json.lark")]
    for text in texts:
        here = construct(text, "start", 50_000)
        there = Guard(Budget()).lark(text, "start", Deadline(60))
        assert same(here.lexer, there.lexer) and same(here.machine, there.machine), text
