"""Many matchers at once, with the methods of XGrammar's `BatchGrammarMatcher`.

What: everything is checked before the first matcher moves or the first word is written; where a matcher fails
after all, those that moved are taken back.
Limits: matchers on XGrammar go one after the other, those of classifiers share one kernel call; rows of one
bitmask may also be filled from several threads by the caller, as the inner work releases the GIL.
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
from hybrid.api.arguments import text_of
from hybrid.api.calls import count_masks
from hybrid.api.draft_tree import temperature_or_none, temperatures_of
from hybrid.api.matcher import GrammarMatcher
from hybrid.classifier.batch import are_known, find_steps, known_steps
from hybrid.classifier.drafts import fill_drafts

ONES = 0xFFFFFFFF
"""A word in which every bit is set."""


class BatchGrammarMatcher:
    """Fills and advances many matchers.

    Args:
        max_threads: accepted for XGrammar's sake, ignored.

    Raises:
        ArgumentError: max_threads is neither "auto" nor a positive integer.
    """

    def __init__(self, max_threads: int | str = "auto") -> None:
        if not isinstance(max_threads, str):
            max_threads = integer_from(1, max_threads, "max_threads")
        elif max_threads != "auto":
            raise ArgumentError(f"max_threads is {max_threads!r}, allowed are 'auto' and a positive integer")
        self.max_threads = max_threads

    def batch_fill_next_token_bitmask(
        self,
        matchers: Sequence[GrammarMatcher],
        bitmask: torch.Tensor,
        indices: Iterable[int] | None = None,
        debug_print: bool = False,
    ) -> None:
        """Fill row ``indices[i]`` (default i) for matcher i; other rows stay as they are.

        Raises:
            BitmaskError: as `GrammarMatcher.fill_next_token_bitmask`; not one row for each matcher, or one
                twice.
            MatcherError: a matcher has terminated. Nothing was written, whatever is raised.
        """
        matchers = checked(matchers)
        numbers = rows_of(matchers, indices)
        if len(matchers) < 2:
            for matcher, number in zip(matchers, numbers, strict=True):
                matcher.fill_next_token_bitmask(bitmask, number, debug_print=debug_print)
            return
        count_masks(len(matchers))
        fill_drafts(matchers, bitmask, numbers, None, partial(rows_alone, debug_print=debug_print))

    @staticmethod
    def batch_fill_draft_bitmask(
        matchers: Sequence[GrammarMatcher],
        bitmask: torch.Tensor,
        drafts: Sequence[Sequence[int]],
        indices: Iterable[int] | None = None,
    ) -> list[int]:
        """Fill for each matcher a row for where it stands, and one behind each of its draft tokens: all that
        a step of speculative decoding asks for. No matcher moves.

        Row ``indices[i] + k`` is the mask of matcher i behind its first k drafts. Where a draft is not taken,
        this row and those behind it are the row before; where the text has ended, and behind a draft of -1
        (no draft), all bits are set. This is what vLLM's workers get.

        Args:
            matchers: as of `batch_fill_next_token_bitmask`.
            bitmask: as of `batch_fill_next_token_bitmask`.
            drafts: a list of ids for each matcher, of any lengths.
            indices: the first row of each; None: behind those of the matchers before.

        Returns:
            How many drafts of each were taken.

        Raises:
            BitmaskError, MatcherError: as `batch_fill_next_token_bitmask`; rows that overlap.
            ArgumentError: drafts that are no lists of integers. BatchError: not one list for each matcher.
                Nothing was written, whatever is raised.
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
        count_masks(len(matchers) + sum(map(len, lists)))
        try:
            return fill_drafts(matchers, bitmask, numbers, lists, rows_alone)
        except (TypeError, OverflowError):
            for tokens in lists:
                integers(tokens, "drafts")
            raise

    @staticmethod
    def batch_fill_closing_bitmask(
        matchers: Sequence[GrammarMatcher],
        bitmask: torch.Tensor,
        tokens_left: int | Iterable[int],
        indices: Iterable[int] | None = None,
    ) -> None:
        """Fill row ``indices[i]`` (default i) for matcher i as `GrammarMatcher.fill_closing_bitmask` does.

        Args:
            tokens_left: as many for each matcher, or a number for each.

        Raises:
            MatcherError, UnsupportedGrammar, BudgetExceeded, BitmaskError, ArgumentError: as there.
            BatchError: not one number for each. Nothing was written, whatever is raised.
        """
        matchers = checked(matchers)
        numbers, left = rows_of(matchers, indices), _counts(matchers, tokens_left, "tokens_left", 1)
        targets = [
            matcher._rows_of(bitmask).row(number) for matcher, number in zip(matchers, numbers, strict=True)
        ]
        masks = [np.empty(len(target), np.uint32) for target in targets]
        for matcher, mask, count in zip(matchers, masks, left, strict=True):
            matcher._fill_closing(mask, count)
        for target, mask in zip(targets, masks, strict=True):
            target[:] = mask

    @staticmethod
    def batch_fill_temperature(
        matchers: Sequence[GrammarMatcher], temperatures: torch.Tensor, indices: Iterable[int] | None = None
    ) -> None:
        """Write the temperature of matcher i to element ``indices[i]`` (default i), -1 where there is none.

        Args:
            matchers: the matchers.
            temperatures: float32, one dimension, on the CPU.
            indices: the elements.

        Raises:
            ArgumentError: temperatures of another type, shape or device; nothing was written.
            BitmaskError: not one element for each matcher, one that does not exist, or one twice; likewise.
        """
        matchers = checked(matchers)
        numbers = rows_of(matchers, indices)
        array = temperatures_of(temperatures)
        for number in numbers:
            if not 0 <= number < len(array):
                raise BitmaskError(f"index {number} is out of bounds, allowed are 0 to {len(array) - 1}")
        array[numbers] = [temperature_or_none(matcher) for matcher in matchers]

    @staticmethod
    def batch_accept_token(
        matchers: Sequence[GrammarMatcher], tokens: Iterable[int], debug_print: bool = False
    ) -> list[bool]:
        """Advance matcher i by token i; which of them accepted.

        Raises:
            ArgumentError: a token that is no integer. BatchError: not one for each matcher. Nothing moved,
                whatever is raised.
        """
        matchers = checked(matchers)
        ids = integers(tokens, "tokens")
        _check_length(matchers, ids, "tokens")
        if len(matchers) > 1 and are_known(matchers):
            taken = None if debug_print else known_steps(matchers, ids)
            if taken is not None:
                return taken
            find_steps(matchers, ids)
        return _advanced(matchers, [matcher.accept_token for matcher in matchers], ids, debug_print)

    @staticmethod
    def batch_accept_string(
        matchers: Sequence[GrammarMatcher], strings: Iterable[str | bytes], debug_print: bool = False
    ) -> list[bool]:
        """Advance matcher i by text i; which of them accepted.

        Raises:
            ArgumentError: neither str nor bytes. BatchError: not one for each matcher. Nothing moved,
                whatever is raised.
        """
        matchers = checked(matchers)
        if isinstance(strings, (str, bytes, bytearray)) or not isinstance(strings, Iterable):
            raise ArgumentError(f"strings is {shown(strings)}, allowed is a list of str or bytes")
        texts = [text_of(text) for text in strings]
        _check_length(matchers, texts, "strings")
        return _advanced(matchers, [matcher.accept_string for matcher in matchers], texts, debug_print)

    @staticmethod
    def batch_rollback(matchers: Sequence[GrammarMatcher], num_tokens: int | Iterable[int] = 1) -> None:
        """Take back the last steps of every matcher: as many for each, or a number for each.

        Raises:
            ArgumentError: a number that is no integer, or below 0. BatchError: not one for each matcher.
            MatcherError: a matcher made fewer steps. Nothing moved, whatever is raised.
        """
        matchers = checked(matchers)
        counts = _counts(matchers, num_tokens, "num_tokens", 0)
        for matcher, count in _sums(matchers, counts):
            matcher._check_made(count)
        for matcher, count in zip(matchers, counts, strict=True):
            matcher.rollback(count)


