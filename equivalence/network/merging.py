# cython: language_level=3
# mypy: ignore-errors
"""Merging states that read the same way, whatever rule they are in.

What: `merge` makes the network of classes of states. States that do nothing but tail call a rule give way to
its first state; the rest is the coarsest bisimulation: `equivalence.network.upwards`, then
`equivalence.network.refining`. `minimise` is that alone.
When: called by `equivalence.network.build` only, once per grammar.
Limits: indices in the arrays are not checked: they are what `equivalence.network.subsets` has made.
"""

from __future__ import annotations

import cython
import numpy as np
from numpy.typing import NDArray

from equivalence import built
from equivalence.arrays.growing import filled
from equivalence.deadline import Stop
from equivalence.network.states import Classes, Integers, Merged, States, rows

if cython.compiled:
    from cython.cimports.equivalence.arrays.account import Account
    from cython.cimports.equivalence.arrays.interning import Interned
    from cython.cimports.equivalence.built import EQUIMASK_SOURCE
    from cython.cimports.equivalence.network.deterministic import Call, Deterministic, Span
    from cython.cimports.equivalence.network.graph import Graph
    from cython.cimports.equivalence.network.refining import Refinement
    from cython.cimports.equivalence.network.upwards import Upwards

    built.check(__name__, EQUIMASK_SOURCE)
else:
    from equivalence.arrays.account import Account
    from equivalence.arrays.interning import Interned
    from equivalence.network.deterministic import Deterministic
    from equivalence.network.graph import Graph
    from equivalence.network.refining import Refinement
    from equivalence.network.upwards import Upwards

    built.plain(__name__)

Counted = cython.struct(unit=cython.Py_ssize_t, least=cython.Py_ssize_t, most=cython.Py_ssize_t)


