"""Forced and likely tokens as drafts for SGLang's own speculation, with its algorithm NGRAM.

What: the worker of that algorithm makes a tree of drafts for each request of a batch from earlier text.
`draft_chains` replaces the tree by a chain of tokens if the request's grammar forces text or makes it likely.
SGLang checks the chain like any tree. The worker runs in the scheduler's process, which has the grammars.
When: in schedulers with ``--speculative-algorithm NGRAM`` and ``EQUIMASK_SGLANG_DRAFTS=1``.
Limits: one rank, because ranks must have the same drafts, but each learns by itself which tokens are likely.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapters.engines.continuations import Continuations
from adapters.sglang.grammar import Grammar, constraining
from adapters.sglang.settings import SETTINGS

logger = logging.getLogger("sglang.equimask")

MODULE, KIND, NAME = "sglang.srt.speculative.ngram_worker", "NGRAMWorker", "_prepare_draft_tokens"
ALGORITHM = "NGRAM"


class CannotDraft(RuntimeError):
    """Drafts are enabled, but this server cannot use them."""


def draft_chains(server_args: Any, encode: Any = None) -> None:
    """Make SGLang's worker use chains from grammars.

    Args:
        server_args: SGLang's arguments.
        encode: the model's tokenizer, for forced text; None takes the longest token that fits.

    Raises:
        CannotDraft: the algorithm is another one, there are several ranks, or the worker is unknown.
    """
    algorithm = str(getattr(server_args, "speculative_algorithm", None)).upper()
    n_ranks = server_args.tp_size * server_args.pp_size
    if algorithm != ALGORITHM or n_ranks != 1:
        raise CannotDraft(
            f"{SETTINGS.drafting}=1 needs --speculative-algorithm {ALGORITHM} on one rank, but the "
            f"algorithm is {algorithm}, and the number of ranks is {n_ranks}"
        )
    try:
        kind = getattr(importlib.import_module(MODULE), KIND)
        prepare = getattr(kind, NAME)
    except (ImportError, AttributeError) as error:
        raise CannotDraft(f"this release of SGLang has no {KIND}.{NAME}: {error}") from error
    if hasattr(prepare, "by_sglang"):
        return
    reads = {"batch_get", "draft_token_num", "reqs"} <= {*prepare.__code__.co_names}
    if not reads or [*inspect.signature(prepare).parameters] != ["self", "batch"]:
        raise CannotDraft(f"{KIND}.{NAME} of this release of SGLang is not one that equimask knows")
    setattr(kind, NAME, with_chains(prepare, encode))


def with_chains(prepare: Any, encode: Any) -> Any:
    """Make the worker's method, extended to put chains into the rows of requests with grammars."""

    @functools.wraps(prepare)
    def prepared(self: Any, batch: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        drafts, mask = prepare(self, batch)
        # if results lag by a step, so do grammars
        if batch.has_grammar and (not self.enable_overlap or batch.grammar_needs_sync()):
            width = self.draft_token_num
            chains = vars(self).get("equimask_chains")
            if chains is None:
                chains = self.equimask_chains = Continuations(width - 1, encode)
            tokens, ancestors = drafts.reshape(-1, width), mask.reshape(-1, width, width)
            for row, request in enumerate(batch.reqs):
                try:
                    chain = chain_of(chains, request, int(tokens[row, 0]))
                except Exception:
                    logger.exception(
                        "Drafting for request %s failed; SGLang's own drafts are used", request.rid
                    )
                    continue
                if chain:
                    write(tokens[row], ancestors[row], chain)
        return drafts, mask

    vars(prepared)["by_sglang"] = prepare
    return prepared


def chain_of(chains: Continuations, request: Any, last: int) -> list[int]:
    """Likely tokens after the last token of a request. Empty if the grammar does not constrain it now, or
    lags.

    Args:
        chains: the worker's draft models.
        request: SGLang's request.
        last: the token before its drafts.
    """
    grammar = constraining(request.grammar)
    if not isinstance(grammar, Grammar) or grammar.is_terminated():
        return []
    read = grammar.accepted_tokens
    if not read or read[-1] != last:
        return []
    chains.learn(grammar.matcher, len(read) - grammar.learned)
    grammar.learned = len(read)
    return chains.continue_draft(grammar.matcher, [])


def write(tokens: NDArray[Any], ancestors: NDArray[Any], chain: list[int]) -> None:
    """Replace everything after the first node of a tree by a chain.

    Args:
        tokens: the tokens of the nodes; the first is the last token of the text.
        ancestors: bool[nodes, nodes]: for each node, the node itself and those above it.
        chain: fewer tokens than nodes. The remaining nodes become children of the first, with the token 0, as
            SGLang fills them.
    """
    size, width = len(chain), len(tokens)
    tokens[1:] = 0
    tokens[1 : 1 + size] = chain
    ancestors[:] = np.eye(width, dtype=ancestors.dtype)
    ancestors[:, 0] = 1
    ancestors[: 1 + size, : 1 + size] = np.tri(1 + size, dtype=ancestors.dtype)
