"""Token ids as steps of the network: an edge that reads an id reads two bytes that no text can contain.

What: `ids_as_bytes` writes another grammar, in which each edge that reads one of some ids reads a *symbol*:
byte 255 and a byte for a group of ids. Ids that are named by the same edges are one group; all other ids
are group 0. So token edges, excluded tokens and token tag dispatches become bytes and calls, and everything
that works on networks (exploring, walking, classifiers) handles them like text.
When: before `build_network`, for a grammar that names ids.
Limits: 254 groups. In such a network, byte 255 of a text is read as 255 255 (`escaped`), and tokens that
contain it must be read in the same way. Stacks cannot decide about counts of ids (`max_tokens`) in either
form.

XGrammar's `accept_token` tries an id in two ways: by edges that read ids, in one step, and by its bytes.
The id is accepted if either works. An edge never begins inside a token, until XGrammar 0.2.9, for which such
grammars are refused (`equivalence.network.dialect`). Hence an id is in a mask if and
only if its symbol is read, or its text is.

Rejected: a larger alphabet with 256 bytes and a symbol for each group. It would be in every table of bytes
(classes of bytes, what may follow, UTF-8), and in the trie of every vocabulary, for one grammar in a
thousand. A byte that occurs in no text would need no escapes, but a tag dispatch reads all 256.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivalence.errors import UnsupportedGrammar
from equivalence.network import dialect, edge_types, serial
from equivalence.network.grammar_reader import ParsedGrammar, types_among

MARKER = 255
"""The byte with which symbols begin; in a text it is read twice."""

MOST_GROUPS = 254
"""The maximum number of groups of ids, with group 0: one byte distinguishes them, and one of its values
stands for none of them."""


class Symbols(NamedTuple):
    """The ids of a grammar, grouped by the edges that name them.

    Attributes:
        named: for each id that the grammar names, its group, from 1 on. All other ids are group 0.
        n_groups: number of groups.
        read: the groups that some edge reads, ascending; the others are excluded wherever they are named.
    """

    named: dict[int, int]
    n_groups: int
    read: tuple[int, ...] = ()

    @staticmethod
    def text(group: int) -> bytes:
        """The text that stands for an id of a group in the network.

        The second byte of the first ten groups begins hardly any token. Other bytes would be correct, too,
        but would need a class of their own.
        """
        return bytes((MARKER, MARKER - 1 - group))


def escaped(text: bytes) -> bytes:
    """Text as a network with symbols reads it."""
    return text.replace(b"\xff", b"\xff\xff")


def ids_as_bytes(read: ParsedGrammar) -> tuple[ParsedGrammar, Symbols]:
    """A grammar that reads symbols instead of ids, and the symbol of each id.

    Raises:
        UnsupportedGrammar: there are more groups of ids than symbols, or a string of the grammar contains
            byte 255; or the installed XGrammar reads ids within tokens.
    """
    dialect.refuse_token_ids()
    data, starts = read.data, read.starts
    types = data[starts]
    places = np.flatnonzero(np.isin(types, serial.TOKEN_TYPES)).tolist()
    _refuse_marker(data, starts, types)
    bodies = {place: read.expression(place) for place in places}
    symbols = _grouped([_sets_of(*body) for body in bodies.values()])
    writer = _Writer(read, symbols)
    written = starts.copy()
    for place, body in bodies.items():
        written[place] = writer.place_of(writer.written(*body))
    return writer.finished(written), symbols._replace(read=writer.read)


def _refuse_marker(data: NDArray[np.int64], starts: NDArray[np.int64], types: NDArray[np.int64]) -> None:
    """Refuse strings with byte 255, which no notation of XGrammar's can write."""
    for at in starts[types == serial.BYTES].tolist():
        if ((data[at + 2 : at + 2 + data[at + 1]] & 255) == MARKER).any():
            raise UnsupportedGrammar(
                "the grammar names token ids, and has a string with byte 255, which begins the names of ids "
                "in the network; remove the string, or the ids"
            )


def _sets_of(expression_type: int, body: list[int]) -> list[set[int]]:
    """The sets of ids that an expression distinguishes from all others."""
    if expression_type != serial.TOKEN_TAGS:
        return [set(body)]
    triggers, excluded = _triggers(body)
    return [*({token_id} for token_id, _ in triggers), excluded]


def _triggers(body: list[int]) -> tuple[list[tuple[int, int]], set[int]]:
    """The (id, rule) pairs of a token tag dispatch, and the ids that its text excludes, including those."""
    n = body[0]
    pairs = list(zip(body[1 : 1 + 2 * n : 2], body[2 : 2 + 2 * n : 2], strict=True))
    return pairs, {token_id for token_id, _ in pairs} | set(body[3 + 2 * n :])


