"""How many symbols of a stack a mask depends on: a slow count for inspection, in plain Python.

What: `depths_read` counts, for configurations with known masks, how many symbols of the deepest stack had
to be read, including the top.
When: used by ``python -m hybrid inspect``, after a text or a random walk.
Limits: it is separate from the compiled code, and reads the tables of one session, under its lock or when
nothing else uses them.
"""

from __future__ import annotations

from collections.abc import Iterable

from equivalence.parser.frames import unit_of
from hybrid.classifier.store import Store
from hybrid.classifier.summariser import equivalent_count

Rows = dict[tuple[int, int], int]
Reads = dict[tuple[int, int], int]


def depths_read(store: Store, configs: Iterable[int]) -> dict[int, int]:
    """For each configuration, the number of symbols read on its deepest stack; 0 if it has no stacks.

    Args:
        store: the tables in which `Store.class_mask` was computed for all of these.
        configs: configurations.
    """
    rows = {(p, s): below for p, s, _, below in store.summaries.used_rows()[0].tolist()}
    known: Reads = {}
    stacks = _Stacks(store)
    first = store.summaries.first_rows()
    found = {}
    for config in set(configs):
        values = store.space.list_of(config).tolist()
        pairs = values[2 + values[1] :] if config else []
        depths = [0]
        for state, tail in zip(pairs[::2], pairs[1::2], strict=True):
            pending = int(first[state, 1])
            depths.append(1 + (_depth_below(stacks, rows, known, pending, tail) if pending and tail else 0))
        found[config] = max(depths)
    return found


def _depth_below(stacks: _Stacks, rows: Rows, known: Reads, pending: int, tail: int) -> int:
    """Symbols that a pending set reads on the deepest stack of a tail."""
    waiting = [(pending, tail)]
    while waiting:
        place = waiting[-1]
        depths, missing = [0], []
        for symbol, deeper in stacks.symbols_on(place[1]):
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


class _Stacks:
    """A copy of the stacks of a store."""

    def __init__(self, store: Store) -> None:
        self._frames = store.space.stacks.known_frames()
        self._starts, self._pool = store.space.stacks.tails.lists()
        self._n_states, self._counted = len(store.fixed.net[0]), store.fixed.net[5]
        units = store.summaries.units.lists()[1].reshape(-1, 2).tolist()
        self._numbers = {(unit, count): self._n_states + k for k, (unit, count) in enumerate(units)}
        self._reach = store.fixed.longest + 1

    def symbols_on(self, tail: int) -> list[tuple[int, int]]:
        """The symbols on top of a tail's stacks, numbered as by `Summariser.symbol_of`, and the tails below
        them."""
        found = []
        for frame in self._pool[self._starts[tail] : self._starts[tail + 1]].tolist():
            if frame == 0:
                continue
            state, count, deeper = (int(value) for value in self._frames[frame, :3])
            if state < 0:
                unit = unit_of(state)
                least, most = int(self._counted[unit, 1]), int(self._counted[unit, 3])
                state = self._numbers[unit, equivalent_count(count, least, most, self._reach)]
            found.append((state, deeper))
        return found
