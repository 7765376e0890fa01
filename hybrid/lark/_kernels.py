"""Kernels of `hybrid.lark`: text through lexer and parser, and the classes that may come next.

What: configurations (lexer state, stack) with stacks as interned nodes (state, node below); which kinds of
terminal sequences a stack takes, read from its top; the classes that these allow in a lexer state.
When: called by `hybrid.lark.tables` and by matchers, under the lock of their classifier.
Limits: a full table is said by the number `FULL`; the caller makes room and calls again, and what was found
stays. Tables are passed by address, as in `hybrid.classifier._kernels`, whose views are used here: after an
edit there, delete this folder's ``__pycache__``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from equivalence.interning._kernels import Interned, intern, mix
from hybrid.classifier._kernels import NO_BYTE, inlined, interned_at, pair_slot, view, view_rows

kernel = njit(cache=True, nogil=True)

FULL = -1
NOWHERE = 0
"""The configuration of a text that is refused; also the node below the bottom of a stack."""

SKIP_BITS = 12
"""Of an outcome of `equivalence.lalr.StackAutomaton`: states to skip."""

KIND_BITS = 24
"""Of a pending kind: its number, the outcome above it."""

N_NODES, N_CONFIGS, N_READS, N_PAIRS = 0, 1, 2, 3  # in `Tables.counts`


class Tables(NamedTuple):
    """Q lexer states, B byte classes, S parser states, T terminals, N nonterminals, C classes of tokens.

    class_of_byte, step int32[Q, B], emitted int32[Q, B], sequence, sequence_start: the lexer.
    action int32[S, T], goto int32[S, N], rule_length, rule_origin: the parser.
    top_start, top_kind, top_outcome: outcomes of kinds by the state on top; place int32[lists, S],
        color_list, color_start, color_outcome: the automaton below the top
        (`equivalence.lalr.StackAutomaton`).
    set_start, set_kind: sets of kinds; set_of int32[Q, C], stop_set, alive_set int32[Q]: which one is asked
        for a class, the end of the text, and the state itself.
    used_start, used: the distinct sets of each lexer state.
    data, offsets: the bytes of each token id.
    nodes int64[n, 2]: (state, node below); node_table: hash of these; node_out: the kinds that the stack
        takes, -1 = not known yet.
    configs int64[n, 2]: (lexer state, node); config_table: hash of these.
    tops int64[S, 2]: (kinds, frontier) of a state on top of an unknown stack, -1 = not known yet.
    frontiers: interned lists of (outcome << KIND_BITS | kind); skip: states to pass by before one is read.
    reads int64[n, 4]: a hash table (frontier, state, kinds, frontier below); -1 = empty.
    kinds: interned sets of kinds, words of 32 bits; masks: interned sets of classes.
    pairs int64[n, 3]: a hash table (lexer state, kinds, mask << 1 | whole); -1 = empty.
    counts: [nodes, configurations, reads, pairs].
    key, words, bits_of_kinds, bits: scratch.
    """

    class_of_byte: Any
    step: Any
    emitted: Any
    sequence: Any
    sequence_start: Any
    action: Any
    goto: Any
    rule_length: Any
    rule_origin: Any
    top_start: Any
    top_kind: Any
    top_outcome: Any
    place: Any
    color_list: Any
    color_start: Any
    color_outcome: Any
    set_start: Any
    set_kind: Any
    set_of: Any
    stop_set: Any
    alive_set: Any
    used_start: Any
    used: Any
    data: Any
    offsets: Any
    nodes: Any
    node_table: Any
    node_out: Any
    configs: Any
    config_table: Any
    tops: Any
    frontiers: Interned
    skip: Any
    reads: Any
    kinds: Interned
    masks: Interned
    pairs: Any
    counts: Any
    key: Any
    words: Any
    bits_of_kinds: Any
    bits: Any


@inlined
def opened(table):
    """The tables behind an array of addresses, in the order of `hybrid.lark.tables.Store`."""
    return Tables(
        view(table, 0, np.uint8), view_rows(table, 1, np.int32), view_rows(table, 2, np.int32),
        view(table, 3, np.int32), view(table, 4, np.int64), view_rows(table, 5, np.int32),
        view_rows(table, 6, np.int32), view(table, 7, np.int32), view(table, 8, np.int32),
        view(table, 9, np.int64), view(table, 10, np.int32), view(table, 11, np.int64),
        view_rows(table, 12, np.int32), view(table, 13, np.int32), view(table, 14, np.int64),
        view(table, 15, np.int64), view(table, 16, np.int64), view(table, 17, np.int32),
        view_rows(table, 18, np.int32), view(table, 19, np.int32), view(table, 20, np.int32),
        view(table, 21, np.int64), view(table, 22, np.int32), view(table, 23, np.uint8),
        view(table, 24, np.int64), view_rows(table, 25, np.int64), view(table, 26, np.int32),
        view(table, 27, np.int64), view_rows(table, 28, np.int64), view(table, 29, np.int32),
        view_rows(table, 30, np.int64), interned_at(table, 31), view(table, 35, np.int64),
        view_rows(table, 36, np.int64), interned_at(table, 37), interned_at(table, 41),
        view_rows(table, 45, np.int64), view(table, 46, np.int64), view(table, 47, np.int64),
        view(table, 48, np.int64), view(table, 49, np.int64), view(table, 50, np.uint8),
    )  # fmt: skip


@inlined
def pair_number(first, second, rows, table, counts, which):
    """The number of a pair among interned rows (first, second); or FULL."""
    last = table.size - 1
    slot = mix(mix(7, first), second) & last
    while table[slot] >= 0:
        if rows[table[slot], 0] == first and rows[table[slot], 1] == second:
            return np.int64(table[slot])
        slot = (slot + 1) & last
    number = np.int64(counts[which])
    if number >= rows.shape[0] or 2 * number >= table.size:
        return np.int64(FULL)
    rows[number, 0], rows[number, 1] = first, second
    table[slot] = number
    counts[which] = number + 1
    return number


@kernel
def rehashed(rows, count, size):
    """The hash table of `pair_number` for the first rows, with `size` places, a power of two."""
    table = np.full(size, -1, np.int32)
    for number in range(1, count):  # the first row stands for nowhere
        slot = mix(mix(7, rows[number, 0]), rows[number, 1]) & (size - 1)
        while table[slot] >= 0:
            slot = (slot + 1) & (size - 1)
        table[slot] = number
    return table


# ---------------------------------------------------------------- stacks


@inlined
def pushed(state, below, t):
    """The node of a state on top of a node; or FULL."""
    number = pair_number(np.int64(state), below, t.nodes, t.node_table, t.counts, N_NODES)
    if number >= 0 and number >= t.node_out.size:
        return np.int64(FULL)
    return number


MOST_REDUCTIONS = 1 << 16
"""Reductions before one shift. Lark's tables have no cycles; a forged artefact may have."""


