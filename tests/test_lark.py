"""Lark grammars end to end: masks follow Lark's meaning, whatever way a matcher came to a text.

What: `compile_lark` against the oracle on every short text of small grammars, and the oracle against its
definition; forced text, budgets and artefacts; what is refused, and how.
When: after any change of `hybrid.lark`, or of the folders of `equivalence` that it uses.
Limits: other methods of matchers are tested by `tests.robustness.test_fuzz`, also against the oracle, and by
``test_misuse*.py``; lexer, parser and classes have their own tests (``test_lexing*.py``, ``test_lalr*.py``,
``test_factored*.py``); ``python -m bench lark`` tests real grammars and files.
"""

from __future__ import annotations

import hashlib
import os
import random
import threading
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from adapters.engines.continuations import Continuations
from equivalence import BudgetExceeded, GrammarError, StrategyError, Vocabulary
from hybrid import (
    BatchGrammarMatcher,
    Budget,
    CompiledGrammar,
    GrammarCompiler,
    GrammarMatcher,
    UnsupportedGrammar,
    allocate_token_bitmask,
)
from hybrid.cli.shipped_grammars import shipped_grammar
from hybrid.files import from_bytes, to_bytes
from hybrid.healing import HealingMatcher
from hybrid.testing.mask_comparison import flags_of
from tests.lark_oracle import SMALL_GRAMMARS, SmallGrammar
from tests.lexers import is_unclosed
from tests.matchers import Sides
from tests.new_process import printed_by

CALCULATOR = r"""
start: sum
?sum: term | sum ("+" | "-") term
?term: atom | term "*" atom
?atom: NUMBER | NAME | "(" sum ")" | "let" NAME "=" sum "in" sum
NUMBER: /[0-9]+(\.[0-9]+)?/
NAME: /[a-z]+/
%ignore /[ \n]+/
"""


def vocabulary_of(texts: list[bytes]) -> Vocabulary:
    """A vocabulary of the texts, a special id, and a stop id."""
    return Vocabulary.from_bytes([*texts, b"", b""], stop_token_ids=[len(texts) + 1])


WORDS = [
    b"let", b" in", b"in ", b" = ", b"((", b"))", b"x+", b"1.", b".5", b"le", b"tin", b") + (", b"12",
    b"let x",
]  # fmt: skip
VOCABULARY = vocabulary_of([*(bytes([byte]) for byte in range(128)), *WORDS])


@cache
def calculator() -> CompiledGrammar:
    return GrammarCompiler(VOCABULARY).compile_lark(CALCULATOR)


def uncached(**options: Any) -> CompiledGrammar:
    """The same with tables of its own."""
    return GrammarCompiler(VOCABULARY, cache_enabled=False, **options).compile_lark(CALCULATOR)


def bits(matcher: GrammarMatcher) -> list[bool]:
    """The mask as one truth value per id."""
    return flags_of(matcher).tolist()


# ---------------------------------------------------------------- against Lark

each_small_grammar = pytest.mark.parametrize("grammar", SMALL_GRAMMARS, ids=lambda grammar: grammar.name)


@each_small_grammar
def test_the_oracle_says_what_its_definition_says(grammar: SmallGrammar) -> None:
    """Its search shares work between texts, and cuts lexemes itself; the definition asks Lark as users do."""
    oracle, rng = grammar.oracle(), random.Random(grammar.name)
    for _ in range(6):
        text = b""
        for _ in range(7):
            row = dict(zip(grammar.tokens, oracle.allowed_tokens(text, grammar.tokens), strict=True))
            token = rng.choice(grammar.tokens)
            if rng.random() < 0.4:
                assert row[token] == oracle.viable_by_definition(text + token), text + token
            if not any(row.values()):
                break
            text += rng.choice([token for token, fits in row.items() if fits])
        assert oracle.viable_by_definition(text), text


