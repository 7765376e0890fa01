"""A slow, readable definition of what a grammar and its token classes mean: the oracle of the tests.

What: `ReferenceGrammar` reads a serialised XGrammar grammar. It says which bytes may follow a prefix, which
stacks a prefix leads to, and which tokens of a small vocabulary are *certainly* not interchangeable.
When: in tests, to check the fast code, of which it uses nothing; and to understand what the fast code means.
Limits: small grammars and vocabularies (pure Python, an Earley chart for each prefix). Supports byte strings,
character classes and their stars, rule references, sequences, choices and repeats; anything else raises
`UnsupportedGrammar`. Lookahead assertions are ignored, as by ``accept_token``.

The meaning is that of XGrammar: a byte is accepted if and only if some parse can scan it. It does not matter
whether this parse can ever be finished. So even the first bytes of a rule that derives no text at all are
accepted.

**Chart.** A position in a rule is the sequence of elements that are left to read: a tuple of *frames*. Column
``n`` of the chart contains what can be read after ``n`` bytes. For each rule that starts there, it also
contains the *waiters*: the positions at which other rules continue when that rule has been read. Left
recursion needs no special treatment in this form.

**Stacks.** A *stack* is written from its top: the position that reads the next byte, then the positions to
return to. The empty stack means that the whole text was read. Return positions with nothing left to read are
left out. The stacks of a prefix are a regular language, which is infinite if the grammar is left recursive.
`ReferenceGrammar.displacement_key` describes them by the minimal automaton of that language. Equal keys mean
equal sets of stacks. Different keys do *not* prove different futures: two positions may differ only in form.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from equivalence.classes.frames import Call, Choices, Reader, Repeat, Rest, Star, after_byte


class SerializableGrammar(Protocol):
    """The methods that a grammar object must have; `xgrammar.Grammar` has them."""

    def serialize_json(self) -> str:
        """The grammar as XGrammar's JSON text."""
        ...


# --- The chart -------------------------------------------------------------------------------------------

Item = tuple[int, int, int]
"""Rule, column at which it started, number of the position inside it."""


@dataclass
class Column:
    """What can be read after a prefix, and the positions that wait for rules to end."""

    scannable: list[Item] = field(default_factory=list)
    waiters: dict[int, dict[Item, None]] = field(default_factory=dict)
    complete: bool = False


Chart = tuple[Column, ...]


