"""Requests whose texts must be complete within their number of tokens.

What: `limited` makes a request's matcher leave room for the end of its text, or says why that is impossible.
When: used by the adapters of serving engines, if the operator has enabled it.
Limits: those of `hybrid.GrammarMatcher.limit_tokens`. If the grammar has no completions, no text fits into
the limit, or the search was given up, the request gets plain masks, and is told why.
"""

from __future__ import annotations

from equivalence import BudgetExceeded, UnsupportedGrammar
from hybrid import GrammarMatcher


def limited(matcher: GrammarMatcher, tokens: int) -> str | None:
    """Limit how many tokens a matcher may still read, including a stop token. Return why that is impossible,
    or None.

    Args:
        matcher: the request's matcher.
        tokens: how many tokens may still follow.
    """
    why = None
    try:
        if tokens < 1:
            why = "no tokens are left"
        else:
            is_completable = matcher.limit_tokens(tokens, with_stop_token=True)
            if is_completable is False:
                why = f"no text of the grammar fits into {tokens} tokens"
            elif is_completable is None:
                why = f"could not find out whether a text of the grammar fits into {tokens} tokens"
    except (UnsupportedGrammar, BudgetExceeded) as error:
        why = str(error)
    if why is not None:
        matcher.limit_tokens(None)
    return why
