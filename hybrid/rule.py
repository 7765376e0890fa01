"""The rule of strategy "auto": what is measured of a grammar in, what it runs on out.

What: pure functions. `choose` takes what is known when a grammar is compiled, `choose_promotion` what is known
once sequences have used it. Both get counts and give a decision with its reason; neither looks at a clock,
at other grammars or at the machine, so that equal input gives equal output on every machine.
When: by `hybrid.compilation` and `hybrid.promotion`; docs/strategies.md has the measurements behind the numbers.
Limits: what cannot be had is found out by whoever tries, and asked about again without it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

FEW_CLASSES = 256
"""Up to this number of classes representatives are taken whatever the vocabulary's size."""

FIRST_LOOK = 4
"""Sequences after which a promotion is thought of first; then after each doubling."""

LAST_LOOK = 4096
"""Sequences after which it is not thought of any more."""

NEW_STATES = 2
"""New states that each recent sequence has met if a promotion pays; see `choose_promotion`."""


class Measured(NamedTuple):
    """What is known of a grammar before its strategy is.

    Attributes:
        tokens: ids of the vocabulary that have text.
        classes: its token classes; 0 where there are none.
        explored: whether bytes and stacks decide, and exploring the network gave the classes.
        states, contexts: of its network; 0 where it was not explored.
        static: the caller says that the grammar is for long use.
        on_demand: the caller says that states are to be found on demand.
    """

    tokens: int
    classes: int
    explored: bool
    states: int = 0
    contexts: int = 0
    static: bool = False
    on_demand: bool = False


class Choice(NamedTuple):
    """A decision.

    Attributes:
        strategy: "classifier", "representatives" or "engine".
        ahead: whether a classifier's states are all found before the first mask.
        reason: why, in a few words; empty where there is nothing to say beyond the strategy.
    """

    strategy: Literal["classifier", "representatives", "engine"]
    ahead: bool
    reason: str


def choose(measured: Measured) -> Choice:
    """What "auto" runs a grammar on.

    A classifier wherever there can be one: it takes less time than representatives and the engine from the
    first document on, as it is made of what representatives need anyway, while they need XGrammar's
    compilation beside it. Its states are found on demand, for documents ask for a fifth of them; all of them
    are found ahead of time where the caller says that the grammar is for long use.
    """
    if measured.explored and measured.classes:
        if measured.static and not measured.on_demand:
            return Choice("classifier", True, "")
        why = "asked for" if measured.on_demand else "the first mask comes sooner"
        return Choice("classifier", False, why)
    if not measured.classes:
        return Choice("engine", False, "there are no token classes")
    # those of exploring are few for what they stand for; byte strings may be nearly as many as the tokens
    if measured.classes > max(measured.tokens // 2, FEW_CLASSES):
        return Choice(
            "engine", False, f"{measured.classes} classes for {measured.tokens} tokens save nothing"
        )
    return Choice("representatives", False, "")


class Use(NamedTuple):
    """What is known of a grammar that is served on demand.

    Attributes:
        sequences: sequences begun so far, the one that begins now included.
        found: states of its automaton (rows) that they met.
        found_before: those met when half as many sequences were begun.
    """

    sequences: int
    found: int
    found_before: int


class Promotion(NamedTuple):
    """Whether to promote a grammar now, and the number of sequences at which to ask again; 0 is never."""

    now: bool
    ask_at: int


def choose_promotion(use: Use) -> Promotion:
    """Whether a grammar that is served on demand is worth completing in the background.

    It is if the later half of its sequences still met new states, `NEW_STATES` each at the mean: as many
    sequences again will meet about as many, and wait 10 to 200 us for each. Where they met fewer, nobody would
    notice, while completing finds 2 to 40 times as many states as were ever asked for.
    """
    if use.sequences < FIRST_LOOK:
        return Promotion(False, FIRST_LOOK)
    if 2 * (use.found - use.found_before) >= NEW_STATES * use.sequences:
        return Promotion(True, 0)
    return Promotion(False, 2 * use.sequences if 2 * use.sequences <= LAST_LOOK else 0)
