"""Token classes of Lark grammars; lexer and parser are analysed separately. See the modules."""

from equivalence.lark.classes.classes import FactoredClasses, factored_classes

__all__ = ["FactoredClasses", "factored_classes"]
