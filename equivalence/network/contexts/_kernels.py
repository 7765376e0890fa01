"""Numba kernels for below sets and contexts: flat arrays in, flat arrays out, nothing is validated here.

What: what may lie below the states of each rule (`below_sets`, `share_sets`), and the tops of stacks with
what may lie below them (`contexts`). Section 3 of docs/theory.md has the definitions.
When: called by `equivalence.network.below` only, which documents what goes in and out.
Limits: a rule's set holds what lies below the rules that tail call it too, so chains of tail calls make
sets whose total length is the square of the chain's: `below_sets` has a bound for it. What is returned
once the cell `stop` is 1 is of no use.

A symbol is a class of states, or -1 - k for the frame of counted class k. Rules are numbered as in the
grammar, counted rules after them.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from equivalence.interning._kernels import intern_list, rows_by_key

kernel = njit(cache=True, nogil=True)

UNIT_STATES = 64  # a unit of at most this many states is explored together with its counter


@kernel
def power_of_two(least):
    """The smallest power of two that is not below `least`."""
    size = 16
    while size < least:
        size *= 2
    return size


@kernel
def sort_codes(codes, n):
    """Sort the first n codes in place and drop what is equal; returns how many are left."""
    if n > 16:
        codes[:n].sort()
    else:
        for i in range(1, n):
            code = codes[i]
            j = i
            while j > 0 and codes[j - 1] > code:
                codes[j] = codes[j - 1]
                j -= 1
            codes[j] = code
    kept = 0
    for i in range(n):
        if i == 0 or codes[i] != codes[i - 1]:
            codes[kept] = codes[i]
            kept += 1
    return kept


@kernel
def gather_below(used, root, tail_starts, tail_rows, callers, own_starts, own_rows, pair_of_row, n_pairs,
                 set_starts, bottom, members, limit, stop):  # fmt: skip
    """Collect each rule's pairs and those of the rules that tail call it, directly or not.

    Writes `set_starts` and `bottom`, and `members` unless it is empty; returns whether all was written: not
    where there are more than `limit`, or `stop` is set.
    """
    total = used.size
    rule_seen = np.full(total, -1, np.int64)
    pair_seen = np.full(n_pairs, -1, np.int64)
    queue = np.zeros(total, np.int64)
    n = 0
    for rule in range(total):
        set_starts[rule] = n
        if not used[rule]:
            continue
        queue[0] = rule
        rule_seen[rule] = rule
        head, tail = 0, 1
        while head < tail:
            r = queue[head]
            head += 1
            if stop[0] or n > limit:
                return False
            if r == root:
                bottom[rule] = 1
            for k in range(own_starts[r], own_starts[r + 1]):
                p = pair_of_row[own_rows[k]]
                if pair_seen[p] != rule:
                    pair_seen[p] = rule
                    if members.size:
                        members[n] = p
                    n += 1
            for k in range(tail_starts[r], tail_starts[r + 1]):
                caller = callers[tail_rows[k]]
                if rule_seen[caller] != rule:
                    rule_seen[caller] = rule
                    queue[tail] = caller
                    tail += 1
    set_starts[total] = n
    return True


@kernel
def below_sets(
    root, rule_of_state, cls, is_end, call_starts, calls, counted, counted_cls, n_rules, limit, stop
):  # fmt: skip
    """What may lie below each rule: the return states of its calls; below a tail call, what lies below the
    caller; below the unit of a counted rule, its frame.

    Returns (status, used, pairs (symbol, rule below it), set starts per rule, members (numbers of pairs),
    bottom); status 1: more than `limit` members.
    """
    n_counted = counted.shape[0]
    total = n_rules + n_counted
    used = np.zeros(total, np.uint8)
    capacity = calls.shape[0] + n_counted
    tail_callee = np.zeros(capacity, np.int64)
    tail_caller = np.zeros(capacity, np.int64)
    own_rule = np.zeros(capacity, np.int64)
    pair_of_row = np.zeros(capacity, np.int64)
    n_tail, n_own = 0, 0
    table = np.full(power_of_two(2 * capacity + 2), -1, np.int64)
    starts = np.zeros(capacity + 2, np.int64)
    pool = np.zeros(2 * capacity + 2, np.int64)
    counts = np.zeros(2, np.int64)
    key = np.zeros(2, np.int64)
    for s in range(cls.size):
        if cls[s] < 0:
            continue
        rule = rule_of_state[s]
        used[rule] = 1
        for k in range(call_starts[s], call_starts[s + 1]):
            callee, back = calls[k, 0], calls[k, 1]
            if is_end[back]:
                tail_callee[n_tail] = callee
                tail_caller[n_tail] = rule
                n_tail += 1
            else:
                key[0] = cls[back]
                key[1] = rule
                own_rule[n_own] = callee
                pair_of_row[n_own] = intern_list(key, 2, table, starts, pool, counts)
                n_own += 1
    for c in range(n_counted):
        if counted_cls[c] >= 0:
            used[n_rules + c] = 1
            key[0] = -1 - counted_cls[c]
            key[1] = n_rules + c
            own_rule[n_own] = counted[c, 0]
            pair_of_row[n_own] = intern_list(key, 2, table, starts, pool, counts)
            n_own += 1
    n_pairs = np.int64(counts[0])
    tail_starts, tail_rows = rows_by_key(tail_callee, n_tail, total)
    own_starts, own_rows = rows_by_key(own_rule, n_own, total)
    set_starts = np.zeros(total + 1, np.int64)
    bottom = np.zeros(total, np.uint8)
    members = np.zeros(0, np.int64)
    complete = gather_below(used, root, tail_starts, tail_rows, tail_caller, own_starts, own_rows,
                            pair_of_row, n_pairs, set_starts, bottom, members, limit, stop)  # fmt: skip
    if complete and set_starts[total]:
        members = np.zeros(set_starts[total], np.int64)
        complete = gather_below(used, root, tail_starts, tail_rows, tail_caller, own_starts, own_rows,
                                pair_of_row, n_pairs, set_starts, bottom, members, limit, stop)  # fmt: skip
    status = 0 if complete else 1
    return status, used, pool[: 2 * n_pairs].copy().reshape(n_pairs, 2), set_starts, members, bottom


@kernel
def write_set(codes, rule, number, pairs, set_starts, members, offset, total):
    """Write a rule's set as sorted codes, each rule below it by `number`; returns how many."""
    n = 0
    for k in range(set_starts[rule], set_starts[rule + 1]):
        codes[n] = (pairs[members[k], 0] + offset) * total + number[pairs[members[k], 1]]
        n += 1
    return sort_codes(codes, n)


