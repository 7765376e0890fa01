"""The compiler and the matcher for vLLM's backend.

What: those of `adapters.xgrammar`, with the operator's bounds. An error ends one request, whereas in vLLM it
would end the engine.
When: made by vLLM's backend: two compilers for each engine (one knows no special tokens), one matcher for
each request.
Limits: those of `hybrid.Budget`.
"""

from __future__ import annotations

import logging
from typing import Any

import xgrammar

import adapters.xgrammar
from adapters.engines.bounded_compiler import IN_DRAFTS_ONLY, BoundedCompiler, allow_only_stops
from adapters.vllm.request import IN_DRAFTS
from adapters.vllm.settings import SETTINGS, ranks_have_to_agree

logger = logging.getLogger("vllm.equimask")


class GrammarCompiler(BoundedCompiler):
    """Compiles grammars for vLLM; thread-safe.

    Args:
        tokenizer_info, **options: see `adapters.xgrammar.GrammarCompiler`.

    Raises:
        ValueError: an environment variable has a wrong value.
    """

    def __init__(self, tokenizer_info: xgrammar.TokenizerInfo, **options: Any) -> None:
        options = {"deterministic": ranks_have_to_agree(), **options}
        super().__init__(tokenizer_info, settings=SETTINGS, **options)


class GrammarMatcher(adapters.xgrammar.GrammarMatcher):
    """Follows one request. It never raises errors after it was made, because they would end the engine's
    loop.

    After an error it allows only stop tokens and accepts no token. Then vLLM ends this request, and no other,
    with the reason "error". So no token that the grammar forbids is sent. Errors in drafts end no request: a
    draft token that fails is refused (`IN_DRAFTS`), and a mask that fails after drafts is forgotten when
    these are taken back.

    Args:
        compiled_grammar, **options: see `adapters.xgrammar.GrammarMatcher`. The constructor may raise errors,
            because vLLM makes matchers in the threads that compile.

    Attributes:
        has_failed: whether there was an error, so that only stop tokens are allowed.
        learned: how many of its tokens a draft model has learned (`adapters.vllm.drafts`).
    """

    has_failed = False
    learned = 0
    _failed_at = 0

    def __init__(self, compiled_grammar: Any, **options: Any) -> None:
        options.pop("max_rollback_tokens", None)  # rollback is unlimited, and XGrammar warns, too
        super().__init__(compiled_grammar, **options)

    def fill_next_token_bitmask(self, bitmask: Any, index: int = 0, *, debug_print: bool = False) -> bool:
        """Overwrite a row with the mask of the next token; after an error, with the stop tokens."""
        if not self.has_failed:
            try:
                return super().fill_next_token_bitmask(bitmask, index, debug_print=debug_print)
            except Exception:  # noqa: BLE001 - any error ends only this request
                self._fail("mask")
        allow_only_stops(bitmask, index, self.stop_token_ids)
        return True

    def accept_token(self, token_id: int, *, debug_print: bool = False) -> bool:
        """Advance by a token; False if it is not allowed, or after an error."""
        if self.has_failed:
            return False
        try:
            return super().accept_token(token_id, debug_print=debug_print)
        except Exception:
            if IN_DRAFTS.get():
                logger.exception("A draft token of a structured output failed; it is refused")
            else:
                self._fail("token")
        return False

    def rollback(self, num_tokens: int = 1) -> None:
        """Take back the last steps, and forget an error that came after them."""
        try:
            super().rollback(num_tokens)
        except Exception:  # noqa: BLE001
            self._fail("rollback")
            self._failed_at = 0  # its place is unknown
        self.has_failed = self.has_failed and self._n_steps >= self._failed_at

    def is_terminated(self) -> bool:
        """Whether the sequence has ended. False after an error, so that vLLM offers a token."""
        if self.has_failed:
            return False
        try:
            return super().is_terminated()
        except Exception:  # noqa: BLE001
            self._fail("end")
        return False

    def reset(self) -> None:
        """Go back to the start, and forget errors."""
        super().reset()
        self.has_failed = False
        self.learned = 0

    def _fail(self, what: str) -> None:
        """Record the error that is being handled."""
        self.has_failed, self._failed_at = True, self._n_steps
        unless = IN_DRAFTS_ONLY if IN_DRAFTS.get() else ""
        logger.exception("The %s of a structured output failed; its request is ended%s", what, unless)
