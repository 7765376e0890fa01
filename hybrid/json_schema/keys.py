"""Declared keys as a radix tree, one version for each state of an object.

What: `KeyTree` maps the next characters of a key to the state in which the key is read. A state's tree is
that of the state behind a key that is passed over, with this key added: only the nodes along the key are new.
When: while an object is written (`hybrid.json_schema.emission`).
Limits: a tree is never changed.

(Morrison: PATRICIA, JACM 1968: a chain of characters without a branch is one label.)
"""

from __future__ import annotations

from collections.abc import Mapping
from os.path import commonprefix


class Branch:
    """An edge of a tree; made anew where its label or its tree is another.

    Attributes:
        label: the characters that it reads, at least one.
        below: the tree behind them.
    """

    __slots__ = ("below", "label")

    def __init__(self, label: str, below: KeyTree) -> None:
        self.label, self.below = label, below


class KeyTree:
    """A node.

    Attributes:
        branches: by the first character of their labels.
        state: of the object, in which the key that ends here is read; -1 where none does.
    """

    __slots__ = ("branches", "state")

    def __init__(self, branches: Mapping[str, Branch], state: int = -1) -> None:
        self.branches, self.state = branches, state

    def with_key(self, key: str, state: int) -> KeyTree:
        """The tree with one key more."""
        path: list[tuple[KeyTree, str]] = []  # nodes that are passed, with the label behind each
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
