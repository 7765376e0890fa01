"""Places in a text where items or keys must not be repeated.

What: `places_of` finds the nonterminals that may stand at each place of a text (the whole value, the value
of a key, an item). They decide whether the items, or the keys, at this place must be remembered.
`hybrid.uniqueness` remembers what was read.
When: once for each schema that has such an array or object; for all others the result is None.
Limits: the place alone must decide whether items may be repeated, or commas and brackets must show that two
were equal (`marks.py`). At most as many places as `Bounds.nonterminals`.

A place is a set of nonterminals: all that the text before it can lead to. The places are found by a subset
construction over paths (names, and "some item") instead of texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from equivalence.arrays.closure import close_backwards, predecessors_of
from hybrid.json_schema.automata import ArrayAutomaton, Nonterminal, ObjectAutomaton
from hybrid.json_schema.errors import SchemaRefused
from hybrid.json_schema.languages.automaton import Automaton
from hybrid.json_schema.uniqueness.beginnings import Beginnings, beginnings_of
from hybrid.json_schema.uniqueness.cardinality import Counts
from hybrid.json_schema.uniqueness.prefix_counts import Values
from hybrid.json_schema.uniqueness.repeated_keys import always_has_more, has_undeclared

NOWHERE = -1
"""Stands for every place where nothing must be remembered, neither there nor below."""


class Place(NamedTuple):
    """A place in texts.

    Attributes:
        is_unique: whether all items of an array here must differ.
        is_marked: whether commas and brackets show that items were equal.
        has_unique_keys: whether all keys of an object here must differ.
        keys_may_run_out: whether an unfinished key of such an object may have only a few completions.
        may_be_last: whether an item may be the last unused value of such an array, although the array's
            states allow more items.
        beginnings: beginnings of items that have more completions than values came before; None: all have.
        items: the place of its items.
        always_has_more: whether an object here may always get another undeclared key before it ends; None: it
            depends on more than the place.
        names: for each declared key, the place of its value.
        others: for undeclared keys, pairs (keys, place of their values); None as keys: all of them.
    """

    is_unique: bool
    is_marked: bool
    has_unique_keys: bool
    keys_may_run_out: bool
    may_be_last: bool
    beginnings: Beginnings | None
    items: int
    always_has_more: bool | None
    names: dict[str, int]
    others: tuple[tuple[Automaton | None, int], ...]

    def of_key(self, key: str) -> int:
        """Return the place of a key's value."""
        known = self.names.get(key)
        if known is not None:
            return known
        return next((one for keys, one in self.others if keys is None or keys.contains(key)), NOWHERE)


class Places(NamedTuple):
    """The places of a schema's texts.

    Attributes:
        all: the places, by number.
        start: the place of the whole text.
        is_free: whether white space is optional wherever it may stand.
    """

    all: tuple[Place, ...]
    start: int
    is_free: bool


def places_of(counts: Counts, start: Nonterminal, is_free: bool) -> Places | None:
    """Return the places of a schema whose nonterminals are built; None: nothing must be remembered.

    It sets `is_marked` of arrays whose commas and brackets must show that two items were equal.

    Args:
        counts: the counts of the schema.
        start: the nonterminal of the whole text.
        is_free: whether white space is optional wherever it may stand.

    Raises:
        SchemaRefused: there are too many places.
    """
    nonterminals = counts.nonterminals
    numbers: dict[frozenset[int], int] = {}
    sets: list[list[Nonterminal]] = []

    def place(found: _Values) -> int:
        nonterminals.check()  # for each name of each set: finding all values of a name may take long
        if not found:
            return NOWHERE
        key = frozenset(found)
        if key not in numbers:
            numbers[key] = len(sets)
            sets.append([found[number] for number in sorted(key)])
            most = nonterminals.bounds.nonterminals
            if len(sets) > most:
                raise SchemaRefused(
                    "bounds", "uniqueItems", "", f"applies to more than {most} places in the schema"
                )
        return numbers[key]

    begin = place(_structured([start]))
    made: list[Place] = []
    counted: dict[Nonterminal, Values] = {}
    keys_of: dict[ObjectAutomaton, _Keys] = {}
    for values in sets:
        arrays = [one.array for one in values if one.array is not None]
        objects = [one.object for one in values if one.object is not None]
        items = [value for array in arrays for value in array.values]
        unique = {array.is_unique for array in arrays} - {None}
        is_marked = len(unique) > 1 or any(array.is_conditional for array in arrays)
        for array in arrays if is_marked else ():
            array.is_marked = not array.is_unique
        for automaton in objects:
            if automaton not in keys_of:
                keys_of[automaton] = _keys_of(automaton)
        keys = [keys_of[automaton] for automaton in objects]
        names = {name for one in keys for name in one.named}
        can_run_out = is_marked or unique == {True}
        states = {state for array in arrays for state in _items_of(array)} if can_run_out else set()
        beginnings = beginnings_of(counts, states, counted) if can_run_out else None
        made.append(Place(
            unique == {True} and not is_marked,
            is_marked,
            any(automaton.has_unique_keys for automaton in objects),
            any(automaton.keys_may_run_out for automaton in objects),
            beginnings is not None and any(array.counted[0] is None for array in arrays),
            beginnings,
            place(_structured(items)),
            _always_has_more(objects),
            {name: place(_joined(one.named.get(name, one.others) for one in keys)) for name in sorted(names)},
            tuple((texts, place(found)) for texts, found in _of_others(objects, keys)),
        ))  # fmt: skip
    return _pruned(made, begin, is_free)


