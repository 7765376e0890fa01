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

pytestmark = pytest.mark.parametrize("case", load_cases(), ids=str)


@cache
def compiler() -> xgrammar.GrammarCompiler:
    tokens = [bytes([byte]) for byte in range(256)] + [b"</s>"]
    info = xgrammar.TokenizerInfo(tokens, stop_token_ids=[STOP_TOKEN_ID])
    return xgrammar.GrammarCompiler(info, max_threads=1)


@cache
def compiled(case_name: str) -> xgrammar.CompiledGrammar:
    [case] = [case for case in load_cases() if case.name == case_name]
    return compiler().compile_grammar(case.parse())


def matcher(case: Case) -> xgrammar.GrammarMatcher:
    return xgrammar.GrammarMatcher(compiled(case.name))


def in_language(case: Case, string: bytes) -> bool:
    """Whether the whole string is accepted, and the stop token after it."""
    whole = matcher(case)
    if not (whole.accept_string(string) and whole.is_completed()):
        return False  # the stop token might be read as text here
    return whole.accept_token(STOP_TOKEN_ID) and whole.is_terminated()


def length_accepted(case: Case, string: bytes) -> int:
    """The number of bytes that are accepted, each as one token."""
    single = matcher(case)
    for position, byte in enumerate(string):
        if not single.accept_token(byte):
            return position
    return len(string)


def test_accepts(case: Case) -> None:
    assert case.accepts, "a case needs strings of its language"
    for string in case.accepts:
        assert in_language(case, string), f"{case} does not accept {string!r}"
        assert length_accepted(case, string) == len(string)


def test_rejects(case: Case) -> None:
    assert case.rejects, "a case needs strings outside of its language"
    for string in case.rejects:
        assert not in_language(case, string), f"{case} accepts {string!r}"


def test_prefixes(case: Case) -> None:
    for string in case.prefixes:
        assert matcher(case).accept_string(string), f"{case} has no string that begins with {string!r}"
        assert length_accepted(case, string) == len(string)
