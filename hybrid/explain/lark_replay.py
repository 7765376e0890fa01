"""Reading a text with the lexer and parser of its Lark grammar, to find the names of terminals.

What: a `LarkReplay` replays a text in the tables of the compiled grammar.
When: used by `hybrid.explain.explainer`, for grammars from `GrammarCompiler.compile_lark`.
Limits: it only gives words, and never decides what is allowed. A literal in any case is not named inside of a
character that has another number of bytes than the literal's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.arrays.account import Account
from equivalence.deadline import Deadline
from hybrid.explain.explanation import ANY_CASE, Expected, Located, Rest
from hybrid.explain.rules import TimeUp, Unexplained
from hybrid.guard.lark_serialisation import Terminal
from hybrid.lark.stacks import Stacks
from hybrid.lark.tables import Fixed
from hybrid.values.once import n_remembered, remembered

MOST_BYTES = 1 << 20
"""Longest text that is replayed; about 0.3 us for each byte."""

BETWEEN_CHECKS = 64
"""Bytes between two checks of the clock."""

IGNORED = "text that is ignored"

NO_RULES = "names of rules are missing: the tables of Lark's parser do not have them"

PRINTED = 60
"""How many characters of its pattern are shown for a terminal without a name."""


def _literal_of(terminal: Terminal) -> str | None:
    """The text of a terminal that is a literal; None if it is not one, or if no text in UTF-8 has it."""
    try:
        terminal.pattern.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return None
    return terminal.pattern if terminal.is_literal else None


RESULT_BYTES = 1_300
"""About how much memory a result of `LexerStates` takes: measured."""


class LexerStates:
    """Facts about a lexer, each found once.

    Args:
        fixed: the lexer's tables.
        terminals: the terminals, by their numbers.

    Attributes:
        literals: for each terminal, its text if it is a literal that UTF-8 can spell, else None.
        ignored: the numbers of the terminals that the parser never sees.
    """

    def __init__(self, fixed: Fixed, terminals: Sequence[Terminal]) -> None:
        self.fixed, self.terminals = fixed, terminals
        self.literals = tuple(map(_literal_of, terminals))
        self.ignored = frozenset(number for number, one in enumerate(terminals) if one.is_ignored)

    @property
    def nbytes(self) -> int:
        """About how many bytes the results take."""
        return RESULT_BYTES * n_remembered(self)

    def accepted_bytes(self, state: int) -> frozenset[int]:
        """The bytes that the lexer accepts in a state."""
        return self.bytes_of(self.fixed.step[state] >= 0)

    def bytes_of(self, columns: NDArray[np.bool_]) -> frozenset[int]:
        """The bytes that belong to some byte classes."""
        return frozenset(np.flatnonzero(columns[self.fixed.class_of_byte]).tolist())

    @remembered
    def next_terminals(self, state: int) -> frozenset[int]:
        """The terminals that the lexer may emit first from a state."""
        fixed = self.fixed
        seen, todo, found = {state}, [state], set()
        while todo:
            row, emitted = fixed.step[at := todo.pop()], fixed.emitted[at]
            for sequence in np.unique(emitted[row >= 0]).tolist():
                if sequence:
                    found.add(int(fixed.sequence[fixed.sequence_start[sequence]]))
            silent = set(np.unique(row[(row >= 0) & (emitted == 0)]).tolist()) - seen - {0}
            seen |= silent
            todo += silent
        return frozenset(found)

    @remembered
    def ended_terminals(self, state: int) -> tuple[frozenset[int], frozenset[int]]:
        """The terminals that may have ended in a state, so that the next byte begins another lexeme; and
        those bytes."""
        fixed = self.fixed
        begins = (fixed.step[state] == fixed.step[0]) & (fixed.step[state] >= 0)
        begins &= fixed.emitted[state] != fixed.emitted[0]
        sequences = np.unique(fixed.emitted[state][begins]).tolist()
        firsts = {int(fixed.sequence[fixed.sequence_start[one]]) for one in sequences if one}
        return frozenset(firsts), self.bytes_of(begins)

    @remembered
    def first_bytes_of(self, terminal: int) -> frozenset[int]:
        """The bytes with which a terminal may begin. Ignored terminals get all bytes with which no other
        terminal begins."""
        fixed = self.fixed
        found: set[int] = set()
        for column, after in enumerate(fixed.step[0].tolist()):
            sequence = int(fixed.emitted[0, column])
            if after < 0:
                continue
            if sequence:
                coming = frozenset([int(fixed.sequence[fixed.sequence_start[sequence]])])
            else:
                coming = self.next_terminals(after)
            if terminal in coming or (terminal in self.ignored and not sequence):
                found |= set(np.flatnonzero(fixed.class_of_byte == column).tolist())
        return frozenset(found)


class _At(NamedTuple):
    """The position after a byte: the lexer's state, the number of the parser's stack, the last terminal, and
    where the lexeme begins (-1 if it is inside of the last terminal)."""

    state: int
    stack: int
    last: int
    begins: int


class LarkReplay:
    """Replays one text; `back_to` takes bytes back.

    Args:
        lexing: what is known of the grammar's lexer.
    """

    def __init__(self, lexing: LexerStates) -> None:
        self._fixed, self._lexing = lexing.fixed, lexing
        self._text = bytearray()
        self._stacks = Stacks(lexing.fixed, Account(None))
        self._at = [_At(0, self._stacks.of(np.zeros(1, np.int64)), -1, 0)]

    @property
    def length(self) -> int:
        """Number of bytes read."""
        return len(self._text)

    def back_to(self, length: int) -> None:
        """Take bytes back."""
        del self._at[length + 1 :]
        del self._text[length:]

    def read(self, text: bytes, deadline: Deadline) -> None:
        """Read more text.

        Raises:
            TimeUp: the time ran out. `length` says how far it got; call again with the rest.
            Unexplained: the text is too long, or the grammar does not allow it.
        """
        if self.length + len(text) > MOST_BYTES:
            raise Unexplained(f"the text has more than {MOST_BYTES:,} bytes")
        fixed = self._fixed
        for number, byte in enumerate(text):
            if number % BETWEEN_CHECKS == 0 and deadline.is_over:
                raise TimeUp
            at = self._at[-1]
            column = fixed.class_of_byte[byte]
            sequence, state = int(fixed.emitted[at.state, column]), int(fixed.step[at.state, column])
            if state < 0:
                raise Unexplained("the lexer does not accept the text")
            stack, last, begins = at.stack, at.last, at.begins
            emitted = fixed.sequence[fixed.sequence_start[sequence] : fixed.sequence_start[sequence + 1]]
            for terminal in emitted.tolist():
                stack, last = self._stacks.shifted(stack, terminal), terminal
                if not stack:
                    raise Unexplained("the parser does not accept the text")
            self._text.append(byte)
            if state == 0:
                begins = self.length
            elif at.state == 0 or len(emitted):
                # -1 if it is the rest of the last terminal, emitted early as nothing else was possible
                begun_here = fixed.step[0, column] == state and not fixed.emitted[0, column]
                begins = self.length - 1 if begun_here else -1
            self._at.append(_At(state, stack, last, begins))

    def found(self, deadline: Deadline) -> Located:
        """The terminals that may come next: started ones first, then literals, then others. There are no
        names of rules, because Lark's tables have none.

        Raises:
            TimeUp: the time ran out.
        """
        at, lexing = self._at[-1], self._lexing
        found: dict[Expected, Rest] = {}
        lexeme = bytes(self._text[max(at.begins, 0) :])
        begins: frozenset[int] | None = None
        if at.begins < 0:
            fixed, state = self._fixed, at.state
            # the bytes that lead to the same state as at the start may follow an emitted lexeme
            anew = (fixed.step[state] == fixed.step[0]) & (fixed.emitted[state] == fixed.emitted[0])
            begins = lexing.accepted_bytes(state) & lexing.bytes_of(anew)
            literal = lexing.literals[at.last]
            if literal is None:
                found[self._described(at.last, 1)] = lexing.accepted_bytes(at.state) - begins
            elif n_read := self._read_before(at.state, literal.encode(), deadline):
                found[self._described(at.last, n_read)] = literal.encode()[n_read:]
            self._add_followers(found, at.stack, begins)
        elif not lexeme:
            self._add_followers(found, at.stack, None)
        else:
            coming = lexing.next_terminals(at.state)
            for terminal in self._taken(at.stack):
                literal = lexing.literals[terminal]
                if literal is None and terminal in coming:
                    silent = lexing.bytes_of(self._fixed.emitted[at.state] == 0)
                    found[self._described(terminal, 1)] = lexing.accepted_bytes(at.state) & silent
                elif literal is not None:
                    n_read = _read_of(literal, lexeme, lexing.terminals[terminal].any_case)
                    if rest := literal.encode()[n_read:] if n_read else b"":
                        found[self._described(terminal, n_read)] = rest
            ended, begins = lexing.ended_terminals(at.state)
            for terminal in ended:
                after = self._stacks.shifted(at.stack, terminal)
                if after:
                    self._add_followers(found, after, begins)
        if lexing.ignored:
            words = ", ".join(sorted(self._name(one) for one in lexing.ignored))
            firsts: frozenset[int] = frozenset().union(*map(lexing.first_bytes_of, lexing.ignored))
            ignored = Expected("terminal", f"{IGNORED} ({words})")
            found[ignored] = firsts if begins is None else firsts & begins
        order = {"literal": 0, "terminal": 1}
        expected = sorted(
            found, key=lambda one: (not one.read, order[one.kind], one.text.startswith(IGNORED))
        )
        return Located(expected, found, (), NO_RULES)

    def _read_before(self, state: int, literal: bytes, deadline: Deadline) -> int:
        """How many bytes of a literal were read before a state within it, which was emitted early: after the
        rest of it, the lexer begins anew. 0 if there is no such rest.

        Raises:
            TimeUp: the time ran out.
        """
        step = self._fixed.step
        columns = self._fixed.class_of_byte[np.frombuffer(literal, np.uint8)].tolist()
        for n_read in range(len(literal) - 1, 0, -1):
            if deadline.is_over:
                raise TimeUp
            at = state
            for column in columns[n_read:]:
                at = int(step[at, column])
                if at < 0:
                    break
            if at == 0:
                return n_read
        return 0

    def _add_followers(self, found: dict[Expected, Rest], stack: int, begins: frozenset[int] | None) -> None:
        """Add the terminals that the parser accepts on a stack, if they can begin with one of some bytes."""
        for terminal in self._taken(stack):
            literal = self._lexing.literals[terminal]
            firsts = (
                self._lexing.first_bytes_of(terminal) if literal is None else frozenset(literal.encode()[:1])
            )
            firsts = firsts if begins is None else firsts & begins
            if firsts:
                rest: Rest = firsts if literal is None else literal.encode()
                found.setdefault(self._described(terminal, 0), rest)

    def _taken(self, stack: int) -> list[int]:
        """The terminals that the parser accepts on a stack."""
        return [one for one in range(len(self._lexing.terminals)) if self._stacks.shifted(stack, one)]

    def _described(self, terminal: int, n_read: int) -> Expected:
        literal = self._lexing.literals[terminal]
        if literal is not None:
            case = ANY_CASE if self._lexing.terminals[terminal].any_case else ""
            return Expected("literal", literal, n_read, (), case)
        pattern = self._lexing.terminals[terminal].pattern
        return Expected("terminal", self._name(terminal), min(n_read, 1), (), pattern)

    def _name(self, terminal: int) -> str:
        """The name of a terminal, or its pattern if it has no name."""
        name, pattern, *_ = self._lexing.terminals[terminal]
        return f"/{pattern[:PRINTED]}/" if name.startswith("__") else name


def _read_of(literal: str, lexeme: bytes, any_case: bool) -> int:
    """How many bytes of a literal were read, if a lexeme is its beginning; else 0. A letter in another case
    may have another number of bytes."""
    text = lexeme.decode("utf-8", "ignore")  # without an incomplete character
    head = literal[: len(text)]
    is_same = re.fullmatch(re.escape(head), text, re.IGNORECASE) if any_case else head == text
    begun = head.encode() + lexeme[len(text.encode()) :]
    return len(begun) if is_same and literal.encode().startswith(begun) else 0
