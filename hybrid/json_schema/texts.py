# cython: language_level=3
# mypy: ignore-errors
"""Trees of texts as rows: declared keys, and strings that a schema lists.

What: `TreeWriter` writes the nodes of trees (`keys.py`) between the quotes of a JSON string. Printable
ASCII characters stand for themselves (`"` and `\\` escaped, `/` also as `\\/`), every other character may
have any spelling.
When: while objects and listed strings are written (`hybrid.json_schema.emission`).
Limits: parts that versions of a tree share are written once. Equal parts of different trees are written
again; the network merges equal states anyway.
"""

from __future__ import annotations

from collections.abc import Callable

import cython
from cython.cimports.equivalence.built import EQUIMASK_SOURCE
from cython.cimports.hybrid.json_schema.keys import Branch, KeyTree
from cython.cimports.hybrid.json_schema.rows import Rows

from equivalence import built

built.check(__name__, EQUIMASK_SOURCE)

_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


@cython.final
@cython.cclass
class TreeWriter:
    """Writes trees.

    Args:
        rows: where they are written.
        ended: called when a text ends, with the state and the tree's content there. It writes the closing
            quote and what follows.
    """

    def __init__(self, rows: Rows, ended: Callable[[int, int], None]) -> None:
        self._rows, self._ended = rows, ended
        self._nodes = {}  # the state of each tree
        self._behind_first = {}  # the state of each branch after its first character
        self._todo = []

    def state_of(self, tree: KeyTree) -> cython.Py_ssize_t:
        """The state in which a tree starts."""
        found = self._nodes.get(tree)
        if found is not None:
            return found
        state = self._rows.state()
        self._nodes[tree] = state
        self._todo.append((tree, state))
        return state

    def write(self, tree: KeyTree, state: cython.Py_ssize_t) -> object:
        """Request that a tree is written so that it starts in a state; `finish` writes it."""
        self._todo.append((tree, state))

    def finish(self) -> object:
        """Write all requested trees."""
        tree: KeyTree
        while self._todo:
            tree, state = self._todo.pop()
            for branch in tree.branches.values():
                self._branch(branch, state)
            if tree.state >= 0:
                self._ended(state, tree.state)

    def _branch(self, branch: Branch, state: cython.Py_ssize_t) -> object:
        label: str = branch.label
        if not _is_plain(label):
            self._spell(state, label, self.state_of(branch.below))
            return
        known = self._behind_first.get(branch)
        found: cython.Py_ssize_t
        if known is not None:
            found = known
        else:  # versions of a tree share what follows the first character
            found = self.state_of(branch.below)
            if len(label) > 1:
                found = self._rows.run(label, 1, found)
            self._behind_first[branch] = found
        self._rows.byte(state, label[0], found)

    def _spell(self, state: cython.Py_ssize_t, label: str, target: cython.Py_ssize_t) -> object:
        """Edges that read a label, each character in all its spellings."""
        rows = self._rows
        for i, letter in enumerate(label):
            after = target if i == len(label) - 1 else rows.state()
            short = _SHORT_ESCAPES.get(letter)
            if short is not None:
                rows.text(state, short, after)
            if letter == "/":
                rows.text(state, "\\/", after)
            if letter < " " or letter > "~":
                self._escaped(state, letter, after)
            if letter >= " " and short is None:
                rows.characters(state, ord(letter), ord(letter), after)
            state = after

    def _escaped(self, state: cython.Py_ssize_t, letter: str, target: cython.Py_ssize_t) -> object:
        """A character as `\\u` code units with four digits in upper or lower case."""
        rows, units = self._rows, letter.encode("utf-16-be", "surrogatepass")
        for i in range(0, len(units), 2):
            behind = rows.state()
            rows.text(state, "\\u", behind)
            state = behind
            digits = f"{int.from_bytes(units[i : i + 2], 'big'):04x}"
            for j, digit in enumerate(digits):
                after = target if i + 2 == len(units) and j == 3 else rows.state()
                for spelling in {digit, digit.upper()}:
                    rows.byte(state, spelling, after)
                state = after


@cython.cfunc
@cython.exceptval(check=False)
def _is_plain(label: str) -> cython.bint:
    """Whether all characters of a label stand for themselves only."""
    letter: cython.Py_UCS4
    for letter in label:
        if not 0x20 <= letter <= 0x7E or letter == '"' or letter == "\\" or letter == "/":
            return False
    return True
