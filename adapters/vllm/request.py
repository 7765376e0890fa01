"""What vLLM's manager knows of a request and its grammar does not: its name, and the tokens that it may have.

What: `bind` has the manager tell what a request's masks do not enforce (`adapters.engines.notices`), and keep
room for the end of its text under ``EQUIMASK_VLLM_CLOSE=1``.
When: by `adapters.vllm.rebinding`, in every process; the methods run where the engine is.
Limits: vLLM's answers have no field for what is told. Offline beam search has no manager, and no limit.

**How many tokens are left** is what the request may have, less its output, less the drafts before the first
one that the grammar reads. A grammar that reads from the first token on counts them itself, drafts and what
is taken back included. One that begins when the model has thought hears of each step from `_keep`, until it
has begun; from then on both say the same.
"""

from __future__ import annotations

import functools
import itertools
import logging
from collections.abc import Callable, Sequence
from typing import Any

from adapters.engines.notices import notice_of, tell
from adapters.vllm.settings import SETTINGS

logger = logging.getLogger("vllm.equimask")

BOUND = ("_create_grammar", "grammar_bitmask")
"""Methods of the manager."""

PADDING = -1
"""Stands for drafts that there are none of."""


def bind(kind: Any) -> None:
    """Bind the methods of vLLM's manager anew.

    Args:
        kind: its class.

    Raises:
        ValueError: an environment variable that cannot be read.
    """
    kind._create_grammar = _telling(kind._create_grammar)
    if SETTINGS.closes():
        kind.grammar_bitmask = _limiting(kind.grammar_bitmask)


def _telling(create: Callable[..., Any]) -> Callable[..., Any]:
    """What makes the grammar of a request, in a thread of its own, and then tells what is to be told."""

    @functools.wraps(create)
    def created(self: Any, request: Any) -> Any:
        grammar = create(self, request)
        matcher = getattr(grammar, "matcher", None)
        if matcher is not None and hasattr(matcher, "limit_tokens"):  # else it is none of ours
            _guarded(_meet, self, request, matcher)
        return grammar

    return created


def _limiting(fill: Callable[..., Any]) -> Callable[..., Any]:
    """What fills the masks of a step, after every matcher has heard how many tokens are left."""

    @functools.wraps(fill)
    def filled(self: Any, requests: Any, names: Any, drafts: Any, *arguments: Any, **options: Any) -> Any:
        for name in names:
            _guarded(_keep, self, requests[name], drafts.get(name, ()))
        return fill(self, requests, names, drafts, *arguments, **options)

    return filled


def _guarded(act: Callable[..., None], manager: Any, request: Any, *arguments: Any) -> None:
    """Do what a request can do without; an error of it must not end the engine."""
    try:
        act(manager, request, *arguments)
    except Exception:
        logger.exception("Request %s goes on without what it was to be told", request.request_id)


def _meet(manager: Any, request: Any, matcher: Any) -> None:
    why = _limit(matcher, most_tokens(manager, request)) if SETTINGS.closes() else None
    tell(notice_of("vllm", request.request_id, matcher.compiled_grammar, why), logger)


def _keep(manager: Any, request: Any, drafts: Sequence[int]) -> None:
    """Say how many tokens are left where the matcher stands, if it does not know."""
    asked = request.structured_output_request
    matcher = getattr(asked.grammar, "matcher", None)
    left, lost = getattr(matcher, "tokens_left", None), getattr(matcher, "lost_limit", None)
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
            return  # no row of this step is the grammar's
    now = most_tokens(manager, request) - request.num_output_tokens - thought
    if now != left:
        why = _limit(matcher, now)
        if why is not None:
            tell(notice_of("vllm", request.request_id, matcher.compiled_grammar, why), logger)


def most_tokens(manager: Any, request: Any) -> int:
    """The tokens that a request may have: what it asked for, or what the model has room for."""
    room = getattr(manager.vllm_config.model_config, "max_model_len", None)
    most = int(request.max_tokens)
    return most if room is None else min(most, int(room) - int(request.num_prompt_tokens))


def _limit(matcher: Any, tokens: int) -> str | None:
    from adapters.engines.limits import limited  # heavy, and of no use where no engine runs

    return limited(matcher, tokens)
