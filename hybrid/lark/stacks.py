# cython: language_level=3
# mypy: ignore-errors
"""Stacks of an LALR parser that share their lower parts, and reading terminals with them.

What: a stack is the number of a node: the top state, and the stack below it. Equal stacks have equal
numbers, so everything is computed once for each stack. `shifted` reads a terminal: reductions, then the
shift.
When: by `hybrid.lark.store`, for each terminal that the lexer returns.
Limits: nodes are never deleted; the account pays for growth. The parser's tables were checked when they were
made or read: states, rules and nonterminals are within their ranges.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.pairs import Pairs
from cython.cimports.equivalence.lark.lalr.outcomes import MOST_REDUCTIONS
from cython.cimports.equivalence.source_check import check_source
from numpy.typing import NDArray

check_source(__name__)

NOWHERE = cython.declare(cython.Py_ssize_t, 0)
"""The node below the bottom of a stack, and the result if a stack refuses a terminal."""


@cython.final
@cython.cclass
class Stacks:
    """The stacks that were needed so far.

    Args:
        fixed: the parser's tables (`hybrid.lark.tables.Fixed`).
        account: the account that pays for growth.

    Attributes:
        nodes: pairs (state, node below), and for each the number of the set of kinds that the stack accepts
            (`hybrid.lark.reader`).
    """

    def __init__(self, fixed: Any, account: Account) -> None:
        self.nodes = Pairs(1024, account)
        self.action = fixed.action
        self.goto = fixed.goto
        self.rule_length = fixed.rule_length
        self.rule_origin = fixed.rule_origin

    def shifted(self, node: cython.Py_ssize_t, terminal: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The stack after a terminal, or `NOWHERE` if the parser refuses it.

        Raises:
            BudgetExceeded: the account does not pay for more nodes.
        """
        # the classes refuse parsers that exceed these bounds, so only a forged artefact may exceed them here
        depth: cython.Py_ssize_t = 1  # states on top that have replaced what was read
        left: cython.Py_ssize_t = MOST_REDUCTIONS
        rounds: cython.Py_ssize_t = self.goto.shape[1]
        while left > 0 and rounds >= 0:
            action = cython.cast(cython.Py_ssize_t, self.action[self.nodes.rows[node].first, terminal])
            if action == 0:
                break
            if action > 0:
                return self.nodes.number(action - 1, node)
            rule = -action - 1
            length = cython.cast(cython.Py_ssize_t, self.rule_length[rule])
            for _ in range(length):
                node = self.nodes.rows[node].second
            if length < depth:
                depth += 1 - length
                left -= 1
            else:
                rounds = rounds - 1 if length == depth else self.goto.shape[1]
                depth, left = 1, MOST_REDUCTIONS
            state = self.goto[self.nodes.rows[node].first, self.rule_origin[rule]]
            if node == NOWHERE or state < 0:
                break
            node = self.nodes.number(state, node)
        return NOWHERE

    def of(self, states: cython.const[cython.Py_ssize_t][::1]) -> int:
        """The number of a stack.

        Args:
            states: int64, from the bottom to the top.

        Raises:
            BudgetExceeded: the account does not pay for more nodes.
            IndexError: there is no such state.
        """
        node: cython.Py_ssize_t = NOWHERE
        for k in range(states.shape[0]):
            if not 0 <= states[k] < self.action.shape[0]:
                raise IndexError(f"the parser has no state {states[k]}")
        with cython.nogil:
            for k in range(states.shape[0]):
                node = self.nodes.number(states[k], node)
        return node

    def states(self, node: cython.Py_ssize_t) -> NDArray[np.int64]:
        """The states of a stack, from the bottom to the top, int64.

        Raises:
            IndexError: there is no such stack.
        """
        if not 0 <= node < self.nodes.count:
            raise IndexError(f"there is no stack {node}")
        height: cython.Py_ssize_t = 0
        below: cython.Py_ssize_t = node
        while below != NOWHERE:
            height += 1
            below = self.nodes.rows[below].second
        found = np.empty(height, np.int64)
        states: cython.Py_ssize_t[::1] = found
        while node != NOWHERE:
            height -= 1
            states[height] = self.nodes.rows[node].first
            node = self.nodes.rows[node].second
        return found