class ReferenceGrammar:
    """The meaning of one grammar.

    Attributes:
        rule_names: the name of each rule, by number.
        root: the number of the root rule.

    Args:
        grammar: an `xgrammar.Grammar`, or the text of its ``serialize_json()``.

    Raises:
        UnsupportedGrammar: the grammar uses a construct that this module does not define.
    """

    def __init__(self, grammar: SerializableGrammar | str) -> None:
        text = grammar if isinstance(grammar, str) else grammar.serialize_json()
        content: dict[str, Any] = json.loads(text)
        reader = Reader(content["grammar_expr_data"], content["grammar_expr_indptr"])
        self.rule_names: list[str] = [rule[0] for rule in content["rules"]]
        self.root: int = content["root_rule_id"]
        self._rests: list[Rest] = []
        self._numbers: dict[Rest, int] = {}
        self._scans: dict[tuple[int, int], int | None] = {}
        self._bodies = [self._number(reader.rest(rule[1])) for rule in content["rules"]]
        self._start: Chart = (self._close((), [(self.root, 0, self._bodies[self.root])]),)

    # Questions about prefixes.

    def viable(self, prefix: bytes) -> bool:
        """Whether all bytes of the prefix can be read from the start."""
        return self._read(self._start, prefix) is not None

    def complete(self, prefix: bytes) -> bool:
        """Whether the prefix is a sentence of the grammar (the stop token is then allowed)."""
        chart = self._read(self._start, prefix)
        return chart is not None and chart[-1].complete

    def next_bytes(self, prefix: bytes) -> list[int]:
        """The bytes that can be read after a prefix, ascending; none after a prefix that is not viable."""
        chart = self._read(self._start, prefix)
        positions = set() if chart is None else {position for _, _, position in chart[-1].scannable}
        return [b for b in range(256) if any(self._scan(position, b) is not None for position in positions)]

    def masks(self, prefixes: Iterable[bytes], vocabulary: Sequence[bytes]) -> list[tuple[bool, ...]]:
        """For each prefix, whether each token can be read after it. An empty token never can."""
        result = []
        for prefix in prefixes:
            accepted = dict(self._follow(self._read(self._start, prefix), vocabulary))
            result.append(tuple(token in accepted for token in vocabulary))
        return result

    def displacement_key(self, prefix: bytes, token: bytes = b"") -> Hashable | None:
        """A canonical description of the set of stacks after ``prefix + token``; None if that cannot be read.

        Two keys of the same `ReferenceGrammar` are equal if and only if the sets of stacks are; see the text
        of the module.
        """
        chart = self._read(self._start, prefix + token)
        return None if chart is None else self._key(chart)

    # Exploration.

    def reachable_prefixes(
        self, vocabulary: Sequence[bytes], limit: int, alphabet: Iterable[int] | None = None
    ) -> list[bytes]:
        """Prefixes that reach different sets of stacks, breadth first from the empty prefix.

        Args:
            vocabulary: the tokens; each is a step.
            limit: the maximum number of prefixes. If there are fewer, they reach all sets of stacks that the
                steps can reach.
            alphabet: single bytes that are steps, too: by default those of the vocabulary; ``b""``: none.
        """
        steps = sorted({bytes([byte]) for byte in _alphabet(vocabulary, alphabet)} | set(vocabulary))
        steps.sort(key=len)
        found = [(b"", self._start)]
        keys = {self._key(self._start)}
        for prefix, chart in found:
            reached = dict(self._follow(chart, steps))
            for step in steps:
                if len(found) >= limit:
                    return [text for text, _ in found[:limit]]
                if step in reached and (key := self._key(reached[step])) not in keys:
                    keys.add(key)
                    found.append((prefix + step, reached[step]))
        return [text for text, _ in found]

    def observed_acceptance_classes(
        self, vocabulary: Sequence[bytes], limit: int, alphabet: Iterable[int] | None = None
    ) -> list[int]:
        """A class number for each token: equal if and only if the same explored prefixes accept the tokens.

        Tokens with different numbers are certainly not equivalent. Tokens with equal numbers may still be
        inequivalent. -1 marks tokens that no explored prefix accepts. Classes are numbered in the order of
        their first tokens.
        """
        masks = self.masks(self.reachable_prefixes(vocabulary, limit, alphabet), vocabulary)
        return _labels([key if any(key) else None for key in zip(*masks, strict=True)])

    def observed_displacement_classes(
        self, vocabulary: Sequence[bytes], limit: int, depth: int = 2, alphabet: Iterable[int] | None = None
    ) -> list[int]:
        """Like `observed_acceptance_classes`, for displacement: what may follow each token is compared, too.

        Two tokens get different numbers if and only if, after some explored prefix, one is rejected and the
        other is not; or some text of at most ``depth`` bytes of the alphabet can follow only one of them, or
        ends a sentence after only one of them. Futures are compared, not stacks, because code may use one
        name for two stacks with equal futures. For the same limit and alphabet, these classes refine
        `observed_acceptance_classes`.
        """
        explored = list(_alphabet(vocabulary, alphabet))
        names: dict[Hashable, int] = {}
        columns = []
        for prefix in self.reachable_prefixes(vocabulary, limit, explored):
            reached = dict(self._follow(self._read(self._start, prefix), vocabulary))
            futures = {token: self._future(chart, explored, depth, names) for token, chart in reached.items()}
            columns.append([futures.get(token) for token in vocabulary])
        keys = zip(*columns, strict=True)
        return _labels([key if any(future is not None for future in key) else None for key in keys])

    def _future(self, chart: Chart, alphabet: Sequence[int], depth: int, names: dict[Hashable, int]) -> int:
        """A name for the next ``depth`` bytes: equal if and only if they do not distinguish two charts."""
        if depth == 0:
            return int(chart[-1].complete)
        place = (self._key(chart), depth)
        if place not in names:
            following = [self._step(chart, byte) for byte in alphabet]
            children = tuple(
                None if after is None else self._future(after, alphabet, depth - 1, names)
                for after in following
            )
            content = ("future", chart[-1].complete, children)
            names[place] = names.setdefault(content, len(names))
        return names[place]

    # Reading.

    def _read(self, chart: Chart | None, text: bytes) -> Chart | None:
        for byte in text:
            if chart is None:
                return None
            chart = self._step(chart, byte)
        return chart

    def _follow(self, chart: Chart | None, tokens: Iterable[bytes]) -> Iterator[tuple[bytes, Chart]]:
        """The chart after each distinct token that can be read. Common prefixes are read once."""
        path: list[Chart | None] = [chart]
        last = b""
        for token in sorted(set(tokens) - {b""}):
            shared = 0
            while shared < min(len(last), len(token)) and last[shared] == token[shared]:
                shared += 1
            del path[shared + 1 :]
            for byte in token[shared:]:
                here = path[-1]
                path.append(None if here is None else self._step(here, byte))
            last = token
            end = path[-1]
            if end is not None:
                yield token, end

    def _step(self, chart: Chart, byte: int) -> Chart | None:
        """The chart after one more byte, or None if no item scans it."""
        seeds = []
        for rule, origin, position in chart[-1].scannable:
            following = self._scan(position, byte)
            if following is not None:
                seeds.append((rule, origin, following))
        return (*chart, self._close(chart, seeds)) if seeds else None

    def _scan(self, position: int, byte: int) -> int | None:
        """The position after ``byte``, which the first frame must read; None if it does not."""
        if (position, byte) not in self._scans:
            rest = self._rests[position]
            first = after_byte(rest[0], byte)
            self._scans[position, byte] = None if first is None else self._number(first + rest[1:])
        return self._scans[position, byte]

    def _close(self, chart: Chart, seeds: Iterable[Item]) -> Column:
        """The column after ``chart``: the given items, and all that they predict and complete."""
        here = len(chart)
        column = Column()
        # Rules that start and end here: positions that wait for them continue at once.
        empty: set[int] = set()
        items = dict.fromkeys(seeds)
        pending = list(items)

        def add(rule: int, origin: int, position: int) -> None:
            if (rule, origin, position) not in items:
                items[rule, origin, position] = None
                pending.append((rule, origin, position))

        def call(called: int, waiter: Item) -> None:
            column.waiters.setdefault(called, {})[waiter] = None
            add(called, here, self._bodies[called])
            if called in empty:
                add(*waiter)

        while pending:
            rule, origin, position = pending.pop()
            rest = self._rests[position]
            if not rest:
                if origin == here:
                    empty.add(rule)
                if rule == self.root and origin == 0:
                    column.complete = True
                waiters = column.waiters if origin == here else chart[origin].waiters
                for waiter in list(waiters.get(rule, ())):
                    add(*waiter)
                continue
            frame, tail = rest[0], rest[1:]
            if isinstance(frame, Choices):
                for alternative in frame.alternatives:
                    add(rule, origin, self._number(alternative + tail))
            elif isinstance(frame, Star):
                add(rule, origin, self._number(tail))
                add(rule, origin, self._number((frame.character, *rest)))
            elif isinstance(frame, Call):
                call(frame.rule, (rule, origin, self._number(tail)))
            elif isinstance(frame, Repeat):
                if frame.least == 0:
                    add(rule, origin, self._number(tail))
                if frame.most != 0:
                    call(frame.rule, (rule, origin, self._number((frame.after_one(), *tail))))
            else:
                column.scannable.append((rule, origin, position))
        return column

    def _number(self, rest: Rest) -> int:
        """The number of a position; equal frames have equal numbers."""
        if rest not in self._numbers:
            self._numbers[rest] = len(self._rests)
            self._rests.append(rest)
        return self._numbers[rest]

    # The set of stacks of a chart, as a canonical automaton.

    def _key(self, chart: Chart) -> Hashable:
        """The minimal deterministic automaton of the stacks, read from the top; states have a fixed order."""
        top = [(position, (rule, origin)) for rule, origin, position in chart[-1].scannable]
        edges: list[dict[int, int]] = [{}]
        final: list[bool] = [chart[-1].complete]
        numbers: dict[frozenset[tuple[int, int]], int] = {}
        pending: list[frozenset[tuple[int, int]]] = []

        def number(nodes: set[tuple[int, int]]) -> int:
            closed = self._without_empty_returns(chart, nodes)
            if closed not in numbers:
                numbers[closed] = len(edges)
                edges.append({})
                final.append((self.root, 0) in closed)
                pending.append(closed)
            return numbers[closed]

        def connect(state: int, symbols: Iterable[tuple[int, tuple[int, int]]]) -> None:
            targets: dict[int, set[tuple[int, int]]] = {}
            for symbol, node in symbols:
                targets.setdefault(symbol, set()).add(node)
            for symbol, nodes in targets.items():
                edges[state][symbol] = number(nodes)

        connect(0, top)
        while pending:
            nodes = pending.pop()
            connect(
                numbers[nodes],
                (
                    (position, (rule, origin))
                    for called, column in nodes
                    for rule, origin, position in chart[column].waiters.get(called, ())
                    if self._rests[position]
                ),
            )
        return _canonical(edges, final)

    def _without_empty_returns(self, chart: Chart, nodes: set[tuple[int, int]]) -> frozenset[tuple[int, int]]:
        """All (rule, column) that end together with one of ``nodes``: nothing is left to read in between."""
        closed = set(nodes)
        pending = list(nodes)
        while pending:
            called, column = pending.pop()
            for rule, origin, position in chart[column].waiters.get(called, ()):
                if not self._rests[position] and (rule, origin) not in closed:
                    closed.add((rule, origin))
                    pending.append((rule, origin))
        return frozenset(closed)


