"""The rows of a generation: what each has read so far, and which of them a new row continues.

What: a `State` is a row with its matcher. A `Generation` has the states of one batch of prompts, and finds
those from which the rows of a call can be reached.
When: used by `adapters.transformers`.
Limits: it knows only ids and matchers, neither scores nor a framework.

**Prompt or generated text?** `generate` does not say where the prompt ends. With ``prompt_length=n`` the
prompt is the first n columns, including padding, and nothing is guessed. Without it, the processor relies on
one fact: to choose a token, a loop must first ask for the scores before it. So within one generation every
row is *reachable*: it is the prompt, or a row seen before, or such a row with one more token. A call counts

- as the *start* of a generation, with all of its tokens as prompt, if it equals the current prompt; if it has
  other rows or other beginnings than the current prompt; or if some row is not reachable, and either the rows
  are longer than one step could make them, or one of them is not a text of the grammar. It is also a start if
  the rows are not longer than in the call before, and one ends with a token that was masked out (no loop goes
  back to such a token);
- as a *step* if every row is reachable. So a chat that continues (prompt, answer, and two or more tokens) is
  a new generation. But a new prompt that repeats exactly what has just been generated, perhaps with one more
  allowed token, continues the old generation: call `reset` before it, or pass ``prompt_length``;
- as an *error* (`HistoryError`) if both are possible, so that nothing goes wrong unnoticed.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Container, Iterable
from typing import Literal

import numpy as np
import numpy.typing as npt

from hybrid import GrammarMatcher

Ids = npt.NDArray[np.int64]

SPARE_STATES = 16
"""How many more matchers are kept for each prompt than rows: abandoned drafts, beams of another group."""


class State:
    """The last state of a row: its ids, including the prompt, and a matcher that has read the generated ones.

    ``fed`` counts the generated tokens that the matcher has read. It no longer grows when the row has
    ``ended``: at a stop token (the matcher has terminated, and padding may follow), or at a token that the
    matcher rejected.
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
        """int64: the ids after the prompt."""
        return self.ids[self.prompt_length : self.length]

    def append(self, token: int) -> bool:
        """Add a token. Returns False if it is the first token that the grammar rejects."""
        if self.length == len(self.ids):  # doubled, so that a step costs O(1) on average
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

    def is_complete(self, padding: Container[int]) -> bool:
        """Whether the text is complete, and only padding follows it."""
        if self.ended == "stop":
            return True
        return self.matcher.is_completed() and all(
            one in padding for one in self.generated[self.fed :].tolist()
        )

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
        """Return an independent copy."""
        twin = State(self.matcher.fork(), self.ids[: self.length], self.group)
        twin.prompt_length, twin.fed, twin.ended = self.prompt_length, self.fed, self.ended
        return twin

    def reaches(self, row: Ids) -> bool:
        """Whether ``row`` is a beginning of this state's row, or that with one more token."""
        parent = len(row) - 1
        if self.length < parent or (parent and self.ids[parent - 1] != row[parent - 1]):
            return False
        return np.array_equal(self.ids[:parent], row[:parent])

    def extends_to(self, row: Ids) -> bool:
        """For a reachable row, whether it can be reached without taking tokens back."""
        return self.length < len(row) or (self.length == len(row) and self.ids[len(row) - 1] == row[-1])


class Generation:
    """One run of `generate`: its prompts, and the states of the rows so far."""

    def __init__(self, prompt: Ids, groups: list[int]) -> None:
        self.prompt = prompt
        self.groups = groups  # for each row, a number for its (prompt, grammar): rows of a group are alike
        self.rows: list[State] = []  # those of the last call, in order
        self.spare: dict[int, list[State]] = {}  # other states by group, the most recent first
        self.longest = prompt.shape[1]

    def states(self) -> Iterable[State]:
        """Return all states, those of the last call first."""
        return itertools.chain(self.rows, *self.spare.values())

    def find(self, host: Ids) -> list[State | None]:
        """For each row, find a state from which it can be reached, if possible one that need not go back."""
        by_group: dict[int, list[State]] = defaultdict(list)
        for state in self.rows:
            by_group[state.group].append(state)
        for group, states in self.spare.items():
            by_group[group].extend(states)
        found: list[State | None] = []
        for index, row in enumerate(host):
            best: State | None = None
            # Try the state of the same row first: without beam search, it is the right one.
            for state in (self.rows[index], *by_group[self.groups[index]]):
                if state.reaches(row):
                    best = best or state
                    if state.extends_to(row):
                        best = state
                        break
            found.append(best)
        return found

    def keep(self, rows: list[State], length: int) -> None:
        """Make ``rows`` the rows of the last call. Keep other states that may be continued from this
        length."""
        taken = {id(state) for state in rows}
        spare: dict[int, list[State]] = {}
        for state in self.states():
            if id(state) not in taken and state.length >= length - 1:
                spare.setdefault(state.group, []).append(state)
        self.spare = {group: states[:SPARE_STATES] for group, states in spare.items()}
        self.rows = rows
        self.longest = max(self.longest, length)
