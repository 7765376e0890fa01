"""Arrays of unique items that have several schemas: every way in which their values can be used up.

What: `explore` reads an array's automaton together with the values that are used up. It says how many arrays
there are, and whether each array that has begun can be ended.
When: for arrays under `uniqueItems` whose items have several schemas, some of which have few values.
Limits: at most `MOST_EXPLORED` configurations and `MOST_GROUPS` groups; for arrays with more of them the
result is None.

Values that belong to the same kinds of items are interchangeable. They are one *group*, and only the number
of its values that are used up matters: 12 items of 30 values need a few hundred configurations instead of
millions of sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from equivalence.arrays.closure import close_backwards, components_of, predecessors_of
from hybrid.json_schema.automata import ArrayAutomaton, Nonterminal

MOST_EXPLORED = 5_000
"""At most this many configurations are explored."""

MOST_GROUPS = 500
"""At most this many groups: a configuration has a number for each of them."""


class Kind(NamedTuple):
    """The values of one nonterminal of items.

    Attributes:
        groups: the numbers of the groups of values that belong to it.
        is_endless: whether it has infinitely many other values.
        is_long: whether it has more than `MOST_EXPLORED` other values.
    """

    groups: tuple[int, ...]
    is_endless: bool = False
    is_long: bool = False


class Uses(NamedTuple):
    """What is known of an array.

    Attributes:
        n_arrays: the number of arrays in which all items belong to groups.
        useful: the nonterminals of items of arrays that can be ended.
        always_end: whether each array that has begun can be ended.
    """

    n_arrays: int
    useful: frozenset[Nonterminal]
    always_end: bool


class _Configuration(NamedTuple):
    """A place in an array.

    Attributes:
        state: a state of the automaton.
        n_items: in a counted state, the number of items since it began, as far as it matters.
        used: for each group, how many of its values came before.
    """

    state: int
    n_items: int
    used: tuple[int, ...]


class _Step(NamedTuple):
    """A step to another configuration.

    Attributes:
        target: the number of that configuration.
        n_values: the number of unused values of a group; 0: a value that is in no group.
        value: the nonterminal of the item.
    """

    target: int
    n_values: int
    value: Nonterminal


def explore(
    array: ArrayAutomaton,
    kinds: Mapping[Nonterminal, Kind],
    sizes: Sequence[int],
    check: Callable[[], object],
) -> Uses | None:
    """Explore all configurations of an array; None: there are too many, or too many groups.

    Args:
        array: an array whose items must be unique, with `is_live` set.
        kinds: the kinds of items; nonterminals without values are left out.
        sizes: the number of values of each group.
        check: called for each step; may raise an error to stop the search.
    """
    if len(sizes) > MOST_GROUPS:
        return None
    first = _Configuration(0, 0, (0,) * len(sizes))
    numbers, found = {first: 0}, [first]
    all_steps: list[list[_Step]] = []
    for here in found:  # it grows
        check()  # an end has no steps
        steps = []
        for value, after in _items(array, here):
            for n_values, target in _choices(kinds[value], sizes, after) if value in kinds else ():
                check()
                number = numbers.setdefault(target, len(found))
                if number == len(found):
                    found.append(target)
                if len(found) > MOST_EXPLORED:
                    return None
                steps.append(_Step(number, n_values, value))
        all_steps.append(steps)
    accepting = [_may_end(array, here) for here in found]
    ends = _ending(accepting, all_steps)
    useful = [[step for step in steps if ends[step.target]] for steps in all_steps]
    certain = _certain(array, kinds, all_steps, check)
    return Uses(
        _count(found, accepting, useful),
        frozenset(step.value for steps in useful for step in steps),
        all(_ending(accepting, certain)),
    )


def _items(array: ArrayAutomaton, here: _Configuration) -> Iterator[tuple[Nonterminal, _Configuration]]:
    """Yield the nonterminals of items that may come next, with the place after each; `used` is unchanged."""
    counted = array.counted[here.state]
    if counted is None:
        for value, target in array.edges[here.state]:
            if array.is_live[target]:
                yield value, _Configuration(target, 0, here.used)
        return
    value, least, most = counted
    if most is None or here.n_items < most:
        n_items = here.n_items + 1
        yield value, here._replace(n_items=min(n_items, least) if most is None else n_items)


def _may_end(array: ArrayAutomaton, here: _Configuration) -> bool:
    counted = array.counted[here.state]
    return bool(array.accepting[here.state]) if counted is None else here.n_items >= counted.least


def _choices(kind: Kind, sizes: Sequence[int], after: _Configuration) -> Iterator[tuple[int, _Configuration]]:
    """Yield the ways to choose a value of a kind: the number of such values, 0 for those in no group; and the
    place after it."""
    used = after.used
    if kind.is_endless or kind.is_long:
        yield 0, after
    for group in kind.groups:
        if used[group] < sizes[group]:
            more = (*used[:group], used[group] + 1, *used[group + 1 :])
            yield sizes[group] - used[group], after._replace(used=more)


def _ending(accepting: list[bool], all_steps: list[list[_Step]]) -> list[bool]:
    """For each configuration, whether an end can be reached from it."""
    ends = accepting[:]
    close_backwards(ends, predecessors_of([[step.target for step in steps] for steps in all_steps]))
    return ends


def _certain(
    array: ArrayAutomaton,
    kinds: Mapping[Nonterminal, Kind],
    all_steps: list[list[_Step]],
    check: Callable[[], object],
) -> list[list[_Step]]:
    """Return the steps without those that may have no unused value, because any number of items that may be
    equal to it came before."""
    many = [value for value, kind in kinds.items() if kind.is_long]
    if not many:
        return all_steps
    after = [[step.target for step in steps] for steps in all_steps]
    component = components_of(after, check)
    within = [
        (number, step.value)
        for number, steps in enumerate(all_steps)
        for step in steps
        if component[step.target] == component[number]
    ]
    behind: dict[Nonterminal, list[bool]] = {}
    for value in many:
        unlike = {
            other
            for edges in array.edges
            if any(one is value for one, _ in edges)  # the alternatives of one item are disjoint
            for other, _ in edges
            if other is not value
        }
        reached = [False] * len(all_steps)
        for number, other in within:
            reached[number] = reached[number] or other not in unlike
        close_backwards(reached, after)  # the other way round: it adds what follows
        behind[value] = reached
    return [
        [one for one in steps if one.n_values or one.value not in behind or not behind[one.value][number]]
        for number, steps in enumerate(all_steps)
    ]


def _count(found: list[_Configuration], accepting: list[bool], useful: list[list[_Step]]) -> int:
    """Return the number of ways to an end along values of groups. Each of them uses a value up, so there are
    no cycles."""
    ways = [0] * len(found)
    for number in sorted(range(len(found)), key=lambda one: -sum(found[one].used)):
        ways[number] = accepting[number] + sum(one.n_values * ways[one.target] for one in useful[number])
    return ways[0]
