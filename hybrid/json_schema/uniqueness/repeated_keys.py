# cython: language_level=3, wraparound=True, annotation_typing=True
# mypy: ignore-errors
"""Undeclared keys that a text may repeat, or write in another order.

What: JSON parsers keep the last of several equal keys, so a text with a repeated key may stand for an object
that is not valid. `repeating` finds the objects to which that can happen. `reordering` finds those that may
be equal to an earlier item, without a way to make them differ, although their texts differ.
`declare_few_keys` declares the keys of both if they are few, and `remember_repeats` marks the objects whose
keys must be remembered (`places.py`).
When: after all nonterminals are built and it is known which states are dead.
Limits: an object whose keys must not be repeated, and may run out, is refused.
"""

from __future__ import annotations

import cython
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.json_schema.automata import ObjectAutomaton
from cython.cimports.hybrid.json_schema.nonterminals import Nonterminals

from hybrid.json_schema.errors import SchemaRefused, unique_refused
from hybrid.json_schema.productive import parts_of
from hybrid.json_schema.uniqueness.cardinality import MOST_KEYS

check_source(__name__)

MOST_DECLARED = 64
"""If repeats matter, the undeclared keys of a class are declared if there are at most this many."""

MOST_ORDERED = 1_000
"""The same for objects in which only the order of undeclared keys matters. Most of them need few states for
each key."""


def repeating(nonterminals: Nonterminals) -> list:
    """Return the nonterminals to whose objects repeats matter."""
    return [
        one
        for one in nonterminals.used
        if one.object is not None and one.object.is_live[0] and repeats_matter(nonterminals, one.object)
    ]


def reordering(unique: list) -> list:
    """Return the nonterminals whose objects are a part of items that must be unique, and may have some
    undeclared keys, but not always another one. Such an object may already be equal to that of an earlier
    item when the texts still differ. If another new key may always come, it can still become a new one.

    Args:
        unique: nonterminals whose arrays remember their items.
    """
    found = parts_of([one.array for one in unique])
    return [one for one in found if one.object is not None and _may_be_reordered(one.object)]


def _may_be_reordered(automaton: ObjectAutomaton) -> bool:
    """Whether an object may have two undeclared keys, but not always another one."""
    extras = [automaton.live_extra(state) for state in range(len(automaton.extra))]
    after = {target for classes in extras for _, edges in classes for _, target in edges}
    if not any(extras[state] for state in after):
        return False
    has_more = _has_more(automaton)
    return not all(has_more[state] for state in after)


def _has_more(automaton: ObjectAutomaton) -> list[bool]:
    """Return for each state whether there is always another undeclared key that may come."""
    is_new = [known.count(MOST_KEYS) is None for known in automaton.classes]
    return [
        any(is_new[number] for number, _ in automaton.live_extra(state))
        for state in range(len(automaton.extra))
    ]


def has_undeclared(automaton: ObjectAutomaton) -> bool:
    """Whether it has undeclared keys."""
    return any(map(automaton.live_extra, range(len(automaton.extra))))


def always_has_more(automaton: object) -> bool:
    """Whether it is the automaton of objects that may always get another undeclared key before they end."""
    if not isinstance(automaton, ObjectAutomaton):
        return False
    has_more = _has_more(automaton)
    ends = [state for state, at in enumerate(automaton.position) if at == len(automaton.names)]
    return all(has_more[state] for state in ends if automaton.is_live[state])


def refuse_reordering(nonterminals: Nonterminals, unique: list) -> None:
    """Refuse `reordering` objects whose keys are not declared.

    Raises:
        SchemaRefused: there is one.
    """
    for one in unique if reordering(unique) else ():
        if reordering([one]):
            error = unique_refused(
                "an object in an item may have a limited number of undeclared keys, and texts with another "
                "order of these keys are equal; declare them in `properties`"
            )
            raise nonterminals.placed(error, one.formula)


def declare_few_keys(nonterminals: Nonterminals, these: list, most: int = MOST_DECLARED) -> bool:
    """Declare undeclared keys of some objects if a class has at most `most`. Declared keys have an order, so
    states know which have passed. Objects that get such keys must be built again. Keys stay undeclared if
    the object might need more states than its bound then.

    Returns:
        Whether there are such objects.
    """
    found = False
    for one in these:
        few = [one.object.classes[number].words(most) for number in _used(one.object)]
        texts = sorted({text for some in few for text in some or ()})
        n_states = sum(map(bool, one.object.extra))
        if texts and len(texts) * n_states <= nonterminals.bounds.states:
            one.names = (*one.object.names, *texts)
            nonterminals.rebuild_object(one)
            found = True
    return found


