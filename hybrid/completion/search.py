"""The fewest tokens that complete a text, by a search token by token.

What: `search` goes from a configuration to all that one token leads to, then two tokens, and so on, until
it finds one with a known plan that fits (`hybrid.completion.completion`).
When: if the plan itself does not fit, or no tokens spell it: a text with more bytes may have fewer tokens.
Limits: the nodes that are read, the levels and the seconds are bounded. A search that gives up says so, and
proves nothing.

The number of nodes is checked before each level, never inside one. So if a search finds a way, the search
from the next configuration of that way finds the rest of it, because it reads a part of what the first one
read.

Rejected: least costs over pairs of vocabulary positions and states (the product of the grammar and the
vocabulary's trie). They would be exact at once, but take the square of 300,000 trie nodes for each rule.

Source: breadth-first search.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

MOST_LEVELS = 16
"""Most tokens that a search looks ahead. In an ambiguous grammar that never ends, each configuration is
larger than the one before, and 140 levels take 20 s."""


class Way(NamedTuple):
    """The result of a search.

    Attributes:
        n_tokens: the fewest tokens that are known to complete the text; infinite if no way is known.
        tokens: the first of them, up to `last`; the plan of `last` has the others.
        last: the node that they lead to.
        is_whole: whether the search saw all ways; if not, a shorter one may exist.
    """

    n_tokens: float
    tokens: list[int]
    last: int
    is_whole: bool


def search(
    start: int, most: float, most_read: int, seconds: float,
    ends_of: Callable[[int], Iterable[tuple[int, int]]], planned: Callable[[int], float],
    least: Callable[[int], float],
) -> Way:  # fmt: skip
    """Search for the fewest tokens from a node to an end.

    Args:
        start: the node.
        most: ways of more tokens are useless; if it is finite, a way of so few tokens ends the search.
        most_read: how many nodes may be read.
        seconds: how long that may take. Only ambiguous grammars, where each configuration may be larger
            than the one before, reach this bound before the others.
        ends_of: for a node, pairs (token, node after it) for each token that can be read.
        planned: for a node, the number of tokens of a known way; infinite if none is known.
        least: for a node, a lower bound of the tokens of its ways; infinite if there is no way.
    """
    came: dict[int, tuple[int, int]] = {start: (start, -1)}
    level, depth, best, last, is_whole = [start], 0, planned(start), start, True
    n_read, until, enough = 0, time.monotonic() + seconds, most if most < math.inf else 0
    while level and depth < most and depth + 1 < best and best > enough:
        n_read += len(level)
        if n_read > most_read or depth == MOST_LEVELS:
            is_whole = False
            break
        following = []
        for node in level:
            if time.monotonic() > until:
                is_whole = False
                break
            for token, end in ends_of(node):
                if end in came:  # with as many tokens, or fewer
                    continue
                came[end] = node, token
                needed = least(end)
                if needed == math.inf or depth + 1 + needed > most:
                    continue
                total = depth + 1 + planned(end)
                if total < best:
                    best, last = total, end
                following.append(end)
        level, depth = following if is_whole else [], depth + 1
    if best == math.inf:
        return Way(best, [], start, is_whole)
    tokens, node = list[int](), last
    while node != start:
        node, token = came[node]
        tokens.append(token)
    return Way(best, tokens[::-1], last, is_whole)
