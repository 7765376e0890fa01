"""The size to which a Lark grammar expands: counts compared with Lark's own, and refusals of grammars that
would not end.

What: examples counted by hand and by Lark, random grammars, real ones; grammars that explode.
When: after any change of `hybrid.guard.lark_estimate`, or with another version of Lark.
Limits: the time that Lark takes is measured, not tested (docs/lark.md).
"""

from __future__ import annotations

import random
import time
from typing import Any

import lark
import pytest
from lark.load_grammar import _parse_grammar, load_grammar

from equivalence import BudgetExceeded, GrammarError
from hybrid.cli.shipped_grammars import shipped_grammars
from hybrid.guard.lark_construction import read
from hybrid.guard.lark_estimate import (
    MOST_ACTIONS,
    MOST_CHARACTERS,
    MOST_SYMBOLS,
    MOST_TEMPLATES,
    Estimate,
    estimate,
    pattern_characters,
)
from tests.lark_oracle import SMALL_GRAMMARS


def trees_of(text: str) -> Any:
    return load_grammar(text, "<string>", [], False)[0]


def written_out(text: str, start: str = "start") -> tuple[int, int]:
    """Count the alternatives and symbols (one more per alternative) that Lark makes from the rules."""
    _, rules, _ = trees_of(text).compile([start], "*")
    return len(rules), len(rules) + sum(len(rule.expansion) for rule in rules)


LETTERS = "".join(f'\n{name}: "{name}"' for name in "abcdefgh")


@pytest.mark.parametrize(
    ("text", "alternatives"),
    [
        ("start: a", 1),
        ("start: a b | c", 2),
        ("start: a? b? c?", 8),
        ("start: (a | b c) (d | e?)", 6),
        ("start: (a | b)~3", 8),
        ("start: a~2..4", 3),
        ("start: (a | b)~0..2", 7),
        ("start: a+ b", 3),
        ("start: a* b", 4),
        ("start: (a | b)* (c | d)+", 2 + 4 + 4),
        ("start: t{a} t{b} t{a}\nt{x}: x | c x", 1 + 4),
        ("start: t{a}\nt{x}: u{x, b} | c\nu{x, y}: x y", 1 + 2 + 1),
        ("start: t{u}\nt{x}: x{a}\nu{y}: y", 3),
        ("start: a b -> one | c -> two", 2),
        ("start: ((a b?) c?) (d | e)", 8),
    ],
)
def test_alternatives_are_as_many_as_lark_makes(text: str, alternatives: int) -> None:
    text += LETTERS
    found = estimate(trees_of(text))
    _, rules, _ = trees_of(text).compile(["start", *"abcdefgh"], "*")
    assert found.alternatives == len(rules) == alternatives + 8
    assert found.symbols >= len(rules) + sum(len(rule.expansion) for rule in rules)


@pytest.mark.parametrize(
    "text", ["start: A~60", "start: A~50..77", "start: A~0..1000", "start: (A | B C)~51"]
)
def test_many_repeats_are_rules_for_factors(text: str) -> None:
    text += '\nA: "a"\nB: "b"\nC: "c"'
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
    if kind == 2:
        return f"[{inner}]"
    if kind == 3:
        least = rng.randint(0, 2)
        return f"({inner})~{least}..{least + rng.randint(0, 2)}"
    if kind == 4:
        argument = rng.choice(["A", "a", "t{B, b}", '"x"'])
        return f"t{{{argument}, b}}"
    return f"({inner})" + ["", "", "?", "*", "+"][kind - 4]


def test_random_grammars_are_never_larger_than_estimated() -> None:
    rng = random.Random(0)
    checked = exact = 0
    for _ in range(250):
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
    assert checked > 150 and exact > 20


def test_our_own_grammars_are_far_from_the_limits() -> None:
    shipped = [grammar.text for grammar in shipped_grammars() if grammar.kind == "lark"]
    assert len(shipped) > 3
    for text in [*shipped, *(grammar.text for grammar in SMALL_GRAMMARS)]:
        far(estimate(trees_of(text)))
        assert pattern_characters(_parse_grammar(text, "<string>")) * 5 < MOST_CHARACTERS


