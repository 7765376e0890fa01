"""From a Lark grammar and a vocabulary to a classifier.

What: `build` reads the grammar with Lark, makes its lexer automaton and its parser, and classifies the
tokens.
When: by `GrammarCompiler.compile_lark`; a second for JSON, 2 to 5 for the grammars of programming languages.
Limits: what cannot be kept exact is refused by name; there is no other strategy for a Lark grammar to fall
to.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from equivalence import Vocabulary
from equivalence.deadline import Deadline
from equivalence.factored import FactoredClasses, factored_classes
from equivalence.lalr import LalrMachine, may_follow, read_machine
from equivalence.lexing import LexerMachine, build_thrifty_lexer, terminal_names
from hybrid.factored.source import LarkGrammar, read
from hybrid.strategy import Budget


class Built(NamedTuple):
    """Lexer, parser and token classes of a grammar, and the seconds that each took."""

    lexer: LexerMachine
    machine: LalrMachine
    classes: FactoredClasses
    seconds: dict[str, float]


MOST_LEXER_STATES = 50_000


def build(grammar: LarkGrammar, vocabulary: Vocabulary, budget: Budget, deadline: Deadline) -> Built:
    """Lexer, parser and token classes of a grammar.

    Raises:
        GrammarError: Lark refuses the grammar.
        UnsupportedGrammar: a terminal or an option whose meaning is not kept; the message names it.
        BudgetExceeded: more states, sequences or bytes than the budget allows, or it is too late.
    """
    deadline.check("waiting for Lark")
    began = time.perf_counter()
    parser = read(grammar)
    parsed = time.perf_counter()
    deadline.check("Lark's own reading of the grammar")
    machine = read_machine(parser, tuple(terminal_names(parser)))
    follow = may_follow(machine)[:-1, :-1]
    most = min(budget.states, MOST_LEXER_STATES)
    lexer = build_thrifty_lexer(parser, follow, max_states=most, deadline=deadline)
    lexed = time.perf_counter()
    classes = factored_classes(
        lexer, machine, vocabulary, max_sequences=budget.states, max_bytes=budget.bytes, deadline=deadline
    )
    seconds = {"parse": parsed - began, "automata": lexed - parsed, **classes.tokens.seconds}
    return Built(lexer, machine, classes, seconds)
