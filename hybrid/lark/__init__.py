"""Lark grammars at run time: a lexer automaton and LALR stacks, and masks computed from the top of the
stack."""

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
