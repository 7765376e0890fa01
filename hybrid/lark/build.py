"""From a Lark grammar and a vocabulary to a classifier.

What: `build` has lexer and parser made of the grammar, and classifies the tokens.
When: by `GrammarCompiler.compile_lark`; a second for JSON, 2 to 5 for the grammars of programming languages.
Limits: what cannot be kept exact is refused by name; there is no other strategy for a Lark grammar to fall
to.
"""

from __future__ import annotations

from typing import NamedTuple

from equivalence import Vocabulary
from equivalence.deadline import Deadline
from equivalence.lark.classes import FactoredClasses, factored_classes
from equivalence.lark.lalr import LalrMachine
from equivalence.lark.lexer import LexerMachine
from hybrid.compile.strategy import Budget
from hybrid.lark.source import LarkGrammar
from hybrid.xgrammar.guard import Guard


class Built(NamedTuple):
    """Lexer, parser and token classes of a grammar, and the seconds that each took."""

    lexer: LexerMachine
    machine: LalrMachine
    classes: FactoredClasses
    seconds: dict[str, float]


def build(
    grammar: LarkGrammar, vocabulary: Vocabulary, budget: Budget, deadline: Deadline, guard: Guard
) -> Built:
    """Lexer, parser and token classes of a grammar.

    Raises:
        GrammarError: Lark refuses the grammar.
        UnsupportedGrammar: a terminal or an option whose meaning is not kept; the message names it.
        BudgetExceeded: more states, sequences or bytes than the budget allows, or it is too late.
    """
    deadline.check("waiting for Lark")
    lexer, machine, seconds = guard.lark(*grammar, deadline)
    classes = factored_classes(
        lexer, machine, vocabulary, max_sequences=budget.states, max_bytes=budget.bytes, deadline=deadline
    )
    return Built(lexer, machine, classes, {**seconds, **classes.tokens.seconds})
