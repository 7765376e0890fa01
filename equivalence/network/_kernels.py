"""Numba kernels of the grammar network: flat arrays in, flat arrays out, nothing is validated here.

What: reading integers, expressions to automata, and which rules call which; in that order. Folders beside it
hold the subset construction, the merging of states, and the contexts.
When: called by `equivalence.network` only, which validates, names and documents what goes in and out.
Limits: where a bound is met a kernel returns status 1 and the caller raises `BudgetExceeded`. Kernels that
get `stop` look at its only cell, and return nothing of use once it is 1.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from equivalence.interning._kernels import grown_rows, mix

kernel = njit(cache=True, nogil=True)


# ---------------------------------------------------------------- expressions to automata


@kernel
def read_integers(text, begin):
    """The integers of a JSON list without spaces, from the byte behind its bracket: (values, end).

    (`json.loads` and `numpy.array` take 70 ns a value together, this takes 5.)
    """
    size = 1
    end = begin
    while text[end] != 93:  # "]"
        size += text[end] == 44  # ","
        end += 1
    values = np.zeros(size, np.int64)
    n = 0
    value, sign = np.int64(0), np.int64(1)
    digits = False
    for i in range(begin, end + 1):
        c = np.int64(text[i])
        if c == 44 or c == 93:
            if digits:
                values[n] = sign * value
                n += 1
            value, sign, digits = np.int64(0), np.int64(1), False
        elif c == 45:  # "-"
            sign = np.int64(-1)
        else:
            value = 10 * value + c - 48
            digits = True
    return values[:n], end


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
X_TAGS, X_TOKEN_TAGS = 7, 11
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
def reachable_rules(data, starts, bodies, root):
    """uint8[rules]: those reachable from the root, tag dispatches included, whatever they are made of."""
    seen = np.zeros(bodies.size, np.uint8)
    seen[root] = 1
    queue = np.zeros(bodies.size, np.int64)
    queue[0] = root
    head, tail = 0, 1
    stack = np.zeros(starts.size + 1, np.int64)
    seen_expression = np.zeros(starts.size, np.uint8)
    while head < tail:
        stack[0] = bodies[queue[head]]
        head += 1
        depth = 1
        while depth > 0:
            depth -= 1
            at = starts[stack[depth]]
            kind, length = data[at], data[at + 1]
            at += 2
            if kind == X_SEQUENCE or kind == X_CHOICES:
                for i in range(at, at + length):
                    if not seen_expression[data[i]]:
                        seen_expression[data[i]] = 1
                        stack[depth] = data[i]
                        depth += 1
                continue
            first, last = np.int64(0), np.int64(0)
            if kind == X_RULE or kind == X_REPEAT:
                first, last = at, at + 1
            elif kind == X_TAGS:
                first, last = at + 1, at + length - 2
            elif kind == X_TOKEN_TAGS:
                first, last = at + 2, at + 2 + 2 * data[at]
            for i in range(first, last, 2):
                if not seen[data[i]]:
                    seen[data[i]] = 1
                    queue[tail] = data[i]
                    tail += 1
    return seen


@kernel
def sorted_edges(edges, n_edges, n_states):
    """Counting sort of edge rows by source: (starts int64[n_states + 1], the rows in order)."""
    starts = np.zeros(n_states + 2, np.int64)
    for i in range(n_edges):
        starts[edges[i, 0] + 2] += 1
    for s in range(n_states):
        starts[s + 2] += starts[s + 1]
    rows = np.zeros((n_edges, 5), np.int64)
    for i in range(n_edges):
        at = starts[edges[i, 0] + 1]
        starts[edges[i, 0] + 1] += 1
        for column in range(5):
            rows[at, column] = edges[i, column]
    return starts[: n_states + 1], rows


# ---------------------------------------------------------------- rules and their calls; edges are sorted


@kernel
def called_rules(starts, edges, begins, counted):
    """The callees of each rule, counted rules included: (starts, callees, rule of each state or -1)."""
    n_rules = begins.size
    total = n_rules + counted.shape[0]
    callee_starts = np.zeros(total + 1, np.int64)
    callees = np.zeros(edges.shape[0] + counted.shape[0], np.int64)
    n_callees = 0
    owner = np.full(starts.size - 1, -1, np.int64)
    noted = np.full(total, -1, np.int64)
    stack = np.zeros(starts.size, np.int64)
    for r in range(n_rules):
        callee_starts[r] = n_callees
        if begins[r] < 0:
            continue
        stack[0] = begins[r]
        owner[begins[r]] = r
        depth = 1
        while depth > 0:
            depth -= 1
            s = stack[depth]
            for e in range(starts[s], starts[s + 1]):
                if edges[e, 1] == CALL and noted[edges[e, 2]] != r:
                    noted[edges[e, 2]] = r
                    callees[n_callees] = edges[e, 2]
                    n_callees += 1
                t = edges[e, 4]
                if owner[t] != r:
                    owner[t] = r
                    stack[depth] = t
                    depth += 1
    for c in range(counted.shape[0]):
        callee_starts[n_rules + c] = n_callees
        callees[n_callees] = counted[c, 0]
        n_callees += 1
    callee_starts[total] = n_callees
    return callee_starts, callees[:n_callees], owner


@kernel
def call_order(callee_starts, callees, root):
    """Rules reachable from the root, callees before callers where there is no recursion."""
    total = callee_starts.size - 1
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
def nullable_rules(starts, edges, begins, ends, counted, order, stop):
    """uint8[rules + counted]: which of the rules in `order` derive the empty string; a least fixed point.

    Callees come first, so a chain of rules takes one round and not one per rule.
    """
    n_rules = begins.size
    nullable = np.zeros(n_rules + counted.shape[0], np.uint8)
    seen = np.full(starts.size - 1, -1, np.int64)
    stack = np.zeros(starts.size, np.int64)
    stamp = 0
    changed = True
    while changed:
        changed = False
        for position in range(order.size):
            r = order[position]
            if stop[0]:
                return nullable
            if nullable[r]:
                continue
            if r >= n_rules:
                if counted[r - n_rules, 1] == 0 or nullable[counted[r - n_rules, 0]]:
                    nullable[r] = 1
                    changed = True
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
                for e in range(starts[s], starts[s + 1]):
                    if edges[e, 1] == EMPTY or (edges[e, 1] == CALL and nullable[edges[e, 2]]):
                        t = edges[e, 4]
                        if seen[t] != stamp:
                            seen[t] = stamp
                            stack[depth] = t
                            depth += 1
    return nullable


@kernel
def left_calls(starts, edges, begins, counted, nullable, order):
    """Pairs (rule, callee) where the rule may call the callee before it has read a byte.

    Only pairs that may be on a cycle: rules that no such pair leads to, or from, are dropped as long as
    there are any. What is left is empty for most grammars.
    """
    n_rules = begins.size
    seen = np.full(starts.size - 1, -1, np.int64)
    stack = np.zeros(starts.size, np.int64)
    pairs = np.zeros((edges.shape[0] + counted.shape[0], 2), np.int64)
    n = 0
    for position in range(order.size):
        r = order[position]
        if r >= n_rules:
            pairs[n, 0] = r
            pairs[n, 1] = counted[r - n_rules, 0]
            n += 1
            continue
        stack[0] = begins[r]
        seen[begins[r]] = r
        depth = 1
        while depth > 0:
            depth -= 1
            s = stack[depth]
            for e in range(starts[s], starts[s + 1]):
                if edges[e, 1] == BYTES:
                    continue
                if edges[e, 1] == CALL:
                    pairs[n, 0] = r
                    pairs[n, 1] = edges[e, 2]
                    n += 1
                    if not nullable[edges[e, 2]]:
                        continue
                t = edges[e, 4]
                if seen[t] != r:
                    seen[t] = r
                    stack[depth] = t
                    depth += 1
    on_cycle = np.ones((nullable.size, 2), np.uint8)
    for side in range(2):
        # degree: pairs that lead on from a rule (side 0) or to it (side 1)
        degree = np.zeros(nullable.size, np.int64)
        other_starts = np.zeros(nullable.size + 2, np.int64)
        for i in range(n):
            degree[pairs[i, side]] += 1
            other_starts[pairs[i, 1 - side] + 2] += 1
        for r in range(nullable.size):
            other_starts[r + 2] += other_starts[r + 1]
        others = np.zeros(n, np.int64)
        for i in range(n):
            others[other_starts[pairs[i, 1 - side] + 1]] = pairs[i, side]
            other_starts[pairs[i, 1 - side] + 1] += 1
        queue = np.zeros(nullable.size, np.int64)
        tail = 0
        for r in range(nullable.size):
            if not degree[r]:
                queue[tail] = r
                tail += 1
        head = 0
        while head < tail:
            r = queue[head]
            head += 1
            on_cycle[r, side] = 0
            for k in range(other_starts[r], other_starts[r + 1]):
                degree[others[k]] -= 1
                if not degree[others[k]]:
                    queue[tail] = others[k]
                    tail += 1
    kept = 0
    for i in range(n):
        caller, callee = pairs[i, 0], pairs[i, 1]
        if on_cycle[caller, 0] and on_cycle[caller, 1] and on_cycle[callee, 0] and on_cycle[callee, 1]:
            pairs[kept, 0] = caller
            pairs[kept, 1] = callee
            kept += 1
    return pairs[:kept]
