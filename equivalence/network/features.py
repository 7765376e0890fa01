"""Constructs that make masks depend on more than bytes: token ids, counts, lazy rules, hidden markers.

What: `find_features` names such constructs of a serialised grammar.
When: before a grammar is compiled, to choose what can run it, and before classes are computed.
Limits: reads one version of the layout (`equivalence.network.serial`), in the form that
`xgrammar.Grammar.serialize_json` gives, parsed by `json.loads`.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any, NamedTuple

from equivalence.network import serial
from equivalence.network.reading import PlainRules, ReadGrammar
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
        names = ("token edges", "excluded tokens", "max_tokens", "max_chars", "lazy rules", "markers")
        return ", ".join(name for name, found in zip(names, self[1:-1], strict=True) if found)


PLAIN = Features((), False, False, False, False, False, False, False)
"""A grammar of bytes and stacks only."""


def is_plain(serialized: dict[str, Any], types: Set[int]) -> bool:
    """Whether no rule, reachable or not, has such a construct, given the types of all expressions."""
    rules = serialized[serial.RULES]
    return (
        types.isdisjoint(serial.TOKEN_TYPES)
        and not serialized.get(serial.MARKERS)
        and not any(
            rule[MAX_TOKENS] >= 0 or rule[MAX_CHARS] >= 0 or rule[CAPTURE] or rule[IS_LAZY]
            for rule in (() if isinstance(rules, PlainRules) else rules)
        )
    )


def features_of(read: ReadGrammar, types: Set[int]) -> Features:
    """The constructs beyond bytes and stacks of a grammar, given the types of its expressions."""
    if read.printed is not None:  # a printed grammar with other constructs is not read
        return PLAIN
    return PLAIN if is_plain(read.features, types) else find_features(read.whole())


def find_features(serialized: dict[str, Any]) -> Features:
    """The constructs beyond bytes and stacks of a serialised grammar."""
    data, starts, rules = serialized[serial.DATA], serialized[serial.STARTS], serialized[serial.RULES]
    if is_plain(serialized, {data[at] for at in starts}):
        return PLAIN
    markers = bool(serialized.get(serial.MARKERS))
    reached_rules, reached_types = _reach(serialized)
    chosen = [rules[number] for number in reached_rules]
    return Features(
        named=_named(serialized),
        edges=not reached_types.isdisjoint((serial.TOKENS, serial.TOKEN_TAGS)),
        exclusions=not reached_types.isdisjoint((serial.EXCLUDED, serial.TOKEN_TAGS)),
        max_tokens=any(rule[MAX_TOKENS] >= 0 for rule in chosen),
        max_chars=any(rule[MAX_CHARS] >= 0 for rule in chosen),
        lazy=any(rule[IS_LAZY] for rule in chosen),
        markers=markers,
        captures=any(rule[CAPTURE] for rule in chosen) or any(info[5] for info in serialized[serial.MARKERS]),
    )


def _named(serialized: dict[str, Any]) -> tuple[int, ...]:
    """The ids that a grammar names, ascending."""
    data: list[int] = serialized[serial.DATA]
    named: set[int] = set()
    for at in serialized[serial.STARTS]:
        if data[at] in serial.TOKEN_TYPES:
            body = data[at + 2 : at + 2 + data[at + 1]]
            named.update(body[place] for place in serial.named_ids(data[at], body))
    return tuple(sorted(named))


def _reach(serialized: dict[str, Any]) -> tuple[set[int], set[int]]:
    """The rules that the root reaches, and the types of their expressions."""
    data, starts = serialized[serial.DATA], serialized[serial.STARTS]
    rules = serialized[serial.RULES]
    root = serialized[serial.ROOT]
    seen, types = {root}, set()
    pending = [rules[root][serial.BODY]]
    while pending:
        at = starts[pending.pop()]
        expression_type, length = data[at], data[at + 1]
        body = data[at + 2 : at + 2 + length]
        types.add(expression_type)
        if expression_type in serial.WHOLES:
            pending += body
        for callee in serial.called_rules(expression_type, body):
            if callee not in seen:
                seen.add(callee)
                pending.append(rules[callee][serial.BODY])
    return seen, types