@inlined
def shifted(node, terminal, t):
    """The node after a terminal, NOWHERE if the parser refuses it; or FULL."""
    for _ in range(MOST_REDUCTIONS):
        action = np.int64(t.action[t.nodes[node, 0], terminal])
        if action == 0:
            break
        if action > 0:
            return pushed(action - 1, node, t)
        rule = -action - 1
        for _ in range(t.rule_length[rule]):
            node = t.nodes[node, 1]
        state = np.int64(t.goto[t.nodes[node, 0], t.rule_origin[rule]])
        if node == NOWHERE or state < 0:
            break
        node = pushed(state, node, t)
        if node < 0:
            return np.int64(FULL)
    return np.int64(NOWHERE)


@inlined
def add_pending(outcome, kind, n, t):
    """Note a kind's outcome on a state: a bit of `words`, or an entry of `key`; returns the number of
    entries.
    """
    if outcome == 1:
        t.words[kind >> 5] |= np.int64(1) << (kind & 31)
    elif outcome > 1:
        t.key[n] = (outcome << KIND_BITS) | kind
        n += 1
    return n


@inlined
def noted(n, t):
    """(number of the kinds in `words`, number of the frontier in `key`); FULL as the first one."""
    least = np.int64(1) << SKIP_BITS
    for k in range(n):
        least = min(least, ((t.key[k] >> KIND_BITS) - 2) & ((1 << SKIP_BITS) - 1))
    for k in range(n):
        t.key[k] -= least << KIND_BITS
    if n == 0:
        frontier = np.int64(0)
    else:
        # states to skip are part of the key, for equal lists may lie at different depths
        t.key[n] = least
        frontier = intern(t.key, n + 1, t.frontiers)
    kinds = intern(t.words, t.words.size, t.kinds)
    if frontier < 0 or kinds < 0 or frontier >= t.skip.size:
        return np.int64(FULL), np.int64(0)
    if n:
        t.skip[frontier] = least
    return kinds, frontier


@kernel
def read_top(state, t):
    """Fill a row of `tops`; a status."""
    t.words[:] = 0
    n = 0
    for k in range(t.top_start[state], t.top_start[state + 1]):
        n = add_pending(t.top_outcome[k], np.int64(t.top_kind[k]), n, t)
    kinds, frontier = noted(n, t)
    if kinds < 0:
        return np.int64(FULL)
    t.tops[state, 0], t.tops[state, 1] = kinds, frontier
    return np.int64(0)