def _grouped(sets: list[list[set[int]]]) -> Symbols:
    """Make one group of the ids that are in the same sets."""
    signatures: dict[int, list[int]] = {}
    for number, one in enumerate(one for some in sets for one in some):
        for token_id in one:
            signatures.setdefault(token_id, []).append(number)
    group_of: dict[tuple[int, ...], int] = {}
    named = {
        token_id: group_of.setdefault(tuple(signatures[token_id]), 1 + len(group_of))
        for token_id in sorted(signatures)
    }
    if len(group_of) >= MOST_GROUPS:
        raise UnsupportedGrammar(
            f"the grammar distinguishes {len(group_of)} groups of token ids, but the limit is "
            f"{MOST_GROUPS - 1}; ids that the same expressions name are one group, so name fewer ids, or the "
            "same ids in more expressions"
        )
    return Symbols(named, 1 + len(group_of))


class _Writer:
    """Appends expressions to those of a grammar."""

    def __init__(self, read: ParsedGrammar, symbols: Symbols) -> None:
        self._read = read
        self._symbols = symbols
        self._data: list[int] = []
        self._starts: list[int] = []
        self._rules: list[Any] = []
        self._texts: dict[int, int] = {}

    def add(self, expression_type: int, body: list[int]) -> int:
        """Add an expression, and return its number."""
        self._starts.append(len(self._read.data) + len(self._data))
        self._data += [expression_type, len(body), *body]
        return len(self._read.starts) + len(self._starts) - 1

    def place_of(self, expression: int) -> int:
        """Where an added expression begins."""
        return self._starts[expression - len(self._read.starts)]

    def written(self, expression_type: int, body: list[int]) -> int:
        """Turn an expression about ids into one about symbols."""
        if expression_type == serial.TOKENS:
            return self._one_of(set(body), False)
        if expression_type == serial.EXCLUDED:
            return self._one_of(set(body), True)
        pairs, excluded = _triggers(body)
        other = self._one_of(excluded, True)
        tags = [
            self.add(serial.SEQUENCE, [self._one_of({token_id}, False), self.add(serial.RULE, [rule])])
            for token_id, rule in pairs
        ]
        if body[1 + 2 * len(pairs)]:  # it continues after a tag
            return self._any_number_of(self.add(serial.CHOICES, [other, *tags]))
        end = self.add(serial.CHOICES, [self.add(serial.EMPTY, []), *tags])
        return self.add(serial.SEQUENCE, [self._any_number_of(other), end])

    def _one_of(self, ids: set[int], is_excluded: bool) -> int:
        """An expression that reads one of some ids, or of all others."""
        groups = {self._symbols.named[token_id] for token_id in ids}
        if is_excluded:
            groups = set(range(self._symbols.n_groups)) - groups
        # no id is in the group after the last one: an expression that reads no id reads that group
        return self.add(serial.CHOICES, [self._text(g) for g in sorted(groups) or [self._symbols.n_groups]])

    @property
    def read(self) -> tuple[int, ...]:
        """The groups that contain an id."""
        return tuple(sorted(group for group in self._texts if group < self._symbols.n_groups))

    def _text(self, group: int) -> int:
        if group not in self._texts:
            self._texts[group] = self.add(serial.BYTES, list(Symbols.text(group)))
        return self._texts[group]

    def _any_number_of(self, expression: int) -> int:
        number = len(self._read.rules) + len(self._rules)
        self._rules.append(serial.plain_rule(f"ids {number}", expression))
        return self.add(serial.REPEAT, [number, 0, -1])

    def finished(self, starts: NDArray[np.int64]) -> ParsedGrammar:
        """The grammar with the added expressions, given where its own expressions begin now."""
        features = {**self._read.features, serial.RULES: [*self._read.rules, *self._rules]}
        data = np.concatenate([self._read.data, np.array(self._data, np.int64)])
        starts = np.concatenate([starts, np.array(self._starts, np.int64)])
        return ParsedGrammar(features, data, starts, types_among(data, starts), is_escaped=True)


def escaped_edges(edges: NDArray[np.int64], n_states: int) -> tuple[NDArray[np.int64], int]:
    """Edges that read byte 255 twice, columns as in `edges.FIELDS`, and the new number of states."""
    reads = np.flatnonzero((edges[:, 1] == edge_types.BYTES) & (edges[:, 3] == MARKER))
    if not len(reads):
        return edges, n_states
    others = edges.copy()
    others[reads, 3] = MARKER - 1
    others = np.delete(others, reads[edges[reads, 2] == MARKER], axis=0)
    between = n_states + np.arange(len(reads))
    first, second = edges[reads], edges[reads]
    first[:, 2], second[:, 2] = MARKER, MARKER
    first[:, 4], second[:, 0] = between, between
    return np.concatenate([others, first, second]), n_states + len(reads)
