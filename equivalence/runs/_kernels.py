"""Numba kernels of runs: byte strings side by side in byte order that every block treats alike.

What: cutting the groups of a trie into runs, numbering the classes of runs, listing the tokens of classes.
When: called by `equivalence.partition`, `equivalence.classes` and `equivalence.runs.order`; they say what
goes in and out.
Limits: none; what is proportional to the vocabulary here is copied in whole runs.
"""

from __future__ import annotations

import numpy as np
from numba import njit

kernel = njit(cache=True, nogil=True)

NOBODY = 1 << 62  # the least of no tokens


@kernel
def ones(word):
    """How many of the 32 bits of a word are set."""
    word = word - ((word >> 1) & 0x55555555)
    word = (word & 0x33333333) + ((word >> 2) & 0x33333333)
    word = (word + (word >> 4)) & 0x0F0F0F0F
    return ((word * 0x01010101) & 0xFFFFFFFF) >> 24


@kernel
def cut_groups(n_ranges, ranges, n_events, events, byte_starts, first_byte):
    """The coarsest runs of groups in which no range and no event begins or ends, nor a first byte.

    Returns (starts int64[runs + 1], first byte of each run, the ranges and the events with runs in place of
    groups).
    """
    n_groups = byte_starts[256]
    words = np.zeros((n_groups >> 5) + 1, np.int64)
    words[n_groups >> 5] |= 1 << (n_groups & 31)
    for b in range(256):
        g = byte_starts[b]
        words[g >> 5] |= 1 << (g & 31)
    for r in range(n_ranges):
        g = ranges[r, 0]
        words[g >> 5] |= 1 << (g & 31)
        g = ranges[r, 1]
        words[g >> 5] |= 1 << (g & 31)
    for e in range(n_events):
        g = events[e, 0]
        words[g >> 5] |= 1 << (g & 31)
        g += 1
        words[g >> 5] |= 1 << (g & 31)
    before = np.zeros(words.size + 1, np.int64)
    for w in range(words.size):
        before[w + 1] = before[w] + ones(words[w])
    n_runs = before[words.size] - 1
    starts = np.empty(n_runs + 1, np.int64)
    first = np.empty(n_runs, np.uint8)
    r = np.int64(0)
    for w in range(words.size):
        left = words[w]
        while left:
            lowest = left & -left
            starts[r] = 32 * w + ones(lowest - 1)
            left ^= lowest
            r += 1
    for r in range(n_runs):
        first[r] = first_byte[starts[r]]
    ranges_of_runs = np.empty((n_ranges, 2), np.int64)
    for r in range(n_ranges):
        for side in range(2):
            g = ranges[r, side]
            ranges_of_runs[r, side] = before[g >> 5] + ones(words[g >> 5] & ((1 << (g & 31)) - 1))
    events_of_runs = np.empty((n_events, 2), np.int64)
    for e in range(n_events):
        g = events[e, 0]
        events_of_runs[e, 0] = before[g >> 5] + ones(words[g >> 5] & ((1 << (g & 31)) - 1))
        events_of_runs[e, 1] = events[e, 1]
    return starts, first, ranges_of_runs, events_of_runs


@kernel
def least_tree(values):
    """A tree of minima over some values: a node's is that of nodes 2 i and 2 i + 1; leaves are in order."""
    n = values.size
    tree = np.full(max(2 * n, 1), NOBODY, np.int64)
    for i in range(n):
        tree[n + i] = values[i]
    for i in range(n - 1, 0, -1):
        tree[i] = min(tree[2 * i], tree[2 * i + 1])
    return tree


@kernel
def least_between(begin, end, tree):
    """The least of the values from `begin` to before `end`."""
    n = tree.size >> 1
    least = np.int64(NOBODY)
    low, high = begin + n, end + n
    while low < high:
        if low & 1:
            least = min(least, tree[low])
            low += 1
        if high & 1:
            high -= 1
            least = min(least, tree[high])
        low >>= 1
        high >>= 1
    return least


@kernel
def number_runs(class_of_run, run_starts, n_classes, first_ids, shortest, alone, group_of_token):
    """Token classes, dense from 0, from the classes of runs.

    The representative of a class is its shortest token, the lowest id among equals; classes are numbered in
    the order of their first ids. `first_ids` and `shortest` are `least_tree` of each group's least id, and of
    its length * 2**32 + id, without the ids of `alone`, which get a class of their own where their runs have
    one. Returns (representatives, class of each run, class of each of `alone`, -1 = none).
    """
    first = np.full(n_classes + alone.size, NOBODY, np.int64)
    short = np.full(n_classes + alone.size, NOBODY, np.int64)
    for r in range(class_of_run.size):
        c = class_of_run[r]
        if c >= 0:
            begin, end = run_starts[r], run_starts[r + 1]
            first[c] = min(first[c], least_between(begin, end, first_ids))
            short[c] = min(short[c], least_between(begin, end, shortest))
    for i in range(alone.size):
        g = group_of_token[alone[i]]
        if g >= 0 and class_of_run[np.searchsorted(run_starts, g, side="right") - 1] >= 0:
            first[n_classes + i] = alone[i]
            short[n_classes + i] = alone[i]
    number = np.full(first.size, -1, np.int32)
    representatives = np.empty(first.size, np.int32)
    n = np.int64(0)
    for c in np.argsort(first):
        if first[c] < NOBODY:
            number[c] = n
            representatives[n] = short[c] & 0xFFFFFFFF
            n += 1
    numbers = np.full(class_of_run.size, -1, np.int32)
    for r in range(class_of_run.size):
        if class_of_run[r] >= 0:
            numbers[r] = number[class_of_run[r]]
    return representatives[:n].copy(), numbers, number[n_classes:].copy()


@kernel
def tokens_of_runs(class_of_run, run_starts, token_starts, tokens, n_ids):
    """int32[n_ids]: the class of each id, -1 = in none; `tokens` are the ids by group."""
    result = np.full(n_ids, -1, np.int32)
    for r in range(class_of_run.size):
        c = class_of_run[r]
        for k in range(token_starts[run_starts[r]], token_starts[run_starts[r + 1]]):
            result[tokens[k]] = c
    return result


@kernel
def pieces_of_runs(class_of_run, run_starts, renumbered, token_starts):
    """Runs by class, the classes renumbered: (starts int64[classes + 1], begin and end int64[runs, 2] among
    the ids by group); -1 is left out. The runs of a class are in byte order."""
    n_classes = renumbered.size
    starts = np.zeros(n_classes + 1, np.int64)
    for r in range(class_of_run.size):
        if class_of_run[r] >= 0:
            starts[renumbered[class_of_run[r]] + 1] += 1
    for c in range(n_classes):
        starts[c + 1] += starts[c]
    at = starts[:-1].copy()
    pieces = np.empty((starts[n_classes], 2), np.int64)
    for r in range(class_of_run.size):
        if class_of_run[r] >= 0:
            c = renumbered[class_of_run[r]]
            pieces[at[c], 0] = token_starts[run_starts[r]]
            pieces[at[c], 1] = token_starts[run_starts[r + 1]]
            at[c] += 1
    return starts, pieces
