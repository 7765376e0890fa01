"""Promotion of static grammars, when they are compiled.

What: `promote_static` computes all states of the classifier, and says what came of it.
When: called by `hybrid.compile.pipeline` for grammars compiled with ``static=True``.
Limits: the budget bounds a promotion; a grammar that exceeds it stays on demand. Masks are the same before,
during and after: states of the automaton are computed earlier, and nothing else changes.
"""

from __future__ import annotations

import logging
from typing import Literal

from equivalence import BudgetExceeded
from equivalence.deadline import Deadline
from hybrid.compiled import CompiledGrammar
from hybrid.values.budget import Budget

logger = logging.getLogger("hybrid")


def promote_static(
    compiled: CompiledGrammar, budget: Budget, deadline: Deadline, must: bool = False
) -> Literal["done", "given_up", ""]:
    """Complete a static grammar's classifier, unless it is complete or was too large before.

    Args:
        compiled: a grammar on any strategy.
        budget: limits of the tables.
        deadline: the caller's deadline.
        must: raise an error if the budget is exceeded, instead of leaving the grammar on demand.

    Returns:
        What was done, "" if nothing.

    Raises:
        BudgetExceeded: see `must`; or the call was cancelled.
    """
    classifier = compiled.classifier
    if classifier is None or classifier.is_complete or (classifier.is_refused and not must):
        return ""
    try:
        is_done = compiled.completed(
            budget, "all states were computed in advance, because the grammar is static", deadline
        )
        return "done" if is_done else ""
    except BudgetExceeded as error:
        if must or deadline.is_cancelled:
            raise
        classifier.is_refused = True
        compiled.note(f"not all states could be computed in advance: {error}")
        logger.debug("not all states of a static grammar were computed in advance: %s", error)
        return "given_up"
