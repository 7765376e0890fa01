"""A walk through one case: every strategy's matcher beside the truth, every bit and every answer compared.

What: `Walk` holds the sides in one state and does a step on all of them; what is wrong becomes a `Finding`.
When: by `run`, which draws the steps.
Limits: a side that was wrong once is left out for the rest of the walk.

The truth is `accept_token` of plain XGrammar over the whole vocabulary, asked about each token of a sparse
one and about the bits that differ in a real one; for a grammar of Lark's it is Lark (`truth`).
"""

from __future__ import annotations

import os
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from equivalence import BudgetExceeded, HybridError, StrategyError
from hybrid import BatchGrammarMatcher, CompiledGrammar, GrammarCompiler, GrammarMatcher
from hybrid.classifier.follower import ClassifierFollower
from hybrid.representatives.follower import EngineFollower
from hybrid.testing.mask_comparison import bits_of
from tests.matchers import mask_of
from tests.robustness.fuzz.inputs import Case
from tests.robustness.fuzz.truth import Truth

Step = tuple[Any, ...]
"""A step: its name, and what it takes: ("token", 3), ("rollback", 2), ("mask", "row") ..."""

LONG_FORCED = 1000
"""Bytes forced from which on plain XGrammar is not asked: it does not return where there is no end."""

KEPT = 20
"""Findings of one case that are kept."""


@dataclass
class Finding:
    """Something that is wrong on our side.

    Attributes:
        strategy: of ours.
        what: "bit", or the name of the call whose answer is wrong, or "error" for an exception.
        steps: that lead there, the last one shows it.
        token: id, -1 where there is none.
        ours, truth: the two answers.
        note: of an exception.
        ran_on: what the strategy was, where "auto" chose it, or another stood in.
    """

    strategy: str
    what: str
    steps: tuple[Step, ...]
    token: int = -1
    ours: Any = None
    truth: Any = None
    note: str = ""
    ran_on: str = ""


@dataclass
class Outcome:
    """What a case came to; counts are by strategy, "plain" is plain XGrammar or Lark."""

    kind: str
    vocabulary: str
    masks: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    other: Counter[str] = field(default_factory=Counter)
    contradictions: Counter[str] = field(default_factory=Counter)
    refusals: list[tuple[str, str, str]] = field(default_factory=list)
    chosen: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    ended_early: bool = False
    seconds: float = 0.0


@dataclass
class Side:
    """One of our matchers."""

    strategy: str
    compiled: Any
    matcher: Any
    parents: list[Any] = field(default_factory=list)
    alive: bool = True

    @property
    def is_plain(self) -> bool:
        """Whether its masks are plain XGrammar's own: on strategy "engine", or because a classifier has
        handed over, as after an id that was read both as text and as an id."""
        is_on_engine = isinstance(self.matcher._follower, EngineFollower)
        return self.compiled.strategy == "engine" or (self.compiled.classifier is not None and is_on_engine)

    @property
    def is_classifier(self) -> bool:
        return isinstance(self.matcher._follower, ClassifierFollower)


