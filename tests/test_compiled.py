"""Compiled grammars: each is a variant of one type, and nothing of it changes except additions to its
reason.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from equivalence import Vocabulary
from hybrid import Budget, CompiledGrammar, GrammarCompiler
from hybrid.compiled import reason_of

VOCABULARY = Vocabulary([bytes([byte]) for byte in range(256)] + [b""], [256], [256])

VARIANTS = {
    "engine": ("engine", {"engine"}),
    "representatives": ("representatives", {"engine", "engine_stop", "classes", "gather"}),
    "classifier": ("classifier", {"classes", "features", "classifier", "budget"}),
    "lark": ("classifier", {"classes", "classifier"}),
}


def compiled_as(variant: str) -> CompiledGrammar:
    strategy = VARIANTS[variant][0]
    compiler = GrammarCompiler(VOCABULARY, strategy=strategy, deterministic=True)
    return compiler.compile_lark('start: "a"') if variant == "lark" else compiler.compile_regex("[ab]+")


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_variant_has_what_it_needs_and_nothing_else(variant: str, tmp_path: Path) -> None:
    strategy, own = VARIANTS[variant]
    compiled = compiled_as(variant)
    assert compiled.strategy == strategy
    assert repr(compiled).startswith(f"CompiledGrammar({strategy}")
    some = {"engine", "engine_stop", "classes", "gather", "features", "classifier", "budget"}
    assert {name for name in some if getattr(compiled, name) not in (None, -1)} == own
    assert compiled.memory_size_bytes > 0
    if compiled.classifier is not None:
        compiled.save(tmp_path / "one")
        loaded = CompiledGrammar.load(tmp_path / "one", VOCABULARY)
        assert {name for name in some if getattr(loaded, name) not in (None, -1)} == own - {"features"}


@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_can_be_set(variant: str) -> None:
    compiled = compiled_as(variant)
    for field in fields(compiled):
        with pytest.raises(FrozenInstanceError):
            setattr(compiled, field.name, None)


def test_notes_are_added_once_and_none_is_lost() -> None:
    compiled = compiled_as("engine")
    reason = compiled.reason
    notes = [f"<{number}>" for number in range(200)] * 2
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(compiled.note, notes))
    assert compiled.reason.startswith(f"{reason}; ")
    assert sorted(compiled.reason.split("; ")[1:]) == sorted(set(notes))


def test_timings_of_a_grammar_that_is_out_stay_what_they_are() -> None:
    compiler = GrammarCompiler(VOCABULARY, budget=Budget())
    compiled = compiler.compile_regex("[ab]+")
    timings = dict(compiled.timings)
    assert compiler.compile_regex("[ab]+", static=True) is compiled and compiled.promote()
    assert compiled.timings == timings


@pytest.mark.parametrize(("count", "word"), [(0, "classes"), (1, "class"), (57, "classes")])
def test_the_reason_has_the_right_plural(count: int, word: str) -> None:
    classes: Any = SimpleNamespace(n_classes=count)
    assert reason_of(classes, VOCABULARY) == f"the 257 ids of the vocabulary form {count} token {word}"
