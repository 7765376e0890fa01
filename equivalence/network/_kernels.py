"""Numba kernels of the grammar network: flat arrays in, flat arrays out, nothing is validated here.

What: expressions to automata, the subset construction, merging of states, first bytes; in that order.
When: called by `equivalence.network` only, which validates, names and documents what goes in and out.
Limits: where a bound is met a kernel returns status 1 and the caller raises `BudgetExceeded`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from equivalence.interning._kernels import grown, grown_rows, insert_sorted, intern_list, mix, utf8_step

kernel = njit(cache=True, nogil=True)


# ---------------------------------------------------------------- expressions to automata

# An edge row is (source, kind, a, b, target): kind 0 empty, 1 bytes a..b, 2 call of rule a (which may be
# skipped if the rule is nullable, unless b is 1).
EMPTY, BYTES, CALL = 0, 1, 2


@kernel
def add_edge(edges, n, source, kind, a, b, target):
    """Append an edge row, growing the array when it is full."""
    if n == edges.shape[0]:
        edges = grown_rows(edges, 2 * n + 64)
    edges[n, 0] = source
    edges[n, 1] = kind
    edges[n, 2] = a
    edges[n, 3] = b
    edges[n, 4] = target
    return edges, n + 1


@kernel
def utf8_encode(code, out):
    """Write the UTF-8 bytes of a code point (surrogates too); returns their number."""
    if code < 0x80:
        out[0] = code
        return 1
    if code < 0x800:
        out[0] = 0xC0 | (code >> 6)
        out[1] = 0x80 | (code & 0x3F)
        return 2
    if code < 0x10000:
        out[0] = 0xE0 | (code >> 12)
        out[1] = 0x80 | ((code >> 6) & 0x3F)
        out[2] = 0x80 | (code & 0x3F)
        return 3
    out[0] = 0xF0 | (code >> 18)
    out[1] = 0x80 | ((code >> 12) & 0x3F)
    out[2] = 0x80 | ((code >> 6) & 0x3F)
    out[3] = 0x80 | (code & 0x3F)
    return 4


@kernel
def add_code_points(edges, n, states, low, high, source, target):
    """Edges for the UTF-8 encodings of the code points low..high; returns (edges, n, states).

    The range is cut where the encoding's length changes and then into blocks whose trailing bytes are
    full, so that each block is one chain of byte ranges.
    """
    first = np.zeros(4, np.int64)
    last = np.zeros(4, np.int64)
    at = low
    while at <= high:
        end = high
        if at < 0x80:
            end = min(end, 0x7F)
        elif at < 0x800:
            end = min(end, 0x7FF)
        elif at < 0x10000:
            end = min(end, 0xFFFF)
        # cut the block until every byte of it varies on its own
        length = utf8_encode(at, first)
        for tail in range(1, length):
            low_bits = (1 << (6 * tail)) - 1
            if at & ~low_bits != end & ~low_bits:
                if at & low_bits:
                    end = at | low_bits
                    break
                if end & low_bits != low_bits:
                    end = (end & ~low_bits) - 1
        utf8_encode(at, first)
        utf8_encode(end, last)
        current = source
        for i in range(length):
            following = target
            if i + 1 < length:
                following = states
                states += 1
            edges, n = add_edge(edges, n, current, BYTES, first[i], last[i], following)
            current = following
        at = end + 1
    return edges, n, states


@kernel
def add_multibyte(edges, n, states, source, target):
    """Edges for every multi-byte character, with shared continuation states."""
    one, two, three = states, states + 1, states + 2
    after_e0, after_f0, after_f4 = states + 3, states + 4, states + 5
    states += 6
    edges, n = add_edge(edges, n, one, BYTES, 0x80, 0xBF, target)
    edges, n = add_edge(edges, n, two, BYTES, 0x80, 0xBF, one)
    edges, n = add_edge(edges, n, three, BYTES, 0x80, 0xBF, two)
    edges, n = add_edge(edges, n, after_e0, BYTES, 0xA0, 0xBF, one)
    edges, n = add_edge(edges, n, after_f0, BYTES, 0x90, 0xBF, two)
    edges, n = add_edge(edges, n, after_f4, BYTES, 0x80, 0x8F, two)
    edges, n = add_edge(edges, n, source, BYTES, 0xC2, 0xDF, one)
    edges, n = add_edge(edges, n, source, BYTES, 0xE0, 0xE0, after_e0)
    edges, n = add_edge(edges, n, source, BYTES, 0xE1, 0xEF, two)
    edges, n = add_edge(edges, n, source, BYTES, 0xF0, 0xF0, after_f0)
    edges, n = add_edge(edges, n, source, BYTES, 0xF1, 0xF3, three)
    edges, n = add_edge(edges, n, source, BYTES, 0xF4, 0xF4, after_f4)
    return edges, n, states


@kernel
def add_class(edges, n, states, data, begin, length, source, target):
    """Edges for a character class in XGrammar's layout [negative, low, high, ...].

    A negative class is the complement over all code points, which XGrammar's binary reads it as.
    """
    n_ranges = (length - 1) // 2
    ranges = np.zeros((n_ranges + 1, 2), np.int64)
    for i in range(n_ranges):
        ranges[i, 0] = data[begin + 1 + 2 * i]
        ranges[i, 1] = min(np.int64(data[begin + 2 + 2 * i]), 0x10FFFF)
    count = n_ranges
    if data[begin]:
        order = np.argsort(ranges[:n_ranges, 0])
        free = np.zeros((n_ranges + 1, 2), np.int64)
        following, count = np.int64(0), 0
        for i in order:
            if ranges[i, 0] > following:
                free[count, 0] = following
                free[count, 1] = ranges[i, 0] - 1
                count += 1
            following = max(following, ranges[i, 1] + 1)
        if following <= 0x10FFFF:
            free[count, 0] = following
            free[count, 1] = 0x10FFFF
            count += 1
        ranges = free
    for i in range(count):
        low, high = ranges[i, 0], ranges[i, 1]
        if low <= 0x80 and high == 0x10FFFF:
            if low < 0x80:
                edges, n = add_edge(edges, n, source, BYTES, low, 0x7F, target)
            edges, n, states = add_multibyte(edges, n, states, source, target)
        else:
            edges, n, states = add_code_points(edges, n, states, low, high, source, target)
    return edges, n, states


# Expression types of XGrammar's serialised grammars.
X_BYTES, X_CLASS, X_STAR, X_EMPTY, X_RULE, X_SEQUENCE, X_CHOICES, X_REPEAT = 0, 1, 2, 3, 4, 5, 6, 8
UNROLLED = 3  # repeats up to this count become plain calls: a counter would cost more than it saves


@kernel
def build_automata(data, starts, bodies, root, max_states, edges, n_edges, n_states):
    """One automaton per reachable rule: state 2 r starts rule r, state 2 r + 1 ends it.

    A repeat {m,n} that is not tiny calls a *counted rule*, numbered after the plain ones.
    `edges` may already hold the automata of rules whose body is -1 (made by XGrammar itself).

    Returns (status, detail, edges, edge count, state count, counted rows (unit, m, n), reachable).
    status 1: too many states; 2: expression type `detail` is not supported.
    """
    n_rules = bodies.size
    reachable = np.zeros(n_rules, np.uint8)
    queue = np.zeros(n_rules, np.int64)
    queue[0] = root
    reachable[root] = 1
    head, tail = 0, 1
    counted = np.zeros((16, 3), np.int64)
    n_counted = 0
    table_size = 64
    table = np.full(table_size, -1, np.int64)
    stack = np.zeros((64, 3), np.int64)
    for i in range(n_edges):  # rules called by automata that came ready made
        if edges[i, 1] == CALL and not reachable[edges[i, 2]]:
            reachable[edges[i, 2]] = 1
            queue[tail] = edges[i, 2]
            tail += 1
    while head < tail:
        rule = queue[head]
        head += 1
        if bodies[rule] < 0:
            continue
        stack[0, 0] = bodies[rule]
        stack[0, 1] = 2 * rule
        stack[0, 2] = 2 * rule + 1
        depth = 1
        while depth > 0:
            depth -= 1
            expression, source, target = stack[depth, 0], stack[depth, 1], stack[depth, 2]
            at = np.int64(starts[expression])
            kind = np.int64(data[at])
            length = np.int64(data[at + 1])
            at += 2
            if n_states > max_states or n_edges > 8 * max_states:
                return 1, 0, edges, n_edges, n_states, counted[:n_counted], reachable
            if kind == X_BYTES:
                if length == 0:
                    edges, n_edges = add_edge(edges, n_edges, source, EMPTY, 0, 0, target)
                for i in range(length):
                    following = target
                    if i + 1 < length:
                        following = n_states
                        n_states += 1
                    b = np.int64(data[at + i]) & 255
                    edges, n_edges = add_edge(edges, n_edges, source, BYTES, b, b, following)
                    source = following
            elif kind == X_CLASS or kind == X_STAR:
                begin, end = source, target
                if kind == X_STAR:
                    begin = n_states
                    end = n_states
                    n_states += 1
                    edges, n_edges = add_edge(edges, n_edges, source, EMPTY, 0, 0, begin)
                    edges, n_edges = add_edge(edges, n_edges, begin, EMPTY, 0, 0, target)
                edges, n_edges, n_states = add_class(edges, n_edges, n_states, data, at, length, begin, end)
            elif kind == X_EMPTY:
                edges, n_edges = add_edge(edges, n_edges, source, EMPTY, 0, 0, target)
            elif kind == X_SEQUENCE or kind == X_CHOICES:
                if depth + length + 1 > stack.shape[0]:
                    stack = grown_rows(stack, 2 * (depth + length + 1))
                if length == 0:
                    edges, n_edges = add_edge(edges, n_edges, source, EMPTY, 0, 0, target)
                for i in range(length):
                    following = target
                    if kind == X_SEQUENCE and i + 1 < length:
                        following = n_states
                        n_states += 1
                    stack[depth, 0] = data[at + i]
                    stack[depth, 1] = source
                    stack[depth, 2] = following
                    depth += 1
                    if kind == X_SEQUENCE:
                        source = following
            elif kind == X_RULE or kind == X_REPEAT:
                callee = np.int64(data[at])
                if not reachable[callee]:
                    reachable[callee] = 1
                    queue[tail] = callee
                    tail += 1
                if kind == X_RULE:
                    edges, n_edges = add_edge(edges, n_edges, source, CALL, callee, 0, target)
                else:
                    least, most = np.int64(data[at + 1]), np.int64(data[at + 2])
                    if (0 <= most <= UNROLLED) or (most < 0 and least <= UNROLLED):
                        current = source
                        for i in range(least):
                            following = n_states
                            n_states += 1
                            edges, n_edges = add_edge(edges, n_edges, current, CALL, callee, 0, following)
                            current = following
                        if most < 0:
                            loop = n_states
                            n_states += 1
                            edges, n_edges = add_edge(edges, n_edges, current, EMPTY, 0, 0, loop)
                            edges, n_edges = add_edge(edges, n_edges, loop, CALL, callee, 0, loop)
                            current = loop
                        for i in range(least, most):
                            edges, n_edges = add_edge(edges, n_edges, current, EMPTY, 0, 0, target)
                            following = n_states
                            n_states += 1
                            edges, n_edges = add_edge(edges, n_edges, current, CALL, callee, 0, following)
                            current = following
                        edges, n_edges = add_edge(edges, n_edges, current, EMPTY, 0, 0, target)
                    else:
                        slot = mix(mix(mix(3, callee), least), most + 1) & (table_size - 1)
                        while table[slot] >= 0:
                            c = table[slot]
                            if counted[c, 0] == callee and counted[c, 1] == least and counted[c, 2] == most:
                                break
                            slot = (slot + 1) & (table_size - 1)
                        if table[slot] < 0:
                            if n_counted == counted.shape[0]:
                                counted = grown_rows(counted, 2 * n_counted)
                            table[slot] = n_counted
                            counted[n_counted, 0] = callee
                            counted[n_counted, 1] = least
                            counted[n_counted, 2] = most
                            n_counted += 1
                            if 2 * n_counted > table_size:
                                table_size *= 2
                                table = np.full(table_size, -1, np.int64)
                                for c in range(n_counted):
                                    slot = mix(mix(mix(3, counted[c, 0]), counted[c, 1]), counted[c, 2] + 1)
                                    slot &= table_size - 1
                                    while table[slot] >= 0:
                                        slot = (slot + 1) & (table_size - 1)
                                    table[slot] = c
                                number = n_counted - 1
                            else:
                                number = n_counted - 1
                        else:
                            number = table[slot]
                        edges, n_edges = add_edge(edges, n_edges, source, CALL, n_rules + number, 0, target)
            else:
                return 2, kind, edges, n_edges, n_states, counted[:n_counted], reachable
    return 0, 0, edges, n_edges, n_states, counted[:n_counted], reachable


@kernel
def rows_by_source(edges, n_edges, n_states):
    """Counting sort of edge rows by source: (starts int64[n_states + 1], rows int64[n_edges])."""
    starts = np.zeros(n_states + 1, np.int64)
    for i in range(n_edges):
        starts[edges[i, 0] + 1] += 1
    for s in range(n_states):
        starts[s + 1] += starts[s]
    at = starts[:-1].copy()
    rows = np.zeros(n_edges, np.int64)
    for i in range(n_edges):
        s = edges[i, 0]
        rows[at[s]] = i
        at[s] += 1
    return starts, rows


@kernel
def nullable_rules(edges, n_edges, n_states, begins, ends, counted):
    """uint8[rules + counted]: which rules derive the empty string; a least fixed point."""
    n_rules = begins.size
    nullable = np.zeros(n_rules + counted.shape[0], np.uint8)
    starts, rows = rows_by_source(edges, n_edges, n_states)
    seen = np.full(n_states, -1, np.int64)
    stack = np.zeros(n_states + 1, np.int64)
    stamp = 0
    changed = True
    while changed:
        changed = False
        for c in range(counted.shape[0]):
            if not nullable[n_rules + c] and (counted[c, 1] == 0 or nullable[counted[c, 0]]):
                nullable[n_rules + c] = 1
                changed = True
        for r in range(n_rules):
            if nullable[r] or begins[r] < 0:
                continue
            stamp += 1
            stack[0] = begins[r]
            seen[begins[r]] = stamp
            depth = 1
            while depth > 0:
                depth -= 1
                s = stack[depth]
                if s == ends[r]:
                    nullable[r] = 1
                    changed = True
                    break
                for k in range(starts[s], starts[s + 1]):
                    e = rows[k]
                    if edges[e, 1] == EMPTY or (edges[e, 1] == CALL and nullable[edges[e, 2]]):
                        t = np.int64(edges[e, 4])
                        if seen[t] != stamp:
                            seen[t] = stamp
                            stack[depth] = t
                            depth += 1
    return nullable


# ---------------------------------------------------------------- deterministic automata

INLINE_STATES = 24  # a larger rule is called, not copied into its callers
INLINE_LOOP = 8  # nor is one that loops on more bytes: each copy would be walked over the whole trie


@kernel
def call_order(edges, n_edges, n_states, begins, counted, root):
    """Rules reachable from the root, callees before callers where there is no recursion."""
    n_rules = begins.size
    total = n_rules + counted.shape[0]
    starts, rows = rows_by_source(edges, n_edges, n_states)
    # the callees of each rule, by one walk over its states
    callee_starts = np.zeros(total + 1, np.int64)
    callees = np.zeros(64, np.int64)
    n_callees = 0
    seen = np.full(n_states, -1, np.int64)
    noted = np.full(total, -1, np.int64)
    stack = np.zeros(n_states + 1, np.int64)
    for r in range(total):
        callee_starts[r] = n_callees
        if r >= n_rules:
            if n_callees == callees.size:
                callees = grown(callees, 2 * n_callees)
            callees[n_callees] = counted[r - n_rules, 0]
            n_callees += 1
            continue
        if begins[r] < 0:
            continue
        stack[0] = begins[r]
        seen[begins[r]] = r
        depth = 1
        while depth > 0:
            depth -= 1
            s = stack[depth]
            for k in range(starts[s], starts[s + 1]):
                e = rows[k]
                if edges[e, 1] == CALL and noted[edges[e, 2]] != r:
                    noted[edges[e, 2]] = r
                    if n_callees == callees.size:
                        callees = grown(callees, 2 * n_callees)
                    callees[n_callees] = edges[e, 2]
                    n_callees += 1
                t = np.int64(edges[e, 4])
                if seen[t] != r:
                    seen[t] = r
                    stack[depth] = t
                    depth += 1
    callee_starts[total] = n_callees
    order = np.zeros(total, np.int64)
    n_order = 0
    state = np.zeros(total, np.uint8)
    position = callee_starts[:-1].copy()
    path = np.zeros(total + 1, np.int64)
    path[0] = root
    state[root] = 1
    depth = 1
    while depth > 0:
        r = path[depth - 1]
        if position[r] < callee_starts[r + 1]:
            c = callees[position[r]]
            position[r] += 1
            if not state[c]:
                state[c] = 1
                path[depth] = c
                depth += 1
        else:
            depth -= 1
            order[n_order] = r
            n_order += 1
    return order[:n_order]


@kernel
def is_pure_end(state, end, edges, starts, rows, scratch):
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
        for k in range(starts[s], starts[s + 1]):
            if edges[rows[k], 1] != EMPTY or depth + 1 >= scratch.size:
                return False
            scratch[depth] = edges[rows[k], 4]
            depth += 1
    return reached


@kernel
def determinise(edges, n_edges, n_states, begins, ends, counted, nullable, order, max_states):
    """The subset construction, rule by rule in `order`; small call-free rules are copied into callers.

    An automaton reads non-empty strings only: its first state is never final, and a call of a nullable
    rule may be skipped by its caller. A tail call of a rule to itself becomes a loop.

    Returns (status, first state per rule, end of states per rule, final, edge starts, edges (low, high,
    target), call starts, calls (rule, return state)); status 1: more than `max_states` states, or 64 times
    as many members of subsets (nested repeats in a pattern took a minute for 8,000 states).
    """
    n_rules = begins.size
    starts, rows = rows_by_source(edges, n_edges, n_states)
    rule_first = np.full(n_rules, -1, np.int64)
    rule_last = np.full(n_rules, -1, np.int64)
    inlined = np.zeros(n_rules + counted.shape[0], np.uint8)
    copy_of_edge = np.full(n_edges, -1, np.int64)
    # elements: automaton states, then copies (deterministic state, return state)
    copy_state = np.zeros(256, np.int64)
    copy_return = np.zeros(256, np.int64)
    n_copies = 0
    seen = np.zeros(n_states + 256, np.int64)
    stamp = 0
    stack = np.zeros(256, np.int64)
    members = np.zeros(256, np.int64)
    scratch = np.zeros(64, np.int64)
    final = np.zeros(256, np.uint8)
    edge_starts = np.zeros(257, np.int64)
    out_edges = np.zeros((512, 3), np.int64)
    n_out = 0
    call_starts = np.zeros(257, np.int64)
    out_calls = np.zeros((128, 2), np.int64)
    n_calls = 0
    n = 0
    # subsets of the rule at hand
    table_size = 256
    table = np.full(table_size, -1, np.int64)
    set_starts = np.zeros(257, np.int64)
    pool = np.zeros(4096, np.int64)
    counts = np.zeros(2, np.int64)
    members_seen = np.int64(0)
    pending = np.zeros((64, 3), np.int64)
    bounds = np.zeros(600, np.int64)
    called = np.zeros(64, np.int64)
    called_to = np.zeros(64, np.int64)
    for position in range(order.size):
        rule = order[position]
        if rule >= n_rules:
            continue
        counts[0] = 0
        counts[1] = 0
        table[:] = -1
        base = n
        rule_first[rule] = base
        end = ends[rule]
        # the first subset is made twice: once without its final mark, once on demand with it
        job = -1  # subset whose edges are being made; -1 makes the first
        while job < np.int64(counts[0]):
            # collect edges out of the subset
            n_pending = 0
            n_bounds = 0
            n_called = 0
            if job >= 0:
                for m in range(set_starts[job], set_starts[job + 1]):
                    element = pool[m]
                    if element < n_states:
                        lo_row, hi_row = starts[element], starts[element + 1]
                    else:
                        d = copy_state[element - n_states]
                        lo_row, hi_row = edge_starts[d], edge_starts[d + 1]
                    for k in range(lo_row, hi_row):
                        if element < n_states:
                            e = rows[k]
                            if edges[e, 1] == EMPTY:
                                continue
                            if edges[e, 1] == CALL:
                                callee = np.int64(edges[e, 2])
                                if inlined[callee]:
                                    continue
                                if callee == rule and is_pure_end(
                                    np.int64(edges[e, 4]), end, edges, starts, rows, scratch
                                ):
                                    continue
                                if n_called == called.size:
                                    called = grown(called, 2 * n_called)
                                    called_to = grown(called_to, 2 * n_called)
                                called[n_called] = callee
                                called_to[n_called] = edges[e, 4]
                                n_called += 1
                                continue
                            low, high = np.int64(edges[e, 2]), np.int64(edges[e, 3])
                            target = np.int64(edges[e, 4])
                        else:
                            low, high = out_edges[k, 0], out_edges[k, 1]
                            c = element - n_states
                            target = element + out_edges[k, 2] - copy_state[c]
                        if n_pending == pending.shape[0]:
                            pending = grown_rows(pending, 2 * n_pending)
                        pending[n_pending, 0] = low
                        pending[n_pending, 1] = high
                        pending[n_pending, 2] = target
                        n_pending += 1
                        n_bounds = insert_sorted(bounds, n_bounds, low)
                        n_bounds = insert_sorted(bounds, n_bounds, high + 1)
            # one closure per byte segment, then one per called rule
            row_begin = n_out
            steps = 1 if job < 0 else max(n_bounds - 1, 0) + n_called
            for step in range(steps):
                stamp += 1
                depth = 0
                any_target = False
                segment = job >= 0 and step < max(n_bounds - 1, 0)
                callee = -1
                if job < 0:
                    stack[0] = begins[rule]
                    seen[begins[rule]] = stamp
                    depth = 1
                    any_target = True
                elif segment:
                    for p in range(n_pending):
                        if pending[p, 0] <= bounds[step] and pending[p, 1] >= bounds[step]:
                            any_target = True
                            t = pending[p, 2]
                            if seen[t] != stamp:
                                seen[t] = stamp
                                if depth == stack.size:
                                    stack = grown(stack, 2 * depth)
                                stack[depth] = t
                                depth += 1
                else:
                    at = step - max(n_bounds - 1, 0)
                    callee = called[at]
                    for p in range(at):
                        if called[p] == callee:
                            callee = -1
                            break
                    if callee >= 0:
                        for p in range(at, n_called):
                            if called[p] == callee:
                                any_target = True
                                t = called_to[p]
                                if seen[t] != stamp:
                                    seen[t] = stamp
                                    if depth == stack.size:
                                        stack = grown(stack, 2 * depth)
                                    stack[depth] = t
                                    depth += 1
                if not any_target:
                    continue
                n_members = 0
                while depth > 0:
                    depth -= 1
                    element = stack[depth]
                    keep = False
                    if element >= n_states:
                        c = element - n_states
                        d = copy_state[c]
                        keep = edge_starts[d + 1] > edge_starts[d]
                        if final[d]:
                            t = copy_return[c]
                            if seen[t] != stamp:
                                seen[t] = stamp
                                if depth == stack.size:
                                    stack = grown(stack, 2 * depth)
                                stack[depth] = t
                                depth += 1
                    else:
                        keep = element == end
                        for k in range(starts[element], starts[element + 1]):
                            e = rows[k]
                            t = np.int64(edges[e, 4])
                            follow = edges[e, 1] == EMPTY
                            second = np.int64(-1)
                            if edges[e, 1] == BYTES:
                                keep = True
                            elif edges[e, 1] == CALL:
                                q = np.int64(edges[e, 2])
                                follow = nullable[q] == 1 and edges[e, 3] == 0
                                if inlined[q]:
                                    if copy_of_edge[e] < 0:
                                        copy_of_edge[e] = n_copies
                                        width = rule_last[q] - rule_first[q]
                                        while n_copies + width > copy_state.size:
                                            copy_state = grown(copy_state, 2 * copy_state.size)
                                            copy_return = grown(copy_return, 2 * copy_return.size)
                                        old = seen.size
                                        if n_states + n_copies + width > old:
                                            seen = grown(seen, 2 * (n_states + n_copies + width))
                                            seen[old:] = 0
                                        for i in range(width):
                                            copy_state[n_copies] = rule_first[q] + i
                                            copy_return[n_copies] = t
                                            n_copies += 1
                                    second = n_states + copy_of_edge[e]
                                elif q == rule and is_pure_end(t, end, edges, starts, rows, scratch):
                                    second = begins[rule]
                                else:
                                    keep = True
                            if depth + 2 > stack.size:
                                stack = grown(stack, 2 * depth + 2)
                            if follow and seen[t] != stamp:
                                seen[t] = stamp
                                stack[depth] = t
                                depth += 1
                            if second >= 0 and seen[second] != stamp:
                                seen[second] = stamp
                                stack[depth] = second
                                depth += 1
                    if keep:
                        if n_members == members.size:
                            members = grown(members, 2 * n_members)
                        members[n_members] = element
                        n_members += 1
                chosen = np.sort(members[:n_members])
                members_seen += n_members
                if counts[1] + n_members > pool.size:
                    pool = grown(pool, 2 * (pool.size + n_members))
                if counts[0] + 2 > set_starts.size:
                    set_starts = grown(set_starts, 2 * set_starts.size)
                if 2 * counts[0] + 2 > table_size:
                    table_size *= 2
                    table = np.full(table_size, -1, np.int64)
                    for i in range(1, counts[0]):  # subset 0 is never found again
                        h = set_starts[i + 1] - set_starts[i]
                        for j in range(set_starts[i], set_starts[i + 1]):
                            h = mix(h, pool[j] + 1048576)
                        slot = h & (table_size - 1)
                        while table[slot] >= 0:
                            slot = (slot + 1) & (table_size - 1)
                        table[slot] = i
                if job < 0:
                    # subset 0 is the first one, which no edge leads to: it is stored with a mark
                    if n_members + 1 > members.size:
                        members = grown(members, 2 * members.size)
                    for i in range(n_members):
                        pool[i] = chosen[i]
                    set_starts[0] = 0
                    set_starts[1] = n_members
                    counts[0] = 1
                    counts[1] = n_members
                    target = 0
                else:
                    target = intern_list(chosen, n_members, table, set_starts, pool, counts)
                if base + np.int64(counts[0]) > max_states or members_seen > 64 * max_states:
                    return (1, rule_first, rule_last, final, edge_starts, out_edges, call_starts, out_calls)
                if job < 0:
                    continue
                if segment:
                    low, high = bounds[step], bounds[step + 1] - 1
                    if (
                        n_out > row_begin
                        and out_edges[n_out - 1, 1] == low - 1
                        and out_edges[n_out - 1, 2] == base + target
                    ):
                        out_edges[n_out - 1, 1] = high
                    else:
                        if n_out == out_edges.shape[0]:
                            out_edges = grown_rows(out_edges, 2 * n_out)
                        out_edges[n_out, 0] = low
                        out_edges[n_out, 1] = high
                        out_edges[n_out, 2] = base + target
                        n_out += 1
                else:
                    if n_calls == out_calls.shape[0]:
                        out_calls = grown_rows(out_calls, 2 * n_calls)
                    out_calls[n_calls, 0] = callee
                    out_calls[n_calls, 1] = base + target
                    n_calls += 1
            if job >= 0:
                if n + 2 > edge_starts.size:
                    edge_starts = grown(edge_starts, 2 * n + 2)
                    call_starts = grown(call_starts, 2 * n + 2)
                    final = grown(final, 2 * n + 2)
                final[n] = 0
                if job > 0:
                    for m in range(set_starts[job], set_starts[job + 1]):
                        if pool[m] == end:
                            final[n] = 1
                n += 1
                edge_starts[n] = n_out
                call_starts[n] = n_calls
            job += 1
        rule_last[rule] = n
        small = n - base <= INLINE_STATES and call_starts[n] == call_starts[base]
        if small:
            for s in range(base, n):
                loop = 0
                for k in range(edge_starts[s], edge_starts[s + 1]):
                    if out_edges[k, 2] == s:
                        loop += out_edges[k, 1] - out_edges[k, 0] + 1
                if loop > INLINE_LOOP:
                    small = False
        inlined[rule] = 1 if small else 0
    return (
        0,
        rule_first,
        rule_last,
        final[:n],
        edge_starts[: n + 1],
        out_edges[:n_out],
        call_starts[: n + 1],
        out_calls[:n_calls],
    )


@kernel
def left_calls(edges, n_edges, n_states, begins, nullable, order):
    """Pairs (rule, callee) where the rule may call the callee before it has read a byte."""
    starts, rows = rows_by_source(edges, n_edges, n_states)
    seen = np.full(n_states, -1, np.int64)
    stack = np.zeros(n_states + 1, np.int64)
    pairs = np.zeros((64, 2), np.int64)
    n = 0
    for position in range(order.size):
        r = order[position]
        if r >= begins.size or begins[r] < 0:
            continue
        stack[0] = begins[r]
        seen[begins[r]] = r
        depth = 1
        while depth > 0:
            depth -= 1
            s = stack[depth]
            for k in range(starts[s], starts[s + 1]):
                e = rows[k]
                if edges[e, 1] == BYTES:
                    continue
                if edges[e, 1] == CALL:
                    if n == pairs.shape[0]:
                        pairs = grown_rows(pairs, 2 * n)
                    pairs[n, 0] = r
                    pairs[n, 1] = edges[e, 2]
                    n += 1
                    if not nullable[edges[e, 2]]:
                        continue
                t = np.int64(edges[e, 4])
                if seen[t] != r:
                    seen[t] = r
                    stack[depth] = t
                    depth += 1
    return pairs[:n]


@kernel
def minimise(used, rule_first, final, edge_starts, edges, call_starts, calls, counted, nullable):
    """Merge states that read the same way, whatever rule they are in; coarsest bisimulation (Moore).

    Returns (class per state, classes, class per counted rule, counted classes, rounds).
    """
    n = final.size
    n_rules = rule_first.size
    n_counted = counted.shape[0]
    cls = np.zeros(n, np.int64)
    renewed = np.zeros(n, np.int64)
    counted_cls = np.zeros(n_counted, np.int64)
    size = 16
    while size < 4 * (n + n_counted + 2):
        size *= 2
    table = np.full(size, -1, np.int64)
    starts = np.zeros(n + n_counted + 3, np.int64)
    pool = np.zeros(16 + n + n_counted * 4 + 3 * edges.shape[0] + 3 * calls.shape[0] + 4 * n, np.int64)
    counts = np.zeros(2, np.int64)
    widest = 8
    for s in range(n):
        width = 3 * (edge_starts[s + 1] - edge_starts[s]) + 2 * (call_starts[s + 1] - call_starts[s]) + 4
        widest = max(widest, width)
    key = np.zeros(widest, np.int64)
    codes = np.zeros(widest, np.int64)
    n_classes = 1
    n_counted_classes = 0
    rounds = 0
    while True:
        rounds += 1
        table[:] = -1
        counts[0] = 0
        counts[1] = 0
        for c in range(n_counted):
            unit = counted[c, 0]
            key[0] = cls[rule_first[unit]] if rule_first[unit] >= 0 else -1
            key[1] = 0 if nullable[unit] else counted[c, 1]
            key[2] = counted[c, 2]
            counted_cls[c] = intern_list(key, 3, table, starts, pool, counts)
        n_counted_classes = np.int64(counts[0])
        table[:] = -1
        counts[0] = 0
        counts[1] = 0
        for s in range(n):
            if not used[s]:
                renewed[s] = -1
                continue
            key[0] = final[s]
            length = 1
            for k in range(edge_starts[s], edge_starts[s + 1]):
                target = cls[edges[k, 2]]
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
                callee = calls[k, 0]
                if callee < n_rules:
                    code = 2 * cls[rule_first[callee]]
                else:
                    code = 2 * counted_cls[callee - n_rules] + 1
                n_codes = insert_sorted(codes, n_codes, code * 16777216 + cls[calls[k, 1]])
            for k in range(n_codes):
                key[length] = codes[k]
                length += 1
            renewed[s] = intern_list(key, length, table, starts, pool, counts)
        stable = counts[0] == n_classes
        n_classes = np.int64(counts[0])
        for s in range(n):
            cls[s] = renewed[s]
        if stable:
            return cls, n_classes, counted_cls, n_counted_classes, rounds


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
):
    """The network of classes.

    Returns (final, edge starts, edges, call starts, calls, counted rows, loops). A call row is (callee,
    return): callee >= 0 is a first state, -1 - k counted class k; return -1 marks a tail call. A counted
    row is (first state of the unit, least, most, most as far as a single token can tell).
    `loops` int64[n, 5]: the bytes on which a state stays itself, as in `Trie.below`.
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
            known = False
            for j in range(q_call_starts[c], n_calls):
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
        if rule_first[unit] < 0 or cls[rule_first[unit]] < 0:
            continue
        k = counted_cls[i]
        q_counted[k, 0] = cls[rule_first[unit]]
        q_counted[k, 1] = 0 if nullable[unit] else counted[i, 1]
        q_counted[k, 2] = counted[i, 2]
        q_counted[k, 3] = -1 if counted[i, 2] > longest else counted[i, 2]
    loops = np.zeros((n_classes, 5), np.int64)
    for c in range(n_classes):
        for k in range(q_edge_starts[c], q_edge_starts[c + 1]):
            if q_edges[k, 2] == c:
                for b in range(q_edges[k, 0], min(q_edges[k, 1], 127) + 1):
                    loops[c, b >> 5] |= 1 << (b & 31)
        loops[c, 4] = loops_on_characters(c, q_edge_starts, q_edges)
    return (
        q_final,
        q_edge_starts,
        q_edges[:n_edges].copy(),
        q_call_starts,
        q_calls[:n_calls].copy(),
        q_counted,
        loops,
    )


