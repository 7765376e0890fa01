"""A text read by the lexer and the parser of its Lark grammar: where it stands, in names of terminals.

What: a `LarkReading` replays a text in the tables of the compiled grammar, and asks Lark for the names of
terminals and rules, and for patterns.
When: by `hybrid.explain.words`, for grammars that `GrammarCompiler.compile_lark` made.
Limits: it finds words and never decides. Lark builds its parser once more, in this process: it did within the
budget when the grammar was compiled, some 10 to 300 ms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.deadline import Deadline
from equivalence.lark.lexer.scanner import terminal_names
from hybrid.explain.explanation import ANY_CASE, Expected
from hybrid.explain.found import Found, Rest
from hybrid.explain.rules import TimeUp, Untold
from hybrid.lark import LarkGrammar
from hybrid.lark.tables import Fixed

MOST_BYTES = 1 << 20
"""Of a text that is replayed, some 0.3 us each."""

MOST_STEPS = 1 << 16
"""Reductions before one shift; Lark's tables have no cycles."""

BETWEEN_LOOKS = 64
"""Bytes that are read between two looks at the clock."""

IGNORED = "text that is ignored"

NO_RULES = "names of rules: the tables of Lark's parser hold none"

PRINTED = 60
"""Characters of a pattern that stand for a terminal without a name."""


class Names(NamedTuple):
    """What Lark calls things.

    Attributes:
        terminals: their names.
        literals: the text of terminals that are one, else None.
        any_case: whether a terminal reads letters of either case.
        patterns: of all terminals.
        ignored: numbers of those that the parser never sees.
    """

    terminals: tuple[str, ...]
    literals: tuple[str | None, ...]
    any_case: tuple[bool, ...]
    patterns: tuple[str, ...]
    ignored: frozenset[int]


def names_of(grammar: LarkGrammar) -> Names:
    """The names of a grammar that was compiled.

    Lark is asked for its Earley parser, which has the same terminals in the same order, and for which it
    computes no tables: a third of the time.

    Raises:
        Untold: Lark does not read it again.
    """
    import lark

    try:
        parser = lark.Lark(grammar.text, parser="earley", lexer="basic", start=grammar.start)
    except (lark.exceptions.LarkError, ValueError, AssertionError, LookupError, RecursionError) as error:
        raise Untold(f"Lark does not read the grammar again: {error}") from error
    terminals: list[Any] = list(parser.terminals)
    names = terminal_names(parser)
    return Names(
        names,
        tuple(one.pattern.value if one.pattern.type == "str" else None for one in terminals),
        tuple("i" in one.pattern.flags for one in terminals),
        tuple(str(one.pattern.value) for one in terminals),
        frozenset(names.index(name) for name in parser.ignore_tokens if name in names),
    )


class Lexing:
    """What is known of the states of a lexer: which terminals may come first from each, which may just have
    ended there; and with which bytes terminals begin."""

    def __init__(self) -> None:
        self.coming: dict[int, frozenset[int]] = {}
        self.ended: dict[int, tuple[frozenset[int], frozenset[int]]] = {}
        self.firsts: dict[int, frozenset[int]] = {}


class _At(NamedTuple):
    """After a byte: the lexer's state, the parser's stack, the last terminal, where the lexeme begins (-1:
    within the last terminal)."""

    state: int
    stack: tuple[int, ...]
    last: int
    begins: int


