"""Many matchers at once, with XGrammar's arguments, results and errors.

What: `hybrid.BatchGrammarMatcher`, which also accepts matchers of plain XGrammar. If a batch has one of
these, all matchers are called one by one.
When: one per engine.
Limits: a row that occurs twice is an error; in XGrammar, threads would race.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

import torch
import xgrammar

import hybrid
from adapters.xgrammar.errors import with_its_errors
from equivalence import BatchError

ours = hybrid.BatchGrammarMatcher


class BatchGrammarMatcher(ours):
    """Fills and advances many matchers.

    Args:
        max_threads: accepted for compatibility with XGrammar, and ignored.

    Raises:
        RuntimeError: `max_threads` is neither "auto" nor a positive integer.
    """

    __init__ = with_its_errors(ours.__init__)

    @with_its_errors
    def batch_fill_next_token_bitmask(
        self,
        matchers: Sequence[Any],
        bitmask: Any,
        indices: Iterable[int] | None = None,
        debug_print: bool = False,
    ) -> None:
        """`xgrammar.BatchGrammarMatcher.batch_fill_next_token_bitmask`."""
        if _are_ours(matchers):
            return super().batch_fill_next_token_bitmask(matchers, bitmask, indices, debug_print)
        for matcher, row in _pairs(matchers, range(len(matchers)) if indices is None else indices):
            matcher.fill_next_token_bitmask(bitmask, row, debug_print=debug_print)
        return None

    @staticmethod
    @with_its_errors
    def batch_fill_temperature(
        matchers: Sequence[Any], temperatures: torch.Tensor, indices: Iterable[int] | None = None
    ) -> None:
        """`xgrammar.BatchGrammarMatcher.batch_fill_temperature`."""
        if _are_ours(matchers):
            return ours.batch_fill_temperature(matchers, temperatures, indices)
        for matcher, place in _pairs(matchers, range(len(matchers)) if indices is None else indices):
            alone = ours if _are_ours([matcher]) else xgrammar.BatchGrammarMatcher
            alone.batch_fill_temperature([matcher], temperatures, [place])
        return None

    @staticmethod
    @with_its_errors
    def batch_accept_token(
        matchers: Sequence[Any], tokens: Iterable[int], debug_print: bool = False
    ) -> list[bool]:
        """`xgrammar.BatchGrammarMatcher.batch_accept_token`."""
        if _are_ours(matchers):
            return ours.batch_accept_token(matchers, tokens, debug_print)
        return [one.accept_token(token, debug_print=debug_print) for one, token in _pairs(matchers, tokens)]

    @staticmethod
    @with_its_errors
    def batch_accept_string(
        matchers: Sequence[Any], strings: Iterable[str | bytes], debug_print: bool = False
    ) -> list[bool]:
        """`xgrammar.BatchGrammarMatcher.batch_accept_string`."""
        if _are_ours(matchers):
            return ours.batch_accept_string(matchers, strings, debug_print)
        return [one.accept_string(text, debug_print=debug_print) for one, text in _pairs(matchers, strings)]

    @staticmethod
    @with_its_errors
    def batch_rollback(matchers: Sequence[Any], num_tokens: int | Iterable[int] = 1) -> None:
        """`xgrammar.BatchGrammarMatcher.batch_rollback`: one number of steps for all, or a list."""
        if _are_ours(matchers):
            return ours.batch_rollback(matchers, num_tokens)
        counts = repeat(num_tokens, len(matchers)) if isinstance(num_tokens, int) else num_tokens
        for matcher, count in _pairs(matchers, counts):
            matcher.rollback(count)
        return None


def _are_ours(matchers: Any) -> bool:
    """Whether none of the matchers is plain XGrammar's. `hybrid` reports other wrong objects."""
    kinds = set(map(type, matchers)) if isinstance(matchers, Sequence) else set()
    return not any(issubclass(kind, xgrammar.GrammarMatcher) for kind in kinds)


def _pairs(matchers: Sequence[Any], given: Iterable[Any]) -> list[tuple[Any, Any]]:
    """Return each matcher with its argument."""
    values = list(given)
    if len(values) != len(matchers):
        raise BatchError(
            f"a list must have one element for each matcher ({len(matchers)}), but has {len(values)}"
        )
    return list(zip(matchers, values, strict=True))
