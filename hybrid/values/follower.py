"""The base class of sequence followers.

What: a `Follower` follows one sequence on one strategy. `hybrid.GrammarMatcher` has one, made by
`hybrid.api.matcher.follower_of`. It replaces the follower if a `ReplaceFollower` error brings another one.
When: `ClassifierFollower` and `EngineFollower` follow a grammar. `UniquenessFollower` and `LimitedFollower`
wrap one of these and remove tokens from its masks.
Limits: callers have checked all arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from equivalence import MatcherError
from equivalence.deadline import Deadline
from hybrid.values.gather import Gather

Compiled = Any
"""A `hybrid.CompiledGrammar`. Its module imports the followers' rooms, so they do not import it."""

ENDED = "the matcher has terminated, so there is no next token; call reset or rollback first"


class ReplaceFollower(Exception):
    """A follower exceeded its budget.

    Attributes:
        follower: a follower on another strategy that has read the same text, and can answer.
    """

    def __init__(self, follower: Follower) -> None:
        super().__init__("another follower must continue this sequence")
        self.follower = follower


def joined(read: Iterable[int | bytes | None], tokens: Sequence[bytes]) -> bytes:
    """Join ids, texts and stop tokens (`None`) to one text."""
    parts = (tokens[one] if isinstance(one, int) else one for one in read)
    return b"".join(part for part in parts if part is not None)


def check_made(made: int, steps: int) -> None:
    """Raise `MatcherError` if fewer steps were made than are taken back."""
    if steps > made:
        raise MatcherError(f"cannot roll back {steps} steps: only {made} were made")


class Follower:
    """Follows one sequence through a grammar; `hybrid.GrammarMatcher` says what its methods mean.

    `ClassifierFollower` and `EngineFollower` follow the grammar themselves, and have all of these methods.
    All others wrap one of these, and pass on to it what they do not change. If the wrapped follower must be
    replaced, they replace it; their owners do not notice.

    Args:
        inner: the wrapped follower.

    Attributes:
        inner: the argument, or the follower that has replaced it.
    """

    inner: Follower

    def __init__(self, inner: Follower) -> None:
        self.inner = inner

    def _delegate(self, name: str, *arguments: Any) -> Any:
        """Call a method of the wrapped follower, and replace that follower if necessary."""
        try:
            return getattr(self.inner, name)(*arguments)
        except ReplaceFollower as replaced:
            self.inner = replaced.follower
            return getattr(self.inner, name)(*arguments)

    @property
    def n_steps(self) -> int:
        """Number of steps that were made and not taken back."""
        return self.inner.n_steps

    @property
    def temperature(self) -> float | None:
        """The sampling temperature that the grammar asks for here."""
        return self.inner.temperature

    def fill(self, words: Any, debug_print: bool = False) -> bool:
        """Write the mask to uint32[words of a row], and return whether it forbids any id.

        Raises:
            MatcherError: the sequence has ended.
            BudgetExceeded: the mask took longer than `Budget.mask_seconds`.
        """
        return bool(self._delegate("fill", words, debug_print))

    def fill_by_class(self, words: Any) -> Gather | None:
        """Write the mask by class to the first words of uint32[n], one bit for each class, if that is
        possible. A follower that wraps another one does not, unless it says otherwise.

        Returns:
            The gather that expands it. The classes have the first bits, the next bit stands for all stop ids,
            and the rest of that word is 0. None if there are no classes now, or too many for the words: then
            the words are undefined, nothing else has changed, and `fill` gives the mask.

        Raises:
            MatcherError, BudgetExceeded: as `fill`.
        """
        return None

    def accept_token(self, token: int, debug_print: bool = False) -> bool:
        """Advance by an id of the vocabulary.

        Raises:
            BudgetExceeded: it took longer than `Budget.mask_seconds`. The state is unchanged.
        """
        return bool(self._delegate("accept_token", token, debug_print))

    def accept_string(self, text: bytes, debug_print: bool = False) -> bool:
        """Advance by a text, as one step. Raises like `accept_token`."""
        return bool(self._delegate("accept_string", text, debug_print))

    def text_read(self) -> bytes:
        """Return the whole text read so far."""
        return bytes(self._delegate("text_read"))

    def reads_again(self, steps: int) -> bool:
        """Whether taking back so many steps means to read the text again, which may exceed the budget."""
        return self.inner.reads_again(steps)

    def rollback(self, steps: int) -> None:
        """Take back steps. The follower of a `ReplaceFollower` error has already taken them back."""
        try:
            self.inner.rollback(steps)
        except ReplaceFollower as replaced:
            self.inner = replaced.follower

    def reset(self) -> None:
        """Go back to the start."""
        self._delegate("reset")

    def fork(self) -> Follower:
        """Return an independent follower in the same state."""
        twin = self.__class__.__new__(self.__class__)
        twin.__dict__.update(self.__dict__)
        twin.inner = self.inner.fork()
        return twin

    def is_terminated(self) -> bool:
        """Whether the sequence has ended."""
        return bool(self._delegate("is_terminated"))

    def is_completed(self) -> bool:
        """Whether the text so far is a complete sentence."""
        return bool(self._delegate("is_completed"))

    def find_jump_forward_string(self, deadline: Deadline) -> str:
        """Return the text that must come next, or the part of it that is found in time. Text that a wrapped
        follower forces is forced here, too."""
        return str(self._delegate("find_jump_forward_string", deadline))

    def get_captures(self, deduplicate: bool) -> list[tuple[str, bytes]]:
        """Return the names and texts that were captured so far."""
        captures: list[tuple[str, bytes]] = self._delegate("get_captures", deduplicate)
        return captures
