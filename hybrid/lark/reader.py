# cython: language_level=3
# mypy: ignore-errors
"""Reading stacks from the top: which kinds of terminal sequences a stack accepts.

What: the automaton of `equivalence.lark.lalr.StackAutomaton` runs for all kinds at once. The top state
decides some kinds and leaves a *frontier*: the undecided kinds, each with its color and the number of
states to skip before the next one is read. Reading a state with a frontier gives another frontier. Both are
cached, because stacks are often alike near their tops.
When: for each stack that `hybrid.lark.store` asks about; the result is stored at the stack's node.
Limits: nothing is deleted; the account pays for growth.
"""

from __future__ import annotations

from typing import Any

import cython
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.classifier.summaries import Summaries
from cython.cimports.hybrid.lark.stacks import Stacks

check_source(__name__)

NOWHERE = cython.declare(cython.Py_ssize_t, 0)

SKIP_BITS = cython.declare(cython.Py_ssize_t, 12)
"""In an outcome of `equivalence.lark.lalr.StackAutomaton` minus 2: number of bits of the states to skip;
the color is in the higher bits."""

SKIP_MASK = cython.declare(cython.Py_ssize_t, (1 << 12) - 1)

KIND_BITS = cython.declare(cython.Py_ssize_t, 24)
"""In an entry of a frontier: number of bits of the kind; the outcome is in the higher bits."""

KIND_MASK = cython.declare(cython.Py_ssize_t, (1 << 24) - 1)


