"""The parser stack classifier: its masks and steps are those of the grammar, whatever it has met before.

What: masks against the slow reference on random grammars, ahead of time and on demand; nothing is left to
find after building ahead; forks, rollbacks and batches against reading from scratch; full tables;
ambiguous and deep texts, whose configurations stay small.
When: after any change of `hybrid.classifier` or of the kernels that it shares with the exploration.
Limits: what it shares with other strategies is compared with XGrammar in ``test_matcher.py``.
"""

from __future__ import annotations

import os
import random
import threading
from typing import Any

import numpy as np
import pytest
import xgrammar
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from bench.cases import Case
from equivalence import BudgetExceeded, UnsupportedGrammar, Vocabulary, built
from equivalence.classes.reference import ReferenceGrammar
from equivalence.network import build_network
from equivalence.parser.absorbing import absorbing_states
from equivalence.parser.automaton import Automaton
from hybrid import (
    BatchGrammarMatcher,
    Budget,
    CompiledGrammar,
    GrammarCompiler,
    GrammarMatcher,
    allocate_token_bitmask,
)
from hybrid.classifier.matcher import ClassifierMatcher
from hybrid.classifier.rows import Rows
from hybrid.classifier.steps import Steps
from hybrid.classifier.store import Store
from hybrid.classifier.summaries import summaries_of
from tests.conftest import load_cases
from tests.random_grammars import GrammarCase, grammar_cases

pytestmark = pytest.mark.kernels

COMPILED = os.environ.get(built.PLAIN, "0") == "0"
EXAMPLES = 150 if COMPILED else 20

SMALL = Budget(states=4_000)
"""Enough for all but the most ambiguous random grammars."""

LETTERS = [
    b"a",
    b"b",
    b"ab",
    b"aa",
    b"(",
    b")",
    b"((",
    b"))",
    b"+",
    b"a+",
    b"x",
    b"xx",
    b"",
    b"aaa",
    b"+a",
    b")+",
]
STOP = LETTERS.index(b"")


def vocabulary_of(tokens: list[bytes]) -> Vocabulary:
    """The tokens, and a stop id behind them."""
    return Vocabulary.from_bytes([*tokens, b""], stop_token_ids=len(tokens))


def compiled_of(grammar: Any, vocabulary: Vocabulary, **options: Any) -> CompiledGrammar:
    compiler = GrammarCompiler(vocabulary, strategy="classifier", cache_enabled=False, **options)
    return compiler.compile_grammar(grammar)


def mask_of(matcher: GrammarMatcher, size: int) -> list[int]:
    bitmask = allocate_token_bitmask(1, size)
    matcher.fill_next_token_bitmask(bitmask)
    bits = np.unpackbits(bitmask.numpy().view(np.uint8), bitorder="little")
    return np.flatnonzero(bits[:size]).tolist()


def classifier_case(case: GrammarCase, on_demand: bool) -> tuple[CompiledGrammar, Vocabulary]:
    """The example compiled; one that is refused or outgrows its budget is left out."""
    vocabulary = vocabulary_of(case.vocabulary)
    try:
        compiled = compiled_of(case.ebnf, vocabulary, on_demand=on_demand, budget=SMALL)
    except (UnsupportedGrammar, BudgetExceeded):
        reject()
    if compiled.strategy != "classifier":
        reject()
    return compiled, vocabulary


# --- Random grammars, against the reference ------------------------------------------------------------


