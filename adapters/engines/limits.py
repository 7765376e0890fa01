"""Requests whose texts have to be whole within the tokens that they may have.

What: `limited` has a request's matcher keep room for the end of its text, or says why it cannot.
When: by the adapters of serving engines, where the operator has turned that on.
Limits: those of `hybrid.GrammarMatcher.limit_tokens`. Grammars without completions, limits that nothing fits
into and searches that were given up leave the request with plain masks, by name.
"""

from __future__ import annotations

from equivalence import BudgetExceeded, UnsupportedGrammar
from hybrid import GrammarMatcher


def limited(matcher: GrammarMatcher, tokens: int) -> str | None:
    """Limit what a matcher may still read, a stop token included; why that cannot be, or None.

    Args:
        matcher: where the text stands.
        tokens: that may still follow.
    """
    why = None
    try:
        if tokens < 1:
            why = "no tokens are left for it"
        else:
            closes = matcher.limit_tokens(tokens, with_stop_token=True)
            if closes is False:
                why = f"no text of the grammar ends within {tokens} tokens"
            elif closes is None:
                why = f"whether a text of the grammar ends within {tokens} tokens is not known"
    except (UnsupportedGrammar, BudgetExceeded) as error:
        why = str(error)
    if why is not None:
        matcher.limit_tokens(None)
    return why