@cython.final
@cython.cclass
class Reader:
    """Which kinds the stacks accept, as far as it was computed.

    Args:
        stacks: the stacks.
        fixed: the stack automaton (`hybrid.lark.tables.Fixed`).
        account: the account that pays for growth.

    Attributes:
        summaries: for each state on top the set of kinds that it decides, and the frontier that it leaves;
            for a frontier and a state below, the same. Its masks are sets of kinds, its pending sets are
            frontiers.
        kinds: sets of kinds, as words of 32 bits; number 0 is the empty set.
        frontiers: lists of entries (outcome << `KIND_BITS` | kind). The number of states that all entries
            skip is subtracted from each and appended to the list, so that equal lists may be at different
            depths. Number 0 is the empty list.
    """

    def __init__(self, stacks: Stacks, fixed: Any, account: Account) -> None:
        self.nodes = stacks.nodes
        self.account = account
        self.top_start = fixed.top_start
        self.top_kind = fixed.top_kind
        self.top_outcome = fixed.top_outcome
        self.place = fixed.place
        self.color_list = fixed.color_list
        self.color_start = fixed.color_start
        self.color_outcome = fixed.color_outcome
        self.summaries = Summaries(len(fixed.action), max((fixed.n_kinds + 31) // 32, 1), account, 1024)
        self.kinds, self.frontiers = self.summaries.masks, self.summaries.pendings

    def kinds_of(self, node):
        """The number of the set of kinds that a stack accepts.

        Raises:
            BudgetExceeded: the account does not pay for more.
        """
        if self.nodes.rows[node].result < 0:
            self.nodes.rows[node].result = cython.cast(cython.int, self.read(node))
        return self.nodes.rows[node].result

    def read(self, node):
        """Read a stack from its top until everything is decided."""
        state: cython.Py_ssize_t = self.nodes.rows[node].first
        if self.summaries.first[state].mask < 0:
            self.read_top(state)
        found: cython.Py_ssize_t = self.summaries.first[state].mask
        frontier: cython.Py_ssize_t = self.summaries.first[state].pending
        below: cython.Py_ssize_t = self.nodes.rows[node].second
        while frontier != 0:
            below = self.skipped(frontier, below)
            if below == NOWHERE:
                break
            pair = self.pair_of(frontier, self.nodes.rows[below].first)
            more: cython.Py_ssize_t = self.summaries.pairs.rows[pair].result
            frontier = self.summaries.pairs.rows[pair].rest
            below = self.nodes.rows[below].second
            if found == 0:
                found = more
            elif more != 0 and more != found:
                found = self.summaries.united(found, more)
        return found

    def skipped(self, frontier, below):
        """The node, at or below another, where a frontier is read next."""
        for _ in range(self.frontiers.pool[self.frontiers.starts[frontier + 1] - 1]):
            below = self.nodes.rows[below].second
        return below

    def pair_of(self, frontier, state):
        """The number in `summaries.pairs` of a frontier and a state; the result is known then."""
        pair = self.summaries.pairs.number(frontier, state)
        if self.summaries.pairs.rows[pair].result < 0:
            self.read_below(pair)
        return pair

    # ---------------------------------------------------------------- single states

    def read_top(self, state):
        """Read the top state of a stack."""
        self.account.check()
        n: cython.Py_ssize_t = 0
        self.begin(self.top_start[state + 1] - self.top_start[state])
        for k in range(self.top_start[state], self.top_start[state + 1]):
            # the cast avoids an overflow when a number of 32 bits is shifted
            outcome = cython.cast(cython.Py_ssize_t, self.top_outcome[k])
            n = self.note(outcome, cython.cast(cython.Py_ssize_t, self.top_kind[k]), n)
        frontier = self.frontier_of(n)
        kinds = self.kinds.intern(self.summaries.n_words)
        self.summaries.first[state].pending = cython.cast(cython.int, frontier)
        self.summaries.first[state].mask = cython.cast(cython.int, kinds)

    def read_below(self, pair):
        """Read a state below the top with a frontier."""
        self.account.check()
        frontier = self.summaries.pairs.rows[pair].first
        state = self.summaries.pairs.rows[pair].second
        n: cython.Py_ssize_t = 0
        begin = self.frontiers.starts[frontier]
        end = self.frontiers.starts[frontier + 1] - 1  # the last entry is the number of states that all skip
        self.begin(end - begin)
        for k in range(begin, end):
            kind = self.frontiers.pool[k] & KIND_MASK
            outcome = self.frontiers.pool[k] >> KIND_BITS
            if (outcome - 2) & SKIP_MASK:
                n = self.note(outcome - 1, kind, n)  # one less to skip
                continue
            color = (outcome - 2) >> SKIP_BITS
            place = self.place[self.color_list[color], state]
            if place >= 0:
                found = self.color_outcome[self.color_start[color] + place]
                n = self.note(cython.cast(cython.Py_ssize_t, found), kind, n)
        left = self.frontier_of(n)
        return self.summaries.note(pair, self.kinds.intern(self.summaries.n_words), left)

    def begin(self, length):
        """Make room for a frontier of at most `length` entries, and for an empty set of kinds."""
        self.frontiers.room(length + 1)
        at = self.kinds.room(self.summaries.n_words)
        for w in range(self.summaries.n_words):
            self.kinds.pool[at + w] = 0

    def note(self, outcome, kind, n):
        """Add the outcome of a kind in a state to the new set or to the new frontier. Return the number of
        entries of the frontier."""
        one: cython.Py_ssize_t = 1
        if outcome == 1:
            self.kinds.pool[self.kinds.used + (kind >> 5)] |= one << (kind & 31)
        elif outcome > 1:
            self.frontiers.pool[self.frontiers.used + n] = (outcome << KIND_BITS) | kind
            n += 1
        return n

    def frontier_of(self, n):
        """The number of the new frontier, which has n entries."""
        if n == 0:
            return 0
        at = self.frontiers.used
        least: cython.Py_ssize_t = SKIP_MASK
        for k in range(at, at + n):
            least = min(least, ((self.frontiers.pool[k] >> KIND_BITS) - 2) & SKIP_MASK)
        for k in range(at, at + n):
            self.frontiers.pool[k] -= least << KIND_BITS
        self.frontiers.pool[at + n] = least
        return self.frontiers.intern(n + 1)
