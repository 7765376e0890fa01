"""Many matchers at once, with the methods of XGrammar's `BatchGrammarMatcher`.

What: all arguments are checked before the first matcher moves or the first word is written. If a matcher
fails later, those that have moved are rolled back.
Limits: matchers on classifiers share one kernel call; matchers on XGrammar run one after the other. The
caller may also fill rows of one bitmask from several threads, because the work inside releases the GIL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from equivalence import ArgumentError, BatchError, BitmaskError, HybridError
from equivalence.arguments import integer_from, integers, shown
from hybrid.api.batch_steps import known_steps
from hybrid.api.draft_rows import fill_drafts
from hybrid.api.draft_tree import in_place, temperature_or_none, temperatures_of
from hybrid.api.matcher import GrammarMatcher
from hybrid.values.arguments import encoded
from hybrid.values.follower import check_made

ONES = 0xFFFFFFFF
"""A word in which every bit is set."""


class BatchGrammarMatcher:
    """Fills and advances many matchers.

    Args:
        max_threads: accepted for compatibility with XGrammar, and ignored.

    Raises:
        ArgumentError: `max_threads` is neither "auto" nor a positive integer.
    """

    def __init__(self, max_threads: int | str = "auto") -> None:
        if not isinstance(max_threads, str):
            max_threads = integer_from(1, max_threads, "max_threads")
        elif max_threads != "auto":
            raise ArgumentError(f"max_threads must be 'auto' or a positive integer, but is {max_threads!r}")
        self.max_threads = max_threads

    def batch_fill_next_token_bitmask(
        self,
        matchers: Sequence[GrammarMatcher],
        bitmask: torch.Tensor,
        indices: Iterable[int] | None = None,
        debug_print: bool = False,
    ) -> None:
        """Fill row ``indices[i]`` (default: i) with the mask of matcher i. Other rows stay as they are.

        Raises:
            BitmaskError: as `GrammarMatcher.fill_next_token_bitmask`; or `indices` does not have one row for
                each matcher, or has a row twice.
            MatcherError: a matcher has terminated. Nothing is written if an error is raised.
        """
        matchers = checked(matchers)
        numbers = rows_of(matchers, indices)
        if len(matchers) < 2:
            for matcher, number in zip(matchers, numbers, strict=True):
                matcher.fill_next_token_bitmask(bitmask, number, debug_print=debug_print)
            return
        fill_drafts(matchers, bitmask, numbers, None, partial(rows_of_one_matcher, debug_print=debug_print))

    @staticmethod
    def batch_fill_draft_bitmask(
        matchers: Sequence[GrammarMatcher],
        bitmask: torch.Tensor,
        drafts: Sequence[Sequence[int]],
        indices: Iterable[int] | None = None,
    ) -> list[int]:
        """Fill the masks for one step of speculative decoding. No matcher moves.

        Row ``indices[i] + k`` gets the mask of matcher i after its first k draft tokens. If a draft token is
        not allowed, its row and all later ones repeat the row before. After the end of the text, and after a
        draft of -1 (no draft), all bits are set. This is the layout that vLLM's workers expect.

        Args:
            matchers: as of `batch_fill_next_token_bitmask`.
            bitmask: as of `batch_fill_next_token_bitmask`.
            drafts: one list of ids for each matcher, of any length.
            indices: the first row of each matcher. None: each matcher's rows follow those of the one before.

        Returns:
            For each matcher, how many of its draft tokens are allowed.

        Raises:
            BitmaskError, MatcherError: as `batch_fill_next_token_bitmask`; or rows of two matchers overlap.
            ArgumentError: `drafts` does not hold lists of integers.
            BatchError: there is not one list for each matcher. Nothing is written if an error is raised.
        """
        matchers = checked(matchers)
        lists = _drafts_of(matchers, drafts)
        if indices is None:
            numbers = [0, *accumulate(len(tokens) + 1 for tokens in lists)][: len(lists)]
        else:
            numbers = integers(indices, "indices", BitmaskError)
            _check_length(matchers, numbers, "indices", BitmaskError)
            _check_apart(numbers, lists)
        if not matchers:
            return []
        try:
            return fill_drafts(matchers, bitmask, numbers, lists, rows_of_one_matcher)
        except (TypeError, OverflowError):
            for tokens in lists:
                integers(tokens, "drafts")
            raise

    @staticmethod
    def batch_fill_temperature(
        matchers: Sequence[GrammarMatcher], temperatures: torch.Tensor, indices: Iterable[int] | None = None
    ) -> None:
        """Write the temperature of matcher i to element ``indices[i]`` (default: i), or -1 if it has none.

        Args:
            matchers: the matchers.
            temperatures: float32, one dimension, on the CPU.
            indices: the elements.

        Raises:
            ArgumentError: `temperatures` has another type, shape or device.
            BitmaskError: there is not one element for each matcher, one does not exist, or one occurs twice.
                Nothing is written if an error is raised.
        """
        matchers = checked(matchers)
        numbers = rows_of(matchers, indices)
        array = temperatures_of(temperatures)
        for number in numbers:
            if not 0 <= number < len(array):
                raise BitmaskError(f"index {number} is out of range: it must be from 0 to {len(array) - 1}")
        array[numbers] = [temperature_or_none(matcher) for matcher in matchers]

    @staticmethod
    def batch_accept_token(
        matchers: Sequence[GrammarMatcher], tokens: Iterable[int], debug_print: bool = False
    ) -> list[bool]:
        """Advance matcher i by token i, and return for each whether it accepted.

        Raises:
            ArgumentError: a token is not an integer.
            BatchError: there is not one token for each matcher. No matcher moves if an error is raised.
        """
        matchers = checked(matchers)
        ids = tokens_of(matchers, tokens)
        if len(matchers) > 1 and not debug_print:
            taken = known_steps(matchers, ids)
            if taken is not None:
                return taken
        return _advanced(matchers, [matcher.accept_token for matcher in matchers], ids, debug_print)

    @staticmethod
    def batch_accept_string(
        matchers: Sequence[GrammarMatcher], strings: Iterable[str | bytes], debug_print: bool = False
    ) -> list[bool]:
        """Advance matcher i by text i, and return for each whether it accepted.

        Raises:
            ArgumentError: a text is neither str nor bytes.
            BatchError: there is not one text for each matcher. No matcher moves if an error is raised.
        """
        matchers = checked(matchers)
        texts = texts_of(matchers, strings)
        return _advanced(matchers, [matcher.accept_string for matcher in matchers], texts, debug_print)

    @staticmethod
    def batch_rollback(matchers: Sequence[GrammarMatcher], num_tokens: int | Iterable[int] = 1) -> None:
        """Take back the last steps of every matcher.

        Args:
            matchers: the matchers.
            num_tokens: one number for all matchers, or a list with one for each.

        Raises:
            ArgumentError: a number is not an integer, or below 0.
            BatchError: there is not one number for each matcher.
            MatcherError: a matcher made fewer steps.
            BudgetExceeded: as `GrammarMatcher.rollback`. No matcher moves if an error is raised.
        """
        matchers = checked(matchers)
        counts = steps_of(matchers, num_tokens)
        sums: dict[int, int] = {}  # a matcher may be given several times
        for matcher, count in zip(matchers, counts, strict=True):
            sums[id(matcher)] = sums.get(id(matcher), 0) + count
        for matcher in matchers:
            check_made(matcher._n_steps, sums[id(matcher)])
        twins: dict[int, GrammarMatcher] = {}  # only reading again may fail
        for matcher in matchers:
            if id(matcher) not in twins and matcher._reads_again(sums[id(matcher)]):
                twin = twins[id(matcher)] = matcher.fork()
                twin.rollback(sums[id(matcher)])
        for matcher in {id(matcher): matcher for matcher in matchers}.values():
            if id(matcher) in twins:
                matcher._become(twins[id(matcher)])
            else:
                matcher.rollback(sums[id(matcher)])


def checked(matchers: Any) -> list[Any]:
    """The matchers as a list, or `ArgumentError`."""
    if not isinstance(matchers, Iterable):
        raise ArgumentError(f"matchers must be a list of hybrid.GrammarMatcher, but is {shown(matchers)}")
    found = list(matchers)
    if not all(issubclass(kind, GrammarMatcher) for kind in set(map(type, found))):
        for place, matcher in enumerate(found):
            if not isinstance(matcher, GrammarMatcher):
                raise ArgumentError(
                    f"matchers[{place}] must be a hybrid.GrammarMatcher, but is of type "
                    f"{type(matcher).__module__}.{type(matcher).__name__}"
                )
    return found


def rows_of(matchers: list[GrammarMatcher], indices: Any) -> Sequence[int]:
    """One row for each matcher, all different."""
    if indices is None:
        return range(len(matchers))
    rows = integers(indices, "indices", BitmaskError)
    _check_length(matchers, rows, "indices", BitmaskError)
    if len(set(rows)) < len(rows):
        twice = next(row for place, row in enumerate(rows) if row in rows[:place])
        raise BitmaskError(f"indices contains {twice} twice; each matcher needs a row of its own")
    return rows


def tokens_of(matchers: list[Any], tokens: Any) -> list[int]:
    """One token for each matcher."""
    ids = integers(tokens, "tokens")
    _check_length(matchers, ids, "tokens")
    return ids


def texts_of(matchers: list[Any], strings: Any) -> list[bytes]:
    """One text for each matcher."""
    if isinstance(strings, (str, bytes, bytearray)) or not isinstance(strings, Iterable):
        raise ArgumentError(f"strings must be a list of str or bytes, but is {shown(strings)}")
    texts = [encoded(text) for text in strings]
    _check_length(matchers, texts, "strings")
    return texts


def _drafts_of(matchers: list[Any], drafts: Any) -> list[Any]:
    """One list of tokens for each matcher. The tokens are checked when they are read."""
    if isinstance(drafts, (str, bytes)) or not isinstance(drafts, Sequence):
        raise ArgumentError(f"drafts must be a list of lists of ids, but is {shown(drafts)}")
    lists = [one if isinstance(one, (list, tuple)) else integers(one, "drafts") for one in drafts]
    _check_length(matchers, lists, "drafts")
    return lists


def _check_apart(numbers: list[int], lists: list[Any]) -> None:
    """Raise `BitmaskError` if rows of two matchers overlap."""
    end = None
    for number, tokens in sorted(zip(numbers, map(len, lists), strict=True)):
        if end is not None and number <= end:
            raise BitmaskError(
                f"row {number} is the first row of a matcher and also a row of another matcher's "
                "draft; each matcher needs rows of its own, one more than its draft has tokens"
            )
        end = number + tokens


def rows_of_one_matcher(
    matcher: GrammarMatcher, tokens: Sequence[int], debug_print: bool = False
) -> tuple[NDArray[np.uint32], int]:
    """The masks of one matcher and its drafts, one after the other, and how many drafts are allowed."""
    masks = np.full((len(tokens) + 1, matcher._width), ONES, np.uint32)
    matcher._fill(masks[0], debug_print)
    if not tokens:
        return masks, 0
    return masks, in_place(matcher, partial(_read_drafts, matcher, tokens, masks, debug_print))


def _read_drafts(
    matcher: GrammarMatcher, tokens: Sequence[int], masks: NDArray[np.uint32], debug_print: bool
) -> int:
    """Read drafts, and fill the masks after each. Return how many are allowed."""
    for at, token in enumerate(tokens, 1):
        if token == -1:
            return at - 1
        if matcher.is_terminated() or not matcher.accept_token(token):
            masks[at:] = masks[at - 1]
            return at - 1
        if not matcher.is_terminated():
            matcher._fill(masks[at], debug_print)
    return len(tokens)


def steps_of(matchers: list[Any], given: Any) -> list[int]:
    """The number of steps for each matcher, from a single number or a list."""
    if not hasattr(given, "__iter__") or getattr(given, "ndim", None) == 0:
        return [integer_from(0, given, "num_tokens")] * len(matchers)
    counts = [integer_from(0, count, "num_tokens") for count in integers(given, "num_tokens")]
    _check_length(matchers, counts, "num_tokens")
    return counts


def _check_length(
    matchers: list[Any], given: list[Any], name: str, error: type[HybridError] = BatchError
) -> None:
    if len(given) != len(matchers):
        raise error(f"{name} must have one element for each matcher ({len(matchers)}), but has {len(given)}")


def _advanced(
    matchers: Sequence[GrammarMatcher],
    accept: Sequence[Callable[..., bool]],
    steps: list[Any],
    debug_print: bool,
) -> list[bool]:
    """Advance each matcher by its step, or none if one raises an error."""
    if debug_print:
        accept = [partial(advance, debug_print=True) for advance in accept]
    taken: list[bool] = []
    tell = taken.append
    try:
        for advance, step in zip(accept, steps, strict=True):
            tell(advance(step))
    except BaseException:
        for matcher, moved in reversed(list(zip(matchers, taken, strict=False))):
            if moved:
                matcher.rollback(1)
        raise
    return taken
