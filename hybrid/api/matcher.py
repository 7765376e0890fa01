"""The matcher: XGrammar's `GrammarMatcher`, with the same masks on every strategy.

What: checks the arguments of each call and passes them to the follower of the compiled grammar's strategy
(`hybrid.values.follower`), or to the follower that has replaced it. The base class `hybrid.api.calls.Calls`
has the two calls of every step.
When: one per sequence. Use a matcher from one thread at a time; different matchers may run in parallel.
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
from equivalence.network import dialect
from hybrid.api.bitmask import Rows, row_number
from hybrid.api.calls import Calls, count_masks
from hybrid.api.draft_tree import traverse
from hybrid.classifier.follower import ClassifierFollower
from hybrid.compiled import CompiledGrammar
from hybrid.completion import Place
from hybrid.completion.follower import LimitedFollower
from hybrid.explain import Explanation, Refusal, TextExplainer, explain, find_refusal
from hybrid.representatives.follower import EngineFollower
from hybrid.uniqueness import UniquenessFollower
from hybrid.values.arguments import encoded, stop_ids, temperature_of
from hybrid.values.follower import Follower, ReplaceFollower
from hybrid.values.gather import Gather

EXPLAINED_WITHIN = 5.0
"""Time limit of an explanation in seconds, if masks have none."""

Answer = TypeVar("Answer")


class GrammarMatcher(Calls):
    """Follows one sequence through a grammar: gives the mask for the next token, and accepts the chosen
    token.

    Args:
        compiled_grammar: a grammar from `hybrid.GrammarCompiler`.
        override_stop_tokens: ids that end this sequence, in place of the vocabulary's stop ids. A stop id of
            the vocabulary that is not among them is treated as ordinary text; without text it is forbidden.
        terminate_without_stop_token: terminate as soon as the grammar can end, without a stop token.
        max_rollback_tokens: deprecated in XGrammar and ignored here: rollback is unlimited.
        default_temperature: as in XGrammar, for grammars that set temperatures.

    Raises:
        HybridError: `compiled_grammar` was not made by `hybrid.GrammarCompiler`.
        VocabularyError: a stop id is out of range, or there is none.
        ArgumentError: the temperature is below 0 or not finite, or another argument is not allowed.

    Examples:
        >>> from hybrid import GrammarCompiler, GrammarMatcher, Vocabulary, allocate_token_bitmask
        >>> vocabulary = Vocabulary.from_bytes([b"a", b"b", b"ab", b"</s>"], stop_token_ids=[3])
        >>> matcher = GrammarMatcher(GrammarCompiler(vocabulary).compile_regex("(ab)+"))
        >>> bitmask = allocate_token_bitmask(1, vocabulary.size)
        >>> matcher.fill_next_token_bitmask(bitmask)  # whether some token is forbidden
        True
        >>> [token for token in range(4) if bitmask[0, 0] >> token & 1]
        [0, 2]
        >>> matcher.accept_token(2), matcher.accept_token(1)  # "ab", then "b" is refused
        (True, False)
        >>> matcher.is_completed(), matcher.accept_token(3), matcher.is_terminated()
        (True, True, True)
    """

    _unspelled = b""
    """Bytes that tokens must spell before the text of the grammar begins."""

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
                "compiled_grammar must be what hybrid.GrammarCompiler returns, but is of type "
                f"{type(compiled_grammar).__name__}"
            )
        if integer(max_rollback_tokens, "max_rollback_tokens") != -1:
            warnings.warn(
                "max_rollback_tokens is ignored: rollback is unlimited", DeprecationWarning, stacklevel=2
            )
        ends_without_stop = flag(terminate_without_stop_token, "terminate_without_stop_token")
        vocabulary = compiled_grammar.vocabulary
        stops = stop_ids(override_stop_tokens, vocabulary.size)
        self._compiled = compiled_grammar
        self._stops = vocabulary.stop_token_ids if stops is None else stops
        self._size, self._width = vocabulary.size, (vocabulary.size + 31) // 32
        self.remember(None, None)
        self._place: Place | None = None
        self._explainer: TextExplainer | None = None
        self._follower = follower_of(
            compiled_grammar, self._stops, ends_without_stop, temperature_of(default_temperature)
        )

    @property
    def compiled_grammar(self) -> CompiledGrammar:
        """The grammar that this matcher follows."""
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
        """Ask the follower; if it exceeds its budget, replace it and ask the new one."""
        try:
            return question(self._follower)
        except ReplaceFollower as replaced:
            self._follower = replaced.follower
        return question(self._follower)

    # masks

    def _find_mask(self) -> None:
        """Have the classifier's follower compute the mask, or replace it if it exceeds its budget."""
        try:
            self._follower.find_mask()
        except ReplaceFollower as replaced:
            self._follower = replaced.follower

    def _fill_row(self, bitmask: Any, index: Any, debug_print: bool) -> bool:
        """The slow path of `fill_next_token_bitmask`: the bitmask or the mask is not in a cache."""
        needed = self._fill(self._row(bitmask, index), debug_print)
        count_masks(1)
        return needed

    def _fill(self, row: NDArray[np.uint32], debug_print: bool = False) -> bool:
        """Overwrite a checked row of words with the mask; return whether it forbids anything."""
        began = None if self._compiled.awaited is None else perf_counter()
        needed = self._answer(lambda follower: follower.fill(row, debug_print))
        if began is not None:
            self._compiled.first_mask_took(perf_counter() - began)
        return needed

    def _fill_by_class(self, words: NDArray[np.uint32]) -> Gather | None:
        """Write the mask by class; see `Follower.fill_by_class`."""
        return self._answer(lambda follower: follower.fill_by_class(words))

    def _row(self, bitmask: Any, index: Any) -> NDArray[np.uint32]:
        """The words of a row, checked now."""
        if index.__class__ is not int:
            index = row_number(index)
        return self._rows_of(bitmask).row(index)

    def _rows_of(self, bitmask: Any) -> Rows:
        """The rows of a bitmask, checked unless nothing changed since the last call."""
        rows: Rows | None = self.remembered(bitmask)
        if rows is None:
            self.remember(None, None)
            rows = Rows(bitmask, self._width, self._size)
            if isinstance(bitmask, torch.Tensor):
                self.remember(bitmask, rows)
        return rows

    # tokens and text

    def _accept(self, token_id: Any, debug_print: bool) -> bool:
        """The slow path of `accept_token`: the step is not in a cache."""
        token = integer(token_id, "token_id")
        if not 0 <= token < self._size:  # XGrammar would cut the id to 32 bits
            return False
        return self._answer(lambda follower: follower.accept_token(token, debug_print))

    def accept_string(self, input_str: str | bytes, *, debug_print: bool = False) -> bool:
        """Advance by a text, or return False and stay in place if the grammar does not allow all of it.

        A text counts as one step for `rollback`.

        Raises:
            ArgumentError: `input_str` is neither str nor bytes, bytearray or memoryview.
            BudgetExceeded: it took longer than `Budget.mask_seconds` for each 4,096 bytes.
        """
        text = encoded(input_str)
        return self._answer(lambda follower: follower.accept_string(text, debug_print))

    def rollback(self, num_tokens: int = 1) -> None:
        """Take back the last `num_tokens` steps. A stop token counts as a step, too.

        Raises:
            MatcherError: fewer steps were made; nothing changed. It is a `RuntimeError`, as in XGrammar.
            BudgetExceeded: the text must be read again (docs/budgets.md), which exceeds the budget; nothing
                changed.
            ArgumentError: `num_tokens` is not an integer, or below 0.
        """
        if num_tokens.__class__ is not int or num_tokens < 0:
            num_tokens = integer_from(0, num_tokens, "num_tokens")
        try:
            self._follower.rollback(num_tokens)
        except ReplaceFollower as replaced:
            self._follower = replaced.follower  # the new follower has taken them back

    @property
    def _n_steps(self) -> int:
        """Number of steps that were made and not taken back."""
        return self._follower.n_steps

    def _go_back(self, made: int, before: GrammarMatcher | None) -> None:
        """Go back to the place after so many steps, without reading the text again, which might fail.
        `before` is a copy that was made there; None if XGrammar follows the grammar."""
        steps = self._n_steps - made
        if before is not None and self._reads_again(steps):
            self._become(before)
        else:
            self.rollback(steps)

    def _reads_again(self, steps: int) -> bool:
        """See `Follower.reads_again`."""
        return self._follower.reads_again(steps)

    def _become(self, other: GrammarMatcher) -> None:
        """Go to the place of a copy, which is not used any more."""
        self._follower = other._follower

    traverse_draft_tree = traverse

    def reset(self) -> None:
        """Go back to the start, and drop the limit of tokens."""
        follower = self._follower
        if isinstance(follower, LimitedFollower):
            follower = follower.inner.fork()  # both change at once
        follower.reset()
        self._follower = follower

    def fork(self) -> GrammarMatcher:
        """An independent matcher in the same state."""
        twin = self.__class__.__new__(self.__class__)
        twin._compiled, twin._stops = self._compiled, self._stops
        twin._size, twin._width = self._size, self._width
        twin._place = self._place
        twin._explainer = None
        twin.remember(None, None)
        twin._follower = self._follower.fork()
        return twin

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise ArgumentError(
            "a matcher cannot be copied or pickled: matcher.fork() makes an independent one in the "
            "same state; in another process, make a new matcher and accept the same tokens"
        )

    def is_terminated(self) -> bool:
        """Whether the sequence has ended: by a stop token, or with `terminate_without_stop_token` by the
        grammar."""
        return self._answer(lambda follower: follower.is_terminated())

    def is_completed(self) -> bool:
        """Whether the text so far is a complete sentence of the grammar."""
        return self._answer(lambda follower: follower.is_completed())

    def find_jump_forward_string(self) -> str:
        """The longest text that must come next. The state does not change.

        On strategy "classifier", endless text is cut off after 65,536 bytes; on others, text that may be
        endless or longer than 1 MiB is left out. Less is found, or nothing, if the tables become too large,
        `Budget.mask_seconds` is exceeded, or the grammar is very ambiguous. It ends before a character of
        which only some bytes are forced, where XGrammar raises an error.

        Raises:
            UnicodeDecodeError: as in XGrammar before 0.2.9, if the text so far ends within a character; since
                0.2.9 there is no text then.
        """
        return self.forced_within(Deadline(self._compiled.mask_seconds))

    def forced_within(self, deadline: Deadline) -> str:
        """`find_jump_forward_string`, cut short at the deadline."""
        try:
            return self._follower.find_jump_forward_string(deadline)
        except UnicodeDecodeError:
            if dialect.DROPS_PARTS:
                return ""
            raise

    # token limits

    def shortest_completion(self) -> list[int] | None:
        """Token ids that complete the text from here, without the stop token. The state does not change.

        They spell a completion with the fewest bytes, in as few tokens as possible. If no tokens spell it,
        they are the fewest tokens that spell another completion (docs/completion.md).

        Returns:
            An empty list if the text is complete or has ended; None if the vocabulary cannot spell any
            completion.

        Raises:
            UnsupportedGrammar: the grammar depends on more than bytes and the parser's stack, or is a Lark
                grammar.
            BudgetExceeded: the completion has more than 65,536 bytes, or finding it exceeds the budget.
        """
        if self.is_terminated():
            return []
        completion = self._compiled.completions.of(self._stops)
        tokens, self._place = completion.shortest(self._follower.text_read(), self._place, self._unspelled)
        return tokens

    def can_complete_within(self, tokens_left: int, *, brief: bool = False) -> bool | None:
        """Whether `tokens_left` tokens are enough to complete the text from here. The state does not change.

        Args:
            tokens_left: 0 or more; the stop token is not counted.
            brief: use the shorter search that a limited mask makes after each of its tokens.

        Returns:
            None if the search was given up without an answer. A limited mask is then the plain mask.

        Raises:
            UnsupportedGrammar, BudgetExceeded, ArgumentError: as `fill_limited_bitmask`.
        """
        left, brief = integer_from(0, tokens_left, "tokens_left"), flag(brief, "brief")
        if self.is_terminated():
            return True
        completion = self._compiled.completions.of(self._stops)
        text = self._follower.text_read()
        is_completable, self._place = completion.can_complete(text, self._place, left, brief, self._unspelled)
        return is_completable

    def fill_limited_bitmask(self, bitmask: torch.Tensor, tokens_left: int, index: int = 0) -> bool:
        """`fill_next_token_bitmask`, without the tokens after which the text can no longer be completed in
        time.

        A token's bit is 1 if and only if the grammar allows it here and `can_complete_within(tokens_left -
        1)` holds after it (docs/completion.md says how far it searches). A sequence that follows such masks
        from its start ends with a complete text. If `can_complete_within(tokens_left)` is None, the mask is
        the plain one.

        Args:
            bitmask: as in `fill_next_token_bitmask`.
            tokens_left: how many tokens may still follow, including the next one. The stop token is not
                counted: pass one less if it must fit, too.
            index: as in `fill_next_token_bitmask`.

        Returns:
            Whether the mask forbids any token.

        Raises:
            MatcherError: `tokens_left` tokens cannot complete the text, or it has ended.
            UnsupportedGrammar, BudgetExceeded: as `shortest_completion` or `fill_next_token_bitmask`.
            BitmaskError, ArgumentError: as `fill_next_token_bitmask`; or `tokens_left` is below 1.
                Nothing is written if an error is raised.
        """
        left = integer_from(1, tokens_left, "tokens_left")
        row = self._row(bitmask, index)
        mask = np.empty(self._width, np.uint32)
        completion = self._compiled.completions.of(self._stops)
        needed = self._fill(mask)
        count_masks(1)
        text = self._follower.text_read()
        restricted, self._place = completion.restrict(text, self._place, left, mask, self._unspelled)
        row[:] = mask
        return needed or restricted

    def limit_tokens(self, tokens_left: int | None, *, with_stop_token: bool = False) -> bool | None:
        """Limit how many tokens may follow: all later masks leave room for the rest of the text.

        Later masks are those of `fill_limited_bitmask`, in batches and in trees of drafts, too. The number of
        tokens left falls by one with each step, and rises again with each step that is taken back. If none is
        left and the text is complete, only stop tokens are allowed. If the text cannot be completed in time,
        masks are plain ones (docs/completion.md).

        Args:
            tokens_left: how many tokens may still follow, 0 or more. None removes the limit.
            with_stop_token: keep one of these tokens for a stop token, whenever the text fits into the
                others.

        Returns:
            Whether the text can be completed in time; None if that is unknown, or if the limit was removed.

        Raises:
            UnsupportedGrammar, BudgetExceeded, ArgumentError: as `can_complete_within`; the previous limit
                stays.
        """
        follower = self._follower
        if isinstance(follower, LimitedFollower):
            follower = follower.inner
        if tokens_left is None:
            self._follower = follower
            return None
        left = integer_from(0, tokens_left, "tokens_left")
        with_stop = flag(with_stop_token, "with_stop_token")
        is_completable = self.can_complete_within(left)
        completion = self._compiled.completions.of(self._stops)
        self._follower = LimitedFollower(follower, completion, left, self._stops, with_stop)
        return is_completable

    @property
    def tokens_left(self) -> int | None:
        """How many tokens are left of the limit, negative after it was exceeded; None if there is no limit,
        or if it can no longer be kept (`limit_error`)."""
        follower = self._follower
        is_kept = isinstance(follower, LimitedFollower) and follower.limit_error is None
        return follower.left if is_kept else None

    @property
    def limit_error(self) -> str | None:
        """Why the limit of tokens can no longer be kept: a completion was too long or too expensive to
        find. A rollback to an earlier place restores the limit."""
        return self._follower.limit_error if isinstance(self._follower, LimitedFollower) else None

    # explanations

    def explain(self) -> Explanation:
        """Say in words what may come next. The state does not change.

        The answer names literals, keys, sets of characters, rules and terminals, the number of allowed
        tokens, and text that must come next (docs/explain.md). It works on every strategy, and takes at most
        `Budget.mask_seconds`, or 5 seconds if that is None; `cut_short` marks an answer that is incomplete.

        Raises:
            BudgetExceeded: as `fill_next_token_bitmask`.
        """
        return self.explain_within(self._deadline_of_explanations())

    def _deadline_of_explanations(self) -> Deadline:
        seconds = self._compiled.mask_seconds
        return Deadline(EXPLAINED_WITHIN if seconds is None else seconds)

    def explain_within(self, deadline: Deadline) -> Explanation:
        """`explain`, within a deadline."""
        return explain(self, self._text_explainer(), deadline)

    def _text_explainer(self) -> TextExplainer:
        if self._explainer is None:
            self._explainer = TextExplainer(self._compiled.explainer)
        return self._explainer

    def explain_refusal(self, text: str | bytes, *, is_whole: bool = False) -> Refusal | None:
        """Find the first byte of a text that is not allowed from here, and say what was expected in its
        place.

        The state does not change. It takes at most as long as `explain`; `cut_short` marks a refusal that was
        not found in that time.

        Args:
            text: the text.
            is_whole: also refuse a text that is allowed but not complete at its end.

        Returns:
            The refusal; None if the text is allowed.

        Raises:
            ArgumentError: as `accept_string`.
            BudgetExceeded: as `fill_next_token_bitmask`.
        """
        whole, data = flag(is_whole, "is_whole"), encoded(text)
        twin = self.fork()
        twin._explainer = self._text_explainer()  # the two share a cache
        return find_refusal(twin, data, whole, self._deadline_of_explanations())

    def get_captures(self, *, deduplicate: bool = True) -> list[tuple[str, bytes]]:
        """Return the names and texts of captured rules so far, as XGrammar does.

        Args:
            deduplicate: False lists each place where a captured rule may have ended, not only the last one.
        """
        return self._follower.get_captures(flag(deduplicate, "deduplicate"))


def follower_of(
    compiled: CompiledGrammar, stops: tuple[int, ...], ends_without_stop: bool, temperature: float | None
) -> Follower:
    """A follower at the start of a sequence, on the grammar's strategy. The arguments are those of the
    followers."""
    classifier = compiled.classifier
    found: Follower
    if classifier is None:
        found = EngineFollower(compiled, stops, ends_without_stop, temperature)
    elif classifier.has_handed_over:
        found = EngineFollower(compiled.fallback, stops, ends_without_stop, temperature)
    else:
        found = ClassifierFollower(compiled, stops, ends_without_stop, temperature)
    if compiled.places is None:
        return found
    return UniquenessFollower(found, compiled.places, compiled.vocabulary, stops, compiled.mask_seconds)
