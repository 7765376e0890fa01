"""Facts about a request that SGLang does not pass to its grammar: its name, its stop tokens, its limit of
tokens.

What: `bind` makes SGLang's grammar manager call `attach` for each request when its grammar is ready. Then the
request's stop tokens end the grammar and are forbidden elsewhere, masks report what they do not enforce
(`adapters.engines.notices`), and leave room for the end of the text under ``EQUIMASK_SGLANG_TOKEN_LIMITS=1``.
When: once, before a scheduler's first request.
Limits: none of its own.
"""

from __future__ import annotations

import functools
import importlib
import logging
import sys
import weakref
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from adapters.engines.notices import Notice, guarded, notice_of, tell
from adapters.sglang.grammar import Grammar, ReasoningGrammar
from adapters.sglang.settings import SETTINGS

logger = logging.getLogger("sglang.equimask")

MANAGER = "sglang.srt.constrained.grammar_manager"
STREAMER = "sglang.srt.managers.scheduler_components.output_streamer"
FINISH = "sglang.srt.managers.schedule_batch"

FIELD = "equimask"
"""The field of ``meta_info`` in an answer."""


def bind() -> None:
    """Replace methods of SGLang, once in each process.

    Raises:
        TypeError: this release of SGLang has no such manager.
    """
    kind = getattr(importlib.import_module(MANAGER), "GrammarManager", None)
    names = ("process_req_with_grammar", "get_ready_grammar_requests")
    if kind is None or any(not hasattr(kind, name) for name in names):
        raise TypeError(
            f"this release of SGLang has no {MANAGER}.GrammarManager with {' and '.join(names)}; serve with "
            "another --grammar-backend, or install a release that docs/sglang.md names"
        )
    if not hasattr(kind.process_req_with_grammar, "by_sglang"):
        kind.process_req_with_grammar = _marked(_attaching_one, kind.process_req_with_grammar)
        kind.get_ready_grammar_requests = _marked(_attaching_ready, kind.get_ready_grammar_requests)
    # only schedulers have imported it, and only they have answers
    streamer = getattr(sys.modules.get(STREAMER), "SchedulerOutputStreamer", None)
    is_whole = getattr(streamer, "is_request_level_customized_info_key", None)
    if is_whole is not None and not hasattr(is_whole, "by_sglang"):
        assert streamer is not None
        streamer.is_request_level_customized_info_key = _marked(_in_answers, is_whole)


def _marked(around: Callable[..., Any], by_sglang: Callable[..., Any]) -> Callable[..., Any]:
    """Make an extension of a method of SGLang."""

    @functools.wraps(by_sglang)
    def bound(*arguments: Any, **options: Any) -> Any:
        return around(by_sglang(*arguments, **options), *arguments)

    vars(bound)["by_sglang"] = by_sglang
    return bound


def _attaching_one(waits: bool, manager: Any, request: Any) -> bool:
    if not waits:
        guarded(logger, request.rid, attach, request)
    return waits


def _attaching_ready(ready: list[Any], manager: Any) -> list[Any]:
    for request in ready:
        guarded(logger, request.rid, attach, request)
    return ready


def _in_answers(is_whole: bool, streamer: Any, key: str) -> bool:
    return is_whole or key == FIELD


def attach(request: Any) -> None:
    """Tell a grammar what it needs to know about its request, before the first token.

    Args:
        request: SGLang's request. Nothing happens if its grammar is not ours.
    """
    grammar = request.grammar.grammar if isinstance(request.grammar, ReasoningGrammar) else request.grammar
    if not isinstance(grammar, Grammar) or grammar.served_request is not None:
        return
    grammar.served_request = ServedRequest(request)
    more = stops_of(request) - set(grammar.matcher.stop_token_ids)
    if more:
        # if ids that the grammar reads by number ended the text, it could never be completed
        grammar.end_by(more - {*(grammar.ctx.named_ids or ())})
    if SETTINGS.keeps_limits():
        # 0: no text is wanted. With `n` above 1, SGLang first sends such a request, to cache the prompt
        grammar.most_tokens = request.sampling_params.max_new_tokens or None
    why = grammar.keep_limit()
    grammar.served_request.tell(notice_of("sglang", request.rid, grammar.ctx.hybrid, why))


class ServedRequest:
    """The request of a grammar, with what the grammar needs of it.

    Args:
        request: SGLang's request, which is not kept alive.
    """

    def __init__(self, request: Any) -> None:
        self._request = weakref.ref(request)
        self._told: dict[str, Any] = {}

    def tell(self, notice: Notice) -> None:
        """Log a notice, call hooks, and add the notice to the answer."""
        tell(notice, logger)
        request = self._request()
        if not notice or request is None:
            return
        self._told.update(notice.as_field())
        if hasattr(request, "customized_info"):
            request.customized_info = {**(request.customized_info or {}), FIELD: [self._told]}

    def report_limit_error(self, why: str) -> None:
        """Report that the text may be cut off at its token limit from now on."""
        request = self._request()
        if request is not None:
            self.tell(Notice("sglang", request.rid, (), why))

    def abort(self, message: str) -> None:
        """End the request with an error, even if SGLang has already recorded its end: it does so when a stop
        token comes that the grammar refuses."""
        request, kind = self._request(), getattr(sys.modules.get(FINISH), "FINISH_ABORT", None)
        if request is None or kind is None:
            return
        reason = kind(
            f"Grammar accept_token failed: {message}",
            HTTPStatus.INTERNAL_SERVER_ERROR,
            "InternalServerError",
        )
        if request.finished_reason is None:
            request.to_finish = reason
        elif not isinstance(request.finished_reason, type(reason)):
            request.finished_reason = reason


def stops_of(request: Any) -> set[int]:
    """Return the ids at which SGLang ends a request: those of the request, of the model and of the tokenizer.

    Args:
        request: SGLang's request. Attributes that it does not have count as empty.
    """
    asked, tokenizer = request.sampling_params, getattr(request, "tokenizer", None)
    if getattr(asked, "ignore_eos", False):
        return set()
    found: set[Any] = {getattr(tokenizer, "eos_token_id", None)}
    for owner, name in (
        (asked, "stop_token_ids"),
        (request, "eos_token_ids"),
        (tokenizer, "additional_stop_token_ids"),
    ):
        found.update(getattr(owner, name, None) or ())
    return {stop for stop in found if isinstance(stop, int)}
