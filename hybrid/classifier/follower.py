"""The follower for the strategy "classifier": no engine, a few look-ups for each token.

What: `hybrid.classifier.cached_sequence.CachedSequence` answers from what is cached, without a lock, and
computes most of what is new. `ClassifierFollower` does the rest, and moves to new tables.
When: made by `hybrid.api.matcher.follower_of`; one for each sequence, in any threads.
Limits: if even empty tables are not enough for the budget, or an id was read both as text and as an id
(`hybrid.classifier.named_ids`), `ReplaceFollower` hands over a follower of the fallback strategy that has
read the same.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, TypeVar

from equivalence import BudgetExceeded, MatcherError
from equivalence.deadline import Deadline
from hybrid.classifier.cached_sequence import CachedSequence
from hybrid.classifier.classifier import Session, forced_text
from hybrid.classifier.mask_pieces import PieceGather
from hybrid.classifier.named_ids import ReadBothWays
from hybrid.classifier.rows import Rows
from hybrid.representatives.follower import EngineFollower
from hybrid.values.arguments import whole_characters
from hybrid.values.follower import Compiled, Follower, ReplaceFollower, check_made, joined
from hybrid.values.gather import Gather
from hybrid.values.mask_time import A_TEXT, A_TOKEN, StepDeadline, TooSlow, limited, seconds_of_text

MOST_FORCED_BYTES = 1 << 16
"""The maximum length of a jump-forward string in bytes: `root ::= "a" root` forces infinitely many."""

OUTGROWN = "needed more memory than Budget.table_bytes"
"""Why most matchers continue on the fallback strategy."""

Answer = TypeVar("Answer")


class ClassifierFollower(CachedSequence, Follower):
    """Follows one sequence with its classifier.

    Args:
        compiled: a compiled grammar with a classifier.
        stops: ids that end the sequence.
        ends_without_stop: whether the sequence ends as soon as it can, without a stop token.
        temperature: the answer to calls that ask for a temperature.

    Attributes:
        ends_without_stop: the argument of this name.
    """

    def __init__(
        self, compiled: Compiled, stops: tuple[int, ...], ends_without_stop: bool, temperature: float | None
    ) -> None:
        classifier = compiled.classifier
        assert classifier is not None
        CachedSequence.__init__(self, compiled, classifier, stops)
        self.ends_without_stop = ends_without_stop
        self._temperature = temperature
        self.reset()

    def reset(self) -> None:
        """See `Follower.reset`."""
        if not self.classifier.is_used:  # in free-threaded Python, all threads would wait to write it
            self.classifier.is_used = True
        self.begin(self.classifier.session)

    def fork(self) -> ClassifierFollower:
        """See `Follower.fork`."""
        twin = ClassifierFollower.__new__(ClassifierFollower)
        CachedSequence.__init__(twin, self.compiled, self.classifier, self.stops)
        twin.__dict__.update(self.__dict__)
        twin.follow(self)
        return twin

    # masks and steps

    def find_mask(self) -> None:
        """Compute the mask and cache it.

        Raises:
            ReplaceFollower: another follower must do it.
            MatcherError: the sequence has ended.
            TooSlow: it took longer than `Budget.mask_seconds`.
        """
        self.refuse_ended()
        if self.rows.knows(self.configuration) or self.computes_mask():
            return
        began = perf_counter()
        self._ask(lambda session: self.make_row(session, self.rows, self.configuration))
        if self.compiled.awaited is not None:
            self.compiled.first_mask_took(perf_counter() - began)

    def fill(self, words: Any, debug_print: bool = False) -> bool:
        """See `Follower.fill`."""
        self.find_mask()
        return self.rows.copy(self.configuration, words) > 0

    def fill_by_class(self, words: Any) -> Gather | None:
        """See `Follower.fill_by_class`."""
        self.refuse_ended()
        rows = self.session.class_rows
        if rows is None or not rows.knows(self.configuration):
            if self.classifier.is_walked or not self.classifier.by_text:
                return None
            rows = self._ask(self._note_classes)
            if rows is None:
                return None
        gather: Gather = self.session.gather
        width = gather.n_classes // 32 + 1
        if width > len(words):
            return None
        rows.copy(self.configuration, words[:width])
        return gather

    def _note_classes(self, session: Session) -> Rows | None:
        """The session's masks by class, including that of this configuration; None if masks come from
        walks."""
        if isinstance(session.gather, PieceGather):
            return None
        rows = session.rows_by_class()
        if not rows.knows(self.configuration):
            self.make_row(session, rows, self.configuration)
        return rows

    def accept_token(self, token: int, debug_print: bool = False) -> bool:
        """See `Follower.accept_token`."""
        if self.ended:
            return False
        if token in self.stops:
            if self.ends_without_stop or not self.is_completed():
                return False
            self.end()
            return True
        after = self.steps.get(self.configuration, token)
        if after < 0:
            if not self.tokens[token]:
                return False
            after = self._find_step(token)
        if not after:
            return False
        self.advance(token, after)
        return True

    def _find_step(self, token: int) -> int:
        try:
            return self._ask(lambda session: self._step(session, token))
        except ReadBothWays:
            other = self.fallback(self.n_steps, "read a token both as text and as an id")
            self.classifier.has_handed_over = True  # there is another strategy
            raise ReplaceFollower(other) from None

    def _step(self, session: Session, token: int) -> int:
        with limited(session.store.account, self.mask_seconds, A_TOKEN):
            return self.classifier.step(session, self.configuration, token)

    def accept_string(self, text: bytes, debug_print: bool = False) -> bool:
        """See `Follower.accept_string`."""
        if self.ended:
            return False
        after = self._ask(lambda session: self._read(session, text))
        if not after:
            return False
        self.advance_text(text, after)
        return True

    def _read(self, session: Session, text: bytes) -> int:
        seconds = seconds_of_text(self.mask_seconds, text)
        with limited(session.store.account, seconds, A_TEXT):
            return self.classifier.read(session, self.configuration, text)

    # the classifier's tables

    def _current(self) -> Session:
        """The classifier's session, after moving the configuration to it. The lock must be held."""
        session = self.classifier.session
        if session.left < 0:
            session = self.classifier.renew()
        if session is not self.session:
            configuration = session.store.migrate_from(self.session.store, self.configuration)
            self.enter(session, configuration)
        return session

    def catch_up(self) -> None:
        """Move to the classifier's session.

        Raises:
            BudgetExceeded: empty tables are not enough for the configuration.
        """
        self._answer(lambda session: None)

    def _ask(self, question: Callable[[Session], Answer]) -> Answer:
        """Ask the classifier a question. If its tables are full, ask again with new tables.

        Raises:
            ReplaceFollower: empty tables were not enough either.
        """
        try:
            return self._answer(question)
        except TooSlow:
            raise
        except BudgetExceeded:
            raise ReplaceFollower(self.fallback(self.n_steps)) from None

    def _answer(self, question: Callable[[Session], Answer]) -> Answer:
        with self.classifier.lock:
            try:
                return question(self._current())
            except TooSlow:
                raise
            except BudgetExceeded:
                self.classifier.renew()
                return question(self._current())

    def fallback(self, steps: int, why: str = OUTGROWN) -> EngineFollower:
        """A follower of the fallback strategy that has read the first steps.

        Args:
            steps: how many.
            why: what the matcher did.

        Raises:
            BudgetExceeded: there is no other strategy, or reading again takes longer than the text may take
                (`TooSlow`), or than a compilation if there is no such limit.
        """
        other = EngineFollower(self.compiled.fallback, self.stops, self.ends_without_stop, self._temperature)
        history = self.read(steps)
        seconds = seconds_of_text(self.mask_seconds, joined(history, self.tokens))
        deadline = Deadline(self.compiled.budget.seconds) if seconds is None else StepDeadline(seconds)
        for read in history:
            taken = other.accept_string(read) if isinstance(read, bytes) else (
                other.accept_token(self.stops[0] if read is None else read)
            )  # fmt: skip
            assert taken, "the fallback strategy must accept what the classifier accepted"
            deadline.check("reading the text again in plain XGrammar")
        self.compiled.note(f"some matchers continued on strategy 'engine', because they {why}")
        return other

    # going back

    def reads_again(self, steps: int) -> bool:
        """See `Follower.reads_again`."""
        return self.n_steps - steps < self.first_known

    def rollback(self, steps: int) -> None:
        """See `Follower.rollback`."""
        check_made(self.n_steps, steps)
        left = self.n_steps - steps
        if not self.reads_again(steps):
            self.go_back(left)
            return
        read = self.read(left)  # the tables of its session are gone: read the history again
        try:
            configuration = self._answer(
                lambda session: self.classifier.read_again(session, read, self.tokens)
            )
        except BudgetExceeded:
            raise ReplaceFollower(self.fallback(left)) from None
        assert configuration, "the text so far must be accepted again"
        self.go_back(left, configuration)

    def text_read(self) -> bytes:
        """See `Follower.text_read`."""
        return joined(self.read(self.n_steps), self.tokens)

    # everything else

    def is_terminated(self) -> bool:
        """See `Follower.is_terminated`."""
        return self.is_completed() if self.ends_without_stop else self.ended

    def is_completed(self) -> bool:
        """See `Follower.is_completed`."""
        return self._ask(lambda session: session.store.is_whole(self.configuration))

    def find_jump_forward_string(self, deadline: Deadline) -> str:
        """See `Follower.find_jump_forward_string`."""
        if self.ended:
            raise MatcherError(
                "the matcher has terminated, so nothing can follow; call reset or rollback first"
            )
        try:
            found = self._answer(
                lambda session: forced_text(
                    self.classifier, session, self.configuration, MOST_FORCED_BYTES, deadline
                )
            )
        except BudgetExceeded:
            return ""  # the search of the fallback strategy may not end
        return whole_characters(found)

    @property
    def temperature(self) -> float | None:
        """See `Follower.temperature`; grammars that set temperatures have no classifier."""
        return self._temperature

    def get_captures(self, deduplicate: bool) -> list[tuple[str, bytes]]:
        """See `Follower.get_captures`; grammars with captures have no classifier."""
        return []