@pytest.mark.parametrize("on_demand", [False, True], ids=["ahead", "on demand"])
@settings(max_examples=EXAMPLES, deadline=None)
@given(case=grammar_cases(), rng=st.randoms(use_true_random=False))
def test_masks_are_those_of_the_reference(case: GrammarCase, rng: random.Random, on_demand: bool) -> None:
    compiled, vocabulary = classifier_case(case, on_demand)
    reference = ReferenceGrammar(xgrammar.Grammar.from_ebnf(case.ebnf))
    stop = len(case.vocabulary)
    for _ in range(3):
        matcher, prefix = GrammarMatcher(compiled), b""
        for _ in range(8):
            allowed = mask_of(matcher, vocabulary.size)
            (expected,) = reference.masks([prefix], case.vocabulary)
            wanted = [
                token_id for token_id, taken in enumerate(expected) if taken and case.vocabulary[token_id]
            ]
            assert [token_id for token_id in allowed if token_id != stop] == wanted, (prefix, case.ebnf)
            assert (stop in allowed) == reference.complete(prefix) == matcher.is_completed(), (
                prefix,
                case.ebnf,
            )
            if not wanted:
                break
            token_id = rng.choice(wanted)
            assert matcher.accept_token(token_id)
            prefix += case.vocabulary[token_id]


@settings(max_examples=EXAMPLES, deadline=None)
@given(case=grammar_cases(), rng=st.randoms(use_true_random=False))
def test_ahead_of_time_leaves_nothing_to_find(case: GrammarCase, rng: random.Random) -> None:
    compiled, vocabulary = classifier_case(case, on_demand=False)
    assert compiled.classifier is not None
    store = compiled.classifier.session.store
    known = store.known.n_known
    for _ in range(3):
        matcher = GrammarMatcher(compiled)
        for _ in range(8):
            allowed = [t for t in mask_of(matcher, vocabulary.size) if t != len(case.vocabulary)]
            if not allowed or not matcher.accept_token(rng.choice(allowed)):
                break
    assert store.known.n_known == known, case.ebnf


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(case=grammar_cases(), rng=st.randoms(use_true_random=False))
def test_any_way_to_a_text_is_the_same(case: GrammarCase, rng: random.Random) -> None:
    """Tokens, bytes, forks and rollbacks: the text decides, not how it was read."""
    compiled, vocabulary = classifier_case(case, on_demand=True)
    matcher = GrammarMatcher(compiled)
    history = [b""]
    for _ in range(20):
        act = rng.randrange(4)
        if act == 0 and len(history) > 1:
            back = rng.randrange(1, len(history))
            matcher.rollback(back)
            del history[-back:]
        elif act == 1:
            other = matcher.fork()
            other.accept_string(b"a")
        else:
            token_id = rng.randrange(len(case.vocabulary))
            if matcher.accept_token(token_id):
                history.append(history[-1] + case.vocabulary[token_id])
        fresh = GrammarMatcher(compiled)
        assert fresh.accept_string(history[-1])
        assert mask_of(fresh, vocabulary.size) == mask_of(matcher, vocabulary.size), (history, case.ebnf)
        assert fresh.is_completed() == matcher.is_completed()


# --- Cases of all kinds -----------------------------------------------------------------------------------


@pytest.mark.skipif(not COMPILED, reason="slow as plain Python")
@pytest.mark.parametrize("case", load_cases(), ids=str)
def test_cases(case: Case) -> None:
    """Each string of a case byte by byte, with the mask before each byte."""
    vocabulary = Vocabulary.from_bytes([bytes([value]) for value in range(256)] + [b""], stop_token_ids=256)
    compiler = GrammarCompiler(vocabulary, strategy="classifier", cache_enabled=False)
    compiled = compiler.compile_grammar(case.parse())
    for texts, whole in ((case.accepts, True), (case.rejects, False)):
        for text in texts:
            if len(text) > 2_000:
                continue
            matcher = GrammarMatcher(compiled)
            read = all(byte in mask_of(matcher, 257) and matcher.accept_token(byte) for byte in text)
            assert (read and matcher.is_completed()) == whole, (case.name, text, compiled.reason)
    for text in case.prefixes:
        assert GrammarMatcher(compiled).accept_string(text), (case.name, text)


# --- Full tables --------------------------------------------------------------------------------------------

NESTED = 'root ::= ("(" root ")" | "a"{2,9} | "+" root "x")*'


