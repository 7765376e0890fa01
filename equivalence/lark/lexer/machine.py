"""A byte-level transducer with exactly the meaning of Lark's basic lexer.

What: it reads the bytes of a text and emits the terminals of Lark's lexer as soon as no further text can
change them. `continuations` lists what may follow, up to the lexeme that contains the last byte.
When: to follow the lexer of a `lark.Lark` with tokens that begin and end anywhere.
Limits: what cannot be kept exact is refused by name (`equivalence.lark.lexer.patterns`,
`equivalence.lark.lexer.scanner`). Texts are dead if Lark can only lex them by giving back many lexemes, or
after the opening of something that is never closed (`equivalence.lark.lexer.lexeme_transducer` lists these
cases).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.deadline import Deadline
from equivalence.errors import BudgetExceeded
from equivalence.lark.lexer.continuations import find_continuations
from equivalence.lark.lexer.lexeme_automaton import MOST_STATES, LexemeAutomaton
from equivalence.lark.lexer.lexeme_transducer import LexemeTransducer, Terminals
from equivalence.lark.lexer.minimisation import Continuations, advance_emissions, merge, tabulate
from equivalence.lark.lexer.scanner import read_scanner
from equivalence.lark.lexer.utf8 import expand

MAX_UNREAD = 100
"""Largest `unread_limit`: tails may be nested this deep."""

FEW_TIMES, FEW_MORE = 4, 1_000
"""`build_lexer` adds few states if there are at most this factor times as many with them, plus this
many."""


class LexerMachine(NamedTuple):
    """S states; state 0 is the start. `sequences` numbers the sequences; 0 is the empty one.

    A terminal is emitted as soon as it is next in all texts that can end well. So inside of a string that
    must be closed, it may have been emitted already.

    Attributes:
        terminals: names, including ignored terminals and keywords; the number of a terminal is its position.
        ignored: numbers of the ignored terminals.
        step: int32[S, 256], the next state; -1 if the text is dead.
        emitted: int32[S, 256], the sequence that is emitted on that byte; 0: none.
        sequences: sequences of terminals, without ignored ones.
        at_end: int32[S], the sequence that is emitted at the end of the text; -1: the rest cannot be lexed.
        continuations: for each state, sorted, the sequences that the machine may emit from there on,
            depending on further text or its end, up to the lexeme that contains the last byte read.
            ``((),)`` at the start.
    """

    terminals: tuple[str, ...]
    ignored: frozenset[int]
    step: NDArray[np.int32]
    emitted: NDArray[np.int32]
    sequences: tuple[Terminals, ...]
    at_end: NDArray[np.int32]
    continuations: tuple[Continuations, ...]


def build_lexer(
    grammar: Any,
    may_follow: NDArray[np.bool_] | None = None,
    unread_limit: int = 16,
    max_states: int = MOST_STATES,
    *,
    keep_unclosed: bool | None = False,
    deadline: Deadline | None = None,
) -> LexerMachine:
    """The machine of a grammar's lexer.

    Args:
        grammar: a `lark.Lark` with `parser="lalr"` and `lexer="basic"`, and without a postlex.
        may_follow: bool[T, T], whether the parser may accept terminal b after a, with nothing between them
            except what is ignored; numbered as `terminal_names`. Texts are dead if lexing
            would fall back to other pairs.
        unread_limit: most lexemes in a tail, when a lexeme turns out to have been read too far.
        max_states: bound on the states of every stage.
        keep_unclosed: if a lexeme is never closed, lex its opening as other terminals, as Lark does. This
            matters only at the end of the text. Every comment is then lexed twice, up to `unread_limit`.
            None: if that adds few states. To give back the opening of something that is never closed
            (``a /*b`` is a product for Lark), the lexer must know how all the following text would be
            divided. In SynCode's Java and SQL, the parser accepts none of it, so no state is added; in its Go
            there are more than 50,000.
        deadline: when to give up; checked for each state.

    Raises:
        UnsupportedGrammar: the meaning of a terminal, callback or option cannot be kept; the message names
            it.
        BudgetExceeded: more states than `max_states`, or the time ran out.
        ValueError: `may_follow` has another shape, or bounds are out of range.
    """
    scanner = read_scanner(grammar)
    n_terminals = len(scanner.names)
    if may_follow is not None and may_follow.shape != (n_terminals, n_terminals):
        raise ValueError(
            f"may_follow must have the shape ({n_terminals}, {n_terminals}), one row and one column "
            f"for each of terminal_names(grammar), but has {may_follow.shape}"
        )
    if not 1 <= unread_limit <= MAX_UNREAD or max_states < 1:
        raise ValueError(
            f"unread_limit must be from 1 to {MAX_UNREAD}, and max_states at least 1, but they are "
            f"{unread_limit} and {max_states}"
        )
    deadline = deadline or Deadline()
    lexemes = LexemeAutomaton(scanner, max_states, deadline)
    dropping, keeping = (
        LexemeTransducer(lexemes, may_follow, unread_limit, deadline, keep_unclosed=kept)
        for kept in (False, True)
    )
    if keep_unclosed is not None:
        chosen = (keeping if keep_unclosed else dropping).explore(max_states)
        return _machine(chosen, max_states, deadline)
    try:
        try:
            keeping.explore(min(FEW_MORE, max_states))
        except BudgetExceeded:
            dropping.explore(max_states)
            keeping.explore(min(FEW_TIMES * len(dropping.places) + FEW_MORE, max_states))
        return _machine(keeping, max_states, deadline)
    except BudgetExceeded:
        deadline.check("the lexer")
    return _machine(dropping.explore(max_states), max_states, deadline)


def _machine(transducer: LexemeTransducer, max_states: int, deadline: Deadline) -> LexerMachine:
    """Make the tables of everything that was explored."""
    lexemes = transducer.lexemes
    scanner = lexemes.scanner
    table = tabulate(transducer)
    found = find_continuations(transducer, table, 4 * max_states, deadline)
    table = table._replace(continuations=found)
    machine = merge(advance_emissions(merge(table, deadline), deadline), deadline)
    whole = expand(machine, lexemes.kinds, max_states, deadline)
    return LexerMachine(
        scanner.names,
        scanner.ignored,
        whole.step,
        whole.emitted,
        tuple(whole.sequences),
        whole.at_end,
        tuple(whole.continuations),
    )
