"""From the text of a Lark grammar to its parser and its lexer, all that no vocabulary is needed for.

What: `read` has Lark build its parser of a text, or raises the one error that says why Lark does not;
`construct` gives the parse table and the lexer automaton, `answer` the same packed for another process.
When: by `hybrid.xgrammar.guard`, in a process that can be ended: Lark cannot be interrupted, tries patterns
on texts that `re` may take any time for, and neither it nor the lexer bounds its memory. In this process
where there is no such one.
Limits: ``parser="lalr"``, ``lexer="basic"``; imports from Lark's own library only, as the text may come from
anybody; at most `MOST_CHARACTERS`. Nothing is imported here that imports kernels or XGrammar.
"""

from __future__ import annotations

import re
import time
from typing import Any

import lark
from lark.load_grammar import _parse_grammar, load_grammar
from lark.parsers import lalr_analysis

from equivalence.deadline import Deadline
from equivalence.errors import BudgetExceeded, GrammarError, HybridError, UnsupportedGrammar
from equivalence.lark.lalr.machine import may_follow, read_machine
from equivalence.lark.lexer.machine import build_thrifty_lexer
from equivalence.lark.lexer.scanner import terminal_names
from hybrid.lark.estimate import refuse_large_rules, refuse_large_terminals
from hybrid.lark.packing import Construction, packed, packed_error

MOST_CHARACTERS = 1 << 20
"""Longest text of a grammar. Real ones have 10,000 to 50,000 characters."""

MOST_STATES = 20_000
"""Of Lark's parser. Real ones have 30 to 900; Lark takes some 0.1 ms and 2 KiB for each, more where many
terminals may follow."""

RELATIVE_IMPORT = re.compile(r"^[ \t]*%import[ \t]+\.", re.MULTILINE)

_SLIPS = (ValueError, AssertionError, LookupError, TypeError, AttributeError)
"""What Lark lets through here and there where a grammar is not well-formed."""


def read(text: str, start: str) -> lark.Lark:
    """Lark's parser of a grammar.

    Raises:
        GrammarError: Lark refuses it, in Lark's words, or it is none that may be read.
        BudgetExceeded: it is too large once Lark has written it out (`hybrid.lark.estimate`).
    """
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


def construct(text: str, start: str, max_states: int, deadline: Deadline | None = None) -> Construction:
    """Lexer and parser of a grammar.

    Args:
        text, start: the grammar.
        max_states: bound on the states of the lexer.
        deadline: when to give up, once Lark has done its part.

    Raises:
        GrammarError: as `read`.
        UnsupportedGrammar: a terminal or an option whose meaning is not kept; the message names it.
        BudgetExceeded: more states than allowed, or it is too late.
    """
    began = time.perf_counter()
    parser = read(text, start)
    parsed = time.perf_counter()
    try:
        machine = read_machine(parser, terminal_names(parser))
        follow = may_follow(machine)[:-1, :-1]
        lexer = build_thrifty_lexer(parser, follow, max_states=max_states, deadline=deadline)
    except RecursionError as error:
        raise UnsupportedGrammar("a pattern of a terminal is nested too deeply") from error
    seconds = {"parse": parsed - began, "automata": time.perf_counter() - parsed}
    return Construction(lexer, machine, seconds)


def answer(text: str, start: str, max_states: int) -> bytes:
    """What `construct` gives, or the error that it raises, packed.

    Lark's walk over the states that it makes is ended at `MOST_STATES`.
    """
    analysis: Any = lalr_analysis
    walk = analysis.bfs

    def bounded(*arguments: Any) -> Any:
        for number, state in enumerate(walk(*arguments)):
            if number >= MOST_STATES:
                raise BudgetExceeded(
                    f"Lark's parser has more than {MOST_STATES:,} states; alternatives that begin alike "
                    "multiply them: give their beginnings rules of their own"
                )
            yield state

    analysis.bfs = bounded
    try:
        return packed(construct(text, start, max_states))
    except HybridError as error:
        return packed_error(error)
    finally:
        analysis.bfs = walk
