# cython: language_level=3, wraparound=True, annotation_typing=True
# mypy: ignore-errors
"""From nonterminals to the rules of a grammar of JSON texts.

What: `emit` writes the automata of all nonterminals that can be reached from the first: objects and arrays
here, scalars by an `Emitter` (`emitter.py`).
When: after all nonterminals are built, and the dead states are known.
Limits: only live states are written, so that no text leads into a dead end.

The rules are deterministic except for values whose nonterminals begin alike: these are separate calls, which
the parser follows in parallel.
"""

from __future__ import annotations

import cython
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.json_schema.automata import (
    ArrayAutomaton,
    Nonterminal,
    ObjectAutomaton,
    Structure,
)
from cython.cimports.hybrid.json_schema.emitter import Emitter
from cython.cimports.hybrid.json_schema.key_tree import KeyTree
from cython.cimports.hybrid.json_schema.rows import Rows
from cython.cimports.hybrid.json_schema.texts import TreeWriter

from hybrid.json_schema.automata import Counted
from hybrid.json_schema.key_tree import NO_KEYS
from hybrid.json_schema.layout import Layout
from hybrid.json_schema.nonterminals import Nonterminals
from hybrid.json_schema.uniqueness import marks

check_source(__name__)


def emit(
    nonterminals: Nonterminals, start: Nonterminal, layout: Layout, counts: cython.bint = True
) -> tuple[Rows, int]:
    """Return the rules for all values of a nonterminal, and the number of the start rule.

    Args:
        nonterminals, start: the sets of values, and that of the whole text.
        layout: what stands between values.
        counts: whether the rules may have counted automata.
    """
    emitter: Emitter = Emitter(nonterminals, layout, counts)
    root = emitter.value(start, 0)
    one: Nonterminal
    while emitter.todo:
        nonterminals.check()
        one, depth, rule = emitter.todo.pop()
        begin, end = -1 - 2 * rule, -2 - 2 * rule
        emitter.scalars(one, begin, end)
        if one.object is not None and one.object.is_live[0]:
            ObjectWriter(emitter, one.object, depth).write(begin, end)
        if one.array is not None and one.array.is_live[0]:
            ArrayWriter(emitter, one.array, depth).write(begin, end)
    return emitter.rows, root


