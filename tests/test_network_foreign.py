"""Networks of grammars with automata that XGrammar makes, and reuse of tables.

When: after a change of how the automata of patterns, substrings and tag dispatches are read back.
Limits: other grammars are tested in `tests.test_network`.
"""

from __future__ import annotations

import itertools
import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest
import xgrammar

from equivalence.classes import compute_classes
from equivalence.errors import BudgetExceeded, UnsupportedGrammar
from equivalence.network import build, build_network, foreign, optimised
from equivalence.network.grammar_reader import read_grammar
from equivalence.vocabulary import Vocabulary
from hybrid import GrammarCompiler, GrammarMatcher
from tests.matchers import mask_of, taken_by
from tests.test_interrupts import interrupted
from tests.test_network import SMALL, arrays, assert_same_classes, network, strings

pytestmark = pytest.mark.kernels


@pytest.mark.parametrize(
    ("ebnf", "plain"),
    [
        ('root ::= Regex("a+(b|c)?")', 'root ::= "a"+ [bc]?'),
        ('root ::= "c" Regex("[ab]{2,3}") "c"', 'root ::= "c" [ab] [ab] [ab]? "c"'),
        ('root ::= x{2,9} "c"\nx ::= Regex("ab?")', 'root ::= ("a" "b"?){2,9} "c"'),
        # XGrammar makes rules of their own of long repeats
        ('root ::= Regex("[ab]{3,500}")', "root ::= [ab]{3,500}"),
        ('root ::= "c" Regex("([ab]{1,300})?") "c"', 'root ::= "c" [ab]{0,300} "c"'),
        ('root ::= Regex("c?[ab]{3,300}")', 'root ::= "c"? [ab]{3,300}'),
        ('root ::= Regex("([ab]{3,300}c){2,200}")', 'root ::= ([ab]{3,300} "c"){2,200}'),
        ('root ::= Regex("(a[bc]{2,150}|b){130,}")', 'root ::= ("a" [bc]{2,150} | "b"){130,}'),
        # the strings of a substring rule are read completely
        ('root ::= "c" Substring("ab") "c"', 'root ::= "c" "ab"? "c"'),
    ],
)
def test_foreign_rules(ebnf: str, plain: str) -> None:
    assert_same_classes(ebnf, plain, strings("abc", 3))


def test_substring_by_characters() -> None:
    grammar = xgrammar.Grammar.from_lark('start: "c" %regex {"substring_chars":"ab"} "c"')
    assert_same_classes(grammar, 'root ::= "c" ("a" "b"? | "b")? "c"', strings("abc", 3))


def test_tag_dispatch_calls_rules_of_the_grammar() -> None:
    grammar = xgrammar.Grammar.from_ebnf(
        'root ::= "[" TagDispatch(("<", x), loop_after_dispatch=false)\nx ::= "a" x ">" | "b"'
    )
    vocabulary = Vocabulary.from_bytes([b"[", b"<", b"a", b"b", b">", b"b>", b"b>>", b"q<", b"q"])
    found = compute_classes(grammar, vocabulary, capacity=SMALL).class_of_token.tolist()
    # ">" needs one open "a", "b>" too, "b>>" two; text may go on with anything but what a rule must read
    assert len({found[1], found[2], found[4], found[6]}) == 4
    assert -1 not in found


@pytest.mark.parametrize("loop", [True, False])
def test_a_dispatch_on_the_empty_text_may_be_empty(loop: bool) -> None:
    dispatch = {"type": "dispatch", "rules": [["", {"type": "const_string", "value": "x"}]], "loop": loop}
    elements = [dispatch, dispatch, {"type": "const_string", "value": "."}]
    tag = {"type": "structural_tag", "format": {"type": "sequence", "elements": elements}}
    vocabulary = Vocabulary.from_bytes([b"x", b"y", b".", b"x.", b"</s>"], stop_token_ids=[4])
    plain = xgrammar.GrammarCompiler(vocabulary.tokenizer_info).compile_structural_tag(tag)
    compiled = GrammarCompiler(vocabulary, strategy="classifier").compile_structural_tag(tag)
    for text in [b"", *strings("xy.", 3)]:
        truth, ours = xgrammar.GrammarMatcher(plain), GrammarMatcher(compiled)
        taken = truth.accept_string(text)
        assert ours.accept_string(text) == taken, text
        if taken:
            assert mask_of(ours) == taken_by(truth, vocabulary.size), text


