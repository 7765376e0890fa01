"""Constructs that make masks depend on more than bytes: token ids, counts, lazy rules, hidden markers.

What: `features_of` names such constructs of a grammar.
When: before a grammar is compiled, to choose what can run it, and before classes are computed.
Limits: reads one version of the layout (`equivalence.network.serial`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from equivalence.network import serial
from equivalence.network.automata import reachable
from equivalence.network.grammar_reader import ParsedGrammar, types_among
from equivalence.network.serial import CAPTURE, IS_LAZY, MAX_CHARS, MAX_TOKENS


class Features(NamedTuple):
    """Constructs that a stack of states alone does not decide; only those that the root reaches count.

    Attributes:
        named: the ids that the grammar names, ascending (also those of unreachable rules).
        edges: some edge reads ids from a list, whatever their bytes.
        exclusions: some edge reads all ids except those of a list (token tag dispatch has such edges, too).
        max_tokens, max_chars, lazy: some rule has this attribute.
        markers: suffix or stop markers are recorded.
        captures: the text of some rule is captured (this alone does not affect masks).
    """

    named: tuple[int, ...]
    edges: bool
    exclusions: bool
    max_tokens: bool
    max_chars: bool
    lazy: bool
    markers: bool
    captures: bool

    @property
    def beyond_stacks(self) -> bool:
        """Whether acceptance depends on more than bytes and stacks."""
        return any(self[1:-1])

    @property
    def only_ids(self) -> bool:
        """Whether edges that read ids are the only constructs beyond stacks. A network can have such edges
        (`equivalence.network.token_ids`)."""
        return (self.edges or self.exclusions) and not any(self[3:-1])

    def __str__(self) -> str:
        names = (
            "token ids", "excluded tokens", "max_tokens", "max_chars", "lazy rules", "stop= or suffix="
        )  # fmt: skip
        return ", ".join(name for name, found in zip(names, self[1:-1], strict=True) if found)


PLAIN = Features((), False, False, False, False, False, False, False)
"""A grammar of bytes and stacks only."""


def features_of(read: ParsedGrammar) -> Features:
    """The constructs beyond bytes and stacks of a grammar."""
    if read.printed is not None:  # a printed grammar with other constructs is not read
        return PLAIN
    markers, rules = read.features.get(serial.MARKERS), read.rules
    if (
        read.types.isdisjoint(serial.TOKEN_TYPES)
        and not markers
        and not any(
            rule[MAX_TOKENS] >= 0 or rule[MAX_CHARS] >= 0 or rule[CAPTURE] or rule[IS_LAZY] for rule in rules
        )
    ):
        return PLAIN
    used, reached = reachable(read.data, read.starts, read.bodies, read.root)
    types = types_among(read.data, read.starts[reached != 0])
    chosen = [rules[number] for number in np.flatnonzero(used).tolist()]
    return Features(
        named=_named(read),
        edges=not types.isdisjoint((serial.TOKENS, serial.TOKEN_TAGS)),
        exclusions=not types.isdisjoint((serial.EXCLUDED, serial.TOKEN_TAGS)),
        max_tokens=any(rule[MAX_TOKENS] >= 0 for rule in chosen),
        max_chars=any(rule[MAX_CHARS] >= 0 for rule in chosen),
        lazy=any(rule[IS_LAZY] for rule in chosen),
        markers=bool(markers),
        captures=any(rule[CAPTURE] for rule in chosen) or any(info[5] for info in markers or ()),
    )


def _named(read: ParsedGrammar) -> tuple[int, ...]:
    """The ids that a grammar names, ascending."""
    named: set[int] = set()
    for number in np.flatnonzero(np.isin(read.data[read.starts], serial.TOKEN_TYPES)).tolist():
        kind, body = read.expression(number)
        named.update(body[place] for place in serial.named_ids(kind, body))
    return tuple(sorted(named))
