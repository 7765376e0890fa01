# cython: language_level=3
# mypy: ignore-errors
"""Many matchers of classifiers at once: one call for what is known, one for what is new, one for all copies.

What: `fill_rows` and `known_steps`, for matchers of any number of grammars over one vocabulary; `find_steps`;
`stage_classes`, which leaves masks by class.
When: called by `hybrid.api.batch.BatchGrammarMatcher` and `hybrid.device.DeviceGather`; several threads may
fill different rows of one bitmask.
Limits: where a grammar's tables are full, its matchers go one by one.
"""

from __future__ import annotations

import contextlib
from typing import Any

import cython
import numpy as np

from equivalence import BudgetExceeded, built
from hybrid.api.calls import Calls
from hybrid.classifier.classifier import Session
from hybrid.classifier.known import Known
from hybrid.classifier.rows import Rows

if cython.compiled:
    from cython.cimports.equivalence.built import EQUIMASK_SOURCE
    from cython.cimports.hybrid.api.calls import Calls
    from cython.cimports.hybrid.classifier.known import Known, mask_of, take
    from cython.cimports.hybrid.classifier.rows import (
        Rows,
        address_of_words,
        copy_row,
        fetch_row,
        source_of,
    )

    built.check(__name__, EQUIMASK_SOURCE)
else:
    from hybrid.classifier.known import mask_of, take
    from hybrid.classifier.rows import address_of_words, copy_row, fetch_row, source_of