def test_equal_tag_dispatches_are_made_once() -> None:
    """They share one automaton, and each has its own rules after its tags."""
    optimise = Mock(side_effect=optimised.optimised_text)
    ebnf = """root ::= "[" d "]" | "(" e ")" | "{" f "}"
d ::= TagDispatch(("<", x), ("!", y), loop_after_dispatch=false, excludes=("[", "(", "{"))
e ::= TagDispatch(("<", y), ("!", x), loop_after_dispatch=false, excludes=("[", "(", "{"))
f ::= TagDispatch(("<", x), ("!", x), loop_after_dispatch=false, excludes=("[", "(", "{"))
"""
    foreign._tags.cache_clear()
    parts = itertools.product((b"[", b"(", b"{"), (b"<", b"!"), (b"a", b"b"))
    vocabulary = Vocabulary.from_bytes([b"".join(one) for one in parts])
    grammar = xgrammar.Grammar.from_ebnf(ebnf + 'x ::= "a"\ny ::= "b"')
    found = optimised.optimised_by(optimise, lambda: compute_classes(grammar, vocabulary, capacity=SMALL))
    assert optimise.call_count == 2
    assert (found.class_of_token >= 0).tolist() == [True, False, False, True, False, True, True, False,
                                                    True, False, True, False]  # fmt: skip


def test_a_pattern_that_is_too_large_to_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "MAX_SERIALIZED_BYTES", -1)
    with pytest.raises(UnsupportedGrammar, match="unrolls"):
        network('root ::= Regex("(a{2,5}b){2,5}")')


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("a{1,300}|b", "ab"), ("b*a{1,300}", "aba"), ("(a{2,300})?", "a"), ("(a{2,300})*c", "ac"),
        ("a{1,300}|b{3,}c", "abbbc"),
    ],
)  # fmt: skip
def test_a_long_repeat_in_whose_place_something_else_may_be_read(pattern: str, text: str) -> None:
    """XGrammar takes the other even after a part of the repeat, so such patterns are left to it."""
    grammar = xgrammar.Grammar.from_ebnf(f'root ::= Regex("{pattern}")')
    info = xgrammar.TokenizerInfo([b"a", b""], stop_token_ids=[1])
    compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
    matcher = xgrammar.GrammarMatcher(compiler.compile_grammar(grammar))
    assert matcher.accept_string(text)
    assert matcher.is_completed()
    with pytest.raises(UnsupportedGrammar, match="a long repeat that something else may replace"):
        build_network(grammar, token_bytes=8)


def test_ctrl_c_leaves_nobody_else_to_ask_for_automata() -> None:
    """Ctrl-C restores the usual source of automata, wherever it comes."""
    call = partial(optimised.optimised_by, lambda wanted: None, lambda: None)
    were_interrupted = []
    for was_interrupted in interrupted(lambda: call, 100):
        were_interrupted.append(was_interrupted)
        assert optimised._optimise.get() is optimised.optimised_text
    assert sum(were_interrupted) > 1


def test_tables_of_grammars_before_do_not_matter() -> None:
    """The result does not depend on their size, on left recursion or an error in between, or on other
    threads."""
    large = "root ::= " + " | ".join(f'"{n:04}" item{{{n % 7},{n}}}' for n in range(4, 120))
    texts = [
        'root ::= "a" | root "b"', f'{large}\nitem ::= [a-z] | "x" root',
        'root ::= [^a-c]* "d" item{2,900}\nitem ::= [0-9]',
        'root ::= "" | "(" root ")" root', 'root ::= one two\none ::= "" | one "1"\ntwo ::= one{3,5} | [é-ü]',
    ]  # fmt: skip
    read = [read_grammar(xgrammar.Grammar.from_ebnf(text)) for text in texts]

    def made(number: int) -> list[Any]:
        return arrays(build_network(read[number], token_bytes=9))

    wanted = []
    for number in range(len(read)):
        build._waiting.clear()
        wanted.append(made(number))
    order = random.Random(1)
    for _ in range(5):
        with pytest.raises(BudgetExceeded):
            build_network(read[1], token_bytes=9, max_states=order.randrange(1, 300))
        for number in order.sample(range(len(read)), len(read)):
            assert made(number) == wanted[number]
    assert 0 < len(build._waiting) <= build.MOST_KEPT
    numbers = [order.randrange(len(read)) for _ in range(30)]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(made, numbers))
    assert found == [wanted[number] for number in numbers]
    assert len(build._waiting) <= build.MOST_KEPT + 6