def _always_has_more(objects: list[ObjectAutomaton]) -> bool | None:
    """See `Place.always_has_more`."""
    if not any(map(has_undeclared, objects)):
        return False
    return all(map(always_has_more, objects)) or None


_Values = dict[int, Nonterminal]
"""Arrays and objects by their numbers."""


class _Keys(NamedTuple):
    """What one object has below its keys.

    Attributes:
        named: for each declared key, its values.
        others: the values of undeclared keys.
    """

    named: dict[str, _Values]
    others: _Values


def _structured(values: Iterable[Nonterminal]) -> _Values:
    return {one.number: one for one in values if one.is_productive and (one.array or one.object)}


def _items_of(array: ArrayAutomaton) -> Iterator[frozenset[Nonterminal]]:
    """Yield, for each state of an array, the nonterminals of the next item."""
    for counted, edges, is_live in zip(array.counted, array.edges, array.is_live, strict=True):
        values = [value for value, _ in array.live(edges)] if counted is None else [counted.value]
        if is_live and values:
            yield frozenset(values)


def _joined(parts: Iterable[_Values]) -> _Values:
    return {number: one for part in parts for number, one in part.items()}


def _keys_of(automaton: ObjectAutomaton) -> _Keys:
    named: dict[str, _Values] = {name: {} for name in automaton.names}
    for position, edges in zip(automaton.position, automaton.edges, strict=True):
        if edges:
            named[automaton.names[position]].update(_structured(value for value, _ in edges))
    others = (value for extras in automaton.extra for _, edges in extras for value, _ in edges)
    return _Keys(named, _structured(others))


def _of_others(
    objects: list[ObjectAutomaton], keys: list[_Keys]
) -> Iterator[tuple[Automaton | None, _Values]]:
    """Yield classes of undeclared keys, with their values: the classes of a single object; one class for
    several."""
    if len(objects) != 1:
        yield None, _joined(one.others for one in keys)
        return
    [automaton] = objects
    for number, known in enumerate(automaton.classes):
        edges = [pairs for extras in automaton.extra for key_class, pairs in extras if key_class == number]
        texts = known.language if known.others is None else None  # else: all that are not declared
        yield texts, _structured(value for pairs in edges for value, _ in pairs)


def _pruned(places: list[Place], start: int, is_free: bool) -> Places | None:
    """Return the places without those below which nothing must be remembered, except items that can always
    become new ones by another key, and the parts of items whose keys may come in any order."""
    children = [(one.items, *one.names.values(), *(other for _, other in one.others)) for one in places]
    kept = [one.is_unique or one.is_marked or one.has_unique_keys for one in places]
    todo = [one.items for one in places if one.beginnings is not None and one.beginnings.has_free_order]
    parts = {NOWHERE}
    while todo:
        number = todo.pop()
        if number not in parts:
            parts.add(number)
            todo += children[number]
    for number in parts - {NOWHERE}:
        kept[number] = True
    for one in places:
        if one.beginnings is not None and one.items != NOWHERE and places[one.items].always_has_more:
            kept[one.items] = True
    close_backwards(kept, predecessors_of([[one for one in some if one != NOWHERE] for some in children]))

    def below(number: int) -> int:
        return number if number != NOWHERE and kept[number] else NOWHERE

    if below(start) == NOWHERE:
        return None
    return Places(
        tuple(
            one._replace(
                items=below(one.items),
                others=tuple((keys, below(other)) for keys, other in one.others),
                names={name: below(number) for name, number in one.names.items()},
            )
            for one in places
        ),
        start,
        is_free,
    )