def checked(matchers: Any) -> list[Any]:
    """The matchers as a list, or `ArgumentError`."""
    found = list(matchers) if isinstance(matchers, Iterable) else None
    if found is None:
        raise ArgumentError(f"matchers is {shown(matchers)}, allowed is a list of hybrid.GrammarMatcher")
    if not all(issubclass(kind, GrammarMatcher) for kind in set(map(type, found))):
        for place, matcher in enumerate(found):
            if not isinstance(matcher, GrammarMatcher):
                raise ArgumentError(
                    f"matchers[{place}] is {type(matcher).__module__}.{type(matcher).__name__}, allowed is a "
                    "hybrid.GrammarMatcher"
                )
    return found


def rows_of(matchers: list[GrammarMatcher], indices: Any) -> Sequence[int]:
    """A row for each matcher, none of them twice."""
    if indices is None:
        return range(len(matchers))
    rows = integers(indices, "indices", BitmaskError)
    _check_length(matchers, rows, "indices", BitmaskError)
    if len(set(rows)) < len(rows):
        twice = next(row for place, row in enumerate(rows) if row in rows[:place])
        raise BitmaskError(
            f"index {twice} is given twice in indices, allowed is a row of its own for each matcher"
        )
    return rows


def _drafts_of(matchers: list[Any], drafts: Any) -> list[Any]:
    """A list of tokens for each matcher; what is in them is looked at where it is read."""
    if isinstance(drafts, (str, bytes)) or not isinstance(drafts, Sequence):
        raise ArgumentError(f"drafts is {shown(drafts)}, allowed is a list of lists of ids")
    lists = [one if isinstance(one, (list, tuple)) else integers(one, "drafts") for one in drafts]
    _check_length(matchers, lists, "drafts")
    return lists