class Walk:
    """All sides in one state.

    Args:
        case: what is walked through.
        compiled: ours, by strategy.
        truth: at its start.
        outcome: where counts go.
    """

    def __init__(self, case: Case, compiled: dict[str, Any], truth: Truth, outcome: Outcome) -> None:
        self.case, self.truth, self.outcome = case, truth, outcome
        self.steps: list[Step] = []
        self.depth = 0
        self.depths: list[int] = []
        self.sides = [Side(name, one, None) for name, one in compiled.items()]
        for side in self.sides:
            try:
                side.matcher = self._begin(side.compiled)
            except HybridError as error:
                side.alive = False
                outcome.refusals.append((side.strategy, type(error).__name__, str(error)))
        self.flip = 0

    def _begin(self, compiled: Any) -> Any:
        return GrammarMatcher(compiled, **self.case.options)

    def wrong(self, side: Side, what: str, token: int, ours: Any, truth: Any, note: str = "") -> None:
        """Note what is wrong, and leave the side out from here on."""
        side.alive = False
        counts = self.outcome.wrong if what == "bit" else self.outcome.other
        counts[side.strategy] += 1
        if len(self.outcome.findings) < KEPT:
            found = Finding(side.strategy, what, tuple(self.steps), token, ours, truth, note)
            found.ran_on = side.compiled.strategy
            self.outcome.findings.append(found)

    def each(self, what: str, call: Callable[[Side], Any], truth: Any, token: int = -1) -> None:
        """The answer of every side has to be the truth."""
        for side in self.sides:
            if side.alive:
                try:
                    answer = call(side)
                except Exception as error:  # noqa: BLE001 - noted with the way here
                    self.wrong(side, "error", token, None, truth, described(error))
                else:
                    if answer == truth:
                        continue
                    if self.case.drawn.counts and side.is_plain:
                        # XGrammar itself answers otherwise after forks, resets and masks (docs/limits.md)
                        side.alive = False
                        self.outcome.contradictions[side.strategy] += 1
                    else:
                        self.wrong(side, what, token, answer, truth)

    def do(self, step: Step) -> None:
        """Do a step on all sides, and compare."""
        self.steps.append(step)
        getattr(self, f"_{step[0]}")(*step[1:])

    # ---- moves

    def _token(self, token: int) -> None:
        if self.case.drawn.counts and not self.truth.is_terminated():
            self._fill_all()  # an exhausted budget is enforced by the mask before the token
        taken = self.truth.accept_token(token)
        self.each("accept_token", lambda side: bool(side.matcher.accept_token(token)), taken, token)
        self.depth += taken
        self._state()

    def _string(self, text: bytes) -> None:
        taken = self.truth.accept_string(text)
        self.each("accept_string", lambda side: bool(side.matcher.accept_string(text)), taken)
        self.depth += taken
        self._state()

    def _rollback(self, count: int) -> None:
        count = min(count, self.depth)
        if count:
            self.truth.rollback(count)
            self.each("rollback", lambda side: side.matcher.rollback(count), None)
            self.depth -= count
            self._state()

    def _reset(self) -> None:
        self.truth.reset()
        self.each("reset", lambda side: side.matcher.reset(), None)
        self.depth = 0
        self._state()

    def _fork(self) -> None:
        """Go on with copies; ``back`` returns to what they were copied from."""
        self.truth.fork()
        self.depths.append(self.depth)

        def fork(side: Side) -> None:
            twin = side.matcher.fork()
            side.parents.append(side.matcher)
            side.matcher = twin

        self.each("fork", fork, None)

    def _back(self) -> None:
        if self.depths:
            self.depth = self.depths.pop()
            self.truth.back()

            def back(side: Side) -> None:
                side.matcher = side.parents.pop()

            self.each("back", back, None)
            self._state()

    def _promote(self) -> None:
        def promote(side: Side) -> None:
            if side.compiled.classifier is not None:
                with suppress(BudgetExceeded):
                    side.compiled.promote()

        self.each("promote", promote, None)

    def _reload(self) -> None:
        """Save what can be saved, load it, and go on with that from the start."""

        def reload(side: Side) -> None:
            # what names ids, or must remember items, cannot be saved
            with suppress(StrategyError), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "grammar.equimask")
                side.compiled.save(path)
                side.compiled = CompiledGrammar.load(path, side.compiled.vocabulary)
                side.matcher = self._begin(side.compiled)

        self.each("save and load", reload, None)
        self._reset()

    # ---- comparisons

    def _state(self) -> None:
        truth = self.truth
        self.each("is_terminated", lambda side: side.matcher.is_terminated(), truth.is_terminated())
        self.each("is_completed", lambda side: side.matcher.is_completed(), truth.is_completed())

    def _forced(self) -> None:
        """The text forced next; where it may have no end, XGrammar is not asked."""
        if self.truth.matcher is None or self.truth.is_terminated():
            return
        guard = next((side for side in self.sides if side.alive and side.is_classifier), None)
        if not (self._is_all_forced(guard.matcher) if guard else self.case.drawn.bounded):
            return
        # plain XGrammar ignores ids here, so another end of the text may come with an id
        if self.case.drawn.ids and any(side.compiled.may_force_endless_text for side in self.sides):
            return
        truth = _forced(self.truth.matcher)

        def forced(side: Side) -> str:
            text = _forced(side.matcher)
            # where XGrammar might not return it is not asked, and nothing is found
            is_asked = side.is_classifier or not side.matcher._follower._compiled.may_force_endless_text
            return text if text or is_asked else truth

        self.each("find_jump_forward_string", forced, truth)

    def _is_all_forced(self, matcher: Any) -> bool:
        """Whether what is forced is short and ends; a classifier gives less where its tables are full."""
        text = _forced(matcher)
        twin = matcher.fork()
        if len(text) > LONG_FORCED or not twin.accept_string(text):
            return False
        return len({self.truth.tokens[token][:1] for token in mask_of(twin)}) > 1

    def _extras(self) -> None:
        matcher = self.truth.matcher
        if matcher is not None:
            others, self.sides = self.sides, [side for side in self.sides if side.compiled.classifier is None]
            if (
                "{" not in self.case.drawn.source
            ):  # XGrammar gives no captures of a repeated rule (docs/limits.md)
                self.each("get_captures", lambda side: side.matcher.get_captures(), matcher.get_captures())
            self.each("temperature", lambda side: side.matcher.temperature, matcher.temperature)
            self.sides = others

    def _fill_all(self) -> None:
        self.truth.fill()
        size = self.truth.size
        self.each("fill", lambda side: len(_written(side.matcher, size, "torch", 0)), 2)

    def _mask(self, way: str) -> None:
        """Compare every bit of every side's mask.

        Args:
            way: where it is written: "torch", "numpy" (an array), "row" (of a larger tensor), "batch" (with
                other matchers, in one call).
        """
        if self.truth.is_terminated():
            return
        self.truth.fill()
        rows: dict[int, NDArray[np.bool_]] = {}
        needed: dict[int, bool] = {}
        self.flip ^= 1
        alive = [side for side in self.sides if side.alive]
        if way == "batch" and len(alive) > 1:
            self._batch(alive, rows)
        for number, side in enumerate(alive):
            if number not in rows and side.alive:
                try:
                    rows[number], needed[number] = _written(side.matcher, self.truth.size, way, self.flip)
                except Exception as error:  # noqa: BLE001 - noted with the way here
                    self.wrong(side, "error", -1, None, None, described(error))
        truth = self.truth.settle(list(rows.values()))
        plain = self.truth.plain
        if plain is not None:
            self.outcome.masks["plain"] += 1
            self.outcome.contradictions["plain"] += int(np.count_nonzero(plain != truth))
        for number, row in rows.items():
            side = alive[number]
            self.outcome.masks[side.strategy] += 1
            different = np.flatnonzero(row != truth)
            if side.is_plain and plain is not None and different.size:
                own = different[row[different] != plain[different]]
                self.outcome.contradictions[side.strategy] += different.size - own.size
                different = own
            if different.size:
                token = self.truth.sure(different, row)
                if token is not None:
                    self.wrong(side, "bit", token, bool(row[token]), bool(truth[token]))
            elif not needed.get(number, True) and not row.all():
                self.wrong(side, "need_apply", -1, False, True)

    def _batch(self, alive: list[Side], rows: dict[int, NDArray[np.bool_]]) -> None:
        """One row for each side, one for a copy of the first, and one for a matcher of another grammar."""
        size = self.truth.size
        try:
            other = companion(alive[0].compiled.vocabulary)
            matchers = [*(side.matcher for side in alive), alive[0].matcher.fork(), GrammarMatcher(other)]
            bitmask = torch.full((len(matchers) + 2, (size + 31) // 32), 0x55555555, dtype=torch.int32)
            places = list(range(len(matchers), 0, -1))
            BatchGrammarMatcher().batch_fill_next_token_bitmask(matchers, bitmask, places)
            found = [bits_of(bitmask[place], size) for place in places]
            alone = _written(matchers[-1], size, "torch", 0)[0]
            untouched = bool((bitmask[[0, -1]] == 0x55555555).all())
        except Exception as error:  # noqa: BLE001 - noted with the way here
            for side in alive:
                self.wrong(side, "error", -1, None, None, described(error))
            return
        rows.update(enumerate(found[: len(alive)]))
        if not untouched or (found[-1] != alone).any() or (found[-2] != found[0]).any():
            self.wrong(alive[0], "batch", -1, "other rows", "their own masks")


@lru_cache(1)
def companion(vocabulary: Any) -> Any:
    """Another grammar over a vocabulary, for batches; kept for the last one."""
    compiler = GrammarCompiler(vocabulary, strategy="classifier", cache_enabled=False, deterministic=True)
    return compiler.compile_grammar('root ::= "a" root | [^b] "b"? | "é"{2,5}')


def _written(matcher: Any, size: int, way: str, flip: int) -> tuple[NDArray[np.bool_], bool]:
    """A mask, written over what was there before, and whether it has to be applied."""
    count, index = {"numpy": (2, 1), "row": (5, 3)}.get(way, (1, 0))
    before = -1 if flip else 0x55555555
    rows = np.full((count, (size + 31) // 32), before, np.int32)
    needed = matcher.fill_next_token_bitmask(rows if way == "numpy" else torch.from_numpy(rows), index)
    if (np.delete(rows, index, 0) != before).any():
        raise AssertionError("another row of the bitmask was written to")
    return bits_of(rows[index], size), bool(needed)


def _forced(matcher: Any) -> str:
    try:
        return str(matcher.find_jump_forward_string())
    except UnicodeDecodeError as part_of_a_character:  # of plain XGrammar; ours leave the part out
        return part_of_a_character.object[: part_of_a_character.start].decode()


def described(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = f" at {os.path.basename(last[0].filename)}:{last[0].lineno}" if last else ""
    return f"{type(error).__name__}: {error}{where}"
