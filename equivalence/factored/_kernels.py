"""Kernels of `equivalence.factored`: tokens to terminal sequences, and classes of tokens by them.

What: flat arrays in, numbers out; see `equivalence.factored.walks` and `equivalence.factored.classes`.
When: called by the modules of this folder only.
Limits: nothing is validated. Numba's cache sees edits of this file only: the interning comes from
`equivalence.interning`, after an edit there delete the ``__pycache__`` folders.

A *path* is a terminal sequence as a number: path 0 is empty, any other is a path and one more terminal. A
*rest* is what a lexer state makes of a text: a path, and the state that the lexer is in then; -1 where the
text is dead.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from equivalence.interning._kernels import grown, grown_interned, intern, new_interned

kernel = njit(cache=True, nogil=True)

ALWAYS = -2
"""The kind of the sequence that every stack takes."""

MEMO_BITS = 18
"""Answers about two kinds that are kept; a table of all would take the square of the kinds."""


@kernel
def with_room(known, lists, width):
    """The same lists with room for some more of a width."""
    if (
        known.counts[0] + lists + 2 <= known.starts.size
        and known.counts[1] + lists * width <= known.pool.size
        and 2 * (known.counts[0] + lists) <= known.table.size
    ):
        return known
    return grown_interned(known, 2 * (known.starts.size + lists), width)


@kernel
def walk_blocks(
    states, bytes_, nodes, groups, longest, step, emitted, sequence, sequence_start, family, room
):
    """Read every token that begins with a byte, from the state that the lexer is in after that byte.

    Block i is (states[i], bytes_[i]), blocks in order of bytes. `nodes` is int32[N, 3] (byte, depth, skip) of
    the trie, `groups` the trie's `group`; `family` a number per state, equal for states with equal
    continuations. Returns (int64 starts of the rests of each block, int32 rests: one for each group below the
    block's byte; paths as interned lists [path, terminal]; rests as interned lists [path, family];
    int32[groups] classes of groups, equal iff all their rests are equal; number of these classes).
    """
    n_groups = groups[groups.size - 1]
    paths, rests = new_interned(1024, 2), new_interned(4096, 2)
    key = np.empty(2, np.int64)
    key[0], key[1] = -1, -1
    intern(key, 2, paths)
    top = np.full(256, -1, np.int64)
    node = 1
    while node < nodes.shape[0]:
        top[nodes[node, 0]] = node
        node = np.int64(nodes[node, 2])
    starts = np.zeros(states.size + 1, np.int64)
    found = np.empty(max(room, 1), np.int32)
    kind = np.zeros(n_groups, np.int32)
    fresh = np.int64(1)
    for b in range(256):  # tokens of different first bytes are first told apart by it
        if top[b] >= 0:
            for g in range(groups[top[b]], groups[nodes[top[b], 2]]):
                kind[g] = fresh
            fresh += 1
    state = np.zeros(longest + 2, np.int64)
    path = np.zeros(longest + 2, np.int64)
    for block in range(states.size):
        root = top[bytes_[block]]
        first, last = np.int64(groups[root]), np.int64(groups[nodes[root, 2]])
        begin = starts[block]
        starts[block + 1] = begin + last - first
        if begin + last - first > found.size:
            found = grown(found, 2 * (begin + last - first))
        found[begin : begin + last - first] = -1
        state[1], path[1] = states[block], 0
        split = new_interned(last - first, 2)
        rests = with_room(rests, last - first, 2)
        node = root
        while node < nodes[root, 2]:
            depth = np.int64(nodes[node, 1])
            if node > root:
                before = state[depth - 1]
                byte = np.int64(nodes[node, 0])
                after = np.int64(step[before, byte])
                if after < 0:
                    node = np.int64(nodes[node, 2])
                    continue
                state[depth] = after
                at = path[depth - 1]
                out = np.int64(emitted[before, byte])
                if out > 0:
                    if (
                        paths.counts[0] + sequence_start[out + 1] - sequence_start[out] + 2
                        > paths.starts.size
                    ):
                        paths = with_room(paths, sequence_start[out + 1] - sequence_start[out], 2)
                    for k in range(sequence_start[out], sequence_start[out + 1]):
                        key[0], key[1] = at, sequence[k]
                        at = intern(key, 2, paths)
                path[depth] = at
            if groups[node + 1] > groups[node]:
                group = np.int64(groups[node])
                key[0], key[1] = path[depth], family[state[depth]]
                rest = intern(key, 2, rests)
                found[begin + group - first] = rest
                key[0], key[1] = kind[group], rest
                kind[group] = fresh + intern(key, 2, split)
            node += 1
        fresh += split.counts[0]
    renumbered = np.full(fresh, -1, np.int32)
    n = 0
    for g in range(n_groups):
        if renumbered[kind[g]] < 0:
            renumbered[kind[g]] = n
            n += 1
        kind[g] = renumbered[kind[g]]
    return starts, found, paths, rests, kind, n


@kernel
def pairs_of(step, emitted, block_of, group_of, examples, first_byte, first_group, starts, found):
    """What each state makes of each class of groups, by the class's first group.

    `block_of` is int32[Q, 256], `examples` the first group of each class, `first_group` the first group below
    each byte, `group_of` int32[Q] what is known of the stack in a state. Returns (int32[Q, K] numbers of
    pairs, -1 where the text is dead; pairs as interned lists [emission, rest, group]).
    """
    n_states = step.shape[0]
    pairs = new_interned(4096, 3)
    key = np.empty(3, np.int64)
    out = np.full((n_states, examples.size), -1, np.int32)
    for state in range(n_states):
        pairs = with_room(pairs, examples.size, 3)
        for k in range(examples.size):
            group = np.int64(examples[k])
            byte = np.int64(first_byte[group])
            block = np.int64(block_of[state, byte])
            if block < 0:
                continue
            rest = np.int64(found[starts[block] + group - first_group[byte]])
            if rest < 0:
                continue
            key[0], key[1], key[2] = emitted[state, byte], rest, group_of[state]
            out[state, k] = intern(key, 3, pairs)
    return out, pairs


@kernel
def lengths_of_texts(pairs, rests, paths, sequence_start, family_sequence, family_start):
    """How many texts each pair has, and how many terminals each text; see `texts_of`."""
    n_pairs = pairs.counts[0]
    path_length = np.zeros(paths.counts[0], np.int64)
    for path in range(1, path_length.size):  # a path comes after the one that it continues
        path_length[path] = path_length[paths.pool[2 * path]] + 1
    counts = np.empty(n_pairs, np.int64)
    n = np.int64(0)
    for i in range(n_pairs):
        family = rests.pool[2 * pairs.pool[3 * i + 1] + 1]
        counts[i] = family_start[family + 1] - family_start[family]
        n += counts[i]
    lengths = np.empty(n, np.int64)
    n = 0
    for i in range(n_pairs):
        emission, rest = pairs.pool[3 * i], pairs.pool[3 * i + 1]
        front = sequence_start[emission + 1] - sequence_start[emission] + path_length[rests.pool[2 * rest]]
        family = rests.pool[2 * rest + 1]
        for k in range(family_start[family], family_start[family + 1]):
            tail = family_sequence[k]
            lengths[n] = front + sequence_start[tail + 1] - sequence_start[tail]
            n += 1
    return counts, lengths


@kernel
def texts_of(counts, lengths, pairs, rests, paths, sequence, sequence_start, family_sequence, family_start):
    """The terminal sequences of which one must be taken where a pair is allowed, for all pairs.

    A text is what the first byte emitted, then the path, then one of the sequences that may continue: those
    with the numbers `family_sequence[family_start[f]:family_start[f + 1]]`. `counts` and `lengths` come from
    `lengths_of_texts`. Returns (int32 terminals, int64 starts of texts, int64[pairs + 1] first text of each
    pair).
    """
    pair_start = np.zeros(counts.size + 1, np.int64)
    for i in range(counts.size):
        pair_start[i + 1] = pair_start[i] + counts[i]
    starts = np.zeros(lengths.size + 1, np.int64)
    for i in range(lengths.size):
        starts[i + 1] = starts[i] + lengths[i]
    texts = np.empty(starts[lengths.size], np.int32)
    for i in range(counts.size):
        emission, rest = pairs.pool[3 * i], pairs.pool[3 * i + 1]
        path, family = rests.pool[2 * rest], rests.pool[2 * rest + 1]
        for k in range(counts[i]):
            text = pair_start[i] + k
            place = starts[text]
            for j in range(sequence_start[emission], sequence_start[emission + 1]):
                texts[place] = sequence[j]
                place += 1
            tail = family_sequence[family_start[family] + k]
            first = sequence_start[tail]
            place = starts[text + 1] - (sequence_start[tail + 1] - first)
            for j in range(first, sequence_start[tail + 1]):
                texts[place + j - first] = sequence[j]
            at = path
            while at > 0:
                place -= 1
                texts[place] = paths.pool[2 * at + 1]
                at = paths.pool[2 * at]
    return texts, starts, pair_start


@kernel
def within(one, other, tops, cell_start, cells):
    """Whether each stack, with certain tops, that takes a kind of sequence takes another one too."""
    k = cell_start[other]
    for i in range(cell_start[one], cell_start[one + 1]):
        if not tops[cells[i, 0]]:
            continue
        while k < cell_start[other + 1] and cells[k, 0] < cells[i, 0]:
            k += 1
        if k == cell_start[other + 1] or cells[k, 0] != cells[i, 0]:
            return False
        if cells[k, 1] != 1 and cells[k, 1] != cells[i, 1]:
            return False
    return True


@kernel
def sets_of(kinds, pair_start, order, group_of, tops, alike, cell_start, cells):
    """The kinds of which one must be taken, for all pairs, without those that say nothing new.

    `kinds` is int32, one for each text: -1 taken by no stack, `ALWAYS`; `group_of` int32[pairs] says on which
    tops (bool[groups, S]) the stack's top is known to be, `order` are the pairs by group; `alike` is
    int32[groups, kinds], what a kind is on these tops: the first one that is equal there, -1, or `ALWAYS`.
    Returns (int32[pairs] numbers of sets, sets as interned sorted lists; set 0 is empty, set 1 is
    [`ALWAYS`]).
    """
    n_pairs = pair_start.size - 1
    n_kinds = np.int64(cell_start.size - 1)
    asked = np.full(
        1 << MEMO_BITS, -1, np.int64
    )  # what was asked of `within` last, of what falls in one place
    answer = np.zeros(1 << MEMO_BITS, np.bool_)
    sets = new_interned(n_pairs + 2, pair_start[n_pairs] // (n_pairs + 2) + 2)
    most = np.int64(1)
    for i in range(n_pairs):
        most = max(most, pair_start[i + 1] - pair_start[i])
    key = np.empty(most + 1, np.int64)
    intern(key, 0, sets)
    key[0] = ALWAYS
    intern(key, 1, sets)
    numbers = np.empty(n_pairs, np.int32)
    for i in order:
        group = np.int64(group_of[i])
        n = 0
        for text in range(pair_start[i], pair_start[i + 1]):
            kind = np.int64(kinds[text])
            if kind >= 0:
                kind = np.int64(alike[group, kind])
            if kind == ALWAYS:
                n = 1
                key[0] = ALWAYS
                break
            if kind < 0:
                continue
            k = 0
            while k < n and key[k] < kind:
                k += 1
            if k < n and key[k] == kind:
                continue
            for j in range(n, k, -1):
                key[j] = key[j - 1]
            key[k] = kind
            n += 1
        if n > 1:
            for a in range(n):
                for b in range(n):
                    if a != b and key[b] >= 0:
                        question = (group * n_kinds + key[a]) * n_kinds + key[b]
                        place = ((question * 0x2545F491) >> 8) & ((1 << MEMO_BITS) - 1)
                        if asked[place] != question:
                            asked[place] = question
                            answer[place] = within(key[a], key[b], tops[group], cell_start, cells)
                        if answer[place]:
                            key[a] = -1
                            break
            n = pack(key, n)
        numbers[i] = intern(key, n, sets)
    return numbers, sets


@kernel
def pack(key, n):
    """Drop the negative numbers from a list; returns the new length."""
    kept = 0
    for k in range(n):
        if key[k] >= 0:
            key[kept] = key[k]
            kept += 1
    return kept
