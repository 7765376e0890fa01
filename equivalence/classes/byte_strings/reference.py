"""The slow, readable twin of the walk over strings of byte classes: the oracle of its tests.

What: for each byte string the classes of its bytes, position by position, as plain tuples.
When: in tests only.
Limits: no bounds; sets of states are Python sets.
"""

from __future__ import annotations

from functools import cache

from equivalence.classes.byte_strings.automata import Automata


def string_keys(automata: Automata, strings: list[bytes]) -> list[tuple[object, ...] | None]:
    """For each string a key, equal for strings that no state can tell apart; None: no state reads it."""
    n_states = len(automata.starts) - 1
    rows = automata.rows.tolist()
    edges = [rows[automata.starts[s] : automata.starts[s + 1]] for s in range(n_states)]
    reach = [
        frozenset(s for s in range(n_states) if int(word[s // 64]) >> (s % 64) & 1) for word in automata.reach
    ]

    @cache
    def targets(state: int, byte: int) -> tuple[int, ...]:
        return tuple(entry for low, high, entry in edges[state] if low <= byte <= high)

    @cache
    def meaning(states: frozenset[int], byte: int) -> tuple[object, ...]:
        """What a byte does in every state of a set, and what kind of byte it is."""
        lead = [0x80, 0xC0, 0xE0, 0xF0, 0xF8]
        return sum(byte >= bound for bound in lead), tuple(targets(state, byte) for state in sorted(states))

    keys: list[tuple[object, ...] | None] = []
    for string in strings:
        states: frozenset[int] = frozenset(range(n_states))
        key: list[object] = []
        for byte in string:
            key.append(meaning(states, byte))
            entries = {entry for state in states for entry in targets(state, byte)}
            states = frozenset().union(*(reach[entry] for entry in entries))
            if not entries:
                break
        keys.append(tuple(key) if not string or entries else None)
    return keys
