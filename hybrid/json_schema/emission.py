# cython: language_level=3, wraparound=True
"""From nonterminals to the rules of a grammar of JSON texts.

What: `emit` writes the automata of all nonterminals that can be reached from the first: objects and arrays
here, scalars by an `Emitter` (`emitter.py`).
When: after all nonterminals are built and it is known which states are dead.
Limits: only live states are written, so that no text leads into a dead end.

Everything is deterministic except values whose nonterminals begin alike: these are separate calls, which
the parser follows in parallel.
"""

from __future__ import annotations

from cython.cimports.equivalence.built import EQUIMASK_SOURCE

from equivalence import built
from hybrid.json_schema import marks
from hybrid.json_schema.arrays import ArrayAutomaton, Counted, Edge
from hybrid.json_schema.emitter import Emitter
from hybrid.json_schema.keys import NO_KEYS, KeyTree
from hybrid.json_schema.layout import Layout
from hybrid.json_schema.nonterminals import Nonterminal, Nonterminals
from hybrid.json_schema.objects import ObjectAutomaton
from hybrid.json_schema.rows import Rows
from hybrid.json_schema.texts import TreeWriter

built.check(__name__, EQUIMASK_SOURCE)


def emit(nonterminals: Nonterminals, start: Nonterminal, layout: Layout) -> tuple[Rows, int]:
    """The rules for all values of a nonterminal, and the number of the start rule."""
    emitter = Emitter(nonterminals, layout)
    root = emitter.value(start, 0)
    for one, depth, rule in emitter.unwritten():
        begin, end = -1 - 2 * rule, -2 - 2 * rule
        emitter.scalars(one, begin, end)
        if one.object is not None and one.object.is_live[0]:
            ObjectWriter(emitter, one.object, depth).write(begin, end)
        if one.array is not None and one.array.is_live[0]:
            ArrayWriter(emitter, one.array, depth).write(begin, end)
    return emitter.rows, root


class ObjectWriter:
    """Writes the objects of one nonterminal, between two states."""

    def __init__(self, emitter: Emitter, automaton: ObjectAutomaton, depth: int) -> None:
        self._emitter, self._rows, self._depth = emitter, emitter.rows, depth
        self._automaton = automaton
        self._trees: dict[int, KeyTree] = {}
        self._keys_below = TreeWriter(self._rows, self._key_ends)
        self._opened: dict[int, int] = {}
        self._behind: dict[int, int] = {}
        self._ends: dict[int, bool] = {}
        self._end = 0

    def write(self, begin: int, end: int) -> None:
        """Write everything from the opening to the closing brace."""
        emitter, layout, rows = self._emitter, self._emitter.layout, self._rows
        self._end = end
        opened = emitter.literal(begin, "{")
        inside = emitter.blanks(opened)
        if self._may_end(0):
            rows.byte(inside, "}", end)
        if self._has_keys(0):
            first = emitter.literal(inside, layout.line(self._depth + 1))
            rows.byte(first, '"', self._keys(0))
        self._keys_below.finish()

    def _last(self, state: int) -> int:
        """The state after all remaining declared keys are passed over, or -1 if that is impossible."""
        automaton = self._automaton
        while state >= 0 and automaton.is_live[state] and automaton.position[state] < len(automaton.names):
            state = automaton.skipped[state]
        return state if state >= 0 and automaton.is_live[state] else -1

    def _may_end(self, state: int) -> bool:
        found = self._ends.get(state)
        if found is None:
            last = self._last(state)
            found = self._ends[state] = last >= 0 and self._automaton.accepting[last]
        return found

    def _live(self, edges: list[Edge]) -> list[Edge]:
        live = self._automaton.is_live
        return [(value, target) for value, target in edges if live[target] and value.is_productive]

    def _extras(self, state: int) -> list[tuple[int, list[Edge]]]:
        """Classes of undeclared keys that may come, each with its edges."""
        last = self._last(state)
        if last < 0:
            return []
        found = [(number, self._live(edges)) for number, edges in self._automaton.extra[last]]
        return [(number, edges) for number, edges in found if edges]

    def _tree(self, state: int) -> KeyTree:
        """The declared keys that may come next."""
        automaton = self._automaton
        chain = []
        while state >= 0 and state not in self._trees and automaton.is_live[state]:
            if automaton.position[state] == len(automaton.names):
                break
            chain.append(state)
            state = automaton.skipped[state]
        tree = self._trees.get(state, NO_KEYS)
        for one in reversed(chain):
            if self._live(automaton.edges[one]):
                tree = tree.with_key(automaton.names[automaton.position[one]], one)
            self._trees[one] = tree
        return tree

    def _has_keys(self, state: int) -> bool:
        return self._tree(state) is not NO_KEYS or bool(self._extras(state))

    def _keys(self, state: int) -> int:
        """The state of the grammar after the opening quote of a key."""
        found = self._opened.get(state)
        if found is not None:
            return found
        tree, extras = self._tree(state), self._extras(state)
        if not extras:
            found = self._opened[state] = self._keys_below.state_of(tree)
            return found
        found = self._opened[state] = self._rows.state()
        self._keys_below.write(tree, found)
        for number, edges in extras:
            key = self._automaton.classes[number].language
            if key.is_empty:
                continue
            behind = self._rows.state()
            self._rows.call(found, self._emitter.key(key), behind)
            self._value(behind, edges)
        return found

    def _key_ends(self, state: int, key: int) -> None:
        """Write what follows the last character of a declared key that is read in a state of the object."""
        behind = self._rows.state()
        self._rows.byte(state, '"', behind)
        self._value(behind, self._live(self._automaton.edges[key]))

    def _value(self, behind: int, edges: list[Edge]) -> None:
        """Write what follows a key: the colon, and each value with the state after it."""
        start = self._emitter.colon(behind)
        for value, target in edges:
            rule = self._emitter.value(value, self._depth + 1)
            self._rows.call(start, rule, self._after(target))

    def _after(self, state: int) -> int:
        """The state of the grammar after a value."""
        found = self._behind.get(state)
        if found is not None:
            return found
        emitter, layout, rows = self._emitter, self._emitter.layout, self._rows
        found = self._behind[state] = rows.state()
        if layout.is_free:
            at = emitter.blanks(found)
            if self._may_end(state):
                rows.byte(at, "}", self._end)
            if self._has_keys(state):
                comma = emitter.blanks(emitter.literal(at, ","))
                rows.byte(comma, '"', self._keys(state))
            return found
        if self._may_end(state):
            rows.byte(emitter.literal(found, layout.line(self._depth)), "}", self._end)
        if self._has_keys(state):
            rows.byte(emitter.comma(found, self._depth + 1), '"', self._keys(state))
        return found


