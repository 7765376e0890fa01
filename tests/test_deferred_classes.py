"""Deferred classes: masks are computed by walks until classes are needed, and the masks do not change then.

What: which compilers walk; masks before, while and after classes take over, of live matchers, of forks and
after rollbacks; what requires classes; what exceeds the budget.
When: after any change of `hybrid.classifier.deferred_classes`, of promotion, or of how classifiers change
sessions.
Limits: that walked masks are right is tested in ``test_walking.py``.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from equivalence import BudgetExceeded
from hybrid import Budget, CompiledGrammar, GrammarCompiler, GrammarMatcher
from tests.matchers import mask_of
from tests.test_artifact import VOCABULARY, masks_along
from tests.test_promotion import NESTED


def walked(**options: Any) -> CompiledGrammar:
    compiled = GrammarCompiler(VOCABULARY, **options).compile_grammar(NESTED)
    assert compiled.deferred is not None and compiled.known_classes is None
    return compiled


def by_classes() -> CompiledGrammar:
    return GrammarCompiler(VOCABULARY, strategy="classifier").compile_grammar(NESTED)


# --- Who walks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("deterministic", [False, True])
def test_auto_walks_first_and_says_so(deterministic: bool) -> None:
    compiled = walked(deterministic=deterministic)
    assert compiled.strategy == "classifier"
    assert "masks are computed by walking the vocabulary" in compiled.reason
    assert compiled.engine is None and compiled.gather is None and compiled.classifier.is_walked
    assert set(compiled.timings) == {"parse", "serialize", "network", "classifier", "total"}
    assert 0 < compiled.memory_size_bytes < 8 << 20
    assert "classes" not in repr(compiled) and compiled.known_classes is None, "to look is not to ask"
    assert masks_along(compiled) == masks_along(by_classes())
    assert compiled.classifier.is_walked


@pytest.mark.parametrize("options", [{"strategy": "classifier"}, {"on_demand": True}], ids=str)
def test_who_does_not_walk(options: dict[str, Any]) -> None:
    compiled = GrammarCompiler(VOCABULARY, **options).compile_grammar(NESTED)
    assert compiled.deferred is None and "ids of the vocabulary form" in compiled.reason


# --- Who asks for classes -------------------------------------------------------------------------------


def test_classes_are_found_when_they_are_asked_for(tmp_path: Path) -> None:
    compiled = walked()
    matcher = GrammarMatcher(compiled)
    assert matcher.accept_string("([1")
    wanted, classes = by_classes(), compiled.classes
    assert classes.class_of_token.tolist() == wanted.classes.class_of_token.tolist()
    assert compiled.classes is classes and not compiled.classifier.is_walked
    assert f"form {classes.n_classes} token classes" in compiled.reason
    assert compiled.reason.count("ids of the vocabulary form") == 1
    assert matcher.accept_string("2])") and matcher.is_completed()
    compiled.save(tmp_path / "saved")
    loaded = CompiledGrammar.load(tmp_path / "saved", VOCABULARY)
    assert masks_along(loaded) == masks_along(compiled) == masks_along(wanted)


def test_saving_asks_too(tmp_path: Path) -> None:
    compiled = walked()
    compiled.save(tmp_path / "saved")
    assert compiled.known_classes is not None


def test_matchers_go_on_with_classes_in_the_middle_of_a_text() -> None:
    """Masks stay the same: of known rows, new rows, forks, and after a rollback to before the change."""
    reference = GrammarMatcher(by_classes())
    text = "([12](){}((([345])))"
    for at in range(len(text) + 1):
        compiled = walked()
        matcher = GrammarMatcher(compiled)
        wanted = []
        reference.reset()
        for place, letter in enumerate(text):
            if place == at:
                twin = matcher.fork()
                assert compiled.classes is not None
                assert mask_of(twin) == mask_of(reference)
            wanted.append(mask_of(reference))
            assert mask_of(matcher) == wanted[-1], (at, place)
            assert matcher.accept_string(letter) == reference.accept_string(letter)
        for place in reversed(range(len(text))):
            matcher.rollback(1)
            assert mask_of(matcher) == wanted[place], (at, place)


def test_threads_ask_once() -> None:
    compiled = walked()
    masks = masks_along(compiled)
    begin = threading.Barrier(7)

    def ask() -> Any:
        begin.wait(30)
        return compiled.classes

    with ThreadPoolExecutor(6) as pool:
        futures = [pool.submit(ask) for _ in range(6)]
        begin.wait(30)
        for _ in range(20):
            assert masks_along(compiled) == masks
    found = [future.result() for future in futures]
    assert len({id(one) for one in found}) == 1 and found[0] is not None
    assert compiled.classifier.session.serial == 1


def test_classes_beyond_the_budget_leave_walks() -> None:
    """If the network fits the budget and the exploration does not, only the classes are missing."""
    text = 'root ::= e\ne ::= e "+" e | "(" e ")" | [a-z]{1,30} | "[" [0-9]{2,60} "]" | "{" e "}" e'
    compiled = GrammarCompiler(VOCABULARY, budget=Budget(bytes=1 << 19)).compile_grammar(text)
    assert compiled.deferred is not None and compiled.classes is None
    assert compiled.classifier.is_walked and compiled.classless == 0
    with pytest.raises(BudgetExceeded, match="bytes"):
        compiled.deferred.compute(compiled.deferred.deadline())
    with pytest.raises(BudgetExceeded):
        compiled.promote()
    roomy = GrammarMatcher(GrammarCompiler(VOCABULARY, strategy="classifier").compile_grammar(text))
    matcher = GrammarMatcher(compiled)
    for letter in "(ab+[0123]":
        assert mask_of(matcher) == mask_of(roomy)
        assert matcher.accept_string(letter) and roomy.accept_string(letter)
