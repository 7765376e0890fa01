"""Which instances each engine takes: valid ones that it should, invalid ones that it should not.

What: `Verdicts` counts them for one engine and one schema.
When: in `bench.schemas`, after everything was timed.
Limits: an instance is one text, cut by longest match; engines that read other tokens in another way are
not told apart. Keys in another order than an engine writes them count as refused. On a schema that an
engine refuses, or was given up on, there is no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

Takes = Callable[[Sequence[int]], bool]
"""Whether an engine takes a text of tokens to its end, and lets it end there."""


@dataclass(frozen=True)
class Verdicts:
    """How many valid and invalid instances there were, and how many of each were taken."""

    valid: int
    valid_taken: int
    invalid: int
    invalid_taken: int

    @classmethod
    def of(cls, takes: Takes, valid: Iterable[Sequence[int]], invalid: Iterable[Sequence[int]]) -> Verdicts:
        """Ask an engine of every instance."""
        good, bad = [takes(ids) for ids in valid], [takes(ids) for ids in invalid]
        return cls(len(good), sum(good), len(bad), sum(bad))
