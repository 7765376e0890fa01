# cython: language_level=3
# mypy: ignore-errors
"""Ports: the ways out of the known part of a stack.

What: through port 0, the unknown rest of the stack follows; through port c > 0, c units must also fit into
the bounds of a counter. `Ports` collects those of one configuration, in order and without duplicates.
When: used by `equivalence.parser.space`, while it makes a configuration.
Limits: a configuration lists port c as -1 - c.
"""

from __future__ import annotations

import cython
from cython.cimports.equivalence.arrays.account import Account
from cython.cimports.equivalence.arrays.sorting import insert_sorted
from cython.cimports.equivalence.source_check import check_source

from equivalence.errors import BudgetExceeded

check_source(__name__)

FIRST_PORTS = 64
MOST_PORTS = cython.declare(cython.Py_ssize_t, 8192)
"""A port is 0 or a count of units read by one token, which has at most 4,096 bytes."""


@cython.final
@cython.no_gc
@cython.cclass
class Ports:
    """The ports of one configuration.

    Args:
        account: counts bytes.

    Attributes:
        count: number of ports.
        numbers: the ports, as configurations list them.
    """

    def __init__(self, account: Account) -> None:
        account.claim(8 * FIRST_PORTS)
        self.account = account
        self.numbers = account.new_integers(FIRST_PORTS)
        self.count = 0

    def insert(self, port):
        """Add a port."""
        if self.count + 1 >= self.numbers.shape[0]:
            with cython.gil:
                self.grow()
        self.count = insert_sorted(self.numbers, 0, self.count, port)

    def grow(self):
        """Make room for more ports."""
        old: cython.Py_ssize_t = self.numbers.shape[0]
        if old >= MOST_PORTS:
            raise BudgetExceeded("a token may leave a counter in more ways than there is room for")
        self.numbers = self.account.bigger(self.numbers, 2 * old)
