"""Methods of the drop-in that not every version of XGrammar has, or that cost something else there."""

from __future__ import annotations

import pytest
import xgrammar

import adapters.xgrammar as xgr
from tests.test_adapters_xgrammar import EBNF, INFO, STOP, TEXTS, allowed, compiled, filled


def test_one_vocabulary_for_each_tokenizer() -> None:
    first, second = (xgr.GrammarCompiler(INFO).hybrid.vocabulary for _ in range(2))
    assert first is second
    assert xgr.GrammarCompiler(tokenizer_info=INFO).hybrid.vocabulary is first


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


def pair(**options: object) -> list[xgrammar.GrammarMatcher]:
    """A matcher of plain XGrammar and one of ours, each two steps after the start."""
    made = []
    for module, grammar in ((xgrammar, xgrammar.GrammarCompiler(INFO).compile_grammar(EBNF)), (xgr, None)):
        matcher = module.GrammarMatcher(grammar or compiled("ebnf", "auto"), **options)
        for _ in range(2):
            assert matcher.accept_token(allowed(filled(matcher)[1])[0])
        made.append(matcher)
    return made


@pytest.mark.parametrize("steps", [-1, -3, 0, 1, 2])
def test_rollback_takes_back_what_it_does_in_xgrammar(steps: int) -> None:
    plain, ours = pair()
    plain.rollback(steps)
    ours.rollback(steps)
    assert filled(ours) == filled(plain)


@pytest.mark.parametrize("steps", [3, 100])
def test_rollback_beyond_the_start_is_refused_as_in_xgrammar(steps: int) -> None:
    for matcher in pair():
        with pytest.raises(RuntimeError):
            matcher.rollback(steps)
    plain, ours = pair()
    with pytest.raises(RuntimeError):
        ours.rollback(steps)
    assert filled(ours) == filled(plain)
