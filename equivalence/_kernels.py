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

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from equivalence.interning._kernels import (
    borrowed,
    borrowed_interned,
    grown,
    grown_interned,
    grown_rows,
    insert_sorted,
    intern,
    intern_list,
    mix,
    new_interned,
    rows_by_key,
    utf8_step,
)

kernel = njit(cache=True, nogil=True)
# What runs many times a step is inlined, and only the rare way out is a call; spaces are borrowed (see
# `borrowed`).
inlined = njit(cache=True, nogil=True, inline="always")
forced = njit(cache=True, nogil=True, forceinline=True)  # by LLVM, see `equivalence.interning`

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


# Columns of the packed nodes, a row of 32 bytes each. FLAGS is the byte into the node, then a bit that says
# whether a group ends here, then the two bits of the last word of `below`.
CHILD, GROUP, GROUP_END, FLAGS, BELOW = 0, 1, 2, 3, 4
ENDS, BELOW_OTHERS = 8, 9  # bits of FLAGS


@kernel
def pack_nodes(byte, depth, skip, group, below):
    """int32[N + 1, 8]: the nodes level by level, the children of a node side by side, as walks read them.

    A node's children are those from its `CHILD` to that of the next row. In depth-first order the next
    child is where the subtree ends, far away: walks of a JSON schema took 2.8 ms then, 2.3 so.
    """
    n = byte.size
    deepest = 0
    for i in range(n):
        deepest = max(deepest, np.int64(depth[i]))
    following = np.zeros(deepest + 3, np.int64)
    for i in range(n):
        following[depth[i] + 1] += 1
    for d in range(deepest + 2):
        following[d + 1] += following[d]
    nodes = np.zeros((n + 1, 8), np.int32)
    for i in range(n):  # in depth-first order, which is also the order on each level
        d = np.int64(depth[i])
        at = following[d]
        following[d] = at + 1
        nodes[at, CHILD] = following[d + 1]
        nodes[at, GROUP] = group[i]
        nodes[at, GROUP_END] = group[skip[i]]
        ends = 1 if group[i + 1] > group[i] else 0
        nodes[at, FLAGS] = np.int64(byte[i]) | ends << ENDS | (below[i, 4] & 3) << BELOW_OTHERS
        for w in range(4):
            nodes[at, BELOW + w] = np.int32(below[i, w] - ((below[i, w] >> 31) << 32))
    nodes[n, CHILD] = n
    nodes[n, GROUP] = group[n]
    return nodes


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

# A frame is (a, count, tail): a >= 0 is a state to return to; a < 0 the frame -2 - (2 k + relative) of
# counted
# class k with `count` units read; `tail` is what lies below. A tail is a set of stacks: the interned sorted
# list of their top frames. Frame 0, alone in tail 0, is the unknown rest of the stack.
# A configuration is the interned list [label, pops, -1 - port of each pop ..., (state, tail) ...] with
# distinct states: equal tops are one, and their tails are united. States are listed before their calls are
# followed: the 100 stacks of a C++ expression to come are one state here, and only what reads the next byte
# is expanded (10,000 configurations took 700 ms otherwise, now 0.1 s).
# label 0 means that the last byte was read whatever the stack holds; a label c > 0 that it was read if a
# relative counter had c units left. A pop through port c needs c units to fit the counter's bounds.
REJECT = 0  # the configuration of no stack at all: the last byte was not read
MOST_PORTS = 8192  # a port is 0 or a count of units read by one token, which has at most 4,096 bytes
STAMP, FRAMES, LINKS, STOP, TAKEN, OUT_OF_BYTES = 0, 1, 2, 3, 4, 5
# columns of `Space.facts` after the four words of loops
CHARACTER_LOOP, CHARACTERS_KNOWN, LABEL, POPS = 4, 5, 6, 7


class Space(NamedTuple):
    """All that one exploration has met, and its scratch arrays. S states, B byte classes.

    frames int64[n, 5], frame_table: (a, count, tail, the tail that is this frame alone, label); a hash table.
    tails, tail_facts int64[n, 2]: interned lists of frames; (least label of the stacks, stamp when followed).
    configs, steps int32[n, B]: the interned configurations and what follows them; -1 = not known yet.
    facts int64[n, 8]: of each configuration, the ASCII bytes on which it is known to stay itself, as four
        words of 32 bits; whether all multi-byte characters do so, and whether that is known; label, pops.
    state: stamp, number of frames, number of links, 1 once another thread wants the work to stop, bytes of
        all tables that are alive, and 1 once they may not grow further (see `claim`).
    links int64[n, 2]: (tail, next link); returning, ports, key: scratch of `step_config`.
    by_state int64[S + 1, 8]: lists of states with their links, now and next (see `add_link`); their ranks;
        whether they absorb one another (see `absorbing_states`).
    class_of_byte int64[256], classes int64[B, 5]: bytes that no state tells apart; a byte of each class, and
        its ASCII bytes as four words of 32 bits.
    behaviour uint8[2 S + 1, B]: rows `first`, then rows `alike` of `first_classes`, then a scratch row.
    """

    frames: Any
    frame_table: Any
    tails: Any
    tail_facts: Any
    configs: Any
    steps: Any
    facts: Any
    state: Any
    links: Any
    returning: Any
    ports: Any
    key: Any
    by_state: Any
    class_of_byte: Any
    classes: Any
    behaviour: Any


# columns of `Space.by_state`: head of the links, stamp, and the list of states; now, and next; then the rank
NOW, NEXT, RANK, ABSORBS = 0, 3, 6, 7
SEEN = 1  # column of `Space.tail_facts`


@kernel
def byte_classes(net):
    """Bytes that no state tells apart: (class of each byte int64[256], one byte of each class)."""
    edges = net[2]
    begins = np.zeros(257, np.uint8)
    begins[0] = 1
    for k in range(edges.shape[0]):
        begins[edges[k, 0]] = 1
        begins[edges[k, 1] + 1] = 1
    classes = np.zeros(256, np.int64)
    example = np.zeros(256, np.int64)
    n = 0
    for b in range(256):
        if begins[b]:
            example[n] = b
            n += 1
        classes[b] = n - 1
    return classes, example[:n].copy()


@kernel
def call_ranks(net):
    """int64[states]: 0 without calls, else more than the rank of every state that a call begins with."""
    edge_starts, call_starts, calls, counted = net[1], net[3], net[4], net[5]
    n = edge_starts.size - 1
    rank = np.zeros(n, np.int64)
    at = call_starts[:-1].copy()  # calls looked at of each state
    path = np.empty(n, np.int64)
    for origin in range(n):  # depth first: no rule calls itself before it has read a byte
        path[0] = origin
        depth = 1
        while depth > 0:
            s = path[depth - 1]
            if at[s] == call_starts[s + 1]:
                depth -= 1
                continue
            callee = calls[at[s], 0]
            if callee < 0:
                callee = counted[-1 - callee, 0]
            if at[callee] < call_starts[callee + 1]:
                path[depth] = callee
                depth += 1
                continue
            rank[s] = max(rank[s], rank[callee] + 1)
            at[s] += 1
    return rank


@kernel
def first_classes(net, class_of_byte, n_classes, rank, stop):
    """Two arrays uint8[states, B], calls included: whether a state can read a byte class next, and whether it
    treats the class exactly like the class before. Of no use once the cell `stop` is 1."""
    edge_starts, edges, call_starts, calls, counted = net[1], net[2], net[3], net[4], net[5]
    n = edge_starts.size - 1
    first = np.zeros((n, n_classes), np.uint8)
    alike = np.zeros((n, n_classes), np.uint8)
    target = np.empty(n_classes, np.int64)
    for s in range(n):
        if stop[0]:
            return first, alike
        target[:] = -1
        for k in range(edge_starts[s], edge_starts[s + 1]):
            for c in range(class_of_byte[edges[k, 0]], class_of_byte[edges[k, 1]] + 1):
                first[s, c] = 1
                target[c] = edges[k, 2]
        for c in range(1, n_classes):
            if target[c] == target[c - 1]:
                alike[s, c] = 1
    # callees first
    _, order = rows_by_key(rank, n, n)
    for i in range(n):
        s = order[i]
        if stop[0]:
            return first, alike
        for k in range(call_starts[s], call_starts[s + 1]):
            callee = calls[k, 0]
            if callee < 0:
                callee = counted[-1 - callee, 0]
            for c in range(n_classes):
                first[s, c] |= first[callee, c]
                alike[s, c] &= alike[callee, c]
    return first, alike


MOST_REACHED = 64  # states looked at for each return state
# pairs of moves compared for all of them, some 20 ms; the JSON grammar needs some hundred
MOST_COMPARED = 1 << 24


@kernel
def tail_closure(s, net, states):
    """Write a state and the first states of its tail calls, and of theirs; how many, -1 if there are too many
    or a counted rule is among them."""
    call_starts, calls = net[3], net[4]
    states[0] = s
    n = 1
    i = 0
    while i < n:
        for k in range(call_starts[states[i]], call_starts[states[i] + 1]):
            callee = calls[k, 0]
            if calls[k, 1] >= 0:
                continue
            if callee < 0 or n == states.size:
                return -1
            known = False
            for j in range(n):
                known = known or states[j] == callee
            if not known:
                states[n] = callee
                n += 1
        i += 1
    return n


@kernel
def moves_within(own, n_own, other, n_other, net, left):
    """Whether every move of some states, to the same target, is also one of some others; no, where more than
    the number in `left` has to be compared."""
    edge_starts, edges, call_starts, calls = net[1], net[2], net[3], net[4]
    own_edges, own_calls, other_edges, other_calls = 0, 0, 0, 0
    for i in range(n_own):
        own_edges += edge_starts[own[i] + 1] - edge_starts[own[i]]
        own_calls += call_starts[own[i] + 1] - call_starts[own[i]]
    for j in range(n_other):
        other_edges += edge_starts[other[j] + 1] - edge_starts[other[j]]
        other_calls += call_starts[other[j] + 1] - call_starts[other[j]]
    left[0] -= own_edges * other_edges + own_calls * other_calls
    if left[0] < 0:
        return False
    for i in range(n_own):
        for k in range(edge_starts[own[i]], edge_starts[own[i] + 1]):
            found = False
            for j in range(n_other):
                for m in range(edge_starts[other[j]], edge_starts[other[j] + 1]):
                    found = found or (
                        edges[m, 0] <= edges[k, 0]
                        and edges[k, 1] <= edges[m, 1]
                        and edges[m, 2] == edges[k, 2]
                    )
            if not found:
                return False
        for k in range(call_starts[own[i]], call_starts[own[i] + 1]):
            found = calls[k, 1] < 0  # a tail call: the callee is among the states
            for j in range(n_other):
                for m in range(call_starts[other[j]], call_starts[other[j] + 1]):
                    found = found or (calls[m, 0] == calls[k, 0] and calls[m, 1] == calls[k, 1])
            if not found:
                return False
    return True


