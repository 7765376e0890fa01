# cython: language_level=3
# mypy: ignore-errors
"""Texts as rows: declared keys, strings that a schema lists, and languages of strings.

What: `TreeWriter` writes the nodes of trees (`key_tree.py`) between the quotes of a JSON string,
`write_listed` listed texts, `write_plainly` the texts of an automaton, `write_others` all texts except some.
Printable ASCII characters stand for themselves (`"` and `\\` escaped, `/` also as `\\/`), every other
character may have any spelling.
When: while objects and listed strings are written (`hybrid.json_schema.structure_writers`).
Limits: parts that versions of a tree share are written once. Equal parts of different trees are written
again; the network merges equal states anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cython
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.json_schema.key_tree import Branch, KeyTree, n_common
from cython.cimports.hybrid.json_schema.rows import Rows

from equivalence.arrays import ranges
from hybrid.json_schema.languages.spelling import BESIDE_PLAIN, SHORT

check_source(__name__)

LAST = cython.declare(cython.Py_ssize_t, ranges.LAST)  # the last code point

_SHORT_ESCAPES = {character: f"\\{letter}" for letter, character in SHORT.items()}


@cython.final
@cython.cclass
class TreeWriter:
    """Writes trees. A tree is written only once, and remembers where.

    Args:
        rows: where they are written.
        ended: called when a text ends, with the state and the tree's content there. It writes the closing
            quote and what follows.
    """

    def __init__(self, rows: Rows, ended: Callable[[int, int], None]) -> None:
        self._rows, self._ended = rows, ended
        self._todo = []

    def state_of(self, tree: KeyTree) -> cython.Py_ssize_t:
        """Return the state in which a tree starts."""
        if not tree.branches and tree.state < 0:
            raise ValueError("a tree without keys cannot be written: all writers share it")
        if tree.begin < 0:
            tree.begin = self._rows.state()
            self._todo.append((tree, tree.begin))
        return tree.begin

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
            _spell(self._rows, state, label, self.state_of(branch.below))
            return
        if branch.behind_first < 0:  # versions of a tree share what follows the first character
            below = self.state_of(branch.below)
            branch.behind_first = self._rows.run(label, 1, below) if len(label) > 1 else below
        self._rows.letter(state, label[0], branch.behind_first)


@cython.cfunc
def _is_plain(label: str) -> cython.bint:
    """Whether all characters of a label stand for themselves only."""
    letter: cython.Py_UCS4
    for letter in label:
        if not 0x20 <= letter <= 0x7E or letter == '"' or letter == "\\" or letter == "/":
            return False
    return True


@cython.cfunc
def _spell(rows: Rows, state: cython.Py_ssize_t, label: str, target: cython.Py_ssize_t) -> object:
    """Add edges that read a label, each character in all its spellings."""
    for i, letter in enumerate(label):
        after = target if i == len(label) - 1 else rows.state()
        short = _SHORT_ESCAPES.get(letter)
        if short is not None:
            rows.text(state, short, after)
        if letter < " " or letter > "~":
            _escaped(rows, state, letter, after)
        if letter >= " " and letter not in '"\\':
            rows.characters(state, ord(letter), ord(letter), after)
        state = after


@cython.cfunc
def _escaped(rows: Rows, state: cython.Py_ssize_t, letter: str, target: cython.Py_ssize_t) -> object:
    """Add edges that read a character as `\\u` code units with four digits in upper or lower case."""
    units = letter.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(units), 2):
        behind = rows.state()
        rows.text(state, "\\u", behind)
        state = behind
        digits = f"{int.from_bytes(units[i : i + 2], 'big'):04x}"
        for j, digit in enumerate(digits):
            after = target if i + 2 == len(units) and j == 3 else rows.state()
            rows.letter(state, digit, after)
            if digit > "9":
                rows.letter(state, digit.upper(), after)
            state = after


def write_listed(rows: Rows, texts: list, source: cython.Py_ssize_t, end: cython.Py_ssize_t) -> None:
    """Write some texts and the closing quote: a state for each beginning after which they differ.

    Args:
        rows: where they are written.
        texts: the texts, sorted and distinct.
        source, end: the states before the first character and after the closing quote.
    """
    last: cython.Py_ssize_t = rows.state()  # after a text that begins no other one
    rows.letter(last, '"', end)
    todo: list = [(0, len(texts), 0, source)] if texts else []
    text: str
    label: str
    i: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    depth: cython.Py_ssize_t
    state: cython.Py_ssize_t
    while todo:
        i, stop, depth, state = todo.pop()  # texts i to stop - 1 have the same first characters
        text = texts[i]
        if len(text) == depth:
            rows.letter(state, '"', end)
            i += 1
        while i < stop:
            following: cython.Py_ssize_t = _end_of_group(texts, i, stop, depth)
            text = texts[i]
            label = text[depth:]
            target = last
            if following > i + 1:  # what the first and the last of them share, all share
                label = label[: n_common(label, texts[following - 1], depth)]
                target = rows.state()
                todo.append((i, following, depth + len(label), target))
            if _is_plain(label):
                rows.text(state, label, target)
            else:
                _spell(rows, state, label, target)
            i = following


@cython.final
@cython.cclass
class PlainWriter:
    """Writes states of a language of texts, printable ASCII as itself and all other characters as calls.

    A backslash must stand before `"` and `\\`, and may stand before `/`. The spellings `\\u00` with two
    digits are left out: each state would need about twelve more for them, and each text has a spelling
    without them.

    Args:
        rows: where they are written.
        rule_of: the rule that reads one character of some ranges, which are not printable ASCII.
    """

    def __init__(self, rows: Rows, rule_of: Callable[[tuple], int]) -> None:
        self._rows, self._rule_of = rows, rule_of
        self._calling = {}
        self._escaping = {}  # the state after a backslash, by the targets of the characters after it
        self._wide = {}  # for each state that follows, the characters that are not printable ASCII
        self._quote = self._slash = self._backslash = -1

    def add(self, state, low, high, target) -> cython.int:
        """Add an edge that reads the characters from `low` to `high`. All edges of a state must be added one
        after another, and `end` must follow."""
        if low < 0x20:
            self._wide.setdefault(target, []).append((low, min(high, 0x1F)))
        if high > 0x7E:
            self._wide.setdefault(target, []).append((max(low, 0x7F), high))
        self._within(state, low, high, 0x20, 0x21, target)
        self._within(state, low, high, 0x23, 0x5B, target)
        self._within(state, low, high, 0x5D, 0x7E, target)
        if low <= 0x22 <= high:
            self._quote = target
        if low <= 0x2F <= high:
            self._slash = target
        if low <= 0x5C <= high:
            self._backslash = target
        return 0

    def _within(self, state, low, high, first, last, target) -> cython.int:
        """Add an edge that reads the characters from `low` to `high` that are also from `first` to `last`."""
        if low <= last and high >= first:
            self._rows.characters(state, max(low, first), min(high, last), target)
        return 0

    def end(self, state: cython.Py_ssize_t) -> cython.int:
        """Add what all edges of a state share: its escapes, and its calls."""
        rows = self._rows
        if self._quote >= 0 or self._slash >= 0 or self._backslash >= 0:
            key: tuple = (self._quote, self._slash, self._backslash)
            known = self._escaping.get(key)
            escaping: cython.Py_ssize_t
            if known is not None:
                escaping = known
            else:  # with a state for each source, a grammar with undeclared keys had a third more edges
                escaping = self._escaping[key] = rows.state()
                if self._quote >= 0:
                    rows.letter(escaping, '"', self._quote)
                if self._slash >= 0:
                    rows.letter(escaping, "/", self._slash)
                if self._backslash >= 0:
                    rows.letter(escaping, "\\", self._backslash)
            rows.characters(state, 0x5C, 0x5C, escaping)
            self._quote = self._slash = self._backslash = -1
        for target, characters in self._wide.items():
            rows.call_shared(self._calling, state, self._rule_of(tuple(characters)), target)
        self._wide.clear()
        return 0


def write_plainly(rows: Rows, language: Any, rule_of: Callable[[tuple], int]) -> cython.Py_ssize_t:
    """Write the texts of a language, as `PlainWriter` does.

    Args:
        rows: where they are written.
        language: an automaton of texts. It takes time linear in its edges.
        rule_of: the rule that reads one character of some ranges, which are not printable ASCII.

    Returns:
        The state of the rules that is state 0 of the language; the others follow it.
    """
    writer: PlainWriter = PlainWriter(rows, rule_of)
    n: cython.Py_ssize_t = language.n_states
    first: cython.Py_ssize_t = rows.states(n)
    edges: cython.const[cython.longlong][:, ::1] = language.ranges
    n_edges: cython.Py_ssize_t = edges.shape[0]
    edge: cython.Py_ssize_t = 0
    state: cython.Py_ssize_t
    for state in range(n):
        while edge < n_edges and edges[edge, 0] == state:
            writer.add(first + state, edges[edge, 1], edges[edge, 2], first + edges[edge, 3])
            edge += 1
        writer.end(first + state)
    return first


def write_others(
    rows: Rows, texts: list, rule_of: Callable[[tuple], int], end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Write all texts except some, as `PlainWriter` does, and the closing quote.

    It writes what `write_plainly` would write for their automaton, without making the automaton: a state for
    each beginning that texts share, and one after all others. It takes time linear in the characters of the
    texts.

    Args:
        rows: where they are written.
        texts: the texts that are left out, at least one, sorted and distinct.
        rule_of: as for `write_plainly`.
        end: the state after the closing quote.

    Returns:
        The state before the first character.
    """
    writer: PlainWriter = PlainWriter(rows, rule_of)
    free: cython.Py_ssize_t = rows.state()  # no text that is left out can be read any more
    writer.add(free, 0, LAST, free)
    writer.end(free)
    rows.letter(free, '"', end)
    wide: cython.Py_ssize_t = rule_of(BESIDE_PLAIN)
    last: cython.Py_ssize_t = rows.state()  # after a text that begins no other one
    writer.add(last, 0, LAST, free)
    writer.end(last)
    start: cython.Py_ssize_t = rows.state()
    todo: list = [(0, len(texts), 0, start)]
    text: str
    i: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    depth: cython.Py_ssize_t
    state: cython.Py_ssize_t
    while todo:
        i, stop, depth, state = todo.pop()  # texts i to stop - 1 have the same first characters
        text = texts[i]
        if len(text) == depth:
            i += 1
        else:
            rows.letter(state, '"', end)
        first: cython.Py_ssize_t = _code(texts[i], depth) if i < stop else 0x20
        is_plain = first >= 0x20 and (i == stop or _code(texts[stop - 1], depth) <= 0x7E)
        low: cython.Py_ssize_t = 0x20 if is_plain else 0
        high: cython.Py_ssize_t = 0x7E if is_plain else LAST
        if is_plain:
            rows.call_shared(writer._calling, state, wide, free)
        while i < stop:
            code = _code(texts[i], depth)
            following: cython.Py_ssize_t = _end_of_group(texts, i, stop, depth)
            text = texts[i]
            if following > i + 1 or len(text) > depth + 1:
                target = rows.state()
                todo.append((i, following, depth + 1, target))
            else:
                target = last
            if low < code:
                writer.add(state, low, code - 1, free)
            writer.add(state, code, code, target)
            low = code + 1
            i = following
        if low <= high:
            writer.add(state, low, high, free)
        writer.end(state)
    return start


@cython.cfunc
def _end_of_group(
    texts: list, i: cython.Py_ssize_t, stop: cython.Py_ssize_t, depth: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Return the index after the last of sorted texts that have the same character at `depth` as text i."""
    code = _code(texts[i], depth)
    while i < stop and _code(texts[i], depth) == code:
        i += 1
    return i


@cython.cfunc
@cython.inline
def _code(text: str, i: cython.Py_ssize_t) -> cython.Py_ssize_t:
    return text[i]
