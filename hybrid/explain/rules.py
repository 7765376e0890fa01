"""The rules of an XGrammar grammar as automata of literals, characters and calls, with their names.

What: `Rules` builds the automaton of a rule when it is first read. Literals stay whole and rules keep their
names, unlike in the network that decides masks (`equivalence.network`), which merges them.
When: used by `hybrid.explain.earley_parser`, once for each compiled grammar.
Limits: rules only give words, and never decide what is allowed. Lookahead assertions, token limits and lazy
rules are ignored; the matcher checks all results (`hybrid.explain.position`). Grammars that name token ids
raise `Unexplained`.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from equivalence import GrammarError, UnsupportedGrammar, forks
from equivalence.arrays.ranges import Ranges
from equivalence.network import edge_types, serial
from equivalence.network.foreign import foreign_rule
from equivalence.network.grammar_reader import ParsedGrammar, read_grammar
from hybrid.values.once import remembered

LITERAL, CLASS, BYTE, CALL, REPEAT, EMPTY = range(6)
"""The kinds of edges: read a literal, a character of a set, or a byte of a range; call a rule once, or
several times; read nothing."""

RULE_BYTES, NODE_BYTES = 500, 400
"""About how much memory a rule and a node take: measured, with names, edges and keys."""

MOST_EXPRESSIONS = 400_000
"""Size of the largest grammar that is read, in integers; a schema of 3,000 properties has 150,000."""


_SPLIT_OFF = re.compile(r"(.+)_\d+")


class Unexplained(Exception):
    """There are no words; the message says why."""


class TimeUp(Unexplained):
    """There was no time to find words; a later call may succeed."""

    def __init__(self) -> None:
        super().__init__("the time ran out")


class Edge(NamedTuple):
    """A step of a rule's automaton.

    Attributes:
        kind: the kind of edge.
        what: depending on the kind: the literal's bytes; (whether the ranges are excluded, ranges); (first,
            last byte); the rule's number; (rule, minimum, maximum or -1); None.
        target: the node that it leads to.
    """

    kind: int
    what: Any
    target: int


class Rules:
    """The rules of a grammar. Each is an automaton; all share one numbering of nodes.

    Args:
        grammar: the grammar as XGrammar parsed it.
        makes_automata: whether XGrammar may be asked for the automata of patterns and tags.

    Attributes:
        names: the names of the rules.
        root: the number of the root rule.
        edges: the edges of each node.
        patterns: the patterns of those rules that are patterns.

    Raises:
        Unexplained: the grammar is too large, or has another version.
    """

    def __init__(self, grammar: Any, makes_automata: bool) -> None:
        try:
            read: ParsedGrammar = read_grammar(grammar)
        except GrammarError as error:
            raise Unexplained(str(error)) from error
        if len(read.data) > MOST_EXPRESSIONS:
            raise Unexplained(
                f"the grammar's rules have {len(read.data):,} numbers, but the limit is {MOST_EXPRESSIONS:,}"
            )
        self._read, self._makes_automata = read, makes_automata
        self.names: list[str] = [rule[serial.NAME] for rule in read.rules]
        self._given = frozenset(self.names)
        self.root = read.root
        self.edges: list[list[Edge]] = []
        self.patterns: dict[int, str] = {}
        self._ends: dict[int, tuple[int, int]] = {}
        self._lock = forks.registered(threading.Lock(), forks.Order.SLOW)  # held while nodes are made

    @property
    def nbytes(self) -> int:
        """About how many bytes it holds."""
        read = self._read.data.nbytes + self._read.starts.nbytes
        return read + RULE_BYTES * len(self.names) + NODE_BYTES * len(self.edges)

    def of(self, rule: int) -> tuple[int, int]:
        """The first and the last node of a rule's automaton.

        Raises:
            Unexplained: the rule names token ids, or needs automata of XGrammar that are not available.
        """
        ends = self._ends.get(rule)
        if ends is None:
            with self._lock:
                ends = self._ends.get(rule) or self._make(rule)
                self._ends[rule] = ends  # set last, so that other threads, or Ctrl-C, never see a part of it
        return ends

    def _make(self, rule: int) -> tuple[int, int]:
        body = self._read.rules[rule][serial.BODY]
        first, last = self._node(), self._node()
        if self._read.expression(body)[0] in serial.FOREIGN_TYPES:
            self._add_foreign(rule, body, first, last)
        else:
            self._add(body, first, last)
        return first, last

    @remembered
    def name_of(self, rule: int) -> str:
        """The name of a rule. If XGrammar split it off another rule, the name of that one: ``value`` for
        ``value_1``."""
        name = self.names[rule]
        while (split := _SPLIT_OFF.fullmatch(name)) is not None and split[1] in self._given:
            name = split[1]
        return name

    @remembered
    def key_of(self, node: int, number: int) -> str | None:
        """The key of a literal (a node and the number of its edge) that is a JSON string followed by a colon;
        else None."""
        edge = self.edges[node][number]
        text = edge.what.decode("utf-8", "replace")
        quoted, colon, _ = text.rpartition(":")
        if not colon and text.endswith('"') and self._is_before_colon(edge.target):
            quoted = text
        try:
            key = json.loads(quoted)
        except ValueError:
            return None
        return key if isinstance(key, str) else None

    def _is_before_colon(self, node: int) -> bool:
        seen, todo = {node}, [node]
        while todo:
            for edge in self.edges[todo.pop()]:
                if edge.kind == LITERAL:
                    return bool(edge.what.lstrip().startswith(b":"))
                if edge.kind == EMPTY and edge.target not in seen:
                    seen.add(edge.target)
                    todo.append(edge.target)
        return False

    def _node(self) -> int:
        self.edges.append([])
        return len(self.edges) - 1

    def _add(self, expression: int, source: int, target: int) -> None:
        """Add an expression between two nodes. It is recursive, but XGrammar nests expressions only two
        levels
        deep: choices of sequences."""
        kind, body = self._read.expression(expression)
        add = self.edges[source].append
        if kind == serial.BYTES and body:
            add(Edge(LITERAL, bytes(value & 255 for value in body), target))
        elif kind == serial.CLASS:
            add(Edge(CLASS, (bool(body[0]), _pairs(body)), target))
        elif kind == serial.STAR:
            again = self._node()
            add(Edge(EMPTY, None, again))
            self.edges[again].append(Edge(CLASS, (bool(body[0]), _pairs(body)), again))
            self.edges[again].append(Edge(EMPTY, None, target))
        elif kind in (serial.EMPTY, serial.BYTES):
            add(Edge(EMPTY, None, target))
        elif kind == serial.RULE:
            add(Edge(CALL, body[0], target))
        elif kind == serial.REPEAT:
            add(Edge(REPEAT, (body[0], body[1], body[2]), target))
        elif kind == serial.CHOICES:
            for part in body:
                self._add(part, source, target)
        elif kind == serial.SEQUENCE:
            for place, part in enumerate(body):
                after = target if place == len(body) - 1 else self._node()
                self._add(part, source, after)
                source = after
            if not body:
                add(Edge(EMPTY, None, target))
        else:
            raise Unexplained("the grammar contains token ids, or patterns inside expressions")

    def _add_foreign(self, rule: int, body: int, first: int, last: int) -> None:
        """Add the automaton that XGrammar makes from a pattern or from tags."""
        if not self._makes_automata:
            raise Unexplained("the grammar contains patterns or tags, whose automata only XGrammar knows")
        try:
            made = foreign_rule(self._read, rule)
        except UnsupportedGrammar as error:
            raise Unexplained(str(error)) from error
        kind, values = self._read.expression(body)
        if kind == serial.PATTERN:
            self.patterns[rule] = "".join(map(chr, values[1:]))
        helpers = [rule, *(self._helper(rule) for _ in made.automata[1:])]
        for unit, least, most in made.repeats:
            number = self._helper(rule)
            helpers.append(number)
            start, end = self._ends[number]
            self.edges[start].append(Edge(REPEAT, (_named(unit, helpers), least, most), end))
        for number, (rows, width) in zip(helpers, made.automata, strict=False):
            ends = (first, last) if number == rule else self._ends[number]
            nodes = [*ends, *(self._node() for _ in range(width - 2))]
            for source, edge_type, a, b, target in rows.tolist():
                edge = Edge(BYTE, (a, b), nodes[target])
                if edge_type == edge_types.EMPTY:
                    edge = Edge(EMPTY, None, nodes[target])
                elif edge_type == edge_types.CALL:
                    edge = Edge(CALL, _named(a, helpers), nodes[target])
                self.edges[nodes[source]].append(edge)

    def _helper(self, rule: int) -> int:
        """Add a rule for a part that XGrammar made of another rule, with that rule's name."""
        self.names.append(self.names[rule])
        number = len(self.names) - 1
        self._ends[number] = self._node(), self._node()
        if rule in self.patterns:
            self.patterns[number] = self.patterns[rule]
        return number


def _named(number: int, helpers: Sequence[int]) -> int:
    return helpers[-1 - number] if number < 0 else number


def _pairs(body: Sequence[int]) -> Ranges:
    return tuple(zip(body[1::2], body[2::2], strict=True))
