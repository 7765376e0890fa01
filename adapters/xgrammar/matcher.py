"""The matcher, with XGrammar's arguments, results and errors.

What: `hybrid.GrammarMatcher` for this package's compiled grammars, or XGrammar's own; and XGrammar's
functions for bitmasks.
When: one per sequence. The two calls of every step are those of `hybrid`, unchanged.
Limits: `_debug_print_internal_state` only shows something if XGrammar runs the grammar.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
import torch
import xgrammar
from numpy.typing import NDArray
from torch.utils.dlpack import from_dlpack
from xgrammar import (
    allocate_token_bitmask,
    apply_token_bitmask_inplace,
    bitmask_dtype,
    get_bitmask_shape,
    reset_token_bitmask,
)

import hybrid
from adapters.xgrammar.compiled import CompiledGrammar
from adapters.xgrammar.conversion import grammar_of
from adapters.xgrammar.modules import of_another
from equivalence.arguments import integer
from hybrid.api.bitmask import Rows
from hybrid.healing.token_prefixes import prefixes_of
from hybrid.representatives.follower import EngineFollower

__all__ = [
    "GrammarMatcher",
    "allocate_token_bitmask",
    "apply_token_bitmask_inplace",
    "bitmask_dtype",
    "get_bitmask_shape",
    "reset_token_bitmask",
]

# XGrammar's module has more names
__getattr__ = partial(of_another, sys.modules["adapters.xgrammar"], __name__)


def tensor_of(bitmask: Any) -> Any:
    """The bitmask; as a tensor of the same memory if it is an array of another library."""
    if not isinstance(bitmask, (torch.Tensor, np.ndarray)) and hasattr(bitmask, "__dlpack__"):
        return from_dlpack(bitmask)
    return bitmask


class GrammarMatcher(hybrid.GrammarMatcher):
    """Follows one sequence through a grammar.

    Args:
        compiled_grammar: a compiled grammar of this package, or of XGrammar.
        override_stop_tokens, terminate_without_stop_token, max_rollback_tokens, default_temperature: as in
            XGrammar.

    Raises:
        ValueError: the grammar is not compiled.
        RuntimeError: XGrammar refuses the stop tokens or the temperature.
    """

    def __init__(
        self,
        compiled_grammar: CompiledGrammar | xgrammar.CompiledGrammar,
        *,
        override_stop_tokens: int | Iterable[int] | None = None,
        terminate_without_stop_token: bool = False,
        max_rollback_tokens: int = -1,
        default_temperature: float | None = None,
    ) -> None:
        compiled = grammar_of(compiled_grammar)
        super().__init__(
            compiled.hybrid,
            override_stop_tokens=override_stop_tokens,
            terminate_without_stop_token=terminate_without_stop_token,
            max_rollback_tokens=max_rollback_tokens,
            default_temperature=default_temperature,
        )
        if not compiled.tokenizer_info.vocab_size:
            self._size = self._width = 0

    def _fill_row(self, bitmask: Any, index: Any, debug_print: bool) -> bool:
        return super()._fill_row(tensor_of(bitmask), index, debug_print)

    def _fill(self, row: NDArray[np.uint32], debug_print: bool = False) -> bool:
        if self._width:
            return super()._fill(row, debug_print)
        return super()._fill(np.empty(1, np.uint32), debug_print) and False  # there is no id to forbid

    def _rows_of(self, bitmask: Any) -> Rows:
        return super()._rows_of(bitmask) if self._width else Rows(bitmask, 0, 0)

    def find_jump_forward_tokens(self) -> list[int]:
        """Tokens that spell the beginning of the text that must come next. The state does not change.

        Each is the longest token with which the rest of the text begins. The last one is left out if longer
        tokens begin with its text. There are none if the text is complete, or ends within a character.
        """
        if self.is_terminated() or self.is_completed():
            return []
        vocabulary = self.compiled_grammar.vocabulary
        prefixes, stops = prefixes_of(vocabulary), {*vocabulary.stop_token_ids, *self.stop_token_ids}
        try:
            rest = self.find_jump_forward_string().encode()
        except UnicodeDecodeError:
            return []
        found: list[int] = []
        while (token := prefixes.longest(rest, stops)) >= 0:
            found.append(token)
            rest = rest[len(vocabulary.tokens[token]) :]
        if found and not stops.issuperset(prefixes.longer(vocabulary.tokens[found[-1]]).tolist()):
            found.pop()
        return found

    def rollback(self, num_tokens: int = 1) -> None:
        """`hybrid.GrammarMatcher.rollback`; as in XGrammar, numbers below 0 take nothing back."""
        if integer(num_tokens, "num_tokens") >= 0:
            super().rollback(num_tokens)

    def _debug_print_internal_state(self) -> str:
        if isinstance(self._follower, EngineFollower):
            return str(self._follower._inner._debug_print_internal_state())
        return f"{type(self._follower).__name__} of {self.compiled_grammar!r}"