@pytest.mark.kernels
@each_small_grammar
def test_masks_of_every_short_text_are_what_lark_says(grammar: SmallGrammar) -> None:
    tokens = list(grammar.tokens)
    compiled = GrammarCompiler(vocabulary_of(tokens)).compile_lark(grammar.text)
    oracle, rows = grammar.oracle(), set()
    for text in oracle.texts(4):
        matcher = GrammarMatcher(compiled)
        assert matcher.accept_string(text), text
        found = bits(matcher)
        assert found[-2] is False, "a special id is never allowed"
        assert found[-1] == matcher.is_completed(), text
        is_open = grammar.name == "lazy comment" and is_unclosed(text)
        assert found[-1] == (oracle.complete(text) and not is_open), text
        rows.add(allowed := oracle.allowed_tokens(text, tokens))
        for token, bit, wanted in zip(tokens, found, allowed, strict=False):
            assert bit == wanted, (text, token)
            assert matcher.fork().accept_string(token) == wanted, (text, token)
    assert len(rows) > 1, "the tokens tell no texts apart"


@pytest.mark.parametrize("name", ["json.lark", "arithmetic.lark", "sql_select.lark", "c_like.lark"])
def test_real_tokens_of_shipped_grammars(name: str, tekken: Vocabulary) -> None:
    """Every token that a mask of the walk allows is accepted, and every token that it forbids is not."""
    compiled = GrammarCompiler(tekken).compile_lark(shipped_grammar(name).text)
    rng = random.Random(0)
    for _ in range(3):
        matcher = GrammarMatcher(compiled)
        for _ in range(40):
            allowed = flags_of(matcher)
            for token in rng.sample(range(tekken.size), 40):
                assert matcher.fork().accept_token(token) == allowed[token], token
            choices = np.flatnonzero(allowed)
            short = [token for token in rng.choices(choices.tolist(), k=20) if len(tekken.tokens[token]) < 4]
            assert matcher.accept_token(short[0] if short else int(choices[0]))
            if matcher.is_terminated():
                break


# ---------------------------------------------------------------- matchers


def test_forced_text() -> None:
    matcher = GrammarMatcher(GrammarCompiler(VOCABULARY).compile_lark('start: "begin" (";" | "end!" "?"?)'))
    for text, forced in ((b"", "begin"), (b"begine", "nd!"), (b"nd!", "")):
        assert matcher.accept_string(text) and matcher.find_jump_forward_string() == forced


def test_forced_text_goes_on_where_tables_are_full() -> None:
    """Each byte needs a new configuration, and there is room for 1,024."""
    text = "".join(random.Random(0).choices("abcdefgh", k=3000))
    matcher = GrammarMatcher(GrammarCompiler(VOCABULARY).compile_lark(f'start: "{text}" "!"?'))
    assert matcher.find_jump_forward_string() == text
    assert matcher.accept_string(text) and matcher.find_jump_forward_string() == ""


def test_whether_a_text_is_whole_is_asked_with_the_lock() -> None:
    """The answer is read from the mask, and computing a mask writes to the tables that all matchers share."""
    compiled = uncached()
    matcher, found = GrammarMatcher(compiled), []
    assert matcher.accept_string("1 + 2")
    thread = threading.Thread(target=lambda: found.append(matcher.is_completed()))
    with compiled.classifier.lock:
        thread.start()
        thread.join(0.2)
        assert found == []
    thread.join()
    assert found == [True]


def test_a_long_list_ends_with_a_reduction_for_each_item() -> None:
    """Lark reduces a list that is recursive on the right only when something else follows."""
    compiled = GrammarCompiler(VOCABULARY).compile_lark('start: list ";"\nlist: "a" list | "b"')
    matcher = GrammarMatcher(compiled)
    assert matcher.accept_string("a" * 70_000 + "b")
    assert np.flatnonzero(bits(matcher)).tolist() == [ord(";")] and matcher.accept_token(ord(";"))
    assert matcher.is_completed()


def test_rules_of_many_empty_parts_are_read_or_refused() -> None:
    """Before the "x", the parser reduces two to the power of the depth + 1 times, less one."""

    def matcher_of(depth: int) -> GrammarMatcher:
        rules = "\n".join(f"a{n}: a{n + 1} a{n + 1}" for n in range(depth))
        text = f'start: "y" a0 "x"\n{rules}\na{depth}:'
        return GrammarMatcher(GrammarCompiler(VOCABULARY).compile_lark(text))

    matcher = matcher_of(15)
    assert matcher.accept_string("y") and bits(matcher)[ord("x")] and matcher.accept_token(ord("x"))
    with pytest.raises(UnsupportedGrammar, match="in many steps"):
        matcher_of(16)