@cython.final
@cython.cclass
class Merging:
    """The states of all rules, and their classes.

    Args:
        states: the states.
        counted: as `merge` takes it.
        nullable: as `merge` takes it.
        root: the rule that texts begin with.
        account: tells when to stop.

    Attributes:
        stands: of each state, the one that stands for it; for `n_passed` of them it is another.
        first: of each rule, the state that stands for its first one.
        bounds: of each counted rule, the number of its bounds, from 1.
        n_bounds: those, and 0, which is a call of another rule.
        graph: the states, led past those that others stand for.
        cls, n_classes, counted_cls, n_counted: as in `Classes`.
    """

    account: Account
    root: cython.Py_ssize_t
    n_rules: cython.Py_ssize_t
    n_states: cython.Py_ssize_t
    rule_first: cython.const[cython.Py_ssize_t][::1]
    final: cython.const[cython.uchar][::1]
    edge_starts: cython.const[cython.Py_ssize_t][::1]
    edges: Span[::1]
    call_starts: cython.const[cython.Py_ssize_t][::1]
    calls: Call[::1]
    counted: Counted[::1]
    nullable: cython.const[cython.uchar][::1]
    stands: cython.Py_ssize_t[::1]
    n_passed: cython.Py_ssize_t
    first: cython.Py_ssize_t[::1]
    bounds: cython.Py_ssize_t[::1]
    n_bounds: cython.Py_ssize_t
    graph: Graph
    cls: cython.Py_ssize_t[::1]
    n_classes: cython.Py_ssize_t
    counted_cls: cython.Py_ssize_t[::1]
    n_counted: cython.Py_ssize_t
    waiting: cython.Py_ssize_t[::1]
    n_waiting: cython.Py_ssize_t

    def __init__(
        self,
        states: object,
        counted: object,
        nullable: cython.const[cython.uchar][::1],
        root: cython.Py_ssize_t,
        account: Account,
    ) -> None:
        self.account = account
        self.root = root
        self.rule_first = states.rule_first
        self.final = states.final
        self.edge_starts = states.edge_starts
        self.edges = rows(states.edges, "first last target")
        self.call_starts = states.call_starts
        self.calls = rows(states.calls, "rule back")
        self.counted = rows(counted, "unit least most")
        self.nullable = nullable
        self.n_rules = self.rule_first.shape[0]
        self.n_states = self.final.shape[0]
        self.stands = np.arange(self.n_states)
        self.first = np.array(states.rule_first)
        self.n_passed = 0
        self.n_bounds = 1
        self.n_classes = 0
        self.n_counted = 0

    # ------------------------------------------------------------ states that pass on

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def is_end(self, s: cython.Py_ssize_t) -> cython.bint:
        """Whether a state is final and nothing leads on from it."""
        return (
            self.final[s] != 0
            and self.edge_starts[s + 1] == self.edge_starts[s]
            and self.call_starts[s + 1] == self.call_starts[s]
        )

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def passes_to(self, s: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The first state of the rule that a state does nothing but tail call; -1: it does something else."""
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

    @cython.cfunc
    def pass_on(self) -> object:
        """Lead past states whose only move is a tail call of a plain rule, to the first state of that rule.

        The calls themselves are kept: they decide what lies below a rule (`add_passed`).
        """
        with cython.nogil:
            for s in range(self.n_states):
                t: cython.Py_ssize_t = s
                # no rule calls itself before it has read a byte, so this ends sooner
                for _ in range(self.n_rules):
                    following = self.passes_to(t)
                    if following < 0:
                        break
                    t = following
                self.stands[s] = t
                self.n_passed += t != s
            for rule in range(self.n_rules):
                if self.first[rule] >= 0:
                    self.first[rule] = self.stands[self.first[rule]]

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def reach(self, s: cython.Py_ssize_t) -> cython.void:
        """A state is reached: if another one stands for it, it gets the class of that."""
        if self.cls[s] < 0 and self.stands[s] != s:
            self.cls[s] = self.cls[self.stands[s]]
            self.waiting[self.n_waiting] = s
            self.n_waiting += 1

    @cython.cfunc
    def add_passed(self) -> object:
        """Classes also for states that others stand for, where the root leads to them."""
        if self.n_passed == 0:
            return
        self.waiting = np.empty(self.n_states, np.int64)
        self.n_waiting = 0
        with cython.nogil:
            for s in range(self.n_states):
                if self.cls[s] >= 0:
                    self.waiting[self.n_waiting] = s
                    self.n_waiting += 1
            self.reach(self.rule_first[self.root])
            i: cython.Py_ssize_t = 0
            while i < self.n_waiting:
                t = self.waiting[i]
                i += 1
                for k in range(self.edge_starts[t], self.edge_starts[t + 1]):
                    self.reach(self.edges[k].target)
                for k in range(self.call_starts[t], self.call_starts[t + 1]):
                    self.reach(self.calls[k].back)
                    self.reach(self.rule_first[self.called_rule(k)])

    # ------------------------------------------------------------ classes

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def called_rule(self, k: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The rule that a call calls, or the unit of the counted rule."""
        rule = self.calls[k].rule
        return rule if rule < self.n_rules else self.counted[rule - self.n_rules].unit

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def least(self, counted: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """How often a counted rule reads its unit at least: units that may be empty need not be read."""
        return 0 if self.nullable[self.counted[counted].unit] else self.counted[counted].least

    @cython.cfunc
    def number_bounds(self) -> object:
        """Equal bounds of counted rules get equal numbers."""
        n: cython.Py_ssize_t = self.counted.shape[0]
        self.bounds = np.zeros(n, np.int64)
        known: Interned = Interned(n, 2)
        for c in range(n):
            at = known.room(2)
            known.pool[at] = self.least(c)
            known.pool[at + 1] = self.counted[c].most
            self.bounds[c] = 1 + known.intern(2)
        self.n_bounds = 1 + known.count

    @cython.cfunc
    def make_graph(self) -> Graph:
        """The states, led past those that others stand for."""
        n_edges: cython.Py_ssize_t = self.edges.shape[0]
        n_calls: cython.Py_ssize_t = self.calls.shape[0]
        graph: Graph = Graph(self.final, self.edge_starts, n_edges, self.call_starts, n_calls, self.n_bounds)
        with cython.nogil:
            for k in range(n_edges):
                graph.edges[k].first = self.edges[k].first
                graph.edges[k].last = self.edges[k].last
                graph.edges[k].target = self.stands[self.edges[k].target]
            for k in range(n_calls):
                rule = self.calls[k].rule
                graph.calls[k].callee = self.first[self.called_rule(k)]
                graph.calls[k].bounds = 0 if rule < self.n_rules else self.bounds[rule - self.n_rules]
                graph.calls[k].back = self.stands[self.calls[k].back]
        return graph

    @cython.cfunc
    def minimise(self) -> object:
        """The coarsest bisimulation of the states that the root leads to."""
        if self.counted.shape[0] > 0:
            self.number_bounds()
        self.graph = self.make_graph()
        upwards: Upwards = Upwards(self.graph, self.account)
        upwards.merge(self.first[self.root])
        classes: Graph = self.graph.by_name(upwards.n_classes)
        refinement: Refinement = Refinement(classes, self.account)
        refinement.refine()
        self.cls = self.graph.name
        self.n_classes = refinement.n_blocks
        for s in range(self.n_states):
            if self.cls[s] >= 0:
                self.cls[s] = classes.name[self.cls[s]]
        self.counted_cls = filled(self.counted.shape[0], -1)
        if self.counted.shape[0] > 0:
            self.number_counted()

    @cython.cfunc
    def number_counted(self) -> object:
        """The classes of the counted rules that are called: equal units, and equal bounds."""
        n: cython.Py_ssize_t = self.counted.shape[0]
        called: cython.uchar[::1] = np.zeros(n, np.uint8)
        for s in range(self.n_states):
            if self.cls[s] >= 0:
                for k in range(self.call_starts[s], self.call_starts[s + 1]):
                    if self.calls[k].rule >= self.n_rules:
                        called[self.calls[k].rule - self.n_rules] = 1
        known: Interned = Interned(n, 2)
        for c in range(n):
            if called[c]:
                at = known.room(2)
                known.pool[at] = self.cls[self.first[self.counted[c].unit]]
                known.pool[at + 1] = self.bounds[c]
                self.counted_cls[c] = known.intern(2)
        self.n_counted = known.count

    @cython.cfunc
    def classes(self) -> object:
        """The classes, as arrays."""
        return Classes(np.asarray(self.cls), self.n_classes, np.asarray(self.counted_cls), self.n_counted)

    # ------------------------------------------------------------ the network of classes

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def add_call(self, made: Deterministic, c: cython.Py_ssize_t, k: cython.Py_ssize_t) -> cython.int:
        """A call of a class, unless it has an equal one."""
        self.account.look()
        rule = self.calls[k].rule
        code = self.cls[self.graph.calls[k].callee]
        if rule >= self.n_rules:
            code = -1 - self.counted_cls[rule - self.n_rules]
        back = self.graph.calls[k].back
        back = -1 if self.is_end(back) else self.cls[back]
        for i in range(made.call_starts[c], made.n_calls):
            if made.calls[i].rule == code and made.calls[i].back == back:
                return 0
        return made.add_call(code, back)

    @cython.cfunc
    def quotient(self, longest: cython.Py_ssize_t) -> tuple:
        """The network of classes, see `Merged`; a token has `longest` bytes at most."""
        example: cython.Py_ssize_t[::1] = self.graph.examples(self.n_classes)
        made: Deterministic = Deterministic(0, 0, self.n_classes)
        with cython.nogil:
            for c in range(self.n_classes):
                s = example[c]
                made.add_state(c, self.final[s])
                for k in range(self.edge_starts[s], self.edge_starts[s + 1]):
                    target = self.cls[self.graph.edges[k].target]
                    made.add_edge(c, self.edges[k].first, self.edges[k].last, target)
                for k in range(self.call_starts[s], self.call_starts[s + 1]):
                    self.add_call(made, c, k)
                made.end_state(c)
        merged = made.states(self.n_classes)
        return (
            merged.final,
            merged.edge_starts,
            merged.edges.copy(),  # which has no spare room
            merged.call_starts,
            merged.calls.copy(),
            self.counted_rows(longest),
        )

    @cython.cfunc
    def counted_rows(self, longest: cython.Py_ssize_t) -> object:
        """The counted classes, see `Merged`."""
        made: object = np.zeros((self.n_counted, 4), np.int64)
        view: cython.Py_ssize_t[:, ::1] = made
        for c in range(self.counted.shape[0]):
            k = self.counted_cls[c]
            if k >= 0:
                most = self.counted[c].most
                view[k, 0] = self.cls[self.first[self.counted[c].unit]]
                view[k, 1] = self.least(c)
                view[k, 2] = most
                view[k, 3] = -1 if most > longest else most
        return made


def merge(
    states: States,
    counted: Integers,
    nullable: NDArray[np.uint8],
    root: int,
    longest: int,
    stop: Stop | None = None,
) -> Merged:
    """Merge states that read the same way, whatever rule they are in.

    Args:
        states: the states of all rules.
        counted: int64[counted rules, 3], rows (unit, least, most); they are numbered after the other rules.
        nullable: uint8[rules and counted rules].
        root: the rule that texts begin with.
        longest: bytes of the longest token.
        stop: tells when it is too late.

    Raises:
        BudgetExceeded: it is too late.
        ValueError: arrays of another type, or with other dimensions.
    """
    merging: Merging = Merging(states, counted, nullable, root, Account(stop))
    merging.pass_on()
    merging.minimise()
    automaton = merging.quotient(longest)
    merging.add_passed()
    return Merged(merging.classes(), np.asarray(merging.stands), automaton)


def minimise(
    states: States, counted: Integers, nullable: NDArray[np.uint8], root: int, stop: Stop | None = None
) -> Classes:
    """The coarsest bisimulation of the states that the root leads to, none being passed.

    Arguments and errors are those of `merge`.
    """
    merging: Merging = Merging(states, counted, nullable, root, Account(stop))
    merging.minimise()
    return merging.classes()