@kernel
def share_sets(order, used, pairs, set_starts, members, bottom, offset, stop):
    """Rules whose sets are equal share one, and sets that differ only in such rules become equal too.

    The least such sharing: rules begin apart, callers are numbered before callees, and rounds go on until
    nothing is shared any more (two on most grammars).

    Returns (set of each rule, -1 if unused; sets; then the sets interned: table, starts, pool, counts, with
    room for as many again). A set is listed as [bottom, symbol, set below it, ...].
    """
    total = used.size
    n_used, widest = 0, 0
    for rule in range(total):
        n_used += np.int64(used[rule])
        widest = max(widest, set_starts[rule + 1] - set_starts[rule])
    codes = np.zeros(widest + 1, np.int64)
    key = np.zeros(2 * widest + 1, np.int64)
    number = np.arange(total)
    size = power_of_two(4 * n_used + 4)
    table = np.full(size, -1, np.int64)
    starts = np.zeros(2 * n_used + 3, np.int64)
    pool = np.zeros(2 * (2 * members.size + n_used) + 2, np.int64)
    counts = np.zeros(2, np.int64)
    example = np.zeros(n_used + 1, np.int64)
    changed = True
    while changed:
        changed = False
        table[:] = -1
        counts[0] = 0
        counts[1] = 0
        for position in range(order.size - 1, -1, -1):
            rule = order[position]
            if not used[rule]:
                continue
            if stop[0]:
                return number, 0, table, starts, pool, counts
            n = write_set(codes, rule, number, pairs, set_starts, members, offset, total)
            key[0] = bottom[rule]
            for i in range(n):
                key[2 * i + 1] = codes[i] // total
                key[2 * i + 2] = codes[i] % total
            known = np.int64(counts[0])
            found = intern_list(key, 2 * n + 1, table, starts, pool, counts)
            if found == known:
                example[found] = rule
            if number[rule] != example[found]:
                number[rule] = example[found]
                changed = True
    n_sets = np.int64(counts[0])
    set_of_rule = np.full(total, -1, np.int64)
    for i in range(n_sets):
        set_of_rule[example[i]] = i
    for rule in range(total):
        if used[rule]:
            set_of_rule[rule] = set_of_rule[number[rule]]
    table[:] = -1
    counts[0] = 0
    counts[1] = 0
    for i in range(n_sets):
        if stop[0]:
            break
        n = write_set(codes, example[i], set_of_rule, pairs, set_starts, members, offset, total)
        key[0] = bottom[example[i]]
        for j in range(n):
            key[2 * j + 1] = codes[j] // total - offset
            key[2 * j + 2] = codes[j] % total
        intern_list(key, 2 * n + 1, table, starts, pool, counts)
    return set_of_rule, n_sets, table, starts, pool, counts


