"""What a compiler reports about its work: counts, seconds, a few kinds of reasons, one log line per grammar.

What: `GrammarCompiler.stats` after known calls, from one thread and from many; reasons; the logger "hybrid".
When: after any change of `hybrid.compile.statistics` or of what the compiler counts.
Limits: test_cache.py checks the counts of disk access, test_compiler.py those of evictions and of errors
before a compilation.
"""

from __future__ import annotations

import json
import logging
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equivalence import GrammarError
from hybrid import GrammarCompiler
from hybrid.compile.statistics import MOST_CHARACTERS, MOST_NAMES, OTHER, Statistics, grouped
from tests.test_artifact import VOCABULARY


def test_what_is_counted() -> None:
    compiler = GrammarCompiler(VOCABULARY)
    nothing = compiler.stats()
    assert nothing["compilations"] == 0
    assert nothing["strategies"] == nothing["errors"] == nothing["seconds"] == {}
    compiled = [compiler.compile_regex(text) for text in ("a", "b", "a", "a")]
    with pytest.raises(GrammarError):
        compiler.compile_regex("(")
    found = compiler.stats()
    assert (found["compilations"], found["shared"], found["errors"]) == (2, 0, {"GrammarError": 1})
    memory = found["memory"]
    assert (memory["hits"], memory["misses"], memory["evictions"]) == (2, 3, 0)
    assert memory["bytes"] == compiler.get_cache_size_bytes() > 0
    assert memory["limit_bytes"] == compiler.cache_limit_bytes
    assert set(found["disk"].values()) == {0}
    for phase in ("network", "classifier", "total"):
        assert found["seconds"][phase] == pytest.approx(sum(one.timings[phase] for one in compiled[:2]))
    assert found["strategies"]["classifier"]["count"] == 2
    kept = json.dumps(found)
    assert json.loads(kept) == found, "plain"
    found["memory"]["hits"] = found["errors"]["GrammarError"] = 99
    found["strategies"]["classifier"]["reasons"].clear()
    assert compiler.stats() == json.loads(kept), "a copy"


def test_strategies_have_their_reasons() -> None:
    compiler = GrammarCompiler(VOCABULARY, strategy="engine")
    for text in ("a", "b"):
        compiler.compile_regex(text)
    reasons = {"requested by strategy='...'": 2}
    assert compiler.stats()["strategies"] == {"engine": {"count": 2, "reasons": reasons}}
    automatic = GrammarCompiler(VOCABULARY, on_demand=True)
    for number in range(10, 40, 7):
        automatic.compile_regex(f"[a-f]{{{number}}}|[x{number}]+")
    (found,) = automatic.stats()["strategies"].values()
    ((reason, count),) = found["reasons"].items()
    assert count == 5 and "the N ids of the vocabulary form N token classes" in reason


def test_reasons_phases_and_errors_stay_few() -> None:
    statistics = Statistics()
    compiled = GrammarCompiler(VOCABULARY, strategy="engine").compile_regex("a")
    for number in range(5 * MOST_NAMES):
        name = "".join(chr(ord("a") + int(digit)) for digit in str(number))
        statistics.compiled(replace(compiled, reason=f"because of {name}", timings={"total": 0.5}))
        statistics.failed(type(f"Error{number}", (Exception,), {})())
    found = statistics.snapshot()
    reasons = found["strategies"]["engine"]["reasons"]
    assert len(reasons) == len(found["errors"]) == MOST_NAMES + 1
    assert reasons[OTHER] == found["errors"][OTHER] == 4 * MOST_NAMES
    assert found["strategies"]["engine"]["count"] == sum(reasons.values()) == 5 * MOST_NAMES
    assert found["seconds"] == {"total": pytest.approx(2.5 * MOST_NAMES)}


@pytest.mark.parametrize(
    ("reason", "wanted"),
    [
        ("the 128,256 ids form 137 classes", "the N ids form N classes"),
        ("no classifier: rule 'a_7' needs 3.5 s", "no classifier: rule '...' needs N s"),
        ("two\n  lines", "two lines"),
        ('in "x" and "y"', "in '...' and '...'"),
        ("", ""),
    ],
)
def test_reasons_without_numbers_and_names(reason: str, wanted: str) -> None:
    assert grouped(reason) == wanted


@given(st.text(max_size=3000))
def test_any_reason_is_one_short_line_without_numbers(reason: str) -> None:
    found = grouped(reason)
    assert len(found) <= MOST_CHARACTERS and "\n" not in found and not re.search(r"\d", found)


def test_threads_lose_no_count() -> None:
    compiler = GrammarCompiler(VOCABULARY)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: compiler.compile_regex(f"a{number % 5}"), range(400)))
        list(pool.map(lambda _: compiler._statistics.count("some"), range(2000)))
    found = compiler.stats()
    assert found["memory"]["hits"] + found["memory"]["misses"] + found["shared"] == 400
    assert found["compilations"] == found["memory"]["misses"] == 5
    assert compiler._statistics._events["some"] == 2000


def test_one_line_of_the_log_per_grammar(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "hybrid"):
        for _ in range(2):
            compiler = GrammarCompiler(VOCABULARY, cache_dir=tmp_path, on_demand=True)
            assert compiler.compile_regex("a") is compiler.compile_regex("a")
        with pytest.raises(GrammarError):
            compiler.compile_regex("(")
    said = [record.getMessage() for record in caplog.records if record.name == "hybrid"]
    form = r"%s regex as classifier in \d+\.\d ms: the \d+ ids of the vocabulary form \d+ token .*"
    assert len(said) == 3 and said[2] == "refused regex: GrammarError"
    assert re.fullmatch(form % "compiled", said[0]) and re.fullmatch(form % "loaded", said[1])
    caplog.clear()
    with caplog.at_level(logging.INFO, "hybrid"):
        compiler.compile_regex("b")
    assert not caplog.records
