"""Which instances each engine accepts: valid ones, which it should, and invalid ones, which it should not.

What: `Verdicts` counts them for one engine and one schema.
When: in `bench.schemas`, after everything was timed.
Limits: each instance is tried as one text, cut by longest match; other cuts are not tried. If keys have
another order than an engine requires, the instance counts as refused. If an engine refuses a schema or was
given up on, there are no verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

Takes = Callable[[Sequence[int]], bool]
"""Whether an engine accepts all tokens of a text, and the text may end there."""


@dataclass(frozen=True)
class Verdicts:
    """How many valid and invalid instances there were, and how many of each were accepted."""

    valid: int
    valid_taken: int
    invalid: int
    invalid_taken: int

    @classmethod
    def of(cls, takes: Takes, valid: Iterable[Sequence[int]], invalid: Iterable[Sequence[int]]) -> Verdicts:
        """Ask an engine about every instance."""
        good, bad = [takes(ids) for ids in valid], [takes(ids) for ids in invalid]
        return cls(len(good), sum(good), len(bad), sum(bad))
