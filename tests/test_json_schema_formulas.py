"""Formulas: simplification preserves their truth, and decides the obvious ones."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybrid.json_schema.formulas import Formula, Formulas, decide, refutes

pytestmark = pytest.mark.kernels

NAMES = "abc"


def build(formulas: Formulas, tree: Any) -> Formula:
    """Build a simplified formula from a tree."""
    if isinstance(tree, str):
        return formulas.atom((tree,))
    if isinstance(tree, bool):
        return formulas.constant(tree)
    op, parts = tree
    return formulas.apply(op, [build(formulas, part) for part in parts])


def truth(tree: Any, values: dict[str, bool]) -> bool:
    """The truth value of a tree as it was written."""
    if isinstance(tree, str):
        return values[tree]
    if isinstance(tree, bool):
        return tree
    op, parts = tree
    found = [truth(part, values) for part in parts]
    if op == "not":
        return not found[0]
    return all(found) if op == "and" else any(found) if op == "or" else sum(found) == 1


def holding(values: dict[str, bool]) -> Callable[[Formula], bool]:
    """The truth values of atoms by their names."""
    return lambda atom: values[atom.args[0]]


TREES = st.recursive(
    st.sampled_from(NAMES) | st.booleans(),
    lambda inner: (
        st.tuples(st.just("not"), st.lists(inner, min_size=1, max_size=1))
        | st.tuples(st.sampled_from(["and", "or", "one"]), st.lists(inner, max_size=4))
    ),
    max_leaves=12,
)
ALL = [dict(zip(NAMES, values, strict=True)) for values in product((False, True), repeat=len(NAMES))]


@given(TREES, TREES)
def test_simplification_and_substitution_keep_the_truth(tree: Any, other: Any) -> None:
    formulas = Formulas()
    formula, inner = build(formulas, tree), build(formulas, other)
    assert build(formulas, tree) is formula
    found = formulas.substitute(formula, {formulas.atom(("a",)): inner})
    for values in ALL:
        assert decide(formula, holding(values)) == truth(tree, values)
        assert decide(found, holding(values)) == truth(tree, values | {"a": truth(other, values)})


@given(TREES, st.sampled_from(NAMES), st.booleans())
def test_what_one_atom_refutes_is_false(tree: Any, name: str, value: bool) -> None:
    formulas = Formulas()
    if refutes(build(formulas, tree), formulas.atom((name,)), value):
        assert not any(truth(tree, one) for one in ALL if one[name] is value)


def test_a_literal_of_a_conjunction_refutes() -> None:
    formulas = Formulas()
    a, b, c = (formulas.atom((name,)) for name in NAMES)
    both = formulas.disjunction([formulas.conjunction([a, b]), formulas.conjunction([a, c])])
    assert refutes(both, a, False)
    assert not refutes(both, b, False)
    assert refutes(formulas.negation(formulas.disjunction([formulas.negation(a), b])), a, False)


def test_atoms_come_in_order_of_creation() -> None:
    formulas = Formulas()
    atoms = [formulas.atom(("number", number)) for number in range(100)]
    assert formulas.conjunction(atoms[::-1]).ordered_atoms == atoms
    assert atoms[0].ordered_atoms == atoms[:1]
    assert formulas.true.ordered_atoms == []