@kernel
def byte_target(state, byte, edge_starts, edges):
    """The state after a byte, -1 if there is none."""
    for k in range(edge_starts[state], edge_starts[state + 1]):
        if edges[k, 0] <= byte <= edges[k, 1]:
            return edges[k, 2]
    return -1


@kernel
def loops_on_characters(state, edge_starts, edges):
    """1 if every multi-byte character leads from a state back to itself, else 0."""
    # the states met inside a character, by decoder state; each must be the only one
    inside = np.full(7, -1, np.int64)
    for lead in range(0xC2, 0xF5):
        t = byte_target(state, lead, edge_starts, edges)
        d = utf8_step(0, lead)
        if t < 0 or (inside[d] >= 0 and inside[d] != t):
            return 0
        inside[d] = t
    for round_number in range(3):
        for d in range(1, 7):
            if inside[d] < 0:
                continue
            for byte in range(0x80, 0xC0):
                after = utf8_step(d, byte)
                if after < 0:
                    continue
                t = byte_target(inside[d], byte, edge_starts, edges)
                if t < 0:
                    return 0
                if after == 0:
                    if t != state:
                        return 0
                elif inside[after] >= 0 and inside[after] != t:
                    return 0
                else:
                    inside[after] = t
    return 1


@kernel
def unite_rows(target, owner, rows):
    """Unite row i of 0/1 `rows` into row ``owner[i]`` of `target`; returns whether anything was added.

    (``numpy.maximum.at`` does the same 50 times slower.)
    """
    added = False
    for i in range(owner.size):
        t = owner[i]
        for b in range(rows.shape[1]):
            if rows[i, b] and not target[t, b]:
                target[t, b] = 1
                added = True
    return added


@kernel
def first_bytes(net):
    """uint8[states, 256]: bytes that a state can read next, its calls included; a least fixed point."""
    edge_starts, edges, call_starts, calls, counted = net[1], net[2], net[3], net[4], net[5]
    n = edge_starts.size - 1
    first = np.zeros((n, 256), np.uint8)
    for s in range(n):
        for k in range(edge_starts[s], edge_starts[s + 1]):
            first[s, edges[k, 0] : edges[k, 1] + 1] = 1
    changed = True
    while changed:
        changed = False
        for s in range(n):
            for k in range(call_starts[s], call_starts[s + 1]):
                callee = calls[k, 0]
                if callee < 0:
                    callee = counted[-1 - callee, 0]
                for b in range(256):
                    if first[callee, b] and not first[s, b]:
                        first[s, b] = 1
                        changed = True
    return first
