"""The size to which a Lark grammar expands: counts compared with Lark's own, and refusals of grammars that
would not end.

What: examples counted by hand and by Lark, random grammars; grammars that explode.
When: after any change of `hybrid.guard.lark_estimate`, or with another version of Lark.
Limits: the time that Lark takes is measured, not tested (docs/lark.md).
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import lark
import pytest
from lark.load_grammar import _parse_grammar, load_grammar

from equivalence import BudgetExceeded, GrammarError
from hybrid.guard.lark_construction import read
from hybrid.guard.lark_estimate import LONGEST_IMPORTED, estimate, pattern_characters


def trees_of(text: str) -> Any:
    return load_grammar(text, "<string>", [], False)[0]


def written_out(text: str, *starts: str) -> tuple[int, int]:
    """Count the alternatives and symbols (one more per alternative) that Lark makes from the rules."""
    _, rules, _ = trees_of(text).compile(starts or ["start"], "*")
    return len(rules), len(rules) + sum(len(rule.expansion) for rule in rules)


@pytest.mark.parametrize(
    ("text", "alternatives"),
    [
        ("a", 1), ("a b | c", 2), ("a? b? c?", 8), ("(a | b c) (d | e?)", 6), ("(a | b)~3", 8), ("a~2..4", 3),
        ("(a | b)~0..2", 7), ("a+ b", 3), ("a* b", 4), ("(a | b)* (c | d)+", 2 + 4 + 4),
        ("t{a} t{b} t{a}\nt{x}: x | c x", 1 + 4), ("t{a}\nt{x}: u{x, b} | c\nu{x, y}: x y", 1 + 2 + 1),
        ("t{u}\nt{x}: x{a}\nu{y}: y", 3), ("a b -> one | c -> two", 2), ("((a b?) c?) (d | e)", 8),
    ],
)  # fmt: skip
def test_alternatives_are_as_many_as_lark_makes(text: str, alternatives: int) -> None:
    text = f"start: {text}" + "".join(f'\n{name}: "{name}"' for name in "abcdefgh")
    found, (written, symbols) = estimate(trees_of(text)), written_out(text, "start", *"abcdefgh")
    assert found.alternatives == written == alternatives + 8
    assert found.symbols >= symbols


def test_each_symbol_that_an_optional_part_may_lack_counts() -> None:
    symbols = [estimate(trees_of(f'start: [{part}]\na: "x"')).symbols for part in ("a", "a a a")]
    assert symbols[1] - symbols[0] == 2 + 2  # where they are, and a marker for each where they are not


@pytest.mark.parametrize("text", ["A~60", "A~50..77", "A~0..1000", "(A | B C)~51"])
def test_many_repeats_are_rules_for_factors(text: str) -> None:
    text = f'start: {text}\nA: "a"\nB: "b"\nC: "c"'
    found, (alternatives, symbols) = estimate(trees_of(text)), written_out(text)
    assert alternatives <= found.alternatives <= 2 * alternatives
    assert symbols <= found.symbols <= 2 * symbols


def random_part(rng: random.Random, depth: int) -> str:
    kind = rng.randrange(9) if depth else 0
    if kind < 2:
        return rng.choice(["A", "B", "C", "D", '"x"', '"y"', "a", "b"])
    inner = " | ".join(
        " ".join(random_part(rng, depth - 1) for _ in range(rng.randint(1, 3)))
        for _ in range(rng.randint(1, 2))
    )
    least, argument = rng.randint(0, 2), rng.choice(["A", "a", "t{B, b}", '"x"'])
    return [
        f"[{inner}]", f"({inner})~{least}..{least + rng.randint(0, 2)}", f"t{{{argument}, b}}",
        f"({inner})", f"({inner})?", f"({inner})*", f"({inner})+",
    ][kind - 2]  # fmt: skip


def doubled(count: int, last: str) -> str:
    """A terminal that uses the next one twice, and so on."""
    return f"start: A0\nA{count}: {last}\n" + "\n".join(f"A{n}: A{n + 1} A{n + 1}" for n in range(count))


def test_random_grammars_are_never_larger_than_estimated() -> None:
    rng = random.Random(0)
    checked = exact = 0
    for _ in range(160):
        rules = {name: random_part(rng, 2) + " " + random_part(rng, 1) for name in ("start", "a", "b")}
        text = "\n".join(f"{name}: {body}" for name, body in rules.items())
        text += '\nt{x, y}: x y | [y] "z"\nA: "a"\nB: "b"\nC: "c"\nD: "d"'
        found = estimate(trees_of(text))
        if found.symbols > 20_000:
            continue
        try:
            alternatives, symbols = written_out(text)
        except lark.exceptions.GrammarError:
            continue  # the same alternative twice
        assert alternatives <= found.alternatives and symbols <= found.symbols, text
        checked += 1
        exact += alternatives == found.alternatives
    assert checked > 100 and exact > 15


def numbered(count: int, text: str, between: str = " | ") -> str:
    """The text with each number in place of ``#``."""
    return between.join(text.replace("#", str(n)) for n in range(count))


