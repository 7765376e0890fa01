"""The matcher of strategy "classifier": no engine, a few look-ups a token.

What: the methods and meanings of `hybrid.GrammarMatcher` (which makes one of these where the compiled grammar
has a classifier). A state is the number of a configuration; history is a chain of nodes, so that a fork
shares it and a rollback goes up. What was met before is answered from tables without a lock; what is new asks
the classifier's store.
When: one per sequence; not for concurrent use, while different matchers may run in different threads.
Limits: where even empty tables do not do within the budget, the matcher goes on as one of the fallback
strategy, with the same masks.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from equivalence import BudgetExceeded, MatcherError
from equivalence.arguments import flag, integer, integer_from
from hybrid.api.arguments import text_of, whole_characters
from hybrid.api.bitmask import NO_ROWS, WORDS, TensorRows, row_number
from hybrid.api.matcher import ENDED, GrammarMatcher
from hybrid.classifier.classifier import Session, forced_text
from hybrid.classifier.rows import Row

MOST_FORCED_BYTES = 1 << 16
"""Bound of a jump-forward string: `root ::= "a" root` forces text without end."""

Answer = TypeVar("Answer")


Node: TypeAlias = "tuple[int, int, Node | None, int | bytes | None]"
"""A step of the history: the configuration after it, the session that it is of, the step before, what was
read (a token id, text, or None for the stop token). A plain tuple: a named one takes 0.2 us to make, as
long as the rest of a step."""


class ClassifierMatcher(GrammarMatcher):
    """Follows one sequence by its classifier; see `hybrid.GrammarMatcher` for the methods."""

    def _begin(self, stops: tuple[int, ...], terminate_without_stop_token: bool) -> None:
        compiled = self._compiled
        classifier = compiled.classifier
        assert classifier is not None
        self._classifier = classifier
        self._stops = stops
        self._stop_set = frozenset(stops)
        self._free_end = terminate_without_stop_token
        self._mask_seconds = compiled.mask_seconds
        self._tokens = compiled.vocabulary.tokens
        self._size = compiled.vocabulary.size
        self._width = (self._size + 31) // 32
        self._restart(classifier.session)
        classifier.serve()

    def _restart(self, session: Session) -> None:
        """Begin a sequence."""
        self._enter(session, session.start, (session.start, session.serial, None, None), False)

    def _enter(self, session: Session, config: int, node: Node, ended: bool) -> None:
        """Go over to a session, with a configuration of it."""
        known = session.rows_for(self._stops)
        # nothing is called from here on, so that Ctrl-C finds all of it done, or nothing
        self._session, self._steps, self._known = session, session.steps, known
        self._config, self._node, self._ended = config, node, ended

    # what was met before

    def fill_next_token_bitmask(
        self, bitmask: torch.Tensor | NDArray[np.int32], index: int = 0, *, debug_print: bool = False
    ) -> bool:
        """See `GrammarMatcher.fill_next_token_bitmask`."""
        if index.__class__ is not int:
            index = row_number(index)
        rows = self._rows
        # as `TensorRows.is_current`, which a call would make 0.1 us slower
        if (
            bitmask is not rows.bitmask
            or bitmask.data_ptr() != rows.pointer
            or bitmask.shape != rows.shape
            or not bitmask.is_contiguous()
            or bitmask.dtype is not WORDS
        ):
            looked_at = self._rows_of(bitmask)
            if not isinstance(looked_at, TensorRows):
                return self._fill(looked_at.row(index), debug_print)
            rows = looked_at
        if not 0 <= index < rows.count:
            rows.checked(index)
        if not self._ended:
            needed = self._known.copy(self._config, rows.pointer + 4 * index * rows.stride)
            if needed >= 0:
                return needed > 0
        self.refuse_ended()
        began = perf_counter()
        try:
            row = self._find_row()
        except BudgetExceeded:
            return self._fall_back().fill_next_token_bitmask(bitmask, index, debug_print=debug_print)
        self._check_time(began)
        at = index * rows.stride
        rows.memory[at : at + self._width] = row.memory
        return row.needed

    def _fill(self, row: NDArray[np.uint32], debug_print: bool = False) -> bool:
        """See `GrammarMatcher._fill`."""
        self.refuse_ended()
        began = perf_counter()
        found = self.found_row()
        self._check_time(began)
        row[:] = found.words
        return found.needed

    def found_row(self) -> Row:
        """The mask here, of another strategy if need be.

        Raises:
            BudgetExceeded: empty tables did not do, and there is no other strategy.
        """
        try:
            return self._known.get(self._config) or self._find_row()
        except BudgetExceeded:
            words = np.empty(self._width, np.uint32)
            needed = self._fall_back()._fill(words)
            return Row(words, words.ctypes.data, needed, words.data)

    def accept_token(self, token_id: int, *, debug_print: bool = False) -> bool:
        """See `GrammarMatcher.accept_token`."""
        if token_id.__class__ is not int:
            token_id = integer(token_id, "token_id")
        if not 0 <= token_id < self._size or self._ended:
            return False
        if token_id in self._stop_set:
            return self._accept_stop()
        after = self._steps.get(self._config, token_id)
        if after < 0:
            if not self._tokens[token_id]:
                return False
            try:
                after = self._find_step(token_id)
            except BudgetExceeded:
                return self._fall_back().accept_token(token_id, debug_print=debug_print)
        if not after:
            return False
        self._config = after
        self._node = (after, self._session.serial, self._node, token_id)
        return True

    def refuse_ended(self) -> None:
        """Raise `MatcherError` if the stop token was accepted."""
        if self._ended:
            raise MatcherError(ENDED)

    # what is new

    def _current(self) -> Session:
        """The classifier's session, this matcher's configuration brought there; with the lock held."""
        session = self._classifier.session
        if session.left < 0:
            session = self._classifier.renew()
        if session is not self._session:
            config = self._classifier.moved(self._config, self._session.store, session)
            self._enter(session, config, self._node, self._ended)
        return session

    def _ask(self, question: Callable[[Session], Answer]) -> Answer:
        """An answer from the classifier; where its tables are full, from new ones.

        Raises:
            BudgetExceeded: empty tables did not do either.
        """
        with self._classifier.lock:
            try:
                return question(self._current())
            except BudgetExceeded:
                self._classifier.renew()
                return question(self._current())

    def _find_row(self) -> Row:
        session, classifier = self._session, self._classifier
        if session is classifier.session and session.left > 0:  # the way of nearly all, 1 us shorter
            with classifier.lock:
                try:
                    mask = session.store.class_mask(self._config)
                except BudgetExceeded:
                    pass
                else:
                    return classifier.row_of_mask(session, self._config, mask, self._known)
        return self._ask(lambda session: self._classifier.row(session, self._config, self._stops))

    def _find_step(self, token: int) -> int:
        session, classifier = self._session, self._classifier
        if session is classifier.session and session.left > 0:
            with classifier.lock:
                try:
                    return classifier.step(session, self._config, token)
                except BudgetExceeded:
                    pass
        return self._ask(lambda session: self._classifier.step(session, self._config, token))

    def _fall_back(self, node: Node | None = None) -> GrammarMatcher:
        """Become a matcher of the fallback strategy in the same state, or in that of a step before."""
        other = GrammarMatcher(
            self._compiled.fallback,
            override_stop_tokens=self._stops or None,
            terminate_without_stop_token=self._free_end,
            default_temperature=self._default_temperature,
        )
        steps = []
        at = self._node if node is None else node
        while at[2] is not None:
            steps.append(at[3])
            at = at[2]
        for read in reversed(steps):
            taken = other.accept_string(read) if isinstance(read, bytes) else (
                other.accept_token(self._stops[0] if read is None else read)
            )  # fmt: skip
            assert taken, "the fallback strategy accepts what the classifier accepted"
        self.__dict__ = other.__dict__
        self.__class__ = GrammarMatcher  # type: ignore[assignment]
        return self

    # everything else

    def _accept_stop(self) -> bool:
        if self._free_end or not self.is_completed():
            return False
        self._ended = True
        self._node = (self._config, self._session.serial, self._node, None)
        return True

    def accept_string(self, input_str: str | bytes, *, debug_print: bool = False) -> bool:
        """See `GrammarMatcher.accept_string`."""
        text = text_of(input_str)
        if self._ended:
            return False
        try:
            after = self._ask(lambda session: self._classifier.read(session, self._config, text))
        except BudgetExceeded:
            return self._fall_back().accept_string(text, debug_print=debug_print)
        if not after:
            return False
        self._config = after
        self._node = (after, self._session.serial, self._node, text)
        return True

    def rollback(self, num_tokens: int = 1) -> None:
        """See `GrammarMatcher.rollback`."""
        if num_tokens.__class__ is not int or num_tokens < 0:
            num_tokens = integer_from(0, num_tokens, "num_tokens")
        node: Node | None = self._node
        for _ in range(num_tokens):
            node = node[2]  # type: ignore[index]
            if node is None:
                self._check_made(num_tokens)
        if num_tokens:
            self._go_to(node)  # type: ignore[arg-type]

    def _check_made(self, num_tokens: int) -> None:
        made, before = 0, self._node[2]
        while before is not None and made < num_tokens:
            made, before = made + 1, before[2]
        if made < num_tokens:
            raise MatcherError(f"rollback of {num_tokens} steps, but {made} were made")

    def _go_to(self, node: Node) -> None:
        config, serial, parent, read = node
        if serial == self._session.serial:
            self._config = config
        else:  # its tables are gone: read the text again
            try:
                self._config = self._replayed(node)
            except BudgetExceeded:
                self._fall_back(node)
                return
        self._node = node
        self._ended = read is None and parent is not None

    def _replayed(self, node: Node) -> int:
        text = b"".join(self._texts(node))

        def read(session: Session) -> int:
            return self._classifier.read(session, session.start, text)

        return self._ask(read)

    def _texts(self, node: Node) -> list[bytes]:
        """What was read on the way to a node, in order."""
        texts = []
        at: Node | None = node
        while at is not None:
            _, _, at, read = at
            if read is not None:
                texts.append(read if isinstance(read, bytes) else self._tokens[read])
        return texts[::-1]

    def reset(self) -> None:
        """See `GrammarMatcher.reset`."""
        self._classifier.serve()
        self._restart(self._classifier.session)

    def fork(self) -> GrammarMatcher:
        """See `GrammarMatcher.fork`."""
        twin = object.__new__(ClassifierMatcher)
        twin.__dict__.update(self.__dict__)
        twin._rows = NO_ROWS
        return twin

    def is_terminated(self) -> bool:
        """See `GrammarMatcher.is_terminated`."""
        return self.is_completed() if self._free_end else self._ended

    def is_completed(self) -> bool:
        """See `GrammarMatcher.is_completed`."""
        classifier = self._classifier
        if not classifier.whole_takes_lock:
            return classifier.is_whole(self._session, self._config)
        try:
            return self._ask(lambda session: classifier.is_whole(session, self._config))
        except BudgetExceeded:
            return self._fall_back().is_completed()

    def find_jump_forward_string(self) -> str:
        """See `GrammarMatcher.find_jump_forward_string`; at most 65,536 bytes of text without end.

        There is less, or nothing, where the tables do not hold what is forced.
        """
        if self._ended:
            raise MatcherError("the matcher has terminated: nothing is forced any more")
        try:
            forced = self._ask(
                lambda session: forced_text(self._classifier, session, self._config, MOST_FORCED_BYTES)
            )
        except BudgetExceeded:
            return ""  # the fallback's own search may not end
        return whole_characters(forced)

    @property
    def temperature(self) -> float | None:
        """See `GrammarMatcher.temperature`; grammars that set temperatures have no classifier."""
        return self._default_temperature

    def get_captures(self, *, deduplicate: bool = True) -> Any:
        """See `GrammarMatcher.get_captures`; grammars with captures have no classifier."""
        flag(deduplicate, "deduplicate")
        return {}