@kernel
def absorbing_states(net):
    """uint8[states]: return states of which two in a row on a stack are as good as one.

    Such a state is final, and so is whatever it leads to only where all its own moves are possible still:
    what the lower of the two could do, the upper one, or what has become of it, does (docs/theory.md,
    section 4). To say so of fewer states is never wrong: not where too many moves are to be compared.
    """
    left = np.full(1, MOST_COMPARED, np.int64)
    final, edge_starts, edges, call_starts, calls = net[0], net[1], net[2], net[3], net[4]
    n_states = final.size
    absorbing = np.zeros(n_states, np.uint8)
    tried = np.zeros(n_states, np.uint8)
    own = np.empty(16, np.int64)
    other = np.empty(16, np.int64)
    reached = np.empty(MOST_REACHED, np.int64)
    stamp = np.full(n_states, -1, np.int64)
    for call in range(calls.shape[0]):
        r = calls[call, 1]
        if r < 0 or tried[r] or not final[r]:
            continue
        tried[r] = 1
        n_own = tail_closure(r, net, own)
        absorbs = n_own > 0
        reached[0] = r
        stamp[r] = r
        n = 1
        i = 0
        while absorbs and i < n:
            n_other = tail_closure(reached[i], net, other)
            absorbs = n_other > 0 and (
                not final[reached[i]] or moves_within(own, n_own, other, n_other, net, left)
            )
            if not absorbs:
                break
            for j in range(n_other):
                s = other[j]
                begin = edge_starts[s]
                for k in range(begin, edge_starts[s + 1] + call_starts[s + 1] - call_starts[s]):
                    if k < edge_starts[s + 1]:
                        target = edges[k, 2]
                    else:
                        target = calls[call_starts[s] + k - edge_starts[s + 1], 1]
                    if target >= 0 and stamp[target] != r:
                        stamp[target] = r
                        if n == MOST_REACHED:
                            absorbs = False
                            break
                        reached[n] = target
                        n += 1
            i += 1
        absorbing[r] = 1 if absorbs else 0
    return absorbing


@kernel
def follow(
    symbols, below_of_symbol, owner, index, final, counted, state_first, context_starts, context_below, below,
    returns, contexts, occurrences, stop,
):  # fmt: skip
    """Fill the four last arrays (zeros so far), see `equivalence.explore.Follow`; of no use once the cell
    `stop` is 1."""
    n = symbols.size
    n_classes = state_first.shape[1]
    through = np.zeros(n, np.uint8)
    for k in range(n):
        s = symbols[k]
        through[k] = 1 if s < 0 or final[s] else 0
        own = s if s >= 0 else counted[-1 - s, 0]
        for c in range(n_classes):
            if state_first[own, c]:
                occurrences[k, c] = 1
                below[owner[k], c] = 1
    changed = True
    while changed:
        changed = False
        for k in range(n):
            if stop[0]:
                return
            if through[k]:
                source, target = below_of_symbol[k], owner[k]
                for c in range(n_classes):
                    if below[source, c] and not below[target, c]:
                        below[target, c] = 1
                        changed = True
    for k in range(n):
        for c in range(n_classes):
            if below[below_of_symbol[k], c]:
                returns[index[k], c] = 1
                if through[k]:
                    occurrences[k, c] = 1
    for i in range(contexts.shape[0]):
        if stop[0]:
            return
        for k in range(context_starts[i], context_starts[i + 1]):
            for c in range(n_classes):
                contexts[i, c] |= below[context_below[k], c]


@kernel
def new_space(net, class_of_byte, example, first, alike, rank, frame_capacity, config_capacity):
    """Empty tables, with frame 0 and tail 0 for the unknown rest and configuration 0 = REJECT."""
    n_states = net[0].size
    size = 16
    while size < 2 * frame_capacity:
        size *= 2
    frames = np.empty((frame_capacity, 5), np.int64)
    frames[0, :] = 0
    tails = new_interned(frame_capacity, 3)
    key = np.zeros(2 * n_states + MOST_PORTS + 4, np.int64)
    intern(key, 1, tails)
    configs = new_interned(config_capacity, 12)
    key[0] = -1
    intern(key, 2, configs)
    steps = np.empty((config_capacity + 2, example.size), np.int32)
    facts = np.empty((config_capacity + 2, 8), np.int64)
    steps[0, :] = 0
    facts[0, :] = 0
    facts[0, LABEL] = -1
    state = np.zeros(6, np.int64)
    state[FRAMES] = 1
    by_state = np.zeros((n_states + 1, 8), np.int64)
    by_state[:n_states, RANK] = rank
    by_state[:n_states, ABSORBS] = absorbing_states(net)
    classes = np.zeros((example.size, 5), np.int64)
    for b in range(128):
        classes[class_of_byte[b], 1 + (b >> 5)] |= 1 << (b & 31)
    for c in range(example.size):  # signed words of 32 bits, like those of the trie's nodes
        classes[c, 0] = example[c]
        for w in range(1, 5):
            classes[c, w] -= (classes[c, w] >> 31) << 32
    behaviour = np.empty((2 * n_states + 1, example.size), np.uint8)
    behaviour[:n_states] = first
    behaviour[n_states : 2 * n_states] = alike
    return Space(
        frames, np.full(size, -1, np.int32), tails, np.zeros((frame_capacity + 2, 2), np.int64), configs,
        steps,
        facts, state, np.empty((frame_capacity, 2), np.int64), np.empty(frame_capacity + 2, np.int64),
        np.empty(MOST_PORTS, np.int64), key, by_state, class_of_byte, classes, behaviour,
    )  # fmt: skip


@kernel
def grown_space(space, frame_capacity, config_capacity):
    """The same space with more room."""
    n_frames, n_tails, n_configs = space.state[FRAMES], space.tails.counts[0], space.configs.counts[0]
    size = 16
    while size < 2 * frame_capacity:
        size *= 2
    frames = np.empty((frame_capacity, 5), np.int64)
    frames[:n_frames] = space.frames[:n_frames]
    frame_table = np.full(size, -1, np.int32)
    for i in range(1, n_frames):
        slot = mix(mix(mix(5, frames[i, 0] + 1048576), frames[i, 1]), frames[i, 2]) & (size - 1)
        while frame_table[slot] >= 0:
            slot = (slot + 1) & (size - 1)
        frame_table[slot] = i
    tail_facts = np.zeros((frame_capacity + 2, 2), np.int64)
    tail_facts[:n_tails] = space.tail_facts[:n_tails]
    steps = np.empty((config_capacity + 2, space.steps.shape[1]), np.int32)
    steps[:n_configs] = space.steps[:n_configs]
    facts = np.empty((config_capacity + 2, 8), np.int64)
    facts[:n_configs] = space.facts[:n_configs]
    return Space(
        frames, frame_table, grown_interned(space.tails, frame_capacity, 3), tail_facts,
        grown_interned(space.configs, config_capacity, 12), steps, facts, space.state,
        np.empty((frame_capacity, 2), np.int64), np.empty(frame_capacity + 2, np.int64), space.ports,
        space.key,
        space.by_state, space.class_of_byte, space.classes, space.behaviour,
    )  # fmt: skip


@kernel
def borrowed_space(space):
    """See `borrowed`."""
    return Space(
        borrowed(space.frames), borrowed(space.frame_table), borrowed_interned(space.tails),
        borrowed(space.tail_facts), borrowed_interned(space.configs), borrowed(space.steps),
        borrowed(space.facts), borrowed(space.state), borrowed(space.links), borrowed(space.returning),
        borrowed(space.ports), borrowed(space.key), borrowed(space.by_state), borrowed(space.class_of_byte),
        borrowed(space.classes), borrowed(space.behaviour),
    )  # fmt: skip


@kernel
def borrowed_net(net):
    """See `borrowed`."""
    return (
        borrowed(net[0]), borrowed(net[1]), borrowed(net[2]), borrowed(net[3]), borrowed(net[4]),
        borrowed(net[5]),
    )  # fmt: skip


@inlined
def find_frame(a, count, tail, frames, frame_table):
    """The tail that is one frame (a, count) on a tail; -1 if there is none yet, see `new_frame`."""
    slot = mix(mix(mix(5, a + 1048576), count), tail) & (frame_table.size - 1)
    i = np.int64(frame_table[slot])
    while i >= 0 and not (frames[i, 0] == a and frames[i, 1] == count and frames[i, 2] == tail):
        slot = (slot + 1) & (frame_table.size - 1)
        i = np.int64(frame_table[slot])
    return frames[i, 3] if i >= 0 else np.int64(-1)


@kernel
def absorb(a, tail, space, counted):
    """The tail of an absorbing state on a tail with frames of the same state; -1 if there are none there, -2
    over capacity."""
    frames = space.frames
    starts, pool = space.tails.starts, space.tails.pool
    begin, end = starts[tail], starts[tail + 1]
    rest = np.empty(end - begin, np.int64)
    kept = np.empty(end - begin + 1, np.int64)
    n_rest, n_kept = 0, 0
    label = np.int64(1 << 40)
    least = np.int64(1 << 40)
    for k in range(begin, end):
        frame = pool[k]
        if frame != 0 and frames[frame, 0] == a:
            kept[n_kept] = frame
            n_kept += 1
            least = min(least, frames[frame, 4])
        else:
            rest[n_rest] = frame
            n_rest += 1
            label = min(label, frames[frame, 4])
    if n_kept == 0:
        return -1
    if n_rest > 0:
        below = intern(rest, n_rest, space.tails)
        if below < 0:
            return -2
        space.tail_facts[below, 0] = label
        top = find_frame(a, 0, below, frames, space.frame_table)
        if top < 0:
            top = plain_frame(a, 0, below, space, counted)
            if top < 0:
                return -2
        n_kept = insert_sorted(kept, n_kept, pool[starts[top]])
        least = min(least, label)
    number = intern(kept, n_kept, space.tails)
    if number < 0:
        return -2
    space.tail_facts[number, 0] = least
    return number


