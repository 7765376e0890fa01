"""Lark grammars at run time: a lexer automaton and LALR stacks, and masks computed from the top of the
stack."""

from hybrid.lark.classifier import FactoredClassifier
from hybrid.lark.source import LarkGrammar
from hybrid.lark.tables import Fixed, fixed_tables, places_of, used_sets

__all__ = [
    "FactoredClassifier",
    "Fixed",
    "LarkGrammar",
    "fixed_tables",
    "places_of",
    "used_sets",
]
