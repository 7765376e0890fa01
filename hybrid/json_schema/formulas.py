# cython: language_level=3, wraparound=True, annotation_typing=True
# mypy: ignore-errors
"""Boolean formulas, hash-consed and simplified.

What: `Formulas` makes formulas of atoms, `and`, `or`, `not` and *exactly one*. Equal formulas are one
object, so they are compared and looked up by identity. Such formulas describe values of the schema, the rest
of an object that is half read, or strings.
When: everywhere in `hybrid.json_schema`; one table for each schema that is compiled.
Limits: simplification is not canonical: two formulas with the same meaning may be two objects. That costs
states, never correctness.

*Exactly one* is an operator of its own: if it were written with the others, a `oneOf` of n branches would
have n * n parts. Unit propagation keeps the formulas of real schemas small: a literal of a conjunction
decides that literal in the other parts, and the dual holds for `or`. (Davis, Putnam: A Computing Procedure
for Quantification Theory, 1960, rule I.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import cython
from cython.cimports.equivalence.source_check import check_source

from hybrid.json_schema.languages.limits import check_deadline

check_source(__name__)


SHALLOW = cython.declare(cython.Py_ssize_t, 3)


@cython.no_gc
@cython.cclass
class Formula:
    """A formula. Only `Formulas` makes them.

    Formulas refer only to their parts, never in a cycle. So Python's garbage collector need not visit them,
    nor tuples that contain nothing else.

    Attributes:
        op: "true", "false", "atom", "not", "and", "or" or "one".
        args: the parts; for an atom, its content.
        number: its number in the table, in order of creation.
        is_constant: whether it is true or false, the only formulas without atoms.
    """

    def __init__(self, op: str, args: tuple, number: int) -> None:
        self.op, self.args, self.number = op, args, number
        self.is_constant = not args
        # An atom does not refer to itself: such cycles kept 850 objects of a schema alive until garbage was
        # collected, which took a sixth of the time of a server that compiles schemas.
        self._atoms = None if op == "atom" else _atoms_of(args)

    @property
    def atoms(self) -> frozenset:
        """All atoms in it."""
        return frozenset((self,)) if self._atoms is None else self._atoms

    @property
    def ordered_atoms(self) -> list:
        """All atoms in it, in order of creation. Code that makes formulas from atoms must use this order: the
        order of the set depends on addresses, and then the numbers of the formulas would, too."""
        atoms = self.atoms
        return list(atoms) if len(atoms) < 2 else sorted(atoms, key=_number)

    def __repr__(self) -> str:
        if self.op in ("true", "false"):
            return self.op
        return f"{self.op}({', '.join(map(repr, self.args))})"


@cython.cclass
class Formulas:
    """The formulas of one schema.

    Attributes:
        true, false: the constants.
    """

    def __init__(self) -> None:
        self._made = {}
        self.true = self._make("true", ())
        self.false = self._make("false", ())

    def _make(self, op: str, args: tuple) -> Formula:
        key = (op, args)  # parts are compared by identity
        found: Formula = self._made.get(key)
        if found is None:
            found = self._made[key] = Formula(op, args, len(self._made))
        return found

    def constant(self, value: bool) -> Formula:
        """Return the constant true or false."""
        return self.true if value else self.false

    def atom(self, content: tuple) -> Formula:
        """Return the atom with a content, which must be hashable."""
        return self._make("atom", content)

    def negation(self, formula: Formula) -> Formula:
        """Negate a formula."""
        if formula.op == "not":
            return formula.args[0]
        if formula.is_constant:
            return self.constant(formula is self.false)
        return self._make("not", (formula,))

    def conjunction(self, parts: Iterable[Formula]) -> Formula:
        """Return the formula that holds if all parts do."""
        return self._join("and", parts, self.false, self.true)

    def disjunction(self, parts: Iterable[Formula]) -> Formula:
        """Return the formula that holds if at least one part does."""
        return self._join("or", parts, self.true, self.false)

    def exactly_one(self, parts: Iterable[Formula]) -> Formula:
        """Return the formula that holds if exactly one part does."""
        rest: list = [one for one in parts if one is not self.false]
        if self.true in rest:
            rest.remove(self.true)  # this is the one; if another part is true, the formula is false
            return self.conjunction([self.negation(one) for one in rest])
        if len(rest) < 2:
            return rest[0] if rest else self.false
        if len(rest) == 2 and rest[0] is rest[1]:
            return self.false
        return self._make("one", tuple(sorted(rest, key=_number)))

    def _join(self, op: str, parts: Iterable[Formula], zero: Formula, one: Formula) -> Formula:
        """`and` or `or`. A part that is `zero` decides the result; a part that is `one` changes nothing."""
        part: Formula
        found: dict = {}
        are_atoms: cython.bint = True
        todo: list = list(parts)
        if len(todo) < 2:
            return todo[0] if todo else one
        while todo:
            part = todo.pop()
            if part is zero:
                return zero
            if part.op == op:
                todo.extend(part.args)
            elif part is not one:
                found[part.number] = part
                are_atoms = are_atoms and part._atoms is None
        is_first: cython.bint = True
        while len(found) > 1 and not are_atoms:
            if not is_first:
                check_deadline()  # in chains of implications, each round decides one atom
            is_first = False
            literals = self._literals(found, zero, one)
            if literals is None:
                return zero
            if not literals or len(literals) == len(found) or not self._propagate(op, found, literals, one):
                break
            if zero.number in found:
                return zero
        if len(found) < 2:
            return next(iter(found.values())) if found else one
        return self._make(op, tuple([found[number] for number in sorted(found)]))

    def _literals(self, found: dict, zero: Formula, one: Formula) -> dict:
        """Return the values that the literals among the parts give to their atoms; None if two contradict
        each other."""
        part: Formula
        inner: Formula
        literals: dict = {}
        for part in found.values():
            if part.op == "atom":
                literals[part] = one
            elif part.op == "not":
                inner = part.args[0]
                if inner.number in found:
                    return None
                if inner.op == "atom":
                    literals[inner] = zero
        return literals

    def _propagate(self, op: str, found: dict, literals: dict, one: Formula) -> bool:
        """Replace the literals in the other parts by their values. Return whether anything changed."""
        part: Formula
        inner: Formula
        decided: Formula
        changed = False
        for number, part in list(found.items()):
            if part.op == "atom" or not _has_any(part, literals):
                continue
            if part.op == "not":
                inner = part.args[0]
                if inner.op == "atom":
                    continue
            changed = True
            del found[number]
            decided = self.substitute(part, literals)
            for inner in decided.args if decided.op == op else (decided,):
                if inner is not one:
                    found[inner.number] = inner
        return changed

    def substitute(self, formula: Formula, values: dict) -> Formula:
        """Return the formula with some atoms replaced by other formulas."""
        if not _has_any(formula, values):
            return formula
        return self._substituted(formula, values, {})

    def _substituted(self, formula: Formula, values: dict, done: dict) -> Formula:
        if formula.op == "atom":
            return values.get(formula, formula)
        if not _has_any(formula, values):
            return formula
        found = done.get(formula)
        if found is None:
            parts = [self._substituted(one, values, done) for one in formula.args]
            found = done[formula] = self.apply(formula.op, parts)
        return found

    def chosen(self, formula: Formula, true: frozenset, false: dict, known: dict, done: dict) -> Formula:
        """Return the formula with some atoms set to true and others to false.

        Args:
            true: the atoms that are true.
            false: maps every atom that is decided, including those in `true`, to the constant false.
            known: cache of each part's result if all of these atoms are false. It is updated, so that a
                choice that concerns few parts is cheap.
            done: cache of the results of other parts, for this choice only. It is updated.
        """
        is_chosen = formula in true if formula._atoms is None else not formula._atoms.isdisjoint(true)
        if not is_chosen:
            found = known.get(formula)
            if found is None:
                found = known[formula] = self.substitute(formula, false)
            return found
        if formula.op == "atom":
            return self.true
        found = done.get(formula)
        if found is None:
            parts = [self.chosen(part, true, false, known, done) for part in formula.args]
            found = done[formula] = self.apply(formula.op, parts)
        return found

    def apply(self, op: str, parts: list) -> Formula:
        """Apply an operator to parts."""
        if op == "not":
            return self.negation(parts[0])
        if op == "and":
            return self.conjunction(parts)
        return self.disjunction(parts) if op == "or" else self.exactly_one(parts)


def decide(formula: Formula, value: Callable[[Formula], bool]) -> bool:
    """Return the truth of a formula, where `value` gives the truth of each atom that matters."""
    return _decide(formula, value, {})


@cython.cfunc
@cython.exceptval(-1)
def _decide(formula: Formula, value: object, known: dict) -> cython.bint:
    """`decide`. Formulas share parts, so without `known`, the results so far, it would take exponential
    time."""
    op: str = formula.op
    if op == "atom":
        return value(formula)
    if op in ("true", "false"):
        return op == "true"
    found = known.get(formula)
    if found is not None:
        return found
    n: cython.Py_ssize_t = 0
    one: Formula
    for one in formula.args:
        holds: cython.bint = _decide(one, value, known)
        n += holds
        if holds == (op == "or") and op in ("and", "or"):
            break
    if op == "one":
        found = n == 1
    elif op == "and":
        found = n == len(formula.args)
    else:
        found = (n > 0) == (op == "or")
    known[formula] = found
    return found


def refutes(formula: Formula, atom: Formula, value: bool) -> bool:
    """Whether a formula is obviously false if one atom has a value. False if that cannot be seen at once.

    It makes no formulas: substituting each of n atoms took half of the time of hard schemas.
    """
    return _decides(formula, atom, value, False, 0, None)


@cython.cfunc
def _decides(
    formula: Formula, atom: Formula, value: cython.bint, outcome: cython.bint, depth: cython.Py_ssize_t,
    known: dict | None,
) -> cython.bint:  # fmt: skip
    """Whether an atom's value obviously gives a formula the value `outcome`. Formulas share parts, so a walk
    through all levels would take exponential time; from `SHALLOW` levels on, results are kept in `known`."""
    part: Formula
    if formula is atom:
        return value == outcome
    if formula._atoms is None or atom not in formula._atoms:
        return False
    if formula.op == "not":
        return _decides(formula.args[0], atom, value, not outcome, depth + 1, known)
    if formula.op == "one" and outcome:
        return False
    is_kept: cython.bint = depth >= SHALLOW
    if is_kept:
        if known is None:
            known = {}
        kept = known.get((formula, outcome))
        if kept is not None:
            return kept
    one_is_enough: cython.bint = outcome == (formula.op == "or") and formula.op != "one"
    found: cython.bint = not one_is_enough
    for part in formula.args:
        if _decides(part, atom, value, outcome, depth + 1, known) == one_is_enough:
            found = one_is_enough
            break
    if is_kept:
        known[formula, outcome] = found
    return found


@cython.cfunc
def _has_any(formula: Formula, values: dict) -> cython.bint:
    """Whether some atoms of a formula are among the keys. `isdisjoint` would look at every key of the dict,
    even if there are few atoms."""
    atoms: frozenset = formula._atoms
    if atoms is None:
        return formula in values
    if len(atoms) > len(values):
        return not atoms.isdisjoint(values)
    for atom in atoms:  # noqa: SIM110 - C functions have no generators
        if atom in values:
            return True
    return False


@cython.cfunc
def _atoms_of(parts: tuple) -> frozenset:
    """All atoms in some formulas."""
    part: Formula
    if len(parts) == 1:
        part = parts[0]
        return part.atoms
    found: set = set()
    for part in parts:
        if part._atoms is None:
            found.add(part)
        else:
            found.update(part._atoms)
    return frozenset(found)


def _number(formula: Formula) -> int:
    return formula.number
