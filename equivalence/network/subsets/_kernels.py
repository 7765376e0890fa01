"""Numba kernels of the subset construction: flat arrays in, flat arrays out, nothing is validated here.

What: makes the automaton of each rule deterministic; small call-free rules are copied into their callers.
When: called by `equivalence.network.build` only, once per grammar.
Limits: status 1 where a bound on states is met; the caller raises `BudgetExceeded`.

The inner kernel never makes an array: assigning one inside a loop costs 10 to 70 ns per round, because its
references are counted. It stops where there is no room, `determinise` makes more, and it goes on at the same
subset. All that a stopped subset has interned or copied stays valid.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from equivalence.interning._kernels import grown, grown_rows, insert_sorted, intern_list, mix

kernel = njit(cache=True, nogil=True)

INLINE_STATES = 24  # a larger rule is called, not copied into its callers
INLINE_LOOP = 8  # nor is one that loops on more bytes: each copy would be walked over the whole trie

# Kinds of edges, as in `equivalence.network._kernels`.
EMPTY, BYTES, CALL = 0, 1, 2

# Cells of `at`, where the construction stands.
POSITION, JOB, BASE, NOTHING, COPIES, STAMP, EDGES, CALLS, MEMBERS = 0, 1, 2, 3, 4, 5, 6, 7, 8

# What the inner kernel says.
DONE, TOO_LARGE, MORE_STATES, MORE_MEMBERS, MORE_COPIES, MORE_PENDING, STOPPED = 0, 1, 2, 3, 4, 5, 6


@kernel
def is_pure_end(state, end, edges, starts, scratch):
    """Whether nothing but the end of the rule can follow a state (so a call before it is a tail call)."""
    scratch[0] = state
    depth, visited, reached = 1, 0, False
    while depth > 0:
        depth -= 1
        s = scratch[depth]
        visited += 1
        if visited > 32:
            return False
        if s == end:
            reached = True
        for e in range(starts[s], starts[s + 1]):
            if edges[e, 1] != EMPTY or depth + 1 >= scratch.size:
                return False
            scratch[depth] = edges[e, 4]
            depth += 1
    return reached


@kernel
def is_inlined(begin, end, edge_starts, out_edges, call_starts):
    """Whether the deterministic automaton begin..end is copied into callers: small, no call, no wide loop."""
    if end - begin > INLINE_STATES or call_starts[end] > call_starts[begin]:
        return 0
    for s in range(begin, end):
        loop = 0
        for k in range(edge_starts[s], edge_starts[s + 1]):
            if out_edges[k, 2] == s:
                loop += out_edges[k, 1] - out_edges[k, 0] + 1
        if loop > INLINE_LOOP:
            return 0
    return 1


@kernel
def add_subsets(
    starts, edges, begins, ends, nullable, order, max_states,
    rule_first, rule_last, inlined, copy_of_edge, call_head, at,
    copy_state, copy_return, seen, subset_of, stack, members,
    table, set_starts, pool, counts, final, is_first, edge_starts, call_starts, out_edges, out_calls,
    pending, active, called, stop,
):  # fmt: skip
    """Make subsets and their edges until all rules are done or room is short; see `determinise`.

    Elements of a subset are automaton states, then copies (deterministic state, return state). Rules share
    no element, so subsets are interned for all rules at once, and their numbers are the new states.
    """
    n_rules = begins.size
    n_states = starts.size - 1
    position, job, base, nothing = at[POSITION], at[JOB], at[BASE], at[NOTHING]
    n_copies, stamp, n_out, n_calls, members_seen = at[COPIES], at[STAMP], at[EDGES], at[CALLS], at[MEMBERS]
    bounds = np.zeros(600, np.int64)
    is_bound = np.zeros(257, np.uint8)
    head = np.full(257, -1, np.int64)  # pending edges by their first byte
    scratch = np.zeros(64, np.int64)
    status = DONE
    while position < order.size and status == DONE:
        rule = order[position]
        if rule >= n_rules:
            position += 1
            continue
        if job < 0:
            base = np.int64(counts[0])
            rule_first[rule] = base
            nothing = -1
        end = ends[rule]
        # the first subset is made twice: once without its final mark, once on demand with it
        while job < np.int64(counts[0]) and status == DONE:
            if job < 0 and np.int64(counts[0]) > base:
                job = base  # the first subset is there
            # what leads out of the subset
            n_pending, n_bounds, n_called = 0, 0, 0
            row_begin, call_begin = n_out, n_calls
            if job >= 0:
                for m in range(set_starts[job], set_starts[job + 1]):
                    element = np.int64(pool[m])
                    shift = np.int64(0)
                    if element < n_states:
                        low_row, high_row = starts[element], starts[element + 1]
                    else:
                        d = copy_state[element - n_states]
                        low_row, high_row = edge_starts[d], edge_starts[d + 1]
                        shift = element - d
                    if max(n_pending, n_called) + high_row - low_row > active.size:
                        status = MORE_PENDING
                        break
                    for k in range(low_row, high_row):
                        if element < n_states:
                            if edges[k, 1] == EMPTY:
                                continue
                            if edges[k, 1] == CALL:
                                callee = np.int64(edges[k, 2])
                                if inlined[callee]:
                                    continue
                                if callee == rule and is_pure_end(
                                    np.int64(edges[k, 4]), end, edges, starts, scratch
                                ):
                                    continue
                                called[n_called, 0] = callee
                                called[n_called, 1] = edges[k, 4]
                                n_called += 1
                                continue
                            low, high = np.int64(edges[k, 2]), np.int64(edges[k, 3])
                            target = np.int64(edges[k, 4])
                        else:
                            low, high = out_edges[k, 0], out_edges[k, 1]
                            target = shift + out_edges[k, 2]
                        pending[n_pending, 0] = high
                        pending[n_pending, 1] = target
                        pending[n_pending, 2] = head[low]
                        head[low] = n_pending
                        n_pending += 1
                        if not is_bound[low]:
                            is_bound[low] = 1
                            n_bounds = insert_sorted(bounds, n_bounds, low)
                        if not is_bound[high + 1]:
                            is_bound[high + 1] = 1
                            n_bounds = insert_sorted(bounds, n_bounds, high + 1)
                # calls of one rule are one step: chain them behind the first
                for c in range(n_called - 1, -1, -1):
                    called[c, 2] = call_head[called[c, 0]]
                    call_head[called[c, 0]] = c
            # one closure per byte segment, then one per called rule
            n_segments = max(n_bounds - 1, 0)
            steps = 1 if job < 0 else n_segments + n_called
            n_active = 0
            for step in range(steps):
                if stop[0]:
                    status = STOPPED
                if status != DONE:
                    break
                stamp += 1
                depth = 0
                segment = job >= 0 and step < n_segments
                callee = np.int64(-1)
                if job < 0:
                    stack[0] = begins[rule]
                    seen[begins[rule]] = stamp
                    depth = 1
                elif segment:
                    low = bounds[step]
                    kept = 0
                    for i in range(n_active):
                        if pending[active[i], 0] >= low:
                            active[kept] = active[i]
                            kept += 1
                    p = head[low]
                    while p >= 0:
                        active[kept] = p
                        kept += 1
                        p = pending[p, 2]
                    n_active = kept
                    for i in range(n_active):
                        t = pending[active[i], 1]
                        if seen[t] != stamp:
                            seen[t] = stamp
                            stack[depth] = t
                            depth += 1
                else:
                    c = np.int64(step - n_segments)
                    callee = called[c, 0]
                    if call_head[callee] != c:
                        continue  # taken with an earlier call of the same rule
                    while c >= 0:
                        t = called[c, 1]
                        if seen[t] != stamp:
                            seen[t] = stamp
                            stack[depth] = t
                            depth += 1
                        c = called[c, 2]
                if depth == 0:
                    continue
                # most segments have one target, which was closed before: half of the time was spent there
                single = stack[0] if depth == 1 and job >= 0 else np.int64(-1)
                target = subset_of[single] if single >= 0 else np.int64(-1)
                if target < 0:
                    n_members = 0
                    ends_here = False
                    while depth > 0:
                        depth -= 1
                        element = stack[depth]
                        keep = False
                        if element >= n_states:
                            d = copy_state[element - n_states]
                            keep = edge_starts[d + 1] > edge_starts[d]
                            if final[d]:
                                t = copy_return[element - n_states]
                                if seen[t] != stamp:
                                    seen[t] = stamp
                                    stack[depth] = t
                                    depth += 1
                        else:
                            if element == end:
                                keep = True
                                ends_here = True
                            for e in range(starts[element], starts[element + 1]):
                                if edges[e, 1] == BYTES:
                                    keep = True
                                    continue
                                t = np.int64(edges[e, 4])
                                follow = edges[e, 1] == EMPTY
                                second = np.int64(-1)
                                if not follow:
                                    q = np.int64(edges[e, 2])
                                    follow = nullable[q] == 1 and edges[e, 3] == 0
                                    if inlined[q]:
                                        if copy_of_edge[e] < 0:
                                            width = rule_last[q] - rule_first[q]
                                            if n_copies + width > copy_state.size:
                                                status = MORE_COPIES
                                                break
                                            copy_of_edge[e] = n_copies
                                            for i in range(width):
                                                copy_state[n_copies] = rule_first[q] + i
                                                copy_return[n_copies] = t
                                                n_copies += 1
                                        second = n_states + copy_of_edge[e]
                                    elif q == rule and is_pure_end(t, end, edges, starts, scratch):
                                        second = begins[rule]
                                    else:
                                        keep = True
                                if follow and seen[t] != stamp:
                                    seen[t] = stamp
                                    stack[depth] = t
                                    depth += 1
                                if second >= 0 and seen[second] != stamp:
                                    seen[second] = stamp
                                    stack[depth] = second
                                    depth += 1
                            if status != DONE:
                                break
                        if keep:
                            members[n_members] = element
                            n_members += 1
                    if status != DONE:
                        break
                    members_seen += n_members
                    if members_seen > 64 * max_states:
                        status = TOO_LARGE
                        break
                    if counts[1] + n_members > pool.size:
                        status = MORE_MEMBERS
                        break
                    known = np.int64(counts[0])
                    if known + 2 > set_starts.size:
                        status = MORE_STATES
                        break
                    if n_members > 16:
                        members[:n_members].sort()
                    else:
                        for i in range(1, n_members):
                            t = members[i]
                            j = i
                            while j > 0 and members[j - 1] > t:
                                members[j] = members[j - 1]
                                j -= 1
                            members[j] = t
                    if job < 0 or n_members == 0:
                        # not interned: no edge leads to the first subset, and each rule has its own empty one
                        target = known if job < 0 else nothing
                        if target < 0:
                            nothing = known
                            target = known
                        if target == known:
                            for i in range(n_members):
                                pool[counts[1] + i] = members[i]
                            counts[0] += 1
                            counts[1] += n_members
                            set_starts[counts[0]] = counts[1]
                            is_first[target] = 1
                            final[target] = 0
                    else:
                        target = intern_list(members, n_members, table, set_starts, pool, counts)
                        if target == known:
                            is_first[target] = 0
                            final[target] = ends_here
                    if single >= 0:
                        subset_of[single] = target
                if job < 0:
                    continue
                if segment:
                    low, high = bounds[step], bounds[step + 1] - 1
                    if n_out > row_begin and out_edges[n_out - 1, 1] == low - 1 and (
                        out_edges[n_out - 1, 2] == target
                    ):  # fmt: skip
                        out_edges[n_out - 1, 1] = high
                    else:
                        if n_out == out_edges.shape[0]:
                            status = MORE_STATES
                            break
                        out_edges[n_out, 0] = low
                        out_edges[n_out, 1] = high
                        out_edges[n_out, 2] = target
                        n_out += 1
                else:
                    if n_calls == out_calls.shape[0]:
                        status = MORE_STATES
                        break
                    out_calls[n_calls, 0] = callee
                    out_calls[n_calls, 1] = target
                    n_calls += 1
            for i in range(n_bounds):
                is_bound[bounds[i]] = 0
                head[bounds[i]] = -1
            for c in range(n_called):
                call_head[called[c, 0]] = -1
            if status == DONE and counts[0] > max_states:
                status = TOO_LARGE
            if status != DONE:
                n_out, n_calls = row_begin, call_begin
            elif job >= 0:
                edge_starts[job + 1] = n_out
                call_starts[job + 1] = n_calls
                job += 1
        if status == DONE:
            rule_last[rule] = counts[0]
            inlined[rule] = is_inlined(base, np.int64(counts[0]), edge_starts, out_edges, call_starts)
            position += 1
            job = -1
    at[POSITION], at[JOB], at[BASE], at[NOTHING] = position, job, base, nothing
    at[COPIES], at[STAMP], at[EDGES], at[CALLS], at[MEMBERS] = n_copies, stamp, n_out, n_calls, members_seen
    return status


@kernel
def rehash(size, set_starts, pool, is_first, n):
    """A table of `size` slots that holds the interned ones of the first n subsets."""
    table = np.full(size, -1, np.int64)
    for i in range(n):
        if is_first[i]:
            continue
        h = set_starts[i + 1] - set_starts[i]
        for j in range(set_starts[i], set_starts[i + 1]):
            h = mix(h, pool[j] + 1048576)
        slot = h & (size - 1)
        while table[slot] >= 0:
            slot = (slot + 1) & (size - 1)
        table[slot] = i
    return table


@kernel
def determinise(starts, edges, begins, ends, nullable, order, max_states, stop):
    """The subset construction, rule by rule in `order`; small call-free rules are copied into callers.

    `edges` are sorted by source (`_kernels.sorted_edges`). An automaton reads non-empty strings only: its
    first state is never final, and a call of a nullable rule may be skipped by its caller. A tail call of a
    rule to itself becomes a loop.

    Returns (status, first state per rule, end of states per rule, final, edge starts, edges (low, high,
    target), call starts, calls (rule, return state)); status 1: more than `max_states` states, or 64 times
    as many members of subsets (nested repeats in a pattern took a minute for 8,000 states); `STOPPED`: the
    cell `stop` was set.
    """
    n_rules, n_states, n_edges = begins.size, starts.size - 1, edges.shape[0]
    rule_first = np.full(n_rules, -1, np.int64)
    rule_last = np.full(n_rules, -1, np.int64)
    inlined = np.zeros(nullable.size, np.uint8)
    copy_of_edge = np.full(n_edges, -1, np.int64)
    call_head = np.full(nullable.size, -1, np.int64)
    at = np.zeros(9, np.int64)
    at[JOB] = -1
    at[NOTHING] = -1
    room = 2 * n_states + 512
    copies = n_states + 256
    copy_state = np.zeros(copies, np.int64)
    copy_return = np.zeros(copies, np.int64)
    seen = np.zeros(n_states + copies, np.int64)
    subset_of = np.full(n_states + copies, -1, np.int64)
    stack = np.zeros(n_states + copies, np.int64)
    members = np.zeros(n_states + copies, np.int64)
    size = 1024
    while size < 2 * room:
        size *= 2
    table = np.full(size, -1, np.int64)
    set_starts = np.zeros(room + 1, np.int64)
    pool = np.zeros(4 * room, np.int64)
    counts = np.zeros(2, np.int64)
    final = np.zeros(room + 1, np.uint8)
    is_first = np.zeros(room + 1, np.uint8)
    edge_starts = np.zeros(room + 1, np.int64)
    call_starts = np.zeros(room + 1, np.int64)
    out_edges = np.zeros((3 * room, 3), np.int64)
    out_calls = np.zeros((room, 2), np.int64)
    width = n_edges + 512
    pending = np.zeros((width, 3), np.int64)
    active = np.zeros(width, np.int64)
    called = np.zeros((width, 3), np.int64)
    while True:
        status = add_subsets(
            starts, edges, begins, ends, nullable, order, max_states,
            rule_first, rule_last, inlined, copy_of_edge, call_head, at,
            copy_state, copy_return, seen, subset_of, stack, members,
            table, set_starts, pool, counts, final, is_first, edge_starts, call_starts, out_edges, out_calls,
            pending, active, called, stop,
        )  # fmt: skip
        if status == MORE_STATES:
            room *= 2
            set_starts = grown(set_starts, room + 1)
            final = grown(final, room + 1)
            is_first = grown(is_first, room + 1)
            edge_starts = grown(edge_starts, room + 1)
            call_starts = grown(call_starts, room + 1)
            out_edges = grown_rows(out_edges, 2 * out_edges.shape[0])
            out_calls = grown_rows(out_calls, 2 * out_calls.shape[0])
            table = rehash(2 * table.size, set_starts, pool, is_first, np.int64(counts[0]))
        elif status == MORE_MEMBERS:
            pool = grown(pool, 2 * pool.size + members.size)
        elif status == MORE_COPIES:
            copies *= 2
            copy_state = grown(copy_state, copies)
            copy_return = grown(copy_return, copies)
            old = seen.size
            seen = grown(seen, n_states + copies)
            seen[old:] = 0
            subset_of = grown(subset_of, n_states + copies)
            subset_of[old:] = -1
            stack = grown(stack, n_states + copies)
            members = grown(members, n_states + copies)
        elif status == MORE_PENDING:
            width *= 2
            pending = grown_rows(pending, width)
            active = grown(active, width)
            called = grown_rows(called, width)
        else:
            break
    n = np.int64(counts[0])
    return (
        status,
        rule_first,
        rule_last,
        final[:n],
        edge_starts[: n + 1],
        out_edges[: at[EDGES]],
        call_starts[: n + 1],
        out_calls[: at[CALLS]],
    )
