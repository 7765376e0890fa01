# cython: language_level=3
# mypy: ignore-errors
"""The classes of the states of one strongly connected component.

What: `ComponentClasses` gives each state of a component the class of the states that are equivalent to it,
after all components to which it leads have their classes.
When: `equivalence.network.component_merging` calls it for each component, from the leaves up.
Limits: states of one class are equivalent. `is_certain` says whether states of different classes never are;
if not, `merge_all` merges them.

A state has a *key*: what it reads and calls, with the classes of its successors, and possibly with a mark for
its own class. A state that is alone in its component takes the class that has its key.

The states of a larger component are first divided into blocks of equal behaviour, as if no state in it were
equivalent to one outside. If there is one block, its states are treated as one state that leads to itself.
If one state of a component is equivalent to an earlier class, all are, and the classes are all of one earlier
component, since from each of them all others are reached. There are two cases:

- The component does not lead to that one. Then both have equal blocks in equal positions, which lead to equal
  classes. Each block has a *signature*, a hash of its component as seen from it, so equal components are
  found. The classes are taken if the key of each state, with these classes, is a key of its class: that is a
  proof.
- It leads there, as a loop that was unrolled once leads to the loop. Then its blocks are compared with the
  classes of that component (`is_within`). States with one block are compared with the classes of their
  successors.

The result is uncertain if hashes collide, if signatures do not look far enough to tell all blocks apart (10
of 2,000 grammars of JSON schemas), or if too much would be compared.

Rejected: Hopcroft's algorithm for all states that reach a cycle. In a JSON schema most states lead to a
string, so these are nearly all states. They took a tenth of the instructions of a first mask.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.interning import Interned
from cython.cimports.equivalence.network.graph import INSIDE, Graph, n_successors, successor
from cython.cimports.equivalence.network.signatures import Signatures
from cython.cimports.equivalence.source_check import check_source

check_source(__name__)

MOST_WORK = cython.declare(cython.int, 8)  # states that are compared, for each state of the graph
SELF = cython.declare(cython.int, -2)  # in a key: the state's own class


@cython.final
@cython.cclass
class ComponentClasses:
    """Gives classes to the components of a graph, one after another.

    Args:
        graph: its names become the classes.
        account: says when to stop.

    Attributes:
        members: room for the states of components; the owner fills it.
        n_classes: number of classes so far.
        is_certain: whether states of different classes are certainly not equivalent.
        part: one component; n states in all, so class c outside it is its target n + c.
        quotient: the blocks of a component.
        blocks, of_quotient: the blocks of `part`, and of `quotient`.
        class_of_key: the class of each of the graph's keys.
        signatures, class_of_signature: the signatures of components, and the class of each.
        own_signature: the signature of each state of a component.
        wanted: the classes that they may have.
        first_class: for each class of a component with a cycle, the first class of this component; otherwise
            -1.
        n_classes_of, example: the number of its classes, by the first; and a state of each of its classes.
        n_tries: number of components that were compared with those to which they lead.
        tried: for the first class of each component, the value of `n_tries` at its last comparison.
        work: number of states that were compared.
    """

    def __init__(self, graph: Graph, account: Account) -> None:
        self.graph = graph
        self.part, self.quotient = Graph(), Graph()
        self.blocks = Signatures(self.part, account)
        self.of_quotient = Signatures(self.quotient, account)
        self.signatures = Interned(16, 1)
        self.class_of_key = self.class_of_signature = self.members = np.empty(0, np.int64)
        self.own_signature = self.wanted = np.empty(0, np.int64)
        self.first_class = self.n_classes_of = self.example = self.tried = np.empty(0, np.int64)

    def prepare(self):
        """Start with the current content of the graph. No state has a class."""
        n: cython.Py_ssize_t = self.graph.size
        self.n_classes = 0
        self.is_certain = True
        if n > self.members.shape[0]:
            with cython.gil:
                room = n + n // 2
                self.class_of_key = np.empty(2 * room, np.int64)  # a state with an edge to itself has two
                self.class_of_signature, self.members = np.empty(room, np.int64), np.empty(room, np.int64)
                self.own_signature, self.wanted = np.empty(room, np.int64), np.empty(room, np.int64)
                self.first_class, self.n_classes_of = np.empty(room, np.int64), np.empty(room, np.int64)
                self.example, self.tried = np.empty(room, np.int64), np.empty(room, np.int64)
        self.graph.name[:] = -1
        self.signatures.clear(16)
        self.part.name_others(n)
        self.quotient.name_others(n)
        self.n_tries = 0
        self.work = 0
        for c in range(n):
            self.first_class[c] = -1

    def name_component(self, begin, end):
        """Give classes to a component: the members from `begin` to `end` - 1.

        Raises:
            BudgetExceeded: the deadline has passed.
        """
        if begin + 1 == end:
            return self.name_alike(begin, end, self.loops(self.members[begin]))
        return self.name_cycle(begin, end)

    def loops(self, s):
        """Whether a state leads to itself, or to another state with its name."""
        name = self.graph.name[s]
        for i in range(n_successors(self.graph, s)):
            if self.graph.name[successor(self.graph, s, i)] == name:
                return True
        return False

    def name_all(self, begin, end, name):
        """Give the same name to some members."""
        for i in range(begin, end):
            self.graph.name[self.members[i]] = name

    def name_alike(self, begin, end, loops):
        """Give a class to the states of a component that all do the same: that of an equivalent state, or a
        new one."""
        s = self.members[begin]
        self.name_all(begin, end, -1)
        length = self.graph.write_key(s, SELF if loops else -1)
        known = self.graph.keys.count
        key = self.graph.keys.intern(length)
        if key == known:
            c = self.class_of_successor(begin, end) if loops else -1
            self.class_of_key[key] = c if c >= 0 else self.n_classes
        self.name_all(begin, end, self.class_of_key[key])
        if self.class_of_key[key] < self.n_classes:
            return 0
        self.n_classes += 1
        if loops:
            self.add_component(self.class_of_key[key], 1)
            self.example[self.class_of_key[key]] = s
            self.add_key(s, -1)  # a state without this loop may lead here and still be equivalent
        return 0

    def class_of_successor(self, begin, end):
        """The class of a successor that does what the members do; -1 if there is none. Its key has it where
        the key of a member has the member."""
        s = self.members[begin]
        for i in range(n_successors(self.graph, s)):
            c = self.graph.name[successor(self.graph, s, i)]
            if self.is_like(begin, end, c, self.graph.byte_before(s, i)):
                return c
        return -1

    def is_like(self, begin, end, c, byte):
        """Whether members do what class c does. They lead to c by this byte, or by a call if it is -1."""
        if c < 0 or self.first_class[c] < 0:
            return False
        s = self.members[begin]
        if not self.may_be_equivalent(s, self.example[c], c, byte):
            return False
        self.name_all(begin, end, c)
        key = self.graph.keys.find(self.graph.write_key(s, -1))
        self.name_all(begin, end, -1)
        return key >= 0 and self.class_of_key[key] == c

    def may_be_equivalent(self, s, t, c, byte):
        """Whether state s may be equivalent to t: whether t also leads to class c by this byte, or by a call
        if it is -1. This is cheap, and tells nearly all pairs apart."""
        begin, end = self.graph.edge_starts[t], self.graph.edge_starts[t + 1]
        n_calls = self.graph.call_starts[t + 1] - self.graph.call_starts[t]
        own_calls = self.graph.call_starts[s + 1] - self.graph.call_starts[s]
        if self.graph.final[s] != self.graph.final[t] or (n_calls == 0) != (own_calls == 0):
            return False
        if (begin == end) != (self.graph.edge_starts[s] == self.graph.edge_starts[s + 1]):
            return False
        if byte >= 0:
            for k in range(begin, end):
                if self.graph.edges[k].first <= byte <= self.graph.edges[k].last:
                    return self.graph.name[self.graph.edges[k].target] == c
            return False
        for k in range(self.graph.call_starts[t], self.graph.call_starts[t + 1]):
            if (
                self.graph.name[self.graph.calls[k].callee] == c
                or self.graph.name[self.graph.calls[k].back] == c
            ):
                return True
        return False

    def name_cycle(self, begin, end):
        """Give the states of a larger component their classes."""
        n = self.graph.size
        for i in range(begin, end):
            self.graph.name[self.members[i]] = INSIDE - (i - begin)
        self.graph.take(self.part, self.members[begin:end], n, 2 * n)
        self.blocks.refine()
        n_blocks = self.blocks.n_blocks
        if n_blocks == 1:
            return self.name_alike(begin, end, True)
        if not self.is_certain:
            return self.add_classes(begin, end, False)  # all classes are merged again in any case
        # if all states are blocks of their own, they have the signatures of blocks
        if n_blocks < end - begin:
            self.part.by_name(self.quotient, n_blocks)
            self.of_quotient.divide()
            self.of_quotient.seal()
            is_signed = self.of_quotient.is_divided
            for i in range(end - begin):
                self.own_signature[i] = self.of_quotient.as_integer(self.part.name[i])
        else:
            self.blocks.seal()
            is_signed = self.blocks.is_divided
            for i in range(end - begin):
                self.own_signature[i] = self.blocks.as_integer(i)
        self.is_certain = is_signed
        if is_signed and (self.is_known(begin, end) or self.is_within(begin, end)):
            return 0
        return self.add_classes(begin, end, is_signed)

    def add_component(self, first, count):
        """Record that some classes, from the first on, are those of a component with a cycle."""
        self.n_classes_of[first] = count
        self.tried[first] = 0
        for c in range(first, first + count):
            self.first_class[c] = first

    def add_key(self, s, own):
        """Add a key of a state whose class is known, and the classes of its successors; `own` as for
        `write_key`."""
        length = self.graph.write_key(s, own)
        known = self.graph.keys.count
        key = self.graph.keys.intern(length)
        if key == known:
            self.class_of_key[key] = self.graph.name[s]
        elif self.class_of_key[key] != self.graph.name[s]:
            self.is_certain = False

    def is_known(self, begin, end):
        """Give the states of a component the classes of an earlier one. Return whether there is one."""
        for i in range(end - begin):
            self.signatures.pool[self.signatures.room(1)] = self.own_signature[i]
            signature = self.signatures.find(1)
            if signature < 0:
                return False
            self.wanted[i] = self.class_of_signature[signature]
        for i in range(end - begin):
            self.graph.name[self.members[begin + i]] = self.wanted[i]
        for i in range(end - begin):
            key = self.graph.keys.find(self.graph.write_key(self.members[begin + i], -1))
            if key < 0 or self.class_of_key[key] != self.wanted[i]:
                self.is_certain = False
                self.name_all(begin, end, INSIDE)
                return False
        return True

    def is_within(self, begin, end):
        """Give the states of a component the classes of another one to which it leads, if it has equivalent
        ones. Return whether it has."""
        self.n_tries += 1
        for at in range(begin, end):
            s = self.members[at]
            for i in range(n_successors(self.graph, s)):
                c = self.graph.name[successor(self.graph, s, i)]
                if self.is_within_that_of(begin, end, s, c, self.graph.byte_before(s, i)):
                    return True
        return False

    def is_within_that_of(self, begin, end, s, c, byte):
        """Give the states of a component classes of the component of class c, if it has equivalent ones.
        State s leads to c by a byte, or by a call if it is -1. Return whether it has."""
        if c < 0 or self.first_class[c] < 0 or self.tried[self.first_class[c]] == self.n_tries:
            return False
        if self.work > MOST_WORK * self.graph.size:
            self.is_certain = False
            return False
        first = self.first_class[c]
        n_others = self.n_classes_of[first]
        self.tried[first] = self.n_tries
        other = first
        while other < first + n_others and not self.may_be_equivalent(s, self.example[other], c, byte):
            other += 1
        self.work += (other - first) >> 4
        if other == first + n_others:
            return False
        n_blocks = self.blocks.n_blocks
        self.work += n_blocks + n_others
        self.make_union(begin, end, first, n_others)
        self.of_quotient.refine()
        if self.of_quotient.n_blocks > n_others:
            return False
        for other in range(n_others):
            self.wanted[self.quotient.name[n_blocks + other]] = first + other
        for i in range(begin, end):
            self.graph.name[self.members[i]] = self.wanted[self.quotient.name[self.part.name[i - begin]]]
        return True

    def make_union(self, begin, end, first, n_others):
        """Make a graph of the blocks of a component, and of the classes of another one."""
        n = self.graph.size
        n_blocks = self.blocks.n_blocks
        for i in range(begin, end):
            b = self.part.name[i - begin]
            self.graph.name[self.members[i]] = INSIDE - b
            self.wanted[b] = self.members[i]
        for i in range(n_others):
            self.wanted[n_blocks + i] = self.example[first + i]
        self.graph.take(self.quotient, self.wanted[: n_blocks + n_others], n, 2 * n)
        for k in range(self.quotient.edges.shape[0]):
            c = self.quotient.edges[k].target - n - first
            if 0 <= c < n_others:
                self.quotient.edges[k].target = n_blocks + c
        for k in range(self.quotient.calls.shape[0]):
            c = self.quotient.calls[k].callee - n - first
            if 0 <= c < n_others:
                self.quotient.calls[k].callee = n_blocks + c
            c = self.quotient.calls[k].back - n - first
            if 0 <= c < n_others:
                self.quotient.calls[k].back = n_blocks + c

    def add_classes(self, begin, end, is_signed):
        """Give the states of a component new classes."""
        first = self.n_classes
        for i in range(end - begin):
            c = first + self.part.name[i]
            self.graph.name[self.members[begin + i]] = c
            self.example[c] = self.members[begin + i]
        self.n_classes += self.blocks.n_blocks
        self.add_component(first, self.blocks.n_blocks)
        for i in range(end - begin):
            s = self.members[begin + i]
            self.add_key(s, -1)
            if self.loops(s):
                self.add_key(s, SELF)  # a state that is alone in its component may be equivalent
        if not is_signed:
            return 0
        for i in range(end - begin):
            self.signatures.pool[self.signatures.room(1)] = self.own_signature[i]
            known = self.signatures.count
            signature = self.signatures.intern(1)
            c = self.graph.name[self.members[begin + i]]
            if signature == known:
                self.class_of_signature[signature] = c
            elif self.class_of_signature[signature] != c:
                self.is_certain = False
        return 0

    def merge_all(self):
        """Merge the classes that are equivalent, if that is not certain."""
        self.graph.by_name(self.part, self.n_classes)
        self.blocks.refine()
        self.n_classes = self.blocks.n_blocks
        for s in range(self.graph.size):
            if self.graph.name[s] >= 0:
                self.graph.name[s] = self.part.name[self.graph.name[s]]
