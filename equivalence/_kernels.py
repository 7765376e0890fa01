"""All numba kernels of this folder: flat arrays in, flat arrays out, nothing is validated here.

What: the inner loops of `trie`, `explore` and `partition`, in that order.
When: called by those modules only; they validate, name and document what goes in and out.
Limits: a kernel never guesses: where a fixed capacity is exceeded it returns status 1 and the caller
raises `BudgetExceeded`.

They are plain functions that also run as Python (``NUMBA_DISABLE_JIT=1``). Values are widened to int64 on
load and hashes stay below 2**61, so that compiled code and Python agree bit for bit. Hash tables only find
candidates: every key is compared exactly, so no result depends on luck.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from equivalence.interning._kernels import grown, grown_rows, insert_sorted, intern_list, mix, utf8_step

kernel = njit(cache=True, nogil=True)

# ---------------------------------------------------------------- trie


@kernel
def build_trie(data, offsets, longest):
    """The flat trie of sorted distinct strings; see `equivalence.trie.Trie`."""
    n_groups = offsets.size - 1
    n = 1
    for g in range(n_groups):
        begin, end = offsets[g], offsets[g + 1]
        shared = 0
        if g > 0:
            before = offsets[g - 1]
            limit = min(end - begin, begin - before)
            while shared < limit and data[before + shared] == data[begin + shared]:
                shared += 1
        n += end - begin - shared
    byte = np.zeros(n, np.uint8)
    depth = np.zeros(n, np.int32)
    skip = np.zeros(n, np.int32)
    group = np.zeros(n + 1, np.int32)
    path = np.zeros(longest + 1, np.int64)
    parent = np.zeros(n, np.int32)
    node = 1
    open_depth = 0
    for g in range(n_groups):
        begin, end = offsets[g], offsets[g + 1]
        shared = 0
        if g > 0:
            before = offsets[g - 1]
            limit = min(end - begin, begin - before)
            while shared < limit and data[before + shared] == data[begin + shared]:
                shared += 1
        for d in range(shared + 1, open_depth + 1):
            skip[path[d]] = node
        for d in range(shared + 1, end - begin + 1):
            byte[node] = data[begin + d - 1]
            depth[node] = d
            group[node] = g
            parent[node] = path[d - 1]
            path[d] = node
            node += 1
        open_depth = end - begin
    for d in range(open_depth + 1):
        skip[path[d]] = n
    group[n] = n_groups
    # a byte string is a prefix of its successors, so the node that ends group g comes before group g + 1
    below = np.zeros((n, 5), np.int64)
    valid = np.full(n, 0x7F, np.uint8)  # bit s: everything below is well-formed from decoder state s
    for i in range(n - 1, 0, -1):
        p = np.int64(parent[i])
        b = np.int64(byte[i])
        for w in range(4):
            below[p, w] |= below[i, w]
        below[p, 4] |= below[i, 4] & 1
        if b < 128:
            below[p, b >> 5] |= 1 << (b & 31)
        else:
            below[p, 4] |= 1
        good = 0
        for s in range(7):
            t = utf8_step(s, b)
            if t >= 0 and (valid[i] >> t) & 1:
                good |= 1 << s
        valid[p] &= good
    for i in range(n):
        if valid[i] & 1:
            below[i, 4] |= 2
    return byte, depth, skip, group, below


@kernel
def build_suffixes(data, offsets):
    """The trie of the reversed strings: (parent, first byte, suffix of each whole string)."""
    n_groups = offsets.size - 1
    capacity = data.size + 1
    size = 16
    while size < 2 * capacity:
        size *= 2
    table = np.full(size, -1, np.int32)
    parent = np.zeros(capacity, np.int32)
    first = np.zeros(capacity, np.uint8)
    whole = np.zeros(n_groups, np.int32)
    n = 1
    for g in range(n_groups):
        current = 0
        for i in range(offsets[g + 1] - 1, offsets[g] - 1, -1):
            b = np.int64(data[i])
            slot = mix(mix(7, current), b) & (size - 1)
            while table[slot] >= 0 and not (parent[table[slot]] == current and first[table[slot]] == b):
                slot = (slot + 1) & (size - 1)
            if table[slot] < 0:
                table[slot] = n
                parent[n] = current
                first[n] = b
                n += 1
            current = np.int64(table[slot])
        whole[g] = current
    return parent[:n].copy(), first[:n].copy(), whole


# ---------------------------------------------------------------- exploring: configurations

# A stack node is (a, count, parent). a >= 0: a state (the top, or one to return to); a < 0: the frame
# -2 - (2 k + relative) of counted class k with `count` units read. Node 0 is the unknown rest of the stack.
# A configuration is the interned list [label, pops, -1 - port of each pop ..., top nodes ...]:
# label 0 means that the last byte was read whatever the stack holds; a label c > 0 that it was read if a
# relative counter had c units left. A pop through port c needs c units to fit the counter's bounds.
REJECT = 0  # the configuration of no stack at all: the last byte was not read
STAMP, NODES = 0, 1


@kernel
def new_space(n_states, node_capacity, config_capacity):
    """Empty tables of nodes and configurations, with configuration 0 = REJECT."""
    size = 16
    while size < 2 * node_capacity:
        size *= 2
    nodes = np.empty((node_capacity, 3), np.int64)
    labels = np.empty(node_capacity, np.int64)
    seen = np.empty(node_capacity, np.int64)
    node_table = np.full(size, -1, np.int32)
    nodes[0, 0] = 0
    nodes[0, 1] = 0
    nodes[0, 2] = -1
    labels[0] = 0
    seen[0] = 0
    size = 16
    while size < 2 * config_capacity:
        size *= 2
    table = np.full(size, -1, np.int32)
    starts = np.empty(config_capacity + 2, np.int64)
    starts[0] = 0
    pool = np.empty(32 * config_capacity, np.int64)
    counts = np.zeros(2, np.int64)
    steps = np.empty((config_capacity + 1, 256), np.int32)
    loops = np.empty((config_capacity + 1, 5), np.int64)
    state = np.zeros(2, np.int64)
    state[NODES] = 1
    key = np.full(2, -1, np.int64)
    intern_list(key, 2, table, starts, pool, counts)
    steps[0, :] = 0
    loops[0, :] = 0
    return nodes, labels, seen, node_table, table, starts, pool, counts, steps, loops, state


@kernel
def intern_node(a, count, parent, space, counted):
    """The number of a stack node, -1 where the capacity is exceeded."""
    nodes, labels, seen, node_table = space[0], space[1], space[2], space[3]
    state = space[10]
    size = node_table.size
    slot = mix(mix(mix(5, a + 1048576), count), parent) & (size - 1)
    while node_table[slot] >= 0:
        i = np.int64(node_table[slot])
        if nodes[i, 0] == a and nodes[i, 1] == count and nodes[i, 2] == parent:
            return i
        slot = (slot + 1) & (size - 1)
    i = state[NODES]
    if i >= nodes.shape[0]:
        return -1
    state[NODES] = i + 1
    nodes[i, 0] = a
    nodes[i, 1] = count
    nodes[i, 2] = parent
    seen[i] = 0
    if a < 0 and (-2 - a) & 1:
        labels[i] = count + 1 if counted[(-2 - a) >> 1, 2] >= 0 else 0
    else:
        labels[i] = labels[parent]
    node_table[slot] = i
    return i


@kernel
def close(work, depth, label, space, net):
    """Follow calls and returns from work items (state or -1 for a return, node below); -1: over capacity.

    `work` int64[n, 2] is used as the stack; it must not be kept by the caller.
    """
    final, edge_starts, edges, call_starts, calls, counted, state_loops = net
    nodes, labels, seen, node_table, table, starts, pool, counts, steps, loops, state = space
    state[STAMP] += 1
    stamp = state[STAMP]
    key = np.empty(16, np.int64)
    key[0] = label
    length = 2
    pops = 0
    while depth > 0:
        depth -= 1
        x, below = work[depth, 0], work[depth, 1]
        if depth + 8 > work.shape[0]:
            work = grown_rows(work, 2 * work.shape[0] + 8)
        if length + 2 > key.size:
            key = grown(key, 2 * key.size)
        if x >= 0:
            node = intern_node(x, 0, below, space, counted)
            if node < 0:
                return -1
            if seen[node] == stamp:
                continue
            seen[node] = stamp
            if edge_starts[x + 1] > edge_starts[x]:
                key[length] = node
                length += 1
            if depth + (call_starts[x + 1] - call_starts[x]) + 8 > work.shape[0]:
                work = grown_rows(work, 2 * work.shape[0] + call_starts[x + 1] - call_starts[x])
            for k in range(call_starts[x], call_starts[x + 1]):
                callee, back = calls[k, 0], calls[k, 1]
                frame = below
                if back >= 0:
                    frame = intern_node(back, 0, below, space, counted)
                    if frame < 0:
                        return -1
                if callee < 0:
                    unit = -1 - callee
                    frame = intern_node(-2 - 2 * unit, 0, frame, space, counted)
                    if frame < 0:
                        return -1
                    callee = counted[unit, 0]
                work[depth, 0] = callee
                work[depth, 1] = frame
                depth += 1
            if final[x]:
                work[depth, 0] = -1
                work[depth, 1] = below
                depth += 1
        else:
            port = -1
            a = nodes[below, 0]
            if below == 0:
                port = 0
            elif a >= 0:
                work[depth, 0] = a
                work[depth, 1] = nodes[below, 2]
                depth += 1
            else:
                unit = (-2 - a) >> 1
                relative = (-2 - a) & 1
                least = counted[unit, 1]
                most = counted[unit, 2] if relative else counted[unit, 3]
                count = nodes[below, 1] + 1
                if most < 0:
                    count = min(count, least)
                if relative:
                    port = count
                elif count >= least:
                    work[depth, 0] = -1
                    work[depth, 1] = nodes[below, 2]
                    depth += 1
                if most < 0 or count < most:
                    frame = intern_node(a, count, nodes[below, 2], space, counted)
                    if frame < 0:
                        return -1
                    work[depth, 0] = counted[unit, 0]
                    work[depth, 1] = frame
                    depth += 1
            if port >= 0:
                key[length] = -1 - port
                length += 1
    ordered = np.sort(key[2:length])
    length = 2
    for i in range(ordered.size):
        if i == 0 or ordered[i] != ordered[i - 1]:
            key[length] = ordered[i]
            length += 1
            if ordered[i] < 0:
                pops += 1
    key[1] = pops
    before = counts[0]
    config = intern_list(key, length, table, starts, pool, counts)
    if config < 0:
        return -1
    if counts[0] > before:
        steps[config, :] = REJECT  # but for the bytes of some edge
        for i in range(2 + pops, length):
            x = nodes[key[i], 0]
            for k in range(edge_starts[x], edge_starts[x + 1]):
                for b in range(edges[k, 0], edges[k, 1] + 1):
                    steps[config, b] = -1
        loops[config, :] = 0
        if label == 0:
            most_bits = 0
            for i in range(2 + pops, length):
                if labels[key[i]] == 0:
                    s = nodes[key[i], 0]
                    bits = 0
                    for w in range(4):
                        word = state_loops[s, w]
                        while word:
                            word &= word - 1
                            bits += 1
                    bits += 64 * state_loops[s, 4]
                    if bits > most_bits:
                        most_bits = bits
                        for w in range(5):
                            loops[config, w] = state_loops[s, w]
    return config


@kernel
def step_config(config, byte, space, net):
    """Compute and note the configuration after a byte; REJECT if no stack reads it, -1 over capacity."""
    steps = space[8]
    edge_starts, edges = net[1], net[2]
    nodes, labels = space[0], space[1]
    starts, pool = space[5], space[6]
    begin, end = starts[config], starts[config + 1]
    begin += 2 + pool[begin + 1]
    work = np.empty((2 * (end - begin) + 16, 2), np.int64)
    depth = 0
    label = np.int64(1 << 40)
    low, high = np.int64(0), np.int64(255)  # the bytes around this one that lead to the same configuration
    for i in range(begin, end):
        node = pool[i]
        x = nodes[node, 0]
        for k in range(edge_starts[x], edge_starts[x + 1]):
            if edges[k, 1] < byte:
                low = max(low, edges[k, 1] + 1)
            elif edges[k, 0] > byte:
                high = min(high, edges[k, 0] - 1)
                break
            else:
                low = max(low, edges[k, 0])
                high = min(high, edges[k, 1])
                work[depth, 0] = edges[k, 2]
                work[depth, 1] = nodes[node, 2]
                depth += 1
                label = min(label, labels[node])
    following = np.int64(REJECT)
    if depth > 0:
        following = close(work, depth, label, space, net)
    if following >= 0:
        for b in range(low, high + 1):
            steps[config, b] = following
    return following


@kernel
def start_config(symbol, unit, space, net):
    """The configuration of a context: a state (or -1 - k: counted class k, a unit just read) on top.

    `unit` >= 0 says that below the state lies the frame of that counted class, at an unknown count.
    """
    counted = net[5]
    work = np.empty((32, 2), np.int64)
    if symbol < 0:
        frame = intern_node(-2 - (2 * (-1 - symbol) + 1), 0, 0, space, counted)
        work[0, 0] = -1
        work[0, 1] = frame
    else:
        frame = np.int64(0)
        if unit >= 0:
            frame = intern_node(-2 - (2 * unit + 1), 0, 0, space, counted)
        work[0, 0] = symbol
        work[0, 1] = frame
    if frame < 0:
        return -1
    return close(work, 1, 0, space, net)


# ---------------------------------------------------------------- exploring: walks over the vocabulary

# An outcome is the interned list [label, (port, suffix) ...]: what a token does on a context. label -1:
# not read by the known part; 0: read outright (then nothing follows); c > 0: as in configurations; then the
# suffixes still to be read below the known part. With displacement, label is the final configuration.
NOTHING, OUTRIGHT = 0, 1


@kernel
def walk(node, start, first, trie, space, net, displacement, outcomes, ranges, n_ranges, events, n_events):
    """All tokens below a child `node` of the root, after whose byte the configuration is `start`.

    Appends ranges of groups read outright, and rows (group, outcome) of the others. `first` uint8[256]:
    bytes that can follow below the known part. Returns (status, ranges, n, events, n).
    """
    byte, tree_depth, skip, group, below, suffix_parent, group_suffix, longest = trie
    starts, pool, steps, loops = space[5], space[6], space[8], space[9]
    out_table, out_starts, out_pool, out_counts = outcomes
    configs = np.empty(longest + 2, np.int64)
    valid = np.empty(longest + 2, np.int64)
    most_pops = 4 * longest + 64
    pop_depth = np.empty(most_pops, np.int64)
    pop_port = np.empty(most_pops, np.int64)
    key = np.empty(2 * most_pops + 1, np.int64)
    pairs = np.empty(most_pops, np.int64)
    valid[0] = 0
    open_range = n_ranges  # ranges from here on may be extended
    i, n = np.int64(node), np.int64(skip[node])
    # room for all that this walk can add, because an array that a loop replaces costs 10 ns every time round
    room = np.int64(group[n] - group[node])
    if n_ranges + room > ranges.shape[0]:
        ranges = grown_rows(ranges, 2 * (n_ranges + room))
    if n_events + room > events.shape[0]:
        events = grown_rows(events, 2 * (n_events + room))
    while i < n:
        d = np.int64(tree_depth[i])
        pops = valid[d - 1]
        config = np.int64(REJECT)
        if d == 1:
            config = start
        elif configs[d - 1] != REJECT:
            above = configs[d - 1]
            b = np.int64(byte[i])
            at = starts[above]
            if pool[at + 1] > 0 and first[b]:
                for k in range(pool[at + 1]):
                    if pops == most_pops:
                        return 1, ranges, n_ranges, events, n_events
                    pop_depth[pops] = d - 1
                    pop_port[pops] = -1 - pool[at + 2 + k]
                    pops += 1
            config = np.int64(steps[above, b])
            if config < 0:  # not known yet; the call alone costs more than the look-up (0.4 us)
                config = step_config(above, b, space, net)
                if config < 0:
                    return 1, ranges, n_ranges, events, n_events
        if config == REJECT and pops == 0:
            i = np.int64(skip[i])
            continue
        configs[d] = config
        valid[d] = pops
        ends = group[i + 1] > group[i]
        label = np.int64(-1)
        if config != REJECT:
            label = config if displacement else pool[starts[config]]
        if label == 0 and not displacement:
            upto = np.int64(-1)
            inside = below[i, 4] & 1 == 0 or (loops[config, 4] == 1 and below[i, 4] & 2)
            if (
                inside
                and below[i, 0] & ~loops[config, 0] == 0
                and below[i, 1] & ~loops[config, 1] == 0
                and below[i, 2] & ~loops[config, 2] == 0
                and below[i, 3] & ~loops[config, 3] == 0
            ):
                upto = np.int64(group[skip[i]])
            elif ends:
                upto = np.int64(group[i]) + 1
            if upto >= 0:
                if n_ranges > open_range and ranges[n_ranges - 1, 1] == group[i]:
                    ranges[n_ranges - 1, 1] = upto
                else:
                    ranges[n_ranges, 0] = group[i]
                    ranges[n_ranges, 1] = upto
                    n_ranges += 1
                if upto == group[skip[i]]:
                    i = np.int64(skip[i])
                    continue
        elif ends:
            g = np.int64(group[i])
            key[0] = label
            length = 1
            if pops > 0:
                # suffixes of this token at the depths of its returns, in order of (port, suffix)
                n_pairs = 0
                suffix = np.int64(group_suffix[g])
                at = 0
                for k in range(pops):
                    while at < pop_depth[k]:
                        suffix = np.int64(suffix_parent[suffix])
                        at += 1
                    n_pairs = insert_sorted(pairs, n_pairs, pop_port[k] * 1073741824 + suffix)
                for k in range(n_pairs):
                    key[length] = pairs[k] >> 30
                    key[length + 1] = pairs[k] & 1073741823
                    length += 2
            outcome = intern_list(key, length, out_table, out_starts, out_pool, out_counts)
            if outcome < 0:
                return 1, ranges, n_ranges, events, n_events
            events[n_events, 0] = g
            events[n_events, 1] = outcome
            n_events += 1
        i += 1
    return 0, ranges, n_ranges, events, n_events


# A block is (byte, configuration after it): contexts that agree after a token's first byte treat all
# tokens with that first byte alike, so a block is walked once for all of them. The 50 contexts inside the
# property names of an object with additional properties have one block of string text in common.


@kernel
def find_blocks(contexts, byte_first, space, net):
    """The blocks of all contexts: (status, block starts by byte int64[257], block configurations, user
    starts int64[257], users (context, block) of each byte)."""
    steps = space[8]
    n_contexts = contexts.shape[0]
    after = np.zeros((n_contexts, 256), np.int32)
    starts = np.zeros(257, np.int64)
    for c in range(n_contexts):
        start = start_config(contexts[c, 0], contexts[c, 1], space, net)
        if start < 0:
            return 1, starts, starts, starts, contexts
        for b in range(256):
            if not byte_first[b]:
                continue
            config = np.int64(steps[start, b])
            if config < 0:
                config = step_config(start, b, space, net)
                if config < 0:
                    return 1, starts, starts, starts, contexts
            after[c, b] = config
            if config != REJECT:
                starts[b + 1] += 1
    for b in range(256):
        starts[b + 1] += starts[b]
    users = np.zeros((starts[256], 2), np.int64)
    block_starts = np.zeros(257, np.int64)
    blocks = np.zeros(starts[256], np.int64)
    number = np.full(space[7][0] + 1, -1, np.int64)
    n_blocks = 0
    n = 0
    for b in range(256):
        first_block = n_blocks
        for c in range(n_contexts):
            config = np.int64(after[c, b])
            if config == REJECT:
                continue
            if number[config] < first_block:
                number[config] = n_blocks
                blocks[n_blocks] = config
                n_blocks += 1
            users[n, 0] = c
            users[n, 1] = number[config]
            n += 1
        block_starts[b + 1] = n_blocks
    return 0, block_starts, blocks[:n_blocks].copy(), starts, users


@kernel
def walk_all(contexts, firsts, trie, net, displacement, node_capacity, config_capacity, outcome_capacity):
    """Walk every block of the contexts (symbol, unit).

    Returns (status, space, outcomes, block starts, user starts, users, range starts, ranges, event
    starts, events), ranges and events by block; status 1: over capacity.
    """
    byte, skip = trie[0], trie[2]
    space = new_space(net[0].size, node_capacity, config_capacity)
    size = 16
    while size < 2 * outcome_capacity:
        size *= 2
    out_table = np.full(size, -1, np.int32)
    out_starts = np.empty(outcome_capacity + 2, np.int64)
    out_starts[0] = 0
    out_pool = np.empty(16 * outcome_capacity, np.int64)
    out_counts = np.zeros(2, np.int64)
    outcomes = (out_table, out_starts, out_pool, out_counts)
    key = np.full(1, -1, np.int64)
    intern_list(key, 1, out_table, out_starts, out_pool, out_counts)  # NOTHING
    key[0] = 0
    intern_list(key, 1, out_table, out_starts, out_pool, out_counts)  # OUTRIGHT
    child = np.zeros(256, np.int64)
    i = 1
    while i < byte.size:
        child[byte[i]] = i
        i = np.int64(skip[i])
    status, block_starts, blocks, user_starts, users = find_blocks(contexts, child, space, net)
    n_blocks = blocks.size
    range_starts = np.zeros(n_blocks + 1, np.int64)
    event_starts = np.zeros(n_blocks + 1, np.int64)
    ranges = np.empty((4096, 2), np.int64)
    events = np.empty((4096, 2), np.int64)
    n_ranges, n_events = 0, 0
    if status:
        return (
            1,
            space,
            outcomes,
            block_starts,
            user_starts,
            users,
            range_starts,
            ranges,
            event_starts,
            events,
        )
    first = np.zeros((n_blocks, 256), np.uint8)
    for u in range(users.shape[0]):
        c, block = users[u, 0], users[u, 1]
        for b in range(256):
            first[block, b] |= firsts[c, b]
    for b in range(256):
        for block in range(block_starts[b], block_starts[b + 1]):
            status, ranges, n_ranges, events, n_events = walk(
                child[b],
                blocks[block],
                first[block],
                trie,
                space,
                net,
                displacement,
                outcomes,
                ranges,
                n_ranges,
                events,
                n_events,
            )
            if status:
                return (
                    1,
                    space,
                    outcomes,
                    block_starts,
                    user_starts,
                    users,
                    range_starts,
                    ranges,
                    event_starts,
                    events,
                )
            range_starts[block + 1] = n_ranges
            event_starts[block + 1] = n_events
    return (0, space, outcomes, block_starts, user_starts, users, range_starts, ranges, event_starts, events)


# ---------------------------------------------------------------- exploring: suffixes that read alike


@kernel
def suffix_classes(symbols, returns, trie, suffix_byte, space, net, displacement, outcomes, capacity):
    """For each suffix that an outcome leaves to be read, one suffix that reads alike on every symbol.

    Words after a blank are thousands of suffixes, and nearly all of them are one class of identifiers.
    `symbols` int64[n, 2] are rows (symbol, -1), `returns` uint8[n, 256] the bytes that can follow once a
    symbol has returned. Returns before the first byte are left out: the symbols below are symbols too.
    Returns (status, twin of each suffix or -1); status 1: over capacity.
    """
    suffix_parent = trie[5]
    twin = np.full(suffix_parent.size, -1, np.int32)
    every = np.ones(256, np.int64)
    status, block_starts, blocks, user_starts, users = find_blocks(symbols, every, space, net)
    if status:
        return 1, twin
    starts, pool, steps = space[5], space[6], space[8]
    first = np.zeros((blocks.size, 256), np.uint8)
    for u in range(users.shape[0]):
        for b in range(256):
            first[users[u, 1], b] |= returns[users[u, 0], b]
    size = 16
    while size < 2 * capacity:
        size *= 2
    results = (
        np.full(size, -1, np.int32),
        np.zeros(capacity + 2, np.int64),
        np.empty(16 * capacity, np.int64),
        np.zeros(2, np.int64),
    )
    by_block = (
        np.full(size, -1, np.int32),
        np.zeros(capacity + 2, np.int64),
        np.empty(64 * capacity, np.int64),
        np.zeros(2, np.int64),
    )
    full = (
        np.full(size, -1, np.int32),
        np.zeros(capacity + 2, np.int64),
        np.empty(64 * capacity, np.int64),
        np.zeros(2, np.int64),
    )
    class_of_block_list = np.zeros(capacity + 2, np.int64)
    example = np.zeros(capacity + 2, np.int32)
    wide = 1
    for b in range(256):
        wide = max(wide, block_starts[b + 1] - block_starts[b], user_starts[b + 1] - user_starts[b])
    result_of_block = np.zeros(wide + 2, np.int64)
    key = np.zeros(2 * wide + 4, np.int64)
    most_pops = 4 * trie[7] + 64
    pairs = np.empty(most_pops, np.int64)
    result_key = np.empty(2 * most_pops + 2, np.int64)
    stack = np.empty(suffix_parent.size + 1, np.int64)
    out_starts, out_pool, out_counts = outcomes[1], outcomes[2], outcomes[3]
    for outcome in range(out_counts[0]):
        for at in range(out_starts[outcome] + 2, out_starts[outcome + 1], 2):
            stack[0] = out_pool[at]
            depth = 1
            while depth > 0:
                suffix = stack[depth - 1]
                if twin[suffix] >= 0:
                    depth -= 1
                    continue
                b = np.int64(suffix_byte[suffix])
                waiting = False
                key[0] = b
                n_blocks = block_starts[b + 1] - block_starts[b]
                for i in range(n_blocks):
                    block = block_starts[b] + i
                    config = blocks[block]
                    rest = np.int64(suffix_parent[suffix])
                    n_pairs = 0
                    while rest != 0:
                        here = starts[config]
                        following_byte = np.int64(suffix_byte[rest])
                        if pool[here + 1] > 0 and first[block, following_byte]:
                            if twin[rest] < 0:
                                # its class is needed first; suffixes only get shorter
                                if not waiting or stack[depth - 1] != rest:
                                    stack[depth] = rest
                                    depth += 1
                                waiting = True
                                break
                            for j in range(pool[here + 1]):
                                if n_pairs + 1 >= most_pops:
                                    return 1, twin
                                port = -1 - pool[here + 2 + j]
                                pair = port * 1073741824 + np.int64(twin[rest])
                                n_pairs = insert_sorted(pairs, n_pairs, pair)
                        following = np.int64(steps[config, following_byte])
                        if following < 0:
                            following = step_config(config, following_byte, space, net)
                            if following < 0:
                                return 1, twin
                        config = following
                        if config == REJECT:
                            break
                        rest = np.int64(suffix_parent[rest])
                    if waiting:
                        break
                    label = np.int64(-1)
                    if config != REJECT:
                        label = config if displacement else pool[starts[config]]
                    result_key[0] = label
                    length = 1
                    if label != 0 or displacement:
                        for k in range(n_pairs):
                            result_key[length] = pairs[k]
                            length += 1
                    number = intern_list(result_key, length, results[0], results[1], results[2], results[3])
                    if number < 0:
                        return 1, twin
                    result_of_block[i] = 0 if length == 1 and label < 0 else number + 1
                    key[1 + i] = result_of_block[i]
                if waiting:
                    continue
                known = by_block[3][0]
                listed = intern_list(key, 1 + n_blocks, by_block[0], by_block[1], by_block[2], by_block[3])
                if listed < 0:
                    return 1, twin
                if listed == known:
                    length = 0
                    for u in range(user_starts[b], user_starts[b + 1]):
                        value = result_of_block[users[u, 1] - block_starts[b]]
                        if value:
                            key[length] = users[u, 0]
                            key[length + 1] = value
                            length += 2
                    known = full[3][0]
                    number = intern_list(key, length, full[0], full[1], full[2], full[3])
                    if number < 0:
                        return 1, twin
                    if number == known:
                        example[number] = suffix
                    class_of_block_list[listed] = number
                twin[suffix] = example[class_of_block_list[listed]]
                depth -= 1
    return 0, twin


@kernel
def rewrite_outcomes(outcomes, twin, event_starts, events):
    """Outcomes with every suffix replaced by its twin, interned anew; events are renumbered in place."""
    out_starts, out_pool, out_counts = outcomes[1], outcomes[2], outcomes[3]
    n = np.int64(out_counts[0])
    fresh = (
        np.full(outcomes[0].size, -1, np.int32),
        np.zeros(out_starts.size, np.int64),
        np.empty(out_pool.size, np.int64),
        np.zeros(2, np.int64),
    )
    number = np.zeros(n, np.int64)
    widest = 2
    for o in range(n):
        widest = max(widest, out_starts[o + 1] - out_starts[o])
    key = np.empty(widest + 2, np.int64)
    pairs = np.empty(widest + 2, np.int64)
    for o in range(n):
        key[0] = out_pool[out_starts[o]]
        n_pairs = 0
        for at in range(out_starts[o] + 1, out_starts[o + 1], 2):
            pair = out_pool[at] * 1073741824 + np.int64(twin[out_pool[at + 1]])
            n_pairs = insert_sorted(pairs, n_pairs, pair)
        for k in range(n_pairs):
            key[1 + 2 * k] = pairs[k] >> 30
            key[2 + 2 * k] = pairs[k] & 1073741823
        number[o] = intern_list(key, 1 + 2 * n_pairs, fresh[0], fresh[1], fresh[2], fresh[3])
    for e in range(event_starts[-1]):
        events[e, 1] = number[events[e, 1]]
    return fresh


# ---------------------------------------------------------------- exploring: what lies below

# An item is (set of suffixes, set of symbols that may lie below): the rest of a token, still to be read.


@kernel
def read_symbol(suffixes, symbol, first, suffix_parent, suffix_byte, space, net, displacement, outcomes):
    """The outcome of a set of suffixes on a symbol; -1 over capacity."""
    starts, pool, steps = space[5], space[6], space[8]
    out_table, out_starts, out_pool, out_counts = outcomes
    start = start_config(symbol, -1, space, net)
    if start < 0:
        return -1
    pairs = np.empty(32, np.int64)
    n_pairs = 0
    label = np.int64(-1)
    for k in range(suffixes.size):
        suffix = suffixes[k]
        config = start
        while suffix != 0:
            b = np.int64(suffix_byte[suffix])
            at = starts[config]
            if pool[at + 1] > 0 and first[b]:
                for j in range(pool[at + 1]):
                    if n_pairs + 2 > pairs.size:
                        pairs = grown(pairs, 2 * pairs.size)
                    port = -1 - pool[at + 2 + j]
                    n_pairs = insert_sorted(pairs, n_pairs, port * 1073741824 + suffix)
            following = np.int64(steps[config, b])
            if following < 0:
                following = step_config(config, b, space, net)
                if following < 0:
                    return -1
            config = following
            if config == REJECT:
                break
            suffix = np.int64(suffix_parent[suffix])
        if config != REJECT:
            if displacement:
                if n_pairs + 2 > pairs.size:
                    pairs = grown(pairs, 2 * pairs.size)
                n_pairs = insert_sorted(pairs, n_pairs, -1 - config)
            elif label < 0 or pool[starts[config]] < label:
                label = pool[starts[config]]
    if label == 0:
        return OUTRIGHT
    key = np.empty(2 * n_pairs + 1, np.int64)
    key[0] = label
    for k in range(n_pairs):
        if pairs[k] < 0:  # a final configuration
            key[2 * k + 1] = pairs[k] - 1
            key[2 * k + 2] = 0
        else:
            key[2 * k + 1] = pairs[k] >> 30
            key[2 * k + 2] = pairs[k] & 1073741823
    return intern_list(key, 2 * n_pairs + 1, out_table, out_starts, out_pool, out_counts)


@kernel
def add_item(suffixes, length, below, first_below, suffix_byte, sets, items, buffer):
    """The number of the item (those suffixes that can go on, below); -1 if none can, -2 over capacity."""
    n = 0
    for i in range(length):
        if first_below[suffix_byte[suffixes[i]]]:
            buffer[n] = suffixes[i]
            n += 1
    if n == 0:
        return -1
    number = intern_list(buffer, n, sets[0], sets[1], sets[2], sets[3])
    if number < 0:
        return -2
    buffer[0] = number
    buffer[1] = below
    item = intern_list(buffer, 2, items[0], items[1], items[2], items[3])
    return item if item >= 0 else -2


@kernel
def add_rows(rows, n_rows, outcome, below, first, suffix_byte, outcomes, sets, items):
    """Append an outcome's rows (tag, value) in terms of items; returns (status, rows, n_rows).

    tag -1: label; tag >= 0: port, value is an item; tag <= -2: a final configuration.
    """
    out_starts, out_pool = outcomes[1], outcomes[2]
    begin, end = out_starts[outcome], out_starts[outcome + 1]
    if n_rows + (end - begin) + 2 > rows.shape[0]:
        rows = grown_rows(rows, 2 * (n_rows + (end - begin) + 2))
    if out_pool[begin] >= 0:
        rows[n_rows, 0] = -1
        rows[n_rows, 1] = out_pool[begin]
        n_rows += 1
    i = begin + 1
    buffer = np.empty((end - begin) + 2, np.int64)
    chosen = np.empty((end - begin) + 2, np.int64)
    while i < end:
        port = out_pool[i]
        if port < 0:
            rows[n_rows, 0] = port
            rows[n_rows, 1] = 0
            n_rows += 1
            i += 2
            continue
        n = 0
        while i < end and out_pool[i] == port:
            chosen[n] = out_pool[i + 1]
            n += 1
            i += 2
        item = add_item(chosen, n, below, first[below], suffix_byte, sets, items, buffer)
        if item == -2:
            return 1, rows, n_rows
        if item >= 0:
            rows[n_rows, 0] = port
            rows[n_rows, 1] = item
            n_rows += 1
    return 0, rows, n_rows


@kernel
def color_outcomes(
    queries,
    below_starts,
    below_symbols,
    below_of_symbol,
    bottom,
    first,
    symbol_first,
    return_first,
    suffix_parent,
    suffix_byte,
    space,
    net,
    displacement,
    outcomes,
    item_capacity,
):
    """A number for each query (outcome, below): equal for equal sets of stacks that let the token through.

    0: none; 1: all of them (acceptance only). Set `below` holds the symbols ``below_symbols[k]``, for k from
    ``below_starts[below]``, each over set ``below_of_symbol[k]``; `bottom` marks sets that may be the empty
    stack. `first`, `symbol_first` and `return_first` are bytes that can come next on a set, on an
    occurrence k, and after an occurrence's symbol has returned. Returns (status, colors, items, rounds).
    """
    size = 16
    while size < 2 * item_capacity:
        size *= 2
    sets = (
        np.full(size, -1, np.int32),
        np.zeros(item_capacity + 2, np.int64),
        np.empty(16 * item_capacity, np.int64),
        np.zeros(2, np.int64),
    )
    items = (
        np.full(size, -1, np.int32),
        np.zeros(item_capacity + 2, np.int64),
        np.empty(2 * item_capacity + 2, np.int64),
        np.zeros(2, np.int64),
    )
    memo = (
        np.full(2 * size, -1, np.int32),
        np.zeros(2 * item_capacity + 2, np.int64),
        np.empty(4 * item_capacity + 4, np.int64),
        np.zeros(2, np.int64),
    )
    memo_value = np.empty(2 * item_capacity + 2, np.int64)
    n_queries = queries.shape[0]
    colors = np.zeros(n_queries, np.int64)
    rows = np.empty((1024, 2), np.int64)
    n_rows = 0
    query_starts = np.zeros(n_queries + 1, np.int64)
    for q in range(n_queries):
        status, rows, n_rows = add_rows(
            rows, n_rows, queries[q, 0], queries[q, 1], first, suffix_byte, outcomes, sets, items
        )
        if status:
            return 1, colors, 0, 0
        query_starts[q + 1] = n_rows
    # every item read on every symbol that may lie below it
    item_starts = np.zeros(item_capacity + 2, np.int64)
    item_starts[0] = n_rows
    key = np.empty(2, np.int64)
    done = 0
    while done < items[3][0]:
        number, below = items[2][2 * done], items[2][2 * done + 1]
        suffixes = sets[2][sets[1][number] : sets[1][number + 1]].copy()
        for k in range(below_starts[below], below_starts[below + 1]):
            symbol = below_symbols[k]
            can = False
            for i in range(suffixes.size):
                if symbol_first[k, suffix_byte[suffixes[i]]]:
                    can = True
                    break
            if n_rows + 2 > rows.shape[0]:
                rows = grown_rows(rows, 2 * n_rows + 2)
            if can:
                key[0] = number
                key[1] = symbol
                known = memo[3][0]
                at = intern_list(key, 2, memo[0], memo[1], memo[2], memo[3])
                if at < 0:
                    return 1, colors, 0, 0
                if at == known:
                    memo_value[at] = read_symbol(
                        suffixes,
                        symbol,
                        return_first[k],
                        suffix_parent,
                        suffix_byte,
                        space,
                        net,
                        displacement,
                        outcomes,
                    )
                    if memo_value[at] < 0:
                        return 1, colors, 0, 0
                status, rows, n_rows = add_rows(
                    rows,
                    n_rows,
                    memo_value[at],
                    below_of_symbol[k],
                    first,
                    suffix_byte,
                    outcomes,
                    sets,
                    items,
                )
                if status:
                    return 1, colors, 0, 0
            if n_rows + 2 > rows.shape[0]:
                rows = grown_rows(rows, 2 * n_rows + 2)
            rows[n_rows, 0] = -1  # the end of a symbol: a label that no outcome has
            rows[n_rows, 1] = -1
            n_rows += 1
        done += 1
        item_starts[done] = n_rows
    n_items = done
    color = np.zeros(n_items, np.int64)
    # 0: no stack lets it through (the complement of a least fixed point)
    changed = True
    while changed:
        changed = False
        for i in range(n_items - 1, -1, -1):
            if color[i]:
                continue
            for r in range(item_starts[i], item_starts[i + 1]):
                tag, value = rows[r, 0], rows[r, 1]
                if (tag == -1 and value >= 0) or tag <= -2 or (tag >= 0 and color[value]):
                    color[i] = 2
                    changed = True
                    break
    # 1: every stack lets it through (a least fixed point)
    changed = not displacement
    while changed:
        changed = False
        for i in range(n_items - 1, -1, -1):
            if color[i] != 2 or bottom[items[2][2 * i + 1]]:
                continue
            sure, here = True, False
            for r in range(item_starts[i], item_starts[i + 1]):
                tag, value = rows[r, 0], rows[r, 1]
                if tag == -1 and value == -1:
                    if not here:
                        sure = False
                        break
                    here = False
                elif (tag == -1 and value == 0) or (tag == 0 and color[value] == 1):
                    here = True
            if sure:
                color[i] = 1
                changed = True
    # the rest: refine until stable
    wide = 4
    for i in range(n_items):
        wide = max(wide, item_starts[i + 1] - item_starts[i])
    buffer = np.empty(2 * wide + 4, np.int64)
    pairs = np.empty(2 * wide + 4, np.int64)
    renewed = np.zeros(n_items, np.int64)
    table = np.full(size, -1, np.int32)
    starts = np.zeros(item_capacity + 2, np.int64)
    pool = np.empty(2 * (n_rows + n_items + n_queries) + 16, np.int64)
    counts = np.zeros(2, np.int64)
    n_colors, rounds = 0, 0
    while True:
        rounds += 1
        table[:] = -1
        counts[0] = 0
        counts[1] = 0
        for i in range(n_items):
            if color[i] < 2:
                renewed[i] = color[i]
                continue
            buffer[0] = items[2][2 * i + 1]
            length = row_colors(rows, item_starts[i], item_starts[i + 1], color, buffer, 1, pairs)
            number = intern_list(buffer, length, table, starts, pool, counts)
            if number < 0:
                return 1, colors, n_items, rounds
            renewed[i] = 2 + number
        stable = counts[0] == n_colors
        n_colors = np.int64(counts[0])
        color[:] = renewed
        if stable:
            break
    # queries: the same, once
    size = 16
    while size < 2 * n_queries + 4:
        size *= 2
    table = np.full(size, -1, np.int32)
    starts = np.zeros(n_queries + 4, np.int64)
    counts[0] = 0
    counts[1] = 0
    for q in range(n_queries):
        n = query_starts[q + 1] - query_starts[q]
        if 2 * n + 4 > buffer.size:
            buffer = np.empty(2 * n + 4, np.int64)
            pairs = np.empty(2 * n + 4, np.int64)
        buffer[0] = queries[q, 1]
        length = row_colors(rows, query_starts[q], query_starts[q + 1], color, buffer, 1, pairs)
        if length == 1:
            continue
        if length == 2 and buffer[1] == OUTRIGHT_PAIR and not displacement:
            colors[q] = 1
            continue
        if counts[1] + length > pool.size:
            pool = grown(pool, 2 * pool.size + length)
        colors[q] = 2 + intern_list(buffer, length, table, starts, pool, counts)
    return 0, colors, n_items, rounds


OUTRIGHT_PAIR = -1 << 31  # the packed row (-1, 0): read outright
SYMBOL_END = OUTRIGHT_PAIR - 1


@kernel
def row_colors(rows, begin, end, color, buffer, length, pairs):
    """Append rows to a key, items replaced by colors, each symbol's rows sorted; returns the length.

    What is read outright hides all else of its symbol; what no stack lets through is dropped.
    """
    n_pairs = 0
    outright = False
    for r in range(begin, end + 1):
        tag, value = np.int64(-1), np.int64(-1)
        last = r == end
        if not last:
            tag, value = rows[r, 0], rows[r, 1]
        if tag == -1 and value == -1:
            if outright:
                buffer[length] = OUTRIGHT_PAIR
                length += 1
            else:
                for k in range(n_pairs):
                    buffer[length] = pairs[k]
                    length += 1
            n_pairs = 0
            outright = False
            if not last:
                buffer[length] = SYMBOL_END
                length += 1
        elif tag == -1:
            outright = outright or value == 0
            n_pairs = insert_sorted(pairs, n_pairs, tag * 2147483648 + value)
        elif tag < -1:
            n_pairs = insert_sorted(pairs, n_pairs, tag * 2147483648)
        elif color[value]:
            outright = outright or (tag == 0 and color[value] == 1)
            n_pairs = insert_sorted(pairs, n_pairs, tag * 2147483648 + color[value])
    return length


# ---------------------------------------------------------------- partition


@kernel
def find_queries(event_starts, events, n_outcomes, block_users, users, context_starts, context_below):
    """The distinct pairs (outcome, below) that some context needs, and the table that finds them.

    `block_users` int64[blocks + 1] points into `users` rows sorted by block.
    Returns (queries int64[n, 2], table int64[2**k]).
    """
    size = 1024
    table = np.full(size, -1, np.int64)
    queries = np.empty((512, 2), np.int64)
    n = 0
    last = np.full(n_outcomes, -1, np.int64)
    n_below = 0
    for k in range(context_below.size):
        n_below = max(n_below, context_below[k] + 1)
    noted = np.full(n_below, -1, np.int64)
    belows = np.zeros(n_below + 1, np.int64)
    for block in range(event_starts.size - 1):
        if event_starts[block + 1] == event_starts[block]:
            continue
        n_here = 0
        for u in range(block_users[block], block_users[block + 1]):
            c = users[u, 0]
            for k in range(context_starts[c], context_starts[c + 1]):
                if noted[context_below[k]] != block:
                    noted[context_below[k]] = block
                    belows[n_here] = context_below[k]
                    n_here += 1
        for e in range(event_starts[block], event_starts[block + 1]):
            outcome = events[e, 1]
            if last[outcome] == block:
                continue
            last[outcome] = block
            for k in range(n_here):
                slot = mix(mix(11, outcome), belows[k]) & (size - 1)
                while table[slot] >= 0 and not (
                    queries[table[slot], 0] == outcome and queries[table[slot], 1] == belows[k]
                ):
                    slot = (slot + 1) & (size - 1)
                if table[slot] >= 0:
                    continue
                if n == queries.shape[0]:
                    queries = grown_rows(queries, 2 * n)
                queries[n, 0] = outcome
                queries[n, 1] = belows[k]
                table[slot] = n
                n += 1
                if 2 * n > size:
                    size *= 2
                    table = np.full(size, -1, np.int64)
                    for q in range(n):
                        slot = mix(mix(11, queries[q, 0]), queries[q, 1]) & (size - 1)
                        while table[slot] >= 0:
                            slot = (slot + 1) & (size - 1)
                        table[slot] = q
    return queries[:n], table


@kernel
def partition_blocks(byte_of_group, block_starts, range_starts, ranges):
    """Number per group of (first byte, blocks that read it outright); equal pairs, equal numbers; 0 = none.

    The set at hand is kept while sweeping the groups in order, and looked up, with an exact comparison,
    where a range begins or ends; no range crosses a first byte. Returns (numbers, words of each number):
    bit i of the 32-bit words is the i-th block of the byte.
    """
    widest = 1
    for b in range(256):
        widest = max(widest, block_starts[b + 1] - block_starts[b])
    n_words = (widest + 31) // 32
    n_groups = byte_of_group.size
    total = range_starts[-1]
    at = np.zeros(n_groups + 2, np.int32)
    for r in range(total):
        at[ranges[r, 0] + 1] += 1
        at[ranges[r, 1] + 1] += 1
    for g in range(n_groups + 1):
        at[g + 1] += at[g]
    toggles = np.empty(2 * total, np.int32)
    for b in range(256):
        for block in range(block_starts[b], block_starts[b + 1]):
            for r in range(range_starts[block], range_starts[block + 1]):
                for side in range(2):
                    g = ranges[r, side]
                    toggles[at[g]] = block - block_starts[b]
                    at[g] += 1
    words = np.zeros(n_words, np.int64)
    seeds = np.empty(widest, np.int64)
    h = np.int64(12345)
    for i in range(widest):
        h = mix(h, i + 77)
        seeds[i] = h
        h = mix(h, 3 * i + 1)
        seeds[i] ^= h << 29
    capacity = 1024
    sets = np.zeros((capacity, n_words), np.int64)
    set_byte = np.zeros(capacity, np.int64)
    hashes = np.zeros(capacity, np.int64)
    table_size = 4096
    table = np.full(table_size, -1, np.int64)
    n_sets = 1
    current = np.int64(0)
    h = np.int64(0)
    # after filling, at[g] is where the toggles of g end
    bounds = np.empty(2 * total + 1, np.int64)
    n_bounds = 0
    for g in range(n_groups):
        if at[g] > (at[g - 1] if g > 0 else 0):
            bounds[n_bounds] = g
            n_bounds += 1
    bounds[n_bounds] = n_groups
    number = np.zeros(n_bounds, np.int64)
    for i in range(n_bounds):
        g = bounds[i]
        for t in range(at[g - 1] if g > 0 else 0, at[g]):
            c = np.int64(toggles[t])
            words[c >> 5] ^= 1 << (c & 31)
            h ^= seeds[c]
        empty = True
        for w in range(n_words):
            if words[w]:
                empty = False
                break
        if empty:
            continue
        byte = np.int64(byte_of_group[g])
        k = mix(mix(h & 0x3FFFFFFF, h >> 30), byte)
        slot = k & (table_size - 1)
        while True:
            current = table[slot]
            if current < 0:
                break
            if hashes[current] == k and set_byte[current] == byte:
                same = True
                for w in range(n_words):
                    if sets[current, w] != words[w]:
                        same = False
                        break
                if same:
                    break
            slot = (slot + 1) & (table_size - 1)
        if current < 0:
            if n_sets == capacity:
                capacity *= 2
                sets = grown_rows(sets, capacity)
                set_byte = grown(set_byte, capacity)
                hashes = grown(hashes, capacity)
            current = n_sets
            for w in range(n_words):
                sets[current, w] = words[w]
            set_byte[current] = byte
            hashes[current] = k
            table[slot] = current
            n_sets += 1
            if 2 * n_sets > table_size:
                table_size *= 2
                table = np.full(table_size, -1, np.int64)
                for j in range(1, n_sets):
                    slot = hashes[j] & (table_size - 1)
                    while table[slot] >= 0:
                        slot = (slot + 1) & (table_size - 1)
                    table[slot] = j
        number[i] = current
    # a loop of its own: the one above replaces arrays, which costs 70 ns every time round
    result = np.zeros(n_groups, np.int64)
    for i in range(n_bounds):
        for g in range(bounds[i], bounds[i + 1]):
            result[g] = number[i]
    return result, sets[:n_sets]


@kernel
def split_events(classes, event_starts, events, n_classes):
    """Split classes (int64[groups], in place) by each block's events (group, outcome), exactly.

    Returns the number of class numbers handed out; those that lost all groups stay unused.
    """
    table_size = 1024
    table = np.full((table_size, 3), -1, np.int64)
    for block in range(event_starts.size - 1):
        begin, end = event_starts[block], event_starts[block + 1]
        if end == begin:
            continue
        while table_size < 2 * (end - begin):
            table_size *= 2
        if table_size != table.shape[0]:
            table = np.full((table_size, 3), -1, np.int64)
        first_new = n_classes
        for e in range(begin, end):
            g, outcome = events[e, 0], events[e, 1]
            old = classes[g]
            slot = mix(mix(9, old), outcome) & (table_size - 1)
            while table[slot, 2] >= first_new and not (table[slot, 0] == old and table[slot, 1] == outcome):
                slot = (slot + 1) & (table_size - 1)
            if table[slot, 2] < first_new:
                table[slot, 0] = old
                table[slot, 1] = outcome
                table[slot, 2] = n_classes
                n_classes += 1
            classes[g] = table[slot, 2]
    return n_classes


@kernel
def merge_classes(
    classes,
    n_classes,
    range_sets,
    set_words,
    byte_of_group,
    block_starts,
    user_starts,
    users,
    event_starts,
    events,
    queries,
    query_table,
    colors,
    context_starts,
    context_below,
    tuple_capacity,
):
    """Merge the classes of each first byte that all contexts treat alike.

    Returns (status, int32[groups], -1 = never read); status 1: more than `tuple_capacity` distinct lists.

    A class is spelled out as its list of (context, feature), feature 1 = read outright, and interned. For
    a context with several below sets the feature is the interned list of their colors.
    """
    n_groups = classes.size
    example = np.full(n_classes, -1, np.int64)
    for g in range(n_groups):
        if example[classes[g]] < 0:
            example[classes[g]] = g
    # the events of the examples, by class
    n_events = event_starts[-1]
    event_at = np.zeros(n_classes + 1, np.int64)
    for e in range(n_events):
        g = events[e, 0]
        if example[classes[g]] == g:
            event_at[classes[g] + 1] += 1
    for k in range(n_classes):
        event_at[k + 1] += event_at[k]
    own = np.empty((event_at[n_classes], 2), np.int64)
    fill = event_at[:-1].copy()
    for block in range(event_starts.size - 1):
        for e in range(event_starts[block], event_starts[block + 1]):
            g = events[e, 0]
            k = classes[g]
            if example[k] == g:
                own[fill[k], 0] = block
                own[fill[k], 1] = events[e, 1]
                fill[k] += 1
    capacity = n_classes + 4
    size = 16
    while size < 2 * capacity:
        size *= 2
    table = np.full(size, -1, np.int64)
    starts = np.zeros(capacity + 2, np.int64)
    counts = np.zeros(2, np.int64)
    tuple_size = 16
    while tuple_size < 2 * tuple_capacity:
        tuple_size *= 2
    tuple_table = np.full(tuple_size, -1, np.int64)
    tuple_starts = np.zeros(tuple_capacity + 2, np.int64)
    tuple_pool = np.empty(4 * tuple_capacity, np.int64)
    tuple_counts = np.zeros(2, np.int64)
    n_users = 1
    for b in range(256):
        n_users = max(n_users, user_starts[b + 1] - user_starts[b])
    pool = np.empty(65536 + 4 * n_users, np.int64)
    widest = 1
    for b in range(256):
        widest = max(widest, block_starts[b + 1] - block_starts[b])
    value = np.zeros(widest + 1, np.int64)
    key = np.empty(2 * n_users + context_below.size + 2, np.int64)
    result = np.empty(n_groups, np.int32)
    merged = np.full(n_classes, -1, np.int64)
    query_size = query_table.size
    for k in range(n_classes):
        g = example[k]
        if g < 0:
            continue
        b = np.int64(byte_of_group[g])
        first_block = block_starts[b]
        n_here = block_starts[b + 1] - first_block
        for i in range(n_here):
            value[i] = 0
        words = range_sets[g]
        for i in range(n_here):
            if (set_words[words, i >> 5] >> (i & 31)) & 1:
                value[i] = -1
        for e in range(event_at[k], event_at[k + 1]):
            value[own[e, 0] - first_block] = own[e, 1] + 1
        length = 0
        for u in range(user_starts[b], user_starts[b + 1]):
            v = value[users[u, 1] - first_block]
            if v == 0:
                continue
            c = users[u, 0]
            feature = np.int64(1)
            if v > 0:
                n_below = context_starts[c + 1] - context_starts[c]
                none, every = True, True
                color = np.int64(0)
                for j in range(n_below):
                    below = context_below[context_starts[c] + j]
                    slot = mix(mix(11, v - 1), below) & (query_size - 1)
                    while not (
                        queries[query_table[slot], 0] == v - 1 and queries[query_table[slot], 1] == below
                    ):
                        slot = (slot + 1) & (query_size - 1)
                    color = colors[query_table[slot]]
                    none = none and color == 0
                    every = every and color == 1
                    key[length + j] = color
                if none:
                    continue
                if every:
                    feature = 1
                elif n_below == 1:
                    feature = color
                else:
                    feature = 2 + intern_list(
                        key[length : length + n_below],
                        n_below,
                        tuple_table,
                        tuple_starts,
                        tuple_pool,
                        tuple_counts,
                    )
                    if feature < 2:
                        return 1, result
            key[length] = c
            key[length + 1] = feature
            length += 2
        if length:
            if counts[1] + length > pool.size:
                pool = grown(pool, 2 * pool.size + length)
            merged[k] = intern_list(key, length, table, starts, pool, counts)
    for g in range(n_groups):
        result[g] = merged[classes[g]]
    return 0, result


@kernel
def rows_by_block(users, n_blocks):
    """The rows of `users` (context, block) sorted by block: (starts int64[blocks + 1], rows)."""
    starts = np.zeros(n_blocks + 1, np.int64)
    for u in range(users.shape[0]):
        starts[users[u, 1] + 1] += 1
    for k in range(n_blocks):
        starts[k + 1] += starts[k]
    at = starts[:-1].copy()
    rows = np.empty_like(users)
    for u in range(users.shape[0]):
        k = users[u, 1]
        rows[at[k], 0] = users[u, 0]
        rows[at[k], 1] = k
        at[k] += 1
    return starts, rows


@kernel
def first_byte_of_groups(byte, skip, group, n_groups):
    """uint8[groups]: the first byte of each group."""
    result = np.zeros(n_groups, np.uint8)
    i = 1
    while i < byte.size:
        for g in range(group[i], group[skip[i]]):
            result[g] = byte[i]
        i = np.int64(skip[i])
    return result


@kernel
def number_classes(class_of_group, group_of_token, lengths, alone, n_classes):
    """Token classes from group classes: (class of each token, representatives), classes dense from 0.

    `alone` lists tokens that get a class of their own. The representative of a class is its shortest
    token, the lowest id among equals; classes are numbered in the order of their first ids.
    """
    size = group_of_token.size
    raw = np.full(size, -1, np.int64)
    for t in range(size):
        if group_of_token[t] >= 0:
            raw[t] = class_of_group[group_of_token[t]]
    for i in range(alone.size):
        if raw[alone[i]] >= 0:
            raw[alone[i]] = n_classes
            n_classes += 1
    number = np.full(n_classes + 1, -1, np.int64)
    result = np.full(size, -1, np.int32)
    representatives = np.zeros(n_classes + 1, np.int32)
    n = 0
    for t in range(size):
        c = raw[t]
        if c < 0:
            continue
        if number[c] < 0:
            number[c] = n
            representatives[n] = t
            n += 1
        k = number[c]
        result[t] = k
        if lengths[t] < lengths[representatives[k]]:
            representatives[k] = t
    return result, representatives[:n].copy()
