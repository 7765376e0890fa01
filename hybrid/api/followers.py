"""Which follower a compiled grammar's matchers have.

What: `follower_of` makes the one of its strategy.
When: for each matcher. Followers that take another one's place are made by that one.
Limits: what callers give was checked before.
"""

from __future__ import annotations

from hybrid.api.compiled import CompiledGrammar
from hybrid.api.follower import Follower
from hybrid.classifier.follower import ClassifierFollower
from hybrid.remembering import RememberingFollower
from hybrid.representatives.follower import EngineFollower


def follower_of(
    compiled: CompiledGrammar, stops: tuple[int, ...], free_end: bool, temperature: float | None
) -> Follower:
    """A follower at the start of a sequence.

    Args:
        compiled: on any strategy.
        stops: ids that end the sequence.
        free_end: the sequence ends as soon as it can.
        temperature: the one to ask for where the grammar sets none.
    """
    found = _of_grammar(compiled, stops, free_end, temperature)
    if compiled.places is None:
        return found
    return RememberingFollower(found, compiled.places, compiled.vocabulary, stops)


def _of_grammar(
    compiled: CompiledGrammar, stops: tuple[int, ...], free_end: bool, temperature: float | None
) -> Follower:
    """A follower of the grammar alone."""
    classifier = compiled.classifier
    if classifier is None:
        return EngineFollower(compiled, stops, free_end, temperature)
    if classifier.has_handed_over:
        return EngineFollower(compiled.fallback, stops, free_end, temperature)
    return ClassifierFollower(compiled, stops, free_end, temperature)