@forced
def plain_frame(a, count, tail, space, counted):
    """Add a frame as it is; the tail that is this frame alone, -1 over capacity."""
    key = np.empty(1, np.int64)
    key[0] = space.state[FRAMES]
    if key[0] >= space.frames.shape[0]:
        return -1
    number = intern(key, 1, space.tails)
    if number < 0:
        return -1
    note_frame(a, count, tail, number, space, counted)
    space.tail_facts[number, 0] = space.frames[key[0], 4]
    return number


@forced
def note_frame(a, count, tail, number, space, counted):
    """Note the tail that a frame on a tail comes to, as the next frame; returns that tail."""
    frames, frame_table = space.frames, space.frame_table
    i = space.state[FRAMES]
    space.state[FRAMES] = i + 1
    frames[i, 0] = a
    frames[i, 1] = count
    frames[i, 2] = tail
    frames[i, 3] = number
    frames[i, 4] = space.tail_facts[tail, 0]
    if a < 0 and (-2 - a) & 1:
        frames[i, 4] = count + 1 if counted[(-2 - a) >> 1, 2] >= 0 else 0
    slot = mix(mix(mix(5, a + 1048576), count), tail) & (frame_table.size - 1)
    while frame_table[slot] >= 0:
        slot = (slot + 1) & (frame_table.size - 1)
    frame_table[slot] = i
    return number


@kernel
def new_frame(a, count, tail, space, counted):
    """Add a frame that is not there yet; the tail that is this frame alone, -1 over capacity.

    An absorbing state on frames of the same state is not pushed: those frames stay, and the rest of the tail
    goes below one of its own. What is found for the pair is noted as a frame that no tail lists.
    """
    if a >= 0 and space.by_state[a, ABSORBS]:
        number = absorb(a, tail, space, counted)
        if number == -2 or space.state[FRAMES] >= space.frames.shape[0]:
            return -1
        if number >= 0:
            return note_frame(a, count, tail, number, space, counted)
    return plain_frame(a, count, tail, space, counted)


@inlined
def add_link(x, tail, n, when, by_state, links, state):
    """Note that a state occurs on a tail, n states being listed so far; returns n, -1 over capacity.

    `when` is NOW or NEXT. The tails of a state are a list, united by `unite_links` once all are known: to
    unite them one by one made a new tail each time.
    """
    link = state[LINKS]
    if link >= links.shape[0]:
        n = -1
    elif by_state[x, when + 1] != state[STAMP]:
        by_state[x, when + 1] = state[STAMP]
        by_state[n, when + 2] = x
        n += 1
        links[link, 0] = tail
        links[link, 1] = -1
        by_state[x, when] = link
        state[LINKS] = link + 1
    else:
        i = by_state[x, when]
        while i >= 0 and links[i, 0] != tail:
            i = links[i, 1]
        if i < 0:
            links[link, 0] = tail
            links[link, 1] = by_state[x, when]
            by_state[x, when] = link
            state[LINKS] = link + 1
    return n


@kernel
def unite_links(head, space):
    """The tail of all stacks of a list of tails; -1 where the capacity is exceeded."""
    links = space.links
    starts, pool, tail_facts = space.tails.starts, space.tails.pool, space.tail_facts
    total = 0
    i = head
    label = np.int64(1 << 40)
    while i >= 0:
        tail = links[i, 0]
        total += starts[tail + 1] - starts[tail]
        label = min(label, tail_facts[tail, 0])
        i = links[i, 1]
    key = np.empty(total, np.int64)
    n = 0
    i = head
    while i >= 0:
        tail = links[i, 0]
        for k in range(starts[tail], starts[tail + 1]):
            n = insert_sorted(key, n, pool[k])
        i = links[i, 1]
    number = intern(key, n, space.tails)
    if number >= 0:
        tail_facts[number, 0] = label
    return number


@forced
def note_config(length, begin, space):
    """The number of the configuration whose list is ``space.key[:length]``, its pairs from `begin` on; -1
    over capacity. A new one can only be rejected on what none of its states reads."""
    key = space.key
    before = space.configs.counts[0]
    config = intern(key, length, space.configs)
    if config == before:
        steps, behaviour = space.steps, space.behaviour
        reads = behaviour.shape[0] - 1
        for c in range(steps.shape[1]):
            behaviour[reads, c] = 0
        for i in range(begin, length, 2):
            x = key[i]
            for c in range(steps.shape[1]):
                behaviour[reads, c] |= behaviour[x, c]
        for c in range(steps.shape[1]):
            steps[config, c] = -np.int32(behaviour[reads, c])  # REJECT, or not known yet
        for c in range(8):
            space.facts[config, c] = 0
        space.facts[config, LABEL] = key[0]
        space.facts[config, POPS] = key[1]
    return config


@forced
def close(n, label, n_returning, space, net):
    """Follow returns from the `n` states listed, and from tails `space.returning`; -1 over capacity.

    Returns the number of the configuration.
    """
    final, edge_starts, call_starts, counted = net[0], net[1], net[3], net[5]
    frames, frame_table, starts, pool = space.frames, space.frame_table, space.tails.starts, space.tails.pool
    by_state, links, state = space.by_state, space.links, space.state
    stamp = state[STAMP]
    tail_facts, returning = space.tail_facts, space.returning
    ports, key = space.ports, space.key
    n_ports = 0
    for t in range(n_returning):
        tail_facts[returning[t], SEEN] = stamp
    for i in range(n):
        x = by_state[i, NEXT + 2]
        if final[x]:
            link = by_state[x, NEXT]
            while link >= 0:
                tail = links[link, 0]
                if tail_facts[tail, SEEN] != stamp:
                    tail_facts[tail, SEEN] = stamp
                    returning[n_returning] = tail
                    n_returning += 1
                link = links[link, 1]
    while n_returning > 0:
        n_returning -= 1
        tail = returning[n_returning]
        for k in range(starts[tail], starts[tail + 1]):
            frame = pool[k]
            a, below = frames[frame, 0], frames[frame, 2]
            port = np.int64(-1)
            through = np.int64(-1)
            if frame == 0:
                port = 0
            elif a >= 0:
                n = add_link(a, below, n, NEXT, by_state, links, state)
                if n < 0:
                    return -1
                if final[a]:
                    through = below
            else:
                unit = (-2 - a) >> 1
                relative = (-2 - a) & 1
                least = counted[unit, 1]
                most = counted[unit, 2] if relative else counted[unit, 3]
                count = frames[frame, 1] + 1
                if most < 0:
                    count = min(count, least)
                if relative:
                    port = count
                elif count >= least:
                    through = below
                if most < 0 or count < most:
                    top = find_frame(a, count, below, frames, frame_table)
                    if top < 0:
                        top = new_frame(a, count, below, space, counted)
                        if top < 0:
                            return -1
                    n = add_link(counted[unit, 0], top, n, NEXT, by_state, links, state)
                    if n < 0:
                        return -1
            if through >= 0 and tail_facts[through, SEEN] != stamp:
                tail_facts[through, SEEN] = stamp
                returning[n_returning] = through
                n_returning += 1
            if port >= 0:
                if n_ports + 1 >= ports.size:
                    return -1
                n_ports = insert_sorted(ports, n_ports, -1 - port)
    # the key: states in order, without those that only return
    key[0] = label
    key[1] = n_ports
    for i in range(n_ports):
        key[2 + i] = ports[i]
    length = 2 + n_ports
    begin = length
    for i in range(n):
        x = by_state[i, NEXT + 2]
        if edge_starts[x + 1] == edge_starts[x] and call_starts[x + 1] == call_starts[x]:
            continue
        at = length
        while at > begin and key[at - 2] > x:
            key[at] = key[at - 2]
            key[at + 1] = key[at - 1]
            at -= 2
        key[at] = x
        link = by_state[x, NEXT]
        key[at + 1] = links[link, 0]
        if links[link, 1] >= 0:
            key[at + 1] = unite_links(link, space)
            if key[at + 1] < 0:
                return -1
        length += 2
    return note_config(length, begin, space)


@forced
def note_twins(x, config, c, following, space, net):
    """Note the same step for the other classes on edges of a lone state to where class c leads, if no call of
    the state reads one: white space before a token is three classes, and was three steps of four."""
    edge_starts, edges, call_starts, calls, counted = net[1], net[2], net[3], net[4], net[5]
    steps, classes, class_of_byte = space.steps, space.classes, space.class_of_byte
    byte = classes[c, 0]
    target = np.int64(-1)
    for k in range(edge_starts[x], edge_starts[x + 1]):
        if edges[k, 0] <= byte <= edges[k, 1]:
            target = edges[k, 2]
    for k in range(edge_starts[x], edge_starts[x + 1] if target >= 0 else edge_starts[x]):
        if edges[k, 2] != target:
            continue
        for other in range(class_of_byte[edges[k, 0]], class_of_byte[edges[k, 1]] + 1):
            if steps[config, other] >= 0:
                continue
            alike = True
            for i in range(call_starts[x], call_starts[x + 1]):
                callee = calls[i, 0] if calls[i, 0] >= 0 else counted[-1 - calls[i, 0], 0]
                alike = alike and not space.behaviour[callee, other] and not space.behaviour[callee, c]
            if alike:
                steps[config, other] = following


