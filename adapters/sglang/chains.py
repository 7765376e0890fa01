"""Forced and likely tokens as drafts of SGLang's own speculation, of its algorithm NGRAM.

What: that algorithm's worker makes a tree of drafts for each request of a batch from what was written
before. `draft_chains` has it take, for requests whose grammar forces text or makes it likely, a chain of that
in place of the tree; SGLang checks it like any other. The worker runs beside the scheduler, where the
grammars are.
When: in schedulers with ``--speculative-algorithm NGRAM`` and ``EQUIMASK_SGLANG_DRAFTS=1``.
Limits: one rank: ranks have to draft alike, and what is likely is learned by each for itself.
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
    """Drafts were asked for, and this server has no place for them."""


def draft_chains(server_args: Any, encode: Any = None) -> None:
    """Have SGLang's worker take chains from grammars.

    Args:
        server_args: SGLang's arguments.
        encode: the model's tokenizer, which cuts forced text; None: the longest token that fits.

    Raises:
        CannotDraft: another algorithm, several ranks, or a release whose worker is another one.
    """
    algorithm = str(getattr(server_args, "speculative_algorithm", None)).upper()
    n_ranks = server_args.tp_size * server_args.pp_size
    if algorithm != ALGORITHM or n_ranks != 1:
        raise CannotDraft(
            f"{SETTINGS.drafting} is 1, with the algorithm {algorithm} on {n_ranks} ranks; allowed is "
            f"--speculative-algorithm {ALGORITHM} on one"
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
        raise CannotDraft(f"{KIND}.{NAME} of this release of SGLang is not the one that is known")
    setattr(kind, NAME, with_chains(prepare, encode))


def with_chains(prepare: Any, encode: Any) -> Any:
    """The worker's method, which then puts chains into the rows of requests that follow grammars."""

    @functools.wraps(prepare)
    def prepared(self: Any, batch: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        drafts, mask = prepare(self, batch)
        # where results are behind by a step, grammars are too
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
                    logger.exception("The drafts of request %s are SGLang's own", request.rid)
                    continue
                if chain:
                    write(tokens[row], ancestors[row], chain)
        return drafts, mask

    vars(prepared)["by_sglang"] = prepare
    return prepared


def chain_of(chains: Continuations, request: Any, last: int) -> list[int]:
    """What is likely behind the last token of a request; nothing where its grammar has no say, or is behind.

    Args:
        chains: of the worker.
        request: SGLang's.
        last: the token that its drafts follow.
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
    """Put a chain behind the first node of a tree, in place of all that was there.

    Args:
        tokens: of the nodes; the first is the last token of the text.
        ancestors: bool[nodes, nodes]: for each node, itself and those above it.
        chain: fewer tokens than nodes. Nodes that are left stand below the first, with the token 0, as
            SGLang fills them.
    """
    size, width = len(chain), len(tokens)
    tokens[1:] = 0
    tokens[1 : 1 + size] = chain
    ancestors[:] = np.eye(width, dtype=ancestors.dtype)
    ancestors[:, 0] = 1
    ancestors[: 1 + size, : 1 + size] = np.tri(1 + size, dtype=ancestors.dtype)