@kernel
def read_below(frontier, state, slot, t):
    """Fill a row of `reads`, at an empty place; a status."""
    if 2 * t.counts[N_READS] >= t.reads.shape[0]:
        return np.int64(FULL)
    t.words[:] = 0
    n = 0
    for k in range(t.frontiers.starts[frontier], t.frontiers.starts[frontier + 1] - 1):
        pending = np.int64(t.frontiers.pool[k])
        kind = pending & ((1 << KIND_BITS) - 1)
        outcome = (pending >> KIND_BITS) - 2
        if outcome & ((1 << SKIP_BITS) - 1):
            n = add_pending(outcome + 1, kind, n, t)  # one less to skip: + 2 - 1
            continue
        color = outcome >> SKIP_BITS
        place = np.int64(t.place[t.color_list[color], state])
        if place >= 0:
            n = add_pending(t.color_outcome[t.color_start[color] + place], kind, n, t)
    kinds, below = noted(n, t)
    if kinds < 0:
        return np.int64(FULL)
    t.reads[slot, 0], t.reads[slot, 1], t.reads[slot, 2], t.reads[slot, 3] = frontier, state, kinds, below
    t.counts[N_READS] += 1
    return np.int64(0)


@inlined
def kinds_taken(node, t):
    """Number of the set of kinds that a stack takes; or FULL."""
    if t.node_out[node] >= 0:
        return np.int64(t.node_out[node])
    state = t.nodes[node, 0]
    if t.tops[state, 0] < 0 and read_top(state, t) < 0:
        return np.int64(FULL)
    found = t.tops[state, 0]
    frontier = t.tops[state, 1]
    below = t.nodes[node, 1]
    n_words = t.words.size
    single = True
    while frontier != 0:
        for _ in range(t.skip[frontier]):
            below = t.nodes[below, 1]
        if below == NOWHERE:
            break
        slot = pair_slot(frontier, t.nodes[below, 0], t.reads)
        if t.reads[slot, 0] < 0 and read_below(frontier, t.nodes[below, 0], slot, t) < 0:
            return np.int64(FULL)
        more = t.reads[slot, 2]
        if more != 0:  # number 0 is no kind at all
            if single and found == 0:
                found = more
            else:
                if single:
                    begin = t.kinds.starts[found]
                    for w in range(n_words):
                        t.bits_of_kinds[w] = t.kinds.pool[begin + w]
                    single = False
                begin = t.kinds.starts[more]
                for w in range(n_words):
                    t.bits_of_kinds[w] |= t.kinds.pool[begin + w]
        frontier = t.reads[slot, 3]
        below = t.nodes[below, 1]
    if not single:
        found = intern(t.bits_of_kinds, n_words, t.kinds)
        if found < 0:
            return np.int64(FULL)
    t.node_out[node] = found
    return np.int64(found)


@inlined
def takes_one(number, begin, t):
    """Whether a set of kinds has one of those at a place of the pool of `kinds`."""
    for k in range(t.set_start[number], t.set_start[number + 1]):
        kind = np.int64(t.set_kind[k])
        if kind < 0 or (t.kinds.pool[begin + (kind >> 5)] >> (kind & 31)) & 1:
            return True
    return False


# ---------------------------------------------------------------- configurations


@kernel
def start_of(table):
    """The configuration before any text; or FULL."""
    t = opened(table)
    node = pushed(0, np.int64(NOWHERE), t)
    if node < 0:
        return node
    return pair_number(np.int64(0), node, t.configs, t.config_table, t.counts, N_CONFIGS)


@kernel
def put_config(table, state, states):
    """The configuration of a lexer state and the states of a stack from its bottom on; or FULL."""
    t = opened(table)
    node = np.int64(NOWHERE)
    for k in range(states.size):
        node = pushed(states[k], node, t)
        if node < 0:
            return node
    return pair_number(np.int64(state), node, t.configs, t.config_table, t.counts, N_CONFIGS)


@inlined
def read_bytes(config, text, begin, end, t):
    """The configuration after some bytes, NOWHERE if they are refused; or FULL."""
    state, node = t.configs[config, 0], t.configs[config, 1]
    for i in range(begin, end):
        byte = np.int64(t.class_of_byte[text[i]])
        emitted = np.int64(t.emitted[state, byte])
        state = np.int64(t.step[state, byte])
        if state < 0:
            return np.int64(NOWHERE)
        if emitted:
            for k in range(t.sequence_start[emitted], t.sequence_start[emitted + 1]):
                node = shifted(node, np.int64(t.sequence[k]), t)
                if node <= 0:
                    return node
    kinds = kinds_taken(node, t)
    if kinds < 0:
        return kinds
    if not takes_one(t.alive_set[state], t.kinds.starts[kinds], t):
        return np.int64(NOWHERE)
    return pair_number(state, node, t.configs, t.config_table, t.counts, N_CONFIGS)


