"""Base classes of sequence followers.

What: a `Follower` follows one sequence on one strategy. `hybrid.GrammarMatcher` has one, made by
`hybrid.api.matcher.follower_of`. It replaces the follower if an `Outgrown` error brings another one.
When: `ClassifierFollower` and `EngineFollower` follow a grammar. An `OuterFollower` wraps one of these and
removes tokens from its masks.
Limits: callers have checked all arguments.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import Any

from equivalence import BudgetExceeded
from equivalence.deadline import Deadline
from hybrid.values.gather import Gather

Compiled = Any
"""A `hybrid.CompiledGrammar`. Its module imports the followers' rooms, so they do not import it."""

ENDED = "the matcher has terminated: there is no next token"


class Outgrown(Exception):
    """A follower exceeded its budget.

    Attributes:
        follower: a follower on another strategy that has read the same text, and can answer.
    """

    def __init__(self, follower: Follower) -> None:
        super().__init__("another follower goes on")
        self.follower = follower


def joined(read: Iterable[int | bytes | None], tokens: Sequence[bytes]) -> bytes:
    """Join ids, texts and stop tokens (`None`) to one text."""
    parts = (tokens[one] if isinstance(one, int) else one for one in read)
    return b"".join(part for part in parts if part is not None)


class Follower:
    """Follows one sequence through a grammar; `hybrid.GrammarMatcher` says what its methods mean.

    Its methods are abstract for type checkers only: with `abc.ABC`, `isinstance` would take longer.
    """

    @property
    @abstractmethod
    def temperature(self) -> float | None:
        """The sampling temperature that the grammar asks for here."""

    @abstractmethod
    def fill(self, words: Any, debug_print: bool = False) -> bool:
        """Write the mask to uint32[words of a row], and return whether it forbids any id.

        Raises:
            MatcherError: the sequence has ended.
            BudgetExceeded: the mask took longer than `Budget.mask_seconds`.
        """

    @abstractmethod
    def fill_by_class(self, words: Any) -> Gather | None:
        """Write the mask by class to the first words of uint32[n], one bit for each class, if that is
        possible.

        Returns:
            The gather that expands it. The classes have the first bits, the next bit stands for all stop ids,
            and the rest of that word is 0. None if there are no classes now, or too many for the words: then
            the words are undefined, nothing else has changed, and `fill` gives the mask.

        Raises:
            MatcherError, BudgetExceeded: as `fill`.
        """

    @abstractmethod
    def accept_token(self, token: int, debug_print: bool = False) -> bool:
        """Advance by an id of the vocabulary."""

    @abstractmethod
    def accept_string(self, text: bytes, debug_print: bool = False) -> bool:
        """Advance by a text, as one step."""

    @abstractmethod
    def text_read(self) -> bytes:
        """Return the whole text read so far."""

    @abstractmethod
    def check_made(self, steps: int) -> None:
        """Raise `MatcherError` if fewer steps were made."""

    @abstractmethod
    def rollback(self, steps: int) -> None:
        """Take back steps. The follower of an `Outgrown` error has already taken them back."""

    @abstractmethod
    def reset(self) -> None:
        """Go back to the start."""

    @abstractmethod
    def fork(self) -> Follower:
        """Return an independent follower in the same state."""

    @abstractmethod
    def is_terminated(self) -> bool:
        """Whether the sequence has ended."""

    @abstractmethod
    def is_completed(self) -> bool:
        """Whether the text so far is a complete sentence."""

    @abstractmethod
    def find_jump_forward_string(self, deadline: Deadline) -> str:
        """Return the text that must come next, or the part of it that is found in time."""

    @abstractmethod
    def get_captures(self, deduplicate: bool) -> list[tuple[str, bytes]]:
        """Return the names and texts that were captured so far."""


class OuterFollower(Follower):
    """A follower that wraps another one, of any strategy, and passes calls on to it.

    If the inner follower must be replaced, this class replaces it; the owner of the outer one does not
    notice.

    Args:
        inner: follows the grammar.
    """

    def __init__(self, inner: Follower) -> None:
        self._inner = inner

    def _ask(self, name: str, *arguments: Any) -> Any:
        """Call a method of the inner follower, and replace that follower if necessary."""
        try:
            return getattr(self._inner, name)(*arguments)
        except Outgrown as outgrown:
            self._inner = outgrown.follower
            return getattr(self._inner, name)(*arguments)

    @property
    def temperature(self) -> float | None:
        """See `Follower.temperature`."""
        return self._inner.temperature

    def fill(self, words: Any, debug_print: bool = False) -> bool:
        """See `Follower.fill`."""
        return bool(self._ask("fill", words, debug_print))

    def fill_by_class(self, words: Any) -> Gather | None:
        """See `Follower.fill_by_class`. None, unless a subclass says otherwise."""
        return None

    def accept_token(self, token: int, debug_print: bool = False) -> bool:
        """See `Follower.accept_token`."""
        return bool(self._ask("accept_token", token, debug_print))

    def accept_string(self, text: bytes, debug_print: bool = False) -> bool:
        """See `Follower.accept_string`."""
        return bool(self._ask("accept_string", text, debug_print))

    def text_read(self) -> bytes:
        """See `Follower.text_read`."""
        return bytes(self._ask("text_read"))

    def check_made(self, steps: int) -> None:
        """See `Follower.check_made`."""
        self._ask("check_made", steps)

    def rollback(self, steps: int) -> None:
        """See `Follower.rollback`."""
        try:
            self._inner.rollback(steps)
        except Outgrown as outgrown:
            self._inner = outgrown.follower  # it has already taken the steps back

    def reset(self) -> None:
        """See `Follower.reset`."""
        self._ask("reset")

    def fork(self) -> OuterFollower:
        """See `Follower.fork`."""
        twin = self.__class__.__new__(self.__class__)
        twin.__dict__.update(self.__dict__)
        twin._inner = self._inner.fork()
        return twin

    def is_terminated(self) -> bool:
        """See `Follower.is_terminated`."""
        return bool(self._ask("is_terminated"))

    def is_completed(self) -> bool:
        """See `Follower.is_completed`."""
        return bool(self._ask("is_completed"))

    def find_jump_forward_string(self, deadline: Deadline) -> str:
        """See `Follower.find_jump_forward_string`: text that the grammar forces is forced here, too."""
        return str(self._ask("find_jump_forward_string", deadline))

    def get_captures(self, deduplicate: bool) -> list[tuple[str, bytes]]:
        """See `Follower.get_captures`."""
        captures: list[tuple[str, bytes]] = self._ask("get_captures", deduplicate)
        return captures


def check_time(began: float, most: float | None) -> None:
    """Refuse a mask that took too long; its row is not written.

    Raises:
        BudgetExceeded: saying how long it took, and what to do.
    """
    if most is not None and (seconds := perf_counter() - began) > most:
        raise BudgetExceeded(
            f"a mask took {seconds:.3g} s or more, but the limit is {most:g} s (Budget.mask_seconds); "
            "end this sequence, or raise Budget.mask_seconds"
        )