def remember_repeats(nonterminals: Nonterminals, these: list) -> None:
    """Mark the `repeating` objects, whose keys must be remembered because a repeated undeclared key could let
    an invalid one pass.

    Raises:
        SchemaRefused: such keys may run out. The error names the keyword that most likely requires them.
    """
    most: int = nonterminals.bounds.states  # states count keys, so no object needs more of them
    for one in these:
        if any(one.object.classes[n].count(most) is not None for n in _used(one.object)):
            counts = any(atom.args[0] == "count" for atom in one.objects.atoms)
            keyword = "minProperties" if counts else "additionalProperties"
            error = SchemaRefused(
                "unsupported", keyword, "",
                "is not supported here: it depends on the number of undeclared keys, but a text may "
                "repeat keys, and there may be too few different ones",
            )  # fmt: skip
            raise nonterminals.placed(error, one.formula)
        one.object.has_unique_keys = True
    for one in nonterminals.used if these else ():  # other nonterminals may stand at the same places
        if one.object is not None and one.is_productive:
            used = _used(one.object)
            one.object.keys_may_run_out = not all(one.object.classes[n].is_endless for n in used)


def _used(automaton: ObjectAutomaton) -> list[int]:
    """Return the classes of undeclared keys that may come."""
    found = {number for state in range(len(automaton.extra)) for number, _ in automaton.live_extra(state)}
    return sorted(found)


def repeats_matter(nonterminals: Nonterminals, automaton: ObjectAutomaton) -> bool:
    """Whether a repeated undeclared key may let an invalid object pass, because JSON parsers keep the last
    value.

    Repeats do not matter if the first of two keys of one class may always be left out: whatever is accepted
    with a key of that class from the state after the first is accepted from the state before it, too.
    """
    extras: list = [automaton.live_extra(state) for state in range(len(automaton.extra))]
    pairs: list = [
        (state, target, number)
        for state, classes in enumerate(extras)
        for number, edges in classes
        for _, target in edges
        if target != state
    ]
    if not pairs:
        return False
    simulation: _Simulation = _Simulation(nonterminals, automaton, extras)
    return not all(simulation.includes(state, target, number) for state, target, number in pairs)


@cython.final
@cython.cclass
class _Simulation:
    """One call of `repeats_matter`. It ends with the first pair of states that is not included, so a pair is
    examined only once: `maxProperties: 4000` took 8 s without that.

    Args:
        nonterminals: check the deadline.
        extras: for each state, `ObjectAutomaton.live_extra`.
    """

    _nonterminals: Nonterminals
    _automaton: ObjectAutomaton
    _edges: list  # for each state and class of keys, the target of each nonterminal
    _certain: set  # pairs of states
    _possible: dict  # for each class of keys, pairs that hold if a key of this class comes

    def __init__(self, nonterminals: Nonterminals, automaton: ObjectAutomaton, extras: list) -> None:
        self._nonterminals, self._automaton = nonterminals, automaton
        self._edges = [{number: dict(edges) for number, edges in classes} for classes in extras]
        self._certain, self._possible = set(), {}

    @cython.cfunc
    def includes(self, state: cython.Py_ssize_t, after: cython.Py_ssize_t, number: object) -> cython.bint:
        """Whether everything that the state `after` accepts with a key of a class is also accepted by
        `state`.

        It is a simulation of pairs of states: an edge must have a counterpart with the same class and
        nonterminal.
        """
        accepting, certain = self._automaton.accepting, self._certain
        possible: set = self._possible.setdefault(number, set())
        todo: list = [(after, state, False)]
        while todo:
            left, right, has_come = todo.pop()
            pair = (left, right)
            if left == right or pair in certain or (not has_come and pair in possible):
                continue
            (certain if has_come else possible).add(pair)
            if has_come and accepting[left] and not accepting[right]:
                return False
            self._nonterminals.check()
            follows: dict = self._edges[right]
            for key_class, edges in self._edges[left].items():
                targets: dict = follows.get(key_class, {})
                for value, target in edges.items():
                    if value not in targets:
                        return False
                    todo.append((target, targets[value], has_come or key_class == number))
        return True
