"""The compiler and the matcher that vLLM's backend gets.

What: those of `adapters.xgrammar`, with the operator's bounds, and with errors that end one request where
vLLM would end the engine.
When: made by vLLM's backend: two compilers for an engine (one knows no special tokens), one matcher for a
request.
Limits: those of `hybrid.Budget`.
"""

from __future__ import annotations

import logging
from typing import Any

import xgrammar

import adapters.xgrammar
from adapters.engines.serving import BoundedCompiler, allow_only_stops
from adapters.vllm import ranks
from adapters.vllm.settings import SETTINGS

logger = logging.getLogger("vllm.equimask")


class GrammarCompiler(BoundedCompiler):
    """Compiles grammars for vLLM, in as many threads as it likes.

    Args:
        tokenizer_info, **options: of `adapters.xgrammar.GrammarCompiler`.

    Raises:
        ValueError: what environment variables say cannot be read.
    """

    def __init__(self, tokenizer_info: xgrammar.TokenizerInfo, **options: Any) -> None:
        options = {"deterministic": ranks.have_to_agree(), **options}
        super().__init__(tokenizer_info, settings=SETTINGS, **options)


class GrammarMatcher(adapters.xgrammar.GrammarMatcher):
    """Follows one request. It answers where another matcher would raise, as the engine's loop would end.

    After an error it allows nothing but the stop tokens and accepts no token at all, on which vLLM ends this
    request with the reason "error", and no other: nothing that the grammar forbids gets out.

    Args:
        compiled_grammar, **options: of `adapters.xgrammar.GrammarMatcher`. What they may raise is raised,
            as vLLM makes matchers where it compiles.

    Attributes:
        learned: how many of its tokens a draft model has counted (`adapters.vllm.drafts`).
    """

    _failed = False
    learned = 0

    @property
    def is_plain(self) -> bool:
        """Whether its masks and steps are those of its grammar and nothing else, so that all rows of a step
        may be filled in one call (`adapters.vllm.steps`), and not by the methods below."""
        return not self._failed

    def __init__(self, compiled_grammar: Any, **options: Any) -> None:
        options.pop("max_rollback_tokens", None)  # rollback has no bound, and XGrammar's warns of it as well
        super().__init__(compiled_grammar, **options)

    def fill_next_token_bitmask(self, bitmask: Any, index: int = 0, *, debug_print: bool = False) -> bool:
        """Overwrite a row with the mask of the next token; with the stop tokens after an error."""
        if not self._failed:
            try:
                return super().fill_next_token_bitmask(bitmask, index, debug_print=debug_print)
            except Exception:  # noqa: BLE001 - whatever it is, it is this request's
                self._fail("mask")
        allow_only_stops(bitmask, index, self.stop_token_ids)
        return True

    def accept_token(self, token_id: int, *, debug_print: bool = False) -> bool:
        """Advance by a token; False, also after an error, if that cannot be."""
        if self._failed:
            return False
        try:
            return super().accept_token(token_id, debug_print=debug_print)
        except Exception:  # noqa: BLE001
            self._fail("token")
        return False

    def rollback(self, num_tokens: int = 1) -> None:
        """Take back the last steps; nothing after an error."""
        if self._failed:
            return
        try:
            super().rollback(num_tokens)
        except Exception:  # noqa: BLE001
            self._fail("rollback")

    def is_terminated(self) -> bool:
        """Whether the sequence has ended; after an error it has not, so that vLLM offers a token."""
        if self._failed:
            return False
        try:
            return super().is_terminated()
        except Exception:  # noqa: BLE001
            self._fail("end")
        return False

    def reset(self) -> None:
        """Back to the start, errors forgotten."""
        super().reset()
        self._failed = False
        self.learned = 0

    @property
    def has_failed(self) -> bool:
        """Whether it answers with its stop tokens alone, after an error."""
        return self._failed

    def _fail(self, what: str) -> None:
        """Note an error, which is being handled."""
        self._failed = True
        logger.exception("The %s of a structured output failed, which ends its request", what)
