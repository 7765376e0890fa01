"""Texts that lead to chosen stacks: what random walks through a grammar hardly ever reach.

What: `Automata` holds a grammar network in lists; `Prefixes` finds short texts after which some stack has a
given state on top and given states to return to below it, for all such stacks up to a depth, or for one.
When: in `bench.classes`, for a lower bound of the number of classes, and in `bench.separation`.
Limits: texts lead to configurations, of which the chosen stack is a part. Counters are tried at their
ends and around their lower bounds only. Pure Python, thousands of stacks a second.
"""

from __future__ import annotations

import heapq
import random
import string
from collections.abc import Iterator
from itertools import count

from equivalence.network import Network

Symbol = tuple[int, int]
"""What lies below a top: (return state, 0), or (-2 - k, units read) for the frame of counted class k."""

BOTTOM: Symbol = (-1, 0)

LONGEST_TEXT = 3000
"""Bytes beyond which a text is not written: repeats with large bounds."""

NOT_THERE = 1 << 40

_FAVOURED = (string.ascii_letters + string.digits + " \n").encode()
_PRINTABLE = string.printable.encode()


class Automata:
    """The automaton of a network, in lists.

    Attributes:
        final: whether a state may end its rule.
        edges: rows (first byte, last byte, target) of each state.
        calls: rows (callee, return) of each state; callee -1 - k is counted class k, return -1 a tail call.
        counted: rows (first state of the unit, least, most or -1) of the counted classes.
        start: the first state.
    """

    def __init__(self, network: Network) -> None:
        final, edge_starts, edges, call_starts, calls, counted = network.automaton[:6]
        states = range(len(final))
        self.final: list[bool] = [bool(value) for value in final]
        self.edges = [list(map(tuple, edges[edge_starts[s] : edge_starts[s + 1]].tolist())) for s in states]
        self.calls = [list(map(tuple, calls[call_starts[s] : call_starts[s + 1]].tolist())) for s in states]
        self.counted = [(int(row[0]), int(row[1]), int(row[2])) for row in counted]
        self.start = network.start

    def unit(self, callee: int) -> int:
        """The state that a call begins with."""
        return callee if callee >= 0 else self.counted[-1 - callee][0]


