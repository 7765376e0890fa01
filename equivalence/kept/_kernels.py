"""Numba kernels of kept walks: canonical names of configurations, and the results of walks by name.

What: naming states, tails and configurations; finding the walks of blocks by name, and adding walks.
When: called by `equivalence.kept.walks` only, which holds a lock around whatever touches a `Kept`.
Limits: acceptance only. Room is made before it is needed, so nothing here runs out of it; the caller bounds
the bytes.

A name is the number of a list of integers that spells out all that a walk can depend on; lists are compared
as a whole (`intern`), so equal names mean equal walks. Unequal names may mean equal walks too: that costs a
walk.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from equivalence._kernels import (
    NOTHING,
    all_blocks,
    borrowed_net,
    children,
    first_outcomes,
    walk_blocks,
    with_more_outcomes,
)
from equivalence.interning._kernels import (
    Interned,
    borrowed,
    borrowed_interned,
    find_list,
    grown_interned,
    grown_rows,
    intern,
    mix,
    new_interned,
    rows_by_key,
)

kernel = njit(cache=True, nogil=True)

# The first integer of a list tells what it is; a component begins with the number of its states.
MEMBER, TAIL, CONFIGURATION = -1, -2, -3
# kinds of frames in the list of a tail
UNKNOWN, RETURN, ABSOLUTE, RELATIVE = 0, 1, 2, 3

RANGES, EVENTS = 0, 1  # of `Kept.used`


class Kept(NamedTuple):
    """Walks of blocks, by name.

    lists: the names. blocks: lists [name of the configuration, byte], numbered like the next two.
    masks int64[n, 8]: the bytes, as words of 32 bits, that were taken to follow below the known part.
    places int64[n, 4]: begin and end of a block's rows in `ranges`, and in `events`.
    ranges, events int32[n, 2]: as of `equivalence._kernels.walk`; the outcomes are those of `outcomes`.
    used: rows of `ranges` and `events` in use.
    """

    lists: Any
    blocks: Any
    masks: Any
    places: Any
    outcomes: Any
    ranges: Any
    events: Any
    used: Any


@kernel
def new_kept():
    """Nothing kept yet."""
    return Kept(
        new_interned(256, 16), new_interned(256, 2), np.empty((256, 8), np.int64),
        np.empty((256, 4), np.int64), first_outcomes(256), np.empty((1024, 2), np.int32),
        np.empty((1024, 2), np.int32), np.zeros(2, np.int64),
    )  # fmt: skip


@kernel
def with_room(known, lists, cells):
    """The same lists with room for some more of so many cells altogether."""
    n, used = known.counts[0], known.counts[1]
    room, pool = known.starts.size - 2, known.pool.size
    if n + lists <= room and used + cells <= pool:
        return known
    while room < n + lists:
        room *= 2
    while pool < used + cells:
        pool *= 2
    return grown_interned(known, room, pool // room + 1)


@kernel
def interned_of(starts, pool):
    """Lists that were written down as arrays, under the same numbers and with room for a quarter more."""
    n = starts.size - 1
    counts = np.empty(2, np.int64)
    counts[0] = n
    counts[1] = pool.size
    room = n + n // 4 + 256
    known = Interned(np.empty(0, np.int32), starts, pool, counts)
    return grown_interned(known, room, (pool.size + pool.size // 4) // room + 2)


# ---------------------------------------------------------------- names


# Of states: without a name, and their component not complete yet. Of configurations: to be given a name.
UNNAMED, WAITING, NAMED = -1, -2, -3


@kernel
def name_states(net, lists):
    """(lists, the name of each state).

    A strongly connected component of states is one list: its states in the order in which they are met from
    one of them, with their edges. What leads out of it is written by name, so a list is as long as its
    component is large. Which state is first is decided by a hash: where two have the same, equal components
    may get different lists. States that make calls, now or later, have no name: to name them too found a
    quarter more walks of 600 schemas in four times the memory, and a first version of that was slower.
    """
    net = borrowed_net(net)
    final, edge_starts, edges, call_starts = net[0], net[1], net[2], net[3]
    n = final.size
    cells = 1 + 2 * n + 3 * edges.shape[0]
    lists = with_room(lists, 2 * n, cells + 4 * n)  # a component has a list, and each of its states
    known = borrowed_interned(lists)
    key = np.empty(cells, np.int64)
    member = np.full(3, MEMBER, np.int64)
    names = np.full(n, WAITING, np.int64)
    found = np.zeros(n, np.int64)
    low = np.zeros(n, np.int64)
    position = edge_starts[:-1].copy()
    component = np.full(n, -1, np.int64)
    local = np.full(n, -1, np.int64)
    hashes = np.zeros((2, n), np.int64)
    path = np.empty(n + 1, np.int64)
    members = np.empty(n, np.int64)
    order = np.empty(n, np.int64)
    n_found, n_members, depth = 0, 0, 0
    for begin in range(n):
        if found[begin]:
            continue
        following = np.int64(begin)
        while True:
            if following >= 0:
                n_found += 1
                found[following] = n_found
                low[following] = n_found
                path[depth] = following
                depth += 1
                members[n_members] = following
                n_members += 1
                following = np.int64(-1)
            s = path[depth - 1]
            if position[s] < edge_starts[s + 1]:
                t = edges[position[s], 2]
                position[s] += 1
                if not found[t]:
                    following = t
                elif names[t] == WAITING:
                    low[s] = min(low[s], found[t])
                continue
            depth -= 1
            if depth > 0:
                low[path[depth - 1]] = min(low[path[depth - 1]], low[s])
            if low[s] == found[s]:
                first = n_members - 1
                while members[first] != s:
                    first -= 1
                size = n_members - first
                calling = False
                for i in range(first, n_members):
                    x = members[i]
                    component[x] = s
                    calling = calling or call_starts[x + 1] > call_starts[x]
                    for k in range(edge_starts[x], edge_starts[x + 1]):
                        calling = calling or names[edges[k, 2]] == UNNAMED
                if calling:
                    for i in range(first, n_members):
                        names[members[i]] = UNNAMED
                else:
                    root = s
                    for round_number in range(4 if size > 1 else 0):
                        now, before = round_number & 1, 1 - (round_number & 1)
                        for i in range(first, n_members):
                            x = members[i]
                            h = mix(17, np.int64(final[x]))
                            for k in range(edge_starts[x], edge_starts[x + 1]):
                                t = edges[k, 2]
                                h = mix(mix(h, edges[k, 0]), edges[k, 1])
                                h = mix(h, names[t] if component[t] != s else hashes[before, t])
                            hashes[now, x] = h
                    for i in range(first, n_members):
                        if hashes[1, members[i]] < hashes[1, root]:
                            root = members[i]
                    order[0] = root
                    local[root] = 0
                    n_order = 1
                    key[0] = size
                    length = 1
                    i = 0
                    while i < size:
                        x = order[i]
                        i += 1
                        key[length] = final[x]
                        key[length + 1] = edge_starts[x + 1] - edge_starts[x]
                        length += 2
                        for k in range(edge_starts[x], edge_starts[x + 1]):
                            t = edges[k, 2]
                            if component[t] == s and local[t] < 0:
                                local[t] = n_order
                                order[n_order] = t
                                n_order += 1
                            key[length] = edges[k, 0]
                            key[length + 1] = edges[k, 1]
                            key[length + 2] = names[t] if component[t] != s else -2 - local[t]
                            length += 3
                    name = intern(key, length, known)
                    for i in range(first, n_members):
                        x = members[i]
                        names[x] = name
                        if size > 1:
                            member[1] = name
                            member[2] = local[x]
                            names[x] = intern(member, 3, known)
                n_members = first
            if depth == 0:
                break
    return lists, names


@kernel
def name_configs(configs, space, net, longest, lists):
    """(lists, the name of each of some configurations)."""
    counted = net[5]
    frames, tails = space.frames, borrowed_interned(space.tails)
    starts, pool = space.configs.starts, space.configs.pool
    lists, state_names = name_states(net, lists)
    n_tails = tails.counts[0]
    needed = np.zeros(n_tails, np.uint8)
    name_of = np.full(space.configs.counts[0], WAITING, np.int64)
    cells, n_lists = 0, 0
    for i in range(configs.size):
        c = configs[i]
        if name_of[c] == WAITING:
            begin, end = starts[c], starts[c + 1]
            name_of[c] = NAMED
            for k in range(begin + 2 + pool[begin + 1], end, 2):
                if state_names[pool[k]] == UNNAMED:
                    name_of[c] = UNNAMED
                    break
            if name_of[c] == NAMED:
                for k in range(begin + 2 + pool[begin + 1], end, 2):
                    needed[pool[k + 1]] = 1
                cells += end - begin + 1
                n_lists += 1
    for t in range(n_tails - 1, -1, -1):  # what lies below has a lower number
        if needed[t]:
            for k in range(tails.starts[t], tails.starts[t + 1]):
                if tails.pool[k] > 0:
                    needed[frames[tails.pool[k], 2]] = 1
            cells += 1 + 6 * (tails.starts[t + 1] - tails.starts[t])
            n_lists += 1
    lists = with_room(lists, n_lists, cells)
    known = borrowed_interned(lists)
    key = np.empty(cells + 1, np.int64)
    tail_names = np.full(n_tails, UNNAMED, np.int64)
    for t in range(n_tails):
        if needed[t]:
            key[0] = TAIL
            length = 1
            for k in range(tails.starts[t], tails.starts[t + 1]):
                frame = tails.pool[k]
                if frame == 0:
                    key[length] = UNKNOWN
                    length += 1
                    continue
                a, below = frames[frame, 0], tail_names[frames[frame, 2]]
                unit = (-2 - a) >> 1
                state = a if a >= 0 else counted[unit, 0]
                if state_names[state] == UNNAMED or below == UNNAMED:
                    length = 0
                    break
                key[length + 1] = state_names[state]
                key[length + 2] = below
                if a >= 0:
                    key[length] = RETURN
                    length += 3
                else:
                    least, most = min(counted[unit, 1], longest + 1), counted[unit, 3]
                    key[length] = ABSOLUTE
                    if (-2 - a) & 1:
                        # relative counts begin at 0 and count at most one unit a byte
                        key[length] = RELATIVE
                        most = min(counted[unit, 2], longest + 1)
                        if most >= 0:
                            least = 0  # is asked by the stacks below only
                    key[length + 3] = least
                    key[length + 4] = most
                    key[length + 5] = frames[frame, 1]
                    length += 6
            if length > 0:
                tail_names[t] = intern(key, length, known)
    names = np.empty(configs.size, np.int64)
    for i in range(configs.size):
        c = configs[i]
        if name_of[c] == NAMED:
            begin, end = starts[c], starts[c + 1]
            key[0] = CONFIGURATION
            length = 3 + pool[begin + 1]
            for k in range(length - 1):
                key[1 + k] = pool[begin + k]
            first = length
            name_of[c] = UNNAMED
            for k in range(begin + length - 1, end, 2):
                # in order of names: the numbers of states differ between grammars
                name, tail = state_names[pool[k]], tail_names[pool[k + 1]]
                if tail == UNNAMED:
                    length = 0
                    break
                at = length
                while at > first and (key[at - 2] > name or (key[at - 2] == name and key[at - 1] > tail)):
                    key[at] = key[at - 2]
                    key[at + 1] = key[at - 1]
                    at -= 2
                key[at] = name
                key[at + 1] = tail
                length += 2
            if length > 0:
                name_of[c] = intern(key, length, known)
        names[i] = name_of[c]
    return lists, names


# ---------------------------------------------------------------- walks by name


@kernel
def begin_walks(contexts, firsts, nodes, space, net, limits):
    """The blocks of all contexts, and what can follow each of them as a mask of bytes.

    Returns (status, space, block starts, user starts, users, configuration of each block, byte of each,
    masks int64[blocks, 8]); status 1: over capacity.
    """
    child = children(nodes)
    status, space, block_starts, blocks, user_starts, users = all_blocks(contexts, child, space, net, limits)
    of_class = class_masks(space.class_of_byte, firsts.shape[1])
    of_context = np.zeros((contexts.shape[0], 8), np.int64)
    for i in range(contexts.shape[0]):
        for c in range(firsts.shape[1]):
            if firsts[i, c]:
                for w in range(8):
                    of_context[i, w] |= of_class[c, w]
    known = new_interned(contexts.shape[0] + 1, 8)
    number = np.empty(contexts.shape[0], np.int64)
    for i in range(contexts.shape[0]):
        number[i] = intern(of_context[i], 8, known)
    masks = np.zeros((blocks.size, 8), np.int64)
    first_bytes = np.empty(blocks.size, np.int64)
    last = np.full(blocks.size, -1, np.int64)
    if status == 0:
        for u in range(users.shape[0]):
            i, block = users[u, 0], users[u, 1]
            if number[i] != last[block]:
                last[block] = number[i]
                for w in range(8):
                    masks[block, w] |= of_context[i, w]
        for b in range(256):
            first_bytes[block_starts[b] : block_starts[b + 1]] = b
    return status, space, block_starts, user_starts, users, blocks, first_bytes, masks


@kernel
def class_masks(class_of_byte, n_classes):
    """int64[B, 8]: the bytes of each class as words of 32 bits."""
    masks = np.zeros((n_classes, 8), np.int64)
    for b in range(256):
        masks[class_of_byte[b], b >> 5] |= 1 << (b & 31)
    return masks


@kernel
def order_by_mask(masks, chosen):
    """Some blocks, equal masks side by side: (the blocks, the number of each one's mask)."""
    n = chosen.size
    known = new_interned(n + 1, 8)
    numbers = np.empty(n, np.int64)
    for i in range(n):
        numbers[i] = intern(masks[chosen[i]], 8, known)
    _, order = rows_by_key(numbers, n, n)
    return chosen[order], numbers[order]


@kernel
def filtered(outcome, source, mask, suffix_byte, outcomes, key):
    """An outcome of `source` without the suffixes that cannot follow, as one of `outcomes`; -1: full."""
    begin, end = source.starts[outcome], source.starts[outcome + 1]
    key[0] = source.pool[begin]
    length = 1
    for at in range(begin + 1, end, 2):
        byte = np.int64(suffix_byte[source.pool[at + 1]])
        if (mask[byte >> 5] >> (byte & 31)) & 1:
            key[length] = source.pool[at]
            key[length + 1] = source.pool[at + 1]
            length += 2
    return intern(key, length, outcomes)


@kernel
def copy_known(e, end, source_events, number, number_of_mask, mask, events, n_events):
    """Copy events up to the first whose outcome has no number for this mask; returns (where, rows).

    (A loop of its own: one that may replace arrays costs 50 ns every time round, this one 3.)
    """
    while e < end:
        o = np.int64(source_events[e, 1])
        if number_of_mask[o] != mask:
            break
        if number[o] != NOTHING:
            events[n_events, 0] = source_events[e, 0]
            events[n_events, 1] = number[o]
            n_events += 1
        e += 1
    return e, n_events


@kernel
def filtered_all(masks, places, source_events, source, suffix_byte, outcomes, limits, state):
    """Write the events of blocks in terms of `outcomes`, without what cannot follow.

    ``places[block]`` holds begin and end of its rows in `source_events`, at 2 and 3, and afterwards those in
    the events returned; a negative begin says that the block is none of these.
    Returns (status, outcomes, events); status 1: more outcomes than there may be.
    """
    chosen = np.empty(places.shape[0], np.int64)
    n, total = 0, 0
    for i in range(places.shape[0]):
        if places[i, 3] > places[i, 2]:
            chosen[n] = i
            n += 1
            total += places[i, 3] - places[i, 2]
    chosen, mask_numbers = order_by_mask(masks, chosen[:n])
    widest = 1
    for o in range(source.counts[0]):
        widest = max(widest, source.starts[o + 1] - source.starts[o])
    key = np.empty(widest + 1, np.int64)
    number = np.full(source.counts[0], -1, np.int64)
    number_of_mask = np.full(source.counts[0], -1, np.int64)
    events = np.empty((total, 2), np.int64)
    n_events = 0
    for i in range(n):
        block = chosen[i]
        begin = n_events
        e, end = places[block, 2], places[block, 3]
        while True:
            e, n_events = copy_known(
                e, end, source_events, number, number_of_mask, mask_numbers[i], events, n_events
            )
            if e == end:
                break
            o = np.int64(source_events[e, 1])
            number_of_mask[o] = mask_numbers[i]
            number[o] = filtered(o, source, masks[block], suffix_byte, outcomes, key)
            while number[o] < 0:
                status, outcomes = with_more_outcomes(outcomes, limits, state)
                if status:
                    return 1, outcomes, events
                number[o] = filtered(o, source, masks[block], suffix_byte, outcomes, key)
        places[block, 2] = begin
        places[block, 3] = n_events
    return 0, outcomes, events


@kernel
def add_rows(
    place, ranges, events, outcomes, number, kept_ranges, kept_events, kept_outcomes, n_ranges, n_events
):
    """Append a block's rows, its outcomes renumbered; returns the rows in use."""
    outcomes, kept_outcomes = borrowed_interned(outcomes), borrowed_interned(kept_outcomes)
    for r in range(place[0], place[1]):
        kept_ranges[n_ranges, 0] = ranges[r, 0]
        kept_ranges[n_ranges, 1] = ranges[r, 1]
        n_ranges += 1
    for e in range(place[2], place[3]):
        o = np.int64(events[e, 1])
        if number[o] < 0:
            begin, end = outcomes.starts[o], outcomes.starts[o + 1]
            number[o] = intern(outcomes.pool[begin:end], end - begin, kept_outcomes)
        kept_events[n_events, 0] = events[e, 0]
        kept_events[n_events, 1] = number[o]
        n_events += 1
    return n_ranges, n_events


@kernel
def add_walk(kept, name, byte, mask, place, ranges, events, outcomes, number):
    """Keep a block's walk, whose rows are at `place`, where there is room for it (`with_space`).

    `number` holds the kept numbers of outcomes, -1 = not yet. A former walk of the same block is replaced;
    its rows are lost.
    """
    key = np.empty(2, np.int64)
    key[0] = name
    key[1] = byte
    n_ranges, n_events = kept.used[RANGES], kept.used[EVENTS]
    entry = intern(key, 2, kept.blocks)
    for w in range(8):
        kept.masks[entry, w] = mask[w]
    kept.places[entry, 0] = n_ranges
    kept.places[entry, 2] = n_events
    n_ranges, n_events = add_rows(
        place, ranges, events, outcomes, number, kept.ranges, kept.events, kept.outcomes, n_ranges, n_events
    )
    kept.places[entry, 1] = n_ranges
    kept.places[entry, 3] = n_events
    kept.used[RANGES] = n_ranges
    kept.used[EVENTS] = n_events


@kernel
def with_space(kept, more):
    """The same with room for so many more blocks, ranges, events, outcomes, and cells of outcomes."""
    blocks, masks, places, ranges, events = kept.blocks, kept.masks, kept.places, kept.ranges, kept.events
    n = blocks.counts[0] + more[0]
    if n > masks.shape[0]:
        blocks = with_room(blocks, 2 * n, 4 * n)
        masks = grown_rows(masks, 2 * n)
        places = grown_rows(places, 2 * n)
    if kept.used[RANGES] + more[1] > ranges.shape[0]:
        ranges = grown_rows(ranges, 2 * (kept.used[RANGES] + more[1]))
    if kept.used[EVENTS] + more[2] > events.shape[0]:
        events = grown_rows(events, 2 * (kept.used[EVENTS] + more[2]))
    outcomes = with_room(kept.outcomes, more[3], more[4])
    return Kept(kept.lists, blocks, masks, places, outcomes, ranges, events, kept.used)


@kernel
def borrowed_kept(kept):
    """See `equivalence.interning._kernels.borrowed`."""
    return Kept(
        borrowed_interned(kept.lists), borrowed_interned(kept.blocks), borrowed(kept.masks),
        borrowed(kept.places), borrowed_interned(kept.outcomes), borrowed(kept.ranges), borrowed(kept.events),
        borrowed(kept.used),
    )  # fmt: skip


@kernel
def find_walks(kept, names, first_bytes, masks, wide, entries):
    """The kept walk of each block that has none yet in `entries`; returns the number of those without,
    of those that have a name.

    A walk will do if it was made with all the bytes that can follow here. One that was made with others is
    made again with these and those, `wide`: what follows strings of all schemas is soon one mask.
    """
    blocks, kept_masks = borrowed_interned(kept.blocks), borrowed(kept.masks)
    key = np.empty(2, np.int64)
    missing = 0
    for i in range(names.size):
        if entries[i] >= 0:
            continue
        if names[i] == UNNAMED:
            continue
        key[0] = names[i]
        key[1] = first_bytes[i]
        entry = find_list(key, 2, blocks)
        if entry >= 0:
            for w in range(8):
                if masks[i, w] & ~kept_masks[entry, w]:
                    for v in range(8):
                        wide[i, v] |= kept_masks[entry, v]
                    entry = np.int64(-1)
                    break
        entries[i] = entry
        missing += entry < 0
    return missing


@kernel
def copy_ranges(entries, kept_places, kept_ranges):
    """(places int64[blocks, 4], ranges) of the blocks that have an entry; the others' places are -1.

    (Arrays of a tuple are counted in and out at each use: a loop of its own is three times as fast.)
    """
    n = entries.size
    places = np.full((n, 4), -1, np.int64)
    total = 0
    for i in range(n):
        if entries[i] >= 0:
            total += kept_places[entries[i], 1] - kept_places[entries[i], 0]
    ranges = np.empty((total, 2), np.int64)
    n_ranges = 0
    for i in range(n):
        entry = entries[i]
        if entry >= 0:
            places[i, 0] = n_ranges
            for r in range(kept_places[entry, 0], kept_places[entry, 1]):
                ranges[n_ranges, 0] = kept_ranges[r, 0]
                ranges[n_ranges, 1] = kept_ranges[r, 1]
                n_ranges += 1
            places[i, 1] = n_ranges
            places[i, 2] = kept_places[entry, 2]
            places[i, 3] = kept_places[entry, 3]
    return places, ranges


@kernel
def recall(kept, former, blocks, first_bytes, masks, space, net, longest, suffix_byte, outcomes, limits):
    """The walks of blocks that are kept, in `kept` or in `former`, from where they move to `kept`.

    Returns (status, kept, former, outcomes, names of the blocks' configurations, wide masks for those
    that have to be walked, places, ranges, events). ``places[block]`` is -1 where there is no walk, else
    begin and end of its ranges and of its events. status 1: more outcomes than there may be.
    """
    n = blocks.size
    wide = masks.copy()
    entries = np.full(n, -1, np.int64)
    lists, names = name_configs(blocks, space, net, longest, kept.lists)
    kept = Kept(
        lists, kept.blocks, kept.masks, kept.places, kept.outcomes, kept.ranges, kept.events, kept.used
    )
    missing = find_walks(kept, names, first_bytes, masks, wide, entries)
    if missing and former.blocks.counts[0]:
        lists, former_names = name_configs(blocks, space, net, longest, former.lists)
        former = Kept(
            lists, former.blocks, former.masks, former.places, former.outcomes, former.ranges,
            former.events, former.used,
        )  # fmt: skip
        absent = entries < 0
        find_walks(former, former_names, first_bytes, masks, wide, entries)
        more = np.zeros(5, np.int64)
        more[3:] = former.outcomes.counts
        for i in range(n):
            if absent[i] and entries[i] >= 0:
                at = former.places[entries[i]]
                more[0] += 1
                more[1] += at[1] - at[0]
                more[2] += at[3] - at[2]
        kept = with_space(kept, more)
        room, source = borrowed_kept(kept), borrowed_kept(former)
        number = np.full(former.outcomes.counts[0], -1, np.int64)
        for i in range(n):
            if absent[i] and entries[i] >= 0:
                entry = entries[i]
                add_walk(
                    room, names[i], first_bytes[i], source.masks[entry], source.places[entry], source.ranges,
                    source.events, source.outcomes, number,
                )  # fmt: skip
                entries[i] = -1
        find_walks(kept, names, first_bytes, masks, wide, entries)
    places, ranges = copy_ranges(entries, borrowed(kept.places), borrowed(kept.ranges))
    status, outcomes, events = filtered_all(
        masks, places, borrowed(kept.events), borrowed_interned(kept.outcomes), suffix_byte, outcomes, limits,
        space.state,
    )  # fmt: skip
    return status, kept, former, outcomes, names, wide, places, ranges, events


class Walked(NamedTuple):
    """Walks of some blocks, in their order: see `equivalence._kernels.walk`."""

    blocks: Any
    range_starts: Any
    ranges: Any
    event_starts: Any
    events: Any


@kernel
def widen(chosen, wide, of_class):
    """Widen the masks of some blocks to whole byte classes: those of another grammar may be cut otherwise."""
    for i in range(chosen.size):
        block = chosen[i]
        for c in range(of_class.shape[0]):
            meets = False
            for w in range(8):
                meets = meets or (wide[block, w] & of_class[c, w]) != 0
            if meets:
                for w in range(8):
                    wide[block, w] |= of_class[c, w]


@kernel
def walk_some(chosen, blocks, first_bytes, wide, trie, space, net, outcomes, limits):
    """Walk the blocks `chosen` with the masks `wide`; byte classes that these hold in part count as a whole.

    Returns (status, space, outcomes, their walks); status 1: over capacity.
    """
    nodes = trie[0]
    n_classes = space.behaviour.shape[1]
    of_class = class_masks(space.class_of_byte, n_classes)
    n = chosen.size
    configs = np.empty(n, np.int64)
    block_nodes = np.empty(n, np.int64)
    first_rows = np.empty(n, np.int64)
    child = children(nodes)
    # few masks are distinct; to test all classes of each block cost 1 us a block
    known = new_interned(n + 1, 8)
    room = borrowed_interned(known)
    key = np.empty(8, np.int64)
    for i in range(n):
        block = chosen[i]
        configs[i] = blocks[block]
        block_nodes[i] = child[first_bytes[block]]
        same = i > 0
        for w in range(8):
            same = same and key[w] == wide[block, w]
            key[w] = wide[block, w]
        first_rows[i] = first_rows[i - 1] if same else intern(key, 8, room)
    first = np.zeros((known.counts[0], n_classes), np.uint8)
    for row in range(first.shape[0]):
        for c in range(n_classes):
            for w in range(8):
                if of_class[c, w] & known.pool[8 * row + w]:
                    first[row, c] = 1
                    break
    status, space, outcomes, range_starts, ranges, event_starts, events = walk_blocks(
        block_nodes, configs, first_rows, first, trie, space, net, False, outcomes, limits
    )
    return status, space, outcomes, Walked(chosen, range_starts, ranges, event_starts, events)


@kernel
def walk_missing(blocks, first_bytes, masks, wide, places, trie, space, net, outcomes, limits):
    """Walk the blocks without places: those whose wide mask is their own into `outcomes`, the others apart.

    Returns (status, space, outcomes, the former, outcomes of the latter, the latter); status 1: over
    capacity.
    """
    n = blocks.size
    kind = np.zeros(n, np.uint8)
    for i in range(n):
        if places[i, 0] < 0:
            kind[i] = 1
            for w in range(8):
                if wide[i, w] != masks[i, w]:
                    kind[i] = 2
    status, space, outcomes, own = walk_some(
        np.flatnonzero(kind == 1), blocks, first_bytes, wide, trie, space, net, outcomes, limits
    )
    apart = first_outcomes(min(64, limits.outcomes))
    others = np.flatnonzero(kind == 2)
    if status or others.size == 0:
        return (
            status,
            space,
            outcomes,
            own,
            apart,
            Walked(others, own.blocks, own.ranges, own.blocks, own.events),
        )
    widen(others, wide, class_masks(space.class_of_byte, space.behaviour.shape[1]))
    status, space, apart, wider = walk_some(
        others, blocks, first_bytes, wide, trie, space, net, apart, limits
    )
    return status, space, outcomes, own, apart, wider


@kernel
def keep(kept, names, first_bytes, wide, walked, outcomes):
    """Keep the walks of blocks with names."""
    n = walked.blocks.size
    more = np.zeros(5, np.int64)
    used = np.zeros(outcomes.counts[0], np.uint8)
    for i in range(n):
        if names[walked.blocks[i]] != UNNAMED:
            more[0] += 1
            more[1] += walked.range_starts[i + 1] - walked.range_starts[i]
            more[2] += walked.event_starts[i + 1] - walked.event_starts[i]
            for e in range(walked.event_starts[i], walked.event_starts[i + 1]):
                used[walked.events[e, 1]] = 1
    for o in range(used.size):
        if used[o]:
            more[3] += 1
            more[4] += outcomes.starts[o + 1] - outcomes.starts[o]
    kept = with_space(kept, more)
    room, source = borrowed_kept(kept), borrowed_interned(outcomes)
    number = np.full(outcomes.counts[0], -1, np.int64)
    place = np.empty(4, np.int64)
    # walks of one configuration lie side by side, as they are asked for together
    for i in np.argsort(names[walked.blocks]):
        block = walked.blocks[i]
        if names[block] == UNNAMED:
            continue
        place[0] = walked.range_starts[i]
        place[1] = walked.range_starts[i + 1]
        place[2] = walked.event_starts[i]
        place[3] = walked.event_starts[i + 1]
        add_walk(
            room, names[block], first_bytes[block], wide[block], place, walked.ranges, walked.events, source,
            number,
        )  # fmt: skip
    return kept


@kernel
def join(masks, places, ranges, events, outcomes, own, apart, wider, suffix_byte, limits, state):
    """All walks in order of blocks: (status, outcomes, range starts, ranges, event starts, events).

    status 1: more outcomes than there may be.
    """
    n = places.shape[0]
    status = 0
    source = np.zeros(n, np.uint8)
    wider_events = events
    for i in range(own.blocks.size):
        block = own.blocks[i]
        source[block] = 1
        places[block, 0] = own.range_starts[i]
        places[block, 1] = own.range_starts[i + 1]
        places[block, 2] = own.event_starts[i]
        places[block, 3] = own.event_starts[i + 1]
    if wider.blocks.size:
        new_places = np.full((n, 4), -1, np.int64)
        for i in range(wider.blocks.size):
            block = wider.blocks[i]
            source[block] = 2
            new_places[block, 0] = wider.range_starts[i]
            new_places[block, 1] = wider.range_starts[i + 1]
            new_places[block, 2] = wider.event_starts[i]
            new_places[block, 3] = wider.event_starts[i + 1]
        status, outcomes, wider_events = filtered_all(
            masks, new_places, wider.events, apart, suffix_byte, outcomes, limits, state
        )
        for i in range(wider.blocks.size):
            places[wider.blocks[i]] = new_places[wider.blocks[i]]
    range_starts = np.zeros(n + 1, np.int64)
    event_starts = np.zeros(n + 1, np.int64)
    for i in range(n):
        range_starts[i + 1] = range_starts[i] + places[i, 1] - places[i, 0]
        event_starts[i + 1] = event_starts[i] + places[i, 3] - places[i, 2]
    all_ranges = np.empty((range_starts[n], 2), np.int64)
    all_events = np.empty((event_starts[n], 2), np.int64)
    for i in range(n):
        at = places[i]
        if source[i] == 0:
            copy_rows(ranges, at[0], at[1], all_ranges, range_starts[i])
            copy_rows(events, at[2], at[3], all_events, event_starts[i])
        elif source[i] == 1:
            copy_rows(own.ranges, at[0], at[1], all_ranges, range_starts[i])
            copy_rows(own.events, at[2], at[3], all_events, event_starts[i])
        else:
            copy_rows(wider.ranges, at[0], at[1], all_ranges, range_starts[i])
            copy_rows(wider_events, at[2], at[3], all_events, event_starts[i])
    return status, outcomes, range_starts, all_ranges, event_starts, all_events


@kernel
def copy_rows(source, begin, end, target, at):
    """Copy rows of two integers."""
    for i in range(begin, end):
        target[at, 0] = source[i, 0]
        target[at, 1] = source[i, 1]
        at += 1
