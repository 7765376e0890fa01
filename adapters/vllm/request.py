"""Facts about a request that vLLM's manager knows and its grammar does not: its name, its limit of tokens,
and which tokens are drafts.

What: `bind` makes the manager report what a request's masks do not enforce (`adapters.engines.notices`), tell
matchers when they read drafts, and leave room for the end of texts under ``EQUIMASK_VLLM_TOKEN_LIMITS=1``.
When: used by `adapters.vllm.registration` in every process. The methods run in the process of the engine.
Limits: vLLM's answers have no field for notices. Offline beam search has no manager, and no limit.

**The number of tokens left** is the request's limit, minus its output, minus the drafts before the first
token that the grammar reads. A grammar that reads from the first token on counts them itself, including
drafts and tokens that are taken back. For a grammar that starts after the model has thought, `_keep` sets the
number at each step until the grammar has started. From then on, both ways give the same number.
"""

from __future__ import annotations

import functools
import itertools
import logging
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from adapters.engines.notices import guarded, notice_of, tell
from adapters.vllm.settings import SETTINGS

logger = logging.getLogger("vllm.equimask")

BOUND = ("_create_grammar", "grammar_bitmask")
"""The methods of the manager that are replaced."""

PADDING = -1
"""Stands for a missing draft."""

IN_DRAFTS: ContextVar[bool] = ContextVar("in drafts", default=False)
"""Whether matchers read drafts that will be taken back. A token that fails is refused there, and ends no
request."""


def bind(kind: Any) -> None:
    """Replace the methods of vLLM's manager.

    Args:
        kind: the class of the manager.

    Raises:
        ValueError: an environment variable has a wrong value.
    """
    kind._create_grammar = _telling(kind._create_grammar)
    kind.grammar_bitmask = drafting(kind.grammar_bitmask)
    if SETTINGS.keeps_limits():
        kind.grammar_bitmask = _limiting(kind.grammar_bitmask)


def drafting(read: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method of vLLM in which matchers read no tokens but drafts, extended to tell them so."""

    @functools.wraps(read)
    def reading(*arguments: Any, **options: Any) -> Any:
        from equivalence.context_values import with_value  # slow to import, and needed only in the engine

        return with_value(IN_DRAFTS, True, functools.partial(read, *arguments, **options))

    return reading


def _telling(create: Callable[..., Any]) -> Callable[..., Any]:
    """Make the method that makes the grammar of a request in a thread, extended to report notices."""

    @functools.wraps(create)
    def created(self: Any, request: Any) -> Any:
        grammar = create(self, request)
        matcher = getattr(grammar, "matcher", None)
        if matcher is not None and hasattr(matcher, "limit_tokens"):  # else it is not ours
            guarded(logger, request.request_id, _attach, self, request, matcher)
        return grammar

    return created


def _limiting(fill: Callable[..., Any]) -> Callable[..., Any]:
    """Make the method that fills the masks of a step, extended to first set the number of tokens left."""

    @functools.wraps(fill)
    def filled(self: Any, requests: Any, names: Any, drafts: Any, *arguments: Any, **options: Any) -> Any:
        for name in names:
            guarded(logger, name, _keep_limit, self, requests[name], drafts.get(name, ()))
        return fill(self, requests, names, drafts, *arguments, **options)

    return filled


def _attach(manager: Any, request: Any, matcher: Any) -> None:
    why = _limit(matcher, most_tokens(manager, request)) if SETTINGS.keeps_limits() else None
    tell(notice_of("vllm", request.request_id, matcher.compiled_grammar, why), logger)


def _keep_limit(manager: Any, request: Any, drafts: Sequence[int]) -> None:
    """Tell the matcher how many tokens are left, if it does not know."""
    asked = request.structured_output_request
    matcher = getattr(asked.grammar, "matcher", None)
    left, lost = getattr(matcher, "tokens_left", None), getattr(matcher, "limit_error", None)
    if matcher is None or (left is None and lost is None):
        return
    if lost is not None:
        matcher.limit_tokens(None)
        tell(notice_of("vllm", request.request_id, matcher.compiled_grammar, lost), logger)
        return
    thought = 0
    if manager.reasoner_cls is not None and not asked.reasoning_ended:
        real = [*itertools.takewhile(lambda token: token != PADDING, drafts)]
        thought = manager._get_constraint_bounds(request, real).grammar_start
        if thought > len(real):
            return  # the grammar has no row in this step
    now = most_tokens(manager, request) - request.num_output_tokens - thought
    if now != left:
        why = _limit(matcher, now)
        if why is not None:
            tell(notice_of("vllm", request.request_id, matcher.compiled_grammar, why), logger)


def most_tokens(manager: Any, request: Any) -> int:
    """Return the limit of tokens of a request: its own, or the model's."""
    room = getattr(manager.vllm_config.model_config, "max_model_len", None)
    most = int(request.max_tokens)
    return most if room is None else min(most, int(room) - int(request.num_prompt_tokens))


def _limit(matcher: Any, tokens: int) -> str | None:
    from adapters.engines.limits import limited  # slow to import, and needed only in the engine

    return limited(matcher, tokens)
