"""What matchers follow their sequences by: the base of all ways to decide.

What: a `Follower` reads one sequence on one strategy. `hybrid.GrammarMatcher` has one, made by
`hybrid.api.followers.follower_of`, and replaces it where another one has to go on: by the follower that an
`Outgrown` brings, or by `successor`.
When: `ClassifierFollower` and `EngineFollower` are the kinds there are.
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