class ArrayWriter:
    """Writes the arrays of one nonterminal, between two states."""

    def __init__(self, emitter: Emitter, automaton: ArrayAutomaton, depth: int) -> None:
        self._emitter, self._rows, self._depth = emitter, emitter.rows, depth
        self._automaton = automaton
        self._behind: dict[int, int] = {}
        self._end = 0

    def write(self, begin: int, end: int) -> None:
        """Write everything from the opening to the closing bracket."""
        emitter, rows, automaton = self._emitter, self._rows, self._automaton
        self._end = end
        inside = emitter.blanks(emitter.literal(begin, "["))
        if automaton.accepting[0]:
            rows.byte(inside, "]", end)
        first = -1
        counted = automaton.counted[0]
        edges = self._live(0) if counted is None else []
        if edges or (counted is not None and counted.value.is_productive):
            first = emitter.literal(inside, emitter.layout.line(self._depth + 1))
        if first >= 0 and counted is not None:
            after = rows.state()
            rows.call(first, emitter.value(counted.value, self._depth + 1), after)
            most = None if counted.most is None else counted.most - 1
            self._count(after, Counted(counted.value, max(counted.least - 1, 0), most))
        for value, target in edges:
            rows.call(first, emitter.value(value, self._depth + 1), self._after(target))

    def _live(self, state: int) -> list[Edge]:
        live = self._automaton.is_live
        return [
            (value, target)
            for value, target in self._automaton.edges[state]
            if live[target] and value.is_productive
        ]

    def _count(self, state: int, counted: Counted) -> None:
        """Write the remaining counted items, each after a comma, then the closing bracket."""
        emitter, rows, is_marked = self._emitter, self._rows, self._automaton.is_marked
        value, least, most = counted
        if most == 0:
            self._close_at(emitter.blanks(state))
        elif not least and most is None:
            at = emitter.blanks(state)
            self._close_at(at)
            for comma in (",", marks.COMMA) if is_marked else (",",):
                rows.call(self._separated(at, comma), emitter.value(value, self._depth + 1), state)
        else:
            after = rows.state()
            items = emitter.repeated_items(value, self._depth + 1, least, most, is_marked)
            rows.call(state, items, after)
            self._close_at(emitter.blanks(after))

    def _after(self, state: int) -> int:
        """The state of the grammar after an item."""
        found = self._behind.get(state)
        if found is not None:
            return found
        rows, automaton, counted = self._rows, self._automaton, self._automaton.counted[state]
        found = self._behind[state] = rows.state()
        if counted is not None:
            if counted.value.is_productive:
                self._count(found, counted)
            elif not counted.least:
                self._close_at(self._emitter.blanks(found))
            return found
        at = self._emitter.blanks(found)
        self._go_on(at, state, ",", "]")
        if automaton.is_marked and automaton.again(state) >= 0:
            self._go_on(at, automaton.again(state), marks.COMMA, marks.CLOSE)
        return found

    def _go_on(self, at: int, state: int, comma: str, close: str) -> None:
        """Write what may follow an item: the end, or more items."""
        rows, automaton = self._rows, self._automaton
        edges = self._live(state)
        if automaton.accepting[state]:
            self._byte_at(at, close)
        if edges:
            before = self._separated(at, comma)
            for value, target in edges:
                rows.call(before, self._emitter.value(value, self._depth + 1), self._after(target))

    def _close_at(self, at: int) -> None:
        """Write optional white space, then the closing bracket or its mark."""
        self._byte_at(at, "]")
        if self._automaton.is_marked:
            self._byte_at(at, marks.CLOSE)

    def _byte_at(self, at: int, close: str) -> None:
        line = self._emitter.layout.line(self._depth)
        self._rows.byte(self._emitter.literal(at, line), close, self._end)

    def _separated(self, at: int, comma: str) -> int:
        """The state after a comma or its mark; the white space before it was read already."""
        emitter, layout = self._emitter, self._emitter.layout
        if layout.is_free:
            return emitter.blanks(emitter.literal(at, comma))
        return emitter.literal(at, layout.comma.replace(",", comma) + layout.line(self._depth + 1))
