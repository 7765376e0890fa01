"""Regular expressions as ordered automata: positions, and what follows them in the order of preference.

What: `Positions` holds the positions of any number of patterns in one table. A position reads one character
or ends a pattern. `after` gives the positions that are tried after a character, first choice first:
alternatives from left to right; greedy repeats continue before they stop, lazy ones stop first. Look-ahead
becomes an *obligation* (`Obligation`); the character before decides look-behind.
When: one table for all terminals of a lexer and its keywords.
Limits: constructs without such a form are refused by name: back-references, conditions on groups, atomic
groups and possessive repeats, flags for a whole pattern, ``^`` and ``\\A``, look-behind that is not one
character wide or sees beyond the lexeme. Bounded repeats are written out, up to `MAX_POSITIONS`.

The standard library's own parser of regular expressions parses the patterns, so a pattern means exactly what
it means in this version of Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from equivalence.arrays.ranges import LAST, Ranges, joined, others
from equivalence.errors import UnsupportedGrammar
from equivalence.lark.lexer.characters import (
    Kinds,
    matched,
    partition_characters,
    regex_parser,
)

MAX_POSITIONS = 20_000
"""Nodes of one table; a bounded repeat counts as often as it may occur."""

ONE_CHARACTER = "write it with one character or one class, as in (?<![a-z])"

READ, END, CHOICE, ENTER, LEAVE, AHEAD, BEHIND = range(7)
"""Kinds of nodes. `READ` (set, next) and `END` (label) are positions, the others lie between them: `CHOICE`
(alternatives), `ENTER` (loop, next) and `LEAVE` (loop, again, next) around the body of a repeat that may
match nothing, `AHEAD` (wanted, start, next), `BEHIND` (wanted, set, next)."""


class Obligation(NamedTuple):
    """What the following text must match, or must not match; `threads` are the state of that match."""

    wanted: bool
    threads: frozenset[Thread]


class Thread(NamedTuple):
    """A position, taken only if all obligations are met."""

    position: int
    obligations: frozenset[Obligation]


NONE: frozenset[Obligation] = frozenset()


class Positions:
    """Patterns in one table. Call `add` for all, then `partition`, then the other methods.

    Attributes:
        nodes: kind and arguments of each node.
        starts: the first node of each pattern, in the order of `add`.
        label: the label of the pattern that a node belongs to.
        sets: the sets of characters that nodes read.
        masks: after `partition`: for each set its kinds, as bits of an integer.
    """

    def __init__(self) -> None:
        self.nodes: list[tuple[Any, ...]] = []
        self.starts: list[int] = []
        self.label: list[int] = []
        self.sets: list[Ranges] = []
        self.masks: tuple[int, ...] = ()
        self._set_numbers: dict[Ranges, int] = {}
        self._sets_of_items: dict[tuple[str, int], int] = {}
        self._closures: dict[int, tuple[Thread, ...] | None] = {}
        self._after: dict[tuple[int, int], tuple[Thread, ...]] = {}
        self._behind: dict[int, frozenset[int]] = {}
        self._name = ""
        self._label = 0
        self._next_loop = 0

    # building

    def add(self, name: str, pattern: str, flags: int, label: int) -> None:
        """Add a pattern whose end has a label; `name` is its name in messages."""
        self._name, self._label = name, label
        parsed = regex_parser.parse(pattern, flags)
        if parsed.state.flags & ~(flags | re.UNICODE):
            # Python 3.10 takes them in Lark's scanner, for the patterns of all terminals
            raise self._refusal("flags for a whole pattern, such as (?i); write (?i:...)")
        end = self._node(END, label)
        self.starts.append(self._sequence(parsed, parsed.state.flags, end))

    def _node(self, *node: Any) -> int:
        if len(self.nodes) >= MAX_POSITIONS:
            raise self._refusal(
                f"a pattern of more than {MAX_POSITIONS} positions (bounded repeats are written out); use "
                "smaller repeats"
            )
        self.nodes.append(node)
        self.label.append(self._label)
        return len(self.nodes) - 1

    def _refusal(self, construct: str) -> UnsupportedGrammar:
        return UnsupportedGrammar(f"the terminal {self._name}: {construct}")

    def _set(self, characters: Ranges) -> int:
        number = self._set_numbers.setdefault(characters, len(self.sets))
        if number == len(self.sets):
            self.sets.append(characters)
        return number

    def _set_of(self, item: Any, flags: int) -> int:
        key = (repr(item), flags & (re.IGNORECASE | re.ASCII | re.DOTALL | re.UNICODE | re.LOCALE))
        number = self._sets_of_items.get(key)
        if number is None:
            number = self._sets_of_items[key] = self._set(matched(item, flags))
        return number

    def _sequence(self, items: Iterable[Any], flags: int, following: int) -> int:
        for item in reversed(list(items)):
            following = self._item(item, flags, following)
        return following

    def _item(self, item: Any, flags: int, following: int) -> int:
        operation, argument = item
        name = str(operation)
        if name in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
            return self._node(READ, self._set_of(item, flags), following)
        if name == "BRANCH":
            return self._node(CHOICE, tuple(self._sequence(one, flags, following) for one in argument[1]))
        if name == "SUBPATTERN":
            _, added, removed, body = argument
            return self._sequence(body, _flags_inside(flags, added, removed), following)
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            least, most, body = argument
            return self._repeat(least, most, body, flags, following, name == "MIN_REPEAT")
        if name in ("ASSERT", "ASSERT_NOT"):
            direction, body = argument
            if direction < 0:
                return self._node(BEHIND, name == "ASSERT", self._behind_set(body, flags), following)
            return self._ahead(name == "ASSERT", lambda end: self._sequence(body, flags, end), following)
        if name == "FAILURE":
            return self._node(CHOICE, ())
        if name == "AT":
            return self._anchor(str(argument), flags, following)
        refused = {
            "GROUPREF": "a back-reference",
            "GROUPREF_EXISTS": "a condition on a group, (?(...)...)",
            "ATOMIC_GROUP": "an atomic group, (?>...)",
            "POSSESSIVE_REPEAT": "a possessive repeat",
        }
        raise self._refusal(
            f"{refused.get(name, name)}, which no finite automaton follows exactly here; write "
            "the pattern without it"
        )

    def _repeat(self, least: int, most: Any, body: Any, flags: int, following: int, lazy: bool) -> int:
        """Add required rounds one after another, then optional ones.

        `re` ends a repeat when an optional round has matched nothing. Therefore `ENTER` and `LEAVE` surround
        a body that may match nothing. Automata usually do not try a node twice, but that would prefer other
        matches: ``(|a)*`` matches nothing of "a".
        """
        careful = body.getwidth()[0] == 0

        def round_of(again: int) -> int:
            if not careful:
                return self._sequence(body, flags, again)
            loop = self._next_loop = self._next_loop + 1
            return self._node(
                ENTER, loop, self._sequence(body, flags, self._node(LEAVE, loop, again, following))
            )

        def choice(go_on: int) -> tuple[int, int]:
            return (following, go_on) if lazy else (go_on, following)

        if most is regex_parser.MAXREPEAT:
            node = self._node(CHOICE, ())
            self.nodes[node] = (CHOICE, choice(round_of(node)))
        else:
            node = following
            for _ in range(most - least):
                node = self._node(CHOICE, choice(round_of(node)))
        for _ in range(least):
            node = self._sequence(body, flags, node)
        return node

    def _ahead(self, wanted: bool, build: Callable[[int], int], following: int) -> int:
        return self._node(AHEAD, wanted, build(self._node(END, -1)), following)

    def _behind_set(self, body: Any, flags: int) -> int:
        """The set of a look-behind's one character."""
        if body.getwidth() != (1, 1):
            raise self._refusal(f"a look-behind that is not exactly one character wide; {ONE_CHARACTER}")
        found: list[tuple[int, int]] = []
        stack = [(body, flags)]
        while stack:
            items, inside = stack.pop()
            if len(items) != 1:
                raise self._refusal(f"a look-behind with more than a set of characters; {ONE_CHARACTER}")
            operation, argument = items[0]
            if str(operation) == "BRANCH":
                stack.extend((one, inside) for one in argument[1])
            elif str(operation) == "SUBPATTERN":
                stack.append((argument[3], _flags_inside(inside, *argument[1:3])))
            elif str(operation) in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
                found += matched(items[0], inside)
            else:
                raise self._refusal(f"a look-behind with more than a set of characters; {ONE_CHARACTER}")
        return self._set(joined(found))

    def _anchor(self, name: str, flags: int, following: int) -> int:
        """Add anchors at the end, and word boundaries, as look-around."""
        if name == "AT_END_STRING":
            return self._not_ahead(((0, LAST),), following)
        if name == "AT_END":
            other = others(((10, 10),))
            if flags & re.MULTILINE:
                return self._not_ahead(other, following)
            # at the very end, or before one last newline
            end = self._node(END, -1)
            more = self._node(READ, self._set(((10, 10),)), self._node(READ, self._set(((0, LAST),)), end))
            start = self._node(CHOICE, (self._node(READ, self._set(other), end), more))
            return self._node(AHEAD, False, start, following)
        if name in ("AT_BOUNDARY", "AT_NON_BOUNDARY"):
            word = self._set(
                matched((regex_parser.IN, [(regex_parser.CATEGORY, regex_parser.CATEGORY_WORD)]), flags)
            )
            change = name == "AT_BOUNDARY"

            def side(inside: bool) -> int:
                ahead = self._ahead(inside != change, lambda end: self._node(READ, word, end), following)
                return self._node(BEHIND, inside, word, ahead)

            return self._node(CHOICE, (side(True), side(False)))
        raise self._refusal(f"the anchor {name} (^ or \\A): what lies before a lexeme is not known; omit it")

    def _not_ahead(self, characters: Ranges, following: int) -> int:
        return self._ahead(False, lambda end: self._node(READ, self._set(characters), end), following)

    def partition(self) -> Kinds:
        """The kinds of characters that the patterns distinguish."""
        kinds = partition_characters(self.sets)
        self.masks = kinds.masks
        return kinds

    # running

    def start(self, pattern: int) -> tuple[Thread, ...]:
        """The threads at the start of a pattern, first choice first.

        Raises:
            UnsupportedGrammar: they depend on what is before the lexeme.
        """
        return self._closure(self.starts[pattern], -1)

    def after(self, position: int, kind: int) -> tuple[Thread, ...]:
        """The threads after a `READ` position that has read a character of this kind, first choice first."""
        following = self.nodes[position][2]
        if following not in self._closures:
            self._closures[following] = self._closure(following, -1) if not self.behind(following) else None
        found = self._closures[following]
        if found is not None:
            return found
        key = (following, kind)
        if key not in self._after:
            self._after[key] = self._closure(following, kind)
        return self._after[key]

    def behind(self, node: int) -> frozenset[int]:
        """The sets that decide, by the character just read, what follows a node."""
        if node not in self._behind:
            found, seen, stack = set(), {node}, [node]
            while stack:
                kind, *arguments = self.nodes[stack.pop()]
                if kind == BEHIND:
                    found.add(arguments[1])
                inner = _neighbours(kind, arguments)
                stack.extend(n for n in inner if n not in seen)
                seen.update(inner)
            self._behind[node] = frozenset(found)
        return self._behind[node]

    def _closure(self, node: int, kind: int) -> tuple[Thread, ...]:
        """Positions reached without reading, in order. `kind`: of the character before; -1: unknown."""
        found: dict[Thread, None] = {}
        inside: frozenset[int] = frozenset()  # bodies of repeats entered on the way here
        stack = [(node, inside, NONE)]
        seen = set()
        while stack:
            entry = stack.pop()
            if entry in seen:
                continue
            seen.add(entry)
            current, inside, obligations = entry
            what, *arguments = self.nodes[current]
            if what in (READ, END):
                found.setdefault(Thread(current, obligations))
            elif what == CHOICE:
                stack.extend((one, inside, obligations) for one in reversed(arguments[0]))
            elif what == ENTER:
                stack.append((arguments[1], inside | {arguments[0]}, obligations))
            elif what == LEAVE:
                loop, again, following = arguments
                if loop in inside:
                    stack.append((following, inside - {loop}, obligations))
                else:
                    stack.append((again, inside, obligations))
            elif what == BEHIND:
                wanted, number, following = arguments
                if kind < 0:
                    raise LooksBeforeLexeme(self.label[current])
                if bool(self.masks[number] >> kind & 1) == wanted:
                    stack.append((following, inside, obligations))
            else:
                wanted, start, following = arguments
                obligation = resolved(self, Obligation(wanted, frozenset(self._closure(start, kind))))
                if obligation is True:
                    stack.append((following, inside, obligations))
                elif obligation is not False:
                    stack.append((following, inside, obligations | {obligation}))
        return tuple(found)


