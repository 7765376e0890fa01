# cython: language_level=3, wraparound=True, annotation_typing=True
# mypy: ignore-errors
"""Splitting the value of a key or an item into disjoint cases.

What: the next value decides atoms of a formula: an atom becomes one thing if the value satisfies its
condition, and another if not. `split` lists the cases, each as a formula of the value and a formula of what
comes after it. The formulas of values are disjoint. Together they cover every value after which the text
can go on.
When: at each key of an object and each item of an array (`objects.py`, `arrays.py`).
Limits: at most `Bounds.minterms` cases, not counting those that come from lists of values. Numbers of a
list are split one by one, because 1.0 need not be an integer where 1 is.

These rules keep the number of cases small (figures from 322 hard schemas):
- conditions that are constantly true or false are decided before anything is split;
- a condition that must hold, or must not, does not split a case; it is required (62,531 object states;
  129,741 if the complement is made, too);
- only conditions that survive simplification are split on;
- a case whose value is certainly empty is dropped, so branches that differ in a constant or a type
  disappear at once;
- if many conditions list their values, the values are the cases: splitting one by one took 6 s for 128
  tools with different names, and did not finish for 400;
- if the value is one of a list, each value has the conditions that it satisfies: a pipeline language with
  238 tasks, whose names are listed once and then compared with patterns, took 24 s, and takes 0.4 s.
"""

from __future__ import annotations

import cython
from cython.cimports.equivalence.source_check import check_source
from cython.cimports.hybrid.json_schema.formulas import Formula, Formulas, refutes
from cython.cimports.hybrid.json_schema.nonterminals import Nonterminals

from hybrid.json_schema.errors import SchemaRefused

check_source(__name__)

MANY_LISTED = 8
"""If at least this many conditions list their values, a value is split by all of them at once."""


Condition = tuple[Formula, Formula, Formula, Formula]
"""An atom, a formula of the value, and what the atom becomes if the value satisfies the formula, and if it
does not.
"""

Case = tuple[Formula, Formula]
"""A formula of the value, and the formula of what comes after it."""


def split(nonterminals: Nonterminals, formula: Formula, decided: dict, conditions: list) -> list:
    """Return the cases of a value, each a `Case`.

    Args:
        nonterminals: decide which formulas may have a value.
        formula: the formula before the value.
        decided: what atoms become that do not depend on the value.
        conditions: atoms that depend on the value, each a `Condition`.

    Raises:
        SchemaRefused: there are too many cases.
    """
    formulas: Formulas = nonterminals.formulas
    values: dict = dict(decided)
    atom: Formula
    condition: Formula
    if_so: Formula
    if_not: Formula
    for atom, condition, if_so, if_not in conditions:
        if condition.is_constant:
            values[atom] = if_so if condition is formulas.true else if_not
        else:
            unknown = formulas.atom(("value", condition))
            so = formulas.conjunction((unknown, if_so))
            if if_not is formulas.false:
                values[atom] = so
            else:
                not_so = formulas.conjunction((formulas.negation(unknown), if_not))
                values[atom] = formulas.disjunction((so, not_so))
    after: Formula = formulas.substitute(formula, values)
    if len(conditions) == 1 and after.op == "atom" and after.args[0] == "value":
        return [(after.args[1], formulas.true)]
    splitter: _Splitter = _Splitter(nonterminals)
    cases = splitter.cases(formulas.true, after)
    if len(cases) > nonterminals.bounds.minterms + splitter.n_listed:
        raise _too_many(nonterminals)
    return [case for case in cases if case[0] is not formulas.false]


def _too_many(nonterminals: Nonterminals) -> object:
    return SchemaRefused(
        "bounds", "", "", f"splits a value into more than {nonterminals.bounds.minterms} cases"
    )


