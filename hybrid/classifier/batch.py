"""Many matchers of classifiers at once: one call for what is new, one for all copies.

What: `fill_rows` and `find_steps`, for matchers of any number of grammars over one vocabulary.
When: called by `hybrid.api.batch.BatchGrammarMatcher`; several threads may fill different rows of one
bitmask.
Limits: where a grammar's tables are full, its matchers go one by one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from equivalence import BudgetExceeded
from hybrid.classifier.classifier import Session
from hybrid.classifier.matcher import ClassifierMatcher
from hybrid.classifier.rows import copy_rows


def fill_rows(matchers: Sequence[ClassifierMatcher], bitmask: Any, numbers: Sequence[int]) -> None:
    """Write each matcher's mask to its row.

    Args:
        matchers: of vocabularies of one width; at least one.
        bitmask: as `GrammarMatcher.fill_next_token_bitmask` takes it.
        numbers: of the rows, none of them twice.

    Raises:
        BitmaskError: as `GrammarMatcher.fill_next_token_bitmask`; nothing was written.
        MatcherError: a matcher has terminated; nothing was written.
        BudgetExceeded: a matcher has no mask within its budget, and no other strategy; nothing was written.
    """
    rows = matchers[0]._rows_of(bitmask)
    for number in (min(numbers), max(numbers)):
        rows.checked(number)
    for matcher in matchers:
        matcher.refuse_ended()
    found: list[Any] = [matcher._known.get(matcher._config) for matcher in matchers]
    new = [place for place, row in enumerate(found) if row is None]
    if new:
        _look_ahead_masks([matchers[place] for place in new])
        for place in new:
            found[place] = matchers[place].found_row()
    first, between = rows.place
    sources = np.array([row.address for row in found], np.int64)
    copy_rows(sources, first + between * np.array(numbers, np.int64), rows.words.shape[1])


def find_steps(matchers: Sequence[ClassifierMatcher], tokens: Sequence[int]) -> None:
    """Find what is not known yet of the steps of some matchers by a token each, at once; nothing moves."""
    new: dict[Session, list[tuple[ClassifierMatcher, int]]] = {}
    for matcher, token in zip(matchers, tokens, strict=True):
        if (
            0 <= token < matcher._size
            and matcher._steps.get(matcher._config, token) < 0
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
            try:
                session.store.advances(configs, ids, found)
            except BudgetExceeded:
                continue
            for config, token, after in zip(configs.tolist(), ids.tolist(), found.tolist(), strict=True):
                session.remember(config, token, after)


def _look_ahead_masks(matchers: Sequence[ClassifierMatcher]) -> None:
    """Compute the class masks that some matchers are about to ask for."""
    by_session: dict[Session, list[ClassifierMatcher]] = {}
    for matcher in matchers:
        by_session.setdefault(matcher._session, []).append(matcher)
    for session, group in by_session.items():
        if len(group) > 1 and _is_current(session, group[0]):
            configs = np.array([matcher._config for matcher in group], np.int64)
            # where the tables are full, each matcher sees to itself
            with group[0]._classifier.lock, contextlib.suppress(BudgetExceeded):
                session.store.class_masks(configs, np.empty(len(group), np.int64))


def _is_current(session: Session, matcher: Any) -> bool:
    return session is matcher._classifier.session and session.left > 0
