"""Converting our errors to those that programs written for XGrammar expect.

What: if XGrammar refuses a grammar, `as_xgrammar` gives XGrammar's own type of error. All others of ours are
`RuntimeError`s, and those about arguments, stop tokens and bitmasks are `TypeError`s, too; XGrammar raises
both.
When: around the calls of `hybrid` that compile a grammar.
Limits: messages are ours.
"""

from __future__ import annotations

from equivalence import GrammarError, HybridError
from hybrid.guard import worker


def as_xgrammar(error: HybridError) -> Exception:
    """Return the error that a program written for XGrammar expects instead of one of ours."""
    cause = error.__cause__
    if (
        isinstance(error, GrammarError)
        and isinstance(cause, Exception)
        and not isinstance(cause, HybridError)
        and str(error).startswith("XGrammar ")  # "refuses", "cannot compile"
    ):
        if isinstance(cause, worker.Refused):  # of another process, only the text is known
            return RuntimeError(str(error))
        return type(cause)(str(error)) if isinstance(cause, RuntimeError) else cause
    return error
