"""Masks for a tree of draft tokens: XGrammar's `traverse_draft_tree` on every strategy.

What: node 0 is the root; the matcher has read its token already. The token of every other node is read after
its parent's, if the parent's mask allows it; then the node gets its mask, and the token is taken back. On a
classifier no token is read or taken back: one call looks up the whole tree (`hybrid.api.draft_rows`).
When: `traverse` is the method `traverse_draft_tree` of matchers, for speculative decoding.
Limits: arrays that are not a tree (a node is reached twice, a number is out of range) are refused, whereas
XGrammar would loop forever or read outside them. Nodes that the root does not reach are ignored.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from equivalence import ArgumentError, BitmaskError
from equivalence.arguments import shown
from hybrid.api.calls import count_masks
from hybrid.api.draft_rows import fill_trees

NO_TEMPERATURE = -1.0
"""The value that XGrammar writes if no temperature is set."""

Answer = TypeVar("Answer")

Matcher = Any
"""A `hybrid.GrammarMatcher`; its module imports this one."""


class _Tree(NamedTuple):
    child: list[int]
    sibling: list[int]
    token: list[int]


def traverse(
    self: Matcher,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
    draft_tokens: torch.Tensor,
    token_bitmask: torch.Tensor,
    time_threshold: float = -1.0,
    temperatures: torch.Tensor | None = None,
) -> bool:
    """Fill one mask for each node of a tree of draft tokens, as in XGrammar; the state does not change.

    Args:
        retrieve_next_token: int64[nodes], the first child of each node, or -1. Node 0 is the root: its
            token has been accepted already.
        retrieve_next_sibling: int64[nodes], the next child of the same node, or -1.
        draft_tokens: int64[nodes], the token of each node.
        token_bitmask: int32[nodes, ceil(V / 32)]. A node gets a row of zeros if the grammar does not
            allow its token, or has ended after it. Rows of nodes below such a node, of nodes outside the
            tree, and of nodes that were not reached in time stay as they are.
        time_threshold: time limit in seconds; 0 or less means no limit.
        temperatures: float32[nodes], gets the temperature of each node that has a mask, and -1 elsewhere.

    Returns:
        False if the time limit was reached.

    Raises:
        BitmaskError, ArgumentError: an argument has another type or shape, or is not a tree. Nothing was
            written.
    """
    begun = time.monotonic()
    if isinstance(time_threshold, bool) or not isinstance(time_threshold, (int, float)):
        raise ArgumentError(f"time_threshold must be a number of seconds, but is {shown(time_threshold)}")
    parts = (
        _numbers(retrieve_next_token, "retrieve_next_token"),
        _numbers(retrieve_next_sibling, "retrieve_next_sibling"),
        _numbers(draft_tokens, "draft_tokens"),
    )
    tree = _Tree(*(part.tolist() for part in parts))
    _check_tree(tree)
    nodes = len(tree.token)
    rows = self._rows_of(token_bitmask)
    if token_bitmask.ndim != 2 or rows.count != nodes:
        raise BitmaskError(
            f"token_bitmask must have one row for each of the {nodes} nodes, but has shape "
            f"{tuple(token_bitmask.shape)}"
        )
    heat = None if temperatures is None else temperatures_of(temperatures)
    if heat is not None:
        if len(heat) != nodes:
            raise ArgumentError(
                f"temperatures must have one element for each of the {nodes} nodes, but has {len(heat)}"
            )
        heat[:] = NO_TEMPERATURE
    late = begun + time_threshold if time_threshold > 0 else None
    if heat is None and (late is None or time.monotonic() < late):
        children, siblings, tokens = (np.ascontiguousarray(part)[None, :] for part in parts)
        if not fill_trees([self], rows, [0], children, siblings, tokens, True, late is None):
            return True
    whole = in_place(self, partial(_walk, self, tree, rows.words, heat, late))
    count_masks(nodes)
    return whole


def _walk(
    matcher: Matcher, tree: _Tree, words: NDArray[np.uint32], heat: NDArray[np.float32] | None,
    late: float | None,
) -> bool:  # fmt: skip
    """Fill the rows of all nodes, in the order of XGrammar's recursion; False if the time was over."""
    waiting = [(0, -1)]  # nodes and their parents; (-1, -1) takes a token back
    while waiting:
        node, parent = waiting.pop()
        if node < 0:
            matcher.rollback(1)
            continue
        is_allowed, is_read = True, False
        if node:
            token, row = tree.token[node], words[parent]
            is_allowed = 0 <= token < 32 * len(row) and int(row[token >> 5]) >> (token & 31) & 1 == 1
            if is_allowed:
                if late is not None and time.monotonic() > late:
                    return False
                is_allowed = is_read = matcher.accept_token(token)
        if tree.sibling[node] >= 0:
            waiting.append((tree.sibling[node], parent))
        if is_read:
            waiting.append((-1, -1))
        if not is_allowed or matcher.is_terminated():
            words[node] = 0
            continue
        matcher._fill(words[node])
        if heat is not None:
            heat[node] = temperature_or_none(matcher)
        if tree.child[node] >= 0:
            waiting.append((tree.child[node], node))
    return True


