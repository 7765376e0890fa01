"""All numba kernels of this folder: one array of addresses in, numbers out, nothing is validated here.

What: reading text over the stacks of one sequence (`advance`), and naming the classes that may come next by
reading these stacks from the top (`class_mask`), with everything that is met kept for the next time.
When: called by `hybrid.classifier.tables` only, under its lock.
Limits: a table that is full is named by the number returned; the caller makes room and calls again. What was
found so far is kept, so that every call gets further.

A kernel takes its tables by *address*: to pass the 40 arrays costs 10 us a call, one array 0.3 us. They run
as plain Python too (``NUMBA_DISABLE_JIT=1``).
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np
from numba import carray, njit, types  # type: ignore[attr-defined]
from numba.extending import intrinsic, overload

from equivalence._kernels import (
    LINKS,
    POPS,
    REJECT,
    STAMP,
    Space,
    close,
    find_frame,
    new_frame,
    note_config,
    start_config,
    step_config,
)
from equivalence.interning._kernels import Interned, intern, mix, new_interned
from hybrid._kernels import gather

kernel = njit(cache=True, nogil=True)
# LLVM's inlining, not numba's (see `_pointer`): to hand over 60 arrays in memory took 4 us
inlined = njit(cache=True, nogil=True, forceinline=True)

SEED = 11  # of the hash of pairs

# Statuses, below every number that a kernel finds: which table has no room left, or (COMPLETE) must not be
# extended, see `tables.Summaries`.
SPACE_FULL, SUMMARIES_FULL, READS_FULL, DEPTH_FULL, QUEUE_FULL, COMPLETE = -1, -2, -3, -4, -5, -6

NO_BYTE = 256
"""What `forced_byte` finds where no single byte is forced."""

# ---------------------------------------------------------------- tables by address


def view(table, k, dtype):
    """Array k of a table of rows (address, rows, columns), one-dimensional where it has no columns."""
    address, rows, columns = (int(x) for x in table[k])
    shape = (rows, columns) if columns else (rows,)
    size = max(int(np.prod(shape)), 0)
    if size == 0:
        return np.empty(shape, dtype)
    memory = (ctypes.c_char * (size * np.dtype(dtype).itemsize)).from_address(address)
    return np.frombuffer(memory, dtype).reshape(shape)


def view_rows(table, k, dtype):
    """`view` of a two-dimensional array; compiled code has to know which."""
    return view(table, k, dtype)


@intrinsic
def _pointer(typing_context, table, place, dtype):
    """The pointer that a contiguous array of integers holds at a flat place.

    Nothing here is inlined by numba itself: its removal of dead code then drops stores into such arrays, as
    no one in the function seems to read them (numba 0.68). LLVM inlines all of it later.
    """
    element = types.CPointer(dtype.dtype)

    def generate(context, builder, signature, arguments):
        integers = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = context.get_value_type(signature.return_type)
        return builder.load(builder.bitcast(builder.gep(integers.data, [arguments[1]]), pointer.as_pointer()))

    return element(table, types.int64, dtype), generate


@overload(view, jit_options={"forceinline": True})
def _view(table, k, dtype):
    def implementation(table, k, dtype):
        return carray(_pointer(table, 3 * k, dtype), (table[k, 1],))  # type: ignore[call-arg]

    return implementation


@overload(view_rows, jit_options={"forceinline": True})
def _view_rows(table, k, dtype):
    def implementation(table, k, dtype):
        return carray(_pointer(table, 3 * k, dtype), (table[k, 1], table[k, 2]))  # type: ignore[call-arg]

    return implementation


def words_at(addresses, i, n):
    """uint32[n] at one of some addresses."""
    return view(np.array([[addresses[i], n, 0]]), 0, np.uint32)


@overload(words_at, jit_options={"forceinline": True})
def _words_at(addresses, i, n):
    def implementation(addresses, i, n):
        return carray(_pointer(addresses, i, np.uint32), (n,))  # type: ignore[call-arg]

    return implementation


class Tables(NamedTuple):
    """What one classifier knows. S states, U counted classes, B byte classes, G classes, W = ceil(G / 32).

    space, net: the stacks met (see `equivalence._kernels.Space`), and the grammar network.
    behind uint8[S + U, B]: byte classes that can follow once a symbol has been dropped.
    node_byte, node_depth, node_skip, node_group int64[N]: the trie of the classes' representatives; a
        group is a class.
    suffix_parent, suffix_byte, whole: its suffixes (see `equivalence.trie.Trie`).
    first int64[S, 2]: (mask, pending set) of every state on top of an unknown stack; -1 = not known yet.
    pendings: interned sets of suffix * G + class. masks: interned sets of classes, W words of 32 bits.
    units: interned counter frames (counted class, count as far as a token can tell).
    summaries int64[n, 4]: a hash table (pending set, symbol, mask, pending set below the symbol); -1 = empty.
    reads int64[n, 3]: a hash table (pending set, tail, mask); -1 = empty.
    config_mask int64[n]: the mask of each configuration, -1 = not known yet.
    counts: [summaries, reads, longest representative, summaries that there may be].
    pairs, bits, row, levels: scratch.
    unions int32[n, 3]: (mask, mask, their union), each pair of masks having one place, which it takes from
        another pair.
    data, offsets: the bytes of each token id.
    """

    space: Any
    net: Any
    behind: Any
    node_byte: Any
    node_depth: Any
    node_skip: Any
    node_group: Any
    suffix_parent: Any
    suffix_byte: Any
    whole: Any
    first: Any
    pendings: Any
    masks: Any
    units: Any
    summaries: Any
    reads: Any
    config_mask: Any
    counts: Any
    pairs: Any
    bits: Any
    row: Any
    levels: Any
    unions: Any
    data: Any
    offsets: Any


# Places of `opened`
STEPS, FACTS, CLASS_OF_BYTE = 11, 12, 19
CONFIG_MASK, DATA, OFFSETS = 51, 58, 59
N_SUMMARIES, N_READS, LONGEST, MOST_SUMMARIES = 0, 1, 2, 3  # in `Tables.counts`


@inlined
def interned_at(table, k):
    """The four arrays of an `Interned`."""
    return Interned(
        view(table, k, np.int32), view(table, k + 1, np.int64), view(table, k + 2, np.int64),
        view(table, k + 3, np.int64),
    )  # fmt: skip


@inlined
def opened(table):
    """The tables behind an array of addresses, in the order of `hybrid.classifier.tables.flat`."""
    space = Space(
        view_rows(table, 0, np.int64), view(table, 1, np.int32), interned_at(table, 2),
        view_rows(table, 6, np.int64), interned_at(table, 7), view_rows(table, 11, np.int32),
        view_rows(table, 12, np.int64), view(table, 13, np.int64), view_rows(table, 14, np.int64),
        view(table, 15, np.int64), view(table, 16, np.int64), view(table, 17, np.int64),
        view_rows(table, 18, np.int64), view(table, 19, np.int64), view_rows(table, 20, np.int64),
        view_rows(table, 21, np.uint8),
    )  # fmt: skip
    net = (
        view(table, 22, np.uint8), view(table, 23, np.int64), view_rows(table, 24, np.int64),
        view(table, 25, np.int64), view_rows(table, 26, np.int64), view_rows(table, 27, np.int64),
    )  # fmt: skip
    return Tables(
        space, net, view_rows(table, 28, np.uint8), view(table, 29, np.int64), view(table, 30, np.int64),
        view(table, 31, np.int64), view(table, 32, np.int64), view(table, 33, np.int64),
        view(table, 34, np.int64), view(table, 35, np.int64), view_rows(table, 36, np.int64),
        interned_at(table, 37), interned_at(table, 41), interned_at(table, 45),
        view_rows(table, 49, np.int64), view_rows(table, 50, np.int64), view(table, 51, np.int64),
        view(table, 52, np.int64), view(table, 53, np.int64), view(table, 54, np.int64),
        view(table, 55, np.int64), view_rows(table, 56, np.int64), view_rows(table, 57, np.int32),
        view(table, 58, np.uint8), view(table, 59, np.int64),
    )  # fmt: skip


# ---------------------------------------------------------------- advancing


@kernel
def step(table, config, c):
    """Compute the configuration after a byte of class c; REJECT, or a status."""
    t = opened(table)
    return step_config(config, c, t.space, t.net)


@inlined
def advance_bytes(table, config, text, begin, end):
    """The configuration after ``text[begin:end]``; REJECT, or a status."""
    steps, class_of_byte = view_rows(table, STEPS, np.int32), view(table, CLASS_OF_BYTE, np.int64)
    i = begin
    while i < end and config > REJECT:
        c = class_of_byte[text[i]]
        after = np.int64(steps[config, c])
        config = after if after >= 0 else step(table, config, c)
        i += 1
    return config


@kernel
def advance(table, config, token):
    """The configuration after a token; REJECT, or a status."""
    offsets = view(table, OFFSETS, np.int64)
    return advance_bytes(table, config, view(table, DATA, np.uint8), offsets[token], offsets[token + 1])


@kernel
def advance_text(table, config, text):
    """The configuration after some bytes; REJECT, or a status."""
    return advance_bytes(table, config, text, 0, text.size)


@kernel
def start_of(table, state, final):
    """The configuration before any text: a state over the empty stack; a status."""
    t = opened(table)
    net, key = t.net, t.space.key
    key[0] = 0
    key[1] = 1 if final else 0
    key[2] = -1
    begin = 3 if final else 2
    length = begin
    if state >= 0 and (net[1][state] < net[1][state + 1] or net[3][state] < net[3][state + 1]):
        key[length] = state
        key[length + 1] = 0
        length += 2
    return note_config(length, begin, t.space)


@kernel
def forced_byte(table, config):
    """The only byte that can come next; NO_BYTE if there are several or none, or the text may end here."""
    t = opened(table)
    space = t.space
    if space.facts[config, POPS] > 0:
        return np.int64(NO_BYTE)
    starts, pool, behaviour = space.configs.starts, space.configs.pool, space.behaviour
    found = np.int64(NO_BYTE)
    begin = starts[config] + 2 + pool[starts[config] + 1]
    for b in range(256):
        c = space.class_of_byte[b]
        for i in range(begin, starts[config + 1], 2):
            if behaviour[pool[i], c]:
                if found != NO_BYTE:
                    return np.int64(NO_BYTE)
                found = np.int64(b)
                break
    return found


# ---------------------------------------------------------------- moving to new tables


@kernel
def put_frame(table, a, count, tail):
    """The tail of one frame; a status."""
    t = opened(table)
    found = find_frame(a, count, tail, t.space.frames, t.space.frame_table)
    return found if found >= 0 else new_frame(a, count, tail, t.space, t.net[5])


@kernel
def put_tail(table, frames):
    """The tail of several frames, given as tails of one frame each; a status."""
    t = opened(table)
    tails = t.space.tails
    key = np.empty(frames.size, np.int64)
    for i in range(frames.size):
        key[i] = tails.pool[tails.starts[frames[i]]]
    key.sort()
    number = intern(key, key.size, tails)
    if number >= 0:
        label = np.int64(1 << 40)
        for i in range(frames.size):
            label = min(label, t.space.tail_facts[frames[i], 0])
        t.space.tail_facts[number, 0] = label
    return number


@kernel
def put_config(table, values):
    """The configuration of a list [label, pops, ports ..., (state, tail) ...]; a status."""
    t = opened(table)
    for i in range(values.size):
        t.space.key[i] = values[i]
    return note_config(values.size, 2 + values[1], t.space)


# ---------------------------------------------------------------- masks


@inlined
def pair_slot(a, b, rows):
    """The place of a pair in a hash table of rows (a, b, ...), or the empty one (-1) that it would have."""
    last = rows.shape[0] - 1
    slot = mix(mix(SEED, a), b) & last
    while rows[slot, 0] >= 0 and not (rows[slot, 0] == a and rows[slot, 1] == b):
        slot = (slot + 1) & last
    return np.int64(slot)


@kernel
def summarise_first(x, t):
    """Read every representative on state x over an unknown stack; 0, or a status."""
    space, net = t.space, t.net
    class_of_byte, facts, steps = space.class_of_byte, space.facts, space.steps
    node_byte, node_depth, node_skip, node_group = t.node_byte, t.node_depth, t.node_skip, t.node_group
    suffix_parent, behind = t.suffix_parent, t.behind
    config = start_config(x, -1, space, net)
    if config < 0:
        return SPACE_FULL
    n_groups = t.whole.size
    room = t.counts[LONGEST] + 2
    configs = np.empty(room, np.int64)
    valid = np.zeros(room, np.int64)
    pop_depth = np.empty(room, np.int64)
    bits, pairs = t.bits, t.pairs
    bits[:] = 0
    n = 0
    configs[0] = config
    i = 1
    while i < node_byte.size:
        d = node_depth[i]
        above, pops = configs[d - 1], valid[d - 1]
        config = np.int64(REJECT)
        if above != REJECT:
            c = class_of_byte[node_byte[i]]
            # what lies below a state that may be dropped at once is in the configuration by itself
            if d > 1 and facts[above, POPS] > 0 and behind[x, c]:
                pop_depth[pops] = d - 1
                pops += 1
            config = np.int64(steps[above, c])
            if config < 0:  # the call alone costs 90 ns, for the arrays it passes
                config = step_config(above, c, space, net)
                if config < 0:
                    return SPACE_FULL
        if config == REJECT and pops == 0:
            i = node_skip[i]
            continue
        configs[d] = config
        valid[d] = pops
        g = node_group[i]
        i += 1
        if node_group[i] == g:
            continue
        if config != REJECT:
            bits[g >> 5] |= 1 << (g & 31)
        else:
            suffix = t.whole[g]
            at = 0
            for p in range(pops):
                while at < pop_depth[p]:
                    suffix = suffix_parent[suffix]
                    at += 1
                pairs[n] = suffix * n_groups + g
                n += 1
    mask = intern(bits, bits.size, t.masks)
    pairs[:n].sort()
    pending = intern(pairs, n, t.pendings)
    if mask < 0 or pending < 0:
        return SUMMARIES_FULL
    t.first[x, 0] = mask
    t.first[x, 1] = pending
    return 0


def told_apart(count: int, least: int, most: int, reach: int) -> int:
    """A count that no token tells from this one, a token being shorter than `reach`: far from both bounds it
    does not matter."""
    if count + reach < least:
        return 0
    if count >= least and (most < 0 or count + reach < most):
        return least
    return count


told_apart_here = inlined(told_apart)


@inlined
def symbol_of(a, count, t):
    """The number of what lies on the stack: a state, or behind them a counter frame; a status."""
    if a >= 0:
        return a
    unit = (-2 - a) >> 1
    t.pairs[0] = unit
    t.pairs[1] = told_apart_here(count, t.net[5][unit, 1], t.net[5][unit, 3], t.counts[LONGEST] + 1)
    number = intern(t.pairs, 2, t.units)
    return t.net[0].size + number if number >= 0 else SUMMARIES_FULL


@kernel
def summarise(pending, symbol, t):
    """Read a pending set on a symbol over an unknown stack; its row of `summaries`, or a status."""
    space, net = t.space, t.net
    class_of_byte, facts, steps = space.class_of_byte, space.facts, space.steps
    suffix_parent, suffix_byte, behind = t.suffix_parent, t.suffix_byte, t.behind
    n_states = net[0].size
    rows = t.summaries
    if t.counts[N_SUMMARIES] >= t.counts[MOST_SUMMARIES]:
        return np.int64(COMPLETE)
    if 2 * t.counts[N_SUMMARIES] >= rows.shape[0]:
        return np.int64(SUMMARIES_FULL)
    if symbol < n_states:
        own = symbol
        config = start_config(symbol, -1, space, net)
    else:
        begin = t.units.starts[symbol - n_states]
        unit, count = t.units.pool[begin], t.units.pool[begin + 1]
        own = n_states + unit
        a = -2 - 2 * unit
        space.state[STAMP] += 1
        space.state[LINKS] = 0
        zero = np.int64(0)
        tail = find_frame(a, count, zero, space.frames, space.frame_table)
        if tail < 0:
            tail = new_frame(a, count, zero, space, net[5])
        if tail < 0:
            return np.int64(SPACE_FULL)
        space.returning[0] = tail
        config = close(0, 0, 1, space, net)
    if config < 0:
        return np.int64(SPACE_FULL)
    n_groups = t.whole.size
    pops = np.empty(t.counts[LONGEST] + 2, np.int64)
    bits, pairs, pool = t.bits, t.pairs, t.pendings.pool
    bits[:] = 0
    n = 0
    i, end = t.pendings.starts[pending], t.pendings.starts[pending + 1]
    while i < end:
        suffix = pool[i] // n_groups
        current = config
        rest = suffix
        n_pops = 0
        while rest != 0 and current != REJECT:
            c = class_of_byte[suffix_byte[rest]]
            if facts[current, POPS] > 0 and behind[own, c]:
                pops[n_pops] = rest
                n_pops += 1
            after = np.int64(steps[current, c])
            if after < 0:
                after = step_config(current, c, space, net)
                if after < 0:
                    return np.int64(SPACE_FULL)
            current = after
            rest = suffix_parent[rest]
        while i < end and pool[i] // n_groups == suffix:
            g = pool[i] % n_groups
            if current != REJECT:
                bits[g >> 5] |= 1 << (g & 31)
            else:
                for p in range(n_pops):
                    pairs[n] = pops[p] * n_groups + g
                    n += 1
            i += 1
    # sorted and distinct, without those of classes that are read anyway
    pairs[:n].sort()
    length = 0
    for k in range(n):
        g = pairs[k] % n_groups
        if (bits[g >> 5] >> (g & 31)) & 1 == 0 and (length == 0 or pairs[length - 1] != pairs[k]):
            pairs[length] = pairs[k]
            length += 1
    mask = intern(bits, bits.size, t.masks)
    below = intern(pairs, length, t.pendings)
    if mask < 0 or below < 0:
        return np.int64(SUMMARIES_FULL)
    slot = pair_slot(pending, symbol, rows)
    rows[slot, 0] = pending
    rows[slot, 1] = symbol
    rows[slot, 2] = mask
    rows[slot, 3] = below
    t.counts[N_SUMMARIES] += 1
    return np.int64(slot)


@kernel
def unite(a, b, slot, masks, row, unions):
    """The number of the union of two masks, kept in a place of `unions`; a status."""
    starts, words = masks.starts, masks.pool
    first, second = starts[a], starts[b]
    for w in range(row.size):
        row[w] = words[first + w] | words[second + w]
    mask = intern(row, row.size, masks)
    if mask < 0:
        return np.int64(SUMMARIES_FULL)
    unions[slot, 0] = a
    unions[slot, 1] = b
    unions[slot, 2] = mask
    return mask


@inlined
def find_union(a, b, unions):
    """The number of the union of two masks; -1 - its place where it has to be found by `unite`.

    Stacks that differ far below unite the same masks again: to look up a pair takes 5 ns, to unite and
    intern 50 words 200.
    """
    found = a
    if b != 0 and a != b:
        found = b
        if a != 0:
            slot = mix(mix(SEED, a), b) & (unions.shape[0] - 1)
            found = -1 - slot
            if unions[slot, 0] == a and unions[slot, 1] == b:
                found = np.int64(unions[slot, 2])
    return np.int64(found)


@inlined
def read_below(pending, tail, t):
    """The mask of what a pending set reads on the stacks of a tail; a status.

    `levels` holds (pending set, tail, next frame, mask so far) of the sets being read, deeper ones later.
    Tails lie strictly deeper each time, so this ends.
    """
    levels, reads, rows = t.levels, t.reads, t.summaries
    masks, row, unions = t.masks, t.bits, t.unions
    starts, pool, frames = t.space.tails.starts, t.space.tails.pool, t.space.frames
    depth = 0
    levels[0, 0] = pending
    levels[0, 1] = tail
    levels[0, 2] = starts[tail]
    levels[0, 3] = 0
    while True:
        own, on = levels[depth, 0], levels[depth, 1]
        if levels[depth, 2] == starts[on + 1]:
            mask = levels[depth, 3]
            if 2 * t.counts[N_READS] >= reads.shape[0]:
                return np.int64(READS_FULL)
            slot = pair_slot(own, on, reads)
            reads[slot, 0] = own
            reads[slot, 1] = on
            reads[slot, 2] = mask
            t.counts[N_READS] += 1
            if depth == 0:
                return mask
            depth -= 1
            union = find_union(levels[depth, 3], mask, unions)
            if union < 0:
                union = unite(levels[depth, 3], mask, -1 - union, masks, row, unions)
                if union < 0:
                    return union
            levels[depth, 3] = union
            continue
        frame = pool[levels[depth, 2]]
        levels[depth, 2] += 1
        if frame == 0:
            continue
        symbol = frames[frame, 0]
        if symbol < 0:
            symbol = symbol_of(symbol, frames[frame, 1], t)
            if symbol < 0:
                return symbol
        slot = pair_slot(own, symbol, rows)
        if rows[slot, 0] < 0:
            slot = summarise(own, symbol, t)
            if slot < 0:
                return slot
        if rows[slot, 2] != 0:
            union = find_union(levels[depth, 3], rows[slot, 2], unions)
            if union < 0:
                union = unite(levels[depth, 3], rows[slot, 2], -1 - union, masks, row, unions)
                if union < 0:
                    return union
            levels[depth, 3] = union
        left, deeper = rows[slot, 3], frames[frame, 2]
        if left == 0 or deeper == 0:
            continue
        known = pair_slot(left, deeper, reads)
        if reads[known, 0] >= 0:
            union = find_union(levels[depth, 3], reads[known, 2], unions)
            if union < 0:
                union = unite(levels[depth, 3], reads[known, 2], -1 - union, masks, row, unions)
                if union < 0:
                    return union
            levels[depth, 3] = union
        else:
            depth += 1
            if depth == levels.shape[0]:
                return np.int64(DEPTH_FULL)
            levels[depth, 0] = left
            levels[depth, 1] = deeper
            levels[depth, 2] = starts[deeper]
            levels[depth, 3] = 0


@kernel
def class_mask(table, config):
    """Twice the number of the mask of classes that some stack of a configuration can read, plus one if the
    text so far is whole; a status."""
    mask = view(table, CONFIG_MASK, np.int64)[config]
    if mask < 0:
        mask = config_classes(config, opened(table))
    return 2 * mask + (view_rows(table, FACTS, np.int64)[config, POPS] > 0) if mask >= 0 else mask


@inlined
def config_classes(config, t):
    """See `class_mask`."""
    known = t.config_mask[config]
    if known >= 0:
        return known
    starts, pool, first, reads = t.space.configs.starts, t.space.configs.pool, t.first, t.reads
    mask_starts, words, row = t.masks.starts, t.masks.pool, t.row
    row[:] = 0
    for i in range(starts[config] + 2 + pool[starts[config] + 1], starts[config + 1], 2):
        x, tail = pool[i], pool[i + 1]
        if first[x, 0] < 0:
            status = summarise_first(x, t)
            if status < 0:
                return np.int64(status)
        mask, pending = first[x, 0], first[x, 1]
        if pending != 0 and tail != 0:
            slot = pair_slot(pending, tail, reads)
            below = reads[slot, 2]
            if reads[slot, 0] < 0:
                below = read_below(pending, tail, t)
                if below < 0:
                    return below
            if below != 0:
                begin = mask_starts[below]
                for w in range(row.size):
                    row[w] |= words[begin + w]
        if mask != 0:
            begin = mask_starts[mask]
            for w in range(row.size):
                row[w] |= words[begin + w]
    mask = intern(row, row.size, t.masks)
    if mask < 0:
        return np.int64(SUMMARIES_FULL)
    t.config_mask[config] = mask
    return mask


@kernel
def class_masks(table, configs, found):
    """Write `class_mask` of each configuration; 0, or a status."""
    for i in range(configs.size):
        found[i] = class_mask(table, configs[i])
        if found[i] < 0:
            return found[i]
    return np.int64(0)


@kernel
def advances(table, configs, tokens, found):
    """Write `advance` of each configuration by its token; 0, or a status."""
    for i in range(configs.size):
        found[i] = advance(table, configs[i], tokens[i])
        if found[i] < 0:
            return found[i]
    return np.int64(0)


@kernel
def expand(words, whole, classes, stops, size, out):
    """Write the row of a mask of classes for `size` ids; twice its address, plus one if it forbids any.

    Stop ids are set iff the text so far is whole. `classes` are the addresses of `Gather.tables`.
    """
    row_of_class = view(classes, 3, np.int32)
    gather(
        words, row_of_class.size, view(classes, 0, np.int64), view_rows(classes, 1, np.int64),
        view(classes, 2, np.int32), row_of_class, view_rows(classes, 4, np.uint32), out,
    )  # fmt: skip
    for i in range(stops.size):
        word, bit = stops[i] >> 5, np.uint32(1 << (stops[i] & 31))
        out[word] = out[word] | bit if whole else out[word] & ~bit
    all_allowed = np.uint32(0xFFFFFFFF)
    for w in range(size >> 5):
        all_allowed &= out[w]
    needed = all_allowed != 0xFFFFFFFF
    if size & 31:
        last = np.int64((1 << (size & 31)) - 1)
        needed |= np.int64(out[size >> 5]) & last != last
    return 2 * np.int64(out.ctypes.data) + needed


@kernel
def copy_rows(sources, targets, words):
    """Copy rows of mask words between addresses."""
    for i in range(sources.size):
        source, target = words_at(sources, i, words), words_at(targets, i, words)
        for w in range(words):
            target[w] = source[w]


@kernel
def rehashed(rows):
    """A hash table of rows (key, key, ...) with twice the room."""
    larger = np.full((2 * rows.shape[0], rows.shape[1]), -1, np.int64)
    for i in range(rows.shape[0]):
        if rows[i, 0] >= 0:
            larger[pair_slot(rows[i, 0], rows[i, 1], larger)] = rows[i]
    return larger


# ---------------------------------------------------------------- ahead of time


@inlined
def summary_of(pending, symbol, t):
    """The row of `summaries` of a pending set on a symbol, computed if need be; a status."""
    rows = t.summaries
    slot = pair_slot(pending, symbol, rows)
    return summarise(pending, symbol, t) if rows[slot, 0] < 0 else slot


@kernel
def push_pair(pending, below, seen, queue, progress):
    """Queue a pending set on a below set unless it was queued before; a status."""
    slot = pair_slot(pending, below, seen)
    if seen[slot, 0] < 0:
        if 2 * progress[2] >= seen.shape[0] or progress[2] == queue.shape[0]:
            return np.int64(QUEUE_FULL)
        seen[slot, 0] = pending
        seen[slot, 1] = below
        queue[progress[2], 0] = pending
        queue[progress[2], 1] = below
        progress[2] += 1
    return np.int64(0)


@kernel
def push_through(pending, symbol, below, t, seen, queue, progress):
    """Read a pending set on a symbol that may lie on a below set, and queue what is left; a status.

    A counter frame is read at every count that tokens tell apart.
    """
    if symbol >= 0:
        slot = summary_of(pending, symbol, t)
        if slot < 0 or t.summaries[slot, 3] == 0:
            return min(slot, 0)
        return push_pair(t.summaries[slot, 3], below, seen, queue, progress)
    unit = -1 - symbol
    least, most = t.net[5][unit, 1], t.net[5][unit, 3]
    reach = t.counts[LONGEST] + 1
    count = np.int64(0)
    while count <= least or count < most:
        if told_apart_here(count, least, most, reach) == count:
            number = symbol_of(-2 - 2 * unit, count, t)
            slot = summary_of(pending, number, t) if number >= 0 else number
            if slot < 0:
                return slot
            if t.summaries[slot, 3] != 0:
                status = push_pair(t.summaries[slot, 3], below, seen, queue, progress)
                if status < 0:
                    return status
            count += 1
        elif count < least:
            count = least - reach
        else:
            count = max(most - reach, count + 1)
    return np.int64(0)


@kernel
def build_ahead(table, contexts, context_starts, context_below, below, below_starts, seen, queue, progress):
    """Read what is pending on every symbol that may lie below, for all contexts; 0, or a status.

    `below` holds rows (symbol, below set of its own). `progress` is [contexts done, head, tail of the queue].
    """
    t = opened(table)
    while progress[0] < contexts.shape[0]:
        x, unit = contexts[progress[0], 0], contexts[progress[0], 1]
        if x < 0:  # a frame on which the next unit begins
            unit = -1 - x
            x = t.net[5][unit, 0]
        if t.first[x, 0] < 0:
            status = summarise_first(x, t)
            if status < 0:
                return np.int64(status)
        pending = t.first[x, 1]
        for k in range(context_starts[progress[0]], context_starts[progress[0] + 1]):
            if pending == 0:
                break
            if unit < 0:
                found = push_pair(pending, context_below[k], seen, queue, progress)
            else:
                found = push_through(pending, -1 - unit, context_below[k], t, seen, queue, progress)
            if found < 0:
                return found
        progress[0] += 1
    while progress[1] < progress[2]:
        pending, own = queue[progress[1], 0], queue[progress[1], 1]
        for k in range(below_starts[own], below_starts[own + 1]):
            found = push_through(pending, below[k, 0], below[k, 1], t, seen, queue, progress)
            if found < 0:
                return found
        progress[1] += 1
    return np.int64(0)


# ---------------------------------------------------------------- minimising and reading artefacts


@kernel
def merge_alike(rows, row_starts, blocks):
    """Write the block of each pending set, numbered by first member; how many blocks there are.

    `rows` are those of `summaries`, sorted by pending set, then symbol; `row_starts` where each set's begin.
    Blocks are split until the members of each have equal rows (symbol, mask, block below): as often as one
    block more is found, so that every pass but the last splits at least one.
    """
    n = row_starts.size - 1
    longest = np.int64(0)
    for p in range(n):
        longest = max(longest, row_starts[p + 1] - row_starts[p])
    key = np.empty(1 + 3 * longest, np.int64)
    width = (n + 3 * rows.shape[0]) // n + 1
    after = np.empty(n, np.int64)
    blocks[:] = 0
    n_blocks = np.int64(0)
    while True:
        known = new_interned(n + 1, width)
        for p in range(n):
            key[0] = blocks[p]
            length = 1
            for k in range(row_starts[p], row_starts[p + 1]):
                key[length] = rows[k, 1]
                key[length + 1] = rows[k, 2]
                key[length + 2] = blocks[rows[k, 3]]
                length += 3
            after[p] = intern(key, length, known)
        blocks[:] = after
        if known.counts[0] == n_blocks:
            return n_blocks
        n_blocks = known.counts[0]


@kernel
def pairs_fit(starts, suffixes, groups, suffix_parent, whole):
    """Whether each list is sorted, without doubles, and pairs groups with suffixes of their own."""
    for i in range(starts.size - 1):
        for k in range(starts[i], starts[i + 1]):
            if k > starts[i] and (
                suffixes[k] < suffixes[k - 1]
                or (suffixes[k] == suffixes[k - 1] and groups[k] <= groups[k - 1])
            ):
                return False
            at = np.int64(whole[groups[k]])
            while at != 0 and at != suffixes[k]:
                at = np.int64(suffix_parent[at])
            if at == 0:
                return False
    return True