@kernel
def step_config(config, c, space, net):
    """Compute and note the configuration after a byte of class c; -1 over capacity."""
    edge_starts, edges, call_starts, calls, counted = net[1], net[2], net[3], net[4], net[5]
    behaviour, by_state, links, state = space.behaviour, space.by_state, space.links, space.state
    frames, frame_table, tail_facts = space.frames, space.frame_table, space.tail_facts
    starts, pool = space.configs.starts, space.configs.pool
    byte = space.classes[c, 0]
    if state[STOP]:
        return -1
    state[STAMP] += 1
    state[LINKS] = 0
    begin, end = starts[config], starts[config + 1]
    begin += 2 + pool[begin + 1]
    n = 0  # states that can read the byte, higher ranks first: what they call comes after them
    for i in range(begin, end, 2):
        x = pool[i]
        if behaviour[x, c]:
            n = add_link(x, pool[i + 1], n, NOW, by_state, links, state)
            if n < 0:
                return -1
            at = n - 1
            while at > 0 and by_state[by_state[at - 1, NOW + 2], RANK] < by_state[x, RANK]:
                by_state[at, NOW + 2] = by_state[at - 1, NOW + 2]
                at -= 1
            by_state[at, NOW + 2] = x
    n_next = 0
    label = np.int64(1 << 40)
    i = 0
    while i < n:
        x = by_state[i, NOW + 2]
        i += 1
        tail = links[by_state[x, NOW], 0]
        if links[by_state[x, NOW], 1] >= 0:
            tail = unite_links(by_state[x, NOW], space)
            if tail < 0:
                return -1
        for k in range(edge_starts[x], edge_starts[x + 1]):
            if edges[k, 0] <= byte <= edges[k, 1]:
                n_next = add_link(edges[k, 2], tail, n_next, NEXT, by_state, links, state)
                if n_next < 0:
                    return -1
                label = min(label, tail_facts[tail, 0])
                break
        for k in range(call_starts[x], call_starts[x + 1]):
            callee, back = calls[k, 0], calls[k, 1]
            start = callee if callee >= 0 else counted[-1 - callee, 0]
            if not behaviour[start, c]:
                continue
            top = tail
            if back >= 0:
                below = top
                top = find_frame(back, 0, below, frames, frame_table)
                if top < 0:
                    top = new_frame(back, 0, below, space, counted)
                    if top < 0:
                        return -1
            if callee < 0:
                below = top
                top = find_frame(-2 - 2 * (-1 - callee), 0, below, frames, frame_table)
                if top < 0:
                    top = new_frame(-2 - 2 * (-1 - callee), 0, below, space, counted)
                    if top < 0:
                        return -1
            before = n
            n = add_link(start, top, n, NOW, by_state, links, state)
            if n < 0:
                return -1
            if n > before:
                at = before
                while by_state[by_state[at - 1, NOW + 2], RANK] < by_state[start, RANK]:
                    by_state[at, NOW + 2] = by_state[at - 1, NOW + 2]
                    at -= 1
                by_state[at, NOW + 2] = start
    following = np.int64(REJECT)
    if n_next > 0:
        following = close(n_next, label, 0, space, net)
    if following >= 0:
        # the classes around this one that all states treat like it, unless those beside it are known: the
        # bytes of literals mostly stand alone
        steps = space.steps
        low, high = c, c + 1
        if (c > 0 and steps[config, c - 1] < 0) or (high < steps.shape[1] and steps[config, high] < 0):
            n_states = (behaviour.shape[0] - 1) // 2
            same = 2 * n_states
            for k in range(behaviour.shape[1]):
                behaviour[same, k] = 1
            for i in range(begin, end, 2):
                x = n_states + pool[i]
                for k in range(behaviour.shape[1]):
                    behaviour[same, k] &= behaviour[x, k]
            while low > 0 and behaviour[same, low]:
                low -= 1
            while high < behaviour.shape[1] and behaviour[same, high]:
                high += 1
        for k in range(low, high):
            steps[config, k] = following
        if end - begin == 2:
            note_twins(pool[begin], config, c, following, space, net)
    return following


# Inlined where most steps are made, which is twice as fast there; in walks and for items it gained nothing.
step_inlined = forced(getattr(step_config, "py_func", step_config))


@kernel
def start_config(symbol, unit, space, net):
    """The configuration of a context: a state (or -1 - k: counted class k, a unit just read) on top.

    `unit` >= 0 says that below the state lies the frame of that counted class, at an unknown count.
    """
    counted = net[5]
    space.state[STAMP] += 1
    space.state[LINKS] = 0
    tail = np.int64(0)
    if symbol < 0 or unit >= 0:
        frame = -2 - (2 * (-1 - symbol if symbol < 0 else unit) + 1)
        tail = find_frame(frame, 0, np.int64(0), space.frames, space.frame_table)
        if tail < 0:
            tail = new_frame(frame, 0, np.int64(0), space, counted)
            if tail < 0:
                return -1
    if symbol < 0:
        space.returning[0] = tail
        return close(0, 0, 1, space, net)
    add_link(symbol, tail, 0, NEXT, space.by_state, space.links, space.state)
    return close(1, 0, 0, space, net)


@kernel
def find_character_loop(config, space, net):
    """Note whether every multi-byte character leads a configuration back to itself; -1 over capacity."""
    steps, class_of_byte = space.steps, space.class_of_byte
    space.facts[config, CHARACTERS_KNOWN] = 1
    # met inside a character, by decoder state, at most one configuration each
    inside = np.full(7, -1, np.int64)
    inside[0] = config
    for round_number in range(4):
        for d in range(7):
            if inside[d] < 0 or (d == 0) != (round_number == 0):
                continue
            if space.facts[inside[d], LABEL] != 0:
                return 0
            for byte in range(0x80, 0xF5):
                after = utf8_step(d, byte)
                if after < 0:
                    continue
                c = class_of_byte[byte]
                following = np.int64(steps[inside[d], c])
                if following < 0:
                    following = step_config(inside[d], c, space, net)
                    if following < 0:
                        space.facts[config, CHARACTERS_KNOWN] = 0
                        return -1
                if following == REJECT or (inside[after] >= 0 and inside[after] != following):
                    return 0
                inside[after] = following
    space.facts[config, CHARACTER_LOOP] = 1
    return 0


# ---------------------------------------------------------------- exploring: walks over the vocabulary

# An outcome is the interned list [label, (port, suffix) ...]: what a token does on a context. label -1:
# not read by the known part; 0: read outright (then nothing follows); c > 0: as in configurations; then the
# suffixes still to be read below the known part. With displacement, label is the final configuration.
NOTHING, OUTRIGHT = 0, 1


@kernel
def walk(
    block, block_nodes, blocks, first_rows, first, trie, space, net, displacement, outcomes, range_starts,
    ranges, event_starts, events,
):  # fmt: skip
    """All tokens of each block from `block` on: those below a child of the root, after whose byte the
    configuration is ``blocks[block]``.

    Writes the ranges of groups read outright, and rows (group, outcome) of the others. ``first_rows[block]``
    is the row of uint8[n, B] `first` that has the byte classes that can follow below the known part.
    Returns (status, first block not done); status 1: the space is full, 2: the outcomes are, 3: more returns
    on one path than there is room for, 4: ranges or events are full.
    (One call a block cost 2 us a block, three times the walk itself.)
    """
    space, net, outcomes = borrowed_space(space), borrowed_net(net), borrowed_interned(outcomes)
    nodes, suffix_parent, group_suffix, longest = trie
    starts, pool, steps, facts = space.configs.starts, space.configs.pool, space.steps, space.facts
    class_of_byte, classes = space.class_of_byte, space.classes
    configs = np.empty(longest + 2, np.int64)
    valid = np.empty(longest + 2, np.int64)
    most_pops = 4 * longest + 64
    pop_depth = np.empty(most_pops, np.int64)
    pop_port = np.empty(most_pops, np.int64)
    key = np.empty(2 * most_pops + 1, np.int64)
    pairs = np.empty(most_pops, np.int64)
    configs[0] = REJECT
    valid[0] = 0
    # the next child at each depth, and where the children end
    child = np.empty(longest + 2, np.int64)
    end = np.empty(longest + 2, np.int64)
    d = np.int64(0)
    block -= 1
    start = np.int64(REJECT)
    row = np.int64(0)
    n_ranges, n_events = range_starts[block + 1], event_starts[block + 1]
    open_range = n_ranges  # ranges from here on may be extended
    while True:
        if d == 0:
            block += 1
            range_starts[block] = n_ranges
            event_starts[block] = n_events
            if block == blocks.size:
                return 0, block
            if space.state[STOP]:
                return 1, block
            open_range = n_ranges
            start = blocks[block]
            row = first_rows[block]
            d = np.int64(1)
            child[1] = block_nodes[block]
            end[1] = child[1] + 1
            # room for all that this block can add: an array that a loop replaces costs 10 ns every time round
            room = np.int64(nodes[child[1], GROUP_END] - nodes[child[1], GROUP])
            if n_ranges + room > ranges.shape[0] or n_events + room > events.shape[0]:
                return 4, block
        i, last = child[d], end[d]
        pops = valid[d - 1]
        config = np.int64(REJECT)
        above = configs[d - 1]
        if above != REJECT:
            # most children are rejected, or go on in a loop that holds all below them: these take a loop
            # of few words
            looping = facts[above, LABEL] == 0 and not displacement
            returning = facts[above, POPS] > 0
            loop_characters = facts[above, CHARACTER_LOOP]
            loop_0, loop_1 = ~facts[above, 0], ~facts[above, 1]
            loop_2, loop_3 = ~facts[above, 2], ~facts[above, 3]
            while i < last:
                flags = np.int64(nodes[i, FLAGS])
                byte = flags & 255
                c = class_of_byte[byte]
                following = np.int64(steps[above, c])
                if following == REJECT:
                    if pops > 0 or (returning and first[row, c]):
                        break
                elif following == above and looping:
                    others = flags >> BELOW_OTHERS
                    if (
                        byte >= 0x80
                        or not (facts[above, byte >> 5] >> (byte & 31)) & 1  # is learned below
                        or (others & 1 and not (loop_characters and others & 2))
                        or (nodes[i, BELOW] & loop_0) | (nodes[i, BELOW + 1] & loop_1)
                        or (nodes[i, BELOW + 2] & loop_2) | (nodes[i, BELOW + 3] & loop_3)
                    ):
                        break
                    g = np.int64(nodes[i, GROUP])
                    if n_ranges > open_range and ranges[n_ranges - 1, 1] == g:
                        ranges[n_ranges - 1, 1] = nodes[i, GROUP_END]
                    else:
                        ranges[n_ranges, 0] = g
                        ranges[n_ranges, 1] = nodes[i, GROUP_END]
                        n_ranges += 1
                else:
                    break
                i += 1
        if i == last:
            d -= 1
            continue
        child[d] = i + 1
        flags = np.int64(nodes[i, FLAGS])
        byte = flags & 255
        if d == 1:
            config = start
        elif above != REJECT:
            c = class_of_byte[byte]
            if facts[above, POPS] > 0 and first[row, c]:
                at = starts[above] + 2
                for k in range(facts[above, POPS]):
                    if pops == most_pops:
                        return 3, block
                    pop_depth[pops] = d - 1
                    pop_port[pops] = -1 - pool[at + k]
                    pops += 1
            config = np.int64(steps[above, c])
            if config < 0:  # not known yet; the call alone costs more than the look-up (0.4 us)
                config = step_config(above, c, space, net)
                if config < 0:
                    return 1, block
        if config == REJECT and pops == 0:
            continue
        configs[d] = config
        valid[d] = pops
        label = facts[config, LABEL]
        if label >= 0 and displacement:
            label = config
        if label == 0:
            # loops are learned where they are met: to try every byte of every loop cost four times the steps
            if config == above:
                for w in range(4):
                    facts[config, w] |= classes[c, 1 + w]
            elif (
                byte >= 0x80
                and not facts[config, CHARACTERS_KNOWN]
                and (config == configs[max(d - 2, 0)] or config == configs[max(d - 3, 0)])
            ):
                if find_character_loop(config, space, net) < 0:
                    return 1, block
            upto = np.int64(-1)
            others = flags >> BELOW_OTHERS
            if (
                (others & 1 == 0 or (facts[config, CHARACTER_LOOP] == 1 and others & 2))
                and nodes[i, BELOW] & ~facts[config, 0] == 0
                and nodes[i, BELOW + 1] & ~facts[config, 1] == 0
                and nodes[i, BELOW + 2] & ~facts[config, 2] == 0
                and nodes[i, BELOW + 3] & ~facts[config, 3] == 0
            ):
                upto = np.int64(nodes[i, GROUP_END])
            else:
                d += 1
                child[d] = nodes[i, CHILD]
                end[d] = nodes[i + 1, CHILD]
                if flags >> ENDS & 1:
                    upto = np.int64(nodes[i, GROUP]) + 1
            if upto >= 0:
                g = np.int64(nodes[i, GROUP])
                if n_ranges > open_range and ranges[n_ranges - 1, 1] == g:
                    ranges[n_ranges - 1, 1] = upto
                else:
                    ranges[n_ranges, 0] = g
                    ranges[n_ranges, 1] = upto
                    n_ranges += 1
            continue
        d += 1
        child[d] = nodes[i, CHILD]
        end[d] = nodes[i + 1, CHILD]
        if flags >> ENDS & 1:
            g = np.int64(nodes[i, GROUP])
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
            outcome = intern(key, length, outcomes)
            if outcome < 0:
                return 2, block
            events[n_events, 0] = g
            events[n_events, 1] = outcome
            n_events += 1


