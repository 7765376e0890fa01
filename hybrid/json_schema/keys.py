"""Declared keys as a radix tree, with one version for each state of an object.

What: `KeyTree` maps the next characters of a key to the state in which the key is read. The tree of a state
is the tree of the state after the next key is passed over, with that key added; only the nodes along the
key are new.
When: while an object is written (`hybrid.json_schema.emission`).
Limits: trees are immutable.

(Morrison: PATRICIA, JACM 1968: a chain of characters without a branch is one label.)
"""

from __future__ import annotations

from collections.abc import Mapping
from os.path import commonprefix


class Branch:
    """An edge of a tree. A change of its label or its subtree makes a new edge.

    Attributes:
        label: the characters that it reads, at least one.
        below: the subtree after them.
    """

    __slots__ = ("below", "label")

    def __init__(self, label: str, below: KeyTree) -> None:
        self.label, self.below = label, below


class KeyTree:
    """A node of the tree.

    Attributes:
        branches: the branches, by the first character of their labels.
        state: the state of the object in which the key that ends here is read; -1 if no key ends here.
    """

    __slots__ = ("branches", "state")

    def __init__(self, branches: Mapping[str, Branch], state: int = -1) -> None:
        self.branches, self.state = branches, state

    def with_key(self, key: str, state: int) -> KeyTree:
        """A copy of the tree with one more key."""
        path: list[tuple[KeyTree, str]] = []  # visited nodes, each with the label after it
        node, rest = self, key
        while rest:
            branch = node.branches.get(rest[0])
            if branch is None:
                path.append((node, rest))
                node, rest = NO_KEYS, ""
                break
            label = branch.label
            if not rest.startswith(label):
                label = commonprefix((label, rest))  # noqa: RUF071 - it is characters that are compared
                behind = branch.label[len(label) :]
                path.append((node, label))
                node = KeyTree({behind[0]: Branch(behind, branch.below)})
            else:
                path.append((node, label))
                node = branch.below
            rest = rest[len(label) :]
        node = KeyTree(node.branches, state)
        for parent, label in reversed(path):
            node = KeyTree({**parent.branches, label[0]: Branch(label, node)}, parent.state)
        return node


NO_KEYS = KeyTree({})
