"""Lark grammars at run time: lexer automaton, LALR stacks, and masks by what reading a stack says."""

from hybrid.factored.build import Built, build
from hybrid.factored.classifier import FactoredClassifier
from hybrid.factored.source import LarkGrammar
from hybrid.factored.tables import Fixed, fixed_tables, places_of, used_sets

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
