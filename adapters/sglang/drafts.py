"""Looking up the draft trees of a whole batch in one call, instead of walking them node by node in Python.

What: `read_at_once` replaces SGLang's ``generate_token_bitmask``. The masks are the same.
When: in schedulers that use speculation.
Limits: if SGLang's functions are unknown, or masks do not come from our grammar alone, SGLang walks the
trees.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from adapters.sglang.grammar import Grammar, constraining, leave_tokens, reading_drafts
from hybrid.api.draft_rows import fill_trees

logger = logging.getLogger("sglang.equimask")

MODULE = "sglang.srt.speculative.spec_utils"
NAME, WALK = "generate_token_bitmask", "traverse_tree"
PARAMETERS = {
    NAME: ["reqs", "retrieve_next_token_cpu", "retrieve_next_sibling_cpu", "draft_tokens_cpu", "vocab_size"],
    WALK: [
        "retrieve_next_token", "retrieve_next_sibling", "draft_tokens", "grammar", "allocate_token_bitmask",
        "vocab_size",
    ],
}  # fmt: skip

Generate = Callable[..., Any]
Tree = tuple[torch.Tensor, ...]


def read_at_once() -> None:
    """Replace SGLang's function, once, if it and the walking function are known."""
    try:
        module = importlib.import_module(MODULE)
    except ImportError as error:  # SGLang reports it if it needs the module
        logger.info("SGLang fills the masks of draft trees one by one: %s", error)
        return
    if hasattr(getattr(module, NAME, None), "by_sglang"):
        return
    for name, parameters in PARAMETERS.items():
        found = getattr(module, name, None)
        if found is None or [*inspect.signature(found).parameters] != parameters:
            logger.info(
                "SGLang fills the masks of draft trees one by one: its %s is not one that equimask knows",
                name,
            )
            return
    setattr(module, NAME, at_once(getattr(module, NAME), getattr(module, WALK)))


def at_once(by_sglang: Generate, walk: Callable[..., None]) -> Generate:
    """Make a function that fills all trees of our grammars in one call, and calls SGLang's walk for each
    other tree. For batches without our grammars, it calls SGLang's function.

    Args:
        by_sglang: SGLang's function.
        walk: SGLang's function that walks one tree.
    """

    @functools.wraps(by_sglang)
    def generate(
        reqs: Sequence[Any], retrieve_next_token_cpu: torch.Tensor,
        retrieve_next_sibling_cpu: torch.Tensor, draft_tokens_cpu: torch.Tensor, vocab_size: int,
    ) -> tuple[torch.Tensor | None, Any]:  # fmt: skip
        trees = retrieve_next_token_cpu, retrieve_next_sibling_cpu, draft_tokens_cpu
        asked = [
            (place, request.grammar) for place, request in enumerate(reqs) if request.grammar is not None
        ]
        ours = {place: found for place, one in asked if (found := constraining(one)) is not None}
        if not ours:
            with ExitStack() as stack:
                for _, grammar in asked:
                    stack.enter_context(reading_drafts(grammar))
                return by_sglang(reqs, *trees, vocab_size)
        for one in ours.values():
            one.know_limit()
        rows = asked[0][1].allocate_vocab_mask(
            vocab_size=vocab_size, batch_size=draft_tokens_cpu.numel(), device="cpu"
        )
        nodes = draft_tokens_cpu.shape[-1]
        done = _fill(ours, trees, rows)
        leave_tokens(((place * nodes + node, ours[place]) for place in done for node in range(nodes)), rows)
        for place, grammar in asked:
            if place not in done:
                own = rows[place * nodes : (place + 1) * nodes]
                with reading_drafts(grammar):
                    walk(*(part[place] for part in trees), grammar, own, vocab_size=vocab_size)
        return rows, asked[-1][1]

    vars(generate)["by_sglang"] = by_sglang
    return generate


def _fill(grammars: dict[int, Grammar], trees: Tree, bitmask: torch.Tensor) -> set[int]:
    """Fill the row of each draft that its grammar allows, and leave the others. Return the trees that were
    filled.

    Args:
        grammars: the grammars of some trees, by their places.
        trees: int[batch, nodes]: first children, next siblings, tokens.
        bitmask: a row for each node. Either all rows are filled, or none.
    """
    places = list(grammars)
    matchers = [grammar.matcher for grammar in grammars.values()]
    try:
        nodes = trees[2].shape[-1]
        children, siblings, tokens = (_numbers(part, places) for part in trees)
        rows = [matcher._rows_of(bitmask) for matcher in matchers]
        left = fill_trees(
            matchers, rows[0], [place * nodes for place in places], children, siblings, tokens, False, True
        )
    except Exception:
        logger.exception(
            "Filling the masks of all draft trees in one call failed; SGLang fills them one by one"
        )
        return set()
    return set(places) - {places[tree] for tree in left}


def _numbers(part: torch.Tensor, places: list[int]) -> NDArray[np.int64]:
    """Return some rows of a tensor, in the form that compiled code needs."""
    return np.ascontiguousarray(part.numpy()[places], np.int64)
