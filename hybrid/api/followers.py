"""Making the follower of a compiled grammar.

What: `follower_of` makes the follower of the grammar's strategy.
When: for each matcher. A follower that must be replaced makes its successor itself.
Limits: callers have checked all arguments.
"""

from __future__ import annotations

from hybrid.classifier.follower import ClassifierFollower
from hybrid.compiled import CompiledGrammar
from hybrid.remembering import RememberingFollower
from hybrid.representatives.follower import EngineFollower
from hybrid.values.follower import Follower


def follower_of(
    compiled: CompiledGrammar, stops: tuple[int, ...], free_end: bool, temperature: float | None
) -> Follower:
    """A follower at the start of a sequence.

    Args:
        compiled: on any strategy.
        stops: ids that end the sequence.
        free_end: whether the sequence ends as soon as it can, without a stop token.
        temperature: the temperature where the grammar sets none.
    """
    classifier = compiled.classifier
    found: Follower
    if classifier is None:
        found = EngineFollower(compiled, stops, free_end, temperature)
    elif classifier.has_handed_over:
        found = EngineFollower(compiled.fallback, stops, free_end, temperature)
    else:
        found = ClassifierFollower(compiled, stops, free_end, temperature)
    if compiled.places is None:
        return found
    return RememberingFollower(found, compiled.places, compiled.vocabulary, stops)
