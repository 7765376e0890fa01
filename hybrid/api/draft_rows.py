# cython: language_level=3
# mypy: ignore-errors
"""All rows of a server's step: masks of many matchers, and masks after their draft tokens, in one call.

What: `fill_drafts` is for chains of draft tokens (or none), `fill_trees` for trees. Both look up what is
known without the interpreter's lock (`hybrid.classifier.lookup`), and move no matcher.
When: called by `hybrid.api.batch.BatchGrammarMatcher` and `GrammarMatcher.traverse_draft_tree`; several
threads may fill different rows of one bitmask.
Limits: callers must handle matchers that do not use a classifier, and those whose tables are full.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.api.calls import Calls
from cython.cimports.hybrid.classifier.cached_sequence import CachedSequence
from cython.cimports.hybrid.classifier.lookup import Lookup

from hybrid.api.calls import count_masks
from hybrid.classifier.lookup import REPEATS

check_source(__name__)

PADDING = cython.declare(cython.Py_ssize_t, -1)

ONES: dict[int, Any] = {}
"""Rows in which every bit is set, by their size in bytes."""

EMPTY = np.zeros(2, np.int64)
"""The patch of a row of zeros."""

ADDRESS_OF_EMPTY = EMPTY.ctypes.data | 2


def fill_drafts(
    matchers: list, bitmask: Any, numbers: Any, drafts: list | None, rows_of_one: Callable
) -> list[int]:
    """Write the mask of each matcher, followed by the masks after each of its draft tokens.

    Args:
        matchers: at least one.
        bitmask: like that of `GrammarMatcher.fill_next_token_bitmask`.
        numbers: the number of each matcher's first row; rows must not overlap.
        drafts: the draft tokens of each matcher; None: there are none. A -1 ends the tokens.
        rows_of_one: called with a matcher and its tokens if it cannot be served here. It returns its rows,
            uint32[1 + tokens, words], and how many tokens were accepted.

    Returns:
        How many tokens of each matcher were accepted.

    Raises:
        BitmaskError: as for `GrammarMatcher.fill_next_token_bitmask`.
        MatcherError: a matcher has terminated.
        BudgetExceeded: a matcher has no mask within its budget, and there is no other strategy.
        TypeError, OverflowError: a token is not an integer of 64 bits. After any error, nothing was written.
    """
    n: cython.Py_ssize_t = len(matchers)
    n_bytes: cython.Py_ssize_t = 4 * matchers[0]._width
    rows = matchers[0]._rows_of(bitmask)
    count: cython.Py_ssize_t = rows.count
    first: cython.Py_ssize_t
    row_stride: cython.Py_ssize_t
    calls: Calls = matchers[0]
    if calls.bitmask is bitmask and bitmask is not None:
        first, row_stride = calls.address, calls.row_stride
    else:
        first, row_stride = rows.place
    total: cython.Py_ssize_t = n if drafts is None else n + sum(map(len, drafts))
    lookup = Lookup(n, total)
    can_serve_all: cython.bint = True
    i: cython.Py_ssize_t
    for i in range(n):
        tokens = () if drafts is None else drafts[i]
        wanted: object = numbers[i]
        if wanted < 0 or wanted >= count:  # it may be too large for a C integer
            rows.checked(wanted)
        number: cython.Py_ssize_t = wanted
        last: cython.Py_ssize_t = number + len(tokens)
        if last >= count:
            rows.checked(last)
        calls = matchers[i]
        if can_serve(calls, n_bytes, last > number):
            add_chain(lookup, calls.sequence, tokens, first + row_stride * number, row_stride)
        else:
            matchers[i]._rows_of(bitmask)  # checks its width
            can_serve_all = False
            add_chain(lookup, None, tokens, first + row_stride * number, row_stride)
    ones: cython.Py_ssize_t = address_of_ones(n_bytes)
    if can_serve_all and lookup.fill(ones, REPEATS, n_bytes):
        count_masks(total)
        return [0] * n if total == n else [lookup.n_accepted(i) for i in range(n)]
    lookup.find()
    left = set(lookup.left())
    taken: list = []
    for i in range(n):
        if lookup.followers[i] is None or i in left:
            masks, of_it = rows_of_one(matchers[i], () if drafts is None else drafts[i])
            lookup.set_rows(i, masks)
            taken.append(of_it)
        else:
            taken.append(-1)
    done = lookup.fill(ones, REPEATS, n_bytes)
    assert done, "unknown rows were given"
    count_masks(total)
    return [lookup.n_accepted(i) if taken[i] < 0 else taken[i] for i in range(n)]


@cython.cfunc
@cython.exceptval(-1, check=False)
def can_serve(calls: Calls, n_bytes: cython.Py_ssize_t, with_drafts: cython.bint) -> cython.bint:
    """Whether a matcher uses a classifier with rows of this size, and only tokens end its text.

    Raises:
        MatcherError: it has terminated.
    """
    known: CachedSequence = calls.sequence
    if known is None or known.rows.n_bytes != n_bytes or (with_drafts and known.ends_without_stop):
        return False
    if known.ended:
        known.refuse_ended()
    return True


@cython.cfunc
@cython.exceptval(-1, check=False)
def add_chain(
    lookup: Lookup, follower: object, tokens: object, address: cython.Py_ssize_t,
    row_stride: cython.Py_ssize_t,
) -> cython.int:  # fmt: skip
    """Add a sequence: a node for its place and for each token before the first -1, and a row for each token.

    Args:
        follower: None if the rows will be given.
        tokens: a list or tuple.
        address, row_stride: the address of the first row, and the distance from each row to the next.
    """
    sequence = lookup.follow(follower)
    node: cython.Py_ssize_t = PADDING
    if follower is not None:
        node = lookup.add(sequence, -1, 0)
    lookup.add_row(node, address)
    if not tokens:
        return 0
    token: cython.Py_ssize_t
    for token in tokens:
        if node != PADDING:
            node = PADDING if token == -1 else lookup.add(sequence, node, token)
        address += row_stride
        lookup.add_row(node, address)
    return 0


def fill_trees(
    matchers: list, rows: Any, numbers: Any, children: cython.Py_ssize_t[:, ::1],
    siblings: cython.Py_ssize_t[:, ::1], tokens: cython.Py_ssize_t[:, ::1], writes_zeros: bool, finds: bool,
) -> list[int]:  # fmt: skip
    """Write the masks of trees of draft tokens; each tree starts at the place of its matcher.

    Args:
        matchers: one for each tree.
        rows: the rows of the bitmask (`hybrid.api.bitmask.Rows`), which fits all of them.
        numbers: the number of the row of each tree's node 0, which the rows of its other nodes follow. They
            are rows of the bitmask, and do not overlap.
        children, siblings, tokens: int64[trees, nodes]: for each node the first child, the next child of
            the same parent (-1 if there is none), and the token; node 0 is the place of the matcher.
        writes_zeros: whether a node that is not accepted, or after which the text has ended, gets a row of
            zeros. Otherwise its row is unchanged. Rows of nodes below it are always unchanged.
        finds: whether unknown masks are computed.

    Returns:
        The trees for which nothing was written: their matchers must be asked one by one.

    Raises:
        ValueError: the arrays of some matcher are not a tree; the message is its number, and nothing was
            written.
        BudgetExceeded: as `fill_drafts`.
    """
    trees: cython.Py_ssize_t = len(matchers)
    nodes: cython.Py_ssize_t = tokens.shape[1]
    if children.shape[0] != trees or siblings.shape[0] != trees or tokens.shape[0] != trees:
        raise IndexError("matchers and trees must have the same length")
    if children.shape[1] != nodes or siblings.shape[1] != nodes:
        raise IndexError("the trees have different numbers of nodes")
    n_bytes: cython.Py_ssize_t = 4 * matchers[0]._width
    first: cython.Py_ssize_t
    row_stride: cython.Py_ssize_t
    first, row_stride = rows.place
    lookup = Lookup(trees, trees * nodes)
    reached = np.empty(nodes, np.int64)
    waiting = np.empty((nodes + 1, 2), np.int64)
    left: list = []
    places: list = []
    i: cython.Py_ssize_t
    for i in range(trees):
        calls: Calls = matchers[i]
        known: CachedSequence = calls.sequence
        if known is None or known.rows.n_bytes != n_bytes or known.ends_without_stop:
            left.append(i)
            continue
        number: cython.Py_ssize_t = numbers[i]
        rows.checked(number)
        rows.checked(number + nodes - 1)
        places.append(i)
        sequence = lookup.follow(known)
        if not add_tree(
            lookup, sequence, children[i], siblings[i], tokens[i], reached, waiting,
            first + row_stride * number, row_stride,
        ):  # fmt: skip
            raise ValueError(i)
    refused: cython.Py_ssize_t = ADDRESS_OF_EMPTY if writes_zeros else 0
    if not lookup.fill(0, refused, n_bytes):
        if finds:
            lookup.find()
        left += [places[sequence] for sequence in lookup.left()]
        done = lookup.fill(0, refused, n_bytes)
        assert done, "sequences with unknown rows were left out"
    count_masks(nodes * (trees - len(left)))
    return left


@cython.cfunc
@cython.exceptval(-1, check=False)
def add_tree(
    lookup: Lookup, sequence: cython.Py_ssize_t, children: cython.Py_ssize_t[::1],
    siblings: cython.Py_ssize_t[::1], tokens: cython.Py_ssize_t[::1], reached: cython.Py_ssize_t[::1],
    waiting: cython.Py_ssize_t[:, ::1], address: cython.Py_ssize_t, row_stride: cython.Py_ssize_t,
) -> cython.bint:  # fmt: skip
    """Add a node and a row for each node that can be reached from the root. Return whether it is a tree."""
    nodes = tokens.shape[0]
    n_waiting: cython.Py_ssize_t = 1
    i: cython.Py_ssize_t
    if nodes == 0 or siblings[0] != -1:
        return False
    for i in range(nodes):
        reached[i] = 0
    waiting[0, 0] = 0
    waiting[0, 1] = -1
    reached[0] = 1
    while n_waiting:
        n_waiting -= 1
        node = waiting[n_waiting, 0]
        parent = waiting[n_waiting, 1]
        added = lookup.add(sequence, parent, tokens[node])
        lookup.add_row(added, address + row_stride * node)
        for after, above in ((siblings[node], parent), (children[node], added)):
            if after == -1:
                continue
            if not 0 < after < nodes or reached[after]:
                return False
            reached[after] = 1
            waiting[n_waiting, 0] = after
            waiting[n_waiting, 1] = above
            n_waiting += 1
    return True


@cython.cfunc
@cython.exceptval(-1, check=False)
def address_of_ones(n_bytes: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The address of a row with this number of bytes in which every bit is set."""
    found = ONES.get(n_bytes)
    if found is None:
        words = np.full(n_bytes // 4, -1, np.int32)
        found = ONES[n_bytes] = words, words.ctypes.data
    return found[1]
