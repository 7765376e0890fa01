"""Lark grammars at run time: lexer automaton, LALR stacks, and masks by what reading a stack says."""

from hybrid.lark.build import Built, build
from hybrid.lark.classifier import FactoredClassifier
from hybrid.lark.source import LarkGrammar
from hybrid.lark.tables import Fixed, fixed_tables, places_of, used_sets

__all__ = [
    "Built",
    "FactoredClassifier",
    "Fixed",
    "LarkGrammar",
    "build",
    "fixed_tables",
    "places_of",
    "used_sets",
]
