"""From the text of a Lark grammar to its parser and its lexer: everything that needs no vocabulary.

What: `read` lets Lark build its parser of a text, or raises the error that says why Lark refuses it.
`construct` gives the parse table and the lexer automaton; `answer` gives the same, serialised for another
process.
When: by `hybrid.guard`, in a process that can be killed: Lark cannot be interrupted, tests
patterns on texts, which may take `re` any time, and neither Lark nor the lexer bounds its memory. If there
is no such process, in this one.
Limits: ``parser="lalr"``, ``lexer="basic"``; imports only from Lark's own library, because the text may
come from anybody; at most `MOST_CHARACTERS`. This module imports nothing that imports kernels or XGrammar.
"""

from __future__ import annotations

import re
import sys
import time
from typing import Any

import lark
from lark.lexer import BasicLexer
from lark.load_grammar import _parse_grammar
from lark.parsers import lalr_analysis

from equivalence.deadline import Deadline
from equivalence.errors import BudgetExceeded, GrammarError, HybridError, UnsupportedGrammar
from equivalence.lark.lalr.machine import may_follow, read_machine
from equivalence.lark.lexer.machine import build_lexer
from equivalence.lark.lexer.scanner import refuse_declared_terminals, terminal_names
from hybrid.guard.lark_serialisation import Construction, Terminal, serialised, serialised_error
from hybrid.values.notations import not_lark

MOST_CHARACTERS = 1 << 20
"""Longest text of a grammar. Real ones have 10,000 to 50,000 characters."""

_RULE = re.compile(r"(?m)^[?!]{0,2}([a-z_]\w*)(?:\.-?\d+)?[ \t]*:")

_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"|//.*|/(?:[^/\\\n]|\\.)+/')
_DIALECT = re.compile(
    r"%(?:json|regex|lark)\b|<\[|(?P<name><\|?/?\w+\|?>)|(?<=[\w)\"])\{\d*,?\d*\}|(?m:^\w+\[(?=[a-z]))"
    r"|(?P<other>%llguidance\b| & |~(?=[\"A-Z]))"
)
"""What XGrammar's dialect has in addition (`name`: if it is given the tokenizer), and what only llguidance's
has (`other`)."""

MOST_STATES = 20_000
"""Most states of Lark's parser. Real parsers have 30 to 900; Lark takes about 0.1 ms and 2 KiB for each,
and more if many terminals may follow."""

REFUSALS = (
    lark.exceptions.LarkError, re.error, OSError, RecursionError, OverflowError,
    ValueError, AssertionError, LookupError, TypeError, AttributeError,
)  # fmt: skip
"""What Lark raises if it refuses a grammar; the last ones in various places if it is not well-formed."""


def read(text: str, start: str) -> lark.Lark:
    """Lark's parser of a grammar.

    Raises:
        GrammarError: Lark refuses it (the message quotes Lark), or it must not be read.
    """
    if len(text) > MOST_CHARACTERS:
        raise GrammarError(
            f"the Lark grammar has {len(text)} characters, but the limit is {MOST_CHARACTERS}; shorten it"
        )
    try:
        # this parses the text twice, which takes 25 ms for a programming language
        statements = _parse_grammar(text, "<string>")  # type: ignore[no-untyped-call]
        imports = [one.children[0].data for one in statements.children if one.data == "import"]
        if "import_rel" in imports:
            raise GrammarError(
                "the Lark grammar imports from other files, but a text has no files next to it; import "
                "only from Lark's own library, as in %import common.NUMBER"
            )
        # Its look-aheads could be computed with bit sets: 12% less time for programming languages, for
        # 140 lines that depend on private parts of Lark.
        return lark.Lark(
            text, parser="lalr", lexer="basic", start=start, _plugins={"BasicLexer": _lexer_without_warnings}
        )
    except RecursionError as error:
        raise GrammarError("Lark refuses the grammar: it is nested too deeply") from error
    except REFUSALS as error:
        told = not_lark(text) or _with_advice(str(error), text, start)
        raise GrammarError(f"Lark refuses the grammar: {told}") from error


