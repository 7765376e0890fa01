"""Many matchers at once, with XGrammar's arguments, results and errors.

What: `hybrid.BatchGrammarMatcher`, which also accepts matchers of plain XGrammar. If a batch has one of
these, all matchers are called one by one.
When: one per engine.
Limits: a row that occurs twice is an error; in XGrammar, threads would race.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
import xgrammar

import hybrid
from adapters.xgrammar.matcher import tensor_of
from hybrid.api.batch import rows_of, steps_of, texts_of, tokens_of

ours = hybrid.BatchGrammarMatcher


class BatchGrammarMatcher(ours):
    """Fills and advances many matchers.

    Args:
        max_threads: accepted for compatibility with XGrammar, and ignored.

    Raises:
        RuntimeError: `max_threads` is neither "auto" nor a positive integer.
    """

    def batch_fill_next_token_bitmask(
        self,
        matchers: Sequence[Any],
        bitmask: Any,
        indices: Iterable[int] | None = None,
        debug_print: bool = False,
    ) -> None:
        """`xgrammar.BatchGrammarMatcher.batch_fill_next_token_bitmask`."""
        given, bitmask = _list_of(matchers), tensor_of(bitmask)
        if _are_ours(given):
            return super().batch_fill_next_token_bitmask(given, bitmask, indices, debug_print)
        for matcher, row in zip(given, rows_of(given, indices), strict=True):
            matcher.fill_next_token_bitmask(bitmask, row, debug_print=debug_print)
        return None

    @staticmethod
    def batch_fill_temperature(
        matchers: Sequence[Any], temperatures: torch.Tensor, indices: Iterable[int] | None = None
    ) -> None:
        """`xgrammar.BatchGrammarMatcher.batch_fill_temperature`."""
        given = _list_of(matchers)
        if _are_ours(given):
            return ours.batch_fill_temperature(given, temperatures, indices)
        for matcher, place in zip(given, rows_of(given, indices), strict=True):
            alone = ours if _are_ours([matcher]) else xgrammar.BatchGrammarMatcher
            alone.batch_fill_temperature([matcher], temperatures, [place])
        return None

    @staticmethod
    def batch_accept_token(
        matchers: Sequence[Any], tokens: Iterable[int], debug_print: bool = False
    ) -> list[bool]:
        """`xgrammar.BatchGrammarMatcher.batch_accept_token`."""
        given = _list_of(matchers)
        if _are_ours(given):
            return ours.batch_accept_token(given, tokens, debug_print)
        pairs = zip(given, tokens_of(given, tokens), strict=True)
        return [one.accept_token(token, debug_print=debug_print) for one, token in pairs]

    @staticmethod
    def batch_accept_string(
        matchers: Sequence[Any], strings: Iterable[str | bytes], debug_print: bool = False
    ) -> list[bool]:
        """`xgrammar.BatchGrammarMatcher.batch_accept_string`."""
        given = _list_of(matchers)
        if _are_ours(given):
            return ours.batch_accept_string(given, strings, debug_print)
        pairs = zip(given, texts_of(given, strings), strict=True)
        return [one.accept_string(text, debug_print=debug_print) for one, text in pairs]

    @staticmethod
    def batch_rollback(matchers: Sequence[Any], num_tokens: int | Iterable[int] = 1) -> None:
        """`xgrammar.BatchGrammarMatcher.batch_rollback`: one number of steps for all, or a list."""
        given = _list_of(matchers)
        if _are_ours(given):
            return ours.batch_rollback(given, num_tokens)
        for matcher, count in zip(given, steps_of(given, num_tokens), strict=True):
            matcher.rollback(count)
        return None


def _list_of(matchers: Any) -> Any:
    """The matchers as a list. `hybrid` reports what is none."""
    return list(matchers) if isinstance(matchers, Iterable) else matchers


def _are_ours(matchers: Any) -> bool:
    """Whether none of the matchers is plain XGrammar's. `hybrid` reports other wrong objects."""
    kinds = set(map(type, matchers)) if isinstance(matchers, list) else set()
    return not any(issubclass(kind, xgrammar.GrammarMatcher) for kind in kinds)
