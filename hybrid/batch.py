"""Many matchers at once, with the methods of XGrammar's `BatchGrammarMatcher`.

Limits: matchers on XGrammar go one after the other, those of classifiers share one kernel call; rows of one
bitmask may also be filled from several threads by the caller, as the inner work releases the GIL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import torch

from equivalence import BitmaskError
from hybrid.classifier.batch import advance_all, fill_rows
from hybrid.classifier.matcher import ClassifierMatcher
from hybrid.matcher import GrammarMatcher


def _all_classified(matchers: Sequence[GrammarMatcher]) -> TypeGuard[Sequence[ClassifierMatcher]]:
    return all(matcher.__class__ is ClassifierMatcher for matcher in matchers)


class BatchGrammarMatcher:
    """Fills and advances many matchers.

    Args:
        max_threads: accepted for XGrammar's sake, ignored.
    """

    def __init__(self, max_threads: int | str = "auto") -> None:
        self.max_threads = max_threads

    def batch_fill_next_token_bitmask(
        self,
        matchers: Sequence[GrammarMatcher],
        bitmask: torch.Tensor,
        indices: Sequence[int] | None = None,
        debug_print: bool = False,
    ) -> None:
        """Fill row ``indices[i]`` (default i) for matcher i; other rows stay as they are."""
        rows = range(len(matchers)) if indices is None else indices
        if len(rows) != len(matchers):
            raise BitmaskError(f"{len(rows)} indices are given for {len(matchers)} matchers")
        if len(matchers) > 1 and _all_classified(matchers) and len({m._width for m in matchers}) == 1:
            fill_rows(matchers, bitmask, rows)
            return
        for matcher, row in zip(matchers, rows, strict=True):
            matcher.fill_next_token_bitmask(bitmask, row, debug_print=debug_print)

    @staticmethod
    def batch_accept_token(
        matchers: Sequence[GrammarMatcher], tokens: Sequence[int], debug_print: bool = False
    ) -> list[bool]:
        """Advance matcher i by token i; which of them accepted."""
        if len(matchers) > 1 and _all_classified(matchers):
            return advance_all(matchers, tokens)
        return [
            matcher.accept_token(token, debug_print=debug_print)
            for matcher, token in zip(matchers, tokens, strict=True)
        ]

    @staticmethod
    def batch_accept_string(
        matchers: Sequence[GrammarMatcher], strings: Sequence[str | bytes], debug_print: bool = False
    ) -> list[bool]:
        """Advance matcher i by text i; which of them accepted."""
        return [
            matcher.accept_string(text, debug_print=debug_print)
            for matcher, text in zip(matchers, strings, strict=True)
        ]

    @staticmethod
    def batch_rollback(matchers: Sequence[GrammarMatcher], num_tokens: int = 1) -> None:
        """Take back the last steps of every matcher."""
        for matcher in matchers:
            matcher.rollback(num_tokens)
