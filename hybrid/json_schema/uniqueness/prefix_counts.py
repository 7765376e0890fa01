"""How many values begin with an unfinished text.

What: `Values` counts those values of a nonterminal that begin with a text. The text may end anywhere, also
within arrays and objects. `add_values` makes it.
When: for items under `uniqueItems` (`beginnings.py`), if earlier items begin in the same way.
Limits: `Unknown` is raised for some objects with undeclared keys, for strings that the parser counts, for
arrays that must be unique only under conditions or have several kinds of unique items, for some numbers that
may have exponents, and for texts that are nested deeply.

Texts have no white space and no escapes that are not necessary. Their numbers have the shortest spelling,
except for an unfinished one at the end. So each value has one text.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TypeAlias, TypeVar

from equivalence import forks
from hybrid.json_schema.automata import ArrayAutomaton, Nonterminal, ObjectAutomaton
from hybrid.json_schema.errors import SchemaRefused
from hybrid.json_schema.languages.automaton import Automaton, empty
from hybrid.json_schema.languages.lengths import Piece
from hybrid.json_schema.languages.limits import TooLarge
from hybrid.json_schema.uniqueness.cardinality import MANY, Counts, n_arrays, n_ways, shortest_texts
from hybrid.json_schema.uniqueness.string_prefixes import has_text, n_completions

NUMBER = frozenset("-0123456789")
"""The letters that numbers begin with."""

MOST_STATES = 20_000
"""At most this many states of the numbers of a nonterminal are examined."""

MOST_NESTED = 64
"""The values of texts that are nested more deeply are not counted: each level reads all text within it."""

STRING = r'"(?:[^"\\]|\\.)*"'
"""The pattern of a finished string; with `?` behind it, also of an unfinished one."""

_STRING = re.compile(STRING)
_PART = re.compile(rf"{STRING}?|[][{{}},]")
_FRACTION = re.compile(r"\.[0-9]*\Z")
_BEHIND_NUMBER = ("", ",", "]", "}")

Edges: TypeAlias = "list[tuple[Values, int]]"
"""Pairs (values that an edge reads, target)."""

Found = TypeVar("Found")

Items: TypeAlias = "tuple[Values, int, int | None]"
"""Values of items, and the least and the largest number of these items."""


class Unknown(Exception):
    """Some values cannot be counted."""


class Values:
    """The values of one nonterminal.

    Args:
        constants: the texts of null and booleans.
        listed: strings, in order.
        pieces: disjoint pieces of all other strings; None: they cannot be counted.
        spellings: all texts of numbers.
        numbers: their shortest texts; None: they are too many.
        n: the number of all values, or `MANY`; None: unknown.

    Attributes:
        structures: the arrays and the objects, by the first letter of their texts.
    """

    def __init__(
        self, constants: list[str], listed: list[str], pieces: tuple[Piece, ...] | None,
        spellings: Automaton, numbers: Automaton | None, n: int | None,
    ) -> None:  # fmt: skip
        self._constants, self._listed, self._pieces = constants, listed, pieces
        self._spellings, self._numbers = spellings, numbers
        self.structures: dict[str, Structure] = {}
        self.n = n

    def holds(self, text: str) -> bool:
        """Whether one of the values has a text.

        Raises:
            Unknown: it cannot be decided.
        """
        if text[0] == '"':
            string = json.loads(text)
            return string in self._listed or any(has_text(one, string) for one in known(self._pieces))
        if text[0] not in NUMBER:
            return self.n_with_prefix(text) > 0
        return self._spellings.contains(text)

    def n_with_prefix(self, text: str) -> int:
        """Return how many of the values have a text that begins with a text, or `MANY`.

        Raises:
            Unknown: they cannot be counted.
        """
        if not text:
            return known(self.n)
        if text[0] == '"':
            if _STRING.fullmatch(text):
                return int(self.holds(text))
            string = json.loads(f'{text}"')
            return len(with_prefix(string, self._listed)) + n_completions(known(self._pieces), string)
        if text[0] in NUMBER:
            return self._n_numbers(text)
        if text[0] in self.structures:
            return self.structures[text[0]].n_with_prefix(text)
        return sum(one.startswith(text) for one in self._constants)

    def _n_numbers(self, text: str) -> int:
        spellings, found = self._spellings, n_completions((Piece(known(self._numbers)),), text)
        if found < MANY and not text.isdecimal() and _has_exponents(spellings):
            raise Unknown  # 1.0 may become 10, and -0 may become 0
        return min(found + (shortened(text) != text and spellings.contains(f"{text}0")), MANY)


class Structure:
    """Arrays or objects; those of this class cannot be counted."""

    def n_with_prefix(self, text: str) -> int:
        """See `Values.n_with_prefix`."""
        raise Unknown


@forks.with_unlocked_properties
class Arrays(Structure):
    """The arrays of a nonterminal.

    Args:
        accepting: for each state, whether an array may end.
        edges: for each state, its edges.
        items: for each counted state, its items; None for others.
        is_unique: whether all items must differ; then there is only one state, which is counted.
    """

    def __init__(
        self, accepting: list[bool], edges: list[Edges], items: list[Items | None], is_unique: bool
    ) -> None:
        self._accepting, self._edges, self._items, self._is_unique = accepting, edges, items, is_unique

    @cached_property
    def _ways(self) -> list[int]:
        """For each state, in how many ways an array can go on."""
        own = list(map(int, self._accepting))
        for state, items in enumerate(self._items):
            own[state] = own[state] if items is None else self._n_items(*items, 0)
        return n_ways(own, [[(known(value.n), target) for value, target in some] for some in self._edges])

    def _n_items(self, value: Values, least: int, most: int | None, n_before: int) -> int:
        """Return in how many ways items of a counted state can follow others."""
        if most is not None and most < n_before:
            return 0
        left, n = None if most is None else most - n_before, known(value.n)
        n_left = n - n_before if self._is_unique and n < MANY else n
        return n_arrays(n_left, max(least - n_before, 0), left, self._is_unique)

    def n_with_prefix(self, text: str) -> int:
        parts, is_closed = parts_of(text)
        begun = None if is_closed or text == "[" else parts.pop()
        state, n_before = 0, 0
        for part in filter(None, parts):
            items = self._items[state]
            if items is not None:
                n_before += 1
                state = state if items[0].holds(part) else -1
            else:
                state = next((target for value, target in self._edges[state] if value.holds(part)), -1)
            if state < 0:
                return 0
        items = self._items[state]
        if is_closed:
            if items is None:
                return int(self._accepting[state])
            is_repeated = self._is_unique and len({*parts}) < len(parts)
            return int(items[1] <= n_before <= (MANY if items[2] is None else items[2]) and not is_repeated)
        if begun is None:
            return self._ways[0]
        if items is None:
            n = sum(value.n_with_prefix(begun) * self._ways[target] for value, target in self._edges[state])
            return min(n, MANY)
        n = items[0].n_with_prefix(begun)
        if self._is_unique and n < MANY:
            n -= n_texts_with_prefix(begun, [items[0]], parts)
        return min(n * self._n_items(*items, n_before + 1), MANY) if n else 0


@forks.with_unlocked_properties
class Objects(Structure):
    """The objects of a nonterminal.

    Args:
        accepting: for each state, whether an object may end.
        keys: for each state, the next key that may come, with its colon; empty at the end.
        edges: for each state, the edges that read the value of this key.
        skipped: for each state, the state without this key, or -1.
        is_open: for each state, whether any undeclared keys may come, and then again.
        others: for each state, all values that such keys may have, if the state stays the same; None:
            unknown.
    """

    def __init__(
        self, accepting: list[bool], keys: list[str], edges: list[Edges], skipped: list[int],
        is_open: list[bool], others: list[list[Values] | None],
    ) -> None:  # fmt: skip
        self._accepting, self._keys, self._edges, self._skipped = accepting, keys, edges, skipped
        self._is_open, self._others = is_open, others

    @cached_property
    def _ways(self) -> list[int]:
        """For each state, in how many ways an object can go on."""
        edges = [[(known(value.n), target) for value, target in some] for some in self._edges]
        for some, target in zip(edges, self._skipped, strict=True):
            if target >= 0:
                some.append((1, target))
        own = [MANY if one else int(ends) for one, ends in zip(self._is_open, self._accepting, strict=True)]
        return n_ways(own, edges)

    def _states(self, state: int) -> Iterator[int]:
        """Yield the states of the declared keys that may come next, and the state behind all of them."""
        while state >= 0:
            yield state
            state = self._skipped[state] if self._keys[state] else -1

    def n_with_prefix(self, text: str) -> int:
        if text == "{":
            return self._ways[0]
        parts, is_closed = parts_of(text)
        begun = "" if is_closed else parts.pop()
        state = 0
        for part in filter(None, parts):
            key = key_of_part(part)
            state = next((one for one in self._states(state) if self._keys[one] in (key, "")), -1)
            if state < 0:
                return 0
            if self._is_open[state]:
                if not is_closed:
                    return MANY
                if not any(value.holds(part[len(key) :]) for value in known(self._others[state])):
                    return 0
                continue
            edges = self._edges[state]
            state = next((target for value, target in edges if value.holds(part[len(key) :])), -1)
        if is_closed:
            return int(any(self._accepting[one] for one in self._states(state) if not self._keys[one]))
        key, found = key_of_part(begun), 0
        rest = begun[len(key) :] if key else ""
        for one in self._states(state):
            if self._is_open[one]:
                return MANY
            if self._keys[one].startswith(key or begun):
                found += sum(
                    value.n_with_prefix(rest) * self._ways[target] for value, target in self._edges[one]
                )
                if key:
                    break
        return min(found, MANY)


def known(found: Found | None) -> Found:
    """Return what is not None, or raise `Unknown`."""
    if found is None:
        raise Unknown
    return found


def _has_exponents(spellings: Automaton) -> bool:
    return any(low <= ord("e") <= high for row in spellings.rows for low, high, _ in row)


def key_of_part(part: str) -> str:
    """Return the key of a part of an object, with its colon; empty if it is unfinished."""
    key = _STRING.match(part)
    return "" if key is None else f"{key[0]}:"


def parts_of(text: str) -> tuple[list[str], bool]:
    """Divide the text of an array or object at its commas. The last part may be unfinished.

    Returns:
        The parts, and whether the text has the closing bracket.

    Raises:
        Unknown: it is nested too deeply.
    """
    parts, depth, begin = [], 0, 1
    for part in _PART.finditer(text, 1):
        letter = part[0]
        if letter in "[{":
            depth += 1
            if depth > MOST_NESTED:
                raise Unknown
        elif letter in "]}":
            depth -= 1
        if depth < 0 or (letter == "," and not depth):
            parts.append(text[begin : part.start()])
            begin = part.end()
    return (parts, True) if depth < 0 else ([*parts, text[begin:]], False)


def shortened(text: str) -> str:
    """Return the text that an unfinished one becomes if only zeros follow a fraction at its end."""
    fraction = _FRACTION.search(text)
    if fraction is None or '"' in _STRING.sub("", text):  # it is in a string
        return text
    return text[: fraction.start()] + fraction[0].rstrip("0").rstrip(".")


def with_prefix(begun: str, ordered: list[str]) -> list[str]:
    """Return those of some texts in order that begin with a text."""
    first, n = bisect_left(ordered, begun), len(begun)
    return ordered[first : bisect_right(ordered, begun, first, key=lambda text: text[:n])]


def n_texts_with_prefix(text: str, values: Sequence[Values], whole: Iterable[str]) -> int:
    """Return how many of some whole texts have values that an unfinished text can become.

    Args:
        text: the beginning.
        values: all values that it can become.
        whole: texts of some of them.
    """
    short = shortened(text)
    if short == text:
        return sum(one.startswith(text) for one in whole)
    found = 0
    for one in whole:
        if one.startswith(text):
            found += 1
        elif one.startswith(short) and one[len(short) : len(short) + 1] in _BEHIND_NUMBER:
            spelled = f"{text}0{one[len(short) :]}"
            found += any(some.holds(spelled) for some in values)
    return found


def add_values(
    found: dict[Nonterminal, Values], counts: Counts, these: Iterable[Nonterminal], with_others: bool = False
) -> None:
    """Add the values of some nonterminals, and of those of their items and keys, to those found before.

    Args:
        with_others: whether to add the values of undeclared keys, too, so that finished objects with such
            keys can be counted.
    """
    nonterminals = counts.nonterminals
    todo: list[Nonterminal] = []

    def of(one: Nonterminal) -> Values:
        if one in found:
            return found[one]
        nonterminals.check()
        spellings = empty() if one.numbers.op == "false" else nonterminals.numbers.texts(one.numbers)
        try:
            numbers: Automaton | None = shortest_texts(spellings, MOST_STATES)
        except TooLarge:
            numbers = None
        listed = nonterminals.strings.listed(one.strings)
        pieces = counts.pieces(one) if listed is None else ()
        is_counted = any(piece.is_counted for piece in pieces)
        constants = ["null"] * one.null + ["true" if value else "false" for value in one.booleans]
        try:
            n = counts.of(one)
            n_values: int | None = MANY if n is None else n
        except (SchemaRefused, TooLarge):
            n_values = None
        found[one] = Values(
            constants, sorted(listed or ()), None if is_counted else pieces, spellings, numbers, n_values
        )
        todo.append(one)
        return found[one]

    def edges_of(automaton: ArrayAutomaton | ObjectAutomaton) -> list[Edges]:
        return [[(of(value), target) for value, target in automaton.live(some)] for some in automaton.edges]

    def arrays(automaton: ArrayAutomaton) -> Structure:
        counted = automaton.counted
        if automaton.is_conditional or (automaton.is_unique and counted[0] is None):
            return Structure()
        items: list[Items | None] = [
            (of(one.value), one.least, one.most) if one is not None and one.value.is_productive else None
            for one in counted
        ]
        edges = [[] if one else some for one, some in zip(counted, edges_of(automaton), strict=True)]
        return Arrays(automaton.accepting, edges, items, bool(automaton.is_unique))

    def objects(automaton: ObjectAutomaton) -> Structure:
        extras = [automaton.live_extra(state) for state in range(len(automaton.extra))]
        is_open = [any(automaton.classes[one].others is not None for one, _ in some) for some in extras]
        after = [is_open[target] for some in extras for _, edges in some for _, target in edges]
        if not all(after) or [*map(bool, extras)] != is_open:
            return Structure()
        names = [*automaton.names, None]
        keys = [
            "" if names[at] is None else f"{json.dumps(names[at], ensure_ascii=False)}:"
            for at in automaton.position
        ]
        others: list[list[Values] | None] = [None] * len(extras)
        for state, some in enumerate(extras if with_others else ()):
            if len(some) == 1 and all(target == state for _, target in some[0][1]):
                others[state] = [of(value) for value, _ in some[0][1]]
        return Objects(automaton.accepting, keys, edges_of(automaton), automaton.skipped, is_open, others)

    for one in these:
        of(one)
    for one in todo:  # it grows
        if one.array is not None and one.array.is_live[0]:
            found[one].structures["["] = arrays(one.array)
        if one.object is not None and one.object.is_live[0]:
            found[one].structures["{"] = objects(one.object)
