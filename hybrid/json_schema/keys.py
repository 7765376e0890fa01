"""Declared keys as a trie, one version for each state of an object.

What: `KeyTrie` maps the next key's characters to the state in which it is read. A state's trie is that of the state
behind a key that is passed over, with this key added: only the nodes along the key are new.
When: while an object is written (`hybrid.json_schema.emission`).
Limits: a trie is never changed.
"""

from __future__ import annotations

from collections.abc import Mapping


class KeyTrie:
    """A node.

    Attributes:
        below: nodes by the next character.
        state: of the object, in which the key that ends here is read; -1 where none does.
    """

    __slots__ = ("below", "state")

    def __init__(self, below: Mapping[str, KeyTrie], state: int = -1) -> None:
        self.below, self.state = below, state

    def with_key(self, key: str, state: int) -> KeyTrie:
        """The trie with one key more."""
        path = [self]
        for letter in key:
            path.append(path[-1].below.get(letter, NO_KEYS))
        node = KeyTrie(path[-1].below, state)
        for i in range(len(key) - 1, -1, -1):
            node = KeyTrie({**path[i].below, key[i]: node}, path[i].state)
        return node


NO_KEYS = KeyTrie({})
