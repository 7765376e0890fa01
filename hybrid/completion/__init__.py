"""Closing in time: the shortest text that ends a sentence, and the tokens that leave room for one.

What: `Completion` says for any text of a grammar which tokens complete it soonest, and takes out of a mask
those after which no completion fits into the tokens that are left (docs/completion.md). It reads the
grammar's network, which every strategy's grammars have, with tables of its own.
When: by `hybrid.GrammarMatcher.shortest_completion` and `fill_closing_bitmask`; made when first asked for.
Limits: grammars that bytes and stacks decide, in XGrammar's notations; others are refused by name.
"""

from hybrid.completion.completion import Completion, Place
from hybrid.completion.completions import Completions

__all__ = ["Completion", "Completions", "Place"]