class LarkReading:
    """Replays one text; `back_to` takes bytes back.

    Args:
        fixed: lexer and parser of the compiled grammar.
        names, lexing: of the grammar.
    """

    def __init__(self, fixed: Fixed, names: Names, lexing: Lexing) -> None:
        self._fixed, self._names, self._lexing = fixed, names, lexing
        self._text = bytearray()
        self._at = [_At(0, (0,), -1, 0)]

    @property
    def length(self) -> int:
        """Bytes read."""
        return len(self._text)

    def back_to(self, length: int) -> None:
        """Take bytes back."""
        del self._at[length + 1 :]
        del self._text[length:]

    def read(self, text: bytes, deadline: Deadline) -> None:
        """Read on.

        Raises:
            TimeUp: `length` says how far it came; it may be called again with the rest.
            Untold: the text is too long, or the grammar does not take it.
        """
        if self.length + len(text) > MOST_BYTES:
            raise Untold(f"the text has more than {MOST_BYTES:,} bytes")
        fixed = self._fixed
        for number, byte in enumerate(text):
            if number % BETWEEN_LOOKS == 0 and deadline.is_over:
                raise TimeUp
            at = self._at[-1]
            column = fixed.class_of_byte[byte]
            sequence, state = int(fixed.emitted[at.state, column]), int(fixed.step[at.state, column])
            if state < 0:
                raise Untold("the lexer does not take the text")
            stack, last, begins = at.stack, at.last, at.begins
            emitted = fixed.sequence[fixed.sequence_start[sequence] : fixed.sequence_start[sequence + 1]]
            for terminal in emitted.tolist():
                after = self._shifted(stack, terminal)
                if after is None:
                    raise Untold("the parser does not take the text")
                stack, last = after, terminal
            self._text.append(byte)
            if at.state == 0 or len(emitted):
                begins = self._beginning(state)
            self._at.append(_At(state, stack, last, self.length if state == 0 else begins))

    def _beginning(self, state: int) -> int:
        """Where the lexeme in progress begins, behind a byte that may have begun it; -1 where it is the rest
        of the last terminal, which was emitted as soon as nothing else could come."""
        column = self._fixed.class_of_byte[self._text[-1]]
        if state == 0:
            return self.length
        begun_here = self._fixed.step[0, column] == state and not self._fixed.emitted[0, column]
        return self.length - 1 if begun_here else -1

    def _shifted(self, stack: tuple[int, ...], terminal: int) -> tuple[int, ...] | None:
        fixed, states = self._fixed, list(stack)
        for _ in range(MOST_STEPS):
            if not states or states[-1] >= len(fixed.action):
                return None
            action = int(fixed.action[states[-1], terminal])
            if action == 0:
                return None
            if action > 0:
                return (*states, action - 1)
            rule = -action - 1
            del states[len(states) - int(fixed.rule_length[rule]) :]
            states.append(int(fixed.goto[states[-1], fixed.rule_origin[rule]]))
        return None

    def found(self, deadline: Deadline) -> Found:
        """The terminals that may come, by name: literals first, then those being read, then patterns. No
        names of rules: Lark's tables hold none."""
        at, names = self._at[-1], self._names
        found: dict[Expected, Rest] = {}
        lexeme = bytes(self._text[max(at.begins, 0) :]).decode("utf-8", "replace")
        begins: frozenset[int] | None = None
        if at.begins < 0:
            begins = self._begins_anew(at.state)
            found[self._described(at.last, 1)] = self._goes_on(at.state) - begins
            self._add_followers(found, at.stack, begins)
        elif not lexeme:
            self._add_followers(found, at.stack, None)
        else:
            coming = self._coming(at.state)
            for terminal in self._taken(at.stack):
                literal = names.literals[terminal]
                if literal is None and terminal in coming:
                    found[self._described(terminal, 1)] = self._continues(at.state)
                elif literal is not None and literal != lexeme:
                    if _begins(literal, lexeme, names.any_case[terminal]):
                        found[self._described(terminal, len(lexeme))] = literal[len(lexeme) :].encode()
            ended, begins = self._ended(at.state)
            for terminal in ended:
                after = self._shifted(at.stack, terminal)
                if after is not None:
                    self._add_followers(found, after, begins)
        if names.ignored:
            words = ", ".join(sorted(self._name(one) for one in names.ignored))
            firsts: frozenset[int] = frozenset().union(*map(self._firsts, names.ignored))
            ignored = Expected("terminal", f"{IGNORED} ({words})")
            found[ignored] = firsts if begins is None else firsts & begins
        return self._sorted(found)

    def _add_followers(
        self, found: dict[Expected, Rest], stack: tuple[int, ...], begins: frozenset[int] | None
    ) -> None:
        """Add the terminals that the parser takes on a stack, of which each begins with one of some bytes."""
        for terminal in self._taken(stack):
            literal = self._names.literals[terminal]
            firsts = self._firsts(terminal) if literal is None else frozenset(literal.encode()[:1])
            firsts = firsts if begins is None else firsts & begins
            if firsts:
                rest: Rest = firsts if literal is None else literal.encode()
                found.setdefault(self._described(terminal, 0), rest)

    def _sorted(self, found: dict[Expected, Rest]) -> Found:
        order = {"literal": 0, "terminal": 1}
        expected = sorted(
            found, key=lambda one: (not one.read, order[one.kind], one.text.startswith(IGNORED))
        )
        return Found(expected, found, (), NO_RULES)

    def _taken(self, stack: tuple[int, ...]) -> list[int]:
        """The terminals that the parser takes on a stack."""
        row = self._fixed.action[stack[-1]][: len(self._names.terminals)]
        return [one for one in np.flatnonzero(row).tolist() if self._shifted(stack, one) is not None]

    def _coming(self, state: int) -> frozenset[int]:
        """The terminals that the lexer may emit first from a state on."""
        known = self._lexing.coming.get(state)
        if known is None:
            fixed = self._fixed
            seen, todo, found = {state}, [state], set()
            while todo:
                row, emitted = fixed.step[at := todo.pop()], fixed.emitted[at]
                for sequence in np.unique(emitted[row >= 0]).tolist():
                    if sequence:
                        found.add(int(fixed.sequence[fixed.sequence_start[sequence]]))
                silent = set(np.unique(row[(row >= 0) & (emitted == 0)]).tolist()) - seen - {0}
                seen |= silent
                todo += silent
            known = self._lexing.coming[state] = frozenset(found)
        return known

    def _ended(self, state: int) -> tuple[frozenset[int], frozenset[int]]:
        """The terminals that a lexeme may be that has ended, so that the next byte begins another one; and
        these bytes."""
        known = self._lexing.ended.get(state)
        if known is None:
            fixed = self._fixed
            begins = (fixed.step[state] == fixed.step[0]) & (fixed.step[state] >= 0)
            begins &= fixed.emitted[state] != fixed.emitted[0]
            sequences = np.unique(fixed.emitted[state][begins]).tolist()
            starts = fixed.sequence_start
            firsts = {int(fixed.sequence[starts[one]]) for one in sequences if one}
            known = self._lexing.ended[state] = frozenset(firsts), self._bytes(begins)
        return known

    def _continues(self, state: int) -> frozenset[int]:
        """The bytes that a lexeme in progress may go on with, as far as nothing has ended before them."""
        fixed = self._fixed
        return self._goes_on(state) & self._bytes(fixed.emitted[state] == 0)

    def _goes_on(self, state: int) -> frozenset[int]:
        """The bytes that the lexer reads in a state."""
        return self._bytes(self._fixed.step[state] >= 0)

    def _begins_anew(self, state: int) -> frozenset[int]:
        """The bytes that do in a state what they do at the beginning: those behind a lexeme that was
        emitted."""
        fixed = self._fixed
        return self._goes_on(state) & self._bytes(
            (fixed.step[state] == fixed.step[0]) & (fixed.emitted[state] == fixed.emitted[0])
        )

    def _bytes(self, columns: NDArray[np.bool_]) -> frozenset[int]:
        """The bytes of some classes of bytes."""
        return frozenset(np.flatnonzero(columns[self._fixed.class_of_byte]).tolist())

    def _firsts(self, terminal: int) -> frozenset[int]:
        """The bytes that a terminal may begin with; of those that are ignored, all that nothing else
        begins."""
        known = self._lexing.firsts.get(terminal)
        if known is None:
            fixed = self._fixed
            found = set()
            for column, after in enumerate(fixed.step[0].tolist()):
                sequence = int(fixed.emitted[0, column])
                if after < 0:
                    continue
                if sequence:
                    coming = frozenset([int(fixed.sequence[fixed.sequence_start[sequence]])])
                else:
                    coming = self._coming(after)
                if terminal in coming or (terminal in self._names.ignored and not sequence):
                    found |= set(np.flatnonzero(fixed.class_of_byte == column).tolist())
            known = self._lexing.firsts[terminal] = frozenset(found)
        return known

    def _described(self, terminal: int, n_read: int) -> Expected:
        literal = self._names.literals[terminal]
        if literal is not None:
            return Expected(
                "literal", literal, n_read, (), ANY_CASE if self._names.any_case[terminal] else ""
            )
        return Expected("terminal", self._name(terminal), min(n_read, 1), (), self._names.patterns[terminal])

    def _name(self, terminal: int) -> str:
        """The name of a terminal; of one that has none, its pattern."""
        name, pattern = self._names.terminals[terminal], self._names.patterns[terminal]
        return f"/{pattern[:PRINTED]}/" if name.startswith("__") else name


def _begins(literal: str, lexeme: str, any_case: bool) -> bool:
    if any_case:
        return literal.casefold().startswith(lexeme.casefold())
    return literal.startswith(lexeme)