def in_place(matcher: Matcher, call: Callable[[], Answer]) -> Answer:
    """Make a call that moves a matcher. Afterwards it is where it was, even after an error."""
    # XGrammar can take back all steps; others may have to go back to a copy
    made, before = matcher._n_steps, None if matcher.compiled_grammar.classifier is None else matcher.fork()
    try:
        return call()
    finally:
        try:
            matcher._go_back(made, before)
        except BaseException:  # Ctrl-C may come at any call
            matcher._go_back(made, before)
            raise


def temperature_or_none(matcher: Matcher) -> float:
    """The temperature that the grammar asks for here, -1 for none."""
    found: float | None = matcher.temperature
    return NO_TEMPERATURE if found is None else found


def temperatures_of(temperatures: Any) -> NDArray[np.float32]:
    """A view of the memory of a tensor of temperatures.

    Raises:
        ArgumentError: it is not float32[n] on the CPU, or not writable.
    """
    array = _on_the_cpu(temperatures)
    if array is None or array.ndim != 1 or array.dtype != np.float32 or not array.flags.writeable:
        raise ArgumentError(
            "temperatures must be a float32 tensor with one dimension on the CPU, but is "
            f"{_kind(temperatures)}"
        )
    if len(array) > 1 and array.strides[0] == 0:
        raise ArgumentError(
            "the elements of temperatures overlap in memory (for example, because of expand); pass "
            "temperatures.clone()"
        )
    return array


def _numbers(values: Any, name: str) -> NDArray[np.int64]:
    array = _on_the_cpu(values)
    if array is None or array.ndim != 1 or array.dtype != np.int64:
        raise ArgumentError(
            f"{name} must be an int64 tensor with one dimension on the CPU, but is {_kind(values)}"
        )
    return array


def _kind(values: Any) -> str:
    if not isinstance(values, (torch.Tensor, np.ndarray)):
        return shown(values)
    return f"{values.dtype} of shape {tuple(values.shape)}"


def _on_the_cpu(values: Any) -> NDArray[Any] | None:
    """A tensor or array on the CPU as a numpy array; None for anything else."""
    if isinstance(values, torch.Tensor) and values.device.type == "cpu":
        try:
            return np.asarray(values.detach().numpy())
        except Exception:  # noqa: BLE001 - the tensor has no memory, or a type that numpy does not have
            return None
    return np.asarray(values) if isinstance(values, np.ndarray) else None


def _check_tree(tree: _Tree) -> None:
    """Raise `ArgumentError` unless the nodes that node 0 reaches are a tree."""
    nodes = len(tree.token)
    if not nodes or len(tree.child) != nodes or len(tree.sibling) != nodes:
        raise ArgumentError(
            "retrieve_next_token, retrieve_next_sibling and draft_tokens must have one element for "
            f"each node, and at least one, but have {len(tree.child)}, {len(tree.sibling)} and {nodes}"
        )
    if tree.sibling[0] != -1:
        raise ArgumentError(
            f"the sibling of node 0 must be -1, because it is the root, but is {tree.sibling[0]}"
        )
    reached = {0}
    waiting = [0]
    while waiting:
        node = waiting.pop()
        for after in (tree.child[node], tree.sibling[node]):
            if after == -1:
                continue
            if not 0 < after < nodes or after in reached:
                raise ArgumentError(
                    f"this is not a tree: node {node} leads to node {after}, but it must lead to -1 or "
                    f"to one of the nodes 1 to {nodes - 1}, and only one node may lead to each of them"
                )
            reached.add(after)
            waiting.append(after)
