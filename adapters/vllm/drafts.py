"""Forced and likely tokens as drafts for vLLM's own speculation.

What: vLLM's scheduler gets the drafts of each step from the workers, and cuts off the tokens that a request's
grammar refuses. `continue_drafts` makes it append the tokens that the grammar forces or makes likely. The
scheduler has the grammars, and the workers check these tokens like any draft. `GrammarDrafts` is a proposer
that proposes nothing itself, for engines that only want these drafts.
When: `adapters.vllm.registration` calls it when an engine is made, if drafts are wanted
(``EQUIMASK_VLLM_DRAFTS=1``, or `GrammarDrafts`).
Limits: only proposers whose drafts are tokens without a distribution that go through the scheduler (ngram,
suffix, custom_class, on model runner V1). With others, drafts stay inside of vLLM's workers.
"""

from __future__ import annotations

import functools
import importlib
import logging
from typing import Any

from adapters.vllm.request import IN_DRAFTS
from adapters.vllm.settings import SETTINGS

logger = logging.getLogger("vllm.equimask")

SCHEDULER = "vllm.v1.core.sched.scheduler"
METHODS = ("ngram", "suffix", "custom_class")
PROPOSER = "adapters.vllm.drafts.GrammarDrafts"

KEPT = "equimask_drafts"
"""The attribute of a manager that has its `Continuations`."""

READ = frozenset({"requests", "req_ids", "structured_output_manager", "validate_tokens", "spec_token_ids"})
"""Names that the scheduler's method must use, or else it is not replaced."""


class GrammarDrafts:
    """A proposer without drafts of its own: ``{"method": "custom_class", "model": PROPOSER, ...}``.

    Args:
        vllm_config: vLLM's configuration.
    """

    def __init__(self, vllm_config: Any) -> None:
        del vllm_config

    def load_model(self, model: Any) -> None:
        """There is nothing to load."""

    def propose(self, sampled_token_ids: list[list[int]], *_: Any, **__: Any) -> list[list[int]]:
        """Return an empty draft for each request; the scheduler adds tokens."""
        return [[] for _ in sampled_token_ids]


def are_wanted(vllm_config: Any) -> bool:
    """Whether grammars continue the drafts of an engine.

    Raises:
        ValueError: they are enabled, but the engine's speculation cannot use them.
    """
    speculation = getattr(vllm_config, "speculative_config", None)
    method = getattr(speculation, "method", None)
    is_ours = method == "custom_class" and getattr(speculation, "model", None) == PROPOSER
    if not (is_ours or SETTINGS.drafts()):
        return False
    scheduling = getattr(vllm_config.scheduler_config, "async_scheduling", False)
    executor = vllm_config.parallel_config.distributed_executor_backend
    backend = vllm_config.structured_outputs_config.backend
    has_grammars = backend == "auto" or backend.startswith("xgrammar")
    in_workers = bool(getattr(vllm_config, "use_v2_model_runner", False))
    obstacles = {
        f"the backend of structured outputs is {backend!r}": not has_grammars,
        "speculative decoding is not enabled": speculation is None,
        f"the method of speculative decoding is {method!r}": method not in METHODS,
        "scheduling is asynchronous": scheduling,
        "model runner V2 keeps drafts in the workers (VLLM_USE_V2_MODEL_RUNNER=0 selects V1)": in_workers,
        "with the executor external_launcher, each rank would make its own drafts": (
            executor == "external_launcher"
        ),
    }
    why = next((why for why, is_there in obstacles.items() if is_there), None)
    if why is None:
        return True
    raise ValueError(
        f"drafts from grammars are enabled ({SETTINGS.drafting}=1, or the proposer {PROPOSER}), but {why}; "
        f"they need one of the methods {', '.join(METHODS)}, synchronous scheduling and the backend "
        "xgrammar, as in "
        f'speculative_config={{"method": "custom_class", "model": "{PROPOSER}", "num_speculative_tokens": 8}}'
    )


def continue_drafts(manager: Any, vllm_config: Any, unknown: Any) -> None:
    """Make the scheduler of an engine continue drafts.

    Args:
        manager: the engine's manager of structured outputs.
        vllm_config: the engine's configuration.
        unknown: makes the error for an unknown release of vLLM.
    """
    module = importlib.import_module(SCHEDULER)
    kind = getattr(module, "Scheduler", None)
    update = getattr(kind, "update_draft_token_ids", None)
    if not hasattr(update, "by_vllm"):
        code = getattr(update, "__code__", None)
        if code is None or not {*code.co_names} >= READ:
            raise unknown(f"{SCHEDULER}.Scheduler updates drafts in an unknown way")
        if not hasattr(manager, "_get_constraint_bounds"):
            raise unknown(f"{type(manager).__name__} has no _get_constraint_bounds")
        kind.update_draft_token_ids = continued(update)  # type: ignore[union-attr]
    from adapters.engines.continuations import Continuations, encode_of

    most = int(vllm_config.speculative_config.num_speculative_tokens)
    setattr(manager, KEPT, Continuations(most, encode_of(getattr(manager, "tokenizer", None))))
    logger.info("Grammars continue the drafts of speculative decoding, up to %d tokens", most)


def continued(update: Any) -> Any:
    """Make the scheduler's method, extended to continue the drafts of requests with grammars."""

    @functools.wraps(update)
    def update_draft_token_ids(self: Any, draft_token_ids: Any) -> None:
        update(self, draft_token_ids)
        manager = self.structured_output_manager
        drafts = getattr(manager, KEPT, None)
        if drafts is None or getattr(self, "dynamic_sd_lookup", None) is not None:
            return
        for name in draft_token_ids.req_ids:
            request = self.requests.get(name)
            if request is None or not request.use_structured_output or request.is_prefill_chunk:
                continue
            if not request.is_finished():
                request.spec_token_ids = draft_of(drafts, manager, request)

    vars(update_draft_token_ids)["by_vllm"] = update
    return update_draft_token_ids


def draft_of(drafts: Any, manager: Any, request: Any) -> list[int]:
    """Return a request's draft, continued if its grammar allows all of it."""
    from equivalence.context_values import with_value  # slow to import, and needed only in the engine

    draft: list[int] = request.spec_token_ids
    try:
        grammar = request.structured_output_request.grammar
        matcher: Any = getattr(grammar, "matcher", None)
        if not hasattr(matcher, "learned") or matcher.has_failed or grammar.is_terminated():
            return draft
        if manager._get_constraint_bounds(request, draft).grammar_start != 0:
            return draft  # the model is still thinking
        drafts.learn(matcher, grammar.num_processed_tokens - matcher.learned)
        matcher.learned = grammar.num_processed_tokens
        return with_value(IN_DRAFTS, True, lambda: list(drafts.continue_draft(matcher, draft)))
    except Exception:
        logger.exception("Continuing the draft of request %s failed; it is left as it is", request.request_id)
        return draft
