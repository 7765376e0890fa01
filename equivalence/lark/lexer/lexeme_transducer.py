"""Lexeme after lexeme: a transducer over kinds of characters that gives back what a lexeme has read too far.

What: while threads live after an end, the text may still continue to a longer lexeme, or all threads may
die. Then the lexeme ends at the last end, and the rest, the *tail*, is lexed from the start. A state
contains the unfinished lexeme and, for its last end, the *fallback*: what the tail alone has emitted, and
the state that it is in. Texts whose tails behave alike share a state, however long they are.

`mark` gives a state a twin in which the last character is marked. This character lies in the unfinished
lexeme, and also in the tail of each fallback, or in a lexeme that the fallback has emitted. A twin takes the
same steps, and its outcomes say how many terminals come up to the lexeme with the marked character.

When: after `equivalence.lark.lexer.lexeme_automaton`, before minimising.
Limits: fallbacks are dropped, and the text is dead if one of them would be needed,

- beyond `unread_limit` lexemes in tails (the innermost first end is lost);
- if the unfinished lexeme cannot die before its next end (inside of a comment that must be closed), unless
  `keep_unclosed`. A text that stops there is dead, although Lark would lex the opening as other terminals;
- if the parser accepts no text with these terminals side by side (`may_follow`); then nothing is lost.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.deadline import Deadline
from equivalence.errors import BudgetExceeded
from equivalence.lark.lexer.lexeme_automaton import Edge, LexemeAutomaton, or_more_states

Terminals = tuple[int, ...]
"""Terminals in the order of the text, without ignored ones."""


class Outcome(NamedTuple):
    """The effect of a character, or of an end that is used (a fallback): terminals, and the next state.

    `mark`: the number of terminals up to the lexeme with the marked character; -1 if they do not contain it.
    """

    terminals: Terminals
    state: int
    mark: int = -1


class Place(NamedTuple):
    """A state: a state of `LexemeAutomaton`, the fallbacks of its conditional ends and of its certain one,
    and whether the unfinished lexeme contains the marked character."""

    lexeme: int
    conditional: tuple[Outcome | None, ...]
    fallback: Outcome | None
    is_marked: bool


class LexemeTransducer:
    """The states that can be reached from the start, state 0 (`explore`), and the twins that `mark` adds.

    Attributes:
        lexemes: the automaton of one lexeme.
        places: the states.
        rows: for each state and each kind of characters its effect; None if the text is dead.
        at_end: for each state, the effect of the end of the text; None if the text is dead.
        max_states: bound on the states.
    """

    def __init__(
        self,
        lexemes: LexemeAutomaton,
        may_follow: NDArray[np.bool_] | None,
        unread_limit: int,
        deadline: Deadline,
        keep_unclosed: bool,
    ) -> None:
        self.lexemes = lexemes
        self._limit = unread_limit
        self.max_states = 1
        self._keep_unclosed = keep_unclosed
        self._follow: list[int] | None = None
        if may_follow is not None:
            rows = np.packbits(may_follow, axis=1, bitorder="little")
            self._follow = [int.from_bytes(row.tobytes(), "little") for row in rows]
        self._numbers: dict[Place, int] = {}
        self._firsts: dict[int, int] = {}
        self._after: dict[Outcome | None, list[Outcome | None]] = {}
        self.places: list[Place] = []
        self.rows: list[list[Outcome | None] | None] = []
        self.weights: list[int] = []
        self.at_end: list[Outcome | None] = []
        self._new = [Outcome((end,), 0) for end in range(lexemes.silent)] + [Outcome((), 0)]
        self._deadline = deadline
        self._number(Place(0, (), None, False))

    def explore(self, max_states: int) -> LexemeTransducer:
        """Find all states. Return itself. After an error, this can be called again with a larger bound.

        Raises:
            BudgetExceeded: more states than allowed, or the time ran out.
        """
        self.max_states = max_states
        for number, _ in enumerate(self.places):  # which grow on the way
            self._deadline.check("the lexer's states")
            self.row(number)
        return self

    def _number(self, place: Place) -> int:
        number = self._numbers.get(place)
        if number is None:
            number = len(self.places)
            if number >= self.max_states:
                raise BudgetExceeded(
                    f"the lexer has more than {self.max_states} states, most of them within "
                    f"{self._heaviest()}: where its end may not follow, or another end may, its text is also "
                    "divided into other terminals; use a pattern that ends only once "
                    '("[^"]*" for strings) and begins like no other terminal'
                    f"{or_more_states(self.max_states)}"
                )
            self._numbers[place] = number
            self.places.append(place)
            self.rows.append(None)
            self.weights.append(max((self._weight(f) for f in _fallbacks(place)), default=0))
            self.at_end.append(self._end(place) if number else Outcome((), 0))
        return number

    def _heaviest(self) -> str:
        """What may end in most of the last states that give back text, for the error."""
        last = [place.lexeme for place in self.places[-2000:] if _fallbacks(place)]
        counts = Counter(end for lexeme in last for end in self.lexemes.reachable[lexeme])
        end = max(counts, key=lambda one: counts[one], default=self.lexemes.silent)
        return "ignored text" if end == self.lexemes.silent else f"terminal {self.lexemes.scanner.names[end]}"

    def _weight(self, fallback: Outcome) -> int:
        """A lower bound of the lexemes given back: each fallback counts as one, whatever it emits."""
        return max(len(fallback.terminals), 1) + self.weights[fallback.state]

    def _end(self, place: Place) -> Outcome | None:
        slot = self.lexemes.conditional[place.lexeme]
        taken = place.conditional[slot] if slot >= 0 else place.fallback
        rest = self.at_end[taken.state] if taken is not None else None
        return None if taken is None or rest is None else _then(taken, rest)

    def mark(self, number: int) -> int:
        """The twin of a state other than the start, in which the last character that was read is marked."""
        lexeme, conditional, fallback, _ = self.places[number]
        twins = tuple(map(self._mark_fallback, conditional))
        return self._number(Place(lexeme, twins, self._mark_fallback(fallback), True))

    def _mark_fallback(self, fallback: Outcome | None) -> Outcome | None:
        if fallback is None:
            return None
        if fallback.state:
            return Outcome(fallback.terminals, self.mark(fallback.state))
        return Outcome(fallback.terminals, 0, len(fallback.terminals))  # nothing follows its last lexeme

    def row(self, number: int) -> list[Outcome | None]:
        """The steps of a state, by kind of characters."""
        row = self.rows[number]
        if row is None:
            place = self.places[number]
            tails = [self._moved(fallback) for fallback in (*place.conditional, place.fallback)]
            row = tails[-1].copy()  # where all threads die
            for edge, kinds in self.lexemes.edges[place.lexeme].items():
                # after a new end that is certain, the fallbacks so far do not matter
                matter = [] if edge.best is not None and edge.best < 0 and not edge.conditional else tails
                known: dict[tuple[int, ...], Outcome | None] = {}
                for kind in kinds:
                    moved = [tail[kind] for tail in matter]
                    key = tuple(map(id, moved))
                    if key not in known:
                        known[key] = self._step(place, edge, moved)
                    row[kind] = known[key]
            self.rows[number] = row
        return row

    def _moved(self, fallback: Outcome | None) -> list[Outcome | None]:
        """A fallback after one more character of its tail, by kind; None where it is dropped."""
        found = self._after.get(fallback)
        if found is None:
            if fallback is None:
                found = [None] * self.lexemes.kinds.number
            else:
                row = self.row(fallback.state)
                joined = {
                    id(step): self._join(fallback, step) for step in {id(step): step for step in row}.values()
                }
                found = [joined[id(step)] for step in row]
            self._after[fallback] = found
        return found

    def _step(self, place: Place, edge: Edge, moved: list[Outcome | None]) -> Outcome | None:
        """One character: an edge of the unfinished lexeme, given the effect on each tail."""
        best = moved[-1] if edge.best is None else self._origin(edge.best, moved, place.is_marked)
        if edge.target < 0:
            return best
        if self.lexemes.safe[edge.target] and edge.best is None and not self._keep_unclosed:
            best = None
        conditional = tuple(self._origin(origin, moved, place.is_marked) for origin in edge.conditional)
        return Outcome((), self._number(Place(edge.target, conditional, best, place.is_marked)))

    def _origin(self, origin: int, moved: list[Outcome | None], is_marked: bool) -> Outcome | None:
        if origin >= 0:
            return moved[origin]
        new = self._new[~origin]
        return Outcome(new.terminals, 0, len(new.terminals)) if is_marked else new

    def _join(self, fallback: Outcome, step: Outcome | None) -> Outcome | None:
        """A fallback after a step of its tail; None if it is dropped."""
        if step is None:
            return None
        joined = _then(fallback, step)
        is_kept = self._may_follow(joined) and self._weight(joined) <= self._limit
        return joined if is_kept else None

    def _may_follow(self, fallback: Outcome) -> bool:
        terminals, state, _ = fallback
        if self._follow is None or not terminals:
            return True
        first = self.firsts(state)
        return (first < 0 or self._follow[terminals[-1]] & first > 0) and all(
            self._follow[a] >> b & 1 for a, b in pairwise(terminals)
        )

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


def _then(one: Outcome, other: Outcome) -> Outcome:
    """One outcome after another."""
    mark = one.mark if other.mark < 0 else len(one.terminals) + other.mark
    return Outcome(one.terminals + other.terminals, other.state, mark)


def _fallbacks(place: Place) -> list[Outcome]:
    return [fallback for fallback in (*place.conditional, place.fallback) if fallback is not None]
