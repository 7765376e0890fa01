"""The rows of a generation: what each has read so far, and which of them a new row goes on with.

What: a `State` is a row with its matcher; a `Generation` has those of one prompt and finds the ones that
reach the rows of a call.
When: by `adapters.transformers`, whose page says what is prompt and what was generated.
Limits: knows ids and matchers only, neither scores nor a framework.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable
from typing import Literal

import numpy as np
import numpy.typing as npt

from hybrid import GrammarMatcher

Ids = npt.NDArray[np.int64]

SPARE_STATES = 16
"""Matchers kept per prompt beyond one per row: abandoned drafts, beams of another group."""


class State:
    """A row as it was last seen: its ids (prompt included) and a matcher that has read the generated ones.

    ``fed`` counts the generated tokens in the matcher. It stays behind once the row has ``ended``: at a stop
    token (the matcher has terminated; padding may follow) or at a token that the matcher rejected.
    """

    __slots__ = ("ended", "fed", "group", "ids", "length", "matcher", "prompt_length")

    def __init__(self, matcher: GrammarMatcher, prompt: Ids, group: int) -> None:
        self.matcher = matcher
        self.ids: Ids = prompt.copy()
        self.length = self.prompt_length = len(prompt)
        self.group = group
        self.fed = 0
        self.ended: Literal["", "stop", "rejected"] = ""

    @property
    def generated(self) -> Ids:
        """int64: the ids behind the prompt."""
        return self.ids[self.prompt_length : self.length]

    def append(self, token: int) -> bool:
        """Add one token; False if it is the one at which the row leaves the grammar."""
        if self.length == len(self.ids):  # doubled, so that a step costs O(1) however long the row is
            self.ids = np.concatenate([self.ids, np.empty(max(64, self.length), np.int64)])
        self.ids[self.length] = token
        self.length += 1
        if self.ended:
            return True
        if not self.matcher.accept_token(token):
            self.ended = "rejected"
            return False
        self.fed += 1
        if self.matcher.is_terminated():
            self.ended = "stop"
        return True

    def rewind(self, length: int) -> None:
        """Forget the tokens from column ``length`` on."""
        generated = length - self.prompt_length
        if generated < self.fed:
            self.matcher.rollback(self.fed - generated)
            self.fed = generated
            self.ended = ""
        elif self.ended == "rejected" and generated == self.fed:
            self.ended = ""
        self.length = length

    def fork(self) -> State:
        """A state of the same row, which goes on without this one."""
        twin = State(self.matcher.fork(), self.ids[: self.length], self.group)
        twin.prompt_length, twin.fed, twin.ended = self.prompt_length, self.fed, self.ended
        return twin

    def reaches(self, row: Ids) -> bool:
        """Is ``row`` something this state has seen, or that and one more token?"""
        parent = len(row) - 1
        if self.length < parent or (parent and self.ids[parent - 1] != row[parent - 1]):
            return False
        return np.array_equal(self.ids[:parent], row[:parent])

    def extends_to(self, row: Ids) -> bool:
        """For a row that is reached: without taking anything back?"""
        return self.length < len(row) or (self.length == len(row) and self.ids[len(row) - 1] == row[-1])


class Generation:
    """One run of `generate`: its prompts and the states of the rows seen so far."""

    def __init__(self, prompt: Ids, groups: list[int]) -> None:
        self.prompt = prompt
        self.groups = groups  # row -> number of its (prompt, grammar); rows of one group are interchangeable
        self.rows: list[State] = []  # the last call, row by row
        self.spare: dict[int, list[State]] = {}  # other states by group, the most recent first
        self.longest = prompt.shape[1]

    def states(self) -> Iterable[State]:
        """All states, those of the last call first."""
        return itertools.chain(self.rows, *self.spare.values())

    def find(self, host: Ids) -> list[State | None]:
        """For each row a state that reaches it, one that need not be taken back where there is one."""
        by_group: dict[int, list[State]] = defaultdict(list)
        for state in self.rows:
            by_group[state.group].append(state)
        for group, states in self.spare.items():
            by_group[group].extend(states)
        found: list[State | None] = []
        for index, row in enumerate(host):
            best: State | None = None
            # The state of the same row first: outside beam search it is the right one.
            for state in (self.rows[index], *by_group[self.groups[index]]):
                if state.reaches(row):
                    best = best or state
                    if state.extends_to(row):
                        best = state
                        break
            found.append(best)
        return found

    def keep(self, rows: list[State], length: int) -> None:
        """Make ``rows`` the last call; keep what another row of this length or the next may continue."""
        taken = {id(state) for state in rows}
        spare: dict[int, list[State]] = {}
        for state in self.states():
            if id(state) not in taken and state.length >= length - 1:
                spare.setdefault(state.group, []).append(state)
        self.spare = {group: states[:SPARE_STATES] for group, states in spare.items()}
        self.rows = rows
        self.longest = max(self.longest, length)
