"""Caches that together have a limit of bytes.

What: large arguments and results of `equivalence.bounded_cache` are dropped; small ones stay; so are
automata of hostile schemas.
When: after a change of `equivalence.bounded_cache` or of a function that it caches.
Limits: sizes are estimates.
"""

from __future__ import annotations

import pytest

from equivalence import bounded_cache
from equivalence.bounded_cache import cached, size_of
from hybrid.json_schema.languages.numbers import number_texts
from hybrid.json_schema.languages.pattern import pattern


@cached(1000)
def repeated(text: str, times: int) -> tuple[str, ...]:
    return tuple(text + str(number) for number in range(times))


def test_large_results_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_cache, "LIMIT_BYTES", 1_000_000)
    small = repeated("a", 2)
    assert repeated("a", 2) is small
    sizes = []
    for number in range(100):
        made = repeated(f"{number} ", 500)
        assert repeated(f"{number} ", 500) is made, "the last one is always kept"
        sizes.append(repeated.cache_info().currsize)
    assert 10 < max(sizes) < 40 and min(sizes[50:]) == 1
    assert repeated("a", 2) == small


def test_long_arguments_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_cache, "LIMIT_BYTES", 1_000_000)
    repeated.cache_clear()
    for number in range(100):
        repeated(f"{number} " + "x" * 100_000, 0)
        assert repeated.cache_info().currsize < 20


def test_sizes() -> None:
    language = pattern("^[a-c]{50}$", 1000)
    assert language.nbytes > 50 * 200
    assert size_of((language, [language])) > 2 * language.nbytes
    assert size_of(frozenset(["x" * 1000])) > 1000


def test_automata_of_many_schemas_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_cache, "LIMIT_BYTES", 4_000_000)
    first = number_texts((("multiple", 997),), 10_000)
    assert first is number_texts((("multiple", 997),), 10_000)
    for divisor in (1009, 1013, 1019):
        number_texts((("multiple", divisor),), 10_000)
    assert first is not number_texts((("multiple", 997),), 10_000)
