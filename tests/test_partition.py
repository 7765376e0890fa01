"""The parts of the partition against plain dictionaries and sets.

What: colors; queries, sets of blocks and merging together; all on random inputs that make the
tables grow. What they charge to an account, and that they stop when asked.
When: after any change of these modules.
Limits: the shapes of the inputs are random, not those of any grammar; `test_classes` checks whole
computations.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from equivalence import BudgetExceeded
from equivalence.arrays.account import Account
from equivalence.arrays.interning import Interned
from equivalence.arrays.ranges import starts_of
from equivalence.classes.block_sets import outright_sets
from equivalence.classes.class_merging import merge_classes
from equivalence.classes.colors import color_queries
from equivalence.classes.queries import FIRST, find_queries
from equivalence.walks.merging import Rounds
from tests.limits import stopped, within

pytestmark = pytest.mark.kernels

Integers = NDArray[np.int64]
Items = tuple[Integers, Integers, Integers, Integers, Integers, NDArray[np.bool_]]


def explored(seed: int, n_bytes: int, n_groups: int, n_blocks: int, n_outcomes: int) -> SimpleNamespace:
    """Return random blocks for some first bytes: each reads some groups and has outcomes for others.

    It is a possible result of exploring. Its arrays have unused rows, like tables that grow.
    """
    rng = np.random.default_rng(seed)
    used = np.sort(rng.choice(256, n_bytes, replace=False))
    first_byte = np.sort(rng.choice(used, n_groups)).astype(np.uint8)
    blocks = np.zeros(256, np.int64)
    blocks[used] = rng.integers(1, n_blocks + 1, n_bytes)
    ranges: list[list[tuple[int, int]]] = []
    events: list[list[tuple[int, int]]] = []
    n_contexts, n_below = 30, 9
    users = []
    user_counts = np.zeros(256, np.int64)
    for byte in used:
        begin, end = np.searchsorted(first_byte, [byte, int(byte) + 1])
        for _ in range(blocks[byte]):
            # some blocks cut alike: their groups stay together
            kind = np.random.default_rng([seed, int(byte), int(rng.integers(6))])
            cuts = np.unique(kind.integers(begin, end + 1, 6))
            ranges.append([(int(a), int(b)) for a, b in zip(cuts[:-1:2], cuts[1::2], strict=False)])
            read = {g for a, b in ranges[-1] for g in range(a, b)}
            others = [g for g in range(begin, end) if g not in read and g % 3]
            events.append([(g, int(rng.integers(n_outcomes))) for g in others])
            for context in np.sort(rng.choice(n_contexts, 3, replace=False)):
                users.append((int(context), len(ranges) - 1))
                user_counts[byte] += 1
    belows = rng.integers(0, 4, n_contexts)
    context_below = np.concatenate([rng.choice(n_below, n, replace=False) for n in belows])

    def flat(rows: list[list[tuple[int, int]]]) -> Integers:
        return np.array([*(row for part in rows for row in part), (-5, -5)], np.int64)

    return SimpleNamespace(
        first_byte=first_byte, block_starts=starts_of(blocks), range_starts=starts_of(list(map(len, ranges))),
        ranges=flat(ranges), event_starts=starts_of(list(map(len, events))), events=flat(events),
        user_starts=starts_of(user_counts), users=np.array(users, np.int64), n_outcomes=n_outcomes,
        context_starts=starts_of(belows), context_below=context_below.astype(np.int64),
    )  # fmt: skip


SHAPES = {
    "small": (0, 3, 20, 3, 4),
    "no events": (1, 2, 2, 1, 1),
    "many queries": (2, 12, 400, 6, 500),
    "many blocks": (3, 2, 300, 90, 7),
    "many sets": (4, 40, 2500, 20, 30),
}


def found_queries(found: SimpleNamespace, account: Account) -> Interned:
    return find_queries(
        found.event_starts, found.events, found.n_outcomes, found.users, found.context_starts,
        found.context_below, account,
    )  # fmt: skip


def pairs_of(queries: Interned) -> list[tuple[int, int]]:
    return [(outcome, below) for outcome, below in queries.lists()[1].reshape(-1, 2).tolist()]


def found_sets(found: SimpleNamespace, account: Account) -> tuple[NDArray[np.int32], Integers]:
    return outright_sets(found.first_byte, found.block_starts, found.range_starts, found.ranges, account)


def merged(found: SimpleNamespace, account: Account, colors: Any = None, queries: Any = None) -> Any:
    """Return the whole partition; every query has its own color unless `colors` is given."""
    queries = found_queries(found, account) if queries is None else queries
    sets, words = found_sets(found, account)
    if colors is None:
        colors = np.arange(queries.count)
    n_events = np.diff(found.event_starts)
    rounds = Rounds(
        found.first_byte, np.zeros(len(sets), np.int64), sets, words, found.block_starts[None],
        found.user_starts[None], found.users, np.repeat(np.arange(len(n_events)), n_events),
        found.events[: found.event_starts[-1]],
    )  # fmt: skip
    return merge_classes(rounds, queries, colors, found, account)


def rows_of(starts: Integers, rows: Integers, i: int) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in rows[starts[i] : starts[i + 1]]]


def belows_of(found: SimpleNamespace, context: int) -> list[int]:
    return found.context_below[found.context_starts[context] : found.context_starts[context + 1]].tolist()


@pytest.mark.parametrize("name", SHAPES)
def test_what_is_needed_is_kept_and_paid_for(name: str) -> None:
    found = explored(*SHAPES[name])
    accounts = [Account() for _ in range(2)]
    queries = found_queries(found, accounts[0])
    sets, words = found_sets(found, accounts[1])
    kept = [queries.nbytes, sets.nbytes + words.nbytes]
    assert [account.taken for account in accounts] == kept
    # the tables grow
    assert (name == "many queries") == (queries.count > FIRST)
    assert (name == "many blocks") == (words.shape[1] > 2)
    assert (name == "many sets") == (len(words) > 256)
    wanted = {
        (outcome, below)
        for context, block in found.users.tolist()
        for _, outcome in rows_of(found.event_starts, found.events, block)
        for below in belows_of(found, context)
    }
    assert sorted(pairs_of(queries)) == sorted(wanted)


@pytest.mark.parametrize("n_colors", [1, 2, 3, 100_000])
@pytest.mark.parametrize("name", SHAPES)
def test_classes_that_contexts_treat_alike_are_merged(name: str, n_colors: int) -> None:
    found = explored(*SHAPES[name])
    queries = found_queries(found, Account())
    colors = np.random.default_rng(n_colors).integers(0, n_colors, queries.count)
    color_of = {query: int(color) for query, color in zip(pairs_of(queries), colors, strict=True)}
    treated: list[list[tuple[Any, ...]]] = [[] for _ in found.first_byte]
    for user in range(len(found.users)):
        context, block = map(int, found.users[user])
        for begin, end in rows_of(found.range_starts, found.ranges, block):
            for group in range(begin, end):
                treated[group].append((context, "all"))
        for group, outcome in rows_of(found.event_starts, found.events, block):
            feature = [color_of[outcome, below] for below in belows_of(found, context)]
            if any(feature):
                treated[group].append((context, "all" if set(feature) == {1} else tuple(feature)))
    result = merged(found, Account(), colors)
    pairs = {(tuple(spelled), int(number)) for spelled, number in zip(treated, result, strict=True)}
    assert len({spelled for spelled, _ in pairs}) == len({number for _, number in pairs}) == len(pairs)
    assert all((number < 0) == (not spelled) for spelled, number in pairs)
    assert sorted({number for _, number in pairs} - {-1}) == list(range(result.max(initial=-1) + 1))


def items(seed: int, n_items: int, n_queries: int) -> Items:
    """Return random rows of items and queries, the queries, where the rows of each query and item begin, the
    below sets of items, and which of those may be the bottom: what `color_queries` takes."""
    rng = np.random.default_rng(seed)
    rows: list[tuple[int, int]] = []
    counts = []
    for i in range(n_queries + n_items):
        before = len(rows)
        for _ in range(rng.integers(0, 4) if i else 60):
            for _ in range(rng.integers(0, 4)):
                rows.append((0, int(rng.integers(n_items))))  # few kinds: items have to be told apart
                if rng.random() < 0.3:
                    rows.append([(-1, 0), (-1, 3), (-2, 0), (2, int(rng.integers(n_items)))][rng.integers(4)])
            rows.append((-1, -1))
        counts.append(len(rows) - before)
    starts = starts_of(counts)
    queries = np.stack([np.arange(n_queries), rng.integers(0, 3, n_queries)], axis=1)
    return (
        np.array(rows, np.int64).reshape(-1, 2), queries, starts[: n_queries + 1].copy(),
        starts[n_queries:].copy(), rng.integers(0, 3, n_items), np.array([False, True, False]),
    )  # fmt: skip


def symbols_of(rows: Integers, begin: int, end: int) -> list[list[tuple[int, int]]]:
    """Return the rows of each symbol."""
    result: list[list[tuple[int, int]]] = [[]]
    for tag, value in rows[begin:end].tolist():
        if (tag, value) == (-1, -1):
            result.append([])
        else:
            result[-1].append((tag, value))
    return result


def spelled(symbols: list[list[tuple[int, int]]], color: list[int]) -> tuple[Any, ...]:
    """Return the symbols with colors in place of items."""
    result: list[Any] = []
    for rows in symbols:
        kinds = {
            (tag, color[value]) if tag >= 0 else (tag, value if tag == -1 else 0)
            for tag, value in rows
            if tag < 0 or color[value]
        }
        result.append("outright" if kinds & {(-1, 0), (0, 1)} else frozenset(kinds))
    return tuple(result)


def expected_colors(rows: Any, queries: Any, query_starts: Any, starts: Any, below: Any, bottom: Any,
                    displacement: bool) -> list[int]:  # fmt: skip
    """Compute the colors with plain sets, repeating until nothing changes."""
    n = len(below)
    symbols = [symbols_of(rows, starts[i], starts[i + 1]) for i in range(n)]
    color = [0] * n
    before = None
    while before != color:
        before = list(color)
        for i in range(n):
            if any(tag < 0 or color[value] for part in symbols[i] for tag, value in part):
                color[i] = 2
    before = None
    while before != color and not displacement:
        before = list(color)
        for i in range(n):
            if color[i] == 2 and not bottom[below[i]]:
                # the last part has no end, so that it is empty
                sure = all(
                    any((tag, value) == (-1, 0) or (tag == 0 and color[value] == 1) for tag, value in part)
                    for part in symbols[i][:-1]
                )
                color[i] = 1 if sure else 2
    while True:
        known: dict[Any, int] = {}
        new = [
            one if one < 2 else 2 + known.setdefault((below[i], spelled(symbols[i], color)), len(known))
            for i, one in enumerate(color)
        ]
        if new == color:
            break
        color = new
    result, known = [], {}
    for q in range(len(queries)):
        key = spelled(symbols_of(rows, query_starts[q], query_starts[q + 1]), color)
        if key == (frozenset(),):
            result.append(0)
        elif key == ("outright",) and not displacement:
            result.append(1)
        else:
            result.append(2 + known.setdefault((queries[q, 1], key), len(known)))
    return result


@pytest.mark.parametrize("displacement", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_colors_are_those_of_sets(seed: int, displacement: bool) -> None:
    given = items(seed, n_items=(3, 40, 200)[seed % 3], n_queries=(60, 5)[seed % 2])
    account = Account()
    colors = color_queries(*given, displacement, account)
    assert colors.tolist() == expected_colors(*given, displacement)
    assert account.taken == colors.nbytes, "tables on the way are given back"


def test_nothing_to_color() -> None:
    nothing = np.zeros(1, np.int64)
    empty, rows = np.zeros(0, np.int64), np.zeros((0, 2), np.int64)
    assert color_queries(rows, rows, nothing, nothing, empty, np.zeros(0, bool), False, Account()).size == 0


def parts(name: str) -> list[Callable[[Account], Any]]:
    """Each part of the partition on the same input."""
    found = explored(*SHAPES[name])
    return [
        lambda account: found_queries(found, account).lists(),
        lambda account: found_sets(found, account),
        lambda account: merged(found, account),
        lambda account: color_queries(*items(5, 300, 50), False, account),
    ]


@pytest.mark.parametrize("part", range(4))
def test_all_parts_stop_where_the_bytes_end_and_when_they_are_asked_to(part: int) -> None:
    call = parts("many queries")[part]
    roomy = call(Account())
    fits = []
    for shift in range(4, 26):
        limited = within(1 << shift, lambda n: call(Account(None, n, "the bytes of the test")))
        assert not isinstance(limited, str) or limited == "the bytes of the test"
        fits.append(not isinstance(limited, str))
        if fits[-1]:
            pairs = zip(limited, roomy, strict=True) if isinstance(roomy, tuple) else [(limited, roomy)]
            assert all(np.array_equal(a, b) for a, b in pairs)
    assert fits == sorted(fits) and not fits[0] and fits[-1], "more bytes are never too few"
    with pytest.raises(BudgetExceeded, match="this phase: a test"):
        parts("small")[part](Account(stopped()))


def test_an_outcome_that_nobody_asked_for_is_an_error() -> None:
    with pytest.raises(LookupError, match="there is no query for outcome"):
        merged(explored(*SHAPES["small"]), Account(), queries=Interned(1, 2))
