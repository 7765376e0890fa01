"""XGrammar's testing helpers, with our matchers.

What: the helpers that compile and follow a grammar. All other names are XGrammar's own.
When: in tests of programs that use XGrammar's helpers. Like XGrammar's, they may change with any release.
Limits: none of its own.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import xgrammar
import xgrammar.testing

from adapters.xgrammar.compiler import GrammarCompiler
from adapters.xgrammar.matcher import GrammarMatcher
from adapters.xgrammar.modules import of_another

__getattr__ = partial(of_another, xgrammar.testing, __name__)  # all other helpers are XGrammar's


def _get_matcher_from_grammar_and_tokenizer_info(
    grammar: xgrammar.Grammar | str, tokenizer_info: xgrammar.TokenizerInfo | None = None, **kwargs: Any
) -> GrammarMatcher:
    """Make a matcher of a grammar, by default for a vocabulary without ids."""
    info = xgrammar.TokenizerInfo([]) if tokenizer_info is None else tokenizer_info
    return GrammarMatcher(GrammarCompiler(info, cache_enabled=False).compile_grammar(grammar), **kwargs)


def _get_matcher_from_grammar(grammar: xgrammar.Grammar | str, **kwargs: Any) -> GrammarMatcher:
    """Make a matcher that reads texts, and terminates as soon as the grammar can end."""
    options = {"terminate_without_stop_token": True, **kwargs}
    return _get_matcher_from_grammar_and_tokenizer_info(grammar, **options)


def _is_grammar_accept_string(
    grammar: xgrammar.Grammar | str,
    input_str: str,
    *,
    debug_print: bool = False,
    print_time: bool = False,
    require_termination: bool = True,
) -> bool:
    """Whether a grammar accepts a text; by default, all of it."""
    matcher = _get_matcher_from_grammar(grammar)
    began = time.perf_counter()
    taken = matcher.accept_string(input_str, debug_print=debug_print)
    if print_time:
        print(f"{'accepted' if taken else 'refused'} in {1e6 * (time.perf_counter() - began):.1f} us")
    return taken and (matcher.is_terminated() or not require_termination)
