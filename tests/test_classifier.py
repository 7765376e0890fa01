"""The parser stack classifier: its masks and steps are those of the grammar, whatever it has read before.

What: masks against the slow reference on random grammars, ahead of time and on demand; after building ahead,
nothing remains to be found; ambiguous and deep texts, whose configurations stay small. Full tables have their
own file.
When: after any change of `hybrid.classifier` or of the kernels that it shares with the exploration.
Limits: what it shares with other strategies, such as forks, rollbacks and batches, is compared with XGrammar
in ``robustness/test_fuzz.py``.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
import xgrammar
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence.network import build_network
from equivalence.parser.absorption import absorbing_states
from equivalence.parser.automaton import Automaton
from hybrid import GrammarCompiler, GrammarMatcher
from tests.classifiers import (
    EXAMPLES,
    LETTERS,
    agree_with_the_reference,
    classifier_case,
    compiled_of,
    vocabulary_of,
)
from tests.matchers import mask_of
from tests.random_grammars import GrammarCase, grammar_cases
from tests.versions import ids_as_wholes, strict_classes

pytestmark = pytest.mark.kernels


# --- Random grammars, against the reference ------------------------------------------------------------


@strict_classes
@pytest.mark.parametrize("on_demand", [False, True], ids=["ahead", "on demand"])
@settings(max_examples=EXAMPLES, deadline=None)
@given(case=grammar_cases(), rng=st.randoms(use_true_random=False))
def test_masks_are_those_of_the_reference(case: GrammarCase, rng: random.Random, on_demand: bool) -> None:
    compiled, vocabulary = classifier_case(case, on_demand)
    store = compiled.classifier.session.store
    n_pairs = store.summaries.n_pairs

    def begin() -> Any:
        matcher = GrammarMatcher(compiled)
        return lambda: mask_of(matcher), matcher.accept_token

    agree_with_the_reference(begin, case.ebnf, vocabulary, rng.choice, 3, 8)
    assert on_demand or store.summaries.n_pairs == n_pairs, "ahead of time, all was found"


# --- Ambiguous and deep texts ----------------------------------------------------------------------------

GROWING = {
    "sums": ('root ::= e\ne ::= e "+" e | "(" e ")" | "a"', b"a+a+(a+a)+"),
    "any pairs": ('root ::= e\ne ::= e e | "(" e ")" | "a" | "a" "a"', b"aaa(aa)"),
    "optional parts": ('root ::= p+\np ::= q p q | q\nq ::= "x" | "x" q | ""', b"xxxx"),
    "counted pairs": ('root ::= ("a"{1,20} "b"){0,5000}', b"aab"),
    "lists of lists": ('root ::= l\nl ::= "(" l* ")" | "a"', b"(a(a)a)"),
}


@pytest.mark.parametrize("name", GROWING)
def test_configurations_of_ambiguous_texts_stay_small(name: str) -> None:
    """A text twice as long adds no configurations except for new counts, and none gets larger."""
    grammar, period = GROWING[name]
    compiled = compiled_of(grammar)
    matcher = GrammarMatcher(compiled)
    assert matcher.accept_string(b"(" if name == "lists of lists" else b"")
    sizes = []
    for _ in range(2):
        for _ in range(100):
            assert matcher.accept_string(period)
            mask_of(matcher)
        space = compiled.classifier.session.store.space
        tails = space.stacks.tails
        sizes.append((space.configurations.count, tails.count, tails.used))
    per_period = 9 if name == "counted pairs" else 0
    for before, after in zip(*sizes, strict=True):
        assert after <= before + 100 * per_period, sizes


def test_deep_nesting_adds_a_frame_at_a_time() -> None:
    compiled = compiled_of('root ::= "(" root ")" | "a"')
    matcher = GrammarMatcher(compiled)
    depth = 2_000
    for _ in range(depth):
        assert matcher.accept_token(LETTERS.index(b"("))
        assert mask_of(matcher) == [LETTERS.index(t) for t in (b"a", b"(", b"((")]
    assert compiled.classifier.session.store.space.stacks.tails.count <= depth + 10
    assert matcher.accept_token(LETTERS.index(b"a"))
    assert matcher.accept_string(b")" * (depth - 1))
    assert mask_of(matcher) == [LETTERS.index(b")")]
    assert matcher.accept_token(LETTERS.index(b")"))
    assert matcher.is_completed()


@pytest.mark.parametrize(
    ("grammar", "expected"),
    [  # the third's lower rule may still read an x that the upper one read
        ('root ::= e\ne ::= e e | "a"', 1),
        ('root ::= e\ne ::= e "+" e | "a"', 1),
        ('root ::= s\ns ::= "(" s "x"? | "a"', 0),
        ('root ::= s\ns ::= "(" s "x"* | "a"', 1),
        ('root ::= s\ns ::= "(" s ("x" "+")* | "a"', 1),
        ('root ::= s\ns ::= "(" s ")" | "a"', 0),
        ('root ::= s\ns ::= "(" s ("x" | "+" "+")* | "a"', 1),
        ('root ::= s\ns ::= "(" s "x"* "+"* | "a"', 0),
    ],
)
def test_which_return_states_absorb(grammar: str, expected: int) -> None:
    network = build_network(xgrammar.Grammar.from_ebnf(grammar), token_bytes=4)
    assert int(absorbing_states(Automaton(network.automaton)).sum()) == expected


# --- Forced text -------------------------------------------------------------------------------------------


def forced_text(strategy: str, grammar: str, tokens: list[bytes], *read: int) -> str:
    compiled = GrammarCompiler(vocabulary_of(tokens), strategy=strategy).compile_grammar(grammar)
    matcher = GrammarMatcher(compiled)
    assert all(map(matcher.accept_token, read))
    return matcher.find_jump_forward_string()


def test_forced_text_ends_where_tables_are_full() -> None:
    tokens = [b'"', b"z", b"\xe2\x82\xac"]
    # the fallback's own search would not return
    assert set(forced_text("classifier", 'root ::= ["]+ root{2,} "z"', tokens, 0)) == {'"'}
    assert set(forced_text("classifier", 'root ::= "€" root', tokens)) == {"€"}


@ids_as_wholes
def test_forced_text_of_an_ambiguous_grammar_ends_early() -> None:
    # after n units there are n stacks, each of which may return to all others
    grammar = 'root ::= p Token(3)\np ::= "abc" p{0,2}'
    text = forced_text("classifier", grammar, [b"a", b"b", b"c", b"!"])
    assert 300 < len(text) < 3000 and ("abc" * 1000).startswith(text)


def test_forced_text_ends_before_half_a_character(strategy: str) -> None:
    tokens = [b"a", b"\xc3", b"\xa9", b"\xa8"]
    assert forced_text(strategy, 'root ::= "a" ("é" | "è")', tokens) == "a"
