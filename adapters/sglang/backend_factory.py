"""From SGLang's arguments to a backend that is ready for requests.

What: `create_backend` does what SGLang does for its own backend "xgrammar": it handles the server's options,
tokenizers that XGrammar refuses, and the wrapper for models that think first, which SGLang leaves to such
backends.
When: once in each scheduler, when it starts.
Limits: with ``EQUIMASK_SGLANG=0`` it makes SGLang's own classes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any

from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarBackend
from sglang.srt.constrained.xgrammar_backend import TokenizerNotSupportedError, XGrammarGrammarBackend
from sglang.srt.parser.reasoning_parser import ReasoningParser
from sglang.srt.runtime_context import get_context, get_serving

from adapters.engines.continuations import encode_of
from adapters.engines.notices import add_named_hook
from adapters.sglang.backend import Backend, ReasoningBackend
from adapters.sglang.chains import draft_chains
from adapters.sglang.drafts import read_at_once
from adapters.sglang.request import bind
from adapters.sglang.settings import SETTINGS
from adapters.sglang.warmup import check_wrapper, warm

logger = logging.getLogger("sglang.equimask")


def create_backend(
    server_args: Any, tokenizer: Any, vocab_size: int, eos_token_ids: Iterable[int] | None = None, *_: Any
) -> Any:
    """Make the backend that ``--grammar-backend equimask`` names.

    Args:
        server_args: SGLang's arguments.
        tokenizer: the model's tokenizer.
        vocab_size: number of ids of the model, perhaps more than the tokenizer's.
        eos_token_ids: the model's stop tokens; None for the tokenizer's.

    Returns:
        A backend; None if XGrammar does not support the tokenizer, which SGLang tells each request.

    Raises:
        ValueError: an environment variable has a wrong value, or strict thinking is enabled without a
            backend.
        CannotDraft: drafts from grammars are enabled, but cannot be used.
        TypeError: this release of SGLang makes compilers or grammars in an unknown way.
    """
    began = time.perf_counter()
    serving = get_serving()
    options: dict[str, Any] = {
        "vocab_size": vocab_size,
        "model_eos_token_ids": list(eos_token_ids) if eos_token_ids else None,
        "any_whitespace": not serving.constrained_json_disable_any_whitespace,
        "max_whitespace_cnt": serving.constrained_json_max_whitespace_cnt,
    }
    is_ours = SETTINGS.is_enabled()
    try:
        if is_ours:
            backend = Backend(tokenizer, n_ranks=server_args.tp_size * server_args.pp_size, **options)
        else:
            logger.info("%s=0: structured outputs run in plain XGrammar", SETTINGS.enabled)
            backend = XGrammarGrammarBackend(tokenizer, **options)
    except TokenizerNotSupportedError as error:
        _refuse(serving, error)
        return None
    if is_ours:
        SETTINGS.keeps_limits()  # report a wrong value here, and not to each request
        add_named_hook(SETTINGS.notices, SETTINGS.hook())
        bind()
        warm(backend)
        if getattr(server_args, "speculative_algorithm", None):
            read_at_once()
        if SETTINGS.drafts():
            draft_chains(server_args, encode_of(tokenizer))
        logger.info("equimask is ready for structured outputs, after %.1f s", time.perf_counter() - began)
    if not serving.reasoning_parser:
        return backend
    parser = ReasoningParser(model_type=serving.reasoning_parser, stream_reasoning=False, tokenizer=tokenizer)
    if not parser.detector.get_think_end_token_ids(tokenizer):
        return backend
    options = {"enable_strict_thinking": serving.enable_strict_thinking}
    if not is_ours:
        return ReasonerGrammarBackend(backend, parser, tokenizer, **options)
    wrapper = ReasoningBackend(backend, parser, tokenizer, **options)
    check_wrapper(wrapper)
    return wrapper


def _refuse(serving: Any, error: Exception) -> None:
    """Let SGLang serve without grammars.

    Raises:
        ValueError: the options do not allow that.
    """
    if serving.enable_strict_thinking:
        raise ValueError(
            "--enable-strict-thinking needs a grammar backend, and XGrammar refuses the tokenizer: "
            f"{error}; use a tokenizer that XGrammar supports, or omit this option"
        ) from error
    logger.warning("XGrammar refuses the tokenizer, so there are no structured outputs: %s", error)
    get_context().override("grammar.import_fallback", grammar_backend="none")
