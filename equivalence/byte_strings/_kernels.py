"""Numba kernels of the classes of byte strings: flat arrays in, flat arrays out, nothing is validated here.

What: what a state reaches silently; the walk that cuts a trie into strings of byte classes; numbering.
When: called by `equivalence.byte_strings.automata` and `equivalence.byte_classes` only.
Limits: where a bound is met a kernel returns status 1. What is returned once the cell `stop` is 1
is of no use.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from equivalence.interning._kernels import grown, grown_rows, intern_list, mix

kernel = njit(cache=True, nogil=True)


@kernel
def silent_reach(n_nodes, steps, number_of, n_reading, entry_states, stop):
    """uint64[entries, words]: reading states reachable by silent steps; a least fixed point of bit sets."""
    words = max(1, (n_reading + 63) // 64)
    sets = np.zeros((n_nodes, words), np.uint64)
    one = np.uint64(1)
    for state in range(number_of.size):
        r = number_of[state]
        if r >= 0:
            sets[state, r >> 6] |= one << np.uint64(r & 63)
    changed = True
    while changed:
        changed = False
        for i in range(steps.shape[0] - 1, -1, -1):
            a, b = steps[i, 0], steps[i, 1]
            if stop[0]:
                return np.zeros((entry_states.size, words), np.uint64)
            for w in range(words):
                more = sets[a, w] | sets[b, w]
                if more != sets[a, w]:
                    sets[a, w] = more
                    changed = True
    reach = np.zeros((entry_states.size, words), np.uint64)
    for e in range(entry_states.size):
        reach[e] = sets[entry_states[e]]
    return reach


@kernel
def utf8_kind(byte):
    """0 ASCII, 1 continuation, 2 to 4 lead of a character of so many bytes, 5 never in UTF-8."""
    if byte < 0x80:
        return 0
    if byte < 0xC0:
        return 1
    if byte < 0xE0:
        return 2
    if byte < 0xF0:
        return 3
    return 4 if byte < 0xF8 else 5


@kernel
def byte_columns(starts, rows, stop):
    """For each reading state what each byte does: int64[R, 256], 0 nothing, else a number of the entry set.

    Numbers are per state: they are compared between bytes of one state only. Also (set starts, entries).
    """
    n = starts.size - 1
    columns = np.zeros((n, 256), np.int64)
    set_starts = np.zeros(2, np.int64)
    pool = np.zeros(64, np.int64)
    n_sets, used = 1, 0  # set 0 is empty
    for state in range(n):
        if stop[0]:
            break
        for byte in range(256):
            count = 0
            if used + (starts[state + 1] - starts[state]) > pool.size:
                pool = grown(pool, 2 * (used + starts[state + 1] - starts[state]))
            for k in range(starts[state], starts[state + 1]):
                if rows[k, 0] <= byte <= rows[k, 1]:
                    pool[used + count] = rows[k, 2]
                    count += 1
            if count == 0:
                continue
            # equal to the set of an earlier byte of this state? rows are in one order, so lists compare
            found = 0
            for other in range(byte):
                s = columns[state, other]
                if s > 0 and s != found and set_starts[s + 1] - set_starts[s] == count:
                    same = True
                    for i in range(count):
                        if pool[set_starts[s] + i] != pool[used + i]:
                            same = False
                            break
                    if same:
                        found = s
                        break
            if found == 0:
                if n_sets + 2 > set_starts.size:
                    set_starts = grown(set_starts, 2 * set_starts.size + 2)
                set_starts[n_sets] = used
                used += count
                set_starts[n_sets + 1] = used
                found = n_sets
                n_sets += 1
            columns[state, byte] = found
    return columns, set_starts[: n_sets + 1].copy(), pool[:used].copy()


@kernel
def distinct_rows(columns):
    """Number the states by how they *part* the bytes; returns (number of each state, one state of each)."""
    n = columns.shape[0]
    number = np.zeros(n, np.int64)
    example = np.zeros(n + 1, np.int64)
    size = 16
    while size < 4 * (n + 1):
        size *= 2
    table = np.full(size, -1, np.int64)
    starts = np.zeros(n + 2, np.int64)
    pool = np.zeros(256 * (n + 1), np.int64)
    counts = np.zeros(2, np.int64)
    key = np.zeros(256, np.int64)
    for state in range(n):
        low = 1 << 40
        for b in range(256):
            if columns[state, b] > 0:
                low = min(low, columns[state, b])
        for b in range(256):  # sets of one state are numbered in a row, in order of their first byte
            key[b] = columns[state, b] - low + 1 if columns[state, b] > 0 else 0
        before = counts[0]
        number[state] = intern_list(key, 256, table, starts, pool, counts)
        if counts[0] > before:
            example[number[state]] = state
    return number, example[: counts[0]].copy()


@kernel
def part_bytes(members, columns, part_of_state, example, seen, stamp, cls, pairs, stop):
    """Part the bytes by UTF-8 kind and by what every state of a bit set does on them.

    Fills `cls` (class of each byte, dense from 0; -1 where no state reads it); returns the number of classes.
    """
    n = 0
    first = np.zeros(256, np.int64)
    for b in range(256):
        cls[b] = utf8_kind(b)
    live = np.zeros(256, np.uint8)
    for w in range(members.size):
        word = members[w]
        if word == 0:
            continue
        for bit in range(64):
            if not (word >> np.uint64(bit)) & np.uint64(1):
                continue
            state = w * 64 + bit
            part = part_of_state[state]
            if seen[part] == stamp:
                continue
            seen[part] = stamp
            if stop[0]:
                return 0
            row = example[part]
            # refine: bytes stay together if they were and if the state does the same on them
            n = 0
            for b in range(256):
                if columns[row, b] > 0:
                    live[b] = 1
                found = -1
                for k in range(n):
                    a = first[k]
                    if pairs[a, 0] == cls[b] and pairs[a, 1] == columns[row, b]:
                        found = k
                        break
                if found < 0:
                    found = n
                    first[n] = b
                    n += 1
                pairs[b, 0] = cls[b]
                pairs[b, 1] = columns[row, b]
                pairs[b, 2] = found
            for b in range(256):
                cls[b] = pairs[b, 2]
    # classes on which nothing is read are dead
    number = np.full(256, -1, np.int64)
    n = 0
    for b in range(256):
        if not live[b]:
            cls[b] = -1
            continue
        if number[cls[b]] < 0:
            number[cls[b]] = n
            n += 1
        cls[b] = number[cls[b]]
    return n


@kernel
def walk(byte, depth, skip, group, longest, starts, rows, reach, in_context, max_sets, stop):
    """Strings of byte classes along a trie: (status, class of each group or -1, classes, sets of states).

    With `in_context` the bytes at each position are parted by the states that may be there; without, by all
    states at every position.
    """
    n_groups = group[-1]
    n_states = starts.size - 1
    words = reach.shape[1]
    class_of_group = np.full(n_groups, -1, np.int64)
    columns, set_starts, entries = byte_columns(starts, rows, stop)
    part_of_state, example = distinct_rows(columns)
    seen = np.zeros(example.size + 1, np.int64)
    pairs = np.zeros((256, 3), np.int64)
    cls = np.zeros(256, np.int64)
    one = np.uint64(1)

    members = np.zeros((16, words), np.uint64)  # the set of states of each number
    byte_class = np.zeros((16, 256), np.int64)
    following = np.full((16, 256), -1, np.int64)  # next set by class
    table_size = 64
    table = np.full(table_size, -1, np.int64)
    n_sets = 1
    for state in range(n_states):
        members[0, state >> 6] |= one << np.uint64(state & 63)
    part_bytes(members[0], columns, part_of_state, example, seen, 1, cls, pairs, stop)
    byte_class[0] = cls
    made = np.zeros(words, np.uint64)

    # strings of classes: nodes of a trie of classes, found by (parent, class)
    node_size = 1024
    node_table = np.full(node_size, -1, np.int64)
    node_keys = np.zeros((512, 2), np.int64)
    n_nodes = 1
    node_at = np.zeros(longest + 1, np.int64)
    set_at = np.zeros(longest + 1, np.int64)
    n_trie = byte.size
    i = 1
    while i < n_trie:
        d = depth[i]
        if stop[0]:
            return 0, class_of_group, n_nodes, n_sets
        current, b = set_at[d - 1], byte[i]
        c = byte_class[current, b]
        if c < 0:
            i = skip[i]
            continue
        target = np.int64(0)
        if in_context:
            target = following[current, c]
            if target < 0:
                made[:] = 0
                for w in range(words):
                    word = members[current, w]
                    if word == 0:
                        continue
                    for bit in range(64):
                        if (word >> np.uint64(bit)) & one:
                            s = columns[w * 64 + bit, b]
                            for k in range(set_starts[s], set_starts[s + 1]):
                                for v in range(words):
                                    made[v] |= reach[entries[k], v]
                h = 7
                for v in range(words):
                    h = mix(h, np.int64(made[v] & np.uint64(0x3FFFFFFF)))
                    h = mix(h, np.int64(made[v] >> np.uint64(30)))
                slot = h & (table_size - 1)
                while table[slot] >= 0:
                    same = True
                    for v in range(words):
                        if members[table[slot], v] != made[v]:
                            same = False
                            break
                    if same:
                        break
                    slot = (slot + 1) & (table_size - 1)
                target = table[slot]
                if target < 0:
                    if n_sets >= max_sets:
                        return 1, class_of_group, 0, n_sets
                    if n_sets == members.shape[0]:
                        larger = np.zeros((2 * n_sets, words), np.uint64)
                        larger[:n_sets] = members
                        members = larger
                        byte_class = grown_rows(byte_class, 2 * n_sets)
                        more = np.full((2 * n_sets, 256), -1, np.int64)
                        more[:n_sets] = following
                        following = more
                    target = np.int64(n_sets)
                    members[target] = made
                    part_bytes(made, columns, part_of_state, example, seen, target + 1, cls, pairs, stop)
                    byte_class[target] = cls
                    table[slot] = target
                    n_sets += 1
                    if 2 * n_sets > table_size:
                        table_size *= 2
                        table = np.full(table_size, -1, np.int64)
                        for t in range(1, n_sets):
                            h = 7
                            for v in range(words):
                                h = mix(h, np.int64(members[t, v] & np.uint64(0x3FFFFFFF)))
                                h = mix(h, np.int64(members[t, v] >> np.uint64(30)))
                            slot = h & (table_size - 1)
                            while table[slot] >= 0:
                                slot = (slot + 1) & (table_size - 1)
                            table[slot] = t
                following[current, c] = target
        parent = node_at[d - 1]
        slot = mix(mix(1, parent), c) & (node_size - 1)
        while node_table[slot] >= 0:
            k = node_table[slot]
            if node_keys[k, 0] == parent and node_keys[k, 1] == c:
                break
            slot = (slot + 1) & (node_size - 1)
        node = node_table[slot]
        if node < 0:
            if n_nodes == node_keys.shape[0]:
                node_keys = grown_rows(node_keys, 2 * n_nodes)
            node = np.int64(n_nodes)
            node_keys[node, 0] = parent
            node_keys[node, 1] = c
            node_table[slot] = node
            n_nodes += 1
            if 2 * n_nodes > node_size:
                node_size *= 2
                node_table = np.full(node_size, -1, np.int64)
                for k in range(1, n_nodes):
                    slot = mix(mix(1, node_keys[k, 0]), node_keys[k, 1]) & (node_size - 1)
                    while node_table[slot] >= 0:
                        slot = (slot + 1) & (node_size - 1)
                    node_table[slot] = k
        node_at[d] = node
        set_at[d] = target
        if group[i + 1] > group[i]:
            class_of_group[group[i]] = node
        i += 1
    return 0, class_of_group, n_nodes, n_sets


@kernel
def number_keys(keys, n_keys, lengths):
    """Dense classes from keys (-1 = none): (class of each token, representatives).

    Classes are numbered in the order of their first ids; a representative is the shortest token, the lowest
    id among equals.
    """
    number = np.full(n_keys + 1, -1, np.int64)
    result = np.full(keys.size, -1, np.int32)
    representatives = np.zeros(min(n_keys, keys.size) + 1, np.int32)
    n = 0
    for t in range(keys.size):
        key = keys[t]
        if key < 0:
            continue
        if number[key] < 0:
            number[key] = n
            representatives[n] = t
            n += 1
        k = number[key]
        result[t] = k
        if lengths[t] < lengths[representatives[k]]:
            representatives[k] = t
    return result, representatives[:n].copy()
