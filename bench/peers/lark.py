"""Lark on its own grammars: its lexer and parser table, for single lexemes and terminals.

What: a `Machine` cuts lexemes and shifts them as Lark does (parser "lalr", lexer "basic").
When: in `bench.lark_judge`, on real files, and in tests by brute force.
Limits: patterns see the whole given text. A caller that passes a part of a text must include what patterns
look behind at.
"""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple, cast

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedInput
from lark.lexer import BasicLexer, LexerThread
from lark.parsers.lalr_parser_state import ParserState
from lark.utils import TextSlice

Stack = tuple[int, ...]
"""The parser's states, from the bottom."""


class Lexeme(NamedTuple):
    """A lexeme: its terminal, None if it is ignored, and its length in characters."""

    terminal: str | None
    length: int


class Machine:
    """Lark's lexer and parser table.

    Args:
        lark: a grammar with parser "lalr" and lexer "basic".
    """

    def __init__(self, lark: Lark) -> None:
        self.lark = lark
        interactive = lark.parse_interactive("")
        self._lexer = cast(Any, interactive.lexer_thread.lexer)
        assert isinstance(self._lexer, BasicLexer), "the contextual lexer means something else"
        self._lexer.scanner  # noqa: B018 - builds `callback`, which is read below
        # Lark's own way to parse without running the callbacks that build trees
        self._configuration = copy(interactive.parser_state.parse_conf)
        self._configuration.callbacks = {}
        self.start: Stack = (self._configuration.start_state,)
        self._shifts: dict[tuple[Stack, str], Stack | None] = {}

    def lexeme(self, text: TextSlice[str], at: int = 0) -> Lexeme | None:
        """Return the lexeme at a place, as `BasicLexer.next_token` finds it; None if there is none."""
        matched = self._lexer.match(text, at)
        if matched is None:
            return None
        value, terminal = matched
        if terminal in self._lexer.ignore_types:
            return Lexeme(None, len(value))
        callback = self._lexer.callback.get(terminal)  # may return a keyword instead of the matched name
        return Lexeme(terminal if callback is None else callback(Token(terminal, value)).type, len(value))

    def shift(self, stack: Stack, terminal: str | None) -> Stack | None:
        """Return the stack after a terminal was shifted, with the reductions before it; None if the parser
        refuses it."""
        if terminal is None:
            return stack
        key = (stack, terminal)
        if key not in self._shifts:
            state = ParserState(self._configuration, None, list(stack), [None] * (len(stack) - 1))  # type: ignore[arg-type]
            try:
                state.feed_token(Token(terminal, ""))
                self._shifts[key] = tuple(state.state_stack)
            except UnexpectedInput:
                self._shifts[key] = None
        return self._shifts[key]

    def takes(self, text: str, covered: int) -> bool:
        """Whether Lark, as users run it, cuts a text up to the lexeme that ends at or after ``covered``, and
        shifts all lexemes up to there."""
        interactive = self.lark.parse_interactive("")
        state = LexerThread.from_text(self._lexer, text).state
        assert state is not None
        while state.line_ctr.char_pos < covered:
            try:
                token = self._lexer.next_token(state)
                if token.start_pos >= covered:
                    return True  # the lexeme of the last character is ignored
                interactive.feed_token(token)
            except EOFError:
                return True  # the rest is ignored
            except UnexpectedCharacters:
                return bool(state.line_ctr.char_pos >= covered)
            except UnexpectedInput:
                return False
        return True
