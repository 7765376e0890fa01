"""Lexers: an automaton with exactly the meaning of Lark's basic lexer, byte by byte."""

from equivalence.lark.lexer.machine import LexerMachine, build_lexer
from equivalence.lark.lexer.scanner import terminal_names

__all__ = ["LexerMachine", "build_lexer", "terminal_names"]
