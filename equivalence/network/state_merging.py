# cython: language_level=3
# mypy: ignore-errors
"""Merging states that read the same texts, whatever rules they are in.

What: `StateMerging` makes the network of classes of states. States that only tail call a rule are replaced by
its first state. Then `minimise` finds bisimilar states (`equivalence.network.component_merging`).
When: called only by `equivalence.network.pipeline`, once for each grammar.
Limits: indices in the arrays are not checked, because `equivalence.network.subsets` has made them.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.network.component_merging import ComponentMerging
from cython.cimports.equivalence.network.deterministic import Deterministic
from cython.cimports.equivalence.network.graph import Graph
from cython.cimports.equivalence.source_check import check_source

check_source(__name__)


def put(to, at, numbers, count):
    """Copy the first numbers of an array to a place in another. Return the place after them."""
    for i in range(count):
        to[at + i] = numbers[i]
    return at + count


def put_edges(to, at, automata):
    """Like `put`, for the edges of automata."""
    for k in range(automata.n_edges):
        to[at + 3 * k] = automata.edges[k].first
        to[at + 3 * k + 1] = automata.edges[k].last
        to[at + 3 * k + 2] = automata.edges[k].target
    return at + 3 * automata.n_edges


def put_calls(to, at, automata):
    """Like `put`, for the calls of automata."""
    for k in range(automata.n_calls):
        to[at + 2 * k] = automata.calls[k].rule
        to[at + 2 * k + 1] = automata.calls[k].back
    return at + 2 * automata.n_calls


@cython.final
@cython.cclass
class StateMerging:
    """The states of all rules, and their classes.

    Args:
        account: says when to stop.

    Attributes:
        root: the start rule.
        rule_first, final, edge_starts, edges, call_starts, calls: the automata, as in `Deterministic`.
        counted: (unit, least, most) of the counted rules, one after another.
        nullable: for each rule, with counted rules after the others, whether it may be empty.
        representative_of: for each state, the state that represents it.
        first: for each rule, the state that represents its first one.
        bounds: for each counted rule, the number of its bounds, from 1.
        n_bounds: count of these numbers, including 0 for calls of other rules.
        graph: the states, with edges to the states that represent their targets.
        components: finds their classes.
        class_of, n_classes: the class of each state, and their number; -1: the root does not reach it.
        class_of_counted, n_counted: the class of each counted rule, and their number; -1: nothing calls it.
        automata: the network of classes.
    """

    def __init__(self, account: Account) -> None:
        self.account = account
        self.representative_of = self.representative_room = np.empty(0, np.int64)
        self.first = self.first_room = np.empty(0, np.int64)
        self.bounds = self.class_of_counted = self.class_of_counted_room = np.empty(0, np.int64)
        self.is_called = np.empty(0, np.uint8)
        self.graph = Graph()
        self.components = ComponentMerging(self.graph, account)
        self.automata = Deterministic()
        self.pairs = Interned(16, 2)

    def prepare(self, states, n_states, counted, nullable, root):
        """Start with other states."""
        self.root = root
        self.rule_first = states.rule_first
        self.final = states.final[:n_states]
        self.edge_starts = states.edge_starts[: n_states + 1]
        self.edges = states.edges[: states.n_edges]
        self.call_starts = states.call_starts[: n_states + 1]
        self.calls = states.calls[: states.n_calls]
        self.counted = counted
        self.all_counted = counted.shape[0] // 3
        self.nullable = nullable
        self.n_rules = self.rule_first.shape[0]
        self.n_states = n_states
        if n_states > self.representative_room.shape[0]:
            with cython.gil:
                self.representative_room = np.empty(n_states + n_states // 2, np.int64)
        if self.n_rules > self.first_room.shape[0]:
            with cython.gil:
                self.first_room = np.empty(2 * self.n_rules, np.int64)
        if self.all_counted > self.bounds.shape[0]:
            with cython.gil:
                self.bounds = np.empty(2 * self.all_counted, np.int64)
                self.class_of_counted_room = np.empty(2 * self.all_counted, np.int64)
                self.is_called = np.empty(2 * self.all_counted, np.uint8)
        self.representative_of = self.representative_room[:n_states]
        self.first = self.first_room[: self.n_rules]
        self.class_of_counted = self.class_of_counted_room[: self.all_counted]
        for s in range(n_states):
            self.representative_of[s] = s
        for rule in range(self.n_rules):
            self.first[rule] = self.rule_first[rule]
        self.n_bounds = 1
        self.n_classes = 0
        self.n_counted = 0

    # ------------------------------------------------------------ states that only tail call

    def is_end(self, s):
        """Whether a state is final and has no edges or calls."""
        return (
            self.final[s] != 0
            and self.edge_starts[s + 1] == self.edge_starts[s]
            and self.call_starts[s + 1] == self.call_starts[s]
        )

    def tail_callee(self, s):
        """The first state of the rule, if a state only tail calls a rule; otherwise -1."""
        k = self.call_starts[s]
        if (
            self.final[s]
            or self.edge_starts[s + 1] > self.edge_starts[s]
            or self.call_starts[s + 1] - k != 1
            or self.calls[k].rule >= self.n_rules
            or not self.is_end(self.calls[k].back)
        ):
            return -1
        return self.rule_first[self.calls[k].rule]

    def merge_tail_callers(self):
        """Let the first state of a plain rule represent states that only tail call this rule."""
        for s in range(self.n_states):
            t: cython.Py_ssize_t = s
            # no rule calls itself before it reads a byte, so this ends earlier
            for _ in range(self.n_rules):
                following = self.tail_callee(t)
                if following < 0:
                    break
                t = following
            self.representative_of[s] = t
        for rule in range(self.n_rules):
            if self.first[rule] >= 0:
                self.first[rule] = self.representative_of[self.first[rule]]

    # ------------------------------------------------------------ classes

    def called_rule(self, k):
        """The rule of a call; for a counted rule, its unit."""
        rule = self.calls[k].rule
        return rule if rule < self.n_rules else self.counted[3 * (rule - self.n_rules)]

    def least(self, counted):
        """How often a counted rule must read its unit. Units that may be empty need not be read."""
        return 0 if self.nullable[self.counted[3 * counted]] else self.counted[3 * counted + 1]

    def number_bounds(self):
        """Give equal numbers to equal bounds of counted rules."""
        self.pairs.clear(self.all_counted)
        for c in range(self.all_counted):
            self.bounds[c] = 1 + self.pairs.pair(self.least(c), self.counted[3 * c + 2])
        self.n_bounds = 1 + self.pairs.count

    def make_graph(self, graph):
        """Make the graph of the states, with edges to the states that represent their targets."""
        n_edges: cython.Py_ssize_t = self.edges.shape[0]
        n_calls: cython.Py_ssize_t = self.calls.shape[0]
        n: cython.Py_ssize_t = self.n_states
        graph.prepare(self.final, self.edge_starts, n_edges, self.call_starts, n_calls, self.n_bounds, n)
        for k in range(n_edges):
            graph.edges[k].first = self.edges[k].first
            graph.edges[k].last = self.edges[k].last
            graph.edges[k].target = self.representative_of[self.edges[k].target]
        for k in range(n_calls):
            rule = self.calls[k].rule
            graph.calls[k].callee = self.first[self.called_rule(k)]
            graph.calls[k].bounds = 0 if rule < self.n_rules else self.bounds[rule - self.n_rules]
            graph.calls[k].back = self.representative_of[self.calls[k].back]

    def minimise(self):
        """Find a bisimulation of the states that can be reached from the root."""
        if self.all_counted > 0:
            self.number_bounds()
        self.make_graph(self.graph)
        self.components.merge(self.first[self.root])
        self.class_of = self.graph.name
        self.n_classes = self.components.classes.n_classes
        for c in range(self.all_counted):
            self.class_of_counted[c] = -1
        if self.all_counted > 0:
            self.number_counted()

    def number_counted(self):
        """Find the classes of the counted rules that are called: equal units and equal bounds."""
        n: cython.Py_ssize_t = self.all_counted
        for c in range(n):
            self.is_called[c] = 0
        for s in range(self.n_states):
            if self.class_of[s] >= 0:
                for k in range(self.call_starts[s], self.call_starts[s + 1]):
                    if self.calls[k].rule >= self.n_rules:
                        self.is_called[self.calls[k].rule - self.n_rules] = 1
        self.pairs.clear(n)
        for c in range(n):
            if self.is_called[c]:
                self.class_of_counted[c] = self.pairs.pair(
                    self.class_of[self.first[self.counted[3 * c]]], self.bounds[c]
                )
        self.n_counted = self.pairs.count

    # ------------------------------------------------------------ the network of classes

    def add_call(self, automata, c, k):
        """Add a call to a class, unless the class has an equal one."""
        self.account.check()
        rule = self.calls[k].rule
        code = self.class_of[self.graph.calls[k].callee]
        if rule >= self.n_rules:
            code = -1 - self.class_of_counted[rule - self.n_rules]
        back = self.graph.calls[k].back
        back = -1 if self.is_end(back) else self.class_of[back]
        for i in range(automata.call_starts[c], automata.n_calls):
            if automata.calls[i].rule == code and automata.calls[i].back == back:
                return 0
        return automata.add_call(code, back)

    def quotient(self, automata):
        """Make the network of classes, as in `Network`."""
        self.graph.find_examples(self.n_classes)
        automata.prepare(0, 0, self.n_classes + 1)
        for c in range(self.n_classes):
            s = self.graph.example[c]
            automata.add_state(c, self.final[s])
            for k in range(self.edge_starts[s], self.edge_starts[s + 1]):
                target = self.class_of[self.graph.edges[k].target]
                automata.add_edge(c, self.edges[k].first, self.edges[k].last, target)
            for k in range(self.call_starts[s], self.call_starts[s + 1]):
                self.add_call(automata, c, k)
            automata.end_state(c)

    def run(self):
        """Find the classes, and the network of them."""
        self.merge_tail_callers()
        self.minimise()
        self.quotient(self.automata)

    def automaton(self, longest):
        """The network of classes, as in `Network`; a token has at most `longest` bytes."""
        automata: Deterministic = self.automata
        n: cython.Py_ssize_t = self.n_classes
        edges: cython.Py_ssize_t = n + 1
        call_starts: cython.Py_ssize_t = edges + 3 * automata.n_edges
        calls: cython.Py_ssize_t = call_starts + n + 1
        counted: cython.Py_ssize_t = calls + 2 * automata.n_calls
        # one array in five parts: allocating an array takes as long as copying all of this
        numbers: object = np.empty(counted + 4 * self.n_counted, np.int64)
        final: object = np.empty(n, np.uint8)
        to: cython.Py_ssize_t[::1] = numbers
        flags: cython.uchar[::1] = final
        # copies of a few microseconds: releasing the interpreter's lock would take as long
        flags[:] = automata.final[:n]
        put(to, 0, automata.edge_starts, n + 1)
        put_edges(to, edges, automata)
        put(to, call_starts, automata.call_starts, n + 1)
        put_calls(to, calls, automata)
        self.fill_counted(to[counted:], longest)
        return (
            final, numbers[:edges], numbers[edges:call_starts].reshape(-1, 3), numbers[call_starts:calls],
            numbers[calls:counted].reshape(-1, 2), numbers[counted:].reshape(-1, 4),
        )  # fmt: skip

    def fill_counted(self, rows, longest):
        """Write the counted classes, as in `Network`."""
        for c in range(self.all_counted):
            at = 4 * self.class_of_counted[c]
            if at >= 0:
                most = self.counted[3 * c + 2]
                rows[at] = self.class_of[self.first[self.counted[3 * c]]]
                rows[at + 1] = self.least(c)
                rows[at + 2] = most
                rows[at + 3] = -1 if most > longest else most
