"""Strings of byte classes over random automata: the walk against its slow twin, its bounds and its growth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from equivalence.arrays.account import Account
from equivalence.classes.byte_strings import reference, walking
from equivalence.classes.byte_strings.automata import Automata
from equivalence.classes.byte_strings.silent import silent_reach
from equivalence.classes.byte_strings.walking import TooManySets, number_keys, string_keys
from equivalence.deadline import Deadline, Stop
from equivalence.errors import BudgetExceeded
from equivalence.trie import Trie, build_trie

pytestmark = pytest.mark.kernels

BYTES = [0x00, 0x41, 0x42, 0x43, 0x7F, 0x80, 0xBF, 0xC3, 0xE2, 0xF0, 0xFF]


def random_automata(rng: np.random.Generator, n_states: int, n_entries: int) -> Automata:
    """Rows and what entries reach, without any grammar."""
    counts = rng.integers(1, 6, n_states)
    starts = np.append(0, np.cumsum(counts))
    rows = np.zeros((int(starts[-1]), 3), np.int64)
    rows[:, :2] = np.sort(rng.choice(BYTES, (len(rows), 2)), axis=1)
    rows[:, 2] = rng.integers(0, n_entries, len(rows))
    reach = np.zeros((n_entries, (n_states + 63) // 64), np.uint64)
    for entry in range(n_entries):
        for state in rng.integers(0, n_states, int(rng.integers(0, 4))).tolist():
            reach[entry, state // 64] |= np.uint64(1 << state % 64)
    return Automata(starts, rows, reach, False)


def random_trie(rng: np.random.Generator) -> tuple[Trie, list[bytes]]:
    texts = {bytes(rng.choice(BYTES, int(rng.integers(1, 7))).tolist()) for _ in range(120)}
    return build_trie(sorted(texts)), sorted(texts)


def alike(keys: list[Any]) -> list[int]:
    """For each key the first place where it occurs, -1 for none."""
    return [-1 if key is None else keys.index(key) for key in keys]


@pytest.mark.parametrize("seed", range(12))
def test_keys_agree_with_the_slow_twin(seed: int) -> None:
    """With more sets of states, and more entries, than there is room for at first; 64 states are one word."""
    rng = np.random.default_rng(seed)
    automata = random_automata(rng, (1, 7, 64, 65, 130, 64)[seed % 6], (3, 40)[seed % 2])
    trie, texts = random_trie(rng)
    keys, n_keys, n_sets = string_keys(trie, automata, Account(), 10_000)
    expected = reference.string_keys(automata, texts)
    assert alike([None if key < 0 else key for key in keys.tolist()]) == alike(expected)
    assert keys.max(initial=0) < n_keys
    assert (n_sets > 32) == (seed in (3, 5, 9, 11)), "some grow"
    same, _, met = string_keys(trie, automata, Account(), n_sets)
    assert same.tolist() == keys.tolist() and met == n_sets
    with pytest.raises(TooManySets):
        string_keys(trie, automata, Account(), n_sets - 1)


def test_all_states_everywhere_are_one_set() -> None:
    rng = np.random.default_rng(1)
    automata = random_automata(rng, 65, 40)
    trie, _ = random_trie(rng)
    fine, _, _ = string_keys(trie, automata, Account(), 10_000)
    coarse, _, n_sets = string_keys(trie, automata, Account())
    assert n_sets == 1
    pairs = {pair for pair in zip(fine.tolist(), coarse.tolist(), strict=True) if pair[0] >= 0}
    assert len({pair[1] for pair in pairs}) == len(pairs), "what is apart stays apart"
    assert not (coarse[fine >= 0] < 0).any()


@pytest.mark.parametrize("seed", range(8))
def test_silent_reach(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_nodes = int(rng.integers(1, 150))
    steps = rng.integers(0, n_nodes, (int(rng.integers(0, 2 * n_nodes)), 2))
    reading = np.flatnonzero(rng.random(n_nodes) < 0.7)
    entries = rng.integers(0, n_nodes, 9)
    reach = silent_reach(n_nodes, steps, reading, entries, Account())
    for entry, words in zip(entries.tolist(), reach.tolist(), strict=True):
        seen, pending = {entry}, [entry]
        for node in pending:
            found = {int(target) for source, target in steps.tolist() if source == node} - seen
            seen |= found
            pending += sorted(found)
        numbers = [number for number, state in enumerate(reading.tolist()) if state in seen]
        assert [n for n in range(64 * len(words)) if words[n // 64] >> n % 64 & 1] == numbers


def test_a_silent_step_to_no_node_is_refused() -> None:
    for step in ([0, 2], [-1, 0]):
        with pytest.raises(ValueError, match="out of the automata"):
            silent_reach(2, np.array([step]), np.array([0]), np.array([0]), Account())


def test_all_of_it_stops() -> None:
    rng = np.random.default_rng(0)
    automata = random_automata(rng, 65, 40)
    trie, _ = random_trie(rng)
    deadline = Deadline()
    deadline.cancel()
    stop = Stop(deadline, "a walk")
    stop.cell[0] = 1
    with pytest.raises(BudgetExceeded, match="cancelled in a walk"):
        string_keys(trie, automata, Account(stop), 10_000)
    steps, one = np.array([[0, 1]]), np.array([0])
    with pytest.raises(BudgetExceeded, match="cancelled in a walk"):
        silent_reach(2, steps, one, one, Account(stop))


def test_number_keys() -> None:
    keys, lengths = np.array([7, -1, 3, 7, 3, 0]), np.array([2, 1, 3, 1, 3, 5])
    classes, representatives = number_keys(keys, 8, lengths)
    assert classes.tolist() == [0, -1, 1, 0, 1, 2] and classes.dtype == np.int32
    assert representatives.tolist() == [3, 2, 5] and representatives.dtype == np.int32


@pytest.mark.skipif(walking.__file__.endswith(".py"), reason="as plain Python")
def test_arrays_of_other_types_are_refused() -> None:
    """By compiled code, which would read something else."""
    rng = np.random.default_rng(0)
    automata = random_automata(rng, 65, 40)
    trie, _ = random_trie(rng)
    for wrong in (
        automata._replace(reach=automata.reach.astype(np.int64)),
        automata._replace(rows=automata.rows.astype(np.int32)),
        automata._replace(starts=automata.starts[:, None]),
    ):
        with pytest.raises(ValueError):
            string_keys(trie, wrong, Account(), 10)
    with pytest.raises(TypeError):
        string_keys(trie, automata, None, 10)
