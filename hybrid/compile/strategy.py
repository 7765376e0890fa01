"""Strategies by name, and the budget of one compilation.

What: "classifier" runs no engine: an automaton reads the parser's stack and names the classes.
"representatives" runs XGrammar over one token per class, "engine" runs it over the whole vocabulary. "auto"
takes a classifier whose states are found on demand; representatives where bytes and stacks do not decide; the
engine where there are no classes. The reason is kept with what was compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from equivalence.bounds import check_count, check_seconds
from equivalence.classes.explore import Capacity
from equivalence.errors import HybridError, StrategyError

STRATEGIES = ("auto", "classifier", "representatives", "engine")


OnBudget = Literal["engine", "raise"]
"""What is done where our own part of a compilation meets the budget; see `Budget`."""

OWN_SHARE = 0.5
"""Of the seconds that are left when our own part begins, what it may use where the engine may follow."""


@dataclass(frozen=True)
class Budget:
    """Bounds of one compilation.

    Where our own part meets one, `GrammarCompiler` does what its `on_budget` says: "raise" `BudgetExceeded`,
    or go on with coarser classes or the "engine", by name. So that some time is left for these, exploring
    may use half of the seconds then, and coarser classes half of what is left. When all seconds are used up,
    or the call is cancelled, `BudgetExceeded` is raised in any case.

    Attributes:
        states: states of the grammar network (four times as many before equal ones are merged), and
            configurations of its exploration. A typical JSON schema needs hundreds, a large programming
            language thousands; 1 KiB of memory each.
        seconds: time of one whole compile call, parsing included; ``None`` means no bound, and more than a
            million (11 days) counts as that. Our own phases end within 50 ms of it (docs/limits.md). What is
            made once is not counted: compiled kernels, and the vocabulary's trie. What comes out depends on
            the clock only where the time does not suffice.
        bytes: memory of one computation of classes: network, exploration, partition and result, but not the
            vocabulary, and not what XGrammar takes. Real grammars touch 5 to 40 MiB and reserve up to 100;
            any grammar needs some 15 (docs/limits.md).
        table_bytes: memory of the tables that a classifier is made of, once compiled.
        mask_seconds: time of one mask, after which `fill_next_token_bitmask` raises `BudgetExceeded` and
            writes nothing; ``None`` means no bound. Looked at between classes that are tried; one call of
            XGrammar, which nothing interrupts, is looked at when it has ended (docs/limits.md).
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
        """The bounds that these states and bytes imply."""
        return Capacity(self.states, 4 * self.states, 4 * self.states, 4 * self.states, self.bytes)


def check_budget(budget: Budget) -> Budget:
    """The budget itself if it is one, else a `HybridError`."""
    given: object = budget
    if not isinstance(given, Budget):
        raise HybridError(f"budget is {given!r}, allowed is a hybrid.Budget")
    return given


def check_strategy(strategy: str) -> str:
    """The strategy itself if it is known, else a `StrategyError`."""
    if strategy not in STRATEGIES:
        raise StrategyError(f"strategy is {strategy!r}, allowed are {', '.join(map(repr, STRATEGIES))}")
    return strategy


SEMANTICS = ("xgrammar", "json-schema")
"""What a JSON schema means: what XGrammar's converter makes of it, or what it says."""


def check_semantics(semantics: str) -> str:
    """What schemas mean, if it is known, else a `HybridError`."""
    if semantics not in SEMANTICS:
        raise HybridError(f"semantics is {semantics!r}, allowed are {', '.join(map(repr, SEMANTICS))}")
    return semantics


def check_on_budget(on_budget: OnBudget) -> OnBudget:
    """What to do where the budget is met, if it is known, else a `HybridError`."""
    if on_budget not in get_args(OnBudget):
        raise HybridError(
            f"on_budget is {on_budget!r}, allowed are {', '.join(map(repr, get_args(OnBudget)))}"
        )
    return on_budget