EXPLOSIONS = {
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
    "terminals in terminals": doubled(40, '"a"'),
    "imported terminals in terminals": "%import common.NUMBER\n" + doubled(40, "NUMBER"),
    "a chain of terminals": 'start: A0\nA2000: "a"\n' + "\n".join(f'A{n}: "b" A{n + 1}' for n in range(2000)),
    "what is ignored": 'start: "b"\n%ignore ' + "A " * 1000 + "\nA: " + '"abc" ' * 1000,
    "statements": "start: s+\ns: " + numbered(3000, '"a#" "b#" s'),
}


@pytest.mark.parametrize("text", EXPLOSIONS.values(), ids=EXPLOSIONS)
def test_what_explodes_is_refused_at_once(text: str) -> None:
    began = time.process_time()
    with pytest.raises(BudgetExceeded, match=r"Lark would expand the grammar to [0-9,]+ .*the limit is"):
        read(text, "start")
    assert time.process_time() - began < 60, "Lark was asked"


def test_patterns_are_as_long_as_lark_writes_them() -> None:
    text = """start: A | D
    A: B C~2..3 [D] | "x"i
    B: ("b" | "b".."c")+ | C
    C: /c[c]/
    D: "d"?  "e"
    %override D: "de"
    %extend D: "f"
    %ignore /[ ]/
    """
    for grammar in (text, doubled(10, '"abc"')):
        terminals = trees_of(grammar).compile(["start"], "*")[0]
        written = sum(len(one.pattern.to_regexp()) for one in terminals)
        assert written <= pattern_characters(_parse_grammar(grammar, "<string>")) <= 4 * written


@pytest.mark.parametrize("name", ["common", "lark", "python", "unicode"])
def test_no_terminal_of_the_library_is_longer_than_estimated(name: str) -> None:
    folder = Path(lark.__file__).with_name("grammars")
    terminals = trees_of((folder / f"{name}.lark").read_text("utf-8")).compile([], "*")[0]
    assert 0 < max(len(one.pattern.to_regexp()) for one in terminals) <= LONGEST_IMPORTED


def test_large_counts_alone_do_not_matter() -> None:
    assert read('start: ("a" | "b")~100000', "start").rules
    assert read("start: A\nA: /a/~1..100000", "start").rules


@pytest.mark.parametrize(
    "text",
    [
        "A~5..2\nA: /a/", "A~" + "9" * 5000 + "\nA: /a/", "A~" + "9" * 4000 + "\nA: /a/", "t{A}\nA: /a/",
        "t{A, A}\nt{x}: x\nA: /a/", 'A\nA: B\nB: A "b"',
    ],
)  # fmt: skip
def test_what_lark_refuses_is_refused_in_its_words(text: str) -> None:
    with pytest.raises(GrammarError, match="Lark refuses the grammar"):
        read(f"start: {text}", "start")


def test_deep_trees_do_not_recurse() -> None:
    trees = trees_of("start: A\nA: /a/")
    name, params, tree, options = trees.rule_defs[0]
    for _ in range(3000):
        tree = lark.Tree("expansions", [lark.Tree("expansion", [tree])])
    trees.rule_defs = [(name, params, tree, options)]
    assert estimate(trees).alternatives == 1
