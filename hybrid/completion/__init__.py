"""Token limits: the shortest text that completes a sentence, and the tokens that leave room for one.

What: for any text of a grammar, `Completion` finds the tokens that complete it soonest, and removes from a
mask the tokens after which no completion fits into the remaining tokens (docs/completion.md). It reads the
grammar's network, which exists for every strategy, and has its own tables.
When: by `hybrid.GrammarMatcher.shortest_completion` and `fill_limited_bitmask`; made on first use.
Limits: grammars in XGrammar's notations that bytes and stacks decide; others are refused by name.
"""

from hybrid.completion.completion import Completion
from hybrid.completion.completions import Completions
from hybrid.completion.plans import Place

__all__ = ["Completion", "Completions", "Place"]