@cython.cclass
class Writer:
    """What writers of objects and arrays share: the states after values, and what is still to be written."""

    _emitter: Emitter
    _rows: Rows
    _depth: cython.Py_ssize_t
    _n: cython.Py_ssize_t  # the number of states
    _behind: list  # for each state of the automaton, the grammar's state; None: no value leads there yet
    _todo: list  # the states of the automaton for which nothing is written yet
    _end: cython.Py_ssize_t  # the grammar's state after the closing brace or bracket

    def __init__(self, emitter: Emitter, automaton: Structure, depth: cython.Py_ssize_t) -> None:
        self._emitter, self._rows, self._depth = emitter, emitter.rows, depth
        self._n = len(automaton.accepting)
        self._behind, self._todo = [None] * self._n, []

    @cython.cfunc
    def _after(self, state: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the grammar's state after a value that leads to a state of the automaton."""
        known = self._behind[state]
        if known is not None:
            return known
        found = self._rows.state()
        self._behind[state] = found
        self._todo.append(state)
        return found

    @cython.cfunc
    def _close(self, at: cython.Py_ssize_t, close: str) -> object:
        """Write a closing brace, bracket or mark; the white space before it was read already."""
        self._rows.letter(self._emitter.literal(at, self._emitter.line(self._depth)), close, self._end)


@cython.final
@cython.cclass
class ObjectWriter(Writer):
    """Writes the objects of one nonterminal, between two states."""

    _automaton: ObjectAutomaton
    _skipped: list
    _keys_below: TreeWriter
    # for each state, None until it is known:
    _lasts: list  # `_last`
    _extra: list  # the edges of undeclared keys, for each state that is the `_last` of another
    _trees: list  # the declared keys that may come next
    _opened: list  # the grammar's state after the opening quote of a key

    def __init__(self, emitter: Emitter, automaton: ObjectAutomaton, depth: cython.Py_ssize_t) -> None:
        Writer.__init__(self, emitter, automaton, depth)
        self._automaton, self._skipped = automaton, automaton.skipped
        self._lasts, self._extra = [None] * self._n, [None] * self._n
        self._trees, self._opened = [None] * self._n, [None] * self._n
        self._keys_below = TreeWriter(self._rows, self._key_ends)

    def write(self, begin: cython.Py_ssize_t, end: cython.Py_ssize_t) -> None:
        """Write everything from the opening to the closing brace."""
        emitter, rows = self._emitter, self._rows
        self._end = end
        opened = emitter.literal(begin, "{")
        inside = emitter.blanks(opened)
        if self._may_end(0):
            rows.letter(inside, "}", end)
        if self._has_keys(0):
            first = emitter.literal(inside, emitter.line(self._depth + 1))
            rows.letter(first, '"', self._keys(0))
        self._keys_below.finish()
        while self._todo:
            state = self._todo.pop()
            self._go_on(state, self._behind[state])
            self._keys_below.finish()
        self._keys_below = None  # it refers to this object

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def _last(self, state: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the state after all remaining declared keys are passed over, or -1 if that is impossible."""
        known = self._lasts[state]
        if known is not None:
            return known
        passed: list = []
        last: cython.Py_ssize_t = state
        n: cython.Py_ssize_t = len(self._automaton.names)
        is_live: list = self._automaton.is_live
        position: list = self._automaton.position
        while last >= 0 and is_live[last] and position[last] < n:
            known = self._lasts[last]
            if known is not None:
                last = known
                break
            passed.append(last)
            last = self._skipped[last]
        if last >= 0 and not is_live[last]:
            last = -1
        for one in (*passed, state):
            self._lasts[one] = last
        return last

    @cython.cfunc
    def _may_end(self, state: cython.Py_ssize_t) -> cython.int:
        last = self._last(state)
        return last >= 0 and self._automaton.accepting[last]

    @cython.cfunc
    def _extras(self, state: cython.Py_ssize_t) -> list:
        """Return classes of undeclared keys that may come, each with its edges."""
        last = self._last(state)
        if last < 0:
            return []
        known = self._extra[last]
        if known is None:
            known = self._extra[last] = self._automaton.live_extra(last)
        return known

    @cython.cfunc
    def _tree(self, state: cython.Py_ssize_t) -> KeyTree:
        """Return the declared keys that may come next."""
        known = self._trees[state]
        if known is not None:
            return known
        automaton = self._automaton
        names, position, edges = automaton.names, automaton.position, automaton.edges
        chain: list = []
        while state >= 0 and self._trees[state] is None and automaton.is_live[state]:
            if position[state] == len(names):
                break
            chain.append(state)
            state = self._skipped[state]
        known = self._trees[state] if state >= 0 else None
        tree: KeyTree = NO_KEYS if known is None else known
        for one in reversed(chain):
            if automaton.live(edges[one]):
                tree = tree.with_key(names[position[one]], one)
            self._trees[one] = tree
        return tree

    @cython.cfunc
    def _has_keys(self, state: cython.Py_ssize_t) -> cython.int:
        return self._tree(state) is not NO_KEYS or len(self._extras(state)) > 0

    @cython.cfunc
    def _keys(self, state: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the state of the grammar after the opening quote of a key."""
        known = self._opened[state]
        if known is not None:
            return known
        tree, extras = self._tree(state), self._extras(state)
        found: cython.Py_ssize_t = self._rows.state() if extras else self._keys_below.state_of(tree)
        self._opened[state] = found
        if extras:
            self._keys_below.write(tree, found)
        for number, edges in extras:
            behind = self._rows.state()
            self._rows.call(found, self._emitter.key(self._automaton.classes[number]), behind)
            self._value(behind, edges)
        return found

    def _key_ends(self, state: cython.Py_ssize_t, key: cython.Py_ssize_t) -> None:
        """Write what follows the last character of a declared key that is read in a state of the object."""
        behind = self._rows.state()
        self._rows.letter(state, '"', behind)
        self._value(behind, self._automaton.live(self._automaton.edges[key]))

    @cython.cfunc
    def _value(self, behind: cython.Py_ssize_t, edges: list) -> object:
        """Write what follows a key: the colon, and each value with the state after it."""
        start = self._emitter.colon(behind)
        for value, target in edges:
            rule = self._emitter.value(value, self._depth + 1)
            self._rows.call(start, rule, self._after(target))

    @cython.cfunc
    def _go_on(self, state: cython.Py_ssize_t, behind: cython.Py_ssize_t) -> object:
        """Write what may follow a value: the end of the object, or another key."""
        at = self._emitter.blanks(behind)
        if self._may_end(state):
            self._close(at, "}")
        if self._has_keys(state):
            self._rows.letter(self._emitter.separated(at, self._depth + 1, ","), '"', self._keys(state))


@cython.final
@cython.cclass
class ArrayWriter(Writer):
    """Writes the arrays of one nonterminal, between two states."""

    _automaton: ArrayAutomaton

    def __init__(self, emitter: Emitter, automaton: ArrayAutomaton, depth: cython.Py_ssize_t) -> None:
        Writer.__init__(self, emitter, automaton, depth)
        self._automaton = automaton

    def write(self, begin: cython.Py_ssize_t, end: cython.Py_ssize_t) -> None:
        """Write everything from the opening to the closing bracket."""
        emitter, rows, automaton = self._emitter, self._rows, self._automaton
        self._end = end
        inside = emitter.blanks(emitter.literal(begin, "["))
        if automaton.accepting[0]:
            rows.letter(inside, "]", end)
        first = -1
        counted = automaton.counted[0]
        edges = automaton.live(automaton.edges[0]) if counted is None else []
        if edges or (counted is not None and counted.value.is_productive):
            first = emitter.literal(inside, emitter.line(self._depth + 1))
        if first >= 0 and counted is not None:
            after = rows.state()
            rows.call(first, emitter.value(counted.value, self._depth + 1), after)
            most = None if counted.most is None else counted.most - 1
            self._count(after, Counted(counted.value, max(counted.least - 1, 0), most))
        for value, target in edges:
            rows.call(first, emitter.value(value, self._depth + 1), self._after(target))
        while self._todo:
            state = self._todo.pop()
            self._follow(state, self._behind[state])

    @cython.cfunc
    def _count(self, state: cython.Py_ssize_t, counted: Counted) -> object:
        """Write the remaining counted items, each after a comma, then the closing bracket."""
        emitter, rows, is_marked = self._emitter, self._rows, self._automaton.is_marked
        value, least, most = counted
        if most == 0:
            self._close_at(emitter.blanks(state))
        elif not least and most is None:
            at = emitter.blanks(state)
            self._close_at(at)
            for comma in (",", marks.COMMA) if is_marked else (",",):
                rows.call(
                    emitter.separated(at, self._depth + 1, comma),
                    emitter.value(value, self._depth + 1),
                    state,
                )
        else:
            after = rows.state()
            items = emitter.repeated_items(value, self._depth + 1, least, most, is_marked)
            rows.call(state, items, after)
            self._close_at(emitter.blanks(after))

    @cython.cfunc
    def _follow(self, state: cython.Py_ssize_t, behind: cython.Py_ssize_t) -> object:
        """Write what may follow an item: the end of the array, or another item."""
        automaton, counted = self._automaton, self._automaton.counted[state]
        if counted is not None:
            if counted.value.is_productive:
                self._count(behind, counted)
            elif not counted.least:
                self._close_at(self._emitter.blanks(behind))
            return
        at = self._emitter.blanks(behind)
        self._go_on(at, state, ",", "]")
        if automaton.is_marked and automaton.again(state) >= 0:
            self._go_on(at, automaton.again(state), marks.COMMA, marks.CLOSE)

    @cython.cfunc
    def _go_on(self, at: cython.Py_ssize_t, state: cython.Py_ssize_t, comma: str, close: str) -> object:
        """Write the end, or more items, as far as they may come in a state."""
        rows, automaton = self._rows, self._automaton
        edges = automaton.live(automaton.edges[state])
        if automaton.accepting[state]:
            self._close(at, close)
        if edges:
            before = self._emitter.separated(at, self._depth + 1, comma)
            for value, target in edges:
                rows.call(before, self._emitter.value(value, self._depth + 1), self._after(target))

    @cython.cfunc
    def _close_at(self, at: cython.Py_ssize_t) -> object:
        """Write optional white space, then the closing bracket or its mark."""
        self._close(at, "]")
        if self._automaton.is_marked:
            self._close(at, marks.CLOSE)
