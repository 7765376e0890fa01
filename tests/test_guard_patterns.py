"""Patterns of JSON schemas are estimated before XGrammar expands them, and end within the budget.

What: estimates compared with times measured for XGrammar 0.2.8; patterns that took it seconds to minutes,
under a small budget on "auto" and on "engine".
When: after any change of `hybrid.guard.patterns` or `hybrid.guard.estimate`.
Limits: Linux. The measured times are written down here and not measured again; bounds on time are loose.
"""

from __future__ import annotations

import json
import random

import pytest
import xgrammar
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence import Vocabulary
from equivalence.network.grammar_reader import read_grammar
from hybrid import GrammarCompiler, GrammarMatcher
from hybrid.guard import worker
from hybrid.guard.estimate import grammar_estimate, pattern_estimate, schema_estimate
from hybrid.guard.patterns import pattern_size, size_bound
from tests.robustness import budgets

AUTOMATA = [
    ("^(.{1,50}){1,50}x$", 0.09), ("^(.{1,90}){1,90}x$", 0.53), ("^((.{1,20}){1,20}){1,20}$", 0.27),
    (f"^({'a?' * 100}){{100}}$", 7.7), (f"^(({'a?' * 30}){{20}}b?){{1,20}}$", 11.0),
    ("^((.?){60}(.?){60}){1,30}$", 1.0), ("^((.?){0,120}){0,60}$", 7.4),
    ("^([a-z]?[0-9]?){1,120}{1,20}$", 2.3), (f"^{'(a?){100}' * 30}$", 0.55), (f"^{'a?' * 2400}$", 0.4),
    ("^(a?){128}(b?){128}(.?){128}x$", 0.02), ("^(.*.*.*.*){1,128}$", 0.05), ("^(.{1,100}){1,100}x$", 0.006),
    ("^.{0,255}$", 0.0003),
]  # fmt: skip
"""Patterns, and the seconds that XGrammar's compiler took over two empty tokens."""

CONVERTED = [
    ("^[a-z]{1,8000}$", 3.5), ("^.{1,3000}$", 3.7), ("^(abc){1,3000}$", 1.7), ("^((a?){20}b){1,1000}$", 1.5),
    ("^(.{1,2000}x){1,50}$", 1.3), ("^(a?){1,4000}$", 1.0), ("^(.{1,90}){1,90}x$", 0.36),
]  # fmt: skip
"""Patterns, and the seconds that XGrammar's converter took."""

COMPILED = [
    ("^(.{1,20}){1,20}x$", 3.8), ("^([a-z]{1,50}){1,50}x$", 2.8), ("^((.{1,5}){1,5}){1,5}x$", 3.1),
    (r"^(\w{1,30} ?){1,30}$", 6.0), ('^([^"]{1,30},?){1,30}$', 10.7), ("^(.|..|...){1,100}$", 1.9),
    ("^(.?.?.?){60}x$", 16.5), ("^(.?){100}$", 6.0), ("^([a-z]{0,100}[a-z]{0,100}){0,5}x$", 2.8),
    ("^(.{3,50}-){1,50}x$", 2.1),
]  # fmt: skip
"""Patterns, and the seconds that XGrammar's compiler took over 3,000 tokens of two to eight characters."""

ORDINARY = [
    r"^(\d{1,3}\.){3}\d{1,3}$",
    r"^[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}$",
    "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
    "^#?([a-fA-F0-9]{6}|[a-fA-F0-9]{3})$",
    r"^(https?|ftp)://[^\s/$.?#].[^\s]*$",
    r"^\+?[0-9 ()-]{5,20}$",
    "^[^@]{1,64}@[^@]{1,255}$",
]


@pytest.mark.parametrize(("pattern", "seconds"), AUTOMATA)
def test_automata_are_estimated(pattern: str, seconds: float) -> None:
    assert seconds / 2 < pattern_estimate(pattern).seconds < 20 * seconds + 1.5


@pytest.mark.parametrize(("pattern", "seconds"), CONVERTED)
def test_conversions_are_estimated(pattern: str, seconds: float) -> None:
    schema = {"properties": {"a": {"type": "string", "pattern": pattern}}}
    found = schema_estimate(json.dumps(schema), {}).seconds
    assert seconds / 2 < found < 40 * seconds
    spelled = json.dumps(schema).replace("?", "\\u003f").replace("*", "\\u002a").replace("{1,", "\\u007b1,")
    assert json.loads(spelled) == schema
    assert schema_estimate(spelled, {}).seconds > 0.9 * found


def compile_seconds(pattern: str) -> float:
    grammar = xgrammar.Grammar.from_json_schema(json.dumps({"type": "string", "pattern": pattern}))
    return grammar_estimate(read_grammar(grammar), 3000).seconds


