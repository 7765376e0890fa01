# cython: language_level=3
# mypy: ignore-errors
"""Declared keys as a radix tree, with one version for each state of an object.

What: `KeyTree` maps the next characters of a key to the state in which the key is read. The tree of a state
is the tree of the state after the next key is passed over, with that key added; only the nodes along the
key are new.
When: while an object is written (`hybrid.json_schema.structure_writers`).
Limits: trees are immutable.

(Morrison: PATRICIA, JACM 1968: a chain of characters without a branch is one label.)
"""

from __future__ import annotations

import cython
from cython.cimports.equivalence.source_check import check_source

check_source(__name__)


@cython.final
@cython.cclass
class Branch:
    """An edge of a tree. A change of its label or its subtree makes a new edge.

    Attributes:
        label: the characters that it reads, at least one.
        below: the subtree after them.
        behind_first: the state of the rules after its first character; -1 if it is not written yet.
    """

    def __init__(self, label: str, below: KeyTree) -> None:
        self.label, self.below = label, below
        self.behind_first = -1


@cython.final
@cython.cclass
class KeyTree:
    """A node of the tree.

    Attributes:
        branches: the branches, by the first character of their labels.
        state: the state of the object in which the key that ends here is read; -1 if no key ends here.
        begin: the state of the rules in which it starts; -1 if it is not written yet.
    """

    def __init__(self, branches: dict, state: cython.Py_ssize_t = -1) -> None:
        self.branches, self.state = branches, state
        self.begin = -1

    def with_key(self, key: str, state: cython.Py_ssize_t) -> KeyTree:
        """Return a copy of the tree with one more key."""
        return _with(self, key, 0, state)


@cython.cfunc
def _with(tree: KeyTree, key: str, begin: cython.Py_ssize_t, state: cython.Py_ssize_t) -> KeyTree:
    """Return a copy of a tree with one more key, which begins at a character of `key`."""
    if begin == len(key):
        return KeyTree(tree.branches, state)
    first = key[begin]
    branches: dict = tree.branches.copy()
    known = branches.get(first)
    if known is None:
        branches[first] = Branch(key[begin:], KeyTree({}, state))
        return KeyTree(branches, tree.state)
    branch: Branch = known
    label: str = branch.label
    below: KeyTree = branch.below
    shared = n_common(label, key, begin)
    if shared < len(label):
        below = KeyTree({label[shared]: Branch(label[shared:], below)})
        label = label[:shared]
    branches[first] = Branch(label, _with(below, key, begin + shared, state))
    return KeyTree(branches, tree.state)


def n_common(label, key, begin):
    """Return how many characters of a label equal those of a key from index `begin` on."""
    n: cython.Py_ssize_t = min(len(label), len(key) - begin)
    for i in range(n):
        if label[i] != key[begin + i]:
            return i
    return n


NO_KEYS = KeyTree({})
