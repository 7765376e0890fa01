"""What Lark's basic lexer does, read from Lark's own objects.

What: the terminals in the order in which they are tried, which of them become keywords ("unless"), which
are ignored, and the flags for all patterns. Nothing is derived again: decisions of Lark are read from the
objects with which Lark decided.
When: the first step of `equivalence.lark.lexer.machine.build_lexer`. Lark then tests the patterns on the
texts of keywords, which may take arbitrarily long in `re`: see `hybrid.guard`.
Limits: `parser="lalr"`, `lexer="basic"`, the standard library's `re`, text instead of bytes. User callbacks,
custom lexers, and declared terminals without a pattern are refused by name.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from equivalence.errors import UnsupportedGrammar


class Scanner(NamedTuple):
    """Terminals are numbered as in `names`.

    Attributes:
        names: the terminals that have a pattern, in Lark's order of definition.
        patterns: the regular expression of each, including its own flags.
        flags: the flags of `re` for all of them.
        order: the terminals in the order in which they are tried.
        keywords: for each terminal, the terminals that it becomes if they match its whole text, in order.
        ignored: the terminals whose matches are dropped, even if they become keywords.
    """

    names: tuple[str, ...]
    patterns: tuple[str, ...]
    flags: int
    order: tuple[int, ...]
    keywords: dict[int, tuple[int, ...]]
    ignored: frozenset[int]


def terminal_names(grammar: Any) -> tuple[str, ...]:
    """Names of the terminals of a `lark.Lark` that have a pattern; the number of a terminal is its
    position."""
    return tuple(terminal.name for terminal in grammar.terminals)


def basic_lexer(grammar: Any) -> Any:
    """Lark's own lexer object of a `lark.Lark`, which has the scanner and its callbacks.

    Raises:
        UnsupportedGrammar: the parser is not "lalr", or the lexer is not "basic".
    """
    from lark.lexer import BasicLexer  # here: Lark is slow to import, and few grammars need it

    options = grammar.options
    if options.parser != "lalr" or options.lexer != "basic":
        raise UnsupportedGrammar(
            'the Lark grammar must have parser="lalr" and lexer="basic", but has '
            f"parser={options.parser!r} and lexer={options.lexer!r}"
        )
    lexer = grammar.parser.lexer
    if type(lexer) is not BasicLexer:
        raise UnsupportedGrammar(
            f"the Lark grammar must have Lark's own lexer, but has {type(lexer).__name__}"
        )
    return lexer


def refuse_declared_terminals(grammar: Any) -> None:
    """Raise `UnsupportedGrammar` if a rule or ``%ignore`` names a terminal that has no pattern."""
    used = {symbol.name for rule in grammar.rules for symbol in rule.expansion if symbol.is_term}
    for name in sorted((used | set(grammar.ignore_tokens)) - set(terminal_names(grammar))):
        raise UnsupportedGrammar(
            f"the declared terminal {name} has no pattern, so no text matches it; define it, or remove "
            "it (a postlex such as Lark's Indenter is not supported)"
        )


def read_scanner(grammar: Any) -> Scanner:
    """The scanner of a `lark.Lark`.

    Args:
        grammar: built with `parser="lalr"` and `lexer="basic"`.

    Raises:
        UnsupportedGrammar: the behaviour of Lark cannot be read from patterns; the message says why.
    """
    from lark.lexer import UnlessCallback

    lexer = basic_lexer(grammar)
    if lexer.use_bytes:
        raise UnsupportedGrammar(
            "use_bytes=True is not supported, because patterns are read as patterns of text; omit the option"
        )
    if lexer.re is not re:
        raise UnsupportedGrammar(
            f"the patterns must be those of the module 're', but are those of {lexer.re.__name__!r}"
        )
    names = terminal_names(grammar)
    number = {name: i for i, name in enumerate(names)}
    refuse_declared_terminals(grammar)
    try:
        scanner = lexer.scanner  # builds `lexer.callback` too
    except re.error as error:  # such as a reference to group 1: Lark adds groups around terminals
        raise UnsupportedGrammar(
            f"Lark cannot compile its scanner, one pattern of all terminals ({error}); do not refer to "
            "groups by their numbers, do not give two groups the same name, and write flags after the "
            "pattern (/a/i)"
        ) from error
    keywords = {}
    for name, callback in lexer.callback.items():
        if type(callback) is not UnlessCallback:
            raise UnsupportedGrammar(
                f"the lexer callback of the terminal {name} is not supported, because only Lark knows what "
                "it does; remove the callback"
            )
        keywords[number[name]] = tuple(number[terminal.name] for terminal in callback.scanner.terminals)
    return Scanner(
        names=names,
        patterns=tuple(terminal.pattern.to_regexp() for terminal in grammar.terminals),
        flags=int(lexer.g_regex_flags),
        order=tuple(number[terminal.name] for terminal in scanner.terminals),
        keywords=keywords,
        ignored=frozenset(number[name] for name in lexer.ignore_types if name in number),
    )