# A block is (byte, configuration after it): contexts that agree after a token's first byte treat all
# tokens with that first byte alike, so a block is walked once for all of them. The 50 contexts inside the
# property names of an object with additional properties have one block of string text in common.


@kernel
def find_blocks(contexts, byte_first, space, net):
    """The blocks of all contexts: (status, block starts by byte int64[257], block configurations, user
    starts int64[257], users (context, block) of each byte). Status 1: over capacity."""
    space, net = borrowed_space(space), borrowed_net(net)
    steps = space.steps
    n_contexts = contexts.shape[0]
    n_classes = steps.shape[1]
    after = np.zeros((n_classes, n_contexts), np.int32)  # read class by class below
    per_class = np.zeros(n_classes, np.int64)
    starts = np.zeros(257, np.int64)
    for i in range(n_contexts):
        start = start_config(contexts[i, 0], contexts[i, 1], space, net)
        if start < 0:
            return 1, starts, starts, starts, contexts
        for c in range(n_classes):
            config = np.int64(steps[start, c])
            if config < 0:
                config = step_inlined(start, c, space, net)
                if config < 0:
                    return 1, starts, starts, starts, contexts
            after[c, i] = config
            if config != REJECT:
                per_class[c] += 1
    for b in range(256):
        starts[b + 1] = starts[b]
        if byte_first[b]:
            starts[b + 1] += per_class[space.class_of_byte[b]]
    users = np.zeros((starts[256], 2), np.int64)
    block_starts = np.zeros(257, np.int64)
    blocks = np.zeros(starts[256], np.int64)
    number = np.full(space.configs.counts[0] + 1, -1, np.int64)
    n_blocks = 0
    n = 0
    for b in range(256):
        first_block = n_blocks
        if byte_first[b]:
            c = space.class_of_byte[b]
            for i in range(n_contexts):
                config = np.int64(after[c, i])
                if config == REJECT:
                    continue
                if number[config] < first_block:
                    number[config] = n_blocks
                    blocks[n_blocks] = config
                    n_blocks += 1
                users[n, 0] = i
                users[n, 1] = number[config]
                n += 1
        block_starts[b + 1] = n_blocks
    return 0, block_starts, blocks[:n_blocks].copy(), starts, users


@kernel
def children(nodes):
    """int64[256]: the child of the root by first byte, 0 where there is none."""
    child = np.zeros(256, np.int64)
    for i in range(nodes[0, CHILD], nodes[1, CHILD]):
        child[nodes[i, FLAGS] & 255] = i
    return child


@kernel
def first_of_blocks(users, firsts, n_blocks):
    """uint8[blocks, B]: what can follow below the known part, for some user of the block."""
    first = np.zeros((n_blocks, firsts.shape[1]), np.uint8)
    for u in range(users.shape[0]):
        i, block = users[u, 0], users[u, 1]
        for c in range(firsts.shape[1]):
            first[block, c] |= firsts[i, c]
    return first


@kernel
def claim(state, limits, wanted, replaced):
    """Whether tables of `wanted` bytes may be made, and noted if so; 1: there are no bytes left.

    The tables that they replace, of `replaced` bytes, are alive until theirs are copied.
    """
    if state[TAKEN] + wanted > limits.bytes:
        state[OUT_OF_BYTES] = 1
        return 1
    state[OUT_OF_BYTES] = 0  # a smaller size was asked for
    state[TAKEN] += wanted - replaced
    return 0


@kernel
def interned_bytes(capacity, width):
    """Bytes of `new_interned`."""
    size = 16
    while size < 2 * capacity:
        size *= 2
    return 4 * size + 8 * (capacity + 2) + 8 * (width * capacity + 2)


@kernel
def room_bytes(frame_capacity, config_capacity, n_classes):
    """Bytes of the tables of a space that grow."""
    size = 16
    while size < 2 * frame_capacity:
        size *= 2
    frames = 4 * size + (40 + 16 + 16 + 8) * (frame_capacity + 2) + interned_bytes(frame_capacity, 3)
    return frames + (4 * n_classes + 64) * (config_capacity + 2) + interned_bytes(config_capacity, 12)


@kernel
def with_more_room(space, limits):
    """(status, space): larger tables after one was full; status 1: they are as large as they may be."""
    frames, configs, n_classes = space.frames.shape[0], space.steps.shape[0] - 2, space.steps.shape[1]
    if space.state[STOP] or (frames >= limits.nodes and configs >= limits.configurations):
        return 1, space
    # what is half empty need not grow; where nothing tells which table is full, both do
    tails, known = space.tails, space.configs
    used = max(space.state[FRAMES], space.state[LINKS], tails.counts[0])
    few_frames = 2 * used < frames and 2 * tails.counts[1] < tails.pool.size
    few_configs = 2 * known.counts[0] < configs and 2 * known.counts[1] < known.pool.size
    replaced = room_bytes(frames, configs, n_classes)
    for factor in (4, 2):
        more_frames, more_configs = min(factor * frames, limits.nodes), configs
        if not few_configs or few_frames:
            more_configs = min(factor * configs, limits.configurations)
            if few_frames and not few_configs:
                more_frames = frames
        if more_frames == frames and more_configs == configs:
            return 1, space
        if claim(space.state, limits, room_bytes(more_frames, more_configs, n_classes), replaced) == 0:
            return 0, grown_space(space, more_frames, more_configs)
    return 1, space


@kernel
def with_more_outcomes(outcomes, limits, state):
    """(status, outcomes): as `with_more_room`, for outcomes."""
    room = outcomes.starts.size - 2
    if room >= limits.outcomes:
        return 1, outcomes
    for factor in (8, 2):
        more = min(factor * room, limits.outcomes)
        if claim(state, limits, interned_bytes(more, 16), interned_bytes(room, 16)) == 0:
            return 0, grown_interned(outcomes, more, 16)
    return 1, outcomes


@kernel
def first_outcomes(capacity):
    """The outcomes NOTHING and OUTRIGHT, and room for more."""
    outcomes = new_interned(capacity, 16)
    key = np.full(1, -1, np.int64)
    intern(key, 1, outcomes)
    key[0] = 0
    intern(key, 1, outcomes)
    return outcomes


@kernel
def all_blocks(contexts, child, space, net, limits):
    """(status, space, what `find_blocks` gives), with room where it is needed; status 1: over capacity."""
    status, block_starts, blocks, user_starts, users = find_blocks(contexts, child, space, net)
    while status:
        status, space = with_more_room(space, limits)
        if status:
            break
        status, block_starts, blocks, user_starts, users = find_blocks(contexts, child, space, net)
    return status, space, block_starts, blocks, user_starts, users


@kernel
def walk_blocks(block_nodes, blocks, first_rows, first, trie, space, net, displacement, outcomes, limits):
    """Walk some blocks, see `walk`, with more room where it is needed.

    Returns (status, space, outcomes, range starts, ranges, event starts, events); status 1: over capacity.
    """
    status = claim(space.state, limits, 2 * 16384 * 16, 0)
    range_starts = np.zeros(blocks.size + 1, np.int64)
    event_starts = np.zeros(blocks.size + 1, np.int64)
    ranges = np.empty((16384, 2), np.int64)
    events = np.empty((16384, 2), np.int64)
    room = np.int64(trie[0][trie[0].shape[0] - 1, GROUP])
    block = 0
    while status == 0:
        status, block = walk(
            block, block_nodes, blocks, first_rows, first, trie, space, net, displacement, outcomes,
            range_starts, ranges, event_starts, events,
        )  # fmt: skip
        if status == 0:
            break
        # what was met so far stays known; only the block at hand is walked again
        if status == 1:
            status, space = with_more_room(space, limits)
        elif status == 2:
            status, outcomes = with_more_outcomes(outcomes, limits, space.state)
        elif status == 4:
            status = 0
            more = 2 * (range_starts[block] + room)
            if range_starts[block] + room > ranges.shape[0]:
                status = claim(space.state, limits, 16 * more, 16 * ranges.shape[0])
                if status == 0:
                    ranges = grown_rows(ranges, more)
            more = 2 * (event_starts[block] + room)
            if status == 0 and event_starts[block] + room > events.shape[0]:
                status = claim(space.state, limits, 16 * more, 16 * events.shape[0])
                if status == 0:
                    events = grown_rows(events, more)
    return status, space, outcomes, range_starts, ranges, event_starts, events


