# cython: language_level=3, boundscheck=True, show_performance_hints=False
# mypy: ignore-errors
"""Expressions to automata: one automaton of bytes and calls for each rule.

What: `Builder` follows the expressions of all rules that can be reached from the root. State 2 r
starts rule r, and state 2 r + 1 ends it. A repeat {m,n} that is not tiny calls a *counted rule*; these are
numbered after the plain rules.
When: second step of `build_network`.
Limits: automata that XGrammar makes itself (`equivalence.network.foreign`) are passed in as edges.

Every index is always checked, because expressions come from the text of a grammar and name other expressions.
All of this takes a thirtieth of the time of a network.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.arrays.records import empty
from cython.cimports.equivalence.network import serial as types
from cython.cimports.equivalence.network.edge_types import BYTES, CALL, EMPTY
from cython.cimports.equivalence.network.edges import Edges
from cython.cimports.equivalence.network.sorted_set import SortedSet
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

from equivalence.arrays.dynamic_arrays import bigger
from equivalence.arrays.records import Kind
from equivalence.errors import GrammarError, UnsupportedGrammar
from equivalence.network import dialect, serial
from equivalence.network.counted_automata import MARK
from equivalence.network.sizes import too_large

check_source(__name__)

TOKEN_LEVEL = {
    serial.TOKENS: "token ids",
    serial.EXCLUDED: "excluded tokens",
    serial.TOKEN_TAGS: "token tag dispatch",
}

MARKED = cython.declare(cython.Py_ssize_t, MARK)
UNROLLED = cython.declare(cython.Py_ssize_t, 3)  # repeats up to this are plain calls: a counter costs more

LAST = cython.declare(cython.Py_ssize_t, 0x10FFFF)  # the last code point
LAST_ASCII = cython.declare(cython.Py_ssize_t, 0x7F)
LOOSE = cython.declare(cython.bint, dialect.LOOSE)

TODO = Kind("expression source target")
"""An expression that must lead from one state to another."""


@cython.final
@cython.cclass
class Rules:
    """Rules to visit, each once, in the order in which they are found.

    Attributes:
        is_reached: uint8[n], the rules found so far.
    """

    def __init__(self) -> None:
        self.is_reached = self.is_reached_room = np.empty(0, np.uint8)
        self.queue = np.empty(0, np.int64)

    def prepare(self, n):
        """Start with n rules, none of which is found yet."""
        if n > self.queue.shape[0]:
            self.queue = np.empty(n + n // 2, np.int64)
            self.is_reached_room = np.empty(n + n // 2, np.uint8)
        self.is_reached = self.is_reached_room[:n]
        self.is_reached[:] = 0
        self.head = 0
        self.tail = 0

    def find(self, rule):
        """Add a rule, unless it is known."""
        if not self.is_reached[rule]:
            self.is_reached[rule] = 1
            self.queue[self.tail] = rule
            self.tail += 1

    def next(self):
        """The next rule to visit; -1 if there is none."""
        if self.head == self.tail:
            return -1
        self.head += 1
        return self.queue[self.head - 1]


@cython.final
@cython.cclass
class Builder:
    """Follows expressions and writes edges.

    Args:
        account: says when to stop.

    Attributes:
        edges: the automata.
        rules: the rules that were reached.
        counted: (unit, least, most) of the counted rules; most is -1 if there is no upper bound.
        ranges: the ranges of a negative character class.
        position, length: where the body of the current expression begins, and its length.
        source, target: the states from which and to which the current expression leads.
    """

    def __init__(self, account: Account) -> None:
        self.account = account
        self.edges = Edges(0, 16)
        self.rules = Rules()
        self.counted = Interned(16, 3)
        self.ranges = SortedSet()
        self.stack = empty(TODO, 32)

    def prepare(self, data, starts, bodies, max_states):
        """Start another grammar. Its states, and edges that exist already, must be in `edges`."""
        self.data = data
        self.starts = starts
        self.bodies = bodies
        self.rules.prepare(bodies.shape[0])
        self.counted.clear(16)
        self.depth = 0
        self.max_states = max_states

    def build(self, root):
        """Make the automata of the rules that can be reached from a root."""
        self.rules.find(root)
        for i in range(self.edges.count):  # rules called by ready-made automata
            if self.edges.rows[i].type == CALL:
                self.rules.find(self.edges.rows[i].a)
        rule = self.rules.next()
        while rule >= 0:
            if self.bodies[rule] >= 0:
                self.follow(self.bodies[rule], 2 * rule, 2 * rule + 1)
                while self.depth > 0:
                    self.account.check()
                    self.expand()
            rule = self.rules.next()

    def follow(self, expression, source, target):
        """Request that an expression leads from a state to another. The last request is handled first."""
        if self.depth == self.stack.shape[0]:
            with cython.gil:
                self.grow_stack()
        self.stack[self.depth].expression = expression
        self.stack[self.depth].source = source
        self.stack[self.depth].target = target
        self.depth += 1

    def grow_stack(self):
        """Make room for more requests.

        Raises:
            GrammarError: an expression contains itself. Otherwise the requests that wait are parts of
                different expressions, which have no more parts than there are numbers.
        """
        if self.depth > self.data.shape[0]:
            raise GrammarError("an expression of the grammar contains itself; make the grammar from its text")
        self.stack = bigger(self.stack, 2 * self.depth, self.depth)

    def expand(self):
        """Write the edges of the current expression.

        Raises:
            BudgetExceeded: there are too many states already.
            UnsupportedGrammar: its type is about tokens, or unknown.
        """
        self.depth -= 1
        self.source, self.target = self.stack[self.depth].source, self.stack[self.depth].target
        self.position = self.starts[self.stack[self.depth].expression] + 2
        expression_type, self.length = self.data[self.position - 2], self.data[self.position - 1]
        if self.edges.n_states > self.max_states or self.edges.count > 8 * self.max_states:
            with cython.gil:
                raise too_large(self.max_states)
        if expression_type == types.BYTES:
            return self.text()
        if expression_type == types.CLASS:
            return self.character()
        if expression_type == types.STAR:
            loop = self.edges.state()
            self.edges.add(self.source, EMPTY, 0, 0, loop)
            self.edges.add(loop, EMPTY, 0, 0, self.target)
            self.source, self.target = loop, loop
            return self.character()
        if expression_type == types.EMPTY:
            return self.edges.add(self.source, EMPTY, 0, 0, self.target)
        if expression_type in (types.SEQUENCE, types.CHOICES):
            return self.parts(expression_type == types.SEQUENCE)
        if expression_type in (types.RULE, types.REPEAT):
            self.rules.find(self.data[self.position])
            if expression_type == types.RULE:
                return self.edges.add(self.source, CALL, self.data[self.position], 0, self.target)
            return self.repeat(
                self.data[self.position], self.data[self.position + 1], self.data[self.position + 2]
            )
        with cython.gil:
            self.refuse_type(expression_type)
        return 0

    def refuse_type(self, expression_type):
        """Raise: no automaton of bytes can be made of this type of expression.

        This is a separate function, because `expand` would take the interpreter's lock in each call if it had
        an object among its variables.
        """
        name = TOKEN_LEVEL.get(expression_type, f"expression type {expression_type}")
        raise UnsupportedGrammar(f"the grammar has {name}")

    def text(self):
        """Write edges for bytes, one after another."""
        if self.length == 0:
            return self.edges.add(self.source, EMPTY, 0, 0, self.target)
        source = self.source
        for i in range(self.length):
            following = self.edges.state() if i + 1 < self.length else self.target
            byte = self.data[self.position + i] & 255
            self.edges.add(source, BYTES, byte, byte, following)
            source = following
        return 0

    def character(self):
        """Write edges for a character class in XGrammar's layout [negative, low, high, ...].

        A negative class is the complement over all code points, as XGrammar's binary reads it; see
        `equivalence.network.dialect` for older versions.
        """
        negative = self.data[self.position]
        n_ranges = (self.length - 1) // 2
        self.ranges.count = 0
        for i in range(n_ranges):
            low = self.data[self.position + 1 + 2 * i]
            high = min(self.data[self.position + 2 + 2 * i], LAST)
            if negative:
                if LOOSE and high > LAST_ASCII:
                    with cython.gil:
                        raise UnsupportedGrammar(
                            "the grammar has a class that excludes characters beyond ASCII, which XGrammar "
                            "before 0.2.8 reads in two ways; install XGrammar 0.2.8 or newer"
                        )
                self.ranges.add(low << 21 | high)
            else:
                self.edges.characters(low, high, self.source, self.target)
        if not negative:
            return 0
        if LOOSE:
            self.ranges.add((LAST_ASCII + 1) << 21 | LAST)
            self.edges.loosely(self.source, self.target)
        return self.edges.others(self.ranges, self.source, self.target)

    def parts(self, sequence):
        """Follow expressions as alternatives, or one after another with a new state between two of them."""
        if self.length == 0:
            return self.edges.add(self.source, EMPTY, 0, 0, self.target)
        source = self.source
        for i in range(self.length):
            following = self.edges.state() if sequence and i + 1 < self.length else self.target
            self.follow(self.data[self.position + i], source, following)
            if sequence:
                source = following
        return 0

    def repeat(self, unit, least, most):
        """Call a unit `least` to `most` times, or without upper bound: one by one, or by a counted rule."""
        source, target = self.source, self.target
        if most > UNROLLED or (most < 0 and least > UNROLLED) or least <= MARKED:
            begin = self.counted.room(3)
            self.counted.pool[begin] = unit
            self.counted.pool[begin + 1] = least
            self.counted.pool[begin + 2] = most
            number = self.bodies.shape[0] + self.counted.intern(3)
            return self.edges.add(source, CALL, number, 0, target)
        for _ in range(least):
            source = self.call(unit, source)
        if most < 0:
            loop = self.edges.state()
            self.edges.add(source, EMPTY, 0, 0, loop)
            self.edges.add(loop, CALL, unit, 0, loop)
            source = loop
        for _ in range(least, most):
            self.edges.add(source, EMPTY, 0, 0, target)
            source = self.call(unit, source)
        return self.edges.add(source, EMPTY, 0, 0, target)

    def call(self, rule, source):
        """Call a rule. Return the new state after it."""
        following = self.edges.state()
        self.edges.add(source, CALL, rule, 0, following)
        return following


def reachable(
    data: cython.const[cython.Py_ssize_t][::1],
    starts: cython.const[cython.Py_ssize_t][::1],
    bodies: cython.const[cython.Py_ssize_t][::1],
    root: cython.Py_ssize_t,
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The rules, of any type, that can be reached from a root, also by tag dispatches, uint8[rules]; and
    their expressions, uint8[expressions].

    Args:
        data, starts, bodies, root: as for `pipeline.NetworkPipeline.begin`; every rule has a body.

    Raises:
        IndexError: an expression refers to something that does not exist.
    """
    rules: Rules = Rules()
    rules.prepare(bodies.shape[0])
    found = np.zeros(starts.shape[0], np.uint8)
    known: cython.uchar[::1] = found
    stack: cython.Py_ssize_t[::1] = np.empty(starts.shape[0] + 1, np.int64)
    with cython.nogil:
        rules.find(root)
        rule = rules.next()
        while rule >= 0:
            stack[0] = bodies[rule]
            known[bodies[rule]] = 1
            depth: cython.Py_ssize_t = 1
            while depth > 0:
                depth -= 1
                at = starts[stack[depth]]
                expression_type, length = data[at], data[at + 1]
                at += 2
                if expression_type in (types.SEQUENCE, types.CHOICES):
                    for i in range(at, at + length):
                        if not known[data[i]]:
                            known[data[i]] = 1
                            stack[depth] = data[i]
                            depth += 1
                elif expression_type in (types.RULE, types.REPEAT):
                    rules.find(data[at])
                elif expression_type == types.TAGS:
                    for i in range(at + 1, at + length - 2, 2):
                        rules.find(data[i])
                elif expression_type == types.TOKEN_TAGS:
                    for i in range(at + 2, at + 2 + 2 * data[at], 2):
                        rules.find(data[i])
            rule = rules.next()
    return np.array(rules.is_reached), found
