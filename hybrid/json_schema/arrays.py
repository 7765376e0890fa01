"""Arrays: an automaton over the items.

What: `build_array` makes the automaton of a nonterminal's arrays: a state is a formula of what is still to
come, an item of a nonterminal leads to the next. Where all that is left to ask is one kind of item and how
many, the state is *counted* instead: so many items of one nonterminal, and no state for each.
When: once for each nonterminal that has arrays.
Limits: `Bounds.states`. Under `uniqueItems`, items of a few values are told apart by states; others are
remembered (`places.py`), and the array is refused where it might then have no end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from hybrid.json_schema.atoms import count_atom, items_atom
from hybrid.json_schema.errors import SchemaRefused
from hybrid.json_schema.formulas import Formula, Formulas
from hybrid.json_schema.splitting import Condition, split

if TYPE_CHECKING:
    from hybrid.json_schema.nonterminals import Nonterminal, Nonterminals

Edge = tuple[Any, int]
"""A nonterminal and the state that one of its values leads to."""

MOST_UNIQUE = 8
"""Values that `uniqueItems` is decided by states for: two to this power of them at most."""


class Counted(NamedTuple):
    """From here on so many items of one nonterminal.

    Attributes:
        value: the nonterminal.
        least, most: how many; most is None where there is no end.
    """

    value: Any
    least: int
    most: int | None


class ArrayAutomaton:
    """The automaton of arrays; state 0 is where they begin.

    Attributes:
        accepting: for each state, whether the array may end.
        edges: for each state, its edges.
        counted: for each state, what is counted from there on, or None; the edges of such a state lead to one
            from which enough items have come.
        is_unique: whether no two items may be equal, which its states do not tell; None where they tell it.
        is_growing: whether it is being built.
        is_live: for each state, whether an end can be reached; set by `productive.py`.
    """

    def __init__(self) -> None:
        self.accepting: list[bool] = []
        self.edges: list[list[Edge]] = []
        self.counted: list[Counted | None] = []
        self.is_unique: bool | None = False
        self.is_growing = True
        self.is_live: list[bool] = []

    def steps(self, state: int) -> Iterator[tuple[Any, int]]:
        """Pairs (nonterminal, state) that lead on from a state."""
        yield from self.edges[state]


def build_array(nonterminals: Nonterminals, of: Nonterminal) -> None:
    """Make the automaton of a nonterminal's arrays.

    Raises:
        SchemaRefused: it exceeds a bound.
    """
    formulas = nonterminals.formulas
    automaton = of.array = ArrayAutomaton()
    numbers: dict[Formula, int] = {}
    todo: list[Formula] = []

    def state(formula: Formula) -> int:
        number = numbers.get(formula)
        if number is None:
            number = numbers[formula] = len(numbers)
            automaton.accepting.append(False)
            automaton.edges.append([])
            automaton.counted.append(None)
            todo.append(formula)
            if number >= nonterminals.bounds.states:
                raise SchemaRefused("bounds", "", "", f"has an array of more than {number} states")
        return number

    rest, automaton.is_unique = _without_unique(nonterminals, of.arrays)
    state(rest)
    while todo:
        formula = todo.pop()
        number = numbers[formula]
        nonterminals.check()
        counted = _counted(nonterminals, formula)
        if counted is not None:
            automaton.counted[number] = counted
            automaton.accepting[number] = not counted.least
            if counted.least:
                # for `steps`: some value has to be there
                after = state(_with_counts(formulas, formula))
                automaton.edges[number] = [(counted.value, after)]
            continue
        automaton.accepting[number] = _may_end(formulas, formula)
        cases = split(nonterminals, formula, *_next(formulas, formula))
        automaton.edges[number] = nonterminals.edges([(value, state(rest)) for value, rest in cases])
    automaton.is_growing = False


def _may_end(formulas: Formulas, formula: Formula) -> bool:
    """Whether a formula of what is to come allows that nothing comes."""
    values = {atom: formulas.constant(atom.args[0] in ("items", "unique")) for atom in formula.atoms}
    return formulas.substitute(formula, values) is formulas.true


def _next(formulas: Formulas, formula: Formula) -> tuple[dict[Formula, Formula], list[Condition]]:
    """What one item makes of each atom."""
    decided: dict[Formula, Formula] = {}
    conditions: list[Condition] = []
    for atom in sorted(formula.atoms, key=lambda one: one.number):
        kind = atom.args[0]
        if kind == "count":
            decided[atom] = count_atom(formulas, atom.args[1] - 1)
        elif kind == "contains":
            _, inner, least = atom.args
            fewer = formulas.atom("contains", inner, least - 1) if least > 1 else formulas.true
            conditions.append((atom, inner, fewer, atom))
        elif kind == "items":
            _, prefix, rest = atom.args
            inner, prefix = (prefix[0], prefix[1:]) if prefix else (rest, ())
            conditions.append((atom, inner, items_atom(formulas, prefix, rest), formulas.false))
    return decided, conditions


def _counted(nonterminals: Nonterminals, formula: Formula) -> Counted | None:
    """The formula as a count of items of one nonterminal, if it is one."""
    formulas = nonterminals.formulas
    value, least, most = formulas.true, 0, None
    for part in formula.args if formula.op == "and" else (formula,):
        if part.op == "atom" and part.args[0] == "items" and not part.args[1]:
            value = formulas.conjunction((value, part.args[2]))
        elif part.op == "atom" and part.args[0] == "count":
            least = max(least, part.args[1])
        elif part.op == "not" and part.args[0].op == "atom" and part.args[0].args[0] == "count":
            limit = part.args[0].args[1] - 1
            most = limit if most is None else min(most, limit)
        elif part is not formulas.true:
            return None
    if value is formulas.false or (most is not None and most < max(least, 1)):
        return None  # nothing, or nothing but the empty array: as a plain state
    return Counted(nonterminals.of(value), least, most)


def _with_counts(formulas: Formulas, formula: Formula) -> Formula:
    """A counted formula once enough items came: what `steps` needs to see that an end is reached."""
    return formulas.conjunction(
        part
        for part in (formula.args if formula.op == "and" else (formula,))
        if part.op == "atom" and part.args[0] == "items"
    )


def _without_unique(nonterminals: Nonterminals, formula: Formula) -> tuple[Formula, bool | None]:
    """The formula with `uniqueItems` as counts of the few values that items may have, or without it; and
    whether items have to be remembered.

    Raises:
        SchemaRefused: whether items are to be unique hangs on other things.
    """
    formulas = nonterminals.formulas
    unique = formulas.atom("unique")
    two = {atom: formulas.true for atom in formula.atoms if atom.args[0] == "count" and atom.args[1] <= 2}
    if formulas.substitute(formula, two) is formulas.false:
        return formulas.substitute(formula, {unique: formulas.true}), None  # no two items can come
    if unique not in formula.atoms:
        return formula, False
    if formulas.substitute(formula, {unique: formulas.false}) is not formulas.false:
        raise SchemaRefused("unsupported", "uniqueItems", "", "holds on conditions")
    rest = formulas.substitute(formula, {unique: formulas.true})
    values = _few_values(nonterminals, formula)
    if values is not None:
        twice = [formulas.atom("contains", nonterminals.assertions.constant(value), 2) for value in values]
        return formulas.conjunction((rest, *map(formulas.negation, twice))), None
    return rest, True


def bound_unique(array: ArrayAutomaton, n_values: int | None) -> None:
    """End an array of unique items where no other value is left.

    Args:
        array: whose items are remembered.
        n_values: how many values its items have; None: as many as anybody asks for.
    """
    counted = array.counted[0]
    if n_values is None or counted is None:
        return
    if counted.least > n_values:
        array.counted[0], array.edges[0], array.accepting[0] = None, [], False
    elif counted.most is None or counted.most > n_values:
        array.counted[0] = counted._replace(most=n_values)


def _few_values(nonterminals: Nonterminals, formula: Formula) -> list[Any] | None:
    """All values that items may have, if a conjunct says that they are scalars among a few."""
    for part in formula.args if formula.op == "and" else (formula,):
        if part.op == "atom" and part.args[0] == "items" and not part.args[1]:
            values = nonterminals.of(part.args[2]).few_scalars
            if values is not None and len(values) <= MOST_UNIQUE:
                return values
    return None
