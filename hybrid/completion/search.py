"""The fewest tokens that complete a text, searched token by token.

What: `search` goes from a configuration to all that one token leads to, then two tokens, and so on, until it
meets one whose plan is known to fit (`hybrid.completion.completion`).
When: where the plan itself does not fit, or no tokens spell it: a text that is longer in bytes may have fewer
tokens.
Limits: the nodes that are read are bounded, the levels, and the seconds. A search that gives up says so, and
proves nothing.

The number of nodes is looked at before each level, never within one. So if a search finds a way, the search
from the next configuration of that way finds the rest of it: it reads a part of what the first one read.

Rejected: a least cost over pairs of vocabulary positions and states (the grammar times the vocabulary's
trie), which is exact at once and needs the square of 300,000 trie nodes for each rule.

Source: breadth-first search.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

MOST_LEVELS = 16
"""Tokens that a search looks ahead: in an ambiguous grammar that ends nowhere each configuration is larger
than the last, and 140 levels take 20 s."""


class Way(NamedTuple):
    """What a search found.

    Attributes:
        n_tokens: the fewest tokens that are known to complete the text; infinite where no way is known.
        tokens: the first of them, up to `last`; its plan has the others.
        last: the node that they lead to.
        is_whole: whether the search saw all ways; if not, a shorter one may exist.
    """

    n_tokens: float
    tokens: list[int]
    last: int
    is_whole: bool


def search(
    start: int,
    most: float,
    enough: float,
    most_read: int,
    seconds: float,
    ends_of: Callable[[int], Iterable[tuple[int, int]]],
    planned: Callable[[int], float],
    least: Callable[[int], float],
) -> Way:
    """Search the fewest tokens from a node on.

    Args:
        start: the node.
        most: ways of more tokens are of no use.
        enough: a way of so few tokens ends the search.
        most_read: nodes that may be read.
        seconds: how long they may take. Other bounds are met first in all but ambiguous grammars, where each
            configuration may be larger than the last.
        ends_of: of a node, (token, node behind it) for each token that can be read.
        planned: of a node, the tokens of a way that is known; infinite where none is.
        least: of a node, no way has fewer tokens; infinite where there is none.
    """
    came: dict[int, tuple[int, int]] = {start: (start, -1)}
    level, depth, best, last, is_whole = [start], 0, planned(start), start, True
    n_read, until = 0, time.monotonic() + seconds
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
                if end in came:  # by as many tokens, or fewer
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