@kernel
def walk_all(contexts, firsts, trie, space, net, displacement, outcomes, limits):
    """Walk every block of the contexts (symbol, unit).

    Returns (status, space, outcomes, block starts, user starts, users, range starts, ranges, event
    starts, events), ranges and events by block; status 1: over capacity.
    """
    child = children(trie[0])
    status, space, block_starts, blocks, user_starts, users = all_blocks(contexts, child, space, net, limits)
    if status:
        blocks = blocks[:0]  # nothing is walked then
    first = first_of_blocks(users[: users.shape[0] if status == 0 else 0], firsts, blocks.size)
    block_nodes = np.empty(blocks.size, np.int64)
    for b in range(256):
        block_nodes[min(block_starts[b], blocks.size) : min(block_starts[b + 1], blocks.size)] = child[b]
    walked, space, outcomes, range_starts, ranges, event_starts, events = walk_blocks(
        block_nodes, blocks, np.arange(blocks.size), first, trie, space, net, displacement, outcomes, limits
    )
    return (
        max(status, walked), space, outcomes, block_starts, user_starts, users, range_starts, ranges,
        event_starts, events,
    )  # fmt: skip


# ---------------------------------------------------------------- exploring: suffixes that read alike


@kernel
def pending_suffixes(outcomes, begin, noted, parent):
    """Mark with 1 in uint8[suffixes] those of outcomes from `begin` on that are new; returns their number."""
    n = 0
    for i in range(noted.size):
        if noted[i] == 1:
            noted[i] = 2  # of an earlier call
    for outcome in range(begin, outcomes.counts[0]):
        for at in range(outcomes.starts[outcome] + 1, outcomes.starts[outcome + 1], 2):
            if outcomes.pool[at] < 0:
                continue
            suffix = outcomes.pool[at + 1]
            while suffix != 0 and not noted[suffix]:
                noted[suffix] = 1
                n += 1
                # after the first call few are new, and one left by a run of blanks leaves the next shorter
                # one
                suffix = np.int64(parent[suffix]) if begin > 0 else 0
    return n


@kernel
def suffix_strings(order, wanted, parent, first_byte):
    """The suffixes marked 1 in byte order, as (bytes, offsets, suffix of each)."""
    n, total = 0, 0
    for i in range(order.size):
        suffix = np.int64(order[i])
        if wanted[suffix] == 1:
            n += 1
            while suffix != 0:
                total += 1
                suffix = np.int64(parent[suffix])
    data = np.empty(total, np.uint8)
    offsets = np.zeros(n + 1, np.int64)
    numbers = np.empty(n, np.int32)
    n, total = 0, 0
    for i in range(order.size):
        suffix = np.int64(order[i])
        if wanted[suffix] == 1:
            numbers[n] = suffix
            n += 1
            while suffix != 0:
                data[total] = first_byte[suffix]
                total += 1
                suffix = np.int64(parent[suffix])
            offsets[n] = total
    return data, offsets, numbers


@kernel
def order_suffixes(parent, first_byte):
    """All suffixes but the empty one, in byte order: a trie of them in reading order, walked depth first."""
    n = parent.size
    size = 16
    while size < 16 * n:
        size *= 2
    table = np.full(size, -1, np.int32)
    capacity = 8 * n + 16
    up = np.zeros(capacity, np.int32)
    byte = np.zeros(capacity, np.uint8)
    ends = np.full(capacity, -1, np.int32)
    n_nodes = 1
    for s in range(1, n):
        node = np.int64(0)
        suffix = np.int64(s)
        while suffix != 0:
            b = np.int64(first_byte[suffix])
            slot = mix(mix(3, node), b) & (size - 1)
            while table[slot] >= 0 and not (up[table[slot]] == node and byte[table[slot]] == b):
                slot = (slot + 1) & (size - 1)
            if table[slot] < 0:
                if n_nodes == capacity:
                    capacity *= 2
                    up = grown(up, capacity)
                    byte = grown(byte, capacity)
                    old = ends.size
                    ends = grown(ends, capacity)
                    ends[old:] = -1
                up[n_nodes] = node
                byte[n_nodes] = b
                table[slot] = n_nodes
                n_nodes += 1
                if 2 * n_nodes > size:
                    size *= 2
                    table = np.full(size, -1, np.int32)
                    for k in range(1, n_nodes):
                        slot = mix(mix(3, np.int64(up[k])), np.int64(byte[k])) & (size - 1)
                        while table[slot] >= 0:
                            slot = (slot + 1) & (size - 1)
                        table[slot] = k
                    slot = mix(mix(3, node), b) & (size - 1)
                    while not (up[table[slot]] == node and byte[table[slot]] == b):
                        slot = (slot + 1) & (size - 1)
            node = np.int64(table[slot])
            suffix = np.int64(parent[suffix])
        ends[node] = s
    # children by byte, last first, so that each node's list begins with its least byte
    head = np.full(n_nodes, -1, np.int32)
    following = np.full(n_nodes, -1, np.int32)
    counts = np.zeros(257, np.int64)
    for k in range(1, n_nodes):
        counts[np.int64(byte[k]) + 1] += 1
    for b in range(256):
        counts[b + 1] += counts[b]
    by_byte = np.zeros(n_nodes, np.int32)
    for k in range(1, n_nodes):
        by_byte[counts[byte[k]]] = k
        counts[byte[k]] += 1
    for j in range(n_nodes - 2, -1, -1):
        k = by_byte[j]
        following[k] = head[up[k]]
        head[up[k]] = k
    order = np.zeros(max(n - 1, 0), np.int32)
    n_order = 0
    node = np.int64(head[0])
    while node > 0:
        if ends[node] >= 0:
            order[n_order] = ends[node]
            n_order += 1
        if head[node] >= 0:
            node = np.int64(head[node])
            continue
        while node > 0 and following[node] < 0:
            node = np.int64(up[node])
        if node > 0:
            node = np.int64(following[node])
    return order