def _check_apart(numbers: list[int], lists: list[Any]) -> None:
    """Raise `BitmaskError` where rows of two matchers overlap."""
    end = None
    for number, tokens in sorted(zip(numbers, map(len, lists), strict=True)):
        if end is not None and number <= end:
            raise BitmaskError(
                f"row {number} is the first of a matcher, and one of another matcher's drafts; allowed are "
                "rows of its own for each matcher, one more than it has drafts"
            )
        end = number + tokens


def rows_alone(
    matcher: GrammarMatcher, tokens: Sequence[int], debug_print: bool = False
) -> tuple[NDArray[np.uint32], int]:
    """The rows of a matcher and its drafts, asked one after the other; how many drafts were taken."""
    masks = np.full((len(tokens) + 1, matcher._width), ONES, np.uint32)
    taken = 0
    matcher._fill(masks[0], debug_print)
    try:
        for at, token in enumerate(tokens, 1):
            if token == -1:
                break
            if matcher.is_terminated() or not matcher.accept_token(token):
                masks[at:] = masks[at - 1]
                break
            taken += 1
            if not matcher.is_terminated():
                matcher._fill(masks[at], debug_print)
    finally:
        matcher.rollback(taken)
    return masks, taken


def _counts(matchers: list[Any], given: Any, name: str, least: int) -> list[int]:
    """A number for each matcher, of one for all or of a list."""
    if not hasattr(given, "__iter__") or getattr(given, "ndim", None) == 0:
        return [integer_from(least, given, name)] * len(matchers)
    counts = [integer_from(least, count, name) for count in integers(given, name)]
    _check_length(matchers, counts, name)
    return counts


def _check_length(
    matchers: list[Any], given: list[Any], name: str, error: type[HybridError] = BatchError
) -> None:
    if len(given) != len(matchers):
        raise error(
            f"{name} size is {len(given)}, matchers size is {len(matchers)}; allowed is one of them for each"
        )


def _advanced(
    matchers: Sequence[GrammarMatcher],
    accept: Sequence[Callable[..., bool]],
    steps: list[Any],
    debug_print: bool,
) -> list[bool]:
    """Advance each matcher by its step, or none of them if one raises an error."""
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


def _sums(matchers: list[GrammarMatcher], counts: list[int]) -> Iterable[tuple[GrammarMatcher, int]]:
    """Each matcher and its counts together: one may be given several times."""
    sums: dict[int, list[Any]] = {}
    for matcher, count in zip(matchers, counts, strict=True):
        sums.setdefault(id(matcher), [matcher, 0])[1] += count
    return [(matcher, count) for matcher, count in sums.values()]
