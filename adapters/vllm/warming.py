"""Everything that a first request would wait for, done before: when the engine starts.

What: `warm` makes vLLM's backend, hence both vocabularies (0.8 s each for 128,000 ids), compiles a grammar
of each kind with both compilers, and follows it.
When: as soon as vLLM's manager has a tokenizer.
Limits: none of its own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import torch

from adapters.vllm import serving
from equivalence import HybridError

logger = logging.getLogger("vllm.equimask")

SCHEMA = """{
"type": "object", "required": ["name"], "properties": {
"name": {"type": "string", "maxLength": 9}, "age": {"type": "integer"},
"tags": {"type": "array", "items": {"enum": ["a", "b"]}}}}"""

GRAMMARS: tuple[tuple[str, str], ...] = (
    ("compile_json_schema", '{"type": "object"}'),  # what vLLM takes for any JSON object
    ("compile_json_schema", SCHEMA),
    ("compile_regex", "[a-z]+[0-9]{2,4}"),
    ("compile_grammar", 'root ::= "a" root "b" | [0-9]*'),
)


def warm(make: Callable[[], Any]) -> Any:
    """A backend, ready for requests.

    Args:
        make: makes vLLM's backend over our names.

    Returns:
        The backend; None where there is none for this tokenizer, as vLLM will say to each request.

    Raises:
        TypeError: the backend's compilers are not ours.
    """
    began = time.perf_counter()
    try:
        backend = make()
    except Exception:
        logger.exception("vLLM's backend cannot be made for this tokenizer: structured outputs will fail")
        return None
    compilers = [found for found in vars(backend).values() if hasattr(found, "compile_json_schema")]
    if not compilers or any(not isinstance(found, serving.GrammarCompiler) for found in compilers):
        raise TypeError(f"compilers of vLLM's backend are {compilers}, and none or not all are ours")
    for compiler in compilers:
        for method, text in GRAMMARS:
            try:
                follow(getattr(compiler, method)(text))
            except HybridError as error:  # of the operator's bounds, or a vocabulary without these texts
                logger.warning("%s of a grammar to be ready for others failed: %s", method, error)
    logger.info("equimask is ready for structured outputs, after %.1f s", time.perf_counter() - began)
    return backend


def follow(compiled: Any) -> None:
    """Ask a compiled grammar for some masks, and accept what they allow."""
    size = compiled.tokenizer_info.vocab_size
    bitmask = torch.full((1, (size + 31) // 32), -1, dtype=torch.int32)
    matcher = serving.GrammarMatcher(compiled)
    for _ in range(8):
        matcher.fill_next_token_bitmask(bitmask)
        words = bitmask[0].numpy()
        word = int(words.nonzero()[0][0])
        lowest = int(words[word]) & -int(words[word])
        matcher.accept_token(32 * word + lowest.bit_length() - 1)
        if matcher.is_terminated():
            break
