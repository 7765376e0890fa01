"""Texts read over a network, and the cost of completing them.

What: `CostedConfigurations` holds the configurations that texts led to, and the costs of completing each: of
its cheapest and of its dearest stack. A stack costs as much as its top state and everything below it.
When: by `hybrid.completion.completion`; when the bytes are used up, a new one is made.
Limits: `most_bytes` of tables. Two threads must not use it at once.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence import Vocabulary
from equivalence.arrays.account import Account
from equivalence.deadline import Deadline
from equivalence.network import Network
from equivalence.parser.frames import unit_of
from equivalence.parser.space import Space
from hybrid.classifier.tables import PHASE, ParserTables, parser_tables
from hybrid.completion.bounds import Bounds, bounds_of
from hybrid.completion.distances import UNSPELLED, Distances, Lists, byte_at, distances_of, place_of
from hybrid.completion.spelling import Spelling
from hybrid.values.mask_time import TooSlow

REJECT = 0
"""The configuration after texts that cannot be read."""

EMPTY_TEXT = -1
"""Stands for the first configuration if the empty text is complete: the same stacks may occur again where
the text is not. Smaller numbers stand for bytes that must be spelled before the text begins."""

PREFIX_BYTES = 512
"""Memory of such a number, about."""

ROWS = 512
"""Configurations and frames that fit at first."""


class Tables(NamedTuple):
    """Constant data: of a network, and of the bytes that are tokens."""

    parser: ParserTables
    distances: Distances
    bounds: Bounds
    start: int
    start_final: bool

    @property
    def nbytes(self) -> int:
        """Bytes of memory, approximately: 16 for each number in a list."""
        size: int = sum(array.nbytes for array in self.parser.net) + self.parser.rank.nbytes
        return size + self.parser.byte_tables.nbytes + 64 * len(self.distances.cost)


def tables_of(network: Network, spelling: Spelling, deadline: Deadline) -> Tables:
    """Make the tables of a network.

    Args:
        network: a network in which all counts matter (displacement).
        spelling: the spelling of the vocabulary.
        deadline: when to give up.

    Raises:
        BudgetExceeded: the deadline has passed.
    """
    with deadline.stopping(PHASE) as stop:
        parser = parser_tables(network, stop)
        network_lists = Lists(parser.net, spelling)
        distances = distances_of(network_lists, parser.rank, stop)
        bounds = bounds_of(network_lists, distances, parser.byte_tables, parser.rank, stop)
    return Tables(parser, distances, bounds, network.start, network.start_final)


class _Cost(NamedTuple):
    """The cost of completing some stacks.

    Attributes:
        least, first: the cost of the cheapest stack, and the place of the first byte of its text (-1: the
            text is empty, or there is none).
        dearest: the cost of the dearest stack.
        most: the most that any of them costs while it is read on, without what bytes add (`Bounds`).
        fewest: a lower bound of the tokens of a text that completes any of them.
    """

    least: float
    first: int
    dearest: float
    most: float
    fewest: float


_WHOLE = _Cost(0.0, -1, 0.0, 0.0, 0.0)
_NONE = _Cost(math.inf, -1, -math.inf, -math.inf, math.inf)


class CostedConfigurations:
    """Configurations by number, and their costs.

    Args:
        tables: the tables of the network.
        vocabulary: the vocabulary whose tokens are read.
        most_bytes: most bytes of all growing tables.

    Attributes:
        account: counts the bytes of the tables, and may stop what is read.
        deadline: the end of computing costs.
        start: the configuration before any text.
    """

    def __init__(self, tables: Tables, vocabulary: Vocabulary, most_bytes: int) -> None:
        excess = (
            f"a token limit needs more than {most_bytes} bytes for its tables "
            "({taken} are in use); use masks without a token limit for this grammar"
        )
        self._distances, self._bounds = tables.distances, tables.bounds
        byte_tables = tables.parser.byte_tables
        self._class_of_byte = byte_tables.class_of_byte
        self._classes: list[int] = self._class_of_byte.tolist()
        self._data, self._offsets = vocabulary.flat
        self._tokens = vocabulary.tokens
        n_states, n_classes = len(byte_tables.first_bits), byte_tables.n_classes
        fixed = n_states * (n_classes + 48)  # what the space has for each state does not count
        self.account = account = Account(None, most_bytes + fixed, excess)
        self.deadline = Deadline()
        self._space = Space(*tables.parser, ROWS, ROWS, account=account, excess=excess)
        self._first = REJECT if tables.start < 0 else self._space.context_of(tables.start)
        self.start: int = EMPTY_TEXT if tables.start_final else self._first
        self._tails = [_WHOLE]  # for each tail; the first is the empty stack
        self._prefixes: list[tuple[bytes, int]] = []  # bytes, and how many of them are spelled
        self._number_of: dict[tuple[bytes, int], int] = {}
        self._set_aside = 0
        self._costs = {REJECT: _NONE}
        if tables.start_final:
            self._costs[EMPTY_TEXT] = _united([_WHOLE, self._cost(self._first)])

    @property
    def nbytes(self) -> int:
        """Bytes of the tables of configurations."""
        return int(self._space.nbytes) + self._set_aside

    def set_aside(self, n_bytes: int) -> None:
        """Count bytes of data that is stored beside the tables and does not grow with them.

        Raises:
            BudgetExceeded: the tables are full.
        """
        self.account.claim(n_bytes)
        self._set_aside += n_bytes

    # --- reading ---

    def before(self, prefix: bytes, n_spelled: int = 0) -> int:
        """A number like those of configurations, for a place before the first text: the rest of a prefix must
        be spelled. Tokens may reach across its end.

        Raises:
            BudgetExceeded: the tables are full.
        """
        if n_spelled == len(prefix):
            return self.start
        number = self._number_of.get((prefix, n_spelled))
        if number is None:
            self.set_aside(PREFIX_BYTES)
            self._prefixes.append((prefix, n_spelled))
            number = self._number_of[prefix, n_spelled] = EMPTY_TEXT - len(self._prefixes)
        return number

    def _prefix_of(self, number: int) -> tuple[bytes, int]:
        return self._prefixes[EMPTY_TEXT - 1 - number]

    def prefix_left(self, configuration: int) -> int:
        """How many bytes of a prefix must be spelled first."""
        if configuration >= EMPTY_TEXT:
            return 0
        prefix, n_spelled = self._prefix_of(configuration)
        return len(prefix) - n_spelled

    def read(self, configuration: int, text: bytes) -> int:
        """The configuration after some bytes, or `REJECT` if they cannot be read.

        Raises:
            BudgetExceeded: the tables are full.
        """
        if configuration < EMPTY_TEXT:
            prefix, at = self._prefix_of(configuration)
            end = min(at + len(text), len(prefix))
            if prefix[at:end] != text[: end - at]:
                return REJECT
            configuration, text = self.before(prefix, end), text[end - at :]
            if not text:
                return configuration
        classes, following = self._classes, self._space.following
        if configuration == EMPTY_TEXT and text:
            configuration = self._first
        for byte in text:
            configuration = following(configuration, classes[byte])
        return configuration

    def read_tokens(self, configuration: int, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """The configuration after each of some tokens; it reads all first bytes, then all second bytes, and
        so on.

        Args:
            configuration: the configuration before each of them.
            tokens: ids that have bytes.

        Raises:
            BudgetExceeded: the tables are full.
        """
        if configuration < EMPTY_TEXT:
            prefix, n_spelled = self._prefix_of(configuration)
            ends = np.full(len(tokens), REJECT, np.int64)
            for place in np.flatnonzero(self._data[self._offsets[tokens]] == prefix[n_spelled]).tolist():
                ends[place] = self.read(configuration, self._tokens[tokens[place]])
            return ends
        begin = self._first if configuration == EMPTY_TEXT else configuration
        here = np.full(len(tokens), begin, np.int64)
        at, end = self._offsets[tokens], self._offsets[tokens + 1]
        alive = np.arange(len(tokens))
        steps = self._space.known_steps()
        while alive.size:
            byte = self._class_of_byte[self._data[at[alive]]]
            after = steps[here[alive], byte].astype(np.int64)
            unknown = np.flatnonzero(after < 0)
            if unknown.size:
                n_classes = steps.shape[1]
                pairs = here[alive[unknown]] * n_classes + byte[unknown]
                asked, which = np.unique(pairs, return_inverse=True)
                found = [self._space.following(*divmod(pair, n_classes)) for pair in asked.tolist()]
                after[unknown] = np.array(found, np.int64)[which]
                steps = self._space.known_steps()
            here[alive] = after
            at[alive] += 1
            alive = alive[(at[alive] < end[alive]) & (after != REJECT)]
        return here

    # --- what it costs ---

    def cost(self, configuration: int) -> float:
        """The cost of the cheapest text that completes what was read; infinite if there is none."""
        return self._cost(configuration).least

    def fewest(self, configuration: int) -> int | float:
        """A lower bound of the tokens of a text that completes what was read; infinite if there is none."""
        found = self._cost(configuration).fewest
        return math.ceil(found - 1e-6) if found < math.inf else found  # sums of 10 ** 6 shares are this exact

    def most(self, configuration: int) -> float:
        """The most that completing costs, whatever is read, not counting what its bytes add."""
        return self._cost(configuration).most

    def first(self, configuration: int) -> int:
        """The first byte of the cheapest text, which must not be empty."""
        return byte_at(self._cost(configuration).first)

    def _cost(self, configuration: int) -> _Cost:
        found = self._costs.get(configuration)
        if found is None and configuration < EMPTY_TEXT:
            prefix, at = self._prefix_of(configuration)
            text = self._cost(self.start)
            # as if no single byte were a token: then plans are divided to find how many tokens they have
            found = self._costs[configuration] = _Cost(
                text.least + UNSPELLED * (len(prefix) - at),
                place_of(prefix[at]),
                math.inf,
                math.inf,
                text.fewest,
            )
        if found is None:
            numbers = self._space.list_of(configuration).tolist()
            n_ports = numbers[1]
            parts = [_WHOLE] if n_ports else []  # stacks begin at the bottom, so the only exit is the end
            for i in range(2 + n_ports, len(numbers), 2):
                parts.append(self._on_tail(numbers[i], 0, numbers[i + 1]))
            found = self._costs[configuration] = _united(parts)
        return found

    def _on_tail(self, state: int, count: int, tail: int) -> _Cost:
        """The cost of a state, or of a counted rule after some units, together with what is below it."""
        if tail >= len(self._tails):
            self._find_tails()
        below, known, bounds = self._tails[tail], self._distances, self._bounds
        if state >= 0:
            own, first, most = known.cost[state], known.first[state], bounds.most[state]
            fewest = known.fewest[state]
        elif known.counted is not None and known.counted.is_edge(unit_of(state)):
            unit = unit_of(state)
            own, first = known.counted.after(unit, count + 1)
            fewest = known.counted.fewest[unit]
            most = bounds.units[unit] + known.counted.most[unit]
        else:
            unit = unit_of(state)
            more = max(known.least[unit] - count - 1, 0)  # one unit is being read, above this frame
            own, first = (more * known.unit_cost[unit], known.unit_first[unit]) if more else (0.0, -1)
            fewest = more * known.fewest[known.begin[unit]] if more else 0.0
            most = bounds.units[unit] + ((more - 1) * known.unit_cost[unit] if more > 1 else 0.0)
        return _Cost(
            own + below.least, first if own else below.first, own + below.dearest,
            max(most + below.dearest, below.most), fewest + below.fewest,
        )  # fmt: skip

    def _find_tails(self) -> None:
        """Compute the costs of new tails. Below a tail are only tails with lower numbers."""
        stacks = self._space.stacks
        for tail in range(len(self._tails), stacks.tails.count):
            if self.deadline.is_over:
                raise TooSlow
            parts = [
                _WHOLE if number == 0 else self._on_tail(state, count, below)
                for number, state, count, below in stacks.frames_of(tail)
            ]
            self._tails.append(_united(parts))


def _united(parts: list[_Cost]) -> _Cost:
    """The cost of a set of stacks."""
    if not parts:
        return _NONE
    least = min(part.least for part in parts)
    first = min((part.first for part in parts if part.least == least), default=-1)
    dearest, most = max(part.dearest for part in parts), max(part.most for part in parts)
    fewest = min(part.fewest for part in parts)
    return _Cost(least, first if least < math.inf else -1, dearest, most, fewest)
