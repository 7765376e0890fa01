# cython: language_level=3
# mypy: ignore-errors
"""From the expressions of a grammar to its merged network: the steps of `build_network`, and their tables.

What: a `NetworkPipeline` owns all tables that the steps write into, and passes the results of one step to the
next without copying. Only what outlives the grammar is copied into new arrays.
When: one grammar after another; `equivalence.network.build` keeps some of these objects. For a small
grammar, allocating and freeing the tables took two thirds of the time of its network.
Limits: one grammar at a time, in one thread. After an error the tables must not be used again.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.network.automata import Builder
from cython.cimports.equivalence.network.calls import Calls
from cython.cimports.equivalence.network.characters import in_bytes
from cython.cimports.equivalence.network.closures import Closures
from cython.cimports.equivalence.network.deterministic import Deterministic
from cython.cimports.equivalence.network.edges import Edges, SortedEdges
from cython.cimports.equivalence.network.state_merging import StateMerging
from cython.cimports.equivalence.network.subsets import Subsets
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

from equivalence.deadline import Stop

check_source(__name__)


@cython.final
@cython.cclass
class NetworkPipeline:
    """The tables of all steps.

    Attributes:
        n_rules: number of plain rules.
        begins, ends: the states that start and end each rule; -1 if it cannot be reached from the root.
        counted: (unit, least, most) of the counted rules, one after another.
        n_states: number of states of the deterministic automata.
        n_read: number of states before that; the sizes of all tables depend on it.
        largest: the largest `n_read` of the earlier grammars.
        account: says to all steps when to stop.
    """

    builder: Builder
    ordered: SortedEdges
    calls: Calls
    automata: Deterministic
    closures: Closures
    subsets: Subsets
    merging: StateMerging
    account: Account
    n_rules: cython.Py_ssize_t
    root: cython.Py_ssize_t
    begins: cython.Py_ssize_t[::1]
    ends: cython.Py_ssize_t[::1]
    places: cython.Py_ssize_t[::1]
    counted: cython.Py_ssize_t[::1]
    max_states: cython.Py_ssize_t
    n_states: cython.Py_ssize_t
    n_read = cython.declare(cython.Py_ssize_t, visibility="readonly")
    largest = cython.declare(cython.Py_ssize_t, visibility="readonly")

    def __init__(self) -> None:
        self.account = Account()
        self.builder = Builder(self.account)
        self.ordered = SortedEdges()
        self.calls = Calls(self.ordered, self.account)
        self.automata = Deterministic()
        self.closures = Closures(self.automata)
        self.subsets = Subsets(self.closures, self.automata, self.account)
        self.merging = StateMerging(self.account)
        self.places = NO_NUMBERS
        self.largest = 0

    def begin(
        self,
        data: cython.const[cython.Py_ssize_t][::1],
        starts: cython.const[cython.Py_ssize_t][::1],
        bodies: cython.const[cython.Py_ssize_t][::1],
        root: cython.Py_ssize_t,
        max_states: cython.Py_ssize_t,
        ready: Any,
        n_states: cython.Py_ssize_t,
        stop: Stop,
        merge: cython.bint,
    ) -> bool:
        """Make automata from expressions, and find out how their rules call each other.

        Args:
            data, starts: int64, the expressions (type, length, body), and where each begins.
            bodies: int64[rules], the expression of each rule; -1: its automaton is in `ready`.
            root: the root rule.
            max_states: bound on the states.
            ready: the automata that exist already, in any order: edges over bytes, int64[n, 5], columns as in
                `edges.FIELDS`, or `Edges` over characters (`equivalence.network.characters`), or None.
            n_states: states that exist already: two for each rule, and those inside `ready`, unless it has
                characters.
            stop: says when to stop.
            merge: whether to go on with `merge` if no rule is left recursive, without taking the
                interpreter's lock in between.

        Returns:
            Whether some rules may be left recursive. Then `left_recursive` must be called.

        Raises:
            BudgetExceeded: there are more states, or the deadline has passed.
            UnsupportedGrammar: the type of an expression is about tokens, or unknown.
            GrammarError: a character class has negative code points, or an expression contains itself.
            IndexError: an expression or an edge refers to something that does not exist.
            ValueError: arrays of another type, or with other dimensions.
        """
        self.account.stop_by(stop)
        self.max_states = max_states
        self.root = root
        self.n_rules = bodies.shape[0]
        builder: Builder = self.builder
        if isinstance(ready, Edges):
            in_bytes(ready, self.n_rules, builder.edges)
        elif ready is not None:
            builder.edges.put(ready, n_states)
        else:  # n bytes of text are an expression of n + 2 numbers
            builder.edges.renew(n_states, data.shape[0] // 2 + 16)
        builder.prepare(data, starts, bodies, max_states)
        if 2 * self.n_rules > self.places.shape[0]:
            self.places = np.empty(4 * self.n_rules, np.int64)
        return bool(self.run(True, merge))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def run(self, is_new: cython.bint, merge: cython.bint) -> cython.int:
        """Make the automata, and perhaps merge their states. Return whether some may be left recursive."""
        is_left: cython.int = 0
        kept = self.account.keep_lock()
        try:
            if is_new:
                is_left = self.build_automata()
            if merge and not is_left:
                self.merge_states()
        finally:
            self.account.retake_lock(kept)
        return is_left

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def build_automata(self) -> cython.int:
        """Make the automata, and find out how their rules call each other. Return whether some may be left
        recursive."""
        self.builder.build(self.root)
        self.counted = self.builder.counted.pool[: self.builder.counted.used]
        self.begins = self.places[: self.n_rules]
        self.ends = self.places[self.n_rules : 2 * self.n_rules]
        for rule in range(self.n_rules):
            self.begins[rule] = 2 * rule if self.builder.rules.is_reached[rule] else -1
            self.ends[rule] = self.begins[rule] + 1
        self.ordered.sort(self.builder.edges)
        self.n_read = self.builder.edges.n_states
        self.n_states = -1
        self.calls.prepare(self.begins, self.ends, self.counted)
        self.calls.find_order(self.root)
        self.calls.find_nullable()
        self.calls.find_left_calls()
        return self.calls.n_pairs > 0

    def is_reached(self) -> NDArray[np.uint8]:
        """The rules that can be reached from the root, uint8[rules]."""
        return np.array(self.builder.rules.is_reached)

    def left_recursive(self) -> tuple:
        """The input of `left_recursion`: pairs, edges, rule of each state, begins, ends, nullable."""
        calls: Calls = self.calls
        edges = self.builder.edges.table()
        return tuple(map(np.array, (calls.pairs, edges, calls.owner, self.begins, self.ends, calls.empty)))

    def without_left_recursion(
        self,
        edges: NDArray[np.int64],
        n_states: cython.Py_ssize_t,
        begins: NDArray[np.int64],
        ends: NDArray[np.int64],
    ) -> None:
        """Continue with other automata of the same rules."""
        self.builder.edges.put(edges, n_states)
        for rule in range(self.n_rules):
            self.begins[rule], self.ends[rule] = begins[rule], ends[rule]
        with cython.nogil:
            self.ordered.sort(self.builder.edges)
            self.n_read = n_states
            self.calls.prepare(self.begins, self.ends, self.counted)
            self.calls.find_order(self.root)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def merge_states(self) -> cython.int:
        """Make the automata deterministic, and merge equal states."""
        nullable: cython.uchar[::1] = self.calls.empty
        self.automata.prepare(self.n_rules, nullable.shape[0], self.n_read + 64)
        self.closures.prepare(self.ordered, self.begins, self.ends, nullable)
        self.subsets.prepare(self.max_states)
        self.n_states = self.subsets.add_rules(self.calls.order)
        self.merging.prepare(self.automata, self.n_states, self.counted, nullable, self.root)
        self.merging.run()

    def merge(self, longest: cython.Py_ssize_t) -> tuple:
        """Make the automata deterministic and merge equal states, unless `begin` has done so.

        Args:
            longest: bytes of the longest token.

        Returns:
            (the network of classes; its start class; whether the root may be empty), see
            `equivalence.network.build.Network`.

        Raises:
            BudgetExceeded: too many states, or the deadline has passed.
        """
        if self.n_states < 0:
            self.run(False, True)
        start = self.merging.class_of[self.merging.first[self.root]]
        return self.merging.automaton(longest), start, bool(self.calls.empty[self.root])

    def counted_rules(self) -> tuple:
        """The counted rules, int64[n, 3], rows (unit, least, most), and the class of each, as copies."""
        return np.array(self.counted).reshape(-1, 3), np.array(self.merging.class_of_counted)

    def forget(self) -> None:
        """Release the grammar and its deadline; the tables are kept."""
        self.largest = max(self.largest, self.n_read)
        self.account.stop_by(None)
        self.builder.prepare(NOTHING, NOTHING, NOTHING, 0)


NO_NUMBERS: NDArray[np.int64] = np.empty(0, np.int64)

NOTHING = cython.declare(cython.const[cython.Py_ssize_t][::1], NO_NUMBERS)
