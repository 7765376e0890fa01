"""One lexeme: an automaton whose states are ordered lists of threads, in the order in which Lark's scanner
prefers them.

What: `re` takes the first alternative that matches, however short, and backtracks in a fixed order. Here
all its attempts run side by side, in that order. When one reaches the end of its pattern, all attempts
after it are dropped; those before it continue, and may still win. Keywords run in parallel, so that the end
of a terminal is the end of a keyword if the whole lexeme spells one.
When: once for each grammar, before `equivalence.lark.lexer.lexeme_transducer` puts lexemes one after another.
Limits: `max_states`. An end whose look-ahead is undecided is *conditional*: it stays in the list until the
text decides it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from equivalence.arrays.closure import close_backwards
from equivalence.deadline import Deadline
from equivalence.errors import BudgetExceeded, UnsupportedGrammar
from equivalence.lark.lexer.patterns import (
    END,
    NONE,
    READ,
    LooksBeforeLexeme,
    Obligation,
    Positions,
    Thread,
    advance,
    met_at_end,
)
from equivalence.lark.lexer.scanner import Scanner

MAX_OBLIGED = 256
"""Most threads and ends of one state with undecided look-ahead: they multiply if look-ahead is repeated."""

MOST_STATES = 50_000
"""The highest bound on the states of a lexer."""

THREADS_PER_STATE = 20
"""Most threads of all states together, as a multiple of the bound on states."""

State = tuple[tuple[Thread, ...], int, bool]
"""Threads in order, the state of the keywords, and whether nothing has been read."""


class Edge(NamedTuple):
    """What reading a character does in a state.

    Attributes:
        target: the state after it; -1 if no thread and no conditional end is left.
        conditional: the sources of the target's conditional ends: one of this state's (its index), or a new
            one (``~terminal``).
        best: the best end that is certain now, in the same form; None if it has not changed.
    """

    target: int
    conditional: tuple[int, ...]
    best: int | None


def or_more_states(max_states: int) -> str:
    """The end of an error's advice: raise the limit, if it can be raised."""
    return f", or raise Budget.states (up to {MOST_STATES:,})" if max_states < MOST_STATES else ""


