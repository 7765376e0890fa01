"""The rule of strategy "auto": what is measured of a grammar in, what it runs on out.

What: pure functions. `choose` takes what is known when a grammar is compiled and gives its strategy;
`choose_classes` takes what is known of its use and says when masks that are walked get classes, and
`choose_promotion` when the states of its classifier, which begins with none, are all to be found. Counts go
in; none of them looks at a clock, at other grammars or at the machine, so that equal input gives equal
output everywhere.
When: by `hybrid.compile.compilation` and `hybrid.compile.promotion`; docs/strategies.md has the measurements
behind it.
Limits: what cannot be had is found out by whoever tries it, and asked about again without it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

FEW_CLASSES = 256
"""Up to this number of classes representatives are taken whatever the vocabulary's size."""

MOST_TRIED = 256
"""Classes that are tried at each step at most, 3 to 6 us each; plain XGrammar's masks take 10 us to 20 ms."""

FIRST_LOOK = 4
"""Sequences after which a promotion is thought of first; then after each doubling."""

LAST_LOOK = 4096
"""Sequences after which it is not thought of any more."""

WORTH = 3
"""How many times as long a state takes when a text asks for it as among all others: 20 us and 6 us."""

BEGINNING = 150
"""States that could be found in the time that a promotion takes besides: 1 ms."""

ENOUGH = 32
"""Sequences after which a promotion costs little beside what they took, where there are few states."""

STATES_SERVED = 4
"""States for each sequence that are few then: 24 us, where a short document takes 150 us."""


ENTERED_A_STATE = 600
"""Nodes that walks enter, 20 ns each, in the time that classes take for each state of a network: 12 us at the
median of 600 JSON schemas."""


class Measured(NamedTuple):
    """What is known of a grammar before its strategy is.

    Attributes:
        stacks_decide: whether bytes and stacks alone decide, and the budget sufficed for a classifier.
        explored: whether its classes are those of its network, explored, and not of byte strings.
        classes: number of its token classes; 0 where there are none.
        tokens: ids of the vocabulary that have text.
        tried: whether XGrammar's masks over the classes cannot be trusted, from the beginning or after some
            tokens, so that each class is tried.
    """

    stacks_decide: bool
    explored: bool
    classes: int
    tokens: int
    tried: bool = False


class Choice(NamedTuple):
    """What a grammar is run on, and why in a few words."""

    strategy: Literal["classifier", "representatives", "engine"]
    reason: str


def choose(measured: Measured) -> Choice:
    """What "auto" runs a grammar on.

    A classifier wherever there can be one. It is made of what representatives need as well, in less time than
    XGrammar compiles them, and its masks and tokens take a fifth of the time. Its states are found on demand
    at first, as documents ask for a small part of them (`choose_promotion` says when that ends).
    """
    if measured.stacks_decide and measured.explored:
        return Choice("classifier", "the first mask comes sooner")
    if not measured.classes:
        return Choice("engine", "no token classes")
    # classes of byte strings may be nearly as many as the tokens, and then cost more than they save
    if measured.tried and measured.classes > MOST_TRIED:
        return Choice("engine", f"each of {measured.classes} classes would have to be tried at each step")
    if not measured.explored and measured.classes > max(measured.tokens // 2, FEW_CLASSES):
        return Choice("engine", f"{measured.classes} classes for {measured.tokens} tokens save nothing")
    return Choice("representatives", "bytes and stacks alone do not decide")


class Use(NamedTuple):
    """What is known of the use of a grammar whose states are found on demand.

    Attributes:
        sequences: sequences begun so far, the one that begins now included; 0 when it was just compiled.
        found: states of its automaton that they met.
        found_before: those met when half as many sequences had begun.
        states: states of its network: the automaton has 0.7 to 3 times as many in nine of ten JSON schemas.
        static: its caller said that it is for long use.
        deterministic: the same calls have to lead to the same decisions in every process.
        entered: nodes of the vocabulary's trie that walks entered, where masks are walked.
    """

    sequences: int = 0
    found: int = 0
    found_before: int = 0
    states: int = 0
    static: bool = False
    deterministic: bool = False

    entered: int = 0


class Promotion(NamedTuple):
    """Whether to find all states now, and else the number of sequences at which to ask again; 0 is never."""

    now: bool
    ask_at: int


def enough_entered(states: int) -> int:
    """Nodes that walks of a network of so many states enter in the time that its classes take."""
    return ENTERED_A_STATE * (states + BEGINNING)


def choose_classes(use: Use) -> Promotion:
    """When a grammar whose masks are walked gets classes, in the background.

    Once walks have taken as long as classes would: whoever pays rent until it is as much as the price, and
    buys then, pays at most twice what was best. It is asked after 1, 2, 4 ... sequences, and once within a
    sequence, when so much was entered.
    """
    if use.entered >= enough_entered(use.states):
        return Promotion(True, use.sequences + 1)
    return Promotion(False, 2 * use.sequences if 2 * use.sequences <= LAST_LOOK else 0)


def choose_promotion(use: Use) -> Promotion:
    """When the states of a classifier that began on demand are all to be found.

    At once if it is for long use. Else, in the background, if the later half of its sequences met at least
    one new state, and

    - it met so many that to find all of them beforehand takes less: as many sequences again will meet about
      as many; or
    - the grammar has served enough that the promotion takes little beside it: then nobody waits for a state
      any more, 20 to 100 us in the middle of a text.

    What sequences met depends on the order of threads, so a deterministic compiler does not go by it.
    """
    if use.static:
        return Promotion(True, 0)
    if use.deterministic:
        return Promotion(False, 0)
    if use.sequences < FIRST_LOOK:
        # the states of the first half are counted at its end
        return Promotion(False, FIRST_LOOK if 2 * use.sequences >= FIRST_LOOK else FIRST_LOOK // 2)
    new, cost = use.found - use.found_before, use.states + BEGINNING
    pays = WORTH * new >= cost
    is_little = use.sequences >= ENOUGH and cost <= STATES_SERVED * use.sequences + 2 * BEGINNING
    if new >= 1 and (pays or is_little):
        return Promotion(True, 0)
    return Promotion(False, 2 * use.sequences if 2 * use.sequences <= LAST_LOOK else 0)
