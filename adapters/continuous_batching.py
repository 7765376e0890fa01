"""Grammars for continuous batching in transformers: each request may have its own.

What: while the next batch is prepared, `BatchingGrammarProcessor` reads what each request has generated, and
fills its mask. The processor's argument for a request is its row in the bitmask.
When: call ``BatchingGrammarProcessor(tokenizer=tokenizer).join(manager)`` before ``manager.start()``, then
``manager.add_request(ids, grammar=compiled)``.
Limits: `join` refuses asynchronous batching and CUDA graphs, because a mask needs the token before it and is
computed on the CPU. `ContinuousBatchingManager` does not accept processors from its users, so `join` adds
this one to the manager's list.

An error during the preparation of a batch would end all requests of the manager. So if a request cannot
continue, because its grammar has another vocabulary, rejects a token, allows none, or takes too long, it is
ended by a stop token, with a warning.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Any, NamedTuple

import torch

from adapters import score_rows
from adapters.grammars import compiled_grammars, compiler_of
from equivalence.arguments import integer_from, shown
from equivalence.errors import (
    ArgumentError,
    BudgetExceeded,
    MatcherError,
    StrategyError,
    UnsupportedGrammar,
    VocabularyError,
)
from hybrid import CompiledGrammar, GrammarMatcher, allocate_token_bitmask

try:
    from transformers.generation.continuous_batching import cb_logits_processors
except ImportError as error:
    raise ImportError(
        "this version of transformers has no logits processors for continuous batching; install a newer one: "
        "pip install -U 'equimask[transformers]' 'transformers>=5.20'"
    ) from error

logger = logging.getLogger("adapters")

FREE = 0
"""The row for requests without a grammar."""


class _Request(NamedTuple):
    """The last state of a request: its grammar, its matcher, and the tokens that the matcher has read."""

    grammar: CompiledGrammar
    matcher: GrammarMatcher
    read: list[int]


class BatchingGrammarProcessor(cb_logits_processors.ContinuousBatchingLogitsProcessor):
    """Masks the logits of each request by its grammar.

    Args:
        compiled: the grammar of requests that are added without ``grammar=``, as in
            `adapters.transformers.GrammarLogitsProcessor`. None: these requests are not constrained.
        tokenizer: the model's tokenizer, a `hybrid.Vocabulary` or a `hybrid.GrammarCompiler`; None if
            ``compiled`` is a compiled grammar.
        most_requests: the maximum number of requests in one batch. Each takes a row of ceil(V / 32) words.
        limit_tokens: whether texts end within the ``max_new_tokens`` of their request, if possible
            (docs/completion.md).

    Raises:
        ArgumentError: there is neither a grammar nor a tokenizer, there are several grammars, or an argument
            has another type.
    """

    supported_kwargs = {"grammar": CompiledGrammar}  # noqa: RUF012 - as transformers declares it
    ignored_kwargs = ()

    def __init__(
        self,
        compiled: Any = None,
        tokenizer: Any = None,
        *,
        most_requests: int = 256,
        limit_tokens: bool = False,
    ) -> None:
        if compiled is None and tokenizer is None:
            raise ArgumentError("neither compiled nor tokenizer was given; pass one, or both")
        grammars = [] if compiled is None else compiled_grammars(compiled, tokenizer)
        if len(grammars) > 1:
            raise ArgumentError(
                f"compiled must be one grammar for all requests, but has {len(grammars)}; give a "
                "request its own grammar with manager.add_request(ids, grammar=...)"
            )
        self._default = grammars[0] if grammars else None
        self._vocabulary = grammars[0].vocabulary if grammars else compiler_of(tokenizer).vocabulary
        self._alike: set[str] = set()  # fingerprints of vocabularies whose ids are these
        self._limit_tokens = limit_tokens
        rows = 1 + integer_from(1, most_requests, "most_requests")
        with torch.inference_mode(False):  # requests may be prepared outside of that mode
            self._bitmask = allocate_token_bitmask(rows, self._vocabulary.size)
        self._bitmask[FREE] = -1
        self._stop_row = score_rows.bitmask_row(self._vocabulary.stop_token_ids, self._vocabulary.size)
        self._requests: OrderedDict[str, _Request] = OrderedDict()

    def join(self, manager: Any) -> BatchingGrammarProcessor:
        """Add this processor to a manager that has not started yet, as its first one. Returns itself.

        Raises:
            ArgumentError: `manager` is not a manager of continuous batching, or has started.
            StrategyError: it uses asynchronous batching or CUDA graphs.
        """
        processors = getattr(manager, "logit_processor", None)
        if not isinstance(processors, cb_logits_processors.ContinuousBatchingLogitsProcessorList):
            raise ArgumentError(
                f"manager must be what model.init_continuous_batching returns, but is {shown(manager)}"
            )
        if manager.batch_processor is not None or manager.is_running():
            raise ArgumentError(
                "the manager has already started; join it between init_continuous_batching and start"
            )
        config = manager.continuous_batching_config
        graphs = config.use_cuda_graph  # one value, or one for each of two kinds of steps
        if config.use_async_batching or (any(graphs) if isinstance(graphs, tuple) else graphs):
            raise StrategyError(
                "the manager must use neither use_async_batching nor use_cuda_graph, because a mask "
                "depends on the previous token, but has "
                f"use_async_batching={config.use_async_batching} and "
                f"use_cuda_graph={config.use_cuda_graph}. Pass "
                "ContinuousBatchingConfig(use_async_batching=False, use_cuda_graph=False)"
            )
        processors.logits_processor.insert(0, self)
        processors.tensors_required += 1
        processors.do_processing = True
        processors._retrieve_processors_kwargs()
        return self

    # --- what transformers calls ---

    def fill_defaults(self, int32_tensor: torch.Tensor) -> None:
        """Set the default row, which does not constrain a request."""
        int32_tensor.fill_(FREE)

    def prepare_tensor_args(self, requests_with_new_token: list[Any]) -> torch.Tensor:
        """Fill the mask of each request, and return their rows.

        Raises:
            ArgumentError: there are more requests than rows.
        """
        if len(requests_with_new_token) >= len(self._bitmask):
            raise ArgumentError(
                f"a batch has {len(requests_with_new_token)} requests, but the limit is "
                f"{len(self._bitmask) - 1}; raise most_requests, or lower max_requests_per_batch"
            )
        rows = [self._fill(future.state, place + 1) for place, future in enumerate(requests_with_new_token)]
        while len(self._requests) > 4 * len(self._bitmask):  # most have ended; others are read again
            self._requests.popitem(last=False)
        return torch.tensor(rows, dtype=torch.int32, device="cpu")

    def __call__(self, scores: torch.Tensor, tensor_arg: torch.Tensor) -> torch.Tensor:
        """Return masked scores.

        Raises:
            VocabularyError: there are fewer scores than ids.
        """
        size = self._vocabulary.size
        score_rows.check_width(scores, size)
        rows = tensor_arg[: len(scores)].long()
        if not bool(rows.any()):
            return scores
        masked = scores.clone(memory_format=torch.contiguous_format)
        score_rows.apply(masked, self._bitmask[rows.cpu()], size)
        masked[(rows != FREE).nonzero().flatten(), size:] = -torch.inf
        return masked

    # --- one request ---

    def _fill(self, state: Any, row: int) -> int:
        """Fill a row for a request. Return the row, or `FREE` if the request has no grammar."""
        grammar = state.logit_processor_kwargs.get("grammar", self._default)
        if grammar is None:
            return FREE
        why: object = "its grammar allows no token here"
        try:
            matcher = self._matcher(state, grammar)
            is_ended = matcher.is_terminated()
            if not is_ended:
                matcher.fill_next_token_bitmask(self._bitmask, row)
                if bool((self._bitmask[row] != 0).any()):
                    return row
        except (MatcherError, BudgetExceeded, VocabularyError) as error:
            is_ended, why = False, error
        if not is_ended:
            logger.warning("request %s ends: %s", state.request_id, why)
        self._bitmask[row] = self._stop_row
        return row

    def _matcher(self, state: Any, grammar: CompiledGrammar) -> GrammarMatcher:
        """Return a matcher that has read what the request has generated.

        Raises:
            MatcherError: the grammar rejects that.
            VocabularyError: the grammar has another vocabulary.
        """
        # a request that lost its cache starts again, with what it had generated as the end of its prompt
        begun = state.initial_tokens[state._true_initial_tokens :] if state._true_initial_tokens else []
        tokens = [*begun, *state.generated_tokens]
        known = self._requests.pop(state.request_id, None)
        # if nothing was read, an ended request may have had this name, and another limit
        is_new = (
            known is None
            or not known.read
            or known.grammar is not grammar
            or tokens[: len(known.read)] != known.read
        )
        if known is None or is_new:
            if grammar.vocabulary.fingerprint not in self._alike:
                if not self._vocabulary.has_same_ids(grammar.vocabulary):
                    raise VocabularyError(
                        f"its grammar is over {grammar.vocabulary}, but this processor is for "
                        f"{self._vocabulary}; compile all grammars with one GrammarCompiler, and make the "
                        "processor with tokenizer=compiler"
                    )
                self._alike.add(grammar.vocabulary.fingerprint)
            known = _Request(grammar, GrammarMatcher(grammar), [])
        self._requests[state.request_id] = known
        for token in tokens[len(known.read) :]:
            if not known.matcher.accept_token(token):
                raise MatcherError(f"its grammar rejects token {token}")
            known.read.append(token)
        if is_new and self._limit_tokens and state.max_new_tokens is not None:
            self._limit(state, known.matcher)
        return known.matcher

    def _limit(self, state: Any, matcher: GrammarMatcher) -> None:
        """Let the masks of a request leave room for the end of its text."""
        try:
            if matcher.limit_tokens(max(state.max_new_tokens - state.generated_len(), 0)) is False:
                logger.warning(
                    "request %s has too few tokens left to complete a text of its grammar", state.request_id
                )
        except (UnsupportedGrammar, BudgetExceeded) as error:
            logger.warning("the text of request %s may be cut off: %s", state.request_id, error)
