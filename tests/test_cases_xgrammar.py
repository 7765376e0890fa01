"""The cases themselves are right: plain XGrammar, over single bytes, accepts and rejects the strings as they
claim.

What: every string of every case in ``tests/cases`` on an `xgrammar.GrammarMatcher`, whole and byte by byte.
When: first of all; the other tests assume that the cases are right.
Limits: a vocabulary of 256 single bytes and a stop token, so it says nothing about longer tokens.
"""

from __future__ import annotations

from functools import cache

import pytest
import xgrammar

from bench.cases import Case
from tests.conftest import load_cases

STOP_TOKEN_ID = 256


@cache
def compiler() -> xgrammar.GrammarCompiler:
    tokens = [bytes([byte]) for byte in range(256)] + [b"</s>"]
    info = xgrammar.TokenizerInfo(tokens, stop_token_ids=[STOP_TOKEN_ID])
    return xgrammar.GrammarCompiler(info, max_threads=1)


def in_language(whole: xgrammar.GrammarMatcher, string: bytes) -> bool:
    """Whether the whole string is accepted, and the stop token after it."""
    if not (whole.accept_string(string) and whole.is_completed()):
        return False  # the stop token might be read as text here
    return whole.accept_token(STOP_TOKEN_ID) and whole.is_terminated()


@pytest.mark.parametrize("case", load_cases(), ids=str)
def test_strings_of_a_case(case: Case) -> None:
    assert case.accepts and case.rejects, "a case needs strings of its language, and others"
    compiled = compiler().compile_grammar(case.parse())
    for string in case.accepts:
        assert in_language(xgrammar.GrammarMatcher(compiled), string), f"{case} does not accept {string!r}"
    for string in case.rejects:
        assert not in_language(xgrammar.GrammarMatcher(compiled), string), f"{case} accepts {string!r}"
    for string in case.prefixes:
        matcher = xgrammar.GrammarMatcher(compiled)
        assert matcher.accept_string(string), f"{case} has no string that begins with {string!r}"
    for string in (*case.accepts, *case.prefixes):
        assert all(map(xgrammar.GrammarMatcher(compiled).accept_token, string)), f"{case}: {string!r}"
