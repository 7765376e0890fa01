"""The matcher: XGrammar's `GrammarMatcher` on every strategy, mask by mask the same.

What: reads and checks what callers give, and hands it to the follower of the compiled grammar's strategy
(`hybrid.api.follower`), or to the one that took its place. The calls of every step are those of
`hybrid.api.calls.Calls`.
When: one per sequence; not for concurrent use, while different matchers may run in different threads.
Limits: bitmasks are int32, on the CPU, one row of ceil(V / 32) words.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from equivalence import ArgumentError, HybridError
from equivalence.arguments import flag, integer, integer_from
from equivalence.deadline import Deadline
from hybrid.api.arguments import stop_ids, temperature_of, text_of
from hybrid.api.bitmask import Rows, TensorRows, row_number
from hybrid.api.calls import Calls, count_masks
from hybrid.api.compiled import CompiledGrammar
from hybrid.api.draft_tree import traverse
from hybrid.api.follower import Follower, Outgrown
from hybrid.api.followers import follower_of
from hybrid.completion import Place
from hybrid.completion.follower import ClosingFollower
from hybrid.explain import Explanation, Refusal, Words, explain, find_refusal
from hybrid.representatives.gather import Gather

EXPLAINED_WITHIN = 5.0
"""Seconds of an explanation where masks have no bound."""

Answer = TypeVar("Answer")


class GrammarMatcher(Calls):
    """Follows one sequence through a grammar: masks out, tokens in.

    Args:
        compiled_grammar: what `hybrid.GrammarCompiler` made.
        override_stop_tokens: ids that end this sequence, in place of the vocabulary's stop ids. An id that
            no longer ends the sequence is ordinary text, or nothing if it has no text.
        terminate_without_stop_token: terminate as soon as the grammar can end.
        max_rollback_tokens: deprecated in XGrammar, ignored: rollback is unlimited.
        default_temperature: as in XGrammar, for grammars that set temperatures.

    Raises:
        HybridError: not a compiled grammar of ours. VocabularyError: stop ids out of range, or none.
        ArgumentError: a temperature below 0 or not finite; anything else that is not allowed.
    """

    def __init__(
        self,
        compiled_grammar: CompiledGrammar,
        *,
        override_stop_tokens: int | Iterable[int] | None = None,
        terminate_without_stop_token: bool = False,
        max_rollback_tokens: int = -1,
        default_temperature: float | None = None,
    ) -> None:
        if not isinstance(compiled_grammar, CompiledGrammar):
            raise HybridError(
                f"compiled_grammar is {type(compiled_grammar).__name__}, allowed is what "
                "hybrid.GrammarCompiler returns"
            )
        if max_rollback_tokens != -1:
            warnings.warn(
                "max_rollback_tokens is ignored: rollback is unlimited", DeprecationWarning, stacklevel=2
            )
        free_end = flag(terminate_without_stop_token, "terminate_without_stop_token")
        vocabulary = compiled_grammar.vocabulary
        stops = stop_ids(override_stop_tokens, vocabulary.size)
        self._compiled = compiled_grammar
        self._stops = vocabulary.stop_token_ids if stops is None else stops
        self._size, self._width = vocabulary.size, (vocabulary.size + 31) // 32
        self.remember(None, None)
        self._place: Place | None = None
        self._words: Words | None = None
        self._follower = follower_of(
            compiled_grammar, self._stops, free_end, temperature_of(default_temperature)
        )

    @property
    def compiled_grammar(self) -> CompiledGrammar:
        """What this matcher follows."""
        return self._compiled

    @property
    def stop_token_ids(self) -> list[int]:
        """The ids that end this sequence."""
        return list(self._stops)

    @property
    def max_rollback_tokens(self) -> int:
        """Always -1: rollback is unlimited."""
        return -1

    @property
    def temperature(self) -> float | None:
        """The sampling temperature that the grammar asks for here, as in XGrammar."""
        return self._follower.temperature

    def _answer(self, question: Callable[[Follower], Answer]) -> Answer:
        """The follower's answer; where it outgrew its budget, that of the one that goes on."""
        try:
            return question(self._follower)
        except Outgrown as outgrown:
            self._follower = outgrown.follower
        return question(self._follower)

    # masks

    def _find_mask(self) -> None:
        """Let a classifier's follower know the mask, or another one go on."""
        try:
            self._follower.find_mask()
        except Outgrown as outgrown:
            self._follower = outgrown.follower

    def _fill_row(self, bitmask: Any, index: Any, debug_print: bool) -> bool:
        """As `fill_next_token_bitmask`, of a bitmask that was not known, or a mask that cannot be."""
        needed = self._fill(self._row(bitmask, index), debug_print)
        count_masks(1)
        return needed

    def _fill(self, row: NDArray[np.uint32], debug_print: bool = False) -> bool:
        """Overwrite a row of words, which was looked at, with the mask; whether it forbids anything."""
        began = None if self._compiled.awaited is None else perf_counter()
        needed = self._answer(lambda follower: follower.fill(row, debug_print))
        if began is not None:
            self._compiled.first_mask_took(perf_counter() - began)
        if self._follower.successor is not None:
            self._follower = self._follower.successor
        return needed

    def _fill_by_class(self, words: NDArray[np.uint32]) -> Gather | None:
        """Write the mask of classes, as `Follower.fill_by_class`."""
        gather = self._answer(lambda follower: follower.fill_by_class(words))
        if self._follower.successor is not None:
            self._follower = self._follower.successor
        return gather

    def _row(self, bitmask: Any, index: Any) -> NDArray[np.uint32]:
        """The words of a row, looked at in this call."""
        if index.__class__ is not int:
            index = row_number(index)
        return self._rows_of(bitmask).row(index)

    def _rows_of(self, bitmask: Any) -> Rows:
        """The rows of a bitmask as they are now."""
        rows: Rows | None = self.remembered(bitmask)
        if rows is None:
            self.remember(None, None)
            if not isinstance(bitmask, torch.Tensor):
                return Rows(bitmask, self._width, self._size)
            rows = TensorRows(bitmask, self._width, self._size)
            self.remember(bitmask, rows)
        return rows

    # tokens and text

    def _accept(self, token_id: Any, debug_print: bool) -> bool:
        """As `accept_token`, of a step that was not known."""
        token = integer(token_id, "token_id")
        if not 0 <= token < self._size:  # XGrammar would cut the id to 32 bits
            return False
        return self._answer(lambda follower: follower.accept_token(token, debug_print))

    def accept_string(self, input_str: str | bytes, *, debug_print: bool = False) -> bool:
        """Advance by text; all of it or nothing. Counts as one step for `rollback`.

        Raises:
            ArgumentError: it is neither str nor bytes (nor bytearray or memoryview, which are read as bytes).
        """
        text = text_of(input_str)
        return self._answer(lambda follower: follower.accept_string(text, debug_print))

    def rollback(self, num_tokens: int = 1) -> None:
        """Take back the last steps, the stop token included.

        Raises:
            MatcherError: fewer steps were made; nothing changed. It is a `RuntimeError`, as XGrammar's.
            ArgumentError: no integer, or below 0.
        """
        if num_tokens.__class__ is not int or num_tokens < 0:
            num_tokens = integer_from(0, num_tokens, "num_tokens")
        try:
            self._follower.rollback(num_tokens)
        except Outgrown as outgrown:
            self._follower = outgrown.follower  # which took them back

    def _check_made(self, num_tokens: int) -> None:
        """Raise `MatcherError` where fewer steps were made."""
        self._follower.check_made(num_tokens)

    def traverse_draft_tree(
        self,
        retrieve_next_token: torch.Tensor,
        retrieve_next_sibling: torch.Tensor,
        draft_tokens: torch.Tensor,
        token_bitmask: torch.Tensor,
        time_threshold: float = -1.0,
        temperatures: torch.Tensor | None = None,
    ) -> bool:
        """Fill one mask for each node of a tree of draft tokens, as in XGrammar; the state does not change.

        Args:
            retrieve_next_token: int64[nodes], the first child of each node, or -1. Node 0 is the root: its
                token has been accepted already.
            retrieve_next_sibling: int64[nodes], the next child of the same node, or -1.
            draft_tokens: int64[nodes], the token of each node.
            token_bitmask: int32[nodes, ceil(V / 32)]. A node that the grammar does not allow, and one after
                which it has ended, gets a row of zeros; what lies below it, rows that are not in the tree,
                and rows not reached in time stay as they are.
            time_threshold: seconds; 0 and less is no bound.
            temperatures: float32[nodes], gets the temperature of each node that has a mask, else -1.

        Returns:
            False if the time was up.

        Raises:
            BitmaskError, ArgumentError: an argument of another type or shape, or no tree; nothing was
                written.
        """
        whole = traverse(
            self,
            retrieve_next_token,
            retrieve_next_sibling,
            draft_tokens,
            token_bitmask,
            time_threshold,
            temperatures,
        )
        count_masks(len(draft_tokens))
        return whole

    def reset(self) -> None:
        """Back to the start, where there is no limit of tokens."""
        self.limit_tokens(None)
        self._follower.reset()

    def fork(self) -> GrammarMatcher:
        """An independent matcher in the same state."""
        twin = self.__class__.__new__(self.__class__)
        twin._compiled, twin._stops = self._compiled, self._stops
        twin._size, twin._width = self._size, self._width
        twin._place = self._place
        twin._words = None
        twin.remember(None, None)
        twin._follower = self._follower.fork()
        return twin

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise ArgumentError(
            "a matcher cannot be copied or pickled: matcher.fork() makes an independent one in the same "
            "state, and another process makes its own and accepts the same tokens"
        )

    def is_terminated(self) -> bool:
        """Whether the sequence has ended: a stop token was accepted, or the grammar's end where asked."""
        return self._answer(lambda follower: follower.is_terminated())

    def is_completed(self) -> bool:
        """Whether what was read is a whole sentence of the grammar."""
        return self._answer(lambda follower: follower.is_completed())

    def find_jump_forward_string(self) -> str:
        """The longest text that the grammar forces next; the state does not change.

        On strategy "classifier" it is at most 65,536 bytes of text without end, and less, or nothing, where
        the tables do not hold what is forced, or `Budget.mask_seconds` are over.
        """
        return self.forced_within(Deadline(self._compiled.mask_seconds))

    def forced_within(self, deadline: Deadline) -> str:
        """As `find_jump_forward_string`, as much as is found in time."""
        return self._follower.find_jump_forward_string(deadline)

    # closing in time

    def shortest_completion(self) -> list[int] | None:
        """Token ids that complete the text from here on: a shortest text in bytes, in the fewest tokens that
        spell it; where none do, the fewest tokens of another text. The stop token is not among them; the
        state does not change. docs/completion.md.

        Returns:
            No ids where the text is whole, or has ended; None where no text that the vocabulary spells
            completes it.

        Raises:
            UnsupportedGrammar: bytes and stacks do not decide the grammar, or it is a Lark grammar.
            BudgetExceeded: the completion has more than 65,536 bytes, or finding it takes too much.
        """
        if self.is_terminated():
            return []
        completion = self._compiled.completions.of(self._stops)
        tokens, self._place = completion.shortest(self._follower.text_read(), self._place)
        return tokens

    def closes_within(self, tokens_left: int, *, as_masks: bool = False) -> bool | None:
        """Whether at most so many tokens complete the text from here on; the state does not change.

        Args:
            tokens_left: a number, 0 or more; the stop token is not among them.
            as_masks: look no further than a closing mask looks behind each of its tokens.

        Returns:
            None where the search for a way was given up: none is known, and none is excluded. Closing masks
            are plain masks there.

        Raises:
            UnsupportedGrammar, BudgetExceeded, ArgumentError: as `fill_closing_bitmask`.
        """
        left, brief = integer_from(0, tokens_left, "tokens_left"), flag(as_masks, "as_masks")
        if self.is_terminated():
            return True
        completion = self._compiled.completions.of(self._stops)
        closes, self._place = completion.closes(self._follower.text_read(), self._place, left, brief)
        return closes

    def fill_closing_bitmask(self, bitmask: torch.Tensor, tokens_left: int, index: int = 0) -> bool:
        """As `fill_next_token_bitmask`, without the tokens after which the text could not be completed in
        time: a token's bit is 1 iff it is taken here and `closes_within(tokens_left - 1)` is known behind it
        (how far is looked: docs/completion.md). Who follows such masks from the start on ends with whole
        text. Where `closes_within(tokens_left)` is None, the mask is the plain one.

        Args:
            bitmask: as of `fill_next_token_bitmask`.
            index: as of `fill_next_token_bitmask`.
            tokens_left: tokens that may still follow, the next one included. A whole text needs no stop token
                here: give one less where it has to fit too.

        Returns:
            Whether the mask forbids anything.

        Raises:
            MatcherError: no `tokens_left` tokens complete the text, or it has ended.
            UnsupportedGrammar, BudgetExceeded: as `shortest_completion`, or as `fill_next_token_bitmask`.
            BitmaskError, ArgumentError: as `fill_next_token_bitmask`; or `tokens_left` is below 1. Nothing
                was written, whatever is raised.
        """
        left = integer_from(1, tokens_left, "tokens_left")
        row = self._row(bitmask, index)
        mask = np.empty(self._width, np.uint32)
        needed = self._fill_closing(mask, left)
        row[:] = mask
        return needed

    def _fill_closing(self, words: NDArray[np.uint32], left: int) -> bool:
        """Write the closing mask to words that nobody else sees; whether it forbids anything."""
        completion = self._compiled.completions.of(self._stops)
        needed = self._fill(words)
        count_masks(1)
        restricted, self._place = completion.restrict(self._follower.text_read(), self._place, left, words)
        return needed or restricted

    def limit_tokens(self, tokens_left: int | None, *, with_stop_token: bool = False) -> bool | None:
        """Have all masks from here on leave room for the rest of the text, in batches and trees of drafts
        too: those of `fill_closing_bitmask`, with a number that falls with each step and rises with each one
        that is taken back. Where no way fits, masks are plain ones (docs/completion.md).

        Args:
            tokens_left: tokens that may still follow, 0 or more; each step counts as one. None: no limit.
            with_stop_token: keep one of them for a stop token, wherever the text fits into the others.

        Returns:
            Whether the text can be completed in time; None where that is not known, or no limit was given.

        Raises:
            UnsupportedGrammar, BudgetExceeded, ArgumentError: as `closes_within`; the former limit stays.
        """
        follower = self._follower
        if isinstance(follower, ClosingFollower):
            follower = follower.inner
        if tokens_left is None:
            self._follower = follower
            return None
        left, stops = integer_from(0, tokens_left, "tokens_left"), flag(with_stop_token, "with_stop_token")
        closes = self.closes_within(left)
        completion = self._compiled.completions.of(self._stops)
        self._follower = ClosingFollower(follower, completion, left, self._stops if stops else ())
        return closes

    @property
    def tokens_left(self) -> int | None:
        """What is left of the limit of tokens, below 0 behind it; None: there is none, or it cannot be kept
        any more (`lost_limit`)."""
        follower = self._follower
        is_kept = isinstance(follower, ClosingFollower) and follower.trouble is None
        return follower.left if is_kept else None

    @property
    def lost_limit(self) -> str | None:
        """Why a limit of tokens cannot be kept any more: a completion was too long, or took too much."""
        return self._follower.trouble if isinstance(self._follower, ClosingFollower) else None

    # why

    def explain(self) -> Explanation:
        """What the grammar allows here, in words: literals, keys, sets of characters, names of rules and
        terminals, how many tokens, what is forced; the state does not change. On every strategy
        (docs/explain.md). It takes `Budget.mask_seconds` at most, or `EXPLAINED_WITHIN` where there is no
        such bound; an answer that lacks something is `cut_short`.

        Raises:
            BudgetExceeded: as `fill_next_token_bitmask`.
        """
        return self.explain_within(self._deadline_of_words())

    def _deadline_of_words(self) -> Deadline:
        seconds = self._compiled.mask_seconds
        return Deadline(EXPLAINED_WITHIN if seconds is None else seconds)

    def explain_within(self, deadline: Deadline) -> Explanation:
        """As `explain`, in the time that there is."""
        compiled = self._compiled
        vocabulary = compiled.vocabulary
        return explain(
            self,
            self._known_words(),
            self._follower.text_read(),
            vocabulary.tokens,
            compiled.wording.singles(vocabulary.tokens, self._stops),
            compiled.schema is not None,
            deadline,
        )

    def _known_words(self) -> Words:
        if self._words is None:
            self._words = Words(self._compiled.wording)
        return self._words

    def _fork_to_explain(self) -> GrammarMatcher:
        """A fork for this call, which goes on with the words of this matcher."""
        twin = self.fork()
        twin._words = self._known_words()
        return twin

    def explain_refusal(self, text: str | bytes, *, is_whole: bool = False) -> Refusal | None:
        """The first byte of a text that cannot follow here, and what is expected there in its place; the
        state does not change.

        Args:
            text: the text.
            is_whole: whether it has to be whole, too.

        Returns:
            None where all of it can follow. It takes as long as `explain` at most; a refusal is `cut_short`
            where that was not enough to find it.

        Raises:
            ArgumentError: as `accept_string`. BudgetExceeded: as `fill_next_token_bitmask`.
        """
        whole = flag(is_whole, "is_whole")
        return find_refusal(self._fork_to_explain(), text_of(text), whole, self._deadline_of_words())

    def get_captures(self, *, deduplicate: bool = True) -> Any:
        """Spans captured so far, as in XGrammar."""
        return self._follower.get_captures(flag(deduplicate, "deduplicate"))