def _with_advice(message: str, text: str, start: str) -> str:
    """Lark's message, with what to do if that is known."""
    advice = ""
    if f"undefined rule: NonTerminal({start!r})" in message:
        first = _RULE.search(text)
        advice = "" if first is None else f"to begin with another rule, pass start={first[1]!r}, for example"
    elif "Reduce/Reduce collision" in message:
        advice = "the grammar must be LALR(1); Lark's Earley parser, its default, accepts others, too"
    else:
        found = _DIALECT.search(_QUOTED.sub('""', text))
        if found is not None and found["other"]:
            advice = f"only llguidance reads {found[0].strip()!r}"
        elif found is not None:
            argument = ", tokenizer_info=..." if found["name"] else ""
            advice = (
                f"{found[0].strip()!r} is not in Lark's notation, but perhaps in XGrammar's dialect: "
                f"compile_grammar(xgrammar.Grammar.from_lark(text{argument})); that has no lexer"
            )
    return f"{message.strip()} ({advice})" if advice else message


class _EnoughCollisions:
    """In place of the comparator of `interegular`, says that enough collisions were found."""

    def count_marked_pairs(self) -> int:
        return sys.maxsize


def _lexer_without_warnings(configuration: Any) -> BasicLexer:
    """Lark's lexer, which does not look for terminals that match the same text.

    Lark does so if the optional package `interegular` is installed, only in order to warn. It may take
    exponential time, and fails on some patterns.
    """
    return BasicLexer(configuration, _EnoughCollisions())


def construct(text: str, start: str, max_states: int, deadline: Deadline | None = None) -> Construction:
    """Make the lexer and the parser of a grammar.

    Args:
        text, start: the grammar.
        max_states: bound on the states of the lexer.
        deadline: when to give up; it is checked after Lark has done its part.

    Raises:
        GrammarError: as `read`.
        UnsupportedGrammar: the meaning of a terminal or an option cannot be kept; the message names it.
        BudgetExceeded: it needs more states than allowed, or the time ran out.
    """
    began = time.perf_counter()
    parser = read(text, start)
    parsed = time.perf_counter()
    refuse_declared_terminals(parser)  # Lark's parse table has them, and its lexer has not
    try:
        machine = read_machine(parser, terminal_names(parser))
        follow = may_follow(machine)[:-1, :-1]
        lexer = build_lexer(parser, follow, max_states=max_states, keep_unclosed=None, deadline=deadline)
    except RecursionError as error:
        raise UnsupportedGrammar(
            "a pattern of a terminal is nested too deeply; use fewer nested groups"
        ) from error
    seconds = {"parse": parsed - began, "automata": time.perf_counter() - parsed}
    terminals = tuple(
        Terminal(
            one.name, str(one.pattern.value), one.pattern.type == "str", "i" in one.pattern.flags,
            number in lexer.ignored,
        )
        for number, one in enumerate(parser.terminals)
    )  # fmt: skip
    return Construction(lexer, machine, terminals, seconds)


def answer(text: str, start: str, max_states: int) -> bytes:
    """The result of `construct`, or the error that it raises, serialised.

    Lark's loop over the states that it makes is stopped at `MOST_STATES`.
    """
    analysis: Any = lalr_analysis
    walk = analysis.bfs

    def bounded(*arguments: Any) -> Any:
        for number, state in enumerate(walk(*arguments)):
            if number >= MOST_STATES:
                raise BudgetExceeded(
                    f"Lark's parser has more than {MOST_STATES:,} states; alternatives that begin "
                    "alike multiply them; move their common beginnings into rules of their own"
                )
            yield state

    analysis.bfs = bounded
    try:
        return serialised(construct(text, start, max_states))
    except HybridError as error:
        return serialised_error(error)
    finally:
        analysis.bfs = walk