# ---------------------------------------------------------------- budgets


def test_full_tables_begin_anew_and_masks_stay() -> None:
    compiled = uncached(budget=Budget(table_bytes=1_200_000))
    classifier, rng = compiled.classifier, random.Random(0)
    sides = Sides(GrammarMatcher(compiled), GrammarMatcher(calculator()), VOCABULARY.size)
    begun, steps = classifier.session.serial, 0
    while classifier.session.serial < begun + 3 and steps < 20_000:
        steps += 1
        choices = [token for token in sides.mask() if token not in VOCABULARY.stop_token_ids]
        opening = [token for token in choices if VOCABULARY.tokens[token] in (b"(", b"((", b"x+", b"1")]
        token = rng.choice(opening if opening and rng.random() < 0.8 else choices)
        assert sides.same("accept_token", token) is True
        if steps % 97 == 0:
            assert sides.same("rollback", 5) is None
    assert classifier.session.serial == begun + 3, "tables were renewed three times"


def test_a_budget_that_nothing_fits_in_is_said() -> None:
    matcher = GrammarMatcher(uncached(budget=Budget(table_bytes=700_000)))
    with pytest.raises(BudgetExceeded, match="table_bytes"):
        all(matcher.accept_string("(" * 50) for _ in range(200_000))


def test_no_matcher_of_a_batch_moves_if_one_cannot_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = uncached()
    matchers = [GrammarMatcher(compiled) for _ in range(2)]
    assert all(matcher.accept_string("(") and matcher.accept_string("(") for matcher in matchers)
    with compiled.classifier.lock:
        compiled.classifier.renew()
    assert matchers[1].accept_string("(")

    def full(*_: Any) -> int:
        raise BudgetExceeded("the tables are full")

    monkeypatch.setattr(type(compiled.classifier), "read_again", full)
    with pytest.raises(BudgetExceeded):
        BatchGrammarMatcher.batch_rollback(matchers, [1, 2])
    assert [matcher._follower.text_read() for matcher in matchers] == [b"((", b"((("]
    monkeypatch.undo()
    BatchGrammarMatcher.batch_rollback(matchers, [1, 2])
    assert [matcher._follower.text_read() for matcher in matchers] == [b"(", b"("]


def test_a_matcher_that_is_given_twice_goes_back_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = uncached()
    plain, healed = GrammarMatcher(compiled), HealingMatcher(compiled, "so ")
    assert healed.accept_string("so ") and healed.accept_string("(")
    with compiled.classifier.lock:
        compiled.classifier.renew()
    assert plain.accept_string("(") and not healed.is_completed()  # from now on in new tables
    monkeypatch.setattr(type(compiled.classifier), "read_again", None)  # the prefix's text need not be read
    BatchGrammarMatcher.batch_rollback([plain, healed, healed], 1)
    assert (plain._follower.n_steps, healed.left) == (0, b"so ")


