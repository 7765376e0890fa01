"""The settings of a compiler on which its results depend.

What: `Settings` is a part of the key of each request, in memory and on disk.
When: one for each compiler; its requests hold it.
Limits: the vocabulary is not a part of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from equivalence import forks
from hybrid.values.budget import Budget, OnBudget


@forks.with_unlocked_properties
@dataclass(frozen=True)
class Settings:
    """The settings of a compiler that its results depend on, besides the vocabulary.

    Attributes:
        strategy, budget, on_demand, on_budget, deterministic, n_jobs: as in `hybrid.GrammarCompiler`.
        seconds: the budget's seconds as the caller gave them; a deterministic compiler's budget has none.
        cache_dir: the folder in which compiled grammars are kept, "" if there is none.
    """

    strategy: str
    budget: Budget
    n_jobs: int = 1
    on_demand: bool = False
    on_budget: OnBudget = "engine"
    deterministic: bool = False
    seconds: float | None = None
    cache_dir: Any = ""

    @cached_property
    def key(self) -> str:
        """The same for equal settings. It is text, because Python computes the hash of a text only once."""
        return repr(self)

    @property
    def walks(self) -> bool:
        """Whether masks may come from walks, without classes."""
        return self.strategy == "auto" and not self.on_demand

    @property
    def portable(self) -> str:
        """The settings that other processes must agree on."""
        return repr(replace(self, n_jobs=1, seconds=None, cache_dir=""))