class Prefixes:
    """Short texts to stacks; equal seeds give equal texts."""

    def __init__(self, automata: Automata, seed: int = 0) -> None:
        self.automata = automata
        self.rng = random.Random(seed)
        self._lengths, self._ways = self._shortest_ends()

    def _shortest_ends(self) -> tuple[list[int], list[tuple[int, ...] | None]]:
        """For each state the length of the shortest text to the end of its rule, and its first part."""
        automata = self.automata
        lengths = [0 if final else NOT_THERE for final in automata.final]
        ways: list[tuple[int, ...] | None] = [None] * len(lengths)
        changed = True
        while changed:
            changed = False
            for state, length in enumerate(lengths):
                best = length
                for low, high, target in automata.edges[state]:
                    if lengths[target] + 1 < best:
                        best, ways[state] = lengths[target] + 1, (low, high, target)
                for callee, back in automata.calls[state]:
                    found = self._call_length(callee, lengths) + (lengths[back] if back >= 0 else 0)
                    if found < best:
                        best, ways[state] = found, (callee, back)
                if best < length:
                    lengths[state], changed = best, True
        return lengths, ways

    def _call_length(self, callee: int, lengths: list[int]) -> int:
        if callee >= 0:
            return lengths[callee]
        first, least, _ = self.automata.counted[-1 - callee]
        return min(NOT_THERE, lengths[first] * max(least, 1))

    def byte(self, low: int, high: int) -> bytes:
        """One byte of an edge; letters, digits, blanks and printable ones are preferred."""
        for kind in (_FAVOURED, _PRINTABLE):
            fitting = [value for value in kind if low <= value <= high]
            if fitting:
                return bytes([self.rng.choice(fitting)])
        return bytes([self.rng.randint(low, high)])

    def end(self, state: int) -> bytes:
        """A shortest text from a state to the end of its rule."""
        parts = []
        while state >= 0 and (way := self._ways[state]) is not None:
            if len(way) == 3:
                parts.append(self.byte(way[0], way[1]))
            else:
                parts.append(self.whole(way[0]))
            state = way[-1]
        return b"".join(parts)

    def whole(self, callee: int) -> bytes:
        """A shortest text of what a call reads."""
        if callee >= 0:
            return self.end(callee)
        first, least, _ = self.automata.counted[-1 - callee]
        return b"".join(self.end(first) for _ in range(max(least, 1)))

    def _moves(self, state: int) -> Iterator[tuple[int, bytes, tuple[Symbol, ...]]]:
        """Moves of a top: (new top, text, symbols pushed, topmost first)."""
        automata = self.automata
        for low, high, target in automata.edges[state]:
            yield target, self.byte(low, high), ()
        for callee, back in automata.calls[state]:
            pushed: tuple[Symbol, ...] = () if back < 0 else ((back, 0),)
            if callee >= 0:
                yield callee, b"", pushed
            else:
                first, least, most = automata.counted[-1 - callee]
                counts = {0, max(least - 1, 0), least, most - 1 if most > 0 else least + 1}
                for units in sorted(counts):
                    fits = (most < 0 or units < most) and self._lengths[first] * units <= LONGEST_TEXT
                    if fits:
                        text = b"".join(self.end(first) for _ in range(units))
                        yield first, text, ((callee - 1, units), *pushed)
            if back >= 0 and self._call_length(callee, self._lengths) <= LONGEST_TEXT:
                yield back, self.whole(callee), ()

    def all(self, depth: int, most: int = 1 << 30) -> dict[tuple[int, tuple[Symbol, ...]], bytes]:
        """A short text to each (top, symbols below it up to a depth) that can be reached, shortest first.

        Args:
            depth: how many symbols below the top are told apart.
            most: stop after so many stacks.
        """
        found: dict[tuple[int, tuple[Symbol, ...]], bytes] = {}
        order = count()
        root: tuple[int, tuple[Symbol, ...]] = (self.automata.start, (BOTTOM,))
        heap = [(0, next(order), root, b"")]
        while heap and len(found) < most:
            _, _, key, text = heapq.heappop(heap)
            if key in found:
                continue
            found[key] = text
            top, below = key
            for target, more, pushed in self._moves(top):
                new = (target, (*pushed, *below)[:depth])
                if new not in found:
                    heapq.heappush(heap, (len(text) + len(more), next(order), new, text + more))
        return found

    def one(self, top: int, below: tuple[Symbol, ...]) -> bytes | None:
        """A short text to a stack that begins so; None if there is none.

        `BOTTOM` as the last symbol asks for the end of the stack.
        """
        wanted = below[::-1]
        order = count()
        begin = int(wanted[:1] == (BOTTOM,))
        heap: list[tuple[int, int, int, int, bytes]] = [(0, 0, self.automata.start, begin, b"")]
        seen: set[tuple[int, int]] = set()
        while heap:
            _, _, state, stage, text = heapq.heappop(heap)
            if (state, stage) in seen:
                continue
            seen.add((state, stage))
            if state == top and stage == len(wanted):
                return text
            for target, more, pushed in self._moves(state):
                for place in _stages(stage, wanted, pushed):
                    longer = text + more
                    heapq.heappush(heap, (len(longer), next(order), target, place, longer))
        return None


def _stages(stage: int, wanted: tuple[Symbol, ...], pushed: tuple[Symbol, ...]) -> Iterator[int]:
    """How many of the wanted symbols, the lowest first, may be in place after a push."""
    if not pushed or stage == 0:
        yield stage  # below what is wanted anything may lie
    upwards = pushed[::-1]
    for skipped in range(len(upwards) if stage == 0 else min(1, len(upwards))):
        rest = upwards[skipped:]
        if rest == wanted[stage : stage + len(rest)]:
            yield stage + len(rest)
