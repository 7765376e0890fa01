"""Kernels of `equivalence.lalr`: terminal sequences on stacks of which only the top is known.

What: flat arrays in, numbers out; see `equivalence.lalr.sequences` and `equivalence.lalr.stacks` for the
ideas.
When: called by the modules of this folder only.
Limits: nothing is validated. Numba's cache sees edits of this file only: the interning comes from
`equivalence.interning`, after an edit there delete the ``__pycache__`` folders.

An *outcome* is what becomes of a sequence on a stack of which the top is known: `DEAD`, `PASS` (shifted to
its end), or that more of the stack is needed: so many states to pop, the nonterminal to go by on the state
below them, and the rest of the sequence to read then, in one integer (`pending`).
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
    list_slot,
    new_interned,
)

kernel = njit(cache=True, nogil=True)
forced = njit(cache=True, nogil=True, forceinline=True)

DEAD, PASS = 0, 1
"""Outcomes, and the numbers of the sequence that no stack takes and of the empty one."""

LOST = -1
"""Status: the parser reduced without end."""

FULL_SEQUENCES, FULL_CELLS, FULL_PAIRS, FULL_ROWS, FULL_LISTS, FULL_ITEMS, FULL_EDGES = (
    -2,
    -3,
    -4,
    -5,
    -6,
    -7,
    -8,
)
"""Statuses: the table that needs more room. What was begun is taken back, so counts do not tell which one."""

IN_FRONT, BELOW = 0, 1
"""What a pair of `Tables.pairs` asks for."""

MOST_REDUCTIONS = 1 << 20
"""Reductions in a row, without a terminal shifted, after which a parser is taken to go on without end."""

N_SEQUENCES, N_CELLS, N_EDGES, N_ITEMS = 0, 1, 2, 3
CAN_DIE, CAN_PASS = 1, 2

SHIFT_POPS, SHIFT_REST = 12, 32
"""Bits of an outcome: 12 for the number of pops, 20 for the nonterminal, the rest of the sequence above."""


class Machine(NamedTuple):
    """What does not change: the parse table, and for each terminal the states that have an action on it."""

    action: Any
    goto: Any
    rule_length: Any
    rule_origin: Any
    users: Any  # int32, the states with an action on a terminal, terminal by terminal
    user_start: Any  # int64[T + 1]
    place: Any  # int32[T, S], place of a state among a terminal's users, -1 if it is none
    beneath: Any  # uint8[D, S, ceil(S / 8)]: at [d, s] bit p says whether p may lie d + 1 states below s


class Tables(NamedTuple):
    """What grows: sequence i is terminal `first[i]`, then sequence `rest[i]`; its outcomes begin at `row[i]`.

    What stands beside interned lists has room for as many as they have.
    """

    first: Any
    rest: Any
    row: Any
    outcome: Any
    cell: Any  # beside `outcome`, the same as in `edge`
    # [IN_FRONT, terminal, rest]: the sequence of both; [BELOW, pops * S + state, nonterminal]: the list of
    # states with a goto on the nonterminal that may lie pops + 1 below the state
    pairs: Interned
    pair_value: Any  # -1 = not known yet
    rows: Interned  # as simulated, and as they are when what always passes or dies is said so
    row_sequence: Any  # -1 = not known yet
    lists: Interned  # sorted lists of states
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
        borrowed(tables.cell), borrowed_interned(tables.pairs), borrowed(tables.pair_value),
        borrowed_interned(tables.rows), borrowed(tables.row_sequence), borrowed_interned(tables.lists),
        borrowed_interned(tables.items), borrowed(tables.status), borrowed(tables.edge_start),
        borrowed(tables.edge), borrowed(tables.counts), borrowed(tables.key),
    )  # fmt: skip


@kernel
def pending(pops, nonterminal, rest):
    """The outcome that says what is pending."""
    return (np.int64(rest) << SHIFT_REST) | (np.int64(nonterminal) << SHIFT_POPS) | np.int64(pops)


@forced
def run(local, depth, rest, machine, tables):
    """The outcome of a sequence on a stack whose upper `depth` states are `local`; they are overwritten."""
    for _ in range(MOST_REDUCTIONS):
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


@forced
def run_first(state, terminal, rest, own, local, machine, tables):
    """The outcome of a terminal and a sequence, together the new sequence `own`, on a state."""
    local[0] = state
    depth = 1
    for _ in range(MOST_REDUCTIONS):
        if depth == local.size:
            break
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


@forced
def list_below(pops, state, nonterminal, machine, tables):
    """Number of the list of states, those with a goto, that may lie `pops` + 1 below a state; or a status."""
    n_states = machine.goto.shape[0]
    key = tables.key
    key[0], key[1], key[2] = BELOW, pops * n_states + state, nonterminal
    pair = intern(key, 3, tables.pairs)
    if pair < 0:
        return np.int64(FULL_PAIRS)
    number = np.int64(tables.pair_value[pair])
    if number >= 0:
        return number
    n = 0
    for octet in range(machine.beneath.shape[2]):
        bits = np.int64(machine.beneath[pops, state, octet])
        below = 8 * octet
        while bits:
            if bits & 1 and machine.goto[below, nonterminal] >= 0:
                key[n] = below
                n += 1
            bits >>= 1
            below += 1
    number = intern(key, n, tables.lists)
    if number < 0:
        return np.int64(FULL_LISTS)
    tables.pair_value[pair] = number
    return number


@forced
def item_of(outcome, state, machine, tables):
    """Number of the item [states that may be exposed, nonterminal, rest] of an outcome; or a status."""
    pops = outcome & ((1 << SHIFT_POPS) - 1)
    nonterminal = (outcome >> SHIFT_POPS) & ((1 << (SHIFT_REST - SHIFT_POPS)) - 1)
    states = list_below(pops, np.int64(state), nonterminal, machine, tables)
    if states < 0:
        return states
    key = tables.key
    key[0], key[1], key[2] = states, nonterminal, outcome >> SHIFT_REST
    number = intern(key, 3, tables.items)
    return number if number >= 0 else np.int64(FULL_ITEMS)


@forced
def edge_to(item, outcome):
    """The edge that says: pop as an outcome says, then the item."""
    return ((item << SHIFT_POPS) | (outcome & ((1 << SHIFT_POPS) - 1))) + 2


@kernel
def settle(first, local, machine, tables):
    """Expand all items from number `first` on, and find whether each can die and can pass; a status.

    What has to be found of items that lead to each other is a least fixed point. Items lead to later ones but
    for cycles, so that going backwards two or three rounds do; each round adds to a status of two bits or is
    the last.
    """
    counts = tables.counts
    item = first
    while item < tables.items.counts[0]:
        begin = tables.items.starts[item]
        states, nonterminal, rest = tables.items.pool[begin : begin + 3]
        n_edges = counts[N_EDGES]
        if n_edges + tables.lists.starts[states + 1] - tables.lists.starts[states] > tables.edge.size:
            return np.int64(FULL_EDGES)
        for k in range(tables.lists.starts[states], tables.lists.starts[states + 1]):
            state = np.int64(tables.lists.pool[k])
            local[0] = state
            local[1] = machine.goto[state, nonterminal]
            found = run(local, 2, rest, machine, tables)
            if found > PASS:
                after = item_of(found, state, machine, tables)
                if after < 0:
                    return after
                found = edge_to(after, found)
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
    """Write (state, outcome, rest) of all states on which a sequence does not die; returns the length.

    The sequence itself is -1, so that two sequences that repeat themselves alike are equal. The rest is apart
    because the hash reads 30 bits of a number.
    """
    n = 0
    row = tables.row[own]
    for k in range(machine.user_start[terminal], machine.user_start[terminal + 1]):
        found = np.int64(tables.outcome[row + k - machine.user_start[terminal]])
        if found != DEAD:
            rest = found >> SHIFT_REST
            key[n] = machine.users[k]
            key[n + 1] = found & ((1 << SHIFT_REST) - 1)
            key[n + 2] = -1 if rest == own else rest
            n += 3
    return n


@kernel
def new_sequence(terminal, rest, local, machine, tables):
    """Number of the sequence of a terminal and a sequence, equal behaviour having equal numbers; or a status.

    With a status, nothing has been added but lists, and rows without a sequence: asked again, they are found.
    """
    counts = tables.counts
    own = np.int64(counts[N_SEQUENCES])
    row = np.int64(counts[N_CELLS])
    begin, end = machine.user_start[terminal], machine.user_start[terminal + 1]
    if own >= tables.first.size:
        return np.int64(FULL_SEQUENCES)
    if row + end - begin > tables.outcome.size:
        return np.int64(FULL_CELLS)
    tables.first[own], tables.rest[own], tables.row[own] = terminal, rest, row
    for k in range(begin, end):
        found = run_first(machine.users[k], terminal, rest, own, local, machine, tables)
        if found < 0:
            return found
        tables.outcome[row + k - begin] = found
    key = tables.key
    simulated = intern(key, key_of_row(key, own, terminal, machine, tables), tables.rows)
    if simulated < 0:
        return np.int64(FULL_ROWS)
    if tables.row_sequence[simulated] >= 0:
        return np.int64(tables.row_sequence[simulated])
    first_item = np.int64(tables.items.counts[0])
    status = np.int64(0)
    for k in range(begin, end):
        found = np.int64(tables.outcome[row + k - begin])
        tables.cell[row + k - begin] = found
        if found > PASS:
            status = item_of(found, machine.users[k], machine, tables)
            if status < 0:
                break
            tables.cell[row + k - begin] = edge_to(status, found)
    if status >= 0:
        status = settle(first_item, local, machine, tables)
    if status < 0:
        forget_items(first_item, tables)
        return status
    for k in range(begin, end):
        cell = row + k - begin
        if tables.outcome[cell] > PASS:
            status = np.int64(tables.status[(np.int64(tables.cell[cell]) - 2) >> SHIFT_POPS])
            if status & CAN_DIE == 0:
                tables.outcome[cell] = tables.cell[cell] = PASS
            elif status & CAN_PASS == 0:
                tables.outcome[cell] = tables.cell[cell] = DEAD
    length = key_of_row(key, own, terminal, machine, tables)
    number = np.int64(DEAD)
    if length > 0:
        plain = intern(key, length, tables.rows)
        if plain < 0:
            forget_items(first_item, tables)
            return np.int64(FULL_ROWS)
        number = np.int64(tables.row_sequence[plain])
        if number < 0:
            number = own
            tables.row_sequence[plain] = own
            counts[N_SEQUENCES] = own + 1
            counts[N_CELLS] = row + end - begin
    if number != own:
        forget_items(first_item, tables)
    tables.row_sequence[simulated] = number
    return number


@kernel
def before(terminal, rest, local, machine, tables):
    """Number of the sequence of a terminal and a sequence; or a status."""
    if rest == DEAD:
        return np.int64(DEAD)
    key = tables.key
    key[0], key[1], key[2] = IN_FRONT, terminal, rest
    pair = intern(key, 3, tables.pairs)
    if pair < 0:
        return np.int64(FULL_PAIRS)
    number = np.int64(tables.pair_value[pair])
    if number < 0:
        number = new_sequence(terminal, rest, local, machine, tables)
        if number >= 0:
            tables.pair_value[pair] = number
    return number


@kernel
def classify(texts, starts, begin, end, local, machine, tables, numbers):
    """The numbers of sequences of terminals, from the `begin`-th to before the `end`-th.

    Sequence i is ``texts[starts[i]:starts[i + 1]]``. Returns (status, up to which all are done).
    """
    machine, tables = borrowed_machine(machine), borrowed_tables(tables)
    for i in range(begin, end):
        number = np.int64(PASS)
        for k in range(starts[i + 1] - 1, starts[i] - 1, -1):
            number = before(np.int64(texts[k]), number, local, machine, tables)
            if number < 0:
                return number, np.int64(i)
        numbers[i] = number
    return np.int64(0), np.int64(end)


@kernel
def number_lists(starts, values):
    """Numbers of the lists ``values[starts[i]:starts[i + 1]]``: equal for equal lists, in order of the first.

    Returns (int32[n], how many there are). The values are below 2**30, or the hash does not read all of them.
    """
    n = starts.size - 1
    known = new_interned(n + 1, starts[n] // (n + 1) + 1)
    numbers = np.empty(n, np.int32)
    for i in range(n):
        numbers[i] = intern(values[starts[i] : starts[i + 1]], starts[i + 1] - starts[i], known)
    return numbers, known.counts[0]
