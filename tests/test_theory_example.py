"""The example of docs/theory.md: the page shows what the program computes.

What: the programs compute the examples and their variants again (`tests.theory_example`, and
`tests.theory_lark_example` for section 12). The page must have word for word: all blocks and tables of its
first section and of sections 3, 6, 11 and 12; the line of a call that may be skipped (section 2); and of
section 5 all blocks, the table of classes and the rows of the other table. Other answers are compared with
values that this file repeats: what section 4 says about blocks, items and local stacks.
When: after a change of the page, the network, the exploration or the classifier.
Limits: one small grammar, a variant of it that counts, and a small Lark grammar.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product, zip_longest

import pytest
import xgrammar

from bench.cases import CHECKOUT
from equivalence import compute_classes
from equivalence.classes.explore import explore
from hybrid import GrammarCompiler, GrammarMatcher
from tests import theory_example, theory_lark_example
from tests.theory_example import COUNTED, EXAMPLE, GRAMMAR, LEFT_RECURSIVE, Example, Outcome, classes_of

PAGE = (CHECKOUT / "docs" / "theory.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", [*theory_example.BLOCKS, theory_lark_example.GRAMMAR])
def test_the_page_has_the_block(block: str) -> None:
    assert block in BLOCKS


@pytest.mark.parametrize("table", [*theory_example.TABLES, *theory_lark_example.TABLES])
def test_the_page_has_the_table(table: str) -> None:
    assert table in PAGE


# --- Section 2: the normal form --------------------------------------------------------------------------


def test_left_and_right_recursion_become_the_same_network() -> None:
    assert Example(LEFT_RECURSIVE).network_text() == EXAMPLE.network_text()
    assert classes_of(LEFT_RECURSIVE) == classes_of(GRAMMAR)
    assert EXAMPLE.stacks("[1,2,3,4") == EXAMPLE.stacks("[1"), "a list does not grow the stack"


def test_a_call_that_may_be_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    optional = GRAMMAR.replace('"[" items "]"', '"[" (items | "") "]"')
    monkeypatch.setitem(theory_example.NAMES, optional, theory_example.NAMES[GRAMMAR])
    changed = Example(optional).network_text().splitlines()
    (line,) = set(changed) - set(EXAMPLE.network_text().splitlines())
    assert line + "\n" in BLOCKS


# --- Section 3: stacks and contexts ----------------------------------------------------------------------


def test_each_path_of_below_sets_is_a_stack() -> None:
    space, height = EXAMPLE.space, 7
    found = [space.context_of(EXAMPLE.network.start)]
    reached: set[tuple[str, ...]] = set()
    for configuration in found:
        stacks = [tuple(stack) for stack in EXAMPLE.stacks_of(configuration)]
        reached.update(stack for stack in stacks if 0 < len(stack) <= height)
        if max(map(len, stacks)) > height + 2:  # no text from here leads to new stacks of this height
            continue
        following = [next(EXAMPLE.after(configuration, byte)) for byte in "1[],"]
        found += {one for one in following if one and one not in found}
    assert reached == EXAMPLE.allowed_stacks(height)


def test_below_sets_may_allow_stacks_that_no_text_leads_to() -> None:
    (grammar,) = (block for block in BLOCKS if "loop" in block)
    vocabulary = theory_example.vocabulary_of(*"alby()cdx", "yc", "yd")
    classes = compute_classes(xgrammar.Grammar.from_ebnf(grammar), vocabulary).class_of_token
    assert classes[vocabulary.tokens.index(b"yc")] >= 0
    matcher = GrammarMatcher(GrammarCompiler(vocabulary, strategy="classifier").compile_grammar(grammar))
    for length in range(5):
        for text in map("".join, product("alby()cdx", repeat=length)):
            matcher.reset()
            assert not matcher.accept_string(text + "yc")


# --- Section 4: exploring --------------------------------------------------------------------------------


def test_blocks_and_items() -> None:
    found = explore(EXAMPLE.network, theory_example.VOCABULARY.trie)
    users = theory_example.part(found.walked.user_starts, found.walked.users, ord("1"))
    blocks = {EXAMPLE.name(EXAMPLE.contexts[context]): block for context, block in users}
    assert blocks.keys() == set("VMID") and len(set(blocks.values())) == 3 and blocks["V"] == blocks["D"]
    assert found.n_items == 3
    on_j, on_k = (EXAMPLE.names.index(name) for name in "JK")
    assert EXAMPLE.outcome(on_j, "]", under=True) == (-1, [(0, "]")])
    assert EXAMPLE.outcome(on_j, ",[", under=True).label == EXAMPLE.outcome(on_k, "]", under=True).label == 0


def test_a_token_that_is_read_on_a_local_stack() -> None:
    (after,) = EXAMPLE.after(EXAMPLE.space.context_of(EXAMPLE.names.index("I")), "1")
    label, ports, pairs = EXAMPLE.entries(after)
    stacks = {" ".join([EXAMPLE.name(state), *rest]) for state, tail in pairs for rest in EXAMPLE.rests(tail)}
    assert (label, ports, stacks) == (0, [0], {"D J", "J"})


# --- Section 5: counters ---------------------------------------------------------------------------------


def test_counts() -> None:
    counted = Example(COUNTED)

    def assert_has(lines: Iterable[str], first: str) -> None:
        assert "".join(f"{line}\n" for line in lines if line[0] in first) in BLOCKS

    assert_has(counted.network_text().splitlines(), "NC#")
    assert_has(counted.features_text().splitlines(), "12")
    columns = [counted.stacks_text(text).splitlines() for text in ("[1234", "[12345")]
    rows = [f"{one:<16}{other}".rstrip() for one, other in zip_longest(*columns, fillvalue="")]
    assert "".join(f"{row}\n" for row in rows) in BLOCKS
    for token in ("1", "12", "1]"):
        label, left = counted.outcome(-1, token)
        does = Outcome(label, [one for one in left if one[1] == "]"])  # a digit cannot follow a number
        assert f"| `{token}` | {does} |" in PAGE