class LexemeAutomaton:
    """States and edges; state 0 is the start.

    Terminals are numbered as in `Scanner`; all ignored terminals are one, `silent`, after the last. (A
    terminal that is not ignored may become a keyword that is ignored: Lark yields that keyword.)

    Attributes:
        kinds: the kinds of characters.
        edges: for each state, its edges, and the kinds that each reads; on other kinds, all threads die.
        conditional: for each state, the index of the conditional end that holds at the end of the text; -1:
            none.
        safe: states that certainly end a terminal, whatever valid text follows, if it is long enough.
        reachable: for each state, the terminals that can still end.
        plain: states after which no end is conditional.
    """

    def __init__(self, scanner: Scanner, max_states: int, deadline: Deadline | None = None) -> None:
        deadline = deadline or Deadline()
        deadline.check("the lexer's patterns")
        self.scanner = scanner
        self.positions = _positions(scanner)
        self.kinds = self.positions.partition()
        self._all = (1 << self.kinds.number) - 1
        self._numbers: dict[State, int] = {}
        self.states: list[State] = []
        self._keywords = _Keywords(scanner, self.positions)
        self.silent = self._keywords.silent
        self._max_states = max_states
        self._threads = 0
        self.edges: list[dict[Edge, list[int]]] = []
        self._number(self._start())
        while len(self.edges) < len(self.states):
            deadline.check("the lexer's automaton")
            self._expand(len(self.edges))
        self.conditional = [self._at_end(state) for state in self.states]
        self._analyse()

    def _start(self) -> State:
        threads: list[Thread] = []
        for pattern in range(len(self.scanner.order)):
            try:
                threads.extend(self.positions.start(pattern))
            except LooksBeforeLexeme as error:
                name = self.scanner.names[error.args[0]]
                raise UnsupportedGrammar(
                    f"the terminal {name}: a look-behind or a word boundary at its start depends on "
                    "the text before the lexeme; begin the terminal with what it has to match"
                ) from None
        # no thread is at its end: Lark refuses terminals that may be empty
        return tuple(threads), self._keywords.start, True

    def _number(self, state: State) -> int:
        number = self._numbers.setdefault(state, len(self.states))
        if number == len(self.states):
            self._threads += len(state[0])
            if number >= self._max_states or self._threads > THREADS_PER_STATE * self._max_states:
                raise BudgetExceeded(
                    f"the patterns need more than {self._max_states} states for one lexeme, or "
                    f"{THREADS_PER_STATE} times as many ways to be in them; large bounded repeats need many: "
                    f"lower their bounds{or_more_states(self._max_states)}"
                )
            self.states.append(state)
        return number

    def _expand(self, number: int) -> None:
        threads, keywords, _ = self.states[number]
        row: dict[Edge, list[int]] = {}
        for part in self._parts(threads, keywords):
            kind = (part & -part).bit_length() - 1
            edge = self._edge(threads, keywords, kind)
            if edge is None:
                continue
            kinds = row.setdefault(edge, [])
            while part:
                kinds.append((part & -part).bit_length() - 1)
                part &= part - 1
        self.edges.append(row)

    def _parts(self, threads: tuple[Thread, ...], keywords: int) -> Iterable[int]:
        """Sets of kinds that the threads of this state treat the same."""
        masks = {self.positions.masks[number] for number in self._keywords.sets(keywords)}
        pending = list(threads)
        while pending:
            position, obligations = pending.pop()
            what, *arguments = self.positions.nodes[position]
            if what == READ:
                masks.add(self.positions.masks[arguments[0]])
                masks.update(self.positions.masks[number] for number in self.positions.behind(arguments[1]))
            for obligation in obligations:
                pending.extend(obligation.threads)
        parts = [self._all]
        for mask in masks:
            parts = [part for whole in parts for part in (whole & mask, whole & ~mask) if part]
        return parts

    def _edge(self, threads: tuple[Thread, ...], keywords: int, kind: int) -> Edge | None:
        """The edge of one kind, without threads that can only repeat the outcome of an earlier one."""
        nodes, masks = self.positions.nodes, self.positions.masks
        spelt = self._keywords.step(keywords, kind)
        found: dict[Thread, int] = {}  # with the sources of ends
        free: set[int] = set()  # positions without obligations
        best: int | None = None
        slot = -1
        for position, obligations in threads:
            ended = nodes[position][0] == END
            slot += ended
            if not ended and not masks[nodes[position][1]] >> kind & 1:
                continue
            left: frozenset[Obligation] | None = (
                advance(self.positions, obligations, kind) if obligations else NONE
            )
            if left is None:
                continue
            if ended:
                following: tuple[Thread, ...] = (Thread(position, NONE),)
            else:
                following = self.positions.after(position, kind)
            for reached, more in following:
                if reached in free:
                    continue
                ends = nodes[reached][0] == END
                thread = Thread(reached, left | more if more else left)
                origin = (
                    (slot if ended else ~self._keywords.terminal(nodes[reached][1], spelt)) if ends else 0
                )
                if not thread.obligations:
                    if ends:
                        best = origin
                        break
                    free.add(reached)
                    found[thread] = 0
                elif not self._covered(found, thread):
                    found[thread] = origin
            if best is not None:
                break
        if not found and best is None:
            return None
        conditional = tuple(origin for (position, _), origin in found.items() if nodes[position][0] == END)
        if len(found) - len(free) > MAX_OBLIGED:
            raise UnsupportedGrammar(
                f"a look-ahead may still succeed in more than {MAX_OBLIGED} ways at once; shorten the texts "
                "that it looks for"
            )
        if not found:
            return Edge(-1, (), best)
        spelt = self._keywords.restrict(spelt, {self.positions.label[thread.position] for thread in found})
        return Edge(self._number((tuple(found), spelt, False)), conditional, best)

    def _covered(self, found: dict[Thread, int], thread: Thread) -> bool:
        """Whether an earlier thread with no other obligations is in the same position, or at an end."""
        nodes = self.positions.nodes
        return any(
            other.obligations <= thread.obligations
            and (other.position == thread.position or nodes[other.position][0] == END)
            for other in found
        )

    def _at_end(self, state: State) -> int:
        slot = 0
        for position, obligations in state[0]:
            if self.positions.nodes[position][0] == END:
                if met_at_end(self.positions, obligations):
                    return slot
                slot += 1
        return -1

    def _analyse(self) -> None:
        """Compute `safe`, `reachable` and `plain`, going backwards until nothing changes."""
        rows = self.edges
        before: list[set[int]] = [set() for _ in rows]
        self.reachable: list[set[int]] = []
        conditional = []
        unsafe = []
        for number, row in enumerate(rows):
            ends = {
                ~end for edge in row for end in (edge.best, *edge.conditional) if end is not None and end < 0
            }
            self.reachable.append(ends)
            conditional.append(any(edge.conditional for edge in row))
            dies = sum(map(len, row.values())) < self.kinds.number
            unsafe.append(dies or any(edge.target < 0 and edge.best is None for edge in row))
            for edge in row:
                if edge.target >= 0:
                    before[edge.target].add(number)
        # an edge into an unsafe state is safe if an end comes with it; these are the other edges:
        uncertain: list[set[int]] = [set() for _ in rows]
        for number, row in enumerate(rows):
            for edge in row:
                if edge.target >= 0 and edge.best is None:
                    uncertain[edge.target].add(number)
        pending = list(range(len(rows)))
        while pending:
            number = pending.pop()
            for source in before[number]:
                if not self.reachable[number] <= self.reachable[source]:
                    self.reachable[source] |= self.reachable[number]
                    pending.append(source)
        close_backwards(conditional, before)
        close_backwards(unsafe, uncertain)
        self.plain = [not value for value in conditional]
        self.safe = [not value for value in unsafe]


