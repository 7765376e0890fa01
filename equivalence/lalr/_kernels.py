"""Kernels of `equivalence.lalr`: terminal sequences on stacks of which only the top is known.

What: flat arrays in, numbers out; see `equivalence.lalr.sequences` and `equivalence.lalr.stacks` for the ideas.
When: called by the modules of this folder only.
Limits: nothing is validated. Numba's cache sees edits of this file only: the interning comes from
`equivalence.interning`, after an edit there delete the ``__pycache__`` folders.

An *outcome* is what becomes of a sequence on a stack of which the top is known: `DEAD`, `PASS` (shifted to its
end), or that more of the stack is needed: so many states to pop, the nonterminal to go by on the state below
them, and the rest of the sequence to read then, in one integer (`pending`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from equivalence.interning._kernels import (
    Interned,
    borrowed,
    borrowed_interned,
    intern,
    intern_list,
    list_slot,
    new_interned,
)

kernel = njit(cache=True, nogil=True)

DEAD, PASS = 0, 1
"""Outcomes, and the numbers of the sequence that no stack takes and of the empty one."""

FULL, LOST = -1, -2
"""Statuses: a table is full; a reduction went on without end."""

N_SEQUENCES, N_CELLS, N_EDGES, N_ITEMS = 0, 1, 2, 3
CAN_DIE, CAN_PASS = 1, 2

SHIFT_POPS, SHIFT_REST = 12, 32
"""Bits of an outcome: 12 for the number of pops, 20 for the nonterminal, the rest of the sequence above them."""


class Machine(NamedTuple):
    """What does not change: the parse table, and for each terminal the states that have an action on it."""

    action: Any
    goto: Any
    rule_length: Any
    rule_origin: Any
    users: Any  # int32, the states with an action on a terminal, terminal by terminal
    user_start: Any  # int64[T + 1]
    place: Any  # int32[T, S], place of a state among a terminal's users, -1 if it is none
    beneath: Any  # bool[D, S, S]: [d, s, p] whether p may lie d + 1 states below s


class Tables(NamedTuple):
    """What grows: sequence i is terminal `first[i]`, then sequence `rest[i]`; its outcomes begin at `row[i]`."""

    first: Any
    rest: Any
    row: Any
    outcome: Any
    known: Interned  # [terminal, rest] -> number of the pair
    known_sequence: Any  # and the sequence of the pair
    raw: Interned  # rows as simulated
    raw_sequence: Any
    plain: Interned  # rows in which what always passes or dies is said so
    plain_sequence: Any
    lists: Interned  # sorted lists of states
    list_of: Any  # int32[D, S, N]: the states with a goto on n that may lie d + 1 below s, -1 = not known yet
    items: Interned  # [list, nonterminal, sequence]
    status: Any  # CAN_DIE, CAN_PASS
    edge_start: Any
    edge: Any  # per state of an item's list: DEAD, PASS, or item << SHIFT_POPS | pops, plus 2
    counts: Any
    key: Any  # scratch


@kernel
def borrowed_machine(machine):
    """See `borrowed`; without, each edge cost 0.8 us in place of 0.1."""
    return Machine(
        borrowed(machine.action), borrowed(machine.goto), borrowed(machine.rule_length),
        borrowed(machine.rule_origin), borrowed(machine.users), borrowed(machine.user_start),
        borrowed(machine.place), borrowed(machine.beneath),
    )  # fmt: skip


@kernel
def borrowed_tables(tables):
    """See `borrowed`."""
    return Tables(
        borrowed(tables.first), borrowed(tables.rest), borrowed(tables.row), borrowed(tables.outcome),
        borrowed_interned(tables.known), borrowed(tables.known_sequence), borrowed_interned(tables.raw),
        borrowed(tables.raw_sequence), borrowed_interned(tables.plain), borrowed(tables.plain_sequence),
        borrowed_interned(tables.lists), borrowed(tables.list_of), borrowed_interned(tables.items),
        borrowed(tables.status), borrowed(tables.edge_start), borrowed(tables.edge), borrowed(tables.counts),
        borrowed(tables.key),
    )  # fmt: skip


@kernel
def pending(pops, nonterminal, rest):
    """The outcome that says what is pending."""
    return (np.int64(rest) << SHIFT_REST) | (np.int64(nonterminal) << SHIFT_POPS) | np.int64(pops)


@kernel
def run(local, depth, rest, machine, tables):
    """The outcome of a sequence on a stack whose upper `depth` states are `local`; they are overwritten."""
    for _ in range(1 << 20):
        top = np.int64(local[depth - 1])
        place = np.int64(machine.place[tables.first[rest], top])
        if place < 0:
            return np.int64(DEAD)
        found = np.int64(tables.outcome[tables.row[rest] + place])
        if found <= PASS:
            return found
        pops = found & ((1 << SHIFT_POPS) - 1)
        nonterminal = (found >> SHIFT_POPS) & ((1 << (SHIFT_REST - SHIFT_POPS)) - 1)
        rest = found >> SHIFT_REST
        depth -= 1
        if pops >= depth:
            return pending(pops - depth, nonterminal, rest)
        depth -= pops
        local[depth] = machine.goto[local[depth - 1], nonterminal]
        depth += 1
    return np.int64(LOST)


@kernel
def run_first(state, terminal, rest, own, local, machine, tables):
    """The outcome of a terminal and a sequence, together the new sequence `own`, on a state."""
    local[0] = state
    depth = 1
    while depth < local.size:
        action = np.int64(machine.action[local[depth - 1], terminal])
        if action == 0:
            return np.int64(DEAD)
        if action > 0:
            if rest == PASS:
                return np.int64(PASS)
            local[depth] = action - 1
            return run(local, depth + 1, rest, machine, tables)
        length = np.int64(machine.rule_length[-action - 1])
        origin = np.int64(machine.rule_origin[-action - 1])
        if length >= depth:
            return pending(length - depth, origin, own)
        depth -= length
        local[depth] = machine.goto[local[depth - 1], origin]
        depth += 1
    return np.int64(LOST)


@kernel
def list_below(pops, state, nonterminal, machine, tables):
    """Number of the list of states that may be found `pops` + 1 below a state, those with a goto; or FULL."""
    known = np.int64(tables.list_of[pops, state, nonterminal])
    if known >= 0:
        return known
    n_states = machine.goto.shape[0]
    key = tables.key
    n = 0
    for below in range(n_states):
        if machine.beneath[pops, state, below] and machine.goto[below, nonterminal] >= 0:
            key[n] = below
            n += 1
    number = intern(key, n, tables.lists)
    if number >= 0:
        tables.list_of[pops, state, nonterminal] = number
    return number


@kernel
def item_of(outcome, state, machine, tables):
    """Number of the item (states that may be exposed, nonterminal, rest) of an outcome on a state; or FULL."""
    pops = outcome & ((1 << SHIFT_POPS) - 1)
    nonterminal = (outcome >> SHIFT_POPS) & ((1 << (SHIFT_REST - SHIFT_POPS)) - 1)
    states = list_below(pops, state, nonterminal, machine, tables)
    if states < 0:
        return states
    key = tables.key
    key[0], key[1], key[2] = states, nonterminal, outcome >> SHIFT_REST
    number = intern(key, 3, tables.items)
    if number >= tables.status.size - 1:
        return np.int64(FULL)
    return number


@kernel
def settle(first, local, machine, tables):
    """Expand all items from number `first` on, and find whether each can die and can pass; a status."""
    counts = tables.counts
    item = first
    while item < tables.items.counts[0]:
        begin = tables.items.starts[item]
        states, nonterminal, rest = tables.items.pool[begin : begin + 3]
        n_edges = counts[N_EDGES]
        if n_edges + machine.goto.shape[0] > tables.edge.size:
            return np.int64(FULL)
        for k in range(tables.lists.starts[states], tables.lists.starts[states + 1]):
            state = tables.lists.pool[k]
            local[0] = state
            local[1] = machine.goto[state, nonterminal]
            found = run(local, 2, rest, machine, tables)
            if found > PASS:
                after = item_of(found, state, machine, tables)
                if after < 0:
                    return after
                found = ((after << SHIFT_POPS) | (found & ((1 << SHIFT_POPS) - 1))) + 2
            elif found < 0:
                return found
            tables.edge[n_edges] = found
            n_edges += 1
        tables.edge_start[item + 1] = n_edges
        tables.status[item] = 0
        counts[N_EDGES] = n_edges
        item += 1
        counts[N_ITEMS] = item
    changed = True
    while changed:
        changed = False
        for number in range(item - 1, first - 1, -1):
            status = np.int64(tables.status[number])
            for k in range(tables.edge_start[number], tables.edge_start[number + 1]):
                found = np.int64(tables.edge[k])
                if found == DEAD:
                    status |= CAN_DIE
                elif found == PASS:
                    status |= CAN_PASS
                else:
                    status |= np.int64(tables.status[(found - 2) >> SHIFT_POPS])
            if status != tables.status[number]:
                tables.status[number] = status
                changed = True
    return np.int64(0)


@kernel
def forget_items(first, tables):
    """Take back all items from number `first` on, the last ones that were interned."""
    items = tables.items
    for number in range(items.counts[0] - 1, first - 1, -1):
        begin = items.starts[number]
        # the last one in is the last of its run of the hash table, so that no other is lost with it
        items.table[list_slot(items.pool[begin : begin + 3], 3, items.table, items.starts, items.pool)] = -1
        items.counts[0] = number
        items.counts[1] = begin
    if tables.counts[N_ITEMS] > first:
        tables.counts[N_ITEMS] = first
        tables.counts[N_EDGES] = tables.edge_start[first]


@kernel
def key_of_row(key, own, terminal, machine, tables):
    """Write (state, outcome) of all states on which a sequence does not die, itself as -1; returns the length."""
    n = 0
    row = tables.row[own]
    for k in range(machine.user_start[terminal], machine.user_start[terminal + 1]):
        found = np.int64(tables.outcome[row + k - machine.user_start[terminal]])
        if found != DEAD:
            key[n] = machine.users[k]
            if found >> SHIFT_REST == own:
                found -= (np.int64(own) + 1) << SHIFT_REST
            key[n + 1] = found
            n += 2
    return n


@kernel
def new_sequence(terminal, rest, local, machine, tables):
    """Number of the sequence of a terminal and a sequence, equal behaviour having equal numbers; or a status."""
    counts = tables.counts
    own = np.int64(counts[N_SEQUENCES])
    row = np.int64(counts[N_CELLS])
    begin, end = machine.user_start[terminal], machine.user_start[terminal + 1]
    if own + 2 > tables.first.size or row + end - begin > tables.outcome.size:
        return np.int64(FULL)
    tables.first[own], tables.rest[own], tables.row[own] = terminal, rest, row
    for k in range(begin, end):
        found = run_first(machine.users[k], terminal, rest, own, local, machine, tables)
        if found < 0:
            return found
        tables.outcome[row + k - begin] = found
    key = tables.key
    length = key_of_row(key, own, terminal, machine, tables)
    raw = intern(key, length, tables.raw)
    if raw < 0 or raw >= tables.raw_sequence.size:
        return np.int64(FULL)
    if tables.raw_sequence[raw] >= 0:
        return np.int64(tables.raw_sequence[raw])
    first_item = np.int64(tables.items.counts[0])
    status = np.int64(0)
    for k in range(begin, end):
        found = np.int64(tables.outcome[row + k - begin])
        if found > PASS:
            status = item_of(found, machine.users[k], machine, tables)
            if status < 0:
                break
    if status >= 0:
        status = settle(first_item, local, machine, tables)
    if status < 0:
        forget_items(first_item, tables)
        return status
    for k in range(begin, end):
        found = np.int64(tables.outcome[row + k - begin])
        if found > PASS:
            fate = tables.status[item_of(found, machine.users[k], machine, tables)]
            if fate & CAN_DIE == 0:
                tables.outcome[row + k - begin] = PASS
            elif fate & CAN_PASS == 0:
                tables.outcome[row + k - begin] = DEAD
    length = key_of_row(key, own, terminal, machine, tables)
    plain = intern(key, length, tables.plain)
    if plain < 0 or plain >= tables.plain_sequence.size:
        forget_items(first_item, tables)
        return np.int64(FULL)
    if length == 0:
        number = np.int64(DEAD)
    elif tables.plain_sequence[plain] >= 0:
        number = np.int64(tables.plain_sequence[plain])
    else:
        number = own
    if number == own:
        tables.plain_sequence[plain] = own
        counts[N_SEQUENCES] = own + 1
        counts[N_CELLS] = row + end - begin
    else:
        forget_items(first_item, tables)
    tables.raw_sequence[raw] = number
    return number


@kernel
def before(terminal, rest, local, machine, tables):
    """Number of the sequence of a terminal and a sequence; or a status."""
    if rest == DEAD:
        return np.int64(DEAD)
    key = tables.key
    key[0], key[1] = terminal, rest
    pair = intern(key, 2, tables.known)
    if pair < 0 or pair >= tables.known_sequence.size:
        return np.int64(FULL)
    number = np.int64(tables.known_sequence[pair])
    if number < 0:
        number = new_sequence(terminal, rest, local, machine, tables)
        if number >= 0:
            tables.known_sequence[pair] = number
    return number


@kernel
def classify(texts, starts, begin, local, machine, tables, numbers):
    """The numbers of sequences of terminals, from the `begin`-th on.

    Sequence i is ``texts[starts[i]:starts[i + 1]]``. Returns (status, how many are done).
    """
    machine, tables = borrowed_machine(machine), borrowed_tables(tables)
    for i in range(begin, starts.size - 1):
        number = np.int64(PASS)
        for k in range(starts[i + 1] - 1, starts[i] - 1, -1):
            number = before(np.int64(texts[k]), number, local, machine, tables)
            if number < 0:
                return number, i
        numbers[i] = number
    return np.int64(0), starts.size - 1


# ---------------------------------------------------------------- the automaton over the stack


@kernel
def settled(edge, tables, color):
    """What an edge says in the end: DEAD, PASS, or color << SHIFT_POPS | pops, plus 2."""
    if edge <= PASS:
        return edge
    item = (edge - 2) >> SHIFT_POPS
    status = tables.status[item]
    if status & CAN_DIE == 0:
        return np.int64(PASS)
    if status & CAN_PASS == 0:
        return np.int64(DEAD)
    return ((np.int64(color[item]) << SHIFT_POPS) | ((edge - 2) & ((1 << SHIFT_POPS) - 1))) + 2


@kernel
def reached_items(wanted, tops, machine, tables):
    """The undecided items that some sequences lead to on some states, in order, and their number of edges."""
    n_items = tables.items.counts[0]
    seen = np.zeros(n_items, np.uint8)
    order = np.empty(n_items, np.int64)
    n = 0
    for i in range(wanted.size):
        sequence = wanted[i]
        if sequence <= PASS:
            continue
        terminal = tables.first[sequence]
        for k in range(machine.user_start[terminal], machine.user_start[terminal + 1]):
            found = np.int64(tables.outcome[tables.row[sequence] + k - machine.user_start[terminal]])
            if found > PASS and tops[machine.users[k]]:
                item = item_of(found, machine.users[k], machine, tables)
                if not seen[item]:
                    seen[item] = 1
                    order[n] = item
                    n += 1
    done = 0
    edges = 0
    while done < n:
        item = order[done]
        done += 1
        edges += tables.edge_start[item + 1] - tables.edge_start[item]
        for k in range(tables.edge_start[item], tables.edge_start[item + 1]):
            if tables.edge[k] > PASS:
                after = (np.int64(tables.edge[k]) - 2) >> SHIFT_POPS
                if tables.status[after] == CAN_DIE | CAN_PASS and not seen[after]:
                    seen[after] = 1
                    order[n] = after
                    n += 1
    return np.sort(order[:n]), edges


@kernel
def refine(order, n_edges, tables):
    """Colours of items, equal where no stack tells them apart (Moore 1956); int32[items], and their number."""
    color = np.zeros(tables.items.counts[0] + 1, np.int32)
    after = color.copy()
    n_states = tables.lists.starts[tables.lists.counts[0]]
    key = np.empty(n_states + 1, np.int64)
    n_colors = 0
    while True:
        known = new_interned(order.size + 1, (n_edges + order.size) // (order.size + 1) + 1)
        for i in range(order.size):
            item = order[i]
            key[0] = tables.items.pool[tables.items.starts[item]]  # the list of states is that of the edges
            n = 1
            for k in range(tables.edge_start[item], tables.edge_start[item + 1]):
                key[n] = settled(np.int64(tables.edge[k]), tables, color)
                n += 1
            after[item] = intern(key, n, known)
        color[:] = after
        if known.counts[0] == n_colors:
            return color, n_colors
        n_colors = known.counts[0]


@kernel
def merged(wanted, tops, color, machine, tables):
    """Sequences that no stack tells apart: the first one of each kind, the kind of each, and all cells.

    Returns (int32[wanted.size] kinds in order of `wanted`, which are sorted and above `PASS`; int64 starts of the
    cells of each kind; int64[cells, 2] (state, outcome as in `settled`)).
    """
    n_cells = 0
    for i in range(wanted.size):
        terminal = tables.first[wanted[i]]
        n_cells += machine.user_start[terminal + 1] - machine.user_start[terminal]
    known = new_interned(wanted.size + 1, 2 * n_cells // (wanted.size + 1) + 2)
    kinds = np.empty(wanted.size, np.int32)
    key = np.empty(2 * machine.goto.shape[0] + 2, np.int64)
    for i in range(wanted.size):
        sequence = wanted[i]
        terminal = tables.first[sequence]
        n = 0
        for k in range(machine.user_start[terminal], machine.user_start[terminal + 1]):
            found = np.int64(tables.outcome[tables.row[sequence] + k - machine.user_start[terminal]])
            if found > PASS and tops[machine.users[k]]:
                item = item_of(found, machine.users[k], machine, tables)
                found = settled(((item << SHIFT_POPS) | (found & ((1 << SHIFT_POPS) - 1))) + 2, tables, color)
            if found != DEAD and tops[machine.users[k]]:
                key[n], key[n + 1] = machine.users[k], found
                n += 2
        kinds[i] = intern_list(key, n, known.table, known.starts, known.pool, known.counts)
    n = known.counts[0]
    return kinds, known.starts[: n + 1] // 2, known.pool[: known.counts[1]].copy().reshape(-1, 2)


@kernel
def color_edges(order, color, n_colors, tables):
    """What each color says of the states of its list: (int32 lists, int64 starts, int64 outcomes)."""
    example = np.full(n_colors, -1, np.int64)
    for i in range(order.size):
        if example[color[order[i]]] < 0:
            example[color[order[i]]] = order[i]
    lists = np.empty(n_colors, np.int32)
    starts = np.zeros(n_colors + 1, np.int64)
    for c in range(n_colors):
        item = example[c]
        lists[c] = tables.items.pool[tables.items.starts[item]]
        starts[c + 1] = starts[c] + tables.edge_start[item + 1] - tables.edge_start[item]
    outcomes = np.empty(starts[n_colors], np.int64)
    for c in range(n_colors):
        begin = tables.edge_start[example[c]]
        for k in range(starts[c + 1] - starts[c]):
            outcomes[starts[c] + k] = settled(np.int64(tables.edge[begin + k]), tables, color)
    return lists, starts, outcomes
