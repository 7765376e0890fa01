"""Names of strategies, and the budget of one compilation.

What: "classifier" runs no engine: an automaton reads the parser's stack and names the allowed classes.
"representatives" runs XGrammar over one token per class, "engine" runs it over the whole vocabulary. "auto"
chooses a classifier whose states are computed on demand; representatives for captures and temperatures; the
engine if there are no token classes. The compiled grammar says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from equivalence.arguments import check_count, check_seconds
from equivalence.classes.explore import Capacity
from equivalence.errors import HybridError

STRATEGIES = ("auto", "classifier", "representatives", "engine")

SEMANTICS = ("xgrammar", "json-schema")
"""What a JSON schema means: what XGrammar's converter makes of it, or what the schema says."""

OnBudget = Literal["engine", "raise"]
"""What to do if our own part of a compilation exceeds the budget; see `Budget`."""

OWN_SHARE = 0.5
"""The share of the remaining seconds that our own part may use if the engine may have to follow."""


@dataclass(frozen=True)
class Budget:
    """Limits of one compilation.

    If our own part of a compilation exceeds a limit, `GrammarCompiler` does what its `on_budget` says: it
    raises `BudgetExceeded`, or continues on the "engine" and says so in `reason`. To leave time for that, our
    own part may use half of the seconds. When all seconds are used up, or the call is cancelled,
    `BudgetExceeded` is always raised.

    Attributes:
        states: states of the grammar network (four times as many before equal states are merged), and
            configurations of its exploration. A typical JSON schema needs hundreds, a large programming
            language thousands; each takes 1 KiB of memory.
        seconds: time of one whole compile call, including parsing. ``None``, or more than a million (11
            days), means no limit. Our own phases usually stop within 50 ms of the limit (docs/budgets.md).
            Building the vocabulary's trie, which is done only once, is not counted. The result depends on the
            clock only if there is not enough time.
        bytes: memory of one computation of classes: network, exploration, partition and result, without the
            vocabulary and XGrammar. Real grammars use 5 to 40 MiB and reserve up to 100; every grammar needs
            about 15 (docs/budgets.md).
        table_bytes: memory of a classifier's tables while it is used.
        mask_seconds: time of one mask, and of reading one token. After that, `fill_next_token_bitmask` or
            `accept_token` raises `BudgetExceeded` and changes nothing. ``None`` means no limit. A call of
            XGrammar cannot be interrupted, so the time of a mask is checked when it has returned, and that of
            a token not at all (docs/budgets.md).
    """

    states: int = 120_000
    seconds: float | None = 30.0
    bytes: int = 300 * 2**20
    table_bytes: int = 256 * 2**20
    mask_seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("states", "bytes", "table_bytes"):
            check_count(f"Budget.{name}", getattr(self, name))
        check_seconds("Budget.seconds", self.seconds)
        check_seconds("Budget.mask_seconds", self.mask_seconds)

    @property
    def capacity(self) -> Capacity:
        """The bounds of an exploration that follow from `states` and `bytes`."""
        return Capacity(self.states, 4 * self.states, 4 * self.states, 4 * self.states, self.bytes)


def check_budget(budget: Budget) -> Budget:
    """Return the budget, or raise a `HybridError` if it is not one."""
    given: object = budget
    if not isinstance(given, Budget):
        raise HybridError(f"budget must be a hybrid.Budget, but is {given!r}")
    return given
