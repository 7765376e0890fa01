"""What a state may turn out to have read: the terminals up to the lexeme that contains the last character.

What: for every state, the set of sequences that the machine may emit from there on, depending on the text
after it or its end, up to and including the lexeme that contains the last character.
When: on the explored states, while unfinished lexemes and tails are still separate; before states are merged.
Limits: exact for the machine, including what it drops. If terminals are emitted before their lexeme ends, a
set contains what is left of them.

The last character is marked, and the search follows the mark: into the unfinished lexeme, or into a lexeme
of a tail, which is the unfinished lexeme of the tail's own state. The lexeme that ends after the mark ends
the search.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from equivalence.deadline import Deadline
from equivalence.errors import BudgetExceeded
from equivalence.lark.lexer.lexeme_automaton import Edge
from equivalence.lark.lexer.lexeme_transducer import Fallback, LexemeTransducer, Terminals
from equivalence.lark.lexer.minimisation import Continuations, Transducer

# Where the mark is in a state. For each conditional end and for the certain one: an integer if a lexeme
# that the tail has emitted contains the mark (then this many terminals of the fallback come up to it),
# None if there is no fallback, and otherwise the marks in the tail's state. The mark is always in the
# unfinished lexeme, too.
Marks = tuple["int | Marks | None", ...]
Marked = tuple[int, Marks]


class _Search:
    """Outcomes of marked states: a fixed point over the states that can be reached."""

    def __init__(
        self, transducer: LexemeTransducer, live: list[bool], max_states: int, deadline: Deadline
    ) -> None:
        self._machine = transducer
        self._deadline = deadline
        self._live = live
        self._max_states = max_states
        self._numbers: dict[Marked, int] = {}
        self._states: list[Marked] = []
        self._rows: dict[tuple[Marked, int], tuple[Terminals, Marked | int] | None] = {}
        self._marks: dict[int, Marks] = {}
        self._simple: dict[int, frozenset[Terminals] | None] = {}

    def fresh(self, state: int) -> Marks:
        """The marks of a state whose last character was read just now."""
        if state not in self._marks:
            place = self._machine.places[state]
            self._marks[state] = tuple(map(self._fresh_fallback, (*place.conditional, place.fallback)))
        return self._marks[state]

    def _fresh_fallback(self, fallback: Fallback | None) -> int | Marks | None:
        if fallback is None:
            return None
        return self.fresh(fallback.state) if fallback.state else len(fallback.terminals)

    def simple(self, state: int) -> frozenset[Terminals] | None:
        """The set of a state without tails and conditions, which needs no search; None for other states."""
        if state not in self._simple:
            machine = self._machine
            place = machine.places[state]
            found = None
            if machine.lexemes.plain[place.lexeme] and not place.conditional:
                ends = machine.lexemes.reachable[place.lexeme]
                certain = place.fallback
                if certain is None or (certain.state == 0 and len(certain.terminals) <= 1):
                    found = frozenset(
                        [() if end == machine.lexemes.silent else (end,) for end in ends]
                        + ([certain.terminals] if certain else [])
                    )
            self._simple[state] = found
        return self._simple[state]

    def outcomes(self, states: list[int]) -> dict[int, frozenset[Terminals]]:
        """Compute the sets of states."""
        wanted = {state: self._number((state, self.fresh(state))) for state in states}
        found: list[set[Terminals]] = []
        before: defaultdict[int, list[tuple[Terminals, int]]] = defaultdict(list)
        for source, marked in enumerate(self._states):  # which grow on the way
            self._deadline.check("the lexer's continuations")
            found.append(set())
            for terminals, target in self._successors(marked, found[source]):
                before[self._number(target)].append((terminals, source))
        pending = list(range(len(found)))
        while pending:
            number = pending.pop()
            self._deadline.check("the lexer's continuations")
            for terminals, source in before[number]:
                more = {terminals + one for one in found[number]} if terminals else found[number]
                if not more <= found[source]:
                    found[source] |= more
                    pending.append(source)
        return {state: frozenset(found[number]) for state, number in wanted.items()}

    def _number(self, marked: Marked) -> int:
        number = self._numbers.setdefault(marked, len(self._states))
        if number == len(self._states):
            if number >= self._max_states:
                raise BudgetExceeded(
                    f"the lexer's continuations need more than {self._max_states} marked states; raise "
                    "Budget.states (max_states), or lower unread_limit, so that fewer lexemes are "
                    "given back"
                )
            self._states.append(marked)
        return number

    def _successors(self, marked: Marked, found: set[Terminals]) -> Iterator[tuple[Terminals, Marked]]:
        """Steps after which the mark is still open; if a step decides it, the result is added to `found`."""
        state, marks = marked
        simple = self.simple(state) if marks == self.fresh(state) else None
        if simple is not None:
            found |= simple
            return
        end = self._at_end(marked)
        if end is not None:
            found.add(end)
        seen = set()
        for kind, step in enumerate(self._machine.row(state)):
            if step is None or not self._live[step.state]:
                continue
            outcome = self._step(marked, kind)
            assert outcome is not None
            if outcome in seen:
                continue
            seen.add(outcome)
            terminals, target = outcome
            if isinstance(target, int):
                found.add(terminals[:target])
            else:
                yield terminals, target

    def _at_end(self, marked: Marked) -> Terminals | None:
        state, marks = marked
        place = self._machine.places[state]
        slot = self._machine.lexemes.conditional[place.lexeme]
        fallback, mark = (place.conditional[slot], marks[slot]) if slot >= 0 else (place.fallback, marks[-1])
        if fallback is None or self._machine.at_end[fallback.state] is None:
            return None
        if isinstance(mark, int):
            return fallback.terminals[:mark]
        assert mark is not None
        rest = self._at_end((fallback.state, mark))
        return None if rest is None else fallback.terminals + rest

    def _step(self, marked: Marked, kind: int) -> tuple[Terminals, Marked | int] | None:
        """A step with its marks. An integer means that the mark is decided: it is within this many
        terminals."""
        key = (marked, kind)
        if key not in self._rows:
            self._rows[key] = self._mark_step(marked, kind)
        return self._rows[key]

    def _mark_step(self, marked: Marked, kind: int) -> tuple[Terminals, Marked | int] | None:
        state, marks = marked
        step = self._machine.row(state)[kind]
        if step is None:
            return None
        place = self._machine.places[state]
        edge = self._machine.lexemes.edges[place.lexeme][kind]
        moved = [
            self._move(fallback, mark, kind)
            for fallback, mark in zip((*place.conditional, place.fallback), marks, strict=True)
        ]
        if edge is None or edge.target < 0:
            taken = moved[-1] if edge is None or edge.best is None else self._origin(edge.best, moved)
            assert taken is not None
            return step.terminals, taken if isinstance(taken, int) else (step.state, taken)
        after = self._machine.places[step.state]
        return (), (step.state, self._target_marks(edge, moved, after.fallback is not None))

    def _target_marks(self, edge: Edge, moved: list[int | Marks | None], kept: bool) -> Marks:
        conditional = tuple(self._origin(origin, moved) for origin in edge.conditional)
        best = moved[-1] if edge.best is None else self._origin(edge.best, moved)
        return (*conditional, best if kept else None)

    def _origin(self, origin: int, moved: list[int | Marks | None]) -> int | Marks | None:
        """The mark after a new end, which contains it, because it is in the unfinished lexeme."""
        if origin >= 0:
            return moved[origin]
        return 0 if ~origin == self._machine.lexemes.silent else 1

    def _move(self, fallback: Fallback | None, mark: int | Marks | None, kind: int) -> int | Marks | None:
        if fallback is None or mark is None or isinstance(mark, int):
            return mark
        step = self._step((fallback.state, mark), kind)
        if step is None:
            return None
        _, target = step
        return len(fallback.terminals) + target if isinstance(target, int) else target[1]


def find_continuations(
    transducer: LexemeTransducer, machine: Transducer, states: list[int], max_states: int, deadline: Deadline
) -> dict[int, Continuations]:
    """The sets of states, sorted. Only the states that are reached are needed."""
    live: list[bool] = ((machine.at_end >= 0) | (machine.step >= 0).any(axis=1)).tolist()
    search = _Search(transducer, live, max_states, deadline)
    found: dict[int, frozenset[Terminals]] = {0: frozenset([()])}
    rest = []
    for state in states:
        simple = search.simple(state) if state else None
        if simple is not None:
            found[state] = simple
        elif state:
            rest.append(state)
    found.update(search.outcomes(rest))
    return {state: tuple(sorted(some)) for state, some in found.items()}