def _canonical(edges: Sequence[dict[int, int]], final: Sequence[bool]) -> Hashable:
    """Merge equivalent states, then number the classes breadth first from state 0."""
    colours: list[int] = [int(value) for value in final]
    count = 0
    while len(set(colours)) != count:
        count = len(set(colours))
        names: dict[Hashable, int] = {}
        signatures = [
            (colours[state], tuple(sorted((symbol, colours[target]) for symbol, target in arcs.items())))
            for state, arcs in enumerate(edges)
        ]
        colours = [names.setdefault(signature, len(names)) for signature in signatures]
    order = {colours[0]: 0}
    states = [0]
    rows = []
    for state in states:
        row = []
        for symbol, target in sorted(edges[state].items()):
            if colours[target] not in order:
                order[colours[target]] = len(states)
                states.append(target)
            row.append((symbol, order[colours[target]]))
        rows.append((final[state], tuple(row)))
    return tuple(rows)


def _alphabet(vocabulary: Iterable[bytes], alphabet: Iterable[int] | None) -> list[int]:
    return sorted(set(b"".join(vocabulary) if alphabet is None else alphabet))


def _labels(keys: Sequence[Hashable | None]) -> list[int]:
    """Number the distinct keys in the order of their first appearance; -1 for None."""
    numbers: dict[Hashable, int] = {}
    return [-1 if key is None else numbers.setdefault(key, len(numbers)) for key in keys]