@kernel
def contexts(
    root_first, rule_of_state, rule_first, rule_last, stands, cls, n_classes, is_end, edge_starts, edges,
    call_starts, calls, counted_cls, n_counted_classes, set_of_rule, n_sets, table, starts, pool, counts,
    stop,
):  # fmt: skip
    """The tops to explore: each with its below sets; a small unit of a counted rule with its counter.

    Sets without the frames of such counters are interned beside the others.

    Returns (rows (symbol, counted class below or -1), starts of their below sets, below sets).
    """
    n = cls.size
    n_rules = rule_first.size
    # the tops, as (symbol, rule)
    is_top = np.zeros(n, np.uint8)
    is_top[root_first] = 1
    for s in range(n):
        if cls[s] >= 0:
            for k in range(edge_starts[s], edge_starts[s + 1]):
                is_top[edges[k, 2]] = 1
            for k in range(call_starts[s], call_starts[s + 1]):
                is_top[calls[k, 1]] = 1
    symbols = np.zeros(n + counted_cls.size, np.int64)
    rules = np.zeros(n + counted_cls.size, np.int64)
    n_tops = 0
    for s in range(n):
        # below what a state passes on to lies all that lies below the state: one top will do if both are tops
        if is_top[s] and not is_end[s] and (stands[s] == s or not is_top[stands[s]]):
            symbols[n_tops] = cls[s]
            rules[n_tops] = rule_of_state[s]
            n_tops += 1
    for c in range(counted_cls.size):
        if counted_cls[c] >= 0:
            symbols[n_tops] = n_classes + counted_cls[c]
            rules[n_tops] = n_rules + c
            n_tops += 1
    n_symbols = n_classes + n_counted_classes
    top_starts, top_rows = rows_by_key(symbols, n_tops, n_symbols)
    # the frames of a set come first in it
    frames = np.zeros(n_sets, np.int64)
    widest = 0
    for i in range(n_sets):
        for k in range(starts[i] + 1, starts[i + 1], 2):
            frames[i] += pool[k] < 0
        widest = max(widest, starts[i + 1] - starts[i])
    room, most = 0, 0
    for symbol in range(n_symbols):
        here = 0
        for k in range(top_starts[symbol], top_starts[symbol + 1]):
            here += 1 + frames[set_of_rule[rules[top_rows[k]]]]
        room += here
        most = max(most, here)
    codes = np.zeros(most + 1, np.int64)
    key = np.zeros(widest + 1, np.int64)
    rows = np.zeros((room, 2), np.int64)
    row_starts = np.zeros(room + 1, np.int64)
    below = np.zeros(room, np.int64)
    rest_of = np.full(n_sets, -1, np.int64)  # the set without its frames, -2 if that is empty
    seen = np.full(n_rules + counted_cls.size, -1, np.int64)
    base = 2 * n_sets + 1
    n_rows, n_below = 0, 0
    for symbol in range(n_symbols):
        n_codes = 0
        if stop[0]:
            break
        for k in range(top_starts[symbol], top_starts[symbol + 1]):
            rule = rules[top_rows[k]]
            if seen[rule] == symbol:
                continue
            seen[rule] = symbol
            own = set_of_rule[rule]
            if rule < n_rules and frames[own] and rule_last[rule] - rule_first[rule] <= UNIT_STATES:
                begin = starts[own]
                for i in range(frames[own]):
                    codes[n_codes] = -pool[begin + 1 + 2 * i] * base + pool[begin + 2 + 2 * i]
                    n_codes += 1
                if rest_of[own] == -1:
                    key[0] = pool[begin]
                    length = 1
                    for i in range(begin + 1 + 2 * frames[own], starts[own + 1]):
                        key[length] = pool[i]
                        length += 1
                    rest_of[own] = -2
                    if length > 1 or key[0]:
                        rest_of[own] = intern_list(key, length, table, starts, pool, counts)
                own = rest_of[own]
                if own < 0:
                    continue
            codes[n_codes] = own
            n_codes += 1
        n_codes = sort_codes(codes, n_codes)
        for i in range(n_codes):
            above = codes[i] // base - 1
            if i == 0 or above != codes[i - 1] // base - 1:
                rows[n_rows, 0] = symbol if symbol < n_classes else n_classes - symbol - 1
                rows[n_rows, 1] = above
                n_rows += 1
            below[n_below] = codes[i] % base
            n_below += 1
            row_starts[n_rows] = n_below
    return rows[:n_rows].copy(), row_starts[: n_rows + 1].copy(), below[:n_below].copy()


@kernel
def flat_sets(starts, pool, n_sets):
    """The interned sets as Network keeps them: (starts, symbols, set below each, bottom)."""
    n = (starts[n_sets] - n_sets) // 2
    flat_starts = np.zeros(n_sets + 1, np.int64)
    symbols = np.zeros(n, np.int64)
    of_symbol = np.zeros(n, np.int64)
    bottom = np.zeros(n_sets, np.bool_)
    at = 0
    for i in range(n_sets):
        bottom[i] = pool[starts[i]] > 0
        for k in range(starts[i] + 1, starts[i + 1], 2):
            symbols[at] = pool[k]
            of_symbol[at] = pool[k + 1]
            at += 1
        flat_starts[i + 1] = at
    return flat_starts, symbols, of_symbol, bottom
