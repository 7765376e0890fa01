"""The rule of strategy "auto": from measurements of a grammar to its strategy.

What: pure functions. `choose` gives the strategy of a grammar when it is compiled. `choose_classes` decides,
from the grammar's use, when masks from walks are replaced by token classes. `choose_promotion` decides when
all states of a classifier are computed. The arguments are counts. No function looks at a clock, at other
grammars or at the machine, so equal arguments give equal results everywhere.
When: called by `hybrid.compile.compilation` and `hybrid.compile.promotion`. docs/strategies.md has the
measurements behind the rule.
Limits: the rule does not know what is impossible for a grammar. The caller finds out, and asks again.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

FEW_CLASSES = 256
"""Up to this number of classes, representatives are used for vocabularies of any size."""

MOST_TRIED = 256
"""Most classes that are tried at each step, 3 to 6 us each; plain XGrammar's masks take 10 us to 20 ms."""

FIRST_LOOK = 4
"""Sequences after which promotion is first considered; then again whenever their number has doubled."""

LAST_LOOK = 4096
"""Sequences after which promotion is no longer considered."""

WORTH = 3
"""Cost of a state that a text asks for, relative to one that is computed with all others: 20 us and 6 us."""

BEGINNING = 150
"""Fixed cost of a promotion, counted in states: 1 ms."""

ENOUGH = 32
"""Sequences after which a promotion is cheap compared with them, if there are few states."""

STATES_SERVED = 4
"""What counts as few states then, for each sequence: 24 us, where a short document takes 150 us."""


ENTERED_A_STATE = 6000
"""Cost of token classes for each state of a network, counted in trie nodes that walks enter: 60 us for JSON
schemas and 280 for a grammar like C, with the tables that follow, against 50 ns for a node and what is made
of it. Walks end by themselves: after 380 JSON files, 330 SQL queries or 320 files of C, and after 1,000
documents of a schema, they have entered 6 to 1,100 nodes for each state, and a token with its mask takes as
long as with classes (0.7 us). So classes are computed without being asked for only if walks do not end."""


class Measured(NamedTuple):
    """What is known of a grammar before its strategy is chosen.

    Attributes:
        stacks_decide: whether masks depend on bytes and the parser's stack alone, and the budget was enough
            for a classifier.
        explored: whether its classes come from exploring its network, and not from byte strings.
        classes: number of its token classes; 0 if there are none.
        tokens: number of ids that have text.
        tried: whether XGrammar's masks over the classes cannot be trusted, always or after some tokens, so
            that each class must be tried.
    """

    stacks_decide: bool
    explored: bool
    classes: int
    tokens: int
    tried: bool = False


class Choice(NamedTuple):
    """The strategy of a grammar, and the reason in a few words."""

    strategy: Literal["classifier", "representatives", "engine"]
    reason: str


def choose(measured: Measured) -> Choice:
    """The strategy that "auto" chooses.

    It is a classifier whenever that is possible. A classifier is built from the same data as representatives,
    in less time than XGrammar takes to compile them, and its masks and tokens take a fifth of the time. At
    first its states are computed on demand, because documents need only a small part of them
    (`choose_promotion` decides when that ends).
    """
    if measured.stacks_decide and measured.explored:
        return Choice("classifier", "this gives the first mask sooner")
    if not measured.classes:
        return Choice("engine", "no token classes")
    # there may be nearly as many classes of byte strings as tokens; then they cost more than they save
    if measured.tried and measured.classes > MOST_TRIED:
        return Choice("engine", f"each of {measured.classes} classes would have to be tried at each step")
    if not measured.explored and measured.classes > max(measured.tokens // 2, FEW_CLASSES):
        return Choice("engine", f"{measured.classes} classes for {measured.tokens} tokens save nothing")
    return Choice("representatives", "bytes and the parser's stack alone do not decide")


class Use(NamedTuple):
    """How much a grammar has been used whose states are computed on demand.

    Attributes:
        sequences: sequences started so far, including the one that starts now; 0 right after compiling.
        found: states of its automaton that these sequences needed.
        found_before: the same number when half as many sequences had started.
        states: states of its network. For nine of ten JSON schemas, the automaton has 0.7 to 3 times as many.
        static: whether the caller asked for all states at once.
        deterministic: whether the same calls must lead to the same decisions in every process.
        entered: trie nodes that walks have entered, if masks come from walks.
    """

    sequences: int = 0
    found: int = 0
    found_before: int = 0
    states: int = 0
    static: bool = False
    deterministic: bool = False

    entered: int = 0


class Promotion(NamedTuple):
    """Whether to compute all states now, and if not, after how many sequences to ask again; 0 means never."""

    now: bool
    ask_at: int


def enough_entered(states: int) -> int:
    """How many trie nodes walks enter in the time that it takes to compute the classes of a network."""
    return ENTERED_A_STATE * (states + BEGINNING)


def choose_classes(use: Use) -> Promotion:
    """Whether to compute token classes now, in the background, for a grammar whose masks come from walks.

    Yes, once walks have cost as much as the classes will, which is rare. This is the rule of the ski-rental
    problem: it costs at most twice the optimum. It is asked after 1, 2, 4 ... sequences, and within a
    sequence when walks have entered that many nodes.
    """
    if use.entered >= enough_entered(use.states):
        return Promotion(True, use.sequences + 1)
    return Promotion(False, 2 * use.sequences if 2 * use.sequences <= LAST_LOOK else 0)


def choose_promotion(use: Use) -> Promotion:
    """Whether to compute all states of a classifier now, instead of on demand.

    Yes, at once, if the caller asked for it (`static`). Otherwise yes, in the background, if the second half
    of the sequences needed at least one new state, and

    - it needed so many new states that computing all of them in advance is cheaper, assuming that as many
      sequences again will need about as many; or
    - the grammar has been used so much that the promotion is cheap in comparison. After it, no text waits
      for a state any more, which takes 20 to 100 us.

    Which states sequences needed depends on the order of threads, so a deterministic compiler ignores it.
    """
    if use.static:
        return Promotion(True, 0)
    if use.deterministic:
        return Promotion(False, 0)
    if use.sequences < FIRST_LOOK:
        # at the end of the first half its states are counted
        return Promotion(False, FIRST_LOOK if 2 * use.sequences >= FIRST_LOOK else FIRST_LOOK // 2)
    new, cost = use.found - use.found_before, use.states + BEGINNING
    pays = WORTH * new >= cost
    is_little = use.sequences >= ENOUGH and cost <= STATES_SERVED * use.sequences + 2 * BEGINNING
    if new >= 1 and (pays or is_little):
        return Promotion(True, 0)
    return Promotion(False, 2 * use.sequences if 2 * use.sequences <= LAST_LOOK else 0)