@pytest.mark.parametrize("way", ["batch", "tree", "healed", "continued"])
def test_drafts_leave_a_matcher_in_place_if_it_cannot_go_back(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = uncached()
    base: Any = HealingMatcher if way == "healed" else GrammarMatcher

    class Renewing(base):
        """The tables are replaced before each token."""

        def accept_token(self, token_id: int, **options: Any) -> bool:
            with compiled.classifier.lock:
                compiled.classifier.renew()
            return bool(super().accept_token(token_id, **options))

    def full(*_: Any) -> int:
        raise BudgetExceeded("the tables are full")

    options = {"terminate_without_stop_token": True}
    matcher = Renewing(compiled, "x", **options) if way == "healed" else Renewing(compiled, **options)
    assert matcher.accept_string("x(" if way == "healed" else "(") and matcher.accept_string("(")
    before = bits(matcher)
    monkeypatch.setattr(type(compiled.classifier), "read_again", full)
    drafts = [ord("("), ord("1"), ord(")")]
    if way == "batch":
        bitmask = allocate_token_bitmask(4, VOCABULARY.size)
        assert BatchGrammarMatcher.batch_fill_draft_bitmask([matcher], bitmask, [drafts]) == [3]
    elif way == "continued":
        assert Continuations(8).continue_draft(matcher, drafts)[:3] == drafts
    else:
        bitmask = allocate_token_bitmask(4, VOCABULARY.size)
        heat = torch.zeros(4)  # without temperatures no token would be read
        parts = (torch.tensor(part) for part in ([1, 2, 3, -1], [-1] * 4, [0, *drafts]))
        with pytest.raises(BudgetExceeded):  # it goes back node by node
            matcher.traverse_draft_tree(*parts, bitmask, temperatures=heat)
    assert bits(matcher) == before
    monkeypatch.undo()
    matcher.rollback(2)


# ---------------------------------------------------------------- artefacts


def test_an_artefact_gives_the_same_masks(tmp_path: Path) -> None:
    compiled = calculator()
    compiled.save(tmp_path / "calculator")
    loaded = CompiledGrammar.load(tmp_path / "calculator", VOCABULARY)
    assert loaded.grammar == compiled.grammar and loaded.reason == compiled.reason
    assert to_bytes(loaded) == to_bytes(compiled)
    for text in ("", "let x", "let x = 1.", "((1", "letter"):
        one, two = GrammarMatcher(compiled), GrammarMatcher(loaded)
        assert one.accept_string(text) and two.accept_string(text) and bits(one) == bits(two)


def test_a_comment_may_have_half_of_a_surrogate_pair(tmp_path: Path) -> None:
    compiler = GrammarCompiler(VOCABULARY, cache_dir=tmp_path)
    compiled = compiler.compile_lark('start: "b" // \ud800')
    assert from_bytes(to_bytes(compiled), VOCABULARY).grammar == compiled.grammar
    other = GrammarCompiler(VOCABULARY, cache_dir=tmp_path).compile_lark(compiled.grammar.text)
    assert "load" in other.timings


def digest() -> str:
    """Return the digest of an artefact."""
    return hashlib.sha256(to_bytes(calculator())).hexdigest()


def test_an_artefact_is_the_same_in_every_process() -> None:
    """Lark numbers its states by hashes of names, which differ between processes."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"  # different from this process's
    program = "from tests.test_lark import digest\nprint(digest())"
    assert printed_by(program, PYTHONHASHSEED=seed).strip() == digest()


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("start: b", "Rule 'b' used but not defined|not defined"),
        ("start: B", "not defined"),
        ("start: a | b\na: X\nb: X\nX: /x/", "Reduce/Reduce"),
        ("start: /(/", "Lark refuses"),
        ("start: %", "Lark refuses"),
        *(
            (f"start: {text}", "Lark refuses")
            for text in (
                "A~5..2\nA: /a/", f"A~{'9' * 5000}\nA: /a/", "t{A}\nA: /a/", "t{A, A}\nt{x}: x\nA: /a/",
                'A\nA: B\nB: A "b"',
            )
        ),
        ('start: X\nX: "x"?', "zero-width"),
        ("%import .secrets.TOKEN\nstart: TOKEN", "imports from other files"),
        ("%import.secrets (TOKEN)\nstart: TOKEN", "imports from other files"),
        ("\n\x0b%import \\\n.secrets.TOKEN\nstart: TOKEN", "imports from other files"),
        ("%import nowhere.TOKEN\nstart: TOKEN", "Lark refuses"),
        ("", "Lark refuses|start"),
        ("start: X\n%declare X", "terminal X"),
        ("start: PAIR\nPAIR: /(?P<one>a|b)(?P=one)/", "terminal PAIR"),
    ],
)  # fmt: skip
def test_what_is_refused_is_said_in_larks_words_or_by_name(text: str, message: str) -> None:
    error = UnsupportedGrammar if message.startswith("terminal") else GrammarError
    with pytest.raises(error, match=message):
        GrammarCompiler(VOCABULARY).compile_lark(text)


def test_other_strategies_have_no_lexer() -> None:
    for strategy in ("engine", "representatives"):
        with pytest.raises(StrategyError, match="no lexer"):
            GrammarCompiler(VOCABULARY, strategy=strategy).compile_lark(CALCULATOR)
