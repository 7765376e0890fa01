"""Many matchers of classifiers at once: one kernel call for what is new, one for all copies.

What: `fill_rows` and `advance_all`, for matchers of any number of grammars over one vocabulary.
When: called by `hybrid.batch.BatchGrammarMatcher`; several threads may fill different rows of one bitmask.
Limits: where a grammar's tables are full, its matchers go one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybrid.classifier import _kernels
from hybrid.classifier.classifier import STEP_BYTES, Session
from hybrid.classifier.matcher import ClassifierMatcher


def fill_rows(matchers: Sequence[ClassifierMatcher], bitmask: Any, rows: Sequence[int]) -> None:
    """Write each matcher's mask to its row.

    Raises:
        BitmaskError: as `GrammarMatcher.fill_next_token_bitmask`; nothing was written.
        RuntimeError: a matcher has terminated; nothing was written.
    """
    addresses = [matchers[0].address_of(bitmask, row) for row in rows]
    found = [None if matcher._ended else matcher._known.get(matcher._config) for matcher in matchers]
    new = [place for place, row in enumerate(found) if row is None]
    if new:
        for matcher in matchers:
            matcher.refuse_ended()
        _look_ahead_masks([matchers[place] for place in new])
        for place in new:
            matchers[place].fill_next_token_bitmask(bitmask, rows[place])
    sources = [row.address for row in found if row is not None]
    if new:
        addresses = [address for address, row in zip(addresses, found, strict=True) if row is not None]
    if sources:
        _kernels.copy_rows(np.array(sources), np.array(addresses), matchers[0]._width)


def advance_all(matchers: Sequence[ClassifierMatcher], tokens: Sequence[int]) -> list[bool]:
    """Advance each matcher by its token; which of them accepted."""
    new: dict[Session, list[tuple[ClassifierMatcher, int]]] = {}
    for matcher, token in zip(matchers, tokens, strict=True):
        if (
            0 <= token < matcher._size
            and matcher._config << matcher._bits | token not in matcher._steps
            and matcher._tokens[token]
        ):
            new.setdefault(matcher._session, []).append((matcher, token))
    for session, pairs in new.items():
        if not _is_current(session, pairs[0][0]):
            continue
        configs = np.array([matcher._config for matcher, _ in pairs], np.int64)
        ids = np.array([token for _, token in pairs], np.int64)
        found = np.empty(len(pairs), np.int64)
        with pairs[0][0]._classifier.lock:
            status = pairs[0][0]._classifier.kernels.advances(session.store.table, configs, ids, found)
        if status == 0:
            keys = (configs << pairs[0][0]._bits | ids).tolist()
            session.steps.update(zip(keys, found.tolist(), strict=True))
            session.left -= STEP_BYTES * len(keys)
    return [matcher.accept_token(token) for matcher, token in zip(matchers, tokens, strict=True)]


def _look_ahead_masks(matchers: Sequence[ClassifierMatcher]) -> None:
    """Compute the class masks that some matchers are about to ask for."""
    by_session: dict[Session, list[ClassifierMatcher]] = {}
    for matcher in matchers:
        by_session.setdefault(matcher._session, []).append(matcher)
    for session, group in by_session.items():
        if len(group) > 1 and _is_current(session, group[0]):
            configs = np.array([matcher._config for matcher in group], np.int64)
            with group[0]._classifier.lock:
                kernels = group[0]._classifier.kernels
                kernels.class_masks(session.store.table, configs, np.empty(len(group), np.int64))


def _is_current(session: Session, matcher: Any) -> bool:
    return session is matcher._classifier.session and session.left > 0