def _flags_inside(flags: int, added: int, removed: int) -> int:
    """The flags inside of a group such as ``(?a-i:...)``: each of the flags a, u and L ends the others."""
    if added & regex_parser.TYPE_FLAGS:
        flags &= ~regex_parser.TYPE_FLAGS
    return (flags | added) & ~removed


class LooksBeforeLexeme(Exception):
    """A look-behind depends on what is before the lexeme; `args[0]` is the label of its pattern."""


def _neighbours(kind: int, arguments: list[Any]) -> tuple[int, ...]:
    """Nodes that are reached from a node without reading."""
    if kind == CHOICE:
        return tuple(arguments[0])
    if kind in (ENTER, BEHIND):
        return (arguments[-1],)
    if kind in (LEAVE, AHEAD):
        return (arguments[1], arguments[2])
    return ()


def resolved(positions: Positions, obligation: Obligation) -> Obligation | bool:
    """An obligation with its current threads, or its final result."""
    for position, obligations in obligation.threads:
        if positions.nodes[position][0] == END and not obligations:
            return obligation.wanted
    return obligation if obligation.threads else not obligation.wanted


def advance(
    positions: Positions, obligations: frozenset[Obligation], kind: int
) -> frozenset[Obligation] | None:
    """What is left of obligations after a character; None if one is broken."""
    left = set()
    for obligation in obligations:
        threads = set()
        for position, nested in obligation.threads:
            still = advance(positions, nested, kind) if nested else nested
            if still is None:
                continue
            what, *arguments = positions.nodes[position]
            if what == END:
                threads.add(Thread(position, still))
            elif positions.masks[arguments[0]] >> kind & 1:
                threads.update(Thread(p, still | more) for p, more in positions.after(position, kind))
        rest = resolved(positions, Obligation(obligation.wanted, frozenset(threads)))
        if rest is False:
            return None
        if rest is not True:
            left.add(rest)
    return frozenset(left)


def met_at_end(positions: Positions, obligations: frozenset[Obligation]) -> bool:
    """Whether obligations are met if the text ends here."""
    return all(
        obligation.wanted
        == any(
            positions.nodes[position][0] == END and met_at_end(positions, nested)
            for position, nested in obligation.threads
        )
        for obligation in obligations
    )