@pytest.mark.parametrize(("pattern", "seconds"), COMPILED)
def test_compilations_are_estimated(pattern: str, seconds: float) -> None:
    assert seconds / 3 < compile_seconds(pattern) < 40 * seconds


@pytest.mark.parametrize("pattern", ORDINARY)
def test_ordinary_patterns_are_quick(pattern: str) -> None:
    schema = json.dumps({"type": "string", "pattern": pattern})
    assert schema_estimate(schema, {}).seconds < 0.05 and pattern_estimate(pattern).seconds < 0.05
    assert compile_seconds(pattern) < 0.3


@pytest.mark.parametrize(
    ("pattern", "positions"),
    [
        ("", 0), ("abc", 3), ("a|bc|", 3), ("(a(b|c){2}){3}", 15), ("a{2,}", 2), ("a{,4}", 4),
        ("a{3}{4}", 12), (r"\d\.\u0041{2}", 4), ("[\\]a]{2}[^a]", 3), ("(?:a|(?:b)){2}", 4), ("a{b}", 1),
        ("(a(b", 2), ("a)b", 2), ("a{1000}", 2), ("[", 1), ("\\", 1), ("(?=a){2}", 2), ("*a", 1),
        (r"\u{20000}{2}", 2), (r"\\u{3}", 4), ("a{2}?b*?", 3),
    ],
)  # fmt: skip
def test_patterns_are_read_roughly(pattern: str, positions: int) -> None:
    assert pattern_size(pattern).positions == positions


def test_no_pattern_is_too_much_to_read() -> None:
    assert pattern_size("(" * 5000 + "a?" + "){128}" * 5000).skipped == 1e12


PIECES = st.sampled_from(
    [
        *("a", "-", "\\d", "\\w", "\\S", "\\u00e9", "é", "[a-z]", '[^"]', "[a\\]", "[", "]"),
        *("(", ")", "(?:", "|", "^", "$", "?", "*", "+"),
        *("{3}", "{2,}", "{0,9}", "{,4}", "{128}", "{129}", "{3", "}", "{}"),
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_a_bound_is_no_less_than_the_size(pattern: str) -> None:
    bound, size = size_bound(pattern), pattern_size(pattern)
    assert all(-1 <= number <= 1e12 for number in size[:6])
    if bound is not None:
        assert size.states <= bound.states and size.skipped <= bound.skipped and not size.counted


def test_ordinary_patterns_have_a_bound() -> None:
    assert size_bound("^[0-9a-f]{8}-[0-9a-f]{4}$") is not None
    assert size_bound("^([0-9a-f]{2}:){5}[0-9a-f]{2}$") is None


# --- Under a budget ----------------------------------------------------------------------------------------

WORDS = {
    bytes(random.Random(n).choices(b'abcdefghijklmnop0123456789 .,-{}"', k=2 + n % 7)) for n in range(1200)
}
VOCABULARY = Vocabulary.from_bytes(
    [*(bytes([byte]) for byte in range(256)), *sorted(WORDS), b""], stop_token_ids=[256 + len(WORDS)]
)
SECONDS, LATE_SECONDS = 0.25, 15.0

HOSTILE = [
    "^(.{1,50}){1,50}x$", "^(.{0,30}){0,30}$", "^((.{1,8}){1,8}){1,8}x$", "^(.{1,60}|x){1,60}$",
    "^(.?.?){100}$", f"^({'a?' * 100}){{100}}$", f"^({'a?' * 300}){{100}}$",
    f"^(({'a?' * 30}){{20}}b?){{1,20}}$", r"^(\w{1,30} ?){1,30}$", "^([\u4e00-\u9fff]{1,60} ?){1,60}$",
    "^((a|b|ab|ba|.){1,20}c?){1,20}$", "^(.{1,9000}x){1,9}$", "^[a-z]{1,20000}$",
]  # fmt: skip


@pytest.mark.skipif(not worker.is_available(), reason="needs Linux")
@pytest.mark.parametrize("strategy", ["auto", "engine"])
def test_hostile_patterns_end_in_time(strategy: str) -> None:
    """Each pattern ends in time; XGrammar took 7 seconds to minutes, for some of them in this process."""
    VOCABULARY.byte_order  # noqa: B018 - not in the time of a call
    with GrammarCompiler(VOCABULARY) as warm:  # loads the kernels
        GrammarMatcher(warm.compile_json_schema({"type": "string", "pattern": "^[a-c]{2,4}b$"}))
    cases = [(pattern, {"type": "string", "pattern": pattern}) for pattern in HOSTILE]
    for row in budgets.run(VOCABULARY, cases, [SECONDS], [strategy]):
        assert row.survived and row.late < LATE_SECONDS and row.busy < 2, row
