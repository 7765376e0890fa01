"""Lexeme after lexeme: a transducer over kinds of characters that gives back what a lexeme has read too far.

What: while threads live after an end, the text may still continue to a longer lexeme, or all threads may
die. Then the lexeme ends at the last end, and the rest, the *tail*, is lexed from the start. A state
contains the unfinished lexeme and, for its last end, the *fallback*: what the tail alone has emitted, and
the state that it is in. Texts whose tails behave alike share a state, however long they are.
When: after `equivalence.lark.lexer.lexeme_automaton`, before minimising.
Limits: fallbacks are dropped, and the text is dead if one of them would be needed,

- beyond `unread_limit` lexemes in tails (the innermost first end is lost);
- if the unfinished lexeme cannot die before its next end (inside of a comment that must be closed), unless
  `keep_unclosed`. A text that stops there is dead, although Lark would lex the opening as other terminals;
- if the parser accepts no text with these terminals side by side (`may_follow`); then nothing is lost.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.deadline import Deadline
from equivalence.errors import BudgetExceeded
from equivalence.lark.lexer.lexeme_automaton import Edge, LexemeAutomaton

Terminals = tuple[int, ...]
"""Terminals in the order of the text, without ignored ones."""


class Fallback(NamedTuple):
    """The outcome if an end is used: the terminals from that lexeme on, and the state of the rest."""

    terminals: Terminals
    state: int


class Place(NamedTuple):
    """A state: a state of `LexemeAutomaton`, and the fallbacks of its conditional ends and of its certain
    one."""

    lexeme: int
    conditional: tuple[Fallback | None, ...]
    fallback: Fallback | None


class Step(NamedTuple):
    """The effect of a character: terminals that are emitted, and the next state."""

    terminals: Terminals
    state: int


class LexemeTransducer:
    """The states that can be reached from the start, state 0.

    Attributes:
        lexemes: the automaton of one lexeme.
        places: the states.
        rows: for each state and each kind of characters a step; None if the text is dead.
        at_end: for each state, the terminals emitted at the end of the text; None if it is dead.
    """

    def __init__(
        self,
        lexemes: LexemeAutomaton,
        may_follow: NDArray[np.bool_] | None,
        unread_limit: int,
        max_states: int,
        deadline: Deadline,
        keep_unclosed: bool = False,
    ) -> None:
        self.lexemes = lexemes
        self._limit = unread_limit
        self._max_states = max_states
        self._keep_unclosed = keep_unclosed
        self._follow: list[int] | None = None
        if may_follow is not None:
            rows = np.packbits(may_follow, axis=1, bitorder="little")
            self._follow = [int.from_bytes(row.tobytes(), "little") for row in rows]
        self._numbers: dict[Place, int] = {}
        self._joined: dict[tuple[Terminals, Terminals], Terminals | None] = {}
        self._firsts: dict[int, int] = {}
        self._follows: dict[Fallback, Fallback | None] = {}
        self.places: list[Place] = []
        self.rows: list[list[Step | None] | None] = []
        self.weights: list[int] = []
        self.at_end: list[Terminals | None] = []
        self._new = {
            end: Fallback(() if end == lexemes.silent else (end,), 0) for end in range(lexemes.silent + 1)
        }
        self._number(Place(0, (), None))
        for number, _ in enumerate(self.places):  # which grow on the way
            deadline.check("the lexer's states")
            self.row(number)

    def _number(self, place: Place) -> int:
        number = self._numbers.get(place)
        if number is None:
            number = self._numbers[place] = len(self.places)
            if number >= self._max_states:
                raise BudgetExceeded(
                    f"the lexer has more than {self._max_states} states; raise Budget.states "
                    f"(max_states), or use an unread_limit below {self._limit}, so that fewer lexemes "
                    "are given back"
                )
            self.places.append(place)
            self.rows.append(None)
            self.weights.append(max((self._weight(f) for f in _fallbacks(place)), default=0))
            self.at_end.append(self._end(place) if number else ())
        return number

    def _weight(self, fallback: Fallback) -> int:
        """A lower bound of the lexemes given back: each fallback counts as one, whatever it emits."""
        return max(len(fallback.terminals), 1) + self.weights[fallback.state]

    def _end(self, place: Place) -> Terminals | None:
        slot = self.lexemes.conditional[place.lexeme]
        taken = place.conditional[slot] if slot >= 0 else place.fallback
        if taken is None:
            return None
        rest = self.at_end[taken.state]
        return None if rest is None else taken.terminals + rest

    def row(self, number: int) -> list[Step | None]:
        """The steps of a state, by kind of characters."""
        row = self.rows[number]
        if row is not None:
            return row
        place = self.places[number]
        edges = self.lexemes.edges[place.lexeme]
        tails = [None if f is None else self.row(f.state) for f in (*place.conditional, place.fallback)]
        known: dict[tuple[object, ...], Step | None] = {}
        row = []
        if not any(tails):
            nothing = (None,) * len(tails)
            steps = {id(edge): self._step(place, edge, nothing) for edge in edges}
            row = [steps[id(edge)] for edge in edges]
        else:
            for kind, edge in enumerate(edges):
                after = tuple(None if tail is None else tail[kind] for tail in tails)
                key = (id(edge), *after)
                if key not in known:
                    known[key] = self._step(place, edge, after)
                row.append(known[key])
        self.rows[number] = row
        return row

    def _step(self, place: Place, edge: Edge | None, after: tuple[Step | None, ...]) -> Step | None:
        """One character: an edge of the unfinished lexeme, and its effect on each tail."""
        moved = [
            self._join(fallback, step) if fallback is not None and step is not None else None
            for fallback, step in zip((*place.conditional, place.fallback), after, strict=True)
        ]
        if edge is None:
            return Step(*moved[-1]) if moved[-1] is not None else None
        best = moved[-1] if edge.best is None else self._origin(edge.best, moved)
        if edge.target < 0:
            return Step(*best) if best is not None else None
        if self.lexemes.safe[edge.target] and edge.best is None and not self._keep_unclosed:
            best = None
        conditional = tuple(self._origin(origin, moved) for origin in edge.conditional)
        return Step((), self._number(Place(edge.target, conditional, best)))

    def _origin(self, origin: int, moved: list[Fallback | None]) -> Fallback | None:
        return self._new[~origin] if origin < 0 else moved[origin]

    def _join(self, fallback: Fallback, step: Step) -> Fallback | None:
        """A fallback after one more character of its tail; None if it is dropped."""
        key = (fallback.terminals, step.terminals)
        if key not in self._joined:
            whole = fallback.terminals + step.terminals
            self._joined[key] = whole if self._may_follow(whole) else None
        terminals = self._joined[key]
        if terminals is None:
            return None
        joined = Fallback(terminals, step.state)
        if joined not in self._follows:
            allowed = True
            if self._follow is not None and terminals:
                first = self.firsts(step.state)
                allowed = first < 0 or self._follow[terminals[-1]] & first > 0
            self._follows[joined] = joined if allowed and self._weight(joined) <= self._limit else None
        return self._follows[joined]

    def _may_follow(self, terminals: Terminals) -> bool:
        if self._follow is None:
            return True
        return all(self._follow[a] >> b & 1 for a, b in pairwise(terminals))

    def firsts(self, number: int) -> int:
        """Terminals that may come first after a state, as bits; -1 if possibly none comes."""
        if number == 0:
            return -1
        if number not in self._firsts:
            place = self.places[number]
            found = 0
            for end in self.lexemes.reachable[place.lexeme]:
                found |= -1 if end == self.lexemes.silent else 1 << end
            for fallback in _fallbacks(place):
                found |= 1 << fallback.terminals[0] if fallback.terminals else self.firsts(fallback.state)
            self._firsts[number] = found
        return self._firsts[number]


def _fallbacks(place: Place) -> list[Fallback]:
    return [fallback for fallback in (*place.conditional, place.fallback) if fallback is not None]
