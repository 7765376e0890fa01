"""Promotion: computing all states of a classifier that works on demand.

What: `promoted` completes one grammar now. `promote_static` does so for a grammar that its caller called
static, and says what came of it.
When: called by `CompiledGrammar.promote` and by `hybrid.compile.pipeline`.
Limits: the budget bounds a promotion; a grammar that exceeds it stays on demand. Masks are the same before,
during and after: states of the automaton are computed earlier, and nothing else changes.

Rejected: promoting grammars in the background when they are used a lot. A token with its mask takes as long
with states on demand, up to its 99.99th percentile, from the first document on, and computing all states took
5 to 15 ms of CPU time a JSON schema, 87 for SQL and 194 for a grammar like C (docs/strategies.md).
"""

from __future__ import annotations

import logging
from typing import Literal

import numpy as np

from equivalence import BudgetExceeded
from equivalence.deadline import Deadline
from equivalence.network import build_network
from equivalence.network.reading import read_grammar
from equivalence.network.token_ids import ids_as_bytes
from hybrid.api.compiled import Classified, CompiledGrammar, OnClassifier, OnWalks
from hybrid.classifier.completing import Completing
from hybrid.classifier.reachable import Reachable, reachable_of
from hybrid.compile.strategy import Budget

logger = logging.getLogger("hybrid")


def promoted(compiled: CompiledGrammar, budget: Budget, why: str, deadline: Deadline | None = None) -> bool:
    """Complete a grammar's classifier now.

    Args:
        compiled: a grammar on any strategy.
        budget: bounds of the tables.
        why: what to add to the grammar's `reason`.
        deadline: when to give up.

    Returns:
        Whether the classifier is complete; False if the grammar has none that can be completed.

    Raises:
        BudgetExceeded: the bytes or states exceed the budget, or the deadline is over. The states computed so
            far are kept.
    """
    if not isinstance(compiled, Classified):
        return False
    classifier = compiled.classifier
    if classifier.is_complete:
        return True
    if isinstance(compiled, OnWalks):
        compiled.settle(deadline or compiled.deferred.deadline())
    work = _completing(compiled, budget)
    while work.piece():
        if deadline is not None:
            deadline.check("the classifier's states")
    work.finish()
    if not classifier.is_used:
        with classifier.lock:
            classifier.renew()  # a session that starts with all states has fewer of them, and larger tables
    _say(compiled, why)
    return True


def _completing(compiled: OnClassifier | OnWalks, budget: Budget) -> Completing:
    classifier = compiled.classifier
    reachable = classifier.reachable
    if reachable is None:
        reachable = reachable_again(compiled, budget)
    # as ahead of time: a quarter of the bytes for the tables of states
    return Completing(classifier, reachable, states=4 * budget.states, limit=classifier.limit // 4)


def reachable_again(compiled: OnClassifier | OnWalks, budget: Budget) -> Reachable:
    """Compute again which stacks a grammar's network allows: the grammar was read from a file, or its states
    exceeded the bounds.

    Raises:
        BudgetExceeded: the network is not the same as when the file was written.
    """
    fixed = compiled.classifier._fixed
    trie = compiled.vocabulary.trie
    read = read_grammar(compiled.grammar)
    if not compiled.classifier.by_text:
        read, _ = ids_as_bytes(read)
    network = build_network(read, token_bytes=trie.longest, max_states=budget.states)
    is_same = len(network.automaton) == len(fixed.net) and network.start == fixed.start
    for place, (built, kept) in enumerate(zip(network.automaton, fixed.net, strict=False)):
        # a classifier's counters go further than one token reaches
        columns = slice(None) if place < 5 else slice(3)
        is_same = is_same and built.shape == kept.shape
        is_same = is_same and np.array_equal(built[..., columns], kept[..., columns])
    if not is_same:
        raise BudgetExceeded("its network was built by another version of the code")
    return reachable_of(network)


def promote_static(
    compiled: CompiledGrammar, budget: Budget, deadline: Deadline, must: bool = False
) -> Literal["done", "given_up", ""]:
    """Complete a static grammar's classifier, unless it is complete or was too large before.

    Args:
        compiled: a grammar on any strategy.
        budget: bounds of the tables.
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
        is_done = promoted(compiled, budget, "promoted at once because it is static", deadline)
        return "done" if is_done else ""
    except BudgetExceeded as error:
        if must or deadline.is_cancelled:
            raise
        classifier.is_refused = True
        _say(compiled, f"not promoted: {error}")
        return "given_up"


def _say(compiled: CompiledGrammar, what: str) -> None:
    """Add a note to the grammar's reason and to the log."""
    compiled.note(what)
    logger.debug("a grammar on demand: %s", what)
