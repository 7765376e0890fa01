"""Numba kernels that merge states: flat arrays in, flat arrays out, nothing is validated here.

What: states that do nothing but tail call a rule give way to its first state (`passed_on`); the coarsest
bisimulation of the states of all rules (`minimise`), and the network of its classes (`quotient`).
When: called by `equivalence.network.build` only, once per grammar.
Limits: none of its own; arrays are as large as the network. What is returned once the cell `stop` is 1 is of
no use.

`minimise` first merges states whose successors are already merged, from the leaves up, in one pass: on
large schemas six of seven states go here. What is left is refined from one block down, looking again only
at states a successor of which has moved, and the largest part of a block never moves (Hopcroft's trick),
so a state moves at most log n times.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from equivalence.interning._kernels import intern_list

kernel = njit(cache=True, nogil=True)

SELF = -2  # in a key: the state itself, whose number is not known yet


@kernel
def power_of_two(least):
    """The smallest power of two that is not below `least`."""
    size = 16
    while size < least:
        size *= 2
    return size


@kernel
def passed_on(rule_first, final, edge_starts, edges, call_starts, calls):
    """Lead past the states whose only move is a tail call of a plain rule, to the first state of that rule.

    Returns (the state that stands for each state, edges, calls, first state of each rule): as those given,
    which keep the calls that decide what lies below a rule (`with_passed`).
    """
    n = final.size
    stands = np.arange(n)
    for s in range(n):
        t = s
        for _ in range(
            rule_first.size
        ):  # no rule calls itself before it has read a byte, so this ends sooner
            k = call_starts[t]
            if final[t] or edge_starts[t + 1] > edge_starts[t] or call_starts[t + 1] - k != 1:
                break
            callee, back = calls[k, 0], calls[k, 1]
            if (
                callee >= rule_first.size
                or not final[back]
                or edge_starts[back + 1] > edge_starts[back]
                or call_starts[back + 1] > call_starts[back]
            ):
                break
            t = rule_first[callee]
        stands[s] = t
    edges, calls, rule_first = edges.copy(), calls.copy(), rule_first.copy()
    for k in range(edges.shape[0]):
        edges[k, 2] = stands[edges[k, 2]]
    for k in range(calls.shape[0]):
        calls[k, 1] = stands[calls[k, 1]]
    for rule in range(rule_first.size):
        if rule_first[rule] >= 0:
            rule_first[rule] = stands[rule_first[rule]]
    return stands, edges, calls, rule_first


@kernel
def with_passed(stands, cls, root, rule_first, edge_starts, edges, call_starts, calls, counted):
    """Classes also for the states that `passed_on` leads past, where the root leads to them: those of the
    states that stand for them. Other arrays are as they were before."""
    cls = cls.copy()
    waiting = np.empty(cls.size + 1, np.int64)
    n = 0
    for s in range(cls.size):
        if cls[s] >= 0:
            waiting[n] = s
            n += 1
    first = rule_first[root]
    if cls[first] < 0:
        cls[first] = cls[stands[first]]
        waiting[n] = first
        n += 1
    i = 0
    while i < n:
        s = waiting[i]
        i += 1
        n_edges = edge_starts[s + 1] - edge_starts[s]
        for k in range(n_edges + 2 * (call_starts[s + 1] - call_starts[s])):
            if k < n_edges:
                t = edges[edge_starts[s] + k, 2]
            else:
                t = calls[call_starts[s] + ((k - n_edges) >> 1), 1]
                if (k - n_edges) & 1:
                    callee = calls[call_starts[s] + ((k - n_edges) >> 1), 0]
                    if callee >= rule_first.size:
                        callee = counted[callee - rule_first.size, 0]
                    t = rule_first[callee]
            if cls[t] < 0 and stands[t] != t:
                cls[t] = cls[stands[t]]
                waiting[n] = t
                n += 1
    return cls


@kernel
def bounds_of_counted(counted, nullable):
    """(number of each counted rule's bounds, from 1; how many numbers there are with 0 for plain calls)."""
    n = counted.shape[0]
    number = np.zeros(n, np.int64)
    table = np.full(power_of_two(4 * n), -1, np.int64)
    starts = np.zeros(n + 2, np.int64)
    pool = np.zeros(2 * n + 2, np.int64)
    counts = np.zeros(2, np.int64)
    key = np.zeros(2, np.int64)
    for c in range(n):
        key[0] = 0 if nullable[counted[c, 0]] else counted[c, 1]
        key[1] = counted[c, 2]
        number[c] = 1 + intern_list(key, 2, table, starts, pool, counts)
    return number, np.int64(counts[0]) + 1


@kernel
def write_key(key, codes, s, own, name, final, edge_starts, edges, call_starts, calls, bounds, base):
    """Write what a state can do next, its successors by `name`; returns the length.

    Rows of `calls` are (first state of the callee, number of its bounds, return state). `own`, unless -1,
    stands for the state itself.
    """
    key[0] = final[s]
    length = 1
    for k in range(edge_starts[s], edge_starts[s + 1]):
        target = name[edges[k, 2]] if edges[k, 2] != s or own == -1 else own
        if length > 1 and key[length - 1] == target and key[length - 2] == edges[k, 0] - 1:
            key[length - 2] = edges[k, 1]
        else:
            key[length] = edges[k, 0]
            key[length + 1] = edges[k, 1]
            key[length + 2] = target
            length += 3
    key[length] = -1
    length += 1
    n_codes = 0
    for k in range(call_starts[s], call_starts[s + 1]):
        callee = name[calls[k, 0]] if calls[k, 0] != s or own == -1 else own
        back = name[calls[k, 2]] if calls[k, 2] != s or own == -1 else own
        code = ((callee + 2) * bounds + calls[k, 1]) * base + back + 2
        codes[n_codes] = code
        n_codes += 1
    if n_codes > 16:
        codes[:n_codes].sort()
    else:
        for i in range(1, n_codes):
            code = codes[i]
            j = i
            while j > 0 and codes[j - 1] > code:
                codes[j] = codes[j - 1]
                j -= 1
            codes[j] = code
    for k in range(n_codes):
        if k == 0 or codes[k] != codes[k - 1]:
            key[length] = codes[k] // base  # in two parts: the hash looks at 30 bits of each
            key[length + 1] = codes[k] % base
            length += 2
    return length


@kernel
def merge_upwards(root, final, edge_starts, edges, call_starts, calls, bounds, key, codes, stop):
    """Merge states that do the same, successors first; states on longer cycles stay apart.

    Returns (class per state, -1 where the root does not lead; classes). Only equal states get one class;
    that all equal ones do is left to `refine`.
    """
    n = final.size
    base = n + 3
    cls = np.full(n, -1, np.int64)
    capacity = 2 * n + 2  # a state with an edge to itself is stored twice
    table = np.full(power_of_two(2 * capacity), -1, np.int64)
    starts = np.zeros(capacity + 1, np.int64)
    pool = np.zeros(2 * (2 * n + 3 * edges.shape[0] + 2 * calls.shape[0]) + 2, np.int64)
    class_of_key = np.zeros(capacity, np.int64)
    counts = np.zeros(2, np.int64)
    n_classes = 0
    state = np.zeros(n, np.uint8)  # 1: on the path, 2: done
    path = np.zeros(n + 1, np.int64)
    cursor = np.zeros(n, np.int64)
    path[0] = root
    state[root] = 1
    depth = 1
    while depth > 0:
        s = path[depth - 1]
        n_edges = edge_starts[s + 1] - edge_starts[s]
        n_successors = n_edges + 2 * (call_starts[s + 1] - call_starts[s])
        found = False
        while cursor[s] < n_successors:
            i = cursor[s]
            cursor[s] += 1
            if i < n_edges:
                t = edges[edge_starts[s] + i, 2]
            else:
                i -= n_edges
                t = calls[call_starts[s] + (i >> 1), 2 * (i & 1)]
            if not state[t]:
                state[t] = 1
                path[depth] = t
                depth += 1
                found = True
                break
        if found:
            continue
        if stop[0]:
            break
        depth -= 1
        state[s] = 2
        loops, unknown = False, False
        for k in range(edge_starts[s], edge_starts[s + 1]):
            t = edges[k, 2]
            loops = loops or t == s
            unknown = unknown or (t != s and cls[t] < 0)
        for k in range(call_starts[s], call_starts[s + 1]):
            for column in range(0, 3, 2):
                t = calls[k, column]
                loops = loops or t == s
                unknown = unknown or (t != s and cls[t] < 0)
        if unknown:
            cls[s] = n_classes
            n_classes += 1
            continue
        own = SELF if loops else -1
        length = write_key(
            key, codes, s, own, cls, final, edge_starts, edges, call_starts, calls, bounds, base
        )
        known = np.int64(counts[0])
        number = intern_list(key, length, table, starts, pool, counts)
        if number < known:
            cls[s] = class_of_key[number]
            continue
        class_of_key[number] = n_classes
        cls[s] = n_classes
        n_classes += 1
        if loops:
            # another state may lead here without being here: it does the same
            length = write_key(
                key, codes, s, -1, cls, final, edge_starts, edges, call_starts, calls, bounds, base
            )
            known = np.int64(counts[0])
            number = intern_list(key, length, table, starts, pool, counts)
            if number == known:
                class_of_key[number] = cls[s]
    return cls, n_classes


@kernel
def class_graph(cls, n_classes, final, edge_starts, edges, call_starts, calls):
    """The graph of classes, each as one of its states does; arrays as those of the states."""
    example = np.full(n_classes, -1, np.int64)
    for s in range(cls.size):
        if cls[s] >= 0 and example[cls[s]] < 0:
            example[cls[s]] = s
    c_final = np.zeros(n_classes, np.uint8)
    c_edge_starts = np.zeros(n_classes + 1, np.int64)
    c_call_starts = np.zeros(n_classes + 1, np.int64)
    for c in range(n_classes):
        s = example[c]
        c_final[c] = final[s]
        c_edge_starts[c + 1] = c_edge_starts[c] + edge_starts[s + 1] - edge_starts[s]
        c_call_starts[c + 1] = c_call_starts[c] + call_starts[s + 1] - call_starts[s]
    c_edges = np.zeros((c_edge_starts[n_classes], 3), np.int64)
    c_calls = np.zeros((c_call_starts[n_classes], 3), np.int64)
    for c in range(n_classes):
        s = example[c]
        for i in range(c_edge_starts[c + 1] - c_edge_starts[c]):
            c_edges[c_edge_starts[c] + i, 0] = edges[edge_starts[s] + i, 0]
            c_edges[c_edge_starts[c] + i, 1] = edges[edge_starts[s] + i, 1]
            c_edges[c_edge_starts[c] + i, 2] = cls[edges[edge_starts[s] + i, 2]]
        for i in range(c_call_starts[c + 1] - c_call_starts[c]):
            c_calls[c_call_starts[c] + i, 0] = cls[calls[call_starts[s] + i, 0]]
            c_calls[c_call_starts[c] + i, 1] = calls[call_starts[s] + i, 1]
            c_calls[c_call_starts[c] + i, 2] = cls[calls[call_starts[s] + i, 2]]
    return c_final, c_edge_starts, c_edges, c_call_starts, c_calls


@kernel
def predecessors(n, edge_starts, edges, call_starts, calls):
    """(starts, states): the states that lead to each state by an edge, a call or a return."""
    starts = np.zeros(n + 2, np.int64)
    for k in range(edges.shape[0]):
        starts[edges[k, 2] + 2] += 1
    for k in range(calls.shape[0]):
        starts[calls[k, 0] + 2] += 1
        starts[calls[k, 2] + 2] += 1
    for s in range(n):
        starts[s + 2] += starts[s + 1]
    states = np.zeros(starts[n + 1], np.int64)
    for s in range(n):
        for k in range(edge_starts[s], edge_starts[s + 1]):
            t = edges[k, 2]
            states[starts[t + 1]] = s
            starts[t + 1] += 1
        for k in range(call_starts[s], call_starts[s + 1]):
            for column in range(0, 3, 2):
                t = calls[k, column]
                states[starts[t + 1]] = s
                starts[t + 1] += 1
    return starts[: n + 1], states


@kernel
def refine(final, edge_starts, edges, call_starts, calls, bounds, key, codes, stop):
    """The coarsest bisimulation: (block per state, blocks).

    Each round looks again at the states a successor of which has moved to another block. Two states of one
    block did the same before; the one that is not looked at still does, and the one that is leads to a new
    block, which the other cannot: so each block falls into the states not looked at and groups of equal
    keys among the others. All parts but the largest move.
    """
    n = final.size
    base = n + 3
    pred_starts, pred = predecessors(n, edge_starts, edges, call_starts, calls)
    # block b is members[first[b] : first[b] + size[b]], and state s is members[place[s]]
    block = np.zeros(n, np.int64)
    members = np.arange(n)
    place = np.arange(n)
    first = np.zeros(n + 1, np.int64)
    size = np.zeros(n + 1, np.int64)
    size[0] = n
    n_blocks = 1
    looked = np.zeros(n + 1, np.int64)  # per block: states of it that are looked at in this round
    placed = np.zeros(n + 1, np.int64)
    largest = np.zeros(n + 1, np.int64)  # per block: the largest group among them, -1 = those not looked at
    queue = np.arange(n)
    following = np.zeros(n, np.int64)
    queued = np.zeros(n, np.int64)
    group = np.zeros(n, np.int64)
    group_size = np.zeros(n, np.int64)
    group_block = np.zeros(n, np.int64)
    group_at = np.zeros(n, np.int64)
    moved = np.zeros(n + 1, np.int64)  # blocks that are new in this round
    table = np.full(power_of_two(2 * n + 2), -1, np.int64)
    starts = np.zeros(n + 2, np.int64)
    pool = np.zeros(3 * n + 3 * edges.shape[0] + 2 * calls.shape[0] + 2, np.int64)
    counts = np.zeros(2, np.int64)
    n_queue = n
    rounds = 0
    while n_queue > 0:
        rounds += 1
        part = table[: power_of_two(2 * n_queue + 2)]
        part[:] = -1
        counts[0] = 0
        counts[1] = 0
        kept = 0
        for i in range(n_queue):
            if size[block[queue[i]]] > 1:  # a state alone in its block stays there
                queue[kept] = queue[i]
                kept += 1
        n_queue = kept
        for i in range(n_queue):
            s = queue[i]
            b = block[s]
            if stop[0]:
                return block, n_blocks
            length = write_key(
                key, codes, s, -1, block, final, edge_starts, edges, call_starts, calls, bounds, base
            )
            key[length] = b
            known = np.int64(counts[0])
            g = intern_list(key, length + 1, part, starts, pool, counts)
            group[i] = g
            if g == known:
                group_size[g] = 0
                group_block[g] = b
                looked[b] = 0
                placed[b] = 0
                largest[b] = -1
            group_size[g] += 1
        n_groups = np.int64(counts[0])
        for g in range(n_groups):
            b = group_block[g]
            group_at[g] = first[b] + looked[b]
            looked[b] += group_size[g]
        for g in range(n_groups):
            b = group_block[g]
            rest = size[b] - looked[b] if largest[b] < 0 else group_size[largest[b]]
            if group_size[g] > rest:
                largest[b] = g
        # the states that are looked at go to the front of their block, then there group by group
        for i in range(n_queue):
            s = queue[i]
            at = first[block[s]] + placed[block[s]]
            placed[block[s]] += 1
            other = members[at]
            members[place[s]] = other
            place[other] = place[s]
            members[at] = s
            place[s] = at
        for i in range(n_queue):
            at = group_at[group[i]]
            group_at[group[i]] += 1
            members[at] = queue[i]
            place[queue[i]] = at
        n_moved = 0
        for g in range(n_groups):
            b = group_block[g]
            if looked[b] < 0:
                continue  # its states not looked at have been dealt with below
            rest = size[b] - looked[b]
            if largest[b] >= 0 and rest > 0:
                first[n_blocks] = first[b] + looked[b]
                size[n_blocks] = rest
                moved[n_moved] = n_blocks
                n_moved += 1
                n_blocks += 1
            looked[b] = -1
            if largest[b] < 0:
                first[b] += size[b] - rest
                size[b] = rest
        for g in range(n_groups):
            b = group_block[g]
            begin = group_at[g] - group_size[g]
            if largest[b] == g:
                first[b] = begin
                size[b] = group_size[g]
            else:
                first[n_blocks] = begin
                size[n_blocks] = group_size[g]
                moved[n_moved] = n_blocks
                n_moved += 1
                n_blocks += 1
        n_queue = 0
        for i in range(n_moved):
            b = moved[i]
            for at in range(first[b], first[b] + size[b]):
                s = members[at]
                block[s] = b
                for k in range(pred_starts[s], pred_starts[s + 1]):
                    p = pred[k]
                    if queued[p] != rounds:
                        queued[p] = rounds
                        following[n_queue] = p
                        n_queue += 1
        queue[:n_queue] = following[:n_queue]
    return block, n_blocks


@kernel
def minimise(root, rule_first, final, edge_starts, edges, call_starts, calls, counted, nullable, stop):
    """Merge states that read the same way, whatever rule they are in; the coarsest bisimulation.

    Returns (class per state, -1 where the root rule does not lead; classes; class per counted rule, -1 if
    unused; counted classes).
    """
    n = final.size
    n_rules = rule_first.size
    n_counted = counted.shape[0]
    bounds_number, bounds = bounds_of_counted(counted, nullable)
    called = np.zeros((calls.shape[0], 3), np.int64)
    used = np.zeros(n_counted, np.uint8)
    for k in range(calls.shape[0]):
        callee = calls[k, 0]
        if callee >= n_rules:
            called[k, 1] = bounds_number[callee - n_rules]
            callee = counted[callee - n_rules, 0]
        called[k, 0] = rule_first[callee]
        called[k, 2] = calls[k, 1]
    widest = np.int64(8)
    for s in range(n):
        width = 3 * (edge_starts[s + 1] - edge_starts[s]) + 2 * (call_starts[s + 1] - call_starts[s]) + 8
        widest = max(widest, width)
    key = np.zeros(widest, np.int64)
    codes = np.zeros(widest, np.int64)
    cls, n_classes = merge_upwards(
        rule_first[root], final, edge_starts, edges, call_starts, called, bounds, key, codes, stop
    )
    if stop[0]:
        return cls, n_classes, np.full(n_counted, -1, np.int64), np.int64(0)
    c_final, c_edge_starts, c_edges, c_call_starts, c_calls = class_graph(
        cls, n_classes, final, edge_starts, edges, call_starts, called
    )
    block, n_blocks = refine(
        c_final, c_edge_starts, c_edges, c_call_starts, c_calls, bounds, key, codes, stop
    )
    for s in range(n):
        if cls[s] >= 0:
            cls[s] = block[cls[s]]
            for k in range(call_starts[s], call_starts[s + 1]):
                if calls[k, 0] >= n_rules:
                    used[calls[k, 0] - n_rules] = 1
    counted_cls = np.full(n_counted, -1, np.int64)
    table = np.full(power_of_two(4 * n_counted), -1, np.int64)
    starts = np.zeros(n_counted + 2, np.int64)
    pool = np.zeros(2 * n_counted + 2, np.int64)
    counts = np.zeros(2, np.int64)
    for c in range(n_counted):
        if used[c]:
            key[0] = cls[rule_first[counted[c, 0]]]
            key[1] = bounds_number[c]
            counted_cls[c] = intern_list(key, 2, table, starts, pool, counts)
    return cls, n_blocks, counted_cls, np.int64(counts[0])


@kernel
def quotient(
    cls,
    n_classes,
    counted_cls,
    n_counted_classes,
    rule_first,
    final,
    edge_starts,
    edges,
    call_starts,
    calls,
    counted,
    nullable,
    longest,
    stop,
):
    """The network of classes.

    Returns (final, edge starts, edges, call starts, calls, counted rows). A call row is (callee,
    return): callee >= 0 is a first state, -1 - k counted class k; return -1 marks a tail call. A counted
    row is (first state of the unit, least, most, most as far as a single token can tell).
    """
    n = final.size
    n_rules = rule_first.size
    example = np.full(n_classes, -1, np.int64)
    for s in range(n):
        if cls[s] >= 0 and example[cls[s]] < 0:
            example[cls[s]] = s
    q_final = np.zeros(n_classes, np.uint8)
    q_edge_starts = np.zeros(n_classes + 1, np.int64)
    q_edges = np.zeros((edges.shape[0] + 1, 3), np.int64)
    q_call_starts = np.zeros(n_classes + 1, np.int64)
    q_calls = np.zeros((calls.shape[0] + 1, 2), np.int64)
    n_edges, n_calls = 0, 0
    for c in range(n_classes):
        s = example[c]
        q_final[c] = final[s]
        for k in range(edge_starts[s], edge_starts[s + 1]):
            target = cls[edges[k, 2]]
            if (
                n_edges > q_edge_starts[c]
                and q_edges[n_edges - 1, 2] == target
                and q_edges[n_edges - 1, 1] == edges[k, 0] - 1
            ):
                q_edges[n_edges - 1, 1] = edges[k, 1]
            else:
                q_edges[n_edges, 0] = edges[k, 0]
                q_edges[n_edges, 1] = edges[k, 1]
                q_edges[n_edges, 2] = target
                n_edges += 1
        q_edge_starts[c + 1] = n_edges
        for k in range(call_starts[s], call_starts[s + 1]):
            callee = calls[k, 0]
            t = calls[k, 1]
            if callee < n_rules:
                code = cls[rule_first[callee]]
            else:
                code = -1 - counted_cls[callee - n_rules]
            back = cls[t]
            if final[t] and edge_starts[t + 1] == edge_starts[t] and call_starts[t + 1] == call_starts[t]:
                back = -1
            known = stop[0] > 0
            for j in range(q_call_starts[c], n_calls if not known else 0):
                if q_calls[j, 0] == code and q_calls[j, 1] == back:
                    known = True
            if not known:
                q_calls[n_calls, 0] = code
                q_calls[n_calls, 1] = back
                n_calls += 1
        q_call_starts[c + 1] = n_calls
    q_counted = np.zeros((n_counted_classes, 4), np.int64)
    for i in range(counted.shape[0]):
        unit = counted[i, 0]
        k = counted_cls[i]
        if k < 0:
            continue
        q_counted[k, 0] = cls[rule_first[unit]]
        q_counted[k, 1] = 0 if nullable[unit] else counted[i, 1]
        q_counted[k, 2] = counted[i, 2]
        q_counted[k, 3] = -1 if counted[i, 2] > longest else counted[i, 2]
    return (
        q_final,
        q_edge_starts,
        q_edges[:n_edges].copy(),
        q_call_starts,
        q_calls[:n_calls].copy(),
        q_counted,
    )
