"""How deep into a stack a mask looks: a slow count for people, beside the kernels.

What: `depths_read` counts, for configurations whose masks are known, the stack symbols that the deepest stack
had to be read for, the state on top included.
When: by ``python -m hybrid inspect``, after a text or a random walk.
Limits: plain Python; reads the tables of one session, under its lock or when nobody else uses them.
"""

from __future__ import annotations

from collections.abc import Iterable

from hybrid.classifier._kernels import told_apart
from hybrid.classifier.tables import Store

Rows = dict[tuple[int, int], int]
Reads = dict[tuple[int, int], int]


def depths_read(store: Store, configs: Iterable[int]) -> dict[int, int]:
    """For each configuration the number of symbols read on its deepest stack; 0 for one without stacks.

    Args:
        store: the tables in which `_kernels.class_mask` was asked for all of these.
        configs: configurations.
    """
    table = store.known.table
    rows = {(int(p), int(s)): int(below) for p, s, _, below in table[table[:, 0] >= 0]}
    known: Reads = {}
    lists, first = store.space.configs, store.known.first
    found = {}
    for config in set(configs):
        values = lists.pool[lists.starts[config] : lists.starts[config + 1]].tolist()
        pairs = values[2 + values[1] :] if config else []
        depths = [0]
        for state, tail in zip(pairs[::2], pairs[1::2], strict=True):
            pending = int(first[state, 1])
            depths.append(1 + (_depth_below(store, rows, known, pending, tail) if pending and tail else 0))
        found[config] = max(depths)
    return found


def _depth_below(store: Store, rows: Rows, known: Reads, pending: int, tail: int) -> int:
    """Symbols that a pending set reads on the deepest of the stacks of a tail."""
    waiting = [(pending, tail)]
    while waiting:
        place = waiting[-1]
        depths, missing = [0], []
        for symbol, deeper in _symbols_on(store, place[1]):
            below = rows[place[0], symbol]
            if below == 0:
                depths.append(1)
            elif (below, deeper) in known:
                depths.append(1 + known[below, deeper])
            else:
                missing.append((below, deeper))
        if missing:
            waiting.extend(missing)
        else:
            known[place] = max(depths)
            waiting.pop()
    return known[pending, tail]


def _symbols_on(store: Store, tail: int) -> list[tuple[int, int]]:
    """The symbols on top of a tail's stacks as `summaries` number them, and the tails below; see
    `_kernels.symbol_of`."""
    tails, frames, units = store.space.tails, store.space.frames, store.known.units
    n_states, counted = len(store.fixed.net[0]), store.fixed.net[5]
    numbers = {
        (int(units.pool[2 * k]), int(units.pool[2 * k + 1])): n_states + k
        for k in range(int(units.counts[0]))
    }
    found = []
    for frame in tails.pool[tails.starts[tail] : tails.starts[tail + 1]].tolist():
        if frame == 0:
            continue
        a, count, deeper = (int(value) for value in frames[frame, :3])
        if a < 0:
            unit = (-2 - a) >> 1
            least, most = int(counted[unit, 1]), int(counted[unit, 3])
            a = numbers[unit, told_apart(count, least, most, store.fixed.longest + 1)]
        found.append((a, deeper))
    return found