@kernel
def suffix_twins(
    group_suffix, round_of_group, range_sets, set_words, first_byte, block_starts, user_starts, users, owner,
    events, outcomes, state, limits,
):  # fmt: skip
    """For each suffix of `group_suffix`, one suffix that reads alike on every symbol; -1 for the others.

    Suffixes were walked in rounds,
    each with blocks of its own: `block_starts` and `user_starts` int64[rounds,
    257]. Row ``range_sets[g]`` of `set_words` tells with bit i that the i-th block of its first byte reads
    suffix g outright; ``events[e]`` is a row (g, outcome) of block ``owner[e]``. Suffixes are taken in the
    order of their numbers: what an outcome leaves to be read is shorter, and has a lower number.
    Returns (status, int32[suffixes]); status 1: over capacity, or told to stop.
    """
    n = group_suffix.size
    n_suffixes = first_byte.size
    twin = np.full(n_suffixes, -1, np.int32)
    taken = state[TAKEN]
    fixed = 8 * n_suffixes + 24 * n + 16 * owner.size + 8 * outcomes.counts[0]
    if claim(state, limits, fixed + interned_bytes(outcomes.counts[0], 16) + 2 * interned_bytes(n, 16), 0):
        return 1, twin
    group_of = np.full(n_suffixes, -1, np.int32)
    for g in range(n):
        group_of[group_suffix[g]] = g
    own_starts = np.zeros(n + 1, np.int64)
    for e in range(owner.size):
        own_starts[events[e, 0] + 1] += 1
    for g in range(n):
        own_starts[g + 1] += own_starts[g]
    own = np.empty((owner.size, 2), np.int64)
    fill = own_starts[:-1].copy()
    for e in range(owner.size):
        g = events[e, 0]
        own[fill[g], 0] = owner[e]
        own[fill[g], 1] = events[e, 1]
        fill[g] += 1
    n_outcomes = outcomes.counts[0]
    rewritten = np.full(n_outcomes, -1, np.int64)
    widest = 2
    for o in range(n_outcomes):
        widest = max(widest, outcomes.starts[o + 1] - outcomes.starts[o])
    wide = 1
    for r in range(block_starts.shape[0]):
        for b in range(256):
            wide = max(wide, block_starts[r, b + 1] - block_starts[r, b])
            wide = max(wide, user_starts[r, b + 1] - user_starts[r, b])
    key = np.empty(2 * wide + widest + 4, np.int64)
    pairs = np.empty(widest + 2, np.int64)
    value = np.zeros(wide + 1, np.int64)
    fresh = new_interned(n_outcomes + 2, 16)
    by_block = new_interned(n + 2, 16)
    full = new_interned(n + 2, 16)
    class_of_key = np.zeros(n + 2, np.int64)
    example = np.zeros(n + 2, np.int32)
    for suffix in range(n_suffixes):
        g = np.int64(group_of[suffix])
        if g < 0:
            continue
        if state[STOP]:
            return 1, twin
        b = np.int64(first_byte[suffix])
        r = round_of_group[g]
        key[0] = 256 * r + b
        key[1] = range_sets[g]
        length = 2
        for e in range(own_starts[g], own_starts[g + 1]):
            o = own[e, 1]
            if rewritten[o] < 0:
                number = rewrite_outcome(o, outcomes, twin, fresh, key[length:], pairs)
                while number < 0:
                    room = fresh.starts.size
                    if claim(state, limits, interned_bytes(2 * room, 32), interned_bytes(room, 16)):
                        return 1, twin
                    fresh = grown_interned(fresh, 2 * room, 32)
                    number = rewrite_outcome(o, outcomes, twin, fresh, key[length:], pairs)
                rewritten[o] = number
            key[length] = own[e, 0]
            key[length + 1] = rewritten[o]
            length += 2
        known = by_block.counts[0]
        if by_block.counts[1] + length > by_block.pool.size:
            width = 2 * by_block.pool.size // (n + 2) + length
            if claim(state, limits, interned_bytes(n, width), interned_bytes(n, width // 2)):
                return 1, twin
            by_block = grown_interned(by_block, n + 2, width)
        listed = intern(key, length, by_block)
        if listed == known:
            first_block = block_starts[r, b]
            n_here = block_starts[r, b + 1] - first_block
            words = range_sets[g]
            for i in range(n_here):
                value[i] = 0
                if (set_words[words, i >> 5] >> (i & 31)) & 1:
                    value[i] = 1
            for e in range(own_starts[g], own_starts[g + 1]):
                value[own[e, 0] - first_block] = 2 + rewritten[own[e, 1]]
            length = 0
            for u in range(user_starts[r, b], user_starts[r, b + 1]):
                v = value[users[u, 1] - first_block]
                if v:
                    key[length] = users[u, 0]
                    key[length + 1] = v
                    length += 2
            known = full.counts[0]
            if full.counts[1] + length > full.pool.size:
                width = 2 * full.pool.size // (n + 2) + length
                if claim(state, limits, interned_bytes(n, width), interned_bytes(n, width // 2)):
                    return 1, twin
                full = grown_interned(full, n + 2, width)
            number = intern(key, length, full)
            if number == known:
                example[number] = suffix
            class_of_key[listed] = number
        twin[suffix] = example[class_of_key[listed]]
    state[TAKEN] = taken  # nothing but the result is left
    return 0, twin


@kernel
def rewrite_outcome(o, outcomes, twin, fresh, key, pairs):
    """The number in `fresh` of outcome o with every suffix replaced by its twin; -1 over capacity."""
    starts, pool = outcomes.starts, outcomes.pool
    key[0] = pool[starts[o]]
    n_pairs = 0
    for at in range(starts[o] + 1, starts[o + 1], 2):
        pair = pool[at] * 1073741824 + np.int64(twin[pool[at + 1]])
        n_pairs = insert_sorted(pairs, n_pairs, pair)
    for k in range(n_pairs):
        key[1 + 2 * k] = pairs[k] >> 30
        key[2 + 2 * k] = pairs[k] & 1073741823
    return intern(key, 1 + 2 * n_pairs, fresh)


@kernel
def rewrite_outcomes(outcomes, twin, event_starts, events):
    """Outcomes with every suffix replaced by its twin, interned anew; events are renumbered in place."""
    n = outcomes.counts[0]
    fresh = new_interned(outcomes.starts.size - 2, 16)
    if fresh.pool.size < outcomes.pool.size:
        room = outcomes.starts.size - 2
        fresh = grown_interned(fresh, room, outcomes.pool.size // room + 1)
    number = np.full(n, -1, np.int64)
    widest = 2
    for o in range(n):
        widest = max(widest, outcomes.starts[o + 1] - outcomes.starts[o])
    key = np.empty(widest + 2, np.int64)
    pairs = np.empty(widest + 2, np.int64)
    number[NOTHING] = rewrite_outcome(NOTHING, outcomes, twin, fresh, key, pairs)
    number[OUTRIGHT] = rewrite_outcome(OUTRIGHT, outcomes, twin, fresh, key, pairs)
    for e in range(event_starts[event_starts.size - 1]):
        o = events[e, 1]
        if number[o] < 0:
            number[o] = rewrite_outcome(o, outcomes, twin, fresh, key, pairs)
        events[e, 1] = number[o]
    return fresh


# ---------------------------------------------------------------- exploring: what lies below

# An item is (set of suffixes, set of symbols that may lie below): the rest of a token, still to be read.


@inlined
def read_symbol(
    suffixes, start, first, suffix_parent, suffix_byte, class_of_byte, starts, pool, steps, facts, space, net,
    displacement, outcomes, pairs, key,
):  # fmt: skip
    """The outcome of a set of suffixes on a symbol, whose configuration is `start`.

    -1: the space is full; -2: the outcomes are; -3: `pairs` is.
    """
    n_pairs = 0
    label = np.int64(-1)
    number = np.int64(0)
    for k in range(suffixes.size):
        suffix = suffixes[k]
        config = start
        while suffix != 0 and config != REJECT and number == 0:
            c = class_of_byte[suffix_byte[suffix]]
            if facts[config, POPS] > 0 and first[c]:
                at = starts[config] + 2
                for j in range(facts[config, POPS]):
                    if n_pairs + 2 > pairs.size:
                        number = -3
                    else:
                        n_pairs = insert_sorted(pairs, n_pairs, (-1 - pool[at + j]) * 1073741824 + suffix)
            following = np.int64(steps[config, c])
            if following < 0:
                following = step_config(config, c, space, net)
                if following < 0:
                    number = -1
                    following = REJECT
            config = following
            suffix = np.int64(suffix_parent[suffix])
        if config != REJECT and number == 0:
            if displacement:
                if n_pairs + 2 > pairs.size:
                    number = -3
                else:
                    n_pairs = insert_sorted(pairs, n_pairs, -1 - config)
            elif label < 0 or facts[config, LABEL] < label:
                label = facts[config, LABEL]
    if number == 0:
        if label == 0:
            number = OUTRIGHT
        else:
            key[0] = label
            for k in range(n_pairs):
                if pairs[k] < 0:  # a final configuration
                    key[2 * k + 1] = pairs[k] - 1
                    key[2 * k + 2] = 0
                else:
                    key[2 * k + 1] = pairs[k] >> 30
                    key[2 * k + 2] = pairs[k] & 1073741823
            number = intern(key, 2 * n_pairs + 1, outcomes)
            if number < 0:
                number = -2
    return number


@inlined
def add_rows(
    rows, n_rows, outcome, below, first, class_of_byte, suffix_byte, outcomes, sets, items, buffer,
):  # fmt: skip
    """Append an outcome's rows (tag, value) in terms of items; returns their number, -1 if a table is full.

    tag -1: label; tag >= 0: port, value is the item of those suffixes that can go on, and there is no row if
    none can; tag <= -2: a final configuration.
    """
    out_pool = outcomes.pool
    i, end = outcomes.starts[outcome], outcomes.starts[outcome + 1]
    if n_rows + (end - i) + 2 > rows.shape[0] or end - i + 2 > buffer.size:
        n_rows = -1
    else:
        if out_pool[i] >= 0:
            rows[n_rows, 0] = -1
            rows[n_rows, 1] = out_pool[i]
            n_rows += 1
        i += 1
        while i < end and n_rows >= 0:
            port = out_pool[i]
            if port < 0:
                rows[n_rows, 0] = port
                rows[n_rows, 1] = 0
                n_rows += 1
                i += 2
                continue
            n = 0
            while i < end and out_pool[i] == port:
                if first[below, class_of_byte[suffix_byte[out_pool[i + 1]]]]:
                    buffer[n] = out_pool[i + 1]
                    n += 1
                i += 2
            if n > 0:
                number = intern(buffer, n, sets)
                item = np.int64(-1)
                if number >= 0:
                    buffer[0] = number
                    buffer[1] = below
                    item = intern(buffer, 2, items)
                if item >= 0:
                    rows[n_rows, 0] = port
                    rows[n_rows, 1] = item
                    n_rows += 1
                else:
                    n_rows = -1
    return n_rows


@kernel
def read_more(
    q, done, n_rows, queries, query_starts, item_starts, rows, below_starts, below_symbols, below_of_symbol,
    symbol_index, symbol_start, first, symbol_first, return_first, suffix_parent, suffix_byte, space, net,
    displacement, outcomes, sets, items, memo, memo_value, buffer,
):  # fmt: skip
    """Go on with `read_items` from query `q` and item `done` until a table is full.

    Returns (status, queries done, items done, rows); status 1: a table of items is full, 2: the space is,
    3: the outcomes are. (A call for each item and symbol took three times as long.)
    """
    space, net, outcomes = borrowed_space(space), borrowed_net(net), borrowed_interned(outcomes)
    sets, items, memo = borrowed_interned(sets), borrowed_interned(items), borrowed_interned(memo)
    class_of_byte = space.class_of_byte
    starts, pool, steps, facts = space.configs.starts, space.configs.pool, space.steps, space.facts
    n_classes = symbol_first.shape[1]
    leads = np.zeros(n_classes, np.uint8)
    lead = np.empty(n_classes, np.int64)
    pairs = np.empty(buffer.size // 2, np.int64)
    key = np.empty(buffer.size + 2, np.int64)
    while q < queries.shape[0]:
        end = add_rows(
            rows, n_rows, queries[q, 0], queries[q, 1], first, class_of_byte, suffix_byte, outcomes, sets,
            items,
            buffer,
        )  # fmt: skip
        if end < 0:
            return 1, q, done, n_rows
        n_rows = end
        q += 1
        query_starts[q] = n_rows
        item_starts[0] = n_rows
    while done < items.counts[0]:
        if done + 2 > item_starts.size:
            return 1, q, done, n_rows
        if space.state[STOP]:
            return 2, q, done, n_rows
        number, below = items.pool[2 * done], items.pool[2 * done + 1]
        suffixes = sets.pool[sets.starts[number] : sets.starts[number + 1]]
        n_leads = 0
        for i in range(suffixes.size):
            c = class_of_byte[suffix_byte[suffixes[i]]]
            if not leads[c]:
                leads[c] = 1
                lead[n_leads] = c
                n_leads += 1
        for i in range(n_leads):
            leads[lead[i]] = 0
        at_row = n_rows
        for k in range(below_starts[below], below_starts[below + 1]):
            can = False
            for i in range(n_leads):
                if symbol_first[k, lead[i]]:
                    can = True
                    break
            if can:
                index = symbol_index[k]
                key[0] = number
                key[1] = index
                known = memo.counts[0]
                at = intern(key, 2, memo)
                if at < 0:
                    return 1, q, done, n_rows
                if at == known:
                    memo_value[at] = -1
                if memo_value[at] < 0:
                    value = read_symbol(
                        suffixes, symbol_start[index], return_first[index], suffix_parent, suffix_byte,
                        class_of_byte, starts, pool, steps, facts, space, net, displacement, outcomes, pairs,
                        key,
                    )  # fmt: skip
                    if value < 0:
                        return (1 if value == -3 else 1 - value), q, done, n_rows
                    memo_value[at] = value
                at_row = add_rows(
                    rows, at_row, memo_value[at], below_of_symbol[k], first, class_of_byte, suffix_byte,
                    outcomes,
                    sets, items, buffer,
                )  # fmt: skip
                if at_row < 0:
                    return 1, q, done, n_rows
            if at_row + 2 > rows.shape[0]:
                return 1, q, done, n_rows
            rows[at_row, 0] = -1  # the end of a symbol: a label that no outcome has
            rows[at_row, 1] = -1
            at_row += 1
        n_rows = at_row
        done += 1
        item_starts[done] = n_rows
    return 0, q, done, n_rows


@kernel
def start_configs(symbols, space, net):
    """The configuration of each symbol; one of them is -1 where the space is full."""
    space, net = borrowed_space(space), borrowed_net(net)
    start = np.empty(symbols.size, np.int64)
    for i in range(symbols.size):
        start[i] = start_config(symbols[i], -1, space, net)
    return start


@kernel
def items_bytes(sets, items, memo, rows):
    """Bytes of the tables of `read_items` that grow."""
    total = 16 * rows.shape[0] + 8 * items.starts.size + 8 * memo.starts.size
    for known in (sets, items, memo):
        total += 4 * known.table.size + 8 * known.starts.size + 8 * known.pool.size
    return total


@kernel
def read_items(
    queries, below_starts, below_symbols, below_of_symbol, symbols, symbol_index, first, symbol_first,
    return_first, suffix_parent, suffix_byte, space, net, displacement, outcomes, limits,
):  # fmt: skip
    """Every query (outcome, below) in terms of items, and every item read on every symbol below it.

    Set `below` holds the symbols ``below_symbols[k]``, for k from ``below_starts[below]``, each over set
    ``below_of_symbol[k]``. ``symbols[symbol_index[k]]`` is the symbol of occurrence k. `first`,
    `symbol_first` and `return_first` are byte classes that can come next on a set, on an occurrence k, and
    after a distinct symbol has returned.
    Returns (status, rows (tag, value), where each query's rows start, where each item's do, the below set of
    each item); status 1: over capacity.
    """
    item_capacity = min(4096, limits.items)
    sets = new_interned(item_capacity, 16)
    items = new_interned(item_capacity, 2)
    memo = new_interned(2 * item_capacity, 2)
    memo_value = np.empty(2 * item_capacity + 2, np.int64)
    rows = np.empty((8192, 2), np.int64)
    buffer = np.empty(256, np.int64)
    query_starts = np.zeros(queries.shape[0] + 1, np.int64)
    item_starts = np.zeros(item_capacity + 2, np.int64)
    symbol_start = start_configs(symbols, space, net)
    if claim(space.state, limits, items_bytes(sets, items, memo, rows) + 8 * query_starts.size, 0):
        return 1, rows, query_starts, item_starts, symbol_start
    while symbol_start.size and symbol_start.min() < 0:
        status, space = with_more_room(space, limits)
        if status:
            return 1, rows, query_starts, item_starts, symbol_start
        symbol_start = start_configs(symbols, space, net)
    q, done, n_rows = 0, 0, 0
    while True:
        status, q, done, n_rows = read_more(
            q, done, n_rows, queries, query_starts, item_starts, rows, below_starts, below_symbols,
            below_of_symbol, symbol_index, symbol_start, first, symbol_first, return_first, suffix_parent,
            suffix_byte, space, net, displacement, outcomes, sets, items, memo, memo_value, buffer,
        )  # fmt: skip
        if status == 0:
            break
        if status == 1:
            # whichever table is full: all get more room
            if items.counts[0] > limits.items or rows.shape[0] > 64 * limits.items:
                return 1, rows, query_starts, item_starts, symbol_start
            replaced = items_bytes(sets, items, memo, rows)
            factor = 4
            if claim(space.state, limits, factor * replaced, replaced):
                factor = 2
                if claim(space.state, limits, factor * replaced, replaced):
                    return 1, rows, query_starts, item_starts, symbol_start
            room = sets.starts.size - 2
            if 2 * sets.counts[0] > room or 2 * sets.counts[1] > sets.pool.size:
                sets = grown_interned(sets, factor * room, max(16, sets.pool.size // room))
            room = items.starts.size - 2
            if 2 * items.counts[0] > room:
                items = grown_interned(items, factor * room, 2)
                item_starts = grown(item_starts, factor * room + 2)
            room = memo.starts.size - 2
            if 2 * memo.counts[0] > room:
                memo = grown_interned(memo, factor * room, 2)
                memo_value = grown(memo_value, factor * room + 2)
            rows = grown_rows(rows, 2 * rows.shape[0])
            buffer = np.empty(2 * buffer.size, np.int64)
            # not all tables grew by the factor
            space.state[TAKEN] += items_bytes(sets, items, memo, rows) - factor * replaced
        elif status == 2:
            status, space = with_more_room(space, limits)
            if status:
                return 1, rows, query_starts, item_starts, symbol_start
        elif status == 3:
            status, outcomes = with_more_outcomes(outcomes, limits, space.state)
            if status:
                return 1, rows, query_starts, item_starts, symbol_start
    below_of_item = np.empty(done, np.int64)
    for i in range(done):
        below_of_item[i] = items.pool[2 * i + 1]
    return 0, rows[:n_rows], query_starts, item_starts[: done + 1], below_of_item


@kernel
def color_queries(rows, queries, query_starts, item_starts, below_of_item, bottom, displacement, state):
    """A number for each query: equal for equal sets of stacks that let the token through.

    0: none; 1: all of them (acceptance only). `bottom` marks below sets that may be the empty stack; the
    others as `read_items` gives them. Returns (colors, rounds), of no use once the exploration is to stop.
    """
    n_queries, n_items, n_rows = queries.shape[0], below_of_item.size, rows.shape[0]
    colors = np.zeros(n_queries, np.int64)
    color = np.zeros(n_items, np.int64)
    # 0: no stack lets it through (the complement of a least fixed point)
    changed = True
    while changed:
        changed = False
        for i in range(n_items - 1, -1, -1):
            if color[i]:
                continue
            if state[STOP]:
                return colors, 0
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
            if color[i] != 2 or bottom[below_of_item[i]]:
                continue
            if state[STOP]:
                return colors, 0
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
    size = 16
    while size < 2 * n_items + 4:
        size *= 2
    table = np.full(size, -1, np.int32)
    starts = np.zeros(n_items + 4, np.int64)
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
            if state[STOP]:
                return colors, 0
            buffer[0] = below_of_item[i]
            length = row_colors(rows, item_starts[i], item_starts[i + 1], color, buffer, 1, pairs)
            renewed[i] = 2 + intern_list(buffer, length, table, starts, pool, counts)
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
        if state[STOP]:
            return colors, 0
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
    return colors, rounds


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
def find_queries(
    event_starts, events, n_outcomes, block_users, users, context_starts, context_below, state, limits,
):  # fmt: skip
    """The distinct pairs (outcome, below) that some context needs, and the table that finds them.

    `block_users` int64[blocks + 1] points into `users` rows sorted by block.
    Returns (status, queries int64[n, 2], table int64[2**k]); status 1: over capacity, or told to stop.
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
            if state[STOP]:
                return 1, queries[:n], table
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
                    # queries and table grow together, to twice their size
                    if claim(state, limits, 2 * (16 * n + 8 * size), 16 * n + 8 * size):
                        return 1, queries[:n], table
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
    return 0, queries[:n], table


@kernel
def partition_blocks(byte_of_group, block_starts, range_starts, ranges, state, limits):
    """Number per group of (first byte, blocks that read it outright); equal pairs, equal numbers; 0 = none.

    The set at hand is kept while sweeping the groups in order, and looked up, with an exact comparison,
    where a range begins or ends; no range crosses a first byte. Returns (status, numbers, words of each
    number): bit i of the 32-bit words is the i-th block of the byte. Status 1: over capacity, or to stop.
    """
    widest = 1
    for b in range(256):
        widest = max(widest, block_starts[b + 1] - block_starts[b])
    n_words = (widest + 31) // 32
    n_groups = byte_of_group.size
    total = range_starts[-1]
    taken = state[TAKEN]
    if claim(state, limits, 12 * n_groups + 40 * total, 0):
        return 1, np.zeros(0, np.int32), np.zeros((0, n_words), np.int64)
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
        if state[STOP]:
            return 1, np.zeros(0, np.int32), sets
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
                replaced = (8 * n_words + 48) * capacity  # with a table of at most 4 numbers a set
                if claim(state, limits, 2 * replaced, replaced):
                    return 1, np.zeros(0, np.int32), sets
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
    result = np.zeros(n_groups, np.int32)
    for i in range(n_bounds):
        for g in range(bounds[i], bounds[i + 1]):
            result[g] = number[i]
    state[TAKEN] = taken + 8 * n_groups + 8 * n_words * capacity
    return 0, result, sets[:n_sets]


@kernel
def split_unread(range_sets, n_sets, byte_of_group):
    """int32[groups]: the numbers of `partition_blocks`, and instead of 0 one number a first byte."""
    classes = np.empty(range_sets.size, np.int32)
    for g in range(range_sets.size):
        classes[g] = range_sets[g] if range_sets[g] else n_sets + np.int64(byte_of_group[g])
    return classes


@kernel
def split_events(classes, event_starts, events, n_classes, state):
    """Split classes (int32[groups], in place) by each block's events (group, outcome), exactly.

    Returns the number of class numbers handed out; those that lost all groups stay unused. -1: told to stop.
    """
    table_size = 1024
    table = np.full((table_size, 3), -1, np.int64)
    for block in range(event_starts.size - 1):
        begin, end = event_starts[block], event_starts[block + 1]
        if end == begin:
            continue
        if state[STOP]:
            return -1
        while table_size < 2 * (end - begin):
            table_size *= 2
        if table_size != table.shape[0]:
            table = np.full((table_size, 3), -1, np.int64)
        first_new = n_classes
        for e in range(begin, end):
            g, outcome = events[e, 0], events[e, 1]
            old = np.int64(classes[g])
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
    state,
    limits,
):
    """Merge the classes of each first byte that all contexts treat alike.

    Returns (status, int32[groups], -1 = never read); status 1: more than `tuple_capacity` distinct lists, 2:
    no bytes left, or told to stop.

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
    taken = state[TAKEN]
    room = 16 * event_at[n_classes] + 64 * n_classes + 4 * n_groups + interned_bytes(tuple_capacity, 4)
    if claim(state, limits, room, 0):
        return 2, np.empty(0, np.int32)
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
            if state[STOP]:
                return 2, result
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
                        state[TAKEN] = taken
                        return 1, result
            key[length] = c
            key[length + 1] = feature
            length += 2
        if length:
            if counts[1] + length > pool.size:
                if claim(state, limits, 8 * (2 * pool.size + length), 8 * pool.size):
                    return 2, result
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
