"""A Lark grammar: its text, and Lark's own reading of it.

What: `LarkGrammar` keeps what was given; `read` builds Lark's lexer and LALR table of it, or raises the one
error that says why Lark does not.
When: by `GrammarCompiler.compile_lark` and when artefacts are read.
Limits: ``parser="lalr"``, ``lexer="basic"``; imports from Lark's own library only, as the text may come from
anybody; at most `MOST_CHARACTERS`.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import lark
from lark.load_grammar import _parse_grammar, load_grammar

from equivalence import GrammarError
from hybrid.factored.estimate import refuse_large_rules, refuse_large_terminals

MOST_CHARACTERS = 1 << 20
"""Longest text of a grammar. Real ones have 10,000 to 50,000 characters."""

RELATIVE_IMPORT = re.compile(r"^[ \t]*%import[ \t]+\.", re.MULTILINE)


class LarkGrammar(NamedTuple):
    """A grammar in Lark's notation.

    Attributes:
        text: the grammar.
        start: its start rule.
    """

    text: str
    start: str = "start"


_SLIPS = (ValueError, AssertionError, LookupError, TypeError, AttributeError)
"""What Lark lets through here and there where a grammar is not well-formed."""


def read(grammar: LarkGrammar) -> lark.Lark:
    """Lark's parser of a grammar.

    Raises:
        GrammarError: Lark refuses it, in Lark's words, or it is none that may be read.
        BudgetExceeded: it is too large once Lark has written it out (`hybrid.factored.estimate`).
    """
    text, start = grammar
    given: tuple[object, ...] = (text, start)  # whatever the caller gave
    if not all(isinstance(one, str) for one in given):
        raise GrammarError(
            f"the Lark grammar is {type(text).__name__} with the start {start!r}, allowed are two strings"
        )
    if len(text) > MOST_CHARACTERS:
        raise GrammarError(f"the Lark grammar has {len(text)} characters, allowed are {MOST_CHARACTERS}")
    if RELATIVE_IMPORT.search(text):
        raise GrammarError(
            "the Lark grammar imports from files beside it, which a text has not; "
            "allowed are imports from Lark's own library, such as %import common.NUMBER"
        )
    options: dict[str, Any] = {"parser": "lalr", "lexer": "basic", "start": start}
    try:
        # what Lark does first, step by step; the text is parsed twice, 25 ms for a programming language
        refuse_large_terminals(_parse_grammar(text, "<string>"))  # type: ignore[no-untyped-call]
        trees, _ = load_grammar(text, "<string>", [], False)  # type: ignore[no-untyped-call]
        refuse_large_rules(trees)
        return lark.Lark(trees, **options)
    except (lark.exceptions.LarkError, re.error, OSError, *_SLIPS) as error:
        raise GrammarError(f"Lark refuses the grammar: {error}") from error
    except RecursionError as error:
        raise GrammarError("Lark refuses the grammar: it is nested too deeply") from error