def fill_rows(matchers: list, bitmask: Any, numbers: Any) -> bool:
    """Write each matcher's mask to its row, if all of them are on classifiers over as many words.

    Args:
        matchers: at least one.
        bitmask: as `GrammarMatcher.fill_next_token_bitmask` takes it.
        numbers: of the rows, none of them twice.

    Returns:
        Whether it was done; nothing was written if not.

    Raises:
        BitmaskError: as `GrammarMatcher.fill_next_token_bitmask`; nothing was written.
        MatcherError: a matcher has terminated; nothing was written.
        BudgetExceeded: a matcher has no mask within its budget, and no other strategy; nothing was written.
    """
    n_bytes: cython.Py_ssize_t = 4 * matchers[0]._width
    if not are_known(matchers, n_bytes):
        return False
    rows = matchers[0]._rows_of(bitmask)
    for number in (min(numbers), max(numbers)):
        rows.checked(number)
    n: cython.Py_ssize_t = len(matchers)
    places = np.empty((2, n), np.int64)
    place: cython.Py_ssize_t[:, ::1] = places
    held: list = []
    new = []
    i: cython.Py_ssize_t
    for i in range(n):
        calls: Calls = matchers[i]
        known: Known = calls.known
        held.append(known.rows)
        place[0, i] = mask_of(known)
        place[1, i] = numbers[i]
        if place[0, i] == 0:
            known.refuse_ended()
            new.append(i)
    if new:
        _look_ahead_masks([matchers[i] for i in new])
        for i in new:
            matchers[i]._find_mask()
        for i in new:
            calls = matchers[i]
            if calls.known is not None:
                known = calls.known
                held.append(known.rows)
                place[0, i] = mask_of(known)
            if place[0, i] == 0:  # another strategy went on
                words = np.empty(n_bytes // 4, np.uint32)
                held.append(words)
                matchers[i]._fill(words)
                place[0, i] = words.ctypes.data
    first, between = rows.place
    places[1] *= between
    places[1] += first
    if cython.compiled:
        with cython.nogil:
            copy_rows(place, n_bytes)
    else:
        copy_rows(place, n_bytes)
    return True


def are_known(matchers: list, n_bytes: cython.Py_ssize_t) -> bool:
    """Whether all of some matchers are on classifiers, with rows of so many bytes."""
    for matcher in matchers:
        calls: Calls = matcher
        if calls.known is None or (n_bytes >= 0 and calls.known.rows.n_bytes != n_bytes):
            return False
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def copy_rows(place: cython.Py_ssize_t[:, ::1], n_bytes: cython.Py_ssize_t) -> cython.void:
    """Copy rows of so many bytes between addresses; the first ones are as `hybrid.classifier.rows` has them.

    The beginnings of the next row's pages are asked for while a row is copied, as by
    `hybrid.classifier.rows.fetch_row`.
    """
    n: cython.Py_ssize_t = place.shape[1]
    i: cython.Py_ssize_t
    for i in range(n):
        if i + 1 < n:
            fetch_row(place[0, i + 1], place[1, i + 1], n_bytes)
        copy_row(place[0, i], place[1, i], n_bytes)


def stage_classes(
    matchers: list,
    numbers: Any,
    lines: dict,
    words: cython.uint[::1],
    entries: cython.int[:, ::1],
    taken: tuple,
    last_steps: cython.Py_ssize_t[::1],
    step: cython.Py_ssize_t,
) -> tuple:
    """Copy the mask by class of each matcher of which it is known, one behind the other.

    Args:
        matchers: of any kind and strategy.
        numbers: of the row of each.
        lines: by (rows by class of a session, stop ids), numbers that entries name; other matchers are left.
        words: uint32, written from where they are not taken.
        entries: int32[n, 3], likewise: the row, the line, the place of the first word.
        taken: how many words and entries are taken.
        last_steps: int64, gets `step` at each line that is named.
        step: any number.

    Returns:
        How many words and entries are taken then, and the indices of the matchers that are left.
    """
    left: list = []
    width: cython.Py_ssize_t
    i: cython.Py_ssize_t
    place: cython.Py_ssize_t = taken[0]
    n: cython.Py_ssize_t = taken[1]
    for i in range(len(matchers)):
        calls: Calls = matchers[i]
        source: cython.Py_ssize_t = 0
        line: cython.Py_ssize_t = -1
        if calls.known is not None and not calls.known.ended:
            known: Known = calls.known
            found = known.session.class_rows
            if found is not None:
                rows: Rows = found
                source = source_of(rows, known.config)
                if source != 0:
                    line = lines.get((rows, known.stops), -1)
        if line < 0:
            left.append(i)
            continue
        width = rows.n_bytes // 4
        if place + width > words.shape[0] or n >= entries.shape[0] or line >= last_steps.shape[0]:
            raise IndexError("there is no room for a mask")
        copy_row(source, address_of_words(words[place:]), rows.n_bytes)
        entries[n, 0] = numbers[i]
        entries[n, 1] = cython.cast(cython.int, line)
        entries[n, 2] = cython.cast(cython.int, place)
        last_steps[line] = step
        place += width
        n += 1
    return place, n, left


def known_steps(matchers: list, tokens: list) -> list | None:
    """Advance each matcher by its token, if what follows is known of all of them.

    Returns:
        Which of them accepted; None where something is not known, and nothing moved.
    """
    taken: list = []
    i: cython.Py_ssize_t
    for i in range(len(matchers)):
        calls: Calls = matchers[i]
        token = tokens[i]
        found = take(calls.known, token if 0 <= token < 1 << 31 else -1)
        if found < 0:
            break
        taken.append(found > 0)
    else:
        return taken
    for i in range(len(taken) - 1, -1, -1):
        if taken[i]:
            calls = matchers[i]
            calls.known.go_back(calls.known.made - 1)
    return None


def find_steps(matchers: list, tokens: list) -> None:
    """Find what is not known yet of the steps of some matchers by a token each, at once; nothing moves."""
    new: dict[Session, list[tuple[Any, int]]] = {}
    for matcher, token in zip(matchers, tokens, strict=True):
        follower = matcher._follower
        if (
            follower.by_text
            and 0 <= token < matcher._size
            and follower.steps.get(follower.config, token) < 0
            and matcher.compiled_grammar.vocabulary.tokens[token]
        ):
            new.setdefault(follower.session, []).append((follower, token))
    for session, pairs in new.items():
        if not pairs[0][0].is_current(session):
            continue
        configs = np.array([follower.config for follower, _ in pairs], np.int64)
        ids = np.array([token for _, token in pairs], np.int64)
        found = np.empty(len(pairs), np.int64)
        with pairs[0][0].lock:
            try:
                session.store.advances(configs, ids, found)
            except BudgetExceeded:
                continue
            for config, token, after in zip(configs.tolist(), ids.tolist(), found.tolist(), strict=True):
                session.remember(config, token, after)


def _look_ahead_masks(matchers: list) -> None:
    """Compute the class masks that some matchers are about to ask for."""
    by_session: dict[Session, list[Any]] = {}
    for matcher in matchers:
        by_session.setdefault(matcher._follower.session, []).append(matcher._follower)
    for session, group in by_session.items():
        if len(group) > 1 and group[0].is_current(session):
            configs = np.array([follower.config for follower in group], np.int64)
            # where the tables are full, each matcher sees to itself
            with group[0].lock, contextlib.suppress(BudgetExceeded):
                session.store.class_masks(configs, np.empty(len(group), np.int64))
