"""Strategies by name, and the budget of one compilation.

What: "representatives" runs XGrammar over one token per class, "engine" runs it over the whole vocabulary;
"auto" takes representatives wherever classes can be had, and says why not where they cannot.
Limits: "classifier" is named by the public contract and not built yet; asking for it is an error.
"""

from __future__ import annotations

from dataclasses import dataclass

from equivalence.errors import HybridError, StrategyError
from equivalence.explore import Capacity

STRATEGIES = ("auto", "representatives", "engine")


@dataclass(frozen=True)
class Budget:
    """Bounds of one compilation; where one is met, "auto" falls back to the engine and says so.

    Attributes:
        states: states of the grammar network, and configurations of its exploration. A typical JSON
            schema needs hundreds, a large programming language thousands; 1 KiB of memory each.
    """

    states: int = 120_000

    def __post_init__(self) -> None:
        states: object = self.states  # whatever the caller gave
        if isinstance(states, bool) or not isinstance(states, int) or states < 1:
            raise HybridError(f"Budget.states is {self.states!r}, allowed is an integer of at least 1")

    @property
    def capacity(self) -> Capacity:
        """The exploration's bounds that these states imply."""
        return Capacity(self.states, 4 * self.states, 4 * self.states, 4 * self.states)


def check_strategy(strategy: str) -> str:
    """The strategy itself if it is known, else a `StrategyError`."""
    if strategy == "classifier":
        raise StrategyError(
            "strategy 'classifier' is not part of this version; use 'auto', 'representatives' or 'engine'"
        )
    if strategy not in STRATEGIES:
        raise StrategyError(f"strategy is {strategy!r}, allowed are {', '.join(map(repr, STRATEGIES))}")
    return strategy