def walk(compiled: CompiledGrammar, seed: int, steps: int) -> tuple[list[int], list[list[int]]]:
    """Random tokens, and the mask before each; a text that cannot go on begins again."""
    rng = random.Random(seed)
    matcher = GrammarMatcher(compiled)
    ids, masks = [], []
    for _ in range(steps):
        masks.append(mask_of(matcher, len(LETTERS)))
        going_on = [token_id for token_id in masks[-1] if token_id != STOP]
        if not going_on:
            matcher.reset()
            ids.append(-1)
            continue
        ids.append(rng.choice(going_on))
        assert matcher.accept_token(ids[-1])
    return ids, masks


def test_full_tables_begin_anew_with_the_same_masks() -> None:
    vocabulary = Vocabulary.from_bytes(LETTERS, stop_token_ids=STOP)
    roomy = compiled_of(NESTED, vocabulary)
    tight = compiled_of(NESTED, vocabulary, budget=Budget(table_bytes=4_000_000))
    assert tight.classifier is not None
    matcher = GrammarMatcher(tight)
    other = GrammarMatcher(roomy)
    rng = random.Random(0)
    steps = 400 if COMPILED else 100
    for _ in range(steps):
        allowed = mask_of(other, vocabulary.size)
        assert mask_of(matcher, vocabulary.size) == allowed
        token_id = rng.choice([token_id for token_id in allowed if token_id != STOP])
        assert matcher.accept_token(token_id)
        assert other.accept_token(token_id)
        if rng.random() < 0.1:
            tight.classifier.session.left = -1  # the budget of remembered steps and masks is used up
    assert isinstance(matcher, ClassifierMatcher)
    assert tight.classifier.session.serial > 0
    matcher.rollback(20)
    other.rollback(20)
    assert mask_of(matcher, vocabulary.size) == mask_of(other, vocabulary.size)


@pytest.mark.parametrize(
    ("grammar", "taken_over"),
    [
        ('root ::= ("(" root ")" | "a" | "+" root "x")*', True),
        (NESTED, False),
        ('root ::= "(" [ax]{2,500} ")" root?', False),
    ],
)
def test_the_first_session_begins_with_what_exploring_met(grammar: str, taken_over: bool) -> None:
    """Not where a count is bounded by the length of a token in one, and by that of the text in the other."""
    vocabulary = Vocabulary.from_bytes(LETTERS, stop_token_ids=STOP)
    compiled = GrammarCompiler(vocabulary, strategy="auto").compile_grammar(grammar)
    classifier = compiled.classifier
    assert classifier is not None
    begun_with = classifier.session.store.n_configurations
    ids, masks = walk(compiled, 0, 60)
    classifier.renew()  # with empty tables
    assert walk(compiled, 0, 60) == (ids, masks)
    assert walk(compiled_of(grammar, vocabulary), 0, 60) == (ids, masks)
    classifier.renew()
    assert (begun_with > classifier.session.store.n_configurations) == taken_over