def far(found: Estimate) -> None:
    assert found.symbols * 5 < MOST_SYMBOLS and found.actions * 5 < MOST_ACTIONS
    assert found.templates * 5 < MOST_TEMPLATES and found.names * 5 < MOST_CHARACTERS


EXPLOSIONS = {
    "optional parts": "start: " + " ".join(f'"{n}"?' for n in range(20)),
    "placeholders": "start: " + " ".join(f'["{n}"]' for n in range(20)),
    "stars": "start: " + " ".join(f'"{n}"*' for n in range(200)),
    "groups": "start: " + " ".join(f'("a{n}" | "b{n}")' for n in range(2000)),
    "repeats of groups": 'start: ("a" | "b" | "c")~1..40',
    "repeats in repeats": "start: (((((A~9)~9)~9)~9)~9)~49\nA: /a/",
    "optional parts of a template": "start: t{A}\nt{x}: " + "x? " * 20 + "\nA: /a/",
    "templates without end": "start: t{A}\nt{x}: x t{u{x}}\nu{x}: x\nA: /a/",
    "templates that double": "start: t{A}\nt{x}: x t{u{x, x}}\nu{x, y}: x y\nA: /a/",
    "templates of empty bodies": "start: t{A}\nt{x}: t{u{x}}" + " x~0" * 3000 + "\nu{x}: x\nA: /a/",
    "terminals in terminals": "start: A0\n"
    + "\n".join(f"A{n}: A{n + 1} A{n + 1}" for n in range(40))
    + '\nA40: "a"',
    "a chain of terminals": "start: A0\n"
    + "\n".join(f'A{n}: "b" A{n + 1}' for n in range(2000))
    + '\nA2000: "a"',
    "what is ignored": 'start: "b"\n%ignore ' + "A " * 1000 + "\nA: " + '"abc" ' * 1000,
    "statements": "start: s+\ns: " + " | ".join(f'"a{n}" "b{n}" s' for n in range(3000)),
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
    terminals = trees_of(text).compile(["start"], "*")[0]
    written = sum(len(one.pattern.to_regexp()) for one in terminals)
    assert written <= pattern_characters(_parse_grammar(text, "<string>")) <= 4 * written
    doubled = "start: A0\n" + "\n".join(f"A{n}: A{n + 1} A{n + 1}" for n in range(10)) + '\nA10: "abc"'
    written = sum(len(one.pattern.to_regexp()) for one in trees_of(doubled).compile(["start"], "*")[0])
    assert written <= pattern_characters(_parse_grammar(doubled, "<string>")) <= 4 * written


def test_large_counts_alone_do_not_matter() -> None:
    assert read('start: ("a" | "b")~100000', "start").rules
    assert read("start: A\nA: /a/~1..100000", "start").rules


@pytest.mark.parametrize(
    "text",
    [
        "start: A~5..2\nA: /a/",
        "start: A~" + "9" * 5000 + "\nA: /a/",
        "start: A~" + "9" * 4000 + "\nA: /a/",
        "start: t{A}\nA: /a/",
        "start: t{A, A}\nt{x}: x\nA: /a/",
        'start: A\nA: B\nB: A "b"',
    ],
)
def test_what_lark_refuses_is_refused_in_its_words(text: str) -> None:
    with pytest.raises(GrammarError, match="Lark refuses the grammar"):
        read(text, "start")


def test_deep_trees_do_not_recurse() -> None:
    depth = 3000
    trees = trees_of("start: A\nA: /a/")
    name, params, tree, options = trees.rule_defs[0]
    for _ in range(depth):
        tree = lark.Tree("expansions", [lark.Tree("expansion", [tree])])
    trees.rule_defs = [(name, params, tree, options)]
    assert estimate(trees).alternatives == 1
