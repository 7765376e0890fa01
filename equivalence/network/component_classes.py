# cython: language_level=3
# mypy: ignore-errors
"""The classes of the states of one strongly connected component.

What: `ComponentClasses` gives each state of a component the class of states that are equivalent to it, after
all components to which it leads have their classes.
When: `equivalence.network.component_merging` calls it for each component, from the leaves up.
Limits: states of one class are equivalent. States of different classes may be equivalent, too: a component is
not compared with the parts of those to which it leads. This makes 0.3% more classes for JSON schemas.

A state has a *key*: what it reads and calls, with the classes of its successors, and possibly with a mark for
its own class. A state that is alone in its component takes the class that has its key.

The states of a larger component are divided into blocks of equal behaviour. If there is one block, its states
are treated as one state that leads to itself. Otherwise each block has a *signature*, a hash of its component
as seen from it, by which an equal component is found. Its classes are taken if the key of each state, with
these classes, is a key of its class: that is a proof.

Rejected: Hopcroft's algorithm for all states that reach a cycle. In a JSON schema most states lead to a
string, so these are nearly all states. They took a tenth of the instructions of a first mask. Rejected:
comparing a component with those to which it leads, as a loop that was unrolled once leads to the loop.
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
        part: one component; n states in all, so class c outside it is its target n + c.
        quotient: the blocks of a component.
        blocks, of_quotient: the blocks of `part`, and the signatures of `quotient`.
        class_of_key: the class of each of the graph's keys.
        signatures, class_of_signature: the signatures of components, and the class of each.
        wanted: the classes that the states of a component may have.
    """

    def __init__(self, graph: Graph, account: Account) -> None:
        self.graph = graph
        self.part, self.quotient = Graph(), Graph()
        self.blocks = Signatures(self.part, account)
        self.of_quotient = Signatures(self.quotient, account)
        self.signatures = Interned(16, 1)
        self.class_of_key = self.class_of_signature = self.members = self.wanted = np.empty(0, np.int64)

    def prepare(self):
        """Start with the current content of the graph. No state has a class."""
        n: cython.Py_ssize_t = self.graph.size
        self.n_classes = 0
        if n > self.members.shape[0]:
            with cython.gil:
                room = n + n // 2
                self.class_of_key = np.empty(2 * room, np.int64)  # a state with an edge to itself has two
                self.class_of_signature, self.members = np.empty(room, np.int64), np.empty(room, np.int64)
                self.wanted = np.empty(room, np.int64)
        self.graph.name[:] = -1
        self.signatures.clear(16)
        self.part.name_others(n)

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
        if key < known:
            self.name_all(begin, end, self.class_of_key[key])
            return 0
        self.class_of_key[key] = self.n_classes
        self.name_all(begin, end, self.n_classes)
        self.n_classes += 1
        if loops:
            self.add_key(s, -1)  # a state without this loop may lead here and still be equivalent
        return 0

    def name_cycle(self, begin, end):
        """Give the states of a larger component their classes."""
        n = self.graph.size
        for i in range(begin, end):
            self.graph.name[self.members[i]] = INSIDE - (i - begin)
        self.graph.take(self.part, self.members[begin:end], n, 2 * n)
        self.blocks.refine()
        if self.blocks.n_blocks == 1:
            return self.name_alike(begin, end, True)
        self.part.by_name(self.quotient, self.blocks.n_blocks)
        self.of_quotient.divide()
        self.of_quotient.seal()
        if self.is_known(begin, end):
            return 0
        return self.add_classes(begin, end)

    def write_signature(self, i):
        """Write the signature of a state of a component to the pool of signatures."""
        at = self.signatures.room(1)
        self.signatures.pool[at] = self.of_quotient.as_integer(self.part.name[i])

    def is_known(self, begin, end):
        """Give the states of a component the classes of an earlier one. Return whether there is one."""
        for i in range(end - begin):
            self.write_signature(i)
            signature = self.signatures.find(1)
            if signature < 0:
                return False
            self.wanted[i] = self.class_of_signature[signature]
        for i in range(end - begin):
            self.graph.name[self.members[begin + i]] = self.wanted[i]
        for i in range(end - begin):
            key = self.graph.keys.find(self.graph.write_key(self.members[begin + i], -1))
            if key < 0 or self.class_of_key[key] != self.wanted[i]:
                return False
        return True

    def add_classes(self, begin, end):
        """Give the states of a component new classes."""
        for i in range(end - begin):
            self.graph.name[self.members[begin + i]] = self.n_classes + self.part.name[i]
        self.n_classes += self.blocks.n_blocks
        for i in range(end - begin):
            s = self.members[begin + i]
            self.add_key(s, -1)
            if self.loops(s):
                self.add_key(s, SELF)  # a state that is alone in its component may be equivalent
            self.write_signature(i)
            known = self.signatures.count
            signature = self.signatures.intern(1)
            if signature == known:
                self.class_of_signature[signature] = self.graph.name[s]

    def add_key(self, s, own):
        """Add a key of a state whose class is known, and the classes of its successors; `own` as for
        `write_key`."""
        length = self.graph.write_key(s, own)
        known = self.graph.keys.count
        key = self.graph.keys.intern(length)
        if key == known:
            self.class_of_key[key] = self.graph.name[s]