class _Keywords:
    """The keywords that a lexeme may spell from its start, as sets of threads."""

    def __init__(self, scanner: Scanner, table: Positions) -> None:
        self._table = table
        self._of = {key: words for key, words in scanner.keywords.items() if key not in scanner.ignored}
        self._ignored = scanner.ignored
        self.silent = len(scanner.names)
        self._numbers: dict[frozenset[int], int] = {}
        self._sets: list[frozenset[int]] = []
        self._steps: dict[tuple[int, int], int] = {}
        self._number(frozenset())  # 0: none is spelt
        patterns = range(len(scanner.order), len(table.starts))
        start = [thread.position for pattern in patterns for thread in table.start(pattern)]
        self.start = self._number(frozenset(start))

    def _number(self, positions: frozenset[int]) -> int:
        number = self._numbers.setdefault(positions, len(self._sets))
        if number == len(self._sets):
            self._sets.append(positions)
        return number

    def sets(self, state: int) -> Iterable[int]:
        """Sets of characters that some keyword can read next."""
        nodes = self._table.nodes
        return [nodes[position][1] for position in self._sets[state] if nodes[position][0] == READ]

    def step(self, state: int, kind: int) -> int:
        key = (state, kind)
        if key not in self._steps:
            nodes, masks = self._table.nodes, self._table.masks
            self._steps[key] = self._number(
                frozenset(
                    thread.position
                    for position in self._sets[state]
                    if nodes[position][0] == READ and masks[nodes[position][1]] >> kind & 1
                    for thread in self._table.after(position, kind)
                )
            )
        return self._steps[key]

    def terminal(self, terminal: int, state: int) -> int:
        """The terminal of a lexeme that ends a terminal here. Ignored lexemes always stay ignored."""
        if terminal in self._ignored:
            return self.silent
        ended = {self._table.label[p] for p in self._sets[state] if self._table.nodes[p][0] == END}
        return next((word for word in self._of.get(terminal, ()) if word in ended), terminal)

    def restrict(self, state: int, terminals: set[int]) -> int:
        """Remove keywords that none of the terminals can become."""
        wanted = {word for terminal in terminals for word in self._of.get(terminal, ())}
        return self._number(frozenset(p for p in self._sets[state] if self._table.label[p] in wanted))


def _positions(scanner: Scanner) -> Positions:
    """The positions of all terminals that are tried, in order, and then of all keywords."""
    positions = Positions()
    words = sorted({word for keywords in scanner.keywords.values() for word in keywords})
    for terminal in (*scanner.order, *words):
        positions.add(scanner.names[terminal], scanner.patterns[terminal], scanner.flags, terminal)
    return positions
