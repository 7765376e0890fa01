# cython: language_level=3
# mypy: ignore-errors
"""Texts as rows: declared keys, strings that a schema lists, and languages of strings.

What: `TreeWriter` writes the nodes of trees (`keys.py`) between the quotes of a JSON string, `write_plainly`
the texts of an automaton. Printable ASCII characters stand for themselves (`"` and `\\` escaped, `/` also as
`\\/`), every other character may have any spelling.
When: while objects and listed strings are written (`hybrid.json_schema.emission`).
Limits: parts that versions of a tree share are written once. Equal parts of different trees are written
again; the network merges equal states anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
        """Return the state in which a tree starts."""
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
        self._rows.letter(state, label[0], found)

    def _spell(self, state: cython.Py_ssize_t, label: str, target: cython.Py_ssize_t) -> object:
        """Add edges that read a label, each character in all its spellings."""
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
        """Return a character as `\\u` code units with four digits in upper or lower case."""
        rows, units = self._rows, letter.encode("utf-16-be", "surrogatepass")
        for i in range(0, len(units), 2):
            behind = rows.state()
            rows.text(state, "\\u", behind)
            state = behind
            digits = f"{int.from_bytes(units[i : i + 2], 'big'):04x}"
            for j, digit in enumerate(digits):
                after = target if i + 2 == len(units) and j == 3 else rows.state()
                for spelling in {digit, digit.upper()}:
                    rows.letter(state, spelling, after)
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


def write_plainly(rows: Rows, language: Any, rule_of: Callable[[tuple], int]) -> cython.Py_ssize_t:
    """Write the texts of a language, printable ASCII as itself and all other characters as calls.

    A backslash may stand before `"`, `/` and `\\`, and must before the first and the last. With all spellings
    each state would need about twelve more for `\\u00` and two digits; each text has a spelling anyway.

    Args:
        rows: where they are written.
        language: an automaton of texts. It takes time linear in its edges.
        rule_of: the rule that reads one character of some ranges, which are not printable ASCII.

    Returns:
        The state of the rules that is state 0 of the language; the others follow it.
    """
    first: cython.Py_ssize_t = rows.states(language.n_states)
    calling: dict = {}
    state: cython.Py_ssize_t = first
    row: tuple
    for row in language.rows:
        wide: dict = {}  # for each state that follows, the characters that are not printable ASCII
        escaping: cython.Py_ssize_t = -1
        low: cython.Py_ssize_t
        high: cython.Py_ssize_t
        target: cython.Py_ssize_t
        for low, high, target in row:
            if low < 0x20:
                wide.setdefault(target, []).append((low, min(high, 0x1F)))
            if high > 0x7E:
                wide.setdefault(target, []).append((max(low, 0x7F), high))
            target += first
            _add_within(rows, state, low, high, 0x20, 0x21, target)
            _add_within(rows, state, low, high, 0x23, 0x5B, target)
            _add_within(rows, state, low, high, 0x5D, 0x7E, target)
            for escaped in (0x22, 0x2F, 0x5C):
                if low <= escaped <= high:
                    if escaping < 0:
                        escaping = rows.state()
                        rows.characters(state, 0x5C, 0x5C, escaping)
                    rows.characters(escaping, escaped, escaped, target)
        for following, ranges in wide.items():
            rows.call_shared(calling, state, rule_of(tuple(ranges)), first + following)
        state += 1
    return first


@cython.cfunc
@cython.exceptval(-1, check=False)
def _add_within(
    rows: Rows,
    source: cython.Py_ssize_t,
    low: cython.Py_ssize_t,
    high: cython.Py_ssize_t,
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    target: cython.Py_ssize_t,
) -> cython.int:
    """Add an edge that reads the characters from `low` to `high` that are also from `first` to `last`."""
    if low <= last and high >= first:
        rows.characters(source, max(low, first), min(high, last), target)
    return 0
