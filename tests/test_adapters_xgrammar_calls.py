"""Calls of the drop-in that plain XGrammar does not have in every version, or answers at other cost."""

from __future__ import annotations

import pytest
import xgrammar

import adapters.xgrammar as xgr
from tests.test_adapters_xgrammar import EBNF, INFO, STOP, TEXTS, allowed, compiled, filled


def test_tokens_are_validated_and_nothing_moves() -> None:
    matcher = xgr.GrammarMatcher(compiled("ebnf", "auto"))
    whole: list[int] = []
    while choice := [token for token in allowed(filled(matcher)[1]) if len(whole) < 6]:
        whole.append(choice[0])
        assert matcher.accept_token(choice[0])
        if matcher.is_terminated():
            break
    matcher.reset()
    before = filled(matcher)
    assert matcher.validate_tokens(whole) == len(whole)
    assert matcher.validate_tokens([]) == 0
    assert matcher.validate_tokens([*whole[:2], -1, *whole[2:]]) == 2
    assert matcher.validate_tokens([10**6, *whole]) == 0
    with pytest.raises(ValueError, match="token"):
        matcher.validate_tokens([whole[0], "a"])  # type: ignore[list-item]
    assert filled(matcher) == before


def test_masks_on_demand_are_what_ours_are() -> None:
    found = xgr.GrammarCompiler(INFO, enable_dynamic_compilation=True).compile_grammar(EBNF)
    assert filled(xgr.GrammarMatcher(found)) == filled(xgr.GrammarMatcher(compiled("ebnf", "auto")))


def test_one_vocabulary_for_each_tokenizer() -> None:
    first, second = (xgr.GrammarCompiler(INFO).hybrid.vocabulary for _ in range(2))
    assert first is second
    assert xgr.GrammarCompiler(tokenizer_info=INFO).hybrid.vocabulary is first


def test_sizes_are_counted_when_asked_for() -> None:
    """What a text that is new makes counts at once, one that was read before makes nothing."""
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