@cython.final
@cython.cclass
class _Splitter:
    """One call of `split`.

    Attributes:
        n_listed: number of cases from lists of values. The size of the schema bounds it.
    """

    _nonterminals: Nonterminals
    _formulas: Formulas
    _leaves: cython.Py_ssize_t
    n_listed: cython.Py_ssize_t
    _lists_were_tried: cython.bint

    def __init__(self, nonterminals: Nonterminals) -> None:
        self._nonterminals, self._formulas = nonterminals, nonterminals.formulas
        self._leaves = self.n_listed = 0
        self._lists_were_tried = False

    @cython.cfunc
    def cases(self, known: Formula, after: Formula) -> list:
        """Return the cases of a value that satisfies `known`; their formulas do not repeat `known`."""
        formulas = self._formulas
        required: Formula
        unknown: list
        self._nonterminals.check()
        required, after, unknown = self._required(after)
        if after is formulas.false:
            return []
        known = formulas.conjunction((known, required))
        if known is formulas.false:
            return []
        if not unknown:
            self._leaves += 1
            if self._leaves > 4 * self._nonterminals.bounds.minterms + self.n_listed:
                raise _too_many(self._nonterminals)
            return [(required, after)]
        found = None
        if len(unknown) >= MANY_LISTED:
            if known is not formulas.true:
                found = self._by_known_value(known, after, unknown)
                if found is not None:
                    return found
            if not self._lists_were_tried:
                self._lists_were_tried = True  # after this split, whatever it finds
                found = self._by_value(known, after, unknown)
        if found is None:
            found = self._both(known, after, unknown[0])
        if required is formulas.true:
            return found
        return [(formulas.conjunction((required, value)), rest) for value, rest in found]

    @cython.cfunc
    def _required(self, after: Formula) -> tuple:
        """Return what the value must satisfy, what is left of the formula then, and the conditions still
        undecided."""
        formulas = self._formulas
        atom: Formula
        required: list = []
        while True:
            unknown = [atom for atom in after.atoms if atom.args[0] == "value"]
            unknown.sort(key=_number_of_value)
            for atom in unknown:
                if refutes(after, atom, False):
                    required.append(atom.args[1])
                    after = formulas.substitute(after, {atom: formulas.true})
                    break
                if refutes(after, atom, True):
                    required.append(formulas.negation(atom.args[1]))
                    after = formulas.substitute(after, {atom: formulas.false})
                    break
            else:
                return formulas.conjunction(required), after, unknown

    @cython.cfunc
    def _by_value(self, known: Formula, after: Formula, unknown: list) -> list:
        """Split by value on all conditions that list their values at once. None if there are few.

        The name of a tool decides which of 400 alternatives is meant. If conditions were split one by one,
        each case of the first would be tested against all others.
        """
        nonterminals, formulas = self._nonterminals, self._formulas
        atom: Formula
        lists: dict = {atom: nonterminals.listed(atom.args[1]) for atom in unknown}
        listed = {atom: values for atom, values in lists.items() if values is not None}
        if len(listed) < MANY_LISTED:
            return None
        true_of: dict = {}  # for each value, the atoms whose conditions it satisfies
        for atom, values in listed.items():
            for value in sorted(values, key=_in_order):
                true_of.setdefault(value, []).append(atom)
        signatures = dict.fromkeys(map(tuple, true_of.values()))
        self.n_listed += len(signatures)
        none = dict.fromkeys(listed, formulas.false)
        values_of: dict = {}
        if_none: dict = {}
        negations = {atom: formulas.negation(atom.args[1]) for atom in listed}
        for signature in (*signatures, ()):
            nonterminals.check()
            true = frozenset(signature)
            rest = formulas.chosen(after, true, none, if_none, {})
            if rest is formulas.false:
                continue
            if signature:
                common = frozenset.intersection(*[listed[atom] for atom in signature])
                beside = dict.fromkeys(
                    [atom for value in common for atom in true_of[value] if atom not in true]
                )
                parts = [*[atom.args[1] for atom in signature], *[negations[atom] for atom in beside]]
            else:
                parts = list(negations.values())
            holds = formulas.conjunction(parts)
            held = formulas.conjunction((known, holds))
            if known is not formulas.true and not nonterminals.may_hold(held):
                continue
            for one, target in self.cases(held, rest):
                values_of.setdefault(target, []).append(formulas.conjunction((holds, one)))
        return [(formulas.disjunction(values), target) for target, values in values_of.items()]

    @cython.cfunc
    def _by_known_value(self, known: Formula, after: Formula, unknown: list) -> list:
        """Split a value that is one of a list by the conditions that it satisfies. None if there is no list.

        The conditions need not list their values: `pattern` without `type` holds for all numbers, too.
        """
        nonterminals, formulas = self._nonterminals, self._formulas
        atom: Formula
        values = nonterminals.of(known).listed
        if values is None or any([kind == "number" for kind, _ in values]):  # noqa: C419 - no generators in C
            return None  # 1.0 may be no integer, as 1 is
        true: dict = {value: [] for value in sorted(values, key=_in_order)}
        for atom in unknown:
            nonterminals.check()
            for value in nonterminals.satisfying(atom.args[1], values):
                true[value].append(atom)
        groups: dict = {}
        for value, atoms in true.items():
            groups.setdefault(tuple(atoms), []).append(nonterminals.assertions.constant(value[1]))
        none = dict.fromkeys(unknown, formulas.false)
        if_none: dict = {}
        values_of: dict = {}
        for signature, constants in groups.items():
            nonterminals.check()
            rest = formulas.chosen(after, frozenset(signature), none, if_none, {})
            if rest is not formulas.false:
                values_of.setdefault(rest, []).extend(constants)
        self.n_listed += len(values_of)
        return [(formulas.disjunction(constants), rest) for rest, constants in values_of.items()]

    @cython.cfunc
    def _both(self, known: Formula, after: Formula, atom: Formula) -> list:
        """Split on one condition."""
        formulas, nonterminals = self._formulas, self._nonterminals
        condition: Formula = atom.args[1]
        opposite = formulas.negation(condition)
        if_so = formulas.substitute(after, {atom: formulas.true})
        if_not = formulas.substitute(after, {atom: formulas.false})
        so, not_so = formulas.conjunction((known, condition)), formulas.conjunction((known, opposite))
        # if one side is decided, a chain of cases cannot blow up: emptiness is decided at the end
        both_go_on = _is_open(if_so) == _is_open(if_not)
        if both_go_on and not nonterminals.may_hold(so):
            return self.cases(known, if_not)
        if both_go_on and not nonterminals.may_hold(not_so):
            return self.cases(known, if_so)
        return self._merged(condition, opposite, self.cases(so, if_so), self.cases(not_so, if_not))

    @cython.cfunc
    def _merged(self, condition: Formula, opposite: Formula, so: list, not_so: list) -> list:
        """Return the cases of both sides. Cases with the same continuation are merged."""
        formulas = self._formulas
        values_so, values_not = {rest: v for v, rest in so}, {rest: v for v, rest in not_so}
        found = []
        for rest in dict.fromkeys([*values_so, *values_not]):
            one = values_so.get(rest, formulas.false)
            other = values_not.get(rest, formulas.false)
            if one is formulas.true and other is formulas.true:
                value = formulas.true
            elif one is formulas.true:
                value = formulas.disjunction((condition, other))
            elif other is formulas.true:
                value = formulas.disjunction((opposite, one))
            else:
                value = formulas.disjunction(
                    (formulas.conjunction((condition, one)), formulas.conjunction((opposite, other)))
                )
            found.append((value, rest))
        return found


def _number_of_value(atom: Formula) -> object:
    condition: Formula = atom.args[1]
    return condition.number


@cython.cfunc
def _is_open(formula: Formula) -> cython.bint:
    atom: Formula
    for atom in formula.atoms:  # noqa: SIM110 - C functions have no generators
        if atom.args[0] == "value":
            return True
    return False


def _in_order(value: tuple) -> tuple:
    return value[0], str(value[1])
