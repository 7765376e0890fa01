"""Running one case of `tests.robustness.fuzz`: compiled on every strategy, then random walks.

What: `run_case` does it, or takes given steps again, and `program` writes how to do so. The steps of a walk
depend on the case and the truth alone, so that they are the same whatever our side answers, and for the peer
alone.
When: by the processes of `tests.robustness.fuzz`.
Limits: what our compiler refuses is counted by name; a case that it refuses on strategy "engine" is not given
to XGrammar, which may not survive it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from time import monotonic
from typing import Any

import numpy as np

from bench.workloads import load_vocabulary
from hybrid import Budget, GrammarCompiler, HybridError, Vocabulary
from hybrid.testing.random_walk import Walker
from tests.robustness.fuzz.inputs import SPARSE, Case, odd_texts
from tests.robustness.fuzz.truth import Bits, truth_of
from tests.robustness.fuzz.walks import Finding, Outcome, Step, Walk, described

BUDGET = Budget(seconds=8)
"""Of one compilation of ours: what is not done by then is refused by name."""

WAYS = ("torch", "numpy", "row", "batch")
"""Where a mask is written: a tensor, an array, a row of a larger tensor, rows of a batch of matchers."""


def draw_step(rng: random.Random, walk: Walk, allowed: Bits | None, walker: Walker | None) -> Step:
    """A move; `allowed` is the mask of the truth, None where it has ended."""
    kind = rng.random()
    if walk.truth.is_far:
        return ("reset",)
    if allowed is None:
        return ("rollback", rng.randint(1, 3)) if walk.depth and kind < 0.7 else ("reset",)
    if kind < 0.07 and walk.depth:
        return ("rollback", rng.randint(1, 4))
    if kind < 0.11:
        return ("fork",) if not walk.depths or rng.random() < 0.5 else ("back",)
    if kind < 0.12:
        return ("reset",)
    tokens = walk.truth.tokens
    if kind < 0.16:
        fitting = [tokens[token] for token in np.flatnonzero(allowed).tolist()]
        texts = tokens, fitting or tokens, odd_texts(walk.case.drawn)
        return ("string", b"".join(rng.choice(rng.choice(texts)) for _ in range(rng.randint(1, 2))))
    if kind < 0.21 or not allowed.any():
        return ("token", rng.randrange(-1, len(tokens) + 1))  # or an id that there is not
    if walker is not None:
        return ("token", walker.draw_from(allowed))
    choices = np.flatnonzero(allowed)
    token = int(rng.choice(choices))
    if token in walk.truth.stops and rng.random() < 0.7:
        token = int(rng.choice(choices))
    return ("token", token)


LENGTHS = (6, 12, 12, 25, 50)


def run_walk(case: Case, walk: Walk, number: int, deadline: float) -> None:
    """One random walk."""
    rng = random.Random(f"{case.seed} {number}")
    walker = None
    if case.vocabulary != SPARSE:
        walker = Walker(rng, walk.truth.tokens, walk.truth.stops, 0.5)
    for _ in range(rng.choice(LENGTHS)):
        if rng.random() < 0.02:
            walk.do(("promote",))
        if rng.random() < 0.01:
            walk.do(("reload",))
        allowed = None
        if not walk.truth.is_terminated():
            walk.do(("mask", rng.choice(WAYS)))
            allowed = walk.truth.now
            if rng.random() < 0.1:
                walk.do(("forced",))
            if rng.random() < 0.1:
                walk.do(("extras",))
        walk.do(draw_step(rng, walk, allowed, walker))
        if monotonic() > deadline:
            walk.outcome.ended_early = True
            return


def compile_all(case: Case, vocabulary: Any, strategies: Sequence[str], outcome: Outcome) -> dict[str, Any]:
    """Ours on each strategy; what is refused by name is counted, any other error is a finding."""
    compiled = {}
    for strategy in strategies:
        try:
            options = {"strategy": strategy, "cache_enabled": False, "budget": BUDGET, **case.compiler}
            # not closed: that would end the process of the guard, which the next case needs again
            compiled[strategy] = case.compile_ours(GrammarCompiler(vocabulary, **options))
            outcome.chosen[strategy] = compiled[strategy].strategy
        except HybridError as error:
            outcome.refusals.append((strategy, type(error).__name__, str(error)))
        except Exception as error:  # noqa: BLE001 - of whatever type, it is ours
            if case.drawn.parser == "lark" and isinstance(error, RuntimeError):
                outcome.refusals.append((strategy, "not parsed", str(error)))  # by XGrammar, in `Case.parse`
                continue
            outcome.other[strategy] += 1
            outcome.findings.append(Finding(strategy, "compile", (), note=described(error)))
    return compiled


def run_case(
    case: Case,
    strategies: Sequence[str] | None = None,
    steps: Sequence[Step] | None = None,
    seconds: float = 1e9,
) -> Outcome:
    """Compile a case, and walk.

    Args:
        case: what is run.
        strategies: of ours; None: all that the kind has; none: the peer alone.
        steps: the steps of one walk; None: the case's own random walks.
        seconds: walks end when so many have passed.
    """
    began, vocabulary = monotonic(), vocabulary_of(case)
    outcome = Outcome(case.drawn.kind, case.vocabulary)
    strategies = case.strategies if strategies is None else strategies
    compiled = compile_all(case, vocabulary, strategies, outcome)
    if strategies and not compiled:
        return outcome
    refused = {name for strategy, name, _ in outcome.refusals if strategy == "engine"}
    if refused:  # for a reason: XGrammar may not survive it
        return outcome
    try:
        make_truth = truth_of(case, vocabulary)
    except RuntimeError as error:
        outcome.refusals.append(("plain", type(error).__name__, str(error)))
        return outcome
    deadline = began + seconds
    for number in range(case.walks if steps is None else 1):
        walk = Walk(case, compiled, make_truth(), outcome)
        try:
            if steps is None:
                run_walk(case, walk, number, deadline)
            else:
                for step in steps:
                    walk.do(step)
        except (RuntimeError, MemoryError) as error:  # what ours raises is caught where it is asked
            outcome.refusals.append(("plain", type(error).__name__, str(error)))
            break
        if monotonic() > deadline:
            outcome.ended_early = True
            break
    outcome.seconds = monotonic() - began
    return outcome


real_vocabulary = cache(load_vocabulary)
"""A real vocabulary, loaded once."""


def vocabulary_of(case: Case) -> Vocabulary:
    """The vocabulary of a case, drawn or loaded."""
    if case.vocabulary != SPARSE:
        return real_vocabulary(case.vocabulary)
    return Vocabulary.from_bytes(list(case.tokens), stop_token_ids=list(case.stops))


def program(case: Case, finding: Finding) -> str:
    """A program that finds the same again, and in which the grammar, the tokens and the steps can be made
    fewer."""
    strategies = (finding.strategy,) if finding.strategy else None
    return f"""from tests.robustness.fuzz.grammars import Drawn
from tests.robustness.fuzz.inputs import Case
from tests.robustness.fuzz.run import run_case
case = {case!r}
steps = {finding.steps or None!r}
print(run_case(case, {strategies!r}, steps).findings)"""
