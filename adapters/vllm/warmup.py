"""Warming up when the engine starts, so that the first request need not wait.

What: `warm` makes vLLM's backend, and with it both vocabularies (0.8 s each for 128,000 ids). It compiles a
grammar of each kind with both compilers, and follows it.
When: as soon as vLLM's manager has a tokenizer.
Limits: none of its own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from adapters.engines.warmup import GRAMMARS, exercise
from adapters.vllm.compiler import GrammarCompiler, GrammarMatcher
from equivalence import HybridError

logger = logging.getLogger("vllm.equimask")


def warm(make: Callable[[], Any]) -> Any:
    """Make a backend, ready for requests.

    Args:
        make: makes vLLM's backend over our names.

    Returns:
        The backend; None if there is none for this tokenizer, which vLLM will tell each request.

    Raises:
        TypeError: the backend's compilers are not ours.
    """
    began = time.perf_counter()
    try:
        backend = make()
    except Exception:
        logger.exception("vLLM's backend cannot be created for this tokenizer: structured outputs will fail")
        return None
    compilers = [found for found in vars(backend).values() if hasattr(found, "compile_json_schema")]
    if not compilers or any(not isinstance(found, GrammarCompiler) for found in compilers):
        raise TypeError(f"equimask did not replace all compilers of vLLM's backend: {compilers}")
    for compiler in compilers:
        for method, text in GRAMMARS:
            try:
                matcher = GrammarMatcher(getattr(compiler, method)(text))
                size = matcher.compiled_grammar.vocabulary.size
                exercise(matcher.fill_next_token_bitmask, matcher.accept_token, matcher.is_terminated, size)
            except HybridError as error:  # the operator's bounds, or a vocabulary without these texts
                logger.warning("warm-up: %s failed for a small test grammar: %s", method, error)
    logger.info("equimask is ready for structured outputs, after %.1f s", time.perf_counter() - began)
    return backend
