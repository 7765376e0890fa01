# cython: language_level=3
# mypy: ignore-errors
"""Many classifier matchers at once: their steps, and masks by class.

What: `known_steps` advances matchers of any number of grammars over one vocabulary, and `stage_classes`
copies masks by class. Masks over the vocabulary are in `hybrid.api.draft_rows`.
When: called by `hybrid.api.batch.BatchGrammarMatcher` and `hybrid.device.DeviceGather`.
Limits: if a grammar's tables are full, its matchers must be called one by one.
"""

from __future__ import annotations

from typing import Any

import cython
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.api.calls import Calls
from cython.cimports.hybrid.classifier.cached_sequence import CachedSequence, take
from cython.cimports.hybrid.classifier.rows import Rows, address_of_words, copy_row, source_of

check_source(__name__)


def stage_classes(
    matchers: list, numbers: Any, lines: dict, words: cython.uint[::1], entries: cython.int[:, ::1],
    taken: tuple, last_steps: cython.Py_ssize_t[::1], step: cython.Py_ssize_t,
) -> tuple:  # fmt: skip
    """Copy the masks by class that are known, one after another.

    Args:
        matchers: of any kind and strategy.
        numbers: the number of each matcher's row.
        lines: maps (gather, stop ids) to numbers that entries use; matchers that are not in it are left.
        words: uint32, written after the words that are in use.
        entries: int32[n, 3], likewise: the row, the line, and the place of the first word.
        taken: how many words and entries are in use.
        last_steps: int64, set to `step` for each line that is used.
        step: any number.

    Returns:
        How many words and entries are in use now, and the indices of the matchers that are left.
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
        if calls.sequence is not None and not calls.sequence.ended:
            known: CachedSequence = calls.sequence
            found = known.session.class_rows
            if found is not None:
                rows: Rows = found
                source = source_of(rows, known.configuration)
                if source != 0:
                    line = lines.get((known.rows.gather, known.stops), -1)
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
    """Advance each matcher by its token, if all use classifiers that know the steps.

    Returns:
        For each matcher, whether it accepted. None if some step is not known; then nothing has changed.
    """
    taken: list = []
    i: cython.Py_ssize_t
    for i in range(len(matchers)):
        calls: Calls = matchers[i]
        if calls.sequence is None:
            break
        token = tokens[i]
        found = take(calls.sequence, token if 0 <= token < 1 << 31 else -1)
        if found < 0:
            break
        taken.append(found > 0)
    else:
        return taken
    for i in range(len(taken) - 1, -1, -1):
        if taken[i]:
            calls = matchers[i]
            calls.sequence.go_back(calls.sequence.n_steps - 1)
    return None
