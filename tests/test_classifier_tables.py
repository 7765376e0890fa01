"""The tables of a classifier: filled, full, started anew, and copied.

What: masks before and after tables are full; what a new session starts with and copies from the previous one;
what a store refuses; budgets that are too small.
When: after any change of `hybrid.classifier.store` or `hybrid.classifier.classifier`.
Limits: small vocabularies and grammars.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from equivalence import BudgetExceeded, Vocabulary
from equivalence.deadline import Deadline
from equivalence.network import below_of
from hybrid import BatchGrammarMatcher, Budget, GrammarCompiler, GrammarMatcher, allocate_token_bitmask
from hybrid.classifier.follower import ClassifierFollower
from hybrid.classifier.promotion import Promotion
from hybrid.classifier.rows import Rows
from hybrid.classifier.step_cache import StepCache
from hybrid.classifier.store import Store
from hybrid.classifier.summaries import summaries_of
from tests.classifiers import LETTERS, NESTED, STOP, compiled_of, vocabulary_of, words_of
from tests.limits import a_stop
from tests.matchers import Sides, ids_of, mask_of
from tests.test_artifact import masks_along

pytestmark = pytest.mark.kernels


def test_full_tables_begin_anew_with_the_same_masks() -> None:
    tight = compiled_of(NESTED, budget=Budget(table_bytes=4_000_000))
    sides = Sides(GrammarMatcher(tight), GrammarMatcher(compiled_of(NESTED)), len(LETTERS))
    rng = random.Random(0)
    for _ in range(400):
        token_id = rng.choice([token_id for token_id in sides.mask() if token_id != STOP])
        assert sides.same("accept_token", token_id) is True
        if rng.random() < 0.1:
            tight.classifier.session.left = -1  # the budget of remembered steps and masks is used up
    assert isinstance(sides.ours._follower, ClassifierFollower)
    assert tight.classifier.session.serial > 0
    assert sides.same("rollback", 20) is None
    sides.mask()


def test_tables_that_idle_matchers_keep_are_counted() -> None:
    compiled = compiled_of('root ::= "(" root ")" | "a"')
    classifier = compiled.classifier
    idle = GrammarMatcher(compiled)
    assert idle.accept_string("(" * 5000)
    for renewals in (1, 2):
        before, held = compiled.memory_size_bytes, classifier.session.store.nbytes
        with classifier.lock:
            empty = classifier.renew().store.nbytes
        # the second one replaces tables in which no matcher is
        assert compiled.memory_size_bytes - before == (empty if renewals == 1 else empty - held)
    assert idle.accept_string("(")  # moves on
    assert compiled.memory_size_bytes < before


@pytest.mark.parametrize("grammar", [NESTED, 'root ::= e\ne ::= e "+" e | "(" e ")" | "a"{1,3}'])
def test_what_migrates_is_the_same(grammar: str) -> None:
    """Every configuration of one store is the same after it was copied to another store and back."""
    compiled = compiled_of(grammar)
    classifier = compiled.classifier
    masks_along(compiled, 2, 80)
    store, other = classifier.session.store, Store(classifier.fixed, 1 << 26)
    for configuration in reversed(range(store.n_configurations)):
        migrated = other.migrate_from(store, configuration)
        assert store.migrate_from(other, migrated) == configuration
        both = (store, configuration), (other, migrated)
        mask, same = (words_of(one, one.class_mask(number) >> 1) for one, number in both)
        assert mask == same and other.is_whole(migrated) == store.is_whole(configuration)
    with pytest.raises(ValueError, match="no configuration"):
        other.migrate_from(store, store.n_configurations + 1000)


def test_bytes_that_are_used_up_leave_tables_whole() -> None:
    """Any growth may be refused and repeated with more bytes: nothing is lost or left half made."""
    fixed = compiled_of(NESTED).classifier.fixed
    tight, roomy = Store(fixed, 1 << 30), Store(fixed, 1 << 30)
    limit = tight.nbytes
    refused: list[str] = []
    rng = random.Random(3)
    configuration = other = tight.start()
    assert roomy.start() == other
    for _ in range(6_000):
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
    assert len(refused) > 5
    assert all(f"bytes and need more, but the limit is {1 << 30};" in text for text in refused)
    assert tight.nbytes == roomy.nbytes


def test_tables_for_long_tokens_are_as_large_as_what_is_found() -> None:
    """If there were room for all suffixes of all suffixes, it would be 33 GiB."""
    tokens = [*(b"a" * count for count in range(1, 3_000)), b"b", b"a", b""]
    vocabulary = Vocabulary.from_bytes(tokens, stop_token_ids=len(tokens) - 1)
    compiler = GrammarCompiler(vocabulary, strategy="classifier", on_demand=True)
    compiled = compiler.compile_grammar('root ::= "a" root "a" | "b"')
    assert compiled.strategy == "classifier"
    matcher = GrammarMatcher(compiled)
    assert matcher.accept_string("aaab") and mask_of(matcher) == [0, 1, 2, len(tokens) - 2]
    assert compiled.memory_size_bytes < 1 << 26


def test_the_deadline_is_looked_at_within_a_state() -> None:
    """With thousands of long representatives, a state takes milliseconds."""
    vocabulary = vocabulary_of([b"a" * n for n in range(1, 40)])
    classifier = compiled_of('root ::= "a"{30} "b"', vocabulary, on_demand=True).classifier
    fixed = classifier.fixed
    below = below_of(fixed.parser.net, fixed.start, 1000, a_stop())
    work = Promotion(classifier, below, states=1000, limit=1 << 24, deadline=Deadline(0.0))
    with pytest.raises(BudgetExceeded, match="the classifier's states"):
        work.piece()
    assert classifier.session.store.summaries.n_pairs == 0


def test_remembered_steps() -> None:
    steps: StepCache = StepCache()
    wanted: dict[tuple[int, int], int] = {}
    rng = random.Random(4)
    for _ in range(3_000):
        step = rng.randrange(5_000), rng.randrange(130_000)
        assert steps.get(*step) == wanted.get(step, -1)
        wanted[step] = rng.randrange(1 << 30)
        steps.add(*step, wanted[step])
    assert len(steps) == len(wanted) and all(steps.get(*step) == wanted[step] for step in wanted)


def test_rows_of_equal_masks_are_shared() -> None:
    compiled = compiled_of(NESTED)
    rows, store = Rows(compiled.classifier.gather, (STOP,)), compiled.classifier.session.store
    masks_along(compiled, 5, 60)
    buffer = np.zeros(1, np.uint32)
    wanted: dict[int, int] = {}
    for configuration in range(1, store.n_configurations):
        assert not rows.knows(configuration) and rows.copy(configuration, buffer) == -1
        mask = store.class_mask(configuration)
        if not rows.shares(configuration, mask):
            rows.make(configuration, mask, mask, store.masks)
        assert rows.knows(configuration) and rows.copy(configuration, buffer) == 1
        assert bool(buffer[0] >> STOP & 1) == bool(mask & 1)
        assert wanted.setdefault(mask, int(buffer[0])) == buffer[0]
    assert store.n_configurations - 1 > len(rows.rows) > 3


def test_what_a_complete_automaton_lacks_is_never_guessed() -> None:
    """If an automaton claims to be complete but lacks summaries, matchers continue with another strategy."""
    fresh, compiled = GrammarMatcher(compiled_of(NESTED)), compiled_of(NESTED)
    classifier = compiled.classifier
    known = classifier._summaries
    assert known.complete and known.n_pairs > 0
    classifier._summaries = summaries_of(
        known.first_rows(), np.empty((0, 4), np.int64), known.pendings.lists(), known.masks.lists(),
        known.units.lists(), known.n_words, True,
    )  # fmt: skip
    classifier.renew()
    matchers = [GrammarMatcher(compiled) for _ in range(3)]
    for matcher in (fresh, *matchers):
        assert all(matcher.accept_token(LETTERS.index(text)) for text in (b"((", b"a"))
    bitmask = allocate_token_bitmask(3, len(LETTERS))
    BatchGrammarMatcher().batch_fill_next_token_bitmask(matchers, bitmask)
    expected = mask_of(fresh)
    for row, matcher in zip(bitmask.numpy(), matchers, strict=True):
        assert not isinstance(matcher._follower, ClassifierFollower)
        assert ids_of(row, len(LETTERS)) == expected
        assert mask_of(matcher) == expected


def test_too_small_a_budget_goes_on_with_representatives() -> None:
    """When a stack does not fit even into empty tables, the matcher continues with another strategy, in the
    same state."""
    compiled = compiled_of('root ::= "(" root ")" | "a"', budget=Budget(table_bytes=4_000_000))
    assert compiled.strategy == "classifier"
    matcher = GrammarMatcher(compiled)
    depth = 0
    while isinstance(matcher._follower, ClassifierFollower):
        assert mask_of(matcher) == [LETTERS.index(t) for t in (b"a", b"(", b"((")]
        assert matcher.accept_token(LETTERS.index(b"(("))
        depth += 2
        assert depth < 20_000
    assert depth > 1_000
    assert "continued on" in compiled.reason
    assert matcher.accept_string(b"a" + b")" * (depth - 1))
    assert mask_of(matcher) == [LETTERS.index(b")")]
    matcher.rollback(1 + depth // 4)
    assert mask_of(matcher) == [LETTERS.index(t) for t in (b"a", b"(", b"((")]
    assert matcher.accept_string(b"a" + b")" * (depth - 2 * (depth // 4)))
    assert matcher.is_completed()
