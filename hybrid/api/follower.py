"""What matchers follow their sequences by: the base of all ways to decide.

What: a `Follower` reads one sequence on one strategy. `hybrid.GrammarMatcher` has one, made by
`hybrid.api.followers.follower_of`, and replaces it where another one has to go on: by the follower that an
`Outgrown` brings, or by `successor`.
When: `ClassifierFollower` and `EngineFollower` follow a grammar; each kind of `OuterFollower` has one of
these and takes something out of its masks.
Limits: what callers give was checked before.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from equivalence.deadline import Deadline

if TYPE_CHECKING:
    from hybrid.representatives.gather import Gather

ENDED = "the matcher has terminated: there is no next token"


class Outgrown(Exception):
    """A follower has no answer within its budget.

    Attributes:
        follower: of another strategy; it has read the same, and answers.
    """

    def __init__(self, follower: Follower) -> None:
        super().__init__("another follower goes on")
        self.follower = follower


def text_of(read: Iterable[int | bytes | None], tokens: Sequence[bytes]) -> bytes:
    """Ids, texts and stop tokens (`None`) as one text."""
    parts = (tokens[one] if isinstance(one, int) else one for one in read)
    return b"".join(part for part in parts if part is not None)


class Follower:
    """Follows one sequence through a grammar; `hybrid.GrammarMatcher` says what its methods mean.

    Attributes:
        successor: who goes on after a mask of this one, as it is faster.
    """

    successor: Follower | None = None

    @property
    @abstractmethod
    def temperature(self) -> float | None:
        """The sampling temperature that the grammar asks for here."""

    @abstractmethod
    def fill(self, words: Any, debug_print: bool = False) -> bool:
        """Write the mask to uint32[words of a row]; whether it forbids any id.

        Raises:
            MatcherError: the sequence has ended. BudgetExceeded: it took longer than `Budget.mask_seconds`.
        """

    @abstractmethod
    def fill_by_class(self, words: Any) -> Gather | None:
        """Write the mask of classes to the first words of uint32[n], if the mask is decided by classes now.

        Returns:
            What expands it: its classes have the first bits, the stop ids, all of them, the one that follows,
            and the rest of their words is 0. None: there are no classes, or too many for the words; what the
            words hold does not count, nothing else happened, and `fill` writes the mask.

        Raises:
            MatcherError, BudgetExceeded: as `fill`.
        """

    @abstractmethod
    def accept_token(self, token: int, debug_print: bool = False) -> bool:
        """Advance by an id of the vocabulary."""

    @abstractmethod
    def accept_string(self, text: bytes, debug_print: bool = False) -> bool:
        """Advance by text, as one step."""

    @abstractmethod
    def text_read(self) -> bytes:
        """All that was read, in one piece."""

    @abstractmethod
    def check_made(self, steps: int) -> None:
        """Raise `MatcherError` where fewer steps were made."""

    @abstractmethod
    def rollback(self, steps: int) -> None:
        """Take back steps; an `Outgrown` brings a follower that has taken them back."""

    @abstractmethod
    def reset(self) -> None:
        """Back to the start."""

    @abstractmethod
    def fork(self) -> Follower:
        """An independent one in the same state."""

    @abstractmethod
    def is_terminated(self) -> bool:
        """Whether the sequence has ended."""

    @abstractmethod
    def is_completed(self) -> bool:
        """Whether what was read is a whole sentence."""

    @abstractmethod
    def find_jump_forward_string(self, deadline: Deadline) -> str:
        """The text that is forced next, as much as is found in time."""

    @abstractmethod
    def get_captures(self, deduplicate: bool) -> Any:
        """Spans captured so far."""


class OuterFollower(Follower):
    """A follower around another one, of any strategy: what its own methods do not decide is the inner one's.

    Where another follower has to go on for the inner one, it takes that one's place in here, so that whoever
    has the outer one need not know of it.

    Args:
        inner: follows the grammar.
    """

    def __init__(self, inner: Follower) -> None:
        self._inner = inner

    def _ask(self, name: str, *arguments: Any) -> Any:
        """What the inner follower answers, or the one that goes on for it."""
        try:
            found = getattr(self._inner, name)(*arguments)
        except Outgrown as outgrown:
            self._inner = outgrown.follower
            found = getattr(self._inner, name)(*arguments)
        if self._inner.successor is not None:
            self._inner = self._inner.successor
        return found

    @property
    def temperature(self) -> float | None:
        """See `Follower.temperature`."""
        return self._inner.temperature

    def fill(self, words: Any, debug_print: bool = False) -> bool:
        """See `Follower.fill`."""
        return bool(self._ask("fill", words, debug_print))

    def fill_by_class(self, words: Any) -> Gather | None:
        """See `Follower.fill_by_class`; None, unless a kind of followers says otherwise."""
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
            self._inner = outgrown.follower  # which took them back

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
        """See `Follower.find_jump_forward_string`: what the grammar forces is forced here, too."""
        return str(self._ask("find_jump_forward_string", deadline))

    def get_captures(self, deduplicate: bool) -> Any:
        """See `Follower.get_captures`."""
        return self._ask("get_captures", deduplicate)
