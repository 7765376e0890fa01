"""Lark grammars: their lexers, their LALR parsers, and the classes of both together."""