@pytest.mark.parametrize("grammar", [NESTED, 'root ::= e\ne ::= e "+" e | "(" e ")" | "a"{1,3}'])
def test_a_store_begins_with_what_another_has_met(grammar: str) -> None:
    """A copy has room of its own, and everything has the same number in both."""
    vocabulary = Vocabulary.from_bytes(LETTERS, stop_token_ids=STOP)
    compiled = compiled_of(grammar, vocabulary)
    classifier = compiled.classifier
    assert classifier is not None
    walk(compiled, 1, 80)
    store = classifier.session.store
    met = store.n_configurations
    other = Store(classifier._fixed, 1 << 26, None, store.space)
    assert other.n_configurations == met > 10
    assert np.array_equal(other.space.known_steps(), store.space.known_steps())
    for configuration in range(met):
        assert other.space.list_of(configuration).tolist() == store.space.list_of(configuration).tolist()
        assert other.is_whole(configuration) == store.is_whole(configuration)
        masks = [one.mask_words(one.class_mask(configuration) >> 1).tolist() for one in (store, other)]
        assert masks[0] == masks[1]
    assert store.n_configurations == met, "they share nothing"
    tight = Store(classifier._fixed, 4 * store.nbytes // 16, None, store.space)
    assert tight.n_configurations < met, "too much for the limit: begun without it"


@pytest.mark.parametrize("grammar", [NESTED, 'root ::= e\ne ::= e "+" e | "(" e ")" | "a"{1,3}'])
def test_what_is_brought_is_the_same(grammar: str) -> None:
    """Every configuration of one store, brought to another and back."""
    vocabulary = Vocabulary.from_bytes(LETTERS, stop_token_ids=STOP)
    compiled = compiled_of(grammar, vocabulary)
    classifier = compiled.classifier
    assert classifier is not None
    walk(compiled, 2, 80)
    store, other = classifier.session.store, Store(classifier._fixed, 1 << 26)
    for configuration in reversed(range(store.n_configurations)):
        brought = other.bring(store, configuration)
        assert store.bring(other, brought) == configuration
        masks = [
            one.mask_words(one.class_mask(number) >> 1).tolist()
            for one, number in ((store, configuration), (other, brought))
        ]
        assert masks[0] == masks[1] and other.is_whole(brought) == store.is_whole(configuration)
    with pytest.raises(ValueError, match="no configuration"):
        other.bring(store, store.n_configurations + 1000)


def test_what_a_store_refuses() -> None:
    vocabulary = Vocabulary.from_bytes(LETTERS, stop_token_ids=STOP)
    compiled = compiled_of(NESTED, vocabulary)
    assert compiled.classifier is not None
    store = compiled.classifier.session.store
    beyond = store.n_configurations
    for ask in (store.class_mask, store.is_whole, store.forced_byte, store.mask_words):
        for number in (-1, 1 << 40):
            with pytest.raises(IndexError, match="there is no"):
                ask(number)
    with pytest.raises(IndexError, match="configuration"):
        store.advance(beyond, 0)
    for token in (-1, len(LETTERS)):
        with pytest.raises(IndexError, match="token"):
            store.advance(1, token)
    with pytest.raises(IndexError, match="state"):
        store.start(1 << 20, False)
    numbers = np.ones(3, np.int64)
    with pytest.raises(ValueError, match="not as many"):
        store.class_masks(numbers, numbers[:2].copy())
    with pytest.raises(ValueError, match="not as many"):
        store.advances(numbers, numbers, numbers[:2].copy())
    with pytest.raises(ValueError, match="dtype"):
        store.class_masks(numbers.astype(np.int32), numbers)
    with pytest.raises(IndexError, match="token"):
        store.advances(numbers, 100 * numbers, numbers.copy())


def test_bytes_that_are_used_up_leave_tables_whole() -> None:
    """Every growth may be refused, and asked for again with more bytes: nothing is lost or half made."""
    vocabulary = Vocabulary.from_bytes(LETTERS, stop_token_ids=STOP)
    compiled = compiled_of(NESTED, vocabulary)
    assert compiled.classifier is not None
    fixed = compiled.classifier._fixed
    tight, roomy = Store(fixed, 1 << 30), Store(fixed, 1 << 30)
    limit = tight.nbytes
    refused: list[str] = []
    rng = random.Random(3)
    configuration = other = tight.start(fixed.start, fixed.start_final)
    assert roomy.start(fixed.start, fixed.start_final) == other
    for _ in range(6_000 if COMPILED else 200):
        token = rng.choice([4, 4, 6, 8, 0, 3])
        wanted = roomy.advance(other, token), roomy.class_mask(other)
        while True:
            tight.bound(limit)
            try:
                found = tight.advance(configuration, token), tight.class_mask(configuration)
                break
            except BudgetExceeded as error:
                refused.append(str(error))
                limit += 50_000
        assert found == wanted
        if found[0]:
            configuration = other = found[0]
    assert len(refused) > 5 or not COMPILED
    assert all(f"bytes and need more, allowed are {1 << 30};" in text for text in refused)
    assert tight.nbytes == roomy.nbytes


def test_remembered_steps_and_rows() -> None:
    steps: Steps = Steps()
    wanted: dict[tuple[int, int], int] = {}
    rng = random.Random(4)
    for _ in range(3_000):
        step = rng.randrange(5_000), rng.randrange(130_000)
        assert steps.get(*step) == wanted.get(step, -1)
        wanted[step] = rng.randrange(1 << 30)
        steps.add(*step, wanted[step])
    assert len(steps) == len(wanted) and all(steps.get(*step) == wanted[step] for step in wanted)
    vocabulary = Vocabulary.from_bytes(LETTERS, stop_token_ids=STOP)
    compiled = compiled_of(NESTED, vocabulary)
    classifier = compiled.classifier
    assert classifier is not None
    rows, store = Rows(classifier.gather, (STOP,)), classifier.session.store
    walk(compiled, 5, 60)
    buffer = np.zeros(1, np.uint32)
    for configuration in range(1, store.n_configurations):
        assert rows.get(configuration) is None and rows.copy(configuration, buffer.ctypes.data) == -1
        mask = store.class_mask(configuration)
        row = rows.of(configuration, mask) or rows.make(configuration, mask, store.mask_words(mask >> 1))
        assert bool(row.words[0] >> STOP & 1) == bool(mask & 1) and row.needed
        assert rows.get(configuration) is row
        assert rows.copy(configuration, buffer.ctypes.data) == row.needed and buffer[0] == row.words[0]
    assert len(rows) == store.n_configurations - 1 > rows.n_rows > 3
    for unknown in (-1, 1 << 40):
        assert rows.get(unknown) is None
    with pytest.raises(ValueError, match="stop ids"):
        Rows(classifier.gather, (len(LETTERS),))
    with pytest.raises(ValueError, match="not enough"):
        rows.make(0, 5, np.zeros(0, np.uint32))


def test_what_a_complete_automaton_lacks_is_never_guessed() -> None:
    """An automaton that calls itself complete, without its summaries: matchers go on elsewhere."""
    vocabulary = Vocabulary.from_bytes(LETTERS, stop_token_ids=STOP)
    fresh, compiled = GrammarMatcher(compiled_of(NESTED, vocabulary)), compiled_of(NESTED, vocabulary)
    classifier = compiled.classifier
    assert classifier is not None and classifier._known.complete and classifier._known.n_known > 0
    known = classifier._known
    classifier._known = summaries_of(
        known.first_rows(), np.empty((0, 4), np.int64), known.pendings.lists(), known.masks.lists(),
        known.units.lists(), known.n_words, True,
    )  # fmt: skip
    classifier.renew()
    matchers = [GrammarMatcher(compiled) for _ in range(3)]
    for matcher in (fresh, *matchers):
        assert all(matcher.accept_token(LETTERS.index(text)) for text in (b"((", b"a"))
    bitmask = allocate_token_bitmask(3, vocabulary.size)
    BatchGrammarMatcher().batch_fill_next_token_bitmask(matchers, bitmask)
    expected = mask_of(fresh, vocabulary.size)
    for row, matcher in zip(bitmask.numpy(), matchers, strict=True):
        assert not isinstance(matcher, ClassifierMatcher)
        bits = np.unpackbits(row.view(np.uint8), bitorder="little")
        assert np.flatnonzero(bits[: vocabulary.size]).tolist() == expected
        assert mask_of(matcher, vocabulary.size) == expected


@pytest.mark.skipif(not COMPILED, reason="slow as plain Python")
def test_too_small_a_budget_goes_on_with_representatives() -> None:
    """A stack that does not fit even empty tables: the matcher goes on elsewhere, in the same state."""
    vocabulary = Vocabulary.from_bytes(LETTERS, stop_token_ids=STOP)
    grammar = 'root ::= "(" root ")" | "a"'
    compiled = compiled_of(grammar, vocabulary, budget=Budget(table_bytes=4_000_000))
    assert compiled.strategy == "classifier"
    matcher = GrammarMatcher(compiled)
    depth = 0
    while isinstance(matcher, ClassifierMatcher):
        assert mask_of(matcher, vocabulary.size) == [LETTERS.index(t) for t in (b"a", b"(", b"((")]
        assert matcher.accept_token(LETTERS.index(b"(("))
        depth += 2
        assert depth < 20_000
    assert depth > 1_000
    assert "went on in" in compiled.reason
    assert matcher.accept_string(b"a" + b")" * (depth - 1))
    assert mask_of(matcher, vocabulary.size) == [LETTERS.index(b")")]
    matcher.rollback(1 + depth // 4)
    assert mask_of(matcher, vocabulary.size) == [LETTERS.index(t) for t in (b"a", b"(", b"((")]
    assert matcher.accept_string(b"a" + b")" * (depth - 2 * (depth // 4)))
    assert matcher.is_completed()


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
    """A text twice as long meets no new configurations but those of new counts, and none gets larger."""
    grammar, period = GROWING[name]
    vocabulary = Vocabulary.from_bytes(LETTERS, stop_token_ids=STOP)
    compiled = compiled_of(grammar, vocabulary)
    assert compiled.classifier is not None
    matcher = GrammarMatcher(compiled)
    start = b"(" if name == "lists of lists" else b""
    assert matcher.accept_string(start)
    sizes = []
    for _ in range(2):
        for _ in range(100):
            assert matcher.accept_string(period)
            mask_of(matcher, vocabulary.size)
        space = compiled.classifier.session.store.space
        tails = space.stacks.tails
        sizes.append((space.configurations.count, tails.count, tails.used))
    per_period = 9 if name == "counted pairs" else 0
    for before, after in zip(*sizes, strict=True):
        assert after <= before + 100 * per_period, sizes


def test_deep_nesting_adds_a_frame_at_a_time() -> None:
    vocabulary = Vocabulary.from_bytes(LETTERS, stop_token_ids=STOP)
    compiled = compiled_of('root ::= "(" root ")" | "a"', vocabulary)
    assert compiled.classifier is not None
    matcher = GrammarMatcher(compiled)
    depth = 2_000 if COMPILED else 300
    for _ in range(depth):
        assert matcher.accept_token(LETTERS.index(b"("))
        assert mask_of(matcher, vocabulary.size) == [LETTERS.index(t) for t in (b"a", b"(", b"((")]
    space = compiled.classifier.session.store.space
    assert space.stacks.tails.count <= depth + 10
    assert matcher.accept_token(LETTERS.index(b"a"))
    assert matcher.accept_string(b")" * (depth - 1))
    assert mask_of(matcher, vocabulary.size) == [LETTERS.index(b")")]
    assert matcher.accept_token(LETTERS.index(b")"))
    assert matcher.is_completed()


def test_endless_forced_text_is_cut_off() -> None:
    vocabulary = Vocabulary.from_bytes(LETTERS, stop_token_ids=STOP)
    matcher = GrammarMatcher(compiled_of('root ::= "a" root', vocabulary))
    assert set(matcher.find_jump_forward_string()) == {"a"}


@pytest.mark.parametrize(
    ("grammar", "expected"),
    [
        ('root ::= e\ne ::= e e | "a"', 1),
        ('root ::= e\ne ::= e "+" e | "a"', 1),
        (
            'root ::= s\ns ::= "(" s "x"? | "a"',
            0,
        ),  # the lower one may still read an x that the upper one read
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


# --- Many at once -------------------------------------------------------------------------------------------


def test_a_batch_is_its_members() -> None:
    vocabulary = Vocabulary.from_bytes(LETTERS, stop_token_ids=STOP)
    grammars = [NESTED, 'root ::= ("a" | "(" root ")")*', 'root ::= "x"* "a"+']
    compiled = [compiled_of(text, vocabulary, on_demand=True) for text in grammars]
    rng = random.Random(5)
    together = [GrammarMatcher(compiled[i % 3]) for i in range(12)]
    alone = [GrammarMatcher(compiled_of(grammars[i % 3], vocabulary)) for i in range(12)]
    batch = BatchGrammarMatcher()
    rows = rng.sample(range(20), 12)
    for _ in range(30):
        bitmask = allocate_token_bitmask(20, vocabulary.size)
        untouched = [row for row in range(20) if row not in rows]
        batch.batch_fill_next_token_bitmask(together, bitmask, rows)
        assert bitmask[untouched].eq(-1).all()
        for matcher, row in zip(alone, rows, strict=True):
            expected = allocate_token_bitmask(1, vocabulary.size)
            matcher.fill_next_token_bitmask(expected)
            assert bitmask[row].equal(expected[0])
        tokens = [rng.randrange(-1, len(LETTERS) + 2) for _ in together]
        taken = batch.batch_accept_token(together, tokens)
        assert taken == [matcher.accept_token(t) for matcher, t in zip(alone, tokens, strict=True)]
        ended = [i for i, matcher in enumerate(alone) if matcher.is_terminated()]
        for i in ended:
            together[i].rollback()
            alone[i].rollback()


def test_a_batch_with_an_ended_member_writes_nothing() -> None:
    vocabulary = Vocabulary.from_bytes(LETTERS, stop_token_ids=STOP)
    compiled = compiled_of('root ::= "a"', vocabulary)
    matchers = [GrammarMatcher(compiled), GrammarMatcher(compiled)]
    assert matchers[1].accept_token(0)
    assert matchers[1].accept_token(STOP)
    bitmask = allocate_token_bitmask(2, vocabulary.size)
    with pytest.raises(RuntimeError, match="terminated"):
        BatchGrammarMatcher().batch_fill_next_token_bitmask(matchers, bitmask)
    assert bitmask.eq(-1).all()


def test_threads_share_a_classifier() -> None:
    vocabulary = Vocabulary.from_bytes(LETTERS, stop_token_ids=STOP)
    expected = walk(compiled_of(NESTED, vocabulary), 7, 200)
    shared = compiled_of(NESTED, vocabulary, on_demand=True)
    found: list[Any] = []

    def work() -> None:
        found.append(walk(shared, 7, 200))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 8


def test_forced_text_ends_where_tables_are_full_and_before_half_a_character() -> None:
    vocabulary = Vocabulary.from_bytes([b'"', b"z", b"\xe2\x82\xac", b""], stop_token_ids=[3])
    compiler = GrammarCompiler(vocabulary, strategy="classifier")
    # the fallback's own search would not return
    matcher = GrammarMatcher(compiler.compile_grammar('root ::= ["]+ root{2,} "z"'))
    assert matcher.accept_token(0)
    assert set(matcher.find_jump_forward_string()) == {'"'}
    matcher = GrammarMatcher(compiler.compile_grammar('root ::= "€" root'))
    assert set(matcher.find_jump_forward_string()) == {"€"}
    assert GrammarMatcher(compiler.compile_grammar('root ::= "é" | "è"')).find_jump_forward_string() == ""


@pytest.mark.parametrize("strategy", ["representatives", "engine"])
def test_forced_text_of_xgrammar_ends_before_half_a_character(strategy: str) -> None:
    vocabulary = Vocabulary.from_bytes([b"a", b"\xc3", b"\xa9", b""], stop_token_ids=[3])
    compiled = GrammarCompiler(vocabulary, strategy=strategy).compile_grammar('root ::= "a" ("é" | "è")')
    assert GrammarMatcher(compiled).find_jump_forward_string() == "a"
