"""Methods of the drop-in that not every version of XGrammar has, or that cost something else there."""

from __future__ import annotations

import pytest
import xgrammar

import adapters.xgrammar as xgr
from tests.matchers import outcome
from tests.test_adapters_xgrammar import INFO, STOP, TEXTS, compiled, filled, plainly


def test_one_vocabulary_for_each_tokenizer() -> None:
    first, second = (xgr.GrammarCompiler(tokenizer_info=INFO).hybrid.vocabulary for _ in range(2))
    assert first is second


def test_sizes_are_counted_when_asked_for() -> None:
    """Reading a new text adds to the size at once; reading a text again adds nothing."""
    info = xgrammar.TokenizerInfo(TEXTS, stop_token_ids=[STOP], vocab_size=288)
    compiler = xgr.GrammarCompiler(info)
    made = compiler.compile_grammar('root ::= "a" [b-c]{1,9} "d"')
    sizes = [compiler.get_cache_size_bytes()]
    for text in (b"ab", b"abbbbcd", b"abbbbcd"):
        matcher = xgr.GrammarMatcher(made)
        for byte in text:
            assert filled(matcher)[0] and matcher.accept_token(byte)
        sizes.append(compiler.get_cache_size_bytes())
    assert 0 < sizes[0] < sizes[1] < sizes[2] == sizes[3]
    compiler.clear_cache()
    assert compiler.get_cache_size_bytes() == 0


@pytest.mark.parametrize("steps", [-3, -1, 0, 1, 2, 3, 100])
def test_rollback_takes_back_or_refuses_what_it_does_in_xgrammar(steps: int) -> None:
    """A refusal leaves our matcher where it is."""
    plain, ours = xgrammar.GrammarMatcher(plainly("ebnf")), xgr.GrammarMatcher(compiled("ebnf", "auto"))
    for matcher in (plain, ours):
        for _ in range(2):
            assert matcher.accept_token(filled(matcher)[1][0])
    before = filled(plain)
    for matcher in (plain, ours):
        assert outcome(matcher.rollback, steps) is (RuntimeError if steps > 2 else None)
    assert filled(ours) == (before if steps > 2 else filled(plain))
