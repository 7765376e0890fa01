"""The rule of strategy "auto": from measurements of a grammar to its strategy.

What: `choose`, a pure function. Its arguments are counts. It does not look at a clock, at other grammars or
at the machine, so equal arguments give equal results everywhere.
When: called by `hybrid.compile.engine_strategies`. docs/strategies.md has the measurements behind the rule.
Limits: the rule does not know what is impossible for a grammar. The caller finds out, and asks again.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

FEW_CLASSES = 256
"""Up to this number of classes, representatives are used for vocabularies of any size."""

MOST_TRIED = 256
"""Most classes that are tried at each step, 3 to 6 us each; plain XGrammar's masks take 10 us to 20 ms."""


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
    in less time than XGrammar takes to compile them, and its masks and tokens take a fifth of the time. Its
    states are computed on demand, because documents need only a small part of them.
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