@kernel
def advance(table, config, token):
    """The configuration after a token, NOWHERE if it is refused; or FULL."""
    t = opened(table)
    return read_bytes(config, t.data, t.offsets[token], t.offsets[token + 1], t)


@kernel
def advance_text(table, config, text):
    """The configuration after some bytes, NOWHERE if they are refused; or FULL."""
    return read_bytes(config, text, 0, text.size, opened(table))


@kernel
def advances(table, configs, tokens, found):
    """`advance` of many; a status."""
    t = opened(table)
    for i in range(configs.size):
        found[i] = read_bytes(configs[i], t.data, t.offsets[tokens[i]], t.offsets[tokens[i] + 1], t)
        if found[i] < 0:
            return found[i]
    return np.int64(0)


@kernel
def forced_byte(table, config):
    """The only byte that may come next; NO_BYTE if there are several, none, or the text may end; or FULL."""
    t = opened(table)
    mask = mask_of(config, t)
    if mask < 0:
        return np.int64(FULL)
    if mask & 1:
        return np.int64(NO_BYTE)
    found = np.int64(NO_BYTE)
    text = np.empty(1, np.uint8)
    for byte in range(256):
        if t.step[t.configs[config, 0], t.class_of_byte[byte]] < 0:
            continue
        text[0] = byte
        after = read_bytes(config, text, 0, 1, t)
        if after < 0:
            return np.int64(FULL)
        if after != NOWHERE:
            if found != NO_BYTE:
                return np.int64(NO_BYTE)
            found = np.int64(byte)
    return found


# ---------------------------------------------------------------- masks


@kernel
def new_mask(state, kinds, slot, t):
    """Fill a row of `pairs`, at an empty place: the classes that a lexer state and a set of kinds allow; a
    status.
    """
    if 2 * t.counts[N_PAIRS] >= t.pairs.shape[0]:
        return np.int64(FULL)
    begin = t.kinds.starts[kinds]
    for k in range(t.used_start[state], t.used_start[state + 1]):
        t.bits[t.used[k]] = takes_one(t.used[k], begin, t)
    n_classes = t.set_of.shape[1]
    n_words = (n_classes + 31) >> 5
    for w in range(max(n_words, 1)):
        word = np.int64(0)
        for c in range(32 * w, min(32 * w + 32, n_classes)):
            word |= np.int64(t.bits[t.set_of[state, c]]) << (c & 31)
        t.key[w] = word
    mask = intern(t.key, max(n_words, 1), t.masks)
    if mask < 0:
        return np.int64(FULL)
    whole = np.int64(takes_one(t.stop_set[state], begin, t))
    t.pairs[slot, 0], t.pairs[slot, 1], t.pairs[slot, 2] = state, kinds, (mask << 1) | whole
    t.counts[N_PAIRS] += 1
    return np.int64(0)


@inlined
def mask_of(config, t):
    """mask << 1 | whether the text is whole, of a configuration; or FULL."""
    state = t.configs[config, 0]
    kinds = kinds_taken(t.configs[config, 1], t)
    if kinds < 0:
        return np.int64(FULL)
    slot = pair_slot(state, kinds, t.pairs)
    if t.pairs[slot, 0] < 0 and new_mask(state, kinds, slot, t) < 0:
        return np.int64(FULL)
    return np.int64(t.pairs[slot, 2])


@kernel
def class_mask(table, config):
    """Number of the set of classes that may come next << 1 | whether the text is whole; or FULL."""
    return mask_of(config, opened(table))


@kernel
def class_masks(table, configs, found):
    """`class_mask` of many; a status."""
    t = opened(table)
    for i in range(configs.size):
        found[i] = mask_of(configs[i], t)
        if found[i] < 0:
            return found[i]
    return np.int64(0)


@kernel
def depth_read(table, config):
    """States of the stack that were read to decide a configuration's mask."""
    t = opened(table)
    node = t.configs[config, 1]
    if kinds_taken(node, t) < 0:
        return np.int64(FULL)
    depth = np.int64(1)
    frontier = t.tops[t.nodes[node, 0], 1]
    below = t.nodes[node, 1]
    while frontier != 0:
        for _ in range(t.skip[frontier]):
            below = t.nodes[below, 1]
            depth += 1
        if below == NOWHERE:
            break
        slot = pair_slot(frontier, t.nodes[below, 0], t.reads)
        frontier = t.reads[slot, 3]
        below = t.nodes[below, 1]
        depth += 1
    return depth
