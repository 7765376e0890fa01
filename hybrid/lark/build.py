"""From a Lark grammar and a vocabulary to a classifier.

What: `build` makes the lexer and the parser of a grammar, and computes the token classes.
When: by `GrammarCompiler.compile_lark`. It takes 0.1 s for a small grammar, and 2 s for one of a programming
language.
Limits: what cannot be kept exact is refused by name; no other strategy can serve a Lark grammar.
"""

from __future__ import annotations

from typing import NamedTuple

from equivalence import Vocabulary
from equivalence.deadline import Deadline
from equivalence.errors import HybridError
from equivalence.lark.classes import FactoredClasses, factored_classes
from equivalence.lark.lalr import LalrMachine
from equivalence.lark.lexer import LexerMachine
from hybrid.guard import Guard
from hybrid.lark.source import LarkGrammar
from hybrid.values.budget import Budget
from hybrid.xgrammar.messages import shortened


class Built(NamedTuple):
    """A grammar with its terminals, its lexer, parser and token classes, and the seconds that each of them
    took."""

    grammar: LarkGrammar
    lexer: LexerMachine
    machine: LalrMachine
    classes: FactoredClasses
    seconds: dict[str, float]


def build(
    grammar: LarkGrammar, vocabulary: Vocabulary, budget: Budget, deadline: Deadline, guard: Guard
) -> Built:
    """Make the lexer, the parser and the token classes of a grammar.

    Raises:
        GrammarError: Lark refuses the grammar.
        UnsupportedGrammar: the meaning of a terminal or an option cannot be kept; the message names it.
        BudgetExceeded: it needs more states, sequences or bytes than the budget allows, or the time ran out.
    """
    deadline.check("waiting for Lark")
    try:
        lexer, machine, terminals, seconds = guard.lark(grammar.text, grammar.start, deadline)
    except HybridError as error:
        error.args = (shortened(error),)  # it may name long names, and Lark quotes patterns
        raise
    classes = factored_classes(
        lexer, machine, vocabulary, max_sequences=budget.states, max_bytes=budget.bytes, deadline=deadline
    )
    whole = grammar._replace(terminals=terminals)
    return Built(whole, lexer, machine, classes, {**seconds, **classes.tokens.seconds})
