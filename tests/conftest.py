"""Shared fixtures and helpers: the cases that every engine runs, a real vocabulary and the corpora.

What: `load_cases` reads ``tests/cases/*.toml``; the fixtures `tekken` and `corpora` give real data.
When: imported by tests as ``from tests.conftest import load_cases``.
Limits: the corpora are optional; tests that use them are skipped if they are missing.

The format of a case is described in `bench.cases`.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from bench.cases import CHECKOUT, Case, read_cases
from equivalence.vocabulary import Vocabulary
from hybrid.cli.vocabulary_spec import load_vocabulary
from hybrid.compile.memory_cache import MemoryCache
from tests.versions import meant_here

# CI draws the same examples every time, so that it never fails by chance; a developer gets new ones
hypothesis.settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    hypothesis.settings.load_profile("ci")


def pytest_collection_finish() -> None:
    """Exclude all objects that imports and collection have made from later garbage collections.

    These are 600,000 objects. The benchmarks collect garbage before each time measurement, which took longer
    than everything else in their tests.
    """
    gc.collect()
    gc.freeze()


@cache
def load_cases() -> tuple[Case, ...]:
    """Return all cases, in the order of files and lines."""
    paths = sorted((CHECKOUT / "tests" / "cases").glob("*.toml"))
    cases = tuple(case for path in paths for case in read_cases(path))
    names = [case.name for case in cases]
    repeated = {name for name in names if names.count(name) > 1}
    assert not repeated, f"these names of cases are used twice: {sorted(repeated)}"
    return tuple(case for case in map(meant_here, cases) if case is not None)


@pytest.fixture(autouse=True)
def memory_of_its_own(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every compiler its own memory cache, so that no test finds what another one has compiled.

    Otherwise, compilers of one vocabulary share a cache; tests marked `shared_memory` keep that behaviour.
    """
    if request.node.get_closest_marker("shared_memory") is None:
        monkeypatch.setattr("hybrid.api.compiler.shared_cache", lambda _, limit: MemoryCache(limit))


@pytest.fixture(autouse=True)
def drafts_have_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no draft end early on a busy machine."""
    monkeypatch.setattr("hybrid.drafts.model.DRAFT_SECONDS", 60.0)


@pytest.fixture(scope="session")
def tekken() -> Vocabulary:
    """A real vocabulary of 131,072 ids that comes with an installed package."""
    return load_vocabulary("tekken")


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of real vocabularies, schemas and samples; the test is skipped if there is none."""
    named = os.environ.get("EQUIMASK_CORPORA")
    if named:
        folder = Path(named)
        assert folder.is_dir(), f"EQUIMASK_CORPORA names {named!r}, which is not a folder"
        return folder
    for folder in sorted(CHECKOUT.parent.glob("*/corpora")):
        if (folder / "tokenizers").is_dir():
            return folder
    pytest.skip("needs the corpora: set EQUIMASK_CORPORA to their folder")


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Run models in one torch thread: their steps are so small that two threads are slower."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=["classifier", "representatives", "engine"])
def strategy(request: pytest.FixtureRequest) -> str:
    """Each strategy that runs XGrammar's grammars."""
    return str(request.param)


@pytest.fixture(params=["classifier", "representatives", "engine", "lark"])
def matcher(request: pytest.FixtureRequest) -> Any:
    """A matcher of the grammar of `tests.misuse` on each strategy."""
    from hybrid import GrammarMatcher
    from tests.misuse import compiled_by

    return GrammarMatcher(compiled_by(request.param))


@pytest.fixture(scope="module")
def model() -> Any:
    """A small model with random weights over `tests.generating.VOCABULARY`."""
    from tests.generating import make_model

    return make_model(0)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Complete classifiers in pieces as small as possible, so that there are many moments between two."""
    monkeypatch.setattr("hybrid.classifier.promotion.PIECE", 1)
    monkeypatch.setattr("hybrid.classifier.promotion.CONTEXTS", 1)
